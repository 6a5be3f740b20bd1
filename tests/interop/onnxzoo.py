"""Networks that people export to ONNX, as modules of PyTorch, and the comparison of scores with onnxruntime."""

import warnings

import numpy as np
import onnxruntime
import torch
from torch import nn

import lrpnumpy as lrp

FEATURES, UNITS = 3, 4


class Net(nn.Module):
    """A body of named modules, and how they are called."""

    def __init__(self, call, **modules):
        super().__init__()
        torch.manual_seed(0)
        for name, module in modules.items():
            self.add_module(name, module)
        self.call = call

    def forward(self, *x):
        return self.call(self, *x)


def cell(kind, inputs=FEATURES, units=UNITS, **more):
    return getattr(nn, kind)(inputs, units, batch_first=more.pop("batch_first", True), **more)


def head(inputs=UNITS, outputs=2):
    return nn.Linear(inputs, outputs)


def zeros(m, x, layers=1):
    return torch.zeros(layers, x.shape[0], UNITS)


def trained(norm):
    """A BatchNorm with numbers as after training."""
    rng = torch.Generator().manual_seed(1)
    for name, low in (("running_mean", -1.0), ("running_var", 0.5), ("weight", 0.5), ("bias", -1.0)):
        getattr(norm, name).data = low + torch.rand(norm.num_features, generator=rng)
    return norm


def two_last(m, x):
    h = m.rnn(x)[1]
    h = h[0] if isinstance(h, tuple) else h
    return m.head(torch.cat([h[-2], h[-1]], dim=1))


def h_n(m, x):
    h = m.rnn(x)[1]
    return m.head((h[0] if isinstance(h, tuple) else h)[-1])


def embedded(m, x):
    return m.head(m.rnn(m.table(x))[0][:, -1])


def pooled(m, x):
    y = torch.relu(m.norm(m.conv(x.transpose(1, 2))))
    y = nn.functional.max_pool1d(y, 2).transpose(1, 2)
    return m.head(m.rnn(y)[0][:, -1, :])


def normed(m, x):
    return m.head(m.norm(m.rnn(x)[0][:, -1]))


def two_inputs(m, x, static):
    return m.head(torch.cat([m.rnn(x)[1][0][-1], torch.relu(m.dense(static))], dim=1))


def autoencoder(m, x):
    z = m.rnn(x)[1][0][-1]
    return m.head(m.decoder(z.unsqueeze(1).repeat(1, x.shape[1], 1))[0])


def sequence_to_sequence(m, x):
    _, state = m.rnn(x)
    return m.head(m.decoder(x, state)[0])


def residual(m, x):
    y = m.rnn(x)[0]
    return m.head((y + m.second(y)[0]).mean(dim=1))


def flattened(m, x):
    return m.head(m.rnn(x)[0].reshape(x.shape[0], -1))


def attention(m, x):
    h = m.rnn(x)[0]
    weights = torch.softmax(m.score(torch.tanh(m.inner(h))).squeeze(-1), dim=1)
    return m.head((weights.unsqueeze(-1) * h).sum(dim=1))


def dot_attention(m, x):
    h = m.rnn(x)[0]
    return m.head(torch.bmm(torch.softmax(m.score(h), dim=1).transpose(1, 2), h).squeeze(1))


def by_layer_and_direction(m, x):
    h = m.rnn(x)[1][0].view(2, 2, x.shape[0], UNITS)[-1]
    return m.head(torch.cat([h[0], h[1]], dim=1))


def ends(m, x):
    y = m.rnn(x)[0]
    return m.head(torch.cat([y[:, -1, :UNITS], y[:, 0, UNITS:]], dim=1))


def three_readouts(m, x):
    y = m.rnn(x)[0]
    return m.head(torch.cat([y.mean(1), y.max(1)[0], y[:, -1]], dim=1))


def as_rows(m, x):
    return m.head(m.rnn(x)[0].contiguous().view(-1, UNITS)).view(x.shape[0], -1, 2)[:, -1]


def with_states(m, x, h, c):
    y, (h, c) = m.rnn(x, (h, c))
    return m.head(y[:, -1]), h, c


def packed(m, x, lengths):
    rows = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return m.head(m.rnn(rows)[1][0][-1])


def by_length(m, x, lengths):
    return m.head(m.rnn(x)[0][torch.arange(x.shape[0]), lengths - 1])


def with_start(m, x):
    return m.head(m.rnn(x, (zeros(m, x, 2), zeros(m, x, 2)))[0][:, -1, :])


