"""Methods with a reference: completeness, linear networks, what a reference may be, ledgers, batches."""

import laws
import networks as nets
import numpy as np
import pytest
from graphs import graphs, records
from hypothesis import given
from hypothesis import strategies as st
from networks import close

import lrpnumpy as lrp
from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.kernels.steps import rare_secant, sigmoid_secant, tanh_secant
from lrpnumpy.methods import METHODS
from lrpnumpy.rules.deeplift import DEEPLIFT, fractions

REFERENCE = [name for name, method in METHODS.items() if method.kind == "reference"]
RNG = np.random.default_rng(5)


def small(seed=0, D=3, H=4, classes=2, **options):
    rng = np.random.default_rng(seed)
    return lrp.Model([nets.lstm(rng, D, H), nets.dense(rng, H, classes)], **options)


# ---- laws ----


@given(st.data())
@nets.examples(60)
def test_deeplift_is_complete_on_random_graphs(data):
    model = data.draw(graphs())
    laws.references_are_complete(model, data.draw(records(model)), 0, np.random.default_rng(1))


@given(st.data())
@nets.examples(40)
def test_integrated_gradients_are_complete_on_random_graphs(data):
    """The ledger adds up on all of them; where no kink is on the way, next to nothing is left as the gap."""
    model = data.draw(graphs())
    some = data.draw(records(model))
    for x, one in zip(some, lrp.explain_all(model, some, "integrated-gradients", 0, nodes=64), strict=True):
        f, f0 = (laws.score(model, v, 0) for v in (x, {name: np.zeros_like(rows) for name, rows in x.items()}))
        reached = sum(part.feature_relevance.sum() for part in one.inputs.values())
        size = sum(np.abs(part.feature_relevance).sum() for part in one.inputs.values()) + abs(f) + abs(f0)
        close([one.ledger.total, one.ledger.reference, one.ledger.inputs], [f, f0, reached], 1e-12, size)
        close(one.ledger.gap, f - f0 - reached, 1e-12, size)
        assert has_kinks(model) or abs(one.ledger.gap) <= 1e-4 * size


def has_kinks(model):
    names = [str(vars(node.layer)) + str(node.layer) for node in model.nodes]
    kinds = (lrp.layers.Max, lrp.layers.MaxPool1D)
    return any("relu" in name for name in names) or any(isinstance(node.layer, kinds) for node in model.nodes)


@given(st.data())
@nets.examples(60)
def test_deeplift_is_complete_with_every_activation(data):
    model = data.draw(nets.networks())
    laws.references_are_complete(model, data.draw(nets.inputs(model, count=3)), 1, np.random.default_rng(1))


def linear(rng):
    """A network whose scores are linear in the input."""
    cell = lrp.RNN(rng.normal(size=(4, 3)), rng.normal(size=(4, 4)) / 2, rng.normal(size=4), activation="linear")
    return lrp.Model([nets.dense(rng, 3, 3), cell, nets.dense(rng, 4, 2)], readout="mean")


@pytest.mark.parametrize("method", REFERENCE)
def test_linear_networks_agree_with_gradient_times_difference(method):
    rng = np.random.default_rng(2)
    model, xs = linear(rng), [rng.normal(size=(T, 3)) for T in (5, 2, 7)]
    reference = rng.normal(size=3)
    for x, found in zip(xs, lrp.explain_all(model, xs, method, 1, reference=reference), strict=True):
        slope = lrp.explain(model, x, "gradient-x-input", 1).feature_relevance / x
        close(found.relevance, (slope * (x - reference)).sum(axis=1))
        if found.feature_relevance is not None:
            close(found.feature_relevance, slope * (x - reference))


