"""The table of result fields: name, axes, kind and unit of each. What is done to every field is one loop over it.

A record declares its fields with `result_field`, and `table` collects them. Axes by name:

    target                  the classes, only in results that explain all of them; it comes first
    output                  the classes
    step, feature           of one input
    layer, neuron, phrase   of the network; of one of its layers; of the request
    row, sequence, entry    of a batch: packed rows, sequences, entries of a ledger; of records: a tuple of them
    input                   of records: a dict of them by the name of an input
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, field, fields, is_dataclass, replace
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

Record = TypeVar("Record")


class ResultField(NamedTuple):
    """One field of a result."""

    name: str
    axes: tuple[str, ...]
    # "number" (of the model's dtype), "value", "mark", "label", "text", "index", "target", "options" or "record"
    kind: str
    unit: str | None  # "output": that of the scores; "input": those of the features
    required: bool
    of: tuple[type, ...]  # of the kind "record": its classes

    @property
    def varies(self) -> bool:
        """Whether it has, or holds records that have, an axis of targets."""
        return self.kind == "record" or self.axes[:1] == ("target",)


def result_field(
    axes: str = "", kind: str = "number", unit: str | None = None, default: Any = MISSING, of: Sequence[type] = ()
) -> Any:
    """A field of a dataclass with its row of the table."""
    row = (tuple(axes.split()), kind, unit, default is MISSING, tuple(of))
    return field(default=default, metadata={"row": row})


def _table(kind: Any) -> tuple[ResultField, ...]:
    """The fields of a record that are declared with `result_field`."""
    return tuple(ResultField(one.name, *one.metadata["row"]) for one in fields(kind) if "row" in one.metadata)


table: Callable[[Any], tuple[ResultField, ...]] = cache(_table)


def taken(array: Any, where: Any, copy: bool = False) -> Any:
    """Some entries of an array or tuple, as a view or a copy; None of None."""
    if array is None:
        return None
    entries = array[where]
    if copy:
        entries = entries.copy()
    return entries


def by_target(change: Callable[..., Any], *values: Any) -> Any:
    """`change` of every array with an axis of targets in a record, list or dict; of several such values together."""
    first = values[0]
    if first is None:
        return None
    if is_dataclass(first):
        return replace(first, **varying(change, *values))  # type: ignore[type-var]
    if isinstance(first, Mapping):
        return {name: by_target(change, *(one[name] for one in values)) for name in first}
    if isinstance(first, (tuple, list)):
        return type(first)([by_target(change, *several) for several in zip(*values, strict=True)])
    return change(*values)


def varying(change: Callable[..., Any], *records: Any) -> dict[str, Any]:
    """The fields of records that vary with the target, changed by `change`."""
    rows = [row for row in table(type(records[0])) if row.varies]
    return {row.name: by_target(change, *(getattr(one, row.name) for one in records)) for row in rows}


def joined(records: list[Any]) -> Any:
    """Records of every class as one, whose arrays have an axis of targets."""
    return by_target(lambda *arrays: np.stack(arrays), *records)


def plain(value: Any, kind: str = "") -> Any:
    """Records, arrays and NumPy numbers as dicts, lists and Python numbers."""
    if isinstance(value, np.ndarray) and kind == "label":  # dates are text, with their type
        return {"dtype": str(value.dtype), "text": value.astype(str).tolist()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if is_dataclass(value):
        return {row.name: plain(getattr(value, row.name), row.kind) for row in table(type(value))}
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(one) for one in value]
    return value
