"""The table of methods: the single source for the command line, documentation, tests and benchmarks."""

from __future__ import annotations

import textwrap
from html import escape
from typing import Any

from lrpnumpy.checks import LrpError
from lrpnumpy.meant import door
from lrpnumpy.methods.base import Method, suggested
from lrpnumpy.methods.decomposition import CD
from lrpnumpy.methods.deeplift import DeepLIFT
from lrpnumpy.methods.integrated import IntegratedGradients
from lrpnumpy.methods.occlusion import Occlusion
from lrpnumpy.methods.propagated import LRP, Gradient
from lrpnumpy.methods.shapley import Shapley
from lrpnumpy.rules import RULES, Rule

__all__ = ["CD", "LRP", "DeepLIFT", "Gradient", "IntegratedGradients", "Method", "Occlusion", "Shapley"]

_ALL: list[Method] = [Gradient(), Gradient(times_input=True), Occlusion(), Occlusion("probability"), *map(LRP, RULES)]
_ALL += [CD(), DeepLIFT(), IntegratedGradients(), Shapley()]
METHODS = {method.name: method for method in _ALL}
UNSTABLE = ("lrp-prop", "lrp-abs", "lrp-half")  # which often fail their evidence
WIDTH = 100  # columns of the table of methods
COSTLY = ("shapley",)  # whose cost doubles with every player: left out where nobody names the methods
OTHER_NAMES = {  # of methods, in papers and in other libraries
    "contextual-decomposition": "cd", "deepshap": "deeplift", "expected-gradients": "integrated-gradients",
    "ig": "integrated-gradients", "input-x-gradient": "gradient-x-input", "lrp": "lrp-all", "occlusion": "occlusion-f",
    "saliency": "gradient", "shap": "shapley",
}  # fmt: skip


class MethodTable(tuple[Method, ...]):
    """All methods, shown as a table that fits a screen."""

    HEADS = ("method", "cost", "per feature", "paper", "adds up to", "relevance")

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        return [(m.name, m.cost, m.feature_relevance, m.paper, m.conserves, m.description) for m in self]

    def __repr__(self) -> str:
        """Two lines for each method: its facts, and what its relevance is."""
        facts = [self.HEADS[:4], *(row[:4] for row in self._rows)]
        sizes = [max(len(row[k]) for row in facts) for k in range(4)]
        lines = ["  ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)).rstrip() for row in facts]
        found = [lines[0]]
        for line, (*_, conserves, description) in zip(lines[1:], self._rows, strict=True):
            about = description if conserves == "-" else f"{description}; adds up to {conserves}"
            found += [line, textwrap.fill(about, WIDTH, initial_indent="    ", subsequent_indent="    ")]
        return "\n".join(found)

    def _repr_html_(self) -> str:
        """One table of all."""
        rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows)
        heads = "".join(f"<th>{head}</th>" for head in self.HEADS)
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


@door
def methods() -> MethodTable:
    """All methods, as a table: name, cost in the length T, what is conserved, paper, one-line description."""
    return MethodTable(METHODS.values())


def all_options() -> dict[str, list[str]]:
    """Every option that some method has, and the methods that have it."""
    found: dict[str, list[str]] = {}
    for method in METHODS.values():
        for name in method.options():
            found.setdefault(name, []).append(method.name)
    return found


def find(method: Any) -> Method:
    """A method by its name, as the record it is, or as the product rule of an LRP."""
    if not isinstance(method, str):
        if isinstance(method, Method):
            return method
        if isinstance(method, Rule):
            return LRP(method)
        got = f"the class {method.__name__}" if isinstance(method, type) else type(method).__name__
        raise LrpError(f"method must be a name, or a record such as lrp.LRP(), got {got}.")
    if method not in METHODS:
        near = suggested(method, METHODS, OTHER_NAMES)
        advice = f"did you mean {near!r}?" if near else f"the methods are {', '.join(METHODS)}."
        raise LrpError(f"unknown method {method!r}; {advice}")
    return METHODS[method]
