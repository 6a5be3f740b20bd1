"""A long series cut into overlapping windows, each explained, with the results on the series' own axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from lrpnumpy import asked, tables
from lrpnumpy.checks import LrpError, is_number, shown, whole
from lrpnumpy.encode import Encoded, EncodedRecord, as_trained, encode, filled, in_order
from lrpnumpy.explain import run
from lrpnumpy.fields import taken
from lrpnumpy.meant import door
from lrpnumpy.methods.base import Method, Unit
from lrpnumpy.methods.through import unit_target
from lrpnumpy.model import Model
from lrpnumpy.protocol import InputRows, Results
from lrpnumpy.result import Explanation, InputPart
from lrpnumpy.results import Explanations
from lrpnumpy.rules import Rule
from lrpnumpy.verdict import EvidenceList


@door
def explain_windows(
    model: Model,
    series: Any,
    method: str | Method | Rule | None = None,
    target: Any = None,
    *,
    length: int | None = None,
    stride: int = 1,
    unit: Unit = None,
    versus: int | str | None = None,
    step: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    fill: Literal["forward"] | None = None,
    **options: Any,
) -> Windows:
    """Explain the prediction of every window of a series: `length` steps, one window every `stride` steps.

    model: a network, from `load` or built from layers.
    series: a (T, D) array, or a DataFrame with dates. For a network with several inputs, a dict: all series are split
        in the same way, and an input without steps is the same for all windows.
    length: length of a window. Default: `model.window`, the length that the network was trained on.
    method, target, unit, versus, step, threads, fill, options: as in `explain_all`; `reference` is one of the options.
    progress: show rate and time left. Default: if standard error is a terminal.

        windows = lrp.explain_windows(model, frame, length=365)
        windows.at("2005-04-03")  # the explanation of the window that ends on this day
        windows.average()         # which days mattered on average
    """
    length = model.window if length is None else length
    if length is None:
        raise LrpError("length is missing, and the model does not carry the window it was trained on; pass length=....")
    length, stride = whole(length, "length", 1), whole(stride, "stride", 1)
    pads = {port.pad[0] for port in model.inputs.values() if port.pad is not None}
    if pads - {length}:
        raise LrpError(f"length must be {pads.pop()}, to which inputs of this model are padded, got {length}.")
    if fill is not None:
        series = filled(series, fill, "series")
    unpadded = {name: replace(port, pad=None) for name, port in model.inputs.items()}
    record = encode(replace(model, inputs=unpadded) if pads else model, series, "series")
    in_order([record], "series")
    steps = {name: one.length for name, one in record.items() if model.inputs[name].steps or name == model.main}
    if len({*steps.values()}) > 1:
        raise LrpError(f"series must have as many steps in each input, got {steps}.")
    least, T = max(model.least.values()), steps[model.main]
    if not least <= length <= T:
        raise LrpError(f"length must lie from {least} to {T}, the steps of the series, got {length}.")
    as_trained(model, [length], "a window")
    starts = np.arange(0, T - length + 1, stride)
    encoded = []
    for a in starts.tolist():
        encoded.append(record | {name: _window(record[name], a, a + length) for name in steps})
    if isinstance(target, tuple):
        model, target = unit_target(model, target)
    request = asked.request(model, method, unit, versus, step, options)
    return Windows(record, starts, length, run(model, encoded, request, target, None, threads, progress))


def _window(record: Encoded, start: int, stop: int) -> Encoded:
    """The steps from start to stop of an input; its arrays are views of the input's."""
    kept, padded, lo, hi, steps = None, None, start, stop, slice(start, stop)
    if record.kept is not None:  # some steps of the record are padding, and have no rows
        lo, hi = np.searchsorted(record.kept, (start, stop)).tolist()
        if lo == hi:
            raise LrpError(f"series must have a step that is not padding in every window, got none from {start} on.")
        if hi - lo < stop - start:
            kept = record.kept[lo:hi] - start
            padded = taken(record.padded, steps)
    return record._replace(
        ids=taken(record.ids, slice(lo, hi)),
        x=taken(record.x, slice(lo, hi)),
        length=stop - start,
        kept=kept,
        words=taken(record.words, steps),
        padded=padded,
        labels=taken(record.labels, steps),
    )


