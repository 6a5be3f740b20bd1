"""A payload and the assets as one HTML file that asks for nothing else, behind a content security policy."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, shown, whole
from lrpnumpy.files.disk import write_whole
from lrpnumpy.meant import door
from lrpnumpy.page.payload import packed, payload, results_of

# In this order: each uses what is before it. They share one scope.
SCRIPTS = (
    "text.js", "dom.js", "format.js", "color.js", "data.js", "state.js", "filter.js", "table.js", "tools.js",
    "tooltip.js", "words.js", "series.js", "ledger.js", "copy.js", "record.js", "speakers.js", "confusion.js",
    "memory.js", "whole.js", "page.js",
)  # fmt: skip
# The card of one record alone.
CARD_SCRIPTS = (
    "text.js", "dom.js", "format.js", "color.js", "data.js", "tooltip.js", "words.js", "series.js", "ledger.js",
    "copy.js", "record.js", "card.js",
)  # fmt: skip


@door
def write_page(
    path: str | os.PathLike[str],
    *results: Any,
    label: Any = None,
    name: Any = None,
    title: str | None = None,
    most: int = 10_000,
    seed: int = 0,
) -> None:
    """Write one self-contained HTML file to explore results: a table of records beside the explanation of each.

    path: the file to be made, which ends in .html; one that exists is replaced.
    results: of the same records by one model, each by its own method or options: what `explain_all`,
        `explain_windows`, `open_explanations`, `compare` and `explain` give, or a list of explanations.
    label: the true class of each record, by index or name, or its true value: one for each record of the results, or
        the name of a column that was stored with a corpus.
    name: what each record is called, likewise. Windows of a series are called by the label of their last step.
    title: of the page.
    most: maximum number of records. A number takes 5 bytes, so pages of long series need a smaller one.
    seed: of the random sample that is shown if there are more records; the page states that.
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise LrpError(f"a page must be a file that ends in .html, got {os.fspath(path)!r}.")
    every = [one for given in results for one in results_of(given)]
    if not every or not len(every[0]):
        raise LrpError("there are no explanations for the page; pass at least one result with an explanation.")
    if len({len(one) for one in every}) > 1:
        counts = ", ".join(str(len(one)) for one in every)
        raise LrpError(f"results of one page must be of the same records, got {counts} of them.")
    which, notes = chosen(len(every[0]), most, seed)
    main = every[0]
    data = payload(
        every,
        which,
        numbers=_numbers(every, which),
        truth=_column(main, label, "label", which),
        names=_named(main, name, which),
        title=title or f"Explanations by {' and '.join(dict.fromkeys(one[0].method for one in every))}",
        notes=notes,
    )
    write_whole(target, document(data).encode("utf-8", "replace"))


def chosen(count: int, most: int, seed: int) -> tuple[np.ndarray, list[str]]:
    """The places of the records on the page, in rising order; and a sentence if these are not all."""
    whole(most, "most", 1)
    whole(seed, "seed", 0)
    if count <= most:
        return np.arange(count), []
    which = np.sort(np.random.default_rng(seed).choice(count, most, replace=False))
    how = f"drawn at random (seed {seed}): a page has at most {most:,}"
    return which, [f"{most:,} of {count:,} records are shown, {how}."]


def _numbers(results: Sequence[Any], which: np.ndarray) -> list[Any]:
    """Numbers of the records: of a corpus those of its source, from 1; else their places, from 0."""
    known = [one.numbers for one in results if hasattr(one, "numbers")]
    if not known:
        return which.tolist()
    if any(not np.array_equal(known[0], other) for other in known[1:]):
        raise LrpError("results of one page must be of the same records, got files that rejected different ones.")
    return known[0][which].tolist()


def _column(result: Any, given: Any, what: str, which: np.ndarray) -> list[Any] | None:
    """A value for each record that is shown: from a stored column, or as passed in."""
    if given is None:
        return None
    try:
        values = [*(result.column(given) if isinstance(given, str) else given)]
    except (AttributeError, TypeError):
        values = []
    if len(values) != len(result):
        raise LrpError(
            f"{what} must be one value for each of {len(result)} records, or the name of a column that was stored "
            f"with them, got {shown(given)}."
        )
    return [values[k] for k in which.tolist()]


def _named(result: Any, given: Any, which: np.ndarray) -> list[Any] | None:
    """Names of the records; windows have the label of their last step."""
    found = _column(result, given, "name", which)
    if found is not None or not hasattr(result, "series") or result.labels is None:
        return found
    from lrpnumpy import tables

    return [*tables.shown(result.labels[which])]


def card_page(item: Any, heading: str = "Explanation") -> str:
    """One self-contained HTML file with the card of an `item`, which is an explanation or a comparison."""
    data = payload(results_of(item), title=heading)
    return _filled("card.html", data, asset("page.css"), [*map(asset, CARD_SCRIPTS)], "'none'")


def card(item: Any) -> str:
    """A piece of HTML for a notebook: the card in a frame, which fits its height to what it shows.

    Where frames are not shown, such as in a notebook that is not trusted, there is its text instead.
    """
    frame = escape(card_page(item))
    return (
        f'<div><pre>{escape(str(item))}</pre><iframe title="Explanation" srcdoc="{frame}" '
        'style="width:100%;height:2px;border:0"></iframe></div>'
    )


# -- HTML ----------------------------------------------------------------------------------------------------


def document(data: dict[str, Any], more: Sequence[str] = (), connect: str = "'none'", style: str = "") -> str:
    """The page of a payload.

    more: texts of scripts that run after those of the page, `style` is CSS after its own, and `connect` is what the
    policy lets them connect to: the live page has such.
    """
    css = "\n".join(filter(None, [asset("page.css"), style]))
    return _filled("page.html", data, css, [*map(asset, SCRIPTS), *more], connect)


def _filled(template: str, data: dict[str, Any], css: str, scripts: Sequence[str], connect: str) -> str:
    """One HTML file with everything inside; only these scripts and styles run."""
    blocks: list[str] = []

    def put(text: str) -> dict[str, Any]:
        blocks.append(text)
        return {"block": len(blocks) - 1}

    # JSON that no HTML parser takes for the end of its script, whatever words it has.
    head = json.dumps(packed(data, put)).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    script = "\n".join(['"use strict";', *scripts])
    policy = (
        f"default-src 'none'; script-src {digest(script)}; style-src {digest(css)}; connect-src {connect}; "
        "img-src 'none'; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "title": escape(data["title"]),
        "style": css,
        "payload": head,
        "blocks": "\n".join(
            f'<script type="application/octet-stream" id="block-{k}">{text}</script>' for k, text in enumerate(blocks)
        ),
        "script": script,
    }
    pieces = asset(template).split("@@")  # text, name of a part, text, name, …
    return "".join(parts[piece] if k % 2 else piece for k, piece in enumerate(pieces))


def asset(name: str) -> str:
    """The text of a file that is part of every page."""
    return (files("lrpnumpy.page") / "assets" / name).read_text("utf-8")


def digest(text: str) -> str:
    """How a content security policy names an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
