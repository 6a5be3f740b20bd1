"""Ten lines: why did the model say that?

Run with: python examples/explain_sentence.py
"""

import lrpnumpy as lrp

model = lrp.load("sentiment")
explanation = lrp.explain(model, "It isn't a bad film, and the ending is beautiful.")
print(explanation)  # in a notebook, the last line of a cell is enough: it shows the sentence in color
print("\nrather than 'neutral'?", lrp.explain(model, explanation.tokens, versus="neutral").top(3))
print("\nevery method:\n", lrp.compare(model, "not funny at all", eps=0.1))
