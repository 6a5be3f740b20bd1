"""Many explanations in a few numbers: mean relevance by feature, by lag and by both, of each group of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lrpnumpy.checks import LrpError, encodable, library, one_of, readable, shown, unmasked
from lrpnumpy.meant import door

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

SEASONS = ("DJF", "DJF", "MAM", "MAM", "MAM", "JJA", "JJA", "JJA", "SON", "SON", "SON", "DJF")  # of the months
TIMES = ("year", "season", "month")
ALL = "all"  # name of the only group
ROWS = 30  # of a printed table
KINDS = ("mean", "absolute", "positive", "negative")


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """Mean relevance of many explanations: arrays (G, L, D) by group, lag and feature.

    Lag 0 is the step of the prediction, lag 1 the one before it. A step that a sequence does not have counts as 0, so
    that sums over lags and features are means of what the explanations have in all. Of words the features are the
    tokens, and L is 1.
    """

    groups: tuple[str, ...]  # G names
    features: tuple[str, ...]  # D names; ("relevance",) where there is one number per step
    counts: np.ndarray  # (G,) explanations in each group
    mean: np.ndarray  # (G, L, D)
    positive: np.ndarray  # (G, L, D) the same of what is positive, with 0 in place of the rest
    error: np.ndarray  # (G, D) standard error of the mean absolute relevance of each feature, summed over lags
    method: str  # name of the method
    left_out: int = 0  # explanations whose relevance is not finite
    output_unit: str | None = None  # of the relevance, such as "mm"
    target: str = ""  # the class that all explain, of a network with several outputs; empty where groups are classes

    @property
    def negative(self) -> np.ndarray:
        """(G, L, D) mean of what is negative."""
        return self.mean - self.positive

    @property
    def absolute(self) -> np.ndarray:
        """(G, L, D) mean absolute relevance."""
        return self.positive - self.negative

    @door
    def by_feature(self, kind: str = "absolute") -> np.ndarray:
        """(G, D) relevance of a `kind`, "mean", "absolute", "positive" or "negative", summed over lags."""
        return getattr(self, one_of(kind, "kind", KINDS)).sum(axis=1)

    @door
    def by_lag(self, kind: str = "absolute") -> np.ndarray:
        """(G, L) relevance of a `kind`, as in `by_feature`, summed over features."""
        return getattr(self, one_of(kind, "kind", KINDS)).sum(axis=2)

    @property
    def half(self) -> np.ndarray:
        """(G,) how many steps, counted back from that of the prediction, hold half of the absolute relevance."""
        reached = np.cumsum(self.by_lag(), axis=1)
        return (reached < reached[:, -1:] / 2).sum(axis=1) + 1

    @door
    def to_frame(self, by: str | None = None) -> pd.DataFrame:
        """A pandas frame: one row per group, lag and feature; with `by` "feature" or "lag" summed over the other."""
        pandas = library("pandas", "to_frame")
        one_of(by, "by", (None, "feature", "lag"))
        axes = {
            "group": [*map(encodable, self.groups)],
            "lag": range(self.mean.shape[1]),
            "feature": [*map(encodable, self.features)],
        }
        summed = tuple(k for k, name in enumerate(axes) if by is not None and name not in ("group", by))
        kept = [name for k, name in enumerate(axes) if k not in summed]
        # Not summed by pandas: names that differ in characters that it cannot hold are equal there.
        found = {kind: getattr(self, kind).sum(axis=summed).ravel() for kind in KINDS}
        if by == "feature":
            found["error"] = self.error.ravel()
        index = pandas.MultiIndex.from_product([axes[name] for name in kept], names=kept)
        return pandas.DataFrame(found, index).reset_index()

    def to_xarray(self) -> xr.Dataset:
        """A dataset of xarray with the dimensions group, lag and feature."""
        xarray = library("xarray", "to_xarray")
        found: dict[str, Any] = {kind: (("group", "lag", "feature"), getattr(self, kind)) for kind in KINDS}
        found["error"] = (("group", "feature"), self.error)
        found["count"] = (("group",), self.counts)
        lags = np.arange(self.mean.shape[1])
        coordinates = {"group": list(self.groups), "lag": lags, "feature": list(self.features)}
        return xarray.Dataset(found, coordinates, {"method": self.method, "unit": self.output_unit or ""})

    def __repr__(self) -> str:
        return f"<Summary of {int(self.counts.sum())} explanations by {self.method}, {len(self.groups)} groups>"

    def __str__(self) -> str:
        """A table: features of each group, summed over lags."""
        unit = f", in {readable(self.output_unit)}" if self.output_unit else ""
        count, method = int(self.counts.sum()), readable(self.method)
        about = f" for {readable(self.target)}" if self.target else ""
        lines = [f"{method}: mean relevance{about} of {count:,} explanations, summed over steps{unit}"]
        most = np.sort(np.argsort(-self.by_feature().sum(axis=0), kind="stable")[:ROWS])
        if len(most) < len(self.features):
            lines[0] += f"; the {len(most)} most relevant of {len(self.features):,}"
        features = [readable(self.features[d]) for d in most]
        wide = max(map(len, features)) + 2
        values = np.stack([self.by_feature(kind)[:, most] for kind in KINDS], axis=-1)  # (G, rows, kinds)
        for k, name in enumerate(self.groups):
            label = "" if self.groups == (ALL,) else f"{readable(name)} ({self.counts[k]:,})"
            lines += ["", label.ljust(wide) + "".join(f"{kind:>12}" for kind in KINDS)]
            lines += [
                feature.ljust(wide) + "".join(f"{value:>+12.4g}" for value in row)
                for feature, row in zip(features, values[k], strict=True)
            ]
            if self.mean.shape[1] > 1:
                steps = f"{self.half[k]} step{'' if self.half[k] == 1 else 's'}"
                lines.append(f"half of it within {steps} of the prediction")
        if self.left_out:
            lines.append(f"({self.left_out:,} explanations are left out, whose relevance is not finite)")
        return "\n".join(lines)


class Sums:
    """What a summary is made of, added up a block at a time.

    Of words there is a place for each token where there is one for each lag of a series.
    """

    def __init__(self, features: Sequence[str], by_token: bool = False) -> None:
        self.features, self.by_token = tuple(features), by_token
        D = len(self.features)
        self.numbers: dict[str, int] = {}  # of the groups
        self.tokens: dict[str, int] = {}
        self.steps = np.zeros((2, 0, 1, D))  # (2, G, L, D) of relevance, and of what is positive
        self.sizes = np.zeros((2, 0, 1, D))  # (2, G, 1 or L, D) of |relevance| of each explanation, and of its square
        self.counts, self.left_out = np.zeros(0, np.int64), 0

    def add(
        self,
        values: np.ndarray,
        lengths: np.ndarray,
        names: Sequence[Any] | None = None,
        ends: np.ndarray | None = None,
        words: Sequence[str] | None = None,
    ) -> None:
        """Some explanations: values (R, D), one behind the other, and how many steps each has.

        `names` are their groups; `ends` the steps of the predictions, by default the last ones; `words` the R tokens of
        a text. What comes after a prediction has no lag, and must be 0.
        """
        if not len(lengths):
            return
        if ends is None:
            ends = lengths - 1
        starts = np.cumsum(lengths) - lengths
        owner = np.repeat(np.arange(len(lengths)), lengths)
        if self.by_token:
            assert words is not None
            place = np.array([self.tokens.setdefault(word, len(self.tokens)) for word in words], np.int64)
        else:
            place = (starts + ends)[owner] - np.arange(len(owner))
        group = self._numbered(names, len(lengths))
        fine = np.asarray(np.isfinite(np.add.reduceat(values, starts)).all(axis=1))
        self.left_out += int((~fine).sum())
        kept = fine[owner]
        if not self.by_token and (place < 0).any():
            if values[kept & (place < 0)].any():
                raise LrpError("a summary by lag needs predictions of the last step, got steps after the prediction.")
            kept &= place >= 0
        values, place, owner = values[kept], place[kept], owner[kept]
        self._grow(max(int(place.max(initial=0)) + 1, len(self.tokens)))
        self.counts += np.bincount(group[fine], minlength=len(self.counts))
        L = self.steps.shape[2]
        index = group[owner] * L + place
        # Magnitudes are summed over the steps of one explanation before they are squared: of words, those of one token.
        inverse, into = owner, group
        if self.by_token:
            pairs, inverse = np.unique(owner * L + place, return_inverse=True)
            into = group[pairs // L] * L + pairs % L
        for d in range(values.shape[1]):
            column = values[:, d]
            size = np.bincount(inverse, abs(column), len(into))
            added = ((self.steps, index, (column, np.maximum(column, 0))), (self.sizes, into, (size, size**2)))
            for sums, where, several in added:
                for total, one in zip(sums[..., d], several, strict=True):
                    total += np.bincount(where, one, total.size).reshape(total.shape)

    def _numbered(self, names: Sequence[Any] | None, count: int) -> np.ndarray:
        """(n,) number of the group of each explanation; a new name receives the next one."""
        every, numbers = [ALL] * count if names is None else names, self.numbers
        return np.array([numbers.setdefault(str(name), len(numbers)) for name in every], np.int64)

    def _grow(self, places: int) -> None:
        """Make room for more groups, and for more lags or tokens."""
        _, G, L, _ = self.steps.shape
        groups, more = (0, len(self.numbers) - G), (0, max(0, places - L))
        self.steps = np.pad(self.steps, ((0, 0), groups, more, (0, 0)))
        self.sizes = np.pad(self.sizes, ((0, 0), groups, more if self.by_token else (0, 0), (0, 0)))
        self.counts = np.pad(self.counts, groups)

    def summary(
        self, method: str, output_unit: str | None, order: Sequence[str] | None = None, target: str = ""
    ) -> Summary:
        """The means; groups by name, or in the order given."""
        if not self.counts.sum():
            raise LrpError("a summary needs at least one explanation with finite relevance; there are none.")
        known = [name for name in order or sorted(self.numbers, key=_sort_key) if name in self.numbers]
        some = [self.numbers[name] for name in known if self.counts[self.numbers[name]]]
        n = self.counts[some][:, None, None]
        total, positive, size, square = (one[some] / n for sums in (self.steps, self.sizes) for one in sums)
        features = self.features
        if self.by_token:  # tokens are the features, and there is one lag
            total, positive, size, square = (one.swapaxes(1, 2) for one in (total, positive, size, square))
            features = tuple(self.tokens)
        error = np.sqrt(np.maximum(square - size**2, 0) / np.maximum(n - 1, 1))[:, 0]
        return Summary(
            tuple(name for name in known if self.numbers[name] in some),
            features,
            self.counts[some],
            total,
            positive,
            error,
            method,
            self.left_out,
            output_unit,
            target,
        )


def joined(groups: Sequence[Any] | None, classes: Sequence[str]) -> Sequence[str]:
    """The group of each explanation, with the name of its class before it."""
    if groups is None:
        return classes
    return [f"{name}: {one}" for name, one in zip(classes, groups, strict=True)]


def _sort_key(name: str) -> tuple[int, float, str]:
    """Numbers by their size, then words, then seasons as they come in a year."""
    try:
        return 0, float(name), name
    except ValueError:
        return (2, SEASONS.index(name), name) if name in SEASONS else (1, 0.0, name)


def times(labels: np.ndarray, unit: str) -> list[Any]:
    """Year, season or month of dates."""
    months = labels.astype("M8[M]").astype(int)
    if unit == "year":
        return (months // 12 + 1970).tolist()
    return [SEASONS[m] if unit == "season" else m + 1 for m in (months % 12).tolist()]


def one_each(by: Any, count: int) -> list[Any]:
    """A list of one name of a group for each of `count` explanations."""
    unmasked(by, "by")
    in_order = hasattr(by, "__len__") and hasattr(by, "__iter__") and getattr(by, "shape", None) != ()
    if not in_order or isinstance(by, (str, type, set, frozenset, Mapping)):
        raise LrpError(f"by must be a name, or one value for each of the {count} explanations, got {shown(by)}.")
    if len(by) != count:
        raise LrpError(f"by must have one value for each of the {count} explanations, got {len(by)}.")
    return list(by)
