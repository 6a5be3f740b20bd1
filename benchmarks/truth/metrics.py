"""How well relevance finds the truth: areas under curves, weighted precision and recall, top k, ranks.

`truth` is a boolean array of the same shape as the scores: where relevance belongs. Scores are magnitudes; larger means
more relevant. Tied scores count as one threshold, so that their order does not matter.
"""

from __future__ import annotations

import numpy as np

LEVELS = np.arange(0.1, 0.95, 0.1)  # shares of the inputs that are selected, as in Ismail et al. 2020


def counts(scores: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct scores, largest first, and how many true and false inputs have at least each score."""
    scores, truth = np.ravel(scores).astype(np.float64), np.ravel(truth).astype(bool)
    order = np.argsort(-scores, kind="stable")
    scores, truth = scores[order], truth[order]
    last = np.append(np.diff(scores) != 0, True)  # the last one of each group of ties
    return scores[last], np.cumsum(truth)[last], np.cumsum(~truth)[last]


def auroc(scores: np.ndarray, truth: np.ndarray) -> float:
    """Area under the curve of true positives over false positives."""
    _, true, false = counts(scores, truth)
    return float(np.trapezoid(np.append(0, true / true[-1]), np.append(0, false / false[-1])))


def auprc(scores: np.ndarray, truth: np.ndarray) -> float:
    """Area under the curve of precision over recall, as a sum of steps (average precision)."""
    _, true, false = counts(scores, truth)
    recall = np.append(0, true / true[-1])
    return float(np.sum(np.diff(recall) * true / (true + false)))


def unit(scores: np.ndarray) -> np.ndarray:
    """Scores scaled so that the smallest is 0 and the largest 1."""
    low, high = scores.min(), scores.max()
    if low == high:
        return np.zeros_like(scores, dtype=np.float64)
    return (scores - low) / (high - low)


def aup_aur(scores: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Areas under precision and under recall over the threshold from 0 to 1, of scores that are scaled to 0 ... 1.

    The thresholds are the scores themselves, joined by straight lines, as FIT, Dynamask and time_interpret do.
    """
    thresholds, true, false = counts(unit(scores), truth)
    return (
        float(np.trapezoid((true / (true + false))[::-1], thresholds[::-1])),
        float(np.trapezoid((true / true[-1])[::-1], thresholds[::-1])),
    )


def ranks(scores: np.ndarray) -> np.ndarray:
    """Ranks of all scores together, 1 for the smallest; ties have their mean rank."""
    flat = np.ravel(scores)
    _, inverse, count = np.unique(flat, return_inverse=True, return_counts=True)
    ends = np.cumsum(count)
    return (ends - (count - 1) / 2)[inverse].reshape(np.shape(scores))


def ranks_by_row(scores: np.ndarray) -> np.ndarray:
    """Ranks within each row of (N, K), 1 for the smallest; ties in their order."""
    return np.argsort(np.argsort(scores, axis=1, kind="stable"), axis=1) + 1


def weighted_precision_recall(scores: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Means over LEVELS of precision and recall of the largest scores, each input weighted by its score.

    scores, truth: (N, K). At a level d the d K largest scores of a row are selected. Precision is the share of their
    sum that is at true inputs; recall is what they have of the sum at true inputs. Ismail et al. 2020.
    """
    order = np.argsort(-scores, axis=1, kind="stable")
    scores, truth = np.take_along_axis(scores, order, 1), np.take_along_axis(truth, order, 1)
    total, right = np.cumsum(scores, axis=1), np.cumsum(scores * truth, axis=1)
    at = np.round(LEVELS * scores.shape[1]).astype(int) - 1
    tiny = np.finfo(np.float64).tiny
    precision = right[:, at] / np.maximum(total[:, at], tiny)
    recall = right[:, at] / np.maximum(right[:, -1:], tiny)
    return float(precision.mean()), float(recall.mean())


def top_k(scores: np.ndarray, truth: np.ndarray) -> float:
    """Precision of the k largest scores of one sequence, where k is the number of true inputs.

    Where scores are tied at the border, the expected precision of a random order of the ties.
    """
    k = int(truth.sum())
    border = np.sort(scores)[-k]
    above, tied = scores > border, scores == border
    free = k - above.sum()
    return float(((above & truth).sum() + free * (tied & truth).sum() / tied.sum()) / k)


def mean_rank(scores: np.ndarray, truth: np.ndarray) -> float:
    """Mean position of the true inputs when the largest score comes first: 1 is the first position."""
    return float(ranks(-scores)[truth].mean())
