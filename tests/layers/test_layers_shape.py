"""Layers that move values: golden networks, slow restatements, and the laws of every network."""

import laws
import networks as nets
import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp


def at_steps(rng, layer, wide, D=3, M=4):
    """A layer between two recurrent ones; `wide` is the width that it gives."""
    nodes = [
        lrp.Node("below", nets.lstm(rng, D, M), ("x",)),
        lrp.Node("layer", layer, ("below",)),
        lrp.Node("top", nets.gru(rng, wide, M), ("layer",)),
        lrp.Node("head", nets.dense(rng, M, 2), ("top:last",)),
    ]
    return lrp.Model(nodes)


def to_vector(rng, layer, wide, D=3, M=4):
    """A layer between a recurrent one and the head."""
    nodes = [
        lrp.Node("below", nets.lstm(rng, D, M), ("x",)),
        lrp.Node("layer", layer, ("below",)),
        lrp.Node("head", nets.dense(rng, wide, 2), ("layer",)),
    ]
    return lrp.Model(nodes)


def alone(rng, layer, D=3):
    """The layer on what a Dense layer that changes nothing gives; a recurrent layer is there to make it a model."""
    nodes = [
        lrp.Node("unused", nets.lstm(rng, D, 1), ("x",)),
        lrp.Node("same", lrp.Dense(np.eye(D)), ("x",)),
        lrp.Node("layer", layer, ("same",)),
    ]
    return lrp.Model(nodes)


S = lrp.layers.Slice
SLICES = [
    (S(1), lambda x: x[1:]),
    (S(1, 3), lambda x: x[1:3]),
    (S(stop=-1), lambda x: x[:-1]),
    (S(1, -1), lambda x: x[1:-1]),
    (S(-2), lambda x: x[-2:]),
    (S(-3, -1), lambda x: x[-3:-1]),
    (S(step=2), lambda x: x[::2]),
    (S(1, step=3), lambda x: x[1::3]),
    (S(-4, None, 2), lambda x: x[-4::2]),
    (S(1, 2, axis="features"), lambda x: x[:, 1:2]),
    (S(-2, axis="features"), lambda x: x[:, -2:]),
    (S(step=2, axis="features"), lambda x: x[:, ::2]),
    (S(index=-1, axis="features"), lambda x: x[:, -1:]),
    (S(index=1, axis="features"), lambda x: x[:, 1:2]),
]
PICKS = [(S(index=-1), -1), (S(index=-2), -2), (S(index=0), 0), (S(index=2), 2)]


@pytest.mark.parametrize(("layer", "formula"), SLICES, ids=[str(layer) for layer, _ in SLICES])
def test_slices_are_those_of_python(rng, layer, formula):
    """In a batch of several lengths."""
    xs = [rng.normal(size=(T, 3)) for T in (3, 7, 4, 5)]
    for x, y in zip(xs, lrp.predict_all(alone(rng, layer), xs), strict=True):
        assert (y == formula(x)).all()


@pytest.mark.parametrize(("layer", "index"), PICKS, ids=str)
def test_a_step_is_a_vector(rng, layer, index, tmp_path):
    xs = [rng.normal(size=(T, 3)) for T in (3, 7, 4)]
    assert (lrp.predict_all(alone(rng, layer), xs) == [x[index] for x in xs]).all()
    laws.hold(to_vector(rng, layer, 4), xs, rng, tmp_path)


def test_the_last_step_is_that_of_the_readout(rng):
    cell, head, x = nets.two_way(rng, 3, 4), nets.dense(rng, 8, 2), rng.normal(size=(5, 3))
    nodes = [
        lrp.Node("cell", cell, ("x",)),
        lrp.Node("last", S(index=-1), ("cell",)),
        lrp.Node("head", head, ("last",)),
    ]
    ours, theirs = lrp.Model(nodes), lrp.Model([cell, head], readout="last-row")
    for a, b in zip(
        *(lrp.compare(model, x, nets.every_method(model), target=1) for model in (ours, theirs)), strict=True
    ):
        close(a.relevance, b.relevance, 1e-11)


