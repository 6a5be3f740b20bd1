"""Ranking methods: each measure against a plain restatement, what chance does, resuming, and random numbers."""

import json

import numpy as np
import pytest
from networks import dense, gru, lstm

import lrpnumpy as lrp
from lrpnumpy import LrpError
from lrpnumpy.__main__ import main
from lrpnumpy.evaluate import chance, measures, programs, rank
from lrpnumpy.evaluate.case import case_of, explainers
from lrpnumpy.evaluate.ranking import COLUMNS, Cells, Ranking

NAMES = ["gradient", "occlusion-f", "lrp-all", "random"]
UNITS = ("step", "feature", "value")


@pytest.fixture
def model(rng):
    return lrp.Model([lstm(rng, 3, 4), dense(rng, 4, 3)])


def data(rng, count=12, low=3, high=6):
    return [rng.normal(size=(T, 3)) for T in rng.integers(low, high + 1, count)]


def case(model, sequences, methods=NAMES, units=UNITS, reference=None, labels=None, seed=(0, 0), **more):
    instead = np.zeros(model.input_size) if reference is None else reference
    return case_of(model, sequences, labels, explainers(methods, model, 0), units, instead, seed, **more)


def probability(model, x, c):
    f = lrp.predict(model, x)
    return (np.exp(f) / np.exp(f).sum())[c]


