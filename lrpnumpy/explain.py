"""Which inputs made the network decide: explain one sequence, explain many, compare methods."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from lrpnumpy.backward import Passed, backward
from lrpnumpy.batch import Batch, Encoded, encode, encode_all
from lrpnumpy.checks import LrpError, RelevanceWarning, float_array, non_negative, one_of
from lrpnumpy.explanation import Comparison, Explanation, Hidden, Ledger, Span, SpanLedger
from lrpnumpy.forward import Keep, Trace, forward
from lrpnumpy.methods import METHODS, Method, find
from lrpnumpy.model import Bidirectional, Dense, Model
from lrpnumpy.predict import run_chunks
from lrpnumpy.rules import Propagation, Rule

Unit = Literal["word", "variable"] | None
TOO_LARGE = 1e6  # times f_c: relevance beyond this is decided by rounding


@dataclass(frozen=True, eq=False)
class Request:
    """What is asked for, checked."""

    method: Method
    eps: float
    unit: Unit
    hidden: bool
    versus: int | None
    step: int
    baseline: np.ndarray | None
    how: Literal["zero", "omit"]
    tol: float
    share_bias: bool

    @property
    def with_variables(self) -> bool:
        """Whether a value for each variable is asked for."""
        return self.unit == "variable" or (self.unit is None and self.method.variables == "free")

    @property
    def propagation(self) -> Propagation:
        """How messages flow back, for the gradient and LRP."""
        return Propagation(self.method.rule, self.eps, self.share_bias) if self.method.kind == "lrp" else Propagation()

    @property
    def options(self) -> dict[str, Any]:
        """The options that matter to the method, for the record."""
        kind = self.method.kind
        options: dict[str, Any] = {}
        if kind == "lrp":
            options |= {"eps": self.eps, "share_bias": self.share_bias}
        if kind == "occlusion":
            options |= {"how": self.how, "tol": self.tol}
            options |= {} if self.baseline is None else {"baseline": self.baseline.tolist()}
        return options | {"unit": self.unit, "versus": self.versus, "step": self.step}


def _request(
    model: Model, method: Any, eps: Any, unit: Any, hidden: bool, versus: Any, step: Any, baseline: Any, how: Any, tol: Any,
    share_bias: bool,
) -> Request:  # fmt: skip
    chosen = find(method)
    one_of(unit, "unit", ("word", "variable", None))
    one_of(how, "how", ("zero", "omit"))
    if unit == "variable" and chosen.variables == "no":
        raise LrpError(f"unit must be 'word' or None with method {chosen.name!r}, which has no relevance per variable, got 'variable'.")
    if unit == "variable" and how == "omit":
        raise LrpError("how='omit' must have unit='word' or None: a word can be removed, a single variable cannot.")
    if hidden and chosen.kind != "lrp":
        raise LrpError(f"hidden must be False with method {chosen.name!r}: only LRP gives the hidden states relevance.")
    if chosen.name == "occlusion-p" and model.output == "linear":
        raise LrpError(
            "method 'occlusion-p' must have a model with probabilities, got one whose output is 'linear'; "
            "use 'occlusion-f', or build the Model with output='sigmoid'."
        )
    if step is None:
        step = -1
    elif model.readout != "every":
        raise LrpError(f"step must be None unless the model predicts at every step, got step={step!r} with readout {model.readout!r}.")
    elif isinstance(step, bool) or not isinstance(step, (int, np.integer)):
        raise LrpError(f"step must be an integer, got {step!r}.")
    return Request(
        method=chosen,
        eps=non_negative(eps, "eps"),
        unit=unit,
        hidden=bool(hidden),
        versus=None if versus is None else _class(model, versus, "versus"),
        step=int(step),
        baseline=None if baseline is None else _baseline(model, baseline),
        how=how,
        tol=non_negative(tol, "tol"),
        share_bias=bool(share_bias),
    )


def _baseline(model: Model, baseline: Any) -> np.ndarray:
    if isinstance(baseline, str):
        return model.embedding.E[encode(model, [baseline], "baseline").ids[0]]  # type: ignore[union-attr, index]
    return float_array(baseline, "baseline", (model.inputs,), dtype=model.dtype)


def _class(model: Model, value: Any, what: str) -> int:
    """A class as its index."""
    if isinstance(value, str):
        if not model.classes:
            raise LrpError(f"{what} must be a class from 0 to {model.outputs - 1} (this model has no class names), got {value!r}.")
        return model.classes.index(one_of(value, what, model.classes))
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise LrpError(f"{what} must be a class index or a class name, got {value!r}.")
    if not 0 <= value < model.outputs:
        raise LrpError(f"{what} must lie from 0 to {model.outputs - 1}, got {value}.")
    return int(value)


def _targets(model: Model, target: Any, count: int) -> np.ndarray | str | None:
    """None (the predicted class), "all", or one class for each of `count` sequences."""
    if target is None or (isinstance(target, str) and target == "all" and "all" not in (model.classes or ())):
        return target
    if isinstance(target, (str, int, np.integer)):
        return np.full(count, _class(model, target, "target"))
    if not isinstance(target, (Sequence, np.ndarray)):
        raise LrpError(f"target must be None, a class index or name, 'all', or one class for each sequence, got {target!r}.")
    if len(target) != count:
        raise LrpError(f"target must be one class for each of the {count} sequences, got {len(target)}.")
    return np.array([_class(model, value, f"target of sequence {k}") for k, value in enumerate(target)], np.int64)


def _spans(encoded: Encoded, spans: Any, where: str) -> np.ndarray:
    """Phrases as a checked (V, 2) array of positions among the steps that the network sees."""
    try:
        array = np.asarray(spans, dtype=np.int64).reshape(len(spans), 2)
        if not (np.asarray(spans) == array).all():
            raise ValueError
    except (TypeError, ValueError):
        raise LrpError(f"{where}: spans must be a list of pairs (start, stop) of positions, got {spans!r}.") from None
    for start, stop in array:
        if not 0 <= start < stop <= encoded.length:
            raise LrpError(
                f"{where}: spans must have 0 <= start < stop <= {encoded.length}, got ({start}, {stop}); stop is excluded."
            )
    if encoded.kept is not None:
        array = np.searchsorted(encoded.kept, array)
        if (array[:, 0] == array[:, 1]).any():
            raise LrpError(f"{where}: spans must hold at least one step that is not padding, got {spans!r}.")
    return array


# -- one chunk -------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Columns:
    """Results of some sequences: packed rows (R, …) or one row a sequence (n, …); a leading axis C with target "all"."""

    scores: np.ndarray  # (n, C)
    targets: np.ndarray  # (n,), or (C, n)
    relevance: np.ndarray  # (R,)
    variables: np.ndarray | None = None  # (R, D)
    ledger: dict[str, np.ndarray] = field(default_factory=dict)  # name -> (n,); biases (layers, n)
    spans: list[np.ndarray] | None = None  # a sequence (V,)
    cd: list[SpanLedger] | None = None  # a sequence
    hidden: list[tuple[np.ndarray, ...]] | None = None  # a layer: (R, H) of h, c, of each direction


def _explained_rows(model: Model, batch: Batch, request: Request, positions: np.ndarray) -> np.ndarray | None:
    """With readout "every", the packed row whose prediction is explained; else None."""
    if model.readout != "every":
        return None
    steps = np.where(request.step < 0, batch.lengths + request.step, request.step)
    if len(wrong := np.flatnonzero((steps < 0) | (steps >= batch.lengths))):
        length = batch.lengths[wrong[0]]
        raise LrpError(
            f"step must lie from {-length} to {length - 1} for sequence {positions[wrong[0]]} of {length} steps, got {request.step}."
        )
    return batch.first[steps] + np.arange(batch.n)


def _combine(values: np.ndarray, targets: np.ndarray, versus: int | None) -> np.ndarray:
    """(n, …, C) to (n, …): the target's value, less that of the class it is held against."""
    out = np.take_along_axis(values, targets.reshape(-1, *[1] * (values.ndim - 1)), axis=-1)[..., 0]
    return out if versus is None else out - values[..., versus]


