"""A layer of one's own is one class and works with every method; a layer's defaults give what its own code gives.

The layer multiplies by a constant vector. The judge is the same network with that vector folded into the weights of the
layer above, where it makes no difference.
"""

import pickle
import textwrap
import warnings
from dataclasses import dataclass, fields, replace

import networks as nets
import numpy as np
import pytest
from laws import QUICK
from networks import close

import lrpnumpy as lrp
from lrpnumpy.layers import base
from lrpnumpy.layers.base import Layer
from lrpnumpy.methods import METHODS
from lrpnumpy.rules.propagation import back_through_sum
from lrpnumpy.rules.sums import Term

LRP = [name for name, method in METHODS.items() if method.kind == "lrp"]
SPANS = [(0, 2), (1, 4), (2, 3)]


@dataclass(frozen=True, eq=False, repr=False)
class Scale(Layer):
    """s x, as the documentation of `Layer` has it."""

    s: np.ndarray

    @property
    def inputs(self):
        return len(self.s)

    def sizes(self, x):
        return x

    def forward(self, xs, keep):
        return xs[0]._replace(rows=xs[0].rows * self.s), None

    def backward(self, ran, R, how, entry):
        return back_through_sum(how, R, ran.outputs[0], [Term(ran.inputs[0].rows, self.s)], entry)


class StepwiseScale(Scale):
    """The same, and says that a row of its output needs only the same row of its input."""

    by_step = True


def folded(layer, s):
    """A layer that takes x as if it were s x."""
    if isinstance(layer, lrp.Bidirectional):
        return lrp.Bidirectional(folded(layer.forward, s), folded(layer.backward, s), layer.merge)
    name = "V" if isinstance(layer, lrp.Dense) else "U"
    return replace(layer, **{name: getattr(layer, name) * s})


def chains(rng, kind):
    """The same network twice: with Scale layers at the bottom, in the middle and in the head; and without any."""
    lower, upper = nets.two_way(rng, 3, 4, "concat", (nets.lstm, nets.gru)), nets.lstm(rng, 8, 5, state=True)
    takers = [lower, upper, nets.dense(rng, 5, 3)]
    vectors = [rng.uniform(0.5, 2, size=layer.inputs) * rng.choice([-1, 1], layer.inputs) for layer in takers]
    with_scale = [part for s, layer in zip(vectors, takers, strict=True) for part in (kind(s), layer)]
    return with_scale, [folded(layer, s) for s, layer in zip(vectors, takers, strict=True)]


def as_nodes(layers, readout):
    """A chain as nodes, with the readout that is named."""
    top = max(k for k, layer in enumerate(layers) if not isinstance(layer, (lrp.Dense, Scale)))
    nodes, value = [], "x"
    for k, layer in enumerate(layers):
        nodes.append(lrp.Node(f"n{k}", layer, (value,)))
        value = f"n{k}"
        if k == top and readout == "last":
            value += ":last"
        elif k == top and readout != "every":
            between = {"mean": lrp.layers.Mean, "max": lrp.layers.Max, "last-row": lrp.layers.LastRow}[readout]()
            nodes.append(lrp.Node("between", between, (value,)))
            value = "between"
    return nodes


@pytest.fixture(params=["list", "nodes"])
def form(request):
    return request.param


@pytest.fixture(params=[Scale, StepwiseScale])
def kind(request):
    return request.param


def pair(rng, kind, form="list", readout="last", dtype="float64"):
    ours, theirs = chains(rng, kind)
    model = lrp.Model(as_nodes(ours, readout)) if form == "nodes" else lrp.Model(ours, readout=readout)
    return model.astype(dtype), lrp.Model(theirs, readout=readout).astype(dtype)


@pytest.mark.sampled
@pytest.mark.parametrize("readout", ["last", "mean", "max", "every"])
def test_it_is_the_folded_network(rng, kind, form, readout):
    """Scores, gradients and occlusion, and contextual decomposition of a layer without a bias."""
    model, same = pair(rng, kind, form, readout)
    x = rng.normal(size=(6, 3))
    close(lrp.predict(model, x), lrp.predict(same, x))
    for method in ("gradient", "gradient-x-input", "occlusion-f", "occlusion-p", "cd"):
        for options in {
            "occlusion-f": [{"unit": "feature"}, {"reference": "omit"}, {"reference": np.ones(3)}, {"versus": 0}],
            "cd": [{}, {"versus": 0}],
        }.get(method, [{}]):
            ours, theirs = (lrp.explain(m, x, method, 1, spans=SPANS, **options) for m in (model, same))
            close(ours.relevance, theirs.relevance, 1e-11)
            close([s.relevance for s in ours.spans], [s.relevance for s in theirs.spans], 1e-11)
            if theirs.feature_relevance is not None:
                close(ours.feature_relevance, theirs.feature_relevance, 1e-11)
            if method == "cd":
                close(ours.ledger.irrelevant, theirs.ledger.irrelevant, 1e-11, 1)


