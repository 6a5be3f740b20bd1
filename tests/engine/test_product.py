"""The matrix product of kernels: right for every shape, within its bounds, and row by row the same."""

import numpy as np
import pytest

from lrpnumpy.kernels import compile as compiler
from lrpnumpy.kernels.product import add_product, pack, publish

DTYPES = [np.float32, np.float64]
ROWS = [*range(14), 48]
WIDTHS = [1, 2, 5, 7, 8, 9, 15, 16, 17, 33, 60, 64, 70]  # around 8 and 16, those of panels
COMPILED = []  # not cached on disk, as that would not notice a change of product.py


def product(A, B, C):
    add_product(A, B, C)


def compiled(A, B, C):
    publish(A.dtype)
    if not COMPILED:
        COMPILED.append(compiler._numba().njit(**compiler.OPTIONS)(product))
    COMPILED[0](A, B, C)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("run", [product, compiled])
@pytest.mark.parametrize("K", [0, 1, 2, 7, 60])
def test_adds_the_product_and_touches_nothing_else(run, dtype, K, rng):
    for n in ROWS:
        for M in WIDTHS:
            A, B, before = (rng.normal(size=shape).astype(dtype) for shape in ((n, K), (K, M), (n, M)))
            memory = np.full(n * M + 64, 7, dtype)
            C = memory[32:-32].reshape(n, M)
            C[:] = before
            run(A, pack(B), C)
            expected = before + A.astype(float) @ B.astype(float)
            # Each of K products and sums is rounded once, and relative to a sum of magnitude sqrt(K) or so.
            np.testing.assert_allclose(C, expected, rtol=0, atol=40 * (K + 1) ** 0.5 * np.finfo(dtype).eps)
            assert (memory[:32] == 7).all() and (memory[-32:] == 7).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_has_the_same_bits_alone_and_among_others(dtype, rng):
    if compiler._numba().config.DISABLE_JIT:
        pytest.skip("NumPy's product sums in another order for one row")
    for K, M in ((60, 60), (13, 5), (2, 1), (9, 128)):
        A, B = rng.normal(size=(48, K)).astype(dtype), pack(rng.normal(size=(K, M)).astype(dtype))
        alone = np.zeros((48, M), dtype)
        for i in range(48):
            compiled(A[i : i + 1], B, alone[i : i + 1])
        for n in ROWS:
            C = np.zeros((n, M), dtype)
            compiled(A[:n], B, C)
            np.testing.assert_array_equal(C, alone[:n])


def test_weights_that_cannot_be_written_and_rows_that_can_or_cannot(rng):
    A, B = rng.normal(size=(3, 4)), rng.normal(size=(4, 20))
    assert not pack(B).flags.writeable
    frozen = A.copy()
    frozen.setflags(write=False)
    one, other = np.zeros((3, 20)), np.zeros((3, 20))
    compiled(A, pack(B), one)
    compiled(frozen, pack(B), other)
    np.testing.assert_array_equal(one, other)
