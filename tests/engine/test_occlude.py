"""Occlusion from shared states against plain forward passes over changed inputs, and against golden.h5."""

import networks as nets
import numpy as np
import oracle
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from networks import close

import lrpnumpy as lrp
from lrpnumpy.encode import encode
from lrpnumpy.encode import packed as pack
from lrpnumpy.methods import occlusion as module
from lrpnumpy.model import READOUTS
from lrpnumpy.passes import Trace, forward


def packed(model, sequences):
    """A batch, which has the longest sequence first, and its sequences in that order."""
    ordered = sorted(sequences, key=len, reverse=True)
    return pack(model, [encode(model, x) for x in ordered])[model.main], ordered


def asked(model, x, options):
    """A forward pass to start from, and the options as a record."""
    trace = model if isinstance(model, Trace) else forward(model, {model.main: x}, "states")
    if options.get("reference", 0) is None:
        del options["reference"]
    return trace, module.Occlusion(**options).prepare(trace.model, None)


def occlude(model, x, spans, *, steps=None, **options):
    trace, options = asked(model, x, options)
    return module.occlude(trace, spans, options, steps)


def occlude_words(model, x, *, steps=None, **options):
    trace, options = asked(model, x, options)
    return module.occlude_words(trace, options, steps)


def occlude_variables(model, x, *, steps=None, **options):
    trace, options = asked(model, x, options)
    return x.batch.split(module.occlude_variables(trace, options, steps))


def words(T):
    return np.stack([np.arange(T), np.arange(T) + 1], axis=1)


def without(x, span, reference):
    """The changed input, and where each step of x is now; of a step that is left out, the last before it."""
    start, stop = span
    if isinstance(reference, str):  # "omit"
        stays = np.r_[:start, stop : len(x)]
        return x[stays], np.maximum(np.searchsorted(stays, np.arange(len(x)), side="right") - 1, 0)
    changed = x.copy()
    changed[start:stop] = reference[start:stop] if np.ndim(reference) == 2 else reference
    return changed, np.arange(len(x))


def plainly(model, x, spans, step=-1, reference=0.0):
    """(V, C): one forward pass of the oracle for each variant."""
    out = []
    for span in spans:
        changed, moved = without(x.astype(np.float64), span, reference)
        f = oracle.scores(nets.plain(model), changed)
        out.append(f[moved[step]] if model.every else f)
    return np.array(out)


# ---- golden.h5 ----


@pytest.mark.parametrize(
    ("name", "model", "sequences"), list(nets.golden()), ids=lambda x: x if isinstance(x, str) else ""
)
def test_golden(name, model, sequences):
    """All sequences as one ragged batch, and one by one."""
    sequences = sorted(sequences, key=lambda part: len(part["x"]), reverse=True)
    batch, xs = packed(model, [part["x"] for part in sequences])
    found = occlude(model, batch, [words(len(x)) for x in xs])
    for part, x, many in zip(sequences, xs, found, strict=True):
        (one,) = occlude(model, packed(model, [x])[0], [words(len(x))])
        for variants in (many, one):
            for target in (key for key in part if key.startswith("target")):
                c, golden = int(target[6:]), part[target]["eps0.001"]
                close(
                    part["scores"][c] - variants[:, c],
                    golden["occlusion_f"],
                    1e-12,
                    np.abs(part["scores"]).max(),
                )
                if model.outputs > 1:
                    drop = oracle.softmax(part["scores"])[c] - np.array([oracle.softmax(f)[c] for f in variants])
                    close(drop, golden["occlusion_p"], 1e-12, 1)


# ---- plain forward passes ----


@st.composite
def questions(draw, count=3, most=6, **options):
    """A network, sequences, some phrases of each, and the step of each that is looked at."""
    model = draw(nets.networks(**options))
    batch, xs = packed(model, draw(nets.inputs(model, most=most, count=count)))
    spans, steps = [], []
    for x in xs:
        pair = st.tuples(st.integers(0, len(x) - 1), st.integers(1, len(x))).filter(lambda s: s[0] < s[1])
        chosen = [*words(len(x)), *draw(st.lists(pair, max_size=4))][:: draw(st.sampled_from([1, 1, -1]))]
        spans.append(np.array(chosen, np.int64).reshape(-1, 2))
        steps.append(draw(st.integers(0, len(x) - 1)))
    return model, batch, xs, spans, np.array(steps)


def some_reference(model, kind):
    """What takes the place of a step: nothing said, a vector, a row for each step, or "omit"."""
    rows = np.linspace(-1, 1, 60 * model.input_size).reshape(60, -1)
    return {"zero": None, "vector": rows[7], "sequence": rows, "omit": "omit"}[kind]


