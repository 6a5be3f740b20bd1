"""PyTorch models as their tutorials write them, small: each opens live, and its scores are those of the module."""

import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import lrpnumpy as lrp  # noqa: E402

D, H, V = 3, 4, 11


def net(call, **parts):
    """A module of parts that these functions make, whose forward is `call`."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            for name, part in parts.items():
                setattr(self, name, part())

        forward = call

    return Net


# ------------------------------------------------------------------------------------------------------- characters


class OldCharacters(nn.Module):
    """A classifier of names that is stepped through: i2h and i2o of what is joined."""

    def __init__(self):
        super().__init__()
        self.i2h, self.i2o, self.softmax = nn.Linear(D + H, H), nn.Linear(D + H, 2), nn.LogSoftmax(dim=1)

    def step(self, x, hidden):
        joined = torch.cat((x, hidden), 1)
        return self.softmax(self.i2o(joined)), self.i2h(joined)

    def forward(self, line):  # (T, N, D)
        hidden = torch.zeros(line.size(1), H)
        for i in range(line.size(0)):
            output, hidden = self.step(line[i], hidden)
        return output


class OldCharactersTanh(nn.Module):
    """The later form: i2h and h2h, tanh, h2o of the last state."""

    def __init__(self):
        super().__init__()
        self.i2h, self.h2h, self.h2o = nn.Linear(D, H), nn.Linear(H, H), nn.Linear(H, 2)

    def forward(self, line):
        hidden = torch.zeros(1, H)
        for x in line:
            hidden = torch.tanh(self.i2h(x) + self.h2h(hidden))
        return F.log_softmax(self.h2o(hidden), dim=1)


class Characters(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.h2o, self.softmax = nn.RNN(D, H), nn.Linear(H, 2), nn.LogSoftmax(dim=1)

    def forward(self, line):
        _, hidden = self.rnn(line)
        return self.softmax(self.h2o(hidden[0]))


# ------------------------------------------------------------------------------------------------------------ words


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.tag = nn.Embedding(V, 6), nn.LSTM(6, H), nn.Linear(H, 3)

    def forward(self, sentence):
        embeds = self.embedding(sentence)
        out, _ = self.lstm(embeds.view(len(sentence), 1, -1))
        return F.log_softmax(self.tag(out.view(len(sentence), -1)), dim=1)


class Bahdanau(nn.Module):
    def __init__(self):
        super().__init__()
        self.Wa, self.Ua, self.Va = nn.Linear(H, H), nn.Linear(H, H), nn.Linear(H, 1)

    def forward(self, query, keys):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2).unsqueeze(1)
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class Decoder(nn.Module):
    """A GRU decoder with attention, which is given the words before (teacher forcing)."""

    def __init__(self, words):
        super().__init__()
        self.words = words
        self.embedding, self.attention = nn.Embedding(V, H), Bahdanau()
        self.gru, self.out = nn.GRU(2 * H, H, batch_first=True), nn.Linear(H, V)

    def forward(self, encoded, hidden, target):
        outputs, attentions = [], []
        for i in range(self.words):
            embedded = self.embedding(target[:, i].unsqueeze(1))
            context, weights = self.attention(hidden.permute(1, 0, 2), encoded)
            output, hidden = self.gru(torch.cat((embedded, context), dim=2), hidden)
            outputs.append(self.out(output))
            attentions.append(weights)
        return F.log_softmax(torch.cat(outputs, dim=1), dim=-1), hidden, torch.cat(attentions, dim=1)


class Translator(nn.Module):
    def __init__(self, words=3):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(V, H), nn.GRU(H, H, batch_first=True)
        self.decoder = Decoder(words)

    def forward(self, source, target):
        encoded, hidden = self.gru(self.embedding(source))
        return self.decoder(encoded, hidden, target)[0]


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop, self.encoder = nn.Dropout(0.5), nn.Embedding(V, H)
        self.rnn, self.decoder = nn.LSTM(H, H, 2, dropout=0.5), nn.Linear(H, V)
        self.decoder.weight = self.encoder.weight

    def forward(self, ids, hidden):
        out, hidden = self.rnn(self.drop(self.encoder(ids)), hidden)
        return F.log_softmax(self.decoder(self.drop(out)).view(-1, V), dim=1), hidden

    def start(self, n):
        return torch.zeros(2, n, H), torch.zeros(2, n, H)


class PackedSentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(V, 5, padding_idx=1)
        self.rnn, self.fc = nn.LSTM(5, H, 2, bidirectional=True), nn.Linear(2 * H, 1)
        self.dropout = nn.Dropout(0.5)

    def forward(self, text, text_lengths):
        embedded = self.dropout(self.embedding(text))
        packed = nn.utils.rnn.pack_padded_sequence(embedded, text_lengths.to("cpu"))
        packed, (hidden, _) = self.rnn(packed)
        nn.utils.rnn.pad_packed_sequence(packed)
        return self.fc(self.dropout(torch.cat((hidden[-2, :, :], hidden[-1, :, :]), dim=1)))


class SentimentNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(V, 5), nn.LSTM(5, H, 2, dropout=0.5, batch_first=True)
        self.dropout, self.fc, self.sigmoid = nn.Dropout(0.5), nn.Linear(H, 1), nn.Sigmoid()

    def forward(self, x, hidden):
        n = x.size(0)
        out, hidden = self.lstm(self.embedding(x.long()), hidden)
        out = self.dropout(out.contiguous().view(-1, H))
        out = self.sigmoid(self.fc(out)).view(n, -1)
        return out[:, -1], hidden


# ----------------------------------------------------------------------------------------------------------- series


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(D, H, 2, batch_first=True), nn.Linear(H, 1)

    def forward(self, x):
        h0, c0 = torch.zeros(2, x.size(0), H), torch.zeros(2, x.size(0), H)
        out, _ = self.lstm(x, (h0.detach(), c0.detach()))
        return self.fc(out[:, -1, :])


class TwoWays(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(D, H, batch_first=True, bidirectional=True)
        self.fc1, self.fc2 = nn.Linear(2 * H, 5), nn.Linear(5, 2)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.fc2(F.relu(self.fc1(out[:, -1, :])))


class ProjectedNet(nn.Module):
    def __init__(self, two=False):
        super().__init__()
        self.lstm = nn.LSTM(D, 6, 2, batch_first=True, proj_size=H, bidirectional=two)
        self.fc = nn.Linear(H * (1 + two), 2)

    def forward(self, x):
        return self.fc(self.lstm(x)[0][:, -1])


class GRUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.fc, self.relu = nn.GRU(D, H, 2, batch_first=True), nn.Linear(H, 1), nn.ReLU()

    def forward(self, x, h):
        out, h = self.gru(x, h)
        return self.fc(self.relu(out[:, -1])), h


class Sine(nn.Module):
    """Two LSTMCells over a series without features."""

    def __init__(self):
        super().__init__()
        self.lstm1, self.lstm2, self.linear = nn.LSTMCell(1, H), nn.LSTMCell(H, H), nn.Linear(H, 1)

    def forward(self, x):
        outputs = []
        h, c, h2, c2 = (torch.zeros(x.size(0), H) for _ in range(4))
        for x_t in x.split(1, dim=1):
            h, c = self.lstm1(x_t, (h, c))
            h2, c2 = self.lstm2(h, (h2, c2))
            outputs += [self.linear(h2)]
        return torch.cat(outputs, dim=1)


class GRUCellLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.fc = nn.GRUCell(D, H), nn.Linear(H, 2)

    def forward(self, x):
        h = torch.zeros(x.size(0), H)
        for t in range(x.size(1)):
            h = self.cell(x[:, t, :], h)
        return self.fc(h)


class CnnLstm(nn.Module):
    def __init__(self, first=True):
        super().__init__()
        self.first = first
        self.conv, self.bn = nn.Conv1d(D, 5, 3, padding=1), nn.BatchNorm1d(5)
        self.pool, self.lstm, self.fc = nn.MaxPool1d(2), nn.LSTM(5, H, batch_first=True), nn.Linear(H, 2)
        self.bn.running_mean.normal_()
        self.bn.running_var.uniform_(0.5, 2)

    def forward(self, x):
        x = x.permute(0, 2, 1) if self.first else x
        x = self.pool(F.relu(self.bn(self.conv(x))))
        return self.fc(self.lstm(x.permute(0, 2, 1))[0][:, -1])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn1, self.rnn2 = nn.LSTM(1, 6, batch_first=True), nn.LSTM(6, H, batch_first=True)

    def forward(self, x):
        x, _ = self.rnn1(x)
        return self.rnn2(x)[1][0].squeeze(0)


class EcgAutoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.rnn1, self.rnn2 = nn.LSTM(H, H, batch_first=True), nn.LSTM(H, 6, batch_first=True)
        self.output_layer = nn.Linear(6, 1)

    def forward(self, x):
        z = self.encoder(x)
        x = z.unsqueeze(1).repeat(1, x.shape[1], 1)
        return self.output_layer(self.rnn2(self.rnn1(x)[0])[0])


class StatesPassed(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.LSTM(D, H, batch_first=True), nn.LSTM(D, H, batch_first=True)
        self.out = nn.Linear(H, D)

    def forward(self, x):
        _, state = self.encoder(x)
        out, _ = self.decoder(torch.flip(x, dims=[1]), state)
        return self.out(out)


class SelfAttentive(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.mha = nn.LSTM(D, H, batch_first=True), nn.MultiheadAttention(H, 2, batch_first=True)
        self.norm, self.fc = nn.LayerNorm(H), nn.Linear(H, 2)

    def forward(self, x):
        out, _ = self.lstm(x)
        attended, _ = self.mha(out, out, out)
        return self.fc(self.norm(out + attended).mean(dim=1))


class LastHiddenAttention(nn.Module):
    """A Bi-LSTM whose last state weighs the steps by dot products."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(V, 5)
        self.lstm, self.out = nn.LSTM(5, H, bidirectional=True), nn.Linear(2 * H, 2)

    def attention(self, output, state):
        hidden = state.view(-1, 2 * H, 1)
        weights = torch.bmm(output, hidden).squeeze(2)
        soft = F.softmax(weights, 1)
        return torch.bmm(output.transpose(1, 2), soft.unsqueeze(2)).squeeze(2), soft

    def forward(self, x):
        x = self.embedding(x).permute(1, 0, 2)
        state, cell = torch.zeros(2, x.size(1), H), torch.zeros(2, x.size(1), H)
        output, (state, cell) = self.lstm(x, (state, cell))
        return self.out(self.attention(output.permute(1, 0, 2), torch.cat([state[0], state[1]], 1))[0])


