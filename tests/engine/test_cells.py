"""The cells of `lrpnumpy/layers/cells.py`: every method, alone, in two directions, stacked, in batches and in files.

NumPy runs them here, so that nothing is compiled; `check_cell` compares their kernels, run as plain Python, with NumPy.
"""

import networks as nets
import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp
from lrpnumpy.kernels import compile as compiling
from lrpnumpy.laws import random_cell
from lrpnumpy.layers import LAYERS

KINDS = [kind for kind in LAYERS.values() if kind.__module__ == "lrpnumpy.layers.cells"]
FORMS = ("single", "bidirectional", "stacked")
LRP = ("lrp-all", "lrp-prop", "lrp-abs", "lrp-half")
OTHER = {"EALSTM": lrp.Input(5, steps=False), "CfC": lrp.Input(1)}  # the second input
BY_NUMPY = {"ProjectedLSTM", "LayerNormLSTM", "DiagonalSSM", "SelectiveSSM", "CfC", "EALSTM"}


@pytest.fixture(autouse=True)
def by_numpy(monkeypatch):
    monkeypatch.setattr(compiling, "mode", "never")


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


def cell_of(kind, rng, D=3):
    return random_cell(kind, rng, D=D, static=5)


def network(kind, rng, form="single", every=False, **settings):
    """A network of the cell and a Dense layer."""
    name = kind.__name__
    more = ("other",) if name in OTHER else ()
    first = cell_of(kind, rng)
    if form == "bidirectional":
        first = lrp.Bidirectional(first, cell_of(kind, rng))
    nodes = [lrp.Node("cell", first, ("x", *more))]
    if form == "stacked":
        nodes.append(lrp.Node("upper", cell_of(kind, rng, first.outputs), ("cell", *more)))
    top = nodes[-1]
    nodes.append(lrp.Node("head", nets.dense(rng, top.layer.outputs, 2), (top.name if every else f"{top.name}:last",)))
    inputs = {"x": lrp.Input(3), **({"other": OTHER[name]} if more else {})}
    return lrp.Model(nodes, inputs=inputs, output="linear", **settings)


def values(kind, rng, T=5):
    x = {"x": rng.normal(size=(T, 3))}
    if kind.__name__ == "EALSTM":
        x["other"] = rng.normal(size=5)
    elif kind.__name__ == "CfC":
        x["other"] = rng.uniform(0.5, 2, size=(T, 1))
    return x


def test_the_laws_of_a_cell(kind):
    """Kernels included, where they are generated."""
    report = lrp.check_cell(kind, seed=1)
    assert report.holds, str(report)
    assert bool(report.numpy_only) == (kind.__name__ in BY_NUMPY)
    assert any(law.name == "kernels" for law in report.laws) == (kind.__name__ not in BY_NUMPY)


def test_the_gradient(kind, form, rng):
    model, x = network(kind, rng, form), values(kind, rng)
    found = lrp.explain(model, x, "gradient-x-input", 1)
    for name, value in x.items():
        along, step = rng.normal(size=value.shape), 1e-6
        ends = [lrp.predict(model, {**x, name: value + sign * step * along})[1] for sign in (1, -1)]
        slope = found.inputs[name].feature_relevance.reshape(value.shape) / value
        close((slope * along).sum(), (ends[0] - ends[1]) / (2 * step), 1e-7, abs(slope).sum())


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore::lrpnumpy.RelevanceWarning")
def test_the_ledger_closes(kind, form, rng):
    model, x = network(kind, rng, form), values(kind, rng)
    for method in LRP:
        for eps in (0.001, 0.1):
            found = lrp.explain(model, x, method, 1, eps=eps)
            close(found.ledger.total, found.scores[1], 1e-12, max(found.ledger.largest, abs(found.scores[1])))
            assert abs(found.feature_relevance).max() <= found.ledger.largest * (1 + 1e-12)


def test_deeplift_adds_up(kind, form, rng):
    model, x = network(kind, rng, form), values(kind, rng)
    ledger = lrp.explain(model, x, "deeplift", 1).ledger
    close(ledger.inputs + ledger.reference, ledger.score, 1e-12, max(1, abs(ledger.score)))


def test_contextual_decomposition(kind, form, rng):
    """beta + gamma + delta is the score, and with start states of 0 a whole sequence leaves nothing irrelevant."""
    model, x = network(kind, rng, form), values(kind, rng)
    score = lrp.predict(model, x)[1]
    ledger = lrp.explain(model, x, "cd", 1, spans=[(0, 2), (1, 4), (0, 5)]).ledger
    close(ledger.total, np.full(3, score), 1e-12, 1)
    if len(x) == 1 and kind is not lrp.layers.SLSTM:
        assert abs(ledger.irrelevant[2]) <= 1e-12 * max(1, abs(score))


