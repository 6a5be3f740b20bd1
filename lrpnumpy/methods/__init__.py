"""The table of methods: the single source for the command line, documentation, tests and benchmarks."""

from __future__ import annotations

from typing import Any

from lrpnumpy.checks import LrpError, one_of
from lrpnumpy.meant import door
from lrpnumpy.methods import decomposition, deeplift, integrated, occlusion, propagated, shapley
from lrpnumpy.methods.base import Method
from lrpnumpy.rules import LRP, Rule

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        *propagated.METHODS,
        *occlusion.METHODS,
        *propagated.LRP_METHODS,
        *decomposition.METHODS,
        *deeplift.METHODS,
        *integrated.METHODS,
        *shapley.METHODS,
    )
}


COSTLY = ("shapley",)  # whose cost doubles with every player: left out where nobody names the methods


@door
def methods() -> tuple[Method, ...]:
    """All methods: name, one-line description, cost in T, what is conserved, reference, options."""
    return tuple(METHODS.values())


def all_options() -> dict[str, tuple[Any, list[str]]]:
    """Every option that some method has: its field in the record of options, and the methods that have it."""
    found: dict[str, tuple[Any, list[str]]] = {}
    for method in METHODS.values():
        for name, one in method.options.known().items():
            found.setdefault(name, (one, []))[1].append(method.name)
    return found


def with_users() -> list[tuple[Any, str]]:
    """Every option, and behind it the methods that have it, for the documentation."""
    return [(one, f" ({', '.join(having)})") for one, having in all_options().values()]


def find(method: str | Rule | LRP) -> Method:
    """A method by name, or the one that a product rule or a record of rules makes."""
    if isinstance(method, Rule):
        return propagated.lrp(method.name, "layer-wise relevance propagation by a custom rule", "-", LRP(method))
    if isinstance(method, LRP):
        return propagated.of_record(method)
    if not isinstance(method, str):
        raise LrpError(f"method must be a name, an lrp.LRP or an lrp.Rule, got {type(method).__name__}.")
    return METHODS.get(method) or METHODS[one_of(method, "method", tuple(METHODS))]