def probabilities(model: Model, scores: np.ndarray) -> np.ndarray | None:
    """Softmax or sigmoid of scores (…, C), as the model says; None where it has neither."""
    if model.output == "softmax":
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)
    if model.output == "sigmoid":
        e = np.exp(-abs(scores))
        return np.where(scores < 0, e, 1) / (1 + e)
    return None


def _stack(parts: list[Any]) -> Any:
    """The same column for every class: one array with a leading axis."""
    return None if parts[0] is None else np.stack(parts)


def _propagated(trace: Trace, request: Request, rows: np.ndarray | None, scores: np.ndarray, targets: np.ndarray) -> Columns:
    """Gradient and LRP for one target a sequence."""
    n, method = trace.batch.n, request.method
    start = np.zeros_like(scores)
    weights = scores if method.kind == "lrp" else np.ones_like(scores)
    every = np.arange(n)
    start[every, targets] = weights[every, targets]
    if request.versus is not None:
        start[:, request.versus] -= weights[:, request.versus]
    if rows is not None:
        start, explained = np.zeros_like(trace.scores), start
        start[rows] = explained
    passed = backward(trace, start, request.propagation, hidden=request.hidden)
    values = passed.x
    if method.kind == "gradient":
        values = values * (values if method.name == "gradient" else trace.batch.x)
    relevance = values.sum(axis=1)
    columns = Columns(scores, targets, relevance, values if request.with_variables else None)
    if method.kind == "lrp":
        columns.ledger = _ledger(trace.batch, relevance, passed)
        columns.hidden = passed.hidden if request.hidden else None
    return columns


