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
from lrpnumpy.checks import LrpError, RelevanceWarning, entries, shown
from lrpnumpy.encode import Encoded, encode_all
from lrpnumpy.explain import explain_all
from lrpnumpy.meant import called
from lrpnumpy.methods import COSTLY, METHODS, Method, find
from lrpnumpy.methods.occlusion import probabilities
from lrpnumpy.methods.reference import vectors
from lrpnumpy.model import Model
from lrpnumpy.predict import predict_all
from lrpnumpy.rules import Rule

RANDOM = "random"
HUGE = 1e30  # stands for relevance that is infinite
Unit = Literal["step", "feature"]
Function = Callable[[Model, list[Any]], Sequence[Any]]  # model, sequences -> one relevance (T,) or (T, D) for each
# Columns of a measure: name -> (M, n) values of every method, and (n,) what their means are divided by.
Values = dict[str, tuple[np.ndarray, np.ndarray]]


class Relevances(NamedTuple):
    """What one method says of several sequences."""

    each: list[np.ndarray]  # (T,) of each sequence, or (D,) where features are the unit
    total: np.ndarray  # (n,) what all inputs got
    kept: dict[str, np.ndarray] | None = None  # (n,) where the rest of the score is, of methods with a ledger


@dataclass(frozen=True)
class Explainer:
    """A method with its options, or a function of the user's own."""

    name: str
    method: str | Method | Rule | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    function: Function | None = None

    @property
    def has_variables(self) -> bool:
        """Whether it has a relevance for each feature of a step."""
        return getattr(self.function, "by_feature", False) or (
            self.method is not None and find(self.method).feature_relevance != "no"
        )

    def __call__(self, model: Model, sequences: list[Any], targets: Any, unit: Unit, threads: int | None) -> Relevances:
        if self.function is not None:
            given = called(f"method {self.name!r}", self.function, model, sequences)
            return _of_function(self.name, given, model, sequences, unit)
        assert self.method is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RelevanceWarning)  # relevance that rounding decides is measured, not said
            found = explain_all(model, sequences, self.method, targets, unit=unit, threads=threads, **self.options)
        values = found.relevance if unit == "step" else found.feature_relevance
        assert values is not None
        each = np.split(finite(values), found.starts[1:-1])
        with np.errstate(all="ignore"):
            total = np.array([part.sum() for part in each])
            for one in found.inputs.values():
                if one is not found.main:
                    total += [part.sum() for part in np.split(finite(one.relevance), one.starts[1:-1])]
            entries = {name: finite(column) for name, column in found.ledger.items()}
        kept = None
        if "stabiliser" in entries:
            names = ("stabiliser", "initial_state", "rule", "attention")
            kept = {"biases": entries["biases"].sum(axis=0), **{name: entries[name] for name in names}}
        elif "reference" in entries:
            kept = {"reference": entries["reference"]}
        if unit == "feature":
            each = [part.sum(axis=0) for part in each]
        return Relevances(each, total, kept)


def finite(values: Any) -> np.ndarray:
    """float64, without NaN and infinity."""
    if np.iscomplexobj(values):
        raise LrpError("relevance must be real numbers, got complex ones.")
    return np.nan_to_num(np.asarray(values, np.float64), nan=0.0, posinf=HUGE, neginf=-HUGE).clip(-HUGE, HUGE)


def _of_function(name: str, found: Sequence[Any], model: Model, sequences: list[Any], unit: Unit) -> Relevances:
    try:
        each = [finite(getattr(one, "relevance", one)) for one in islice(found, len(sequences) + 1)]
    except (TypeError, ValueError) as error:
        if isinstance(error, LrpError):
            raise
        raise LrpError(f"method {name!r} must give one relevance for each sequence, got {shown(found)}.") from None
    if len(each) != len(sequences):
        raise LrpError(
            f"method {name!r} must give one relevance for each of {len(sequences)} sequences, got {len(each)}."
        )
    axis = 1 if unit == "step" else 0
    if unit == "feature" and any(one.ndim != 2 for one in each):
        raise LrpError(f"method {name!r} must give (T, D) relevances where features are the unit, got (T,).")
    each = [one.sum(axis=axis) if one.ndim == 2 else one for one in each]
    for k, (one, sequence) in enumerate(zip(each, encode_all(model, sequences), strict=True)):
        size = sequence[model.main].length if unit == "step" else model.input_size
        if one.shape != (size,):
            raise LrpError(f"method {name!r} must give {size} numbers for sequence {k}, got shape {one.shape}.")
    return Relevances(each, np.array([one.sum() for one in each]))


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

    function.by_feature = True  # type: ignore[attr-defined]
    return function


