"""The toy task: what the generator promises, statistics by hand, training against the engine."""

import json

import numpy as np
import pytest

import lrpnumpy as lrp
from benchmarks.paper import beyond as beyond_paper
from benchmarks.paper import cd_stop, toy_training
from benchmarks.paper.measures import toy
from benchmarks.paper.tables import PUBLISHED
from benchmarks.paper.toy import METHODS, beyond, culprits, explained, load, save
from benchmarks.paper.toy_training import PARAMETERS, Trained, clipped, initial, objective, train
from benchmarks.paper.train_toy import counted, next_job, read
from lrpnumpy import LrpError

compiled = pytest.mark.compiled
tasks = pytest.mark.parametrize("task", toy.TASKS)


@tasks
def test_the_generator_keeps_its_promises(task):
    data = toy.generate(task, 400, range(4, 11), seed=3)
    lengths = [len(x) for x in data.sequences]
    assert set(lengths) == set(range(4, 11))
    for x, a, b, n_a, n_b, y in zip(data.sequences, data.a, data.b, data.n_a, data.n_b, data.y, strict=True):
        assert 0 <= a < b < len(x)
        assert np.flatnonzero(x[:, 0]).tolist() == [a, b]
        assert np.flatnonzero(x[:, 1]).tolist() == [t for t in range(len(x)) if t not in (a, b)]
        assert (x[a, 0], x[b, 0]) == (n_a, n_b)
        assert y == (n_a + n_b if task == "addition" else n_a - n_b)
    numbers = np.concatenate([x.sum(axis=1) for x in data.sequences])
    assert ((abs(numbers) >= 0.5) & (abs(numbers) <= 1)).all()
    negative = (numbers < 0).mean()
    assert 0.45 < negative < 0.55 if task == "addition" else negative == 0
    assert abs(numbers).mean() == pytest.approx(0.75, abs=0.02)


def test_every_pair_of_positions_is_equally_likely():
    data = toy.generate("addition", 12000, [4], seed=1)
    pairs, times = np.unique(np.stack([data.a, data.b]), axis=1, return_counts=True)
    assert pairs.T.tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    assert abs(times - 2000).max() < 200  # five standard deviations


@tasks
def test_the_splits_are_the_papers(task):
    data = toy.splits(task)
    found = {name: (len(part.y), sorted({len(x) for x in part.sequences})) for name, part in data.items()}
    assert found == {
        "train": (10000, [4, 5, 6, 7, 8, 9, 10]),
        "validation": (2500, [11, 12]),
        "test": (2500, [13, 14]),
    }


def test_a_seed_decides_everything():
    one, same, other = (toy.generate("subtraction", 50, [5, 9], seed) for seed in (4, 4, 5))
    assert all(np.array_equal(x, y) for x, y in zip(one.sequences, same.sequences, strict=True))
    assert not np.array_equal(one.y, other.y)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("division", 5, [4]), "'division'"), (("addition", 5, [1, 4]), "lengths must be at least 2, got 1")],
)
def test_what_cannot_be_generated_is_refused(arguments, said):
    with pytest.raises(LrpError, match=said):
        toy.generate(*arguments)


def test_statistics_of_a_case_made_by_hand():
    x = np.zeros((3, 2))
    three = np.array([1.0, 2.0, 3.0])
    data = toy.Data((x, x[:2], x), np.array([0, 0, 1]), np.array([2, 1, 2]), three, three, three)
    relevance = [np.array([1.0, 2, -1]), np.array([2.0, 0]), np.array([-4.0, 3, 1])]
    found = toy.statistics(data, relevance, np.array([1.0, 2, 1]))
    assert found["rho_a"] == pytest.approx(1)  # R_a is 1, 2, 3
    assert found["rho_b"] == pytest.approx(1)  # R_b is -1, 0, 1
    assert found["share"] == pytest.approx((2 / 4 + 2 / 2 + 4 / 8) / 3)
    assert found["mse"] == pytest.approx((1 + 0 + 9) / 3)  # R_a + R_b is 0, 2, 4


def test_the_true_relevance_is_perfect():
    data = toy.generate("subtraction", 50, range(4, 8))
    truth = [x[:, 0] * np.where(np.arange(len(x)) == b, -1, 1) for x, b in zip(data.sequences, data.b, strict=True)]
    found = toy.statistics(data, truth, data.y)
    assert found == pytest.approx({"rho_a": 1, "rho_b": -1, "share": 1, "mse": 0})


