"""Ranking methods: each measure against a plain restatement, what chance does, resuming, and random numbers."""

import itertools
import json

import numpy as np
import pytest
from networks import dense, gru, lstm

import lrpnumpy as lrp
from lrpnumpy import LrpError
from lrpnumpy.__main__ import main
from lrpnumpy.evaluate import agreement, chance, completeness, randomisation, rank, removal, stability, truth
from lrpnumpy.evaluate.case import case_of, explainers
from lrpnumpy.evaluate.ranking import COLUMNS, Cells, Ranking

NAMES = ["gradient", "occlusion-f", "lrp-all", "random"]


@pytest.fixture
def model(rng):
    return lrp.Model([lstm(rng, 3, 4), dense(rng, 4, 3)])


def data(rng, count=12, low=3, high=6):
    return [rng.normal(size=(T, 3)) for T in rng.integers(low, high + 1, count)]


def case(model, sequences, methods=NAMES, unit="step", reference=None, labels=None, seed=(0, 0)):
    instead = np.zeros(model.input_size) if reference is None else reference
    return case_of(model, sequences, labels, explainers(methods, model, unit, 0), unit, instead, seed)


def probability(model, x, c):
    f = lrp.predict(model, x)
    return (np.exp(f) / np.exp(f).sum())[c]


@pytest.mark.parametrize("how", ["zero", "omit", "vector"])
@pytest.mark.parametrize("unit", ["step", "feature"])
def test_removal_is_what_a_slow_loop_finds(model, rng, how, unit):
    if (how, unit) == ("omit", "feature"):
        pytest.skip("a feature cannot be left out")
    instead = {"zero": np.zeros(3), "omit": "omit", "vector": np.array([1.0, -1, 0.5])}[how]
    sequences = data(rng, 4, 5, 5)
    found = removal.measure(some := case(model, sequences, ["lrp-all", "gradient"], unit, instead))
    order = np.argsort(-some.relevances[0][0], kind="stable")
    x, c, n = sequences[0], some.targets[0], len(order)

    def value(gone):
        if unit == "feature":
            left = x.copy()
            left[:, gone] = instead[gone]
        elif how == "omit":
            left = np.delete(x, gone, axis=0)
        else:
            left = x.copy()
            left[gone] = instead
        return probability(model, left, c)

    whole = value(order[:0])
    falls = [whole - value(order[:k]) for k in range(1, n)]  # fewer than ten: every level removes one
    keeps = [whole - value(order[::-1][:k]) for k in range(1, n)]
    every = [[whole - value(np.array(o)[:k]) for k in range(1, n)] for o in itertools.permutations(range(n))]
    means = np.mean(every, axis=1)
    rng_again = some.rng(1)
    random = [[rng_again.permutation(count) for count in some.counts] for _ in range(removal.RUNS)]
    by_chance = np.mean([[whole - value(one[0][:k]) for k in range(1, n)] for one in random])
    np.testing.assert_allclose(found["most"][0][0, 0], np.mean(falls) - by_chance, atol=1e-12)
    np.testing.assert_allclose(found["least"][0][0, 0], by_chance - np.mean(keeps), atol=1e-12)
    assert found["most"][1][0] <= means.max() - by_chance + 1e-12  # no order is better than the best
    assert found["least"][1][0] <= by_chance - means.min() + 1e-12
    assert found["most"][1][0] >= max(found["most"][0][:, 0]) - 1e-12
    at = [np.clip(round(n * share), 1, n - 1) for share in (0.1, 0.2, 0.5)]
    np.testing.assert_allclose(found["comprehensiveness"][0][0, 0], np.mean([falls[k - 1] for k in at]))
    np.testing.assert_allclose(found["sufficiency"][0][0, 0], np.mean([keeps[n - k - 1] for k in at]))


def test_the_beam_search_finds_the_best_order_of_an_additive_network(rng):
    """Where inputs add up, the best order is that of what they add."""
    one = np.ones((1, 1, 1))
    model = lrp.Model([lrp.Dense([[1.0, -2.0, 0.5]]), lrp.RNN(one, one, activation="linear")])
    some = case(model, data(rng, 6, 4, 8), ["gradient-x-input"])
    found = removal.measure(some)
    np.testing.assert_allclose(found["most"][0][0], found["most"][1])
    np.testing.assert_allclose(found["least"][0][0], found["least"][1])