class DotAttention(nn.Module):
    """The last step is the query."""

    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(D, H, batch_first=True), nn.Linear(2 * H, 2)

    def forward(self, x):
        out, (h, _) = self.lstm(x)
        query = h[-1]
        weights = torch.softmax(torch.bmm(out, query.unsqueeze(2)).squeeze(2) / H**0.5, dim=1)
        context = torch.sum(out * weights.unsqueeze(-1), dim=1)
        return self.fc(torch.cat([context, query], dim=1))


class PooledAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.attention, self.fc = nn.LSTM(D, H, batch_first=True), nn.Linear(H, 1), nn.Linear(H, 2)

    def forward(self, x):
        out, _ = self.lstm(x)
        weights = torch.softmax(self.attention(out), dim=1)
        return self.fc((weights * out).sum(dim=1))


class ConcatPooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.fc = nn.GRU(D, H, batch_first=True), nn.Linear(3 * H, 2)

    def forward(self, x):
        out, h = self.gru(x)
        return self.fc(torch.cat([out.mean(1), out.max(1)[0], h[-1]], dim=1))


class ResidualLstms(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(D, H)
        self.lstms = nn.ModuleList(nn.LSTM(H, H, batch_first=True) for _ in range(3))
        self.fc = nn.Linear(H, 2)

    def forward(self, x):
        x = self.up(x)
        for lstm in self.lstms:
            x = lstm(x)[0] + x
        return self.fc(x[:, -1])


def lstm_and(width, call, **parts):
    """An LSTM, a Linear and what is done with them."""
    return net(call, lstm=lambda: nn.LSTM(D, H, batch_first=True), fc=lambda: nn.Linear(width, 1), **parts)


class LearnedStart(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(D, H, batch_first=True), nn.Linear(H, 1)
        self.h0, self.c0 = nn.Parameter(torch.randn(1, 1, H)), nn.Parameter(torch.randn(1, 1, H))

    def forward(self, x):
        n = x.size(0)
        state = self.h0.expand(-1, n, -1).contiguous(), self.c0.repeat(1, n, 1)
        return self.fc(self.lstm(x, state)[0][:, -1])


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(D, H, batch_first=True), nn.Linear(H, 1)
        self.register_buffer("mean", torch.randn(D))
        self.register_buffer("std", torch.rand(D) + 0.5)

    def forward(self, x):
        return self.fc(self.lstm((x - self.mean) / self.std)[0][:, -1]) * 3.0 + 20.0


class Static(nn.Module):
    """A series, and a vector of attributes that goes to every step and to the head."""

    def __init__(self, every=True):
        super().__init__()
        self.every = every
        self.lstm = nn.LSTM(D + 2 if every else D, H, batch_first=True)
        self.fc = nn.Linear(H + 2, 1)

    def forward(self, x, static):
        if self.every:
            x = torch.cat([x, static.unsqueeze(1).repeat(1, x.shape[1], 1)], dim=2)
        return self.fc(torch.cat([self.lstm(x)[1][0][-1], static], dim=-1))


class DeepAr(nn.Module):
    """A category, covariates, and the mean and spread of every step."""

    def __init__(self):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(5, 2), nn.LSTM(D + 2, H, 2, batch_first=True)
        self.mu, self.presigma = nn.Linear(2 * H, 1), nn.Linear(2 * H, 1)

    def forward(self, x, idx):
        embedded = self.embedding(idx).unsqueeze(1).expand(-1, x.shape[1], -1)
        _, (h, _) = self.lstm(torch.cat((x, embedded), dim=2))
        last = h.permute(1, 0, 2).contiguous().view(h.shape[1], -1)
        return self.mu(last), F.softplus(self.presigma(last))


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.mu, self.sigma = nn.LSTM(D, H, batch_first=True), nn.Linear(H, 1), nn.Linear(H, 1)

    def forward(self, x):
        h = self.lstm(x)[0][:, -1]
        return {"mu": self.mu(h), "sigma": torch.exp(self.sigma(h))}


class EncoderDecoder(nn.Module):
    """A forecast of some steps: the past and what is known of the future."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.LSTM(D, H, batch_first=True), nn.LSTM(2, H, batch_first=True)
        self.fc = nn.Linear(H, 1)

    def forward(self, past, future):
        _, state = self.encoder(past)
        return self.fc(self.decoder(future, state)[0]).squeeze(-1)


class ZScore(nn.Module):
    """Every window is scaled by its own mean and spread, which are given back at the end."""

    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(D, H, batch_first=True), nn.Linear(H, D)

    def forward(self, x):
        mean = x.mean(dim=1, keepdim=True)
        std = torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) + 1e-5)
        out = self.fc(self.lstm((x - mean) / std)[0][:, -1])
        return out * std.squeeze(1) + mean.squeeze(1)


class ReluRnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.fc = nn.RNN(D, H, 2, batch_first=True, nonlinearity="relu"), nn.Linear(H, 2)

    def forward(self, x):
        return self.fc(self.rnn(x, torch.zeros(2, x.size(0), H))[0][:, -1])


class OwnLstm(nn.Module):
    """Written by hand, one Linear for each gate."""

    def __init__(self):
        super().__init__()
        self.i, self.f, self.g, self.o = (nn.Linear(D + H, H) for _ in range(4))
        self.fc = nn.Linear(H, 2)

    def forward(self, x):
        h, c = torch.zeros(x.size(0), H), torch.zeros(x.size(0), H)
        for t in range(x.size(1)):
            z = torch.cat([x[:, t], h], dim=1)
            i, f, o = (torch.sigmoid(gate(z)) for gate in (self.i, self.f, self.o))
            c = f * c + i * torch.tanh(self.g(z))
            h = o * torch.tanh(c)
        return self.fc(h)


class OwnLstmMatrices(nn.Module):
    """Written by hand, four gates in one matrix, with all steps as output."""

    def __init__(self):
        super().__init__()
        self.W, self.U = nn.Parameter(torch.randn(D, 4 * H) / 2), nn.Parameter(torch.randn(H, 4 * H) / 2)
        self.bias, self.fc = nn.Parameter(torch.randn(4 * H)), nn.Linear(H, 2)

    def forward(self, x):
        n, steps, _ = x.size()
        h, c, hidden = torch.zeros(n, H), torch.zeros(n, H), []
        for t in range(steps):
            gates = x[:, t, :] @ self.W + h @ self.U + self.bias
            i, f = torch.sigmoid(gates[:, :H]), torch.sigmoid(gates[:, H : 2 * H])
            g, o = torch.tanh(gates[:, 2 * H : 3 * H]), torch.sigmoid(gates[:, 3 * H :])
            c = f * c + i * g
            h = o * torch.tanh(c)
            hidden.append(h.unsqueeze(0))
        hidden = torch.cat(hidden, dim=0).transpose(0, 1).contiguous()
        return self.fc(hidden)


class OwnGruBuffer(nn.Module):
    """Written by hand, the states written into a tensor, and read in both directions."""

    def __init__(self):
        super().__init__()
        self.x2h, self.h2h, self.fc = nn.Linear(D, 3 * H), nn.Linear(H, 3 * H), nn.Linear(H, 2)

    def forward(self, x):
        h, out = x.new_zeros(len(x), H), torch.empty(len(x), x.shape[1], H)
        for t in range(x.shape[1]):
            xr, xz, xn = self.x2h(x[:, t]).chunk(3, 1)
            hr, hz, hn = self.h2h(h).chunk(3, 1)
            r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
            n = torch.tanh(xn + r * hn)
            h = z * h + (1 - z) * n
            out[:, t] = h
        return self.fc(out.mean(1))


def series(steps):
    return (torch.randn(2, steps, D),)


def steps_first(steps):
    return (torch.randn(steps, 2, D),)


def words(steps):
    return (torch.randint(2, V, (2, steps)),)


def words_first(steps):
    return (torch.randint(2, V, (steps, 2)),)


def zeros(layers, n=2):
    return torch.zeros(layers, n, H)


CHECKED = {"checked": True}  # from_torch is given an input
# name: module; its inputs for a number of steps; what the axes of each mean, batch N, steps T, features F; options
LIVE = {
    "char RNN, i2h and i2o": (OldCharacters, steps_first, ["TNF"], CHECKED),
    "char RNN, i2h and h2h": (OldCharactersTanh, lambda t: (torch.randn(t, 1, D),), ["TNF"], CHECKED),
    "char RNN of today": (Characters, steps_first, ["TNF"], {}),
    "LSTMTagger": (Tagger, lambda t: (torch.randint(2, V, (t,)),), ["T"], {}),
    "seq2seq, GRU and Bahdanau": (Translator, lambda t: (*words(t), *words(3)), ["NT", "NT"], CHECKED),
    "word language model": (
        LanguageModel, lambda t: (*words_first(t), (zeros(2), zeros(2))), ["TN"], CHECKED | {"which": "0"}),
    "time series": (Forecast, series, ["NTF"], {}),
    "two directions, a head of two": (TwoWays, series, ["NTF"], {}),
    "proj_size": (ProjectedNet, series, ["NTF"], {}),
    "proj_size in two directions": (lambda: ProjectedNet(True), series, ["NTF"], {}),
    "packed sentiment": (PackedSentiment, lambda t: (*words_first(t), torch.full((2,), t)), ["TN"], CHECKED),
    "SentimentNet": (SentimentNet, lambda t: (*words(t), (zeros(2), zeros(2))), ["NT"], CHECKED | {"which": "0"}),
    "GRUNet": (GRUNet, lambda t: (*series(t), zeros(2)), ["NTF"], CHECKED | {"which": "0"}),
    "LSTMCells, a series without features": (Sine, lambda t: (torch.randn(2, t),), ["NT"], CHECKED),
    "GRUCell": (GRUCellLoop, series, ["NTF"], {}),
    "CNN-LSTM": (CnnLstm, series, ["NTF"], {}),
    "CNN-LSTM, channels first": (lambda: CnnLstm(False), lambda t: (torch.randn(2, D, t),), ["NFT"], CHECKED),
    "autoencoder": (EcgAutoencoder, lambda t: (torch.randn(2, t, 1),), ["NTF"], CHECKED),
    "autoencoder with states": (StatesPassed, series, ["NTF"], {}),
    "MultiheadAttention": (SelfAttentive, series, ["NTF"], {}),
    "attention by the last state": (LastHiddenAttention, words, ["NT"], {}),
    "attention by dot products": (DotAttention, series, ["NTF"], {}),
    "attention pooling": (PooledAttention, series, ["NTF"], {}),
    "concat pooling": (ConcatPooling, series, ["NTF"], {}),
    "residual LSTMs": (ResidualLstms, series, ["NTF"], {}),
    "last value plus a change": (
        lstm_and(H, lambda s, x: x[:, -1, :1] + s.fc(s.lstm(x)[0][:, -1])), series, ["NTF"], {}),
    "scaling inside": (Scaled, series, ["NTF"], {}),
    "cell state": (lstm_and(H, lambda s, x: s.fc(s.lstm(x)[1][1][-1])), series, ["NTF"], {}),
    "states of all layers": (
        net(lambda s, x: s.fc(torch.cat(list(s.lstm(x)[1][0]), dim=1)),
            lstm=lambda: nn.LSTM(D, H, 2, batch_first=True), fc=lambda: nn.Linear(2 * H, 1)), series, ["NTF"], {}),
    "learned start states": (LearnedStart, series, ["NTF"], {}),
    "weight_norm": (
        lstm_and(H, lambda s, x: s.end(torch.relu(s.fc(s.lstm(x)[0][:, -1]))),
                 end=lambda: torch.nn.utils.parametrizations.weight_norm(nn.Linear(1, 2))), series, ["NTF"], {}),
    "differences of steps": (
        lstm_and(H, lambda s, x: s.fc(s.lstm(x[:, 1:] - x[:, :-1])[0][:, -1])), series, ["NTF"], {}),
    "series and vector": (Static, lambda t: (*series(t), torch.randn(2, 2)), ["NTF", "NF"], CHECKED),
    "vector in the head": (lambda: Static(False), lambda t: (*series(t), torch.randn(2, 2)), ["NTF", "NF"], CHECKED),
    "DeepAR": (DeepAr, lambda t: (*series(t), torch.tensor([4, 1])), ["NTF", "N"], CHECKED | {"which": "1"}),
    "two heads": (TwoHeads, series, ["NTF"], {"which": "sigma"}),
    "encoder and decoder": (EncoderDecoder, lambda t: (*series(t), torch.randn(2, 5, 2)), ["NTF", "NTF"], CHECKED),
    "states as inputs": (
        GRUNet, lambda t: (*series(t), torch.randn(2, 2, H)), ["NTF", "FNF"], CHECKED | {"which": "0"}),
    "RNN with relu": (ReluRnn, series, ["NTF"], {}),
    "LSTM by hand, a Linear a gate": (OwnLstm, series, ["NTF"], CHECKED),
    "LSTM by hand, matrices": (OwnLstmMatrices, series, ["NTF"], CHECKED),
    "GRU by hand, into a buffer": (OwnGruBuffer, series, ["NTF"], CHECKED),
}  # fmt: skip


def opened(name):
    make, inputs, _, options = LIVE[name]
    options = dict(options)
    torch.manual_seed(0)
    module = make().eval()
    check = inputs(9) if options.pop("checked", False) else None
    return module, lrp.from_torch(module, check=check, **options)


def records(model, tensors, axes):
    """The inputs of each sequence as the model takes them."""
    columns = []
    for tensor, meaning in zip(tensors, axes, strict=False):
        array = tensor.numpy()
        rows = np.moveaxis(array, meaning.index("N"), 0) if "N" in meaning else array[None]
        left = meaning.replace("N", "")
        if "T" not in left:
            columns.append(rows.reshape(len(rows), -1))
            continue
        rows = np.moveaxis(rows, 1 + left.index("T"), 1)
        columns.append(rows if tensor.dtype == torch.long else rows.reshape(*rows.shape[:2], -1))
    if len(axes) == 1:
        return list(columns[0])
    return [dict(zip(model.inputs, row, strict=True)) for row in zip(*columns, strict=True)]


def expected(module, args, which, model, axes):
    """What the module gives, batch first."""
    with torch.no_grad():
        y = module(*args)
    if which is not None:
        y = y[int(which)] if isinstance(y, tuple) else y[which]
    y = y.numpy()
    if not model.every:
        return y.reshape(-1, model.outputs)
    if axes[0].startswith("TN"):
        return y.reshape(len(args[0]), -1, model.outputs).swapaxes(0, 1)
    return y.reshape(2 if "N" in axes[0] else 1, -1, model.outputs)


@pytest.mark.parametrize("name", LIVE)
def test_modules_of_tutorials_open_live(name):
    _, inputs, axes, options = LIVE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module, model = opened(name)
    for steps in (4, 9, 30):
        args = inputs(steps)
        scores = np.stack(list(lrp.predict_all(model, records(model, args, axes))))
        y = expected(module, args, options.get("which"), model, axes)
        found = scores
        if model.output == "softmax":
            found = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
        elif model.output == "sigmoid":
            found = 1 / (1 + np.exp(-scores))
        assert found.shape == y.shape
        assert np.abs(found - y).max() <= 1e-5 * np.abs(y).max()
        if name == "time series":
            assert isinstance(lrp.explain(model, args[0][0].numpy()).relevance, np.ndarray)


def test_a_window_that_is_scaled_by_its_own_numbers_is_refused_with_advice():
    with pytest.raises(lrp.LrpError, match=r"var\(\) is not supported; .*do it outside of the module"):
        lrp.from_torch(ZScore())


# ------------------------------------------------------------------------------------------------------------ files


def saved(module, path, form):
    """A module as a file, in one of the ways in which tutorials save it."""
    state = module.state_dict()
    if form == "state_dict":
        torch.save(state, path)
    elif form == "checkpoint":
        torch.save({"epoch": 3, "model_state_dict": state, "optimizer_state_dict": {}, "loss": 0.1}, path)
    elif form == "Lightning":
        torch.save({"state_dict": {f"model.{key}": one for key, one in state.items()}, "epoch": 1}, path)
    elif form == "DataParallel":
        torch.save(nn.DataParallel(module).state_dict(), path)
    elif form == "torch.compile":
        torch.save(torch.compile(module).state_dict(), path)
    elif form == "half":
        torch.save({key: one.half() for key, one in state.items()}, path)
    elif form == "legacy":
        torch.save(state, path, _use_new_zipfile_serialization=False)
    elif form == "npz":
        np.savez(path, **{key: one.numpy() for key, one in state.items()})
    elif form == "safetensors":
        pytest.importorskip("safetensors.torch").save_file(state, path)
    elif form == "script":
        torch.jit.script(module).save(str(path))
    elif form == "trace":
        torch.jit.trace(module, torch.randn(2, 5, D)).save(str(path))


FORMS = {"state_dict": ".pt", "checkpoint": ".tar", "Lightning": ".ckpt", "DataParallel": ".pt", "torch.compile": ".pt",
         "half": ".pt", "legacy": ".pth", "npz": ".npz", "safetensors": ".safetensors", "script": ".pt",
         "trace": ".pt"}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", FORMS)
def test_files_of_tutorials_open_alone(form, tmp_path):
    torch.manual_seed(0)
    module = net(lambda s, x: s.fc(s.lstm(x)[0][:, -1]), lstm=lambda: nn.LSTM(D, H, 2, batch_first=True),
                 fc=lambda: nn.Linear(H, 1))().eval()  # fmt: skip
    if form == "script":
        module = Scripted().eval()  # TorchScript needs the source of forward
    path = tmp_path / f"model{FORMS[form]}"
    saved(module, path, form)
    model = lrp.load(path)
    (x,) = series(7)
    with torch.no_grad():
        y = module(x).numpy()
    tolerance = 1e-3 if form == "half" else 1e-5
    assert np.abs(lrp.predict_all(model, list(x.numpy())) - y).max() <= tolerance * np.abs(y).max()


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(D, H, 2, batch_first=True), nn.Linear(H, 1)

    def forward(self, x):
        return self.fc(self.lstm(x)[0][:, -1])


@pytest.mark.filterwarnings("ignore")
def test_wrapped_modules_open_live():
    module = Scripted().eval()
    model = lrp.from_torch(module)
    for wrapped in (nn.DataParallel(module), torch.compile(module)):
        assert lrp.from_torch(wrapped).digest == model.digest
    with pytest.raises(lrp.LrpError, match=r"TorchScript does not show .* lrp\.load\(path\)"):
        lrp.from_torch(torch.jit.script(module))


@pytest.mark.filterwarnings("ignore")
def test_exported_programs_open_live(tmp_path):
    """As a file a program of torch.export is refused; what it is loaded as opens, at its own sizes."""
    module, x = Scripted().eval(), torch.randn(2, 7, D)
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "model.pt2")
    with pytest.raises(lrp.WeightFileError, match=r"program of torch\.export"):
        lrp.load(tmp_path / "model.pt2")
    model = lrp.from_torch(torch.export.load(tmp_path / "model.pt2").module(), check=x)
    with torch.no_grad():
        y = module(x).numpy()
    assert np.abs(lrp.predict_all(model, list(x.numpy())) - y).max() <= 1e-5 * np.abs(y).max()


@pytest.mark.filterwarnings("ignore")
def test_onnx_of_a_tutorial(tmp_path):
    pytest.importorskip("onnx")
    module, x = TwoWays().eval(), torch.randn(2, 7, D)
    torch.onnx.export(module, (x,), str(tmp_path / "model.onnx"), dynamo=False, input_names=["x"],
                      dynamic_axes={"x": {0: "batch", 1: "steps"}})  # fmt: skip
    model = lrp.load(tmp_path / "model.onnx")
    with torch.no_grad():
        y = module(x).numpy()
    assert np.abs(lrp.predict_all(model, list(x.numpy())) - y).max() <= 1e-5 * np.abs(y).max()


@pytest.mark.filterwarnings("ignore")
def test_what_does_not_open_says_what_to_do(tmp_path):
    module = Scripted().eval()
    quantized = torch.ao.quantization.quantize_dynamic(Scripted(), {nn.LSTM, nn.Linear})
    with pytest.raises(lrp.LrpError, match="a quantized module does not show"):
        lrp.from_torch(quantized)
    with open(tmp_path / "model.pkl", "wb") as stream:
        pickle.dump(module, stream)
    with pytest.raises(lrp.LrpError, match="state_dict"):
        lrp.load(tmp_path / "model.pkl")
