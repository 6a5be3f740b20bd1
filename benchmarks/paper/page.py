"""Pieces of a report: text, tables, figures and heatmaps, for the terminal, as files, and as HTML."""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from benchmarks.paper.tables import show, write_csv, write_latex
from lrpnumpy import Explanation
from lrpnumpy.show import color, terminal

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str

    def print(self) -> None:
        print(textwrap.fill(self.text, 110) + "\n")

    def write(self, out: Path) -> None:
        pass

    def html(self) -> str:
        return f"<p>{escape(self.text)}</p>"

    def markdown(self) -> str:
        return textwrap.fill(self.text, 120)


@dataclass(frozen=True)
class Table:
    """A table of cells that are text already; its first column names the rows."""

    name: str  # of the files that it is written to
    title: str
    header: Sequence[str]
    rows: Rows
    note: str = ""

    def print(self) -> None:
        show(self.title, self.header, self.rows)
        if self.note:
            print(textwrap.fill(self.note, 110) + "\n")

    def write(self, out: Path) -> None:
        write_csv(out / f"{self.name}.csv", self.header, self.rows)
        write_latex(out / f"{self.name}.tex", self.header, [(self.title, self.rows)])

    def html(self) -> str:
        kinds = [
            ("text " if any(len(row[k]) > 24 for row in self.rows) else "") + ("paper" if name == "paper" else "")
            for k, name in enumerate(self.header)
        ]
        marks = [f' class="{kind.strip()}"' if kind else "" for kind in kinds]

        def line(cells: Sequence[str], tag: str) -> str:
            kind = ' class="paper"' if cells[0].startswith("paper") else ""
            inner = "".join(f"<{tag}{a}>{escape(cell)}</{tag}>" for a, cell in zip(marks, cells, strict=True))
            return f"<tr{kind}>{inner}</tr>"

        head = f"<caption>{escape(self.title)}</caption><thead>{line(self.header, 'th')}</thead>"
        body = "".join(line(row, "td") for row in self.rows)
        note = f'<p class="note">{escape(self.note)}</p>' if self.note else ""
        return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>{note}'

    def markdown(self) -> str:
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        drawn = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"{self.title}:\n\n{drawn}" + (f"\n\n{textwrap.fill(self.note, 120)}" if self.note else "")


@dataclass(frozen=True)
class Figure:
    """A picture, drawn by matplotlib."""

    name: str
    title: str
    png: bytes = field(repr=False)

    @classmethod
    def of(cls, name: str, title: str, drawn: Any) -> Figure:
        buffer = BytesIO()
        drawn.savefig(buffer, format="png", dpi=130)
        return cls(name, title, buffer.getvalue())

    def print(self) -> None:
        print(f"{self.title}: {self.name}.png\n")

    def write(self, out: Path) -> None:
        (out / f"{self.name}.png").write_bytes(self.png)

    def html(self) -> str:
        data = base64.b64encode(self.png).decode()
        caption = escape(self.title)
        picture = f'<img alt="{caption}" src="data:image/png;base64,{data}">'
        return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"

    def markdown(self) -> str:
        return f"![{self.title}]({self.name}.png)"


def _words(e: Explanation) -> str:
    """Words on the colors of their relevance."""
    found = []
    for t, share in enumerate(color.scaled(e.relevance)):
        back = color.rgb(float(share))
        style = f"background:rgb{back};color:rgb{color.ink(back)};padding:.15em .25em"
        found.append(f'<span style="{style}" title="{e.relevance[t]:+.4g}">{escape(e.shown(t))}</span>')
    return f'<div class="sentence">{" ".join(found)}</div>'


@dataclass(frozen=True)
class Heatmaps:
    """Sentences on the colors of their relevance, with cells before and after each."""

    title: str
    header: Sequence[str]
    rows: Sequence[tuple[Sequence[str], Explanation | None, Sequence[str]]]  # cells before, sentence, cells after

    def print(self) -> None:
        print(self.title)
        colors = terminal.palette()
        for before, e, after in self.rows:
            words = "-"
            if e is not None:
                words = terminal.sentence(e.tokens or (), color.scaled(e.relevance), colors, 1000)
            print("  ".join((*before, words, *after)))
        print()

    def write(self, out: Path) -> None:
        pass

    def html(self) -> str:
        at = len(self.rows[0][0])  # the column of the words
        left = [' class="text"' if k == at else "" for k in range(len(self.header))]
        head = "".join(f"<th{a}>{escape(cell)}</th>" for a, cell in zip(left, self.header, strict=True))
        lines = []
        for before, e, after in self.rows:
            first, last = ("".join(f"<td>{escape(c)}</td>" for c in cells) for cells in (before, after))
            words = f'<td class="lrp text">{_words(e)}</td>' if e is not None else "<td>-</td>"
            lines.append(f"<tr>{first}{words}{last}</tr>")
        return (
            f'<div class="wide maps"><table><caption>{escape(self.title)}</caption><thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(lines)}</tbody></table></div>"
        )


Piece = Text | Table | Figure | Heatmaps


def publish(pieces: Iterable[Piece], out: Path) -> Iterator[Piece]:
    """Print each piece as it is ready, write its files, and hand it on."""
    out.mkdir(parents=True, exist_ok=True)
    for piece in pieces:
        piece.print()
        piece.write(out)
        yield piece


def canvas(width: float, height: float) -> Any:
    """An empty matplotlib figure that needs no screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawn

    drawn = Drawn(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawn)
    return drawn
