"""Kernels of recurrent cells, driven directly: against networks.h5, slow restatements of the formulas, and laws."""

import math
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from networks import close

from lrpnumpy.kernels import compile as compiler
from lrpnumpy.kernels import dense, gru, lstm, lstm_occlusion, rnn
from lrpnumpy.kernels.inputs import lengths_of, states_before
from lrpnumpy.kernels.product import pack
from lrpnumpy.kernels.steps import CODES, GRADIENT, NONE, activate, differentiate

RULES = {"all": 1, "prop": 2, "abs": 3, "half": 4}
CELLS = ["lstm", "gru_after", "gru_before", "rnn"]
NO_INTEGERS = np.empty(0, np.int64)

# -- the kernels, called ----------------------------------------------------------------------------------------------


def make(rng, kind, D=3, H=4, dtype=np.float64, bias=0.5):
    """A cell with random weights."""
    gates = {"lstm": 4, "rnn": 1}.get(kind, 3)
    arrays = {
        "U": rng.normal(size=(gates, H, D)),
        "W": rng.normal(size=(gates, H, H)) / H**0.5,
        "b": bias * rng.normal(size=(gates, H)),
        "bn": bias * rng.normal(size=H) if kind == "gru_after" else np.zeros(H),
    }
    return cell(kind, **{name: array.astype(dtype) for name, array in arrays.items()})


def cell(kind, U, W, b, bn, activation="tanh", recurrent="sigmoid"):
    module = {"lstm": lstm, "rnn": rnn}.get(kind, gru)
    states = 2 if kind == "lstm" else 1
    return SimpleNamespace(
        kind=kind, module=module, U=U, W=W, b=b, bn=bn, activation=activation, recurrent=recurrent, states=states
    )


def stacked(blocks):
    return np.stack([pack(np.ascontiguousarray(block)) for block in blocks])


def batch(lengths, mirrored=False):
    """`first`, `order`, and for each sequence the rows of its steps, for lengths that are longest first."""
    first = np.cumsum([0, *(sum(t < T for T in lengths) for t in range(lengths[0]))])
    rows = [first[:T] + s for s, T in enumerate(lengths)]
    order = NO_INTEGERS
    if mirrored:
        order = np.empty(first[-1], np.int64)
        for own in rows:
            order[own] = own[::-1]
    return SimpleNamespace(first=first, order=order, rows=rows, n=len(lengths), lengths=list(lengths))


def forward(cell, x, packed, rule=NONE, eps=0.0, start=None, ids=NO_INTEGERS, table=None, keep=0, all_states=True):
    """A trace of the forward kernel."""
    H = cell.U.shape[1]
    R, n, dtype, module = packed.first[-1], packed.n, cell.U.dtype, cell.module
    activation, recurrent = CODES[cell.activation], CODES[cell.recurrent]
    codes = {"lstm": [activation, recurrent, rule], "rnn": [activation, rule]}.get(
        cell.kind, [activation, recurrent, rule, int(cell.kind == "gru_after")]
    )
    start = np.zeros((cell.states, 1, H), dtype) if start is None else start
    table = cell.b.reshape(1, -1) if table is None else table
    K = np.empty(module.KINDS[rule] * R * H if rule != NONE else 0, dtype)
    Hs, kept = np.empty((n + R if all_states else n, H), dtype), np.empty(keep * R * H, dtype)
    C = np.empty(Hs.shape, dtype)
    more = {"lstm": (Hs, C, kept)}.get(cell.kind, (Hs, kept))
    weights = (stacked(cell.U.transpose(0, 2, 1)), stacked(cell.W.transpose(0, 2, 1)))
    weights += (cell.bn,) if module is gru else ()
    module.forward(
        x, packed.first, packed.order, ids, table, *weights, start, np.array(codes), dtype.type(eps), K, *more
    )
    return SimpleNamespace(cell=cell, x=x, packed=packed, ids=ids, table=table, K=K, Hs=Hs, C=C, kept=kept, rule=rule)


