"""Odd inputs and results: taken as they are meant, or refused; never taken for something else."""

import os
from dataclasses import dataclass, replace

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy.encode import Encoded
from lrpnumpy.results import InputColumn

RNG = np.random.default_rng(0)
LAYERS = [nets.lstm(RNG, 3, 2), nets.dense(RNG, 2, 2)]
NUMBERS = lrp.Model(LAYERS)
NAMED = lrp.Model(LAYERS, features=["a", "b", "c"])
WORDS = lrp.Model(LAYERS, embedding=lrp.Embedding(RNG.normal(size=(4, 3)), ["<unk>", "a", "b", "c"], "<unk>"))
X = RNG.normal(size=(5, 3))
MASKED = np.ma.masked_array(X, X > 1)
RECORDS = np.zeros(5, [("c", float), ("b", float), ("a", float)])

REFUSED = {
    "masked numbers": (lambda: lrp.predict(NUMBERS, MASKED), "x must have no masked entries, got"),
    "a masked batch": (
        lambda: lrp.predict_all(NUMBERS, np.ma.stack([MASKED] * 2)), "sequence 0 must have no masked entries"),
    "masked rows": (lambda: lrp.predict(NUMBERS, list(MASKED)), "x must have no masked entries"),
    "masked ids": (lambda: lrp.predict(WORDS, np.ma.masked_array([1, 2], [0, 1])), "x must have no masked entries"),
    "a masked table": (lambda: lrp.predict(NUMBERS, lrp.Table(MASKED)), "must have no masked entries"),
    "masked weights": (lambda: lrp.Dense(np.ma.masked_array(np.eye(2), np.eye(2))), "V must have no masked entries"),
    "a masked reference of an occlusion": (
        lambda: lrp.explain(NUMBERS, X, "occlusion-f", reference=np.ma.masked_array(np.ones(3), [1, 0, 0])),
        "reference of .x. must have no masked entries"),
    "a masked reference": (lambda: lrp.explain(NUMBERS, X, "deeplift", reference=MASKED), "no masked entries"),
    "true and false as ids": (lambda: lrp.predict(WORDS, np.array([True, False])), "token ids .* got an array of bool"),
    "a list of true and false": (lambda: lrp.predict(WORDS, [True, False]), r"token ids .* got \[True, False\]"),
    "integers as vectors": (lambda: lrp.predict(WORDS, np.ones((2, 3), int)), "token ids .* got an array of int64"),
    "a dict among words": (lambda: lrp.predict(WORDS, ["a", {}]), "x must be words, or numbers, not both, got {}"),
    "one number": (lambda: lrp.predict(WORDS, 1), "a list of words, token ids .* got 1"),
    "bytes": (lambda: lrp.predict(WORDS, b"a b"), "must be a string, .* got b'a b'"),
    "a generator": (lambda: lrp.predict(NUMBERS, (row for row in X)), r"must be a \(T, 3\) array, got .*generator"),
    "features before steps": (lambda: lrp.predict(NUMBERS, X.T), r"must have shape \(T, 3\), .*; is it x.T\?"),
    "records with fields": (lambda: lrp.predict(NAMED, RECORDS), r"must be a \(T, 3\) array"),
    "names for some columns": (
        lambda: lrp.predict(NAMED, lrp.Table(X, None, ("a", "b"))), "one name in features for each column"),
    "names in one string": (lambda: lrp.predict(NAMED, lrp.Table(X, None, "abc")), "one name in features for each"),
    "a name twice": (
        lambda: lrp.predict(NAMED, lrp.Table(np.c_[X, X[:, :1]], None, ("a", "b", "c", "a"))),
        "each column once, got 'a' several times"),
    "masked means": (
        lambda: lrp.Model(LAYERS, scaler=(np.ma.masked_array(np.ones(3), [1, 0, 0]), 1.0)), "no masked entries"),
    "classes without an order": (lambda: lrp.Model(LAYERS, classes={"no", "yes"}), "classes must be a list"),
    "classes by number": (lambda: lrp.Model(LAYERS, classes={"yes": 1, "no": 0}), "classes must be a list"),
    "features without an order": (lambda: lrp.Model(LAYERS, features={"a", "b", "c"}), "features must be a list"),
    "groups without an order": (lambda: MANY.summary(by={"a", "b"}), "by must be a name, or one value for each"),
    "masked groups": (lambda: MANY.summary(by=np.ma.masked_array([1, 2], [0, 1])), "by must have no masked entries"),
    "text to overwrite": (lambda: lrp.Output("o", overwrite="no"), "overwrite must be True or False, got 'no'"),
    "complex phrases": (lambda: lrp.explain(NUMBERS, X, spans=np.ones((1, 2), complex)), "spans must be a list"),
    "targets of targets": (
        lambda: lrp.explain_all(NUMBERS, [X, X], target=[[0], [0, 1]]), r"target of sequence 0 .* got \[0\]"),
    "a large range as targets": (
        lambda: lrp.explain_all(NUMBERS, [X, X], target=range(10**12)), "each of the 2 sequences, got 1000000000000"),
    "a name twice in an array": (
        lambda: lrp.Model(LAYERS, features=np.array(["a", "a", "b"])), "features must differ .* got 'a' twice"),
    "a class before the first": (lambda: EVERY.for_class(-1), "target must be a class from 0 to 1, got -1"),
    "the name of no class": (lambda: EVERY.for_class("good"), "target must be a class from 0 to 1, got 'good'"),
    "a class of a picture before the first": (
        lambda: lrp.plot.bars([EVERY], target=-1), "target must be a class from 0 to 1 or a name, got -1"),
    "labels of a window": (lambda: WINDOWS.at([*range(3, 5)]), r"no window ends at \[3, 4\]"),
    "labels of other windows": (lambda: WINDOWS.at([1, 2, 3]), r"no window ends at \[1, 2, 3\]"),
    "an array as a padding": (
        lambda: lrp.layers.MaxPool1D(2, padding=np.ones(2, int)), "padding must be .* got an array of int64"),
    "text as bounds": (lambda: lrp.rules.ZBox("0", "1"), "low and high must each be a number .* got '0' and '1'"),
    "one number as units": (
        lambda: lrp.explain(NUMBERS, X, "gradient", through={"0": np.array(1)}), "'0' must be a list of numbers"),
    "text as a dtype": (lambda: NUMBERS.astype("f4,,"), "dtype must be 'float32' or 'float64', got 'f4,,'"),
    "an array as a unit": (
        lambda: lrp.compare(NUMBERS, X, unit=np.ones(2)), "unit must be one of 'step', 'feature', got an array"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_be_taken_for_something_else_is_refused(case):
    call, message = REFUSED[case]
    with pytest.raises(lrp.LrpError, match=message):
        call()


def test_what_is_unusual_and_clear_is_taken():
    good = lrp.predict(NUMBERS, X)
    for x in (np.ma.masked_array(X, False), memoryview(X), X.astype(">f8"), np.asfortranarray(X), X[None], X.tolist()):
        assert (lrp.predict(NUMBERS, x) == good).all()
    assert (lrp.predict(NAMED, lrp.Table(X[:, ::-1], None, ("c", "b", "a"))) == lrp.predict(NAMED, X)).all()
    assert (lrp.predict(WORDS, np.array([[1, 2, 3]])) == lrp.predict(WORDS, [1, 2, 3])).all()  # ids, and no vector


def test_frames_of_pandas_that_are_unusual():
    pandas = pytest.importorskip("pandas")
    frame, days = pandas.DataFrame(X, columns=["a", "b", "c"]), pandas.date_range("2020-01-01", periods=5)
    good = lrp.predict(NAMED, X)
    zoned = days.tz_localize("Europe/Berlin")
    for one in (frame[["c", "a", "b"]], frame.astype("Float64"), frame.assign(d=days), frame.assign(d=zoned)):
        assert (lrp.predict(NAMED, one) == good).all()
    assert lrp.explain(NAMED, frame.assign(d=zoned)).step_names[1] == "2020-01-02"
    missing = frame.set_index(pandas.DatetimeIndex([*days[:4], pandas.NaT]))
    assert lrp.explain(NAMED, missing).step_names[4] == "NaT"
    twice = pandas.DataFrame(np.c_[X, 9 * X[:, :1]], columns=["a", "b", "c", "a"])
    for one, message in {
        "each column once, got 'a' several times": twice,
        "column 'a' must hold numbers, got object": frame.assign(a=zoned),
        "column 'a' must hold numbers, got complex128": frame.astype(complex),
        "column 'a' must hold numbers, got timedelta64": frame.assign(a=days - days[0]),
    }.items():
        with pytest.raises(lrp.LrpError, match=one):
            lrp.predict(NAMED, message)


MANY = lrp.explain_all(NUMBERS, [X, X])
ONE = MANY[0]
EVERY = lrp.explain(NUMBERS, X, target="all")
WINDOWS = lrp.explain_windows(NUMBERS, X, length=4)
PLACES = {
    "shown": ONE.shown,
    "explanations": MANY.__getitem__,
    "comparison": lrp.compare(NUMBERS, X, ["lrp-all", "gradient"]).__getitem__,
    "windows": WINDOWS.__getitem__,
}


@pytest.mark.parametrize("what", PLACES)
def test_a_position_that_there_is_not(what):
    """Beyond the end it is an IndexError too, by which Python knows the end of a sequence."""
    get = PLACES[what]
    for position in (99, -99, 10**30):
        with pytest.raises(lrp.LrpError, match=r"must (lie from 0 to|be a whole number)"):
            get(position)
    with pytest.raises(IndexError, match="must lie from 0 to"):
        get(5)
    for position in (None, "1", 1.0, True, [0], np.array([0]), object(), float("nan")):
        with pytest.raises(lrp.LrpError):
            get(position)
    assert get(np.int8(-1)) is not None
    for wrong in (slice("a", None), slice(None, None, 0)):
        with pytest.raises(lrp.LrpError, match="a slice of explanations"):
            MANY[wrong]


BAD = {
    "relevance must be an array": {"relevance": "abc"},
    r"relevance must have shape \(step\)": {"relevance": np.ones((2, 3))},
    "target must be 'all' or a class from 0 to 1": {"target": 7},
    r"tokens must have shape \(3\), got \(1,\)": {"tokens": ("a",)},
    "method must be a string": {"method": 5},
    r"feature_relevance must have shape \(3, feature\)": {"feature_relevance": np.ones((2, 2))},
    r"values must have shape \(3, 2\)": {"feature_relevance": np.ones((3, 2)), "values": np.ones((3, 1))},
    "inputs must be a dict": {"inputs": np.ones(3)},
    r"inputs must be a dict of name to InputPart": {"inputs": {"x": np.ones(3)}},
    "scores must be an array": {"scores": [1.0, 2.0]},
    "scores must be an array of shape": {"scores": [1.0, 2.0], "target": "all"},
}


@pytest.mark.parametrize("message", BAD)
def test_an_explanation_of_ones_own_is_checked(message):
    def made(relevance=np.ones(3), tokens=None, feature_relevance=None, values=None, **more):  # noqa: B008
        part = lrp.InputPart(relevance, feature_relevance, tokens=tokens, values=values)
        return lrp.Explanation(**({"inputs": {"x": part}, "scores": np.ones(2), "target": 1, "method": "mine"} | more))

    assert made().step_names[2] == "2"
    with pytest.raises(lrp.LrpError, match=message):
        made(**BAD[message])


def test_what_is_only_a_part_is_shown_shortened():
    e = replace(ONE, options={"parts": "a" * 10_000})
    with pytest.raises(lrp.LrpError, match="this one has parts='aaa") as error:
        e.evidence()
    assert len(str(error.value)) < 1000


def test_phrases_in_an_array():
    spans = [[(0, 2)], [(1, 3)]]
    few, same = (lrp.explain_all(NUMBERS, [X, X], "cd", spans=some) for some in (spans, np.array(spans)))
    for one, other in zip(few, same, strict=True):
        assert str(one.spans) == str(other.spans)


def test_one_sequence_is_not_called_a_batch():
    with pytest.raises(lrp.LrpError, match=r"x must have shape \(T, 3\), got \(3,\); .* is x\[None\]\.$"):
        lrp.explain(NUMBERS, X[0])


def test_names_that_pandas_cannot_hold():
    """They are equal in a frame, where all rows stay."""
    pytest.importorskip("pandas")
    model = lrp.Model(LAYERS, features=["a\ud800", "a\ud801", "b"])
    assert len(lrp.explain_all(model, [X, X], "gradient-x-input").summary().to_frame("feature")) == 3


def test_marks_of_steps_are_small_numbers_again():
    model = lrp.Model(LAYERS, mask_value=0.0)
    marks = lrp.explain(model, np.vstack([np.zeros((2, 3)), X])).first.marks
    again = lrp.Explanation.from_json(lrp.explain(model, np.vstack([np.zeros((2, 3)), X])).to_json()).first.marks
    np.testing.assert_array_equal(again, marks)
    assert again.dtype == marks.dtype == np.uint8


def test_a_warning_says_once_that_a_result_is_meaningless():
    rng = np.random.default_rng(0)
    model = lrp.Model([nets.lstm(rng, 3, 4, size=1.0), nets.dense(rng, 4, 2)])
    with pytest.warns(lrp.RelevanceWarning, match="lrp-prop is numerically unstable here") as found:
        lrp.explain_all(model, [1e3 * rng.normal(size=(30, 3)) for _ in range(9)], "lrp-prop")
    assert str(found[0].message).count("meaningless") == 1


def test_groups_of_equal_words_have_both_ends():
    groups = lrp.explain(WORDS, ["a"] * 200).evidence().experiments.groups
    assert {*groups} == {'"a" to "a"'}


class InAnotherThread(Encoded):
    """An input while whose values are read, another thread puts the relevance of features together."""

    @property
    def values(self):
        assert COLUMN.feature_relevance is not None
        return self.x


COLUMN = InputColumn([InAnotherThread(None, X, 5)] * 2, None, np.ones(10), None, [(np.arange(10), np.ones((10, 3)))])


def test_features_that_another_thread_puts_together_meanwhile():
    assert COLUMN.of(1).feature_relevance.shape == (5, 3)


@dataclass(frozen=True, eq=False, repr=False)
class Switched(lrp.Layer):
    """A custom layer whose activation is not the name of a function, and which knows its inputs alone."""

    activation: list
    by_step = True

    @property
    def inputs(self):
        return 2

    def sizes(self, x):
        return x

    def forward(self, xs, keep):
        return xs[0], None

    def backward(self, ran, R, how, entry):
        return [R]


def test_a_custom_layer_with_an_odd_activation():
    model = lrp.Model([LAYERS[0], Switched([1, 2]), LAYERS[1]])
    assert np.isfinite(lrp.explain(model, X, "integrated-gradients").relevance).all()
    assert "Switched, [1, 2]" in model.summary()


def test_other_results_of_ones_own():
    for call, message in (
        (lambda: lrp.Comparison(()), "there are no explanations"),
        (lambda: lrp.Comparison("ab"), "explanations must be a tuple of Explanation"),
        (lambda: lrp.Rule(5, 6), "pass a name and a function of gate, signal and eps"),
        (lambda: lrp.layers.AvgPool1D(2, count_padding="no"), "count_padding must be true or false, got 'no'"),
        (lambda: ONE.to_json(indent=2**31), "indent must be"),
        (lambda: ONE.to_json(indents=1), "options of json.dumps"),
        (lambda: ONE.name_of([1]), "pass the number of a class"),
        (lambda: lrp.explain(NUMBERS, X).top("a"), "k must be a whole number"),
    ):
        with pytest.raises(lrp.LrpError, match=message):
            call()
    assert repr(lrp.Layer()) == "Layer()"
    assert "unassigned" in str(lrp.explain(NUMBERS, X, "cd", spans=[]))


def test_odd_values_of_pictures():
    pytest.importorskip("matplotlib")
    one = lrp.explain(NUMBERS, X, unit="feature")
    assert lrp.plot.waterfall(one, most=np.uint8(255))  # 255 + 1 is 256


def test_results_of_nothing():
    none = lrp.explain_all(NUMBERS, [])
    assert not len(none.doubtful())
    for call in (lambda: none[0], none.summary, none.stacked, lambda: none.page("p.html")):
        with pytest.raises(lrp.LrpError, match=r"none|no explanations"):
            call()


RANKED = {
    "pairs": {"mine": ("lrp-all", {})},
    "an array": {"mine": X},
    "pairs in a list": [(1, 2)],
    "complex relevance": {"mine": lambda model, sequences: [1j * np.ones(5)] * len(sequences)},
    "words for relevance": {"mine": lambda model, sequences: "ab"},
}


@pytest.mark.parametrize("case", RANKED)
def test_methods_that_cannot_be_ranked(case):
    with pytest.raises(lrp.LrpError):
        lrp.rank_methods(NUMBERS, [X, X], RANKED[case], measures=["completeness"])


def test_odd_columns_and_rules_of_a_corpus(tmp_path):
    circle = []
    circle.append(circle)
    for k, columns in enumerate(({"a": [10**5000]}, {"a": [circle]}, {3: [1]})):
        with pytest.raises(lrp.LrpError, match="columns"):
            lrp.explain_corpus(WORDS, ["a"], out=lrp.Output(tmp_path / f"{k}", columns=columns))
    found = lrp.explain_corpus(WORDS, ["a"], out=lrp.Output(tmp_path / "out", columns={"\ud800": ["\udfff"]}))
    assert found.column("\ud800") == ["\udfff"]
    rule = lrp.Rule("mine", lambda gate, signal, eps: 1 / 0)
    with pytest.raises(lrp.LrpError, match="rule 'mine' raised ZeroDivisionError"):  # no record is to blame
        lrp.explain_corpus(WORDS, ["a"], rule, out=tmp_path / "rule")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
def test_a_device_is_never_replaced_by_a_file(tmp_path):
    path = tmp_path / "pipe.h5"
    os.mkfifo(path)
    lrp.save(NUMBERS, tmp_path / "m.h5")
    for call in (
        lambda: lrp.save(NUMBERS, path, overwrite=True),
        lambda: lrp.convert(tmp_path / "m.h5", path, overwrite=True),
    ):
        with pytest.raises(lrp.LrpError, match=r"path must be a file, got .* a folder, a device or a pipe"):
            call()
    assert not path.is_file()
