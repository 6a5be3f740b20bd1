"""Every layer in PyTorch, one sequence at a time, for PyTorch's own gradients of any network of ours."""

import torch
from torch.nn import functional as F

import lrpnumpy as lrp

ACTIVATIONS = {
    "linear": lambda z: z,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "softsign": F.softsign,
    "gelu": F.gelu,
    "silu": F.silu,
}


def tensor(array):
    return torch.tensor(array, dtype=torch.float64)


def cell(layer, x):
    """Outputs of every step, (T, H)."""
    U, W, b = tensor(layer.U), tensor(layer.W), tensor(layer.b)
    h, c, out = tensor(layer.h0), None, []
    act = ACTIVATIONS[layer.activation]
    for x_t in x:
        u = U @ x_t + b  # (gates, H)
        if isinstance(layer, lrp.RNN):
            h = act(u[0] + W[0] @ h)
        elif isinstance(layer, lrp.LSTM):
            gate = ACTIVATIONS[layer.recurrent_activation]
            c = tensor(layer.c0) if c is None else c
            z = u + W @ h
            c = gate(z[1]) * c + gate(z[0]) * act(z[2])
            h = gate(z[3]) * act(c)
        else:
            gate = ACTIVATIONS[layer.recurrent_activation]
            z, r = gate(u[0] + W[0] @ h), gate(u[1] + W[1] @ h)
            inner = r * (W[2] @ h + tensor(layer.bn)) if layer.reset_after else W[2] @ (r * h)
            h = (1 - z) * act(u[2] + inner) + z * h
        out.append(h)
    return torch.stack(out)


def recurrent(layer, x):
    """Outputs of every step, and the last ones."""
    if not isinstance(layer, lrp.Bidirectional):
        h = cell(layer, x)
        return h, h[-1]
    right, left = cell(layer.forward, x), cell(layer.backward, x.flip(0))
    join = {"sum": torch.add, "mean": lambda a, b: (a + b) / 2, "concat": lambda a, b: torch.cat([a, b], -1)}[
        layer.merge
    ]
    return join(right, left.flip(0)), join(right[-1], left[-1])


def activation(layer, x):
    if layer.activation == "prelu":
        return torch.where(x > 0, x, tensor(layer.slopes) * x)
    if layer.activation == "elu":
        return F.elu(x, layer.alpha)
    return ACTIVATIONS[layer.activation](x)


def convolution(layer, x):
    K, width = tensor(layer.K).permute(0, 2, 1), layer.K.shape[1]
    total = width - 1
    padded = F.pad(x.T[None], (total // 2, total - total // 2))
    return ACTIVATIONS[layer.activation](F.conv1d(padded, K, tensor(layer.d)))[0].T


def pool(layer, x):
    """Pools of two steps; the last one may have only one."""
    join = torch.amax if isinstance(layer, lrp.layers.MaxPool1D) else torch.mean
    return torch.stack([join(x[t : t + 2], 0) for t in range(0, len(x), 2)])


def attended(e, v, causal):
    if causal:
        e = e.masked_fill(torch.ones_like(e, dtype=torch.bool).triu(1), -torch.inf)
    return torch.softmax(e, -1) @ v


def attention(layer, query, value, key=None):
    key, one = value if key is None else key, query.ndim == 1
    q = query[None] if one else query
    if isinstance(layer, lrp.layers.Attention):
        y = attended(layer.scale * q @ key.T, value, layer.causal)
    elif isinstance(layer, lrp.layers.AdditiveAttention):
        y = attended((tensor(layer.scale) * torch.tanh(q[:, None] + key[None])).sum(-1), value, layer.causal)
    else:
        q, k, v = (
            x @ tensor(getattr(layer, f"W{name}")).T + tensor(getattr(layer, f"b{name}"))
            for x, name in ((q, "q"), (key, "k"), (value, "v"))
        )
        parts = zip(*(x.chunk(layer.heads, -1) for x in (q, k, v)), strict=True)
        heads = [attended(q @ k.T / q.shape[1] ** 0.5, v, layer.causal) for q, k, v in parts]
        y = torch.cat(heads, -1) @ tensor(layer.Wo).T + tensor(layer.bo)
    return y[0] if one else y


def attention_pool(layer, h):
    u = h if layer.W is None else torch.tanh(h @ tensor(layer.W).T + tensor(layer.b))
    return torch.softmax(u @ tensor(layer.v), 0) @ h


def sliced(layer, x):
    x = x if layer.axis == "steps" else x.T
    if layer.index is not None:
        y = x[layer.index]
        return y if layer.axis == "steps" else y[:, None]
    y = x[layer.start : layer.stop : layer.step]
    return y if layer.axis == "steps" else y.T


RESTATED = {
    "Dense": lambda layer, x: ACTIVATIONS[layer.activation](x @ tensor(layer.V).T + tensor(layer.d)),
    "Activation": activation,
    "Affine": lambda layer, x: x * tensor(layer.s) + tensor(layer.t),
    "LayerNorm": lambda layer, x: F.layer_norm(x, x.shape[-1:], tensor(layer.gamma), tensor(layer.beta), layer.eps),
    "Conv1D": convolution,
    "MaxPool1D": pool,
    "AvgPool1D": pool,
    "Mean": lambda layer, x: x.mean(0),
    "Max": lambda layer, x: x.amax(0),
    "Sum": lambda layer, x: x.sum(0),
    "LastRow": lambda layer, x: x[-1],
    "Concat": lambda layer, *xs: torch.cat(xs, -1),
    "Add": lambda layer, *xs: sum(xs),
    "Average": lambda layer, *xs: sum(xs) / len(xs),
    "Subtract": lambda layer, a, b: a - b,
    "Multiply": lambda layer, a, b: a * b,
    "Repeat": lambda layer, x, like=None: x.expand(layer.steps or len(like), -1),
    "Flatten": lambda layer, x: x.flatten(),
    "Reshape": lambda layer, x: x.reshape(-1, layer.width),
    "Slice": sliced,
    "Reverse": lambda layer, x: x.flip(0),
    "Transpose": lambda layer, x: x.T,
    "Pad": lambda layer, x: F.pad(x, (0, 0, layer.before, layer.after)),
    "Softmax": lambda layer, x: torch.softmax(x, -1 if layer.axis == "features" else 0),
    "AttentionPool": attention_pool,
    "Attention": attention,
    "AdditiveAttention": attention,
    "MultiHeadAttention": attention,
    "Square": lambda layer, x: x * x,
    "SumAll": lambda layer, x: (x.mean() if layer.mean else x.sum())[None],
    "TwoClasses": lambda layer, x: torch.cat([-x, x], dim=-1),
}


def scores(model, inputs):
    """Scores of one record, from tensors by name."""
    values = dict(inputs)
    for name, layer, takes in model.nodes:
        xs = [values[key] for key in takes]
        if type(layer).__name__ in RESTATED:
            values[name] = RESTATED[type(layer).__name__](layer, *xs)
        else:
            values[name], values[f"{name}:last"] = recurrent(layer, *xs)
    return values[model.result]