@pytest.mark.parametrize("count", [2, 3, 9, 10, 11, 37, 365])
def test_levels_have_a_mirror(count):
    levels = removal.levels(count)
    assert levels.min() >= 1 and levels.max() <= count - 1 and len(levels) <= 10
    assert set(count - levels) == set(levels)
    if count < 10:
        assert levels.tolist() == [*range(1, count)]
    assert removal.levels(1).tolist() == []


def test_long_sequences_are_searched_in_groups(rng):
    model = lrp.Model([gru(rng, 3, 2), dense(rng, 2, 1)])
    found = removal.measure(case(model, data(rng, 2, 70, 70), ["lrp-all"]))
    assert (found["most"][1] > 0).all() and (found["least"][1] > 0).all()


def test_rank_correlation_is_that_of_ranks(rng):
    a = np.array([3.0, 1, 1, 5])
    assert agreement.ranks(a).tolist() == [3, 1.5, 1.5, 4]
    b = rng.normal(size=4)
    expected = np.corrcoef(agreement.ranks(a), agreement.ranks(b))[0, 1]
    np.testing.assert_allclose(agreement.spearman([a, a], [b, np.zeros(4)]), [expected, 0])


def test_agreement_compares_every_pair(model, rng):
    some = case(model, data(rng), ["gradient", "occlusion-f", "lrp-all"])
    found = agreement.measure_agreement(some)
    one, other = some.relevances[0], some.relevances[2]
    np.testing.assert_allclose(found["with lrp-all"][0][0], agreement.spearman(one, other))
    np.testing.assert_allclose(found["with gradient"][0][0], 1)
    mean = (agreement.spearman(one, other) + agreement.spearman(one, some.relevances[1])) / 2
    np.testing.assert_allclose(found["agreement"][0][0], mean)


def test_randomisation_replaces_layers_from_the_top(model, rng):
    models = randomisation.cascade(model, np.random.default_rng((0, 2)))
    assert len(models) == 2
    assert (models[0].layers[1].V != model.layers[1].V).all() and models[0].layers[0] is model.layers[0]
    assert models[1].layers[1] is models[0].layers[1] and (models[1].layers[0].W != model.layers[0].W).all()
    sequences = data(rng)
    some = case(model, sequences, ["lrp-all"])
    found = randomisation.measure(some)["randomisation"][0][0]
    expected = []
    for x, c in zip(sequences, some.targets, strict=True):
        before = lrp.explain(model, x, target=int(c)).relevance
        after = [lrp.explain(m, x, target=int(c)).relevance for m in models]
        expected.append(np.mean([abs(agreement.spearman([before], [r])[0]) for r in after]))
    np.testing.assert_allclose(found, expected)


def test_a_bidirectional_network_is_randomised_in_both_directions(rng):
    model = lrp.Model([lrp.Bidirectional(lstm(rng, 3, 2), lstm(rng, 3, 2)), dense(rng, 4, 2)])
    last = randomisation.cascade(model, rng)[-1].layers[0]
    assert (last.forward.U != model.layers[0].forward.U).all() and (last.backward.W != model.layers[0].backward.W).all()


def test_stability_is_the_largest_move(model, rng):
    sequences = data(rng)
    some = case(model, sequences, ["lrp-all"])
    (apart,), moved = stability.measure(some)["stability"]
    rng_again, spread = some.rng(3), np.concatenate(sequences).std(axis=0)
    shares, values = [], []
    for _ in range(stability.DRAWS):
        for x, c in zip(sequences, some.targets, strict=True):
            near = x + 0.05 * spread * rng_again.normal(size=x.shape)
            one, other = (lrp.explain(model, part, target=int(c)).relevance for part in (x, near))
            shares.append(abs(one / abs(one).sum() - other / abs(other).sum()).sum() / 2)
            values.append(abs(probability(model, near, c) - probability(model, x, c)))
    np.testing.assert_allclose(apart, np.reshape(shares, (stability.DRAWS, -1)).max(axis=0), rtol=1e-9)
    np.testing.assert_allclose(moved, np.reshape(values, (stability.DRAWS, -1)).max(axis=0), rtol=1e-9)


