"""A picture of the inside of a recurrent layer: gates and states of some units over time, below the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lrpnumpy.checks import LrpError, readable, shown
from lrpnumpy.encode import encode
from lrpnumpy.meant import door
from lrpnumpy.model import Model
from lrpnumpy.predict import predict, trace
from lrpnumpy.result import InputPart
from lrpnumpy.show import canvas

UNITS = 3  # number drawn by default
SIGNALS = 5  # of the input
NAMES = {
    "i": "input gate i", "f": "forget gate f", "g": "candidate g", "o": "output gate o", "c": "cell c",
    "z": "update gate z", "r": "reset gate r", "n": "candidate n", "h": "state h",
}  # fmt: skip


@door
def gates(
    model: Model,
    x: Any,
    units: Sequence[int] | None = None,
    layer: str | None = None,
    ax: Axes | None = None,
    width: float = 8.0,
    title: str | None = None,
) -> Figure:
    """Gates and states of chosen units over time, below the input: what `trace` gives for a `model` and an input `x`.

    `layer` is the name of a recurrent layer in the trace ("0", or "0/backward" of two directions), by default that of
    the first. Without `units` the three are drawn whose state varies most. Of the input the first five features are
    drawn, if it is numbers and has the steps of the layer.
    """
    found = trace(model, x)
    layers = [*dict.fromkeys(name.rpartition("/")[0] for name in found if "/" in name)]
    layer = layers[0] if layer is None else str(layer)
    if layer not in layers:
        raise LrpError(f"gates: layer must be one of {', '.join(map(repr, layers))}, got {shown(layer)}.")
    kinds = {name.rpartition("/")[2]: values for name, values in found.items() if name.rpartition("/")[0] == layer}
    T, H = kinds["h"].shape
    chosen = _most_varied(kinds["h"]) if units is None else np.atleast_1d(units)
    if chosen.dtype.kind not in "iu" or chosen.ndim != 1 or not len(chosen) or chosen.min() < 0 or chosen.max() >= H:
        raise LrpError(f"gates: units must be numbers from 0 to {H - 1}, got {shown(units)}.")
    inputs, labels = _inputs(model, x, T)
    groups = [[0.62] * (len(inputs) + len(kinds))]
    ax = canvas.axes_for(ax, width, canvas.stacked_height(groups) + 0.9)
    (places,) = canvas.stack(ax, groups, 0.98)
    style: dict[str, Any] = {"linewidth": 1.1}
    if T == 1:
        style["marker"] = "o"
    for place, (name, values) in zip(places, inputs.items(), strict=False):
        place.plot(values, color="0.5", **style)
        canvas.name_signal(place, name)
    for place, (kind, values) in zip(places[len(inputs) :], kinds.items(), strict=True):
        for k, unit in enumerate(chosen):
            place.plot(values[:, unit], color=f"C{k % 10}", label=f"unit {unit}", **style)
        canvas.name_signal(place, NAMES[kind])
    for place in places:
        canvas.set_labels(place)
    legend: dict[str, Any] = {"ncols": min(8, len(chosen)), "frameon": False, "fontsize": canvas.SMALL}
    places[-1].legend(loc="upper center", bbox_to_anchor=(0.5, -0.55), **legend)
    canvas.mark_steps(places[-1], labels, T)
    kind = type(next(node.layer for node in model.nodes if node.name == layer.partition("/")[0])).__name__
    canvas.set_title(ax, title or f"Gates and states of layer {layer} ({kind}, {H} units)", _score(model, x))
    return canvas.figure_of(ax)


def _score(model: Model, x: Any) -> str:
    """The prediction: f(x) of its class; empty for a network that predicts at every step or has several outputs."""
    scores = predict(model, x)
    if not isinstance(scores, np.ndarray) or scores.ndim != 1:
        return ""
    best = int(np.argmax(scores))
    text = f"f(x) = {float(scores[best]):.4g}"
    if model.classes and len(scores) > 1:
        text += f" ({readable(model.classes[best])})"
    return text


def _most_varied(values: np.ndarray) -> np.ndarray:
    """The columns that vary most, in their order."""
    return np.sort(np.argsort(-values.std(axis=0), kind="stable")[:UNITS])


def _inputs(model: Model, x: Any, T: int) -> tuple[dict[str, np.ndarray], Any]:
    """Signals of the main input by name, if it is numbers, and the labels of its steps; nothing where steps differ."""
    record = encode(model, x)[model.main]
    if record.steps != T:
        return {}, None
    labels = record.labels if record.tokens is None else np.array(record.tokens, object)
    if record.marks is not None:
        part = InputPart(np.empty(record.length), tokens=record.tokens, labels=record.labels, marks=record.marks)
        labels = np.array(part.shown_steps, object)
    if labels is not None and record.kept is not None:
        labels = labels[record.kept]
    if record.x is None:
        return {}, labels
    names = model.features or record.features or [f"x{d}" for d in range(record.x.shape[1])]
    return dict(zip(names[:SIGNALS], record.x.T, strict=False)), labels
