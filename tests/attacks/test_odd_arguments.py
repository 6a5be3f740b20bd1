"""Odd arguments that once ended in an exception of Python or an endless run: an error of ours says what is wrong."""

import json

import numpy as np
import pytest

import lrpnumpy as lrp

MODEL = lrp.load("sentiment")
SAID = lrp.explain(MODEL, "not a good movie")


def changed(**parts):
    return json.dumps(json.loads(SAID.to_json()) | parts)


def changed_input(**parts):
    (name, part), *_ = json.loads(SAID.to_json())["inputs"].items()
    return changed(inputs={name: part | parts})


def nested(name, levels):
    return changed(**{name: "@"}).replace('"@"', '{"a":' * levels + "1" + "}" * levels)


CALLS = {
    "title": (lambda: lrp.write_page("p.html", [SAID], title=5), "title must be a string"),
    "no path": (lambda: lrp.write_page(None, [SAID]), "path must be"),
    "a number as label": (lambda: lrp.write_page("p.html", [SAID], label=5), "label must be one value for each"),
    "a number as layers": (lambda: lrp.load("vowels", layers=5), "layers must be a list of names"),
    "an array as activations": (lambda: lrp.load("vowels", activations=np.array(1)), "activations must be a list"),
    "words as scores": (lambda: lrp.load("sentiment", check=("good", ["a"] * 5)), "an array of numbers, got"),
    "deep relevance": (lambda: lrp.Explanation.from_json(nested("relevance", 900)), "levels of lists"),
    "deep options": (lambda: lrp.Explanation.from_json(nested("options", 900)), "levels of lists"),
    "narrow values": (
        lambda: lrp.Explanation.from_json(changed_input(values=[[1] * 4] * 5)),
        "values must have shape",
    ),
    "many nodes": (lambda: lrp.explain(MODEL, "x", "integrated-gradients", nodes=10**9), "nodes must be at most"),
    "a number as source": (lambda: lrp.explain_corpus(MODEL, np.array(1), out="a"), "source must be"),
    "a number as column": (
        lambda: lrp.explain_corpus(MODEL, ["x"], out=lrp.Output("a", columns={"a": 1})),
        "columns: .a. must have",
    ),
    "many processes": (
        lambda: lrp.explain_corpus(MODEL, ["x"], out="a", workers=99999),
        "workers, .* must be a number from",
    ),
    "a number to rank on": (lambda: lrp.rank_methods(MODEL, np.array(1)), "data must be a list"),
    "unequal inputs": (lambda: lrp.rank_methods(MODEL, {"x": ["a", "b"], "y": ["c"]}), "as many records"),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_odd_argument_is_an_error_of_ours(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, said = CALLS[name]
    with pytest.raises(lrp.LrpError, match=said):
        call()
    assert not [*tmp_path.iterdir()]


def test_sequences_of_one_word_cannot_be_ranked_by_removal():
    """There is no order to judge; the other measures are there, and nothing is raised."""
    assert "gradient" in str(lrp.rank_methods(MODEL, ["good", "bad"], methods=["gradient", "lrp-all"]))


def test_a_number_of_absurd_length_in_a_table(tmp_path, capsys):
    from lrpnumpy.__main__ import main

    (tmp_path / "a.csv").write_text("1" * 200_000 + ",2,3,4,5")
    assert main(["explain", "--model", "river", "--input", str(tmp_path / "a.csv")]) != 0
    assert "--input: cannot read" in capsys.readouterr().err