# ---- mean slopes ----


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_mean_slope_is_the_quotient_and_does_not_cancel(name):
    """Far from the reference it is the quotient; near it the slope in the middle, also across a kink at 0."""
    F = ACTIVATIONS[name]
    z, z0 = RNG.normal(size=300) * 3, RNG.normal(size=300) * 3
    close(F.secant(z, z0, F.F(z), F.F(z0)) * (z - z0), F.F(z) - F.F(z0))
    for d in (1e-3, 1e-7, 1e-12):
        z1 = z + d
        middle = z + d / 2
        near = F.secant(z1, z, F.F(z1), F.F(z))
        kinked = [(z - k) * (z1 - k) < 0 for k in F.kinks]
        smooth = ~np.any(kinked, axis=0) if kinked else np.full(len(z), True)
        close(near[smooth], F.slope(middle, F.F(middle))[smooth], 1e-14 + 2 * d * d)
    same = F.secant(z, z, F.F(z), F.F(z))
    close(same, F.slope(z, F.F(z)))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_kernels_have_the_same_mean_slopes(name):
    F = ACTIVATIONS[name]
    z = RNG.normal(size=200) * 2
    for away in (RNG.normal(size=200), RNG.normal(size=200) * 0.01, np.zeros(200)):
        z0 = z + away
        of_number = {"sigmoid": sigmoid_secant, "tanh": tanh_secant}.get(name)
        rows = zip(z, z0, F.F(z), F.F(z0), strict=True)
        out = [of_number(*row) if of_number else rare_secant(*row, F.code) for row in rows if name != "linear"]
        if name != "linear":
            close(out, F.secant(z, z0, F.F(z), F.F(z0)), 1e-11)


def test_fractions_of_a_line():
    """Three candidates move from (2, 0, 1) to (0, 2, 1.5): the first wins until it meets the third, then the second."""
    x, x0 = np.array([0.0, 2.0, 1.5]), np.array([2.0, 0.0, 1.0])
    close(fractions(x[:, None], x0[:, None])[:, 0], [0.4, 1 / 3, 2 / 3 - 0.4])
    x, x0 = RNG.normal(size=(2, 6, 50))
    found = fractions(x, x0)
    close(found.sum(axis=0), np.ones(50))
    close((found * (x - x0)).sum(axis=0), x.max(axis=0) - x0.max(axis=0))
    line = np.linspace(0, 1, 20001)[:, None, None]
    won = (x0 + line * (x - x0)).argmax(axis=1)
    close([(won == k).mean(axis=0) for k in range(6)], found, 1e-3, 1)
    close(fractions(x, x), (x == x.max(axis=0)).astype(float))


def softmax_of(z):
    e = np.exp(z - z.max())
    return e / e.sum()


@pytest.mark.parametrize("ahead", [0.0, 20.0, 40.0])  # of one term: its weight is nearly 1, or 1 to all digits
@pytest.mark.parametrize("far", [1.0, 30.0])
def test_deeplift_of_a_softmax_adds_up(far, ahead):
    z, z0, R = np.random.default_rng(5).normal(size=(3, 5)) * far
    z[2] += ahead
    y, y0 = softmax_of(z), softmax_of(z0)
    found = DEEPLIFT.softmax(R, z, y, lambda terms: terms.sum(), z0, y0)
    terms = found * (z - z0)
    close(
        terms.sum(), R @ (y - y0), 1e-12, np.abs(terms).sum() + 0.01 * np.abs(R).max()
    )  # the difference is rounded, too


# ---- integrated gradients ----


def test_the_integral_is_refined_until_the_gap_is_small():
    """Long sequences of a network that saturates need more nodes than short ones, and each is as exact as asked."""
    model = small(H=8, seed=4)
    xs = [RNG.normal(size=(T, 3)) * 3 for T in (2, 12, 30)]
    for gap in (1e-3, 1e-6, 1e-9):
        for one in lrp.explain_all(model, xs, "integrated-gradients", 0, gap=gap):
            assert abs(one.ledger.gap) <= gap * max(abs(one.ledger.score), abs(one.ledger.reference))
    exact = lrp.explain(model, xs[0], "integrated-gradients", 0, nodes=200)
    close(
        lrp.explain(model, xs[0], "integrated-gradients", 0, gap=1e-9).feature_relevance, exact.feature_relevance, 1e-7
    )
    few = lrp.explain(model, xs[2], "integrated-gradients", 0, nodes=2)
    assert abs(few.ledger.gap) > 1e-6 and few.options["nodes"] == 2


def test_several_references_are_expected_gradients():
    model, x, v, w = small(), RNG.normal(size=(4, 3)), *RNG.normal(size=(2, 3))
    one, two, both = (lrp.explain(model, x, "integrated-gradients", 1, reference=r, nodes=30) for r in (v, w, [v, w]))
    close(both.feature_relevance, (one.feature_relevance + two.feature_relevance) / 2)
    close(both.reference_score, (one.reference_score + two.reference_score) / 2)