def replaced(x, gone, unit, instead):
    """An input without the entries `gone` of a unit, written out."""
    x = x.copy()
    for k in gone:
        if unit == "step":
            x[k] = instead
        elif unit == "feature":
            x[:, k] = instead[k]
        else:
            x[k // x.shape[1], k % x.shape[1]] = instead[k % x.shape[1]]
    return x


@pytest.mark.parametrize("how", ["zero", "omit", "vector"])
@pytest.mark.parametrize("unit", UNITS)
def test_removal_and_changes_are_what_a_slow_loop_finds(model, rng, how, unit):
    if how == "omit" and unit != "step":
        pytest.skip("only steps can be left out")
    instead = {"zero": np.zeros(3), "omit": "omit", "vector": np.array([1.0, -1, 0.5])}[how]
    sequences = data(rng, 4, 5, 5)
    some = case(model, sequences, ["lrp-all", "gradient-x-input"], (unit,), instead)
    x, c = sequences[0], some.request["target"][0]
    e = lrp.explain(model, x, "lrp-all", int(c), unit="feature")
    R = {"step": e.relevance, "feature": e.feature_relevance.sum(axis=0), "value": e.feature_relevance.ravel()}[unit]

    def value(gone):
        if how == "omit":
            return probability(model, np.delete(x, gone, axis=0) if len(gone) < len(x) else x[:1], c)
        return probability(model, replaced(x, gone, unit, instead), c)

    order = np.argsort(-R, kind="stable")
    at = measures.levels(len(order))
    area = np.mean([value(order[::-1][:k]) - value(order[:k]) for k in at])
    found = measures.measure_removal(some)[f"{unit}s"]
    np.testing.assert_allclose(found[0][0, 0], area, atol=1e-12)
    alone = np.argsort([value(np.array([k])) for k in range(len(order))], kind="stable")
    best = np.mean([value(alone[::-1][:k]) - value(alone[:k]) for k in at])
    np.testing.assert_allclose(found[1][0], max(best, *found[0][:, 0]), atol=1e-12)
    changes, rng_again = measures.measure_changes(some), some.rng(1)
    random = [[rng_again.permutation(count) for count in some.counts(unit)] for _ in range(measures.RANDOM)]
    steps = range(max(1, len(order) // 2) + 1)
    by_chance = np.mean([abs(np.diff([value(one[0][:k]) for k in steps])).sum() for one in random])
    for name, sign in (("difference", -1), ("preservation", 1)):
        by_size = np.argsort(sign * abs(R), kind="stable")
        values = [value(by_size[:k]) for k in steps]
        total = abs(np.diff(values)).sum()
        np.testing.assert_allclose(changes[name][0][0, 0], total / (total + by_chance), rtol=1e-9)


def test_the_best_order_of_an_additive_network_is_found(rng):
    """Where inputs add up, the best order is that of what they add; signs do not cancel in changes."""
    one = np.ones((1, 1, 1))
    model = lrp.Model([lrp.Dense([[1.0, -2.0, 0.5]]), lrp.RNN(one, one, activation="linear")])
    sequences = data(rng, 6, 4, 8)
    some = case(model, sequences, ["gradient-x-input"])
    for areas, best in measures.measure_removal(some).values():
        np.testing.assert_allclose(areas[0], best)
    products = [np.sort(abs(x * [1.0, -2.0, 0.5]).ravel()) for x in sequences]
    high, low = (measures.measure_changes(some)[name][0][0] for name in ("difference", "preservation"))
    for k, sizes in enumerate(products):  # a / (a + b), with the same b in both
        largest, smallest = sizes[-(len(sizes) // 2) :].sum(), sizes[: len(sizes) // 2].sum()
        np.testing.assert_allclose(largest * (1 / high[k] - 1), smallest * (1 / low[k] - 1), rtol=1e-9)
        assert high[k] > 0.5 > low[k]


@pytest.mark.parametrize("count", [2, 3, 9, 10, 11, 37, 365])
def test_levels_have_a_mirror(count):
    levels = measures.levels(count)
    assert levels.min() >= 1 and levels.max() <= count - 1 and len(levels) <= 10
    assert set(count - levels) == set(levels)
    if count < 10:
        assert levels.tolist() == [*range(1, count)]
    assert measures.levels(1).tolist() == []


def test_long_sequences_are_replaced_in_groups(rng):
    model = lrp.Model([gru(rng, 3, 2), dense(rng, 2, 1)])
    found = measures.measure_removal(case(model, data(rng, 2, 70, 70), ["lrp-all"]))
    assert all((best > 0).all() for _, best in found.values())


def test_rank_correlation_is_that_of_ranks(rng):
    a = np.array([3.0, 1, 1, 5])
    assert chance.ranks(a).tolist() == [3, 1.5, 1.5, 4]
    b = rng.normal(size=4)
    expected = np.corrcoef(chance.ranks(a), chance.ranks(b))[0, 1]
    np.testing.assert_allclose(chance.spearman([a, a], [b, np.zeros(4)]), [expected, 0])


def test_randomisation_replaces_layers_from_the_top(model, rng):
    models = measures.cascade(model, np.random.default_rng((0, 2)))
    assert len(models) == 2
    assert (models[0].layers[1].V != model.layers[1].V).all() and models[0].layers[0] is model.layers[0]
    assert models[1].layers[1] is models[0].layers[1] and (models[1].layers[0].W != model.layers[0].W).all()
    sequences = data(rng)
    some = case(model, sequences, ["lrp-all"])
    found = measures.measure_randomisation(some)["randomisation"][0][0]
    expected = []
    for x, c in zip(sequences, some.request["target"], strict=True):
        before = lrp.explain(model, x, "lrp-all", int(c)).relevance
        after = [lrp.explain(m, x, "lrp-all", int(c)).relevance for m in models]
        expected.append(np.mean([abs(chance.spearman([before], [r])[0]) for r in after]))
    np.testing.assert_allclose(found, expected)


def test_a_bidirectional_network_is_randomized_in_both_directions(rng):
    model = lrp.Model([lrp.Bidirectional(lstm(rng, 3, 2), lstm(rng, 3, 2)), dense(rng, 4, 2)])
    last = measures.cascade(model, rng)[-1].layers[0]
    assert (last.forward.U != model.layers[0].forward.U).all() and (last.backward.W != model.layers[0].backward.W).all()


def test_what_is_beaten_only_by_chance_is_not_beaten(rng):
    noise = rng.normal(size=200)
    above = np.stack([noise + 1, noise + 1 + 0.01 * rng.normal(size=200), noise])
    cells = Cells.of([(above, np.ones(200))], COLUMNS["steps"])
    assert cells.ranks.tolist() == [1, 1, 3]
    np.testing.assert_allclose(cells.value, 100 * above.mean(axis=1))
    assert (cells.low < cells.value).all() and (cells.value < cells.high).all()
    assert (cells.p == cells.p.T).all() and cells.p[0, 1] > 0.05 > cells.p[0, 2]
    np.testing.assert_allclose(cells.apart[0, 2], 0, atol=1e-12)  # they always differ by 1
    assert Cells.of([(above, np.ones(200))], COLUMNS["preservation"]).ranks.tolist() == [2, 2, 1]
    few = Cells.of([(above[:, :3], np.ones(3))], COLUMNS["steps"])
    assert not few.better.any() and np.isnan(few.low).all()
    widths = [np.diff(chance.interval(chance.drawn_again([(above[:1, :n], np.ones(n))]))[:, 0])[0] for n in (20, 200)]
    assert widths[1] < widths[0]


@pytest.mark.parametrize(("t", "freedom", "p"), [(2.1314, 15, 0.05), (12.706, 1, 0.05), (3.6896, 28, 0.00096),
                                                 (1.9647, 500, 0.05), (3.3101, 500, 0.001)])  # fmt: skip
def test_tails_are_those_of_a_table(t, freedom, p):
    np.testing.assert_allclose(chance.t_tails(t, freedom), p, rtol=5e-3)


def test_p_values_are_corrected_by_holm(rng):
    """The smallest p-value counts as often as there are pairs, the next one less, and none is below a smaller one."""
    above, n = rng.normal([[0.0], [0.9], [0.1]], 1.0, (3, 40)), 40
    value, drawn = above.mean(axis=1), chance.drawn_again([(above, np.ones(n))])
    single = {}
    for k, m in ((0, 1), (0, 2), (1, 2)):
        apart = above[k] - above[m]
        t = abs(apart.mean()) / (apart.std(ddof=1) / np.sqrt(n))  # the paired t-test
        single[k, m] = chance.t_tails(t, n - 1)
    p, largest = chance.p_values(value, drawn, n), 0.0
    for place, (k, m) in enumerate(sorted(single, key=single.get)):
        largest = max(largest, min(1.0, single[k, m] * (3 - place)))
        np.testing.assert_allclose([p[k, m], p[m, k]], largest, rtol=0.5)  # a bootstrap's error in the tail


@pytest.mark.parametrize("n", [10, 60])
def test_equal_methods_are_seldom_told_apart(n):
    """Any pair of eight equal methods, in one of twenty trials; of 100 trials at most 12 with 99.9 % probability."""
    wrong = 0
    for seed in range(100):
        above = np.random.default_rng((seed, n)).normal(size=(8, n))
        pair = above, np.ones(n)
        p = chance.p_values(above.mean(axis=1), chance.drawn_again([pair]), n)
        wrong += (p < 0.05).any()
    assert wrong <= 12


def test_random_numbers_come_last_on_the_data_and_truth_is_a_table_of_its_own(rng, monkeypatch):
    monkeypatch.setattr(programs, "SEQUENCES", 12)
    model = lrp.Model([gru(rng, 3, 3), dense(rng, 3, 2)])
    methods = ["gradient-x-input", "occlusion-f", "lrp-all", "random"]
    measures = ("removal", "changes", "evidence", "truth", "randomisation")
    sequences = data(rng, 120, 5, 8)
    found = lrp.rank_methods(model, sequences, methods, measures=measures)
    assert found.methods[found.order[-1]] == "random" and found.best != "random"
    for name in ("steps", "values", "true_steps", "true_values", "true_features"):
        others = [m for m in methods if m != "random"]
        assert all(found.beats(one, "random", name) for one in others), name
    assert found.cells["randomisation"].ranks[-1] == 1  # what says nothing passes this one
    without = lrp.rank_methods(model, sequences, methods, measures=("removal", "changes", "evidence"))
    np.testing.assert_array_equal(without.mean_rank, found.mean_rank)
    assert found.advice.startswith(f"Use {found.best}: on your data it ")
    assert "does not enter the rank" in str(found) and "does not enter the rank" not in str(without)


def test_evidence_is_that_of_each_explanation(rng):
    model = lrp.Model([gru(rng, 3, 3), dense(rng, 3, 2)])
    sequences = data(rng, 10, 5, 8)
    found = lrp.rank_methods(model, sequences, ["lrp-all", "gradient", "random"], measures=["evidence"])
    verdicts = [lrp.explain(model, x, "lrp-all", unit="feature").evidence() for x in sequences]
    conclusive = [one for one in verdicts if one.verdict in ("passes", "fails")]
    expected = 100 * np.mean([one.passed for one in conclusive]) if conclusive else np.nan
    np.testing.assert_allclose(found.cells["evidence"].value[0], expected)
    assert np.isnan(found.mean_rank[1]) and found.methods[found.order[-1]] == "gradient"  # it makes no claim: no rank
    assert np.isfinite(found.cost).all()


def test_your_own_function_and_one_sigmoid(rng):
    """The decision may be no: then what supports the score opposes the decision."""
    model = lrp.Model([lstm(rng, 3, 3), dense(rng, 3, 1, bias=False)], output="sigmoid")
    sequences = data(rng, 30, 4, 7)

    def mine(model, sequences):
        return [e.relevance for e in lrp.explain_all(model, sequences, "occlusion-f", 0)]

    methods = {"mine": mine, "same": "occlusion-f", "opposite": lambda m, s: [-r for r in mine(m, s)]}
    found = lrp.rank_methods(model, sequences, methods, unit="step", measures=["removal"])
    assert found.cells["steps"].value[0] == found.cells["steps"].value[1] > 30
    assert found.cells["steps"].value[2] < 0
    yes = lrp.predict_all(model, sequences)[:, 0] >= 0
    assert 0 < yes.sum() < len(yes)
    same = lrp.rank_methods(model, sequences, methods, yes.astype(int), unit="step", measures=["removal"])
    np.testing.assert_array_equal(same.cells["steps"].value, found.cells["steps"].value)
    every = lrp.rank_methods(model, sequences, methods, measures=["removal"])
    assert np.isnan(every.mean_rank[[0, 2]]).all() and every.mean_rank[1] == 1  # "mine" has no features: no rank


def test_versus_and_step(rng):
    layers = [lstm(rng, 3, 4), dense(rng, 4, 3)]
    model, x = lrp.Model(layers), data(rng, 6)
    some = case(model, x, ["lrp-all"], labels=np.zeros(6, int), versus=2)
    f = lrp.predict_all(model, x)
    np.testing.assert_allclose(some.values(x, range(6)), f[:, 0] - f[:, 2])
    np.testing.assert_allclose(some.relevance(0, "step")[0], lrp.explain(model, x[0], "lrp-all", 0, versus=2).relevance)
    assert lrp.rank_methods(model, x, ["lrp-all"], 0, versus=2, measures=["removal"]).about["versus"] == 2
    every = lrp.Model(layers, readout="every")
    some = case(every, x, ["lrp-all"], step=1)
    c = int(some.request["target"][0])
    np.testing.assert_allclose(
        some.values(x, range(6))[0], (np.exp(g := lrp.predict(every, x[0])[1]) / np.exp(g).sum())[c]
    )
    assert np.isfinite(lrp.rank_methods(every, x, ["lrp-all"], step=1, measures=["removal"]).cells["steps"].value)
    for wrong in ({"versus": 7}, {"step": 1}):
        with pytest.raises(LrpError, match="must"):
            lrp.rank_methods(model, x, ["lrp-all"], 0, measures=["removal"], **wrong)


def test_a_run_that_was_interrupted_goes_on(model, rng, tmp_path, monkeypatch):
    monkeypatch.setattr(rank, "PART", 5)
    sequences, state = data(rng, 13), tmp_path / "state"
    whole = lrp.rank_methods(model, sequences, NAMES, measures=["removal", "changes"])
    real, seen = rank.case_of, []

    def breaks(*arguments):
        seen.append(arguments[6])
        if len(seen) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(rank, "case_of", breaks)
    asked = {"measures": ["removal", "changes"], "state": state}
    with pytest.raises(KeyboardInterrupt):
        lrp.rank_methods(model, sequences, NAMES, **asked)
    found = lrp.rank_methods(model, sequences, NAMES, **asked)
    assert [seed for _, seed in seen] == [0, 5, 5, 10]
    for name, cells in whole.cells.items():
        if name != "cost":
            np.testing.assert_array_equal(cells.value, found.cells[name].value)
            np.testing.assert_array_equal(cells.high, found.cells[name].high)
    assert len([*state.iterdir()]) == 3
    other = lrp.rank_methods(model, sequences[:-1], NAMES, **asked)  # has parts of its own
    assert other.about["sequences"] == 12 and len([*state.iterdir()]) == 6


def test_an_error_of_your_own_function_is_shown(model, rng):
    def mine(model, sequences):
        for one in sequences:
            yield lrp.explain(model, one, "magic")

    with pytest.raises(LrpError, match="unknown method 'magic'"):
        lrp.rank_methods(model, data(rng, 3), {"mine": mine}, measures=["removal"])


def test_a_state_that_cannot_be_read_is_an_error(model, rng, tmp_path, monkeypatch):
    asked = {"measures": ["removal"], "state": tmp_path}
    lrp.rank_methods(model, (sequences := data(rng, 3)), NAMES, **asked)

    def denied(*_):
        raise PermissionError(13, "Permission denied")

    for name in ("read_bytes", "is_dir"):
        with monkeypatch.context() as patch:
            patch.setattr(rank.Path, name, denied)
            with pytest.raises(LrpError, match=r"state must be a folder.*: Permission denied"):
                lrp.rank_methods(model, sequences, NAMES, **asked)


def test_words_labels_padding_and_every_unit(rng, tmp_path, capsys):
    names = [f"w{k}" for k in range(9)]
    embedding = lrp.Embedding(rng.normal(size=(9, 3)), vocabulary=names, mask=0)
    model = lrp.Model([lstm(rng, 3, 3), dense(rng, 3, 3)], embedding=embedding, classes=("a", "b", "c"))
    ids = [rng.integers(1, 9, T) for T in rng.integers(4, 8, 8)]
    padded = [np.concatenate([row, [0, 0]]) for row in ids]
    labels = rng.integers(0, 3, 8)
    asked = {"methods": ["lrp-all", "cd"], "measures": ["removal", "changes"]}
    one, other = (lrp.rank_methods(model, some, target=labels, **asked) for some in (ids, padded))
    np.testing.assert_array_equal(one.cells["steps"].value, other.cells["steps"].value)
    assert "features" not in one.cells and np.isfinite(one.mean_rank).all()  # a word is one input
    for reference in ("omit", "mean", "w3"):
        found = lrp.rank_methods(model, ids[:3], "lrp-all", reference=reference, measures=["removal"])
        assert np.isfinite(found.cells["steps"].value)
    with pytest.raises(LrpError, match="removed whole"):
        lrp.rank_methods(model, ids[:2], unit="feature", measures=["removal"])
    lrp.save(model, tmp_path / "m.h5")
    rows = [{"text": [names[k] for k in row], "y": int(c)} for row, c in zip(ids, labels, strict=True)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = {kind: tmp_path / f"out.{kind}" for kind in ("html", "json", "figure")}
    files["figure"] = tmp_path / "out.png"
    said = ["evaluate", str(tmp_path / "m.h5"), str(tmp_path / "d.jsonl"), "--field", "text", "--label", "y", "--quiet"]
    said += ["--methods", "lrp-all,cd", "--measures", "removal,changes"]
    assert main([*said, *(part for kind, path in files.items() for part in (f"--{kind}", str(path)))]) == 0
    printed = capsys.readouterr().out
    assert "by step" in printed and "mean rank" in printed and "lrp-all" in printed
    columns = json.loads(files["json"].read_text())["columns"]
    np.testing.assert_array_equal(columns["steps"]["value"], one.cells["steps"].value)
    page = files["html"].read_text()
    assert page.startswith("<!doctype html>") and "data:image/png" in page and "http" not in page
    assert files["figure"].read_bytes().startswith(b"\x89PNG")
    assert one.advice in one._repr_html_()


def test_several_inputs_and_regression(rng):
    nodes = [
        lrp.Node("join", lrp.layers.Repeat(), ("s", "x")),
        lrp.Node("both", lrp.layers.Concat(), ("x", "join")),
        lrp.Node("rnn", lstm(rng, 5, 3), ("both",)),
        lrp.Node("head", dense(rng, 3, 1), ("rnn:last",)),
    ]
    model = lrp.Model(nodes, inputs={"x": lrp.Input(3), "s": lrp.Input(2, steps=False)})
    records = [{"x": x, "s": rng.normal(size=2)} for x in data(rng, 8)]
    measures = ["removal", "changes", "evidence", "randomisation"]
    found = lrp.rank_methods(model, records, ["lrp-all", "gradient-x-input", "random"], measures=measures)
    assert all(np.isfinite(found.cells[name].value).all() for name in ("steps", "features", "values", "difference"))
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
        ({"methods": {"mine": lambda m, s: [np.ones(1)] * len(s)}}, "one relevance for each"),
        ({"reference": "omit"}, "unit='step'"),
    ],
    ids=["none", "unknown", "measure", "word", "omit", "unit", "target", "count", "shape", "omit by default"],
)
def test_what_cannot_be_is_said(model, rng, changed, said):
    with pytest.raises(LrpError, match=said):
        lrp.rank_methods(model, data(rng, 3), **{"methods": ["lrp-all"], "measures": ["removal"]} | changed)
    with pytest.raises(LrpError, match="at least one sequence"):
        lrp.rank_methods(model, [])


def test_every_column_has_a_meaning_and_a_measure():
    for column in COLUMNS.values():
        assert column.measure in (*rank.MEASURES, "cost") and column.meaning.endswith(".")


def cells(values, better=(), samples=40, apart=6.0):
    """A column by hand; `better` are pairs of methods of which the first is better."""
    values = np.array(values, float)
    M = len(values)
    table = np.zeros((M, M), bool)
    for k, m in better:
        table[k, m] = True
    return Cells(
        values, values - 1, values + 1, table, np.where(table | table.T, 0.01, 1.0), np.full((M, M), apart), samples
    )


ABOUT = {"sequences": 40}


def test_ties_go_to_the_cheaper_method_and_advice_is_a_sentence():
    names = ("lrp-all", "integrated-gradients", "deeplift", "gradient", "random")
    beaten = [(k, m) for k in (1, 2) for m in (0, 3, 4)]
    removed = cells([70, 91, 90, 0, 0], beaten)
    columns = {
        "removal": removed,
        "steps": removed,
        "difference": cells([1, 3, 3, 1, 1]),
        "cost": cells([2, 300, 3, 2, 1]),
    }
    found = Ranking(names, columns, ABOUT)
    assert found.best == "deeplift" and found.methods[found.order[0]] == "deeplift"
    assert found.advice == (
        "Use deeplift: on your data it beats lrp-all by 20 ± 6 points of removal and equals integrated-gradients at "
        "1 % of the cost. Avoid gradient."
    )
    for some, avoid in ((("a, b", "c"), "a, b and c"), (("c", "a, b"), "c and a, b")):
        low = {"removal": cells([91, 0, 0], [(0, 1), (0, 2)]), "cost": cells([1, 1, 1])}
        low["steps"] = low["removal"]
        assert Ranking(("lrp-all", *some), low, ABOUT).advice.endswith(f" Avoid {avoid}.")
    one_better = Ranking(names, {**columns, "difference": cells([1, 3, 2, 1, 1], [(1, 2)])}, ABOUT)
    assert one_better.best == "integrated-gradients"
    missing = Ranking(names, {**columns, "difference": cells([1, 3, np.nan, 1, 1])}, ABOUT)
    assert missing.best == "integrated-gradients" and missing.order[-1] == 2 and np.isnan(missing.mean_rank[2])


def test_each_measure_counts_alike():
    columns = {"steps": cells([1, 0], [(0, 1)]), "features": cells([1, 0], [(0, 1)]), "values": cells([1, 0], [(0, 1)])}
    found = Ranking(("a", "b"), {**columns, "evidence": cells([0, 1], [(1, 0)]), "cost": cells([1, 2])}, ABOUT)
    assert found.mean_rank.tolist() == [1.5, 1.5] and found.order == [0, 1]


def test_advice_of_too_few_sequences():
    found = Ranking(("mine", "random"), {"steps": cells([9, 8]), "cost": cells([3, 1])}, ABOUT)
    assert found.advice == "40 sequences do not tell these methods apart; try more."


def test_nothing_lies_outside_of_a_figure():
    columns = {"steps": cells([50, 60, -9000]), "cost": cells([1, 2, 5000])}
    for axes, column in zip(Ranking(("a", "b", "c"), columns, ABOUT).figure().axes, columns.values(), strict=False):
        low, high = axes.get_xlim()
        assert low < column.low.min() and column.high.max() < high and axes.get_xscale() == "symlog"


def test_records_of_several_inputs_and_a_vector_in_the_place_of_what_is_removed():
    rng = np.random.default_rng(0)
    model = lrp.Model((lstm(rng, 3, 4), dense(rng, 4, 2)))
    data = [rng.normal(size=(T, 3)) for T in (4, 6, 5)]
    options = {"methods": ["lrp-all", "gradient"], "measures": ["removal", "changes"], "progress": False}
    plain, by_name = (lrp.rank_methods(model, one, reference="zero", **options) for one in (data, {"x": data}))
    vector = lrp.rank_methods(model, data, reference=np.zeros(3), **options)
    for name, column in plain.cells.items():
        if name != "cost":
            np.testing.assert_array_equal(column.value, by_name.cells[name].value)
            np.testing.assert_array_equal(column.value, vector.cells[name].value)
    other = lrp.rank_methods(model, data, reference=np.full(3, 2.0), **options)
    assert (other.cells["values"].value != plain.cells["values"].value).all()
