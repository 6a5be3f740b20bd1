"""Kernels of recurrent cells: hand-written, generated, and the interpreter of the statement compute the same."""

import inspect
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cases import EVERY_CASE
from networks import close

import lrpnumpy as lrp
from lrpnumpy.kernels import compile as compiler
from lrpnumpy.kernels.inputs import lengths_of, states_before
from lrpnumpy.kernels.steps import CODES, activate, differentiate
from lrpnumpy.layers.recurrent import STRAIGHT, Read
from lrpnumpy.packed import Batch, Change, LookedUp, Packed
from lrpnumpy.rules import GRADIENT, RULES
from lrpnumpy.rules.deeplift import DEEPLIFT, REFERENCE
from lrpnumpy.rules.lrp import Relevance
from lrpnumpy.rules.propagation import Entry
from lrpnumpy.rules.sums import Epsilon
from lrpnumpy.statement.compiled import CompiledRun, kernels_of

D, H = 3, 4
CELLS = ["lstm", "generated lstm", "gru_after", "gru_before", "rnn", "output"]
AS_WRITTEN = () if EVERY_CASE else ("generated lstm", "output")  # `make laws` compiles these, too
LENGTHS = [[6], [5, 3], [7, 5, 5, 4, 2, 1]]


class GeneratedLSTM(lrp.LSTM):
    """The LSTM with the kernels that its statement gives."""

    KERNELS = None


class Output(lrp.Cell):
    """A cell whose output is not a state, with a diagonal and a matrix inside the step."""

    states = ("k",)

    def step(s, x, k):
        z, n = s.gates("zn", x, k)
        k = s.sum(s.product(s.sigmoid(z), k), s.diagonal("a", s.tanh(n)))
        return s.tanh(s.sum(s.matrix("C", k), s.bias("d"))), k


def make(rng, kind, activation="tanh", recurrent="sigmoid", dtype=np.float64, scale=1.0):
    """A cell with random weights."""

    def normal(*shape):
        return (scale * rng.normal(size=shape)).astype(dtype)

    if kind == "output":
        shapes = {f"{name}_{k}": (H, *more) for k in "zn" for name, more in (("U", (D,)), ("W", (H,)), ("b", ()))}
        return Output(**{name: normal(*shape) for name, shape in {**shapes, "a": (H,), "C": (H, H), "d": (H,)}.items()})
    if kind == "rnn":
        return lrp.RNN(normal(H, D), normal(H, H), normal(H), activation=activation)
    settings = {"activation": activation, "recurrent_activation": recurrent}
    if kind in ("lstm", "generated lstm"):
        made = lrp.LSTM if kind == "lstm" else GeneratedLSTM
        return made(normal(4, H, D), normal(4, H, H), normal(4, H), **settings)
    more = {"bn": normal(H)} if kind == "gru_after" else {"reset_after": False}
    return lrp.GRU(normal(3, H, D), normal(3, H, H), normal(3, H), **more, **settings)


@pytest.fixture
def as_written(monkeypatch):
    """Kernels that are not compiled run as Python, in this test alone."""
    before = {one: one.compiled for one in compiler.KERNELS}
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    for one in compiler.KERNELS:
        one.compiled = {}
    yield
    for one in compiler.KERNELS:
        one.compiled = before.get(one, {})


@pytest.fixture(autouse=True)
def _compiled(request, monkeypatch):
    """Every kernel is compiled here, whether or not it is on disk."""
    monkeypatch.setattr(compiler, "mode", "wait")
    if "kind" in request.fixturenames and request.getfixturevalue("kind") in AS_WRITTEN:
        request.getfixturevalue("as_written")


def rule(name, eps=0.01):
    return {"gradient": GRADIENT, "deeplift": DEEPLIFT}.get(name) or Relevance(RULES[name], Epsilon(eps))


def both(cell, x, order, how, every=True):
    """The direction read by kernels, and by the interpreter."""
    kernels = cell.read([x], order, how, every)
    assert isinstance(kernels.run, CompiledRun)
    return kernels, Read([x], order, cell._interpreted([x], order))