@pytest.mark.filterwarnings("ignore::lrpnumpy.RelevanceWarning")
@pytest.mark.parametrize("method", LRP)
def test_at_eps_0_relevance_is_that_of_the_folded_network(rng, kind, form, method):
    model, same = pair(rng, kind, form)
    x = rng.normal(size=(6, 3))
    ours, theirs = (lrp.explain(m, x, method, 1, eps=0.0, hidden=True) for m in (model, same))
    unit = theirs.ledger.largest
    close(ours.feature_relevance, theirs.feature_relevance, 1e-9, unit)
    close(ours.ledger.biases[1::2], theirs.ledger.biases, 1e-9, unit)
    assert sum(ours.ledger.biases[::2]) == 0
    for a, b in zip(ours.hidden, theirs.hidden, strict=True):
        close(a.h, b.h, 1e-9, unit)


def law_the_ledger_adds_up(model, x, method, eps):
    found = lrp.explain(model, x, method, 1, eps=eps)
    unit = max(found.ledger.largest, abs(found.scores[1]))
    close(found.ledger.total, found.scores[1], 1e-10, unit)
    assert np.abs(found.feature_relevance).max() <= found.ledger.largest


@pytest.mark.filterwarnings("ignore::lrpnumpy.RelevanceWarning")
@pytest.mark.parametrize(
    "method", [*LRP, lrp.Rule("third", lambda gate, signal, eps: (gate * 0 + 0.25, signal * 0 + 0.5))]
)
def test_the_ledger_adds_up(rng, form, method):
    model, _ = pair(rng, Scale, form, "mean")
    for eps in (0.0, 0.001, 0.2):
        law_the_ledger_adds_up(model, rng.normal(size=(6, 3)), method, eps)


def test_what_the_stabilizer_of_the_layer_keeps(rng):
    """A Scale layer in the head: of R it keeps eps / (|z| + eps), which is not in the folded network."""
    head = nets.dense(rng, 4, 2, bias=False)
    model = lrp.Model([nets.lstm(rng, 3, 4), Scale(np.full(4, 2.0)), head])
    x, eps = rng.normal(size=(5, 3)), 0.1
    found = lrp.explain(model, x, "lrp-all", 0, eps=eps, hidden=True)
    h = lrp.trace(model, x)["0/h"][-1]
    z, f = 2 * h, found.scores[0]
    R_z = z * head.V[0] / (f + eps * np.sign(f)) * f
    close(found.hidden[0].h[-1], R_z * z / (z + eps * np.sign(z)), 1e-12)


def test_a_layer_that_forgets_the_ledger_is_told_which_entry(rng):
    """A layer that does not count what its stabilizer keeps loses relevance."""

    class Forgetful(Scale):
        def backward(self, ran, R, how, entry):
            gain, _ = how.gain(ran.outputs[0].rows)
            return [R * gain * self.s * (ran.inputs[0].rows if how.times_input else 1)]

    model, _ = pair(rng, Forgetful)
    with pytest.raises(lrp.LrpError, match=r"Forgetful.backward: .* entry.stabilizer"):
        lrp.explain(model, rng.normal(size=(6, 3)), "lrp-all", 1, eps=0.2)


@pytest.mark.sampled
@pytest.mark.parametrize(("dtype", "tol"), [("float64", 1e-12), ("float32", 1e-4)])
@pytest.mark.parametrize("method", METHODS)
def test_a_batch_gives_what_single_calls_give(rng, kind, form, method, dtype, tol):
    model, _ = pair(rng, kind, form, "mean", dtype)
    xs = [rng.normal(size=(T, 3)) for T in (2, 7, 4, 4)]
    spans = [[(0, 2)], SPANS, SPANS, [(0, 4)]]
    if "occlusion" in method:
        options = {"unit": "feature"}
    else:
        options = {"eps": 0.1, "hidden": True} if method in LRP else QUICK.get(method, {})
    many = lrp.explain_all(model, xs, method, 1, spans=spans, **options)
    assert many.relevance.dtype == dtype
    for x, phrases, found in zip(xs, spans, many, strict=True):
        one = lrp.explain(model, x, method, 1, spans=phrases, **options)
        unit = max(np.abs(one.relevance).max(), getattr(one.ledger, "largest", 0))
        close(found.relevance, one.relevance, tol, unit)
        close([s.relevance for s in found.spans], [s.relevance for s in one.spans], tol, unit)