@pytest.mark.parametrize("layer", [S(1), S(stop=-1), S(-2), S(step=2), S(1, -1)], ids=str)
def test_laws_of_slices_of_steps(rng, layer, tmp_path):
    laws.hold(at_steps(rng, layer, 4), [rng.normal(size=(T, 3)) for T in (4, 3, 6)], rng, tmp_path)


@pytest.mark.parametrize(("layer", "wide"), [(S(1, 3, axis="features"), 2), (S(index=-1, axis="features"), 1)], ids=str)
def test_laws_of_slices_of_features(rng, layer, wide, tmp_path):
    laws.hold(at_steps(rng, layer, wide), [rng.normal(size=(T, 3)) for T in (4, 3, 6)], rng, tmp_path)


def test_laws_of_reverse(rng, tmp_path):
    laws.hold(at_steps(rng, lrp.layers.Reverse(), 4), [rng.normal(size=(T, 3)) for T in (4, 1, 6)], rng, tmp_path)


def test_reverse_makes_a_backward_direction(rng):
    """Explanations of a reversed LSTM are those of the backward direction of a Bidirectional layer."""
    cell, zero = nets.lstm(rng, 3, 4), nets.lstm(rng, 3, 2)
    head = nets.dense(rng, 4, 2)
    nodes = [
        lrp.Node("turned", lrp.layers.Reverse(), ("x",)),
        lrp.Node("lstm", cell, ("turned",)),
        lrp.Node("head", head, ("lstm:last",)),
    ]
    ours = lrp.Model(nodes, inputs={"x": lrp.Input(3)})
    theirs = lrp.Model([lrp.Bidirectional(zero, cell), lrp.Dense(np.hstack([np.zeros((2, 2)), head.V]), head.d)])
    for x in (rng.normal(size=(T, 3)) for T in (1, 5)):
        for a, b in zip(
            *(lrp.compare(model, x, nets.every_method(model), target=1) for model in (ours, theirs)), strict=True
        ):
            close(a.relevance, b.relevance, 1e-10)


def test_laws_of_flatten(rng, tmp_path):
    records = [rng.normal(size=(4, 3)) for _ in range(3)]
    laws.hold(to_vector(rng, lrp.layers.Flatten(4), 16), records, rng, tmp_path, omit=False)
    assert (lrp.predict_all(alone(rng, lrp.layers.Flatten(4)), records) == [x.ravel() for x in records]).all()


def test_laws_of_transpose(rng, tmp_path):
    records = [rng.normal(size=(5, 3)) for _ in range(3)]
    laws.hold(at_steps(rng, lrp.layers.Transpose(5), 5), records, rng, tmp_path, omit=False)
    for x, y in zip(records, lrp.predict_all(alone(rng, lrp.layers.Transpose(5)), records), strict=True):
        assert (y == x.T).all()
    with pytest.raises(lrp.LrpError, match="Transpose: a series must have 5 steps, got 7"):
        lrp.predict(alone(rng, lrp.layers.Transpose(5)), rng.normal(size=(7, 3)))


@pytest.mark.parametrize("ends", [(0, 2), (1, 0), (2, 3)])
def test_laws_of_pad(rng, ends, tmp_path):
    records = [rng.normal(size=(T, 3)) for T in (4, 1, 6)]
    laws.hold(at_steps(rng, lrp.layers.Pad(*ends), 4), records, rng, tmp_path, whole=False)
    for x, y in zip(records, lrp.predict_all(alone(rng, lrp.layers.Pad(*ends)), records), strict=True):
        assert (y == np.pad(x, (ends, (0, 0)))).all()


@pytest.mark.parametrize("ends", [(0, 2), (1, 0), (2, 3)])
def test_laws_of_reflection(rng, ends, tmp_path):
    records = [rng.normal(size=(T, 3)) for T in (4, 7, 6)]
    layer = lrp.layers.Pad(*ends, mode="reflect")
    laws.hold(at_steps(rng, layer, 4), records, rng, tmp_path, omit=False)
    for x, y in zip(records, lrp.predict_all(alone(rng, layer), records), strict=True):
        assert (y == np.pad(x, (ends, (0, 0)), mode="reflect")).all()
    with pytest.raises(lrp.LrpError, match=f"at least {max(ends) + 1} steps"):
        lrp.predict(alone(rng, layer), rng.normal(size=(max(ends), 3)))


