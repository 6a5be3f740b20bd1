"""Modules as tutorials and papers have them, and the layers that are made of each."""

import torch
import torch.nn.functional as F
from torch import nn

D = 3


class Plain(nn.Module):
    """Two layers, the last step, a head of two."""

    def __init__(self):
        super().__init__()
        self.lstm, self.fc1, self.fc2 = nn.LSTM(D, 4, 2, batch_first=True), nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(self.lstm(x)[0][:, -1])))


class Headed(nn.Module):
    """A head that is an nn.Sequential of modules without arrays between two Linears."""

    def __init__(self, *between, cell=nn.LSTM):
        super().__init__()
        torch.manual_seed(0)
        self.rnn, self.head = cell(D, 4, batch_first=True), nn.Sequential(nn.Linear(4, 5), *between, nn.Linear(5, 2))

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


class Celled(nn.Module):
    """A loop over an RNNCell, an average pool before it, and log probabilities."""

    def __init__(self):
        super().__init__()
        self.cell, self.fc, self.end = nn.RNNCell(D, 4), nn.Linear(4, 3), nn.LogSoftmax(dim=1)

    def forward(self, x):
        h = torch.zeros(len(x), 4)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return self.end(self.fc(h))


class Attentive(nn.Module):
    """softmax(Linear(out)) over the steps."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(D, 4, batch_first=True, bidirectional=True)
        self.att, self.fc = nn.Linear(8, 1), nn.Linear(8, 2)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.fc((torch.softmax(self.att(out), dim=1) * out).sum(1))


class Additive(nn.Module):
    """Additive attention, with bmm, and a head of two."""

    def __init__(self):
        super().__init__()
        self.lstm, self.W, self.v = nn.LSTM(D, 4, batch_first=True), nn.Linear(4, 5), nn.Linear(5, 1, bias=False)
        self.fc1, self.fc2 = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x):
        out, _ = self.lstm(x)
        a = torch.softmax(self.v(torch.tanh(self.W(out))).squeeze(-1), dim=1)
        return self.fc2(F.relu(self.fc1(torch.bmm(a.unsqueeze(1), out).squeeze(1))))


class AttentiveSequential(nn.Module):
    """The same in an nn.Sequential."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(D, 4, batch_first=True)
        self.attention = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        out, _ = self.gru(x)
        return self.fc((F.softmax(self.attention(out), 1) * out).sum(1))


class AttentiveParameter(nn.Module):
    """softmax(tanh(out) w) with w a parameter of the module's own."""

    def __init__(self):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(9, D), nn.LSTM(D, 4, batch_first=True, bidirectional=True)
        self.w, self.fc = nn.Parameter(torch.randn(8)), nn.Linear(8, 2)

    def forward(self, x):
        out, _ = self.lstm(self.embedding(x))
        a = F.softmax(torch.matmul(torch.tanh(out), self.w), dim=1).unsqueeze(-1)
        return self.fc((out * a).sum(1))


class AttentiveParameters(nn.Module):
    """softmax(tanh(out w) u) with two matrices."""

    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(D, 4, batch_first=True), nn.Linear(4, 2)
        self.w_omega, self.u_omega = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4, 1))

    def forward(self, x):
        out, _ = self.lstm(x)
        a = F.softmax(torch.matmul(torch.tanh(torch.matmul(out, self.w_omega)), self.u_omega), dim=1)
        return self.fc(torch.sum(out * a, dim=1))


