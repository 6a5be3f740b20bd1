"""What bad input gets: one clear sentence from one family of errors, naming what, where, expected and found."""

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp

RNG = np.random.default_rng(0)
LAYER = nets.lstm(RNG, 3, 2)
HEAD = nets.dense(RNG, 2, 2)
NUMBERS = lrp.Model([LAYER, HEAD], classes=["no", "yes"])
WORDS = lrp.Model([LAYER, HEAD], embedding=lrp.Embedding(RNG.normal(size=(3, 3)), vocabulary=["a", "b", "c"]))
EVERY = lrp.Model([LAYER, HEAD], readout="every")
ONE = lrp.Model([LAYER, nets.dense(RNG, 2, 1)])
SIGMOID = lrp.Model([LAYER, nets.dense(RNG, 2, 1)], output="sigmoid")
U, W, b, X = LAYER.U, LAYER.W, LAYER.b, RNG.normal(size=(4, 3))


def holed(array, value):
    out = np.array(array)
    out.flat[-1] = value
    return out


CASES = {
    # records: which array of which layer must be what
    "U has three gates": (lambda: lrp.LSTM(U[:3], W, b), r"LSTM: U must have shape \(4, any, any\), got \(3, 2, 3\)"),
    "W does not fit U": (lambda: lrp.LSTM(U, W[:, :1], b), r"LSTM: W must have shape \(4, 2, 2\), got \(4, 1, 2\)"),
    "U of a GRU has four gates": (
        lambda: lrp.GRU(U, W[:3]),
        r"GRU: U must have shape \(3, any, any\), got \(4, 2, 3\)",
    ),
    "bn does not fit U": (lambda: lrp.GRU(U[:3], W[:3], bn=b[:3]), r"GRU: bn must have shape \(2\), got \(3, 2\)"),
    "bn where the reset gate acts before": (
        lambda: lrp.GRU(U[:3], W[:3], bn=b[0], reset_after=False),
        r"GRU: bn must be left out with reset_after=False",
    ),
    "an unknown gate activation": (
        lambda: lrp.GRU(U[:3], W[:3], recurrent_activation="softmax"),
        r"GRU: recurrent_activation must be one of .*, got 'softmax'",
    ),
    "U of an RNN has two gates": (lambda: lrp.RNN(U[:2], W[0]), r"RNN: U must have shape .*, got \(2, 2, 3\)"),
    "W of an RNN does not fit": (lambda: lrp.RNN(U[0], W[0, :1]), r"RNN: W must have shape .*, got .*1, 2\)"),
    "a head as a direction": (
        lambda: lrp.Bidirectional(LAYER, HEAD),
        r"Bidirectional: backward must be a cell, such as lrp.LSTM, got Dense",
    ),
    "NaN in a weight": (lambda: lrp.LSTM(holed(U, np.nan), W), r"LSTM: U must be finite, got nan at index \[3, 1, 2\]"),
    "infinite weight": (lambda: lrp.Dense(holed(HEAD.V, np.inf)), r"Dense: V must be finite, got inf"),
    "integer weights": (lambda: lrp.LSTM(np.ones((4, 2, 3), int), W), r"LSTM: U must be float32 or float64, got int64"),
    "object weights": (lambda: lrp.Dense(np.array([[None, 1.0]])), r"Dense: V must be float32 or float64, got object"),
    "float16 weights": (lambda: lrp.Dense(np.ones((1, 2), np.float16)), r"got float16"),
    "ragged weights": (lambda: lrp.Dense([[1.0], [1.0, 2.0]]), r"Dense: V must be an array of floats"),
    "unknown activation": (
        lambda: lrp.LSTM(U, W, b, activation="swish"),
        r"LSTM: activation must be one of .*'tanh'.*, got 'swish'",
    ),
    "unknown merge": (lambda: lrp.Bidirectional(LAYER, LAYER, "mul"), r"merge must be one of .*, got 'mul'"),
    "sum of unequal directions": (
        lambda: lrp.Bidirectional(LAYER, nets.lstm(RNG, 3, 4), "sum"),
        r"got 2 and 4 units; use merge='concat'",
    ),
    "layers that do not fit": (
        lambda: lrp.Model([LAYER, nets.dense(RNG, 5, 2)]),
        r"V of layer 1 \(Dense\) must take the 2 outputs of the layer 0 \(LSTM\), got 5 columns",
    ),
    "embedding that does not fit": (
        lambda: lrp.Model([LAYER, HEAD], embedding=lrp.Embedding(np.ones((3, 4)))),
        r"x of layer 0 \(LSTM\) must have 3 features, got 4 from the embedding",
    ),
    "no recurrent layer": (lambda: lrp.Model([HEAD]), r"at least one recurrent layer"),
    "a foreign layer": (
        lambda: lrp.Model([LAYER, "Dense"]),
        r"layer 1 must be a layer, such as lrp.LSTM or lrp.Dense, got str",
    ),
    "not a list of layers": (lambda: lrp.Model(LAYER), r"nodes must be a list"),
    "too few class names": (
        lambda: lrp.Model([LAYER, HEAD], classes=["one"]),
        r"classes must have 2 names, one for each, got 1",
    ),
    "the same class twice": (lambda: lrp.Model([LAYER, HEAD], classes=["a", "a"]), r"got 'a' twice"),
    "softmax of one output": (
        lambda: lrp.Model([LAYER, nets.dense(RNG, 2, 1)], output="softmax"),
        r"output must be 'linear' or 'sigmoid'",
    ),
    "unknown token that is no word": (
        lambda: lrp.Embedding(np.ones((1, 2)), vocabulary=["a"], unknown="b"),
        r"unknown must be a word of the vocabulary, got 'b'",
    ),
    # inputs: position in the batch
    "wrong number of features": (
        lambda: lrp.predict_all(NUMBERS, [X, X[:, :2]]),
        r"sequence 1 has 2 features, the model takes 3; pass an array of shape \(T, 3\)",
    ),
    "NaN in an input": (
        lambda: lrp.explain_all(NUMBERS, [X, X, holed(X, np.nan)]),
        r"sequence 2 must be finite, got nan at index \[3, 2\]",
    ),
    "infinity in an input": (lambda: lrp.predict(NUMBERS, holed(X, -np.inf)), r"x must be finite, got -inf"),
    "an empty sequence": (
        lambda: lrp.predict_all(NUMBERS, [X, X[:0]]),
        r"sequence 1 must have at least one step, got an empty sequence",
    ),
    "an empty string": (lambda: lrp.predict(WORDS, "  "), r"at least one word, got an empty string"),
    "one dimension": (
        lambda: lrp.predict(NUMBERS, X[:, 0]),
        r"must have shape \(T, 3\), got \(4,\); one step of 3 numbers is x\[None\]",
    ),
    "one sequence as a batch": (
        lambda: lrp.explain_all(NUMBERS, X),
        r"sequence 0 must have shape .* a single sequence is for explain and predict",
    ),
    "an array of truth values": (
        lambda: lrp.predict(NUMBERS, np.ones((4, 3), bool)),
        r"x must be an array of floats or integers, got bool",
    ),
    "an array of strings": (
        lambda: lrp.predict(NUMBERS, np.full((4, 3), "1.0")),
        r"x must be an array of floats or integers, got <U3",
    ),
    "too large for float32": (
        lambda: lrp.explain_all(NUMBERS.astype("float32"), [X, X * 1e39]),
        r"sequence 1 must be at most 3.4e\+38 in size for a float32 model, got .*; scale the input",
    ),
    "an object array": (
        lambda: lrp.predict(NUMBERS, np.full((4, 3), None)),
        r"x must be an array of floats or integers, got object",
    ),
    "a string without vocabulary": (lambda: lrp.predict(NUMBERS, "a b"), r"the model has no vocabulary"),
    "ids without embedding": (lambda: lrp.predict(NUMBERS, [1, 2]), r"the model has no embedding"),
    "an unknown word": (lambda: lrp.predict_all(WORDS, ["a b", "b x"]), r"sequence 1.*'x'.*position 1"),
    "an id out of range": (
        lambda: lrp.predict_all(WORDS, [[0, 1], [2, 3]]),
        r"sequence 1: token ids must lie from 0 to 2, got 3 at position 1",
    ),
    "a negative id": (lambda: lrp.predict(WORDS, [-1]), r"got -1 at position 0"),
    "one string for many": (lambda: lrp.predict_all(WORDS, "a b"), r"must be a list of sequences, got one string"),
    # what is asked
    "a class out of range": (
        lambda: lrp.explain(NUMBERS, X, target=2),
        r"target must be a class from 0 to 1, .*, got 2",
    ),
    "a negative class": (
        lambda: lrp.explain(NUMBERS, X, target=-1),
        r"target must be a class from 0 to 1, .*, got -1",
    ),
    "an unknown class name": (
        lambda: lrp.explain(NUMBERS, X, target="maybe"),
        r"target must be one of 'no', 'yes', got 'maybe'",
    ),
    "a class name where there are none": (
        lambda: lrp.explain(EVERY, X, target="yes"),
        r"target must be one of 0, 1, got 'yes'",
    ),
    "too few targets": (
        lambda: lrp.explain_all(NUMBERS, [X, X], target=[0]),
        r"one class for each of the 2 sequences, got 1",
    ),
    "one wrong target of many": (
        lambda: lrp.explain_all(NUMBERS, [X, X], target=[0, 7]),
        r"target of sequence 1 must be a class from 0 to 1, .*, got 7",
    ),
    "versus the same class": (
        lambda: lrp.explain(NUMBERS, X, target=1, versus="yes"),
        r"versus must be another class than the target",
    ),
    "an unknown method": (lambda: lrp.explain(NUMBERS, X, "lrp"), r"unknown method 'lrp'; did you mean 'lrp-all'\?"),
    "integrated gradients in short": (
        lambda: lrp.explain(NUMBERS, X, "ig"),
        r"unknown method 'ig'; did you mean 'integrated-gradients'\?",
    ),
    "a method with underscores": (
        lambda: lrp.explain(NUMBERS, X, "integrated_gradients"),
        r"unknown method 'integrated_gradients'; did you mean 'integrated-gradients'\?",
    ),
    "a method in capitals": (
        lambda: lrp.explain_all(NUMBERS, [X], "LRP-all"),
        r"unknown method 'LRP-all'; did you mean 'lrp-all'\?",
    ),
    "a method like no other": (
        lambda: lrp.explain(NUMBERS, X, "xyzzy"),
        r"unknown method 'xyzzy'; the methods are gradient, gradient-x-input, .*shapley",
    ),
    "eps in full": (
        lambda: lrp.explain(NUMBERS, X, "lrp-all", epsilon=0.1),
        r"unknown option 'epsilon' for lrp-all; did you mean eps\?",
    ),
    "the baselines of captum": (
        lambda: lrp.explain(NUMBERS, X, "integrated-gradients", baselines=0),
        r"unknown option 'baselines' for integrated-gradients; did you mean reference\?",
    ),
    "the baseline of an occlusion": (
        lambda: lrp.explain(NUMBERS, X, "occlusion-f", baseline=0),
        r"unknown option 'baseline' for occlusion-f; did you mean reference\?",
    ),
    "an option twice": (
        lambda: lrp.explain(NUMBERS, X, lrp.DeepLIFT("zero", data=[X]), reference="mean", data=[X]),
        r"(reference|data) is given twice, in lrp.DeepLIFT and in the call; leave one out",
    ),
    "an option twice with its default": (
        lambda: lrp.explain(NUMBERS, X, lrp.LRP(eps=0.001), eps=0.2),
        r"eps is given twice, in lrp.LRP and in the call; leave one out",
    ),
    "eps in full in a record": (
        lambda: lrp.LRP(epsilon=0.1),
        r"unknown option 'epsilon' for lrp.LRP; did you mean eps\?",
    ),
    "the steps of captum": (
        lambda: lrp.IntegratedGradients(steps=50),
        r"unknown option 'steps' for lrp.IntegratedGradients; did you mean nodes\?",
    ),
    "a reference that no method compares with": (
        lambda: lrp.compare(NUMBERS, X, ["lrp-all", "cd"], reference="zero"),
        r"unknown option 'reference' for lrp-all, cd; its options are",
    ),
    "a method that is none": (
        lambda: lrp.compare(NUMBERS, X, [lrp.LRP]),
        r"method must be a name, or a record such as lrp.LRP\(\), got the class LRP",
    ),
    "several references of an occlusion": (
        lambda: lrp.explain(NUMBERS, X, "occlusion-f", reference=["zero", np.ones(3)]),
        r"occlusion-f takes a single reference, got 2",
    ),
    "what is occluded": (
        lambda: lrp.Occlusion("logit"),
        r"Occlusion: of must be one of 'score', 'probability', got 'logit'",
    ),
    "a switch that is none": (
        lambda: lrp.Gradient(times_input=1),
        r"Gradient: times_input must be true or false, got 1",
    ),
    "negative eps": (
        lambda: lrp.explain(NUMBERS, X, "lrp-all", eps=-1),
        r"eps must be a finite number that is not negative, got -1",
    ),
    "eps that is no number": (lambda: lrp.explain(NUMBERS, X, "lrp-all", eps="small"), r"eps must be a finite number"),
    "an unknown unit": (
        lambda: lrp.explain(NUMBERS, X, unit="letter"),
        r"unit must be one of 'step', 'feature', got 'letter'",
    ),
    "variables of cd": (
        lambda: lrp.explain(NUMBERS, X, "cd", unit="feature"),
        r"cd has no relevance per feature",
    ),
    "hidden of a gradient": (
        lambda: lrp.explain(NUMBERS, X, "gradient", hidden=True),
        r"unknown option 'hidden' for gradient; its options are through",
    ),
    "a reference for LRP": (
        lambda: lrp.explain(NUMBERS, X, "lrp-all", reference=np.zeros(3)),
        r"unknown option 'reference' for lrp-all; its options are sums, eps, gamma, attention, hidden",
    ),
    "an option that the default method has not": (
        lambda: lrp.explain(NUMBERS, X, eps=0.1),
        r"unknown option 'eps' for deeplift; its options are",
    ),
    "eps for occlusion": (
        lambda: lrp.explain_all(NUMBERS, [X], "occlusion-f", eps=0.1),
        r"unknown option 'eps' for occlusion-f; its options are reference, data, tol",
    ),
    "an option that no method has": (
        lambda: lrp.compare(NUMBERS, X, epsilon=1),
        r"unknown option 'epsilon' for lrp-all, .*; did you mean eps\?",
    ),
    "versus the predicted class": (
        lambda: lrp.explain(NUMBERS, X, versus=int(np.argmax(lrp.predict(NUMBERS, X)))),
        r"versus must be another class than the one explained, got \d, which is what the model predicts for sequence 0",
    ),
    "a row that has no word": (
        lambda: lrp.Embedding(np.ones((3, 3)), vocabulary={"a": 0, "b": 2}),
        r"vocabulary must name each of the 3 rows once, got 2 words, and none for row 1",
    ),
    "a row that is not there": (
        lambda: lrp.Embedding(np.ones((2, 3)), vocabulary={"word": 3}),
        r"vocabulary must name each of the 2 rows once, got 1 words, and none for row 0",
    ),
    "a word as reference where there are none": (
        lambda: lrp.explain(NUMBERS, X, "occlusion-f", reference="x"),
        r"reference of 'x' must be 'zero', 'mean' or numbers, as the input has no words, got 'x'",
    ),
    "probabilities of a regression": (
        lambda: lrp.explain(ONE, X, "occlusion-p"),
        r"needs a model with probabilities; use 'occlusion-f'",
    ),
    "step where there is one prediction": (
        lambda: lrp.explain(NUMBERS, X, step=1),
        r"step must be None unless the model predicts at every step",
    ),
    "step out of range": (
        lambda: lrp.explain_all(EVERY, [X, X[:2]], step=3),
        r"step must lie from -2 to 1 for sequence 1 of 2 steps, got 3",
    ),
    "a span out of range": (
        lambda: lrp.explain(NUMBERS, X, "cd", spans=[(2, 5)]),
        r"0 <= start < stop <= 4, got \(2, 5\)",
    ),
    "a span that is none": (lambda: lrp.explain(NUMBERS, X, "cd", spans=[3]), r"spans must be a list of pairs"),
    "omitting everything": (lambda: lrp.explain(NUMBERS, X[:1], "occlusion-f", reference="omit"), r"omit|remov|left"),
    "a reference of the wrong length": (
        lambda: lrp.explain(NUMBERS, X, "occlusion-f", reference=np.zeros(2)),
        r"reference of 'x', a vector or a sequence, must have shape \(any, 3\), got \(1, 2\)",
    ),
    "no threads": (lambda: lrp.predict_all(NUMBERS, [X], threads=0), r"threads must be a positive number"),
    "JSON that is none": (lambda: lrp.Explanation.from_json("{"), r"from_json: the text is not valid JSON"),
    "one class of one class": (lambda: lrp.explain(NUMBERS, X).for_class(0), r"made with target='all'"),
    # inputs: what an Input can be
    "an infinite mask": (lambda: lrp.Input(3, mask_value=np.inf), "mask_value must be a finite number"),
    "a mask beside an embedding": (
        lambda: lrp.Input(embedding=WORDS.embedding, mask_value=0.0),
        r"Embedding\(mask=...\)",
    ),
    "a mask without steps": (lambda: lrp.Input(3, steps=False, mask_value=0.0), "without steps must have no padding"),
    "padding without steps": (
        lambda: lrp.Input(3, steps=False, pad=(4, "pre", 0)),
        "without steps must have no padding",
    ),
    "a mask that is no token": (lambda: lrp.Embedding(np.ones((3, 2)), mask=3), "mask must be a token id from 0 to 2"),
    "a readout beside nodes": (
        lambda: lrp.Model([lrp.Node("a", LAYER, ("x",))], readout="mean"),
        "readout must be None for nodes",
    ),
    "a first layer that knows no size": (
        lambda: lrp.Model([lrp.layers.Reverse(), LAYER, HEAD]),
        "pass inputs={'x': lrp.Input",
    ),
    "integer models": (lambda: NUMBERS.astype("int8"), "dtype must be 'float32' or 'float64', got 'int8'"),
    "directions that read other inputs": (
        lambda: lrp.Bidirectional(LAYER, nets.lstm(RNG, 4, 2)),
        "Bidirectional: .* must",
    ),
    "a vector backwards": (
        lambda: lrp.Model([LAYER, HEAD, lrp.layers.Reverse()]),
        "inputs must have steps, got one vector|must have steps",
    ),
    # explaining
    "steps of a comparison": (lambda: lrp.compare(EVERY, X, ["cd"], step="all"), "step must be an integer here"),
    "omitted variables": (
        lambda: lrp.explain(NUMBERS, X, "occlusion-f", reference="omit", unit="feature"),
        "reference='omit' must have unit='step'",
    ),
    "a mean of nothing": (
        lambda: lrp.explain(NUMBERS, X, "integrated-gradients", reference="mean", data=[]),
        "at least one sequence, got none",
    ),
    "one class of all": (lambda: lrp.explain(NUMBERS, X, target="all").top(), r"pick one with .for_class\(c\).top"),
    # a corpus
    "hidden states of a corpus": (
        lambda: lrp.explain_corpus(NUMBERS, [X], out="none", hidden=True),
        "hidden must be False for a corpus",
    ),
    "workers that are none": (
        lambda: lrp.explain_corpus(NUMBERS, [X], out="none", workers="two"),
        "workers, unless .* must be a number from 1 to 256, got 'two'",
    ),
    "columns that are none": (
        lambda: lrp.explain_corpus(NUMBERS, [X], out=lrp.Output("none", columns=5)),
        "columns must be a dict",
    ),
    "a field of text": (
        lambda: lrp.explain_corpus(WORDS, lrp.Corpus(__file__, "text", "a"), out="none"),
        "field must be None where",
    ),
    # evaluation
    "data that hold no lists": (lambda: lrp.rank_methods(NUMBERS, {"x": 5}), "input 'x' must have a list"),
    "labels of one sigmoid": (
        lambda: lrp.rank_methods(SIGMOID, [X], target=[2]),
        "target must be one class for each of 1 sequences, 0 or 1",
    ),
    "labels of all classes": (
        lambda: lrp.rank_methods(NUMBERS, [X], target="all"),
        "target must be one class for each",
    ),
    "methods that are none": (
        lambda: lrp.rank_methods(NUMBERS, [X], 5),
        "methods must be a list, got 5",
    ),
    # pictures
    "a ledger of cd": (lambda: lrp.plot.ledger(lrp.explain(NUMBERS, X, "cd")), "ledger: pass an explanation of one"),
}


