"""The slow, literal judge of the tests: every method from the paper's formulas, NumPy alone.

Imports nothing of the package. One sequence at a time, in float64, one step after the other; each message
z_i w_ij / stab(z_j) R_j is really formed. A model is plain data, with the gates in the order i, f, g, o:

    lstm  = {"kind": "lstm", "U": (4,H,D), "W": (4,H,H), "b": (4,H), "h0": (H,) or None, "c0": (H,) or None,
             "activation": "tanh" | "relu" | "linear",
             "recurrent_activation": "sigmoid" | "hard_sigmoid" | "hard_sigmoid_3"}
    bi    = {"kind": "bi", "forward": lstm, "backward": lstm, "merge": "concat" | "sum" | "mean"}
    dense = {"kind": "dense", "V": (C,H), "d": (C,), "activation": "linear" | "relu" | "tanh"}
    model = {"layers": [lstm | bi | dense, ...], "readout": "last" | "mean" | "max" | "every"}

The states, the activations, merge and readout may be left out: zero, and the first named.
Dense layers below the last recurrent layer act at each step, those above it are the head; the readout sits
between. Whatever has a time axis, in both directions, is indexed by the position t in the sequence as given:
the backward direction visits t = T-1, ..., 0 and its final state is the one at t = 0. With readout "every"
the explained prediction is that at `step`, by default the last. With `versus` = b it is f_target - f_b.
"""

import numpy as np


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
}


def activations(lstm):
    """(F, F') of the cell, (F, F') of the gates."""
    names = lstm.get("activation", "tanh"), lstm.get("recurrent_activation", "sigmoid")
    return ACTIVATIONS[names[0]], ACTIVATIONS[names[1]]


def initial_state(lstm):
    given = lstm.get("h0"), lstm.get("c0")
    return [np.zeros(lstm["b"].shape[1]) if state is None else state for state in given]


def directions(layer, T):
    """[(lstm, the positions in the order in which it visits them)]."""
    if layer["kind"] == "lstm":
        return [(layer, range(T))]
    return [(layer["forward"], range(T)), (layer["backward"], range(T)[::-1])]


# ---- forward ----