def numbers_of(encoded: Encoded) -> np.ndarray:
    """(T,) the token ids of an input, or (T, D) its numbers."""
    if encoded.x is not None:
        return encoded.x
    assert encoded.ids is not None
    return encoded.ids


def explainers(methods: Any, model: Model, unit: Unit, seed: int) -> list[Explainer]:
    """Methods as users name them: None for all; names, rules, "random"; or a dict of name to method or function.

    A value of the dict may also be a pair of a method and its options, ("lrp-prop", {"eps": 0.2}).
    """
    if methods is None:
        methods = [name for name in METHODS if name not in COSTLY]
        if model.output == "linear":
            methods.remove("occlusion-p")
        if unit == "feature":
            methods = [name for name in methods if METHODS[name].feature_relevance != "no"]
        methods.append(RANDOM)
    if isinstance(methods, (str, Rule, Method)):
        methods = [methods]
    if not isinstance(methods, Mapping):
        try:
            given, methods = entries(methods, "methods", 1000), {}
            for one in given:
                name = one.name if isinstance(one, (Rule, Method)) else getattr(one, "__name__", one)
                if not isinstance(name, str):
                    raise TypeError
                if isinstance(one, Method) and name in methods:
                    raise LrpError(f"methods: two of them are named {name!r}; pass a dict of names and methods.")
                methods[name] = one
        except TypeError:
            raise LrpError(f"methods must be a list or a dict of names and rules, got {shown(methods)}.") from None
    if not methods:
        raise LrpError("methods must be at least one method, got none.")
    out = []
    for name, value in methods.items():
        method, options = value if isinstance(value, tuple) and len(value) == 2 else (value, {})
        if not isinstance(options, Mapping):
            raise LrpError(f"methods: {name!r} must have a dict of its options, got {shown(options)}.")
        if isinstance(method, str) and method == RANDOM:
            out.append(Explainer(str(name), function=random_relevance(seed)))
        elif callable(method) and not isinstance(method, (Rule, Method)):
            out.append(Explainer(str(name), function=method))
        else:
            asked.request(model, method, unit, None, None, dict(options))
            out.append(Explainer(str(name), method, options))
    return out


