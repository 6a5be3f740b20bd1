"""Evidence: laws of its verdicts on networks whose effects are known, cases without a verdict, and bad input."""

import json
import pickle
import warnings
from pathlib import Path

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy.evidence import evidence_of
from lrpnumpy.series import read_csv
from lrpnumpy.verdict import Trials, Words, judge


def judged(claimed, changes, together=None, apart=None, is_gradient=False):
    """The verdict on claims (B,) where each group's replacements change the score by `changes` (B, 4)."""
    claimed, changes = np.array(claimed, float), np.array(changes, float)
    apart = np.full(8, changes[:, 0].sum() / 2) if apart is None else apart
    trials = Trials(
        first=np.array([0]),
        claimed=claimed,
        changes=changes,
        effects=changes.mean(axis=1),
        together=np.array([apart if together is None else together]),
        apart=np.array([apart]),
        size=np.array([abs(changes).sum(axis=0).mean()]),
        is_gradient=np.array([is_gradient]),
    )
    groups = tuple(f"g{b}" for b in range(len(claimed)))
    (found,) = judge(trials, [groups], lambda k: Words("prediction", " mm"))
    return found


@pytest.fixture
def exact(rng):
    """Effects of eight groups, the same in all four replacements."""
    return np.repeat(rng.normal(size=(8, 1)), 4, axis=1)


def test_the_exact_effect_passes(exact):
    found = judged(exact[:, 0], exact)
    assert found.passed and found.verdict == "passes" and found.refuted == found.missed == 0
    assert found.agreement == pytest.approx(1) and found.interaction == 0
    assert found.line == "Evidence: passes (0 % refuted, 0 % missed, agreement 1.00)" == str(found)


@pytest.mark.parametrize("scale", [0.4, 2.5])
def test_claims_within_a_factor_of_three_are_not_refuted(exact, scale):
    assert judged(scale * exact[:, 0], exact).passed


def test_flipped_and_shuffled_claims_fail(exact):
    assert judged(-exact[:, 0], exact).verdict == "fails"
    assert judged(-exact[:, 0], exact).agreement == pytest.approx(-1)
    assert judged(np.roll(exact[:, 0], 3), exact).verdict == "fails"


def test_what_fails_is_said():
    changes = np.array([[0.01] * 4, [2.0] * 4])
    found = judged([5.0, 2.0], changes)
    assert found.verdict == "fails" and found.refuted == pytest.approx((5 - 0.03) / 7)
    assert found.line == (
        "Evidence: fails. 5.0 mm are claimed for g0, but no replacement changes the prediction by more than 0.01 mm."
    )
    missed = judged([0.01, 2.0], [[1.5] * 4, [2.0] * 4])
    assert "Every replacement of g0 changes the prediction by at least 1.5 mm, but only 0.01 mm are" in missed.line


def test_interaction_is_inconclusive(exact):
    apart = np.full(8, exact[:, 0].sum())
    size = abs(exact[:, 0]).sum() / 2
    assert judged(exact[:, 0], exact, apart + 0.31 * size, apart).verdict == "inconclusive"
    assert judged(exact[:, 0], exact, apart + 0.29 * size, apart).passed
    assert judged(exact[:, 0], exact, apart + size, apart).line == "Evidence: inconclusive (inputs interact)"


def test_what_has_no_verdict():
    nothing = judged([1.0, 2.0], np.zeros((2, 4)))
    assert nothing.verdict == "undefined" and "no replacement of any input changes the prediction" in nothing.line
    assert judged([0.0, 0.0], np.ones((2, 4))).text == "all relevance is zero"
    assert judged([np.inf, 0.0], np.ones((2, 4))).verdict == "undefined"
    gradient = judged([-1.0, 2.0], np.array([[1.0] * 4, [-2.0] * 4]), is_gradient=True)
    assert gradient.verdict == "not applicable" and gradient.agreement == pytest.approx(1) and not gradient.passed


# -- networks ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def words():
    """A small network of words, and sentences."""
    rng = np.random.default_rng(3)
    vocabulary = [f"w{k}" for k in range(20)]
    embedding = lrp.Embedding(rng.normal(size=(20, 4)), vocabulary)
    layers = [nets.two_way(rng, 4, 5), nets.dense(rng, 10, 3)]
    model = lrp.Model(layers, embedding=embedding, classes=("no", "maybe", "yes"))
    return model, [[vocabulary[k] for k in rng.integers(20, size=T)] for T in (6, 1, 9, 3, 12, 2, 7, 4)]


