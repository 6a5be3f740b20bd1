"""The river's series: 35 years of weather and discharge, one line per day, and which days are for what.

The file is `piscataquis.csv`, made from the CAMELS data set (Newman et al. 2015, Addor et al. 2017). It is not bundled.
"""

from __future__ import annotations

import csv
from typing import NamedTuple

import numpy as np

WEATHER = ("precipitation_mm", "radiation_w_m2", "tmax_c", "tmin_c", "vapour_pressure_pa")
DAYS = 365  # length of a window, which ends with the day whose discharge is predicted
TRAINING = ("1981-10-01", "1999-09-30")
TEST = ("1999-10-01", "2014-09-30")


class River(NamedTuple):
    """Every column that is used, one entry per day."""

    date: np.ndarray  # (days,) datetime64
    weather: np.ndarray  # (days, 5)
    observed: np.ndarray  # (days,) discharge in mm, nan where there is none
    conceptual: np.ndarray  # (days,) predictions of the hydrological model that comes with the data
    snow: np.ndarray  # (days,) its snow in mm: never an input

    def days(self, first: str, last: str) -> np.ndarray:
        """Positions of the days from `first` to `last` that have an observed discharge and a window before them."""
        chosen = (self.date >= np.datetime64(first)) & (self.date <= np.datetime64(last)) & ~np.isnan(self.observed)
        chosen[: DAYS - 1] = False
        return np.flatnonzero(chosen)

    def windows(self, days: np.ndarray) -> np.ndarray:
        """(n, DAYS, 5) the weather that ends with each of the days, without copying before the days are picked."""
        every = np.lib.stride_tricks.sliding_window_view(self.weather, DAYS, axis=0).swapaxes(1, 2)
        return every[days - DAYS + 1]


def read(path: str) -> River:
    """The file as columns."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))

    def column(name: str) -> np.ndarray:
        return np.array([float(row[name] or "nan") for row in rows])

    return River(
        np.array([row["date"] for row in rows], "datetime64[D]"),
        np.stack([column(name) for name in WEATHER], axis=1),
        column("discharge_mm_observed"),
        column("discharge_mm_conceptual"),
        column("snow_mm_conceptual"),
    )


def efficiency(predicted: np.ndarray, observed: np.ndarray) -> float:
    """Nash-Sutcliffe: 1 - squared error / variance. 1 is perfect, 0 is no better than the mean."""
    return float(1 - ((predicted - observed) ** 2).sum() / ((observed - observed.mean()) ** 2).sum())