def _ledger(batch: Batch, relevance: np.ndarray, passed: Passed) -> dict[str, np.ndarray]:
    return {
        "inputs": np.add.reduceat(batch.unpack(relevance), batch.starts),
        "biases": passed.biases,
        "stabiliser": passed.stabiliser,
        "initial_state": passed.initial_state,
        "largest": passed.largest,
    }


def _occluded(
    model: Model, batch: Batch, request: Request, steps: np.ndarray | None, spans: list[np.ndarray], variables: bool
) -> list[np.ndarray]:
    """Scores, or probabilities, of every variant of every sequence."""
    from lrpnumpy.occlude import occlude

    found = occlude(
        model, batch, spans, baseline=request.baseline, how=request.how, variables=variables, tol=request.tol, steps=steps
    )
    if request.method.name == "occlusion-p":
        return [probabilities(model, values) for values in found]  # type: ignore[misc]
    return found


def _words(batch: Batch) -> list[np.ndarray]:
    """Every single word as a phrase."""
    return [np.stack([np.arange(T), np.arange(1, T + 1)], axis=1) for T in batch.lengths]


def _packed(batch: Batch, parts: list[np.ndarray]) -> np.ndarray:
    """One array a sequence to packed rows."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)[batch.rows]


def _columns(
    model: Model, batch: Batch, request: Request, targets: np.ndarray | None, spans: list[np.ndarray] | None, positions: np.ndarray,
    every_class: bool,
) -> Columns:  # fmt: skip
    """All results of one chunk."""
    kind = request.method.kind
    keep: Keep = {"occlusion": "scores", "cd": "trace"}.get(kind) or request.propagation  # type: ignore[assignment]
    trace = forward(model, batch, keep)
    rows = _explained_rows(model, batch, request, positions)
    scores = trace.scores if rows is None else trace.scores[rows]
    steps = None if rows is None else batch.step_of(rows)
    if targets is None:
        targets = scores.argmax(axis=1)
    wanted = [np.full(batch.n, c) for c in range(model.outputs)] if every_class else [targets]
    if kind in ("gradient", "lrp"):
        parts = [_propagated(trace, request, rows, scores, chosen) for chosen in wanted]
        for part in parts:
            if spans is not None:
                sums = [np.concatenate(([0], np.cumsum(word))) for word in batch.split(part.relevance)]
                part.spans = [s[span[:, 1]] - s[span[:, 0]] for s, span in zip(sums, spans, strict=True)]
        return _joined(parts) if every_class else parts[0]
    phrases = spans or [np.empty((0, 2), np.int64)] * batch.n
    both = [np.concatenate(pair) for pair in zip(_words(batch), phrases, strict=True)]  # words first, then phrases
    parts = []
    if kind == "occlusion":
        base = probabilities(model, scores) if request.method.name == "occlusion-p" else scores
        found = _occluded(model, batch, request, steps, both, False)
        single = _occluded(model, batch, request, steps, both, True) if request.with_variables else None
        for chosen in wanted:
            drops = _drops(base, found, chosen, request.versus)  # type: ignore[arg-type]
            part = Columns(scores, chosen, _packed(batch, [d[:T] for d, T in zip(drops, batch.lengths, strict=True)]))
            if single is not None:
                part.variables = _packed(batch, _drops(base, single, chosen, request.versus))  # type: ignore[arg-type]
            if spans is not None:
                part.spans = [d[T:] for d, T in zip(drops, batch.lengths, strict=True)]
            parts.append(part)
        return _joined(parts) if every_class else parts[0]
    from lrpnumpy.decompose import decompose

    divided = decompose(trace, both, steps=steps)
    for chosen in wanted:
        words, ledgers = [], []
        for s, (division, T) in enumerate(zip(divided, batch.lengths, strict=True)):
            one = np.full(len(division.relevant), chosen[s])
            names = division.relevant, division.irrelevant, division.bias
            a, r, b = (_combine(values, one, request.versus) for values in names)
            asked = slice(T) if spans is None else slice(T, None)
            words.append(a[:T])
            ledgers.append(SpanLedger(a[asked], r[asked], b[asked], (a + r)[0] - a[:T].sum()))
        part = Columns(scores, chosen, _packed(batch, words), cd=ledgers)
        if spans is not None:
            part.spans = [entry.relevant for entry in ledgers]
        parts.append(part)
    return _joined(parts) if every_class else parts[0]


def _drops(base: np.ndarray, found: list[np.ndarray], targets: np.ndarray, versus: int | None) -> list[np.ndarray]:
    """The target's value less that of each variant."""
    whole = _combine(base, targets, versus)
    out = []
    for s, values in enumerate(found):
        flat = values.reshape(-1, values.shape[-1])
        one = np.full(len(flat), targets[s])
        out.append((whole[s] - _combine(flat, one, versus)).reshape(values.shape[:-1]))
    return out


