"""Tables and tensors that users pass in, as arrays: of pandas, polars, xarray and torch, none of which is imported.

They are known by what they have: a frame of pandas by `iloc`, one of polars by `with_columns`, what is xarray's by
`dims`, a tensor by `detach`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy import checks
from lrpnumpy.checks import MISSING, LrpError, optional


class Table(NamedTuple):
    """Numbers with their dates and names, without pandas: `lrp.Table(values, dates)`."""

    values: np.ndarray  # (T, D), or (T,) of one column
    labels: np.ndarray | None = None  # (T,) of the steps: datetime64, or strings
    features: tuple[str, ...] | None = None  # D names


def is_frame(value: Any) -> bool:
    """Whether something is a table of columns that have names: a frame of pandas or polars, a dataset of xarray."""
    return hasattr(value, "data_vars") or (
        hasattr(value, "columns") and (hasattr(value, "iloc") or hasattr(value, "with_columns"))
    )


def untensored(value: Any) -> Any:
    """A tensor of torch, on any device and with or without a gradient, as an array; anything else as it is."""
    if not (hasattr(value, "detach") and hasattr(value, "cpu")):
        return value
    try:
        tensor = value.detach().cpu()
        if str(getattr(tensor, "dtype", "")) == "torch.bfloat16":  # which NumPy does not have
            tensor = tensor.float()
        return tensor.numpy()
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise LrpError(
            f"a tensor must be one that NumPy can hold, dense and neither quantized nor nested, got a "
            f"{type(value).__name__}, for which torch raised {type(error).__name__}: {reason}; pass a NumPy array."
        ) from error


def read(value: Any, wanted: tuple[str, ...] | None, size: int | None, where: str) -> Table | None:
    """What a table or tensor holds, or None for anything else.

    `wanted` are the names of the columns that the model takes, `size` is their number.
    """
    if hasattr(value, "detach"):
        return Table(np.asarray(untensored(value)))
    if isinstance(value, Table):
        values = _array(value.values, where)
        labels = optional(lambda given: labels_of(_array(given, where, len(values))), value.labels)
        if value.features is None:
            return Table(values, labels)
        own: Any = value.features
        if isinstance(own, str) or values.ndim != 2 or len(own) != values.shape[1]:
            got = f"{checks.shown(own)} for values of shape {values.shape}"
            raise LrpError(f"{where}: a Table must have one name in features for each column, got {got}.")
        return _of_columns([*map(str, own)], [*values.T], labels, wanted, size, where)
    if hasattr(value, "dims") and hasattr(value, "coords"):
        return _of_xarray(value, wanted, size, where)
    if hasattr(value, "iloc") and hasattr(value, "index"):
        index = _labels(value.index)
        if not hasattr(value, "columns"):  # a Series: one column, or one vector whose numbers have names
            if wanted is not None and index is not None and {*wanted} <= {*map(str, value.index)}:
                return Table(np.asarray([value[name] for name in wanted], float))
            return Table(np.asarray(value), index)
        names = None if _is_range(value.columns) else [str(name) for name in value.columns]
        columns = [value.iloc[:, k] for k in range(value.shape[1])]
        return _of_columns(names, columns, index, wanted, size, where, _is_plain(value.index))
    if hasattr(value, "with_columns"):
        return _of_columns(list(value.columns), list(value.get_columns()), None, wanted, size, where)
    if isinstance(value, memoryview) or (hasattr(value, "to_numpy") and hasattr(value, "to_frame")):  # or of polars
        return Table(_array(value, where))
    return None


def _array(values: Any, where: str, steps: int | None = None) -> np.ndarray:
    """What a Table holds, with the steps along its first axis."""
    checks.unmasked(values, where)
    try:
        found = np.asarray(values)
    except (TypeError, ValueError):
        found = np.asarray(None)
    if not found.ndim or steps not in (None, len(found)):
        raise LrpError(f"{where} must hold arrays of one entry per step, got {type(values).__name__}.")
    return found


def _of_xarray(value: Any, wanted: tuple[str, ...] | None, size: int | None, where: str) -> Table:
    """A Dataset has its variables as columns; a DataArray has features on its last axis, or where their names are."""
    if hasattr(value, "data_vars"):
        names = [str(name) for name, one in value.data_vars.items() if one.ndim == 1]
        labels = _coordinate(value, value[names[0]].dims[0]) if names else None
        return _of_columns(names, [value[name] for name in names], labels, wanted, size, where)
    dims = list(value.dims)
    known = {dim: tuple(map(str, np.asarray(value[dim]))) for dim in dims if dim in value.coords}
    last = next((dim for dim in dims if wanted is not None and {*wanted} <= {*known.get(dim, ())}), dims[-1])
    array = value.transpose(*[dim for dim in dims if dim != last], last).values
    if len(dims) != 2:
        return Table(array, _coordinate(value, dims[0]) if len(dims) == 1 else None)
    labels = _coordinate(value, next(dim for dim in dims if dim != last))
    if last not in known:
        return Table(array, labels)
    return _of_columns(list(known[last]), list(array.T), labels, wanted, size, where)


def _coordinate(value: Any, dim: Any) -> np.ndarray | None:
    return labels_of(np.asarray(value[dim])) if dim in value.coords else None


def _of_columns(
    names: list[str] | None,
    columns: list[Any],
    labels: np.ndarray | None,
    wanted: tuple[str, ...] | None,
    size: int | None,
    where: str,
    plain: bool = False,
) -> Table:
    """The columns that the model takes, found by name. A column of dates that it does not take labels the steps.

    `labels` come first, unless they are `plain` numbers of rows.
    """
    found = dict(zip(names or map(str, range(len(columns))), columns, strict=True))
    if twice := [name for name, count in Counter(names).items() if count > 1 and name in (wanted or found)]:
        raise LrpError(f"{where} must have each column once, got {twice[0]!r} several times.")
    dates = [name for name, one in found.items() if name not in (wanted or ()) and _kind(one) == "M"]
    if dates and (labels is None or plain):
        labels = labels_of(np.asarray(_on_the_clock(found[dates[0]])))
    if wanted is None or names is None:
        wanted = tuple(name for name in found if name not in dates)
        if size is not None and len(wanted) != size:
            got = f"{len(wanted)}: {_listed(wanted)}; name them by model.with_units(features=[...])"
            raise LrpError(f"{where} must have the {size} columns that the model takes, got {got}.")
    elif missing := [name for name in wanted if name not in found]:
        near = meant(missing, [name for name in found if name not in wanted])
        raise LrpError(
            f"{where} must have the columns {_listed(missing)}, which the model takes, got {_listed(found)}{near}"
        )
    values = np.stack([_numbers(found[name], name, labels, where) for name in wanted], axis=1)
    return Table(values, labels, None if names is None else wanted)


def _kind(column: Any) -> str:
    """What a column holds, by the letter that NumPy has for it; pandas' dates of a zone have that of dates."""
    return str(getattr(getattr(column, "dtype", None), "kind", "")) or np.asarray(column[:1]).dtype.kind


