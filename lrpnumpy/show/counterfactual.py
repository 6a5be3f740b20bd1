"""A counterfactual for people: before and after as text, as HTML, and as a picture."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lrpnumpy.checks import LrpError, readable
from lrpnumpy.counterfactual import Counterfactual, outcome
from lrpnumpy.result import Explanation, InputPart
from lrpnumpy.show import html
from lrpnumpy.show.parts import prefix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = 6  # features that a picture draws
NEEDED = "Undoing any single change loses the new decision."


def _words(found: Counterfactual, name: str) -> list[tuple[str, str]]:
    """Each word of an input before and after; "" for one that is removed."""
    after = {one.start: one.after for one in found.changes if one.input == name}
    return [(str(word), after.get(k, str(word))) for k, word in enumerate(found.original[name])]


def _headline(found: Counterfactual) -> str:
    count = len(found.changes)
    return f"{found.headline} by {count} change{'s' * (count != 1)}"


def _sentences(found: Counterfactual) -> list[tuple[str, str]]:
    """Every input of words before and after, with changed words in brackets."""
    sentences = []
    for name, value in found.original.items():
        if isinstance(value, list):
            pairs = [(a, b) if a == b else (f"[{a}]", f"[{b}]") for a, b in _words(found, name)]
            before, after = (readable(" ".join(words)) for words in zip(*pairs, strict=True))
            sentences.append((before, after))
    return sentences


def text(found: Counterfactual) -> str:
    """Before and after, and a line for each change."""
    lines = [_headline(found), ""]
    for before, after in _sentences(found):
        lines += [f"before  {before}", f"after   {after}", ""]
    return "\n".join([*lines, *(f"- {one}" for one in found.changes), "", NEEDED])


def fragment(found: Counterfactual) -> str:
    """A piece of HTML: a table of the sentences and of each change."""
    rows = [("sentence", before, after) for before, after in _sentences(found)]
    for change in found.changes:
        what = f"word {change.start + 1}" if change.kind == "word" else change.name
        rows.append((what, change.before, change.after or "removed"))
    return html.table(_headline(found), ("changed", "before", "after"), rows, NEEDED)


def counterfactual(found: Counterfactual, ax: Any = None, width: float = 8.0, title: str | None = None) -> Figure:
    """Before and after: a sentence with removed words in blue and new ones in red, or the changed numbers of a series.

    `found` is what `lrp.counterfactual` gives.
    """
    from lrpnumpy.show import words

    if not isinstance(found, Counterfactual):
        raise LrpError(f"counterfactual: got {type(found).__name__}; pass a result of lrp.counterfactual.")
    sentences = []
    for name, value in found.original.items():
        if isinstance(value, list):
            pairs = _words(found, name)
            changed = [a != b for a, b in pairs]
            kept = [k for k, (_, b) in enumerate(pairs) if b]
            sentences.append((_title("before", found.before), _sentence(found, [a for a, _ in pairs], -1.0, changed)))
            new = [changed[k] for k in kept]
            sentences.append((_title("after", found.after), _sentence(found, [pairs[k][1] for k in kept], 1.0, new)))
    if sentences:
        if title is not None:
            sentences[0][0].insert(0, title)
        return words.drawn(sentences, ax, width)
    return _lines(found, ax, width, title)


def _title(when: str, e: Explanation) -> list[str]:
    return [f"{when}: {outcome(e)}, f(x) = {float(e.scores[e.predicted]):.4g}"]


def _sentence(found: Counterfactual, words: list[str], sign: float, changed: list[bool]) -> Explanation:
    """A sentence whose colors show which words are changed."""
    part = InputPart(sign * np.array(changed, float), tokens=tuple(words))
    return replace(found.before, inputs={next(iter(found.original)): part}, ledger=None, hidden=None, spans=None)


def _lines(found: Counterfactual, ax: Any, width: float, title: str | None) -> Any:
    """The features that change most, before and after; replaced segments have a darker ground."""
    from lrpnumpy.show import canvas

    rows = []
    for name, x in found.original.items():
        x, y = np.asarray(x, float), np.asarray(found.changed[name], float)
        names = found.before.inputs[name].features or [f"x{d}" for d in range(x.shape[1])]
        size = abs(y - x).mean(axis=0) / (x.std(axis=0) + y.std(axis=0) + 1e-12)
        for d in np.flatnonzero(size).tolist():
            rows.append((size[d], prefix(found.before, name) + names[d], x[:, d], y[:, d], name))
    rows.sort(key=lambda row: -row[0])
    count = min(len(rows), LINES)
    outer = canvas.axes_for(ax, width, 0.6 + 1.1 * count)
    (places,) = canvas.stack(outer, [[1.0] * count], 0.98)
    for place, (_, label, x, y, name) in zip(places, rows, strict=False):
        canvas.mark_steps(place, found.before.inputs[name].labels, len(x))
        style = "-"
        if len(x) == 1:  # a static input has no steps
            style = "o"
            place.set_xticks([])
            place.set_xlabel("")
        place.plot(x, style, color=canvas.line_color(place), alpha=0.5, linewidth=1, label="before")
        place.plot(y, style, color="C1", linewidth=1, label="after")
        for change in found.changes:
            if change.kind == "segment" and change.input == name:
                place.axvspan(change.start - 0.5, change.stop - 0.5, color="C1", alpha=0.12, linewidth=0)
        canvas.name_signal(place, label)
        canvas.set_labels(place)
    places[0].legend(frameon=False, fontsize=canvas.SMALL)
    note = ""
    if not found.before.is_regression:
        before, after = (float(e.scores[found.before.predicted]) for e in (found.before, found.after))
        note = f"f(x) = {before:.4g} → {after:.4g}"
    canvas.set_title(outer, title or _headline(found), note)
    return canvas.figure_of(outer)