def sent(rng, cell, batch):
    R_output = rng.normal(size=(batch.R, cell.units))
    R_last = [rng.normal(size=(batch.n, cell.units)) for _ in cell.states]
    return R_output, R_last


def relevance(cell, read, messages, how, reference=None, width=D):
    batch = read.batch
    entry = Entry(np.zeros((Entry.SIZE, batch.n), cell.dtype), [])
    R_x = np.zeros((batch.R, width), cell.dtype)
    out = cell.back(read, *messages, how, [R_x], entry, reference)
    return [R_x, entry.array, *out.start, *out.states]


def agree(one, other, tol=1e-11):
    for a, b in zip(one, other, strict=True):
        close(a, b, tol, max(1, abs(b).max(initial=0)))


def test_where_things_are_stored():
    first = Batch(np.array([3, 3, 1])).first
    assert first.tolist() == [0, 3, 5, 7]
    assert lengths_of(first).tolist() == [3, 3, 1]
    assert [states_before(first, t) for t in range(4)] == [0, 3, 6, 8]


@pytest.mark.sampled
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("name", ["gradient", *RULES])
@pytest.mark.parametrize("kind", CELLS)
def test_kernels_are_the_statement(rng, kind, name, mirrored, lengths):
    cell, batch, how = make(rng, kind), Batch(np.array(lengths)), rule(name)
    x = Packed(rng.normal(size=(batch.R, D)), batch)
    kernels, stated = both(cell, x, batch.flip if mirrored else STRAIGHT, how)
    agree([kernels.output, kernels.last, *kernels.run.last], [stated.output, stated.last, *stated.run.last])
    messages = sent(rng, cell, batch)
    agree(relevance(cell, kernels, messages, how), relevance(cell, stated, messages, how))


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("kind", CELLS)
def test_mean_slopes_are_the_statement(rng, kind, same):
    """With references of their own, and with references that all begin like the longest."""
    cell, batch = make(rng, kind), Batch(np.array([5, 5, 3]))
    x, x0 = rng.normal(size=(2, batch.R, D))
    x0 = x0[:5][batch.step] if same else x0
    kernels, stated = both(cell, Packed(x, batch), STRAIGHT, DEEPLIFT)
    reference, stated0 = both(cell, Packed(x0, batch), STRAIGHT, REFERENCE)
    agree([reference.output, reference.last, reference.state(0)], [stated0.output, stated0.last, stated0.state(0)])
    messages = sent(rng, cell, batch)
    found = relevance(cell, kernels, messages, DEEPLIFT, reference)
    agree(found, relevance(cell, stated, messages, DEEPLIFT, stated0))
    value = sum((R * (a - b)).sum() for R, a, b in _outputs(cell, messages, kernels, reference))
    close((found[0] * (x - x0)).sum(), value, 1e-11, 1)


def _outputs(cell, messages, read, other):
    pairs = [(messages[0], read.output, other.output)]
    return pairs + [(messages[1][k], read.state(k), other.state(k)) for k in range(len(cell.states))]


@pytest.mark.parametrize("name", ["gradient", "all", "prop"])
@pytest.mark.parametrize("kind", CELLS)
def test_inputs_that_are_looked_up(rng, kind, name):
    cell, how = make(rng, kind), rule(name)
    embedding = lrp.Embedding(rng.normal(size=(9, D)))
    for lengths in LENGTHS:
        batch = Batch(np.array(lengths))
        ids = rng.integers(0, 9, size=batch.R)
        x = Packed(np.empty((0, D)), batch, LookedUp(ids, embedding))
        for order in (STRAIGHT, batch.flip):
            kernels, stated = both(cell, x, order, how)
            messages = sent(rng, cell, batch)
            found = relevance(cell, kernels, messages, how, width=1)
            agree(found, relevance(cell, stated, messages, how, width=1))


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("name", RULES)
def test_denominators_of_zero(rng, kind, name):
    """Weights of 0 and eps = 0: nothing is passed on, and nothing is nan."""
    cell, batch, how = make(rng, kind, scale=0.0), Batch(np.array([3, 2])), rule(name, 0.0)
    kernels, stated = both(cell, Packed(rng.normal(size=(batch.R, D)), batch), STRAIGHT, how)
    messages = sent(rng, cell, batch)
    found = relevance(cell, kernels, messages, how)
    assert all(np.isfinite(one).all() for one in found)
    agree(found, relevance(cell, stated, messages, how))


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["lstm", "gru_after"])
@pytest.mark.parametrize("name", ["gradient", "all"])
def test_single_precision(rng, kind, name):
    cell, batch, how = make(rng, kind, dtype=np.float32, scale=0.5), Batch(np.array([7, 5, 2])), rule(name)
    kernels, stated = both(cell, Packed(rng.normal(size=(batch.R, D)).astype(np.float32), batch), STRAIGHT, how)
    messages = sent(rng, cell, batch)
    found = relevance(cell, kernels, messages, how)
    assert all(one.dtype == np.float32 for one in found)
    agree(found, relevance(cell, stated, messages, how), 2e-5)  # what float32 rounds off


