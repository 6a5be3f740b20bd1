"""Explanations as text: a colored sentence or a map of a series, a table, the ledger; no colors in a file."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any, Literal, TextIO

import numpy as np

from lrpnumpy.ledgers import SpanLedger
from lrpnumpy.protocol import Comparison
from lrpnumpy.result import UNKNOWN, Explanation, Mark
from lrpnumpy.show.color import HIGH, LOW, RGB, column, ink, rgb, scaled, signed
from lrpnumpy.show.parts import condensed, evidence_line, ledger_entries, map_of, shown, title, word_shares

Color = Literal["auto", "never", "256", "truecolor"]
FAINT = 0.04  # below this share a word is left uncolored
LONG = 60  # the table of a longer sequence has only its most relevant steps
STEPS = 12  # the same of a series, whose map shows all


def palette(color: Color = "auto", stream: TextIO | None = None) -> Literal["never", "256", "truecolor"]:
    """How many colors the stream can show: none unless it is a terminal, and none with NO_COLOR set."""
    if color != "auto":
        return color
    stream = stream or sys.stdout
    if os.environ.get("NO_COLOR") or not stream.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return "never"
    if os.environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        return "truecolor"
    return "256"


def paint(text: str, share: float, colors: str) -> str:
    """A word on the color of its relevance."""
    if colors == "never" or abs(share) < FAINT:
        return text
    back = rgb(share)
    front = ink(back)
    return f"\x1b[{_code(48, back, colors)};{_code(38, front, colors)}m{text}\x1b[0m"


def _code(plane: int, color: RGB, colors: str) -> str:
    if colors == "truecolor":
        return f"{plane};2;{color[0]};{color[1]};{color[2]}"
    r, g, b = (round(v / 255 * 5) for v in color)
    return f"{plane};5;{16 + 36 * r + 6 * g + b}"


def columns(text: str) -> int:
    """How many columns a text takes: wide characters two, combining marks none."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    combining = sum(unicodedata.combining(c) > 0 for c in text)
    return len(text) + wide - combining


def _clean(word: str) -> str:
    """A word without control characters, which could drive the terminal: the end of a line is one."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in word)


def sentence(words: Sequence[str], shares: np.ndarray, colors: str, width: int) -> str:
    """Words on their colors, wrapped to the width."""
    lines: list[str] = []
    line: list[str] = []
    used = 0
    for word, share in zip(words, shares, strict=True):
        word = _clean(word)
        need = columns(word) + 1
        if line and used + need > width:
            lines.append(" ".join(line))
            line, used = [], 0
        line.append(paint(word, share, colors))
        used += need
    return "\n".join([*lines, " ".join(line)])


def legend(*explanations: Explanation) -> str:
    """What the marks in a picture mean; empty where there are none."""
    every = [part.marks for e in explanations for part in e.inputs.values() if part.marks is not None]
    is_marked = any((marks == Mark.UNKNOWN).any() for marks in every)
    return f"{UNKNOWN} not in the vocabulary" if is_marked else ""


def ledger_line(ledger: Any) -> str:
    """Where the score went, in one line."""
    if isinstance(ledger, SpanLedger):
        total = "".join(f", of {one:.4g}" for one in ledger.total[:1])  # none where there are no phrases
        return f"left unassigned by the words: {ledger.unassigned:+.4g}{total}"
    if ledger is None:
        return ""
    entries = ledger_entries(ledger)
    *numbers, total = column([*entries.values(), ledger.total])
    parts = [f"{name} {number}" for name, number in zip(entries, numbers, strict=True)]
    return f"ledger: {', '.join(parts)}  = {total.removeprefix('+')}"


def _bar(share: float, half: int = 10) -> str:
    """A bar to the left or right of a middle line."""
    bar = "█" * round(abs(share) * half)
    return f"{bar.rjust(half)}│" if share < 0 else f"{' ' * half}│{bar}"


def table(e: Explanation, shares: np.ndarray, most: int | None = None) -> str:
    """One line per step with its relevance and a bar; for long sequences only the most relevant steps."""
    steps, note = [*range(len(e))], ""
    if len(e) > (most or LONG):
        steps = sorted(part.position for part in e.top(most or LONG // 2))
        note = f"\n({len(steps)} of {len(e)} steps shown, the most relevant)"
    words = [_cut(e.shown_steps[t], 30) for t in steps]
    wide = max(map(columns, words))
    lines = []
    for t, word, number in zip(steps, words, column([e.relevance[t] for t in steps]), strict=True):
        lines.append(f"{t:>5}  {_padded(word, wide)}  {number:>11}  {_bar(shares[t]):<21}  {_cause(e, t)}".rstrip())
    return "\n".join(lines) + note


def _cut(text: str, most: int) -> str:
    """A text without control characters, in a limited number of columns."""
    text = _clean(text)
    return text if columns(text) <= most else text[: most - 1] + "…"


def _padded(text: str, wide: int) -> str:
    """A text with spaces after it, in as many columns as `wide` is."""
    return text + " " * (wide - columns(text))


def _cause(e: Explanation, t: int) -> str:
    """Of a series, the feature that has most of a step's relevance, with its value; of one step, the value."""
    if e.values is None or (e.feature_relevance is None and e.values.shape[1] > 1):
        return ""
    if e.feature_relevance is None and np.isnan(e.values[t, 0]):
        return ""
    if e.feature_relevance is None:
        return f"value {e.values[t, 0]:.4g}"
    d = int(np.argmax(np.abs(np.nan_to_num(e.feature_relevance[t]))))
    name = e.features[d] if e.features else f"x{d}"
    return f"{_clean(name)} {e.values[t, d]:.4g}: {e.feature_relevance[t, d]:+.3g}"