@given(
    questions(),
    st.sampled_from(["zero", "vector", "sequence", "omit"]),
    st.booleans(),
    st.sampled_from([1 << 24, 100]),
)
@nets.examples(120)
def test_phrases_are_plain_forward_passes(question, kind, with_steps, most):
    """Whatever the network; and in groups of a few variants as well as all together."""
    model, batch, xs, spans, steps = question
    if kind == "omit":  # something must be left
        spans = [s[s[:, 1] - s[:, 0] < len(x)] for s, x in zip(spans, xs, strict=True)]
    reference = some_reference(model, kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST", most)
        found = occlude(model, batch, spans, reference=reference, steps=steps if with_steps else None)
    for got, x, span, step in zip(found, xs, spans, steps, strict=True):
        assert got.shape == (len(span), model.outputs) and got.dtype == model.dtype
        if len(span):
            wanted = plainly(model, x, span, step if with_steps else -1, 0 if reference is None else reference)
            close(got, wanted, 1e-12, max(1, np.abs(wanted).max()))


@given(questions(count=2, most=4), st.sampled_from(["zero", "vector", "sequence"]))
def test_variables_are_plain_forward_passes(question, kind):
    model, batch, xs, _, steps = question
    reference = some_reference(model, kind)
    found = occlude_variables(model, batch, reference=reference, steps=steps)
    rows = np.broadcast_to(0.0 if reference is None else reference, (60, model.input_size))
    for got, x, step in zip(found, xs, steps, strict=True):
        assert got.shape == (*x.shape, model.outputs)
        for t, d in np.ndindex(*x.shape):
            changed = x.copy()
            changed[t, d] = rows[t, d]
            f = oracle.scores(nets.plain(model), changed)
            close(got[t, d], f[step] if model.every else f, 1e-12, max(1, np.abs(f).max()))


@given(questions(), st.sampled_from(["vector", "sequence", "omit"]))
def test_words_are_phrases_of_one_word(question, kind):
    model, batch, xs, _, steps = question
    assume(kind != "omit" or min(map(len, xs)) > 1)
    options = {"steps": steps, "reference": some_reference(model, kind)}
    rows = batch.batch.split(occlude_words(model, batch, **options))
    for got, wanted in zip(rows, occlude(model, batch, [words(len(x)) for x in xs], **options), strict=True):
        close(got, wanted, 1e-13, max(1, np.abs(wanted).max()))


@pytest.mark.parametrize("reference", [0.0, "omit"])
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("steps", [(4, 2, 4), (1, 4, 0), (4, 4, 1)])
def test_neighbors_that_end_at_different_steps(rng, two, reference, steps):
    layer = nets.two_way(rng, 3, 2, "sum") if two else nets.lstm(rng, 3, 2)
    model = lrp.Model([layer, nets.dense(rng, 2, 2)], readout="every")
    batch, xs = packed(model, [rng.normal(size=(5, 3)) for _ in steps])
    found = occlude(model, batch, [words(5)] * 3, reference=reference or None, steps=np.array(steps))
    for got, x, step in zip(found, xs, steps, strict=True):
        close(got, plainly(model, x, words(5), step, reference))


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("two", [False, True])
def test_more_variants_than_places(rng, dtype, two):
    """The queue is longer than what runs at once; here the judge is the engine's own forward pass."""
    layer = nets.two_way(rng, 7, 40) if two else nets.lstm(rng, 7, 40)
    model = lrp.Model([layer, nets.dense(rng, layer.outputs, 3)]).astype(dtype)
    batch, xs = packed(model, [rng.normal(size=(T, 7)).astype(dtype) for T in (30, 3, 17, 30, 29, 1, 30)])
    found = occlude(model, batch, [words(len(x)) for x in xs])
    for got, x in zip(found, xs, strict=True):
        copies = [encode(model, without(x, span, 0)[0]) for span in words(len(x))]
        close(got, forward(model, pack(model, copies)).scores, 1e-12 if dtype == "float64" else 2e-6)


def test_a_trace_gives_what_the_model_gives(rng):
    model = lrp.Model([nets.two_way(rng, 3, 4), nets.lstm(rng, 8, 5, state=True), nets.dense(rng, 5, 2)])
    batch, xs = packed(model, [rng.normal(size=(T, 3)) for T in (6, 4)])
    spans = [words(len(x)) for x in xs]
    trace = forward(model, {model.main: batch}, "states")
    for a, b in zip(occlude(trace, batch, spans), occlude(model, batch, spans), strict=True):
        close(a, b, 1e-13)


def test_no_phrases(rng):
    model = lrp.Model([nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)], readout="mean")
    batch, _ = packed(model, [rng.normal(size=(T, 3)) for T in (5, 4)])
    none = np.empty((0, 2), np.int64)
    assert [part.shape for part in occlude(model, batch, [none, none])] == [(0, 2), (0, 2)]