def test_completeness_reads_the_ledger(model, rng):
    sequences = data(rng)
    model = lrp.Model([model.layers[0], lrp.Dense(model.layers[1].V - 3)])  # of two signs
    found = completeness.measure(case(model, sequences, {"e": ("lrp-all", {"eps": 0.1}), "g": "gradient"}))
    f = []
    for k, x in enumerate(sequences):
        e = lrp.explain(model, x, eps=0.1)
        f.append(e.scores[e.target])
        shares = [e.relevance.sum() / f[k], lrp.explain(model, x, "gradient").relevance.sum() / f[k]]
        np.testing.assert_allclose(found["inputs"][0][:, k] / found["inputs"][1][k], shares)
        np.testing.assert_allclose(found["biases"][0][0, k], np.sign(f[k]) * e.ledger.all_biases)
        np.testing.assert_allclose(found["stabiliser"][0][0, k], np.sign(f[k]) * e.ledger.stabiliser)
    assert min(f) < 0 < max(f)
    np.testing.assert_allclose(found["lost"][0][0] / abs(np.array(f)), 0, atol=1e-12)
    assert np.isnan(found["biases"][0][1]).all()


def test_what_is_beaten_only_by_chance_is_not_beaten(rng):
    noise = rng.normal(size=200)
    above = np.stack([noise + 1, noise + 1 + 0.01 * rng.normal(size=200), noise])
    cells = Cells.of(above, np.ones(200), COLUMNS["most"], 0)
    assert cells.ranks.tolist() == [1, 1, 3]
    np.testing.assert_allclose(cells.value, 100 * above.mean(axis=1))
    assert (cells.low < cells.value).all() and (cells.value < cells.high).all()
    assert Cells.of(above, np.ones(200), COLUMNS["sufficiency"], 0).ranks.tolist() == [2, 2, 1]
    few = Cells.of(above[:, :3], np.ones(3), COLUMNS["most"], 0)
    assert not few.better.any() and np.isnan(few.low).all()
    widths = [np.diff(chance.interval(chance.drawn_again(above[:1, :n], np.ones(n)))[:, 0])[0] for n in (20, 200)]
    assert widths[1] < widths[0]


def test_random_numbers_come_last_in_removal_and_ground_truth(rng, monkeypatch):
    monkeypatch.setattr(truth, "NETWORKS", 1)
    monkeypatch.setattr(truth, "SEQUENCES", 12)
    model = lrp.Model([gru(rng, 3, 3), dense(rng, 3, 2)])
    methods = ["gradient-x-input", "occlusion-f", "lrp-all", "random"]
    measures = ("removal", "truth", "randomisation", "agreement")
    found = lrp.rank_methods(model, data(rng, 40, 5, 8), methods, measures=measures)
    assert found.methods[found.order[-1]] == "random"
    for name in ("most", "least", "steps", "values", "features"):
        others = [m for m in methods if m != "random"]
        assert all(found.beats(one, "random", name) for one in others), name
    assert found.cells["randomisation"].ranks[-1] == 1  # what says nothing passes this one
    assert any("One measure is not enough" in line for line in found.advice)
    assert "random" in next(line for line in found.advice if line.startswith("Not for this network"))


def test_a_function_of_ones_own_and_one_sigmoid(rng):
    """The decision may be no: then what speaks for the score speaks against the decision."""
    model = lrp.Model([lstm(rng, 3, 3), dense(rng, 3, 1, bias=False)], output="sigmoid")
    sequences = data(rng, 30, 4, 7)

    def mine(model, sequences):
        return [e.relevance for e in lrp.explain_all(model, sequences, "occlusion-f", 0)]

    methods = {"mine": mine, "same": "occlusion-f", "opposite": lambda m, s: [-r for r in mine(m, s)]}
    found = lrp.rank_methods(model, sequences, methods, measures=["removal"])
    assert found.cells["most"].value[0] == found.cells["most"].value[1] > 30
    assert found.cells["most"].value[2] < 0
    yes = lrp.predict_all(model, sequences)[:, 0] >= 0
    assert 0 < yes.sum() < len(yes)
    same = lrp.rank_methods(model, sequences, methods, yes.astype(int), measures=["removal"])
    np.testing.assert_array_equal(same.cells["most"].value, found.cells["most"].value)


def test_a_run_that_was_interrupted_goes_on(model, rng, tmp_path, monkeypatch):
    monkeypatch.setattr(rank, "PART", 5)
    sequences, state = data(rng, 13), tmp_path / "state.jsonl"
    whole = lrp.rank_methods(model, sequences, NAMES, measures=["removal", "stability"])
    real, seen = rank.case_of, []

    def breaks(*arguments):
        seen.append(arguments[-2])  # before the number of threads
        if len(seen) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(rank, "case_of", breaks)
    asked = {"measures": ["removal", "stability"], "state": state}
    with pytest.raises(KeyboardInterrupt):
        lrp.rank_methods(model, sequences, NAMES, **asked)
    with state.open("a") as file:
        file.write('{"half a li')
    found = lrp.rank_methods(model, sequences, NAMES, **asked)
    assert [seed for _, seed in seen] == [0, 5, 5, 10]
    for name, cells in whole.cells.items():
        np.testing.assert_array_equal(cells.value, found.cells[name].value)
        np.testing.assert_array_equal(cells.high, found.cells[name].high)
    with pytest.raises(LrpError, match="of others"):
        lrp.rank_methods(model, sequences[:-1], NAMES, **asked)