class MeanAndMax(nn.Module):
    """Two pools side by side."""

    def __init__(self):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(9, D), nn.LSTM(D, 4, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(16, 2)

    def forward(self, x):
        out, _ = self.lstm(self.embedding(x))
        return self.fc(torch.cat([out.mean(1), out.max(1).values], dim=1))


class Autoencoder(nn.Module):
    """The last state, repeated for every step."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.LSTM(D, 4, batch_first=True), nn.LSTM(4, 5, batch_first=True)
        self.out = nn.Linear(5, D)

    def forward(self, x):
        _, (h, _) = self.encoder(x)
        return self.out(self.decoder(h[-1].unsqueeze(1).repeat(1, x.shape[1], 1))[0])


class Steps(nn.Module):
    """A time-series tutorial: one sequence as (T, D), a prediction at each step, of which the last is taken."""

    def __init__(self):
        super().__init__()
        self.lstm, self.linear = nn.LSTM(D, 6), nn.Linear(6, 1)

    def forward(self, x):
        out, _ = self.lstm(x.view(len(x), 1, -1))
        return self.linear(out.view(len(x), -1))[-1]


class EveryThenLast(nn.Module):
    """The last of the predictions of two directions."""

    def __init__(self):
        super().__init__()
        self.lstm, self.linear = nn.LSTM(D, 3, batch_first=True, bidirectional=True), nn.Linear(6, 1)

    def forward(self, x):
        return self.linear(self.lstm(x)[0])[:, -1, :]


class Residual(nn.Module):
    """A sum of what goes into the LSTM and what comes out of it."""

    def __init__(self):
        super().__init__()
        self.up, self.lstm = nn.Linear(D, 6), nn.LSTM(6, 6, batch_first=True)
        self.norm, self.out = nn.LayerNorm(6), nn.Linear(6, 1)

    def forward(self, x):
        z = torch.relu(self.up(x))
        return self.out(self.norm(self.lstm(z)[0] + z)[:, -1])


class Convolved(nn.Module):
    """A convolution and a pool in front."""

    def __init__(self, pool=nn.MaxPool1d):
        super().__init__()
        self.conv, self.pool = nn.Conv1d(D, 4, 3, padding=1), pool(2)
        self.lstm, self.out = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 1)

    def forward(self, x):
        z = self.pool(torch.relu(self.conv(x.transpose(1, 2)))).transpose(1, 2)
        return self.out(self.lstm(z)[0][:, -1])


class Tagger(nn.Module):
    """The tutorial on tagging words: log probabilities at every word."""

    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.tag = nn.Embedding(9, 4), nn.LSTM(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        out, _ = self.lstm(self.embedding(x).view(len(x), 1, -1))
        return F.log_softmax(self.tag(out.view(len(x), -1)), dim=1)


class Packed(nn.Module):
    """Padded sentences, packed."""

    def __init__(self):
        super().__init__()
        self.embedding, self.rnn, self.fc = nn.Embedding(9, 4), nn.GRU(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(x), lengths, batch_first=True, enforce_sorted=False)
        return self.fc(self.rnn(packed)[1][-1])


class Flat(nn.Module):
    """All steps as one vector."""

    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(D, 4, batch_first=True), nn.Linear(28, 1)

    def forward(self, x):
        return self.fc(self.lstm(x)[0].reshape(len(x), -1))


MODULES = {
    "plain": (Plain, "LSTM LSTM Dense Dense"),
    "attention": (Attentive, "Bidirectional AttentionPool Dense"),
    "additive attention": (Additive, "LSTM AttentionPool Dense Dense"),
    "attention in an nn.Sequential": (AttentiveSequential, "GRU AttentionPool Dense"),
    "attention by a parameter": (AttentiveParameter, "Bidirectional AttentionPool Dense"),
    "attention by parameters": (AttentiveParameters, "LSTM AttentionPool Dense"),
    "mean and max": (MeanAndMax, "Bidirectional Mean Max Concat Dense"),
    "autoencoder": (Autoencoder, "LSTM Repeat LSTM Dense"),
    "one sequence": (Steps, "LSTM Dense LastRow"),
    "every, then the last": (EveryThenLast, "Bidirectional Dense LastRow"),
    "residual": (Residual, "Dense LSTM Add LayerNorm LastRow Dense"),
    "convolution": (Convolved, "Conv1D MaxPool1D LSTM Dense"),
    "average pool": (lambda: Convolved(nn.AvgPool1d), "Conv1D AvgPool1D LSTM Dense"),
    "tagger": (Tagger, "LSTM Dense"),
    "packed": (Packed, "GRU Dense"),
    "flat": (Flat, "LSTM Flatten Dense"),
}
