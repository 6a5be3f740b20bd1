"""Annotations of kernel arguments: what Numba compiles them for.

Arrays are C-contiguous. R and I: floats and integers that are only read; W and J: that are written to. The digit is
the number of axes; R2x3 is a tuple of three arrays R2. Scalar has the arrays' dtype. A NamedTuple whose fields are
annotated with these is one argument.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

R1, R2, R3, R4 = (Annotated[np.ndarray, "float", n, "read"] for n in (1, 2, 3, 4))
W1, W2, W3 = (Annotated[np.ndarray, "float", n, "write"] for n in (1, 2, 3))
I1, I2 = (Annotated[np.ndarray, "int", n, "read"] for n in (1, 2))
J1 = Annotated[np.ndarray, "int", 1, "write"]
Scalar = Annotated[Any, "scalar"]
Int = Annotated[int, "integer"]
MOST_STATES = 8
TUPLES = {  # R2x1 to R2x9, W2x1 to W2x9
    f"{letter}2x{count}": Annotated[tuple, "tuple", letter, count]
    for letter in "RW"
    for count in range(1, MOST_STATES + 2)
}
