"""How numbers were scaled before a network was trained: (value - mean) / scale for each feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, shown, unmasked

MOST_SCALED = 1_000_000  # features that one number may be repeated for


class Scaler(NamedTuple):
    """(value - mean) / scale, with one mean and one scale for each feature."""

    mean: tuple[float, ...]
    scale: tuple[float, ...]

    def scaled(self, values: np.ndarray) -> np.ndarray:
        """(…, D) from the units of the user to what the network takes, in float64."""
        return (values - np.array(self.mean)) / np.array(self.scale)


def scaler_of(
    value: Any, what: str, size: int, names: Sequence[str] | None, one_for_all: bool = False
) -> Scaler | None:
    """A Scaler from a pair of means and scales, or from a fitted scaler of scikit-learn; None stays None.

    Where both the scaler and the model know the names of the features, they are matched by name: so a scaler that was
    fitted on more columns than the model takes will do. `one_for_all` allows one number for all features.
    """
    if value is None:
        return None
    mean, scale = _pair(value, what)
    known = getattr(value, "feature_names_in_", None)
    columns = [_column(part, known, names) for part in (mean, scale)]
    for name, column in zip(("means", "scales"), columns, strict=True):
        if column.ndim == 0 or (one_for_all and column.shape == (1,)):
            if size > MOST_SCALED:  # from a file, a few bytes would fill the memory
                raise LrpError(f"{what} must have {size} {name}, one for each feature, got a single one.")
            continue
        if column.shape != (size,):
            raise LrpError(f"{what} must have {size} {name}, one for each feature, got {_shape(column)}.")
    mean, scale = (np.broadcast_to(column, size).tolist() for column in columns)
    if not np.isfinite([mean, scale]).all() or 0 in scale:
        raise LrpError(f"{what} must have finite means and scales other than 0, got {mean} and {scale}.")
    return Scaler(tuple(mean), tuple(scale))


def names_of(value: Any, size: int) -> tuple[str, ...] | None:
    """Names of the features that a scaler of scikit-learn was fitted on, if these are as many as the model takes."""
    known = getattr(value, "feature_names_in_", None)
    return None if known is None or len(known) != size else tuple(map(str, known))


def _pair(value: Any, what: str) -> tuple[Any, Any]:
    """Means and scales. scikit-learn's are known by their attributes, which end in _ once they are fitted."""
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return value[0], value[1]
    if getattr(value, "clip", False):
        raise LrpError(f"{what} must be affine, got a {type(value).__name__} with clip=True.")
    if hasattr(value, "min_"):  # MinMaxScaler: x scale_ + min_
        scale = 1 / np.asarray(value.scale_, float)
        return -np.asarray(value.min_, float) * scale, scale
    if hasattr(value, "scale_"):  # StandardScaler, RobustScaler, MaxAbsScaler; None where one of the two is left out
        mean = getattr(value, "mean_", getattr(value, "center_", None))
        scale = value.scale_
        return 0.0 if mean is None else mean, 1.0 if scale is None else scale
    raise LrpError(
        f"{what} must be a pair (mean, scale), or a fitted StandardScaler, MinMaxScaler or RobustScaler, got "
        f"{type(value).__name__}."
    )


def _column(part: Any, known: Any, names: Sequence[str] | None) -> np.ndarray:
    """Means or scales in the order of the model's features, where it is known which is whose."""
    if hasattr(part, "iloc"):  # a Series of pandas, such as frame.mean()
        known = part.index
    unmasked(part, "a scaler")
    try:
        column = np.asarray(part, float)
    except (TypeError, ValueError):
        raise LrpError(f"a scaler must hold numbers, got {shown(part)}.") from None
    if known is None or names is None or column.ndim == 0:
        return column
    places = {str(name): k for k, name in enumerate(known)}
    return column[[places[name] for name in names]] if all(name in places for name in names) else column


def _shape(column: np.ndarray) -> str:
    return str(len(column)) if column.ndim == 1 else f"an array of shape {column.shape}"
