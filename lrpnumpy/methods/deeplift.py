"""DeepLIFT and DeepSHAP: differences from a reference, propagated by the rescale rule with products split evenly.

With several references relevance is the mean over them, which is DeepSHAP (Lundberg & Lee, NeurIPS 2017).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lrpnumpy.methods.base import Columns, Question
from lrpnumpy.methods.reference import Referring, finished, new_entry, reference_scores
from lrpnumpy.passes import Trace, backward, forward
from lrpnumpy.rules import DEEPLIFT, REFERENCE
from lrpnumpy.rules.propagation import Entry


def differences(trace: Trace, R: np.ndarray, reference: Trace, entry: Entry | None = None) -> dict[str, np.ndarray]:
    """Relevance (R, D) of each input, from the message at the scores and the reference's forward pass.

    `entry` sees the relevance of every layer's output.
    """
    passed = backward(trace, R, DEEPLIFT, reference)
    if entry is not None:
        for name, ran in trace.ran.items():
            outputs = zip(trace.model.wanted[name], ran.outputs, reference.ran[name].outputs, strict=True)
            for key, y, y0 in outputs:
                if name + key in passed.messages:
                    entry.see(passed.messages[name + key] * (y.rows - y0.rows), y.batch)
    return {
        name: part * (trace.inputs[name].rows - reference.inputs[name].rows) for name, part in passed.inputs.items()
    }


@dataclass(frozen=True)
class DeepLIFT(Referring):
    """Differences from a reference, propagated by the rescale rule with products split evenly.

    With several references the relevance is the mean over them, which is DeepSHAP.
    """

    name = "deeplift"
    description = "difference from a reference, rescale rule, products split evenly; several references: DeepSHAP"
    paper = "Shrikumar et al. 2017"
    keep = DEEPLIFT

    def run(self, question: Question, wanted: list[np.ndarray]) -> list[Columns]:
        """The answers to a `question`: a forward pass for each reference, a backward pass for each `wanted` target."""
        trace, references = question.trace, question.request.plan
        starts = [question.sent_back(np.ones_like(question.scores), targets) for targets in wanted]
        values: list[dict[str, np.ndarray]] = [{} for _ in wanted]
        entries = [new_entry(question) for _ in wanted]
        scores = np.zeros_like(question.scores)
        count = scores.dtype.type(len(references.each))
        for k in range(len(references.each)):
            reference = forward(trace.model, references.packed(k, trace.inputs), REFERENCE)
            scores += reference_scores(question, reference.scores) / count
            for sums, start, entry in zip(values, starts, entries, strict=True):
                for name, part in differences(trace, start, reference, entry).items():
                    sums[name] = sums[name] + part / count if name in sums else part / count
        return [
            finished(question, targets, sums, scores, entry)
            for targets, sums, entry in zip(wanted, values, entries, strict=True)
        ]