@pytest.mark.parametrize("size", [3, 70])
def test_the_training_error_and_its_gradient_are_the_engines(size, monkeypatch):
    """70 sequences are three tiles, of which the last is not full."""
    monkeypatch.setattr(toy_training, "TILE", 30)
    data = toy.generate("addition", size, range(2, 8), seed=2)
    p = np.random.default_rng(0).uniform(-1, 1, PARAMETERS)

    def expected(p):
        scores = lrp.predict_all(Trained(0, tuple(p), {}, 0, 0).model, data.sequences)
        return np.mean((scores[:, 0] - data.y) ** 2)

    value, gradient = objective(data)(p)
    np.testing.assert_allclose(value, expected(p), rtol=1e-12)
    numerical = [(expected(p + d) - expected(p - d)) / 2e-5 for d in 1e-5 * np.eye(PARAMETERS)]
    np.testing.assert_allclose(gradient, numerical, atol=1e-8 * abs(gradient).max())  # of a difference quotient


def test_starting_points():
    p = initial(7)
    assert np.array_equal(p, initial(7))
    assert not p[12:16].any()
    assert (abs(np.delete(p, range(12, 16))) < 1).all()
    assert np.linalg.norm(clipped(np.full(17, 9.0))) == pytest.approx(5)
    assert np.array_equal(clipped(np.full(17, 0.1)), np.full(17, 0.1))


def test_the_numbers_of_a_gru_are_u_w_b_bn_v():
    p = np.arange(92.0)
    gru, head = Trained(0, tuple(p), {}, 0, 0, cell="gru").model.layers
    assert (gru.U.shape, gru.W.shape, gru.b.shape, gru.bn.shape, head.V.shape) == (
        (3, 4, 2), (3, 4, 4), (3, 4), (4,), (1, 4))  # fmt: skip
    joined = np.concatenate([array.ravel() for array in (gru.U, gru.W, gru.b, gru.bn, head.V)])
    assert np.array_equal(joined, p)


@compiled
def test_training_reduces_the_error_and_can_be_repeated():
    data = {"train": toy.generate("addition", 100, [4, 5]), "test": toy.generate("addition", 50, [6], 1)}
    none, some, again = (train(data, 0, steps=steps, lr=0.05) for steps in (0, 20, 20))
    assert some == again
    assert some.errors["train"] < none.errors["train"] / 2
    assert some.evaluations <= 400


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
def test_a_start_that_diverges_is_given_up():
    data = {"train": toy.generate("addition", 4, [2], 0)}
    start = train(data, 0, steps=3, lr=1e308)
    assert start.steps < 3
    assert np.isfinite(start.parameters).all()


def test_starts_are_counted_in_the_order_of_seeds(tmp_path):
    def start(seed, error):
        common = {"task": "addition", "parameters": [0.0] * 17, "steps": 1, "evaluations": 1}
        return common | {"seed": seed, "errors": {"validation": error}}

    lines = [json.dumps(start(seed, error)) for seed, error in [(2, 1e-5), (0, 1e-5), (1, 1), (4, 1e-5)]]
    checkpoint = tmp_path / "starts.jsonl"
    checkpoint.write_text("\n".join(lines) + "\n" + lines[0][:20])  # the last line was cut short
    starts = read(checkpoint)["addition"]
    assert sorted(starts) == [0, 1, 2, 4]
    kept, tried = counted(starts)
    assert ([s.seed for s in kept], tried) == ([0, 2], 3)  # seed 3 is still running, so 4 does not count yet
    kept, tried = counted(starts, wanted=1)
    assert ([s.seed for s in kept], tried) == ([0], 1)
    both = {"addition": starts, "subtraction": {}}
    taken = {task: set(found) for task, found in both.items()}
    assert next_job(both, taken, wanted=2) == ("subtraction", 0)
    both["subtraction"] = {seed: Trained(seed, (), {"validation": 1.0}, 1, 1) for seed in range(6)}
    taken["subtraction"] = set(range(6))
    assert next_job(both, taken, wanted=2) == ("subtraction", 6)  # addition has its two
    assert next_job(both, taken, wanted=3) == ("addition", 3)  # tried less often
    assert next_job(both, taken, wanted=0) is None