def _joined(parts: list[Columns]) -> Columns:
    """The columns of every class as one."""
    first, n = parts[0], len(parts[0].scores)
    out = Columns(first.scores, _stack([p.targets for p in parts]), _stack([p.relevance for p in parts]))
    out.variables = _stack([p.variables for p in parts])
    out.ledger = {name: _stack([p.ledger[name] for p in parts]) for name in first.ledger}
    if first.spans is not None:
        out.spans = [np.stack([p.spans[s] for p in parts]) for s in range(n)]  # type: ignore[index]
    if first.cd is not None:
        fields = ("relevant", "irrelevant", "bias", "unassigned")
        out.cd = [
            SpanLedger(*(np.stack([getattr(p.cd[s], name) for p in parts]) for name in fields))  # type: ignore[index]
            for s in range(n)
        ]
    if first.hidden is not None:
        out.hidden = [
            tuple(np.stack([p.hidden[k][j] for p in parts]) for j in range(len(first.hidden[k])))  # type: ignore[index]
            for k in range(len(first.hidden))
        ]
    return out


def _outside() -> int:
    """The stacklevel of a warning that points at the first caller outside this package."""
    level, frame = 0, sys._getframe()
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "lrpnumpy":
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    return level


# -- all chunks ------------------------------------------------------------------------------------------------------


