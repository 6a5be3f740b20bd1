"""PyTorch's names and shapes to modules: which arrays belong together, and what they are.

A caller may name modules in `layers`, with settings that a state_dict does not say: "conv(stride=1, padding=1)".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lrpnumpy.files.hints import LayerHint
from lrpnumpy.files.safe import Shape, Source
from lrpnumpy.files.torch.pickled import Described, ModulePart

_RECURRENT = re.compile(r"(weight|bias)_(ih|hh|hr)_l(\d{1,3})(_reverse)?")
_CELL = re.compile(r"(weight|bias)_(ih|hh)")
_KINDS = {4: "lstm", 3: "gru", 1: "rnn"}  # rows of weight_hh for each unit
NAMES = {
    "lstm": "LSTM", "gru": "GRU", "rnn": "RNN", "linear": "Linear", "embedding": "Embedding", "prelu": "PReLU",
    "layernorm": "LayerNorm", "batchnorm": "BatchNorm1d", "conv": "Conv1d",
}  # fmt: skip
_RENAMED = {  # how names end with other writers, and with PyTorch
    "w_ih": "weight_ih", "w_hh": "weight_hh", "b_ih": "bias_ih", "b_hh": "bias_hh", "w": "weight", "b": "bias",
}  # fmt: skip
_RAW = re.compile(r"(weight_hh_l\d{1,3})_raw")  # of AWD-LSTM: the weights before those of training are left out
_LOSSES = re.compile(r"[a-z0-9]*loss(es|fn|func)?|criteri(on|a)[a-z]*|metrics?")  # words in names of losses and metrics
_MEASURES = (  # last words of the names of losses and metrics that may also be names of layers
    "acc", "accuracy", "precision", "recall", "f1", "f1score", "fbeta", "auroc", "auc", "auprc", "confmat", "kappa",
    "bce", "ce", "nll", "mse", "rmse", "mae", "mape", "r2", "r2score", "perplexity",
)  # fmt: skip
_COUNTED = ("pos_weight", "tp", "fp", "tn", "fn", "total", "correct")  # arrays of losses and metrics
_LEARNED = re.compile(r"relu|act")  # names of a PReLU
GATES = ("i", "f", "g", "o")
_UNDESCRIBED = ModulePart("", "", {})  # of a state_dict, which has arrays only


@dataclass(frozen=True)
class Module:
    """Arrays that belong together; `kind` is one of `NAMES`, or matrix where names do not say, or what is refused."""

    name: str
    kind: str
    shapes: Mapping[str, tuple[int, ...]]  # by the name within the module
    depth: int = 0  # stacked layers of a recurrent module
    two_way: bool = False
    end: str = "_l0"  # how the names of its first layer end; those of a cell have no number
    settings: Mapping[str, Any] = field(default_factory=dict)  # from a whole module, or from the caller
    problem: str = ""  # why it is not supported

    @property
    def recurrent(self) -> bool:
        """Whether it has states that go from step to step."""
        return self.kind in _KINDS.values()

    @property
    def linear(self) -> bool:
        """Whether it is a Linear, or may be one."""
        return self.kind in ("linear", "matrix")

    @property
    def inputs(self) -> int:
        """Length of the vectors it takes."""
        if self.kind in ("layernorm", "batchnorm"):
            return self.outputs
        groups = self.settings.get("groups", 1) if self.kind == "conv" else 1
        return self.shapes[f"weight_ih{self.end}" if self.recurrent else "weight"][1] * groups

    @property
    def outputs(self) -> int:
        """Length of the vectors it gives."""
        if self.recurrent:
            return self.shapes[f"weight_hh{self.end}"][1] * (1 + self.two_way)
        if self.kind == "batchnorm":
            return self.shapes["running_mean"][0]
        return self.shapes["weight"][1 if self.kind == "embedding" else 0]

    @property
    def shown(self) -> str:
        """For an error message."""
        name = self.name or "the arrays without prefix"
        if self.problem or self.kind == "prelu":
            return f"{name} ({self.problem or 'PReLU'})"
        return f"{name} ({NAMES.get(self.kind, 'Linear or Embedding')} {self.inputs} to {self.outputs})"


def recognized(names: list[str]) -> bool:
    """Whether some array has the name that PyTorch gives to the weights of a recurrent module."""
    return any(name.endswith(("weight_ih_l0", "weight_ih")) for name in names)


def paths_of(source: Source) -> dict[str, str]:
    """The arrays of a file by the names that PyTorch gives them: enc_w_ih is enc.weight_ih."""
    found = {path.replace("/", "."): path for path in source.names()}
    if not recognized([*found]):
        found = {_renamed(name): path for name, path in found.items()}
    for name in [*found]:
        owner, dot, last = name.rpartition(".")
        if raw := _RAW.fullmatch(last):
            prefix = owner + dot
            inside = f"{prefix}module.{raw[1]}"
            beside = f"{prefix}module.weight_ih{raw[1][9:]}"
            found[inside if beside in found else f"{prefix}{raw[1]}"] = found.pop(name)
    return found


def _renamed(name: str) -> str:
    """The name that PyTorch gives an array of another writer: enc_w_ih is enc.weight_ih, emb is emb.weight."""
    for end, plain in _RENAMED.items():
        owner = name[: -len(end) - 1]
        if owner and name.endswith((f".{end}", f"_{end}")):
            return f"{owner}.{plain}"
    last = name[name.rfind("emb") :]
    if last.startswith("emb") and last.isalpha() and last.islower():
        return f"{name}.weight"
    return name


def _is_for_training(prefix: str, leaf: str, shape: tuple[int, ...]) -> bool:
    """Whether an array belongs to a loss or a metric: train_loss_fn.weight, val_acc.total, bce.pos_weight."""
    if leaf in _COUNTED:
        return True
    for name in prefix.split("."):
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")
        if any(map(_LOSSES.fullmatch, words)):
            return True
        is_layer = leaf == "bias" or leaf.startswith(("weight_", "bias_")) or (leaf == "weight" and len(shape) > 1)
        if words[-1] in _MEASURES and not is_layer:
            return True
    return False


def find(
    source: Source, paths: Mapping[str, str], described: Described | None, unused: list[str]
) -> list[Module]:  # fmt: skip
    """All modules, in the order of the names; the arrays of losses and metrics are added to `unused`."""
    groups: dict[str, dict[str, tuple[int, ...]]] = {}
    parts = {part.name: part for part in reversed(described.parts)} if described is not None else {}
    for name, path in paths.items():
        source.budget.visit(name[:80], 3)
        prefix, _, leaf = name.rpartition(".")
        shape = source.shape(path)
        if _is_for_training(prefix, leaf, shape) or parts.get(prefix, _UNDESCRIBED).is_loss:
            unused.append(name)
        elif leaf != "num_batches_tracked":
            groups.setdefault(prefix, {})[leaf] = shape
    return [_module(source, prefix, shapes, parts.get(prefix, _UNDESCRIBED)) for prefix, shapes in groups.items()]


def called(name: str, modules: Sequence[Any]) -> Any:
    """The module of this name, or the only one whose name ends with it."""
    exact = [module for module in modules if module.name == name]
    ending = exact or [module for module in modules if module.name.endswith(f".{name}")]
    return ending[0] if len(ending) == 1 else None


def _module(source: Source, name: str, shapes: dict[str, tuple[int, ...]], part: ModulePart) -> Module:
    """Arrays as a module of the first kind that they fit, unless a whole module has another class there."""
    ends = {"_l0": _RECURRENT, "": _CELL}
    for end, pattern in ends.items():
        if any(map(pattern.fullmatch, shapes)):
            return _recurrent_module(source, name, shapes, end, part)
    weight, leaves = shapes.get("weight", ()), set(shapes)
    moving, trained = {"running_mean", "running_var"}, {"weight", "bias"}
    vectors = all(len(shape) == 1 and shape == next(iter(shapes.values())) for shape in shapes.values())
    plain = {"weight"} <= leaves <= trained and shapes.get("bias", weight[:1]) == weight[:1] and not part.foreign
    is_learned = part.kind == "PReLU" or weight == (1,) or _LEARNED.search(name.lower())
    rows = {
        "prelu": leaves == {"weight"} and vectors and is_learned and not part.foreign,
        "batchnorm": vectors and moving <= leaves <= moving | trained,
        "layernorm": vectors and (leaves == trained or (leaves == {"weight"} and part.kind == "LayerNorm")),
        "conv": plain and len(weight) == 3 and part.settings.get("padding_mode", "zeros") == "zeros",
        "linear": plain and len(weight) == 2 and ("bias" in leaves or part.kind),
        "embedding": plain and len(weight) == 2 and part.kind,
        "matrix": plain and len(weight) == 2,
    }
    for kind, fits in rows.items():
        if fits and (part.foreign or part.kind in ("", NAMES.get(kind))):
            return Module(name, kind, shapes, settings=part.settings)
    listed = ", ".join(f"{leaf} {shape}" for leaf, shape in list(shapes.items())[:4])
    return Module(name, "other", shapes, problem=part.kind or (f"Conv2d, {listed}" if len(weight) == 4 else listed))


def _recurrent_module(
    source: Source, name: str, shapes: dict[str, tuple[int, ...]], end: str, part: ModulePart
) -> Module:
    depth = 1 + max(int(m[3]) for m in map(_RECURRENT.fullmatch, shapes) if m) if end else 1
    two_way = any(leaf.endswith("_reverse") for leaf in shapes)
    expected = {leaf for k in range(depth) for side in sides(two_way) for leaf in leaves(k, side, shapes, end)}
    if set(shapes) != expected:
        odd = ", ".join(sorted(set(shapes) ^ expected)[:8])
        raise source.error(name, f"must have the arrays of a module of {depth} layers; missing or not known: {odd}")
    rows, P = (*shapes[f"weight_hh{end}"], 0, 0)[:2]  # P features are given
    H = P
    if is_projected(shapes):
        H = (*shapes[f"weight_hr{end}"], 0, 0)[1]
    if not H or rows % H or rows // H not in _KINDS or (is_projected(shapes) and rows != 4 * H):
        raise source.error(name, f"must have weight_hh of 4, 3 or 1 rows for each unit, it has {rows} for {H}")
    for leaf, shape in shapes.items():
        inner = None if leaf.endswith((end, f"{end}_reverse")) else P * (1 + two_way)  # of the first layer, any
        known: dict[str, Shape] = {"weight_ih": (rows, inner), "weight_hh": (rows, P), "weight_hr": (P, H)}
        source.fits(f"{name}.{leaf}", shape, known.get(leaf[:9], (rows,)))
    return Module(name, _KINDS[rows // H], shapes, depth, two_way, end, part.settings)


def is_projected(shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether the output of an LSTM is a projection: proj_size."""
    return any(leaf.startswith("weight_hr") for leaf in shapes)