def summing(rng, D=3):
    """A network whose score is nearly linear in its input: effects of steps add up."""
    U = np.zeros((4, D, D))
    U[2] = 0.01 * np.eye(D)
    b = np.zeros((4, D))
    b[0], b[1], b[3] = 20, 20, 20  # gates are open: c sums up its inputs
    lstm = lrp.LSTM(U, np.zeros((4, D, D)), b)
    return lrp.Model([lstm, lrp.Dense(rng.normal(size=(1, D)), np.zeros(1))], classes=("sum",), output_unit="mm")


@pytest.mark.parametrize("T", [2, 5, 12, 30])
def test_a_sum_is_explained_and_the_experiments_say_so(rng, T):
    model, x = summing(rng), rng.normal(size=(T, 3))
    e = lrp.explain(model, x)
    found = e.evidence()
    assert e.method == "deeplift" and found.interaction < 0.01
    assert len(found.experiments.groups) == min(T, 12) and found.experiments.changes.shape == (min(T, 12), 4)
    # the change by the mean of the sequence: its effect is linear in the block
    mean = x.mean(axis=0)
    start, stop = 0, int(np.linspace(0, T, min(T, 12) + 1).astype(int)[1])
    changed = x.copy()
    changed[start:stop] = mean
    drop = lrp.predict(model, x)[0] - lrp.predict(model, changed)[0]
    assert found.experiments.changes[0, 0] == pytest.approx(drop, abs=1e-9)
    flipped = e.with_first(relevance=-e.relevance, feature_relevance=None)
    assert flipped.tested is None and not flipped.evidence().passed
    assert flipped.evidence().agreement == pytest.approx(-found.agreement)


def test_evidence_does_not_depend_on_the_batch_and_is_kept(words):
    model, sentences = words
    results = lrp.explain_all(model, sentences)
    found = results.evidence()
    assert len(found) == len(sentences) and sum(found.shares.values()) == pytest.approx(1)
    assert "explanations" in str(found)
    for k, x in enumerate(sentences):
        alone = lrp.explain(model, x)
        one = alone.evidence()
        assert one is alone.evidence() is alone.tested
        np.testing.assert_allclose(one.experiments.changes, found[k].experiments.changes, rtol=1e-9, atol=1e-12)
        assert one.verdict == found[k].verdict == results[k].tested.verdict
        assert lrp.evidence(model, x, alone.with_first(values=None)).agreement == pytest.approx(one.agreement)
    again = results.evidence()
    assert again[0] is found[0]


def test_every_class_of_a_record_is_measured_once(words):
    model, sentences = words
    e = lrp.explain(model, sentences[0], target="all")
    for c, one in enumerate(e.each_class):
        assert one.evidence().verdict == lrp.explain(model, sentences[0], target=c).evidence().verdict
    with pytest.raises(lrp.LrpError, match="evidence needs one class"):
        e.evidence()


def test_versus_and_probabilities(words):
    model, sentences = words
    e = lrp.explain(model, sentences[0], "occlusion-f", target=0, versus=1)
    x = [*sentences[0]]
    zero = e.evidence().experiments.changes[:, 0]
    np.testing.assert_allclose(zero, e.relevance, rtol=1e-6, atol=1e-9)  # occlusion replaces by zero, too
    p = lrp.explain(model, x, "occlusion-p", target=0)
    np.testing.assert_allclose(p.evidence().experiments.changes[:, 0], p.relevance, rtol=1e-6, atol=1e-9)


def test_json_and_pickle(words):
    model, sentences = words
    e = lrp.explain(model, sentences[0])
    assert lrp.Explanation.from_json(e.to_json()).tested is None
    found = e.evidence()
    again = lrp.Explanation.from_json(e.to_json())
    assert again.tested.line == found.line and again.tested.experiments.groups == found.experiments.groups
    assert np.array_equal(again.tested.experiments.changes, found.experiments.changes)
    assert again.evidence() is again.tested
    loose = pickle.loads(pickle.dumps(e))
    assert loose.source is None and loose.evidence().line == found.line
    with pytest.raises(lrp.LrpError, match=r"use lrp.evidence\(model, x, e\)"):
        lrp.Explanation.from_json(lrp.explain(model, sentences[0]).to_json()).evidence()
    data = json.loads(e.to_json())
    data["tested"]["experiments"]["claimed"] = ["many"]
    with pytest.raises(lrp.LrpError, match="claimed must be an array of numbers"):
        lrp.Explanation.from_json(json.dumps(data))


