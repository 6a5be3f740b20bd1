"""Every argument of a compiled kernel is what it was compiled for: kernels themselves trust what layers pass."""

import numpy as np

from lrpnumpy.kernels.compile import Kernel, annotations


def install():
    """From now on kernels check the types of their arguments."""
    compile_one = Kernel._compile

    def compile_checked(kernel, dtype):
        entry = compile_one(kernel, dtype)

        def run(*arguments):
            for k, (one, about) in enumerate(zip(arguments, annotations(kernel.plain), strict=True)):
                check(f"{kernel.name}, argument {k}", one, about, dtype)
            entry(*arguments)

        return run

    Kernel._compile = compile_checked


def check(what, value, about, dtype):
    if isinstance(about, type):
        for name, one, inner in zip(about._fields, value, annotations(about), strict=True):
            check(f"{what}.{name}", one, inner, dtype)
    elif about[0] == "tuple":
        if len(value) != about[2]:
            raise TypeError(f"{what} must have {about[2]} arrays, got {len(value)}")
        for one in value:
            check(what, one, ("float", 2, "read" if about[1] == "R" else "write"), dtype)
    elif about[0] in ("float", "int"):
        wanted = dtype if about[0] == "float" else np.dtype(np.int64)
        is_right = isinstance(value, np.ndarray) and value.dtype == wanted and value.ndim == about[1]
        if not is_right or not value.flags.c_contiguous or (about[2] == "write" and not value.flags.writeable):
            got = f"{value.dtype}{value.shape} {value.flags}" if isinstance(value, np.ndarray) else type(value).__name__
            raise TypeError(f"{what} must be a contiguous {wanted} array with {about[1]} axes, got {got}")
    elif about[0] == "scalar" and not isinstance(value, dtype.type):
        raise TypeError(f"{what} must be {dtype}, got {type(value).__name__}")
