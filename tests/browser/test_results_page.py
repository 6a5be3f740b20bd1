"""The page of results in a real browser: what people do with it, and how long that takes."""

import re
import sys

import numpy as np
import pytest
import samples
from page_samples import HOSTILE, sentences, text_model
from playwright.sync_api import expect

import lrpnumpy as lrp
from lrpnumpy.show import latex

CLASSES = ("bad", "so so", "good")


@pytest.fixture(scope="module")
def model():
    return text_model(CLASSES)


@pytest.fixture(scope="module")
def results(model):
    texts = sentences(300, np.random.default_rng(3))
    return lrp.explain_all(model, texts, target="all"), lrp.explain_all(model, texts, "cd", target="all")


@pytest.fixture(scope="module")
def words_page(results, tmp_path_factory):
    """300 records by two methods, with true classes."""
    path = tmp_path_factory.mktemp("words") / "page.html"
    truth = np.random.default_rng(4).integers(3, size=300)
    results[0].page(path, results[1], label=truth)
    return path.as_uri(), truth


@pytest.fixture(scope="module")
def windows():
    model, x = samples.forecast()
    head = lrp.Dense(np.full((1, 3), 0.7), np.zeros(1))
    model = lrp.Model([model.layers[0], head], output_unit="mm", features=["rain", "$x_1$"])
    table = lrp.Table(np.tile(x, (4, 1)), samples.days(4 * len(x)))
    return lrp.explain_windows(model, table, length=20, unit="feature")


@pytest.fixture(scope="module")
def series_page(windows, tmp_path_factory):
    path = tmp_path_factory.mktemp("series") / "page.html"
    windows.page(path, label=windows.scores[:, 0] + 0.1)
    return path.as_uri()


def count(page):
    """How many records the page says that it shows."""
    return int(re.match(r"([\d,]+)", page.inner_text("#about")).group(1).replace(",", ""))


def shown(page):
    """The words on the page with their backgrounds, of the first method."""
    return page.eval_on_selector_all(
        ".method:first-child .word", "all => all.map((w) => [w.textContent, w.style.backgroundColor, w.ariaLabel])"
    )


def row_texts(page):
    return page.eval_on_selector_all(".rows .row .cell.text", "all => all.map((cell) => cell.textContent)")


def reds_and_blues(colors):
    """Sign of the relevance that each color stands for."""
    return [0 if re.search(r", 0(\.0+)?\)$", c) else 1 if c.startswith("rgba(214") else -1 for c in colors]


def test_it_loads_with_the_first_record_colored(visit, words_page, results):
    page = visit(words_page[0])
    assert count(page) == 300
    e = results[0][0].for_class(results[0][0].predicted)
    found = shown(page)
    assert [word for word, _, _ in found] == [e.shown(t) for t in range(len(e))]
    faint = abs(e.relevance) < 1e-3 * abs(e.relevance).max()
    signs = np.where(faint, 0, np.sign(e.relevance))
    assert [s for s, f in zip(reds_and_blues([c for _, c, _ in found]), faint, strict=True) if not f] == [
        s for s, f in zip(signs, faint, strict=True) if not f
    ]
    for (_, _, says), value in zip(found, e.relevance, strict=True):
        assert f": {value:+.4g}," in says + ","


def test_hover_says_the_number(visit, words_page, results):
    page = visit(words_page[0])
    e = results[0][0].for_class(results[0][0].predicted)
    page.hover(".word >> nth=0")
    assert page.inner_text("#tooltip").startswith(f"{e.shown(0)}: {e.relevance[0]:+.4g}")


def test_search(visit, words_page, results):
    page = visit(words_page[0])
    page.fill("input[type=search]", "W12 w")
    wanted = [k for k, e in enumerate(results[0]) if "w12 w" in " ".join(e.tokens)]
    assert 0 < len(wanted) < 300 and count(page) == len(wanted)
    seen = row_texts(page)  # those in sight
    assert seen == [" ".join(results[0][k].tokens) for k in wanted][: len(seen)] and len(seen) > 5
    page.fill("input[type=search]", "no such words")
    assert "No record matches" in page.inner_text(".rows")