class Windows(Results):
    """The explanations of the windows of a series, in their order; each is made when it is asked for.

    A window belongs to its last step: `starts` (N,) are the first steps of the windows, `ends` (N,) the last ones, and
    `length` is that of each. `scores` (N, C) and `targets` (N,) are those of the windows. `inputs` are those of the
    whole series by name, `explanations` the same results as one batch.
    """

    def __init__(self, inputs: EncodedRecord, starts: np.ndarray, length: int, found: Explanations) -> None:
        self.inputs, self.starts, self.length, self.explanations = inputs, starts, length, found
        self.ends = starts + length - 1
        self.scores, self.targets = found.scores, found.targets
        self._explains_predicted = found._explains_predicted

    def evidence(self) -> EvidenceList:
        """What experiments say about each window, computed as one batch and kept; see `Explanation.evidence`."""
        return self.explanations.evidence()

    @property
    def series(self) -> Encoded:
        """The first input of the whole series."""
        return self.inputs[self.explanations.model.main]

    def __len__(self) -> int:
        return len(self.explanations)

    def _explained_for(self, target: int | str) -> Windows:
        """The same windows explained for one class, or for "all"."""
        return Windows(self.inputs, self.starts, self.length, self.explanations._explained_for(target))

    def _one(self, k: int) -> Explanation:
        return self.explanations._one(k)

    def _some(self, places: Sequence[int]) -> Windows:
        return Windows(self.inputs, self.starts[[*places]], self.length, self.explanations._some(places))

    @property
    def _about(self) -> str:
        name = self.explanations.request.method.name
        return f"<{len(self)} windows of {self.length} steps by {name}, of a series of {self.series.length}>"

    def received(self, input: str | None = None) -> InputRows:
        """What the `input` of that name, by default the first, received in all windows, one behind the other."""
        return self.explanations.received(input)

    @property
    def explained_steps(self) -> np.ndarray:
        """(N,) the step of each window whose prediction is explained."""
        return self.explanations.explained_steps

    @property
    def dates(self) -> list[Any]:
        """Label of the last step of each window, or None."""
        return self.explanations.dates

    @property
    def labels(self) -> np.ndarray | None:
        """(N,) label of the last step of every window, where the series has labels."""
        return taken(self.series.labels, self.ends)

    @door
    def at(self, label: Any) -> Explanation:
        """The explanation of the window whose last step has this `label`, such as "2005-04-03"; or this number."""
        labels, is_at = self.labels, np.zeros(len(self), bool)
        if is_number(label, int):
            is_at = self.ends == label
        elif labels is not None and (isinstance(label, str) or not hasattr(label, "__len__")):
            is_at = labels == _like(labels, label)
        if not is_at.any():
            known = self.ends if labels is None else tables.shown(labels)
            raise LrpError(f"at: no window ends at {shown(label)}; pass a last step, from {known[0]} to {known[-1]}.")
        return self[int(np.flatnonzero(is_at)[-1])]

    @property
    def counts(self) -> np.ndarray:
        """(T,) how many windows each step of the series is in."""
        return self._on_axis(np.ones(len(self) * self.length))

    def average(self) -> Explanation:
        """Mean relevance on the axis of the series: what a step got of the windows that it is in, on average.

        The scores are the mean of those of all windows. A step that is in no window has 0.
        """
        found, first = self.explanations, self[0]
        if not found.every_class and len({*found.targets.tolist()}) > 1:
            raise LrpError("average: the windows explain several classes; pass target=... to explain one.")
        counts, rows, whole = np.maximum(self.counts, 1), self.received(), self.series
        features, relevance = rows.feature_relevance, self._on_axis(rows.relevance) / counts
        if features is not None:
            features = self._on_axis(features, -2) / counts[:, None]
        part = InputPart(relevance, features, first.features, whole.tokens, whole.values, whole.labels, whole.marks)
        return replace(
            first,
            inputs={next(iter(first.inputs)): part},
            scores=found.scores.mean(axis=0),
            options={**first.options, "windows": len(self)},
            ledger=None,
            hidden=None,
            tested=None,
            source=None,
        )

    def _on_axis(self, values: np.ndarray, axis: int = -1) -> np.ndarray:
        """Sums at each step of the series of what the windows have there, one behind the other along `axis`."""
        values = np.moveaxis(values, axis, 0)
        windows = values.reshape(len(self), self.length, *values.shape[1:])
        sums = np.zeros((self.series.length, *values.shape[1:]))
        for lag in range(self.length):
            sums[self.starts + lag] += windows[:, lag]
        return np.moveaxis(sums, 0, axis)


def _like(labels: np.ndarray, label: Any) -> Any:
    """A label as those of the series are: a date from text, or from what pandas and Python have."""
    try:
        if labels.dtype.kind == "M":
            return np.datetime64(label).astype(labels.dtype)
        return str(label)
    except (TypeError, ValueError):
        raise LrpError(f"at: {shown(label)} is not a date; pass one such as '2005-04-03'.") from None