def run(model, x, dense, lstm, winners=None):
    """Each layer in turn: what it was given ("x"), what it made of it, and its output "y".

    `dense` and `lstm` say what one layer does. x is (T, D), or (3, T, D) where a sequence is carried in three
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
            seen["ways"] = [lstm(p, x, order) for p, order in ways]
            # "last": each direction's own final state; else the two directions meet at each position
            final = n == last and readout == "last"
            seen["steps"] = [order[-1:] if final else sorted(order) for _, order in ways]
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


def forward(model, x):
    return run(model, np.asarray(x, float), dense_forward, lstm_forward)


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

    The method says what a Dense layer, an LSTM and a weighted sum do; concatenation and maximum only route.
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
                R_x, rest_way = method.lstm(n, p, s, order, R_above)
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


def gradient(model, x, target, versus=None, step=None):
    """Derivatives by the inputs (T, D) and, for each layer, by its parameters.

    Those of a Dense layer are {"V", "d"}, those of a recurrent layer a list with one
    {"U", "W", "b", "h0", "c0"} a direction. The method "gradient" is the square of the first,
    "gradient-x-input" the first times x.
    """
    trace = forward(model, x)
    return backward(model, trace, start(trace, target, versus, step), Gradient())


def fraction(a, b):
    """a / b, and 0 where b is exactly 0."""
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(np.shape(a), b.shape)), where=b != 0)


class Relevance:
    """LRP; what it keeps of a recurrent layer is the relevance of each h_t, c_t and pre-activation z_t."""

    def __init__(self, rule, eps, share_bias, layers):
        self.rule, self.eps, self.share_bias = rule, eps, share_bias
        self.biases, self.stabiliser, self.initial_state, self.largest = [0.0] * layers, 0.0, 0.0, 0.0

    def stabiliser_of(self, z):
        return self.eps * np.where(z >= 0, 1.0, -1.0)  # sign(0) = +1

    def count(self, to_stabiliser, to_bias=0.0, n=0):
        self.stabiliser += np.sum(to_stabiliser)
        self.biases[n] += np.sum(to_bias)

    def see(self, *messages):
        self.largest = max(self.largest, *(np.abs(each).max() for each in messages))

    def epsilon_rule(self, n, terms, b, z, R):
        """z_j = sum_i terms_ij + b_j: the messages terms_ij / stab(z_j) R_j, (inputs, outputs)."""
        stabiliser = self.stabiliser_of(z)
        stab = z + stabiliser
        messages, to_bias = fraction(terms, stab) * R, fraction(b, stab) * R
        to_stabiliser = np.where(stab == 0, 1.0, fraction(stabiliser, stab)) * R
        if self.share_bias:
            messages = messages + (to_bias + to_stabiliser) / len(messages)
        else:
            self.count(to_stabiliser, to_bias, n)
        self.see(messages, to_bias, to_stabiliser, R)
        return messages

    def product_rule(self, z_g, z_s, R):
        """z = z_g z_s: relevance of the gate and of the signal."""
        none = np.zeros_like(R)
        if self.rule == "all":
            R_g, R_s, to_stabiliser = none, R, none
        elif self.rule == "half":
            R_g, R_s, to_stabiliser = 0.5 * R, 0.5 * R, none
        else:
            if self.rule == "prop":
                stabiliser = self.stabiliser_of(z_g + z_s)
            else:
                assert self.rule == "abs"
                z_g, z_s, stabiliser = np.abs(z_g), np.abs(z_s), none + self.eps
            stab = z_g + z_s + stabiliser
            R_g, R_s = fraction(z_g, stab) * R, fraction(z_s, stab) * R
            to_stabiliser = np.where(stab == 0, 1.0, fraction(stabiliser, stab)) * R
        if self.share_bias:
            R_g, R_s = R_g + to_stabiliser / 2, R_s + to_stabiliser / 2
        else:
            self.count(to_stabiliser)
        self.see(R_g, R_s, to_stabiliser, R)
        return R_g, R_s

    def weighted_sum(self, n, weight, values, R):  # y = sum_k weight values_k
        terms = weight * values
        return self.epsilon_rule(n, terms, np.zeros_like(R), terms.sum(0), R)

    def dense(self, n, layer, seen, R):
        R_x = np.zeros_like(seen["x"])
        for t, (x, z) in enumerate(zip(seen["x"], seen["z"], strict=True)):
            # the activation passes relevance on unchanged
            terms = x[:, None] * layer["V"].T  # z_i w_ij
            R_x[t] = self.epsilon_rule(n, terms, layer["d"], z, R[t]).sum(1)
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
                terms = inputs[:, None] * weights.T  # z_i w_ij
                R_inputs = self.epsilon_rule(n, terms, lstm["b"][k], s["z"][t, k], R_z[t, k]).sum(1)
                R_x[t] += R_inputs[:D]
                R_h_next = R_h_next + R_inputs[D:]
        self.see(R_x)
        self.initial_state += R_h_next.sum() + R_c_next.sum()
        return R_x, {"h": R_h, "c": R_c, "z": R_z, "x": R_x}


def lrp(model, x, target, rule="all", eps=0.001, versus=None, step=None, share_bias=False):
    """Relevance "x" (T, D) of the inputs, starting from f_c (and, with versus = b, from -f_b at b).

    "hidden": what arrived inside, for a recurrent layer a list with one {"h": (T, H), "c": (T, H),
    "z": (T, 4, H), "x": (T, D), what it handed down} a direction; for a Dense layer None.
    "ledger": inputs, biases (a list, one a layer), stabiliser, initial_state, each from its own messages.
    "largest": the largest absolute value of any message, and of any relevance that messages add up to.
    With share_bias each sum spreads what bias and stabiliser would take equally over its inputs.
    """
    trace = forward(model, x)
    method = Relevance(rule, eps, share_bias, len(model["layers"]))
    R = start(trace, target, versus, step) * trace[-1]["y"]
    R_x, hidden = backward(model, trace, R, method)
    method.see(R_x)
    ledger = {
        "inputs": R_x.sum(),
        "biases": method.biases,
        "stabiliser": method.stabiliser,
        "initial_state": method.initial_state,
    }
    return {"x": R_x, "hidden": hidden, "ledger": ledger, "largest": method.largest}


# ---- occlusion ----


def occlusion(model, x, target, of="f", versus=None, step=None, baseline=None, spans=None, unit="word", how="replace"):
    """f_c(x) - f_c(x without it): one value a word or a span, or (T, D) with unit="variable".

    of="p" takes softmax probabilities, of="sigmoid" sigmoids. how="replace" puts the baseline (zero) there;
    "omit" takes the words out, and with readout "every" looks at the last word that is left up to `step`.
    """
    x = np.asarray(x, float)
    T, D = x.shape
    baseline = np.zeros(D) if baseline is None else baseline
    step = T - 1 if step is None else step

    def explained(x, step):
        f = scores(model, x)
        f = f[step] if model.get("readout") == "every" else f
        f = {"f": lambda f: f, "p": softmax, "sigmoid": sigmoid}[of](f)
        return f[target] - (0 if versus is None else f[versus])

    def without(positions, d=slice(None)):
        if how == "omit":
            kept = [t for t in range(T) if t not in positions]
            return explained(x[kept], sum(t <= step for t in kept) - 1)
        changed = x.copy()
        changed[positions, d] = baseline[d]
        return explained(changed, step)

    whole = explained(x, step)
    if unit == "variable":
        return np.array([[whole - without([t], d) for d in range(D)] for t in range(T)])
    spans = [(t, t + 1) for t in range(T)] if spans is None else spans
    return np.array([whole - without(list(range(*span))) for span in spans])


# ---- contextual decomposition ----


def linearise(F, a, r, b):
    """F(a + r + b) = L_a + L_r + L_b."""
    L_a = 0.5 * (F(a + b) - F(b) + F(a + r + b) - F(r + b))
    L_r = 0.5 * (F(r + b) - F(b) + F(a + r + b) - F(a + b))
    return L_a, L_r, F(b)


def decompose(model, x, span, step=None):
    """Contextual decomposition for the phrase span = (start, stop), stop excluded.

    "scores": (3, C), the relevant part, the irrelevant part and the Dense biases' part of f(x).
    "layers": for each layer its output "y" (3, T, H) as beta, gamma, delta and, where it is recurrent,
    "ways": "h" and "c" of each direction in the same form.
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

    def lstm(p, x, order):
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
            beta = o * 0.5 * (F(beta_c) + F(beta_c + gamma_c) - F(gamma_c))
            gamma = o * 0.5 * (F(gamma_c) + F(beta_c + gamma_c) - F(beta_c))
            h[0, t], h[1, t], c[0, t], c[1, t] = beta, gamma, beta_c, gamma_c
        return {"h": h, "c": c}

    winners = None
    if model.get("readout") == "max":
        (winners,) = (seen["winner"] for seen in forward(model, x) if "winner" in seen)
    part = np.array(inside)[:, None]
    layers = run(model, np.array([x * part, x * ~part, np.zeros_like(x)]), dense, lstm, winners)
    return {"scores": layers[-1]["y"][:, -1 if step is None else step], "layers": layers}
