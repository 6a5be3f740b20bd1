"""Which inputs made the network decide: explain one sequence, explain many, compare methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from lrpnumpy.batch import Batch, Encoded, encode, encode_all
from lrpnumpy.checks import LrpError
from lrpnumpy.chunk import explain_chunk
from lrpnumpy.explanation import Comparison, Explanation
from lrpnumpy.explanations import Explanations
from lrpnumpy.methods import METHODS, find
from lrpnumpy.model import Dense, Model
from lrpnumpy.predict import run_chunks
from lrpnumpy.request import Request, Unit
from lrpnumpy.request import phrases as phrases_of
from lrpnumpy.request import request as request_of
from lrpnumpy.request import targets as targets_of
from lrpnumpy.rules import Rule


def run(
    model: Model, encoded: list[Encoded], request: Request, target: Any, spans: list[Any] | None, threads: int | None
) -> Explanations:
    """The explanations of encoded sequences: what `explain`, `explain_all` and the corpus have in common."""
    targets = targets_of(model, target, len(encoded))
    every_class = isinstance(targets, str)
    if request.versus is not None and isinstance(targets, np.ndarray) and (targets == request.versus).any():
        raise LrpError(f"versus must be another class than the target, got {request.versus} for both.")
    out = Explanations(model, request, encoded, every_class)
    phrases = None
    if spans is not None:
        phrases = [phrases_of(e, s, f"sequence {k}") for k, (e, s) in enumerate(zip(encoded, spans, strict=True))]
        out._single["spans"], out._single["asked"] = [None] * len(encoded), spans
    if request.method.kind == "cd":
        out._single["cd"] = [None] * len(encoded)
    if request.hidden:
        out._single["hidden"] = [None] * len(encoded)

    def work(positions: np.ndarray, batch: Batch) -> None:
        chosen = targets[positions] if isinstance(targets, np.ndarray) else None
        wanted = None if phrases is None else [phrases[k] for k in positions]
        out._put(positions, batch, explain_chunk(model, batch, request, chosen, wanted, positions, every_class))

    run_chunks(model, encoded, work, threads, _look_up(model, encoded, request))
    out._finish()
    return out


def _look_up(model: Model, encoded: list[Encoded], request: Request) -> bool:
    """Whether to project the words of the vocabulary once, instead of every word of every sequence.

    It pays when there are many, and serves methods whose word values are a product with U x.
    """
    first, embedding = model.layers[0], model.embedding
    linear = request.method.kind == "lrp" or request.method.name == "gradient-x-input"
    if embedding is None or isinstance(first, Dense) or not linear or request.unit != "word" or request.share_bias:
        return False
    if any(sequence.ids is None for sequence in encoded):
        return False
    return sum(sequence.steps for sequence in encoded) > len(embedding.E)


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
    share_bias: LRP spreads biases and stabiliser over the inputs of each sum, so that inputs and initial state add up
        to the score: a sanity check.
    """
    request = request_of(model, method, eps, unit, hidden, versus, step, baseline, how, tol, share_bias)
    return run(model, [encode(model, x)], request, target, None if spans is None else [spans], 1)[0]


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
    request = request_of(model, method, eps, unit, hidden, versus, step, baseline, how, tol, share_bias)
    encoded = encode_all(model, sequences)
    if spans is not None and len(spans) != len(encoded):
        raise LrpError(f"spans must be one list of phrases for each of the {len(encoded)} sequences, got {len(spans)}.")
    return run(model, encoded, request, target, None if spans is None else list(spans), threads)


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