def test_it_is_a_record_like_any_other(rng):
    """It is cast, pickled and digested with the rest, and takes words."""
    layers, _ = chains(rng, Scale)
    embedding = lrp.Embedding(rng.normal(size=(4, 3)), vocabulary=["a", "b", "c", "d"])
    model = lrp.Model(layers, embedding=embedding)
    short = model.astype("float32")
    assert short.layers[0].s.dtype == np.float32 and short.digest != model.digest
    again = pickle.loads(pickle.dumps(model))
    assert again.digest == model.digest
    other = [replace(layers[0], s=layers[0].s * 2), *layers[1:]]
    assert lrp.Model(other, embedding=embedding).digest != model.digest
    for method in METHODS:
        options = QUICK.get(method, {})
        many = lrp.explain_all(model, ["a b", "c a d"] * 3, method, 1, unit="step", **options)
        for k in range(6):
            one = lrp.explain(again, ["a b", "c a d"][k % 2], method, 1, **options)
            close(many[k].relevance, one.relevance, 1e-9)


def test_the_example_of_the_documentation(rng):
    """The class in the docstring of `layers.base`, run as it stands there."""
    start, stop = base.__doc__.index("    @dataclass"), base.__doc__.index("Occlusion and")
    names = {**vars(base), "dataclass": dataclass, "back_through_sum": back_through_sum, "Term": Term}
    exec(textwrap.dedent(base.__doc__[start:stop]), names)
    scale = names["Scale"](np.array([2.0, -0.5, 1.0, 3.0]))
    head = nets.dense(rng, 4, 2)
    cell, x = nets.lstm(rng, 3, 4), rng.normal(size=(5, 3))
    model, same = lrp.Model([cell, scale, head]), lrp.Model([cell, folded(head, scale.s)])
    for method in ("gradient", "occlusion-f", "cd"):
        close(lrp.explain(model, x, method, 1).relevance, lrp.explain(same, x, method, 1).relevance)
    law_the_ledger_adds_up(model, x, "lrp-half", 0.2)