def _numbers(column: Any, name: str, labels: np.ndarray | None, where: str) -> np.ndarray:
    """One column as floats, none of which is missing."""
    try:
        if _kind(column) in "cmM":
            raise TypeError
        values = np.asarray(column, float)
    except (TypeError, ValueError):
        raise LrpError(f"{where}: column {name!r} must hold numbers, got {np.asarray(column).dtype}.") from None
    if len(wrong := np.flatnonzero(~np.isfinite(values))):
        at = f"row {wrong[0]}" if labels is None else shown(labels)[wrong[0]]
        recipe = f"; {MISSING}" if np.isnan(values[wrong[0]]) else ""
        raise LrpError(f"{where}: column {name!r} must be finite, got {values[wrong[0]]} at {at}{recipe}.")
    return values


def meant(missing: Sequence[str], found: Iterable[str]) -> str:
    """The end of an error: which of those `found`, that nobody asks for, may be meant by names that are not there."""
    own = {name.lower(): name for name in found}
    near = {name: get_close_matches(name.lower(), own, 1, 0.5) for name in missing}
    said = [f"{name!r} for {own[close[0]]!r}" for name, close in near.items() if close]
    return f"; is it {', '.join(said)}?" if said else "."


def _listed(names: Any) -> str:
    some = list(names)
    return ", ".join(map(repr, some[:12])) + (f" and {len(some) - 12} more" if len(some) > 12 else "")


def _is_range(index: Any) -> bool:
    """Whether an index counts from 0: what pandas makes where nobody has said anything."""
    return getattr(index, "start", None) == 0 and getattr(index, "step", None) == 1


def _is_plain(index: Any) -> bool:
    """Whether an index is numbers without a name: what is left of one that counts where rows are chosen."""
    return getattr(index, "name", None) is None and _kind(index) in "iu"


def _labels(index: Any) -> np.ndarray | None:
    """The index of a frame as labels; times are those on the clock of their zone."""
    if _is_range(index):
        return None
    if hasattr(index, "to_timestamp"):  # periods
        index = index.to_timestamp()
    return labels_of(np.asarray(_on_the_clock(index)))


def _on_the_clock(dates: Any) -> Any:
    """Dates of pandas without their zone, if they have one: an index, or a column."""
    own = dates.dt if hasattr(dates, "iloc") else dates
    return own.tz_localize(None) if getattr(own, "tz", None) is not None else dates


def labels_of(values: Any) -> np.ndarray:
    """Labels as an array that is read-only: dates stay dates, everything else becomes text."""
    array = np.array(values)
    if array.dtype.kind != "M":
        array = np.array([str(one) for one in values], str)
    array.setflags(write=False)
    return array


def backwards(labels: np.ndarray | None) -> list[str] | None:
    """Two neighbors of some dates of which the second is earlier; None where there are none, or no dates.

    A clock that goes back by an hour in autumn does not count.
    """
    if labels is None or labels.dtype.kind != "M":
        return None
    dates = labels.astype("M8[us]")
    latest = np.maximum.accumulate(dates)
    hour = np.minimum(np.timedelta64(1, "h"), (latest[-1:] - dates.min()) // 2)
    late = np.flatnonzero(dates < latest - hour)
    return shown(labels[late[0] - 1 : late[0] + 1]) if len(late) else None


def shown(labels: np.ndarray) -> list[str]:
    """Labels as text: dates without a time where all have none, times without seconds where all have none."""
    if labels.dtype.kind != "M":
        return labels.tolist()
    for unit in ("D", "m", "s"):
        if ((labels.astype(f"M8[{unit}]") == labels) | np.isnat(labels)).all():
            labels = labels.astype(f"M8[{unit}]")
            break
    return [str(one) if np.isnat(one) else str(one).replace("T", " ") for one in labels]
