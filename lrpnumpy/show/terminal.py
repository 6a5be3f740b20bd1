"""Explanations as text: a coloured sentence, a table of words and the ledger; plain where there is no terminal."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any, Literal, TextIO

import numpy as np

from lrpnumpy.result import UNKNOWN, Comparison, Explanation, Mark, ReferenceLedger, SpanLedger
from lrpnumpy.show.color import RGB, ink, rgb, scaled
from lrpnumpy.show.parts import condensed, shown
from lrpnumpy.show.sparks import as_features, spark_map

Color = Literal["auto", "never", "256", "truecolor"]
FAINT = 0.04  # below this share a word is left uncoloured
LONG, LONG_SERIES = 60, 20  # of a longer text or series the table has the more relevant half of so many steps alone


def palette(color: Color = "auto", stream: TextIO | None = None) -> Literal["never", "256", "truecolor"]:
    """How many colours the stream can show: none unless it is a terminal, and none with NO_COLOR set."""
    if color != "auto":
        return color
    stream = stream or sys.stdout
    if os.environ.get("NO_COLOR") or not stream.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return "never"
    return "truecolor" if os.environ.get("COLORTERM", "") in ("truecolor", "24bit") else "256"


def paint(text: str, share: float, colors: str) -> str:
    """A word on the colour of its relevance."""
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
    """Words on their colours, wrapped to the width."""
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


def _words(e: Explanation) -> list[str]:
    return [e.shown(t) for t in range(len(e))]


def legend(e: Explanation) -> str:
    """What the marks in a picture mean; empty where there are none."""
    every = [part.marks for part in e.inputs.values() if part.marks is not None]
    return f"{UNKNOWN} not in the vocabulary" if any((marks == Mark.UNKNOWN).any() for marks in every) else ""


def is_regression(e: Explanation) -> bool:
    """Whether the score is a number in itself and not that of a class."""
    return e.output_unit is not None or (len(e.scores) == 1 and e.probabilities is None)


def title(e: Explanation) -> str:
    """What is explained: the class, its score and probability, the method; of a regression its value and unit."""
    if is_regression(e):
        name = f"{e.name_of(e.target)} " if e.classes else ""
        unit = f" {e.output_unit}" if e.output_unit else ""
        windows = (e.options or {}).get("windows")
        mean = f", the mean of {windows} windows" if windows else ""
        text = f"{e.method}: why {name}{e.scores[e.target]:.4g}{unit}{mean}?"
        if isinstance(e.ledger, ReferenceLedger):
            gap = e.ledger.score - e.ledger.reference
            text += f"  {abs(gap):.4g}{unit} {'above' if gap >= 0 else 'below'} the reference"
        return text
    text = f"{e.method}: why {e.name_of(e.target)!r}"
    if (e.options or {}).get("versus") is not None:
        text += f" rather than {e.name_of(e.options['versus'])!r}"
    text += f"?  score {e.scores[e.target]:.4g}"
    if e.probabilities is not None:
        text += f", probability {e.probabilities[e.target]:.1%}"
    return text + (", predicted" if e.target == e.predicted and len(e.scores) > 1 else "")


def ledger_line(ledger: Any) -> str:
    """Where the score went, in one line."""
    if isinstance(ledger, SpanLedger):
        return f"left unassigned by the words: {ledger.unassigned:+.4g}, of {ledger.total[0]:.4g}"
    if ledger is None:
        return ""
    parts = [f"{name} {value:+.4g}" for name, value in ledger.entries.items()]
    return f"ledger: {', '.join(parts)}  = {ledger.total:.4g}"


def _bar(share: float, half: int = 10) -> str:
    """A bar to the left or right of a middle line."""
    size = round(abs(share) * half)
    return f"{('█' * size).rjust(half) if share < 0 else ' ' * half}│{('█' * size) if share > 0 else ''}"


def table(e: Explanation) -> str:
    """One line a word with its relevance and a bar; of long sequences the most relevant alone."""
    words = [_clean(word) for word in _words(e)]
    shares, shown, note = scaled(e.relevance), range(len(e)), ""
    long = LONG if e.tokens else LONG_SERIES
    if len(e) > long:
        shown = sorted(part.position for part in e.top(long // 2))  # type: ignore[assignment]
        note = f"\n({long // 2} of {len(e)} steps shown, the most relevant)"
    wide = min(30, max(columns(words[t]) for t in shown))
    lines = []
    for t in shown:
        word = words[t] if columns(words[t]) <= 30 else words[t][:29] + "…"
        lines.append(
            f"{t:>5}  {word}{' ' * (wide - columns(word))}  {e.relevance[t]:>+11.4g}  {_bar(shares[t])}".rstrip()
        )
    return "\n".join(lines) + note


def render(e: Explanation, color: Color = "auto", stream: TextIO | None = None, width: int | None = None) -> str:
    """An explanation as text: title, sentence or map, table, phrases, ledger. One block a class with target "all"."""
    if e.target == "all":
        return "\n\n".join(render(e.for_class(c), color, stream, width) for c in range(len(e.scores)))
    colors = palette(color, stream)
    width = width or shutil.get_terminal_size().columns
    parts = [title(e)]
    for part in shown(e, "render"):
        one = as_features(e.of_input(part.name))
        if part.name != e.name:
            parts.append(f"input {_clean(part.name)!r}")
        if e.tokens and part.name == e.name:
            short = condensed(e)
            parts.append(sentence(_words(short), scaled(short.relevance), colors, width))
        elif not one.tokens:
            parts.append(spark_map(part, width, lambda text, share: paint(text, share, colors), _clean))
        parts.append(table(one))
    if e.spans:
        parts.append("\n".join(f"{' '.join(_words(e)[s.start : s.stop])}: {s.relevance:+.4g}" for s in e.spans))
    parts += [legend(e), ledger_line(e.ledger)]
    return "\n\n".join(part for part in parts if part)


def render_comparison(
    comparison: Comparison, color: Color = "auto", stream: TextIO | None = None, width: int | None = None
) -> str:
    """Several methods on one input: the sentence once a method, then a table with one column a method."""
    colors = palette(color, stream)
    width = width or shutil.get_terminal_size().columns
    single = [e.for_class(e.predicted) if e.target == "all" else e for e in comparison]
    note, every = legend(single[0]), [*map(condensed, single)]
    first, lines = every[0], []
    shares = [scaled(e.relevance) for e in every]
    wide = max(len(e.method) for e in every)
    if first.tokens and colors != "never":
        for e, share in zip(every, shares, strict=True):
            text = sentence(_words(e), share, colors, max(20, width - wide - 2))
            lines.append(text.replace("\n", "\n" + " " * (wide + 2)).join([f"{e.method:<{wide}}  ", ""]))
        lines.append("")
    words = [_clean(word)[:20] for word in _words(first)]
    size = max(5, *(columns(word) for word in words))
    lines.append("word".ljust(size) + "".join(f"{e.method:>{max(11, len(e.method) + 2)}}" for e in every))
    for t, word in enumerate(words):
        cells = "".join(f"{e.relevance[t]:>+{max(11, len(e.method) + 2)}.3g}" for e in every)
        lines.append(word + " " * (size - columns(word)) + cells)
    head = title(first).split(": ", 1)[1]
    return "\n".join([head, "", *lines, *filter(None, [note])])