def test_sort(visit, words_page, results):
    page = visit(words_page[0])
    head = page.get_by_role("columnheader", name="score")
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    best = results[0].scores.max(axis=1)
    first = [float(text) for text in page.locator(".rows .cell.score").all_inner_texts()]
    np.testing.assert_allclose(first, np.sort(best)[: len(first)], atol=0.5e-3)  # one column, three decimals
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    first = [float(text) for text in page.locator(".rows .cell.score").all_inner_texts()]
    np.testing.assert_allclose(first, -np.sort(-best)[: len(first)], atol=0.5e-3)


def test_filters(visit, words_page, results):
    address, truth = words_page
    page = visit(address)
    predicted, scores = results[0].scores.argmax(axis=1), results[0].scores.max(axis=1)
    page.click("text=Filters")
    page.get_by_label("Prediction is").select_option("wrong")
    assert count(page) == (predicted != truth).sum()
    page.get_by_label("Predicted", exact=True).select_option("good")
    assert count(page) == ((predicted != truth) & (predicted == 2)).sum()
    page.get_by_label("True", exact=True).select_option("bad")
    assert count(page) == ((truth == 0) & (predicted == 2)).sum()
    page.get_by_role("button", name="Clear").click()
    assert count(page) == 300
    page.get_by_label("Score from").fill("1.5")
    page.get_by_label("Score to").fill("2.5")
    assert count(page) == ((scores >= 1.5) & (scores <= 2.5)).sum()
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Contains the word").fill("w1")  # whole: not w12
    assert count(page) == sum("w1" in e.tokens for e in results[0])


def test_switch_of_method_and_class(visit, words_page, results):
    page = visit(words_page[0])
    before = shown(page)
    page.get_by_label("Method").select_option("cd")
    by_cd = shown(page)
    assert [says for *_, says in by_cd] != [says for *_, says in before]
    e = results[1][0].for_class(results[1][0].predicted)
    assert [f"{x:+.4g}" in says for (*_, says), x in zip(by_cd, e.relevance, strict=True)] == [True] * len(e)
    page.get_by_role("button", name="so so").click()
    e = results[1][0].for_class(1)
    assert [f"{x:+.4g}" in says for (*_, says), x in zip(shown(page), e.relevance, strict=True)] == [True] * len(e)
    assert page.get_by_label("Class", exact=True).input_value() == "1"
    assert "class=1" in page.url and "method=cd" in page.url


def test_two_methods_side_by_side(visit, words_page, results):
    page = visit(words_page[0])
    page.get_by_label("Compare with").select_option("cd")
    assert page.locator("article.method h3").all_inner_texts() == ["lrp-all", "cd"]
    one, two = page.locator("article.method").all()
    assert abs(one.bounding_box()["y"] - two.bounding_box()["y"]) < 2
    assert one.bounding_box()["x"] + 50 < two.bounding_box()["x"]
    e = results[1][0].for_class(results[1][0].predicted)
    says = two.locator(".word").evaluate_all("all => all.map((w) => w.ariaLabel)")
    assert f"{e.relevance[0]:+.4g}" in says[0]


def test_the_ledger_and_the_waterfall(visit, words_page, results):
    page = visit(words_page[0])
    e = results[0][0].for_class(results[0][0].predicted)
    entries = page.inner_text(".entries")
    shown = {name: value for name, value in e.ledger.entries.items() if value}
    assert "initial state" in e.ledger.entries and "initial state" not in shown and "initial state" not in entries
    for name, value in shown.items():
        assert f"{name} {value:+.3f}" in entries
    assert f"= {float(e.ledger.total):.4g}" in entries
    zero = page.locator(".ledgerbar .zero").bounding_box()["x"]
    for name, value in shown.items():  # what is negative lies left of the line at 0
        piece = page.locator(f".ledgerbar [title^='{name}']")
        assert (piece.bounding_box()["x"] > zero) == (value >= 0)
        rgb = [int(v) for v in re.findall(r"\d+", piece.evaluate("e => getComputedStyle(e).backgroundColor"))[:3]]
        assert max(rgb) - min(rgb) < 60  # neutral: neither the red nor the blue of relevance
    share = e.ledger.inputs / e.ledger.total
    assert page.inner_text(".came") == f"{100 * share:.0f} % of the score came from the words."
    says = page.get_attribute(".ledgerbox svg", "aria-label")
    assert says.endswith(f"score {e.scores[e.target]:.4g}")


