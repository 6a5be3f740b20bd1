"""Networks beyond one LSTM layer against networks.h5, whose numbers come from a separate program.

Each network is explained alone and in a ragged batch with shortened copies of its input.
"""

from pathlib import Path

import h5py
import numpy as np
import pytest
from laws import golden_references
from networks import close

import lrpnumpy as lrp

NETWORKS = Path(__file__).parents[1] / "support" / "networks.h5"
RULES = "all", "prop", "abs", "half"
pytestmark = pytest.mark.filterwarnings("ignore::lrpnumpy.RelevanceWarning")


def both(kind, parts):
    return lrp.Bidirectional(kind(**parts["forward"]), kind(**parts["backward"]))


LAYERS = {
    "gru_reset_after": lambda parts: [lrp.GRU(**parts["gru"])],
    "gru_reset_before": lambda parts: [lrp.GRU(**parts["gru"], reset_after=False)],
    "rnn_tanh": lambda parts: [lrp.RNN(**{name: array[0] for name, array in parts["rnn"].items()})],
    "rnn_relu": lambda parts: [lrp.RNN(**parts["rnn"], activation="relu")],  # with the axis of one gate
    "gru_bidirectional": lambda parts: [both(lrp.GRU, parts)],
    "gru_then_lstm": lambda parts: [lrp.GRU(**parts["gru"]), lrp.LSTM(**parts["lstm"])],
    "lstm_bidirectional_last_row": lambda parts: [both(lrp.LSTM, parts)],
}


def read(node):
    return {key: read(part) for key, part in node.items()} if isinstance(node, h5py.Group) else node[()]


@pytest.fixture(scope="module", params=LAYERS)
def case(request):
    """(model, x, what the file says about it)."""
    with h5py.File(NETWORKS) as file:
        golden = read(file[request.param])
    parts = golden["parameters"]
    readout = "last-row" if request.param.endswith("last_row") else "last"
    model = lrp.Model([*LAYERS[request.param](parts), lrp.Dense(**parts["head"])], readout=readout)
    return model, golden["input0"], golden


@pytest.fixture(scope="module", params=["alone", "among others"])
def explained(request):
    """A function like `lrp.explain`, which explains x alone, or in a batch with shorter and longer sequences."""
    if request.param == "alone":
        return lrp.explain

    def among_others(model, x, *args, spans=None, **options):
        xs = [x[1:], np.concatenate([x, x]), x, x[:2], x[:-1]]
        phrases = None if spans is None else [[(0, 1)], [(0, 1)], spans, [(0, 2)], [(1, 2)]]
        return lrp.explain_all(model, xs, *args, spans=phrases, **options)[2]

    return among_others


def targets(golden):
    return [(int(key[6:]), part) for key, part in golden.items() if key.startswith("target")]


def test_scores_and_gradients(case, explained):
    model, x, golden = case
    close(lrp.predict(model, x), golden["scores"])
    close(lrp.predict_all(model, [x[:1], x, x[1:]])[1], golden["scores"])
    for c, part in targets(golden):
        slope = part["gradient"]["input0"]
        found = explained(model, x, "gradient-x-input", c)
        close(found.scores, golden["scores"])
        close(found.feature_relevance, slope * x)
        close(explained(model, x, "gradient", c).feature_relevance, slope**2)


@pytest.mark.parametrize("rule", RULES)
def test_lrp(case, explained, rule):
    model, x, golden = case
    for c, part in targets(golden):
        for eps in ("0", "0.001", "0.2"):
            expected = part[f"lrp_{rule}"][f"eps{eps}"]
            *entries, largest = expected["ledger"]
            found = explained(model, x, f"lrp-{rule}", c, eps=float(eps))
            ledger = found.ledger
            close(found.feature_relevance, expected["input0"], 1e-10, largest)
            close([ledger.inputs, sum(ledger.biases), ledger.stabilizer], entries, 1e-10, largest)
            assert ledger.initial_state == 0
            # The file's largest is that of single messages, ours that of what messages add up to at each neuron.
            assert largest / 10 <= ledger.largest <= largest * 10


def test_references(case, explained):
    model, x, golden = case
    for c, part in targets(golden):
        for key, method, options in golden_references(part, [model.main], ["input0"]):
            if explained is not lrp.explain and "reference" in options:  # for the longest of the batch
                longer = [{"x": np.concatenate([r["x"], r["x"]])} for r in options["reference"]]
                options = {**options, "reference": longer}
            close(explained(model, x, method, c, **options).feature_relevance, part[key]["input0"], 1e-10)


def test_occlusion(case, explained):
    model, x, golden = case
    for c, part in targets(golden):
        close(explained(model, x, "occlusion-f", c).relevance, part["occlusion_f"], 1e-10)


def test_decomposition(case, explained):
    model, x, golden = case
    if "cd_spans" not in golden:
        pytest.skip("the file has a decomposition of the two GRUs only")
    spans = [tuple(span) for span in golden["cd_spans"].tolist()]
    unit = np.abs(golden["cd_relevant"]).max()
    for c in range(model.outputs):
        ledger = explained(model, x, "cd", c, spans=spans).ledger
        close(ledger.relevant, golden["cd_relevant"][:, c], 1e-10, unit)
        close(ledger.irrelevant, golden["cd_irrelevant"][:, c], 1e-10, unit)
        close(ledger.bias, np.full(len(spans), golden["parameters"]["head"]["d"][c]), 1e-10, unit)


def test_the_last_row_of_two_directions_is_not_their_last_states():
    """At the last step the backward direction has read one step: the scores differ from those of readout "last"."""
    with h5py.File(NETWORKS) as file:
        golden = read(file["lstm_bidirectional_last_row"])
    layers = [both(lrp.LSTM, golden["parameters"]), lrp.Dense(**golden["parameters"]["head"])]
    other = lrp.predict(lrp.Model(layers, readout="last"), golden["input0"])
    assert np.abs(other - golden["scores"]).max() > 1e-3
    row = lrp.predict(lrp.Model(layers, readout="every"), golden["input0"])[-1]
    close(row, golden["scores"])