def test_an_slstm_that_starts_at_0_leaves_nothing_irrelevant(rng):
    cell = random_cell(lrp.layers.SLSTM, rng)
    cell = lrp.layers.SLSTM(**cell.weights, log_n0=np.zeros(4))
    model = lrp.Model([cell, nets.dense(rng, 4, 2)])
    ledger = lrp.explain(model, rng.normal(size=(5, 3)), "cd", 1, spans=[(0, 5)]).ledger
    assert abs(ledger.irrelevant[0]) <= 1e-12


def test_occlusion_is_plain_forward_passes(kind, form, rng):
    model, x = network(kind, rng, form), values(kind, rng)
    found = lrp.explain(model, x, "occlusion-f", 1, spans=[(1, 3), (4, 5)])
    for span in found.spans:
        without = x["x"].copy()
        without[span.start : span.stop] = 0
        score = lrp.predict(model, x)[1]
        close(span.relevance, score - lrp.predict(model, {**x, "x": without})[1], 1e-12, max(1, abs(score)))


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_batch_gives_what_single_calls_give(kind, form, rng, dtype):
    """And float32 what float64 gives, within its digits."""
    exact = network(kind, rng, form)
    model = exact.astype(dtype)
    xs = [values(kind, rng, T) for T in (2, 5, 1)]
    for method in ("lrp-all", "deeplift", "cd", "occlusion-f"):
        many = lrp.explain_all(model, xs, method, 1)
        assert many.relevance.dtype == dtype
        for x, found in zip(xs, many, strict=True):
            one, true = lrp.explain(model, x, method, 1), lrp.explain(exact, x, method, 1)
            unit = max(1, abs(true.relevance).max())
            close(found.relevance, one.relevance, 1e-12 if dtype == "float64" else 1e-5, unit)
            close(found.relevance, true.relevance, 1e-12 if dtype == "float64" else 1e-3, unit)


def test_a_stack_of_one_direction_reads_like_two_models(kind, rng):
    """The upper cell of a stack is the cell on the outputs of the lower one."""
    if kind.__name__ in OTHER:
        pytest.skip("a list of layers has one input")
    lower, head = cell_of(kind, rng), nets.dense(rng, cell_of(kind, rng).outputs, 2)
    upper = cell_of(kind, rng, lower.outputs)
    x = rng.normal(size=(5, 3))
    below = lrp.predict(lrp.Model([lower], readout="every", output="linear"), x)
    close(lrp.predict(lrp.Model([lower, upper, head]), x), lrp.predict(lrp.Model([upper, head]), below))


def test_two_directions_are_two_cells(kind, rng):
    model, x = network(kind, rng, "bidirectional"), values(kind, rng)
    both = model.nodes[0].layer
    sides = []
    for cell, order in ((both.forward, 1), (both.backward, -1)):
        alone = lrp.Model(
            [model.nodes[0]._replace(layer=cell), lrp.Node("last", lrp.layers.LastRow(), ("cell",))],
            inputs=model.inputs,
        )
        sides.append(
            lrp.predict(alone, {name: v[::order] if name == "x" or v.ndim > 1 else v for name, v in x.items()})
        )
    head = model.nodes[1].layer
    close(lrp.predict(model, x), head.V @ np.concatenate(sides) + head.d)


def test_every_step(kind, rng):
    model, x = network(kind, rng, every=True), values(kind, rng)
    if kind.__name__ in OTHER:
        found = [lrp.explain(model, x, "lrp-all", 1, step=t) for t in range(5)]
    else:
        found = lrp.explain(model, x, "lrp-all", 1, step="all")
    scores = lrp.predict(model, x)
    for t, one in enumerate(found):
        close(one.ledger.total, scores[t, 1], 1e-12, max(one.ledger.largest, 1))
        start = {name: v[: t + 1] if name == "x" or v.ndim > 1 else v for name, v in x.items()}
        close(lrp.predict(model, start)[-1], scores[t])


