"""DeepLIFT and DeepSHAP: differences from a reference, sent back by the rescale rule with products split evenly.

With several references relevance is the mean over them, which is DeepSHAP (Lundberg & Lee, NeurIPS 2017).
"""

from __future__ import annotations

import numpy as np

from lrpnumpy.methods.base import Columns, Method, Question, Request
from lrpnumpy.methods.reference import ReferenceOptions, finished, reference_scores
from lrpnumpy.passes import Trace, backward, forward
from lrpnumpy.rules import DEEPLIFT, REFERENCE, DeepLIFT


def keep(request: Request) -> DeepLIFT:
    """A forward pass keeps every activation of recurrent layers."""
    return DEEPLIFT


def differences(trace: Trace, R: np.ndarray, reference: Trace) -> dict[str, np.ndarray]:
    """Relevance (R, D) of each input, from the message at the scores and the reference's forward pass."""
    passed = backward(trace, R, DEEPLIFT, reference)
    return {
        name: part * (trace.inputs[name].rows - reference.inputs[name].rows) for name, part in passed.inputs.items()
    }


def run(question: Question, wanted: list[np.ndarray]) -> list[Columns]:
    """Results for each of the wanted targets: for each reference a forward pass, then a backward pass for each."""
    trace, references = question.trace, question.request.options.reference
    starts = [question.sent_back(np.ones_like(question.scores), targets) for targets in wanted]
    values: list[dict[str, np.ndarray]] = [{} for _ in wanted]
    scores = np.zeros_like(question.scores)
    count = scores.dtype.type(len(references.each))
    for k in range(len(references.each)):
        reference = forward(trace.model, references.packed(k, trace.inputs), REFERENCE)
        scores += reference_scores(question, reference.scores) / count
        for sums, start in zip(values, starts, strict=True):
            for name, part in differences(trace, start, reference).items():
                sums[name] = sums[name] + part / count if name in sums else part / count
    return [finished(question, targets, sums, scores) for targets, sums in zip(wanted, values, strict=True)]


METHODS = (
    Method(
        name="deeplift",
        description="difference from a reference, rescale rule, products split evenly; several references: DeepSHAP",
        cost="Θ(T)",
        conserves="f_c(x) - f_c(reference)",
        variables="free",
        reference="Shrikumar et al. 2017",
        kind="reference",
        options=ReferenceOptions,
        keep=keep,
        run=run,
    ),
)
