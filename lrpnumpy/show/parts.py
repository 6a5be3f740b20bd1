"""What of an explanation is drawn: relevance, values, names and steps of every input; and its largest parts."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, readable
from lrpnumpy.result import PAD, Explanation, InputPart, Mark
from lrpnumpy.show.color import LEAST, limit, scaled

MAPPED = 24  # features of a map of text; of more those of most relevance are shown
NAME = 28  # a longer name is cut
ALWAYS = ("inputs", "gap")  # entries of a ledger that are shown even if they are zero
NOTHING = 1e-6  # of the largest entry of a ledger: a smaller one is rounding
COLUMNS = 400  # more steps than this share columns of a map
UNITS = {1: "second", 60: "minute", 3600: "hour", 86_400: "day", 7 * 86_400: "week"}  # by their seconds


class Shown(NamedTuple):
    """One input of a network as pictures show it. One step, such as that of a static vector, is shown as bars."""

    name: str
    relevance: np.ndarray  # (T, D), or (T, 1) where there is one number per step
    values: np.ndarray | None  # (T, D)
    features: tuple[str, ...]  # D names
    labels: Any  # of the T steps, or None

    @property
    def is_series(self) -> bool:
        """Whether there is more than one step."""
        return len(self.relevance) > 1

    @np.errstate(all="ignore")
    def most_relevant(self, count: int) -> np.ndarray:
        """The features of largest absolute relevance, at most `most`, in their order."""
        sizes = np.abs(np.nan_to_num(self.relevance)).sum(axis=0)
        return np.sort(np.argsort(-sizes, kind="stable")[:count])

    def rows(self, most: int) -> tuple[np.ndarray, list[str]]:
        """The rows of a map (T, rows) and their names; features that are too many are one last row."""
        if len(self.features) <= most:
            return self.relevance, list(self.features)
        kept = self.most_relevant(most - 1)
        rest = np.delete(self.relevance, kept, axis=1)
        names = [self.features[d] for d in kept] + [f"{rest.shape[1]} other features"]
        return np.column_stack([self.relevance[:, kept], rest.sum(axis=1)]), names


def of_one_class(e: Explanation, what: str) -> Explanation:
    """The explanation itself, if it is one, and of one class."""
    if not isinstance(e, Explanation):
        raise LrpError(f"{what}: got {type(e).__name__}; pass explanations from explain or explain_all.")
    if e.target == "all":
        raise LrpError(f"{what}: the explanation is of all classes; choose one with .for_class(c).")
    return e


def shown(e: Explanation, what: str) -> list[Shown]:
    """Every input of an explanation, the main one first."""
    of_one_class(e, what)
    found = []
    for name, part in e.inputs.items():
        if _are_words(e, part):
            part = replace(part, feature_relevance=None, values=None, features=("words",))
        relevance = part.relevance[:, None] if part.feature_relevance is None else part.feature_relevance
        width = (relevance if part.values is None else part.values).shape[1]
        names: Sequence[str] = part.features or ()
        if len(names) != width:
            is_known = part.feature_relevance is not None or part.values is not None
            names = [f"x{d}" for d in range(width)] if is_known else ["relevance"]
        labels: Any = part.labels if part.tokens is None else part.tokens
        if part.marks is not None or (labels is not None and np.asarray(labels).dtype.kind != "M"):
            labels = part.shown_steps
        found.append(
            Shown(readable(name), np.asarray(relevance, float), part.values, tuple(map(readable, names)), labels)
        )
    return found


def title(e: Explanation) -> str:
    """What is explained: the class with its score and probability, or the quantity with its unit; and the method."""
    text, options = f"{e.method}: why {e.name_of(e.target)!r}", e.options or {}
    if e.is_regression:
        text = f"{e.method}: {e.prediction}"
    if options.get("versus") is not None:
        text += f" rather than {e.name_of(options['versus'])!r}"
    if not e.is_regression:
        text += f"?  score {e.scores[e.target]:.4g}"
    if e.probabilities is not None:
        text += f", probability {e.probabilities[e.target]:.1%}"
    if isinstance(options.get("through"), dict):
        text += "".join(f", through {name}{[*units]}" for name, units in options["through"].items())
    if options.get("windows") is not None:
        text += f", mean of {options['windows']} windows"
    if not e.is_regression and e.target == e.predicted and len(e.scores) > 1:
        text += ", predicted"
    return readable(text)


def evidence_line(e: Explanation) -> str:
    """The verdict of experiments on an explanation of one class; empty where neither it nor the network is at hand."""
    return "" if e.tested is None and e.source is None else readable(e.evidence().line)


def facts_line(e: Explanation) -> str:
    """f(x) and the base value that relevance starts from: the score of the reference, or 0."""
    text = f"f(x) = {quantity(e.score, e)}"
    if claims_shares(e):
        text += f", base value {quantity(base_value(e), e)}"
    return text


def quantity(value: Any, e: Explanation) -> str:
    """A score with its unit."""
    return f"{float(value):.4g} {readable(e.output_unit or '')}".rstrip()


def base_value(e: Explanation) -> float:
    """What relevance starts from: the score of the reference, or 0."""
    return float(e.reference_score or 0.0)


def notes(e: Explanation) -> str:
    """What is below the title of a picture of one explanation: f(x), the base value, the evidence."""
    return "\n".join(filter(None, (facts_line(e), evidence_line(e))))


def claims_shares(e: Explanation) -> bool:
    """Whether relevance is a share of the score: the gradient, and changes of a probability, are not."""
    return e.method not in ("gradient", "occlusion-p")


def word_shares(e: Explanation) -> np.ndarray:
    """Relevance of the words for one class, from -1 to 1: full color is the largest, and at least a part of the score.

    So words that hardly matter are pale, also where all are.
    """
    sizes = np.abs(np.nan_to_num(np.asarray(e.relevance, float), nan=0.0, posinf=0.0, neginf=0.0))
    largest = float(sizes.max(initial=0.0))
    explained = float(e.score) - base_value(e)
    if claims_shares(e) and np.isfinite(explained):
        largest = max(largest, LEAST * abs(explained))
    return scaled(e.relevance, largest)


def condensed(e: Explanation) -> Explanation:
    """The same for a sentence: each run of padding of one class is one step, whose relevance is their sum."""
    if e.marks is None or not e.padding:
        return e
    is_padding = e.marks == Mark.PADDING
    starts = np.flatnonzero(~(is_padding & np.concatenate(([False], is_padding[:-1]))))  # all but the rest of a run
    counts = np.diff([*starts, len(e)])
    words = [e.shown(t) if n == 1 else f"{PAD}×{n}" for t, n in zip(starts.tolist(), counts, strict=True)]
    part = InputPart(np.add.reduceat(e.relevance, starts), tokens=tuple(words))
    return replace(e, inputs={**e.inputs, next(iter(e.inputs)): part}, spans=None, source=None)


def by_variable(e: Explanation, what: str) -> Explanation:
    """The explanation itself, if every input has one relevance for each variable; words beside numbers need none."""
    if any(part.feature_relevance is None and not _are_words(e, part) for part in e.inputs.values()):
        raise LrpError(
            f"{what} needs relevance per feature: explain with unit='feature'. For a network with several inputs, pass "
            "the whole explanation, not of_input(...)."
        )
    return e


def _are_words(e: Explanation, part: InputPart) -> bool:
    """Whether these are words beside other inputs: each is shown with one number, not one per coordinate."""
    return part.tokens is not None and len(e.inputs) > 1


def folded(entries: list[tuple[str, float]], most: int, what: str) -> list[tuple[str, float]]:
    """The largest entries first; if there are too many, the rest is one entry."""
    ordered = sorted(entries, key=lambda entry: -abs(np.nan_to_num(entry[1])))
    if len(ordered) <= most + 1:  # one more entry takes no more room than the line of the rest
        return ordered
    return [*ordered[:most], (f"{len(ordered) - most} other {what}", float(sum(v for _, v in ordered[most:])))]


def prefix(e: Explanation, name: str) -> str:
    """What is before the features and steps of an input, where there are several inputs."""
    return "" if len(e.inputs) == 1 else f"{readable(name)}: "


def ledger_entries(ledger: Any) -> dict[str, float]:
    """The entries of a ledger of one class, without those that are zero but for rounding."""
    entries = {name: float(value) for name, value in ledger.entries.items()}
    least = NOTHING * max(map(abs, entries.values()))
    return {name: value for name, value in entries.items() if abs(value) > least or name in ALWAYS}


def escape(text: str) -> str:
    """A text for HTML."""
    return html.escape(readable(text))


def short(name: Any, most: int = NAME) -> str:
    """A name on one line, cut where it is too long."""
    text = readable(" ".join(str(name).split()) or str(name))
    return text if len(text) <= most else text[: most - 1] + "…"


def with_value(name: str, value: float) -> str:
    """A feature of one step with its value; a group of columns has none, and its name shows the column that is set."""
    return short(name) if np.isnan(value) else f"{short(name)} = {value:.4g}"


@np.errstate(all="ignore")  # relevance may be infinite: a warning has said so
def grouped(values: np.ndarray, most: int = COLUMNS) -> tuple[np.ndarray, int]:
    """Rows (T, D) summed in groups of equal size, so that there are at most `most`; and the size."""
    size = -(-len(values) // most)
    if size == 1:
        return values, 1
    return np.add.reduceat(values, np.arange(0, len(values), size), axis=0), size


def step_unit(labels: Any) -> str:
    """What a step is: "day" where the labels are dates a day apart, "step" where nothing is known."""
    stamps = stamps_of(labels)
    if stamps is None or len(stamps) < 2:
        return "step"
    seconds = np.diff(stamps.astype("M8[s]")).astype(np.int64)
    if (seconds == seconds[0]).all():
        return UNITS.get(int(seconds[0]), "step")
    return "step"


def stamps_of(labels: Any) -> np.ndarray | None:
    """Labels as increasing dates, where they are."""
    found = np.asarray(labels) if labels is not None else np.empty(0)
    is_dates = found.dtype.kind == "M" and not np.isnat(found).any() and (np.diff(found).astype(np.int64) > 0).all()
    return found if is_dates else None


class Map(NamedTuple):
    """F features and K columns of `group` steps each, the last of which may have fewer."""

    features: tuple[str, ...]
    shares: np.ndarray  # (F, K) relevance, summed over the steps of a column, from -1 to 1, see `color.limit`
    total: np.ndarray  # (F,) relevance of each feature
    group: int
    left_out: int  # features that are not shown


def map_of(part: Shown, most: int) -> Map:
    """One input of an explanation in a limited number of columns."""
    D = part.relevance.shape[1]
    some = part.most_relevant(MAPPED)
    cells, group = grouped(part.relevance[:, some], max(1, most))
    # One number per step, of several features.
    names = tuple(part.features[d] for d in some) if len(part.features) == D else ("relevance",)
    total = part.relevance.sum(axis=0)[some]
    return Map(names, scaled(cells.T, limit(cells)[0]), total, group, D - len(some))
