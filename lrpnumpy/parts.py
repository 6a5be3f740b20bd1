"""Relevance of the parts of an input that adds up from several: bands of frequencies, trend and season, any arrays.

    x = sum_k p_k,   R = m (x - x0)      part k receives m p_k, and the first one the rest, m (p_0 - x0)

m are the multipliers of the method. The parts add up to the relevance, and the ledger stays as it is (after Vielhaben
et al. 2024, Explainable AI for time series via virtual inspection layers, without a layer, whose eps would keep some).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from lrpnumpy.checks import LrpError, entries, is_number, one_of, shown, whole
from lrpnumpy.encode import EncodedRecord, packed
from lrpnumpy.kernels import compile
from lrpnumpy.meant import door
from lrpnumpy.methods.base import PackedRecords, question_of
from lrpnumpy.methods.reference import vectors
from lrpnumpy.packed import Packed
from lrpnumpy.passes import path_of
from lrpnumpy.result import Explanation, InputPart

TINY = 1e-100  # in place of an input that is 0: LRP's multiplier is relevance over value
PERIODS = 1000  # that bands are cut at
CLOSE = 1e-5  # of the largest value: how far parts may miss their sum
Values = dict[str, np.ndarray]  # by input: (T, D)


@door
def decompose(
    e: Explanation,
    parts: Mapping[str, Any] | Callable[..., Any] | None = None,
    *,
    periods: Sequence[float] | None = None,
    season: int | None = None,
    by: Literal["feature", "part"] = "feature",
) -> Explanation:
    """The same explanation with each feature divided into parts of the input, such as trend and season.

    The parts of a feature add up to its relevance, and the ledger is unchanged. The reference (0 for LRP and gradient x
    input, which is the mean if the model scales its inputs) is subtracted from the first part.

    e: an explanation by gradient x input, LRP, DeepLIFT or integrated gradients, as `explain` returned it.
    parts: a dict of names and arrays (T, D) that add up to the input, or a function from the input to such a dict. Of a
        network with several inputs the arrays are dicts by input; an input that is left out belongs to the first part.
    periods: bands of Fourier frequencies: (7, 30) are periods of over 30 steps with the mean, of 7 to 30, and under 7.
    season: the length of a season in steps: trend, season and rest of a moving average.
    by: "feature" for a part of each feature; "part" for the sum over the features of each input.
    """
    one_of(by, "decompose: by", ("feature", "part"))
    if sum(one is not None for one in (parts, periods, season)) != 1:
        raise LrpError("decompose: pass exactly one of parts, periods and season, such as periods=(7, 30).")
    divide: Any = parts
    if periods is not None:
        divide = _of_each_input(_bands(periods))
    elif season is not None:
        divide = _of_each_input(_seasons(season))
    if not isinstance(e, Explanation):
        raise LrpError(f"decompose: e must be an explanation, got {shown(e)}.")
    slopes = _multipliers(e)
    source: Any = e.source
    x = {name: vectors(one).astype(np.float64) for name, one in source.record.items()}
    divided, inputs = _checked(x, source.record, divide), {}
    for name, port in source.model.inputs.items():
        part, seen = e.inputs[name], source.record[name].seen
        if part.feature_relevance is None:
            raise LrpError("decompose: e must have relevance per feature; explain with unit='feature'.")
        relevance = np.zeros((len(divided), *part.feature_relevance.shape))
        values = np.zeros_like(relevance)
        for k, own in enumerate(divided.values()):
            values[k][seen] = own[name]
            relevance[k][seen] = own[name] * slopes[name] / port.affine[1]
        relevance[0] = part.feature_relevance - relevance[1:].sum(axis=0)  # the rest: m (p_0 - x0)
        inputs[name] = _with_features(part, relevance, values, [*divided], by)
    options = {**(e.options or {}), "parts": [*divided]}
    return replace(e, inputs=inputs, options=options, tested=None, source=None)


def _multipliers(e: Explanation) -> Values:
    """(T, D) of each input, at the steps that the network sees, computed in float64."""
    e._one_class("decompose")
    if e.source is None or e.source.request is None:
        raise LrpError("decompose needs the network, which this explanation does not hold; pass one from explain.")
    (model, record, request), options = e.source, e.options or {}
    exact = {}
    for name, x in packed(model, [record]).items():
        rows = x.rows.astype(np.float64)
        if request.method.kind == "lrp":
            rows[rows == 0] = TINY
        exact[name] = Packed(rows, x.batch)
    keeps, size = (request.keep, *request.method.further), record[model.main].length * model.row_size
    with np.errstate(all="ignore"), compile.on(path_of(model.in_float64, keeps, size)):
        records = PackedRecords(exact, np.zeros(1, np.int64))
        question = question_of(model.in_float64, request._replace(step=options.get("step", request.step)), records)
        found = request.method.multipliers(question, np.array([e.target]))
    return {name: np.where(np.isfinite(own), own, 0) for name, own in found.items()}


def _with_features(part: InputPart, relevance: Any, values: Any, names: list[str], by: str) -> InputPart:
    """What an input received, with the parts (K, T, D) of its features in place of these."""
    dtype, T, own = part.relevance.dtype, len(part.relevance), None
    if by == "part":
        features, relevance = tuple(names), relevance.sum(axis=2).T
    else:
        features = tuple(f"{feature}, {name}" for feature in part.feature_names for name in names)
        relevance = relevance.transpose(1, 2, 0).reshape(T, -1)
        if part.values is not None:
            own = values.transpose(1, 2, 0).reshape(T, -1)
    return replace(part, feature_relevance=relevance.astype(dtype), features=features, values=own)


def _checked(x: Values, record: EncodedRecord, divide: Any) -> dict[str, Values]:
    """The parts by name, each an array (T, D) of every input at the steps that the network sees."""
    several, is_function, given = len(x) > 1, callable(divide), divide
    if is_function:
        given = divide(x) if several else divide(*x.values())
    if not isinstance(given, Mapping) or not given:
        raise LrpError(f"decompose: parts must be a dict of names and arrays that add up to x, got {shown(given)}.")
    found: dict[str, Values] = {str(name): {} for name in given}
    for name, values in x.items():
        arrays: list[Any] = [one.get(name) if several and isinstance(one, Mapping) else one for one in given.values()]
        if all(one is None for one in arrays):
            arrays = [values, *[np.zeros_like(values)] * (len(arrays) - 1)]
        else:
            shape = values.shape if is_function else (record[name].length, values.shape[1])
            seen = slice(None) if is_function else record[name].seen
            arrays = [_array(one, shape, f"decompose: part {k!r}")[seen] for k, one in zip(given, arrays, strict=True)]
        missed = float(abs(values - sum(arrays)).max())
        if not missed <= CLOSE * float(abs(values).max()):
            of = f" {name!r}" if several else ""
            raise LrpError(f"decompose: parts must add up to the input{of}, got sums that miss it by {missed:.3g}.")
        for own, array in zip(found.values(), arrays, strict=True):
            own[name] = array
    return found


def _array(value: Any, shape: tuple[int, ...], where: str) -> np.ndarray:
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise LrpError(f"{where} must be an array of numbers, got {shown(value)}.") from None
    if array.shape == shape[:1] and shape[1] == 1:
        array = array[:, None]
    if array.shape != shape:
        raise LrpError(f"{where} must have the shape of the input, {shape}, got {array.shape}.")
    return array


def _of_each_input(divide: Callable[[np.ndarray], dict[str, np.ndarray]]) -> Callable[..., Any]:
    """A function of an array as one of an array or a dict of these by input."""

    def of(x: Any) -> dict[str, Any]:
        if not isinstance(x, Mapping):
            return divide(x)
        each = {name: divide(values) for name, values in x.items()}
        names = next(iter(each.values()))
        return {part: {name: own[part] for name, own in each.items()} for part in names}

    return of


def _bands(periods: Any) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """Parts by Fourier frequency: the slowest band, which has the mean, first."""
    if isinstance(periods, (str, Mapping)) or not np.iterable(periods):
        periods = [periods]
    periods = entries(periods, "decompose: periods", PERIODS)
    is_right = all(is_number(one, float) and one > 0 for one in periods)
    if not is_right or not len(periods) or len({*periods}) < len(periods):
        raise LrpError(f"decompose: periods must be different positive numbers of steps, got {shown(periods)}.")
    ends = sorted(periods, reverse=True)
    names = [f"over {ends[0]:g}", *(f"{a:g} to {b:g}" for b, a in pairwise(ends)), f"under {ends[-1]:g}"]

    def divide(x: np.ndarray) -> dict[str, np.ndarray]:
        waves, T = np.fft.rfft(x, axis=0), len(x)
        with np.errstate(divide="ignore"):
            length = T / np.arange(len(waves))  # of each wave, in steps
        band = np.searchsorted(-np.array(ends, float), -length, side="left")
        return {name: np.fft.irfft(waves * (band == k)[:, None], T, axis=0) for k, name in enumerate(names)}

    return divide


def _seasons(season: Any) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """Trend (a centered moving mean over a season), season (the mean of each phase of what is left), and rest."""
    period = whole(season, "decompose: season", 2)

    def divide(x: np.ndarray) -> dict[str, np.ndarray]:
        T = len(x)
        if 1 < T < 2 * period:
            raise LrpError(f"decompose: season must be at most half of the {T} steps, got {period}.")
        if T == 1:  # one vector for each record
            return {"trend": x, "season": np.zeros_like(x), "rest": np.zeros_like(x)}
        around = np.ones(period) if period % 2 else np.array([0.5, *np.ones(period - 1), 0.5])
        count = np.convolve(np.ones(T), around, "same")
        trend = np.stack([np.convolve(column, around, "same") / count for column in x.T], axis=1)
        left = x - trend
        phase = np.arange(T) % period
        means = np.stack([left[phase == k].mean(axis=0) for k in range(period)])
        cycle = (means - means.mean(axis=0))[phase]
        return {"trend": trend, "season": cycle, "rest": left - cycle}

    return divide
