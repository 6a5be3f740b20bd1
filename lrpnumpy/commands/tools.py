"""Commands `methods`, `compile` and `kernel`: the table of methods, kernels compiled ahead, and their source."""

from __future__ import annotations

import argparse

import lrpnumpy as lrp
from lrpnumpy.commands.common import Command, Flag


def run_methods(options: argparse.Namespace) -> None:
    """Print the table of methods."""
    print(lrp.methods())


def run_compile(options: argparse.Namespace) -> None:
    """Compile all kernels now and store them on disk, for container images and CI."""
    from lrpnumpy.layers.kernels import compile_all

    for name, seconds in compile_all(options.dtype):
        print(f"{name:<40} {seconds:6.2f} s", flush=True)


def run_kernel(options: argparse.Namespace) -> None:
    """Print the Numba source that is generated for a cell and a method."""
    from lrpnumpy.layers.kernels import text_of

    print(text_of(options.cell, options.method), end="")


DTYPE = Flag("--dtype", "compile for this type only (default: both)", ("float32", "float64"))
COMMANDS = {
    "methods": Command(run_methods),
    "compile": Command(run_compile, (DTYPE,)),
    "kernel": Command(
        run_kernel, (Flag("cell", "a built-in cell, such as GRU"), Flag("method", "a method, such as lrp-all"))
    ),
}