def backward(trace, R_last=None, R_steps=None, K=None):
    """What the backward kernel gives: R_x, ledger, R_states, R_0."""
    cell, packed = trace.cell, trace.packed
    (_, H, D), R, n, dtype = cell.U.shape, packed.first[-1], packed.n, cell.U.dtype
    some = slice(2, 3) if trace.rule == RULES["all"] and cell.kind != "rnn" else slice(None)
    found = SimpleNamespace(
        x=np.zeros((R, H if len(trace.ids) else D), dtype),
        ledger=np.zeros((4, n), dtype),
        states=np.empty((cell.states, R, H), dtype),
        start=np.empty((cell.states, n, H), dtype),
    )
    biases = (cell.b, cell.bn) if cell.module is gru else (cell.b,)
    reset = (int(cell.kind == "gru_after"),) if cell.module is gru else ()
    cell.module.backward(
        trace.K if K is None else K, packed.first, packed.order, trace.ids, trace.x, trace.table, *biases, trace.Hs,
        stacked(cell.W[some]), stacked(cell.U[some]), *reset, int(trace.rule != GRADIENT),
        np.empty((0, 0, H), dtype) if R_last is None else R_last,
        np.empty((0, H), dtype) if R_steps is None else R_steps,
        found.x, found.ledger, found.states, found.start,
    )  # fmt: skip
    return found


# -- the formulas, slowly ---------------------------------------------------------------------------------------------

F = {
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "tanh": np.tanh,
    "linear": lambda z: z,
    "relu": lambda z: np.where(z > 0, z, 0),
    "hard_sigmoid": lambda z: np.clip(0.2 * z + 0.5, 0, 1),
    "hard_sigmoid_3": lambda z: np.clip(z / 6 + 0.5, 0, 1),
    "selu": lambda z: 1.0507009873554805 * np.where(z > 0, z, 1.6732632423543772 * (np.exp(np.minimum(z, 0)) - 1)),
    "elu": lambda z: np.where(z > 0, z, np.exp(np.minimum(z, 0)) - 1),
    "softplus": lambda z: np.log(1 + np.exp(z)),
    "softsign": lambda z: z / (1 + abs(z)),
    "exponential": np.exp,
    "gelu": lambda z: z * np.vectorize(normal_below)(z),
    "gelu_tanh": lambda z: z / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (z + 0.044715 * z**3))),
    "silu": lambda z: z / (1 + np.exp(-z)),
    "leaky_relu": lambda z: np.where(z > 0, z, 0.01 * z),
    "mish": lambda z: z * np.tanh(np.log(1 + np.exp(z))),
}


def normal_below(z):
    """The share of a normal distribution below z."""
    return math.erfc(-z / math.sqrt(2)) / 2


def steps(cell, x, start):
    """Every quantity of every step of one sequence; works for complex numbers, too."""
    f, sigm = F[cell.activation], F[cell.recurrent]
    h, c = start[0], start[-1]
    found = []
    for row in x:
        s = SimpleNamespace(x=row, h_prev=h, c_prev=c)
        U_x = cell.U @ row + cell.b
        if cell.kind == "lstm":
            i, forget, g, o = (sigm, sigm, f, sigm)
            s.z = U_x + cell.W @ h
            i, forget, g, o = (a(z) for a, z in zip((sigm, sigm, f, sigm), s.z, strict=True))
            c = forget * c + i * g
            h = o * f(c)
        elif cell.kind == "rnn":
            s.Z = U_x[0] + cell.W[0] @ h
            h = f(s.Z)
        else:
            s.Z, s.R = U_x[:2] + cell.W[:2] @ h
            s.z, s.r = sigm(s.Z), sigm(s.R)
            if cell.kind == "gru_after":
                s.u = cell.W[2] @ h + cell.bn
                s.N = U_x[2] + s.r * s.u
            else:
                s.u = s.r * h
                s.N = U_x[2] + cell.W[2] @ s.u
            s.n = f(s.N)
            h = (1 - s.z) * s.n + s.z * h
        s.h, s.c = h, c
        found.append(s)
    return found


def divide(R, z, parts, bias, eps, shared):
    """The epsilon rule for z = sum of parts + bias: what each part gets, the bias, the stabiliser. parts are (J, K)."""
    size = abs(z) + eps
    over = np.where(size == 0, 0, np.where(z < 0, -1, 1) / np.where(size == 0, 1, size))
    message = parts * (over * R)[:, None]
    left = R - z * over * R
    if shared:
        message = message + ((bias * over * R + left) / parts.shape[1])[:, None]
        return message, 0, 0
    return message, (bias * over * R).sum(), left.sum()


def product(rule, R, gate, signal, eps, shared):
    """What a product rule gives to gate and signal, and what is left of R."""
    both = {
        "all": (0 * gate, 1 + 0 * signal),
        "half": (0.5 + 0 * gate, 0.5 + 0 * signal),
    }
    if rule in ("prop", "abs"):
        g, s = (gate, signal) if rule == "prop" else (abs(gate), abs(signal))
        size = abs(g + s) + eps
        over = np.where(size == 0, 0, np.where(g + s < 0, -1, 1) / np.where(size == 0, 1, size))
        both[rule] = g * over, s * over
    to_gate, to_signal = (share * R for share in both[rule])
    left = R - to_gate - to_signal
    if shared:
        return to_gate + left / 2, to_signal + left / 2, 0
    return to_gate, to_signal, left.sum()


