"""Objects of other libraries: explanations as those of shap, and attributions by the interface of captum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np

from lrpnumpy.checks import LrpError, encodable, library, shown
from lrpnumpy.explain import explain_all
from lrpnumpy.files.torch.live import from_torch
from lrpnumpy.ledgers import ReferenceLedger
from lrpnumpy.meant import door
from lrpnumpy.methods import find
from lrpnumpy.methods.base import Method
from lrpnumpy.model import Model
from lrpnumpy.result import Explanation, InputPart
from lrpnumpy.rules import Rule
from lrpnumpy.show.parts import step_unit
from lrpnumpy.tables import untensored

if TYPE_CHECKING:
    import shap
    import torch

Values: TypeAlias = Union["np.ndarray", "torch.Tensor"]
Attributions: TypeAlias = Values | tuple[Values, ...]  # one, or of a network with several inputs one for each

# ---- shap ----


def to_shap(every: Sequence[Explanation], flat: bool, single: bool) -> shap.Explanation:
    """A `shap.Explanation` of one explanation, or of several. `Explanation.to_shap` describes it."""
    Table = library("shap", "to_shap").Explanation
    for e in every:
        e._one_class("to_shap")
    columns = [_flat(e) if flat else _by_step(e) for e in every]
    values = [column[0] for column in columns]
    data = [column[1] for column in columns]
    base = np.array([float(e.score) - float(one.sum()) for e, one in zip(every, values, strict=True)])
    names = columns[0][2]
    if single:
        return Table(values[0], base[0], data[0], feature_names=names)
    if len({one.shape for one in values}) == 1 and all(column[2] == names for column in columns):
        return Table(np.stack(values), base, np.stack(data), feature_names=names)
    if any(e.tokens is None for e in every):
        sizes = sorted(len(e) for e in every)
        raise LrpError(f"to_shap: all sequences must have one length, got {sizes[0]} to {sizes[-1]}; use to_frame.")
    ragged = np.empty((2, len(every)), object)
    for k, (one, words) in enumerate(zip(values, data, strict=True)):
        ragged[0, k], ragged[1, k] = one, words
    return Table(ragged[0], base, ragged[1], feature_names=[column[2] for column in columns])


def _flat(e: Explanation) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(K,) relevance, values or words, and names of everything in an explanation."""
    values, data, names = [], [], []
    for name, part in e.inputs.items():
        before = f"{encodable(name)}: " if len(e.inputs) > 1 else ""
        own = _columns(part, e.predicted_at if part is e.first else part.relevance.shape[-1] - 1)
        values.append(own[0])
        data.append(own[1])
        names += [before + encodable(column) for column in own[2]]
    if len({one.dtype.kind for one in data}) > 1:
        data = [one.astype(object) for one in data]
    return np.concatenate(values), np.concatenate(data), names


