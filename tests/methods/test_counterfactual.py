"""Counterfactuals change the decision, are irreducible, and are shown; what cannot be is said."""

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy.counterfactual import Edit, WordEdits, _goal, _irreducible
from lrpnumpy.encode import encode

SENTENCES = [
    "This isn't a good movie, and it isn't funny.",
    "A gorgeous, witty, seductive movie.",
    "The film is dull, long and predictable.",
]


def without(found, k):
    """The words with all changes but the k-th, made by hand."""
    (words,) = found.original.values()
    words = list(words)
    for j, one in enumerate(found.changes):
        if j != k:
            words[one.start] = one.after
    return [word for word in words if word]


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences_flip_and_no_change_can_be_undone(sentiment, text):
    before = int(lrp.predict(sentiment, text).argmax())
    for target in (None, "very positive" if before < 3 else "negative"):
        found = lrp.counterfactual(sentiment, text, target)
        after = int(lrp.predict(sentiment, found.x).argmax())
        assert after != before and (target is None or sentiment.classes[after] == target)
        assert without(found, None) == found.x and 1 <= len(found.changes) <= 8
        for k, scores in enumerate(found.undone):
            own = lrp.predict(sentiment, without(found, k))
            np.testing.assert_allclose(own, scores, rtol=1e-4, atol=1e-4)  # float32, in another batch
            assert own.argmax() != after if target else own.argmax() == before


def series(rng, count):
    return [rng.normal(size=(24, 3)) for _ in range(count)]


@pytest.mark.parametrize(("outputs", "output"), [(1, "sigmoid"), (3, "softmax")])
def test_series_take_numbers_of_a_record_with_the_other_outcome(rng, outputs, output):
    model = lrp.Model([nets.lstm(rng, 3, 6), nets.dense(rng, 6, outputs, bias=False)], output=output)
    xs = series(rng, 40)

    def decided(x):
        f = lrp.predict(model, x)
        return int(f[0] > 0) if outputs == 1 else int(f.argmax())

    decisions = [decided(x) for x in xs]
    assert len({*decisions}) > 1
    for x, before in zip(xs[:6], decisions, strict=False):
        goal = next(one for one in decisions if one != before)
        found = lrp.counterfactual(model, x, goal, records=xs)
        assert decided(found.x) == goal and len(found.undone) == len(found.changes)
        for k in range(len(found.changes)):
            kept = x.copy()
            for j, one in enumerate(found.changes):
                if j != k:
                    steps = slice(one.start, one.stop)
                    features = slice(None)
                    if one.kind == "feature":
                        features = int(one.name[1:])
                    elif "," not in one.before:
                        features = int(one.before.split()[0][1:])
                    kept[steps, features] = found.x[steps, features]
            assert decided(kept) != goal
        taken = found.x != x  # what is not the record's own is that of one other record
        assert any((found.x[taken] == other[taken]).all() for other in xs)


def test_a_river_moves_by_the_amount_asked_for(river):
    values = np.genfromtxt("weights/river.csv", delimiter=",", skip_header=1)[:365, 1:6]
    before = float(lrp.predict(river, values)[0])
    change = -before / 3
    found = lrp.counterfactual(river, values, change=change)
    assert lrp.predict(river, found.x)[0] <= before + change + 1e-5 and found.wanted.endswith("mm")
    assert (found.undone[:, 0] > before + change - 1e-5).all()
    assert "mm → discharge" in str(found) and "Undoing" in str(found)
    assert lrp.plot.counterfactual(found).axes


def test_changes_that_are_not_needed_are_undone(sentiment):
    text = "The film is dull ."
    record = encode(sentiment, text)
    space = {"x": WordEdits("x", sentiment.inputs["x"], record["x"])}
    goal = _goal(sentiment, text, "very positive", None)
    state = frozenset({Edit("x", 3, 4, word="wonderful"), Edit("x", 1, 2, word="movie"), Edit("x", 0, 1)})
    needed, undone = _irreducible(sentiment, space, goal, state)
    assert len(needed) < 3 and len(undone) == len(needed)
    assert (goal.progress(undone) <= 0).all()


def test_text_html_and_picture(sentiment):
    found = lrp.counterfactual(sentiment, SENTENCES[0], "very positive")
    lines = str(found).split("\n")
    assert lines[0].startswith("negative (") and "very positive" in lines[0]
    assert lines[2].startswith("before  ") and lines[2].count("[") == len(found.changes)
    html = found._repr_html_()
    assert html.count("<tr>") == 2 + len(found.changes) and "<script" not in html
    figure = lrp.plot.counterfactual(found)
    assert any("after: very positive" in text.get_text() for text in figure.axes[0].texts)


def test_several_inputs_and_token_ids(rng):
    nodes = [
        lrp.Node("rnn", nets.lstm(rng, 3, 4), ("words",)),
        lrp.Node("both", lrp.layers.Concat(), ("rnn:last", "basin")),
        lrp.Node("out", nets.dense(rng, 6, 2), ("both",)),
    ]
    embedding = lrp.Embedding(rng.normal(size=(9, 3)))
    model = lrp.Model(nodes, inputs={"words": lrp.Input(embedding=embedding), "basin": lrp.Input(2, steps=False)})
    for _ in range(4):
        x = {"words": rng.integers(0, 9, 5), "basin": rng.normal(size=2)}
        try:
            found = lrp.counterfactual(model, x)
        except lrp.LrpError as error:
            assert "try another target" in str(error)
            continue
        assert lrp.predict(model, found.x).argmax() != lrp.predict(model, x).argmax()
        assert str(found) and found._repr_html_() and lrp.plot.counterfactual(found)


@pytest.mark.parametrize(
    ("model", "x", "options", "said"),
    [
        ("sentiment", "A good film", {"target": 3, "change": 1.0}, "one linear output"),
        ("sentiment", "A good film", {"most": 0}, "most"),
        ("river", np.zeros((365, 5)), {}, "change="),
        ("river", np.zeros((365, 5)), {"change": 0.0}, "not be 0"),
        ("river", np.zeros((365, 5)), {"change": 1e6, "records": [np.ones((365, 5))]}, "records must have one"),
        ("river", np.zeros((365, 5)), {"change": 1e6}, "pass records"),
    ],
)
def test_what_cannot_be_is_said(request, model, x, options, said):
    with pytest.raises(lrp.LrpError, match=said):
        lrp.counterfactual(request.getfixturevalue(model), x, **options)


def test_the_predicted_class_is_no_target(sentiment):
    text = SENTENCES[0]
    with pytest.raises(lrp.LrpError, match="another class than the predicted"):
        lrp.counterfactual(sentiment, text, int(lrp.predict(sentiment, text).argmax()))


def test_the_other_of_two_decisions_is_named():
    rng = np.random.default_rng(0)
    model = lrp.Model([nets.lstm(rng, 2, 3), nets.dense(rng, 3, 1)], output="sigmoid")
    x = rng.normal(size=(4, 2))
    predicted = int(lrp.predict(model, x)[0] > 0)
    for target in (predicted, 7):
        with pytest.raises(lrp.LrpError, match=f"target must be {1 - predicted}, as {predicted} is predicted, got"):
            lrp.counterfactual(model, x, target)