def slow_lrp(cell, x, start, R_last, R_steps, rule, eps, shared=False):
    """LRP through one sequence of a GRU or RNN: R_x, what start gets, (biases, stabiliser)."""
    R_x, R_h = np.zeros_like(x), R_last.copy()
    biases = stabiliser = 0.0
    D = x.shape[1]
    for t, s in reversed(list(enumerate(steps(cell, x, start)))):
        R_h = R_h + R_steps[t]
        to_h = np.zeros_like(R_h)

        def linear(R, z, gate, h, bias, s=s):
            """z = U x + W h + b of one gate: x and h, of which either may not be there."""
            nonlocal biases, stabiliser
            parts = np.concatenate(
                [cell.U[gate] * s.x, np.zeros((len(z), 0)) if h is None else cell.W[gate] * h], axis=1
            )
            message, to_bias, left = divide(R, z, parts, bias, eps, shared)
            biases, stabiliser = biases + to_bias, stabiliser + left
            return message[:, :D].sum(axis=0), message[:, D:].sum(axis=0)

        def times(R, gate, signal):
            nonlocal stabiliser
            to_gate, to_signal, left = product(rule, R, gate, signal, eps, shared)
            stabiliser += left
            return to_gate, to_signal

        if cell.kind == "rnn":
            R_x[t], R_h = linear(R_h, s.Z, 0, s.h_prev, cell.b[0])
            continue
        terms = np.stack([(1 - s.z) * s.n, s.z * s.h_prev], axis=1)
        message, _, left = divide(R_h, s.h, terms, 0, eps, shared)
        stabiliser += left
        to_1z, to_n = times(message[:, 0], 1 - s.z, s.n)
        to_z, direct = times(message[:, 1], s.z, s.h_prev)
        to_h += direct
        if cell.kind == "gru_after":
            parts = np.concatenate([cell.U[2] * s.x, (s.r * s.u)[:, None]], axis=1)
            message, to_bias, left = divide(to_n, s.N, parts, cell.b[2], eps, shared)
            biases, stabiliser = biases + to_bias, stabiliser + left
            R_x[t] += message[:, :D].sum(axis=0)
            to_r, to_u = times(message[:, D], s.r, s.u)
            message, to_bias, left = divide(to_u, s.u, cell.W[2] * s.h_prev, cell.bn, eps, shared)
            biases, stabiliser = biases + to_bias, stabiliser + left
            to_h += message.sum(axis=0)
        else:
            part, to_u = linear(to_n, s.N, 2, s.u, cell.b[2])
            R_x[t] += part
            to_r, direct = times(to_u, s.r, s.h_prev)
            to_h += direct
        for gate, R, z in ((0, to_z + to_1z, s.Z), (1, to_r, s.R)):
            part, back = linear(R, z, gate, s.h_prev, cell.b[gate])
            R_x[t] += part
            to_h += back
        R_h = to_h
    return R_x, R_h, (biases, stabiliser)


def slow_gradient(cell, x, start, R_last, R_steps):
    """Derivatives of R_last . (h, c) + sum R_steps . h by x and by the start states, by complex steps."""

    def value(x, start):
        found = steps(cell, x, start)
        last = np.stack([found[-1].h, found[-1].c])[: len(R_last)]
        return (R_last * last).sum() + sum((R * s.h).sum() for R, s in zip(R_steps, found, strict=True))

    def derivative(array, at):
        out, tiny = np.zeros_like(array), 1e-30
        for index in np.ndindex(array.shape):
            moved = array.astype(complex)
            moved[index] += tiny * 1j
            out[index] = at(moved).imag / tiny
        return out

    return derivative(x, lambda moved: value(moved, start)), derivative(start, lambda moved: value(x, moved))


# -- networks.h5 ------------------------------------------------------------------------------------------------------

GOLDEN = {
    "gru_reset_after": ("gru_after", "tanh"),
    "gru_reset_before": ("gru_before", "tanh"),
    "rnn_tanh": ("rnn", "tanh"),
    "rnn_relu": ("rnn", "relu"),
}


