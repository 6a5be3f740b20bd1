"""Kernels on whole arrays, which serve until kernels are compiled: as the compiled ones, but for rounding."""

import importlib
import warnings

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.kernels import compile as compiler
from lrpnumpy.kernels import whole
from lrpnumpy.methods import COSTLY, METHODS

pytestmark = pytest.mark.compiled

# A product of K terms is rounded K times at most, there are some hundred products on the way, and what is rounded is
# of the size of the largest relevance or smaller: 2e-6 and 3e-15 are the largest differences of these networks.
ROUNDING = {"float32": 1e-5, "float64": 1e-13}
# LRP divides by |z| + eps, so that what rounding does to z is amplified by 1 / eps, a thousand by default.
SMOOTH = {"eps": 1.0}
KINDS = ["lrp-all", "lrp-prop", "lrp-abs", "lrp-half", "gradient", "gradient-x-input", "deeplift", "cd", "occlusion-f"]


def network(seed):
    """A network of one of the cells in one or two directions, with any activations, and sequences for it."""
    rng = np.random.default_rng(seed)
    cell, D, H = nets.CELLS[seed % 4], int(rng.integers(1, 12)), int(rng.integers(2, 24))
    names = sorted(set(ACTIVATIONS) - {"exponential"})
    kind = {"activation": "tanh" if seed % 2 else names[seed % len(names)], "size": 0.5}
    layer = nets.two_way(rng, D, H, cells=(cell, cell), **kind) if seed % 3 else cell(rng, D, H, **kind)
    model = lrp.Model([layer, nets.dense(rng, layer.outputs, 3)], readout=("last", "max", "mean")[seed % 3])
    return model, [rng.normal(size=(T, D)) for T in rng.integers(1, 25, 3)]


def found(model, xs, method, **options):
    xs = [x.astype(model.dtype) for x in xs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrp.RelevanceWarning)
        all_of_them = lrp.explain_all(model, xs, method, 0, threads=1, **options)
    return np.concatenate([one.relevance.astype(np.float64) for one in all_of_them])


@pytest.fixture
def on_arrays(monkeypatch):
    """A function that has others run without compiled kernels."""

    def run(function, *arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(compiler, "mode", "never")
            for one in compiler.KERNELS:
                patch.setattr(one, "compiled", {})
            return function(*arguments, **options)

    return run


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("method", KINDS)
def test_only_rounding_differs(method, dtype, on_arrays):
    options = SMOOTH if method.startswith("lrp") else {}
    # At a kink or a maximum DeepLIFT divides by a difference: it gets networks with tanh and without a maximum.
    for seed in (3, 5, 9, 11, 15, 17, 21, 23) if method == "deeplift" else range(16):
        model, xs = network(seed)
        model = model.astype(dtype)
        want = found(model, xs, method, **options)
        nets.close(on_arrays(found, model, xs, method, **options), want, ROUNDING[dtype])


@pytest.mark.parametrize("method", [name for name in KINDS if name.startswith("lrp")])
def test_with_a_small_eps_they_differ_by_what_compiled_kernels_round_off(method, on_arrays):
    off = []  # of the compiled kernels and of whole arrays, in float32
    for seed in range(16):
        model, xs = network(seed)
        single, xs = model.astype("float32"), [x.astype(np.float32) for x in xs]
        truth = found(single.astype("float64"), xs, method)
        pair = np.array([found(single, xs, method), on_arrays(found, single, xs, method)])
        off.append(abs(pair - truth).max(axis=1) / abs(truth).max())
    compiled, arrays = np.max(off, axis=0)
    assert arrays < 2e-6  # computed in float64; what is stored between kernels is float32
    assert 2e-6 < compiled < 5e-4
    # And in float64 the same amplification leaves twelve digits.
    model, xs = network(1)
    nets.close(on_arrays(found, model, xs, method), found(model, xs, method), 1e-11)


def test_every_other_method_runs_on_arrays(on_arrays):
    model, xs = network(5)
    for method in sorted(set(METHODS) - set(KINDS) - set(COSTLY)):
        nets.close(on_arrays(found, model, xs, method), found(model, xs, method), 1e-10)


@pytest.mark.parametrize("padding", ["valid", "same", "causal"])  # rows of padding are beyond the arrays
def test_convolutions_and_pooling_run_on_arrays(padding, on_arrays):
    rng = np.random.default_rng(0)
    K, b = rng.normal(size=(4, 3, 3)), rng.normal(size=4)
    layers = [lrp.Conv1D(K, b, activation="relu", padding=padding), lrp.MaxPool1D(2)]
    model = lrp.Model([*layers, nets.lstm(rng, 4, 3), nets.dense(rng, 3, 2)])
    xs = [rng.normal(size=(T, 3)) for T in (9, 12)]
    for method in ("lrp-all", "gradient", "deeplift"):
        nets.close(on_arrays(found, model, xs, method), found(model, xs, method), 1e-12)


# ---- which loops are rewritten ----


def every_kind(x, y, at, z, out, total):
    top = x.dtype.type(0)
    for q in range(x.size):
        size = abs(x[q])
        y[q] = size if 0 < size < 2 and not size > 1 else max(x[q], z[q + 1])
        out[at, q] += y[q]
        total[0] += size
        top = max(top, size)
    for q in range(2, x.size):
        y[q] *= z[q // 2]
    total[1] = top


def from_round_to_round(x, y):
    for q in range(1, x.size):
        x[q] += x[q - 1]
    last = x[0]
    for q in range(x.size):
        y[q] = last
        last = x[q]
    total = x[0]
    for q in range(x.size):
        total += x[q]
        y[q] -= total
    for q in range(x.size):
        y[q // 2] += x[q]


@pytest.mark.parametrize("function", [every_kind, from_round_to_round])
def test_a_rewritten_function_does_what_it_says(function):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=9), np.zeros(9), 1, rng.normal(size=10), np.zeros((2, 9)), np.zeros(2)]
    mine, wanted = ([np.array(a) if np.ndim(a) else a for a in arrays] for _ in range(2))
    count = function.__code__.co_argcount
    whole.whole(function)(*mine[:count])
    function(*wanted[:count])
    for a, b in zip(mine, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-15, atol=1e-15)


def test_loops_over_the_numbers_of_a_step_are_rewritten():
    for name in compiler.MODULES:
        importlib.import_module(name)
    rewritten = whole.whole(every_kind).__code__
    assert "range" not in rewritten.co_names
    for one in compiler.KERNELS:
        changed = whole.whole(one.plain)
        assert changed is not one.plain and changed.__code__.co_filename == one.plain.__code__.co_filename
