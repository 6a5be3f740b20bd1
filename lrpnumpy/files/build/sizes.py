"""Sizes of axes that a file may leave open, and what graphs of operations compute with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_MOST = 8  # terms and factors of a Dim


class Dim:
    """A size that the file does not say: a sum of products of named sizes, such as N T + 2."""

    def __init__(self, terms: dict[tuple[str, ...], int]) -> None:
        self.terms = terms

    @staticmethod
    def named(name: str) -> Dim:
        """A separate size."""
        return Dim({(name,): 1})

    @staticmethod
    def _made(terms: dict[tuple[str, ...], int]) -> Any:
        """The shortest form: a number where nothing is open."""
        terms = {key: count for key, count in terms.items() if count}
        if len(terms) > _MOST or any(len(key) > _MOST or abs(n) > 2**48 for key, n in terms.items()):
            raise ValueError("a size is too long a formula")
        return Dim(terms) if any(terms) else terms.get((), 0)

    @staticmethod
    def _terms(value: Any) -> dict[tuple[str, ...], int]:
        return value.terms if isinstance(value, Dim) else {(): int(value)}

    def __add__(self, other: Any) -> Any:
        terms = dict(self.terms)
        for key, count in self._terms(other).items():
            terms[key] = terms.get(key, 0) + count
        return self._made(terms)

    def __mul__(self, other: Any) -> Any:
        terms: dict[tuple[str, ...], int] = {}
        for a, m in self.terms.items():
            for b, n in self._terms(other).items():
                key = tuple(sorted(a + b))
                terms[key] = terms.get(key, 0) + m * n
        return self._made(terms)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __repr__(self) -> str:
        return " + ".join("*".join([str(n), *key]) for key, n in self.terms.items())


def name_of(size: Any) -> str:
    """The name of a size that is open and nothing else; "" for any other one."""
    if isinstance(size, Dim) and list(size.terms.values()) == [1]:
        ((name, *more),) = size.terms
        if not more:
            return name
    return ""


def index_along(size: int | Dim) -> Dim:
    """The position along an axis of open size, as a number that is another one at each place: 0, 1, 2, …"""
    return Dim.named(f"position of {size!r}")


def divided(value: Any, by: Any) -> Any:
    """value / by for sizes, where that is exact and `by` is a single product; otherwise None."""
    (factors, count), *more = Dim._terms(by).items()
    terms = {}
    for key, n in Dim._terms(value).items():
        left = list(key)
        if more or not count or n % count or not all(left.count(one) >= factors.count(one) for one in factors):
            return None
        for factor in factors:
            left.remove(factor)
        terms[tuple(left)] = n // count
    return Dim._made(terms)


def sizes(values: Sequence[Any]) -> np.ndarray:
    """Sizes as an array, of numbers where all are known."""
    if any(isinstance(one, Dim) for one in values):
        out = np.empty(len(values), object)
        out[:] = list(values)
        return out
    return np.array([int(one) for one in values], np.int64)


def groups(before: Sequence[Any], after: Sequence[Any]) -> list[tuple[list[int], list[int]]] | None:
    """Which axes before become which after: the shortest runs with equal products."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) and j < len(after):
        ins, outs = [i], [j]
        product_in, product_out = before[i], after[j]
        i, j = i + 1, j + 1
        while product_in != product_out:
            if divided(product_out, product_in) is not None and i < len(before):
                ins.append(i)
                product_in, i = product_in * before[i], i + 1
            elif j < len(after):
                outs.append(j)
                product_out, j = product_out * after[j], j + 1
            else:
                return None
        groups.append((ins, outs))
    if not groups:
        return [(list(range(len(before))), list(range(len(after))))]
    groups[-1][0].extend(range(i, len(before)))
    groups[-1][1].extend(range(j, len(after)))
    return groups