SERIES = {
    **{f"{kind} last step": Net(lambda m, x: m.head(m.rnn(x)[0][:, -1, :]), rnn=cell(kind), head=head())
       for kind in ("LSTM", "GRU", "RNN")},
    **{f"{kind} h_n": Net(h_n, rnn=cell(kind, num_layers=2), head=head()) for kind in ("LSTM", "GRU", "RNN")},
    **{f"{kind} two directions": Net(two_last, rnn=cell(kind, num_layers=2, bidirectional=True), head=head(2 * UNITS))
       for kind in ("LSTM", "GRU", "RNN")},
    "relu RNN": Net(h_n, rnn=cell("RNN", nonlinearity="relu"), head=head()),
    "no bias": Net(h_n, rnn=cell("LSTM", bias=False), head=nn.Linear(UNITS, 2, bias=False)),
    "last row of two directions": Net(
        lambda m, x: m.head(m.rnn(x)[0][:, -1]), rnn=cell("LSTM", bidirectional=True), head=head(2 * UNITS)),
    "sum of two directions": Net(
        lambda m, x: m.head((lambda y: y[..., :UNITS] + y[..., UNITS:])(m.rnn(x)[0])[:, -1]),
        rnn=cell("LSTM", bidirectional=True), head=head()),
    "start states": Net(with_start, rnn=cell("LSTM", num_layers=2), head=head()),
    "mean": Net(lambda m, x: m.head(m.rnn(x)[0].mean(dim=1)), rnn=cell("GRU"), head=head()),
    "max": Net(lambda m, x: m.head(m.rnn(x)[0].max(dim=1).values), rnn=cell("GRU"), head=head()),
    "adaptive mean": Net(
        lambda m, x: m.head(nn.functional.adaptive_avg_pool1d(m.rnn(x)[0].transpose(1, 2), 1).squeeze(-1)),
        rnn=cell("LSTM"), head=head()),
    "every step": Net(lambda m, x: m.head(m.rnn(x)[0]), rnn=cell("LSTM"), head=head()),
    "head": Net(
        lambda m, x: m.head(m.rnn(x)[0][:, -1]), rnn=cell("LSTM"),
        head=nn.Sequential(nn.Linear(4, 5), nn.LeakyReLU(0.2), nn.Dropout(0.5), nn.Linear(5, 4), nn.ELU(),
                           nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4), nn.SiLU(), nn.Linear(4, 2))),
    "softmax": Net(lambda m, x: torch.softmax(m.head(m.rnn(x)[0][:, -1]), dim=-1), rnn=cell("LSTM"), head=head()),
    "log_softmax": Net(lambda m, x: torch.log_softmax(m.head(m.rnn(x)[0][:, -1]), 1), rnn=cell("LSTM"), head=head()),
    "sigmoid": Net(
        lambda m, x: torch.sigmoid(m.head(m.rnn(x)[0][:, -1])).squeeze(-1), rnn=cell("LSTM"), head=head(outputs=1)),
    "squeezed": Net(lambda m, x: m.head(m.rnn(x)[0][:, -1]).squeeze(), rnn=cell("LSTM"), head=head(outputs=1)),
    "conv": Net(pooled, conv=nn.Conv1d(FEATURES, 5, 3, padding=1), norm=trained(nn.BatchNorm1d(5)),
                rnn=cell("LSTM", 5), head=head()),
    "dilated conv": Net(pooled, conv=nn.Conv1d(FEATURES, 6, 2, dilation=2, groups=3), norm=nn.Identity(),
                        rnn=cell("GRU", 6), head=head()),
    "conv after": Net(lambda m, x: m.head(torch.relu(m.conv(m.rnn(x)[0].transpose(1, 2))).max(dim=2).values),
                      rnn=cell("LSTM"), conv=nn.Conv1d(UNITS, 5, 3), head=head(5)),
    "BatchNorm": Net(normed, rnn=cell("LSTM"), norm=trained(nn.BatchNorm1d(UNITS)), head=head()),
    "LayerNorm": Net(normed, rnn=cell("LSTM"), norm=nn.LayerNorm(UNITS), head=head()),
    "scaled input": Net(lambda m, x: m.head(m.rnn((x - 0.3) / torch.tensor([1.0, 2.0, 4.0]))[0][:, -1]),
                        rnn=cell("LSTM"), head=head()),
    "dense before": Net(lambda m, x: m.head(m.rnn(torch.tanh(m.dense(x)))[0][:, -1]),
                        dense=nn.Linear(FEATURES, 5), rnn=cell("LSTM", 5), head=head()),
    "residual": Net(residual, rnn=cell("LSTM"), second=cell("LSTM", UNITS), head=head()),
    "gated": Net(lambda m, x: m.head((lambda h: h * torch.sigmoid(m.gate(h)))(m.rnn(x)[0][:, -1])),
                 rnn=cell("LSTM"), gate=nn.Linear(UNITS, UNITS), head=head()),
    "autoencoder": Net(autoencoder, rnn=cell("LSTM"), decoder=cell("LSTM", UNITS), head=head(outputs=FEATURES)),
    "sequence to sequence": Net(
        sequence_to_sequence, rnn=cell("LSTM"), decoder=cell("LSTM"), head=head(outputs=FEATURES)),
    "horizon": Net(lambda m, x: m.head(m.rnn(x)[0][:, -1]).reshape(-1, 3, 2), rnn=cell("LSTM"), head=head(outputs=6)),
    "last steps": Net(lambda m, x: m.head(m.rnn(x)[0][:, -2:]).mean(dim=1), rnn=cell("LSTM"), head=head()),
    "last feature": Net(
        lambda m, x: m.head(m.rnn(x)[0][:, -1]) + x[:, -1, 1:], rnn=cell("LSTM"), head=head()),
    "attention": Net(attention, rnn=cell("LSTM"), inner=nn.Linear(4, 5), score=nn.Linear(5, 1), head=head()),
    "dot attention": Net(dot_attention, rnn=cell("GRU"), score=nn.Linear(4, 1, bias=False), head=head()),
    "by layer and direction": Net(
        by_layer_and_direction, rnn=cell("LSTM", num_layers=2, bidirectional=True), head=head(2 * UNITS)),
    "ends of both directions": Net(ends, rnn=cell("LSTM", bidirectional=True), head=head(2 * UNITS)),
    "three readouts": Net(three_readouts, rnn=cell("GRU"), head=head(3 * UNITS)),
    "as rows": Net(as_rows, rnn=cell("LSTM"), head=head()),
    "limits": Net(lambda m, x: m.head(m.rnn(x)[0][:, -1]).clamp(-0.2, 0.3), rnn=cell("LSTM"), head=head()),
    "norms of every step": Net(
        lambda m, x: m.head(m.after(m.rnn(m.before(x))[0])[:, -1]), before=nn.LayerNorm(FEATURES), rnn=cell("LSTM"),
        after=nn.LayerNorm(UNITS), head=head()),
    "flipped": Net(lambda m, x: m.head(m.rnn(torch.flip(x, [1]))[0][:, -1]), rnn=cell("LSTM"), head=head()),
}  # fmt: skip
FIXED = {  # those that need a fixed number of steps
    "flattened": Net(flattened, rnn=cell("LSTM"), head=head(7 * UNITS)),
    "flattened after a convolution": Net(
        lambda m, x: m.head(m.conv(m.rnn(x)[0].transpose(1, 2)).flatten(1)),
        rnn=cell("LSTM"),
        conv=nn.Conv1d(UNITS, 5, 3),
        head=head(25),
    ),
}