def test_words_labels_padding_and_every_unit(rng, tmp_path, capsys):
    names = [f"w{k}" for k in range(9)]
    embedding = lrp.Embedding(rng.normal(size=(9, 3)), vocabulary=names, mask=0)
    model = lrp.Model([lstm(rng, 3, 3), dense(rng, 3, 3)], embedding=embedding, classes=("a", "b", "c"))
    ids = [rng.integers(1, 9, T) for T in rng.integers(4, 8, 8)]
    padded = [np.concatenate([row, [0, 0]]) for row in ids]
    labels = rng.integers(0, 3, 8)
    asked = {"methods": ["lrp-all", "cd"], "measures": ["removal", "stability", "completeness"]}
    one, other = (lrp.rank_methods(model, some, target=labels, **asked) for some in (ids, padded))
    np.testing.assert_array_equal(one.cells["most"].value, other.cells["most"].value)
    for reference in ("omit", "mean", "w3"):
        found = lrp.rank_methods(model, ids[:3], "lrp-all", reference=reference, measures=["removal"])
        assert np.isfinite(found.cells["most"].value)
    by_feature = lrp.rank_methods(model, ids[:2], unit="feature", measures=["removal"])
    assert "cd" not in by_feature.methods and "random" in by_feature.methods
    lrp.save(model, tmp_path / "m.h5")
    rows = [{"text": [names[k] for k in row], "y": int(c)} for row, c in zip(ids, labels, strict=True)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = {kind: tmp_path / f"out.{kind}" for kind in ("html", "json", "figure")}
    files["figure"] = tmp_path / "out.png"
    said = ["evaluate", str(tmp_path / "m.h5"), str(tmp_path / "d.jsonl"), "--field", "text", "--label", "y", "--quiet"]
    said += ["--methods", "lrp-all,cd", "--measures", "removal,stability,completeness,agreement"]
    assert main([*said, *(part for kind, path in files.items() for part in (f"--{kind}", str(path)))]) == 0
    printed = capsys.readouterr().out
    assert "most first" in printed and "In general" in printed and "lrp-all" in printed
    found = Ranking.from_json(files["json"].read_text())
    np.testing.assert_array_equal(found.cells["most"].value, one.cells["most"].value)
    assert str(found) == printed.rstrip("\n")
    page = files["html"].read_text()
    assert page.startswith("<!doctype html>") and "data:image/png" in page and "http" not in page
    assert files["figure"].read_bytes().startswith(b"\x89PNG")
    assert "ranking" in found._repr_html_()


def test_several_inputs_and_regression(rng):
    nodes = [
        lrp.Node("join", lrp.layers.Repeat(), ("s", "x")),
        lrp.Node("both", lrp.layers.Concat(), ("x", "join")),
        lrp.Node("rnn", lstm(rng, 5, 3), ("both",)),
        lrp.Node("head", dense(rng, 3, 1), ("rnn:last",)),
    ]
    model = lrp.Model(nodes, inputs={"x": lrp.Input(3), "s": lrp.Input(2, steps=False)})
    records = [{"x": x, "s": rng.normal(size=2)} for x in data(rng, 8)]
    found = lrp.rank_methods(model, records, ["lrp-all", "gradient-x-input", "random"], measures=[
        "removal", "randomisation", "stability", "completeness", "agreement", "cost"])  # fmt: skip
    assert np.isfinite(found.cells["most"].value).all()
    np.testing.assert_allclose(found.cells["lost"].value[0], 0, atol=1e-9)
    with pytest.raises(LrpError, match="target must be None"):
        lrp.rank_methods(model, records, target=[0] * 8)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"methods": []}, "at least one method"),
        ({"methods": ["guess"]}, "guess"),
        ({"measures": ["luck"]}, "luck"),
        ({"reference": "w3"}, "no words"),
        ({"reference": "omit", "unit": "feature"}, "omit"),
        ({"unit": "layer"}, "layer"),
        ({"target": [0]}, "one class for each"),
        ({"methods": {"mine": lambda m, s: []}}, "one relevance for each"),
        ({"methods": {"mine": lambda m, s: [np.ones(1)] * len(s)}}, "numbers for sequence 0"),
        ({"methods": ["cd"], "unit": "feature"}, "feature"),
    ],
    ids=["none", "unknown", "measure", "word", "omit", "unit", "target", "count", "shape", "feature_relevance"],
)
def test_what_cannot_be_is_said(model, rng, changed, said):
    with pytest.raises(LrpError, match=said):
        lrp.rank_methods(model, data(rng, 3), **{"methods": ["lrp-all"], "measures": ["removal"]} | changed)
    with pytest.raises(LrpError, match="at least one sequence"):
        lrp.rank_methods(model, [])