class Explanations(Sequence[Explanation]):
    """The explanations of several sequences, computed as one ragged batch; each is made when it is asked for.

    `relevance` holds the words of all sequences one after another, those of sequence k from starts[k] to starts[k+1].
    """

    def __init__(self, model: Model, request: Request, encoded: list[Encoded], every_class: bool) -> None:
        N, C, dtype = len(encoded), model.outputs, model.dtype
        lead = (C,) if every_class else ()
        self.model, self.request, self.every_class = model, request, every_class
        self.encoded = encoded
        self.starts = np.concatenate(([0], np.cumsum([sequence.length for sequence in encoded]))).astype(np.int64)
        total = int(self.starts[-1])
        self.scores = np.empty((N, C), dtype)
        self.targets = np.empty((*lead, N), np.int64)
        empty = np.zeros if any(sequence.kept is not None for sequence in encoded) else np.empty
        self.relevance = empty((*lead, total), dtype)
        self.variables = empty((*lead, total, model.inputs), dtype) if request.with_variables else None
        self.ledger: dict[str, np.ndarray] = {}
        if request.method.kind == "lrp":
            self.ledger = {
                name: np.empty((*lead, *((len(model.layers),) if name == "biases" else ()), N), dtype)
                for name in ("inputs", "biases", "stabiliser", "initial_state", "largest")
            }
        self._single: dict[str, list[Any]] = {}  # what has a shape of its own for each sequence

    def _rows(self, positions: np.ndarray, batch: Batch) -> np.ndarray:
        """Where the packed rows of a chunk stand among all words."""
        if any(self.encoded[k].kept is not None for k in positions):
            parts = []
            for k in positions:
                kept = self.encoded[k].kept
                parts.append(self.starts[k] + (np.arange(self.encoded[k].length) if kept is None else kept))
            return np.concatenate(parts)[batch.rows]
        return np.repeat(self.starts[positions] - batch.starts, batch.lengths)[batch.rows] + batch.rows

    def _put(self, positions: np.ndarray, batch: Batch, columns: Columns) -> None:
        rows = self._rows(positions, batch)
        self.scores[positions] = columns.scores
        self.targets[..., positions] = columns.targets
        self.relevance[..., rows] = columns.relevance
        if self.variables is not None:
            self.variables[..., rows, :] = columns.variables
        for name, column in columns.ledger.items():
            self.ledger[name][..., positions] = column
        for name, parts in (("spans", columns.spans), ("cd", columns.cd)):
            for k, part in zip(positions, parts or (), strict=bool(parts)):
                self._single[name][k] = part
        if columns.hidden is not None:
            for s, k in enumerate(positions):
                take = batch.first[: batch.lengths[s]] + s
                self._single["hidden"][k] = [[part[..., take, :] for part in layer] for layer in columns.hidden]

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return [self[k] for k in range(*key.indices(len(self)))]
        if not -len(self) <= key < len(self):
            raise IndexError(f"explanation {key} of {len(self)}")
        return self._one(key % len(self))

    def __iter__(self) -> Iterator[Explanation]:
        return (self._one(k) for k in range(len(self)))

    def __repr__(self) -> str:
        return f"<{len(self)} explanations by {self.request.method.name}>"

    @cached_property
    def probabilities(self) -> np.ndarray | None:
        """(N, C), where the model has any."""
        return probabilities(self.model, self.scores)

    @cached_property
    def _options(self) -> dict[str, Any]:
        return self.request.options

    def _one(self, k: int) -> Explanation:
        words = slice(self.starts[k], self.starts[k + 1])
        found = self.probabilities
        ledger: Ledger | SpanLedger | None = self._single["cd"][k] if "cd" in self._single else None
        if self.ledger:
            entries = {name: column[..., k] for name, column in self.ledger.items()}
            biases = tuple(np.moveaxis(entries.pop("biases"), -1, 0))
            ledger = Ledger(biases=biases, **entries)
        spans = self._single.get("spans")
        return Explanation(
            relevance=self.relevance[..., words],
            scores=self.scores[k],
            target="all" if self.every_class else int(self.targets[k]),
            method=self.request.method.name,
            variables=None if self.variables is None else self.variables[..., words, :],
            tokens=self.encoded[k].tokens,
            probabilities=None if found is None else found[k],
            classes=self.model.classes,
            features=self.model.features,
            options=self._options,
            ledger=ledger,
            hidden=self._hidden(k),
            spans=None if spans is None else self._phrases(k, spans[k]),
        )

    def _phrases(self, k: int, values: np.ndarray) -> tuple[Span, ...]:
        asked = self._single["asked"][k]
        return tuple(Span(int(a), int(b), values[..., v]) for v, (a, b) in enumerate(asked))

    def _hidden(self, k: int) -> tuple[Hidden, ...] | None:
        if "hidden" not in self._single:
            return None
        out = []
        for number, (layer, parts) in enumerate(zip(self.model.layers, self._single["hidden"][k], strict=True)):
            if not isinstance(layer, Dense):
                names = ("forward", "backward") if isinstance(layer, Bidirectional) else ("forward",)
                out += [Hidden(number, name, *parts[2 * j : 2 * j + 2]) for j, name in enumerate(names)]
        return tuple(out)

    def _warn(self) -> None:
        """One warning a call, where relevance is not finite or so large that rounding decides it."""
        name, eps = self.request.method.name, self.request.eps
        advice = f"; try a larger eps than {eps:g}, or another rule" if self.request.method.kind == "lrp" else ""
        wrong = ~np.isfinite(self.relevance)
        if wrong.any():
            k = int(np.searchsorted(self.starts, np.argwhere(wrong)[0][-1], side="right")) - 1
            warnings.warn(
                f"{name}: relevance of sequence {k} is not finite (eps={eps:g}){advice}.", RelevanceWarning, stacklevel=_outside()
            )
        elif "largest" in self.ledger:
            size = abs(self._explained())
            huge = self.ledger["largest"] > TOO_LARGE * np.maximum(size, np.finfo(size.dtype).tiny)
            if huge.any():
                k = int(np.argwhere(huge)[0][-1])
                warnings.warn(
                    f"{name}: relevance inside the network is more than {TOO_LARGE:.0e} times the score for "
                    f"{int(huge.sum())} of {huge.size} explanations, the first that of sequence {k} (eps={eps:g}), so rounding "
                    f"decides it{advice}.",
                    RelevanceWarning,
                    stacklevel=_outside(),
                )

    def _explained(self) -> np.ndarray:
        """(N,) or (C, N): what is explained, f_target or f_target - f_versus."""
        chosen = self.scores.T if self.every_class else self.scores[np.arange(len(self)), self.targets]
        return chosen if self.request.versus is None else chosen - self.scores[:, self.request.versus]