def test_kinks_keep_the_gap_large_and_a_warning_says_so():
    rng = np.random.default_rng(0)
    cell = nets.rnn(rng, 3, 6, activation="relu")
    model = lrp.Model([cell, nets.dense(rng, 6, 2)])
    x = rng.normal(size=(8, 3))
    with pytest.warns(lrp.RelevanceWarning, match="miss f.x. - f.reference. .* kinks .*with 256 nodes"):
        found = lrp.explain(model, x, "integrated-gradients", 0, gap=1e-12)
    size = max(abs(found.ledger.score), abs(found.ledger.reference))
    assert 1e-12 * size < abs(found.ledger.gap) < 1e-2 * size


def test_nodes_and_gap_are_not_both_said():
    with pytest.raises(lrp.LrpError, match="nodes must be at most 256, and None where a gap is given"):
        lrp.explain(small(), np.ones((2, 3)), "integrated-gradients", nodes=4, gap=1e-3)
    with pytest.raises(lrp.LrpError, match="nodes must be a whole number of at least 1, got 0"):
        lrp.explain(small(), np.ones((2, 3)), "integrated-gradients", nodes=0)


# ---- what a reference may be ----


def test_the_same_reference_in_every_form():
    model, x, v = small(), RNG.normal(size=(4, 3)), RNG.normal(size=3)
    want = lrp.explain(model, x, "deeplift", reference=v)
    for same in (list(v), np.tile(v, (4, 1)), np.tile(v, (9, 1)).tolist(), [v, v], np.tile(v, (2, 4, 1)), {"x": v}):
        close(lrp.explain(model, x, "deeplift", reference=same).feature_relevance, want.feature_relevance)
    data = [np.tile(v, (3, 1)) - 1, np.tile(v, (3, 1)) + 1]
    close(lrp.explain(model, x, "deeplift", reference="mean", data=data).feature_relevance, want.feature_relevance)
    assert want.options["reference"].startswith("given (1, 3), sha256")
    assert lrp.explain(model, x, "deeplift").options["reference"] == "zero"


def test_references_of_words():
    rng = np.random.default_rng(3)
    embedding = lrp.Embedding(rng.normal(size=(5, 3)), ["<pad>", "<unk>", "a", "b", "c"], "<unk>", mask=0)
    model = small(embedding=embedding)
    for word, row in {"zero": None, "unknown": 1, "padding": 0, "b": 3}.items():
        found = lrp.explain(model, ["a", "c", "b"], "deeplift", reference=word)
        vector = np.zeros(3) if row is None else embedding.E[row]
        close(
            found.feature_relevance, lrp.explain(model, ["a", "c", "b"], "deeplift", reference=vector).feature_relevance
        )
        assert found.options["reference"] == word
    found = lrp.explain(model, ["a", "c"], "deeplift", reference=["zero", "b"])
    close(found.reference_score, np.mean([score_of(model, np.zeros((2, 3))), score_of(model, ["b", "b"])]))
    found = lrp.explain(model, ["a", "c"], "deeplift", reference="b c")
    close(found.reference_score, score_of(model, ["b", "c"]))


def score_of(model, x):
    return lrp.predict(model, x)[lrp.predict(model, ["a", "c"]).argmax()]


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (np.zeros((2, 3)), "have at least the 4 steps of x, got 2"),
        (np.zeros(4), "must"),
        ("mean", "must come with data"),
        ("unknown", "as the input has no words, got 'unknown'"),
        ([], "at least one"),
        ({"y": 0}, "must be a dict with the inputs 'x'.*, got {'y': 0}"),
        (np.full(3, np.nan), "must be finite"),
        ([[1, 2, 3], [1, 2]], "reference of 'x' must be .* got a ragged list"),
    ],
)
def test_references_that_cannot_be(reference, words):
    with pytest.raises(lrp.LrpError, match=words):
        lrp.explain(small(), np.ones((4, 3)), "deeplift", reference=reference)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ({"basin": np.zeros((2, 2))}, r"^reference of 'basin' must be one vector of 2 numbers, got shape \(2, 2\)\.$"),
        (
            {"weather": np.zeros((2, 3))},
            "^reference of 'weather' must be a vector or have at least the 4 steps of x, got 2",
        ),
        ({"basin": "dry"}, "^reference of 'basin' must be 'zero', 'mean' or numbers"),
        ({"notes": [1, 9]}, "^reference of 'notes': token ids must lie from 0 to 5, got 9"),
    ],
)
def test_errors_name_the_input(reference, words):
    rng = np.random.default_rng(0)
    with pytest.raises(lrp.LrpError, match=words):
        lrp.explain(nets.three_inputs(rng), nets.three_values(rng), "deeplift", reference=reference)


# ---- results ----


