"""Which target a summary or picture of many explanations is for: one class, or one panel per class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from lrpnumpy.checks import LrpError, entries, is_number, one_of, shown
from lrpnumpy.result import Explanation

PREDICTED = "predicted"
MIXED = "the explained class of each record (classes mixed)"
MOST = 12  # panels
DRAWN = 10_000  # explanations of an iterator, which may never end; a sequence may have any number


class Panel(NamedTuple):
    """Explanations of one target, or mixed ones on request."""

    name: str  # of the class, or MIXED
    many: Sequence[Explanation]
    c: int | None  # the class to pick, of explanations of all classes; -1 for the predicted one of each
    places: Sequence[int]  # of these explanations among those that were passed in

    def explanations(self) -> Iterator[Explanation]:
        """One after the other, each of one class."""
        for e in self.many:
            if self.c is None:
                yield e
            else:
                yield e.for_class(e.predicted if self.c < 0 else self.c)


def class_names(e: Explanation) -> Sequence[str]:
    """Names of the classes, or their numbers."""
    return e.classes or [*map(str, range(len(e.scores)))]


def wanted_classes(e: Explanation, target: Any, what: str) -> list[int]:
    """The class given, the positive one of two, or all; `e` is one of the explanations."""
    names, count = class_names(e), len(e.scores)
    if isinstance(target, str):
        return [names.index(one_of(target, f"{what}: target", (*names, PREDICTED)))]
    if target is not None:
        if not is_number(target, int) or not 0 <= target < count:
            raise LrpError(f"{what}: target must be a class from 0 to {count - 1} or a name, got {shown(target)}.")
        return [int(target)]
    if count == 2 and not e.is_regression:
        return [1]
    if count > MOST:
        raise LrpError(f"{what}: {count} classes are too many for a panel each; pass target=…, one of them.")
    return [*range(count)]


def listed(many: Iterable[Explanation], what: str) -> Sequence[Explanation]:
    """Explanations with their number: a sequence is as it is, of which one at a time is read; others become a list."""
    if isinstance(many, Sequence):
        return many
    return entries(many, f"{what}: an iterator of explanations", DRAWN, "pass a list, or the results of explain_all")


def panels(many: Iterable[Explanation], target: Any, what: str) -> list[Panel]:
    """The panels of a picture or summary, `what`, with their explanations.

    target: a class; None for the one that all explain, the positive class of two, or every class; "predicted" mixes.
    Where other classes were explained, results that have their model explain these again; of a list or of files, each
    panel has the explanations of its class.
    """
    if isinstance(many, Explanation):
        raise LrpError(f"{what}: got one explanation; pass several, such as those of explain_all, or [e].")
    many = listed(many, what)
    if not len(many):
        raise LrpError(f"{what}: there are no explanations; pass at least one.")
    first, everywhere = many[0], range(len(many))
    if not isinstance(first, Explanation):
        raise LrpError(f"{what}: got {type(first).__name__}; pass explanations from explain or explain_all.")
    names, every_class = class_names(first), first.target == "all"
    if isinstance(target, str) and target == PREDICTED and PREDICTED not in names:  # a class may have that name
        return [Panel(MIXED, many, -1 if every_class else None, everywhere)]
    if every_class:
        return [Panel(names[c], many, c, everywhere) for c in wanted_classes(first, target, what)]
    if len(first.scores) == 1:
        return [Panel(names[0], many, None, everywhere)]
    explained = _targets(many, what)
    given = not getattr(many, "_explains_predicted", False)
    if target is None and given and len({*explained}) == 1:
        return [Panel(names[explained[0]], many, None, everywhere)]
    wanted = wanted_classes(first, target, what)
    if len(wanted) == 1 and {*explained} == {*wanted}:
        return [Panel(names[wanted[0]], many, None, everywhere)]
    if len(wanted) == 1 and hasattr(many, "_explained_for"):
        return [Panel(names[wanted[0]], many._explained_for(wanted[0]), None, everywhere)]
    if hasattr(many, "_explained_for"):
        again = many._explained_for("all")
        return [Panel(names[c], again, c, everywhere) for c in wanted]
    if target is not None:
        raise LrpError(f"{what}: other classes than {names[wanted[0]]!r} were explained; explain with target=… .")
    found = []
    for c in sorted({*explained}):
        places = [k for k, one in enumerate(explained) if one == c]
        some = many._some(places) if hasattr(many, "_some") else [many[k] for k in places]
        found.append(Panel(names[c], some, None, places))
    return found


def _targets(many: Sequence[Explanation], what: str) -> list[int]:
    found: list[int] = []
    for e in many:
        if not isinstance(e, Explanation) or isinstance(e.target, str):
            raise LrpError(f"{what}: some explanations are of one class and some of all classes; pass one kind.")
        found.append(e.target)
    return found
