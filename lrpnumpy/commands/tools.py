"""Commands `methods`, `compile` and `kernel`: the table of methods, kernels compiled ahead, and their source."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import lrpnumpy as lrp
from lrpnumpy.commands.common import command

if TYPE_CHECKING:
    from lrpnumpy.commands.common import Commands


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


def add(commands: Commands) -> None:
    """Add them to the program, with their options."""
    command(commands, "methods", run_methods)
    compile_ = command(commands, "compile", run_compile)
    compile_.add_argument("--dtype", choices=("float32", "float64"), help="default: both")
    kernel = command(commands, "kernel", run_kernel)
    kernel.add_argument("cell", help="a built-in cell, such as GRU")
    kernel.add_argument("method", help="a method, such as lrp-all")