def test_networks_are_saved_with_their_training_and_can_be_picked(tmp_path):
    starts = {task: {} for task in toy.TASKS}
    for task, seed, error in [("addition", 0, 1.0), ("addition", 1, 2e-5), ("subtraction", 0, 3e-5)]:
        errors = {"train": error, "validation": error, "test": error}
        starts[task][seed] = Trained(seed, tuple(initial(seed).tolist()), errors, 10, 99)
    save(starts, tmp_path / "toy.h5")
    one = lrp.load(tmp_path / "toy.h5", which="addition/0")
    assert np.array_equal(one.layers[0].U, starts["addition"][1].model.layers[0].U)
    assert one.digest == starts["addition"][1].model.digest
    facts = {key: one.provenance[key] for key in ("seed", "mse_train", "mse_validation", "mse_test", "starts")}
    assert facts == {
        "seed": "1",
        "mse_train": "2e-05",
        "mse_validation": "2e-05",
        "mse_test": "2e-05",
        "starts": "2",
    }
    assert {task: len(models) for task, models in load(tmp_path / "toy.h5").items()} == {
        "addition": 1,
        "subtraction": 1,
    }


def test_cd_with_the_stop_excluded_is_the_engines():
    data = toy.generate("addition", 20, [5, 6])
    rng = np.random.default_rng(3)
    model = Trained(0, tuple(rng.normal(size=PARAMETERS)), {}, 0, 0).model
    found = {how: cd_stop.relevance(model, data, how) for how in cd_stop.HOW}
    engine = explained(model, data.sequences, "cd").relevance
    np.testing.assert_allclose(found["stop excluded"], engine, rtol=1e-10, atol=1e-12)
    for how in ("stop = k included", "stop = k+1 included"):
        assert abs(found[how] - engine).max() > 1e-3


def test_every_figure_of_the_paper_is_there():
    for task in toy.TASKS:
        rows = PUBLISHED["toy"][task]
        assert set(rows) == set(METHODS) - {"gradient"}
        assert all(set(row) == set(toy.STATISTICS) for row in rows.values())


def test_two_standard_deviations_decide_what_is_far():
    key = ("addition", "lrp-half", "rho_a")  # 29.035 (9.478) in the paper
    assert not list(beyond({key: np.array([29.0, 47.9])}))
    assert [far[:3] for far in beyond({key: np.array([48.1, 48.1])})] == [key]
    assert culprits(np.array([1.0, 2.0, 99.0, 3.0, -50.0]), mean=2.0, std=0.1) == [2, 4]


SHIPPED = pytest.mark.skipif("toy" not in lrp.files.shipped(), reason="the networks are not there")


@SHIPPED
@compiled
@tasks
def test_a_shipped_network_and_lrp_all_solve_the_task(task):
    data = toy.splits(task)["test"]
    model = lrp.load("toy", which=f"{task}/0")
    assert float(model.provenance["mse_validation"]) < 1e-4
    e = explained(model, data.sequences, "lrp-all")
    np.testing.assert_allclose(np.mean((e.scores[:, 0] - data.y) ** 2), float(model.provenance["mse_test"]), rtol=1e-6)
    found = toy.statistics(data, e.relevance, e.scores)
    assert abs(found["rho_a"]) > 0.9
    assert abs(found["rho_b"]) > 0.9
    assert found["share"] > 0.95


@pytest.mark.skipif("toy-gru" not in lrp.files.shipped(), reason="the networks are not there")
@tasks
def test_the_shipped_gru_networks_solve_the_task(task):
    data = toy.generate(task, 200, [13, 14], seed=5)
    for k in range(20):
        model = lrp.load("toy-gru", which=f"{task}/{k}")
        assert float(model.provenance["mse_validation"]) < 1e-4
        assert np.mean((lrp.predict_all(model, data.sequences)[:, 0] - data.y) ** 2) < 5e-4


def test_numbers_are_left_alone():
    data = toy.generate("subtraction", 3, [5])
    nothing, a, b, both = beyond_paper.left_alone(data, np.array([0.0, 0.5]))
    for k, x in enumerate(data.sequences):
        assert (nothing[k] == [0, 0.5]).all()
        kept = [np.flatnonzero((some[k] == x).all(axis=1)).tolist() for some in (a, b, both)]
        assert kept == [[data.a[k]], [data.b[k]], [data.a[k], data.b[k]]]
