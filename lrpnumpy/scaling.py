"""How numbers were scaled before a network was trained: (value - mean) / scale for each feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


Groups = Mapping[str, Mapping[str, str | None]]  # of one-hot codes: by column the code's column of each category


class ColumnScaler(Scaler):
    """The Scaler of a fitted ColumnTransformer, which also knows which columns are the one-hot code of another."""

    groups: Groups

    def expanded(self, frame: Any) -> Any:
        """A frame of pandas with the one-hot codes of those columns that it has instead of them."""
        for group, columns in self.groups.items():
            if group not in frame.columns or any(one in frame.columns for one in columns.values()):
                continue
            text = frame[group].astype(str)
            if unknown := [one for one in text if one not in columns]:
                known = ", ".join(map(repr, columns))
                raise LrpError(f"column {group!r} must hold one of {known}, got {shown(unknown[0])}.")
            codes = {column: (text == one).astype(float) for one, column in columns.items() if column is not None}
            frame = frame.drop(columns=group).assign(**codes)
        return frame


class _Fitted(NamedTuple):
    """A ColumnTransformer as a scaler of the columns that it makes."""

    mean_: Sequence[float]
    scale_: Sequence[float]
    feature_names_in_: Sequence[str]
    groups: Groups


def _fitted(value: Any, what: str) -> Any:
    """A ColumnTransformer of scikit-learn, once it is fitted, as a scaler; anything else as it is."""
    if not hasattr(value, "transformers") or not hasattr(value, "get_feature_names_out"):
        return value
    if not hasattr(value, "transformers_"):
        raise LrpError(f"{what} must be fitted, got a {type(value).__name__} that is not; call its fit(frame).")
    made = [str(name) for name in value.get_feature_names_out()]
    short = [name.partition("__")[2] or name for name in made]
    names = short if len({*short}) == len(short) else made
    mean, scale = np.zeros(len(made)), np.ones(len(made))
    groups: dict[str, dict[str, str | None]] = {}
    for name, step, columns in value.transformers_:
        place = value.output_indices_[name]
        steps = [one for _, one in step.steps] if hasattr(step, "steps") else [step]
        for one in steps:
            if hasattr(one, "categories_") and hasattr(one, "drop_idx_"):
                groups |= _one_hot(one, [str(column) for column in columns], names[place], what)
            elif hasattr(one, "scale_"):
                more_mean, more_scale = _pair(one, what)
                mean[place] += scale[place] * more_mean
                scale[place] *= more_scale
            elif not _keeps_units(one):
                got = f"a {type(one).__name__} for {', '.join(map(str, columns))}"
                raise LrpError(f"{what} must scale, one-hot encode, impute or pass columns through, got {got}.")
    return _Fitted(mean.tolist(), scale.tolist(), names, groups)


def _keeps_units(step: Any) -> bool:
    """Whether a step drops columns, passes them through (one by name, or the function None), or fills in values."""
    return isinstance(step, str) or hasattr(step, "statistics_") or getattr(step, "func", step) is None


def _one_hot(encoder: Any, columns: list[str], names: list[str], what: str) -> dict[str, dict[str, str | None]]:
    """By column, the name of the code's column of each category; None of one that the code drops."""
    coded = []  # categories that have a column, of each column
    for k, categories in enumerate(encoder.categories_):
        dropped = None if encoder.drop_idx_ is None else encoder.drop_idx_[k]
        coded.append([str(one) for c, one in enumerate(categories) if c != dropped])
    if sum(map(len, coded)) != len(names):
        raise LrpError(f"{what} must have a column for each category, got a OneHotEncoder that joins some of them.")
    left = iter(names)
    found: dict[str, dict[str, str | None]] = {}
    for column, categories, own in zip(columns, encoder.categories_, coded, strict=True):
        found[column] = dict.fromkeys(map(str, categories))
        found[column] |= {category: next(left) for category in own}
    return found


def scaler_of(
    value: Any, what: str, size: int, names: Sequence[str] | None, one_for_all: bool = False
) -> Scaler | None:
    """A Scaler from a pair of means and scales, or from a fitted scaler of scikit-learn; None stays None.

    Where both the scaler and the model know the names of the features, they are matched by name: so a scaler that was
    fitted on more columns than the model takes will do. `one_for_all` allows one number for all features.
    """
    if value is None:
        return None
    value = _fitted(value, what)
    mean, scale = _pair(value, what)
    known = getattr(value, "feature_names_in_", None)
    columns = [_column(part, known, names) for part in (mean, scale)]
    for name, column in zip(("means", "scales"), columns, strict=True):
        is_single = column.ndim == 0 or (one_for_all and column.shape == (1,))
        is_wrong = column.shape != (size,)
        if is_single:
            is_wrong = size > MOST_SCALED  # a file of a few bytes would fill the memory
        if is_wrong:
            got = "a single one" if is_single else f"an array of shape {column.shape}"
            raise LrpError(f"{what} must have {size} {name}, one for each feature, got {got}.")
    mean, scale = (np.broadcast_to(column, size).tolist() for column in columns)
    if not np.isfinite([mean, scale]).all() or 0 in scale:
        raise LrpError(f"{what} must have finite means and scales other than 0, got {mean} and {scale}.")
    if not getattr(value, "groups", None):
        return Scaler(tuple(mean), tuple(scale))
    found = ColumnScaler(tuple(mean), tuple(scale))
    found.groups = value.groups
    return found


def names_of(value: Any, size: int) -> tuple[str, ...] | None:
    """Names of the features that a scaler of scikit-learn was fitted on, if these are as many as the model takes."""
    known = getattr(_fitted(value, "scaler"), "feature_names_in_", None)
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
    known = "a fitted StandardScaler, MinMaxScaler, RobustScaler or ColumnTransformer"
    raise LrpError(f"{what} must be a pair (mean, scale), or {known}, got {type(value).__name__}.")


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
    if all(name in places for name in names):
        return column[[places[name] for name in names]]
    return column
