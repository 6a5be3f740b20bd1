"""What people see of pages: every text can be read in light and dark, nothing is below the fold, long names fit."""

import sys
from itertools import pairwise
from pathlib import Path

import networks as nets
import numpy as np
import pytest
import samples
from page_samples import text_model

import lrpnumpy as lrp

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from serving import served

PHONE, WIDE = {"width": 390, "height": 844}, {"width": 1400, "height": 900}
LONG = ("very negative about everything", "very positive about everything", "neither")
# For every text in sight the contrast (WCAG 2) of its color with what is painted behind it.
CONTRAST = """() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, ground) => [0, 1, 2].map((k) => top[k] * top[3] + ground[k] * (1 - top[3]));
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => (v <= 10 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    const hidden = 'script, style, noscript, .unseen, .skip, title';
    if (!text || !element.checkVisibility() || element.closest(hidden)) continue;
    const line = [];
    for (let one = element; one; one = one.parentElement) line.unshift(one);
    let ground = rgba(getComputedStyle(document.body).backgroundColor), opacity = 1;
    for (const one of line) {
      const style = getComputedStyle(one);
      ground = over(rgba(style.backgroundColor), ground);
      opacity *= Number(style.opacity);
    }
    const style = getComputedStyle(element), isPicture = element.namespaceURI.endsWith('svg');
    const ink = rgba(isPicture ? style.fill : style.color);
    ink[3] *= opacity;
    const [low, high] = [luminance(over(ink, ground)), luminance(ground)].sort((a, b) => a - b);
    const name = `${element.tagName} ${element.className.baseVal ?? element.className}: ${text.slice(0, 40)}`;
    found.push([(high + 0.05) / (low + 0.05), name]);
  }
  return found.sort((a, b) => a[0] - b[0]);
}"""


