"""The request, checked once: method, options, targets, phrases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, is_number, one_of, shown, whole
from lrpnumpy.encode import Encoded
from lrpnumpy.methods import all_options, find
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
    if method is None:
        for name in [name for name in options if name in all_options() and name not in chosen.options()]:
            raise LrpError(
                f"{name} is an option of {', '.join(all_options()[name])}, not of {chosen.name}, the default method of "
                "this model; name the method."
            )
    if options:
        chosen = chosen.with_options(options)
    if (through := getattr(chosen, "through", None)) is not None:
        chosen = replace(chosen, through=checked_through(through, model))  # type: ignore[type-var]
    if (
        unit is not None
        and one_of(unit, "unit", ("step", "feature", None)) == "feature"
        and chosen.feature_relevance == "no"
    ):
        raise LrpError(
            f"unit must be 'step' or None with method {chosen.name!r}, which has no relevance per feature, "
            "got 'feature'."
        )
    if step is None:
        step = -1
    else:
        _check_step(model, step, all_steps)
    against = None if versus is None else class_index(model, versus, "versus")
    plan = chosen.prepare(model, unit)
    keep = plan if isinstance(plan, Propagation) else chosen.keep
    settings = {**chosen.settings(plan), "unit": unit, "versus": against, "step": step}
    checked = Request(chosen, unit, has_features(chosen, unit), against, step, plan, keep, settings)
    if is_plain and (plan is None or isinstance(plan, Propagation)):  # other plans may hold arrays of the model
        model.requests[method, unit] = checked
    return checked


def _check_step(model: Model, step: Any, all_steps: bool) -> None:
    """Raise unless the model has a prediction at this step, as far as one can say before the records are read."""
    if not model.every:
        raise LrpError(f"step must be None unless the model predicts at every step, got step={shown(step)}.")
    if isinstance(step, str) and step == "all" and all_steps:
        return
    if not is_number(step, int):
        also = ""
        if all_steps:
            also = ', or "all"'
        elif isinstance(step, str):
            also = ' here ("all" is for explain)'
        raise LrpError(f"step must be an integer{also}, got {shown(step)}.")


def with_newest(model: Model, request: Request, newest: Any) -> Request:
    """The request for the `newest` steps of every prediction; an error where that needs more than windows."""
    if request.step != "all":
        raise LrpError(f"newest={shown(newest)} must come with step='all': it is for the predictions of all steps.")
    count = whole(newest, "newest", 1)
    if not request.method.takes_windows:
        raise LrpError(f"newest must be None with method {request.method.name!r}, which needs all steps.")
    for node in model.nodes:
        layer, kind = node.layer, type(node.layer).__name__
        if not layer.causal:
            raise LrpError(
                f"newest must be None for this network: a prediction depends on later steps through the layer "
                f"{node.name!r} ({kind})."
            )
        if not layer.by_step and not layer.recurrent:
            raise LrpError(
                f"newest must be None for this network: the layer {node.name!r} ({kind}) reads earlier steps itself; "
                "newest is for recurrent cells and layers that treat every step separately."
            )
    if not model.causal:
        raise LrpError("newest must be None for this network: some of its inputs are not series of steps.")
    return request._replace(newest=count, options={**request.options, "newest": count})


def own_options(methods: Sequence[str | Method | Rule], options: dict[str, Any]) -> list[dict[str, Any]]:
    """For each of several methods those of the options that it has; an option that none of them has is an error."""
    every = [find(method) for method in methods]
    known = all_options()
    for name in options:
        if name not in known:
            raise unknown_option(name, "these methods", known)
        if not any(name in method.options() for method in every):
            raise LrpError(
                f"{name} is an option of {', '.join(known[name])}, not of {', '.join(one.name for one in every)}; "
                "leave it out."
            )
    return [{name: value for name, value in options.items() if name in method.options()} for method in every]


def class_index(model: Model, value: Any, what: str) -> int:
    """A class as its index."""
    if isinstance(value, str):
        if not model.classes:
            raise LrpError(
                f"{what} must be a class from 0 to {model.outputs - 1} (this model has no class names), got {value!r}."
            )
        return model.classes.index(one_of(value, what, model.classes))
    if not is_number(value, int):
        raise LrpError(f"{what} must be a class index or a class name, got {shown(value)}.")
    if not 0 <= value < model.outputs:
        raise LrpError(f"{what} must lie from 0 to {model.outputs - 1}, got {value}.")
    return int(value)


def targets(model: Model, target: Any, count: int) -> np.ndarray | str | None:
    """None (the predicted class), "all", or one class for each of `count` sequences."""
    if target is None or (isinstance(target, str) and target == "all" and "all" not in (model.classes or ())):
        return target
    if isinstance(target, (str, int, np.integer)):
        return np.array([class_index(model, target, "target")] * count, np.int64)
    if hasattr(target, "to_numpy"):  # a column of a frame
        target = target.to_numpy()
    single = isinstance(target, np.ndarray) and not target.ndim
    if single or not isinstance(target, (Sequence, np.ndarray)):
        raise LrpError(
            f"target must be None, a class index or name, 'all', or one class for each sequence, got {shown(target)}"
            + (f"; is it {target.item()!r}?" if single else ".")
        )
    if len(target) != count:
        raise LrpError(f"target must be one class for each of the {count} sequences, got {len(target)}.")
    return np.array([class_index(model, value, f"target of sequence {k}") for k, value in enumerate(target)], np.int64)


def phrases(encoded: Encoded, spans: Any, where: str) -> np.ndarray:
    """Phrases as a checked (V, 2) array of positions among the steps that the network sees."""
    try:
        pairs = spans
        if isinstance(spans, (list, tuple, range)):
            pairs = [(start, stop) for start, stop in spans]  # type: ignore[misc]  # a large range has no pairs
        given = np.asarray(pairs).reshape(len(spans), 2)
        with np.errstate(invalid="ignore"):
            array = given.astype(np.int64, casting="same_kind" if given.dtype.kind not in "uf" else "unsafe")
        if not (given == array).all():
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise LrpError(f"{where}: spans must be a list of pairs (start, stop), got {shown(spans)}.") from None
    length = encoded.length - sum(encoded.added)  # as passed in
    for start, stop in array:
        if not 0 <= start < stop <= length:
            raise LrpError(
                f"{where}: spans must have 0 <= start < stop <= {length}, got ({start}, {stop}); stop is excluded."
            )
    array = np.clip(array + encoded.added[0], 0, encoded.length)
    if encoded.kept is not None:
        array = np.searchsorted(encoded.kept, array)
    if (array[:, 0] == array[:, 1]).any():
        raise LrpError(
            f"{where}: spans must hold at least one step that the network sees, not padding or what is cut off, "
            f"got {shown(spans)}."
        )
    return array