# The text of kernels is in the repository, so that a change of the generator shows in a diff:
# UPDATE_KERNELS=1 python -m pytest tests/engine/test_kernels.py -k text writes it.
TEXTS = Path(__file__).parents[1] / "fixtures" / "kernels"


@pytest.mark.parametrize("kind", ["lstm", "gru_after", "gru_before", "rnn"])
def test_the_text_of_generated_kernels(rng, kind):
    kernels = kernels_of(make(rng, kind).statement)
    every = dict.fromkeys([kernels.forward, *kernels.backward.values(), kernels.mean_slopes])
    found = "\n".join(inspect.getsource(one.plain) for one in every)
    path = TEXTS / f"{kind}.txt"
    if os.environ.get("UPDATE_KERNELS"):
        TEXTS.mkdir(exist_ok=True)
        path.write_text(found)
    assert path.read_text() == found


@pytest.mark.parametrize("name", CODES)
@pytest.mark.usefixtures("as_written")
def test_generated_text_has_every_activation(rng, name):
    """As it is written, without the compiler: of the cell, of its gates, and inside a loop."""
    for kind in ("generated lstm", "gru_after", "rnn"):
        for activation, recurrent in ((name, "sigmoid"), ("tanh", name)):
            cell, batch = make(rng, kind, activation, recurrent, scale=0.25), Batch(np.array([3, 2]))
            x, x0 = (Packed(rng.normal(size=(batch.R, D)), batch) for _ in range(2))
            for how in (GRADIENT, rule("all"), DEEPLIFT):
                (kernels, stated), references = both(cell, x, STRAIGHT, how), (None, None)
                if how is DEEPLIFT:
                    references = both(cell, x0, STRAIGHT, REFERENCE)
                messages = sent(rng, cell, batch)
                found = relevance(cell, kernels, messages, how, references[0])
                agree(found, relevance(cell, stated, messages, how, references[1]), 1e-9)


@pytest.mark.parametrize("name", CODES)
def test_gradients_with_every_activation(rng, name):
    """As activation of the cell and as that of its gates, by difference quotients along random directions."""
    for kind in ("lstm", "gru_after", "rnn"):
        for activation, recurrent in ((name, "sigmoid"), ("tanh", name)):
            cell, batch = make(rng, kind, activation, recurrent, scale=0.25), Batch(np.array([3, 2]))
            x = rng.normal(size=(batch.R, D)) * 0.5
            messages = sent(rng, cell, batch)
            if kind == "lstm":  # activations of the others are in the text of kernels: too many to compile
                read = cell.read([Packed(x, batch)], STRAIGHT, GRADIENT, True)
            else:
                read = Read([Packed(x, batch)], STRAIGHT, cell._interpreted([Packed(x, batch)], STRAIGHT))

            def value(x, cell=cell, batch=batch, messages=messages):
                read = Read([Packed(x, batch)], STRAIGHT, cell._interpreted([Packed(x, batch)], STRAIGHT))
                zero = SimpleNamespace(output=0, last=0, state=lambda k: 0)
                return sum((R * a).sum() for R, a, _ in _outputs(cell, messages, read, zero))

            along, h = rng.normal(size=x.shape), 1e-6
            numeric = (value(x + h * along) - value(x - h * along)) / (2 * h)
            close((relevance(cell, read, messages, GRADIENT)[0] * along).sum(), numeric, 1e-6, 1 + abs(numeric))


