"""A network set by hand, so that its explanation can be checked by eye.

One hidden unit with its gates wide open adds up the words: good +0.5, bad -0.5, great +1, and the rest 0. The score is
tanh of the sum, and LRP gives every word its part of the sum.

Run with: python examples/by_hand.py
"""

import numpy as np

import lrpnumpy as lrp

words = {"good": 0.5, "bad": -0.5, "great": 1.0, "the": 0.0, "film": 0.0}
E = np.array([[value] for value in words.values()])
U = np.array([0.0, 0.0, 1.0, 0.0]).reshape(4, 1, 1)  # gates i, f, g, o: only g looks at the word
b = np.array([20.0, 20.0, 0.0, 20.0]).reshape(4, 1)  # i, f and o are open: sigmoid(20) is nearly 1
adder = lrp.LSTM(U, np.zeros((4, 1, 1)), b)
model = lrp.Model([adder, lrp.Dense(np.ones((1, 1)))], embedding=lrp.Embedding(E, vocabulary=list(words)))

explanation = lrp.explain(model, "the great film the bad film", eps=0.0)
print(explanation)
parts = np.tanh([words[word] for word in explanation.tokens])
expected = np.tanh(parts.sum()) * parts / parts.sum()
print("\nby hand:", np.round(expected, 4), "\nby LRP: ", np.round(explanation.relevance, 4))
assert np.allclose(explanation.relevance, expected, atol=1e-6)
