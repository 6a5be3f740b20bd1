"""Pictures: what must be in them, for every kind of explanation, and for words that are hard to show."""

import dataclasses
import io
import json
import re
from html.parser import HTMLParser

import networks as nets
import numpy as np
import pytest
import samples
from matplotlib.image import imread as read_image
from networks import close

import lrpnumpy as lrp
from lrpnumpy.show import color, html, latex, parts, plot, terminal

HARD = (
    "<unk>",
    "<script>alert(1)</script>",
    "\x1b[2J",
    "\\input{x}",
    "$x$",
    "שלום",
    "\N{FAMILY}\N{COMBINING ACUTE ACCENT}",
    "&amp;",
    "漢字",
    "",
)


def explanation(tokens, relevance, **options):
    return lrp.Explanation(
        inputs={"x": lrp.InputPart(np.array(relevance, float), tokens=tuple(tokens))},
        scores=np.array([1.0, -2.0]),
        target=0,
        method="lrp-all",
        activation="softmax",
        classes=("yes", "no"),
        ledger=samples.ledger(0.5, (0.2, 0.1), 0.1, 0.1, 3.0),
        **options,
    )


CASES = {
    "plain": explanation(["not", "very", "good"], [1.0, -0.5, 0.1]),
    "all zero": explanation(["a", "b"], [0.0, 0.0]),
    "one word": explanation(["a"], [-2.0]),
    "hard words": explanation(HARD, np.linspace(-1, 1, len(HARD))),
    "very long": explanation([f"word{k}" for k in range(2000)], np.sin(np.arange(2000))),
    "no words": explanation("ab", [1.0, 2.0]).with_first(tokens=None),
    "not finite": explanation("abc", [np.nan, np.inf, 1.0]),
    "huge and tiny": explanation("ab", [1e300, 1e-300]),
}


