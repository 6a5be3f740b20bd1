"""What experiments say about one explanation: the record, its four numbers and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, one_of, shown
from lrpnumpy.fields import result_field

MARGIN = 3  # a claim is refuted if it is more than this many times the largest change by a replacement
REFUTED, MISSED, AGREEMENT, INTERACTION = 0.2, 0.2, 0.6, 0.3  # where a verdict changes
VERDICTS = ("passes", "fails", "inconclusive", "not applicable", "undefined")


@dataclass(frozen=True, eq=False)
class Experiments:
    """Groups of inputs, the relevance that each received, and what changes in the score when it is replaced."""

    groups: tuple[str, ...] = result_field("group", "text")  # B names: a word, the dates of a block, a feature
    claimed: np.ndarray = result_field("group", "value", unit="output")  # (B,) R_b: summed relevance
    # (B, 4) D_br = f(x) - f(x with b replaced)
    changes: np.ndarray = result_field("group replacement", "value", unit="output")
    # (B,) D_b, the typical change: see `evidence.effects`
    effects: np.ndarray = result_field("group", "value", unit="output")
    # (8,) D_S: half of the groups replaced together
    together: np.ndarray = result_field("half", "value", unit="output")
    apart: np.ndarray = result_field("half", "value", unit="output")  # (8,) the sum of D_b over the groups of S
    size: float = result_field(kind="value", unit="output")  # sum_b |D_b|, of the replacements that halves are made of


@dataclass(frozen=True, eq=False)
class Evidence:
    """Whether experiments support an explanation, see docs/concepts/evidence.md.

    `verdict` is "passes", "fails", "inconclusive" where inputs interact, "not applicable" for the gradient, which
    claims no share of the score, or "undefined", for the reason in `text`. A share that is 0 / 0 is nan.
    """

    verdict: str = result_field(kind="text")
    refuted: float = result_field(kind="value")  # share of the claims that no replacement supports
    missed: float = result_field(kind="value")  # share of the changes that are not claimed
    # cosine of claims and typical changes; of the gradient that of their sizes
    agreement: float = result_field(kind="value")
    interaction: float = result_field(kind="value")  # how far changes together are from the sum of single ones
    text: str = result_field(kind="text")  # what fails, or why there is no verdict; empty where it passes
    experiments: Experiments = result_field(kind="record", of=[Experiments])  # what was replaced, claimed and measured
    better: str | None = result_field(kind="text", default=None)  # where it fails, a method that passes

    def __post_init__(self) -> None:
        one_of(self.verdict, "Evidence: verdict", VERDICTS)
        for name in ("refuted", "missed", "agreement", "interaction"):
            if not isinstance(getattr(self, name), (float, int, np.number)):  # nan counts
                raise LrpError(f"Evidence: {name} must be a number, got {shown(getattr(self, name))}.")

    @property
    def passed(self) -> bool:
        """Whether the verdict is "passes"."""
        return self.verdict == "passes"

    @property
    def line(self) -> str:
        """The verdict in one line, as pages and pictures show it."""
        if self.verdict == "passes":
            numbers = f"{self.refuted:.0%} refuted, {self.missed:.0%} missed, agreement {self.agreement:.2f}"
            return f"Evidence: passes ({numbers.replace('%', ' %')})"
        if self.verdict != "fails":
            return f"Evidence: {self.verdict} ({self.text})"
        better = f" {self.better} passes." if self.better else ""
        return f"Evidence: fails. {self.text}{better}"

    def __str__(self) -> str:
        return self.line


class EvidenceList(tuple[Evidence | None, ...]):
    """The evidence of several explanations; None where it was not computed."""

    @property
    def shares(self) -> dict[str, float]:
        """The share of each verdict among those that were computed."""
        counts = Counter(one.verdict for one in self if one is not None)
        total = sum(counts.values())
        return {name: counts[name] / total for name in VERDICTS if counts[name]}

    def __str__(self) -> str:
        computed = sum(one is not None for one in self)
        shares = ", ".join(f"{share:.0%} {name}".replace("%", " %") for name, share in self.shares.items())
        return f"Evidence of {computed} of {len(self)} explanations: {shares or 'none computed'}"

    __repr__ = __str__


class Words(NamedTuple):
    """How the text of a verdict names things."""

    score: str = "score"  # or "prediction"
    unit: str = ""  # of the score, behind a number
    doubt: str = ""  # first sentence if rounding decides the relevance


class Trials(NamedTuple):
    """The experiments of N explanations, with their G groups one after another. See `Experiments`."""

    first: np.ndarray  # (N,) the group at which each begins
    claimed: np.ndarray  # (G,)
    changes: np.ndarray  # (G, 4)
    effects: np.ndarray  # (G,)
    together: np.ndarray  # (N, 8)
    apart: np.ndarray  # (N, 8)
    size: np.ndarray  # (N,)
    is_gradient: np.ndarray  # (N,) it claims no share of the score: only sizes count

    @property
    def refuted(self) -> np.ndarray:
        """(G,) what is claimed for each group beyond 3 times the largest change."""
        return np.maximum(0, abs(self.claimed) - MARGIN * abs(self.changes).max(axis=1))

    @property
    def missed(self) -> np.ndarray:
        """(G,) what every replacement of a group changes, in the same direction, beyond 3 times its claim."""
        is_one_sign = (self.changes > 0).all(axis=1) | (self.changes < 0).all(axis=1)
        low = np.where(is_one_sign, abs(self.changes).min(axis=1), 0)
        return np.maximum(0, low - MARGIN * abs(self.claimed))


def judge(trials: Trials, names: Sequence[tuple[str, ...]], words: Callable[[int], Words]) -> list[Evidence]:
    """The verdicts on the claims of explanations, with the `names` of the groups of each; `words` of the k-th one name
    things in a text.
    """
    first, together = trials.first, trials.together
    stops = np.append(first[1:], len(trials.claimed))
    only_sizes = np.repeat(trials.is_gradient, stops - first)
    claimed = np.where(only_sizes, abs(trials.claimed), trials.claimed)
    effects = np.where(only_sizes, abs(trials.effects), trials.effects)

    def total(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, first)

    refuted, missed = trials.refuted, trials.missed
    shares = np.stack(
        [
            _share(total(refuted), total(abs(claimed))),
            _share(total(missed), total(abs(effects))),
            _share(total(claimed * effects), np.sqrt(total(claimed**2) * total(effects**2))),
            _share(abs(together - trials.apart).mean(axis=1), trials.size / 2),
        ]
    )
    is_bad = ~(np.isfinite(claimed) & np.isfinite(trials.changes).all(axis=1))
    is_known = np.isfinite(together).all(axis=1) & ~np.logical_or.reduceat(is_bad, first)
    is_known &= np.logical_or.reduceat(trials.changes.any(axis=1), first)
    is_known &= np.logical_or.reduceat(claimed != 0, first)
    is_plain = is_known & ~trials.is_gradient & ~(shares[3] > INTERACTION)
    passes = is_plain & ~(shares[0] > REFUTED) & ~(shares[1] > MISSED) & (shares[2] >= AGREEMENT)
    found = []
    for k, (start, stop) in enumerate(zip(first.tolist(), stops.tolist(), strict=True)):
        own = slice(start, stop)
        experiments = Experiments(
            names[k], trials.claimed[own], trials.changes[own], trials.effects[own], together[k], trials.apart[k],
            float(trials.size[k]),
        )  # fmt: skip
        verdict, text = "passes", ""
        if not is_known[k]:
            verdict, text = "undefined", _why_unknown(experiments, words(k))
        elif trials.is_gradient[k]:
            verdict = "not applicable"
            text = f"a gradient claims no share of the {words(k).score}; agreement of sizes {shares[2, k]:.2f}"
        elif not is_plain[k]:
            verdict, text = "inconclusive", "inputs interact"
        elif not passes[k]:
            worst = int(np.argmax(refuted[own])), int(np.argmax(missed[own]))
            verdict, text = "fails", _what_fails(experiments, words(k), shares[:, k], *worst)
        refuted_share, missed_share, agreement, interaction = shares[:, k].tolist()
        found.append(Evidence(verdict, refuted_share, missed_share, agreement, interaction, text, experiments))
    return found


def _why_unknown(experiments: Experiments, words: Words) -> str:
    """Why there is no verdict."""
    measured = (experiments.claimed, experiments.changes, experiments.together)
    if not all(np.isfinite(one).all() for one in measured):
        return words.doubt or "relevance or scores are not finite"
    if not experiments.changes.any():
        return f"no replacement of any input changes the {words.score}"
    return "all relevance is zero"


def _what_fails(experiments: Experiments, words: Words, shares: np.ndarray, most_refuted: int, most_missed: int) -> str:
    """What contradicts a failing explanation most, in a sentence."""
    refuted, missed, agreement, _ = shares
    if words.doubt:
        return f"{words.doubt}."
    verb = "are" if words.unit else "is"
    if refuted > REFUTED:
        b = most_refuted
        claimed, most = _number(experiments.claimed[b]), _number(abs(experiments.changes[b]).max(), 1)
        return (
            f"{claimed}{words.unit} {verb} claimed for {experiments.groups[b]}, but no replacement changes the "
            f"{words.score} by more than {most}{words.unit}."
        )
    if missed > MISSED:
        b = most_missed
        claimed, least = _number(abs(experiments.claimed[b]), 1), _number(abs(experiments.changes[b]).min())
        return (
            f"Every replacement of {experiments.groups[b]} changes the {words.score} by at least {least}{words.unit}, "
            f"but only {claimed}{words.unit} {verb} claimed."
        )
    return f"Relevance and what replacements change have little in common (agreement {agreement:.2f})."


def _number(value: float, digits: int = 2) -> str:
    """A number of few digits, without an exponent where it is not very small."""
    if abs(value) >= 10:
        return f"{value:.0f}"
    return f"{value:.{digits - 1}f}" if abs(value) >= 1 else f"{value:.{digits}g}"


def _share(part: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Of totals; nan where one is 0."""
    with np.errstate(all="ignore"):
        return np.where(total == 0, np.nan, part / total)
