"""The request, checked once: method, options, targets, phrases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, is_number, one_of, shown, whole
from lrpnumpy.encode import Encoded
from lrpnumpy.methods import find
from lrpnumpy.methods.base import Method, Request, Unit, has_features, unknown_option
from lrpnumpy.methods.through import checked_through
from lrpnumpy.model import Model
from lrpnumpy.rules import Propagation, Rule


def request(
    model: Model,
    method: str | Method | Rule | None,
    unit: Unit,
    versus: int | str | None,
    step: int | str | None,
    options: dict[str, Any],
    reference: Any = None,
    all_steps: bool = False,
) -> Request:
    """A Request from the arguments of `explain`, or an error that describes what is wrong with them.

    `all_steps` allows step="all".
    """
    is_plain = (method is None or type(method) is str) and (unit is None or type(unit) is str)
    is_plain = is_plain and versus is None and step is None and reference is None and not options
    if is_plain and (method, unit) in model.requests:
        return model.requests[method, unit]
    chosen = find(model.method if method is None else method)
    if reference is not None:
        options = {**options, "reference": reference}
    if options:
        chosen = chosen.with_options(options)
    if (through := getattr(chosen, "through", None)) is not None:
        chosen = replace(chosen, through=checked_through(through, model))  # type: ignore[type-var]
    if unit is not None and one_of(unit, "unit", ("step", "feature")) == "feature" and chosen.feature_relevance == "no":
        raise LrpError(f"unit must be 'step' or None, got 'feature': {chosen.name} has no relevance per feature.")
    if step is None:
        step = -1
    elif not model.every:
        raise LrpError(f"step must be None unless the model predicts at every step, got step={shown(step)}.")
    elif not (isinstance(step, str) and step == "all" and all_steps) and not is_number(step, int):
        raise LrpError(f'step must be an integer, or "all" in explain, got {shown(step)}.')
    against = None if versus is None else class_index(model, versus, "versus")
    plan = chosen.prepare(model, unit)
    keep = plan if isinstance(plan, Propagation) else chosen.keep
    settings = {**chosen.settings(plan), "unit": unit, "versus": against, "step": step}
    checked = Request(chosen, unit, has_features(chosen, unit), against, step, plan, keep, settings)
    if is_plain and (plan is None or isinstance(plan, Propagation)):  # other plans may hold arrays of the model
        model.requests[method, unit] = checked
    return checked


def with_newest(model: Model, request: Request, newest: Any) -> Request:
    """The request for the `newest` steps of every prediction; an error where that needs more than windows."""
    if request.step != "all":
        raise LrpError(f"newest={shown(newest)} must come with step='all': it is for the predictions of all steps.")
    count = whole(newest, "newest", 1)
    if not request.method.takes_windows:
        raise LrpError(f"newest must be None with method {request.method.name!r}, which needs all steps.")
    for node in model.nodes:
        layer = node.layer
        if not layer.causal or not (layer.by_step or layer.recurrent):
            raise LrpError(f"newest must be None: the layer {node.name!r} ({type(layer).__name__}) reads other steps.")
    if not model.causal:
        raise LrpError("newest must be None for this network: some of its inputs are not series of steps.")
    return request._replace(newest=count, options={**request.options, "newest": count})


def own_options(methods: Sequence[Method], options: dict[str, Any]) -> list[dict[str, Any]]:
    """For each of several methods those of the options that it has; an option that none of them has is an error."""
    known = {name: None for method in methods for name in method.options()}
    for name in options:
        if name not in known:
            raise unknown_option(name, ", ".join(method.name for method in methods), known)
    return [{name: value for name, value in options.items() if name in method.options()} for method in methods]


def class_index(model: Model, value: Any, what: str) -> int:
    """A class as its index."""
    if isinstance(value, str):
        return (model.classes or ()).index(one_of(value, what, model.classes or range(model.outputs)))
    if not is_number(value, int) or not 0 <= value < model.outputs:
        raise LrpError(f"{what} must be a class from 0 to {model.outputs - 1}, or its name, got {shown(value)}.")
    return int(value)


def targets(model: Model, target: Any, count: int) -> np.ndarray | str | None:
    """None (the predicted class), "all", or one class for each of `count` sequences."""
    if target is None or (isinstance(target, str) and target == "all" and "all" not in (model.classes or ())):
        return target
    if isinstance(target, (str, int, np.integer)):
        return np.array([class_index(model, target, "target")] * count, np.int64)
    if hasattr(target, "to_numpy"):  # a column of a frame
        target = target.to_numpy()
    if not isinstance(target, (Sequence, np.ndarray)) or getattr(target, "shape", None) == ():
        raise LrpError(f"target must be None, 'all', a class, or one class for each sequence, got {shown(target)}.")
    if len(target) != count:
        raise LrpError(f"target must be one class for each of the {count} sequences, got {len(target)}.")
    return np.array([class_index(model, value, f"target of sequence {k}") for k, value in enumerate(target)], np.int64)


def phrases(encoded: Encoded, spans: Any, where: str) -> np.ndarray:
    """Phrases as a checked (V, 2) array of positions among the steps that the network sees."""
    try:
        pairs = [(start, stop) for start, stop in spans]
    except (TypeError, ValueError):
        pairs = [(None, None)]
    if not isinstance(spans, (list, tuple, np.ndarray)):
        pairs = [(None, None)]
    if not all(is_number(end, int) for pair in pairs for end in pair):
        raise LrpError(f"{where}: spans must be a list of pairs (start, stop), got {shown(spans)}.")
    array = np.array(pairs, np.int64).reshape(-1, 2)
    length = encoded.length - sum(encoded.added)  # as passed in
    for start, stop in array:
        if not 0 <= start < stop <= length:
            raise LrpError(f"{where}: spans must have 0 <= start < stop <= {length}, got ({start}, {stop}).")
    array = np.clip(array + encoded.added[0], 0, encoded.length)
    if encoded.kept is not None:
        array = np.searchsorted(encoded.kept, array)
    if (array[:, 0] == array[:, 1]).any():
        raise LrpError(f"{where}: spans must hold steps that the network sees, not only padding, got {shown(spans)}.")
    return array
