"""DeepLIFT and DeepSHAP: differences from a reference, propagated by the rescale rule with products split evenly.

With several references relevance is the mean over them, which is DeepSHAP (Lundberg & Lee, NeurIPS 2017).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lrpnumpy.methods.base import Columns, Question
from lrpnumpy.methods.reference import Multiplying, finished, new_entry, reference_scores, references_of
from lrpnumpy.methods.through import Through
from lrpnumpy.passes import Trace, backward
from lrpnumpy.rules import DEEPLIFT, REFERENCE
from lrpnumpy.rules.propagation import Entry


def differences(
    trace: Trace, R: np.ndarray, reference: Trace, entry: Entry | None = None, through: Through | None = None
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Relevance (R, D) of each input, from the message at the scores and the reference's forward pass; and (n,) that of
    the states before windows.

    `entry` sees the relevance of every layer's output; `through` is as in `backward`.
    """
    passed = backward(trace, R, DEEPLIFT, reference, through=through)
    if entry is not None:
        for name, ran in trace.ran.items():
            outputs = zip(trace.model.wanted[name], ran.outputs, reference.ran[name].outputs, strict=True)
            for key, y, y0 in outputs:
                if name + key in passed.messages:
                    entry.see(passed.messages[name + key] * (y.rows - y0.rows), y.batch)
    earlier = np.zeros(trace.input.batch.n, R.dtype)
    for name, messages in passed.earlier.items():
        states, states0 = (one.ran[name].inputs[-len(messages) :] for one in (trace, reference))
        for message, h, h0 in zip(messages, states, states0, strict=True):
            earlier += (message * (h.rows - h0.rows)).sum(axis=1)
    values = {
        name: part * (trace.inputs[name].rows - reference.inputs[name].rows) for name, part in passed.inputs.items()
    }
    return values, earlier


@dataclass(frozen=True)
class DeepLIFT(Multiplying):
    """Differences from a reference, propagated by the rescale rule with products split evenly.

    With several references the relevance is the mean over them, which is DeepSHAP.
    """

    name = "deeplift"
    description = "difference from a reference, rescale rule, products split evenly; several references: DeepSHAP"
    paper = "Shrikumar et al. 2017"
    keep = DEEPLIFT
    further = (REFERENCE,)

    def run(self, question: Question, wanted: list[np.ndarray]) -> list[Columns]:
        """The answers to a `question`: a forward pass for each reference, a backward pass for each `wanted` target."""
        trace, count = question.trace, question.scores.dtype.type(len(question.request.plan.each))
        starts = [question.first_message(np.ones_like(question.scores), targets) for targets in wanted]
        values: list[dict[str, np.ndarray]] = [{} for _ in wanted]
        entries = [new_entry(question) for _ in wanted]
        scores, uncut = np.zeros_like(question.scores), [np.zeros_like(question.scores[:, 0]) for _ in wanted]
        is_partial = self.through is not None or trace.windows is not None
        for _, _, reference in references_of(question, REFERENCE):
            scores += reference_scores(question, reference.scores) / count
            for sums, start, entry, total in zip(values, starts, entries, uncut, strict=True):
                found, earlier = differences(trace, start, reference, entry)
                if is_partial:
                    total += (question.summed(found) + earlier) / count
                if self.through is not None:
                    found, _ = differences(trace, start, reference, None, self.through)
                for name, part in found.items():
                    sums[name] = sums[name] + part / count if name in sums else part / count
        out = []
        for targets, sums, entry, total in zip(wanted, values, entries, uncut, strict=True):
            whole = total if is_partial else None
            out.append(finished(question, targets, sums, scores, entry, whole=whole))
        return out

    def multipliers(self, question: Question, targets: np.ndarray) -> dict[str, np.ndarray]:
        """(R, D) of each input: the mean of its multipliers over the references, of a `question` and its `targets`."""
        trace, count = question.trace, len(question.request.plan.each)
        start = question.first_message(np.ones_like(question.scores), targets)
        found = {name: np.zeros_like(x.rows) for name, x in trace.inputs.items()}
        for _, _, reference in references_of(question, REFERENCE):
            for name, part in backward(trace, start, DEEPLIFT, reference, through=self.through).inputs.items():
                found[name] += part / count
        return found