@pytest.mark.parametrize(("width", "lengths"), [(8, (4, 2, 6)), (2, (4, 1, 3)), (6, (3, 6, 3)), (4, (3, 1, 2))])
def test_laws_of_reshape(rng, width, lengths, tmp_path):
    """Steps joined, cut, both, and left as they are."""
    records = [rng.normal(size=(T, 3)) for T in lengths]
    laws.hold(at_steps(rng, lrp.layers.Reshape(width), width), records, rng, tmp_path, omit=width in (2, 4))


@pytest.mark.parametrize(("width", "lengths"), [(6, (2, 6, 4)), (1, (4, 1, 3)), (2, (2, 6, 4))])
def test_reshape_is_that_of_numpy(rng, width, lengths):
    xs = [rng.normal(size=(T, 3)) for T in lengths]
    for x, y in zip(xs, lrp.predict_all(alone(rng, lrp.layers.Reshape(width)), xs), strict=True):
        assert (y == x.reshape(-1, width)).all()


def test_biases_that_differ_from_step_to_step(rng):
    """A vector of 12 with biases, cut into four steps: all words together leave nothing irrelevant."""
    nodes = [
        lrp.Node("below", nets.lstm(rng, 3, 4), ("x",)),
        lrp.Node("wide", nets.dense(rng, 4, 12), ("below:last",)),
        lrp.Node("steps", lrp.layers.Reshape(3), ("wide",)),
        lrp.Node("top", nets.lstm(rng, 3, 4), ("steps",)),
        lrp.Node("head", nets.dense(rng, 4, 2), ("top:last",)),
    ]
    laws.hold(lrp.Model(nodes), [rng.normal(size=(T, 3)) for T in (4, 1, 5)], rng)


def decoder(rng, repeat, *inputs):
    """An autoencoder: scores at every step."""
    nodes = [
        lrp.Node("encoder", nets.lstm(rng, 3, 4), ("x",)),
        lrp.Node("repeat", repeat, ("encoder:last", *inputs)),
        lrp.Node("decoder", nets.lstm(rng, 4, 4), ("repeat",)),
        lrp.Node("head", nets.dense(rng, 4, 3), ("decoder",)),
    ]
    return lrp.Model(nodes)


@pytest.mark.parametrize("inputs", [(), ("x",)])
def test_laws_of_repeat(rng, inputs, tmp_path):
    model = decoder(rng, lrp.layers.Repeat(None if inputs else 4), *inputs)
    records = [rng.normal(size=(T, 3)) for T in (5, 1, 4)]
    laws.hold(model, records, rng, tmp_path, target=2)
    assert [len(y) for y in lrp.predict_all(model, records)] == [5 if inputs else 4, 1 if inputs else 4, 4]


def test_golden_autoencoder():
    group = laws.golden("lstm_autoencoder")
    part = group["parameters"]
    nodes = [
        lrp.Node("lstm", lrp.LSTM(**part["lstm"]), ("x",)),
        lrp.Node("repeat", lrp.layers.Repeat(6), ("lstm:last",)),
        lrp.Node("decoder", lrp.LSTM(**part["decoder"]), ("repeat",)),
        lrp.Node("head", lrp.Dense(**part["head"]), ("decoder",)),
    ]
    laws.agrees(lrp.Model(nodes), group, step_of=lambda target: divmod(target, 2))
    nodes[1] = lrp.Node("repeat", lrp.layers.Repeat(), ("lstm:last", "x"))
    laws.agrees(lrp.Model(nodes), group, step_of=lambda target: divmod(target, 2))


