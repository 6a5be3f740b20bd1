"""The slow, literal judge of the tests: every method from the paper's formulas, NumPy alone.

Imports nothing of the package. One sequence at a time, in float64, one step after the other; each message
z_i w_ij / stab(z_j) R_j is really formed. A model is plain data, with the gates of an LSTM in the order i, f, g, o
and those of a GRU in the order z, r, n:

    lstm  = {"kind": "lstm", "U": (4,H,D), "W": (4,H,H), "b": (4,H), "h0": (H,), "c0": (H,),
             "activation": "tanh", "recurrent_activation": "sigmoid"}
    gru   = {"kind": "gru", "U": (3,H,D), "W": (3,H,H), "b": (3,H), "bn": (H,), "h0": (H,),
             "activation": "tanh", "recurrent_activation": "sigmoid", "reset_after": True}
    rnn   = {"kind": "rnn", "U": (H,D), "W": (H,H), "b": (H,), "h0": (H,), "activation": "tanh"}
    cell  = lstm | gru | rnn
    bi    = {"kind": "bi", "forward": cell, "backward": cell, "merge": "concat" | "sum" | "mean"}
    dense = {"kind": "dense", "V": (C,H), "d": (C,), "activation": "linear"}
    model = {"layers": [cell | bi | dense, ...], "readout": "last" | "last-row" | "mean" | "max" | "every"}

An activation is any name in ACTIVATIONS. The states, bn, the activations, merge and readout may be left out: zero, and
what is named here, or named first. Dense layers below the last recurrent layer act at each step, those above it are the
head; the readout sits between. Whatever has a time axis, in both directions, is indexed by the position t in the
sequence as given: the backward direction visits t = T-1, ..., 0 and its final state, which the readout "last" takes, is
the one at t = 0; "last-row" takes both directions at t = T-1. With readout "every" the explained prediction is that at
`step`, by default the last. With `versus` = b it is f_target - f_b.
"""

import math

import numpy as np

ERF = np.vectorize(math.erf, otypes=[float])


def sigmoid(z):
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, 1.0, e) / (1.0 + e)


ACTIVATIONS = {  # name: (F, its derivative)
    "linear": (lambda z: z, lambda z: np.ones_like(z)),
    "tanh": (np.tanh, lambda z: 1.0 - np.tanh(z) ** 2),
    "relu": (lambda z: np.maximum(z, 0.0), lambda z: np.where(z > 0, 1.0, 0.0)),
    "sigmoid": (sigmoid, lambda z: sigmoid(z) * sigmoid(-z)),
    "hard_sigmoid": (
        lambda z: np.clip(0.2 * z + 0.5, 0.0, 1.0),
        lambda z: np.where(np.abs(z) < 2.5, 0.2, 0.0),
    ),
    "hard_sigmoid_3": (
        lambda z: np.clip(z / 6 + 0.5, 0.0, 1.0),
        lambda z: np.where(np.abs(z) < 3, 1 / 6, 0.0),
    ),
    "leaky_relu": (lambda z: np.where(z > 0, z, 0.01 * z), lambda z: np.where(z > 0, 1.0, 0.01)),
    "elu": (lambda z: np.where(z > 0, z, below(z) - 1.0), lambda z: np.where(z > 0, 1.0, below(z))),
    "selu": (
        lambda z: SCALE * np.where(z > 0, z, ALPHA * (below(z) - 1.0)),
        lambda z: SCALE * np.where(z > 0, 1.0, ALPHA * below(z)),
    ),
    "softplus": (lambda z: softplus(z), lambda z: sigmoid(z)),
    "softsign": (lambda z: z / (1.0 + np.abs(z)), lambda z: (1.0 + np.abs(z)) ** -2.0),
    "exponential": (np.exp, np.exp),
    "gelu": (lambda z: z * normal(z), lambda z: normal(z) + z * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)),
    "gelu_tanh": (
        lambda z: 0.5 * z * (1.0 + np.tanh(cubic(z))),
        lambda z: (
            0.5 * (1.0 + np.tanh(cubic(z)))
            + 0.5 * z * (1.0 - np.tanh(cubic(z)) ** 2) * np.sqrt(2 / np.pi) * (1.0 + 3 * 0.044715 * z**2)
        ),
    ),
    "silu": (lambda z: z * sigmoid(z), lambda z: sigmoid(z) + z * sigmoid(z) * sigmoid(-z)),
    "mish": (
        lambda z: z * np.tanh(softplus(z)),
        lambda z: np.tanh(softplus(z)) + z * (1.0 - np.tanh(softplus(z)) ** 2) * sigmoid(z),
    ),
}
SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772  # Klambauer et al. 2017


def below(z):
    return np.exp(np.minimum(z, 0.0))


def softplus(z):
    return np.logaddexp(z, 0.0)


def normal(z):
    """P(N < z) of a standard normal N."""
    return 0.5 * (1.0 + ERF(z / np.sqrt(2)))


def cubic(z):
    return np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)


def activations(cell):
    """(F, F') of the cell, (F, F') of the gates."""
    names = cell.get("activation", "tanh"), cell.get("recurrent_activation", "sigmoid")
    return ACTIVATIONS[names[0]], ACTIVATIONS[names[1]]


def initial_state(cell):
    """[h0, c0] of an LSTM, [h0] of the others."""
    names = ("h0", "c0") if cell["kind"] == "lstm" else ("h0",)
    given = [cell.get(name) for name in names]
    return [np.zeros(cell["b"].shape[-1]) if state is None else state for state in given]


