"""Explanations and forecasts that the tests of pictures draw: short and long ones, hard names, several inputs."""

from functools import cache

import networks as nets
import numpy as np

import lrpnumpy as lrp
from lrpnumpy.ledgers import Ledger
from lrpnumpy.result import InputPart

WEATHER = ("precipitation", "radiation", "tmax", "tmin", "vapour pressure")
BASIN = InputPart(
    np.array([0.6]), np.array([[0.3, -0.1, 0.4]]), ("area", "$x_1$", "forest share"), None, np.array([[120, 3.2, 0.8]])
)


def explanation(T, D, features=None, labels=None, seed=0, **more):
    """A forecast of discharge whose relevance and ledger add up to the score."""
    rng = np.random.default_rng(seed)
    R = rng.normal(size=(T, D)) * np.exp(-np.arange(T)[::-1, None] / max(3, T / 8))
    others = more.pop("others", {})
    score = R.sum() + 0.3 + sum(part.relevance.sum() for part in others.values())
    values = np.cumsum(rng.normal(size=(T, D)), axis=0)
    part = {
        "relevance": R.sum(axis=1),
        "feature_relevance": R,
        "features": features,
        "labels": labels,
        "values": values,
    }
    part |= {name: more.pop(name) for name in [*more] if name in part or name in ("tokens", "marks")}
    fields = {
        "inputs": {"x": InputPart(**part), **others}, "scores": np.array([score]), "target": 0, "method": "lrp-all",
        "classes": ("discharge",), "output_unit": "mm", "ledger": ledger(R.sum(), (0.2, 0.06), 0.03, 0.01, 3.0),
    }  # fmt: skip
    return lrp.Explanation(**(fields | more))


def ledger(inputs, biases, stabilizer, initial_state, largest):
    biases = np.array(biases)
    total = inputs + biases.sum() + stabilizer + initial_state
    return Ledger(inputs, biases, stabilizer, initial_state, largest, total, 0.0, 0.0)


def days(T):
    return np.datetime64("2004-03-29") + np.arange(T)


def series_input():
    rng = np.random.default_rng(9)
    R = rng.normal(size=(20, 2))
    return InputPart(R.sum(axis=1), R, ("upstream", "downstream"), None, rng.normal(size=(20, 2)))


LONG = tuple(f"$x_{{{k}}}$ is a feature whose name is much too long for a picture, number {k}" for k in range(40))
HOURS = np.datetime64("2001-01-01T00") + np.arange(2000).astype("timedelta64[h]")
ONE = {
    "a year": lambda: explanation(365, 5, WEATHER, days(365)),
    "one feature": lambda: explanation(30, 1, ("rain",), days(30)),
    "one step": lambda: explanation(1, 30, labels=days(1)),
    "40 x 2000": lambda: explanation(2000, 40, LONG, HOURS),
    "300 features": lambda: explanation(9, 300),
    "inputs": lambda: explanation(
        60, 2, ("$x_1$", "snow"), days(60), others={"basin": BASIN, "gauges": series_input()}
    ),
    "visits": lambda: explanation(12, 3, WEATHER[:3], np.array([f"visit {k} in the ward" for k in range(12)])),
    "constant": lambda: explanation(
        30, 2, values=np.ones((30, 2)), feature_relevance=np.zeros((30, 2)), relevance=np.zeros(30)
    ),
    "long title": lambda: explanation(5, 2, classes=("what " * 40,)),
    "no values": lambda: explanation(50, 3, values=None),
}  # fmt: skip


@cache
def many(count=60, static=False):
    lengths = np.random.default_rng(3).integers(20, 40, count)
    others = {"others": {"basin": BASIN}} if static else {}
    return [explanation(int(T), 5, WEATHER, days(int(T)), seed=k, **others) for k, T in enumerate(lengths)]


@cache
def forecast():
    rng = np.random.default_rng(4)
    model = lrp.Model([nets.lstm(rng, 2, 3), nets.dense(rng, 3, 6)], output_unit="mm", features=["rain", "$x_1$"])
    return model, rng.normal(size=(30, 2))


COHORTS = ["spring", "autumn", "$winter$"]


def every_axes(figure):
    """Axes and those inside them."""
    found = [*figure.axes]
    for axes in found:
        found += axes.child_axes
    return [*dict.fromkeys(found)]


def lines(figure, length):
    """What all lines of so many points show, from the top down."""
    return [line for axes in every_axes(figure) for line in axes.lines if len(line.get_xdata()) == length]


def texts(figure):
    """Titles, names and labels of all axes."""
    found = []
    for axes in every_axes(figure):
        found += [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        if axes.axison:
            found += [*axes.get_xticklabels(), *axes.get_yticklabels()]
        if axes.get_legend():
            found += axes.get_legend().get_texts()
    return [text for text in found if text.get_text()]


def words(figure):
    return "\n".join(text.get_text() for text in texts(figure))


def images(figure):
    return [image for axes in every_axes(figure) for image in axes.get_images()]
