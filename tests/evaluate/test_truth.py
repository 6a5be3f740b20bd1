"""Benchmarks with a known truth: generators follow the stated distributions, metrics are right, methods are exact."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrpnumpy as lrp
from benchmarks.paper.measures.treebank import Sentences
from benchmarks.truth import boxes, metrics, networks, page, pool, programs, published, rows, shortcuts, state
from benchmarks.truth.networks import Spec


def weights_of(spec, seed=0):
    """Random weights by torch's names."""
    rng, H = np.random.default_rng(seed), spec.units
    G = {"LSTM": 4, "GRU": 3}[spec.cell]
    out = {
        "rnn.weight_ih_l0": rng.normal(size=(G * H, spec.inputs)),
        "rnn.weight_hh_l0": rng.normal(size=(G * H, H)) / 2,
        "rnn.bias_ih_l0": rng.normal(size=G * H),
        "rnn.bias_hh_l0": rng.normal(size=G * H),
        "head.weight": rng.normal(size=(2, H)),
        "head.bias": rng.normal(size=2),
    }
    if spec.norm:
        names = ("weight", "bias", "running_mean", "running_var")
        out |= {f"norm.{name}": rng.uniform(0.5, 1.5, H) for name in names}
    return out


# ------------------------------------------------------------------------------------------------------ metrics


def test_areas_of_a_hand_computed_case():
    # Largest first: true, false, true, false. Precision 1, 1/2, 2/3, 1/2; recall 1/2, 1/2, 1, 1.
    scores, truth = np.array([1.0, 0.6, 0.5, 0.0]), np.array([1, 0, 1, 0], bool)
    assert_allclose(metrics.auroc(scores, truth), 3 / 4)  # of four pairs, one is in the wrong order
    assert_allclose(metrics.auprc(scores, truth), (1 + 2 / 3) / 2)
    aup = 0.4 * (1 + 1 / 2) / 2 + 0.1 * (1 / 2 + 2 / 3) / 2 + 0.5 * (2 / 3 + 1 / 2) / 2
    aur = 0.4 * 1 / 2 + 0.1 * (1 / 2 + 1) / 2 + 0.5
    assert_allclose(metrics.aup_aur(scores, truth), (aup, aur))
    assert_allclose(metrics.aup_aur(7 * scores + 3, truth), (aup, aur))  # scaled to 0 ... 1 before


def test_ties_are_one_threshold():
    truth = np.array([1, 0, 1, 0], bool)
    assert metrics.auroc(np.ones(4), truth) == 0.5
    assert metrics.auprc(np.ones(4), truth) == 0.5
    assert metrics.top_k(np.ones(4), truth) == 0.5
    assert metrics.mean_rank(np.ones(4), truth) == 2.5


def test_top_k_and_mean_rank():
    scores, truth = np.array([0.1, 0.9, 0.5, 0.7]), np.array([0, 1, 1, 0], bool)
    assert metrics.top_k(scores, truth) == 0.5
    assert metrics.mean_rank(scores, truth) == 2  # positions 1 and 3
    assert_allclose(metrics.ranks(np.array([3.0, 1.0, 3.0])), [2.5, 1, 2.5])


def test_weighted_precision_and_recall():
    scores = np.arange(10.0, 0, -1)[None]
    truth = np.zeros((1, 10), bool)
    truth[0, [0, 2]] = True  # weights 10 and 8
    precision, recall = metrics.weighted_precision_recall(scores, truth)
    sums = np.cumsum(scores[0])[:9]
    right = np.array([10, 10, 18, 18, 18, 18, 18, 18, 18])
    assert_allclose((precision, recall), (np.mean(right / sums), np.mean(right / 18)))


def test_the_truth_scores_1_and_random_numbers_are_at_chance():
    rng = np.random.default_rng(0)
    truth = rng.random(200_000) < 0.3
    random = rng.random(truth.shape)
    assert metrics.auroc(truth.astype(float), truth) == metrics.auprc(truth.astype(float), truth) == 1
    assert_allclose(metrics.auroc(random, truth), 0.5, atol=0.01)
    assert_allclose(metrics.auprc(random, truth), 0.3, atol=0.01)
    sentences = rng.random((5_000, 20))
    right = np.zeros(20, bool)
    right[[3, 7]] = True
    found = shortcuts.scores(list(sentences), [right] * len(sentences))
    assert_allclose([found["top k"], found["mean rank"]], [2 / 20, 10.5], rtol=0.05)
    assert shortcuts.scores([right.astype(float)], [right]) == {"top k": 1, "mean rank": 1.5, "top k, signed": 1}


