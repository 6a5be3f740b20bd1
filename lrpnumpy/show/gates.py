"""A picture of the inside of a recurrent layer: gates and states of some units over time, below the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lrpnumpy import checks
from lrpnumpy.checks import LrpError
from lrpnumpy.explain import explain
from lrpnumpy.meant import door
from lrpnumpy.model import Model
from lrpnumpy.predict import trace
from lrpnumpy.show import canvas
from lrpnumpy.show.parts import quantity, shown

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
    layer = layers[0] if layer is None else checks.one_of(str(layer), "gates: layer", layers)
    kinds = {name.rpartition("/")[2]: values for name, values in found.items() if name.rpartition("/")[0] == layer}
    T, H = kinds["h"].shape
    chosen: np.ndarray = np.sort(np.argsort(-kinds["h"].std(axis=0), kind="stable")[:UNITS])  # those that vary most
    if units is not None:
        try:
            chosen = np.atleast_1d(units)
        except Exception:  # lists of different lengths, objects of the user's own
            chosen = np.empty(0)
    if chosen.dtype.kind not in "iu" or chosen.ndim != 1 or not len(chosen) or chosen.min() < 0 or chosen.max() >= H:
        raise LrpError(f"gates: units must be numbers from 0 to {H - 1}, got {checks.shown(units)}.")
    e = explain(model, x, "gradient")  # for its inputs and their names
    part = shown(e, "gates")[0]
    is_input = part.values is not None and len(part.values) == T
    inputs = dict(zip(part.features[:SIGNALS], part.values.T, strict=False)) if is_input else {}  # type: ignore[union-attr]
    labels = part.labels
    if e.padding and len(e) != T:  # the layer does not read it
        labels = [e.shown(t) for t in range(len(e)) if t not in {*e.padding}]
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
    canvas.mark_steps(places[-1], labels if labels is not None and len(labels) == T else None, T)
    kind = type(next(node.layer for node in model.nodes if node.name == layer.partition("/")[0])).__name__
    score = "" if model.every else f"f(x) = {quantity(float(e.score), e)}"  # of what is predicted
    if score and e.classes and len(e.scores) > 1:
        score += f" ({checks.readable(e.name_of(e.target))})"
    canvas.set_title(ax, title or f"Gates and states of layer {layer} ({kind}, {H} units)", score)
    return canvas.figure_of(ax)
