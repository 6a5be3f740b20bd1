"""All tables and figures of the paper as one self-contained HTML page, ours beside the paper's.

    python -m benchmarks.paper all --sst DIR     # everything
    python -m benchmarks.paper all               # what needs no data set; the page lists what is missing

The page is report.html in the folder --out; its tables and figures are written there as files too.
"""

from __future__ import annotations

import argparse
import io
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from datetime import date
from html import escape
from pathlib import Path

import numpy as np

import lrpnumpy as lrp
from benchmarks.paper import beyond, composition, misclassified, removal, representations, sentiment, tables, toy
from benchmarks.paper.page import Figure, Piece, Rows, Table, Text, publish
from benchmarks.paper.tables import PUBLISHED
from lrpnumpy.show import html

STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8881; --paper: #2a6fdb1c }
body { font: 1rem/1.55 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1.2rem }
h1 { font-size: 1.6rem }
h2 { font-size: 1.25rem; margin-top: 3rem; border-bottom: 1px solid var(--line) }
p { max-width: 54rem }
.note { font-size: .87rem; opacity: .8; margin-top: .3rem }
nav a { margin-right: 1rem; white-space: nowrap }
.wide { overflow-x: auto; margin: 1.4rem 0 .4rem }
.wide table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem }
.wide th, .wide td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--line) }
.wide th { background: var(--soft); vertical-align: bottom }
.wide td { vertical-align: top }
.maps td { vertical-align: middle }
.wide :is(th, td):first-child, .wide :is(th, td).text { text-align: left }
.wide :is(tr.paper td, td.paper) { background: var(--paper) }
.wide td:not(:first-child, .text) { white-space: nowrap }
.wide td.lrp { max-width: none }
.wide .sentence { margin: 0 }
figure { margin: 1.4rem 0 }
figcaption { font-size: .87rem; opacity: .8 }
img { max-width: 100%; height: auto; background: white; border-radius: .3rem }
pre { overflow-x: auto; font-size: .78rem; background: var(--soft); padding: .8rem }
.missing { border-left: .3rem solid #d08700; padding-left: .8rem }
""".strip()
MISSING = (
    f"Missing: this part needs the Stanford Sentiment Treebank ({sentiment.WHERE}). Unpack it, and pass the "
    f"folder that holds test.txt as --sst."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    sentiment.add_arguments(parser, required=False)
    toy.add_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
    began, out = time.perf_counter(), arguments.out
    given = sentiment.setting(arguments)
    sections: list[tuple[str, bool, Callable[[], Iterator[Piece]]]] = [  # title, needs the treebank, pieces
        ("The toy task, and an overview of the methods", False, lambda: toy_pieces(arguments)),
        ("The sentiment model", True, lambda: publish(sentiment.accuracy_pieces(given), out)),
        ("Word removal", True, lambda: publish(removal.pieces(given), out)),
        ("Sentence representations", True, lambda: publish(representations.pieces(given), out)),
        ("Semantic composition", False, lambda: publish(composition.pieces(given.model), out)),
        ("Misclassified sentences", True, lambda: publish(misclassified.pieces(given), out)),
        ("Beyond the paper: references, and GRU networks", False, lambda: publish(beyond.pieces(given), out)),
    ]
    body = []
    for k, (title, needs_data, pieces) in enumerate(sections, 1):
        print(f"\n===== {k} of {len(sections)}: {title} =====\n", flush=True)
        start = time.perf_counter()
        if needs_data and given.test is None:
            print(MISSING)
            inner = f'<p class="missing">{escape(MISSING)}</p>'
        else:
            inner = "\n".join(piece.html() for piece in pieces())
        print(f"({time.perf_counter() - start:.0f} s)", flush=True)
        body.append(f'<h2 id="s{k}">{k}. {escape(title)}</h2>\n{inner}')
    page: Path = out / "report.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(document(body, [title for title, _, _ in sections], time.perf_counter() - began), "utf-8")
    print(f"\n{page}: {page.stat().st_size / 1e6:.1f} MB, {time.perf_counter() - began:.0f} s.")


def document(body: list[str], titles: list[str], seconds: float) -> str:
    """The whole page."""
    links = "".join(f'<a href="#s{k}">{k}. {escape(title)}</a> ' for k, title in enumerate(titles, 1))
    made = (
        f"Made on {date.today()} by lrpnumpy {lrp.__version__} in {seconds:.0f} s (Python "
        f"{platform.python_version()}, NumPy {np.__version__}, {platform.machine()}). The paper is "
        f"{PUBLISHED['source']}; its figures have a tinted background or separate columns."
    )
    heading = "The paper's tables and figures, made again"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{heading}</title><style>{html.STYLE}\n{STYLE}</style></head>\n"
        f"<body><h1>{heading}</h1><p>{escape(made)}</p><nav>{links}</nav>\n{chr(10).join(body)}\n</body></html>\n"
    )


class Tee(io.StringIO):
    """Keeps what is printed, and prints it."""

    def write(self, text: str) -> int:
        sys.__stdout__.write(text)  # type: ignore[union-attr]
        return super().write(text)


def toy_pieces(arguments: argparse.Namespace) -> Iterator[Piece]:
    """What the command `toy` shows, draws and prints."""
    if not arguments.weights.exists() and not arguments.train:
        text = f"Missing: the networks of the toy task ({arguments.weights.name}); --train makes them."
        print(text)
        yield Text(text)
        return
    shown: list[Table] = []

    def listen(title: str, header: Sequence[str], rows: Rows) -> None:
        shown.append(Table("", title, header, rows))

    tables.LISTENERS.append(listen)
    try:
        with redirect_stdout(Tee()) as printed:
            toy.run(arguments)
    finally:
        tables.LISTENERS.remove(listen)
    rest = printed.getvalue()
    for table in shown:
        before, _, rest = rest.partition(tables.text(table.title, table.header, table.rows))
        yield from remarks(before)
        yield table
    drawn = (arguments.out / "toy.png").read_bytes()
    yield Figure("toy", "R_a against n_a and R_b against n_b, first network of each task", drawn)


def remarks(printed: str) -> Iterator[Text]:
    """What was printed between tables."""
    for paragraph in printed.split("\n\n"):
        if paragraph.strip():
            yield Text(" ".join(paragraph.split()))
