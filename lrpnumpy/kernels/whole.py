"""Kernels that are not compiled yet: their loops over numbers, run by NumPy on whole arrays.

Kernels are written as loops over single numbers, which is what a compiler wants, and which Python runs a hundred times
slower than NumPy. `whole` rewrites the source of a function: a loop whose rounds do not depend on each other,

    for q in range(m):
        over, lost = inverse(c[q], eps)
        K[q] = f[q] * over if f[q] > zero else zero
        total += lost

becomes

    _lo, _hi = 0, m
    if _lo < _hi:
        over, lost = inverse(c[_lo:_hi], eps)
        K[_lo:_hi] = _where(f[_lo:_hi] > zero, f[_lo:_hi] * over, zero)
        total += _sum(lost)

and every other line stays as it is. So there is one text of each kernel, and three ways to run it: compiled, on whole
arrays, and (with NUMBA_DISABLE_JIT=1) as it is written, where Python checks every index.
"""

from __future__ import annotations

import ast
import copy
import inspect
import math
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, reduce
from types import FunctionType
from typing import Any

import numpy as np

# Functions of single numbers that loops may call: they are rewritten to take arrays.
OF_NUMBERS = {
    "sigmoid", "tanh", "twice_cosh", "difference", "inverse", "share", "rare", "rare_slope", "softplus", "exponential",
    "gelu_argument",
}  # fmt: skip


class _Math:
    """The module math, for arrays."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(math, name)
        return getattr(np, name, None) or np.vectorize(found, otypes=[np.float64]) if callable(found) else found


TOOLS: dict[str, Any] = {
    "_abs": np.abs,
    "_and": np.logical_and,
    "_arange": np.arange,
    "_copy": np.array,
    "_float": np.float64,
    "_math": _Math(),
    "_max": lambda a, b: np.where(b > a, b, a),  # as Python has it: what NaN becomes depends on the order
    "_min": lambda a, b: np.where(b < a, b, a),
    "_not": np.logical_not,
    "_or": np.logical_or,
    "_sum": np.sum,
    "_top": lambda top, values: np.fmax.reduce(values, initial=top),
    "_where": np.where,
}


def whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel's function with its loops over numbers run by NumPy; itself where there is no source to rewrite."""
    with _lock:
        for _ in range(9):
            with suppress(SystemError):  # Python 3.11: another thread, such as Numba's, has parsed something meanwhile
                return _functions(function.__module__).get(function.__name__, function)
    return function


_lock = threading.RLock()  # Python 3.11 parses one thing at a time, or fails
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@cache
def _functions(name: str) -> dict[str, Any]:
    """All functions of a module, rewritten, and calling rewritten ones of other modules of kernels."""
    module = sys.modules[name]
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError):  # installed without sources
        return {}
    names = {**vars(module), **TOOLS}
    for key, value in vars(module).items():
        if isinstance(value, FunctionType) and value.__module__ != name and value.__module__.startswith(__package__):
            names[key] = _functions(value.__module__).get(value.__name__, value)
    functions = [part for part in tree.body if isinstance(part, ast.FunctionDef)]
    for part in functions:
        part.decorator_list = []
        (_Numbers() if part.name in OF_NUMBERS else _Loops()).visit(part)
    rewritten = ast.fix_missing_locations(ast.Module(list(functions), []))
    exec(compile(rewritten, module.__file__ or name, "exec"), names)
    return {part.name: names[part.name] for part in functions}


class _Stays(Exception):
    """A loop that must stay as it is."""


class _Loops(ast.NodeTransformer):
    """Rewrites the innermost loops of a function where their rounds do not depend on each other."""

    def visit_For(self, loop: ast.For) -> Any:
        try:
            return _rewritten(loop)
        except _Stays:
            return self.generic_visit(loop)


def _rewritten(loop: ast.For) -> list[ast.stmt]:
    match loop:
        case ast.For(ast.Name(variable), ast.Call(ast.Name("range"), [*bounds])) if len(bounds) < 3:
            numbers = _Numbers(variable, _written(loop))
        case _:
            raise _Stays
    low, high = [ast.Constant(0), *bounds][-2:]
    to = ast.Tuple([ast.Name("_lo", ast.Store()), ast.Name("_hi", ast.Store())], ast.Store())
    body = [numbers.statement(copy.deepcopy(part)) for part in loop.body]
    is_run = ast.Compare(_name("_lo"), [ast.Lt()], [_name("_hi")])  # a loop of no rounds looks at nothing
    both = (ast.Assign([to], ast.Tuple([low, high], ast.Load())), ast.If(is_run, body, []))
    return [ast.copy_location(part, loop) for part in both]


def _written(loop: ast.For) -> dict[str, str]:
    """The arrays that a loop writes to, and at which index."""
    parts = [node for node in ast.walk(loop) if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)]
    return {ast.unparse(node.value): ast.unparse(node.slice) for node in parts}


