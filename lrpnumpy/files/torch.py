"""PyTorch's names and shapes to a Model, whatever holds the arrays: a module, a state_dict or a file.

A state_dict says neither in which order its modules are applied, nor what stands between them, nor how the
steps become one prediction. The order is taken from the shapes where only one fits; the rest the caller says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import LrpError
from lrpnumpy.files.safe import Fields, Source, parse_json
from lrpnumpy.layers import LSTM, Bidirectional, Dense, Embedding, Layer
from lrpnumpy.model import READOUTS, Model

_RECURRENT = re.compile(r"(weight|bias)_(ih|hh|hr)_l(\d{1,3})(_reverse)?")
_MOST = 8  # modules whose order is looked for; more must be named


@dataclass(frozen=True)
class Module:
    """Arrays that belong together; `kind` is lstm, linear, embedding, or matrix where names do not say."""

    name: str
    kind: str
    shapes: Mapping[str, tuple[int, ...]]  # by the name within the module
    depth: int = 0  # stacked layers of an LSTM
    two_way: bool = False

    @property
    def inputs(self) -> int:
        """Length of the vectors it takes."""
        return self.shapes["weight_ih_l0" if self.kind == "lstm" else "weight"][1]

    @property
    def outputs(self) -> int:
        """Length of the vectors it gives."""
        if self.kind == "lstm":
            return self.shapes["weight_hh_l0"][1] * (2 if self.two_way else 1)
        return self.shapes["weight"][1 if self.kind == "embedding" else 0]


@dataclass(frozen=True)
class Said:
    """What the caller, or a remark in the file, says about the network."""

    readout: str
    layers: Sequence[str] | None = None
    activations: Sequence[str] | None = None
    output: str | None = None


def recognised(names: list[str]) -> bool:
    """Whether some array has the name that PyTorch gives to the weights of an LSTM."""
    return any(name.endswith("weight_ih_l0") for name in names)


def said(source: Source, config: Any, readout: str | None) -> Said:
    """What is said by the arguments, by `config`, or by remarks beside the arrays, in this order."""
    given = Fields(source, "config", {} if config is None else config)
    remarks = {key: text for key in ("readout", "layers", "activations", "output") if (text := source.text(key))}
    for key in ("layers", "activations"):
        if key in remarks:
            remarks[key] = parse_json(source, key, remarks[key])
    if unknown := set(given.value) - {"readout", "layers", "activations", "output"}:
        given.refuse(f"may have readout, layers, activations and output, it has {sorted(map(str, unknown))}")
    found = Fields(source, "config", {**remarks, **given.value, **({"readout": readout} if readout else {})})
    if not found.has("readout"):
        listed = ", ".join(f"{name} {source.shape(name)}" for name in source.names()[:20])
        raise source.error(
            "",
            "holds PyTorch arrays, which do not say how the output is read; say readout='last' (h_n, "
            f"each direction's own final state), 'mean', 'max' or 'every'; it has {listed}",
        )
    return Said(
        found.string("readout"),
        found.strings("layers") if found.has("layers") else None,
        found.strings("activations") if found.has("activations") else None,
        found.string("output") if found.has("output") else None,
    )


def read(source: Source, said: Said, kinds: Mapping[str, str] | None = None) -> tuple[Model, list[str]]:
    """The model and what was assumed; `kinds` says which modules are an embedding or linear, where known."""
    if said.readout not in READOUTS:
        raise source.error("", f"readout must be one of {', '.join(READOUTS)}, got {said.readout!r}")
    paths = {path.replace("/", "."): path for path in source.names()}
    modules = _modules(source, paths, kinds or {})
    notes: list[str] = ["PyTorch's gates stand in the order i, f, g, o; its two biases are added"]
    order = _order(source, modules, said, notes)
    return _build(source, paths, order, said, notes), notes


# ------------------------------------------------------------------------------------------- names to modules


def _modules(source: Source, paths: Mapping[str, str], kinds: Mapping[str, str]) -> list[Module]:
    """All modules, in the order of the names; an array that belongs to none is refused."""
    groups: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, path in paths.items():
        prefix, _, leaf = name.rpartition(".")
        groups.setdefault(prefix, {})[leaf] = source.shape(path)
    return [_module(source, prefix, shapes, kinds.get(prefix)) for prefix, shapes in groups.items()]


def _module(source: Source, name: str, shapes: dict[str, tuple[int, ...]], kind: str | None) -> Module:
    if any(map(_RECURRENT.fullmatch, shapes)):
        return _lstm_module(source, name, shapes)
    weight, bias = shapes.get("weight", ()), shapes.get("bias")
    if set(shapes) - {"weight", "bias"} or len(weight) != 2 or (bias is not None and bias != weight[:1]):
        listed = ", ".join(f"{leaf} {shape}" for leaf, shape in list(shapes.items())[:8])
        raise source.error(
            name, f"holds {listed}, which is no LSTM, Linear or Embedding; no other modules are supported"
        )
    return Module(name, kind or ("linear" if bias is not None else "matrix"), shapes)


def _lstm_module(source: Source, name: str, shapes: dict[str, tuple[int, ...]]) -> Module:
    if any("_hr_" in leaf for leaf in shapes):
        raise source.error(name, "has proj_size, which is not supported")
    depth = 1 + max(int(m[3]) for m in map(_RECURRENT.fullmatch, shapes) if m)
    two_way = any(leaf.endswith("_reverse") for leaf in shapes)
    biased = any(leaf.startswith("bias") for leaf in shapes)
    expected = {leaf for k in range(depth) for side in _sides(two_way) for leaf in _leaves(k, side, biased)}
    if set(shapes) != expected:
        odd = ", ".join(sorted(set(shapes) ^ expected)[:8])
        raise source.error(name, f"must have the arrays of an LSTM of {depth} layers; missing or not known: {odd}")
    H = shapes["weight_hh_l0"][-1] if shapes["weight_hh_l0"] else 0
    rows = shapes["weight_hh_l0"][0] if shapes["weight_hh_l0"] else 0
    if rows in (H, 3 * H) and rows:
        raise source.error(name, f"is a {'GRU' if rows == 3 * H else 'plain RNN'}, only LSTM is supported")
    for leaf, shape in shapes.items():
        inner = H if "_hh_" in leaf else None if leaf.endswith(("_l0", "_l0_reverse")) else H * (1 + two_way)
        source.fits(f"{name}.{leaf}", shape, (4 * H, inner) if leaf.startswith("weight") else (4 * H,))
    return Module(name, "lstm", shapes, depth, two_way)


def _sides(two_way: bool) -> tuple[str, ...]:
    return ("", "_reverse") if two_way else ("",)


def _leaves(k: int, side: str, biased: bool) -> list[str]:
    return [f"{what}_{which}_l{k}{side}" for what in ("weight", "bias")[: 1 + biased] for which in ("ih", "hh")]


# ------------------------------------------------------------------------------------------- modules to chain


def _order(source: Source, modules: list[Module], said: Said, notes: list[str]) -> list[Module]:
    """The modules as they are applied: as said, or in the one order in which the shapes fit."""
    named = {module.name: module for module in modules}
    if said.layers is not None:
        if sorted(said.layers) != sorted(named):
            raise source.error("", f"layers must name each of {sorted(named)} once, got {list(said.layers)}")
        found = list(_fitting([named[name] for name in said.layers]))
    else:
        if not 0 < len(modules) <= _MOST:
            raise source.error("", f"has {len(modules)} modules; say layers=[...], their names as they are applied")
        found = [chain for order in permutations(modules) for chain in _fitting(list(order))]
    if len(found) != 1:
        shown = ", ".join(
            f"{m.name or 'the arrays without prefix'} ({m.kind} {m.inputs} to {m.outputs})" for m in modules
        )
        many = "in more than one order; say layers=[...], their names as they are applied" if found else "in no order"
        raise source.error("", f"has modules whose shapes fit {many}: {shown}")
    if said.layers is None and len(modules) > 1:
        notes.append(f"modules are applied in the only order that fits: {', '.join(m.name for m in found[0])}")
    return found[0]


def _fitting(order: list[Module]) -> Iterator[list[Module]]:
    """`order` with the open kinds decided, once for each way in which every module fits the one before it."""
    first = order[0]
    for kind in ("embedding", "linear") if first.kind == "matrix" else (first.kind,):
        rest = [Module(m.name, "linear", m.shapes) if m.kind == "matrix" else m for m in order[1:]]
        found = [Module(first.name, kind, first.shapes, first.depth, first.two_way), *rest]
        if all(m.kind != "embedding" for m in rest) and all(
            a.outputs == b.inputs for a, b in zip(found, rest, strict=False)
        ):
            yield found


def _build(source: Source, paths: Mapping[str, str], order: list[Module], said: Said, notes: list[str]) -> Model:
    linears = [module for module in order if module.kind == "linear"]
    needed = len(linears) - (1 if order[-1].kind == "linear" else 0)
    given = list(said.activations or [])
    if len(given) not in (needed, len(linears)):
        before = ", ".join(module.name for module in linears[:needed])
        raise source.error(
            "", f"must be told the activations after {before or 'no module'}, as activations=[...] of "
            f"{', '.join(ACTIVATIONS)}, got {given}"
        )  # fmt: skip
    after = dict(zip((module.name for module in linears), given, strict=False))
    embedding, layers = None, list[Layer]()

    def array(module: Module, leaf: str) -> np.ndarray | None:
        path = paths[f"{module.name}.{leaf}" if module.name else leaf] if leaf in module.shapes else None
        return None if path is None else source.array(path, module.shapes[leaf])

    for module in order:
        if module.kind == "lstm":
            layers += [_lstm(module, k, array) for k in range(module.depth)]
        elif module.kind == "embedding":
            embedding = Embedding(_there(array(module, "weight")))
        else:
            V, d = _there(array(module, "weight")), array(module, "bias")
            layers.append(Dense(V, d, activation=after.get(module.name, "linear")))
    if said.output is None:
        notes.append("which probability belongs to the scores was not said: softmax of several, none for one")
    return Model(
        tuple(layers),
        embedding=embedding,
        readout=said.readout,  # type: ignore[arg-type]
        output=said.output,  # type: ignore[arg-type]
    )


def _lstm(module: Module, k: int, array: Any) -> Layer:
    sides = []
    for side in _sides(module.two_way):
        U, W, b_x, b_h = (array(module, leaf) for leaf in _leaves(k, side, True))
        H = W.shape[1]
        b = None if b_x is None else (b_x + b_h).reshape(4, H)
        sides.append(LSTM(U.reshape(4, H, -1), W.reshape(4, H, H), b))
    return Bidirectional(sides[0], sides[1]) if module.two_way else sides[0]


def _there(array: np.ndarray | None) -> np.ndarray:
    assert array is not None
    return array


# ------------------------------------------------------------------------------------------------ state_dicts


class StateDict(Source):
    """Arrays that are in memory already."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        super().__init__("state_dict")
        self._arrays = arrays

    def names(self) -> list[str]:
        return list(self._arrays)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._arrays[name].shape

    def array(self, name: str, shape: Any) -> np.ndarray:
        self.fits(name, self._arrays[name].shape, shape)
        return self._arrays[name]