@pytest.fixture(scope="module", params=GOLDEN)
def golden(request):
    """A network of one recurrent layer and one Dense layer, its input, and the group with its results."""
    kind, activation = GOLDEN[request.param]
    with h5py.File(Path(__file__).with_name("networks.h5")) as file:
        group = file[request.param]
        weights = {name: array[:] for name, array in group["parameters"]["rnn" if kind == "rnn" else "gru"].items()}
        weights.setdefault("bn", np.zeros(len(weights["b"][0])))
        head = {name: array[:] for name, array in group["parameters/head"].items()}
        yield SimpleNamespace(
            cell=cell(kind, **weights, activation=activation), head=head, group=group, x=group["input0"][:]
        )


def test_golden_scores_and_gradients(golden):
    packed = batch([len(golden.x)])
    trace = forward(golden.cell, golden.x, packed, GRADIENT)
    close(golden.head["V"] @ trace.Hs[-1] + golden.head["d"], golden.group["scores"][:])
    for target in (0, 2):
        R_last = golden.head["V"][target].reshape(1, 1, -1)
        close(backward(trace, R_last).x, golden.group[f"target{target}/gradient/input0"][:])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("eps", ["0", "0.001", "0.2"])
def test_golden_lrp_and_ledger(golden, rule, eps):
    trace = forward(golden.cell, golden.x, batch([len(golden.x)]), RULES[rule], float(eps))
    V, d, h = golden.head["V"], golden.head["d"], trace.Hs[-1:]
    z = h @ V.T + d
    for target in (0, 2):
        part = golden.group[f"target{target}/lrp_{rule}/eps{eps}"]
        inputs, biases, stabiliser, largest = part["ledger"][:]
        R, R_h, ledger = np.zeros_like(z), np.zeros_like(h), np.zeros((4, 1))
        R[0, target] = z[0, target]
        dense.backward(R, z, h, stacked([V]), d, float(eps), np.zeros(1, np.int64), R_h, ledger)
        assert ledger[3, 0] == max(abs(R).max(), abs(R_h).max())
        found = backward(trace, R_h[None])
        close(found.x, part["input0"][:], 1e-10, largest)
        close(found.x.sum(), inputs, 1e-10, largest)
        close(found.ledger[0] + ledger[0], [biases], 1e-10, largest)
        close(found.ledger[1] + ledger[1], [stabiliser], 1e-10, largest)
        close(found.ledger[2], [0], 1e-10, largest)


# -- packed batches ---------------------------------------------------------------------------------------------------

BATCHES = {"one": [5], "few": [7, 4, 1], "long": [60, 30], "many": [6, 6, 3, 2, 1]}


@pytest.fixture(params=BATCHES)
def lengths(request):
    return BATCHES[request.param]


def messages(rng, cell, packed):
    """A start state for each sequence, and what arrives at its last states and at every step."""
    H = cell.U.shape[1]
    states = (cell.states, packed.n, H)
    return rng.normal(size=states), rng.normal(size=states), rng.normal(size=(packed.first[-1], H))


def read(packed, x, s):
    """The inputs of sequence s in the order in which they are read."""
    own = packed.rows[s] if not len(packed.order) else packed.order[packed.rows[s]]
    return x[own], own


def test_where_things_are_stored():
    packed = batch([3, 3, 1])
    assert packed.first.tolist() == [0, 3, 5, 7]
    assert lengths_of(packed.first).tolist() == [3, 3, 1]
    assert [states_before(packed.first, t) for t in range(4)] == [0, 3, 6, 8]


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("mirrored", [False, True])
def test_states_and_gradients_of_a_batch(rng, kind, mirrored, lengths):
    if kind == "lstm" and lengths[0] > 50:
        lengths = [50, 20]
    cell, packed = make(rng, kind), batch(lengths, mirrored)
    x = rng.normal(size=(packed.first[-1], 3))
    start, R_last, R_steps = messages(rng, cell, packed)
    trace = forward(cell, x, packed, GRADIENT, start=start)
    last = forward(cell, x, packed, start=start, all_states=False)
    found = backward(trace, R_last, R_steps)
    for s in range(packed.n):
        seen, own = read(packed, x, s)
        judge = steps(cell, seen, start[:, s])
        close(trace.Hs[s], start[0, s])
        close(trace.Hs[packed.n + packed.rows[s]], [step.h for step in judge])
        close(last.Hs[s], judge[-1].h)
        if kind == "lstm":
            close(trace.C[packed.n + packed.rows[s]], [step.c for step in judge])
            close(last.C[s], judge[-1].c)
        d_x, d_start = slow_gradient(cell, seen, start[:, s], R_last[:, s], R_steps[packed.rows[s]])
        close(found.x[own], d_x)
        close(found.start[:, s], d_start)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["gru_after", "gru_before", "rnn"])