# -- occlusion --------------------------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("stride", [1, 0, -1])
@pytest.mark.parametrize("lengths", [[6], [7, 5, 5, 2]])
@pytest.mark.parametrize("kind", ["lstm", "gru_after", "output"])
@pytest.mark.parametrize("by_kernels", [True, False])
def test_steps_replaced_by_any_number_of_rows(rng, kind, lengths, stride, by_kernels):
    cell, batch = make(rng, kind), Batch(np.array(lengths))
    x, own_rows = rng.normal(size=(batch.R, D)), rng.normal(size=(20, D))
    columns = [
        (s, lo, hi, count, int(rng.integers(4, 16)))
        for count in range(3)
        for lo in range(max(lengths) + 1)
        for hi in range(lo, max(lengths) + 1)
        for s in range(len(lengths))
        if hi <= lengths[s]
    ]
    change = Change(*np.array(columns).T, stride, own_rows)
    kernels, stated = both(cell, Packed(x, batch), STRAIGHT, "states")
    read = kernels if by_kernels else stated
    last, done = cell.varied(read, change, 0.0, False)
    every, _ = cell.varied(read, change, 0.0, True)
    assert done.tolist() == [lengths[s] for s, *_ in columns]
    at = 0
    for one, (s, lo, hi, count, own) in zip(last, columns, strict=True):
        rows = batch.first[: lengths[s]] + s
        mine = own_rows[[own + stride * j for j in range(count)]]
        pasted = np.concatenate([x[rows[:lo]], mine, x[rows[hi:]]])
        outputs = np.zeros((1, H))
        if len(pasted):
            run = cell._interpreted([Packed(pasted, Batch(np.array([len(pasted)])))], STRAIGHT)
            outputs = np.concatenate([outputs, run.output])
        close(one, outputs[-1], 1e-12, 1)
        size = len(pasted) - lo
        np.testing.assert_allclose(every[at : at + size], outputs[lo + 1 :], rtol=0, atol=1e-12)
        at += size


def test_a_variant_that_is_back_stops(rng):
    """A network that forgets: where a replaced row is the sequence's own, the variant stops at once."""
    cell, batch = make(rng, "lstm"), Batch(np.array([30, 20]))
    cell = lrp.LSTM(cell.U, cell.W, cell.b - 3 * np.eye(4)[1][:, None])
    x = rng.normal(size=(batch.R, D))
    read = cell.read([Packed(x, batch)], STRAIGHT, "states", True)
    same = np.array([(s, t, t + 1, 1, batch.first[t] + s) for s in range(2) for t in range(batch.lengths[s])])
    out, done = cell.varied(read, Change(*same.T, 1, x), 1e-9, False)
    assert done.tolist() == [t + 1 for _, t, *_ in same]
    close(out, read.last[same[:, 0]])
    same[:, 4] = batch.last[same[:, 0]]
    loose, done = cell.varied(read, Change(*same.T, 1, x), 1e-6, False)
    exact, _ = cell.varied(read, Change(*same.T, 1, x), 0.0, False)
    assert done[0] < 25
    close(loose, exact, 1e-6, 1)


def normal_below(z):
    """The share of a normal distribution below z."""
    return math.erfc(-z / math.sqrt(2)) / 2


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


@pytest.mark.compiled
def test_a_generated_kernel_is_read_from_disk():
    """Another process finds what `lrpnumpy compile` has kept, and does not compile it again."""
    code = (
        "import numpy as np, lrpnumpy as lrp\n"
        "from lrpnumpy.kernels.kept import is_kept\n"
        "from lrpnumpy.statement.compiled import kernels_of\n"
        "kernel = kernels_of(lrp.RNN.traced()).forward\n"
        "was_kept = is_kept(kernel.plain, np.dtype('float64'))\n"
        "kernel.compile('float64')\n"
        "print(was_kept, len(kernel._alive['d']._cache_hits))\n"
    )
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    if found[0] == "False":  # it had to compile it
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert found == ["True", "1"]