def test_one_step_one_feature_and_static_inputs(rng):
    for x in (rng.normal(size=(1, 3)), np.ones((4, 3)), np.zeros((2, 3))):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert lrp.explain(summing(rng), x).evidence().verdict in ("passes", "fails", "undefined", "inconclusive")
    constant = lrp.explain(summing(rng), np.ones((4, 3))).evidence()
    assert constant.verdict == "undefined"
    one = lrp.explain(summing(rng), rng.normal(size=(1, 3))).evidence()
    assert one.experiments.groups == ("x0", "x1", "x2")
    without = lrp.explain(summing(rng), rng.normal(size=(1, 3)), unit="step", method="occlusion-f").evidence()
    assert len(without.experiments.groups) == 1
    narrow = summing(rng, 1)
    assert lrp.explain(narrow, rng.normal(size=(6, 1))).evidence().interaction < 0.01


def test_a_network_that_ignores_its_input(rng):
    model = summing(rng)
    dead = lrp.Model([model.layers[0], lrp.Dense(np.zeros((1, 3)), np.ones(1))])
    e = lrp.explain(dead, rng.normal(size=(5, 3)), "lrp-all")
    assert e.evidence().verdict == "undefined" and "Evidence: undefined" in str(e)


def test_long_texts_have_64_groups(words):
    model, _ = words
    ids = np.arange(150) % len(model.embedding.E)
    assert len(lrp.explain(model, ids).evidence().experiments.groups) == 64


def test_bad_input(words, rng):
    model, sentences = words
    e = lrp.explain(model, sentences[0])
    with pytest.raises(lrp.LrpError, match="must be a whole one of this model and input"):
        lrp.evidence(model, [*sentences[0], *sentences[0]], e)
    with pytest.raises(lrp.LrpError, match="pass an explanation"):
        lrp.evidence(model, sentences[0], None)
    assert evidence_of(model, [], []) == []
    with pytest.raises(lrp.LrpError, match="must be a whole one of this model and input"):
        lrp.evidence(summing(rng), rng.normal(size=(len(e), 3)), e)


WAYS = {
    "evidence": lambda model, x, **more: lrp.explain(model, x, "deeplift", **more).evidence(),
    "compare": lambda model, x, **more: lrp.compare(model, x, **more),
    "rank_methods": lambda model, x, **more: lrp.rank_methods(
        model, [x] * 4, ["deeplift", "lrp-all"], measures=("removal", "changes", "evidence"), **more
    ),
    "summary": lambda model, x, **more: lrp.explain_all(model, [x] * 3, "deeplift", **more).summary(),
    "counterfactual": lambda model, x, **more: lrp.counterfactual(model, x, **more),
    "explain_all": lambda model, x, **more: lrp.explain_all(model, [x], "integrated-gradients", **more).evidence(),
    "a stored result": lambda model, x, **more: lrp.evidence(model, x, lrp.explain(model, x, "occlusion-f", **more)),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("way", WAYS)
def test_bad_input_is_one_sentence_everywhere(words, way):
    """A reference of the wrong width or with NaN, NaN in the input, and the target as its own contrast."""
    rng = np.random.default_rng(0)
    numbers = lrp.Model([nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)])
    x, call = rng.normal(size=(6, 3)), WAYS[way]
    for model, record, D in ((numbers, x, 3), (words[0], words[1][0], 4)):
        with pytest.raises(lrp.LrpError, match=rf"reference.* must have shape .*{D}\), got \(.*{D + 2}"):
            call(model, record, reference=np.zeros(D + 2))
        with pytest.raises(lrp.LrpError, match=r"reference.* must be finite, got nan at index"):
            call(model, record, reference=np.full(D, np.nan))
        if way != "counterfactual":  # has no `versus`
            with pytest.raises(lrp.LrpError, match=r"^versus must be another class than the target, got 1 for both"):
                call(model, record, target=1, versus=1)
    with pytest.raises(lrp.LrpError, match=r"^(x|sequence 0) must be finite, got nan at index \[2, 1\]"):
        call(numbers, np.where(np.arange(18).reshape(6, 3) == 7, np.nan, x))


