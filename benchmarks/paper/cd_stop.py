"""CD of a one-unit LSTM with the stop index excluded and included: what the paper's appendix changed.

The CD code that the paper started from has two conditions on the position t of a step: the input belongs
to the phrase where start <= t <= stop, but the product of the biases' parts, i_b g_b, where start <= t < stop
alone. The paper excludes stop in both, and takes start = k, stop = k + 1 for word k. Here is CD once more,
literally, with either condition.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.paper.measures.toy import Data
from lrpnumpy.model import Model

# how -> (last step whose input is in the phrase, last step whose i_b g_b is), counted from k
HOW = {
    "stop excluded": (0, 0),
    "stop = k included": (0, -1),  # no step has start <= t < stop
    "stop = k+1 included": (1, 0),
}


def _parts(F: Callable, a: np.ndarray, r: np.ndarray, b: float) -> tuple[np.ndarray, np.ndarray, float]:
    """L_a, L_r, L_b of F(a + r + b)."""
    whole, with_a, with_r, alone = F(a + r + b), F(a + b), F(r + b), F(b)
    return (with_a - alone + whole - with_r) / 2, (with_r - alone + whole - with_a) / 2, alone


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return 0.5 + 0.5 * np.tanh(0.5 * z)


def _one_length(model: Model, x: np.ndarray, how: str) -> np.ndarray:
    """Relevance (n, T) of every word of x (n, T, 2)."""
    lstm, dense = model.layers
    U, W, b = lstm.U[:, 0], lstm.W[:, 0, 0], lstm.b[:, 0]
    n, T, _ = x.shape
    k = np.arange(T)  # one variant per word
    beta = gamma = beta_c = gamma_c = np.zeros((n, T))
    input_to, bias_to = HOW[how]
    for t in range(T):
        own = (x[:, t] @ U.T).T[:, :, None]  # (4, n, 1)
        inside = (k <= t) & (t <= k + input_to)
        a = W[:, None, None] * beta + own * inside
        r = W[:, None, None] * gamma + own * ~inside
        i_a, i_r, i_b = _parts(_sigmoid, a[0], r[0], b[0])
        f_a, f_r, f_b = _parts(_sigmoid, a[1], r[1], b[1])
        g_a, g_r, g_b = _parts(np.tanh, a[2], r[2], b[2])
        o = _sigmoid(a[3] + r[3] + b[3])
        bias = i_b * g_b * ((k <= t) & (t <= k + bias_to))
        beta_c, gamma_c = (
            i_a * (g_a + g_b) + i_b * g_a + (f_a + f_b) * beta_c + bias,
            i_r * (g_a + g_r + g_b) + (i_a + i_b) * g_r + (f_a + f_r + f_b) * gamma_c + f_r * beta_c + i_b * g_b - bias,
        )
        T_a, T_r, _ = _parts(np.tanh, beta_c, gamma_c, 0.0)
        beta, gamma = o * T_a, o * T_r
    return dense.V[0, 0] * beta


def relevance(model: Model, data: Data, how: str) -> np.ndarray:
    """Relevance of every word of all sequences, one after another."""
    lengths = np.array([len(x) for x in data.sequences])
    out = [np.empty(0)] * len(lengths)
    for T in np.unique(lengths):
        at = np.flatnonzero(lengths == T)
        for k, row in zip(at, _one_length(model, np.stack([data.sequences[k] for k in at]), how), strict=True):
            out[k] = row
    return np.concatenate(out)