def from_torch(
    module_or_state_dict: Any,
    *,
    readout: str,
    layers: Sequence[str] | None = None,
    activations: Sequence[str] | None = None,
    output: str | None = None,
) -> Model:
    """A Model from a `torch.nn.Module`, or from a state_dict of tensors or NumPy arrays.

    `readout` says what the network does with the LSTM's outputs, and has no default: "last" is h_n, for two
    directions each one's own final state, which `out[:, -1]` is not; "mean" and "max" are over the steps;
    "every" predicts at each step. `layers` names the modules (embedding, LSTM, linear) in the order in which
    they are applied; it may be left out where their shapes allow one order only. `activations` are those
    after each linear module but the last: "linear", "relu" or "tanh". `output` is the probability of
    the scores: "softmax", "sigmoid" or "linear". `proj_size`, GRU and modules of other kinds are refused.
    """
    if isinstance(module_or_state_dict, Mapping):
        state, kinds = module_or_state_dict, {}
    elif hasattr(module_or_state_dict, "state_dict") and hasattr(module_or_state_dict, "named_modules"):
        state, kinds = module_or_state_dict.state_dict(), _kinds(module_or_state_dict)
    else:
        what = type(module_or_state_dict).__name__
        raise LrpError(f"from_torch: the first argument must be a torch.nn.Module or a state_dict, got {what}.")
    source = StateDict({str(name): _numpy(name, value) for name, value in state.items()})
    with source.guard(""):
        return read(source, Said(readout, layers, activations, output), kinds)[0]


def _kinds(module: Any) -> dict[str, str]:
    """Which modules are what, refusing by name those that hold arrays and are not supported."""
    known = {"LSTM": "lstm", "Linear": "linear", "Embedding": "embedding"}
    found = {}
    for name, part in module.named_modules():
        if any(True for _ in part.parameters(recurse=False)) or any(True for _ in part.buffers(recurse=False)):
            kind = type(part).__name__
            if kind not in known:
                raise LrpError(f"from_torch: modules must be LSTM, Linear or Embedding, got {kind} {name!r}.")
            found[name] = known[kind]
    return found


def _numpy(name: Any, value: Any) -> np.ndarray:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) in ("torch.bfloat16", "torch.float16") else value
        value = value.numpy()
    array = np.asarray(value)
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        raise LrpError(f"from_torch: {name} must be an array of floats, got {array.dtype}.")
    return array.astype(np.float32) if array.dtype.itemsize < 4 else array