@pytest.mark.parametrize("method", REFERENCE)
def test_versus_every_class_and_the_ledger(method):
    integral = {"gap": 1e-12} if method == "integrated-gradients" else {}  # its nodes depend on the class
    tol = 1e-9 if integral else 1e-12
    model, xs = small(classes=3), [RNG.normal(size=(T, 3)) for T in (3, 6)]
    every = lrp.explain_all(model, xs, method, "all", reference=np.ones(3), **integral)
    against = lrp.explain_all(model, xs, method, 2, versus=0, reference=np.ones(3), **integral)
    for x, whole, one in zip(xs, every, against, strict=True):
        f, f0 = lrp.predict(model, x), lrp.predict(model, np.ones_like(x))
        close(whole.relevance.sum(axis=1), f - f0, tol)
        close(whole.reference_score, f0)
        close(one.relevance, whole.relevance[2] - whole.relevance[0], tol)
        close([one.ledger.score, one.ledger.reference], [f[2] - f[0], f0[2] - f0[0]])
        assert abs(one.ledger.gap) < tol and abs(one.ledger.total - one.ledger.score) < 1e-14
        again = lrp.Explanation.from_json(whole.for_class(1).to_json())
        assert vars(again.ledger) == vars(whole.for_class(1).ledger) and again.reference_score == again.ledger.reference
        assert "reference" in str(one) and "gap" in one._repr_html_()


def test_float32_is_close_to_float64():
    model, x = small(H=20), RNG.normal(size=(30, 3))
    a, b = (lrp.explain(m, x, "deeplift") for m in (model.astype("float32"), model))
    assert a.relevance.dtype == np.float32
    close(a.relevance, b.relevance, 1e-4)


@pytest.mark.parametrize("method", ["deeplift", "integrated-gradients"])
def test_behind_a_scaler_references_are_in_the_units_of_the_user(method):
    model = lrp.load("vowels")
    mean, scale = (np.array(part) for part in model.inputs["x"].scaler)
    x = mean + scale * np.random.default_rng(0).normal(size=(9, 12))
    expected = lrp.explain(model, x, method).relevance
    others = [{"reference": mean}, {"reference": "mean", "data": [np.tile(mean, (3, 1))]}]
    for options in others:
        np.testing.assert_allclose(lrp.explain(model, x, method, **options).relevance, expected, rtol=0, atol=1e-5)
    assert abs(lrp.explain(model, x, method, reference=mean + scale).relevance - expected).max() > 0.01


def test_cite_prints_the_papers_that_were_used(capsys):
    model, x = small(), RNG.normal(size=(3, 3))
    lrp.cite(lrp.explain(model, x, "deeplift", reference=[x, -x]), lrp.explain(model, x, "lrp-all", gamma=0.5), "cd")
    found = capsys.readouterr().out
    for key in ("shrikumar2017learning", "lundberg2017unified", "arras2017explaining", "montavon2019layer", "murdoch"):
        assert found.count(key) == 1
    lrp.cite(*METHODS, lrp.explain_all(model, [x, x], "deeplift"))
    assert capsys.readouterr().out.count("@") == len({method.paper for method in METHODS.values()})
    with pytest.raises(lrp.LrpError, match="got 'nonsense'; pass explanations or names of methods"):
        lrp.cite("nonsense")


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("deeplift", {"reference": [np.ones(3), "zero"]}),
        ("integrated-gradients", {"nodes": 6}),
        ("shapley", {"players": 3}),
        ("shapley", {"players": "features", "unit": "feature"}),
    ],
)
@pytest.mark.parametrize("target", [1, "all"])
def test_a_corpus_keeps_relevance_and_ledger(tmp_path, method, options, target):
    model, xs = small(), [RNG.normal(size=(T, 3)) for T in (3, 5, 2)]
    for _ in range(2):  # the second run finds everything done by the same references
        found = lrp.explain_corpus(model, xs, method, target, out=tmp_path / "a", progress=False, **options)
    for x, one in zip(xs, found, strict=True):
        want = lrp.explain(model, x, method, target, **options)
        close(one.relevance, want.relevance, 1e-12, 1)
        for name, value in vars(want.ledger).items():
            close(getattr(one.ledger, name), value, 1e-12, 1)
    other = {**options, "reference": np.full(3, 0.5)}
    with pytest.raises(lrp.LrpError, match="options"):
        lrp.explain_corpus(model, xs, method, target, out=tmp_path / "a", progress=False, **other)
