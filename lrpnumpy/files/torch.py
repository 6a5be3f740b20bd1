"""PyTorch's names and shapes to a Model, whatever holds the arrays: a module, a state_dict or a file.

A state_dict says neither how its modules are connected, nor what stands between them, nor how the steps become one
prediction. The order is that of the file where the shapes allow it. The last step of a network that reads in one
direction is assumed, and a warning says so. Everything else the caller says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.files.hints import NETWORK, Hints
from lrpnumpy.files.modules import Described, Part
from lrpnumpy.files.safe import Fields, Source, kind_of, parse_json
from lrpnumpy.layers import (
    GRU,
    LSTM,
    RNN,
    Activation,
    Affine,
    Bidirectional,
    Conv1D,
    Dense,
    Embedding,
    Layer,
    LayerNorm,
)  # fmt: skip
from lrpnumpy.model import OUTPUTS, READOUTS, Model

_RECURRENT = re.compile(r"(weight|bias)_(ih|hh|hr)_l(\d{1,3})(_reverse)?")
_CELL = re.compile(r"(weight|bias)_(ih|hh)")
_KINDS = {4: "lstm", 3: "gru", 1: "rnn"}  # rows of weight_hh for each unit
_NAMES = {
    "lstm": "LSTM", "gru": "GRU", "rnn": "RNN", "linear": "Linear", "embedding": "Embedding", "prelu": "PReLU",
    "layernorm": "LayerNorm", "batchnorm": "BatchNorm1d", "conv": "Conv1d",
}  # fmt: skip
_RECURRENT_KINDS = ("lstm", "gru", "rnn")
_NORMS = ("layernorm", "batchnorm")
_EPS = 1e-5  # of PyTorch's norms, unless their module says otherwise
_MOST = 8  # modules whose order is looked for; more must be named
_TRAINING = ("criterion", "loss", "loss_fn", "loss_func")  # modules of this name are used in training only

TWO_WAYS = (
    "reads in two directions, and the file does not say how the steps become a prediction; say readout='last' "
    "(h_n: each direction's own final state, torch.cat([h_n[-2], h_n[-1]], dim=1)), readout='last-row' (out[:, -1]: "
    "the last step, where the backward direction has read a single step) or readout='mean' (out.mean(dim=1))"
)
LAST_STEP = (
    "does not say how the steps become a prediction; the last step is taken (out[:, -1] or h_n[-1] in PyTorch code); "
    "say readout='last' if that is right, or 'mean', 'max' or 'every', or compare with check=(x, y)"
)
ADVICE = "; say layers=[...] with the names of those that are used, in the order in which they are applied"


@dataclass(frozen=True)
class Module:
    """Arrays that belong together; `kind` is one of `_NAMES`, or matrix where names do not say, or what is refused."""

    name: str
    kind: str
    shapes: Mapping[str, tuple[int, ...]]  # by the name within the module
    depth: int = 0  # stacked layers of a recurrent module
    two_way: bool = False
    end: str = "_l0"  # how the names of its first layer end; those of a cell have no number
    settings: Mapping[str, Any] = field(default_factory=dict)  # what a whole module says of itself
    problem: str = ""  # why it is not supported

    @property
    def recurrent(self) -> bool:
        """Whether it has states that go from step to step."""
        return self.kind in _RECURRENT_KINDS

    @property
    def inputs(self) -> int:
        """Length of the vectors it takes."""
        if self.kind in _NORMS:
            return self.outputs
        groups = self.settings.get("groups", 1) if self.kind == "conv" else 1
        return self.shapes[f"weight_ih{self.end}" if self.recurrent else "weight"][1] * groups

    @property
    def outputs(self) -> int:
        """Length of the vectors it gives."""
        if self.recurrent:
            return self.shapes[f"weight_hh{self.end}"][1] * (2 if self.two_way else 1)
        if self.kind == "batchnorm":
            return self.shapes["running_mean"][0]
        return self.shapes["weight"][1 if self.kind == "embedding" else 0]

    @property
    def shown(self) -> str:
        """For an error message."""
        if self.problem:
            return f"{self.name or 'the arrays without prefix'} ({self.problem})"
        if self.kind == "prelu":
            return f"{self.name} (PReLU)"
        kind = _NAMES.get(self.kind, "Linear or Embedding")
        return f"{self.name or 'the arrays without prefix'} ({kind} {self.inputs} to {self.outputs})"


class Found(NamedTuple):
    """A model, what was assumed, and which of it the caller is warned of."""

    model: Model
    notes: list[str]
    warnings: list[str]


def recognised(names: list[str]) -> bool:
    """Whether some array has the name that PyTorch gives to the weights of a recurrent module."""
    return any(name.endswith(("weight_ih_l0", "weight_ih")) for name in names)


def hints(source: Source, config: Any, given: Hints) -> Hints:
    """What is said by the arguments, by `config`, or by remarks beside the arrays, in this order."""
    said = Fields(source, "config", {} if config is None else config)
    remarks = {key: text for key in NETWORK if (text := source.text(key))}
    for key in ("layers", "activations"):
        if key in remarks:
            remarks[key] = parse_json(source, key, remarks[key])
    if unknown := set(said.value) - set(NETWORK):
        said.refuse(f"may have {', '.join(NETWORK[:-1])} and {NETWORK[-1]}, it has {sorted(map(str, unknown))}")
    found = Fields(source, "config", {**remarks, **said.value, **given.given})
    for key, known in (("readout", READOUTS), ("output", OUTPUTS), ("nonlinearity", ("tanh", "relu"))):
        if found.has(key) and found.value[key] not in known:
            raise source.error("", f"{key} must be one of {', '.join(known)}, got {kind_of(found.value[key])}")
    texts: dict[str, Any] = {key: found.string(key) for key in ("readout", "output", "nonlinearity") if found.has(key)}
    lists: dict[str, Any] = {key: found.strings(key) for key in ("layers", "activations") if found.has(key)}
    return Hints(**texts, **lists)


def read(source: Source, said: Hints, described: Described | None = None) -> Found:
    """The model and what was assumed; `described` is what a whole module says of itself."""
    notes: list[str] = []
    end = described.parts[-1] if described is not None and described.parts else None
    if end is not None and end.probability and said.output is None:
        said = replace(said, output=end.probability)
        notes.append(f"{end.name} ({end.kind}), defined last, is taken as the probability of the scores")
    paths = {path.replace("/", "."): path for path in source.names()}
    modules = _modules(source, paths, described, said, notes)
    steps = _order(source, modules, said, described, notes)
    learned = {module.name: module for module in modules if _is_activation(module)}
    steps = _activated(source, steps, said, described, learned, notes)
    return _Build(source, paths, said, notes).model(steps)


# ------------------------------------------------------------------------------------------- names to modules


def _modules(
    source: Source, paths: Mapping[str, str], described: Described | None, said: Hints, notes: list[str]
) -> list[Module]:
    """All modules, in the order of the names; those that are not supported are refused together."""
    groups: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, path in paths.items():
        prefix, _, leaf = name.rpartition(".")
        if leaf == "num_batches_tracked" or prefix.split(".")[-1] in _TRAINING:
            continue
        groups.setdefault(prefix, {})[leaf] = source.shape(path)
    found = [
        _module(source, prefix, shapes, described.part(prefix) if described else None)
        for prefix, shapes in groups.items()
    ]
    if said.layers is not None:
        found = _named(source, found, said.layers, described, notes)
    if wrong := [module.shown for module in found if module.problem]:
        known = "LSTM, GRU, RNN (also their cells), Linear, Embedding, LayerNorm, BatchNorm1d and activations"
        more = f" and {len(wrong) - 20} more" if len(wrong) > 20 else ""
        raise source.error(
            "",
            f"has modules that are not supported: {', '.join(wrong[:20])}{more}; supported are {known}{ADVICE} "
            "if the network does without them",
        )
    return found


def _named(
    source: Source, modules: list[Module], layers: Sequence[str], described: Described | None, notes: list[str]
) -> list[Module]:
    """The modules that the caller names; the others are left out."""
    chosen = [found for name in layers if (found := _called(name, modules)) is not None]
    left = [module.name for module in modules if module not in chosen]
    if left:
        notes.append(f"layers= names other modules, these are left out: {', '.join(left)[:500]}")
    return chosen


def _called(name: str, modules: Sequence[Any]) -> Any:
    """The module of this name, or the only one whose name ends with it."""
    exact = [module for module in modules if module.name == name]
    ending = exact or [module for module in modules if module.name.endswith(f".{name}")]
    return ending[0] if len(ending) == 1 else None


def _module(source: Source, name: str, shapes: dict[str, tuple[int, ...]], part: Part | None) -> Module:
    ends = {"_l0": _RECURRENT, "": _CELL}
    for end, pattern in ends.items():
        if any(map(pattern.fullmatch, shapes)):
            return _recurrent_module(source, name, shapes, end, part)
    weight, bias = shapes.get("weight", ()), shapes.get("bias")
    if (part is None or part.kind == "PReLU") and set(shapes) == {"weight"} and len(weight) == 1:
        return Module(name, "prelu", shapes)
    if (found := _norm_or_conv(name, shapes, part)) is not None:
        return found
    if part is not None and (part.foreign or part.kind not in ("Linear", "Embedding")):
        return Module(name, "other", shapes, problem=part.kind)
    if set(shapes) - {"weight", "bias"} or len(weight) != 2 or (bias is not None and bias != weight[:1]):
        return Module(name, "other", shapes, problem=_guess(shapes))
    kind = part.kind.lower() if part is not None else "linear" if bias is not None else "matrix"
    return Module(name, kind, shapes)


def _norm_or_conv(name: str, shapes: dict[str, tuple[int, ...]], part: Part | None) -> Module | None:
    """A norm, also one that only its arrays tell, or a convolution, whose settings only a whole module tells."""
    kind = part.kind if part is not None and not part.foreign else None
    settings = part.settings if part is not None else {}
    weight = shapes.get("weight")
    vectors = all(len(shape) == 1 and shape == next(iter(shapes.values())) for shape in shapes.values())
    if vectors and {"running_mean", "running_var"} <= set(shapes) <= {"running_mean", "running_var", "weight", "bias"}:
        return Module(name, "batchnorm", shapes, settings=settings) if kind in (None, "BatchNorm1d") else None
    if vectors and (set(shapes) == {"weight", "bias"} or (kind and set(shapes) == {"weight"})):
        return Module(name, "layernorm", shapes, settings=settings) if kind in (None, "LayerNorm") else None
    if kind == "Conv1d" and weight is not None and len(weight) == 3 and settings.get("padding_mode") == "zeros":
        return Module(name, "conv", shapes, settings=settings)
    return None


def _guess(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Which module arrays of these names and shapes may be, for an error message."""
    weight = shapes.get("weight", ())
    listed = ", ".join(f"{leaf} {shape}" for leaf, shape in list(shapes.items())[:4])
    if len(weight) in (3, 4):
        why = ", whose stride and padding a state_dict does not say: save the whole module" if len(weight) == 3 else ""
        return f"Conv{len(weight) - 2}d, {listed}{why}"
    return listed