def test_a_phrase_of_everything_can_be_replaced_but_not_left_out(rng):
    model = lrp.Model([nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)])
    batch, (x,) = packed(model, [rng.normal(size=(5, 3))])
    everything = np.array([[1, 3], [0, 5]])
    close(occlude(model, batch, [everything])[0], plainly(model, x, everything))
    with pytest.raises(lrp.LrpError, match="must leave at least 1, got a phrase of 5 of 5"):
        occlude(model, batch, [everything], reference="omit")


# ---- tol ----


def forgetful(rng, kind, H=12, bias=-1.0):
    """Networks whose states come back after a few steps."""

    def one(D):
        layer = nets.lstm(rng, D, H)
        b = np.array(layer.b) * 0.1
        b[1] += bias
        return lrp.LSTM(np.array(layer.U) * 0.5, np.array(layer.W) * 0.5, b)

    layers = {
        "one": lambda: [one(3)],
        "two ways": lambda: [lrp.Bidirectional(one(3), one(3))],
        "stack": lambda: [one(3), nets.dense(rng, H, H, "tanh"), one(H)],
        "stack of both": lambda: [lrp.Bidirectional(one(3), one(3), "sum"), one(H)],
    }[kind]()
    return [*layers, nets.dense(rng, layers[-1].outputs, 2)]


@pytest.fixture
def runs(monkeypatch):
    """How many steps the variants went in each call of the kernel."""
    found = []
    whole = lrp.LSTM.varied

    def noted(self, read, change, tol, every):
        out, done = whole(self, read, change, tol, every)
        found.append(np.maximum(done - change.lo, 0))
        return out, done

    monkeypatch.setattr(lrp.LSTM, "varied", noted)
    return found


@pytest.mark.sampled
@pytest.mark.compiled
@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("kind", ["one", "two ways", "stack", "stack of both"])
@pytest.mark.parametrize("reference", ["zero", "omit"])
def test_tol_stops_early_and_errs_little(rng, runs, readout, kind, reference):
    model = lrp.Model(forgetful(rng, kind), readout=readout)
    batch, xs = packed(model, [rng.normal(size=(T, 3)) for T in (80, 60)])
    spans = [words(len(x)) for x in xs]
    exact = occlude(model, batch, spans, reference=reference)
    whole = np.concatenate(runs).sum()
    for tol, share in ((1e-6, 0.45), (1e-10, 0.7)):
        runs.clear()
        found = occlude(model, batch, spans, reference=reference, tol=tol)
        assert np.concatenate(runs).sum() < share * whole
        off = max(np.abs(a - b).max() for a, b in zip(found, exact, strict=True))
        assert off < tol  # what is left of a change when it stops fades further in such networks


@pytest.mark.compiled
def test_tol_makes_the_cost_linear(rng, runs):
    model = lrp.Model(forgetful(rng, "one")).astype("float32")
    steps = {}
    for T in (100, 400):
        runs.clear()
        occlude_words(model, packed(model, [rng.normal(size=(T, 3)).astype("float32")])[0], tol=1e-6)
        steps[T] = runs[0].sum()
    assert steps[400] < 5 * steps[100]


def test_without_tol_nothing_stops(rng, runs):
    model = lrp.Model(forgetful(rng, "one", H=3, bias=-9.0))
    batch, _ = packed(model, [rng.normal(size=(30, 3))])
    occlude(model, batch, [words(30)])
    assert (runs[0] == 30 - np.arange(30)).all()


def test_tol_looks_at_the_cell_too():
    """It remembers the first input, and shows it only at the last step: until then h is nearly the same for all."""
    U, b = np.zeros((4, 1, 2)), np.array([[20.0], [20.0], [0.0], [-20.0]])
    U[2, 0, 0], U[3, 0, 1] = 1, 40  # g takes the first variable, the second one opens o
    model = lrp.Model([lrp.LSTM(U, np.zeros((4, 1, 1)), b)])
    batch, (x,) = packed(model, [np.array([[0.5, 0], [0, 0], [0, 0], [0, 1]])])
    close(occlude(model, batch, [words(4)], tol=1e-6)[0], plainly(model, x, words(4)))


def test_tol_where_nothing_is_forgotten(rng):
    model = lrp.Model(forgetful(rng, "one", H=3, bias=9.0))
    batch, _ = packed(model, [rng.normal(size=(9, 3))])
    close(occlude(model, batch, [words(9)], tol=1e-9)[0], occlude(model, batch, [words(9)])[0], 0)
