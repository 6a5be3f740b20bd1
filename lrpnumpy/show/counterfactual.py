"""A counterfactual for people: before and after as text, as HTML, and as a picture."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lrpnumpy.checks import LrpError, readable
from lrpnumpy.counterfactual import Counterfactual, InputChange, outcome
from lrpnumpy.result import Explanation, InputPart
from lrpnumpy.show import html
from lrpnumpy.show.parts import escape, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = 6  # features that a picture draws


def _words(found: Counterfactual, name: str) -> list[tuple[str, str]]:
    """Each word of an input before and after; "" for one that is removed."""
    after = {one.start: one.after for one in found.changes if one.input == name}
    return [(str(word), after.get(k, str(word))) for k, word in enumerate(found.original[name])]


def _headline(found: Counterfactual) -> str:
    count = len(found.changes)
    return f"{found.headline} by {count} change{'' if count == 1 else 's'}"


def _needed(found: Counterfactual) -> str:
    if len(found.changes) == 1:
        return "Undoing it loses the new decision."
    return "Undoing any one of them loses the new decision."


def text(found: Counterfactual) -> str:
    """Before and after, with changed words in brackets, and a line for each change."""
    lines = [_headline(found), ""]
    for name, value in found.original.items():
        if not isinstance(value, list):
            continue
        pairs = _words(found, name)
        lines.append("before  " + readable(" ".join(a if a == b else f"[{a}]" for a, b in pairs)))
        lines.append("after   " + readable(" ".join(b if a == b else f"[{b}]" for a, b in pairs)))
        lines.append("")
    lines += [f"- {one}" for one in found.changes]
    return "\n".join([*lines, "", _needed(found)])


def fragment(found: Counterfactual) -> str:
    """A piece of HTML: words that go are struck out, those that come are underlined; a row for each change."""
    parts = [f'<div class="head">{escape(_headline(found))}</div>']
    for name, value in found.original.items():
        if isinstance(value, list):
            words = " ".join(_marked(a, b) for a, b in _words(found, name))
            parts.append(f'<div class="sentence" dir="auto">{words}</div>')
    rows = "".join(_row(one) for one in found.changes)
    parts.append(f"<table><tr><th>changed</th><th>before</th><th>after</th></tr>{rows}</table>")
    parts.append(f'<div class="note">{escape(_needed(found))}</div>')
    return f'<style>{html.STYLE}</style><div class="lrp">{"".join(parts)}</div>'


def _marked(before: str, after: str) -> str:
    if before == after:
        return escape(before)
    new = f" <ins>{escape(after)}</ins>" if after else ""
    return f"<del>{escape(before)}</del>{new}"


def _row(change: InputChange) -> str:
    what = change.name if change.kind != "word" else f"word {change.start + 1}"
    cells = (what, change.before, change.after or "removed")
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


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
    from lrpnumpy.show.canvas import SMALL, axes_for, figure_of, line_color, mark_steps, set_title, stack

    rows = []
    for name, x in found.original.items():
        x, y = np.asarray(x, float), np.asarray(found.changed[name], float)
        part = found.before.inputs[name]
        size = abs(y - x).mean(axis=0) / (x.std(axis=0) + y.std(axis=0) + 1e-12)
        names = part.features or [f"x{d}" for d in range(x.shape[1])]
        rows += [(size[d], f"{name}: {names[d]}" if len(found.original) > 1 else names[d], x[:, d], y[:, d], name)
                 for d in np.flatnonzero(size)]  # fmt: skip
    rows.sort(key=lambda row: -row[0])
    count = min(len(rows), LINES)
    outer = axes_for(ax, width, 0.6 + 1.1 * count)
    (axes,) = stack(outer, [[1.0] * count], 0, 0.98)
    for ax, (_, label, x, y, name) in zip(axes, rows, strict=False):
        style = "o" if len(x) == 1 else "-"
        ax.plot(x, style, color=line_color(ax), alpha=0.5, linewidth=1, label="before")
        ax.plot(y, style, color="C1", linewidth=1, label="after")
        for one in found.changes:
            if one.kind == "segment" and one.input == name:
                ax.axvspan(one.start - 0.5, one.stop - 0.5, color="C1", alpha=0.12, linewidth=0)
        ax.set_ylabel(short(label), fontsize=SMALL, parse_math=False)
        mark_steps(ax, found.before.inputs[name].labels, len(x))
        if len(x) == 1:  # a static input has no steps
            ax.set_xticks([])
            ax.set_xlabel("")
        ax.tick_params(labelsize=SMALL)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, fontsize=SMALL)
    scores = [float(e.scores[found.before.predicted]) for e in (found.before, found.after)]
    note = "" if found.before.is_regression else f"f(x) = {scores[0]:.4g} → {scores[1]:.4g}"
    set_title(outer, title or _headline(found), note=note)
    return figure_of(outer)
