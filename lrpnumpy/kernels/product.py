"""Small matrix products inside kernels: C += A B with B, the weights, packed once per model."""

import numpy as np

OPTIONS = {"fastmath": {"contract"}, "error_model": "numpy"}


def pack(B: np.ndarray) -> np.ndarray:
    """Return the (K, M) matrix B in the layout that add_product reads: (panels, K, width), read-only."""
    packed = np.array(B[None], order="C")
    packed.setflags(write=False)
    return packed


def add_product(A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
    """C += A B for contiguous A (n, K) and C (n, M), and B from pack."""
    C += A @ B[0]


def overloads() -> None:
    """Tell Numba what to compile for add_product."""
    from numba.extending import overload

    @overload(add_product, jit_options=OPTIONS)
    def _add_product(A, B, C):
        def compiled(A, B, C):
            for i in range(A.shape[0]):
                a, c = A[i], C[i]
                for k in range(A.shape[1]):
                    a_k, b = a[k], B[0, k]
                    for j in range(c.size):
                        c[j] += a_k * b[j]

        return compiled
