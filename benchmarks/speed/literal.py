"""LRP and contextual decomposition as one would write them from the formulas: per sentence, per step, in NumPy.

This replaces the published scripts, which cannot be bundled here, and costs about the same. It is written
plainly and not slowed down: whole gates are one product, and nothing is computed twice.
"""

from __future__ import annotations

import numpy as np

import lrpnumpy as lrp


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def run(layer: lrp.LSTM, x: np.ndarray) -> dict[str, np.ndarray]:
    """All activations of one direction: z and gates (T, 4, H), c and h (T+1, H) with the initial state first."""
    T, H = len(x), layer.units
    U, W, b = layer.U.reshape(4 * H, -1), layer.W.reshape(4 * H, H), layer.b.reshape(4 * H)
    z, gates = np.empty((T, 4, H), x.dtype), np.empty((T, 4, H), x.dtype)
    c, h = np.zeros((T + 1, H), x.dtype), np.zeros((T + 1, H), x.dtype)
    for t in range(T):
        z[t] = (U @ x[t] + W @ h[t] + b).reshape(4, H)
        gates[t] = sigmoid(z[t])
        gates[t, 2] = np.tanh(z[t, 2])
        i, f, g, o = gates[t]
        c[t + 1] = f * c[t] + i * g
        h[t + 1] = o * np.tanh(c[t + 1])
    return {"z": z, "gates": gates, "c": c, "h": h}


def ways(model: lrp.Model, x: np.ndarray) -> list[tuple[lrp.LSTM, np.ndarray, bool]]:
    """(layer, its input, whether that is reversed) of each direction."""
    layer = model.layers[0]
    if isinstance(layer, lrp.Bidirectional):
        return [(layer.forward, x, False), (layer.backward, x[::-1], True)]
    return [(layer, x, False)]  # type: ignore[list-item]


def epsilon_rule(x: np.ndarray, w: np.ndarray, z: np.ndarray, R: np.ndarray, eps: float) -> np.ndarray:
    """R_i = sum_j z_i w_ij / (z_j + eps sign(z_j)) R_j, with every message formed; w is (out, in)."""
    stabilized = z + eps * np.where(z >= 0, 1, -1)
    return (w * x / stabilized[:, None] * R[:, None]).sum(axis=0)


def lrp_all(model: lrp.Model, x: np.ndarray, target: int, eps: float = 0.001) -> np.ndarray:
    """Relevance (T, D) under "signal takes all"."""
    passes = [(layer, seen, mirrored, run(layer, seen)) for layer, seen, mirrored in ways(model, x)]
    head = model.layers[-1]
    h_T = np.concatenate([trace["h"][-1] for *_, trace in passes])
    scores = head.V @ h_T + head.d
    R = np.zeros_like(scores)
    R[target] = scores[target]
    R_h_T = epsilon_rule(h_T, head.V, scores, R, eps)
    R_x, start = np.zeros_like(x), 0
    for layer, seen, mirrored, trace in passes:
        H, T = layer.units, len(x)
        R_h, R_c, R_seen = R_h_T[start : start + H], np.zeros(H, x.dtype), np.empty_like(x)
        start += H
        z, gates, c, h = (trace[name] for name in ("z", "gates", "c", "h"))
        for t in range(T - 1, -1, -1):
            i, f, g, _ = gates[t]
            R_c = R_c + R_h
            stabilized = c[t + 1] + eps * np.where(c[t + 1] >= 0, 1, -1)
            R_g = i * g / stabilized * R_c
            R_c = f * c[t] / stabilized * R_c
            R_seen[t] = epsilon_rule(seen[t], layer.U[2], z[t, 2], R_g, eps)
            R_h = epsilon_rule(h[t], layer.W[2], z[t, 2], R_g, eps)
        R_x += R_seen[::-1] if mirrored else R_seen
    return R_x


def decompose_word(layer: lrp.LSTM, x: np.ndarray, word: int) -> np.ndarray:
    """beta of the last hidden state for one word, by the formulas of contextual decomposition."""
    H = layer.units
    W, U, b = layer.W.reshape(4 * H, H), layer.U.reshape(4 * H, -1), layer.b
    zero = np.zeros(H, x.dtype)
    beta, gamma, beta_c, gamma_c = zero, zero, zero, zero

    def linear(F, a, r, b):  # type: ignore[no-untyped-def]
        whole, both = F(a + r + b), F(b)
        with_a, with_r = F(a + b), F(r + b)
        return 0.5 * (with_a - both + whole - with_r), 0.5 * (with_r - both + whole - with_a), both

    for t in range(len(x)):
        projected = U @ x[t]
        a, r = (W @ beta), (W @ gamma)
        if t == word:
            a = a + projected
        else:
            r = r + projected
        a, r = a.reshape(4, H), r.reshape(4, H)
        i_a, i_r, i_b = linear(sigmoid, a[0], r[0], b[0])
        f_a, f_r, f_b = linear(sigmoid, a[1], r[1], b[1])
        g_a, g_r, g_b = linear(np.tanh, a[2], r[2], b[2])
        o = sigmoid(a[3] + r[3] + b[3])
        new_beta = i_a * (g_a + g_b) + i_b * g_a + (f_a + f_b) * beta_c
        new_gamma = i_r * (g_a + g_r + g_b) + (i_a + i_b) * g_r + (f_a + f_r + f_b) * gamma_c + f_r * beta_c
        if t == word:
            new_beta = new_beta + i_b * g_b
        else:
            new_gamma = new_gamma + i_b * g_b
        beta_c, gamma_c = new_beta, new_gamma
        both, one, other = np.tanh(beta_c + gamma_c), np.tanh(beta_c), np.tanh(gamma_c)
        beta, gamma = o * 0.5 * (one + both - other), o * 0.5 * (other + both - one)
    return beta


def cd(model: lrp.Model, x: np.ndarray, target: int) -> np.ndarray:
    """Relevance (T,) of every word."""
    out, start = np.zeros(len(x), x.dtype), 0
    for layer, seen, mirrored in ways(model, x):
        w = model.layers[-1].V[target, start : start + layer.units]
        start += layer.units
        words = np.array([w @ decompose_word(layer, seen, t) for t in range(len(x))])
        out += words[::-1] if mirrored else words
    return out