def test_every_column_has_a_meaning_and_a_measure():
    for column in COLUMNS.values():
        assert column.measure in rank.MEASURES and column.meaning.endswith(".")


def test_removal_and_truth_count_alike_and_data_of_ones_own_are_named():
    """One column of removal against three of truth: "mine" wins the first, "other" the rest."""
    none, first, second = (np.array(rows, bool) for rows in ([[0, 0], [0, 0]], [[0, 1], [0, 0]], [[0, 0], [1, 0]]))

    def cells(better, samples=9):
        return Cells(np.array([50.0, 51.0]), np.array([40.0, 40.0]), np.array([60.0, 60.0]), better, samples)

    columns = {"most": cells(first), "steps": cells(second), "values": cells(second), "features": cells(none)}
    found = Ranking(("mine", "other"), columns, None, {})
    np.testing.assert_allclose(found.overall, [(1 + 5 / 3) / 2, (2 + 1) / 2])
    assert found.best == "mine"
    other = Ranking(("mine", "other"), {**columns, "features": cells(second)}, None, {})
    assert other.best == "other" and "By removal on these data alone: mine." in other.advice
    assert columns["most"].unbeaten.tolist() == [True, False]
    assert not cells(none, samples=2).unbeaten.any()
    missing = cells(none)._replace(value=np.array([np.nan, 51.0]))
    part = Ranking(("mine", "other"), {"most": cells(second), "steps": missing}, None, {})
    assert part.overall.tolist() == [2, 1]  # what a method has no value in does not count


def test_advice_names_no_baseline_no_empty_measure_and_nothing_of_too_few_sequences():
    """Of four sentences random numbers were "the cheapest of these", and every method was "not for this network"."""
    none = np.zeros((2, 2), bool)

    def cells(values, samples, better=none):
        return Cells(np.array(values), np.array(values) - 1, np.array(values) + 1, better, samples)

    for samples in (4, 12):
        few = Ranking(("mine", "random"), {"most": cells([9.0, 8.0], samples)}, None, {})
        assert few.advice == ["Too few sequences to tell the methods apart; try at least 30."]
    columns = {"most": cells([8.0, 9.0], 40), "steps": cells([np.nan, 1.0], 20), "cost": cells([3.0, 1.0], 40)}
    assert Ranking(("mine", "random"), columns, None, {}).advice[:2] == [
        "In general: mine, which has the best mean rank in most first. Not told apart from it: random.",
        "For many inputs: mine, the cheapest of these (3.0 forward passes).",
    ]
    assert Ranking(("random",), {"most": cells([9.0], 40, none[:1, :1])}, None, {}).advice == []


def test_records_of_several_inputs_and_a_vector_in_the_place_of_what_is_removed():
    rng = np.random.default_rng(0)
    model = lrp.Model((lstm(rng, 3, 4), dense(rng, 4, 2)))
    data = [rng.normal(size=(T, 3)) for T in (4, 6, 5)]
    options = {"methods": ["lrp-all", "gradient"], "measures": ["removal", "completeness"], "progress": False}
    plain, by_name = (lrp.rank_methods(model, one, reference="zero", **options) for one in (data, {"x": data}))
    vector = lrp.rank_methods(model, data, reference=np.zeros(3), **options)
    for name, cells in plain.cells.items():
        np.testing.assert_array_equal(cells.value, by_name.cells[name].value)
        np.testing.assert_array_equal(cells.value, vector.cells[name].value)
    other = lrp.rank_methods(model, data, reference=np.full(3, 2.0), **options)
    assert (other.cells["comprehensiveness"].value != plain.cells["comprehensiveness"].value).all()