def inner_bias(gru):
    """bn, the bias inside the reset product."""
    return np.zeros(gru["b"].shape[1]) if gru.get("bn") is None else gru["bn"]


def resets_after(gru):
    return gru.get("reset_after", True)


def directions(layer, T):
    """[(cell, the positions in the order in which it visits them)]."""
    if layer["kind"] != "bi":
        return [(layer, range(T))]
    return [(layer["forward"], range(T)), (layer["backward"], range(T)[::-1])]


# ---- forward ----


def run(model, x, dense, cell, winners=None):
    """Each layer in turn: what it was given ("x"), what it made of it, and its output "y".

    `dense` and `cell` say what one layer does. x is (T, D), or (3, T, D) where a sequence is carried in three
    parts: merge and mean are linear and act on each, and `winners` tells the maximum which step has won.
    """
    layers, readout = model["layers"], model.get("readout", "last")
    last = max(n for n, layer in enumerate(layers) if layer["kind"] != "dense")
    trace = []
    for n, layer in enumerate(layers):
        seen = {"x": x}
        if layer["kind"] == "dense":
            seen.update(dense(layer, x))
        else:
            ways = directions(layer, x.shape[-2])
            seen["ways"] = [cell(p, x, order) for p, order in ways]
            # "last": each direction's own final state; else the two directions meet at each position
            seen["steps"] = [sorted(order) for _, order in ways]
            if n == last and readout == "last":
                seen["steps"] = [order[-1:] for _, order in ways]
            elif n == last and readout == "last-row":
                seen["steps"] = [steps[-1:] for steps in seen["steps"]]
            seen["hs"] = [s["h"][..., steps, :] for s, steps in zip(seen["ways"], seen["steps"], strict=True)]
            seen["y"] = merge(layer, seen["hs"])
            if n == last and readout in ("mean", "max"):
                seen["readout"], seen["merged"] = readout, seen["y"]
                T, H = seen["y"].shape[-2:]
                if readout == "mean":
                    y = sum(seen["merged"][..., t, :] / T for t in range(T))
                else:  # the first winner
                    seen["winner"] = np.argmax(seen["merged"], axis=0) if winners is None else winners
                    y = seen["merged"][..., seen["winner"], range(H)]
                seen["y"] = y[..., None, :]  # a sequence of one
        trace.append(seen)
        x = seen["y"]
    return trace


def merge(layer, hs):
    kind = layer.get("merge", "concat")
    if kind == "concat":
        return np.concatenate(hs, axis=-1)
    return sum(hs) if kind == "sum" else sum(hs) / 2


def dense_forward(layer, x):
    z = np.array([layer["V"] @ x_t + layer["d"] for x_t in x])
    return {"z": z, "y": ACTIVATIONS[layer.get("activation", "linear")][0](z)}


def lstm_forward(lstm, x, order):
    """Appendix, the LSTM model: every quantity at every position."""
    (F, _), (sigm, _) = activations(lstm)
    h, c = initial_state(lstm)
    T, H = len(x), len(h)
    s = {name: np.zeros((T, H)) for name in ("h_prev", "c_prev", "i", "f", "g", "o", "c", "h")}
    s["x"], s["z"] = x, np.zeros((T, 4, H))
    for t in order:
        s["h_prev"][t], s["c_prev"][t] = h, c
        z = lstm["W"] @ h + lstm["U"] @ x[t] + lstm["b"]  # (4, H)
        i, f, g, o = sigm(z[0]), sigm(z[1]), F(z[2]), sigm(z[3])
        c = f * c + i * g
        h = o * F(c)
        s["z"][t], s["i"][t], s["f"][t], s["g"][t], s["o"][t], s["c"][t], s["h"][t] = z, i, f, g, o, c, h
    return s


def gru_forward(gru, x, order):
    """h = (1 - z) n + z h_prev, with m = W_n h_prev + bn and the gate r after or before that product.

    n = F(U_n x + b_n + r m), or n = F(U_n x + b_n + W_n (r h_prev)); "z" holds all three pre-activations.
    """
    (F, _), (sigm, _) = activations(gru)
    U, W, b, bn = gru["U"], gru["W"], gru["b"], inner_bias(gru)
    (h,) = initial_state(gru)
    T, H = len(x), len(h)
    s = {name: np.zeros((T, H)) for name in ("h_prev", "u", "r", "n", "m", "h")}  # u is the gate z
    s["x"], s["z"] = x, np.zeros((T, 3, H))
    for t in order:
        s["h_prev"][t] = h
        z_z = U[0] @ x[t] + W[0] @ h + b[0]
        z_r = U[1] @ x[t] + W[1] @ h + b[1]
        u, r, m = sigm(z_z), sigm(z_r), W[2] @ h + bn
        z_n = U[2] @ x[t] + b[2] + (r * m if resets_after(gru) else W[2] @ (r * h))
        n = F(z_n)
        h = (1 - u) * n + u * h
        s["z"][t], s["u"][t], s["r"][t], s["n"][t], s["m"][t], s["h"][t] = (z_z, z_r, z_n), u, r, n, m, h
    return s


