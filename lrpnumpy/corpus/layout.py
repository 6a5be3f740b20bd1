"""The layout of a file of explanations, version 1, as tables; docs/corpora.md specifies it."""

from collections.abc import Iterable

FORMAT, VERSION = "lrpnumpy explanations", 1

# What the entries of each array belong to, along its first axis.
ENTRIES = {
    "records": "record",
    "scores": "record",
    "targets": "record",
    "relevance": "row",
    "feature_relevance": "row",
    "marks": "row",
    "ledger/inputs": "record",
    "ledger/biases": "record",
    "ledger/stabiliser": "record",
    "ledger/initial_state": "record",
    "ledger/rule": "record",
    "ledger/attention": "record",
    "ledger/largest": "record",
    "ledger/total": "record",
    "ledger/score": "record",
    "ledger/reference": "record",
    "ledger/gap": "record",
    "ledger/error": "record",
    "ledger/unassigned": "record",
    "ledger/relevant": "step",
    "ledger/irrelevant": "step",
    "ledger/bias": "step",
    "words/text": "byte",
    "words/lengths": "row",
}

# Rows (one a word or step of the input), steps (those that are not padding) and bytes of text stand one
# behind the other for all records. The k-th explanation's go from offsets[k] to offsets[k + 1]; a chunk has
# their numbers.
OFFSETS = {"row": "offsets", "step": "ledger/offsets", "byte": "words/offsets"}
_NUMBERS = {"lengths": "offsets", "ledger/lengths": "ledger/offsets", "words/bytes": "words/offsets"}


def layout(others: Iterable[str], columns: Iterable[str] = ()) -> tuple[dict[str, str], dict[str, str]]:
    """ENTRIES and OFFSETS of a network with these inputs besides the main one, each with rows and words of its own.

    The text of each of the columns, one value for each explanation, is in bytes of its own.
    """
    entries, offsets = dict(ENTRIES), dict(OFFSETS)
    for name in others:
        rows = ("relevance", "feature_relevance", "marks", "words/lengths")
        entries |= {f"inputs/{name}/{array}": f"row of {name}" for array in rows}
        entries[f"inputs/{name}/words/text"] = f"byte of {name}"
        offsets[f"row of {name}"] = f"inputs/{name}/offsets"
        offsets[f"byte of {name}"] = f"inputs/{name}/words/offsets"
    for name in columns:
        entries[f"columns/{name}/text"] = f"byte of column {name}"
        offsets[f"byte of column {name}"] = f"columns/{name}/offsets"
    return entries, offsets


# Which axes each has besides: one for the classes where all are explained, and one more (variables, or layers).
_AXES = {"feature_relevance": ("classes", "more"), "biases": ("classes", "more")}
_WHOLE = ("records", "targets", "marks", "text", "lengths")


def axes_of(name: str) -> tuple[str, ...] | None:
    """The axes of an array besides its first; None for the scores, whose classes are all there always."""
    own = name.rpartition("/")[2]
    return None if name == "scores" else () if own in _WHOLE else _AXES.get(own, ("classes",))


def kinds_of(name: str) -> str:
    """The kinds of NumPy's dtypes that an array may have; marks and text are bytes."""
    own = name.rpartition("/")[2]
    return "u" if own in ("marks", "text", "lengths") else "i" if own in _WHOLE else "f"


def offsets_of(name: str) -> str | None:
    """Where the numbers that a chunk has under this name are added up; None for an array that holds no numbers."""
    _, _, own = (
        name.split("/", 2) if name.startswith(("inputs/", "columns/")) else ("", "", name)
    )  # the name of an input has no /
    if own not in ("lengths", "words/bytes"):
        return _NUMBERS.get(name)
    return name.removesuffix(own) + _NUMBERS[own]