def test_the_state_is_in_the_address_and_the_back_button_works(visit, words_page):
    page = visit(words_page[0])
    page.click(".rows .row >> nth=3")
    assert page.url.endswith("#record=3")
    page.get_by_role("button", name="so so").click()
    page.click(".rows .row >> nth=5")
    assert "record=5" in page.url and "class=1" in page.url
    page.go_back()
    expect(page.locator("#record h2")).to_have_text("Record 3")
    page.go_back()
    expect(page).to_have_url(re.compile("#record=3$"))
    assert page.locator(".class[aria-pressed=true]").inner_text().split("\n")[0] in CLASSES
    other = visit(words_page[0] + "#record=17&class=2&method=cd&q=w1&sort=score&down=1")
    assert other.inner_text("#record h2") == "Record 17"
    assert other.locator(".class[aria-pressed=true] .name").inner_text() == "good"
    assert other.input_value("input[type=search]") == "w1"
    assert other.get_by_role("columnheader", name="score").get_attribute("aria-sort") == "descending"
    nonsense = visit(words_page[0] + "#record=nobody&class=99&method=magic&sort=__proto__&min=x")
    assert nonsense.inner_text("#record h2") == "Record 0"


def test_copies(visit, words_page, results):
    page = visit(words_page[0], permissions=["clipboard-read", "clipboard-write"])
    e = results[0][0].for_class(results[0][0].predicted)

    def copied(kind):
        page.get_by_role("button", name=f"Copy as {kind}").click()
        expect(page.locator("#said")).to_have_text(f"Copied as {kind}.")
        return page.evaluate("navigator.clipboard.readText()")

    lines = copied("text").splitlines()
    assert lines[1:] == [f"{e.shown(t)}\t{e.relevance[t]:+.4g}" for t in range(len(e))]
    assert copied("LaTeX") == latex.sentence(e)
    picture = copied("SVG")
    assert picture.startswith("<svg") and picture.count("<rect") == len(e)
    for t in range(len(e)):
        assert f">{e.shown(t)}</text>" in picture