def test_the_series_that_gives_the_steps_gets_no_relevance(rng):
    nodes = [
        lrp.Node("repeat", lrp.layers.Repeat(), ("static", "clock")),
        lrp.Node("lstm", nets.lstm(rng, 3, 4), ("repeat",)),
        lrp.Node("head", nets.dense(rng, 4, 2), ("lstm:last",)),
    ]
    model = lrp.Model(nodes, inputs={"clock": lrp.Input(1), "static": lrp.Input(3, steps=False)})
    x = {"clock": rng.normal(size=(4, 1)), "static": rng.normal(size=3)}
    for found in lrp.compare(model, x, nets.every_method(model), eps=0.1):
        close(found.relevance, np.zeros(4), 1e-15, 1)  # of contextual decomposition: differences of equal numbers
        assert (abs(found.inputs["static"].relevance) > 1e-3).all()
    found = lrp.explain(model, x, "occlusion-f", reference="omit")
    f = lrp.predict(model, x) - lrp.predict(model, {**x, "clock": x["clock"][1:]})
    close(found.relevance, np.full(4, f[found.target]))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: S(step=0), "step must be a whole number of at least 1, got 0"),
        (lambda: S(step=-1), "step must be a whole number of at least 1"),
        (lambda: S(1.5), "start must be a whole number, got 1.5"),
        (lambda: S(True), "start must be a whole number, got True"),
        (lambda: S(3, 3), "stop must lie behind start in long series, got 3 and 3"),
        (lambda: S(stop=0), "stop must lie behind start"),
        (lambda: S(-3, 5), "stop must lie behind start"),
        (lambda: S(1, index=2), "index excludes start, stop and step"),
        (lambda: S(axis="time"), "axis must be one of"),
        (lambda: lrp.layers.Repeat(0), "steps must be a whole number of at least 1, got 0"),
        (lambda: lrp.layers.Flatten("4"), "steps must be a whole number of at least 1, got '4'"),
        (lambda: lrp.layers.Reshape(0), "width must be a whole number of at least 1"),
    ],
)
def test_settings_that_are_refused(make, says):
    with pytest.raises(lrp.LrpError, match=says):
        make()


@pytest.mark.parametrize(
    ("layer", "inputs", "says"),
    [
        (
            lrp.layers.Repeat(3),
            ("below",),
            r"inputs of layer layer \(Repeat\) must be one vector for each sequence, got steps",
        ),
        (
            lrp.layers.Repeat(),
            ("below:last",),
            "steps of layer layer .* must be a number, or a second input .*, got neither",
        ),
        (
            lrp.layers.Repeat(3),
            ("below:last", "x"),
            "must be a number, or a second input must be given .* got steps=3 and the",
        ),
        (
            lrp.layers.Repeat(),
            ("below:last", "below:last"),
            "inputs of layer layer .* must have steps, got one vector of 4",
        ),
        (lrp.layers.Flatten(3), ("below:last",), "must have steps, got one vector of 4 numbers of the layer below"),
        (lrp.layers.Reverse(), ("below:last",), "must have steps, got one vector"),
        (S(1), ("below:last",), "must have steps, got one vector"),
        (S(7, axis="features"), ("below",), r"start=7,stop=None of .* must leave at least one of the 4 features"),
        (S(index=4, axis="features"), ("below",), r"index=4 of .* must leave at least one of the 4 features"),
        (
            lrp.layers.Reshape(3),
            ("below:last",),
            "width of layer layer .* must divide the 4 numbers of the layer below .* got 3",
        ),
        (lrp.layers.Reverse(), ("below", "x"), r"inputs of layer layer \(Reverse\) must be \(x\), got 2 of them"),
        (lrp.layers.Repeat(), (), r"must be \(x, like\), got 0 of them"),
    ],
)
def test_sizes_that_do_not_fit(rng, layer, inputs, says):
    with pytest.raises(lrp.LrpError, match=says):
        lrp.Model([lrp.Node("below", nets.lstm(rng, 3, 4), ("x",)), lrp.Node("layer", layer, inputs)])


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        (lrp.layers.Flatten(3), "Flatten: a series must have 3 steps, got 2; this network takes one length only"),
        (lrp.layers.Reshape(4), "Reshape: the numbers of a series must fill steps of 4, got 2 steps of 3"),
        (S(2), "Slice: a series of 2 steps is too short"),
        (S(1, -1), "Slice: a series of 2 steps is too short"),
        (S(-4, -2), "Slice: a series of 2 steps is too short"),
        (S(index=2), "Slice: a series of 2 steps is too short"),
        (S(index=-3), "Slice: a series of 2 steps is too short"),
    ],
)
def test_series_that_are_too_short(rng, layer, says):
    with pytest.raises(lrp.LrpError, match=says):
        lrp.predict(alone(rng, layer), rng.normal(size=(2, 3)))
