"""Where the score of a prediction went: the ledgers of LRP, of methods with a reference, of phrases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# Rows of the ledgers of many explanations, `books` (rows, n), by kind of method. LRP has its biases behind them, a row
# for each layer; kernels/ledger.py knows this order.
ROWS = {
    "lrp": ("inputs", "stabiliser", "initial_state", "rule", "attention", "largest", "total"),
    "reference": ("inputs", "score", "reference", "gap", "largest", "error"),
}


def by_name(kind: str, books: np.ndarray) -> dict[str, np.ndarray]:
    """The entries of many ledgers by name, (…, n), and of LRP the biases (…, layers, n); from `books` (…, rows, n)."""
    names = ROWS[kind]
    found = {name: books[..., row, :] for row, name in enumerate(names)}
    return {**found, "biases": books[..., len(names) :, :]} if kind == "lrp" else found


@dataclass(frozen=True, eq=False)
class Ledger:
    """Where f_c(x) went under LRP. The entries are summed from their own messages and add up to f_c(x).

    With target "all" every entry has a leading axis for the classes.
    """

    inputs: Any  # what reached the inputs
    biases: tuple[Any, ...]  # what each layer's biases kept
    stabiliser: Any  # what eps, and sums that are exactly 0, kept
    initial_state: Any  # what reached h0 and c0
    largest: Any  # largest relevance of any neuron or input on the way: rounding is relative to it
    total: Any = None  # the sum of all entries but `largest`: f_c(x)
    rule: Any = None  # what sum rules did not pass on; nothing where they conserve
    attention: Any = None  # what AttnLRP did not pass on at a softmax

    def __post_init__(self) -> None:
        for name in ("rule", "attention"):  # results of version 0.2 have neither
            if getattr(self, name) is None:
                object.__setattr__(self, name, np.zeros_like(self.inputs)[()])
        if self.total is None:
            with np.errstate(all="ignore"):  # where relevance is infinite, RelevanceWarning has said so
                total = self.inputs + self.all_biases + self.stabiliser + self.initial_state
            object.__setattr__(self, "total", total)

    @property
    def all_biases(self) -> Any:
        """What the biases of all layers kept together."""
        with np.errstate(all="ignore"):
            return sum(self.biases)

    @property
    def entries(self) -> dict[str, Any]:
        """What is shown of it, by name; these add up to the total. `rule` and `attention` only where they kept any."""
        entries = {
            "inputs": self.inputs,
            "biases": self.all_biases,
            "stabiliser": self.stabiliser,
            "initial state": self.initial_state,
        }
        rare = {"rule": self.rule, "attention": self.attention}
        return entries | {name: value for name, value in rare.items() if np.any(value)}

    def of_class(self, c: int) -> Ledger:
        """Of a ledger of all classes, that of the class `c`."""
        entries = {name: value[c] for name, value in vars(self).items() if name != "biases"}
        return Ledger(biases=tuple(bias[c] for bias in self.biases), **entries)


@dataclass(frozen=True, eq=False)
class ReferenceLedger:
    """Where f_c(x) went under a method with a reference: f_c(x) = f_c(reference) + inputs + gap.

    Of several references the mean counts. With target "all" every entry has a leading axis for the classes.
    """

    inputs: Any  # what the inputs got
    score: Any  # f_c(x), or f_c(x) - f_versus(x)
    reference: Any  # the same of the reference
    gap: Any  # what is left: rounding, or with integrated gradients the error of the integral
    largest: Any = None  # largest relevance of any input, with DeepLIFT of any layer's output too; None in older files
    error: Any = None  # estimated error of the integral for a single feature, the largest; 0 of other methods

    @property
    def total(self) -> Any:
        """reference + inputs + gap: f_c(x)."""
        with np.errstate(all="ignore"):
            return self.reference + self.inputs + self.gap

    @property
    def entries(self) -> dict[str, Any]:
        """What is shown of it, by name; these add up to the total."""
        return {"inputs": self.inputs, "reference": self.reference, "gap": self.gap}

    def of_class(self, c: int) -> ReferenceLedger:
        """Of a ledger of all classes, that of the class `c`."""
        return ReferenceLedger(**{name: value[c] for name, value in vars(self).items() if value is not None})


@dataclass(frozen=True, eq=False)
class SpanLedger:
    """Where f_c(x) went under contextual decomposition, for each of V phrases (or, without `spans`, each word)."""

    relevant: np.ndarray  # (V,) what the phrase did
    irrelevant: np.ndarray  # (V,) what everything else did
    bias: np.ndarray  # (V,) what the biases of Dense layers did
    unassigned: Any  # what is left of f_c(x) without the output bias when every word has got its relevance

    @property
    def total(self) -> np.ndarray:
        """relevant + irrelevant + bias: f_c(x), for each phrase."""
        with np.errstate(all="ignore"):
            return self.relevant + self.irrelevant + self.bias

    def of_class(self, c: int) -> SpanLedger:
        """Of a ledger of all classes, that of the class `c`."""
        return SpanLedger(**{name: value[c] for name, value in vars(self).items()})