class Text(HTMLParser):
    """The text and tags of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self.open = [], "", []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("case", CASES)
def test_html(case):
    e = CASES[case]
    page = Text(html.page(e))
    assert page.open == [] and "script" not in {tag for tag, _ in page.tags} and "\x1b" not in page.text
    (frame,) = [attrs for tag, attrs in page.tags if tag == "iframe"]
    inside = Text(frame["srcdoc"])
    assert inside.open == [] and "supports this class" in inside.text
    (data,) = re.findall(r'id="payload">(.*?)</script>', frame["srcdoc"])
    assert {*json.loads(data)["dictionary"]} >= {*(e.tokens or ())}


@pytest.mark.parametrize("colors", ["never", "256", "truecolor"])
@pytest.mark.parametrize("case", CASES)
def test_terminal(case, colors):
    e = CASES[case]
    text = terminal.render(e, colors, width=60)
    if colors == "never":
        assert "\x1b" not in text
    bare = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert "\x1b" not in bare  # a word's own escape codes never reach the terminal
    assert "'yes'" in bare and "ledger" in bare
    if case == "very long":
        assert len(bare.splitlines()) < 500
        assert all(len(line) <= 60 for line in bare.split("\n\n")[1].splitlines())


@pytest.mark.parametrize("word", ["a\rb", "a\nb", "a\tb"])
def test_no_word_breaks_a_line_of_the_terminal(word):
    text = terminal.render(explanation([word, "b"], [1.0, -0.5]), "never", width=60)
    assert "a\N{REPLACEMENT CHARACTER}b" in text and "\r" not in text and word not in text


def test_colors_follow_the_sign_and_size():
    assert color.rgb(0) == (255, 255, 255) and color.rgb(1) == color.RED and color.rgb(-1) == color.BLUE
    assert list(color.scaled(np.array([2.0, -4.0, 0.0]))) == [0.5, -1.0, 0.0]
    assert list(color.scaled(np.zeros(2))) == [0, 0]
    assert color.ink((255, 255, 255)) == (0, 0, 0) and color.ink((0, 0, 60)) == (255, 255, 255)


def test_a_few_large_cells_do_not_take_all_the_color():
    cells = np.linspace(0, 1, 1000)
    assert color.limit(cells) == (1, 1) and color.limit(np.zeros(3)) == (1, 0)
    assert color.limit(cells, np.array([[9.0], [np.nan]])) == pytest.approx((0.99, 9), rel=0.01)
    assert color.limit(cells, np.array([-50.0])) == (5, 50)


def test_the_terminal_decides_on_color(monkeypatch):
    class Screen(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert terminal.palette(stream=Screen()) == "truecolor"
    assert terminal.palette(stream=io.StringIO()) == "never"
    monkeypatch.delenv("COLORTERM")
    assert terminal.palette(stream=Screen()) == "256"
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.palette(stream=Screen()) == "never"


@pytest.mark.parametrize("case", [case for case in CASES if case != "very long"])
def test_figures(case, tmp_path):
    e = CASES[case]
    for kind in ("png", "svg", "pdf"):
        plot.sentence(e).savefig(tmp_path / f"a.{kind}")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    figure, words = plot.sentence(e), [e.shown(t) for t in range(len(e))]
    assert [text.get_text() for text in figure.axes[0].texts[2:]] == words
    boxes = [text.get_bbox_patch() for text in figure.axes[0].texts[2:]]
    backs = [tuple(round(255 * v) for v in box.get_facecolor()[:3]) for box in boxes]
    assert backs == [tuple(color.rgb(float(share))) for share in parts.word_shares(e)]
    seen = (255 * read_image(tmp_path / "a.png")[..., :3]).round().astype(int)
    pixels = {tuple(pixel) for pixel in seen.reshape(-1, 3).tolist()}
    assert {back for back, word in zip(backs, words, strict=True) if word} <= pixels
    assert (tmp_path / "a.svg").read_text("utf-8").count("<path") > len([word for word in words if word.strip()])

    axes = plot.ledger(e).axes[0]
    bars = [bar for bar in axes.patches if bar.get_width()]
    assert axes.get_title(loc="left").startswith(e.method)
    assert all(np.ptp(bar.get_facecolor()[:3]) < 0.2 for bar in bars)  # neutral: not the colors of relevance
    close(sorted(bar.get_width() for bar in bars), sorted(value for value in e.ledger.entries.values() if value))


def test_words_are_scaled_by_the_score():
    """The largest of tiny relevance is pale; the gradient, which is no share of the score, has its own scale."""
    e = explanation(["blorf", "blarf"], [-0.012, -0.001])
    e = dataclasses.replace(e, scores=np.array([1.5, *e.scores[1:]]), target=0)
    assert abs(parts.word_shares(e)).max() == pytest.approx(0.012 / 0.3)
    assert abs(parts.word_shares(dataclasses.replace(e, method="gradient"))).max() == 1
    big = dataclasses.replace(e, inputs={"x": dataclasses.replace(e.first, relevance=np.array([1.2, -0.6]))})
    assert [*parts.word_shares(big)] == [1.0, -0.5]


def test_words_of_a_figure_stay_inside_it():
    figure = plot.sentence(explanation([f"word{k}" for k in range(80)], np.sin(np.arange(80))), width=5)
    renderer = figure.canvas.get_renderer()
    assert len(figure.axes[0].texts) == 82  # a title, f(x), and the words
    for text in figure.axes[0].texts:
        box = text.get_window_extent(renderer)
        assert box.x0 >= 0 and box.x1 <= figure.bbox.width and box.y0 >= 0 and box.y1 <= figure.bbox.height


def test_right_to_left_begins_at_the_right():
    hebrew, latin = (
        plot.sentence(explanation(["שלום", "עולם"], [1, 2])),
        plot.sentence(explanation(["peace", "world"], [1, 2])),
    )
    first, second = ([text.get_position()[0] for text in figure.axes[0].texts[2:4]] for figure in (hebrew, latin))
    assert first[0] > first[1] and second[0] < second[1]


def test_latex_prints_words_as_they_are():
    text = latex.document(CASES["hard words"])
    assert r"\textless{}unk\textgreater{}" in text and r"\textbackslash{}input\{x\}" in text and r"\$x\$" in text
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    assert latex.table([CASES["plain"]] * 2).count("lrp-all") == 2


def test_several_methods_and_classes(rng):
    embedding = lrp.Embedding(rng.normal(size=(2, 3)), vocabulary=["a", "b"])
    model = lrp.Model([nets.lstm(rng, 3, 3), nets.dense(rng, 3, 2)], embedding=embedding, classes=["x", "y"])
    several = lrp.compare(model, "a b", eps=0.2)
    for text in (str(several), terminal.render_comparison(several, "truecolor"), Text(several._repr_html_()).text):
        assert all(e.method in text for e in several)
    assert len(plot.sentence(several).axes[0].texts) >= 5 * len(several)  # a title, f(x), evidence and two words
    every = lrp.explain(model, "a b", target="all")
    assert "'x'" in str(every) and "'y'" in str(every) and "why &#x27;y&#x27;" in every._repr_html_()