class Careless(Scale):
    """Its rows and messages are float64 in Fortran's order, whatever it gets."""

    def forward(self, xs, keep):
        y, _ = super().forward(xs, keep)
        return y._replace(rows=np.asfortranarray(y.rows, np.float64)), None

    def backward(self, *arguments):
        return [np.asfortranarray(part, np.float64) for part in super().backward(*arguments)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", METHODS)
def test_rows_of_another_type_and_order(rng, method, dtype):
    """Kernels get them as they need them, and results have the dtype of the model."""
    s = rng.uniform(1, 2, size=3)
    cells = nets.lstm(rng, 3, 3), nets.gru(rng, 3, 3)
    (one, same), head = (
        ([kind(s), cells[0], kind(s), cells[1], kind(s)] for kind in (Careless, Scale)),
        nets.dense(rng, 3, 2),
    )
    xs = [rng.normal(size=(T, 3)) for T in (5, 4)]
    ours, theirs = (
        lrp.explain_all(lrp.Model([*layers, head]).astype(dtype), xs, method, 1, **QUICK.get(method, {}))
        for layers in (one, same)
    )
    assert ours.relevance.dtype == dtype
    close(ours.relevance, theirs.relevance, 1e-12 if dtype == "float64" else 1e-4)


@dataclass(frozen=True, eq=False, repr=False)
class Plus(Layer):
    """The sum of two values."""

    def sizes(self, a, b):
        return a

    def forward(self, xs, keep):
        return xs[0]._replace(rows=xs[0].rows + xs[1].rows), None

    def backward(self, ran, R, how, entry):
        return back_through_sum(how, R, ran.outputs[0], [Term(x.rows) for x in ran.inputs], entry)


def test_two_nodes_that_take_the_input():
    """What they give it adds up to more than each gives: the ledger's largest relevance says so."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        nodes = [
            lrp.Node("one", nets.lstm(rng, 3, 4), ("x",)),
            lrp.Node("other", nets.gru(rng, 3, 4), ("x",)),
            lrp.Node("sum", Plus(), ("one:last", "other:last")),
            lrp.Node("head", nets.dense(rng, 4, 2), ("sum",)),
        ]
        law_the_ledger_adds_up(lrp.Model(nodes), rng.normal(size=(1, 3)), "lrp-all", 0.001)


def test_two_branches_that_meet(rng):
    """A layer with two inputs: only `forward` and `backward` know that there are two."""
    lower, upper = nets.lstm(rng, 3, 4), nets.lstm(rng, 4, 4)
    head = nets.dense(rng, 4, 2)
    nodes = [
        lrp.Node("lower", lower, ("x",)),
        lrp.Node("upper", upper, ("lower",)),
        lrp.Node("sum", Plus(), ("lower", "upper")),
        lrp.Node("mean", lrp.layers.Mean(), ("sum",)),
        lrp.Node("head", head, ("mean",)),
    ]
    model, x = lrp.Model(nodes), rng.normal(size=(5, 3))

    def score(x):
        below = lrp.predict(lrp.Model([lower], readout="every"), x)
        above = lrp.predict(lrp.Model([upper], readout="every"), below)
        return head.V @ (below + above).mean(axis=0) + head.d

    close(lrp.predict(model, x), score(x))
    for method in LRP:
        law_the_ledger_adds_up(model, x, method, 0.1)
    step, along = 1e-6, rng.normal(size=x.shape)
    slope = (score(x + step * along) - score(x - step * along))[1] / (2 * step)
    found = lrp.explain(model, x, "gradient-x-input", 1).feature_relevance / x
    close((found * along).sum(), slope, 1e-8, 1)
    without = x.copy()
    without[1:3] = 0
    found = lrp.explain(model, x, "occlusion-f", 1, spans=[(1, 3)])
    close(found.spans[0].relevance, (score(x) - score(without))[1], 1e-12, 1)
    found = lrp.explain(model, x, "occlusion-f", 1, reference="omit", spans=[(1, 3)])
    close(found.spans[0].relevance, (score(x) - score(x[[0, 3, 4]]))[1], 1e-12, 1)
    for span in ((0, 2), (0, 5)):
        ledger = lrp.explain(model, x, "cd", 1, spans=[span]).ledger
        close(ledger.relevant + ledger.irrelevant + ledger.bias, [score(x)[1]], 1e-12)
    close(ledger.irrelevant, [0.0], 1e-12, 1)  # of the whole sequence


# ---- the defaults of a layer against its own code ----


class PlainDense(lrp.Dense):
    by_step = False
    split = Layer.split


class StepwiseDense(lrp.Dense):
    split = Layer.split


class PlainBidirectional(lrp.Bidirectional):
    changed = Layer.changed


class PlainLSTM(lrp.LSTM):
    changed = Layer.changed


class PlainGRU(lrp.GRU):
    changed = Layer.changed


class PlainRNN(lrp.RNN):
    changed = Layer.changed


def swapped(layer, kinds):
    """The layer with the same arrays, of the kind whose defaults are tested."""
    kind = kinds.get(type(layer), type(layer))
    return kind(**{field.name: getattr(layer, field.name) for field in fields(layer)})


DEFAULTS = [
    {lrp.Dense: PlainDense},
    {lrp.Dense: StepwiseDense},
    {lrp.Bidirectional: PlainBidirectional},
    {lrp.LSTM: PlainLSTM},
    {lrp.GRU: PlainGRU},
    {lrp.RNN: PlainRNN},
    {lrp.Dense: PlainDense, lrp.LSTM: PlainLSTM, lrp.GRU: PlainGRU, lrp.RNN: PlainRNN},
]


@pytest.mark.sampled
@pytest.mark.parametrize("kinds", DEFAULTS, ids=lambda kinds: ", ".join(kind.__name__ for kind in kinds.values()))
@pytest.mark.parametrize("readout", ["last", "mean", "max", "last-row", "every"])
def test_the_defaults_give_what_a_layer_s_own_code_gives(rng, kinds, readout):
    layers = [
        nets.dense(rng, 3, 4, "tanh"),
        nets.lstm(rng, 4, 3, state=True),
        nets.gru(rng, 3, 3, state=True),
        nets.rnn(rng, 3, 3),
        nets.two_way(rng, 3, 2, "sum", (nets.gru_before, nets.lstm)),
        nets.dense(rng, 2, 3, "relu"),
        nets.dense(rng, 3, 2),
    ]
    model = lrp.Model(layers, readout=readout)
    plain = lrp.Model([swapped(layer, kinds) for layer in layers], readout=readout)
    xs = [rng.normal(size=(T, 3)) for T in (5, 1, 7)]
    spans = [SPANS, [(0, 1)], SPANS]
    calls = [("cd", {}), ("occlusion-f", {"unit": "feature"})]
    for method, options in calls:
        ours, theirs = (lrp.explain_all(m, xs, method, 1, spans=spans, **options) for m in (model, plain))
        close(ours.relevance, theirs.relevance, 1e-12)
        for a, b in zip(ours, theirs, strict=True):
            close([s.relevance for s in a.spans], [s.relevance for s in b.spans], 1e-12, 1)
    ours, theirs = (
        lrp.explain_all(m, xs[::2], "occlusion-f", 1, reference="omit", spans=spans[::2]) for m in (model, plain)
    )
    close(ours.relevance, theirs.relevance, 1e-12)


def test_nothing_is_printed_or_warned(rng, capsys):
    model, _ = pair(rng, Scale)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lrp.compare(model, rng.normal(size=(4, 3)), nets.every_method(model), eps=0.01)
    assert capsys.readouterr() == ("", "")