def sides(two_way: bool) -> tuple[str, ...]:
    """How the names of each direction end."""
    return ("", "_reverse") if two_way else ("",)


def leaves(k: int, side: str, shapes: Mapping[str, tuple[int, ...]], end: str) -> list[str]:
    """The names of the arrays of one layer and direction: weights, then biases, then a projection."""
    number = f"_l{k}{side}" if end else ""
    names = ["weight_ih", "weight_hh"]
    if any(leaf.startswith("bias") for leaf in shapes):
        names += ["bias_ih", "bias_hh"]
    if is_projected(shapes):
        names.append("weight_hr")
    return [f"{name}{number}" for name in names]


# ------------------------------------------------------------------------------------- an LSTM written by hand


def of_gates(source: Source, entry: LayerHint, modules: list[Module]) -> Module:
    """An LSTM whose gates are four Linear modules that take the input and the state, one behind the other."""
    gates = {gate: called(str(entry.settings[gate]), modules) for gate in GATES}
    order = entry.settings.get("order")
    first = gates["i"]
    if any(gate is None or not gate.linear or gate.shapes != first.shapes for gate in gates.values()):
        there = ", ".join(repr(module.name) for module in modules)
        raise source.error("", f"{entry.name}(...) in layers must name four Linear modules of one shape, of {there}")
    H, width = first.shapes["weight"]
    if order not in ("xh", "hx") or width <= H:
        raise source.error("", f"{entry.name}(...) in layers must have order=xh or order=hx, and Linears that fit")
    shapes = {"weight_ih_l0": (4 * H, width - H), "weight_hh_l0": (4 * H, H)}
    return Module(entry.name, "lstm", shapes, 1, settings={"gates": gates, "order": order})