def _recurrent_module(
    source: Source, name: str, shapes: dict[str, tuple[int, ...]], end: str, part: Part | None
) -> Module:
    if any("_hr_" in leaf for leaf in shapes):
        return Module(name, "other", shapes, problem="LSTM with proj_size")
    depth = 1 + max(int(m[3]) for m in map(_RECURRENT.fullmatch, shapes) if m) if end else 1
    two_way = any(leaf.endswith("_reverse") for leaf in shapes)
    biased = any(leaf.startswith("bias") for leaf in shapes)
    expected = {leaf for k in range(depth) for side in _sides(two_way) for leaf in _leaves(k, side, biased, end)}
    if set(shapes) != expected:
        odd = ", ".join(sorted(set(shapes) ^ expected)[:8])
        raise source.error(name, f"must have the arrays of a module of {depth} layers; missing or not known: {odd}")
    rows, H = (*shapes[f"weight_hh{end}"], 0, 0)[:2]
    if not H or rows % H or rows // H not in _KINDS:
        raise source.error(name, f"must have weight_hh of 4, 3 or 1 rows for each unit, it has {rows} for {H}")
    kind = _KINDS[rows // H]
    for leaf, shape in shapes.items():
        first = leaf.endswith((end, f"{end}_reverse"))
        inner = H if "_hh" in leaf else None if first else H * (1 + two_way)
        source.fits(f"{name}.{leaf}", shape, (rows, inner) if leaf.startswith("weight") else (rows,))
    return Module(name, kind, shapes, depth, two_way, end, part.settings if part is not None else {})


def _sides(two_way: bool) -> tuple[str, ...]:
    return ("", "_reverse") if two_way else ("",)


def _leaves(k: int, side: str, biased: bool, end: str) -> list[str]:
    number = f"_l{k}{side}" if end else ""
    return [f"{what}_{which}{number}" for what in ("weight", "bias")[: 1 + biased] for which in ("ih", "hh")]


# ------------------------------------------------------------------------------------------- modules to chain

Step = Module | str  # a module, or the name of an activation


def _is_activation(step: Step) -> bool:
    """Whether a step works on each number by itself: it fits anywhere."""
    return isinstance(step, str) or step.kind == "prelu"


def _order(
    source: Source, modules: list[Module], said: Hints, described: Described | None, notes: list[str]
) -> list[Step]:
    """The modules as they are applied: as said, as in the file, or in the one order in which the shapes fit."""
    if said.layers is not None:
        return _said_order(source, modules, said.layers, described)
    modules = [module for module in modules if not _is_activation(module)]
    if not modules:
        raise source.error("", "has no modules with arrays")
    found = list(_fitting(modules))
    if len(found) == 1:
        if len(modules) > 1:
            notes.append(f"modules are applied in the order of the file: {', '.join(m.name for m in found[0])}")
        return list(found[0])
    if len(modules) > _MOST:
        raise source.error("", f"has {len(modules)} modules whose order is not clear{ADVICE}: {_listed(modules)}")
    found = found or [chain for order in permutations(modules) for chain in _fitting(list(order))]
    if len(found) != 1:
        many = "more than one order" if found else "no order"
        raise source.error("", f"has modules whose shapes fit in {many}{ADVICE}: {_listed(modules)}")
    notes.append(f"modules are applied in the only order that fits: {', '.join(m.name for m in found[0])}")
    return list(found[0])


def _listed(modules: list[Module]) -> str:
    more = f" and {len(modules) - 20} more" if len(modules) > 20 else ""
    return ", ".join(module.shown for module in modules[:20]) + more


def _said_order(
    source: Source, modules: list[Module], layers: Sequence[str], described: Described | None
) -> list[Step]:
    """The modules and activations that the caller names, in the order of the names."""
    steps: list[Step] = []
    for name in layers:
        module = _called(name, modules)
        part = _called(name, described.parts) if described else None
        if module is not None:
            steps.append(module)
        elif name in ACTIVATIONS:
            steps.append(name)
        elif part is not None and part.activation is not None:
            steps.append(part.activation)
        elif part is None or not part.is_nothing:
            there = ", ".join(repr(m.name) for m in modules)
            raise source.error(
                "", f"layers must name modules of the file, {there}, or activations such as 'relu', got {name[:80]!r}"
            )
    chosen = [step for step in steps if isinstance(step, Module) and not _is_activation(step)]
    found = list(_fitting(chosen))
    if len(found) != 1:
        raise source.error("", f"has modules whose shapes do not fit in the order that layers says: {_listed(chosen)}")
    decided = iter(found[0])
    return [step if _is_activation(step) else next(decided) for step in steps]


def _fitting(order: list[Module]) -> Iterator[list[Module]]:
    """`order` with the open kinds decided, once for each way in which every module fits the one before it."""
    if not order or not any(module.recurrent for module in order):
        return
    first = order[0]
    kinds = ("embedding", "linear") if first.kind == "matrix" else (first.kind,)
    if first.kind == "matrix" and "emb" in first.name.lower():
        kinds = ("embedding",)
    for kind in kinds:
        rest = [replace(m, kind="linear") if m.kind == "matrix" else m for m in order[1:]]
        found = [replace(first, kind=kind), *rest]
        if all(m.kind != "embedding" for m in rest) and all(
            a.outputs == b.inputs for a, b in zip(found, rest, strict=False)
        ):
            yield found


def _activated(
    source: Source,
    steps: list[Step],
    said: Hints,
    described: Described | None,
    learned: Mapping[str, Module],
    notes: list[str],
) -> list[Step]:
    """The chain with the activations in it: those that are said, or that a module says by itself."""
    if any(map(_is_activation, steps)):
        if said.activations is not None:
            raise source.error("", "activations must be left out where layers names activations")
        return steps
    modules = [step for step in steps if isinstance(step, Module)]
    linears = [module for module in modules if module.kind in ("linear", "conv")]
    inner = linears if modules[-1].kind != "linear" else linears[:-1]
    if said.activations is not None:
        given = list(said.activations)
        for name in given:
            if name not in ACTIVATIONS and name not in learned:
                raise source.error("", f"activations must be of {', '.join(ACTIVATIONS)}, got {kind_of(name)}")
        if len(given) not in (len(inner), len(linears)):
            raise _ask(source, inner, given)
        after = dict(zip((module.name for module in linears), given, strict=False))
    elif described is not None:
        placed = said.layers is not None  # then activations that it does not name are not used
        after = _from_description(source, modules, inner, described, learned, placed, notes)
    elif learned and said.layers is None:
        raise _ask_order(source, [*modules, *learned.values()])
    elif inner:
        raise _ask(source, inner, None)
    else:
        after = {}
    found: list[Step] = []
    for module in modules:
        found.append(module)
        if module.name in after:
            found.append(learned.get(after[module.name], after[module.name]))
    return found


def _ask_order(source: Source, modules: list[Module]) -> Exception:
    learned = ", ".join(module.shown for module in modules if _is_activation(module))
    example = ", ".join(repr(module.name) for module in modules)
    return source.error(
        "",
        f"has {learned}, and does not say where it is applied; say layers=[{example}] with every module and "
        "activation in the place where it is applied, or without it where the network does not use it",
    )


def _ask(source: Source, inner: list[Module], given: list[str] | None) -> Exception:
    names = ", ".join(module.name for module in inner) or "no module"
    example = ", ".join(["'relu'"] * len(inner))
    got = "" if given is None else f", got {len(given)}"
    return source.error(
        "",
        f"does not say which activations stand after {names}; say activations=[{example}], one for each, of "
        f"{', '.join(ACTIVATIONS)}{got}",
    )


def _is_harmless(part: Part, described: Described) -> bool:
    """Whether a part without arrays is understood wherever it is applied."""
    if part.probability and part is described.parts[-1]:
        return True
    return not part.foreign and (part.is_nothing or part.activation is not None or part.kind == "Flatten")


def _from_description(
    source: Source,
    modules: list[Module],
    inner: list[Module],
    described: Described,
    learned: Mapping[str, Module],
    placed: bool,
    notes: list[str],
) -> dict[str, str]:
    """The activation after each module, where the order of an nn.Sequential says it; else the caller is asked."""
    after: dict[str, str] = {}
    works = {part.name: part.activation for part in described.parts if part.activation not in (None, "linear")}
    works |= {name: name for name in learned}
    open_parts = {part.name: part for part in described.parts if part.name in works}
    weighted = {module.name for module in modules}
    for sequence in described.sequences:
        for k, name in enumerate(sequence):
            if name not in weighted:
                continue
            following = sequence[k + 1 :]
            until = next((n for n, other in enumerate(following) if other in weighted), None)
            between = [part for other in following[:until] if (part := described.part(other))]
            found = [works[part.name] for part in between if part.name in works]
            plain = [part for part in between if part.is_nothing or part.probability or part.activation == "linear"]
            odd = [part for part in between if part.name not in works and part not in plain]
            if odd or len(found) > 1:
                raise source.error(
                    odd[0].name if odd else name,
                    f"is {odd[0].kind if odd else 'followed by several activations'}, which is not supported{ADVICE}, "
                    "with activations such as 'relu' among them",
                )
            for part in between:
                open_parts.pop(part.name, None)
            if found and found[0] is not None:
                after[name] = found[0]
            elif until is not None:
                after.setdefault(name, "linear")
    foreign = [part for part in described.parts if part.name not in weighted and not _is_harmless(part, described)]
    unknown = [module for module in inner if module.name not in after]
    last = modules[-1]
    if not unknown and len(open_parts) == 1 and last.kind == "linear" and last.name not in after:
        (part,) = open_parts.values()
        if part.activation == "sigmoid" and described.parts[-1] is part:  # a probability, as after a Linear at the end
            after[last.name] = "sigmoid"
            open_parts = {}
            notes.append(f"{part.name} (Sigmoid), defined last, is taken as the probability of the scores")
    if unknown or ((open_parts or foreign) and not placed):
        parts = [] if placed else [*open_parts.values(), *foreign]
        shown = ", ".join(f"{part.name} ({part.kind})" for part in parts[:10])
        listed = {m.name: f"'{m.name}'" + (", 'relu'" if m in unknown and not parts else "") for m in modules}
        example = ", ".join(
            listed.get(p.name, f"'{p.name}'") for p in described.parts if p in parts or p.name in listed
        )
        has = (
            f"has {shown}, and does not say where they are applied"
            if parts
            else (f"does not say which activations stand after {', '.join(m.name for m in unknown)}")
        )
        raise source.error(
            "",
            f"{has}; say layers=[{example}] with every module and activation in the place where it is applied, "
            "or without those that are not used",
        )
    return after


# ---------------------------------------------------------------------------------------------- chain to model


class _Build:
    """The layers of a model, from the arrays of its modules."""

    def __init__(self, source: Source, paths: Mapping[str, str], said: Hints, notes: list[str]) -> None:
        self.source, self.paths, self.said, self.notes = source, paths, said, notes
        self.warnings: list[str] = []

    def model(self, steps: list[Step]) -> Found:
        embedding, layers = None, list[Layer]()
        output = self.said.output
        for k, step in enumerate(steps):
            if isinstance(step, Module) and step.kind in _LAYERS:
                layers.append(_LAYERS[step.kind](self, step))
            elif isinstance(step, str):
                if k == len(steps) - 1 and step == "sigmoid" and output in (None, "sigmoid"):
                    output = "sigmoid"
                    self.note("the sigmoid at the end is taken off: the scores explained are what it is applied to")
                else:
                    layers.append(self.activation(layers, step))
            elif step.recurrent:
                layers += [self.recurrent(step, k) for k in range(step.depth)]
            elif step.kind == "embedding":
                embedding = Embedding(self.array(step, "weight"))
            else:
                d = self.array(step, "bias") if "bias" in step.shapes else None
                layers.append(Dense(self.array(step, "weight"), d))
        two_way = [step for step in steps if isinstance(step, Module) and step.recurrent][-1].two_way
        model = Model(
            tuple(layers),
            embedding=embedding,
            readout=self.readout(two_way),  # type: ignore[arg-type]
            output=output or "linear",  # type: ignore[arg-type]
        )
        return Found(model, self.notes, self.warnings)

    def note(self, text: str) -> None:
        """Remember, once, what was assumed and why."""
        if text not in self.notes:
            self.notes.append(text)

    def assume(self, text: str) -> None:
        """Remember what was assumed, and warn of it."""
        self.note(text)
        self.warnings.append(text)

    def readout(self, two_way: bool) -> str:
        """How the steps become one prediction: as said, or the last step of one direction."""
        if self.said.readout is not None:
            return self.said.readout
        if two_way:
            raise self.source.error("", TWO_WAYS)
        self.assume(LAST_STEP)
        return "last"

    def activation(self, layers: list[Layer], name: str) -> Layer:
        """An activation joins the Dense layer before it; after anything else it is one of its own."""
        if layers and isinstance(layers[-1], Dense) and layers[-1].activation == "linear":
            return replace(layers.pop(), activation=name)  # type: ignore[type-var]
        if not layers:
            raise self.source.error("", f"has the activation {name} before its first layer, which is not supported")
        return Activation(name)

    def prelu(self, module: Module) -> Layer:
        """An activation whose slopes are learned."""
        return Activation("prelu", slopes=self.array(module, "weight"))

    def layernorm(self, module: Module) -> Layer:
        """A LayerNorm over the features of each row."""
        if not module.settings:
            self.note(f"{module.name} has the arrays of a LayerNorm and is taken as one, with PyTorch's eps {_EPS}")
        gamma, beta = (self.array(module, leaf) if leaf in module.shapes else None for leaf in ("weight", "bias"))
        return LayerNorm(gamma, beta, eps=self.eps(module))  # type: ignore[arg-type]

    def batchnorm(self, module: Module) -> Layer:
        """A trained BatchNorm: a factor and a shift for each feature."""
        self.note(f"{module.name} (BatchNorm1d) is s x + t, from its moving averages, with eps {self.eps(module)}")
        names = ("weight", "bias", "running_mean", "running_var")
        gamma, beta, mean, var = (self.array(module, leaf) if leaf in module.shapes else None for leaf in names)
        return Affine.batch_norm(gamma, beta, mean, var, eps=self.eps(module))

    def eps(self, module: Module) -> float:
        """The eps of a norm."""
        found = module.settings.get("eps", _EPS)
        return float(found) if isinstance(found, (int, float)) else _EPS

    def conv(self, module: Module) -> Layer:
        """A convolution over the steps, its channels the features."""
        one = {key: _single(module.settings.get(key, 1)) for key in ("stride", "dilation", "groups")}
        padding = _single(module.settings.get("padding", 0))
        if any(type(n) is not int for n in one.values()) or not (type(padding) is int or padding in ("same", "valid")):
            raise self.source.error(module.name, "is a Conv1d whose settings are not understood")
        K = np.ascontiguousarray(self.array(module, "weight").transpose(0, 2, 1))  # (out, width, in)
        d = self.array(module, "bias") if "bias" in module.shapes else None
        return Conv1D(K, d, padding=padding if isinstance(padding, str) else (padding, padding), **one)

    def array(self, module: Module, leaf: str) -> np.ndarray:
        path = self.paths[f"{module.name}.{leaf}" if module.name else leaf]
        return self.source.array(path, module.shapes[leaf])

    def recurrent(self, module: Module, k: int) -> Layer:
        """One layer of a recurrent module, of one or two directions."""
        sides = []
        biased = any(leaf.startswith("bias") for leaf in module.shapes)
        for side in _sides(module.two_way):
            U, W, *biases = (self.array(module, leaf) for leaf in _leaves(k, side, biased, module.end))
            sides.append(_CELLS[module.kind](self, module, U, W, biases))
        return Bidirectional(sides[0], sides[1]) if module.two_way else sides[0]  # type: ignore[arg-type]

    def lstm(self, module: Module, U: np.ndarray, W: np.ndarray, biases: list[np.ndarray]) -> Layer:
        self.note("PyTorch's gates of an LSTM stand in the order i, f, g, o; its two biases are added")
        H = W.shape[1]
        b = (biases[0] + biases[1]).reshape(4, H) if biases else None
        return LSTM(U.reshape(4, H, -1), W.reshape(4, H, H), b)

    def gru(self, module: Module, U: np.ndarray, W: np.ndarray, biases: list[np.ndarray]) -> Layer:
        self.note("PyTorch's gates of a GRU, r, z, n, are reordered to z, r, n; the biases of r and z are added")
        H, order = W.shape[1], [1, 0, 2]
        b = bn = None
        if biases:
            b_x, b_h = (bias.reshape(3, H) for bias in biases)
            b, bn = np.stack([b_x[1] + b_h[1], b_x[0] + b_h[0], b_x[2]]), b_h[2]
        return GRU(U.reshape(3, H, -1)[order], W.reshape(3, H, H)[order], b, bn)

    def rnn(self, module: Module, U: np.ndarray, W: np.ndarray, biases: list[np.ndarray]) -> Layer:
        said = module.settings.get("nonlinearity") or str(module.settings.get("mode", "")).removeprefix("RNN_").lower()
        F = said or self.said.nonlinearity
        if F not in ("tanh", "relu"):
            F = "tanh"
            text = "does not say the nonlinearity of its RNN; tanh is taken, say nonlinearity='relu' if it is relu"
            if text not in self.warnings:
                self.assume(text)
        return RNN(U, W, biases[0] + biases[1] if biases else None, activation=F)


def _single(setting: Any) -> Any:
    """A setting that is a number, also where it is written as a tuple of one."""
    return setting[0] if isinstance(setting, tuple) and len(setting) == 1 else setting


_LAYERS = {
    "prelu": _Build.prelu,
    "layernorm": _Build.layernorm,
    "batchnorm": _Build.batchnorm,
    "conv": _Build.conv,
}
_CELLS = {"lstm": _Build.lstm, "gru": _Build.gru, "rnn": _Build.rnn}