def export(module, inputs, path, dynamo, fixed=False, **more):
    """`module` as ONNX, of today's exporter or the older one, with batch and steps open unless they are fixed."""
    names = [f"in{k}" for k in range(len(inputs))]
    open_axes = {} if fixed else {
        name: {0: "batch", 1: "steps"} if x.ndim > 1 and x.shape[1] == 7 else {0: "batch"}
        for name, x in zip(names, inputs, strict=True)
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            shapes = None
            if not fixed:
                auto = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
                shapes = (tuple(auto if open_axes[n].get(1) else {0: torch.export.Dim.AUTO} for n in names),)
            torch.onnx.export(
                module.eval(), tuple(inputs), path, dynamo=True, dynamic_shapes=shapes, input_names=names,
                verbose=False, **more,
            )  # fmt: skip
        else:
            torch.onnx.export(
                module.eval(), tuple(inputs), path, dynamo=False, input_names=names, dynamic_axes=open_axes, **more
            )


def scores(path, feeds, output=0):
    """What onnxruntime gives for one sequence."""
    session = onnxruntime.InferenceSession(str(path))
    named = {one.name: x for one, x in zip(session.get_inputs(), feeds, strict=True)}
    return np.atleast_1d(session.run(None, named)[output])[0]


def ours(path, xs, **load):
    """What lrpnumpy gives for it, with the probability that belongs to the scores."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrp.AssumptionWarning)
        model = lrp.load(path, **load)
    record = xs[0] if len(model.inputs) == 1 else dict(zip(model.inputs, xs, strict=True))
    f = np.asarray(lrp.predict(model, record), np.float64)
    if model.output == "sigmoid":
        f = 1 / (1 + np.exp(-f))
    if model.output == "softmax":
        f = np.exp(f - f.max(-1, keepdims=True))
        f = f / f.sum(-1, keepdims=True)
    return f


def agree(got, want, tol=1e-5):
    want = np.asarray(want, np.float64)
    np.testing.assert_allclose(got.reshape(-1), want.reshape(-1), rtol=0, atol=tol * np.abs(want).max())
