"""An encoder-decoder: which letters of the word determine the third letter of the answer?

The bundled network spells a word backwards. Its encoder reads the word. Its decoder starts from the encoder's last
states and outputs one letter per step, knowing the letters before.

Run with: python examples/encoder_decoder.py [WORD]
"""

import sys

import numpy as np

import lrpnumpy as lrp

word = list(sys.argv[1] if len(sys.argv) > 1 else "badge")
model = lrp.load("reverse")

given = ["<start>"]
while len(given) <= len(word):  # one letter per step, as the network would be used
    scores = lrp.predict(model, {"word": word, "given": given})
    given.append(model.classes[int(np.argmax(scores[-1]))])
answer = given[1:]
print(f"{''.join(word)} backwards: {''.join(answer)}")

for step in range(len(answer)):
    e = lrp.explain(model, {"word": word, "given": given[:-1]}, "lrp-all", answer[step], step=step)
    letters = "  ".join(f"{letter} {relevance:+6.2f}" for letter, relevance in zip(word, e.relevance, strict=True))
    print(f"letter {step + 1}, {answer[step]!r}, was made by   {letters}   most by {e.top(1)[0].token!r}")
print()
print(lrp.explain(model, {"word": word, "given": given[:-1]}, "lrp-all", answer[2], step=2))