@pytest.mark.filterwarnings("ignore::lrpnumpy.RelevanceWarning")
def test_start_states_as_inputs(kind, rng):
    """They receive relevance and gradients, and the last states are outputs."""
    base = network(kind, rng)
    cell, more = base.nodes[0].layer, base.nodes[0].inputs
    inputs, x = dict(base.inputs), values(kind, rng)
    for node in cell.statement.states:
        width = cell._width(node)
        inputs[f"{node.name}_start"] = lrp.Input(width, steps=False)
        x[f"{node.name}_start"] = rng.normal(size=width)
    starts = [name for name in inputs if name.endswith("_start")]
    nodes = [lrp.Node("cell", cell, (*more, *starts)), base.nodes[1]]
    model = lrp.Model(nodes, inputs=inputs, output="linear")
    found = lrp.explain(model, x, "lrp-half", 1, eps=0.01)
    close(found.ledger.total, found.scores[1], 1e-12, max(found.ledger.largest, 1))
    ledger = lrp.explain(model, x, "deeplift", 1).ledger
    close(ledger.inputs + ledger.reference, ledger.score, 1e-12, 1)
    for name in starts:
        along, step = rng.normal(size=x[name].shape), 1e-6
        ends = [lrp.predict(model, {**x, name: x[name] + sign * step * along})[1] for sign in (1, -1)]
        slope = lrp.explain(model, x, "gradient-x-input", 1).inputs[name].feature_relevance.reshape(-1) / x[name]
        close((slope * along).sum(), (ends[0] - ends[1]) / (2 * step), 1e-7, max(abs(slope).sum(), 1e-3))
    same = type(cell)(
        **cell.weights,
        **{f"{one.name}0": x[f"{one.name}_start"].reshape(cell._shape(one)) for one in cell.statement.states},
    )
    plain = lrp.Model([lrp.Node("cell", same, more), base.nodes[1]], inputs=base.inputs, output="linear")
    close(lrp.predict(plain, {name: x[name] for name in base.inputs}), found.scores)


def test_the_last_states_are_outputs(kind, rng):
    x, state = values(kind, rng), kind.states[-1]
    base = network(kind, rng)
    cell = base.nodes[0].layer
    width = cell.output_width(f":{state}", cell.units)
    nodes = [base.nodes[0], lrp.Node("head", nets.dense(rng, width, 2), (f"cell:{state}",))]
    model = lrp.Model(nodes, inputs=base.inputs, output="linear")
    last = lrp.trace(model, x)[f"cell/{state}"][-1]
    close(nodes[1].layer.V @ last + nodes[1].layer.d, lrp.predict(model, x))
    ledger = lrp.explain(model, x, "deeplift", 1).ledger
    close(ledger.inputs + ledger.reference, ledger.score, 1e-12, max(1, abs(ledger.score)))


@pytest.mark.sampled
def test_native_files(kind, form, rng, tmp_path):
    model, x = network(kind, rng, form), values(kind, rng)
    lrp.save(model, tmp_path / "model.h5")
    again = lrp.load(tmp_path / "model.h5")
    assert again.digest == model.digest
    assert np.array_equal(lrp.explain(again, x).relevance, lrp.explain(model, x).relevance)
    text = str(lrp.inspect(tmp_path / "model.h5"))
    if kind.__name__ in BY_NUMPY:
        assert "run by NumPy" in text
    if form == "single" and kind is not lrp.layers.DiagonalSSM:
        assert " x " in text


def test_an_slstm_is_that_of_the_paper(rng):
    """c, n and h by the paper's formulas, without its stabilizer."""
    cell, x = random_cell(lrp.layers.SLSTM, rng), rng.normal(size=(6, 3))
    h, c, n = np.zeros((3, 4))
    w = cell.weights
    for row in x:
        i, f, z, o = (w[f"U_{k}"] @ row + w[f"W_{k}"] @ h + w[f"b_{k}"] for k in "ifzo")
        i, f, o = np.exp(i), 1 / (1 + np.exp(-f)), 1 / (1 + np.exp(-o))
        c, n = f * c + i * np.tanh(z), f * n + i
        h = o * c / n
    close(lrp.predict(lrp.Model([cell], output="linear"), x), h)


def test_relevance_of_the_selective_layer_is_that_of_mambalrp(rng):
    """With the selection as constants the layer is linear: gradient x input of that layer, at eps = 0."""
    cell, x = random_cell(lrp.layers.SelectiveSSM, rng), rng.normal(size=(4, 3))
    w = cell.weights
    dt = np.log1p(np.exp(x @ w["U_dt"].T + w["b_dt"]))
    B, C = x @ w["U_B"].T, x @ w["U_C"].T
    decay = np.exp(dt[:, :, None] * w["A"])
    R = np.zeros((4, 3))
    for d in range(3):
        carry = C[-1].copy()
        R[-1, d] = w["E"][d] * x[-1, d]
        for t in range(3, -1, -1):
            R[t, d] += carry @ (dt[t, d] * B[t]) * x[t, d]
            carry = carry * decay[t, d]
    head = lrp.Dense(np.array([[1.0, -2.0, 0.5]]))
    found = lrp.explain(lrp.Model([cell, head], output="linear"), x, "lrp-all", 0, eps=0.0).feature_relevance
    close(found, R * head.V[0], 1e-10)