@dataclass(frozen=True, eq=False)
class Case:
    """Some sequences, what is explained of each, and what every method says."""

    model: Model
    explainers: list[Explainer]
    sequences: list[Any]  # as passed in, less padding
    x: list[np.ndarray]  # (T, D) vectors of the main input, in the units of the user
    targets: np.ndarray  # (n,)
    sign: np.ndarray  # (n,) -1 where the decision is that the only score is low
    unit: Unit
    reference: str | np.ndarray  # "omit", or the vector (D,) that takes the place of a step
    seed: tuple[int, ...]
    threads: int | None = None
    found: list[Relevances] = field(default_factory=list)  # for each method
    seconds: list[float] = field(default_factory=list)  # processor time of each method
    forward: float = 0.0  # that of one forward pass

    @property
    def counts(self) -> np.ndarray:
        """(n,) steps, or features, that can be removed."""
        return np.array([len(x) if self.unit == "step" else self.model.input_size for x in self.x])

    def rng(self, purpose: int) -> np.random.Generator:
        """Random numbers that depend on the seed, the part of the data, and what they are for."""
        return np.random.default_rng((*self.seed, purpose))

    def with_vectors(self, x: Sequence[np.ndarray], which: Sequence[int] | np.ndarray) -> list[Any]:
        """Sequences whose main input has these vectors; those of a network with several inputs keep the others."""
        if len(self.model.inputs) == 1:
            return list(x)
        return [{**self.sequences[k], self.model.main: one} for one, k in zip(x, which, strict=True)]

    def removed(self, k: int, masks: np.ndarray) -> list[np.ndarray]:
        """The vectors of sequence k without what each of the masks (V, steps or features) says."""
        x = self.x[k]
        if self.unit == "step" and isinstance(self.reference, str):
            return [x[~mask] for mask in masks]
        gone = masks[:, :, None] if self.unit == "step" else masks[:, None, :]
        return list(np.where(gone, self.reference, x[None]).astype(x.dtype))

    def explain(self, explainer: Explainer, sequences: list[Any], model: Model | None = None) -> list[np.ndarray]:
        """Relevance for the decision: the opposite of the score's where the decision is that the score is low."""
        found = explainer(model or self.model, sequences, self.targets, self.unit, self.threads)
        return [s * one for s, one in zip(self.sign, found.each, strict=True)]

    @property
    def relevances(self) -> list[list[np.ndarray]]:
        """For each method, one array for each sequence: relevance for the decision."""
        return [[s * one for s, one in zip(self.sign, found.each, strict=True)] for found in self.found]

    def scores(self, sequences: list[Any], which: np.ndarray) -> np.ndarray:
        """(V,) the explained score of variants; `which` says of which sequence each is one."""
        return _last(self.model, sequences, self.threads)[np.arange(len(which)), self.targets[which]]

    def values(self, sequences: list[Any], which: np.ndarray) -> np.ndarray:
        """(V,) what removal should change: the probability of the decision, or the score where there is none."""
        if self.model.output == "linear":
            return self.scores(sequences, which)
        found = _last(self.model, sequences, self.threads)
        if self.model.outputs == 1:
            found = found * self.sign[which][:, None]
        P: Any = probabilities(self.model.output, found)
        return P[np.arange(len(which)), self.targets[which]]


def _last(model: Model, sequences: list[Any], threads: int | None = None) -> np.ndarray:
    """(N, C) scores; of a network that predicts at every step those at the last."""
    found = predict_all(model, sequences, threads=threads)
    return np.asarray([one[-1] for one in found] if model.every else found, np.float64)


def case_of(
    model: Model,
    sequences: list[Any],
    labels: np.ndarray | None,
    methods: list[Explainer],
    unit: Unit,
    reference: str | np.ndarray,
    seed: tuple[int, ...],
    threads: int | None = None,
) -> Case:
    """Explain some sequences by every method; the processor time of each is measured on one thread."""
    encoded = [record[model.main] for record in encode_all(model, sequences)]
    if any(one.kept is not None for one in encoded):  # padding is no step that could be removed
        bare = [numbers_of(one) for one in encoded]
        sequences = (
            bare if len(model.inputs) == 1 else [{**s, model.main: b} for s, b in zip(sequences, bare, strict=True)]
        )
    x = [vectors(one) for one in encoded]
    _last(model, sequences, 1)  # the first pass takes longer than others
    began = time.process_time()
    last = _last(model, sequences, 1)
    forward = time.process_time() - began
    sign = np.ones(len(x))
    if model.outputs == 1:
        targets = np.zeros(len(x), np.int64)
        if model.output == "sigmoid":  # the decision is yes or no: what speaks for it speaks for or against the score
            yes = last[:, 0] >= 0 if labels is None else labels == 1
            sign = np.where(yes, 1.0, -1.0)
    else:
        targets = last.argmax(axis=1) if labels is None else labels
    case = Case(model, methods, sequences, x, targets, sign, unit, reference, seed, threads, forward=forward)
    for one in methods:
        began = time.process_time()
        case.found.append(one(model, sequences, targets, unit, 1))
        case.seconds.append(time.process_time() - began)
    return case
