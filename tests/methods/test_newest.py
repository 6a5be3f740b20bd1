"""`newest`: the relevance of the newest steps of every prediction equals the last rows of the complete computation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrpnumpy as lrp

rng = np.random.default_rng(4)
T, D, H = 14, 2, 6
SERIES = rng.normal(size=(T, D))
METHODS = {
    "gradient": {},
    "gradient-x-input": {},
    "lrp-all": {},
    "lrp-prop": {"eps": 1.0},
    "lrp-abs": {"eps": 1.0},
    "lrp-half": {"eps": 1.0},
    "deeplift": {},
    "deeplift, reference by step": {"reference": rng.normal(size=(T, D))},
    "deeplift, two references": {"reference": [rng.normal(size=(T, D)), "zero"]},
    "integrated-gradients": {"nodes": 6},
    "integrated-gradients, reference by step": {"nodes": 6, "reference": rng.normal(size=(T + 2, D))},
    "occlusion-f": {"unit": "feature"},
    "occlusion-f, reference by step": {"unit": "feature", "reference": rng.normal(size=(T, D))},
    "occlusion-p": {},
    "cd": {},
}


def gru(inputs: int = D) -> lrp.GRU:
    return lrp.GRU(rng.normal(size=(3, H, inputs)), rng.normal(size=(3, H, H)) / 3, rng.normal(size=(3, H)))


def lstm(inputs: int = D) -> lrp.LSTM:
    return lrp.LSTM(rng.normal(size=(4, H, inputs)), rng.normal(size=(4, H, H)) / 3, rng.normal(size=(4, H)))


def head() -> list:
    return [lrp.layers.Activation("relu"), lrp.Dense(rng.normal(size=(3, H)), rng.normal(size=3))]


def in_two_parts() -> lrp.Model:
    """Every feature is an input."""
    nodes = [
        lrp.Node("x", lrp.layers.Concat(), ("a", "b")),
        lrp.Node("rnn", gru(), ("x",)),
        lrp.Node("y", lrp.Dense(rng.normal(size=(2, H))), ("rnn",)),
    ]
    return lrp.Model(nodes, inputs={"a": lrp.Input(1), "b": lrp.Input(1)})


NETWORKS = {
    "GRU": lrp.Model([gru(), *head()], readout="every"),
    "LSTM": lrp.Model([lstm(), *head()], readout="every"),
    "two layers": lrp.Model([gru(), lstm(H), *head()], readout="every"),
}


@pytest.mark.filterwarnings("ignore::lrpnumpy.RelevanceWarning")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("network", NETWORKS)
def test_equal_to_the_last_rows(network, method):
    model, name, options = NETWORKS[network], method.partition(",")[0], METHODS[method]
    complete = lrp.explain(model, SERIES, name, step="all", **options)
    for newest in (1, 3, T + 1):
        found = lrp.explain(model, SERIES, name, step="all", newest=newest, **options)
        assert len(found) == T
        for t, (e, part) in enumerate(zip(complete, found, strict=True)):
            rows = slice(max(0, t + 1 - newest), t + 1)
            size = abs(e.relevance[: t + 1]).max()
            assert part.target == e.target
            assert part.options["step"] == t
            assert_allclose(part.scores, e.scores, rtol=1e-12)
            assert_allclose(part.relevance, e.relevance[rows], rtol=1e-12, atol=1e-12 * size)
            if e.feature_relevance is not None:
                assert_allclose(part.feature_relevance, e.feature_relevance[rows], rtol=1e-12, atol=1e-12 * size)


@pytest.mark.parametrize("network", NETWORKS)
def test_ledgers_add_up(network):
    """What earlier steps received is one entry: the initial state of LRP, `cut` of DeepLIFT."""
    for e in lrp.explain(NETWORKS[network], SERIES, "lrp-all", step="all", newest=2):
        assert_allclose(e.ledger.total, e.score, rtol=1e-10)
    for e in lrp.explain(NETWORKS[network], SERIES, "deeplift", step="all", newest=2):
        explained = e.ledger.score - e.ledger.reference
        assert_allclose(e.ledger.inputs + e.ledger.cut, explained, rtol=1e-9, atol=1e-12)
        assert_allclose(e.relevance.sum(), e.ledger.inputs, rtol=1e-12)


def test_every_target_and_several_inputs():
    model = NETWORKS["LSTM"]
    complete = lrp.explain(model, SERIES, "lrp-all", "all", step="all")
    found = lrp.explain(model, SERIES, "lrp-all", "all", step="all", newest=1)
    for t, (e, part) in enumerate(zip(complete, found, strict=True)):
        assert_allclose(part.relevance, e.relevance[:, t : t + 1], rtol=1e-12, atol=1e-14)
    model, record = in_two_parts(), {"a": SERIES[:, :1], "b": SERIES[:, 1:]}
    found = lrp.explain(model, record, "cd", 0, step="all", newest=1)
    assert [len(e.inputs["b"].relevance) for e in found] == [1] * T
    for t in (0, 5, T - 1):
        e = lrp.explain(model, {name: one[: t + 1] for name, one in record.items()}, "cd", 0)
        for name in record:
            assert_allclose(found[t].inputs[name].relevance[-1], e.inputs[name].relevance[-1], rtol=1e-10)


def test_words_labels_and_float32():
    words = ["<unk>", "a", "b", "c"]
    embedding = lrp.Embedding(rng.normal(size=(4, D)), words, unknown="<unk>")
    model = lrp.Model([gru(), *head()], embedding=embedding, readout="every")
    found = lrp.explain(model, ["a", "b", "z", "c"], step="all", newest=2)
    assert [e.tokens for e in found] == [("a",), ("a", "b"), ("b", "z"), ("z", "c")]
    assert found.explained_steps.tolist() == [0, 1, 1, 1]
    dates = np.arange("2024-01-01", "2024-01-15", dtype="datetime64[D]")
    found = lrp.explain(NETWORKS["GRU"], lrp.Table(SERIES, dates), step="all", newest=1)
    assert [e.labels[0] for e in found] == dates.tolist()
    assert found.stacked().shape == (T, 1, D)
    small = lrp.Model([layer.astype(np.float32) for layer in (gru(), *head())], readout="every")
    for method in ("lrp-all", "deeplift", "lrp-half"):
        lrp.explain(small, SERIES, method, step="all", newest=1, versus=1, target=0)


def test_no_evidence_for_a_part():
    e = lrp.explain(NETWORKS["GRU"], SERIES, step="all", newest=1)[3]
    for call in (e.evidence, lambda: lrp.evidence(NETWORKS["GRU"], SERIES[3:4], e)):
        with pytest.raises(lrp.LrpError, match="this one has newest=1; test one without it"):
            call()


def test_errors():
    with pytest.raises(lrp.LrpError, match="must come with step='all'"):
        lrp.explain(NETWORKS["GRU"], SERIES, newest=1)
    with pytest.raises(lrp.LrpError, match="newest must be a whole number of at least 1, got 0"):
        lrp.explain(NETWORKS["GRU"], SERIES, step="all", newest=0)
    with pytest.raises(lrp.LrpError, match="with method 'shapley', which needs all steps"):
        lrp.explain(NETWORKS["GRU"], SERIES, "shapley", step="all", newest=1)
    both = lrp.Model([lrp.Bidirectional(gru(), gru()), lrp.Dense(rng.normal(size=(2, 2 * H)))], readout="every")
    with pytest.raises(lrp.LrpError, match=r"the layer .* \(Bidirectional\) reads other steps"):
        lrp.explain(both, SERIES, step="all", newest=1)
    conv = lrp.layers.Conv1D(rng.normal(size=(H, D, 3)), padding="causal")
    wide = lrp.Model([conv, gru(H), *head()], readout="every")
    with pytest.raises(lrp.LrpError, match=r"\(Conv1D\) reads other steps"):
        lrp.explain(wide, SERIES, step="all", newest=1)


@pytest.mark.parametrize("steps", [30, 300])
def test_cost_is_linear_in_the_steps(steps, monkeypatch):
    """The network runs the sequence once and each window once: two rows per step."""
    rows = []
    run = lrp.LSTM.run

    def counted(self, xs, keep, wanted):
        rows.append(xs[0].batch.R)
        return run(self, xs, keep, wanted)

    monkeypatch.setattr(lrp.LSTM, "run", counted)
    lrp.explain(NETWORKS["LSTM"], rng.normal(size=(steps, D)), "lrp-all", step="all", newest=1)
    assert sum(rows) == 2 * steps