@pytest.mark.parametrize("mirrored", [False, True])
def test_lrp_of_a_batch(rng, kind, rule, mirrored, lengths):
    cell, packed, eps = make(rng, kind), batch(lengths, mirrored), 0.01
    x = rng.normal(size=(packed.first[-1], 3))
    start, R_last, R_steps = messages(rng, cell, packed)
    found = backward(forward(cell, x, packed, RULES[rule], eps, start), R_last, R_steps)
    for s in range(packed.n):
        seen, own = read(packed, x, s)
        R_x, R_0, ledger = slow_lrp(cell, seen, start[:, s], R_last[0, s], R_steps[packed.rows[s]], rule, eps)
        unit = found.ledger[3, s]
        close(found.x[own], R_x, 1e-10, unit)
        close(found.start[0, s], R_0, 1e-10, unit)
        close(found.ledger[:3, s], [*ledger, R_0.sum()], 1e-10, unit)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", CELLS)
def test_relevance_is_conserved_and_the_largest_message_seen(rng, kind, rule, lengths):
    cell, packed = make(rng, kind), batch(lengths)
    x = rng.normal(size=(packed.first[-1], 3))
    start, R_last, R_steps = messages(rng, cell, packed)
    found = backward(forward(cell, x, packed, RULES[rule], 0.01, start), R_last, R_steps)
    for s, own in enumerate(packed.rows):
        arrived = R_last[:, s].sum() + R_steps[own].sum()
        close(found.x[own].sum() + found.ledger[:3, s].sum(), arrived, 1e-11, found.ledger[3, s])
        sizes = [abs(found.x[own]).max(), abs(found.states[:, own]).max()]
        close(found.ledger[3, s], max(sizes))


@pytest.mark.parametrize("rule", ["all", "prop"])
@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("mirrored", [False, True])
def test_inputs_that_are_looked_up(rng, kind, rule, mirrored, lengths):
    """The same as multiplied: states to rounding, relevance of a word as the sum over its variables."""
    cell, packed = make(rng, kind), batch(lengths, mirrored)
    E, ids = rng.normal(size=(5, 3)), rng.integers(0, 5, packed.first[-1])
    table = np.concatenate([E @ U.T + b for U, b in zip(cell.U, cell.b, strict=True)], axis=1)
    start, R_last, R_steps = messages(rng, cell, packed)
    ours = forward(cell, np.empty((0, 0)), packed, RULES[rule], 0.01, start, ids, table)
    theirs = forward(cell, E[ids], packed, RULES[rule], 0.01, start)
    close(ours.Hs, theirs.Hs)
    ours, theirs = backward(ours, R_last, R_steps), backward(theirs, R_last, R_steps)
    unit = theirs.ledger[3].max()
    close(ours.x.sum(axis=1), theirs.x.sum(axis=1), 1e-10, unit)
    close(ours.ledger[:3], theirs.ledger[:3], 1e-10, unit)
    for s, own in enumerate(packed.rows):
        sizes = [abs(ours.x[own].sum(axis=1)).max(), abs(ours.states[:, own]).max()]
        close(ours.ledger[3, s], max(sizes), 1e-10)


