"""Calls that confuse one thing with another: the error says what was probably meant."""

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy.meant import check_plain, door

RNG = np.random.default_rng(0)
CELL, HEAD = nets.lstm(RNG, 3, 2), nets.dense(RNG, 2, 2)
NUMBERS = lrp.Model([CELL, HEAD])
TABLE = lrp.Embedding(
    RNG.normal(size=(5, 3)), ["<unk>", "a", "good", "film", "New York"], "<unk>", tokenizer="treebank"
)
WORDS = lrp.Model([CELL, HEAD], embedding=TABLE)
X = RNG.normal(size=(4, 3))

CASES = {
    "a word where there are none": (
        lambda: lrp.explain(NUMBERS, X, "occlusion-f", reference="x"), "reference of .x. must be .zero., .mean. or "),
    "a huge eps": (
        lambda: lrp.explain(NUMBERS, X, "lrp-all", eps=10**400), "eps must be a finite number .* got a huge number"),
    "a target in an array": (lambda: lrp.explain(NUMBERS, X, target=np.array(1)), "target must be .*"),
    "a number as sequences": (lambda: lrp.explain_all(NUMBERS, 5), "sequences must be a list of sequences, got int"),
    "a number as spans": (lambda: lrp.explain(NUMBERS, X, spans=5), "spans must be a list"),
    "a float as bytes": (lambda: lrp.load("toy", max_bytes=1e9, isolate=True), r"max_bytes must be a whole number"),
    "a path as a model": (
        lambda: lrp.explain("m.h5", X), r"model must be a Model, got 'm.h5'; open .* lrp.load\('m.h5'\)"),
    "swapped": (lambda: lrp.explain(X, NUMBERS), "model must be a Model, .* are model and x swapped"),
    "swapped words": (lambda: lrp.predict("a film", WORDS), "model must be a Model, .* are model and x swapped"),
    "swapped sequences": (lambda: lrp.explain_all([X], NUMBERS), "are model and xs swapped"),
    "swapped in predict_all": (lambda: lrp.predict_all([X], NUMBERS), "are model and xs swapped"),
    "swapped in trace": (lambda: lrp.trace(X, NUMBERS), "are model and x swapped"),
    "swapped in save": (lambda: lrp.save("m.h5", NUMBERS), "model must be a Model, .* are model and path swapped"),
    "swapped in compare": (lambda: lrp.compare(X, NUMBERS), "are model and x swapped"),
    "sentences as words": (
        lambda: lrp.explain(WORDS, ["A good film.", "It's bad."]),
        "got 'A good film .' as word 0; several sentences are for"),
    "sentences as words in a list": (
        lambda: lrp.explain_all(WORDS, [["a good film", "a film"]]),
        "sequence 0 must be one sentence or a list of its words"),
    "a huge class": (lambda: lrp.explain(NUMBERS, X, target=10**5000), "target must be a class .* a huge number"),
    "a time as a number": (
        lambda: lrp.explain_windows(NUMBERS, X, length=np.timedelta64(2)), "length must be a whole number"),
    "a set of sequences": (
        lambda: lrp.predict_all(WORDS, {"a", "film"}), "sequences must be a list of sequences, got set"),
    "a string as a switch": (
        lambda: lrp.explain(NUMBERS, X, "lrp-all", hidden="no"), "hidden must be true or false, got 'no'"),
    "a model as an explanation": (lambda: lrp.plot.waterfall(NUMBERS), "waterfall: got Model; pass explanations"),
    "an array as a switch of a layer": (
        lambda: lrp.layers.Attention(causal=np.ones(3)),
        "Attention: causal must be true or false, got an array of float64"),
    "a number as a path": (lambda: lrp.open_explanations(5.0), "path must be a string or a path, got 5.0"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_error_says_what_was_meant(case):
    call, message = CASES[case]
    with pytest.raises(lrp.LrpError, match=f"(?s){message}") as caught:
        call()
    assert str(caught.value).count("\n") <= 3


def test_words_with_blanks_that_the_vocabulary_has_are_words():
    assert lrp.explain(WORDS, ["New York", "film"]).tokens == ("New York", "film")


def test_an_error_that_no_argument_explains_is_left_alone():
    """A bug of ours is not dressed up."""

    scope = {"__name__": "lrpnumpy.broken"}
    exec("from __future__ import annotations\ndef broken(number: int) -> int: return number.missing", scope)
    broken = door(scope["broken"])
    with pytest.raises(AttributeError):
        broken(1)
    with pytest.raises(lrp.LrpError, match="broken: number must be a whole number, got 'one'"):
        broken("one")


class Sulky:
    """An object of the user's own that fails when it is looked at."""

    def __array__(self, dtype=None, copy=None):
        raise OSError("no numbers here")

    def __repr__(self):
        raise OSError("no name here")

    def __getattr__(self, name):
        raise OSError("nothing here")


def fails(*_):
    raise OSError("a fault of mine")


TOLD = lrp.Model(
    [CELL, HEAD], embedding=lrp.Embedding(RNG.normal(size=(2, 3)), ["a", "b"], tokenizer=lambda text: [1 / 0])
)
THEIRS = {
    "a rule": (lambda: lrp.explain(NUMBERS, X, lrp.Rule("mine", fails)), "rule 'mine' raised OSError: a fault of mine"),
    "a rule of one array": (
        lambda: lrp.explain(NUMBERS, X, lrp.Rule("mine", lambda gate, signal, eps: gate)),
        "rule 'mine' must give two arrays of shape"),
    "a rule of wrong shapes": (
        lambda: lrp.explain(NUMBERS, X, lrp.Rule("mine", lambda gate, signal, eps: (np.ones(7), signal))),
        "rule 'mine' must give two arrays of shape"),
    "a tokenizer": (lambda: lrp.predict(TOLD, "a b"), "tokenizer raised ZeroDivisionError"),
    "a method that is ranked": (
        lambda: lrp.rank_methods(NUMBERS, [X, X], {"mine": fails}, measures=["removal"]),
        "method 'mine' raised OSError"),
    "an input": (lambda: lrp.explain(NUMBERS, Sulky()), "Sulky.__getattr__, .* not part of lrpnumpy, raised OSError"),
    "a model": (lambda: lrp.trace(Sulky(), X), "model must be a Model, got Sulky"),
    "an option": (lambda: lrp.explain(NUMBERS, X, "lrp-all", eps=Sulky()), "eps must be a finite number .* got Sulky"),
    "an array of a layer": (lambda: lrp.Dense(Sulky()), "V must be an array of numbers, got Sulky"),
}  # fmt: skip


@pytest.mark.parametrize("case", THEIRS)
def test_what_code_of_the_user_raises_is_an_error_that_names_it(case):
    call, message = THEIRS[case]
    with pytest.raises(lrp.LrpError, match=f"(?s){message}"):
        call()


def test_an_error_of_ones_own_class_comes_through(tmp_path):
    """It was raised on purpose, such as to stop a run."""

    class Stop(Exception):
        pass

    def source():
        raise Stop
        yield

    with pytest.raises(Stop):
        lrp.explain_corpus(WORDS, source(), out=tmp_path / "never")


def test_arguments_that_a_function_does_not_have():
    for call in (
        lambda: lrp.predict(NUMBERS, X, traces=True),
        lambda: lrp.predict(NUMBERS),
        lambda: lrp.trace(NUMBERS, X, 1),
    ):
        with pytest.raises(lrp.LrpError, match=r"(predict|trace): .* argument.*; its arguments are model, x"):
            call()


@pytest.mark.parametrize(
    ("value", "kind", "good"),
    [(1, "int", True), (True, "int", False), (np.int8(1), "int", True), (2**70, "int", False), (1, "float", True),
     (float("nan"), "float", False), (None, "int | None", True), (np.ones(2), "np.ndarray", True),
     (["a"], "np.ndarray", False), (len, "object", True), (["a"], "Sequence[str]", True)],
)  # fmt: skip
def test_plain_annotations(value, kind, good):
    check = lambda: check_plain("call", {"value": value}, {"value": kind})  # noqa: E731
    if good:
        check()
    else:
        with pytest.raises(lrp.LrpError, match="call: value must be"):
            check()