def _explain(
    model: Model, encoded: list[Encoded], request: Request, target: Any, spans: list[Any] | None, threads: int | None
) -> Explanations:
    targets = _targets(model, target, len(encoded))
    every_class = isinstance(targets, str)
    if request.versus is not None and isinstance(targets, np.ndarray) and (targets == request.versus).any():
        raise LrpError(f"versus must be another class than the target, got {request.versus} for both.")
    out = Explanations(model, request, encoded, every_class)
    phrases = None
    if spans is not None:
        phrases = [_spans(e, s, f"sequence {k}") for k, (e, s) in enumerate(zip(encoded, spans, strict=True))]
        out._single["spans"], out._single["asked"] = [None] * len(encoded), spans
    if request.method.kind == "cd":
        out._single["cd"] = [None] * len(encoded)
    if request.hidden:
        out._single["hidden"] = [None] * len(encoded)

    def work(positions: np.ndarray, batch: Batch) -> None:
        chosen = targets[positions] if isinstance(targets, np.ndarray) else None
        wanted = None if phrases is None else [phrases[k] for k in positions]
        out._put(positions, batch, _columns(model, batch, request, chosen, wanted, positions, every_class))

    run_chunks(model, encoded, work, threads)
    out._warn()
    return out


def explain(
    model: Model,
    x: Any,
    method: str | Rule = "lrp-all",
    target: int | str | None = None,
    *,
    eps: float = 0.001,
    unit: Unit = None,
    hidden: bool = False,
    versus: int | str | None = None,
    step: int | None = None,
    spans: Sequence[tuple[int, int]] | None = None,
    baseline: Any = None,
    how: Literal["zero", "omit"] = "zero",
    tol: float = 0.0,
    share_bias: bool = False,
) -> Explanation:
    """Which parts of one sequence made the network decide.

    x: a string, a list of words, token ids, or a (T, D) array.
    method: a name that `lrp.methods()` lists, or an `lrp.Rule` of one's own.
    target: the class explained, by index or name; None is the predicted one, "all" gives every class a leading axis.
    versus: ask why the target rather than this class: f_target - f_versus is explained.
    eps: the stabiliser of LRP; 0 is allowed.
    unit: "word" for one value a step only, "variable" for also one a variable; None is what the method has for free.
    hidden: also the relevance of every h_t and c_t of every layer (LRP).
    step: which prediction is explained where the model predicts at every step; the last by default.
    spans: phrases (start, stop), stop excluded, whose relevance is wanted besides that of the words.
    baseline: what occlusion puts in place of a word: a vector (D,) or a word; zero by default.
    how: "omit" removes the word instead.
    tol: occlusion stops a variant whose state has come back within tol of the unperturbed one; 0 is exact.
    share_bias: LRP spreads biases and stabiliser over the inputs of each sum, so that inputs and initial state add up to
        the score: a sanity check.
    """
    request = _request(model, method, eps, unit, hidden, versus, step, baseline, how, tol, share_bias)
    return _explain(model, [encode(model, x)], request, target, None if spans is None else [spans], 1)[0]


