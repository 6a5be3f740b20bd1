"""A part of the data with its explanations: what every measure looks at."""

from __future__ import annotations

import time
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np

from lrpnumpy import asked
from lrpnumpy.activations import probabilities
from lrpnumpy.checks import LrpError, RelevanceWarning, entries, shown
from lrpnumpy.encode import Encoded, encode_all
from lrpnumpy.explain import explain_all
from lrpnumpy.meant import called
from lrpnumpy.methods import COSTLY, METHODS, Method, find
from lrpnumpy.methods.reference import vectors
from lrpnumpy.model import Model
from lrpnumpy.predict import predict_all
from lrpnumpy.results import Explanations
from lrpnumpy.rules import Rule

RANDOM = "random"
HUGE = 1e30  # replaces infinite relevance
RemovalUnit = Literal["step", "feature", "value"]  # what is replaced: a step, a feature at all steps, one number
Function = Callable[[Model, list[Any]], Sequence[Any]]  # model, sequences -> one relevance (T,) or (T, D) for each
# Columns of a measure: name -> (M, n) values of every method, and (n,) what their means are divided by.
Values = dict[str, tuple[np.ndarray, np.ndarray]]


class Relevances(NamedTuple):
    """The relevances of several sequences by one method."""

    steps: list[np.ndarray]  # (T,)
    values: list[np.ndarray] | None  # (T, D), of a method that has them
    results: Explanations | None  # None of a user's function


@dataclass(frozen=True)
class Explainer:
    """A method, or a user's function."""

    name: str
    method: str | Method | Rule | None = None
    function: Function | None = None

    @property
    def has_features(self) -> bool:
        """Whether it has a relevance for each feature of a step; of a function its results say so."""
        return self.method is not None and find(self.method).feature_relevance != "no"

    def __call__(
        self,
        model: Model,
        sequences: list[Any],
        request: Mapping[str, Any],
        by_feature: bool,
        threads: int | None = None,
    ) -> Relevances:
        """The relevances of some `sequences`; the `request` has target, versus and step."""
        if self.function is not None:
            given = called(f"method {self.name!r}", self.function, model, sequences)
            return _of_function(self.name, given, model, sequences)
        assert self.method is not None
        unit: Any = "feature" if by_feature and self.has_features else "step"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RelevanceWarning)  # unstable relevance is measured without a warning
            found = explain_all(model, sequences, self.method, unit=unit, threads=threads, **request)
        steps = np.split(finite(found.relevance), found.starts[1:-1])
        values = np.split(finite(found.feature_relevance), found.starts[1:-1]) if unit == "feature" else None
        return Relevances(steps, values, found)


def finite(values: Any) -> np.ndarray:
    """float64, without NaN and infinity."""
    if np.iscomplexobj(values):
        raise LrpError("relevance must be real numbers, got complex ones.")
    return np.nan_to_num(np.asarray(values, np.float64), nan=0.0, posinf=HUGE, neginf=-HUGE).clip(-HUGE, HUGE)


def _of_function(name: str, found: Sequence[Any], model: Model, sequences: list[Any]) -> Relevances:
    shapes = [(record[model.main].length, model.input_size) for record in encode_all(model, sequences)]
    try:
        each = [finite(getattr(one, "relevance", one)) for one in islice(found, len(shapes) + 1)]
        is_right = all(one.shape in (shape[:1], shape) for one, shape in zip(each, shapes, strict=True))
    except LrpError:  # of a function that computes one after the other
        raise
    except (TypeError, ValueError):
        is_right = False
    if not is_right:
        raise LrpError(
            f"method {name!r} must give one relevance for each of {len(shapes)} sequences, of real numbers: (T,) or "
            f"(T, {model.input_size}); got {shown(found)}."
        )
    steps = [one if one.ndim == 1 else one.sum(axis=1) for one in each]
    return Relevances(steps, each if all(one.ndim == 2 for one in each) else None, None)


def random_relevance(seed: int) -> Function:
    """A method that returns random numbers: what every other one must be better than.

    The same call gives the same numbers, so that a run that is resumed ends as one that was not interrupted.
    """

    def function(model: Model, sequences: list[Any]) -> list[np.ndarray]:
        encoded = [record[model.main] for record in encode_all(model, sequences)]
        state = zlib.crc32(model.digest.encode())
        for one in encoded:
            state = zlib.crc32(numbers_of(one).tobytes(), state)
        rng = np.random.default_rng((seed, state))
        return [rng.normal(size=(one.length, model.input_size)) for one in encoded]

    return function


def numbers_of(encoded: Encoded) -> np.ndarray:
    """(T,) the token ids of an input, or (T, D) its numbers."""
    if encoded.x is not None:
        return encoded.x
    assert encoded.ids is not None
    return encoded.ids


def explainers(methods: Any, model: Model, seed: int) -> list[Explainer]:
    """Methods as users name them: None for all; names, rules, "random"; or a dict of name to method or function."""
    if methods is None:
        out_of_place = "occlusion-p" if model.output == "linear" else ""
        methods = [*(name for name in METHODS if name not in (*COSTLY, out_of_place)), RANDOM]
    if isinstance(methods, (str, Rule, Method)):
        methods = [methods]
    if not isinstance(methods, Mapping):
        given = entries(methods, "methods", 1000)
        names = [getattr(one, "name", getattr(one, "__name__", one)) for one in given]
        if not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
            raise LrpError(f"methods must be different methods, or a dict of names and methods, got {shown(methods)}.")
        methods = dict(zip(names, given, strict=True))
    if not methods:
        raise LrpError("methods must be at least one method, got none.")
    out = []
    for name, value in methods.items():
        if isinstance(value, str) and value == RANDOM:
            out.append(Explainer(str(name), function=random_relevance(seed)))
        elif callable(value) and not isinstance(value, (Rule, Method)):
            out.append(Explainer(str(name), function=value))
        else:
            asked.request(model, value, None, None, None, {})
            out.append(Explainer(str(name), value))
    return out


