"""Explanations as text: a colored sentence or a map of a series, a table, the ledger; no colors in a file."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TextIO

import numpy as np

from lrpnumpy.checks import readable
from lrpnumpy.ledgers import SpanLedger
from lrpnumpy.protocol import Comparison
from lrpnumpy.result import UNKNOWN, Explanation, Mark
from lrpnumpy.show.color import RGB, ink, rgb, scaled
from lrpnumpy.show.numbers import HIGH, LOW, map_of, signed, sparks
from lrpnumpy.show.parts import condensed, evidence_line, shown, word_shares

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
    return "truecolor" if os.environ.get("COLORTERM", "") in ("truecolor", "24bit") else "256"


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
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _clean(word: str) -> str:
    """A word without control characters, which could drive the terminal."""
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
    return f"{UNKNOWN} not in the vocabulary" if any((marks == Mark.UNKNOWN).any() for marks in every) else ""


def title(e: Explanation) -> str:
    """What is explained: the class with its score and probability, or the quantity with its unit; and the method."""
    text, options = f"{e.method}: why {e.name_of(e.target)!r}", e.options or {}
    if e.is_regression:
        text = f"{e.method}: {e.prediction}"
    if options.get("versus") is not None:
        text += f" rather than {e.name_of(options['versus'])!r}"
    if not e.is_regression:
        text += f"?  score {e.scores[e.target]:.4g}"
    if e.probabilities is not None:
        text += f", probability {e.probabilities[e.target]:.1%}"
    if isinstance(options.get("through"), dict):
        text += "".join(f", through {name}{[*units]}" for name, units in options["through"].items())
    if options.get("windows") is not None:
        text += f", mean of {options['windows']} windows"
    return readable(text) + (
        ", predicted" if not e.is_regression and e.target == e.predicted and len(e.scores) > 1 else ""
    )


def ledger_line(ledger: Any) -> str:
    """Where the score went, in one line."""
    if isinstance(ledger, SpanLedger):
        total = "".join(f", of {one:.4g}" for one in ledger.total[:1])  # none where there are no phrases
        return f"left unassigned by the words: {ledger.unassigned:+.4g}{total}"
    if ledger is None:
        return ""
    parts = [f"{name} {value:+.4g}" for name, value in ledger.entries.items() if value or name == "inputs"]
    return f"ledger: {', '.join(parts)}  = {ledger.total:.4g}"


def _bar(share: float, half: int = 10) -> str:
    """A bar to the left or right of a middle line."""
    size = round(abs(share) * half)
    return f"{('█' * size).rjust(half) if share < 0 else ' ' * half}│{('█' * size) if share > 0 else ''}"


def table(e: Explanation, shares: np.ndarray, most: int | None = None) -> str:
    """One line per step with its relevance and a bar; for long sequences only the most relevant steps."""
    words = [_clean(word) for word in e.shown_steps]
    shown = range(len(e))
    note = ""
    if len(e) > (most or LONG):
        shown = sorted(part.position for part in e.top(most or LONG // 2))  # type: ignore[assignment]
        note = f"\n({len(shown)} of {len(e)} steps shown, the most relevant)"
    wide = min(30, max(columns(words[t]) for t in shown))
    lines = []
    for t in shown:
        word = words[t] if columns(words[t]) <= 30 else words[t][:29] + "…"
        number = f"{e.relevance[t]:>+11.4g}  {_bar(shares[t]):<21}  {_cause(e, t)}"
        lines.append(f"{t:>5}  {word}{' ' * (wide - columns(word))}  {number}".rstrip())
    return "\n".join(lines) + note


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
    """A numeric series as a map: one line per feature, one column per step or per several, its relevance last.

    With colors the blocks are the values, on the color of their relevance. Without, they are the relevance itself.
    """
    part = shown(e, "series")[0]
    names = [_clean(name) for name in part.features]
    wide = min(24, max(map(columns, names), default=0))
    found = map_of(part, max(10, width - max(wide, 9) - 14))
    lines = []
    for name, shares, heights, total in zip(found.features, found.shares, found.heights, found.total, strict=True):
        name = _clean(name) if columns(name) <= 24 else _clean(name)[:23] + "…"
        if colors == "never":
            cells = "".join(signed(share, FAINT) for share in shares)
        else:
            cells = "".join(paint(spark, share, colors) for spark, share in zip(sparks(heights), shares, strict=True))
        lines.append(f"{name}{' ' * (max(wide, 9) - columns(name))}  {cells}  {total:>+10.4g}")
    K, steps = found.relevance.shape[1], e.shown_steps
    first, last = _clean(steps[0]), _clean(steps[-1])
    axis = f"{first}{last.rjust(K - columns(first))}" if columns(first) + columns(last) < K else f"{first} … {last}"
    lines.append(" " * (max(wide, 9) + 2) + axis)
    notes = [f"each column is the sum of {found.group} steps"] if found.group > 1 else []
    if found.left_out:
        notes.append(f"{found.left_out} features of less relevance are left out")
    plain = f"{HIGH[0]} to {HIGH[-1]} is positive relevance, {LOW[0]} to {LOW[-1]} negative"
    notes.append(plain if colors == "never" else "blocks are values, colors are relevance")
    return "\n".join([*lines, f"({'; '.join(notes)})"])


def _body(e: Explanation, colors: str, width: int) -> str:
    """One input: words on their colors, or a series as a map; and a table."""
    e = e.by_feature()
    shares = word_shares(e) if e.tokens else scaled(e.relevance)
    if e.tokens:
        short = condensed(e)
        words = [sentence(short.shown_steps, word_shares(short), colors, width)] if e.values is None else []
        return "\n\n".join([*words, table(e, shares)])
    return f"{series(e, colors, width)}\n\n{table(e, shares, STEPS)}"


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
        parts.append("\n".join(f"{' '.join(words[s.start : s.stop])}: {s.relevance:+.4g}" for s in e.spans))
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
    verdicts = [e.evidence().verdict if evidence_line(e) else "" for e in single]
    note, every = legend(single[0]), [*map(condensed, single)]
    first, lines = every[0], []
    shares = [word_shares(e) if e.tokens else scaled(e.relevance) for e in every]
    every = [replace(e, method=_clean(e.method)) for e in every]
    first = every[0]
    wide = max(len(e.method) for e in every)
    if first.tokens and colors != "never":
        for e, share in zip(every, shares, strict=True):
            text = sentence(e.shown_steps, share, colors, max(20, width - wide - 2))
            lines.append(text.replace("\n", "\n" + " " * (wide + 2)).join([f"{e.method:<{wide}}  ", ""]))
        lines.append("")
    words = [_clean(word)[:20] for word in first.shown_steps]
    size = max(8, *(columns(word) for word in words))
    steps, cut = range(len(first)), ""
    if len(first) > LONG and not first.tokens:
        most = np.argsort(-np.max(np.abs(shares), axis=0), kind="stable")[: LONG // 2]
        steps, cut = sorted(most.tolist()), f"({LONG // 2} of {len(first)} steps shown, the most relevant)"  # type: ignore[assignment]
    lines.append(
        ("word" if first.tokens else "step").ljust(size)
        + "".join(f"{e.method:>{max(14, len(e.method) + 2)}}" for e in every)
    )
    for t in steps:
        word = words[t]
        cells = "".join(f"{e.relevance[t]:>+{max(14, len(e.method) + 2)}.3g}" for e in every)
        lines.append(word + " " * (size - columns(word)) + cells)
    if any(verdicts):
        sizes = [max(14, len(e.method) + 2) for e in every]
        cells = "".join(f"{one:>{width}}" for one, width in zip(verdicts, sizes, strict=True))
        lines.append("evidence".ljust(size) + cells)
    head = _clean(title(first).split(": ", 1)[1])
    return "\n".join([head, "", *lines, *filter(None, [cut, note])])
