"""What a user adds from outside the package, one class each: a cell, a layer, a sum rule, a product rule."""

from dataclasses import dataclass

import laws
import networks as nets
import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp
from lrpnumpy.rules.propagation import back_through_sum
from lrpnumpy.rules.sums import POSITIVE, SumRule, Term, inverse
from lrpnumpy.statement.compiled import CompiledRun
from lrpnumpy.statement.trace import from_data

D, H = 3, 4


class Mixer(lrp.Cell):
    """A minGRU whose new value sees the state through a diagonal."""

    scale = "tanh"

    def step(s, x, h):
        z, n = s.gates("zn", x)
        n = s.apply(s.scale, s.sum(n, s.diagonal("d", h)))
        z = s.sigmoid(z)
        return s.sum(s.product(s.complement(z), h), s.product(z, n))


class Space(lrp.Cell):
    """A state-space layer: its output is not its state."""

    states = ("k",)

    def step(s, x, k):
        k = s.sum(s.diagonal("a", k), s.matrix("B", x))
        return s.sum(s.matrix("C", k), s.bias("d")), k


@dataclass(frozen=True, eq=False, repr=False)
class Running(lrp.Layer):
    """y_t = y_{t-1} + x_t, with no help from `Cell`: a layer with a state that is no cell."""

    recurrent = True
    states = ("y",)
    width: int = D

    @property
    def inputs(self):
        return self.width

    @property
    def outputs(self):
        return self.width

    def sizes(self, x):
        return x

    def forward(self, xs, keep):
        x = xs[0]
        y = np.concatenate([one.cumsum(axis=0) for one in x.batch.split(x.rows)])
        return x._replace(rows=x.batch.pack(y)), None

    def backward(self, ran, R, how, entry):
        x, y = ran.inputs[0], ran.outputs[0]
        (s,) = back_through_sum(how, R, y, [Term(np.ones_like(y.rows))], entry)
        back = [one[::-1].cumsum(axis=0)[::-1] for one in x.batch.split(s)]
        s = x.batch.pack(np.concatenate(back))
        return [s * x.rows if how.times_input else s]


class Upper(SumRule):
    """Positive contributions alone, and half of what they would receive."""

    modes = (POSITIVE,)

    def gains(self, above):
        over, lost = inverse(above, self.eps)
        return (over / 2,), lost


def third(gate, signal, eps):
    return gate * 0 + 1 / 3, signal * 0 + 2 / 3


def mixer(rng, D=D, H=H, **settings):
    arrays = {name: rng.normal(size=(H, D)) for name in ("U_z", "U_n")}
    return Mixer(**arrays, **{name: rng.normal(size=H) * 0.5 for name in ("b_z", "b_n", "d")}, **settings)


def space(rng, D=D, H=H):
    return Space(a=rng.uniform(0.5, 0.9, H), B=rng.normal(size=(H, D)), C=rng.normal(size=(H, H)), d=rng.normal(size=H))


@pytest.mark.parametrize("make", [mixer, space])
@pytest.mark.parametrize("place", ["alone", "both ways", "stacked", "graph"])
def test_a_cell_keeps_all_laws(rng, tmp_path, make, place):
    head = nets.dense(rng, 2 * H if place == "both ways" else H, 2)
    if place == "alone":
        model = lrp.Model([make(rng), head])
    elif place == "both ways":
        model = lrp.Model([lrp.Bidirectional(make(rng), make(rng)), head])
    elif place == "stacked":
        model = lrp.Model([make(rng), nets.gru(rng, H, H), make(rng, H), head], readout="mean")
    else:
        cells = [lrp.Node("one", make(rng), ("x",)), lrp.Node("other", make(rng), ("x",))]
        model = lrp.Model(
            [*cells, lrp.Node("sum", lrp.layers.Add(), ("one:last", "other:last")), lrp.Node("y", head, ("sum",))]
        )
    laws.hold(model, [rng.normal(size=(T, D)) for T in (5, 3)], rng, tmp_path)


def test_a_layer_keeps_all_laws(rng):
    model = lrp.Model([Running(), nets.dense(rng, D, 2)])
    laws.hold(model, [rng.normal(size=(T, D)) for T in (5, 3)], rng)


@pytest.mark.parametrize("name", ["0", "Dense", "first", "default"])
def test_a_sum_rule_of_a_layer_and_inside_a_cell(rng, name):
    """What it does not pass on is the ledger's entry "rule", and the ledger adds up."""
    model = lrp.Model([mixer(rng), nets.dense(rng, H, 2)])
    method = lrp.LRP(sums={name: Upper()})
    e = lrp.explain(model, rng.normal(size=(5, D)), method, target=1)
    assert abs(e.ledger.rule) > 1e-3
    close(e.ledger.total, e.scores[1], 1e-12, max(1, e.ledger.largest))


def test_a_product_rule(rng):
    model = lrp.Model([mixer(rng), nets.dense(rng, H, 2)])
    x = rng.normal(size=(5, D))
    e = lrp.explain(model, x, lrp.LRP(product=third), target=1)
    close(e.ledger.total, e.scores[1], 1e-12, max(1, e.ledger.largest))
    assert abs(e.relevance - lrp.explain(model, x, "lrp-all", target=1).relevance).max() > 1e-3


def test_a_file_holds_a_custom_cell_without_its_class(rng, tmp_path):
    cell = mixer(rng, scale="softsign")
    model, path = lrp.Model([cell, nets.dense(rng, H, 2)]), tmp_path / "mixer.h5"
    lrp.save(model, path)
    again = lrp.load(path)
    x = rng.normal(size=(6, D))
    assert type(again.layers[0]) is not Mixer and again.layers[0].statement.kind == "Mixer"
    for method in ("lrp-all", "deeplift", "cd"):
        assert (lrp.explain(again, x, method).relevance == lrp.explain(model, x, method).relevance).all()