def series(e: Explanation, colors: str, width: int) -> str:
    """A numeric series as a map of relevance: one line per feature, one column per step or several, the sum last."""
    part = shown(e, "series")[0]
    wide = max(9, *(columns(_cut(name, 24)) for name in part.features))
    drawn = map_of(part, max(10, width - wide - 14))
    lines = []
    for name, shares, total in zip(drawn.features, drawn.shares, column(drawn.total.tolist()), strict=True):
        if colors == "never":
            cells = "".join(signed(share, FAINT) for share in shares)
        else:
            cells = "".join(paint(" ", share, colors) for share in shares)
        lines.append(f"{_padded(_cut(name, 24), wide)}  {cells}  {total:>10}")
    K, steps = drawn.shares.shape[1], e.shown_steps
    first, last = _clean(steps[0]), _clean(steps[-1])
    fits = columns(first) + columns(last) < K
    axis = f"{first}{last.rjust(K - columns(first))}" if fits else f"{first} … {last}"
    notes = []
    if drawn.group > 1:
        notes.append(f"each column is the sum of {drawn.group} steps")
    if drawn.left_out:
        notes.append(f"{drawn.left_out} less relevant features are not shown")
    if colors == "never":
        notes.append(f"{HIGH[0]} to {HIGH[-1]} is positive relevance, {LOW[0]} to {LOW[-1]} negative")
    note = f"({'; '.join(notes)})" if notes else ""
    return "\n".join([*lines, " " * (wide + 2) + axis, note]).rstrip("\n")


def _body(e: Explanation, colors: str, width: int) -> str:
    """One input: words on their colors, or a series as a map; and a table."""
    e = e.by_feature()
    if not e.tokens:
        return f"{series(e, colors, width)}\n\n{table(e, _shares(e), STEPS)}"
    if e.values is not None:  # features of one step
        return table(e, _shares(e))
    short = condensed(e)
    return f"{sentence(short.shown_steps, _shares(short), colors, width)}\n\n{table(e, _shares(e))}"


def render(e: Explanation, color: Color = "auto", stream: TextIO | None = None, width: int | None = None) -> str:
    """An explanation as text: title, sentence or map, table, phrases, ledger. One block per class with target "all"."""
    if e.target == "all":
        return "\n\n".join(render(one, color, stream, width) for one in e.each_class)
    colors = palette(color, stream)
    width = width or shutil.get_terminal_size().columns
    first, *others = e.inputs
    parts = [_clean(title(e)), _body(e.of_input(first), colors, width)]
    if e.spans:
        words = [_clean(word) for word in e.shown_steps]
        numbers = column([float(span.relevance) for span in e.spans])
        phrases = [" ".join(words[span.start : span.stop]) for span in e.spans]
        parts.append("\n".join(f"{phrase}: {number}" for phrase, number in zip(phrases, numbers, strict=True)))
    parts += [f"input {_clean(name)!r}\n{_body(e.of_input(name), colors, width)}" for name in others]
    parts += [legend(e), ledger_line(e.ledger), _clean(evidence_line(e))]
    return "\n\n".join(part for part in parts if part)


def render_comparison(
    comparison: Comparison, color: Color = "auto", stream: TextIO | None = None, width: int | None = None
) -> str:
    """Several methods on one input: the sentence once per method, then a table with one column per method."""
    colors = palette(color, stream)
    width = width or shutil.get_terminal_size().columns
    single = [e.for_class(e.predicted) if e.target == "all" else e for e in comparison]
    every = [condensed(e) for e in single]
    first, methods = every[0], [_clean(e.method) for e in every]
    shares = [_shares(e) for e in every]
    lines = [_clean(title(first).split(": ", 1)[1]), ""]
    if first.tokens and colors != "never":
        wide = max(map(len, methods)) + 2
        for method, share in zip(methods, shares, strict=True):
            text = sentence(first.shown_steps, share, colors, max(20, width - wide))
            lines.append(method.ljust(wide) + text.replace("\n", "\n" + " " * wide))
        lines.append("")
    steps, note = [*range(len(first))], ""
    if len(first) > LONG and not first.tokens:
        steps = sorted(np.argsort(-np.max(np.abs(shares), axis=0), kind="stable")[: LONG // 2].tolist())
        note = f"({len(steps)} of {len(first)} steps shown, the most relevant)"
    head = "word" if first.tokens else "step"
    table = [[head, *(_clean(first.shown_steps[t])[:20] for t in steps)]]
    table += [[m, *column([e.relevance[t] for t in steps], 3)] for m, e in zip(methods, every, strict=True)]
    verdicts = [e.evidence().verdict for e in single if evidence_line(e)]
    if len(verdicts) == len(single):
        for cells, text in zip(table, ["evidence", *verdicts], strict=True):
            cells.append(text)
    sizes = [max(14, len(method) + 2) for method in methods]
    names, *others = table
    wide = max(8, *map(columns, names))
    for name, *cells in zip(names, *others, strict=True):
        lines.append(_padded(name, wide) + "".join(cell.rjust(size) for cell, size in zip(cells, sizes, strict=True)))
    return "\n".join([*lines, *filter(None, [note, legend(single[0])])])


def _shares(e: Explanation) -> np.ndarray:
    """Relevance of words or steps from -1 to 1."""
    return word_shares(e) if e.tokens else scaled(e.relevance)