def test_ranks_raise_the_area_under_recall_of_any_method():
    rng = np.random.default_rng(0)
    truth = rng.random(10_000) < 1 / 3
    heavy = np.exp(3 * rng.normal(size=truth.shape)) * np.where(truth, 10, 1)
    assert metrics.aup_aur(heavy, truth)[1] < 0.1
    assert metrics.aup_aur(metrics.ranks(heavy), truth)[1] > 0.6
    assert_allclose(metrics.auroc(heavy, truth), metrics.auroc(metrics.ranks(heavy), truth))


# -------------------------------------------------------------------------------------------------------- State


def test_state_follows_its_distribution():
    data = state.generate(2_000, 3)
    assert data.x.shape == (2_000, 200, 3) and data.truth.sum(axis=2).max() == 1
    assert_allclose(data.state[:, 0].mean(), 0.5, atol=0.04)
    before, after = data.state[:, :-1], data.state[:, 1:]
    assert_allclose(after[before == 0].mean(), 0.05, atol=0.002)
    first = (before[:, :-1] == 0) & (before[:, 1:] == 1)  # just entered: stays with 0.95
    assert_allclose(after[:, 1:][first].mean(), 0.95, atol=0.005)
    for s in (0, 1):
        x = data.x[data.state == s]
        own = state.OWN[s]
        assert_allclose(x.mean(axis=0), state.MEAN[s], atol=0.02)
        assert_allclose(np.cov(x.T).diagonal(), 0.801, atol=0.02)
        assert_allclose(np.cov(x.T)[0, own], 0.01, atol=0.01)
        high = x[:, own] > state.MEAN[s, own]
        assert_allclose(data.y[data.state == s][high].mean(), (1 / (1 + np.exp(-2 * x[high, own]))).mean(), atol=0.01)
        assert (data.truth[data.state == s].argmax(axis=1) == own).all()