def readable(page, least=20):
    """Assert that every text of a page has a contrast of at least 4.5 : 1; a page that waits for an answer is pale."""
    page.wait_for_selector("body:not(.busy)")
    found = page.evaluate(CONTRAST)
    assert len(found) >= least
    assert found[0][0] >= 4.5, found[:5]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of words whose relevance has every strength, of three classes with long names, and of a series."""
    folder = tmp_path_factory.mktemp("looks")
    tokens = tuple(f"word{k}" for k in range(41))
    ramp = np.linspace(-1, 1, 41)
    scores = np.array([3.0, 1.0, -1.0])
    e = samples.explanation(41, 1, feature_relevance=None, values=None, relevance=ramp, tokens=tokens, classes=LONG,
                            scores=scores, output_unit=None, activation="softmax")  # fmt: skip
    lrp.write_page(folder / "ramp.html", [e])
    model = text_model(LONG)
    texts = [[f"w{k}", f"w{k + 1}", "w3"] for k in range(30)]
    found = lrp.explain_all(model, texts, target="all")
    found.page(folder / "words.html", label=[k % 3 for k in range(30)])
    lrp.write_page(folder / "series.html", [samples.ONE["inputs"](), samples.ONE["inputs"]()], label=[2.0, 3.0])
    return {path.stem: path.as_uri() for path in folder.iterdir()}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["ramp", "words", "words#view=whole", "words#right=no&view=whole", "series"])
def test_every_text_can_be_read(visit, pages, name, scheme):
    file, _, state = name.partition("#")
    page = visit(f"{pages[file]}#{state}", color_scheme=scheme)
    page.wait_for_selector("#record .ledgerbox svg, #whole h2")
    readable(page)
    page.get_by_role("button", name="Switch between light and dark").click()
    page.wait_for_timeout(200)  # buttons fade
    readable(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_of_a_card_can_be_read(visit, pages, scheme, tmp_path):
    from lrpnumpy.page import card_page

    (tmp_path / "card.html").write_text(card_page(samples.ONE["inputs"]()), "utf-8")
    page = visit((tmp_path / "card.html").as_uri(), color_scheme=scheme)
    page.wait_for_selector(".ledgerbox svg")
    readable(page, 15)


def test_words_that_explain_little_are_pale(visit, tmp_path):
    """Colors are scaled by the score: the largest of tiny relevance is not solid."""
    ledger = samples.ledger(-0.013, (1.54,), 0.0, 0.0, 1.0)
    e = samples.explanation(2, 1, feature_relevance=None, values=None, relevance=np.array([-0.012, -0.001]),
                            tokens=("blorf", "blarf"), scores=np.array([1.527]), ledger=ledger)  # fmt: skip
    lrp.write_page(tmp_path / "p.html", [e])
    page = visit((tmp_path / "p.html").as_uri())
    alpha = page.locator(".word").first.evaluate("e => Number(e.style.backgroundColor.match(/[\\d.]+/g)[3])")
    assert 0 < alpha < 0.1
    assert page.inner_text(".came") == "The words explain 1 %: -0.013 mm of a score of 1.53 mm."


def test_a_waterfall_names_reference_values_and_places(visit, tmp_path):
    rng = np.random.default_rng(0)
    head = nets.dense(rng, 3, 1)
    model = lrp.Model([nets.lstm(rng, 2, 3), head], features=["lactate", "heart rate"])
    lrp.write_page(tmp_path / "p.html", [lrp.explain(model, np.array([[1.0, 80.0], [6.1, 90.0]]))])
    page = visit((tmp_path / "p.html").as_uri())
    rows = page.locator(".ledgerbox svg text").all_text_contents()
    assert "lactate (last 6.1)" in rows and "reference" in rows and rows[-2] == "score"
    # Numbers of one column have the same decimals.
    numbers = [text for text in rows if text[-1].isdigit() and "(" not in text]
    assert len(numbers) == 4 and len({len(text.partition(".")[2]) for text in numbers}) == 1
    text = text_model(("bad", "good"))
    lrp.write_page(tmp_path / "q.html", [lrp.explain(text, ["w1", "w2", "w1"])])
    page = visit((tmp_path / "q.html").as_uri())
    assert {"w1 (1)", "w1 (3)", "w2"} <= {*page.locator(".ledgerbox svg text").all_text_contents()}


def test_long_names_are_cut_with_their_whole_text_at_hand_and_numbers_do_not_meet_them(visit, tmp_path):
    lrp.write_page(tmp_path / "p.html", [samples.ONE["40 x 2000"]()])
    for size in (WIDE, PHONE):
        page = visit((tmp_path / "p.html").as_uri())
        page.set_viewport_size(size)
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        svg = page.locator(".ledgerbox svg")
        boxes = svg.locator("text").evaluate_all("all => all.map((e) => e.getBoundingClientRect().toJSON())")
        frame = svg.bounding_box()
        assert all(box["left"] >= frame["x"] - 1 and box["right"] <= frame["x"] + frame["width"] + 1 for box in boxes)
        rows = {}
        for box in boxes:
            rows.setdefault(round(box["top"] / 24), []).append(box)
        assert all(one["right"] <= two["left"] + 1 for row in rows.values() for one, two in pairwise(row))
        assert svg.locator("title").count() > 0


def test_constants_and_binary_signals(visit, tmp_path):
    values = np.column_stack([np.ones(20), np.zeros(20), np.arange(20) // 7 % 2])
    lrp.write_page(tmp_path / "p.html", [samples.explanation(20, 3, ("one", "zero", "alarm"), values=values)])
    page = visit((tmp_path / "p.html").as_uri())
    one, zero, alarm = page.locator("svg.series polyline").evaluate_all(
        "all => all.map((e) => e.getAttribute('points'))"
    )
    heights = [float(line.split()[0].split(",")[1]) for line in (one, zero)]
    assert heights[0] < 10 and 24 < heights[1] - 40 < 34  # at the top of the first row, at the bottom of the second
    assert len(alarm.split()) == 40 and len({point.split(",")[1] for point in alarm.split()}) == 2


def test_a_phone_scrolls_once_and_shows_whole_names(visit, pages):
    page = visit(pages["words"])
    page.set_viewport_size(PHONE)
    page.wait_for_timeout(100)
    assert page.locator(".scroller").evaluate("e => getComputedStyle(e).overflowY") == "visible"
    record, table = page.locator("#record").bounding_box(), page.locator("#records").bounding_box()
    assert record["y"] < table["y"]
    cell = page.locator(".rows .cell.true").nth(1)
    assert cell.inner_text() == LONG[1] and cell.evaluate("e => e.scrollWidth <= e.clientWidth")
    page.mouse.wheel(0, 10_000)
    page.wait_for_timeout(100)
    last = page.locator(".rows .row").last
    assert last.locator(".cell.text").inner_text() == "w29 w30 w3"
    last.click()
    assert page.inner_text("#record h2") == "Record 29" and page.evaluate("scrollY") < 300
    page.get_by_role("button", name="Previous").click()
    assert page.inner_text("#record h2") == "Record 28"


def test_the_overview_is_for_one_class_and_has_no_memory_of_both_directions(visit, tmp_path):
    rng = np.random.default_rng(1)
    vocabulary = [f"w{k}" for k in range(6)]
    both = nets.two_way(rng, 3, 2, "concat", (nets.lstm, nets.lstm))
    embedding = lrp.Embedding(rng.normal(size=(6, 3)), vocabulary=vocabulary)
    model = lrp.Model([both, nets.dense(rng, 4, 2)], embedding=embedding, classes=["no", "yes"])
    lrp.explain_all(model, [vocabulary[:3], vocabulary[3:]], target="all").page(tmp_path / "p.html")
    page = visit((tmp_path / "p.html").as_uri() + "#view=whole")
    assert page.locator(".memory").count() == 0
    assert page.locator(".card h3").all_inner_texts() == ["yes n = 2"]
    card, cards = page.locator(".card").bounding_box(), page.locator(".cards").bounding_box()
    assert card["width"] == cards["width"]  # no empty places beside it
    assert page.inner_text(".speakers h2") == "Most influential words for the class yes"
    page = visit((tmp_path / "p.html").as_uri() + "#view=whole&class=0")
    assert page.inner_text(".speakers h2") == "Most influential words for the class no"
    three = lrp.explain_all(text_model(LONG), [["w1", "w2"], ["w3"]], target="all")
    three.page(tmp_path / "q.html")
    page = visit((tmp_path / "q.html").as_uri() + "#view=whole")
    said = page.locator(".memory .quiet").all_inner_texts()
    assert said == [f"Mean |relevance| by lag for the class {name} (n = 2)" for name in LONG]
    for c in range(3):
        mean = page.evaluate(f"[...memoryOf(page, 'lrp-all', {c}).mean]")
        wanted = [abs(three[0].relevance[c][1]) + abs(three[1].relevance[c][0]), abs(three[0].relevance[c][0])]
        np.testing.assert_allclose(mean, np.array(wanted) / 2, rtol=1e-5)


def test_methods_have_descriptions(visit, pages):
    page = visit(pages["words"])
    option = page.locator("[data-key=method] option").first
    assert option.get_attribute("title") == lrp.methods()[4].description


def test_a_notebook_shows_the_card_of_the_page(visit, tmp_path):
    e = lrp.explain(text_model(("bad", "good")), ["w1", "<b>w2"], target="all")
    text = f"<!doctype html><body style='background:#111;color:#eee'>{e._repr_html_()}</body>"
    (tmp_path / "n.html").write_text(text, "utf-8")
    page = visit((tmp_path / "n.html").as_uri(), color_scheme="light")
    frame = page.frame_locator("iframe")
    frame.locator(".ledgerbox svg").wait_for()
    assert frame.locator(".word").all_inner_texts() == ["w1", "<b>w2[?]"]
    assert "supports this class" in frame.locator(".legend").inner_text()
    assert page.locator("pre").is_hidden()
    high = page.locator("iframe").bounding_box()["height"]
    inside = frame.locator("body").evaluate("e => e.offsetHeight")
    assert inside <= high <= inside + 4
    assert frame.locator("html").get_attribute("data-theme") == "dark"
    frame.locator(".class").first.click()
    assert frame.locator(".class").first.get_attribute("aria-pressed") == "true"


def test_a_comparison_shows_every_method(visit, tmp_path):
    from lrpnumpy.page import card_page

    both = lrp.compare(text_model(("bad", "good")), ["w1", "w2"], ["lrp-all", "deeplift", "cd"])
    (tmp_path / "c.html").write_text(card_page(both), "utf-8")
    page = visit((tmp_path / "c.html").as_uri())
    assert page.locator(".method h3").all_inner_texts() == ["lrp-all", "deeplift", "cd"]


# -- the live page ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def live():
    with served("sentiment-2", warm=False) as found:
        yield found


@pytest.fixture
def opened(visit, live):
    def open_page(**options):
        page = visit(live.address, (f"http://{live.host}:{live.port}/",), **options)
        page.wait_for_selector("body.live")
        return page

    return open_page


def settled(page, text):
    """Type a text, and wait for its words."""
    page.fill("#text", text)
    for _ in range(200):
        page.wait_for_timeout(25)
        if page.locator("#record .word").all_inner_texts() == text.split():
            return
    raise AssertionError(page.inner_text("#record"))


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_a_click_on_a_word_opens_is_in_sight(opened, size, scheme):
    page = opened(color_scheme=scheme)
    page.set_viewport_size(size)
    word = page.locator("#record .word")
    for k in (0, 5, word.count() - 1):
        word.nth(k).click()
        page.wait_for_timeout(150)
        box, at = page.locator(".selection").bounding_box(), word.nth(k).bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= size["height"] and box["x"] >= 0
        assert box["x"] + box["width"] <= size["width"]
        assert min(abs(box["y"] - at["y"] - at["height"]), abs(at["y"] - box["y"] - box["height"])) < 20
        assert page.locator(".selection .remove").is_visible()
    readable(page)


def test_another_sentence_is_not_a_change_of_the_one_before(opened):
    page = opened()
    settled(page, "The plot is thin but the acting is superb")
    assert page.inner_text(".moved") == ""
    page.wait_for_timeout(1600)  # the next burst of typing
    settled(page, "The plot is weak but the acting is superb")
    assert "→" in page.inner_text(".moved")
    settled(page, "Nobody")
    assert page.inner_text(".moved") == ""


def test_methods_that_fail_are_apart(opened):
    page = opened()
    groups = page.locator("[data-key=method] optgroup")
    assert [one.get_attribute("label") for one in groups.all()] == [
        "Recommended", "Other methods", "Often fail their evidence",
    ]  # fmt: skip
    assert groups.last.locator("option").all_inner_texts() == ["lrp-prop", "lrp-abs", "lrp-half"]
    assert all(one.get_attribute("title") for one in page.locator("[data-key=method] option").all())
