"""A chain of PyTorch's modules to a Model: their arrays in our order of gates, and the readout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lrpnumpy import layers as lrp
from lrpnumpy.files.safe import Source
from lrpnumpy.files.torch.chain import Step, Word, is_branched, single
from lrpnumpy.files.torch.known import KnownNetwork, gru, lstm, rnn
from lrpnumpy.files.torch.modules import GATES, Module, is_projected, leaves, sides
from lrpnumpy.files.torch.pickled import inside
from lrpnumpy.inputs import Input
from lrpnumpy.model import BETWEEN, Model

_EPS = 1e-5  # of PyTorch's norms, by default
TWO_WAYS = (
    "reads in two directions, and the file does not say how the steps become a prediction; say readout='last' "
    "(h_n: each direction's own final state, torch.cat([h_n[-2], h_n[-1]], dim=1)), readout='last-row' (out[:, -1]: "
    "the last step, where the backward direction has read a single step), readout='mean' (out.mean(dim=1)) or "
    "readout='every' (one prediction per step)"
)
LAST_STEP = (
    "the last step is taken as the prediction (out[:, -1] or h_n[-1] in PyTorch code): say readout='last' if that is "
    "right, or 'mean', 'max' or 'every'"
)
NONLINEARITY = "the nonlinearity of the RNN is tanh: say nonlinearity='relu' if it is relu"


class TorchBuild:
    """The layers of a model, from the arrays of its modules."""

    def __init__(
        self, source: Source, paths: Mapping[str, str], said: Any, notes: list[str], assumed: list[str]
    ) -> None:
        self.source, self.paths, self.said, self.notes, self.assumed = source, paths, said, notes, assumed

    def model(self, steps: list[Step]) -> Model:
        """The model of a chain."""
        output, steps = self.output(steps)
        if is_branched(steps):
            return self.graph(steps, output)
        embedding, layers = None, list[lrp.Layer]()
        self.source.budget.layers(sum(max(1, getattr(step, "depth", 1)) for step in steps if step != "linear"))
        for step in steps:
            if is_embedding(step):
                embedding = self.embedding(step)
            elif isinstance(step, str) and step != "linear":
                layers.append(self.activation(layers, step))
            else:
                layers += self.layers_of(step)
        readout = "every"  # with an attention, which is one of the layers
        if not any(isinstance(step, Word) and step.name == "attention" for step in steps):
            readout = self.readout(recurrent_modules(steps)[-1].two_way)
        return Model(layers, embedding=embedding, readout=readout, output=output)  # type: ignore[arg-type]

    def graph(self, steps: list[Step], output: str) -> Model:
        """The model of what is more than a chain: an entry takes what the one before it gives, a join what it names."""
        net = KnownNetwork(self.source)
        values: dict[str, str] = {}
        value, top = "", recurrent_modules(steps)[-1]
        for step in steps:
            name = getattr(step, "name", "")
            if not value and not is_embedding(step):
                value = net.entry(Input(next(one.inputs for one in steps if isinstance(one, Module))), "x")
            if is_embedding(step):
                value = net.entry(Input(embedding=self.embedding(step)), name)
            elif isinstance(step, Module) and step.recurrent:
                for k in range(step.depth):
                    value = net.put(self.recurrent(step, k), value, *self.starts(step, values), name=name)
            elif isinstance(step, Word) and step.name == "concat":
                value = net.put(lrp.Concat(), *(self.value(values, str(one)) for one in step.settings.values()))
            else:
                for layer in self.layers_of(step, net.sizes[value].width):
                    value = net.put(layer, value, name=name)
            values[name] = value
            if step is top:
                value = self.read(net, value, top)
        taken = {one.partition(":")[0] for node in net.nodes.values() for one in (*node.inputs, value)}
        if left := [name for name in (*net.ports, *net.nodes) if name not in taken]:
            raise self.source.error("", f"layers must use all that it names, nothing takes what {left[0]!r} gives")
        return Model(tuple(net.nodes.values()), inputs=net.ports, result=value, output=output)  # type: ignore[arg-type]

    def value(self, values: Mapping[str, str], name: str) -> str:
        """What an entry of `layers` gives that another one names."""
        if name not in values:
            raise self.source.error("", f"layers must name {name[:80]!r} before it is used, it has {', '.join(values)}")
        return values[name]

    def starts(self, module: Module, values: Mapping[str, str]) -> list[str]:
        """The values that a module starts with: the final states of another one."""
        if "start" not in module.settings:
            return []
        if module.depth > 1 or module.two_way:
            raise self.source.error(module.name, "has several layers or directions; start= is supported for one only")
        before = self.value(values, str(module.settings["start"]))
        return [f"{before}:{state}" for state in ("last", "cell")[: 1 + (module.kind == "lstm")]]

    def read(self, net: KnownNetwork, value: str, top: Module) -> str:
        """The value after the last recurrent module."""
        readout = self.readout(top.two_way)
        if readout == "last":
            return f"{value}:last"
        if readout in BETWEEN:
            return net.put(BETWEEN[readout], value)
        return value

    def layers_of(self, step: Step, width: int = 0) -> list[lrp.Layer]:
        """The layers of an entry that takes vectors of this width."""
        if step == "linear":
            return []
        if isinstance(step, str):
            return [lrp.Activation(step)]
        if isinstance(step, Word):
            return self.word(step, width)
        if step.recurrent:
            return [self.recurrent(step, k) for k in range(step.depth)]
        return [getattr(self, step.kind)(step)]

    def word(self, word: Word, width: int) -> list[lrp.Layer]:
        """What `layers` names that has no arrays."""
        if word.name == "magnitude":  # sqrt(a a + b b) of the first half a of a vector and the second half b
            if width % 2:
                raise self.source.error("", f"has {width} features at a magnitude in layers, which takes two halves")
            half = np.eye(width // 2, dtype=np.float32)
            return [lrp.Square(), lrp.Dense(np.hstack([half, half])), lrp.Activation("sqrt")]
        if word.name == "attention":
            return [self.attention(**word.settings)]
        if word.name in ("maxpool", "avgpool"):
            return self.pool(word.name, **word.settings)
        if "alpha" in word.settings:
            return [lrp.Activation(word.name, **word.settings)]
        return [{"repeat": lrp.Repeat, "pad": lrp.Pad}[word.name](**word.settings)]

    def output(self, steps: list[Step]) -> tuple[str, list[Step]]:
        """Which probability belongs to the scores, and the chain without a sigmoid at its end."""
        output = self.said.output
        if steps[-1] == "sigmoid" and output in (None, "sigmoid"):
            self.notes.append("the sigmoid at the end is taken off: the scores explained are what it is applied to")
            return "sigmoid", steps[:-1]
        return output or "linear", steps

    def readout(self, two_way: bool) -> str:
        """How the steps become one prediction: as said, or the last step of one direction."""
        if self.said.readout is not None:
            return self.said.readout
        if two_way:
            raise self.source.error("", TWO_WAYS)
        self.assumed.append(LAST_STEP)
        return "last"

    def activation(self, layers: list[lrp.Layer], name: str) -> lrp.Layer:
        """An activation joins the Dense layer before it; after anything else it is a separate layer."""
        if layers and isinstance(layers[-1], lrp.Dense) and layers[-1].activation == "linear":
            return replace(layers.pop(), activation=name)
        if not layers:
            raise self.source.error("", f"has the activation {name} before its first layer, which is not supported")
        return lrp.Activation(name)

    def pool(
        self, name: str, size: int, stride: int | None = None, padding: int = 0, count_include_pad: int = 1
    ) -> list[lrp.Layer]:
        """A pool over a few steps; the zeros around them count in a mean, unless count_include_pad=0."""
        if name == "maxpool":
            return [lrp.MaxPool1D(size, stride, (padding, padding))]
        if padding and count_include_pad:
            return [lrp.Pad(padding, padding), lrp.AvgPool1D(size, stride)]
        return [lrp.AvgPool1D(size, stride, (padding, padding))]

    def attention(self, inner: Module | None, score: Module) -> lrp.Layer:
        """A sum of the steps, weighted by a softmax."""
        v, c = self.array(score, "weight")[0], self.optional(score, "bias")
        shown = score.name if inner is None else f"{score.name}(tanh({inner.name}))"
        self.assumed.append(f"the steps are weighted by the softmax over the steps of {shown}")
        W, b = (None, None) if inner is None else (self.array(inner, "weight"), self.optional(inner, "bias"))
        return lrp.AttentionPool(v, W, b, 0.0 if c is None else float(c[0]))

    def embedding(self, module: Any) -> lrp.Embedding:
        """An Embedding; vectors longer than its max_norm are shortened as PyTorch does on use."""
        self.assumed.append("no token id is skipped as padding")
        E = self.array(module, "weight")
        most = module.settings.get("max_norm")
        if most is not None:
            lengths = np.linalg.norm(E, float(module.settings.get("norm_type", 2)), axis=1, keepdims=True)
            E = np.where(lengths > most, E * (most / (lengths + 1e-7)), E).astype(E.dtype)
        return lrp.Embedding(E)

    def linear(self, module: Module) -> lrp.Layer:
        """A Linear."""
        return lrp.Dense(self.array(module, "weight"), self.optional(module, "bias"))

    def prelu(self, module: Module) -> lrp.Layer:
        """An activation whose slopes are learned."""
        return lrp.Activation("prelu", slopes=self.array(module, "weight"))

    def layernorm(self, module: Module) -> lrp.Layer:
        """A LayerNorm over the features of each row."""
        gamma, beta = (self.optional(module, leaf) for leaf in ("weight", "bias"))
        return lrp.LayerNorm(gamma, beta, eps=self.eps(module, "LayerNorm"))  # type: ignore[arg-type]

    def batchnorm(self, module: Module) -> lrp.Layer:
        """A trained BatchNorm: a factor and a shift for each feature."""
        eps = self.eps(module, "BatchNorm1d")
        self.notes.append(f"{module.name} (BatchNorm1d) is s x + t, from its moving averages, with eps {eps}")
        names = ("weight", "bias", "running_mean", "running_var")
        gamma, beta, mean, var = (self.optional(module, leaf) for leaf in names)
        return lrp.Affine.batch_norm(gamma, beta, mean, var, eps=eps)

    def eps(self, module: Module, kind: str) -> float:
        """The eps of a norm."""
        if not module.settings:
            self.assumed.append(f"{module.name} is a {kind} with PyTorch's eps {_EPS}")
        found = module.settings.get("eps", _EPS)
        return float(found) if isinstance(found, (int, float)) else _EPS

    def conv(self, module: Module) -> lrp.Layer:
        """A convolution over the steps, its channels the features."""
        if not module.settings:
            self.assumed.append(f"{module.name} is a Conv1d with stride 1 and without padding")
        one = {key: single(module.settings.get(key, 1)) for key in ("stride", "dilation", "groups")}
        padding = single(module.settings.get("padding", 0))
        if any(type(n) is not int for n in one.values()) or not (type(padding) is int or padding in ("same", "valid")):
            raise self.source.error(module.name, "is a Conv1d whose settings are not understood")
        K = np.ascontiguousarray(self.array(module, "weight").transpose(0, 2, 1))  # (out, width, in)
        d = self.optional(module, "bias")
        if K.shape[1] == 1 and padding in (0, "same", "valid") and set(one.values()) == {1}:
            return lrp.Dense(K[:, 0], d)  # also after a readout, where there are no steps
        return lrp.Conv1D(K, d, padding=padding if isinstance(padding, str) else (padding, padding), **one)

    def optional(self, module: Module, leaf: str) -> np.ndarray | None:
        """One array of a module, if it has it."""
        return self.array(module, leaf) if leaf in module.shapes else None

    def array(self, module: Module, leaf: str) -> np.ndarray:
        """One array of a module."""
        return self.source.array(self.paths[inside(module.name, leaf)], module.shapes[leaf])

    def recurrent(self, module: Module, k: int) -> lrp.Layer:
        """One layer of a recurrent module, of one or two directions."""
        if "gates" in module.settings:
            return self.gates(module)
        found = []
        for side in sides(module.two_way):
            U, W, *others = (self.array(module, leaf) for leaf in leaves(k, side, module.shapes, module.end))
            projection = others.pop() if is_projected(module.shapes) else None
            found.append(self.cell(module, U, W, others, projection))
        if module.two_way:
            return lrp.Bidirectional(found[0], found[1])
        return found[0]

    def cell(
        self, module: Module, U: np.ndarray, W: np.ndarray, biases: list[np.ndarray], projection: np.ndarray | None
    ) -> lrp.Cell:
        """One direction of one layer."""
        if module.kind == "lstm":
            self.notes.append("PyTorch's gates of an LSTM are in the order i, f, g, o; its two biases are added")
            return lstm(U, W, biases, projection)
        if module.kind == "gru":
            self.notes.append(
                "PyTorch's gates of a GRU, r, z, n, are reordered to z, r, n; the biases of r and z are added"
            )
            return gru(U, W, biases)
        said = module.settings.get("nonlinearity") or str(module.settings.get("mode", "")).removeprefix("RNN_").lower()
        F = said or self.said.nonlinearity
        if F not in ("tanh", "relu"):
            F = "tanh"
            self.assumed.append(NONLINEARITY)
        return rnn(U, W, biases, F)

    def gates(self, module: Module) -> lrp.Layer:
        """An LSTM from one Linear for each gate, which takes input and state one behind the other."""
        parts = [module.settings["gates"][gate] for gate in GATES]
        both = np.stack([self.array(part, "weight") for part in parts])  # (4, H, D + H)
        b = None
        if "bias" in parts[0].shapes:
            b = np.stack([self.array(part, "bias") for part in parts])
        H = both.shape[1]
        U, W = both[..., :-H], both[..., -H:]
        if module.settings["order"] == "hx":
            U, W = both[..., H:], both[..., :H]
        self.notes.append(
            f"{module.name} is an LSTM whose gates i, f, g, o are {', '.join(part.name for part in parts)}"
        )
        return lrp.LSTM(U, W, b)


def is_embedding(step: Step) -> bool:
    """Whether a step is an Embedding."""
    return isinstance(step, Module) and step.kind == "embedding"


def recurrent_modules(steps: list[Step]) -> list[Module]:
    """Those of a chain."""
    return [step for step in steps if isinstance(step, Module) and step.recurrent]