@pytest.mark.parametrize("cell", state.CELLS)
def test_relevance_of_the_newest_step_is_that_of_the_complete_explanation(cell):
    spec = Spec(cell, 3, 7, norm=True)
    data = state.generate(2, 1, steps=6)
    given = state.prepare(spec, weights_of(spec), data)
    x = data.x[1].astype(np.float64)
    unit = {"unit": "feature"}
    methods = {
        "gradient": {},
        "gradient-x-input": {},
        "lrp-all": {},
        "lrp-half": {},
        "deeplift": {},
        "integrated-gradients": {"nodes": state.NODES},
        "occlusion-f": unit,
        "occlusion-p": unit,
    }
    for name, options in methods.items():
        every = lrp.explain(given.model, x, name, step="all", **options)
        want = [e.feature_relevance[k] for k, e in enumerate(every)]
        assert_allclose(state.METHODS[name](given).reshape(2, 6, 3)[1], want, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("cell", state.CELLS)
def test_decomposition_of_the_newest_step_is_that_of_the_complete_sequence(cell):
    spec = Spec(cell, 3, 5, norm=True)
    weights, data = weights_of(spec), state.generate(1, 1, steps=4)
    given = state.prepare(spec, weights, data)
    found = state.decomposed(given)
    model = networks.by_feature(spec, weights)
    for t in range(4):
        x = {f"x{d}": data.x[0, : t + 1, d : d + 1].astype(np.float64) for d in range(3)}
        e = lrp.explain(model, x, "cd", int(given.targets[0, t]))
        want = [e.relevance[t], e.inputs["x1"].relevance[t], e.inputs["x2"].relevance[t]]
        assert_allclose(found[t], want, atol=1e-10)


def test_state_scores_the_truth_and_random_numbers():
    truth = np.eye(3, dtype=bool)[np.random.default_rng(0).integers(0, 3, 4_000)]
    found = state.scores(truth.astype(float), truth)
    assert found["AUROC"] == found["AUPRC"] == 1
    random = state.scores(np.random.default_rng(1).standard_normal(truth.shape), truth)
    assert_allclose((random["AUROC"], random["AUPRC"]), (1 / 2, 1 / 3), atol=0.03)


# -------------------------------------------------------------------------------------------------------- Boxes


@pytest.mark.parametrize("name", boxes.SHAPES)
def test_boxes_follow_their_distribution(name):
    data, shape = boxes.generate(name, 300, 0), boxes.SHAPES[name]
    assert (data.truth.sum(axis=(1, 2)) == shape.steps * shape.features).all()
    assert (data.truth.any(axis=2).sum(axis=1) == shape.steps).all()  # a block, not scattered numbers
    assert_allclose(data.x[~data.truth].mean(), 0, atol=0.02)
    for label in (0, 1):
        inside = data.x[data.y == label][data.truth[data.y == label]]
        mean = 1 if shape.axis is not None else 2 * label - 1
        assert_allclose((inside.mean(), inside.std()), (mean, 1), atol=0.05)
    starts = {tuple(np.argwhere(block)[0]) for block in data.truth}
    if shape.at is not None:
        assert starts == {shape.at}
    elif shape.axis is None:
        assert len(starts) > 50
    else:
        assert {start[shape.axis] for start in starts} == set(boxes.POSITIONS)


def test_rescaling_finds_what_the_score_depends_on():
    """Relevance of a sum of squares of four numbers: nothing else changes it."""

    def explain(x, targets):
        found = np.zeros_like(x)
        found[:, 10:12, 20:22] = x[:, 10:12, 20:22] ** 2
        return found

    x = np.random.default_rng(0).normal(size=(1, boxes.SIZE, boxes.SIZE))
    found = boxes.rescaled(explain, x, np.zeros(1, int))[0]
    assert {tuple(place) for place in np.argwhere(found)} <= {(t, d) for t in (10, 11) for d in (20, 21)}
    assert found.max() == 1


def test_boxes_score_the_truth_and_random_numbers():
    data = boxes.generate("SmallMiddle", 20, 0)
    spec = boxes.spec_of(5)
    model = networks.model(spec, weights_of(spec))
    found = boxes.scores(data.truth.astype(float), data, model)
    names = ("precision", "AUPR", "AUPR of steps", "AUPR of features")
    assert [found[name] for name in names] == [1] * 4
    random = boxes.scores(np.random.default_rng(0).random(data.x.shape), data, model)
    assert_allclose((random["precision"], random["AUPR"]), 14 * 14 / 2500, atol=0.02)


# ---------------------------------------------------------------------------------------------------- shortcuts


def sentences(count=400):
    rng = np.random.default_rng(0)
    return Sentences([["w"] * int(n) for n in rng.integers(3, 30, count)], rng.integers(0, 2, count))


@pytest.mark.parametrize("kind", shortcuts.KINDS)
def test_shortcuts_are_planted_where_the_truth_is(kind):
    given = sentences()
    planted = shortcuts.plant_opposite(given, kind, 0)
    assert (planted.classes == 1 - given.labels).all()
    for words, label, truth, before in zip(planted.words, planted.classes, planted.truth, given.words, strict=True):
        tokens = [word for word, here in zip(words, truth, strict=True) if here]
        assert len(words) == len(before) + len(tokens) and words.count("w") == len(before)
        want = {
            "single token": [shortcuts.TOKENS[label]],
            "ordered pair": [shortcuts.TOKENS[label], shortcuts.TOKENS[1 - label]],
            "token in context": [shortcuts.TOKENS[label], shortcuts.CONTEXT],
        }[kind]
        assert tokens == want or (kind == "token in context" and tokens == want[::-1])


@pytest.mark.parametrize("kind", shortcuts.KINDS)
def test_half_of_the_training_sentences_have_a_shortcut(kind):
    given = sentences(2_000)
    planted = shortcuts.plant_half(given, kind, 0)
    has = np.array([one.any() for one in planted.truth])
    assert_allclose(has.mean(), 0.5, atol=0.04)
    assert_allclose((planted.classes == given.labels)[has].mean(), 0.5, atol=0.06)  # the shortcut decides
    assert (planted.classes == given.labels)[~has].all()
    decoys = np.array([any(word != "w" for word in words) for words in planted.words])[~has]
    assert_allclose(decoys.mean(), 0 if kind == "single token" else 0.5, atol=0.05)


# ------------------------------------------------------------------------------------------------------- tables


def test_a_method_that_fails_is_a_row_with_its_reason():
    table = rows.filled(
        "T", ["a", "b"], [{"x": {"a": 1.0, "b": 2.0}, "y": {"note": "no GRU"}}, {"x": {"a": 3.0, "b": 2.0}}]
    )
    assert table.rows[0][1].startswith("2.000 ±") and table.rows[1] == ["y", "no GRU", "-"]


def test_jobs_are_networks_and_peers_on_request():
    alone = SimpleNamespace(seeds=None, peers=False)
    assert len(state.jobs(alone)) == 2 * 10 and len(shortcuts.jobs(alone)) == 2 * 30  # each network: training and ours
    assert len(boxes.jobs(alone)) == 2 * len(boxes.SHAPES) * 2 * boxes.SEEDS
    assert len(state.jobs(SimpleNamespace(seeds=2, peers=True))) == 3 * 4
    assert programs.jobs(SimpleNamespace(seeds=2, peers=True)) == [(0, "ours"), (1, "ours")]


def test_rows_of_programs_become_tables_with_the_truth_at_1_and_random_numbers_at_chance(monkeypatch):
    monkeypatch.setattr(programs, "METHOD_NAMES", ["gradient"])
    monkeypatch.setattr(programs, "KEYS", [(name, "GRU", "small") for name in ("remember", "parity", "delay")])
    results = {(seed, "ours"): programs.work((seed, "ours"), None) for seed in range(8)}
    steps, values = programs.tables(results)[:2]
    assert "parity" not in values.columns  # it is not linear
    for column in ("remember", "parity", programs.ALL):
        assert steps.cells[programs.TRUE, column].mean == 1
    assert_allclose(values.cells[programs.TRUE, programs.ALL].mean, 1)
    assert abs(steps.cells[programs.RANDOM, programs.ALL].mean - 0.5) < 0.1
    assert abs(values.cells[programs.RANDOM, programs.ALL].mean) < 0.2
    assert len(steps.cells["gradient", programs.ALL].values) == 8


def test_scores_of_a_sequence_are_scaled_by_its_largest():
    size = np.array([[1.0, 2, 3], [5, 4, 1], [10, 20, 30], [50, 40, 10]])  # two sequences of two steps
    found = published.scaled_by_sequence(size, 2)
    assert_allclose(found[:2], (size[:2] - 1) / 5, rtol=1e-5)
    assert_allclose(found[:2], found[2:], rtol=1e-5)


def test_finished_jobs_are_saved_and_a_resumed_run_leaves_them_alone(tmp_path, monkeypatch):
    arguments = SimpleNamespace(out=tmp_path, resume=True, seeds=1, peers=False, processes=1)
    monkeypatch.setattr(programs, "work", lambda job, arguments: {"x": {"y": {"steps": 1.0}}})
    pool.work("programs", (0, "ours"), arguments)
    assert pool.load(pool.file_of("programs", (0, "ours"), arguments))["rows"] == {"x": {"y": {"steps": 1.0}}}
    monkeypatch.setattr(programs, "work", None)
    pool.run("programs", "ours", arguments)  # nothing is left to do


def test_cpu_times_are_means_of_the_jobs_that_were_measured():
    files = {
        (0, "train"): {"cpu": 60.0, "rows": {}},
        (1, "train"): {"cpu": 0.1, "rows": {}},  # its network was there
        (0, "ours"): {"cpu": None, "rows": {}},
        (1, "ours"): None,
    }
    table = pool.cpu_table("state", files)
    assert table.rows == [["train", "2 of 2", "60.000", "2.000"], ["ours", "1 of 2", "-", "-"]]


def test_the_page_ranks_methods_over_benchmarks(tmp_path):
    for cell, values in {"GRU": (0.9, 0.8, 0.5), "LSTM": (0.7, 0.8, 0.5)}.items():
        found = {name: {"AUROC": v} for name, v in zip(("gradient", "lrp-all", "random"), values, strict=True)}
        rows.filled(f"State, {cell}", ["AUROC"], [found, found]).write(tmp_path)
    page.write(tmp_path, tmp_path)
    text = (tmp_path / "truth.md").read_text("utf-8")
    assert "| `gradient` | 1.5 | 0.900 ± 0.000 (1) | 0.700 ± 0.000 (2) |" in text
    assert "| `random` | 3.0 | 0.500 ± 0.000 (3) | 0.500 ± 0.000 (3) |" in text
    assert "| `gradient` | 1 of 3 (State, GRU: AUROC) | 2 of 3 (State, LSTM: AUROC) |" in text
    assert "| state-lstm: AUROC | `lrp-all` | 0.800 ± 0.000 |" in text  # no method reaches 0.9
    assert "`gradient` is best in *State, GRU: AUROC*" in text
    assert "| lrp-all | 0.800 ± 0.000 |" in (tmp_path / "truth-results.md").read_text("utf-8")