def rnn_forward(rnn, x, order):
    """h = F(U x + W h_prev + b)."""
    (F, _), _ = activations(rnn)
    (h,) = initial_state(rnn)
    s = {name: np.zeros((len(x), len(h))) for name in ("h_prev", "z", "h")}
    s["x"] = x
    for t in order:
        s["h_prev"][t] = h
        s["z"][t] = rnn["U"] @ x[t] + rnn["W"] @ h + rnn["b"]
        s["h"][t] = h = F(s["z"][t])
    return s


FORWARD = {"lstm": lstm_forward, "gru": gru_forward, "rnn": rnn_forward}


def forward(model, x):
    return run(model, np.asarray(x, float), dense_forward, lambda p, *rest: FORWARD[p["kind"]](p, *rest))


def scores(model, x):
    """f(x): (C,), or (T, C) with readout "every"."""
    y = forward(model, x)[-1]["y"]
    return y if model.get("readout") == "every" else y[0]


def softmax(f):
    e = np.exp(f - f.max())
    return e / e.sum()


# ---- backward ----


def backward(model, trace, R, method):
    """Carry R from the outputs back: R at the inputs (T, D), and what the method kept of each layer.

    The method says what a Dense layer, a cell and a weighted sum do; concatenation, maximum and last row only route.
    """
    kept = []
    for n, (layer, seen) in reversed(list(enumerate(zip(model["layers"], trace, strict=True)))):
        if layer["kind"] == "dense":
            R, rest = method.dense(n, layer, seen, R)
        else:
            if seen.get("readout") == "mean":
                merged = seen["merged"]
                R = method.weighted_sum(n, 1 / len(merged), merged, R[0])
            elif seen.get("readout") == "max":
                R_winner, R = R[0], np.zeros_like(seen["merged"])
                R[seen["winner"], np.arange(R.shape[1])] = R_winner
            hs, kind = seen["hs"], layer.get("merge", "concat")
            if kind == "concat":
                R_hs = np.split(R, np.cumsum([h.shape[1] for h in hs])[:-1], axis=1)
            else:
                weight, both = 1 if kind == "sum" else 1 / 2, np.stack(hs, axis=1)  # (T', 2, H)
                R_both = [method.weighted_sum(n, weight, h, R_t) for h, R_t in zip(both, R, strict=True)]
                R_hs = np.stack(R_both, axis=1)
            R, rest = np.zeros_like(seen["x"]), []
            ways = directions(layer, len(R))
            for (p, order), s, steps, R_h in zip(ways, seen["ways"], seen["steps"], R_hs, strict=True):
                R_above = np.zeros_like(s["h"])
                R_above[steps] = R_h
                R_x, rest_way = getattr(method, p["kind"])(n, p, s, order, R_above)
                R = R + R_x
                rest.append(rest_way)
        kept.insert(0, rest)
    return R, kept


def start(trace, target, versus, step):
    """+1 at the explained output, -1 at the one it is compared with: (T', C)."""
    seed = np.zeros_like(trace[-1]["y"])
    row = len(seed) - 1 if step is None else step
    seed[row, target] += 1
    if versus is not None:
        seed[row, versus] -= 1
    return seed


class Gradient:
    """d f / d everything; what it keeps of a layer are the derivatives by its parameters."""

    def weighted_sum(self, n, weight, values, d_y):  # y = sum_k weight values_k
        return np.array([weight * d_y for _ in values])

    def dense(self, n, layer, seen, d_y):
        d_z = d_y * ACTIVATIONS[layer.get("activation", "linear")][1](seen["z"])
        d_V = sum(np.outer(d_z_t, x_t) for d_z_t, x_t in zip(d_z, seen["x"], strict=True))
        return np.array([layer["V"].T @ d_z_t for d_z_t in d_z]), {"V": d_V, "d": d_z.sum(0)}

    def lstm(self, n, lstm, s, order, d_above):
        (F, dF), (_, dsigm) = activations(lstm)
        d = {name: np.zeros_like(lstm[name]) for name in ("U", "W", "b")}
        d_x, d_h_next, d_c_next = np.zeros_like(s["x"]), 0.0, 0.0
        for t in reversed(order):
            z_i, z_f, z_g, z_o = s["z"][t]
            d_h = d_above[t] + d_h_next
            d_c = d_c_next + d_h * s["o"][t] * dF(s["c"][t])  # h = o F(c)
            d_z = np.array(
                [
                    d_c * s["g"][t] * dsigm(z_i),  # c = f c_prev + i g
                    d_c * s["c_prev"][t] * dsigm(z_f),
                    d_c * s["i"][t] * dF(z_g),
                    d_h * F(s["c"][t]) * dsigm(z_o),
                ]
            )
            for k in range(4):  # z_k = W_k h_prev + U_k x + b_k
                d["U"][k] += np.outer(d_z[k], s["x"][t])
                d["W"][k] += np.outer(d_z[k], s["h_prev"][t])
                d["b"][k] += d_z[k]
            d_x[t] = sum(lstm["U"][k].T @ d_z[k] for k in range(4))
            d_h_next = sum(lstm["W"][k].T @ d_z[k] for k in range(4))
            d_c_next = s["f"][t] * d_c
        return d_x, d | {"h0": d_h_next, "c0": d_c_next}

    def gru(self, n, gru, s, order, d_above):
        (_, dF), (_, dsigm) = activations(gru)
        U, W = gru["U"], gru["W"]
        d = {name: np.zeros_like(gru[name]) for name in ("U", "W", "b")} | {"bn": np.zeros_like(s["h"][0])}
        d_x, d_h_next = np.zeros_like(s["x"]), 0.0
        for t in reversed(order):
            x, h_prev, u, r, n_t, m = (s[name][t] for name in ("x", "h_prev", "u", "r", "n", "m"))
            z_z, z_r, z_n = s["z"][t]
            d_h = d_above[t] + d_h_next
            d_zz = d_h * (h_prev - n_t) * dsigm(z_z)  # h = (1 - u) n + u h_prev
            d_zn = d_h * (1 - u) * dF(z_n)
            d_h_next = d_h * u
            if resets_after(gru):  # z_n = U_n x + b_n + r m, m = W_n h_prev + bn
                d_zr, d_m = d_zn * m * dsigm(z_r), d_zn * r
                d["W"][2] += np.outer(d_m, h_prev)
                d["bn"] += d_m
                d_h_next = d_h_next + W[2].T @ d_m
            else:  # z_n = U_n x + b_n + W_n (r h_prev)
                d_rh = W[2].T @ d_zn
                d_zr = d_rh * h_prev * dsigm(z_r)
                d["W"][2] += np.outer(d_zn, r * h_prev)
                d_h_next = d_h_next + d_rh * r
            for k, d_zk in enumerate((d_zz, d_zr, d_zn)):
                d["U"][k] += np.outer(d_zk, x)
                d["b"][k] += d_zk
                d_x[t] += U[k].T @ d_zk
            for k, d_zk in enumerate((d_zz, d_zr)):  # z_k = U_k x + W_k h_prev + b_k
                d["W"][k] += np.outer(d_zk, h_prev)
                d_h_next = d_h_next + W[k].T @ d_zk
        return d_x, d | {"h0": d_h_next}

    def rnn(self, n, rnn, s, order, d_above):
        (_, dF), _ = activations(rnn)
        d = {name: np.zeros_like(rnn[name]) for name in ("U", "W", "b")}
        d_x, d_h_next = np.zeros_like(s["x"]), 0.0
        for t in reversed(order):
            d_z = (d_above[t] + d_h_next) * dF(s["z"][t])
            d["U"] += np.outer(d_z, s["x"][t])
            d["W"] += np.outer(d_z, s["h_prev"][t])
            d["b"] += d_z
            d_x[t], d_h_next = rnn["U"].T @ d_z, rnn["W"].T @ d_z
        return d_x, d | {"h0": d_h_next}


