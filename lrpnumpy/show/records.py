"""Many explanations on one screen: the first records as text, and as a table of a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lrpnumpy.checks import readable
from lrpnumpy.show.color import column
from lrpnumpy.show.html import table
from lrpnumpy.show.parts import short

SHOWN = 10  # records
HEADS = ("record", "input", "explained", "score", "most relevant")


def _rows(results: Any) -> Iterator[tuple[str, ...]]:
    """Of the first records: number, input, what is explained, its score, and the step of most relevance."""
    some = [results[k] for k in range(min(SHOWN, len(results)))]
    every = [e.for_class(e.predicted) if e.target == "all" else e for e in some]
    tops = [e.top(1)[0] for e in every]
    scores = column([float(e.score) for e in every], sign="")
    numbers = column([float(top.relevance) for top in tops], 3)
    for k, (e, top) in enumerate(zip(every, tops, strict=True)):
        name = f"{len(e)} steps"
        if e.tokens is not None:
            name = " ".join(e.tokens)
        elif e.labels is not None:
            name = e.step_names[-1]
        most = f"{short(e.shown(top.position), 20)} {numbers[k]}"
        yield str(k), short(name, 40), short(e.name_of(e.target), 20), scores[k], most


def _rest(results: Any) -> str:
    return "" if len(results) <= SHOWN else f"… and {len(results) - SHOWN:,} more"


def text(results: Any, head: str) -> str:
    """A line about all, and a line for each of the first records."""
    rows = [HEADS, *_rows(results)]
    sizes = [max(len(row[k]) for row in rows) for k in range(len(HEADS))]
    lines = ["  ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)).rstrip() for row in rows]
    return "\n".join(readable(line) for line in [head, *lines, _rest(results)] if line)


def fragment(results: Any, head: str) -> str:
    """The same as HTML."""
    return table(head, HEADS, _rows(results), _rest(results))