@pytest.mark.parametrize("kind", CELLS)
def test_what_is_kept(rng, kind):
    cell, packed = make(rng, kind), batch([4, 2, 2, 1])
    x, H, n = rng.normal(size=(packed.first[-1], 3)), 4, packed.n
    gates = len(cell.U)
    kinds = {"lstm": 9, "rnn": 2}.get(kind, 7)
    start = rng.normal(size=(cell.states, 1, H))
    projected, every = (forward(cell, x, packed, start=start, keep=keep) for keep in (gates, kinds))
    for s, own in enumerate(packed.rows):
        for t, step in enumerate(steps(cell, x[own], start[:, 0])):
            row, running = packed.first[t], packed.first[t + 1] - packed.first[t]

            def at(trace, keep, row=row, running=running, s=s):
                return trace.kept[keep * row * H : keep * (row + running) * H].reshape(keep, running, H)[:, s]

            close(at(projected, gates), cell.U @ step.x + cell.b)
            if kind == "lstm":
                expected = [*step.z, *map(F["sigmoid"], step.z[:2]), np.tanh(step.z[2]), F["sigmoid"](step.z[3])]
                expected += [np.tanh(step.c)]
            elif kind == "rnn":
                expected = [step.Z, step.h]
            else:
                expected = [step.Z, step.R, step.N, step.z, step.r, step.n, step.u]
            close(at(every, kinds), expected)
    assert n == 4


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("rule", RULES)
def test_denominators_of_zero(rng, kind, rule):
    """Without biases, stabiliser and input every sum is 0: nothing is passed on, and nothing is NaN."""
    cell = make(rng, kind, bias=0.0)
    packed = batch([3, 2])
    found = backward(forward(cell, np.zeros((5, 3)), packed, RULES[rule]), rng.normal(size=(cell.states, 2, 4)))
    assert not found.x.any()
    assert np.isfinite(found.ledger).all() and np.isfinite(found.start).all()
    assert not found.ledger[0].any()


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("rule", [*RULES, "gradient"])
def test_single_precision(rng, kind, rule):
    double, packed = make(rng, kind), batch([6, 5, 5, 2])
    single = SimpleNamespace(**vars(double))
    for name in ("U", "W", "b", "bn"):
        setattr(single, name, getattr(double, name).astype(np.float32))
    x = rng.normal(size=(packed.first[-1], 3))
    _, R_last, _ = messages(rng, double, packed)
    code = GRADIENT if rule == "gradient" else RULES[rule]
    ours = backward(forward(single, x.astype(np.float32), packed, code, 0.1), R_last.astype(np.float32))
    theirs = backward(forward(double, x, packed, code, 0.1), R_last)
    assert ours.x.dtype == np.float32
    close(ours.x, theirs.x, 1e-4, max(theirs.ledger[3].max(), abs(theirs.x).max()))


# -- biases and stabilisers that are shared by the inputs --------------------------------------------------------------


def shared_coefficients(cell, trace, rule, eps):
    """K of KINDS_SHARED kinds from what the forward pass keeps, as the docstrings of gru.py and rnn.py define them."""
    packed, (_, H, D) = trace.packed, cell.U.shape
    kinds, keep = cell.module.KINDS_SHARED, 2 if cell.kind == "rnn" else 7
    K = np.full(kinds * packed.first[-1] * H, np.nan)

    def over(z):
        size = abs(z) + eps
        return np.where(size == 0, 0, np.where(z < 0, -1, 1) / np.where(size == 0, 1, size))

    def pair(gate, signal):
        to_gate, to_signal, _ = product(rule, np.ones_like(gate), gate, signal, eps, True)
        return to_gate, to_signal

    def halves(one, two, total):
        """Shares of the two terms of a sum."""
        left = 1 - total * over(total)
        return one * over(total) + left / 2, two * over(total) + left / 2

    for t in range(len(packed.first) - 1):
        row, end = packed.first[t], packed.first[t + 1]
        kept = trace.kept[keep * row * H : keep * end * H].reshape(keep, -1, H)
        k = K[kinds * row * H : kinds * end * H].reshape(kinds, -1, H)
        at = states_before(packed.first, t)
        h_prev, h = trace.Hs[at : at + end - row], trace.Hs[packed.n + row : packed.n + end]

        def left(z, b):
            """What a sum gives to all its inputs alike: its bias and its stabiliser."""
            return b * over(z) + 1 - z * over(z)

        if cell.kind == "rnn":
            k[0], k[1], k[2] = over(kept[0]), np.nan, left(kept[0], cell.b[0]) / (D + H)
            continue
        Z, R, N, z, r, n, u = kept
        B, A = halves((1 - z) * n, z * h_prev, h)
        (to_1z, to_n), (to_z, direct) = pair(1 - z, n), pair(z, h_prev)
        to_Z, to_N = B * to_1z + A * to_z, B * to_n
        from_Z = to_Z * left(Z, cell.b[0]) / (D + H)
        k[0], k[2], k[4] = to_Z * over(Z), to_N * over(N), A * direct
        if cell.kind == "gru_after":
            each = to_N * left(N, cell.b[2]) / (D + 1)
            to_both = to_N * over(N) * r * u + each
            to_r, to_u = (share * to_both for share in pair(r, u))
            k[1], k[3] = to_r * over(R), to_u * over(u)
            from_R = to_r * left(R, cell.b[1]) / (D + H)
            k[7] = from_Z + from_R + each
            k[8] = from_Z + from_R + to_u * left(u, cell.bn) / H
        else:
            k[9] = to_N * left(N, cell.b[2]) / (D + H)
            to_r, k[3] = pair(r, h_prev)
            k[1], k[10], k[11] = to_r * over(R), u, to_r * left(R, cell.b[1]) / (D + H)
            k[7], k[8] = from_Z + k[9], from_Z
    return K


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["gru_after", "gru_before", "rnn"])
@pytest.mark.parametrize("mirrored", [False, True])
def test_shared_biases(rng, kind, rule, mirrored, lengths):
    cell, packed, eps = make(rng, kind), batch(lengths, mirrored), 0.1
    x = rng.normal(size=(packed.first[-1], 3))
    start, R_last, R_steps = messages(rng, cell, packed)
    trace = forward(cell, x, packed, start=start, keep=2 if kind == "rnn" else 7)
    found = backward(trace, R_last, R_steps, K=shared_coefficients(cell, trace, rule, eps))
    for s in range(packed.n):
        seen, own = read(packed, x, s)
        R_x, R_0, _ = slow_lrp(cell, seen, start[:, s], R_last[0, s], R_steps[packed.rows[s]], rule, eps, shared=True)
        unit = found.ledger[3, s]
        close(found.x[own], R_x, 1e-10, unit)
        close(found.start[0, s], R_0, 1e-10, unit)
        arrived = R_last[0, s].sum() + R_steps[packed.rows[s]].sum()
        close(found.x[own].sum() + found.ledger[2, s], arrived, 1e-10, unit)
        assert not found.ledger[:2].any()