@pytest.mark.parametrize("case", CASES)
def test_message(case):
    call, message = CASES[case]
    with pytest.raises(lrp.LrpError, match=message) as caught:
        call()
    assert isinstance(caught.value, ValueError) and str(caught.value).endswith((".", "?"))


def test_unknown_words_map_to_the_unknown_token():
    embedding = lrp.Embedding(RNG.normal(size=(3, 3)), vocabulary=["a", "b", "?"], unknown="?")
    model = lrp.Model([LAYER, HEAD], embedding=embedding)
    assert (lrp.predict(model, "a x") == lrp.predict(model, "a ?")).all()
    assert lrp.explain(model, "a x").tokens == ("a", "x")


@pytest.mark.parametrize("name", ["sizes", "forward", "backward"])
def test_a_layer_of_ones_own_that_is_not_whole(name):
    """Its author is told what is missing."""

    class Half(lrp.Layer):
        pass

    with pytest.raises(TypeError, match=f"Half must define {name}; .* shows a complete layer"):
        getattr(Half(), name)(*[None] * {"sizes": 1, "forward": 2, "backward": 4}[name])


def test_nothing_to_explain_is_nothing():
    assert lrp.predict_all(NUMBERS, []).shape == (0, 2)
    assert list(lrp.explain_all(NUMBERS, [])) == []