def gradient(model, x, target, versus=None, step=None):
    """Derivatives by the inputs (T, D) and, for each layer, by its parameters.

    Those of a Dense layer are {"V", "d"}, those of a recurrent layer a list with one
    {"U", "W", "b", "h0"} a direction, and "c0" of an LSTM, "bn" of a GRU. The method "gradient" is the square of the
    first, "gradient-x-input" the first times x.
    """
    trace = forward(model, x)
    return backward(model, trace, start(trace, target, versus, step), Gradient())


def fraction(a, b):
    """a / b, and 0 where b is exactly 0."""
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(np.shape(a), b.shape)), where=b != 0)


class Relevance:
    """LRP; what it keeps of a recurrent layer is the relevance of each h_t, c_t and pre-activation z_t."""

    def __init__(self, rule, eps, layers, gamma=0.0):
        self.rule, self.eps, self.gamma = rule, eps, gamma
        self.biases, self.stabilizer, self.initial_state, self.largest = [0.0] * layers, 0.0, 0.0, 0.0

    def stabilizer_of(self, z):
        return self.eps * np.where(z >= 0, 1.0, -1.0)  # sign(0) = +1

    def count(self, to_stabilizer, to_bias=0.0, n=0):
        self.stabilizer += np.sum(to_stabilizer)
        self.biases[n] += np.sum(to_bias)

    def see(self, *messages):
        self.largest = max(self.largest, *(np.abs(each).max() for each in messages))

    def epsilon_rule(self, n, terms, b, z, R):
        """z_j = sum_i terms_ij + b_j: the messages terms_ij / stab(z_j) R_j, (inputs, outputs)."""
        stabilizer = self.stabilizer_of(z)
        stab = z + stabilizer
        messages, to_bias = fraction(terms, stab) * R, fraction(b, stab) * R
        to_stabilizer = np.where(stab == 0, 1.0, fraction(stabilizer, stab)) * R
        self.count(to_stabilizer, to_bias, n)
        self.see(messages, to_bias, to_stabilizer, R)
        return messages

    def product_rule(self, z_g, z_s, R):
        """z = z_g z_s: relevance of the gate and of the signal."""
        none = np.zeros_like(R)
        if self.rule == "all":
            R_g, R_s, to_stabilizer = none, R, none
        elif self.rule == "half":
            R_g, R_s, to_stabilizer = 0.5 * R, 0.5 * R, none
        else:
            if self.rule == "prop":
                stabilizer = self.stabilizer_of(z_g + z_s)
            else:
                assert self.rule == "abs"
                z_g, z_s, stabilizer = np.abs(z_g), np.abs(z_s), none + self.eps
            stab = z_g + z_s + stabilizer
            R_g, R_s = fraction(z_g, stab) * R, fraction(z_s, stab) * R
            to_stabilizer = np.where(stab == 0, 1.0, fraction(stabilizer, stab)) * R
        self.count(to_stabilizer)
        self.see(R_g, R_s, to_stabilizer, R)
        return R_g, R_s

    def linear(self, n, inputs, weights, b, z, R):
        """z = weights inputs + b: relevance of the inputs."""
        R_inputs = self.epsilon_rule(n, inputs[:, None] * weights.T, b, z, R).sum(1)
        self.see(R_inputs)
        return R_inputs

    def weighted_sum(self, n, weight, values, R):  # y = sum_k weight values_k
        terms = weight * values
        return self.epsilon_rule(n, terms, np.zeros_like(R), terms.sum(0), R)

    def dense(self, n, layer, seen, R):
        R_x = np.zeros_like(seen["x"])
        for t, (x, z) in enumerate(zip(seen["x"], seen["z"], strict=True)):
            # the activation passes relevance on unchanged; terms of the sign of their sum are weighed by 1 + gamma
            terms = x[:, None] * layer["V"].T
            terms = terms * (1 + self.gamma * (np.sign(terms) == np.where(z >= 0, 1.0, -1.0)))
            z = z if self.gamma == 0 else terms.sum(0) + layer["d"]
            R_x[t] = self.epsilon_rule(n, terms, layer["d"], z, R[t]).sum(1)
            self.see(R_x[t])
        return R_x, None

    def lstm(self, n, lstm, s, order, R_above):
        (F, _), _ = activations(lstm)
        D = s["x"].shape[1]
        R_x, R_h, R_c, R_z = (np.zeros_like(s[name]) for name in ("x", "h", "c", "z"))
        R_h_next = R_c_next = np.zeros_like(s["h"][0])
        for t in reversed(order):
            i, f, g, o, c, c_prev = (s[name][t] for name in ("i", "f", "g", "o", "c", "c_prev"))
            R_h[t] = R_above[t] + R_h_next
            # h = o tanh(c)
            R_o, R_tanh = self.product_rule(o, F(c), R_h[t])
            R_c[t] = R_c_next + R_tanh
            # c = f c_prev + i g
            R_fc, R_ig = self.epsilon_rule(n, np.array([f * c_prev, i * g]), np.zeros_like(c), c, R_c[t])
            R_f, R_c_next = self.product_rule(f, c_prev, R_fc)
            R_i, R_g = self.product_rule(i, g, R_ig)
            R_z[t] = R_i, R_f, R_g, R_o  # the activations pass relevance on unchanged
            R_h_next = np.zeros_like(c)
            inputs = np.concatenate([s["x"][t], s["h_prev"][t]])
            for k in range(4):  # z_k = U_k x + W_k h_prev + b_k
                weights = np.concatenate([lstm["U"][k], lstm["W"][k]], axis=1)  # (H, D + H)
                R_inputs = self.linear(n, inputs, weights, lstm["b"][k], s["z"][t, k], R_z[t, k])
                R_x[t] += R_inputs[:D]
                R_h_next = R_h_next + R_inputs[D:]
        self.see(R_x)
        self.initial_state += R_h_next.sum() + R_c_next.sum()
        return R_x, {"h": R_h, "c": R_c, "z": R_z, "x": R_x}

    def gru(self, n, gru, s, order, R_above):
        U, W, b, bn = gru["U"], gru["W"], gru["b"], inner_bias(gru)
        D = s["x"].shape[1]
        R_x, R_h, R_z = (np.zeros_like(s[name]) for name in ("x", "h", "z"))
        R_h_next = np.zeros_like(s["h"][0])
        for t in reversed(order):
            x, h_prev, u, r, n_t, m, h = (s[name][t] for name in ("x", "h_prev", "u", "r", "n", "m", "h"))
            z_z, z_r, z_n = s["z"][t]
            R_h[t] = R_above[t] + R_h_next
            # h = (1 - u) n + u h_prev
            terms = np.array([(1 - u) * n_t, u * h_prev])
            R_new, R_old = self.epsilon_rule(n, terms, np.zeros_like(h), h, R_h[t])
            R_away, R_n = self.product_rule(1 - u, n_t, R_new)
            R_u, R_h_next = self.product_rule(u, h_prev, R_old)
            if resets_after(gru):  # z_n = U_n x + b_n + r m: D terms and one; m = W_n h_prev + bn
                terms = np.concatenate([x[:, None] * U[2].T, (r * m)[None]])
                messages = self.epsilon_rule(n, terms, b[2], z_n, R_n)
                R_x[t] += messages[:D].sum(1)
                self.see(messages[:D].sum(1))
                R_r, R_m = self.product_rule(r, m, messages[D])
                R_h_next = R_h_next + self.linear(n, h_prev, W[2], bn, m, R_m)
            else:  # z_n = U_n x + b_n + W_n (r h_prev): D + H terms
                weights = np.concatenate([U[2], W[2]], axis=1)
                R_inputs = self.linear(n, np.concatenate([x, r * h_prev]), weights, b[2], z_n, R_n)
                R_x[t] += R_inputs[:D]
                R_r, R_signal = self.product_rule(r, h_prev, R_inputs[D:])
                R_h_next = R_h_next + R_signal
            # the activations pass relevance on unchanged; what goes to 1 - u goes to z's pre-activation
            R_z[t] = R_away + R_u, R_r, R_n
            for k, z in enumerate((z_z, z_r)):  # z_k = U_k x + W_k h_prev + b_k
                weights = np.concatenate([U[k], W[k]], axis=1)
                R_inputs = self.linear(n, np.concatenate([x, h_prev]), weights, b[k], z, R_z[t, k])
                R_x[t] += R_inputs[:D]
                R_h_next = R_h_next + R_inputs[D:]
        self.see(R_x, R_z, R_h_next)
        self.initial_state += R_h_next.sum()
        return R_x, {"h": R_h, "z": R_z, "x": R_x}

    def rnn(self, n, rnn, s, order, R_above):
        D = s["x"].shape[1]
        weights = np.concatenate([rnn["U"], rnn["W"]], axis=1)  # (H, D + H)
        R_x, R_h = np.zeros_like(s["x"]), np.zeros_like(s["h"])
        R_h_next = np.zeros_like(s["h"][0])
        for t in reversed(order):  # z = U x + W h_prev + b, and F passes relevance on unchanged
            R_h[t] = R_above[t] + R_h_next
            inputs = np.concatenate([s["x"][t], s["h_prev"][t]])
            R_inputs = self.linear(n, inputs, weights, rnn["b"], s["z"][t], R_h[t])
            R_x[t], R_h_next = R_inputs[:D], R_inputs[D:]
        self.see(R_x, R_h_next)
        self.initial_state += R_h_next.sum()
        return R_x, {"h": R_h, "z": R_h, "x": R_x}


