"""Networks whose program is known: they compute it, and their truth is what interventions show."""

import numpy as np
import pytest

import lrpnumpy as lrp
from benchmarks.truth.table import Table, t_quantile
from lrpnumpy.checks import LrpError
from lrpnumpy.evaluate import programs

EXACT = 1e-6
NETWORKS = [(name, cell, size) for name in programs.PROGRAMS for cell in programs.CELLS for size in programs.SIZES]


@pytest.mark.parametrize(("name", "cell", "size"), NETWORKS)
def test_interventions_change_the_score_as_the_program_says(name, cell, size):
    """Also in a step that does not count: by at most 1e-6."""
    rng = np.random.default_rng(0)
    for seed in range(2):
        network = programs.make(name, cell, size, seed)
        drawn = network.draw(4, seed)
        scores = lrp.predict_all(network.model, drawn.inputs)[:, 0]
        changed, expected, moved = [], [], []
        for x, steps, score in zip(drawn.inputs, drawn.steps, scores, strict=True):
            for step, decides in enumerate(steps):
                changed.append(network.changed(x, step, rng))
                expected.append(np.sum(network.result(changed[-1])))
                moved.append((score, decides))
        found = lrp.predict_all(network.model, changed)[:, 0]
        before, decides = np.array(moved).T
        np.testing.assert_allclose(scores, [np.sum(network.result(x)) for x in drawn.inputs], atol=EXACT)
        np.testing.assert_allclose(found, expected, atol=EXACT)
        assert ((abs(found - before) > EXACT) == decides).all()
        for x, steps in zip(drawn.inputs, drawn.steps, strict=True):
            assert 0 < steps.sum() < len(x)
        if drawn.values is not None:
            np.testing.assert_allclose(scores, [one.sum() for one in drawn.values], atol=EXACT)
            for steps, values in zip(drawn.steps, drawn.values, strict=True):
                np.testing.assert_array_equal(values != 0, steps)


def test_programs_compute_what_their_names_mean():
    """Scores of inputs that are written down here, whatever the weights are."""
    v = np.array([0.5, -0.25, 1.0, -1.0, 0.75])

    def score(name, *columns):
        network = programs.make(name, "GRU", "large")
        if network.program.words is not None:
            return lrp.predict(network.model, np.array(columns[0]))[0]
        x = np.column_stack([*columns, np.zeros((5, programs.NOISE))])
        return lrp.predict(network.model, x)[0]

    a, b = programs.FILLERS, programs.FILLERS + 1  # token ids; 0 is a filler
    assert score("remember", v, [0, 0, 1, 0, 0]) == pytest.approx(1)
    assert score("sum", v, [0, 0, 1, 1, 0]) == pytest.approx(0)
    assert score("difference", v, [0, 0, 1, 1, 0]) == pytest.approx(2)
    assert score("last maximum", v, [0.25, 0.75, 0.75, 0.75, 0.5]) == pytest.approx(-1)
    assert score("count", [0, a, a, 0, a]) == pytest.approx(3)
    assert [score("parity", [0, *[a] * n]) for n in (1, 2, 3)] == pytest.approx([1, -1, 1])
    assert [score("a before b", tokens) for tokens in ([a, 0, b], [b, 0, a])] == pytest.approx([1, 0])
    assert score("negation", [0, a, b]) == pytest.approx(-score("negation", [a, 0, b]))
    k = programs.make("delay", "GRU", "large").program.depth - 1
    delayed = [score("delay", np.arange(5) == 4 - lag) for lag in range(4)]
    assert delayed == pytest.approx([float(lag == k) for lag in range(4)]) and 1 <= k <= 3


def test_sizes_add_copies_distractors_and_a_layer():
    small, large = (programs.make("sum", size=size).model for size in programs.SIZES if size != "medium")
    assert [one.units for one in small.layers[:-1]] == [5 + 2]
    assert [one.units for one in large.layers[:-1]] == [3 * 2 + 8, 3 * 5 + 8]
    again, other = programs.make("sum", seed=0).model, programs.make("sum", seed=1).model
    assert programs.make("sum").model.digest == again.digest != other.digest


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_the_truth_scores_1_and_random_relevance_is_at_chance(name):
    network = programs.make(name)
    drawn = network.draw(150)
    rng = np.random.default_rng(0)
    right = programs.judge(drawn, drawn.values or drawn.steps)
    chance = programs.judge(drawn, [rng.normal(size=(len(x), 2)) for x in drawn.inputs])
    nothing = programs.judge(drawn, [np.full(len(x), 1e-9) for x in drawn.inputs])
    assert right.steps == 1 and abs(chance.steps - 0.5) < 0.07 and nothing.steps == 0.5
    if drawn.values is None:
        assert np.isnan(right.values) and np.isnan(chance.values)
    else:
        assert right.values == pytest.approx(1) and abs(chance.values) < 0.08 and nothing.values == 0


def test_a_function_from_network_and_input_is_scored():
    few = {"names": ("remember", "parity"), "cells": ("GRU",), "sizes": ("small",), "seeds": (0, 1), "n": 5}
    found = programs.score(lambda model, x: lrp.explain(model, x, "occlusion-f", 0), **few)
    assert list(found) == [(name, "GRU", "small", seed) for name in few["names"] for seed in (0, 1)]
    assert [one.steps for one in found.values()] == [1, 1, 1, 1]
    assert found["remember", "GRU", "small", 0].values > 0.999
    with pytest.raises(LrpError, match=r"relevance has shape \(3,\)"):
        programs.score(lambda model, x: np.zeros(3), **few)


def test_names_are_checked():
    for arguments in (("multiply",), ("sum", "RNN"), ("sum", "GRU", "huge")):
        with pytest.raises(LrpError, match="must be"):
            programs.make(*arguments)


def test_the_common_table(tmp_path, capsys):
    table = Table("Programs: a test", ["steps", "cost"])
    table.add("lrp-all", "steps", [0.5, 0.7, np.nan])
    table.add("lrp-all", "cost", [2.0], note="one run")
    table.add("cd", "steps", [], note="failed")
    table.print()
    half = 12.706 * np.std([0.5, 0.7], ddof=1) / np.sqrt(2)
    assert table.rows == [["lrp-all", f"0.600 ± {half:.3f}", "2.000 (one run)"], ["cd", "failed", "-"]]
    assert "Programs: a test" in capsys.readouterr().out
    table.write(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"programs-a-test.{end}" for end in ("csv", "png", "tex")
    ]
    assert (tmp_path / "programs-a-test.csv").read_text("utf-8").count("\n") == 4
    assert [round(t_quantile(n), 2) for n in (4, 11, 19, 1000)] == [2.78, 2.2, 2.09, 1.96]
    with pytest.raises(ValueError, match="unknown column"):
        table.add("cd", "values", [1.0])
