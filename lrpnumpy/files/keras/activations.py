"""The activations of Keras: as settings of a layer, and as separate layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.files.build.arithmetic import join
from lrpnumpy.files.build.network import NetworkValue
from lrpnumpy.files.keras.build import PRODUCTS, WEIGHTS, KerasBuild, by_custom
from lrpnumpy.files.keras.config import KerasCall, KerasLayer
from lrpnumpy.files.safe import Fields, nearby
from lrpnumpy.layers import Activation, Softmax, Subtract

PROBABILITIES = ("softmax", "log_softmax", "sigmoid")
OPERATIONS = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "Gelu": "gelu", "Silu": "silu", "Relu6": "relu6"}
PLAIN = ("Activation", "Softmax", "ReLU", "LeakyReLU", "ELU", *OPERATIONS)  # layers that are nothing but an activation


class Function(NamedTuple):
    """One activation: our name of it, its alpha, and the largest number it gives, where it has such."""

    name: str
    alpha: float | None = None
    most: float | None = None


# Activations that a setting can name. Those of hard_sigmoid depend on the version of Keras.
_NAMED = {
    **{name: Function(name) for name in ACTIVATIONS if name not in ("hard_sigmoid", "hard_sigmoid_3", "gelu_tanh")},
    **{name: Function(name) for name in PROBABILITIES},
    "swish": Function("silu"),
    "leaky_relu": Function("leaky_relu", 0.2),  # that of the function; the layer LeakyReLU has another
    "relu6": Function("relu", most=6.0),
}


def function(b: KerasBuild, layer: KerasLayer, s: Fields, key: str = "activation", default: str = "linear") -> Function:
    """The activation of a setting."""
    given: Any = s.value.get(key, default)
    if isinstance(given, dict):
        kind, inner = given.get("class_name"), given.get("config")
        if kind == "function" and isinstance(inner, str):
            given = inner
        elif kind in PLAIN and isinstance(inner, dict):
            if inner.get("axis", -1) not in (-1, [-1]):
                b.refuse(f"{key} must be a Softmax over the features, axis -1, it has {inner['axis']!r:.80}")
            return _of_layer(b, layer, str(kind), Fields(b.source, layer.settings.where, inner))
    name = "linear" if given is None else given
    if name == "hard_sigmoid":
        return Function(_hard_sigmoid(b))
    shown = name if isinstance(name, str) else "a custom function"
    if shown not in _NAMED:
        b.refuse(f"{key} is {shown[:80]}, which is not supported{nearby(shown, _NAMED)}; {by_custom(layer.name)}")
    return _NAMED[shown]


def function_of_cell(b: KerasBuild, layer: KerasLayer, s: Fields, key: str, default: str) -> str:
    """The activation of a cell, which cannot have settings."""
    found = function(b, layer, s, key, default)
    if found.alpha is not None or found.most is not None or found.name not in ACTIVATIONS:
        b.refuse(f"{key} is {found.name} with settings, which is not supported inside a cell")
    return found.name


def _of_layer(b: KerasBuild, layer: KerasLayer, kind: str, s: Fields) -> Function:
    """The function of a layer that is nothing but an activation."""
    if kind == "Gelu" and s.boolean("approximate", True):
        return Function("gelu_tanh")
    if kind in (*OPERATIONS, "Softmax"):
        return _NAMED[OPERATIONS.get(kind, "softmax")]
    if kind == "Activation":
        return function(b, layer, s)
    if kind == "ReLU":
        b.refuse_if(s.value.get("threshold") not in (None, 0), "must have no threshold")
        slope = s.number("negative_slope", 0.0)
        most = s.number("max_value") if s.has("max_value") else None
        return Function("leaky_relu", slope, most) if slope else Function("relu", most=most)
    if kind == "ELU":
        return Function("elu", s.number("alpha", 1.0))
    return Function("leaky_relu", s.number(s.first("negative_slope", "alpha"), 0.3))


def _hard_sigmoid(b: KerasBuild) -> str:
    """Which of the two functions of one name is meant: the version of Keras decides."""
    major = (b.version or "").split(".")[0]
    what = 'hard_sigmoid differs between Keras 2 and 3, and the file stores no version; put "keras_version" into config'
    b.refuse_if(major not in ("1", "2", "3"), what)
    formula, name = ("x/6", "hard_sigmoid_3") if major == "3" else ("0.2 x", "hard_sigmoid")
    b.note(f"hard_sigmoid is clip({formula} + 0.5, 0, 1), as in the Keras {b.version} that wrote the file")
    return name


def activation(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> NetworkValue:
    """A layer that is an activation."""
    layer, x = call.layer, xs[0]
    axis = call.setting("axis", -1)
    b.plain(call.without("axis"))
    if layer.kind == "Softmax" and axis not in (-1, [-1], 2 if x.has_steps else 1):
        if x.has_steps and axis in (1, -2, [1], [-2]):
            x = b.with_steps(layer, x)
            b.skips_padding(x)
            return b.vectors(Softmax("steps"), x)
        b.refuse(f"must have axis -1, or 1 for the steps of a series, it has {axis!r:.80}")
    return apply(b, layer, x, _of_layer(b, layer, layer.kind, layer.settings))


def apply(b: KerasBuild, layer: KerasLayer, x: NetworkValue, given: Function) -> NetworkValue:
    """An activation after a value; a probability is not applied before another layer asks for it."""
    name = given.name
    if name == "linear":
        return x
    if name == "softmax" and x.part_of[:1] == PRODUCTS:
        return replace(x, part_of=(*WEIGHTS, *x.part_of[1:]))
    if name in PROBABILITIES:
        x = b.value(layer, x)
        made = replace(b.rows(x), probability=name)
        return made if b.raw(x) is None else b.taken(made)  # of an input it is applied at once
    label = "" if layer.kind in PLAIN else f"{layer.name}_{name}"
    y = b.each(Activation(name, given.alpha), b.value(layer, x), name=label)
    if given.most is None:
        return y
    # min(F(x), m) = F(x) - relu(F(x) - m)
    above = b.each(Activation("relu"), b.affine(y, t=-given.most))
    return join(b, Subtract(), y, above)


def prelu(b: KerasBuild, call: KerasCall, xs: list[NetworkValue]) -> NetworkValue:
    """Slopes below 0 that were trained, one for each feature."""
    layer, x = call.layer, b.value(call.layer, xs[0])
    shapes = [b.source.shape(path) for path in b.paths(layer).values()]
    if x.has_steps and any(shape[:1] != (1,) for shape in shapes):
        b.refuse("has slopes for every step; only those shared by all steps (shared_axes=[1]) are supported")
    (slopes,) = b.own_arrays(layer, [(1, x.width) if x.has_steps else (x.width,)])
    return b.vectors(Activation("prelu", slopes=slopes.reshape(-1)), x)
