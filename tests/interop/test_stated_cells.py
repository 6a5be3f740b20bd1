"""The cells of `layers/cells.py`, each written in plain PyTorch: scores and autograd's gradients, in float64."""

import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp
from lrpnumpy.kernels import compile as compiling
from lrpnumpy.laws import random_cell
from lrpnumpy.layers import LAYERS

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

D, H, T, C = 5, 4, 7, 3

CELLS = [name for name, kind in LAYERS.items() if kind.__module__ == "lrpnumpy.layers.cells"]


@pytest.fixture(autouse=True)
def by_numpy(monkeypatch):
    monkeypatch.setattr(compiling, "mode", "never")


# One step each: w are the trained arrays; it returns the output and the states.


def lstm_step(g, c, o, keep, new):
    """c and h of an LSTM whose gates are given."""
    c = keep * c + new * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gates(w, names, x, h):
    return [w[f"U_{k}"] @ x + w[f"W_{k}"] @ h + w[f"b_{k}"] for k in names]


def min_gru(w, x, h):
    z = torch.sigmoid(w["U_z"] @ x + w["b_z"])
    h = (1 - z) * h + z * (w["U_n"] @ x + w["b_n"])
    return h, h


def min_lstm(w, x, h):
    f, i = (torch.sigmoid(w[f"U_{k}"] @ x + w[f"b_{k}"]) for k in "fi")
    h = (f * h + i * (w["U_n"] @ x + w["b_n"])) / (f + i)
    return h, h


def peephole_lstm(w, x, h, c):
    i, f, g, o = gates(w, "ifgo", x, h)
    keep, new = torch.sigmoid(f + w["p_f"] * c), torch.sigmoid(i + w["p_i"] * c)
    c = keep * c + new * torch.tanh(g)
    h = torch.sigmoid(o + w["p_o"] * c) * torch.tanh(c)
    return h, h, c


def coupled_lstm(w, x, h, c):
    f, g, o = gates(w, "fgo", x, h)
    f = torch.sigmoid(f)
    h, c = lstm_step(g, c, o, f, 1 - f)
    return h, h, c


def layer_norm_lstm(w, x, h, c):
    def gate(k):
        parts = (F.layer_norm(w[f"U_{k}"] @ x, (H,), w[f"gu_{k}"]), F.layer_norm(w[f"W_{k}"] @ h, (H,), w[f"gw_{k}"]))
        return sum(parts) + w[f"b_{k}"]

    i, f, g, o = (gate(k) for k in "ifgo")
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(F.layer_norm(c, (H,), w["gc"], w["bc"]))
    return h, h, c


def slstm(w, x, h, c, n):
    """The states of the paper: c and n."""
    i, f, z, o = gates(w, "ifzo", x, h)
    i, f = torch.exp(i), torch.sigmoid(f)
    c, n = f * c + i * torch.tanh(z), f * n + i
    h = torch.sigmoid(o) * c / n
    return h, h, c, n


def diagonal_ssm(w, x, h):
    h = w["A"] * h + w["B"] * x[:, None]
    return (w["C"] * h).sum(1) + w["E"] * x, h


def selective_ssm(w, x, h):
    dt = F.softplus(w["U_dt"] @ x + w["b_dt"])[:, None]
    h = torch.exp(dt * w["A"]) * h + dt * (w["U_B"] @ x) * x[:, None]
    return (h * (w["U_C"] @ x)).sum(1) + w["E"] * x, h


def cfc(w, x, time, h):
    v = F.silu(w["U_v"] @ x + w["W_v"] @ h + w["b_v"])
    a, t, one, two = (w[f"V_{k}"] @ v + w[f"b_{k}"] for k in "at12")
    r = torch.sigmoid(a * time + t)
    h = (1 - r) * torch.tanh(one) + r * torch.tanh(two)
    return h, h


def ea_lstm(w, x, static, h, c):
    f, g, o = gates(w, "fgo", x, h)
    new = torch.sigmoid(w["U_i"] @ static + w["b_i"])
    h, c = lstm_step(g, c, o, torch.sigmoid(f), new)
    return h, h, c


