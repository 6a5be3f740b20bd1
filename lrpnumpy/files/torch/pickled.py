"""The description of a pickled PyTorch module: its parts in the order of their definition, their classes and settings.

A module is described from a pickle, where it is an inert record, or from a live one. Either way the description is
a list of parts. The code between them is not in it: only inside an nn.Sequential is it certain what follows what.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lrpnumpy.files import pickles
from lrpnumpy.files.pickles import Pickled
from lrpnumpy.files.safe import Source

# Activations of torch.nn, by the names they have here, and the settings that must be as they are by default.
ACTIVATIONS: dict[str, tuple[str, dict[str, tuple[Any, ...]]]] = {
    "ReLU": ("relu", {}),
    "Tanh": ("tanh", {}),
    "Sigmoid": ("sigmoid", {}),
    "LeakyReLU": ("leaky_relu", {}),
    "ELU": ("elu", {}),
    "SELU": ("selu", {}),
    "GELU": ("gelu", {"approximate": ("none", None, "tanh")}),
    "SiLU": ("silu", {}),
    "Softplus": ("softplus", {"beta": (1,), "threshold": (20,)}),
    "Softsign": ("softsign", {}),
    "Mish": ("mish", {}),
    "Hardsigmoid": ("hard_sigmoid_3", {}),
    "Identity": ("linear", {}),
}
ALPHAS = {"LeakyReLU": ("negative_slope", 0.01), "ELU": ("alpha", 1.0)}  # a setting that may have any value
PROBABILITIES = {"Softmax": "softmax", "LogSoftmax": "softmax"}
NOTHING = ("Dropout", "Dropout1d", "Dropout2d", "AlphaDropout", "FeatureAlphaDropout", "Identity")
LOSSES = ("Loss", "Metric")  # how the names of classes end that are used in training only


@dataclass(frozen=True)
class ModulePart:
    """A module without modules inside it: its name, its class, and its settings."""

    name: str
    kind: str
    settings: dict[str, Any]
    foreign: bool = False  # a class that is not one of torch.nn's

    @property
    def activation(self) -> str | None:
        """Which activation it is, by its name here; None if it is not an activation, or has special settings."""
        if self.odd or self.foreign:
            return None
        if self.kind == "GELU" and self.settings.get("approximate") == "tanh":
            return "gelu_tanh"
        return ACTIVATIONS.get(self.kind, (None,))[0]

    @property
    def alpha(self) -> float | None:
        """The alpha of an activation that has one, unless it is the default."""
        key, default = ALPHAS.get(self.kind, ("", None))
        value = self.settings.get(key, default)
        return None if value == default else value

    @property
    def odd(self) -> dict[str, Any]:
        """The settings of an activation that are not those by default."""
        _, plain = ACTIVATIONS.get(self.kind, (None, {}))
        given = {key: self.settings.get(key, allowed[0]) for key, allowed in plain.items()}
        odd = {key: value for key, value in given.items() if value not in plain[key]}
        if type(self.alpha) not in (float, int, type(None)):
            odd["alpha"] = self.alpha
        return odd

    @property
    def probability(self) -> str | None:
        """Which probability it makes of scores; None over the sequences of a batch."""
        if self.foreign or self.settings.get("dim") == 0:
            return None
        return PROBABILITIES.get(self.kind)

    @property
    def is_nothing(self) -> bool:
        """Whether it does nothing in a trained network."""
        return self.is_loss or (not self.foreign and self.kind in NOTHING)

    @property
    def is_loss(self) -> bool:
        """Whether it is used in training only."""
        return self.kind.endswith(LOSSES)


@dataclass
class Described:
    """A module: its parts in the order of definition, and which follow each other in an nn.Sequential."""

    parts: list[ModulePart] = field(default_factory=list)
    sequences: list[list[str]] = field(default_factory=list)


def inside(name: str, key: Any) -> str:
    """The name of what is called `key` inside a module; the outermost module has no name."""
    return f"{name}.{pickles.text(key)}".removeprefix(".")


def is_module(value: Any) -> bool:
    """Whether a record is of an nn.Module."""
    return isinstance(value, Pickled) and {"_modules", "_parameters"} <= _state(value).keys()


def _state(record: Pickled) -> dict[str, Any]:
    """The attributes of a pickled object by name."""
    state = record.state[0] if isinstance(record.state, tuple) and record.state else record.state
    items = pickles.entries(state) or {}
    return {pickles.text(key): value for key, value in items.items() if isinstance(key, (str, bytes))}


def contents(module: Pickled) -> dict[Any, Any]:
    """The arrays and modules of an nn.Module by name, or all attributes of another object."""
    state = _state(module)
    if "_modules" not in state:
        return state
    found: dict[Any, Any] = {}
    for key in ("_parameters", "_buffers", "_modules"):
        found |= pickles.entries(state.get(key)) or {}
    return found


def describe(source: Source, module: Pickled) -> Described:
    """The description of a pickled module."""
    found = Described()
    _add(source, found, module)
    return found


def _add(source: Source, found: Described, module: Pickled, name: str = "", depth: int = 0) -> list[str]:
    """Add a module and those inside it; the names of the parts that were added."""
    source.budget.level(name, depth)
    source.budget.visit(name)
    state = _state(module)
    place, _, kind = module.name.rpartition(".")
    is_foreign = not place.startswith("torch.nn")
    modules = [(key, part) for key, part in (pickles.entries(state["_modules"]) or {}).items() if is_module(part)]
    if not modules:
        settings = {key: _plain(value) for key, value in state.items() if not key.startswith("_")}
        found.parts.append(ModulePart(name, kind[:80], settings, is_foreign))
        return [name]
    parts = []
    for key, part in modules:
        parts += _add(source, found, part, inside(name, key), depth + 1)
    if kind == "Sequential" and not is_foreign:
        found.sequences.append(parts)
    return parts


def _plain(value: Any) -> Any:
    """A setting: a number, a string, or a short tuple of them."""
    if isinstance(value, tuple) and len(value) <= 4:
        return tuple(map(_plain, value))
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    return "something else"