def _columns(part: InputPart, at: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """What one input received, step after step; `at` is the step of the prediction."""
    T = len(part.relevance)
    if part.tokens is not None:
        words = np.array([f"{encodable(token)} " for token in part.tokens])  # shap writes them one behind the other
        return part.relevance, words, [*part.tokens]
    when = [_when(at - t, step_unit(part.labels)) for t in range(T)]
    if part.feature_relevance is None:
        return part.relevance, np.full(T, np.nan), when
    features = part.feature_names
    names = [f"{feature}, {step}" for step in when for feature in features] if T > 1 else [*features]
    return part.feature_relevance.ravel(), _values(part).ravel(), names


def _values(part: InputPart) -> np.ndarray:
    """The values of an input with relevance per feature; not a number where they are not known."""
    unknown = np.full(part.feature_relevance.shape, np.nan)  # type: ignore[union-attr]
    return unknown if part.values is None else np.asarray(part.values)


def _when(lag: int, unit: str) -> str:
    """A step by its distance to that of the prediction: "3 days before"."""
    if lag == 0:
        return "now"
    if abs(lag) > 1:
        unit += "s"
    side = "before" if lag > 0 else "after"
    return f"{abs(lag)} {unit} {side}"


def _by_step(e: Explanation) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(T, D) relevance and values, and the names of the features, of the first input."""
    part = e.first
    if len(e.inputs) > 1 or part.feature_relevance is None:
        raise LrpError("to_shap: flat=False needs one input with relevance per feature; explain with unit='feature'.")
    return part.feature_relevance, _values(part), [*map(encodable, part.feature_names)]


# ---- captum ----


class Attribution:
    """The interface of captum for any method: `lrp.Attribution(module, "lrp-all").attribute(x, target=1)`.

    model: a Model, or a `torch.nn.Module`, which becomes one by `from_torch`, with hints such as check=x behind.
    method: as in `explain`.
    """

    def __init__(self, model: Any, method: str | Method | Rule | None = None, **hints: Any) -> None:
        if not isinstance(model, Model):
            model = from_torch(model, **hints)
        elif hints:
            raise LrpError(f"Attribution: {', '.join(hints)} must be left out for a Model; they are for modules.")
        self.model, self.method = model, find(model.method if method is None else method)

    def __repr__(self) -> str:
        return f"Attribution({self.model!r}, {self.method.name!r})"

    @door
    def attribute(
        self,
        inputs: Any,
        baselines: Any = None,
        target: Any = None,
        return_convergence_delta: bool = False,
        **options: Any,
    ) -> Attributions | tuple[Attributions, Values]:
        """Attributions (relevance) of a batch, of the shape of the inputs; tensors for tensors, arrays for arrays.

        inputs: a batch (N, T, D), or token ids (N, T), whose attributions are one per token; of a network with several
            inputs a tuple in the order of `model.inputs`.
        baselines: what the inputs are compared with: a number, one record, or one for each of the batch; likewise a
            tuple. None is zero. Only for methods that have a reference.
        target: a class, or one for each of the batch; None is the predicted one.
        return_convergence_delta: also return (N,) how far the attributions miss f(x) - f(baseline).
        options: those of the method, and `step` and `versus` of `explain`.
        """
        given = _as_tuple(inputs)
        ports = self.model.inputs
        if len(given) != len(ports):
            raise LrpError(f"inputs must be {len(ports)} tensors, {', '.join(ports)}, got {len(given)}.")
        arrays = dict(zip(ports, map(_batch, given), strict=True))
        N = len(arrays[self.model.main])
        if any(len(one) != N for one in arrays.values()):
            raise LrpError(f"inputs must have one batch size, got {[len(one) for one in arrays.values()]}.")
        target = untensored(target)
        if isinstance(target, np.ndarray):
            target = target.tolist()
        if isinstance(target, str) and target == "all":
            raise LrpError("target must be one class, or one for each of the batch, got 'all'.")
        if any(one.embedding is None for one in ports.values()):
            options = {**options, "unit": "feature"}
        found = self._explained(arrays, baselines, target, options)
        attributions: Any = tuple(_like(x, name, found) for x, name in zip(given, ports, strict=True))
        if not isinstance(inputs, tuple):
            attributions = attributions[0]
        if not return_convergence_delta:
            return attributions
        if not all(isinstance(e.ledger, ReferenceLedger) for e in found):
            raise LrpError(f"return_convergence_delta needs a method with a reference, got {self.method.name}.")
        delta = np.array([-float(e.ledger.gap) for e in found])  # type: ignore[union-attr]
        return attributions, _tensor(given[0], delta)

    def _records(self, arrays: dict[str, np.ndarray]) -> list[Any]:
        """The records of a batch as `explain` takes them."""
        if len(arrays) == 1:
            return [*arrays[self.model.main]]
        return [dict(zip(arrays, rows, strict=True)) for rows in zip(*arrays.values(), strict=True)]

    def _explained(self, arrays: dict[str, np.ndarray], baselines: Any, target: Any, options: Any) -> list[Explanation]:
        """The explanations of a batch; where every record has a baseline, one after the other."""
        records = self._records(arrays)
        if baselines is None:
            return [*explain_all(self.model, records, self.method, target, **options)]
        references = self._baselines(baselines, arrays)
        if all(one.strides[0] == 0 for one in references.values()):  # the same for all
            options = {**options, "reference": self._records(references)[0]}
            return [*explain_all(self.model, records, self.method, target, **options)]
        targets = target if isinstance(target, list) else [target] * len(records)
        if len(targets) != len(records):
            raise LrpError(f"target must be one class for each of the {len(records)} records, got {len(targets)}.")
        found: list[Explanation] = []
        for record, own, baseline in zip(records, targets, self._records(references), strict=True):
            found += explain_all(self.model, [record], self.method, own, reference=baseline, **options)
        return found

    def _baselines(self, value: Any, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The reference of each record of a batch, by input."""
        given = _as_tuple(value)
        if len(given) != len(arrays):
            raise LrpError(f"baselines must be {len(arrays)}, as many as the inputs, got {len(given)}.")
        found = {}
        for (name, x), one in zip(arrays.items(), given, strict=True):
            try:
                array = np.asarray(0 if one is None else untensored(one))
                if array.ndim == 0 and array.dtype.kind in "fiu":
                    array = array.astype(x.dtype)
                found[name] = np.broadcast_to(array, x.shape)
            except ValueError:
                raise LrpError(f"baselines must be a number or have the shape {x.shape}, got {shown(one)}.") from None
        return found


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _batch(value: Any) -> np.ndarray:
    """An input of a batch as an array."""
    array = np.asarray(untensored(value))
    if array.dtype.kind not in "fiu" or array.ndim < 2 or not len(array):
        raise LrpError(f"inputs must be numbers or token ids with the batch as their first axis, got {shown(value)}.")
    return array


def _like(x: Any, name: str, found: list[Explanation]) -> Any:
    """What one input received in a batch, in its shape."""
    parts = [e.inputs[name] for e in found]
    rows = [one.relevance if one.values is None else one.feature_relevance for one in parts]  # words have no values
    return _tensor(x, np.stack(rows).reshape(tuple(x.shape)))  # type: ignore[arg-type]


def _tensor(x: Any, array: np.ndarray) -> Any:
    """An array as a tensor on the device of `x`, where that is one."""
    if not hasattr(x, "detach"):
        return array
    tensor = library("torch", "Attribution").as_tensor(array, device=x.device)
    if x.dtype.is_floating_point:
        tensor = tensor.to(x.dtype)
    return tensor
