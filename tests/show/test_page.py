"""One HTML file to explore results: its payload is that of the explanations, and nothing in it can become code."""

import base64
import hashlib
import html.parser
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import samples
from numpy.testing import assert_allclose, assert_array_equal
from page_samples import HOSTILE, arrays, payload_in, sentences, text_model

import lrpnumpy as lrp
from lrpnumpy.__main__ import main
from lrpnumpy.page import document, payload
from lrpnumpy.page.payload import to_json

F4 = 1e-6  # the page has float32


@pytest.fixture(scope="module")
def model():
    return text_model()


@pytest.fixture(scope="module")
def texts():
    return sentences(40, np.random.default_rng(1))


def page_of(path, *results, **options):
    lrp.write_page(path, *results, **options)
    return payload_in(path.read_text("utf-8"))


class Elements(html.parser.HTMLParser):
    """What a browser would find: tags with their attributes, and the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.styles, self.inside = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = (tag, dict(attributes))

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == ("script", {}):
            self.scripts.append(data)
        if self.inside == ("style", {}):
            self.styles.append(data)


def test_a_page_has_the_numbers_of_every_method(model, texts, tmp_path):
    every = lrp.explain_all(model, texts, target="all")
    cd = lrp.explain_all(model, texts, "cd")
    ig = lrp.explain_all(model, texts, "integrated-gradients", target="good")
    truth = [k % 3 for k in range(len(texts))]
    found = page_of(tmp_path / "p.html", every, cd, ig, label=truth)
    assert [one["name"] for one in found["methods"]] == ["lrp-all", "cd", "integrated-gradients"]
    assert_allclose(found["scores"], every.scores, rtol=F4, atol=F4)
    assert_allclose(found["probabilities"], [e.probabilities for e in every], rtol=F4, atol=F4)
    assert_array_equal(found["truth"], truth)
    words, starts = found["inputs"][0], found["inputs"][0]["starts"]
    for k, e in enumerate(every):
        rows = slice(starts[k], starts[k + 1])
        first = words["first"][k]
        steps = words["steps"][first : first + len(e)]
        assert [found["dictionary"][s] for s in steps] == [*e.tokens]
        assert tuple(np.flatnonzero(words["marks"][first : first + len(e)] == 1)) == e.unknown
        assert_allclose(found["methods"][0]["inputs"][0]["relevance"][:, rows], e.relevance, rtol=F4, atol=F4)
        assert_allclose(found["methods"][1]["inputs"][0]["relevance"][0, rows], cd[k].relevance, rtol=F4, atol=F4)
        for c in range(3):
            entries = [value[c] for value in e.ledger.entries.values()]
            assert_allclose(found["methods"][0]["ledger"][c, k], entries, rtol=F4, atol=F4)
    assert found["methods"][0]["targets"] is None
    assert_array_equal(found["methods"][1]["targets"], cd.targets)
    assert_array_equal(found["methods"][2]["targets"], 2)
    # Every ledger adds up to the score that is explained, that of contextual decomposition too.
    assert_allclose(found["methods"][0]["ledger"].sum(axis=-1).T, every.scores, rtol=1e-5, atol=1e-5)
    assert_allclose(found["methods"][1]["ledger"][0].sum(axis=-1), cd.scores.max(axis=1), rtol=1e-5, atol=1e-5)
    assert_allclose(found["methods"][2]["ledger"][0].sum(axis=-1), ig.scores[:, 2], rtol=1e-5, atol=1e-5)


def test_padding_is_marked_and_lag_0_is_the_step_of_the_prediction(tmp_path):
    marks = np.array([2, 0, 0, 2], np.uint8)
    computed = samples.explanation(4, 2, marks=marks)
    skipped = computed.with_first(relevance=np.where(marks == 2, 0, computed.relevance))
    first = replace(skipped, options={"step": 0})
    found = page_of(tmp_path / "p.html", [skipped, first, computed])
    assert_array_equal(found["inputs"][0]["marks"], [*marks, *marks, *marks])
    assert_array_equal(found["methods"][0]["ends"], [2, 1, 3])


def test_windows_share_the_series_they_were_cut_from(tmp_path):
    model, x = samples.forecast()
    table = lrp.Table(x, samples.days(len(x)))
    windows = lrp.explain_windows(model, table, length=8, stride=3, unit="feature", target=0)
    found = page_of(tmp_path / "p.html", windows)
    (one,) = found["inputs"]
    assert one["kind"] == "series" and one["unit"] == "day" and one["features"] == ["rain", "$x_1$"]
    assert one["values"].shape == x.shape  # not once for every window
    for k, e in enumerate(windows):
        first = one["first"][k]
        assert_allclose(one["values"][first : first + 8], e.values, rtol=F4)
        assert [found["dictionary"][s] for s in one["steps"][first : first + 8]] == e.step_names
        rows = slice(one["starts"][k], one["starts"][k + 1])
        assert_allclose(
            found["methods"][0]["inputs"][0]["feature_relevance"][0, rows], e.feature_relevance, rtol=F4, atol=F4
        )
    assert found["names"] == [e.step_names[-1] for e in windows]
    assert found["regression"] and found["unit"] == "mm"


def test_one_window_is_shown_beside_its_explanation_by_another_method(tmp_path):
    model, x = samples.forecast()
    table = lrp.Table(x, samples.days(len(x)))
    windows = lrp.explain_windows(model, table, length=8, stride=len(x), target=0)
    first = lrp.Table(x[:8], table.labels[:8])
    assert len(windows) == 1
    found = page_of(tmp_path / "p.html", windows, lrp.explain_all(model, [first], "gradient", 0))
    assert len(found["methods"]) == 2


def test_every_input_is_there(tmp_path):
    found = page_of(tmp_path / "p.html", [samples.ONE["inputs"]()])
    assert [(one["name"], one["kind"]) for one in found["inputs"]] == [
        ("x", "series"), ("basin", "vector"), ("gauges", "series"),
    ]  # fmt: skip
    assert_allclose(
        found["methods"][0]["inputs"][1]["feature_relevance"].ravel(), samples.BASIN.feature_relevance.ravel(), rtol=F4
    )


@pytest.mark.parametrize("name", samples.ONE)
def test_any_explanation_has_a_page(name, tmp_path):
    e = samples.ONE[name]()
    found = page_of(tmp_path / "p.html", e)
    assert_allclose(found["methods"][0]["inputs"][0]["relevance"][0], e.relevance, rtol=1e-5, atol=1e-5)
    assert (found["inputs"][0]["values"] is None) == (e.values is None)


def test_a_comparison_is_one_record_by_several_methods(model, tmp_path):
    compared = lrp.compare(model, ["w1", "w2"])
    compared.page(tmp_path / "p.html")
    found = payload_in((tmp_path / "p.html").read_text("utf-8"))
    assert [one["method"] for one in found["methods"]] == [e.method for e in compared]
    assert found["numbers"] == [0]


def test_one_method_with_other_options_has_another_name(model, texts, tmp_path):
    results = [lrp.explain_all(model, texts, eps=eps) for eps in (0.001, 0.1, 0.1)]
    found = page_of(tmp_path / "p.html", *results)
    names = [one["name"] for one in found["methods"]]
    assert names == ["lrp-all eps=0.001", "lrp-all eps=0.1 (2)", "lrp-all eps=0.1 (3)"]


def test_files_of_a_corpus_make_one_page(model, texts, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with open("data.jsonl", "w") as file:
        for k, words in enumerate(texts):
            file.write(json.dumps({"words": words if k != 3 else [], "label": ["bad", "good"][k % 2]}) + "\n")
    lrp.save(model, "model.h5")
    for method in ("lrp-all", "gradient"):
        source, output = lrp.Corpus("data.jsonl", field="words"), lrp.Output(method, columns=["label"], chunk=16)
        lrp.explain_corpus(model, source, method, target="all", out=output)
    assert main(["page", "lrp-all", "gradient", "page.html", "--label", "label", "--title", "Mine"]) == 0
    assert "wrote page.html" in capsys.readouterr().err
    found = payload_in((tmp_path / "page.html").read_text("utf-8"))
    assert found["title"] == "Mine"
    assert found["numbers"] == [k for k in range(1, 41) if k != 4]  # as in the source; one was rejected
    assert_array_equal(found["truth"], [0 if k % 2 else 2 for k in found["numbers"]])
    assert found["methods"][1]["ledger"] is None
    # A sample of a file is what the same records are.
    main(["page", "lrp-all", "some.html", "--most", "9", "--seed", "7"])
    some = payload_in((tmp_path / "some.html").read_text("utf-8"))
    assert len(some["numbers"]) == 9
    assert "9 of 39 records are shown, drawn at random (seed 7)" in some["notes"][0]
    for k, number in enumerate(some["numbers"]):
        place = found["numbers"].index(number)
        assert_array_equal(some["scores"][k], found["scores"][place])
        mine, all_of_it = some["inputs"][0]["starts"], found["inputs"][0]["starts"]
        assert_array_equal(
            some["methods"][0]["inputs"][0]["relevance"][:, mine[k] : mine[k + 1]],
            found["methods"][0]["inputs"][0]["relevance"][:, all_of_it[place] : all_of_it[place + 1]],
        )
    assert main(["page", "lrp-all", "gradient"]) == 2  # the page was forgotten, and no result is overwritten
    assert "page must be a file, got gradient, which is a folder" in capsys.readouterr().err


class Many:
    """A million explanations, made when they are asked for."""

    scores = np.random.default_rng(2).normal(size=(1_000_000, 3)).astype(np.float32)

    def __len__(self):
        return len(self.scores)

    def __getitem__(self, k):
        R = np.full(4, k, np.float32)
        part = lrp.InputPart(R, tokens=("a", "b", "c", "d"))
        return lrp.Explanation({"x": part}, self.scores[k], int(self.scores[k].argmax()), "mine")


def test_of_a_million_records_the_page_takes_a_sample_and_says_so(tmp_path):
    found = page_of(tmp_path / "p.html", Many(), most=500)
    assert len(found["numbers"]) == 500 == len({*found["numbers"]})
    assert found["notes"] == ["500 of 1,000,000 records are shown, drawn at random (seed 0): a page has at most 500."]
    assert_array_equal(found["scores"], Many.scores[found["numbers"]])
    again = page_of(tmp_path / "p.html", Many(), most=500)
    other = page_of(tmp_path / "p.html", Many(), most=500, seed=1)
    assert again["numbers"] == found["numbers"] != other["numbers"]


# -- safety --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile():
    """A page whose words, classes, names, labels and title were written by a stranger."""
    model = text_model(classes=HOSTILE[:3], words=HOSTILE)
    found = lrp.explain_all(model, [HOSTILE, HOSTILE[::-1]])
    e = samples.explanation(3, 2, features=(HOSTILE[0], HOSTILE[1]), labels=np.array(HOSTILE[:3]))
    data = payload([found], names=HOSTILE[:2], title=HOSTILE[0], notes=[HOSTILE[1]])
    return [document(data), document(payload([[e]]))]


def test_nothing_of_a_stranger_becomes_an_element(hostile):
    plain = document(payload([[samples.ONE["one feature"]()]]))
    for text in hostile:
        tags = Elements(text).tags
        count = sum(1 for tag, a in tags if tag == "script" and a.get("type") == "application/octet-stream")
        usual = [one for one in Elements(plain).tags if one[1].get("type") != "application/octet-stream"]
        assert len(tags) - count == len(usual)
        assert "img" not in [tag for tag, _ in tags] and "b" not in [tag for tag, _ in tags]
        text.encode("utf-8", "replace").decode("utf-8")
        head = re.search(r'id="payload">(.*?)</script>', text, re.DOTALL).group(1)
        assert head.isascii() and not {"<", ">", "&"} & set(head)
    found = payload_in(hostile[0])
    assert set(HOSTILE) <= set(found["dictionary"])  # and yet nothing is lost


def test_the_policy_allows_this_script_and_style_and_nothing_else(hostile):
    for text in hostile:
        seen = Elements(text)
        (policy,) = [a["content"] for tag, a in seen.tags if a.get("http-equiv") == "Content-Security-Policy"]
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert rules["default-src"] == rules["connect-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
        assert "unsafe" not in policy and "http" not in policy
        for name, parts in (("script-src", seen.scripts), ("style-src", seen.styles)):
            (part,) = parts
            digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
            assert rules[name] == f"'sha256-{digest}'"
        assert not any(name == "style" or name.startswith("on") for _, a in seen.tags for name in a)
        assert not any(a.get("src") or str(a.get("href", "#"))[0] != "#" for _, a in seen.tags)


def test_no_script_of_the_page_parses_html():
    from lrpnumpy.page.document import SCRIPTS, asset

    for name in SCRIPTS:
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", asset(name))


def test_json_for_a_live_page_has_its_arrays_in_it(model):
    found = lrp.explain_all(model, [["w1", "w2"]], target="all")
    data = arrays(json.loads(to_json(payload([found], numbers=["typed"]))), [])
    assert data["numbers"] == ["typed"]
    assert_allclose(data["methods"][0]["inputs"][0]["relevance"], found[0].relevance, rtol=F4)


# -- errors --------------------------------------------------------------------------------------------------


def test_results_must_belong_together(model, texts, tmp_path):
    found, path = lrp.explain_all(model, texts), tmp_path / "p.html"
    cases = {
        "must be of the same records, got 40, 39": (found, lrp.explain_all(model, texts[:-1])),
        "got other records, steps or scores by gradient": (
            found, lrp.explain_all(model, [*texts[:5], [*texts[5][:-1], "w0", "w1"], *texts[6:]], "gradient"),
        ),
        "got other records, steps or scores by cd": (
            found, lrp.explain_all(text_model(rng=np.random.default_rng(8)), texts, "cd"),
        ),
        "at least one result": (),
        "at least one result with an explanation": ([],),
    }  # fmt: skip
    for says, results in cases.items():
        with pytest.raises(lrp.LrpError, match=re.escape(says)):
            lrp.write_page(path, *results)
    assert not path.exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"label": [0]}, "label must be one value for each of 40 records, or the name"),
        ({"label": ["bad"] * 39 + ["ugly"]}, "label must be a class from 0 to 2 or its name, got 'ugly' at 39"),
        ({"label": [7] * 40}, "label must be a class from 0 to 2 or its name, got 7 at 0"),
        ({"label": "season"}, "label must be one value for each of 40 records, or the name of a column"),
        ({"most": 0}, "most"),
    ],
)
def test_options_are_checked(model, texts, tmp_path, options, says):
    with pytest.raises(lrp.LrpError, match=re.escape(says)):
        lrp.explain_all(model, texts).page(tmp_path / "p.html", **options)


def test_true_classes_by_name_or_not_known(model, texts, tmp_path):
    label = [None, "good", 1.0, float("nan")] * 10
    found = page_of(tmp_path / "p.html", lrp.explain_all(model, texts), label=label)
    assert_array_equal(found["truth"][:4], [np.nan, 2, 1, np.nan])


def test_a_page_that_cannot_be_written(model, texts, tmp_path):
    with pytest.raises(lrp.LrpError, match="cannot be written"):
        lrp.explain_all(model, texts).page(tmp_path / "no" / "p.html")
