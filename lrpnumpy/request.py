"""What is asked for, checked once: method, options, targets, phrases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from lrpnumpy.batch import Encoded, encode
from lrpnumpy.checks import LrpError, float_array, non_negative, one_of
from lrpnumpy.methods import Method, find
from lrpnumpy.model import Model
from lrpnumpy.rules import Propagation

Unit = Literal["word", "variable"] | None


class Request(NamedTuple):
    """What is asked for, checked."""

    method: Method
    eps: float
    unit: Unit
    hidden: bool
    versus: int | None
    step: int
    baseline: np.ndarray | None
    how: Literal["zero", "omit"]
    tol: float
    share_bias: bool

    @property
    def with_variables(self) -> bool:
        """Whether a value for each variable is asked for."""
        return self.unit == "variable" or (self.unit is None and self.method.variables == "free")

    @property
    def propagation(self) -> Propagation:
        """How messages flow back, for the gradient and LRP."""
        return Propagation(self.method.rule, self.eps, self.share_bias) if self.method.kind == "lrp" else Propagation()

    @property
    def options(self) -> dict[str, Any]:
        """The options that matter to the method, for the record."""
        options: dict[str, Any] = {}
        if self.method.kind == "lrp":
            options = {"eps": self.eps, "share_bias": self.share_bias}
        elif self.method.kind == "occlusion":
            options = {"how": self.how, "tol": self.tol}
            options |= {} if self.baseline is None else {"baseline": self.baseline.tolist()}
        return {**options, "unit": self.unit, "versus": self.versus, "step": self.step}


def request(
    model: Model,
    method: Any,
    eps: Any,
    unit: Any,
    hidden: bool,
    versus: Any,
    step: Any,
    baseline: Any,
    how: Any,
    tol: Any,
    share_bias: bool,
) -> Request:
    """A Request from the arguments of `explain`, or an error that says what is wrong with them."""
    chosen = find(method)
    one_of(unit, "unit", ("word", "variable", None))
    one_of(how, "how", ("zero", "omit"))
    if unit == "variable" and chosen.variables == "no":
        raise LrpError(
            f"unit must be 'word' or None with method {chosen.name!r}, which has no relevance per variable, "
            "got 'variable'."
        )
    if unit == "variable" and how == "omit":
        raise LrpError("how='omit' must have unit='word' or None: a word can be removed, a single variable cannot.")
    if hidden and chosen.kind != "lrp":
        raise LrpError(f"hidden must be False with method {chosen.name!r}: only LRP gives the hidden states relevance.")
    if chosen.name == "occlusion-p" and model.output == "linear":
        raise LrpError(
            "method 'occlusion-p' must have a model with probabilities, got one whose output is 'linear'; "
            "use 'occlusion-f', or build the Model with output='sigmoid'."
        )
    if step is None:
        step = -1
    elif model.readout != "every":
        raise LrpError(
            "step must be None unless the model predicts at every step, "
            f"got step={step!r} with readout {model.readout!r}."
        )
    elif isinstance(step, bool) or not isinstance(step, (int, np.integer)):
        raise LrpError(f"step must be an integer, got {step!r}.")
    return Request(
        method=chosen,
        eps=non_negative(eps, "eps"),
        unit=unit,
        hidden=bool(hidden),
        versus=None if versus is None else class_index(model, versus, "versus"),
        step=int(step),
        baseline=None if baseline is None else _baseline(model, baseline),
        how=how,
        tol=non_negative(tol, "tol"),
        share_bias=bool(share_bias),
    )


def _baseline(model: Model, baseline: Any) -> np.ndarray:
    if isinstance(baseline, str):
        return model.embedding.E[encode(model, [baseline], "baseline").ids[0]]  # type: ignore[union-attr, index]
    return float_array(baseline, "baseline", (model.inputs,), dtype=model.dtype)


def class_index(model: Model, value: Any, what: str) -> int:
    """A class as its index."""
    if isinstance(value, str):
        if not model.classes:
            raise LrpError(
                f"{what} must be a class from 0 to {model.outputs - 1} (this model has no class names), got {value!r}."
            )
        return model.classes.index(one_of(value, what, model.classes))
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise LrpError(f"{what} must be a class index or a class name, got {value!r}.")
    if not 0 <= value < model.outputs:
        raise LrpError(f"{what} must lie from 0 to {model.outputs - 1}, got {value}.")
    return int(value)


def targets(model: Model, target: Any, count: int) -> np.ndarray | str | None:
    """None (the predicted class), "all", or one class for each of `count` sequences."""
    if target is None or (isinstance(target, str) and target == "all" and "all" not in (model.classes or ())):
        return target
    if isinstance(target, (str, int, np.integer)):
        return np.array([class_index(model, target, "target")] * count, np.int64)
    if not isinstance(target, (Sequence, np.ndarray)):
        raise LrpError(
            f"target must be None, a class index or name, 'all', or one class for each sequence, got {target!r}."
        )
    if len(target) != count:
        raise LrpError(f"target must be one class for each of the {count} sequences, got {len(target)}.")
    return np.array([class_index(model, value, f"target of sequence {k}") for k, value in enumerate(target)], np.int64)


def phrases(encoded: Encoded, spans: Any, where: str) -> np.ndarray:
    """Phrases as a checked (V, 2) array of positions among the steps that the network sees."""
    try:
        array = np.asarray(spans, dtype=np.int64).reshape(len(spans), 2)
        if not (np.asarray(spans) == array).all():
            raise ValueError
    except (TypeError, ValueError):
        raise LrpError(f"{where}: spans must be a list of pairs (start, stop) of positions, got {spans!r}.") from None
    for start, stop in array:
        if not 0 <= start < stop <= encoded.length:
            raise LrpError(
                f"{where}: spans must have 0 <= start < stop <= {encoded.length}, "
                f"got ({start}, {stop}); stop is excluded."
            )
    if encoded.kept is not None:
        array = np.searchsorted(encoded.kept, array)
        if (array[:, 0] == array[:, 1]).any():
            raise LrpError(f"{where}: spans must hold at least one step that is not padding, got {spans!r}.")
    return array