def test_the_keyboard_is_enough(visit, words_page):
    page = visit(words_page[0])
    page.focus("[role=grid]")
    for _ in range(30):
        page.keyboard.press("ArrowDown")
    assert page.inner_text("#record h2") == "Record 30"
    active = page.get_attribute("[role=grid]", "aria-activedescendant")
    assert page.get_attribute(f"#{active}", "aria-selected") == "true"
    box, frame = page.locator(f"#{active}").bounding_box(), page.locator(".scroller").bounding_box()
    assert frame["y"] - 1 <= box["y"] <= frame["y"] + frame["height"] - box["height"] + 1
    page.keyboard.press("End")
    assert page.inner_text("#record h2") == "Record 299"
    page.keyboard.press("Home")
    words = page.locator(".word").count()
    page.focus(".word >> nth=0")
    for _ in range(words - 1):
        page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement === [...document.querySelectorAll('.word')].at(-1)")
    assert page.locator("#tooltip").is_visible()
    # Every button and field can be reached, and shows that it has the focus.
    page.focus("#skip")
    seen, says = set(), "({tagName, ariaLabel, textContent}) => `${tagName} ${ariaLabel ?? textContent}`"
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(page.evaluate(f"({says})(document.activeElement)"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or page.evaluate("document.activeElement === document.body")
    assert {"BUTTON Copy as LaTeX", "BUTTON Switch between light and dark", "SUMMARY Filters"} <= seen


def test_a_screen_reader_is_told(visit, words_page):
    page = visit(words_page[0])
    assert page.get_attribute("[role=grid]", "aria-rowcount") == "301"
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, select, input, svg[role=img], section, article')]
          .filter((e) => e.checkVisibility() && !e.labels?.length && !e.ariaLabel && !e.textContent.trim()).length"""
    )
    assert unnamed == 0
    page.fill("input[type=search]", "w12")
    assert re.fullmatch(r"\d+ records? of 300", page.inner_text("#said"))


def luminance(text):
    values = [float(v) for v in re.findall(r"[\d.]+", text)[:3]]
    linear = [v / 255 / 12.92 if v <= 10 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in values]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(visit, words_page, scheme):
    page = visit(words_page[0], color_scheme=scheme)

    def background():
        return luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    assert (background() > 0.5) == (scheme == "light")
    for selector in ("#title", ".quiet", ".cell.text", ".head button"):  # WCAG AA
        ink = luminance(page.eval_on_selector(selector, "e => getComputedStyle(e).color"))
        high, low = max(ink, background()), min(ink, background())
        assert (high + 0.05) / (low + 0.05) >= 4.5, selector
    page.get_by_role("button", name="Switch between light and dark").click()
    assert (background() > 0.5) == (scheme == "dark")


def test_the_whole(visit, words_page, results):
    address, truth = words_page
    page = visit(address)
    page.get_by_role("button", name="Overview").click()
    predicted = results[0].scores.argmax(axis=1)
    for r, c in ((0, 0), (1, 2), (2, 1)):
        wanted = ((truth == r) & (predicted == c)).sum()
        cell = page.locator(f".confusion tbody tr:nth-child({r + 1}) td:nth-of-type({c + 1}) button")
        assert cell.inner_text() == str(wanted)
    cell.click()
    assert count(page) == wanted and "true=2" in page.url and "predicted=1" in page.url
    page.get_by_role("button", name="Clear filters").click()
    # The word of highest mean relevance for a class, of those that occur at least twice, links to its records.
    sums, counts = {}, {}
    for e in results[0]:
        for word, x in zip(e.tokens, e.relevance[1], strict=True):
            sums[word], counts[word] = sums.get(word, 0.0) + float(x), counts.get(word, 0) + 1
    means = {word: sums[word] / counts[word] for word in sums if counts[word] >= 2}
    best = max(means, key=means.get)
    card = page.locator(".card").nth(1)
    first = card.locator(".speaker").first
    assert first.locator(".speakername").inner_text() == best
    assert f"{means[best]:+.3g} · {counts[best]}×" in first.inner_text()
    first.locator("summary").click()
    link = first.locator(".contexts a").first
    assert best in link.inner_text()
    where = {k: x for k, e in enumerate(results[0]) for w, x in zip(e.tokens, e.relevance[1], strict=True) if w == best}
    for k, e in enumerate(results[0]):  # of several of the word the largest
        for word, x in zip(e.tokens, e.relevance[1], strict=True):
            if word == best:
                where[k] = max(where[k], x)
    largest = results[0][max(where, key=where.get)]
    link.click()
    page.wait_for_selector("#record:not([hidden])")
    assert [w for w, *_ in shown(page)] == [largest.shown(t) for t in range(len(largest))]
    assert "class=1" in page.url


def test_the_memory_curve_is_that_of_the_summary(visit, words_page, series_page, results, windows):
    page = visit(words_page[0] + "#view=whole&class=1")
    mean = page.evaluate("[...memoryOf(page, 'lrp-all').mean]")
    wanted = np.zeros(9)  # of the longest sentence
    for e in results[0]:
        wanted[: len(e)] += abs(e.relevance[1][::-1]) / len(results[0])
    np.testing.assert_allclose(mean, wanted, rtol=1e-4)
    page = visit(series_page + "#view=whole")
    mean = page.evaluate("[...memoryOf(page, 'deeplift').mean]")
    np.testing.assert_allclose(mean, windows.summary().by_lag()[0], rtol=1e-4)
    assert "days before the prediction" in page.text_content(".memory svg")


def test_a_series_has_its_signals_and_dates(visit, series_page, windows):
    page = visit(series_page, permissions=["clipboard-read", "clipboard-write"])
    e = windows[0]
    svg = page.locator("svg.series")
    assert "2004-03-29" in svg.text_content() and "2004-04-17" in svg.text_content()
    assert svg.locator("polyline").count() == 2
    svg.focus()  # the last day of the first feature
    assert page.inner_text("#tooltip").split("\n") == [
        "2004-04-17", f"rain {e.values[-1, 0]:.4g}", f"relevance {e.feature_relevance[-1, 0]:+.4g} mm",
    ]  # fmt: skip
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    assert f"relevance {e.feature_relevance[-2, 1]:+.4g} mm" in page.inner_text("#tooltip")
    assert page.inner_text(".recordhead").startswith("2004-04-17")
    page.get_by_role("button", name="Copy as LaTeX").click()
    expect(page.locator("#said")).to_have_text("Copied as LaTeX.")
    assert page.evaluate("navigator.clipboard.readText()") == latex.series(e)


def test_every_input_is_shown(visit, tmp_path):
    e = samples.ONE["inputs"]()
    lrp.write_page(tmp_path / "p.html", [e])
    page = visit((tmp_path / "p.html").as_uri())
    assert page.locator(".method h4").all_inner_texts()[:3] == ["x", "basin", "gauges"]
    assert page.locator("svg.series").count() == 2
    features = page.locator(".words.vector .word")
    assert features.all_inner_texts() == ["area = 120", "$x_1$ = 3.2", "forest share = 0.8"]
    assert "area = 120: +0.3," in features.first.get_attribute("aria-label") + ","


def test_one_score_with_a_probability(visit, tmp_path, rng):
    """The class is whether the probability is over a half."""
    head = lrp.Dense(np.full((1, 3), 2.0), np.zeros(1))
    model = lrp.Model([samples.forecast()[0].layers[0], head], output="sigmoid")
    found = lrp.explain_all(model, [3 * rng.normal(size=(4, 2)) for _ in range(50)], target="all")
    truth = rng.integers(2, size=50)
    found.page(tmp_path / "p.html", label=truth)
    page = visit((tmp_path / "p.html").as_uri() + "#right=yes")
    is_one = found.scores[:, 0] > 0
    assert 0 < is_one.sum() < 50 and count(page) == (is_one == truth).sum()
    first = np.flatnonzero(is_one == truth)[0]
    cells = page.locator(".rows .row >> nth=0").locator(".cell.predicted, .cell.score").all_inner_texts()
    assert [text.replace("\n", "") for text in cells] == [
        f"{int(is_one[first])}, right", f"{found.scores[first, 0]:.4g}",
    ]  # fmt: skip


def test_several_outputs_of_a_regression(visit, tmp_path):
    model, x = samples.forecast()
    found = lrp.explain_all(model, [x, x[::-1].copy()], target="all", unit="feature")
    found.page(tmp_path / "p.html")
    page = visit((tmp_path / "p.html").as_uri() + "#class=4&record=1")
    assert f"predicted {found.scores[1, 4]:.4g} mm" in page.inner_text(".recordhead")
    cells = page.locator(".rows .cell.predicted").all_inner_texts()
    assert cells == [f"{score:.4g}" for score in found.scores[:, 4]]


@pytest.mark.parametrize("name", samples.ONE)
def test_any_explanation_is_drawn(visit, name, tmp_path):
    lrp.write_page(tmp_path / "p.html", samples.ONE[name]())
    page = visit((tmp_path / "p.html").as_uri())
    page.wait_for_selector(".ledgerbox svg")
    assert "NaN" not in page.content().split('id="payload"')[0]
    if name == "no values":
        assert "do not contain the values of this series" in page.inner_text("#record")
    page.get_by_role("button", name="Overview").click()
    assert page.locator("#whole h2").count() >= 1


def test_hostile_words_stay_text(visit, tmp_path):
    model = text_model(classes=HOSTILE[:3], words=HOSTILE)
    found = lrp.explain_all(model, [HOSTILE, HOSTILE[::-1]], target="all")
    found.page(tmp_path / "p.html", label=[0, 1], name=HOSTILE[:2], title=HOSTILE[0])
    page = visit((tmp_path / "p.html").as_uri())
    assert page.inner_text("#title") == HOSTILE[0] and page.title() == HOSTILE[0]
    words = [w for w, *_ in shown(page)]
    assert words == [w.replace("\u202e", "\ufffd").replace("\ud800", "\ufffd") for w in HOSTILE]
    page.get_by_label("Class", exact=True).select_option("1")
    page.hover(".word >> nth=0")
    page.get_by_role("button", name="Overview").click()
    for summary in page.locator(".speaker summary").all():
        summary.click()
    assert page.locator("#main img, #main b, #main script").count() == 0
    assert page.evaluate("typeof hostile") == "undefined"
    assert HOSTILE[0] in page.inner_text("#whole")


def test_a_script_that_slips_in_is_stopped_by_the_policy(browser, words_page):
    page = browser.new_context().new_page()
    said = []
    page.on("console", lambda m: said.append(m.text))
    page.goto(words_page[0])
    page.evaluate("""() => {
      const script = document.createElement('script');
      script.textContent = 'window.slipped = true';
      document.body.append(script);
      const image = new Image();
      image.src = 'https://example.org/x.png';
      return fetch('https://example.org/').catch(() => null);
    }""")
    assert page.evaluate("window.slipped") is None
    assert len([text for text in said if "Content Security Policy" in text]) >= 3
    page.context.close()


def test_a_narrow_window(visit, words_page, series_page):
    for address in (words_page[0], words_page[0] + "#view=whole&with=cd", series_page):
        page = visit(address)
        page.set_viewport_size({"width": 380, "height": 800})
        page.wait_for_timeout(50)
        assert page.evaluate("document.documentElement.scrollWidth") <= 380


def test_a_live_page_can_put_records_beside_those_of_the_file(visit, words_page, model):
    from lrpnumpy.page.payload import payload, to_json

    page = visit(words_page[0])
    e = lrp.explain_all(model, [["w7", "w8"]], target="all")
    page.evaluate("(text) => page.put(JSON.parse(text))", to_json(payload([e], numbers=["typed"])))
    assert count(page) == 301 and page.inner_text("#record h2") == "Record typed"
    assert [w for w, *_ in shown(page)] == ["w7", "w8"]
    other = lrp.explain_all(model, [["w9"]], target="all")
    page.evaluate("(text) => page.put(JSON.parse(text))", to_json(payload([other], numbers=["typed"])))
    assert count(page) == 301 and [w for w, *_ in shown(page)] == ["w9"]


# -- 10,000 records of 20 words, two methods, five classes ---------------------------------------------------


@pytest.fixture(scope="module")
def large_page(tmp_path_factory):
    rng = np.random.default_rng(6)
    words = [f"word{k}" for k in range(15_000)]
    model = text_model(("very bad", "bad", "so so", "good", "very good"), words)
    texts = [[words[k] for k in rng.zipf(1.3, 20) % len(words)] for _ in range(10_000)]
    path = tmp_path_factory.mktemp("large") / "page.html"
    every = [lrp.explain_all(model, texts, method, target="all") for method in ("lrp-all", "gradient-x-input")]
    every[0].page(path, every[1], label=rng.integers(5, size=10_000))
    return path


def test_ten_thousand_records(visit, large_page):
    """File under 20 MB, first paint under a second, a filter under 100 ms.

    Other programs may use the machine meanwhile: the best of three loads counts, and of ten tries of each filter."""
    size = large_page.stat().st_size
    assert size < 20e6

    def paint():
        page = visit(large_page.as_uri())
        expect(page.locator(".rows .row").first).to_be_visible()
        times = page.evaluate("[performance.getEntriesByName('first-contentful-paint')[0].startTime, page.ready]")
        return page, times

    runs = [paint() for _ in range(3)]
    page, _ = runs[-1]
    first = min(times[0] for _, times in runs)
    ready = min(times[1] for _, times in runs)
    assert count(page) == 10_000
    assert page.locator(".rows .row").count() < 60  # only those in sight
    filters = [
        {"q": "word7 "}, {"q": ""}, {"predicted": "1"}, {"right": "no"}, {"predicted": "", "right": ""},
        {"min": "1", "max": "2"}, {"min": "", "max": ""}, {"word": "word3"}, {"word": ""},
    ]  # fmt: skip
    slowest = {}
    for change in filters:
        times = page.evaluate(
            """async (change) => {
              const times = [], before = Object.fromEntries(Object.keys(change).map((key) => [key, page.state[key]]));
              for (let n = 0; n < 10; n++) {
                page.state.set(before);
                const start = performance.now();
                page.state.set(change);
                document.body.getBoundingClientRect();  // with its layout
                times.push(performance.now() - start);
              }
              return times;
            }""",
            change,
        )
        slowest[str(change)] = min(times)
    worst = max(slowest.values())
    said = f"{size / 1e6:.1f} MB, first paint {first:.0f} ms, table {ready:.0f} ms, slowest filter {worst:.0f} ms"
    sys.stdout.write(f"\n{said}\n")  # seen with pytest -s
    assert first < 1000 and ready < 4000
    assert worst < 100, slowest