# -- activations ------------------------------------------------------------------------------------------------------

POINTS = np.array([-30.0, -6.5, -3.2, -2.51, -2.4, -1.0, -0.3, -1e-3, 1e-3, 0.2, 0.9, 1.7, 2.4, 2.51, 2.9, 3.1, 5.0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CODES)
def test_activations_and_their_slopes(name, dtype):
    """Plain and compiled, against the formula and its difference quotient."""
    z = POINTS.astype(dtype)
    exact = F[name](z.astype(float))
    h = 1e-5
    slope = (F[name](z.astype(float) + h) - F[name](z.astype(float) - h)) / (2 * h)
    for run in (SimpleNamespace(activate=activate, differentiate=differentiate), compiled_activations()):
        y, dy = np.empty_like(z), np.empty_like(z)
        run.activate(z, y, CODES[name])
        run.differentiate(z, y, dy, CODES[name])
        tol = 1e-14 if dtype == np.float64 else 1e-6
        np.testing.assert_allclose(y, exact, rtol=tol, atol=tol)
        np.testing.assert_allclose(dy, slope, rtol=1e-6, atol=1e-6)  # of a difference quotient


COMPILED = []


def compiled_activations():
    """Called from a compiled function, as in a kernel; not cached on disk."""
    if not COMPILED:
        numba = compiler._numba()

        def one(z, y, code):
            activate(z, y, code)

        def two(z, y, dy, code):
            differentiate(z, y, dy, code)

        functions = (numba.njit(**compiler.OPTIONS)(function) for function in (one, two))
        COMPILED.append(SimpleNamespace(**dict(zip(("activate", "differentiate"), functions, strict=True))))
    return COMPILED[0]


def test_slopes_at_kinks_and_ends():
    def slope(name, *z):
        y, dy = np.empty(len(z)), np.empty(len(z))
        activate(np.array(z), y, CODES[name])
        differentiate(np.array(z), y, dy, CODES[name])
        return dy.tolist()

    assert slope("hard_sigmoid", -2.5, 2.5, 2.4) == [0, 0, 0.2]
    assert slope("hard_sigmoid_3", -3.0, 3.0) == [0, 0]
    assert slope("relu", 0.0, -0.0, 1e-300) == [0, 0, 1]
    assert slope("leaky_relu", 0.0, 1e-300) == [0.01, 1]
    for name in CODES:
        z, y = np.array([-800.0, 800.0, np.nan]), np.empty(3)
        activate(z, y, CODES[name])
        assert np.isnan(y[2]) and np.isfinite(y[0]), name


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("name", CODES)
def test_gradients_with_every_activation(rng, kind, name):
    """As activation of the cell and as that of its gates, by difference quotients along random directions."""
    packed = batch([3, 2])
    for activation, recurrent in ((name, "sigmoid"), ("tanh", name)):
        cell = make(rng, kind)
        cell.U, cell.W = cell.U / 4, cell.W / 4  # so that exp(exp(…)) stays small
        cell.activation, cell.recurrent = activation, recurrent
        x = rng.normal(size=(packed.first[-1], 3)) * 0.5
        start, R_last, R_steps = messages(rng, cell, packed)
        start /= 10
        found = backward(forward(cell, x, packed, GRADIENT, start=start), R_last, R_steps)

        def value(x, cell=cell, start=start, R_last=R_last, R_steps=R_steps):
            trace = forward(cell, x, packed, start=start)
            ends = [packed.n + own[-1] for own in packed.rows]
            last = np.stack([trace.Hs[ends], trace.C[ends]])[: cell.states]
            return (R_last * last).sum() + (R_steps * trace.Hs[packed.n :]).sum()

        along, h = rng.normal(size=x.shape), 1e-6
        numeric = (value(x + h * along) - value(x - h * along)) / (2 * h)
        close((found.x * along).sum(), numeric, 1e-6, 1 + abs(numeric))


# -- occlusion of the LSTM --------------------------------------------------------------------------------------------


def occluded(trace, columns, Q, stride, tol, keep):
    """Outputs of the occlusion kernel and `done`, for variants that are given as (owner, lo, hi, count, own)."""
    cell, packed = trace.cell, trace.packed
    owner, lo, hi, count, own = np.array(columns, np.int64).T
    rows = count + np.array(packed.lengths)[owner] - hi
    kept_at = np.cumsum(rows) - rows
    out, done = np.zeros((rows.sum() if keep else len(owner), cell.U.shape[1])), np.empty(len(owner), np.int64)
    lstm_occlusion.run(
        trace.kept, packed.first, trace.Hs, trace.C, stacked(cell.W.transpose(0, 2, 1)),
        np.array([CODES[cell.activation], CODES[cell.recurrent]]), np.stack([owner, lo, hi, count, own, kept_at]),
        Q, stride, tol, int(keep), out, done,
    )  # fmt: skip
    return (np.split(out, kept_at[1:]) if keep else out), done


@pytest.mark.parametrize("stride", [1, 0, -1])
@pytest.mark.parametrize("lengths", [[6], [7, 5, 5, 2]])
def test_steps_replaced_by_any_number_of_rows(rng, lengths, stride):
    cell, packed = make(rng, "lstm"), batch(lengths)
    x, own_rows = rng.normal(size=(packed.first[-1], 3)), rng.normal(size=(20, 3))
    trace = forward(cell, x, packed, keep=4)
    Q = np.concatenate([own_rows @ U.T + b for U, b in zip(cell.U, cell.b, strict=True)], axis=1)
    start = np.zeros((2, 4))
    columns = [
        (s, lo, hi, count, int(rng.integers(4, 16)))
        for count in range(4)
        for lo in range(max(lengths) + 1)
        for hi in range(lo, max(lengths) + 1)
        for s in range(len(lengths))
        if hi <= lengths[s]
    ]
    every, done = occluded(trace, columns, Q, stride, 0.0, True)
    last, _ = occluded(trace, columns, Q, stride, 0.0, False)
    assert done.tolist() == [lengths[s] for s, *_ in columns]
    for rows, one, (s, lo, hi, count, own) in zip(every, last, columns, strict=True):
        mine = own_rows[[own + stride * j for j in range(count)]]
        pasted = np.concatenate([x[packed.rows[s][:lo]], mine, x[packed.rows[s][hi:]]])
        states = [start[0], *(step.h for step in steps(cell, pasted, start))]
        close(one, states[-1], 1e-12, 1)
        np.testing.assert_allclose(rows, np.reshape(states[lo + 1 :], (-1, 4)), rtol=0, atol=1e-12)


def test_a_variant_that_is_back_stops(rng):
    """A network that forgets: where a replaced row is the sequence's own, the variant stops at once."""
    cell, packed = make(rng, "lstm"), batch([30, 20])
    cell.b[1] -= 3
    x = rng.normal(size=(packed.first[-1], 3))
    trace = forward(cell, x, packed, keep=4)
    Q = np.concatenate([x @ U.T + b for U, b in zip(cell.U, cell.b, strict=True)], axis=1)
    same = [(s, t, t + 1, 1, packed.rows[s][t]) for s in range(2) for t in range(packed.lengths[s])]
    out, done = occluded(trace, same, Q, 1, 1e-9, False)
    assert done.tolist() == [t + 1 for _, t, *_ in same]
    close(out, [trace.Hs[packed.n + packed.rows[s][-1]] for s, *_ in same])
    other = [(s, lo, hi, count, packed.rows[s][-1]) for s, lo, hi, count, _ in same]
    loose, done = occluded(trace, other, Q, 1, 1e-6, False)
    exact, _ = occluded(trace, other, Q, 1, 0.0, False)
    assert done[0] < 25
    close(loose, exact, 1e-6, 1)
