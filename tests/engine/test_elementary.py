"""Sigmoid and tanh of kernels: as exact as their formats allow, compiled and plain, and vectorised."""

import re

import numpy as np
import pytest

from lrpnumpy.kernels import compile as compiler
from lrpnumpy.kernels.elementary import sigmoid, tanh


def sigmoids(x, y):
    for i in range(x.size):
        y[i] = sigmoid(x[i])


def tanhs(x, y):
    for i in range(x.size):
        y[i] = tanh(x[i])


def exact_sigmoid(x):
    e = np.exp(-np.abs(x.astype(np.longdouble)))
    return np.where(x < 0, e, 1) / (1 + e)


def exact_tanh(x):
    return np.tanh(x.astype(np.longdouble))


LOOPS = [pytest.param(sigmoids, exact_sigmoid, id="sigmoid"), pytest.param(tanhs, exact_tanh, id="tanh")]
DTYPES = [np.float32, np.float64]
COMPILED = {}  # not cached on disk, as that would not notice a change of elementary.py


def compiled(loop):
    """The loop, compiled as kernels are."""
    if loop not in COMPILED:
        COMPILED[loop] = compiler._numba().njit(**compiler.OPTIONS)(loop)
    return COMPILED[loop]


def run(loop, x):
    y = np.empty_like(x)
    loop(x, y)
    return y


def arguments(rng, dtype, count):
    """Numbers of every size: next to 0, where tanh(x) is x, and down to where sigmoid underflows."""
    tiny = np.log10(np.finfo(dtype).tiny)
    parts = [
        rng.uniform(-10, 10, count),
        rng.choice([-1, 1], count) * 10 ** rng.uniform(tiny, 1, count),
        rng.uniform(np.log(np.finfo(dtype).tiny), 100, count),
    ]
    return np.concatenate(parts).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("loop", "exact"), LOOPS)
def test_relative_error_is_a_few_units_in_the_last_place(loop, exact, dtype, rng):
    for run_as, count in ((loop, 500), (compiled(loop), 50_000)):
        x = arguments(rng, dtype, count)
        expected = exact(x)
        error = np.max(np.abs(run(run_as, x) - expected) / np.abs(expected))
        assert error < 3 * np.finfo(dtype).eps  # the compiled ones were measured at 1.9


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["plain", "compiled"])
def test_ends_and_nan(kind, dtype):
    x = np.array([-np.inf, -1e4, 0, 1e4, np.inf, np.nan], dtype)
    for loop, expected in ((sigmoids, [0, 0, 0.5, 1, 1, np.nan]), (tanhs, [-1, -1, 0, 1, 1, np.nan])):
        np.testing.assert_array_equal(run(loop if kind == "plain" else compiled(loop), x), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tanh_is_odd_and_sigmoids_add_up_to_one(dtype, rng):
    x = arguments(rng, dtype, 1000)
    np.testing.assert_array_equal(run(compiled(tanhs), -x), -run(compiled(tanhs), x))
    both = run(compiled(sigmoids), x) + run(compiled(sigmoids), -x)
    np.testing.assert_allclose(both, 1, rtol=0, atol=3 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("loop", "exact"), LOOPS)
def test_loop_is_vectorised(loop, exact, dtype):
    numba = compiler._numba()
    if numba.config.DISABLE_JIT or not re.search(r"\+avx2\b", numba.core.codegen.get_host_cpu_features()):
        pytest.skip("needs the JIT and AVX2")
    run(compiled(loop), np.zeros(1, dtype))
    kind = numba.from_dtype(np.dtype(dtype))[::1]
    assembly = compiled(loop).inspect_asm((kind, kind))
    division = "vdivps" if dtype == np.float32 else "vdivpd"
    assert re.search(rf"{division}\s.*%[yz]mm", assembly)  # eight or four at once, and the type not widened
    assert not re.search(r"call\S*\s+\S*(exp|tanh)", assembly)