@dataclass(frozen=True, eq=False)
class Case:
    """Some sequences, what is explained of each, and the relevances by every method."""

    model: Model
    explainers: list[Explainer]
    sequences: list[Any]  # as passed in, less padding
    x: list[np.ndarray]  # (T, D) vectors of the main input, in the units of the user
    request: Mapping[str, Any]  # target (n,), versus, step
    sign: np.ndarray  # (n,) -1 where the decision is that the only score is low
    units: tuple[RemovalUnit, ...]
    reference: str | np.ndarray  # "omit", or the vector (D,) that takes the place of a step
    seed: tuple[int, ...]
    threads: int | None = None
    found: list[Relevances] = field(default_factory=list)  # for each method
    seconds: list[float] = field(default_factory=list)  # of each method
    forward: float = 0.0  # seconds of one forward pass

    def counts(self, unit: RemovalUnit) -> list[int]:
        """What can be replaced of each sequence."""
        size = self.model.input_size
        return [{"step": len(x), "feature": size, "value": len(x) * size}[unit] for x in self.x]

    def rng(self, purpose: int) -> np.random.Generator:
        """Random numbers that depend on the seed, the part of the data, and what they are for."""
        return np.random.default_rng((*self.seed, purpose))

    def replaced(self, k: int, masks: np.ndarray, unit: RemovalUnit) -> list[Any]:
        """Sequence k without the steps of each mask (V, count); other inputs of the network stay."""
        x = self.x[k]
        if unit == "step" and isinstance(self.reference, str):
            variants = [x[~mask] if not mask.all() else x[:1] for mask in masks]
        else:
            gone = {"step": (-1, len(x), 1), "feature": (-1, 1, x.shape[1]), "value": (-1, *x.shape)}[unit]
            variants = list(np.where(masks.reshape(gone), self.reference, x).astype(x.dtype))
        is_single = len(self.model.inputs) == 1
        if is_single:
            return variants
        return [{**self.sequences[k], self.model.main: one} for one in variants]

    def relevance(self, m: int, unit: RemovalUnit) -> list[np.ndarray] | None:
        """Relevance for the decision by method m, one array (count,) for each sequence; None where it has none."""
        found = self.found[m]
        each = found.steps
        if unit != "step":
            if found.values is None:
                return None
            each = [one.sum(axis=0) if unit == "feature" else one.ravel() for one in found.values]
        return [s * one for s, one in zip(self.sign, each, strict=True)]

    def values(self, sequences: list[Any], owner: Sequence[int]) -> np.ndarray:
        """(V,) what a replacement should change: the probability of the decision, or the score where there is none.

        With `versus` it is the difference of the two scores. `owner` is the sequence of each variant.
        """
        if not sequences:
            return np.empty(0)
        which, place = np.asarray(owner), np.arange(len(owner))
        found = _scores(self.model, sequences, self.request["step"], self.threads)
        targets, versus = self.request["target"][which], self.request["versus"]
        if versus is not None:
            return found[place, targets] - found[:, versus]
        if self.model.output == "linear":
            return found[place, targets]
        if self.model.outputs == 1:
            found = found * self.sign[which][:, None]
        P: Any = probabilities(self.model.output, found)
        return P[place, targets]


def _scores(model: Model, sequences: list[Any], step: int | None, threads: int | None = None) -> np.ndarray:
    """(N, C) scores; of a network that predicts at every step those of one step, by default the last."""
    found = predict_all(model, sequences, threads=threads)
    if model.every:
        found = [one[-1 if step is None else step] for one in found]
    return np.asarray(found, np.float64)


def case_of(
    model: Model,
    sequences: list[Any],
    labels: np.ndarray | None,
    methods: list[Explainer],
    units: tuple[RemovalUnit, ...],
    reference: str | np.ndarray,
    seed: tuple[int, ...],
    versus: int | None = None,
    step: int | None = None,
    threads: int | None = None,
) -> Case:
    """Explain some sequences by every method; the time of each is measured on one thread."""
    encoded = [record[model.main] for record in encode_all(model, sequences)]
    if any(one.kept is not None for one in encoded):  # padding cannot be removed
        bare: list[Any] = [numbers_of(one) for one in encoded]
        if len(model.inputs) > 1:
            bare = [{**given, model.main: own} for given, own in zip(sequences, bare, strict=True)]
        sequences = bare
    x = [vectors(one) for one in encoded]
    _scores(model, sequences, step, 1)  # the first pass takes longer than others
    began = time.perf_counter()
    scores = _scores(model, sequences, step, 1)
    forward = time.perf_counter() - began
    sign = np.ones(len(x))
    if model.outputs == 1:
        targets = np.zeros(len(x), np.int64)
        if model.output == "sigmoid":  # the decision is yes or no: what supports it supports or opposes the score
            yes = scores[:, 0] >= 0 if labels is None else labels == 1
            sign = np.where(yes, 1.0, -1.0)
    else:
        targets = scores.argmax(axis=1) if labels is None else labels
    request = {"target": targets, "versus": versus, "step": step}
    case = Case(model, methods, sequences, x, request, sign, units, reference, seed, threads, forward=forward)
    for one in methods:
        began = time.perf_counter()
        case.found.append(one(model, sequences, request, units != ("step",), 1))
        case.seconds.append(time.perf_counter() - began)
    return case
