"""Which records a page shows: all that fit, else a seeded sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, is_number, shown, whole
from lrpnumpy.page.payload import some

LOOKED_AT = 64  # records from which the size of all is estimated


def chosen(results: list[Any], most: int, megabytes: float, seed: int) -> tuple[np.ndarray, list[str]]:
    """The places of the records that fit on the page, in rising order; and a sentence if these are not all."""
    whole(most, "most", 1)
    whole(seed, "seed", 0)
    if not is_number(megabytes, float) or megabytes <= 0:
        raise LrpError(f"megabytes must be a positive number, got {shown(megabytes)}.")
    count = len(results[0])
    fits = int(megabytes * 1e6 / _bytes(results))
    limit = max(1, min(most, fits))
    if count <= limit:
        return np.arange(count), []
    reason = f"{megabytes:g} MB" if fits < most else f"{most:,}"
    which = np.sort(np.random.default_rng(seed).choice(count, limit, replace=False))
    how = f"drawn at random (seed {seed}): a page has at most {reason}"
    return which, [f"{limit:,} of {count:,} records are shown, {how}."]


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
                wide = (part.feature_relevance, part.values) if part.tokens is None else ()
                numbers += sum(array.size for array in wide if array is not None)
    return numbers / len(which) * 16 / 3