def multiplicative_lstm(w, x, h, c):
    i, f, g, o = gates(w, "ifgo", x, (w["U_m"] @ x) * (w["W_m"] @ h))
    h, c = lstm_step(g, c, o, torch.sigmoid(f), torch.sigmoid(i))
    return h, h, c


STEPS = {
    "MinGRU": min_gru, "MinLSTM": min_lstm, "PeepholeLSTM": peephole_lstm, "CoupledLSTM": coupled_lstm,
    "LayerNormLSTM": layer_norm_lstm, "SLSTM": slstm, "DiagonalSSM": diagonal_ssm, "SelectiveSSM": selective_ssm,
    "CfC": cfc, "EALSTM": ea_lstm, "MultiplicativeLSTM": multiplicative_lstm,
}  # fmt: skip


def test_every_cell_is_compared():
    assert {*STEPS, "ProjectedLSTM"} == {*CELLS}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("every", [False, True])
def test_cells(name, every, rng):
    cell = random_cell(getattr(lrp.layers, name), rng, D=D, H=H, static=2)
    head = lrp.Dense(rng.normal(size=(C, cell.units)), rng.normal(size=C))
    others = {"EALSTM": (2,), "CfC": (T, 1)}
    inputs, values = {"x": lrp.Input(D)}, {"x": rng.normal(size=(T, D))}
    if name in others:
        inputs["other"] = lrp.Input(others[name][-1], steps=len(others[name]) > 1)
        values["other"] = rng.uniform(0.5, 1.5, size=others[name])
    nodes = [lrp.Node("cell", cell, tuple(inputs)), lrp.Node("head", head, ("cell" if every else "cell:last",))]
    model = lrp.Model(nodes, inputs=inputs, output="linear")

    inputs = {key: torch.tensor(value, requires_grad=True) for key, value in values.items()}
    w = {key: torch.tensor(value) for key, value in cell.weights.items()}
    states, rows = [torch.zeros(one.shape[1:], dtype=torch.float64) for one in cell.started], []
    for t in range(T):
        other = [value[t] if value.ndim > 1 else value for key, value in inputs.items() if key == "other"]
        y, *states = STEPS[name](w, inputs["x"][t], *other, *states)
        rows.append(torch.tensor(head.V) @ y + torch.tensor(head.d))
    scores = torch.stack(rows) if every else rows[-1]
    close(lrp.predict(model, values), scores.detach().numpy(), 1e-10)
    at, step = ((3,), {"step": 3}) if every else ((), {})
    for c in range(C):
        found = lrp.explain(model, values, "gradient-x-input", c, **step)
        slopes = torch.autograd.grad(scores[(*at, c)], list(inputs.values()), retain_graph=True)
        for key, slope in zip(inputs, slopes, strict=True):
            close(found.inputs[key].feature_relevance.reshape(values[key].shape), slope.numpy() * values[key], 1e-10)


def test_projected_lstm(rng):
    """Against torch.nn.LSTM(proj_size)."""
    torch.manual_seed(2)
    module = torch.nn.LSTM(D, H, proj_size=2, batch_first=True, dtype=torch.float64)
    head = torch.nn.Linear(2, C, dtype=torch.float64)
    arrays = {name: array.detach().numpy() for name, array in module.named_parameters()}
    b = arrays["bias_ih_l0"] + arrays["bias_hh_l0"]
    weights = {}
    for letter, array in (("U", arrays["weight_ih_l0"]), ("W", arrays["weight_hh_l0"]), ("b", b)):
        for k, part in zip("ifgo", np.split(array, 4), strict=True):
            weights[f"{letter}_{k}"] = part
    cell = lrp.layers.ProjectedLSTM(**weights, W_p=arrays["weight_hr_l0"])
    model = lrp.Model([cell, lrp.Dense(head.weight.detach().numpy(), head.bias.detach().numpy())])
    x = torch.tensor(rng.normal(size=(1, T, D)), requires_grad=True)
    scores = head(module(x)[0][:, -1])[0]
    for c in range(C):
        (slope,) = torch.autograd.grad(scores[c], x, retain_graph=True)
        found = lrp.explain(model, x.detach().numpy()[0], "gradient-x-input", c)
        close(found.scores, scores.detach().numpy(), 1e-12)
        close(found.feature_relevance, (slope * x).detach().numpy()[0], 1e-10)