@pytest.mark.filterwarnings("error")
def test_bad_input_of_windows_and_parts_is_one_sentence():
    rng = np.random.default_rng(0)
    model, series = lrp.Model([nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)]), rng.normal(size=(9, 3))

    def windows(x=series, **more):
        return lrp.explain_windows(model, x, "deeplift", length=4, **more).evidence()

    def parts(x=series, **more):
        return lrp.decompose(lrp.explain(model, x, "deeplift", unit="feature", **more), periods=(3,))

    assert str(windows()) and str(parts())
    for call in (windows, parts):
        with pytest.raises(lrp.LrpError, match=r"reference of 'x'.* must have shape \(any, 3\), got \(1, 5\)"):
            call(reference=np.zeros(5))
        with pytest.raises(lrp.LrpError, match=r"reference of 'x' must be finite, got nan"):
            call(reference=np.full(3, np.nan))
        with pytest.raises(lrp.LrpError, match=r"^versus must be another class than the target, got 1 for both"):
            call(target=1, versus=1)
        with pytest.raises(lrp.LrpError, match=r"^(series|x) must be finite, got nan at index \[2, 1\]"):
            call(np.where(np.arange(27).reshape(9, 3) == 7, np.nan, series))
    short, narrow = lrp.explain_windows(model, series, "deeplift", length=1), nets.lstm(rng, 1, 4)
    assert str(short.evidence()) and str(short.summary())
    model = lrp.Model([narrow, nets.dense(rng, 4, 2)])
    assert str(windows(series[:, :1])) and str(parts(series[:, :1]))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("steps,features", [(1, 3), (6, 1), (1, 1)])
def test_one_step_and_one_feature_everywhere(way, steps, features):
    rng = np.random.default_rng(steps)
    model = lrp.Model([nets.lstm(rng, features, 4), nets.dense(rng, 4, 2)])
    x = rng.normal(size=(steps, features))
    if way == "counterfactual":
        other = 1 - int(np.argmax(lrp.predict(model, x)))
        records = [one for one in rng.normal(size=(60, steps, features)) if np.argmax(lrp.predict(model, one)) == other]
        if not records:
            with pytest.raises(lrp.LrpError, match="no 8 changes of x give another class"):
                lrp.counterfactual(model, x)
            return
        found = lrp.counterfactual(model, x, records=records)
        assert np.argmax(found.after.scores) == other
    else:
        assert str(WAYS[way](model, x))


# -- a default that fits the model, and where it is shown ------------------------------------------------------


def test_the_default_is_that_of_the_model(words, rng):
    model, sentences = words
    assert model.method == "lrp-all" == lrp.explain(model, sentences[0]).method
    numbers, x = summing(rng), rng.normal(size=(5, 3))
    assert numbers.method == "deeplift" and lrp.explain_all(numbers, [x])[0].method == "deeplift"
    chosen = numbers.with_default("lrp-all")
    assert lrp.explain(chosen, x).method == "lrp-all" and chosen.digest == numbers.digest
    with pytest.raises(lrp.LrpError, match="unknown method 'magic'"):
        lrp.explain(numbers.with_default("magic"), x)
    assert lrp.load("river").method == "deeplift" and lrp.load("toy", which="addition/0").method == "lrp-all"
    names = [e.method for e in lrp.compare(model, sentences[0])]
    assert names == ["lrp-all", "deeplift", "integrated-gradients", "cd", "occlusion-f", "gradient-x-input"]


def test_the_line_is_shown(words, tmp_path):
    model, sentences = words
    e = lrp.explain(model, sentences[0])
    line = e.evidence().line
    assert line in str(e) and line.split("(")[0] in e._repr_html_()
    comparison = lrp.compare(model, sentences[0])
    assert str(comparison).splitlines()[-1].startswith("evidence")
    assert len(comparison.evidence()) == len(comparison)
    results = lrp.explain_all(model, sentences[:3])
    results.page(tmp_path / "page.html")
    assert "Evidence: " in (tmp_path / "page.html").read_text("utf-8")


def test_river():
    """The flood of 2005: lrp-all claims millimeters for days that do not matter, DeepLIFT does not."""
    weights = Path(__file__).parents[2] / "weights"
    table, model = read_csv((weights / "river.csv").read_text("utf-8"), 10**6), lrp.load("river")
    found = lrp.explain(model, table, "lrp-all").evidence()
    assert found.verdict == "fails" and found.better == "deeplift"
    assert "2004-04-26 to 2004-05-25, but no replacement changes" in found.line
    assert lrp.explain(model, table).evidence().passed


# -- inputs that mislead -------------------------------------------------------------------------------------