def lrp(model, x, target, rule="all", eps=0.001, versus=None, step=None, gamma=0.0):
    """Relevance "x" (T, D) of the inputs, starting from f_c (and, with versus = b, from -f_b at b).

    "hidden": what arrived inside, for a recurrent layer a list with one {"h": (T, H), "z": (T, gates, H), "x": (T, D),
    what it handed down} a direction, and "c" (T, H) of an LSTM; for a Dense layer None.
    "ledger": inputs, biases (a list, one a layer), stabilizer, initial_state, each from its own messages.
    "largest": the largest absolute value of any message, and of any relevance that messages add up to.
    """
    trace = forward(model, x)
    method = Relevance(rule, eps, len(model["layers"]), gamma)
    R = start(trace, target, versus, step) * trace[-1]["y"]
    R_x, hidden = backward(model, trace, R, method)
    method.see(R_x)
    ledger = {
        "inputs": R_x.sum(),
        "biases": method.biases,
        "stabilizer": method.stabilizer,
        "initial_state": method.initial_state,
    }
    return {"x": R_x, "hidden": hidden, "ledger": ledger, "largest": method.largest}


# ---- occlusion ----


def occlusion(model, x, target, of="f", versus=None, step=None, reference=None, spans=None, unit="step"):
    """f_c(x) - f_c(x without it): one value a word or a span, or (T, D) with unit="feature".

    of="p" takes softmax probabilities, of="sigmoid" sigmoids. The reference (zero) takes the place of a word;
    "omit" takes the words out, and with readout "every" looks at the last word that is left up to `step`.
    """
    x = np.asarray(x, float)
    T, D = x.shape
    reference = np.zeros(D) if reference is None else reference
    step = T - 1 if step is None else step

    def explained(x, step):
        f = scores(model, x)
        f = f[step] if model.get("readout") == "every" else f
        f = {"f": lambda f: f, "p": softmax, "sigmoid": sigmoid}[of](f)
        return f[target] - (0 if versus is None else f[versus])

    def without(positions, d=slice(None)):
        if isinstance(reference, str):  # "omit"
            kept = [t for t in range(T) if t not in positions]
            return explained(x[kept], sum(t <= step for t in kept) - 1)
        changed = x.copy()
        changed[positions, d] = reference[d]
        return explained(changed, step)

    whole = explained(x, step)
    if unit == "feature":
        return np.array([[whole - without([t], d) for d in range(D)] for t in range(T)])
    spans = [(t, t + 1) for t in range(T)] if spans is None else spans
    return np.array([whole - without(list(range(*span))) for span in spans])


