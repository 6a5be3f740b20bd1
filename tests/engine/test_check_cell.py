"""`check_cell` accepts right cells and names the law that a wrong one breaks; random cells obey the laws."""

import fuzz_cells
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy import laws
from lrpnumpy.statement import backward, compiled, generate


class Plain(lrp.Cell):
    """The state-space cell of the documentation."""

    def step(s, x, h):
        h = s.sum(s.diagonal("a", h), s.matrix("B", x))
        return s.sum(s.matrix("C", h, "Y")), h


class Stopped(lrp.Cell):
    def step(s, x, h):
        z, n = s.gates("zn", x, h)
        return s.product(s.stop(s.sigmoid(z)), s.tanh(n))


class Harmless(lrp.Cell):
    """What is stopped is multiplied by 0 = n - n: nothing depends on it."""

    def step(s, x, h):
        z, n = s.gates("zn", x, h)
        return s.sum(s.tanh(n), s.product(s.stop(s.sigmoid(z)), s.sum(n, s.negative(n))))


class Overflowing(lrp.Cell):
    def step(s, x, h):
        (z,) = s.gates("z", x, h)
        for _ in range(4):
            z = s.exponential(z)
        return z


class Swapped(lrp.Cell):
    """Gate and signal exchanged: no law finds it."""

    def step(s, x, h):
        z, n = s.gates("zn", x)
        z = s.sigmoid(z)
        return s.sum(s.product(h, s.complement(z)), s.product(n, z))


def broken(report):
    return {law.name for law in report.laws if not law.holds}


@pytest.mark.parametrize("kind", [Plain, Swapped, Harmless, lrp.LSTM, lrp.GRU, lrp.RNN])
def test_right_cells(kind):
    report = lrp.check_cell(kind)
    assert report.holds, str(report)
    assert "all laws hold" in str(report)


def test_a_cell_is_tested_with_its_arrays(rng):
    cell = laws.random_cell(lrp.layers.MinGRU, rng, D=2, H=3)
    assert lrp.check_cell(cell).holds
    assert lrp.check_cell(cell.astype("float32")).holds


def test_a_class_gets_arrays_of_different_sizes(rng):
    sizes = laws.random_cell(lrp.layers.CfC, rng).lengths
    assert len({*sizes.values()}) == len(sizes)


def test_a_value_that_matters_is_stopped():
    report = lrp.check_cell(Stopped)
    assert broken(report) == {"gradient", "deeplift"}
    assert "BROKEN  gradient" in str(report) and "`stop`" in str(report)


def test_a_cell_that_overflows():
    report = lrp.check_cell(Overflowing)
    assert {"gradient", "deeplift", "cd"} <= broken(report)


def test_the_report_has_gates_and_signals():
    text = str(lrp.check_cell(Swapped))
    assert "h_prev x (1 - sigmoid(U_z x + b_z))" in text
    assert "NumPy runs this cell" in str(lrp.check_cell(lrp.layers.DiagonalSSM))


def test_what_is_not_a_cell():
    for wrong in (lrp.Dense, np.ones(3), "MinGRU"):
        with pytest.raises(lrp.LrpError, match="check_cell: cell must be a cell or its class"):
            lrp.check_cell(wrong)


def test_a_wrong_backward_pass_is_found(monkeypatch):
    """A gradient that is a thousandth too large, and a ledger without stabilizers."""
    right = backward.ArrayFlow.slope
    with monkeypatch.context() as patch:
        patch.setattr(backward.ArrayFlow, "slope", lambda self, node: right(self, node) * 1.001)
        assert {"gradient", "deeplift", "lrp-half"} <= broken(lrp.check_cell(lrp.layers.MinGRU))
    monkeypatch.setattr(backward.ArrayFlow, "keep", lambda *_: None)
    assert broken(lrp.check_cell(lrp.layers.MinGRU)) >= {"lrp-all", "lrp-prop", "lrp-abs", "lrp-half"}


def test_wrong_kernels_are_found(monkeypatch):
    monkeypatch.setattr(compiled, "_made", {})
    monkeypatch.setattr(generate.SymbolFlow, "_mean", lambda self, node: self.loop.value(node))
    assert broken(lrp.check_cell(lrp.layers.MinGRU)) == {"kernels"}


@pytest.mark.parametrize("first", range(0, 25, 5))
def test_random_cells(first):
    for seed in range(first, first + 5):
        assert not fuzz_cells.problems(seed), f"seed {seed}"


def test_random_cells_have_everything():
    """Several states, matrices inside, an output that is not a state, and gates that are held."""
    statements = [fuzz_cells.random_statement(seed) for seed in range(25)]
    assert {len(one.states) for one in statements} == {1, 2, 3}
    assert any(one.output not in one.after for one in statements)
    operations = {node.op for one in statements for node in one.nodes}
    assert operations >= {"matrix", "diagonal", "bias", "sum", "product", "apply", "whole", "fixed", "same"}
    assert sum(not generate.uncovered(one) for one in statements) >= 15
