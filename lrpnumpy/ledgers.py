"""Where the score of a prediction went: the ledgers of LRP, of methods with a reference, of phrases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lrpnumpy.fields import result_field

# Rows of the ledgers of many explanations, `books` (rows, n), by kind of method. LRP has its biases after them, a row
# for each layer; kernels/sums.py knows this order.
ROWS = {
    "lrp": ("inputs", "stabilizer", "initial_state", "rule", "attention", "largest", "total"),
    "reference": ("inputs", "score", "reference", "gap", "largest", "error", "cut"),
}


def by_name(kind: str, books: np.ndarray) -> dict[str, np.ndarray]:
    """The entries of many ledgers by name, (…, n), and of LRP the biases (…, layers, n); from `books` (…, rows, n)."""
    names = ROWS[kind]
    found = {name: books[..., row, :] for row, name in enumerate(names)}
    if kind == "lrp":
        found["biases"] = books[..., len(names) :, :]
    return found


def _entry(*axes: str) -> Any:
    """An entry of a ledger, in the unit of the scores; with target "all" there is one for each class."""
    return result_field(" ".join(("target", *axes)), unit="output")


@dataclass(frozen=True, eq=False)
class Ledger:
    """Where f_c(x) went under LRP. The entries are summed from their own messages and add up to f_c(x).

    With target "all" every entry has a leading axis for the classes.
    """

    inputs: Any = _entry()  # what reached the inputs
    biases: np.ndarray = _entry("layer")  # what the biases of each layer kept
    stabilizer: Any = _entry()  # what eps, and sums that are exactly 0, kept
    initial_state: Any = _entry()  # what reached h0 and c0
    largest: Any = _entry()  # relevance of any neuron or input: rounding is relative to it
    total: Any = _entry()  # the sum of all entries but `largest`: f_c(x)
    rule: Any = _entry()  # what sum rules did not pass on, nothing where they conserve; what `through` cut off
    attention: Any = _entry()  # what AttnLRP did not pass on at a softmax

    @property
    def all_biases(self) -> Any:
        """What the biases of all layers kept together."""
        with np.errstate(all="ignore"):  # where relevance is infinite, RelevanceWarning has said so
            return self.biases.sum(axis=-1)

    @property
    def entries(self) -> dict[str, Any]:
        """What is shown of it, by name; these add up to the total. `rule` and `attention` only where they kept any."""
        entries = {
            "inputs": self.inputs,
            "biases": self.all_biases,
            "stabilizer": self.stabilizer,
            "initial state": self.initial_state,
        }
        rare = {"rule": self.rule, "attention": self.attention}
        return entries | {name: value for name, value in rare.items() if np.any(value)}


@dataclass(frozen=True, eq=False)
class ReferenceLedger:
    """Where f_c(x) went under a method with a reference: f_c(x) = f_c(reference) + inputs + gap + cut.

    Of several references the mean counts. With target "all" every entry has a leading axis for the classes.
    """

    inputs: Any = _entry()  # what the inputs received
    score: Any = _entry()  # f_c(x), or f_c(x) - f_versus(x)
    reference: Any = _entry()  # the same of the reference
    gap: Any = _entry()  # rounding, or with integrated gradients the error of the integral
    largest: Any = _entry()  # relevance of any input, with DeepLIFT of any layer's output
    error: Any = _entry()  # the largest estimated error of a feature: of an integral, or a standard error
    cut: Any = result_field("target", unit="output", default=None)  # what `through` cut off; None in older files

    @property
    def total(self) -> Any:
        """reference + inputs + gap + cut: f_c(x)."""
        with np.errstate(all="ignore"):
            return sum(self.entries.values())

    @property
    def entries(self) -> dict[str, Any]:
        """What is shown of it, by name; these add up to the total."""
        entries = {"inputs": self.inputs, "reference": self.reference, "gap": self.gap}
        if self.cut is not None and np.any(self.cut):
            entries["cut"] = self.cut
        return entries


@dataclass(frozen=True, eq=False)
class SpanLedger:
    """Where f_c(x) went under contextual decomposition, for each of V phrases (or, without `spans`, each word)."""

    relevant: np.ndarray = _entry("phrase")  # (V,) what the phrase did
    irrelevant: np.ndarray = _entry("phrase")  # (V,) what everything else did
    bias: np.ndarray = _entry("phrase")  # (V,) what the biases of Dense layers did
    unassigned: Any = _entry()  # f_c(x) less the output bias and the relevance of words

    @property
    def total(self) -> np.ndarray:
        """relevant + irrelevant + bias: f_c(x), for each phrase."""
        with np.errstate(all="ignore"):
            return self.relevant + self.irrelevant + self.bias


LEDGERS: dict[str, Any] = {kind.__name__: kind for kind in (Ledger, ReferenceLedger, SpanLedger)}
AnyLedger = Ledger | ReferenceLedger | SpanLedger