# ---- contextual decomposition ----


def linearise(F, a, r, b):
    """F(a + r + b) = L_a + L_r + L_b."""
    L_a = 0.5 * (F(a + b) - F(b) + F(a + r + b) - F(r + b))
    L_r = 0.5 * (F(r + b) - F(b) + F(a + r + b) - F(a + b))
    return L_a, L_r, F(b)


def product_parts(gate, signal, inside):
    """The relevant and the irrelevant part of gate * signal, from the three parts of each.

    What both biases make together belongs to the phrase inside it, and to the rest outside.
    """
    (g_a, g_r, g_b), (s_a, s_r, s_b) = gate, signal
    relevant = g_a * (s_a + s_b) + g_b * s_a
    irrelevant = g_r * (s_a + s_r + s_b) + (g_a + g_b) * s_r
    both = g_b * s_b
    return (relevant + both, irrelevant) if inside else (relevant, irrelevant + both)


def lstm_parts(p, x, order, inside):
    (F, _), (sigm, _) = activations(p)
    W, U = p["W"], p["U"]
    gamma, gamma_c = initial_state(p)
    beta, beta_c = np.zeros_like(gamma), np.zeros_like(gamma_c)
    h, c = np.zeros((2, 3, x.shape[1], len(gamma)))  # the third part stays zero
    for t in order:
        beta_x, gamma_x, delta_x = x[:, t]
        a = W @ beta + U @ beta_x  # (4, H)
        r = W @ gamma + U @ gamma_x
        b = p["b"] + U @ delta_x
        i_a, i_r, i_b = linearise(sigm, a[0], r[0], b[0])
        f_a, f_r, f_b = linearise(sigm, a[1], r[1], b[1])
        g_a, g_r, g_b = linearise(F, a[2], r[2], b[2])
        o = sigm(a[3] + r[3] + b[3])
        # gamma_c first: it needs the previous beta_c
        gamma_c = (f_a + f_r + f_b) * gamma_c + f_r * beta_c
        gamma_c = gamma_c + i_r * (g_a + g_r + g_b) + (i_a + i_b) * g_r
        beta_c = (f_a + f_b) * beta_c + i_a * (g_a + g_b) + i_b * g_a
        if inside[t]:
            beta_c = beta_c + i_b * g_b
        else:
            gamma_c = gamma_c + i_b * g_b
        T_a, T_r, T_0 = linearise(F, beta_c, gamma_c, np.zeros_like(beta_c))  # T_0 = F(0), mostly 0
        if inside[t]:
            beta, gamma = o * (T_a + T_0), o * T_r
        else:
            beta, gamma = o * T_a, o * (T_r + T_0)
        h[0, t], h[1, t], c[0, t], c[1, t] = beta, gamma, beta_c, gamma_c
    return {"h": h, "c": c}