class _Numbers(ast.NodeTransformer):
    """Rewrites what is said of one number so that it holds for an array: a function's body, or that of a loop."""

    def __init__(self, variable: str = "", written: Mapping[str, str] | None = None) -> None:
        self.variable, self.written = variable, written or {}
        self.made: set[str] = set()  # names that each round makes
        self.read: set[str] = set()  # names that were read before
        self.totals: set[str] = set()  # what all rounds add to: nobody may read it in between

    # -- lines of a loop

    def statement(self, line: ast.stmt) -> ast.stmt:
        """A line for all rounds at once."""
        match line:
            case ast.Assign([target], ast.Call(ast.Name("max"), [before, value])) if ast.unparse(before) == ast.unparse(
                target
            ) and self._is_total(target, value):
                return ast.Assign([target], _call("_top", before, self.visit(value)))
            case ast.AugAssign(target, ast.Add(), value) if self._is_total(target, value):
                return ast.AugAssign(target, ast.Add(), _call("_sum", self.visit(value)))
            case ast.AugAssign(ast.Subscript(array, index), operator, value) if place := self._place(index):
                return ast.AugAssign(ast.Subscript(array, place, ast.Store()), operator, self.visit(value))
            case ast.Assign([target], value):
                value = self.visit(value)
                if isinstance(target, ast.Name) and isinstance(value, ast.Subscript):
                    value = _call("_copy", value)  # the array may be written to while the name is in use
                return ast.Assign([self._target(target)], value)
        raise _Stays

    def _is_total(self, target: ast.expr, value: ast.expr) -> bool:
        """Whether each round adds something to the same place, which none of them reads."""
        name = ast.unparse(target)
        if self._varies(target) or not self._varies(value) or name in self.read:
            return False
        self.totals.add(name)
        return True

    def _target(self, target: ast.expr) -> ast.expr:
        match target:
            case ast.Tuple(parts):
                return ast.Tuple([self._target(part) for part in parts], ast.Store())
            case ast.Name(name) if name not in self.read | self.totals:
                self.made.add(name)
                return target
            case ast.Subscript() if self._varies(target.slice):
                return self.visit(target)
        raise _Stays

    def _varies(self, part: ast.AST) -> bool:
        """Whether it is different in each round."""
        names = {self.variable} | self.made
        return any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(part))

    # -- expressions

    def visit_Name(self, name: ast.Name) -> Any:
        if name.id in self.totals:
            raise _Stays
        if name.id == self.variable:
            return _call("_arange", *map(_name, BOUNDS))
        if name.id not in self.made:
            self.read.add(name.id)
        return name

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if not self.variable:
            return node
        text = ast.unparse(node)
        if text in self.totals or self.written.get(ast.unparse(node.value)) not in (None, ast.unparse(node.slice)):
            raise _Stays  # it reads what another round writes
        self.read.add(text)
        place = self._place(node.slice)
        return ast.Subscript(node.value, self.visit(node.slice) if place is None else place, node.ctx)

    def _place(self, index: ast.expr) -> ast.expr | None:
        """[q + a], or [b, q + a], as a slice; None where the index is something else."""
        before = index.elts[:-1] if isinstance(index, ast.Tuple) else []
        last = index.elts[-1] if isinstance(index, ast.Tuple) else index
        if not self._is_shift(last) or any(map(self._varies, before)):
            return None
        ends = [ast.parse(_with(last, self.variable, bound), mode="eval").body for bound in BOUNDS]
        cut = ast.Slice(*ends)
        return ast.Tuple([*before, cut], ast.Load()) if before else cut

    def _is_shift(self, index: ast.expr) -> bool:
        """Whether it is the loop's variable, plus what is the same in all rounds."""
        match index:
            case ast.Name(name):
                return name == self.variable
            case ast.BinOp(left, ast.Add(), right):
                return any(self._is_shift(a) and not self._varies(b) for a, b in ((left, right), (right, left)))
        return False

    def visit_If(self, node: ast.If) -> Any:  # asks which function is meant, not about a number
        node.body = [self.visit(part) for part in node.body]
        node.orelse = [self.visit(part) for part in node.orelse]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return _call("_where", *map(self.visit, (node.test, node.body, node.orelse)))

    def visit_Compare(self, node: ast.Compare) -> Any:
        parts = [self.visit(part) for part in (node.left, *node.comparators)]
        pairs = [ast.Compare(parts[k], [how], [parts[k + 1]]) for k, how in enumerate(node.ops)]
        return reduce(lambda a, b: _call("_and", a, b), pairs)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        name = "_and" if isinstance(node.op, ast.And) else "_or"
        return reduce(lambda a, b: _call(name, a, b), map(self.visit, node.values))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.visit(node.operand)
        return _call("_not", operand) if isinstance(node.op, ast.Not) else ast.UnaryOp(node.op, operand)

    def visit_Call(self, node: ast.Call) -> Any:
        arguments = [self.visit(part) for part in node.args]
        match node.func:
            case ast.Name("abs" | "float" | "max" | "min" as name):
                return _call(f"_{name}", *arguments)
            case ast.Name(name) if name in OF_NUMBERS:
                return _call(name, *arguments)
            case ast.Attribute(ast.Name("math"), name):
                return ast.Call(ast.Attribute(_name("_math"), name, ast.Load()), arguments, [])
            case _ if not self.variable:  # type(eps)(1)
                return node
        raise _Stays


BOUNDS = ("_lo", "_hi")


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(_name(name), list(arguments), [])


def _with(part: ast.expr, name: str, other: str) -> str:
    """The text of an expression with another name in place of one."""
    part = copy.deepcopy(part)
    for node in ast.walk(part):
        if isinstance(node, ast.Name) and node.id == name:
            node.id = other
    return ast.unparse(part)
