"""Are the scores of a model those of the framework it came from?"""

from __future__ import annotations

from typing import Any

import numpy as np

from lrpnumpy.activations import probabilities
from lrpnumpy.checks import LrpError, WeightFileError
from lrpnumpy.layers import TwoClasses
from lrpnumpy.model import Model
from lrpnumpy.tables import untensored

CLOSE = 1e-5  # of the largest score
# Frameworks add float32 numbers of about size 1 in another order, which shows in scores that are close to 0.
_ROUNDING, _LOOSEST = 4 * float(np.finfo(np.float32).eps), 1e-4


def check_scores(model: Model, check: Any, file: str) -> None:
    """Raise unless the scores of x are y, for check = (x, y); y may also be the probabilities that belong to them."""
    try:
        x, y = check
    except (TypeError, ValueError):
        raise LrpError("load: check must be a pair (x, y) of an input and the framework's scores for it.") from None
    try:
        expected = np.asarray(untensored(y))
        if expected.dtype.kind not in "fiu":
            raise ValueError
    except (TypeError, ValueError):
        raise LrpError("load: check must have the framework's scores as its y, an array of numbers.") from None
    scores = scores_of(model, x)
    if not matches(model, scores, expected):
        raise WeightFileError(
            f"{file}: check=(x, y) expects the scores {shown(expected)} for x, the model gives "
            f"{shown(scores, expected)}; the network is {model!r}; try another readout=, activations= or layers=."
        )


def matches(model: Model, scores: np.ndarray, expected: np.ndarray, tolerance: float = CLOSE) -> bool:
    """Whether the scores of a model, or the probabilities that belong to them, are those of the framework."""
    candidates = [scores]
    if (found := probabilities(model.output, scores)) is not None:
        with np.errstate(divide="ignore"):
            candidates += [found, np.log(found)]
    if isinstance(model.nodes[-1].layer, TwoClasses):  # the framework has one score
        candidates += [one[..., 1:] for one in candidates]
    return any(agree(one, expected, tolerance) for one in candidates)


def scores_of(model: Model, x: Any) -> np.ndarray:
    """Scores of one sequence, or of several where x is a list of them or an array with a batch axis."""
    from lrpnumpy.predict import predict, predict_all

    x = x if isinstance(x, (str, list, dict)) else np.asarray(untensored(x))
    axes = 1 if model.embedding is not None else 2  # of one sequence
    if isinstance(x, np.ndarray) and x.ndim == axes + 1:
        return np.stack(list(predict_all(model, list(x))))
    return np.asarray(predict(model, x))


def agree(found: np.ndarray, expected: np.ndarray, tolerance: float = CLOSE) -> bool:
    """Whether two arrays of scores are the same, whatever axes of length 1 they have.

    `tolerance` is of the largest score; where that is close to 0, float32 rounding may be up to 1e-4 of it.
    """
    if found.size != expected.size or not found.size:
        return False
    a, b = np.squeeze(found), np.squeeze(expected)
    if a.shape != b.shape:
        return False
    size = max(float(np.abs(b).max()), 1e-30)
    limit = max(tolerance * size, min(_ROUNDING, _LOOSEST * size))
    return bool(np.abs(a - b).max() <= limit)


def shown(scores: np.ndarray, others: np.ndarray | None = None) -> str:
    """The first scores for an error message, and the largest difference from others."""
    flat = scores.reshape(-1)
    more = f" … ({flat.size} numbers)" if flat.size > 8 else ""
    text = "[" + ", ".join(f"{number:.6g}" for number in flat[:8]) + more + "]"
    if others is None or others.size != flat.size:
        return text
    return f"{text} (the largest difference is {np.abs(flat - others.reshape(-1)).max():.3g})"