def gru_parts(p, x, order, inside):
    (F, _), (sigm, _) = activations(p)
    W, U, bn = p["W"], p["U"], inner_bias(p)
    (gamma,) = initial_state(p)
    beta, none = np.zeros_like(gamma), np.zeros_like(gamma)
    h = np.zeros((3, x.shape[1], len(gamma)))
    for t in order:
        beta_x, gamma_x, delta_x = x[:, t]
        b = p["b"] + U @ delta_x
        u = linearise(sigm, U[0] @ beta_x + W[0] @ beta, U[0] @ gamma_x + W[0] @ gamma, b[0])
        r = linearise(sigm, U[1] @ beta_x + W[1] @ beta, U[1] @ gamma_x + W[1] @ gamma, b[1])
        if resets_after(p):
            q_a, q_r = product_parts(r, (W[2] @ beta, W[2] @ gamma, bn), inside[t])
        else:
            s_a, s_r = product_parts(r, (beta, gamma, none), inside[t])
            q_a, q_r = W[2] @ s_a, W[2] @ s_r
        n = linearise(F, U[2] @ beta_x + q_a, U[2] @ gamma_x + q_r, b[2])
        new_a, new_r = product_parts((-u[0], -u[1], 1 - u[2]), n, inside[t])
        old_a, old_r = product_parts(u, (beta, gamma, none), inside[t])
        h[0, t], h[1, t] = beta, gamma = new_a + old_a, new_r + old_r
    return {"h": h}


def rnn_parts(p, x, order, inside):
    """What the bias alone makes, F(b), belongs to the phrase inside it, and to the rest outside."""
    (F, _), _ = activations(p)
    W, U = p["W"], p["U"]
    (gamma,) = initial_state(p)
    beta = np.zeros_like(gamma)
    h = np.zeros((3, x.shape[1], len(gamma)))
    for t in order:
        beta_x, gamma_x, delta_x = x[:, t]
        L_a, L_r, L_b = linearise(F, U @ beta_x + W @ beta, U @ gamma_x + W @ gamma, p["b"] + U @ delta_x)
        beta, gamma = (L_a + L_b, L_r) if inside[t] else (L_a, L_r + L_b)
        h[0, t], h[1, t] = beta, gamma
    return {"h": h}


PARTS = {"lstm": lstm_parts, "gru": gru_parts, "rnn": rnn_parts}


def decompose(model, x, span, step=None):
    """Contextual decomposition for the phrase span = (start, stop), stop excluded.

    "scores": (3, C), the relevant part, the irrelevant part and the Dense biases' part of f(x).
    "layers": for each layer its output "y" (3, T, H) as beta, gamma, delta and, where it is recurrent,
    "ways": "h" of each direction in the same form, and "c" of an LSTM.
    """
    x = np.asarray(x, float)
    inside = [span[0] <= t < span[1] for t in range(len(x))]

    def dense(layer, x):  # its bias is the third part, with what comes from such biases below
        F = ACTIVATIONS[layer.get("activation", "linear")][0]
        beta, gamma, delta = x
        y = [
            linearise(F, layer["V"] @ beta[t], layer["V"] @ gamma[t], layer["V"] @ delta[t] + layer["d"])
            for t in range(len(beta))
        ]
        return {"y": np.swapaxes(y, 0, 1)}

    def cell(p, x, order):
        return PARTS[p["kind"]](p, x, order, inside)

    winners = None
    if model.get("readout") == "max":
        (winners,) = (seen["winner"] for seen in forward(model, x) if "winner" in seen)
    part = np.array(inside)[:, None]
    layers = run(model, np.array([x * part, x * ~part, np.zeros_like(x)]), dense, cell, winners)
    return {"scores": layers[-1]["y"][:, -1 if step is None else step], "layers": layers}


# ---- sum rules and AttnLRP, on dense matrices, one number at a time ----


def divided(contributions, z, R, eps):
    """What each contribution of one sum gets of R, by z + eps sign(z), and what the stabilizer keeps."""
    stab = z + (eps if z >= 0 else -eps)
    if stab == 0:
        return [0.0 for _ in contributions], R
    return [c / stab * R for c in contributions], (R - z / stab * R)