def explain_all(
    model: Model,
    sequences: Any,
    method: str | Rule = "lrp-all",
    target: Any = None,
    *,
    eps: float = 0.001,
    unit: Unit = None,
    hidden: bool = False,
    versus: int | str | None = None,
    step: int | None = None,
    spans: Sequence[Sequence[tuple[int, int]]] | None = None,
    baseline: Any = None,
    how: Literal["zero", "omit"] = "zero",
    tol: float = 0.0,
    share_bias: bool = False,
    threads: int | None = None,
) -> Explanations:
    """`explain` for several sequences of any lengths, computed as one ragged batch.

    `target` may be one class for each sequence, `spans` is one list of phrases for each. `threads` is the number of
    threads; None uses the cores where it pays.
    """
    request = _request(model, method, eps, unit, hidden, versus, step, baseline, how, tol, share_bias)
    encoded = encode_all(model, sequences)
    if spans is not None and len(spans) != len(encoded):
        raise LrpError(f"spans must be one list of phrases for each of the {len(encoded)} sequences, got {len(spans)}.")
    return _explain(model, encoded, request, target, None if spans is None else list(spans), threads)


def compare(
    model: Model, x: Any, methods: Sequence[str | Rule] | None = None, target: int | str | None = None, **options: Any
) -> Comparison:
    """Several methods on one input, all by default; the options are those of `explain`.

    An option that only some methods have (eps, hidden, tol, …) goes to those that have it.
    """
    if methods is None:
        methods = [name for name in METHODS if name != "occlusion-p" or model.output != "linear"]
    found = []
    for method in methods:
        kind = find(method).kind
        foreign = {"hidden"} if kind != "lrp" else set()
        foreign |= {"unit"} if kind == "cd" and options.get("unit") == "variable" else set()
        found.append(explain(model, x, method, target, **{k: v for k, v in options.items() if k not in foreign}))
    return Comparison(tuple(found))