def test_a_file_holds_a_custom_layer_by_name_and_version(rng, tmp_path):
    model, path = lrp.Model([Running(), nets.dense(rng, D, 2)]), tmp_path / "running.h5"
    lrp.save(model, path)
    with pytest.raises(lrp.WeightFileError, match="Running is a custom layer; pass its class to load"):
        lrp.load(path)
    x = rng.normal(size=(4, D))
    assert (lrp.predict(lrp.load(path, custom={"Running": Running}), x) == lrp.predict(model, x)).all()

    class Newer(Running):
        version = 2

    with pytest.raises(lrp.WeightFileError, match="saved in version 1, the class passed has version 2"):
        lrp.load(path, custom={"Running": Newer})


def test_kernels_serve_a_custom_cell(rng, monkeypatch):
    from lrpnumpy.kernels import compile as compiler

    monkeypatch.setattr(compiler, "mode", "wait")
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # as it is written: nothing has to be compiled
    x = lrp.packed.Packed(rng.normal(size=(5, D)), lrp.packed.single(5))
    assert isinstance(space(rng).read([x], np.empty(0, np.int64), None, True).run, CompiledRun)


# -- wrong statements --------------------------------------------------------------------------------------------------


def states(*names):
    def set_states(step):
        step.states = names
        return step

    return set_states


def plus(s, x, h):
    return s.tanh(x) + h


def star(s, x, h):
    return s.sum(h * 2)


def branch(s, x, h):
    return h if h > 0 else s.tanh(h)


def index(s, x, h):
    return s.sum(h[0])


def loop(s, x, h):
    return s.sum(*(v for v in h))


def numpy_function(s, x, h):
    return np.tanh(h)


def unknown(s, x, h):
    return s.swish2(h)


def the_step_index(s, x, h):
    return s.product(s.t + 1, h)


def unknown_activation(s, x, h):
    return s.apply("tahn", h)


def number(s, x, h):
    return s.sum(h, 1.0)


def no_terms(s, x, h):
    return s.sum()


def term_outside(s, x, h):
    return s.product(s.matrix("W", h), h)


def bias_outside(s, x, h):
    return s.tanh(s.bias("b"))


def other_width(s, x, h):
    return s.sum(x, h)


def bad_name(s, x, h):
    return s.sum(s.matrix("W 1", h))


def two_shapes(s, x, h):
    return s.sum(s.matrix("W", x), s.bias("W"))


def no_axis(s, x, h):
    return s.total(h, "N")


def returns_nothing(s, x, h):
    s.tanh(h)


def returns_term(s, x, h):
    return s.matrix("W", h)


@states("h", "c")
def returns_too_few(s, x, h, c):
    return (s.tanh(h),)[0]


@states("h", "c")
def unread_state(s, x, h, c):
    return s.tanh(s.sum(s.matrix("U", x), s.matrix("W", h))), c


@states("h", "k")
def missing_state(s, x, h):
    return h, h


def no_input(s, h):
    return h


WRONG = {
    plus: "not added by +", star: "not multiplied by", branch: "cannot branch", index: "no single numbers",
    loop: "no single numbers", numpy_function: "NumPy functions", unknown: "unknown operation or setting 'swish2'",
    the_step_index: "unknown operation or setting 't'", unknown_activation: "did you mean 'tanh'",
    number: "takes traced values, got 1.0", no_terms: "at least one term", term_outside: "a term of s.sum only",
    bias_outside: "a term of s.sum only", other_width: "cannot add values with the axes", bad_name: "needs a name",
    two_shapes: "use two names", no_axis: "sums over one of several axes", returns_nothing: "as traced values",
    returns_term: "as traced values", returns_too_few: "returned 1 values for the states h, c",
    unread_state: "neither read nor changed", missing_state: "is not a parameter of step", no_input: "takes no input",
}  # fmt: skip


@pytest.mark.parametrize("step", WRONG, ids=lambda step: step.__name__)
def test_a_wrong_statement_names_its_line(step):
    members = {"step": staticmethod(step), "states": getattr(step, "states", ("h",))}
    with pytest.raises(lrp.LrpError, match=r"Wrong\.step, line \d+: ") as error:
        type("Wrong", (lrp.Cell,), members).traced()
    assert WRONG[step] in str(error.value)
    assert "\n" not in str(error.value)


def test_wrong_arrays(rng):
    good = {"a": np.ones(H), "B": np.ones((H, D)), "C": np.ones((H, H)), "d": np.ones(H)}
    for change, expected in (
        ({"d": None}, "array d is missing"),
        ({"e": np.ones(2)}, "unknown array e"),
        ({"B": np.ones(D)}, "B has 1 axes"),
        ({"B": np.ones((H + 1, D))}, "both must have the same"),
        ({"k0": np.ones(H + 1)}, "k0 must have shape"),
        ({"a": ["x"] * H}, "a must be"),
    ):
        with pytest.raises(lrp.LrpError, match=expected):
            Space(**{**good, **change})


def test_damaged_statements_are_errors(rng):
    data = Mixer.traced().to_data()
    for key, value in (
        ("kind", "../x"), ("kind", 3), ("operations", [["exec", [], "x", [], "", 0]]), ("returns", [99]),
        ("operations", [["sum", [99], "", [], "", 0]]), ("states", []), ("inputs", "x"), ("operations", None),
        ("operations", [["apply", [0], "__import__", [], "", 0]]), ("operations", [["fail", [0], "x", [], "", 0]]),
    ):  # fmt: skip
        with pytest.raises(lrp.LrpError):
            from_data({**data, key: value})