def gates_advice(source: Source, names: list[str]) -> str | None:
    """What to say of a file without recurrent modules that has four Linear modules which may be an LSTM's gates."""
    prefixes = [name.removesuffix(".weight") for name in names if name.endswith(".weight")]
    groups: dict[tuple[int, ...], list[str]] = {}
    for prefix in prefixes:
        groups.setdefault(source.shape(f"{prefix}.weight"), []).append(prefix)
    for shape, alike in groups.items():
        if len(alike) != 4 or len(shape) != 2 or shape[1] <= shape[0]:
            continue
        last = {prefix: prefix.split(".")[-1].lower() for prefix in alike}
        letters = {prefix: re.sub(r"^(w|linear|fc|gate)?_?(?=[ifogc])", "", last[prefix])[:1] for prefix in alike}
        gates = {"i": "i", "f": "f", "g": "gc", "o": "o"}
        found = {gate: next((p for p in alike if letters[p] in names), "...") for gate, names in gates.items()}
        listed = ", ".join(f"{gate}={prefix}" for gate, prefix in found.items())
        rest = "".join(f", '{prefix}'" for prefix in prefixes if prefix not in alike)
        return (
            f"has four Linear modules of one shape, {', '.join(alike)}; if they are the gates of an LSTM, say layers="
            f"['lstm({listed}, order=xh)'{rest}], where order=xh is torch.cat([x, h]) and order=hx torch.cat([h, x])"
        )
    return None