def test_a_window_of_another_length_warns(rng):
    model = lrp.Model([nets.lstm(rng, 2, 3)], window=7)
    with pytest.warns(lrp.AssumptionWarning, match="x has 5 steps, and the model was trained on windows of 7"):
        lrp.explain(model, rng.normal(size=(5, 2)))
    with pytest.warns(lrp.AssumptionWarning, match="a window has 4 steps"):
        lrp.explain_windows(model, rng.normal(size=(9, 2)), length=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lrp.explain_all(model, [rng.normal(size=(7, 2))])


def test_missing_values_are_filled(rng):
    model, x = summing(rng), rng.normal(size=(6, 3))
    holes = x.copy()
    holes[0, 1] = holes[3, 0] = holes[4, 0] = np.nan
    full = x.copy()
    full[0, 1], full[3, 0], full[4, 0] = x[1, 1], x[2, 0], x[2, 0]
    with pytest.raises(lrp.LrpError, match=r"must be finite, got nan .*fill='forward'"):
        lrp.explain(model, holes)
    with pytest.warns(lrp.AssumptionWarning, match="3 missing values were filled"):
        found = lrp.explain(model, holes, fill="forward")
    assert np.array_equal(found.values, full)
    pandas = pytest.importorskip("pandas")
    with pytest.warns(lrp.AssumptionWarning, match="sequence 0: 3 missing values"):
        (one,) = lrp.explain_all(model, [pandas.DataFrame(holes, columns=["a", "b", "c"])], fill="forward")
    assert np.array_equal(one.values, full)
    with pytest.raises(lrp.LrpError, match='fill must be None or "forward"'):
        lrp.explain(model, holes, fill="backward")


def test_one_hot_columns_are_one_feature(rng):
    names = ("age", "ward_icu", "ward_cardiac")
    model = lrp.Model(summing(rng).layers, features=names)
    x = np.array([[1.5, 0.0, 1.0]])
    e = lrp.explain(model, x).with_groups({"ward": ["ward_icu", "ward_cardiac"]})
    plain = lrp.explain(model, x)
    assert e.features == ("age", "ward = cardiac")
    np.testing.assert_allclose(
        e.feature_relevance[0], [plain.feature_relevance[0, 0], plain.feature_relevance[0, 1:].sum()]
    )
    assert e.evidence().verdict == plain.evidence().verdict and "ward = cardiac" in str(e) + e._repr_html_()
    assert lrp.plot.feature_map(e) is not None
    longer = lrp.explain(model, np.concatenate([x, x])).with_groups({"ward": ["ward_icu", "ward_cardiac"]})
    assert longer.features == ("age", "ward")
    with pytest.raises(lrp.LrpError, match="groups: a column must be"):
        lrp.explain(model, x).with_groups({"ward": ["bed"]})
    with pytest.raises(lrp.LrpError, match="groups must be a dict"):
        lrp.explain(model, x).with_groups(["ward"])


def test_static_inputs_are_shown_with_their_values(rng):
    model = lrp.Model(summing(rng).layers, features=("age", "b", "c"))
    e = lrp.explain(model, np.array([[63.0, 0, 1]]))
    (row,) = [line for line in e._repr_html_().splitlines() if " age " in line]
    assert row.endswith("value 63")


def test_corpora_store_a_share(words, tmp_path):
    model, sentences = words
    found = lrp.explain_corpus(model, sentences, out=tmp_path / "run", evidence=0.5)
    tested = [e.tested for e in found]
    assert [one is not None for one in tested] == [k % 2 == 1 for k in range(len(sentences))]
    assert tested[1].line == lrp.explain(model, sentences[1]).evidence().line
    assert len(found.evidence()) == len(sentences)
    with pytest.raises(lrp.LrpError, match="evidence must be a share"):
        lrp.explain_corpus(model, sentences, out=tmp_path / "other", evidence=2)


@pytest.mark.parametrize("method", ["lrp-prop", "lrp-half"])
def test_an_unstable_rule_is_said_to_be_unstable(method):
    """Products that give relevance to gates divide by sums that nearly cancel: rounding decides what arrives."""
    weights = Path(__file__).parents[2] / "weights"
    table, model = read_csv((weights / "river.csv").read_text("utf-8"), 10**6), lrp.load("river")
    sentence = f"{method} is numerically unstable here and its result is meaningless; use lrp-all or a larger eps"
    with pytest.warns(lrp.RelevanceWarning, match=sentence):
        e = lrp.explain(model, table, method)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sentence in e.evidence().line and sentence in str(e) and sentence in e._repr_html_()
        assert lrp.compare(lrp.load("toy", which="addition/0"), np.ones((3, 2)), ["lrp-half"])[0].method == "lrp-half"