def sum_rule(name, x, W, b, R, eps, gamma=0.0, alpha=1.0, beta=0.0, low=None, high=None):
    """z = W x + b with W (J, I): relevance (I,) of the inputs; what biases, the stabilizer and the rule itself keep.

    An input counts as part of sum j where W[j, i] is not 0. The bias is one more contribution, the last.
    """
    to_x, to_bias, to_stabilizer, to_rule = np.zeros(len(x)), 0.0, 0.0, 0.0
    for j in range(len(W)):
        seen = [i for i in range(len(x)) if W[j, i] != 0]
        plain = [x[i] * W[j, i] for i in seen] + [b[j]]
        z = sum(plain)
        if name == "epsilon":
            got, kept = divided(plain, z, R[j], eps)
        elif name == "gamma":
            sign = 1 if z >= 0 else -1
            weighed = [c * (1 + gamma) if c * sign > 0 else c for c in plain[:-1]] + [b[j]]
            got, kept = divided(weighed, sum(weighed), R[j], eps)
        elif name == "alpha-beta":
            above, below = [max(c, 0) for c in plain], [min(c, 0) for c in plain]
            got_above, kept_above = divided(above, sum(above), alpha * R[j], eps)
            got_below, kept_below = divided(below, sum(below), -beta * R[j], eps)
            got, kept = [p + q for p, q in zip(got_above, got_below, strict=True)], kept_above + kept_below
            to_rule += (1 - alpha + beta) * R[j]
        elif name == "w-square":
            squares = [W[j, i] ** 2 for i in seen] + [0.0]
            got, kept = divided(squares, sum(squares), R[j], eps)
        elif name == "flat":
            ones = [1.0 for _ in seen] + [0.0]
            got, kept = divided(ones, sum(ones), R[j], eps)
        else:
            assert name == "z-box"
            boxed = [x[i] * W[j, i] - low[i] * max(W[j, i], 0) - high[i] * min(W[j, i], 0) for i in seen] + [0.0]
            got, kept = divided(boxed, sum(boxed), R[j], eps)
        for i, part in zip(seen, got[:-1], strict=True):
            to_x[i] += part
        to_bias, to_stabilizer = to_bias + got[-1], to_stabilizer + kept
    return to_x, to_bias, to_stabilizer, to_rule


def conv_matrix(K, T, stride=1, dilation=1, left=0, right=0, groups=1):
    """A convolution over T steps as a matrix (windows * out, T * in)."""
    out, width, inside = K.shape
    count = (T + left + right - (width - 1) * dilation - 1) // stride + 1
    matrix = np.zeros((count, out, T, inside * groups))
    for q in range(count):
        for j in range(out):
            group = j // (out // groups)
            for k in range(width):
                t = q * stride - left + k * dilation
                if 0 <= t < T:
                    matrix[q, j, t, group * inside : (group + 1) * inside] += K[j, k]
    return matrix.reshape(count * out, T * inside * groups)


def attention_lrp(q, k, v, scale, R, eps, causal=False):
    """AttnLRP of y_t = sum_s a_ts v_s with a = softmax(e), e = scale q . k, one number at a time.

    Relevance of q, k and v, and what the stabilizer and the softmax keep.
    """
    (T, d), (S, m) = q.shape, v.shape
    R_q, R_k, R_v, R_a = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v), np.zeros((T, S))
    stabilizer = attention = 0.0
    e = scale * q @ k.T
    for t in range(T):
        steps = range(t + 1 if causal else S)
        a = softmax(e[t, list(steps)])
        for n in range(m):
            contributions = [a[s] * v[s, n] for s in steps]
            got, kept = divided(contributions, sum(contributions), R[t, n], eps)
            stabilizer += kept
            for s in steps:
                R_a[t, s] += got[s] / 2
                R_v[s, n] += got[s] / 2
        total = sum(R_a[t])
        for s in steps:
            R_e = e[t, s] * (R_a[t, s] - a[s] * total)
            attention += R_a[t, s] - R_e
            got, kept = divided([scale * q[t, n] * k[s, n] for n in range(d)], e[t, s], R_e, eps)
            stabilizer += kept
            for n in range(d):
                R_q[t, n] += got[n] / 2
                R_k[s, n] += got[n] / 2
    return R_q, R_k, R_v, stabilizer, attention


def pool_lrp(h, v, W, b, c, R, eps):
    """AttnLRP of sum_t a_t h_t with a = softmax(v . tanh(W h_t + b) + c): relevance of h; what each entry keeps."""
    T, m = h.shape
    z = h @ W.T + b
    e = np.tanh(z) @ v + c
    a = softmax(e)
    R_h, R_a, biases, stabilizer = np.zeros_like(h), np.zeros(T), 0.0, 0.0
    for n in range(m):
        contributions = [a[t] * h[t, n] for t in range(T)]
        got, kept = divided(contributions, sum(contributions), R[n], eps)
        stabilizer += kept
        R_a += np.array(got) / 2
        R_h[:, n] += np.array(got) / 2
    R_e = e * (R_a - a * sum(R_a))
    for t in range(T):
        R_u, to_bias, kept, _ = sum_rule("epsilon", np.tanh(z[t]), v[None], np.array([c]), R_e[t : t + 1], eps)
        to_h, more, lost, _ = sum_rule("epsilon", h[t], W, b, R_u, eps)
        R_h[t] += to_h
        biases, stabilizer = biases + to_bias + more, stabilizer + kept + lost
    return R_h, biases, stabilizer, sum(R_a) - sum(R_e)
