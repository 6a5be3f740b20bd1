"""Laws of contextual decomposition, on networks of every kind: the parts of every layer, and whole sentences."""

import networks as nets
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networks import close

import lrpnumpy as lrp
from lrpnumpy import passes
from lrpnumpy.encode import encode_all, packed
from lrpnumpy.layers import stacked as engine
from lrpnumpy.methods.decomposition import decompose, phrases_of


def traced(model, xs):
    """A forward pass; sequences must come longest first."""
    return passes.forward(model, packed(model, encode_all(model, xs)), "trace")


def parts_of(model, xs, spans):
    """Parts of the scores of each sequence."""
    return decompose(traced(model, xs), spans)


def layers_of(model, x, spans):
    """(beta, gamma, delta) of what each layer gives, for each phrase: (V, T, M), or (V, 1, M) from the readout on."""
    trace = traced(model, [x])
    start, stop = np.asarray(spans).T.copy()
    found, values = {}, {}
    for name, ran in trace.ran.items():
        values |= {name + key: y for key, y in zip(model.wanted[name], ran.outputs, strict=True)}
    for name, part in passes.decompose(trace, phrases_of(trace, model.main, np.zeros_like(start), start, stop)):
        true = part.true(values[name], part.beta.batch)
        beta = np.stack(part.beta.batch.split(part.beta.rows))
        delta = np.broadcast_to(part.delta, beta.shape)
        found[name] = beta, np.stack(part.beta.batch.split(true)) - beta - delta, delta
    return found


@st.composite
def phrases(draw, T):
    """Some phrases [start, stop) of a sequence."""
    start = st.integers(0, T - 1)
    pairs = start.flatmap(lambda a: st.tuples(st.just(a), st.integers(a + 1, T)))
    return np.array(draw(st.lists(pairs, min_size=1, max_size=4)))


def law_every_layer_adds_up(model, x, spans):
    """beta + gamma + delta is the activation of every layer, and each is what the literal program finds."""
    found = layers_of(model, x, spans)
    judge = nets.plain(model)
    true = oracle.forward(judge, x)
    layers = [node for node in model.nodes if node.name != "readout"]  # the oracle's readout is part of the cell below
    top = max(k for k, node in enumerate(layers) if nets.is_recurrent(node.layer))
    for v, span in enumerate(spans):
        literal = oracle.decompose(judge, x, tuple(map(int, span)))["layers"]
        for k, node in enumerate(layers):
            name = node.name
            if k == top:  # the oracle's last recurrent layer gives what the readout gives
                name = f"{k}:last" if f"{k}:last" in found else "readout"
            parts = [part[v] for part in found[name]]
            theirs = literal[k]["y"]
            unit = max(1.0, np.abs(theirs).max())
            close(parts, theirs, 1e-10, unit)
            close(sum(parts), true[k]["y"], 1e-10, unit)


@given(st.data())
@nets.examples(60)
def test_every_layer_adds_up(data):
    model = data.draw(nets.networks(readouts=("last", "last-row", "mean", "max")))
    x = data.draw(nets.inputs(model))
    law_every_layer_adds_up(model, x, data.draw(phrases(len(x))))


def law_a_whole_sentence_leaves_nothing_irrelevant(model, x):
    (found,) = parts_of(model, [x], [np.array([[0, len(x)]])])
    unit = max(1.0, np.abs(found.relevant).max())
    assert np.abs(found.irrelevant).max() <= 1e-10 * unit


@given(st.data())
def test_a_whole_sentence_leaves_nothing_irrelevant(data):
    """With the initial states at zero, which belong to the irrelevant part; whatever the activations are at 0."""
    model = data.draw(nets.networks(state=False))
    law_a_whole_sentence_leaves_nothing_irrelevant(model, data.draw(nets.inputs(model)))


@given(st.data())
def test_a_batch_gives_what_single_calls_give(data):
    model = data.draw(nets.networks())
    xs = sorted(data.draw(nets.inputs(model, count=data.draw(st.integers(1, 5)))), key=len, reverse=True)
    spans = [data.draw(phrases(len(x))) for x in xs]
    for x, span, many in zip(xs, spans, parts_of(model, xs, spans), strict=True):
        (one,) = parts_of(model, [x], [span])
        for ours, theirs in ((many.relevant, one.relevant), (many.irrelevant, one.irrelevant), (many.bias, one.bias)):
            close(ours, theirs, 1e-11, max(1.0, np.abs(one.relevant).max()))


@pytest.mark.compiled
@pytest.mark.parametrize("block", [1, 300, 2000])
def test_blocks_of_any_size(monkeypatch, rng, block):
    """Of a few variants or of many, of one sequence or of several; words and longer phrases."""
    model = lrp.Model([nets.two_way(rng, 3, 12), nets.dense(rng, 24, 2)])
    xs = [rng.normal(size=(T, 3)) for T in (31, 30, 30, 9, 1)]
    spans = [np.array([(a, min(a + 1 + a % 3, len(x))) for a in range(len(x))]) for x in xs]
    whole = parts_of(model, xs, spans)
    monkeypatch.setattr(engine, "BLOCK", block)
    for x, span, one, many in zip(xs, spans, parts_of(model, xs, spans), whole, strict=True):
        close(one.relevant, many.relevant, 1e-13)
        close(parts_of(model, [x], [span])[0].relevant, many.relevant, 1e-13)


def test_the_laws_can_fail(monkeypatch, rng):
    """A relevant part that is one per cent too large breaks both."""
    right = lrp.LSTM.decomposed

    def wrong(*arguments):
        return right(*arguments) * 1.01

    monkeypatch.setattr(lrp.LSTM, "decomposed", wrong)
    model, x = lrp.Model([nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)]), rng.normal(size=(5, 3))
    with pytest.raises(AssertionError):
        law_every_layer_adds_up(model, x, np.array([[1, 3]]))
    with pytest.raises(AssertionError):
        law_a_whole_sentence_leaves_nothing_irrelevant(model, x)
