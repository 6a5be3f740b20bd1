"""Random networks of up to twelve nodes, drawn by hypothesis from all layers; and records for them."""

from typing import NamedTuple

import networks as nets
import numpy as np
from hypothesis import strategies as st

import lrpnumpy as lrp

STEPS = 6  # of the longest record; none has fewer than SHORTEST
SHORTEST = 4
WIDE = 3
SMOOTH = ("tanh", "sigmoid", "softsign", "gelu", "silu", "elu")


class Value(NamedTuple):
    """What a node may take."""

    name: str
    width: int
    steps: object  # values with the same steps may be joined; None for one vector


class Builder:
    """A network that grows node by node."""

    def __init__(self, draw, rng, others):
        self.draw, self.rng = draw, rng
        self.nodes = []
        self.values = [Value(name, WIDE, None if name == "static" else name) for name in ("x", *others)]
        self.inputs = {value.name: lrp.Input(WIDE, steps=value.steps is not None) for value in self.values}
        self.squared = False

    def pick(self, fits=lambda value: True):
        """One of the values that fit, a recent one more likely."""
        some = [value for value in self.values if fits(value)]
        return self.draw(st.sampled_from([*some, *some[-2:], *some[-1:]])) if some else None

    def series(self):
        return self.pick(lambda value: value.steps is not None)

    def add(self, layer, *inputs, width=None, steps=""):
        """A node; its width and steps are those of the first input unless said."""
        name = f"n{len(self.nodes)}"
        self.nodes.append(lrp.Node(name, layer, tuple(value.name for value in inputs)))
        width = inputs[0].width if width is None else width
        self.values.append(Value(name, width, inputs[0].steps if steps == "" else steps))
        return self.values[-1]

    def array(self, *shape):
        return self.rng.normal(size=shape) / np.sqrt(shape[-1])

    # Each of these adds a node, or none where nothing fits.

    def recurrent(self):
        x = self.series()
        cell = self.draw(st.sampled_from(nets.CELLS))
        if self.draw(st.booleans()):
            made = self.add(nets.two_way(self.rng, x.width, WIDE, "sum", (cell, cell)), x, width=WIDE)
        else:
            made = self.add(cell(self.rng, x.width, WIDE), x, width=WIDE)
        self.values.insert(-1, Value(f"{made.name}:last", WIDE, None))

    def elementwise(self):
        x = self.pick()
        self.add(
            self.draw(
                st.sampled_from(
                    [
                        nets.dense(self.rng, x.width, WIDE, self.draw(st.sampled_from(("linear", "tanh", "relu")))),
                        lrp.layers.Affine(self.rng.uniform(0.5, 2, x.width), self.array(x.width)),
                        lrp.layers.LayerNorm(self.array(x.width) + 1, self.array(x.width), 0.1),
                        lrp.layers.Activation(self.draw(st.sampled_from(SMOOTH))),
                        lrp.layers.Activation("prelu", slopes=self.rng.uniform(0, 0.5, x.width)),
                        lrp.layers.Softmax(
                            "features" if x.steps is None else self.draw(st.sampled_from(("features", "steps")))
                        ),
                    ]
                )
            ),
            x,
        )
        if isinstance(self.nodes[-1].layer, lrp.Dense):
            self.values[-1] = self.values[-1]._replace(width=WIDE)

    def square(self):
        if not self.squared:
            self.squared = True
            self.add(lrp.layers.Square(), self.pick())

    def join(self):
        a = self.pick()
        b = self.pick(lambda value: (value.width, value.steps) == (a.width, a.steps))
        kinds = [
            lrp.layers.Concat(),
            lrp.layers.Add(),
            lrp.layers.Average(),
            lrp.layers.Subtract(),
            *(lrp.layers.Multiply(g) for g in ("first", "second", None)),
        ]
        layer = self.draw(st.sampled_from(kinds))
        self.add(layer, a, b, width=a.width + b.width if isinstance(layer, lrp.layers.Concat) else None)

    def repeat(self):
        vector, like = self.pick(lambda value: value.steps is None), self.series()
        if vector is not None and self.draw(st.booleans()):
            self.add(lrp.layers.Repeat(), vector, like, steps=like.steps)
        elif vector is not None:
            self.add(lrp.layers.Repeat(5), vector, steps=5)

    def move(self):
        x = self.series()
        many = [
            lrp.layers.Reverse(),
            lrp.layers.Slice(0, 2, axis="features"),
            lrp.layers.Slice(step=2),
            lrp.layers.Slice(-1),
            lrp.layers.Reshape(1),
            lrp.layers.Pad(1, 2),
        ]
        layer = self.draw(st.sampled_from(many))
        width = {"Slice": 2 if getattr(layer, "axis", "") == "features" else x.width, "Reshape": 1}.get(
            type(layer).__name__
        )
        same = isinstance(layer, lrp.layers.Reverse) or getattr(layer, "axis", "") == "features"
        if width == 2 and x.width == 1:
            return
        self.add(layer, x, width=width, steps=x.steps if same else (x.steps, str(layer), x.width))

    def window(self):
        x, width = self.series(), self.draw(st.integers(1, 3))
        if self.draw(st.booleans()):
            K = self.rng.normal(size=(WIDE, width, x.width)) / np.sqrt(width * x.width)
            self.add(lrp.layers.Conv1D(K, self.array(WIDE), padding="same", activation="tanh"), x, width=WIDE)
        else:
            kind = self.draw(st.sampled_from([lrp.layers.MaxPool1D, lrp.layers.AvgPool1D]))
            self.add(kind(2, padding="same"), x, steps=(x.steps, "pool"))

    def readout(self):
        x = self.series()
        pools = [
            lrp.layers.AttentionPool(self.array(2), self.array(2, x.width), self.array(2)),
            lrp.layers.AttentionPool(self.array(x.width)),
        ]
        layers = [lrp.layers.Mean(), lrp.layers.Max(), lrp.layers.LastRow(), lrp.layers.Slice(index=0), *pools]
        self.add(self.draw(st.sampled_from(layers)), x, steps=None)

    def attention(self):
        v = self.series()
        q = self.pick(lambda value: value.width == v.width)
        causal = q.steps is not None and self.draw(st.booleans())
        kind = self.draw(st.integers(0, 2))
        if kind == 0:
            self.add(lrp.layers.Attention(0.7, causal), q, v, width=v.width)
        elif kind == 1:
            self.add(lrp.layers.AdditiveAttention(self.array(q.width), causal), q, v, width=v.width)
        else:
            D = v.width
            matrices = [self.array(4, D), self.array(4, D), self.array(4, D), self.array(WIDE, 4)]
            biases = [self.array(len(W)) for W in matrices]
            layer = lrp.layers.MultiHeadAttention(*matrices, *biases, heads=2, causal=causal)
            self.add(layer, q, v, width=WIDE)


KINDS = ("recurrent", "elementwise", "square", "join", "repeat", "move", "window", "readout", "attention")


@st.composite
def graphs(draw, most=12):
    """A network of any layers, with one series, and with or without static features and a second series."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    builder = Builder(draw, rng, draw(st.sampled_from([(), ("static",), ("static", "y")])))
    builder.recurrent()
    for _ in range(draw(st.integers(1, most - 2))):
        getattr(builder, draw(st.sampled_from(KINDS)))()
    top = builder.values[-1]
    if draw(st.booleans()) and top.steps is not None and len(builder.nodes) < most - 1:
        top = builder.add(lrp.layers.Mean(), top, steps=None)
    builder.add(nets.dense(rng, top.width, 2), top, width=2)
    assert len(builder.nodes) <= most
    return lrp.Model(builder.nodes, inputs=builder.inputs, output="linear")


@st.composite
def records(draw, model, count=3):
    """Inputs of several lengths for a network of `graphs`; two series of one record have lengths of their own."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = st.integers(SHORTEST, STEPS)
    return [
        {name: rng.normal(size=(draw(lengths), WIDE) if port.steps else WIDE) for name, port in model.inputs.items()}
        for _ in range(count)
    ]
