"""A custom product rule in a few lines of NumPy, beside the four built-in ones.

Run with: python examples/own_rule.py
"""

import numpy as np

import lrpnumpy as lrp


def mostly_signal(gate: np.ndarray, signal: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """A tenth of the relevance for the gate, the rest for the signal: fractions that add up to 1 conserve."""
    return np.full_like(gate, 0.1), np.full_like(signal, 0.9)


model = lrp.load("sentiment")
text = "This movie isn't funny, but the ending is beautiful."
for method in (lrp.Rule("mostly-signal", mostly_signal), "lrp-all", "lrp-half"):
    explanation = lrp.explain(model, text, method, target="positive")
    words = ", ".join(f"{part.token} {part.relevance:+.2f}" for part in explanation.top(4))
    print(f"{explanation.method:>14}: {words}   (ledger adds up to {explanation.ledger.total:.4f})")
