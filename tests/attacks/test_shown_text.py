"""Words and names that would drive a terminal, turn a line around, break an encoder or be computed by a spreadsheet."""

import csv
import io
import subprocess
import sys

import matplotlib.image
import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy.corpus.export import cell, write_csv
from lrpnumpy.show import html, latex

EVIL = [
    "\x1b[2J",
    "\u202eevil\u2066",
    "\ud83d",
    "\x9b31m",
    "a\x00b",
    "$\\frac{1}$",
    "<b>&",
    "=cmd|' /C calc'!A0",
    "\u200f",
]
OBEYED = {chr(c) for c in (*range(9), 11, 12, *range(14, 32), *range(127, 160), 0x200E, 0x200F, *range(0x202A, 0x202F))}
OBEYED |= {chr(c) for c in (*range(0x2066, 0x206A), *range(0xD800, 0xE000))}


@pytest.fixture(scope="module")
def words():
    """An explanation of evil words with evil names."""
    rng = np.random.default_rng(0)
    table = lrp.Embedding(rng.normal(size=(len(EVIL) + 1, 3)), ["<unk>", *EVIL], "<unk>", tokenizer="space")
    model = lrp.Model(
        [nets.lstm(rng, 3, 2), nets.dense(rng, 2, 2)],
        embedding=table, classes=[EVIL[0] + "no", EVIL[2] + "yes"], output_unit=EVIL[3],
    )  # fmt: skip
    return lrp.explain(model, EVIL, spans=[(0, 4)])


@pytest.fixture(scope="module")
def series():
    """The same of a series, with evil labels."""
    rng = np.random.default_rng(0)
    model = lrp.Model([nets.lstm(rng, 3, 2), nets.dense(rng, 2, 1)], features=EVIL[:3], output_unit=EVIL[1])
    return lrp.explain(model, lrp.Table(rng.normal(size=(len(EVIL), 3)), np.array(EVIL)), unit="feature")


def test_a_terminal_is_not_driven(words, series):
    comparison = lrp.Comparison((words, words))
    for text in (str(words), str(series), str(comparison)):
        assert not OBEYED & {*text} - {"\n"}
        text.encode()


def test_pages_frames_and_latex_can_be_written(words, series):
    for e in (words, series, lrp.Comparison((words,))):
        page = html.page(e)
        page.encode()
        assert not OBEYED & {*page} and "<b>&" not in page
        paper = latex.document(e)
        paper.encode()
        assert not OBEYED & {*paper} and paper.count("\\begin{document}") == 1
    for e in (words, series):
        frame = e.to_frame()
        frame.to_csv().encode()
        assert len(frame) == len(EVIL)
    pytest.importorskip("pyarrow").Table.from_pandas(words.to_frame())


def test_pictures_can_be_drawn(words, series):
    plot = lrp.plot
    for draw, e in (
        (plot.sentence, words), (plot.waterfall, words), (plot.waterfall, series), (plot.series, series),
        (plot.feature_map, series), (plot.bars, [series, series]), (plot.beeswarm, [series, series]),
        (plot.memory, [series, series]), (plot.ledger, words),
    ):  # fmt: skip
        stream = io.BytesIO()
        draw(e).savefig(stream, format="png", dpi=20)
        stream.seek(0)
        assert len(np.unique(matplotlib.image.imread(stream))) > 10, draw.__name__


@pytest.mark.parametrize(
    "text",
    ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1+1", "\r=1", " =1+1", "-LRB-", "＝1+1", "x;=1+1", "x\t@y1"],
)
def test_a_formula_is_text(text):
    found = cell(text)
    assert found.replace("'", "") == text.replace("'", "") and found != text
    assert found[0] not in "=+-@\t\r" and all(part.strip()[0] not in "=+-@" for part in found.split(";"))


@pytest.mark.parametrize("value", [-0.5, 3, "-0.5", "+3", "1e-3", "--", "-", "good", "don't", "a=b", "…", ":-)"])
def test_what_is_no_formula_stays(value):
    assert cell(value) == value


def test_csv_quotes_formulas_unless_told(words):
    for formulas in (False, True):
        out = io.StringIO()
        write_csv([("=me", words)], "method", out, formulas=formulas)
        rows = list(csv.DictReader(io.StringIO(out.getvalue())))
        mark = "" if formulas else "'"
        assert rows[7]["token"] == mark + EVIL[7] and rows[0]["method"] == mark + "=me"
        assert [float(row["relevance"]) for row in rows] == words.relevance.tolist()
        out.getvalue().encode()


def test_the_command_line_has_the_switch(tmp_path):
    command = [sys.executable, "-m", "lrpnumpy", "explain", "=1+cmd good", "--csv", "-"]
    for more, wanted in (([], ",'=1+cmd,"), (["--formulas"], ",=1+cmd,")):
        done = subprocess.run([*command, *more], capture_output=True, check=True)
        assert wanted in done.stdout.decode()
