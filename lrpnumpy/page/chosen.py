"""Which records a page shows: all that fit, else a seeded sample or the top of each class."""

from __future__ import annotations

from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, is_number, one_of, shown, whole
from lrpnumpy.page.payload import some

TAKE = ("sample", "top")
LOOKED_AT = 64  # records from which the size of all is estimated


def chosen(results: list[Any], most: int, megabytes: float, take: str, seed: int) -> tuple[np.ndarray, list[str]]:
    """The places of the records that fit on the page, in rising order; and a sentence if these are not all."""
    whole(most, "most", 1)
    whole(seed, "seed", 0)
    one_of(take, "take", TAKE)
    if not is_number(megabytes, float) or megabytes <= 0:
        raise LrpError(f"megabytes must be a positive number, got {shown(megabytes)}.")
    count = len(results[0])
    fits = int(megabytes * 1e6 / max(1.0, _bytes(results)))
    limit = max(1, min(most, fits))
    if count <= limit:
        return np.arange(count), []
    reason = f"a page has at most {most:,}"
    if fits < most:
        reason = f"a page has at most {megabytes:g} MB"
    if take == "sample":
        which = np.sort(np.random.default_rng(seed).choice(count, limit, replace=False))
        how = f"drawn at random (seed {seed})"
    else:
        which = _top(_scores(results[0]), limit)
        how = "those of highest score of each class"
    return which, [f"{len(which):,} of {count:,} records are shown, {how}: {reason}."]


def _top(scores: np.ndarray, limit: int) -> np.ndarray:
    """Of each predicted class the records of highest score, as many of each; what one does not need others get."""
    C = scores.shape[1]
    predicted = scores.argmax(axis=1)
    order = np.argsort(-scores[np.arange(len(scores)), predicted], kind="stable")
    rank = np.empty(len(scores), np.int64)  # 0 for the highest of its class, 1 for the next
    for c in range(C):
        of_class = order[predicted[order] == c]
        rank[of_class] = np.arange(len(of_class))
    return np.sort(np.lexsort((np.arange(len(scores)), rank))[:limit])


def _scores(result: Any) -> np.ndarray:
    """(N, C) without a look at the rest, where the result has them in one piece."""
    scores = getattr(result, "scores", None)
    if scores is None:
        scores = [e.scores for e in result]
    return np.asarray(scores)


def _bytes(results: list[Any]) -> float:
    """Bytes of one record on the page, by a look at some of them: base64 of float32 takes 16 bytes for 3 numbers."""
    count = len(results[0])
    which = np.unique(np.linspace(0, count - 1, min(count, LOOKED_AT)).astype(np.int64))
    numbers = 0
    for result in results:
        for e in some(result, which):
            numbers += 8 + 2 * len(e.scores)
            for part in e.inputs.values():
                numbers += part.relevance.size + 2 * part.relevance.shape[-1]
                if part.tokens is None:
                    numbers += sum(array.size for array in (part.feature_relevance, part.values) if array is not None)
    return numbers / max(1, len(which)) * 16 / 3
