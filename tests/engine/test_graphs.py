"""Networks with several inputs, and encoder-decoders: every method, batches, files, corpora, what users see."""

import networks as nets
import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp
from lrpnumpy.kernels import compile as kernels

pytestmark = pytest.mark.filterwarnings("ignore::lrpnumpy.RelevanceWarning")
LRP = ["lrp-all", "lrp-prop", "lrp-abs", "lrp-half"]


def encoder_decoder(rng, cell="lstm", dtype="float64"):
    """Two series of different lengths: the encoder's last states start the decoder, which predicts at every step."""
    make = {"lstm": nets.lstm, "gru": nets.gru}[cell]
    states = ("encoder:last", "encoder:cell") if cell == "lstm" else ("encoder:last",)
    nodes = [
        lrp.Node("encoder", make(rng, 3, 4), ("source",)),
        lrp.Node("decoder", make(rng, 2, 4), ("given", *states)),
        lrp.Node("head", nets.dense(rng, 4, 3), ("decoder",)),
    ]
    inputs = {"source": lrp.Input(3, features=["a", "b", "c"]), "given": lrp.Input(2)}
    return lrp.Model(nodes, inputs=inputs).astype(dtype)


def record(rng, source=5, given=4):
    return {"source": rng.normal(size=(source, 3)), "given": rng.normal(size=(given, 2))}


@pytest.fixture(params=["lstm", "gru"])
def model(request, rng):
    return encoder_decoder(rng, request.param)


def score(model, x, step=2, target=1):
    return lrp.predict(model, x)[step, target]


def changed(x, name, value, *where):
    """The record with some numbers of one input set to a value."""
    out = {key: part.copy() for key, part in x.items()}
    out[name][where] = value
    return out


def test_gradients_are_central_differences(model, rng):
    x, h = record(rng), 1e-6
    found = lrp.explain(model, x, "gradient-x-input", 1, step=2)
    for name, part in x.items():
        numeric = np.zeros_like(part)
        for at in np.ndindex(part.shape):
            ends = [score(model, changed(x, name, part[at] + sign * h, *at)) for sign in (1, -1)]
            numeric[at] = (ends[0] - ends[1]) / (2 * h)
        close(found.inputs[name].feature_relevance, numeric * part, 1e-7, 1)


@pytest.mark.parametrize("method", LRP)
@pytest.mark.parametrize("eps", [0.0, 0.001, 0.2])
def test_the_ledger_adds_up(model, rng, method, eps):
    found = lrp.explain(model, record(rng), method, 1, step=2, eps=eps)
    close(found.ledger.total, found.scores[1], 1e-10, max(1.0, found.ledger.largest))
    reached = sum(part.relevance.sum() for part in found.inputs.values())
    close(found.ledger.inputs, reached, 1e-10, max(1.0, found.ledger.largest))


def test_occlusion_is_a_plain_forward_pass(model, rng):
    x = record(rng)
    found = lrp.explain(model, x, "occlusion-f", 1, step=2, unit="feature", spans=[(1, 3)])
    whole = score(model, x)
    for name, part in x.items():
        for t, d in np.ndindex(part.shape):
            close(found.inputs[name].relevance[t], whole - score(model, changed(x, name, 0, t)), 1e-12, 1)
            close(found.inputs[name].feature_relevance[t, d], whole - score(model, changed(x, name, 0, t, d)), 1e-12, 1)
    close(found.spans[0].relevance, whole - score(model, changed(x, "source", 0, slice(1, 3))), 1e-12, 1)
    found = lrp.explain(model, x, "occlusion-f", 1, step=2, reference="omit")
    shorter = {**x, "source": np.delete(x["source"], 1, axis=0)}
    close(found.relevance[1], whole - score(model, shorter), 1e-12, 1)


def test_decomposition_adds_up(model, rng):
    x = record(rng)
    found = lrp.explain(model, x, "cd", 1, step=2, spans=[(0, 2), (0, 5)])
    close(found.ledger.total, np.full(2, found.scores[1]), 1e-12, 1)
    assert abs(found.inputs["given"].relevance[:3]).min() > 0 and found.inputs["given"].relevance[3] == 0


@pytest.mark.parametrize("method", ["gradient-x-input", "lrp-abs", "occlusion-f", "cd"])
def test_a_batch_gives_what_single_calls_give(model, rng, method):
    """Lengths that no order sorts in both inputs."""
    records = [record(rng, source, given) for source, given in ((5, 4), (3, 6), (5, 3), (2, 4), (3, 3), (5, 4))]
    many = lrp.explain_all(model, records, method, 1, step=2)
    for x, found in zip(records, many, strict=True):
        alone = lrp.explain(model, x, method, 1, step=2)
        for name in x:
            close(found.inputs[name].relevance, alone.inputs[name].relevance, 1e-10, 1)
    stacked = {"source": np.stack([records[0]["source"]] * 2), "given": np.stack([records[0]["given"]] * 2)}
    for found in lrp.explain_all(model, stacked, method, 1, step=2):
        close(found.relevance, many[0].relevance, 1e-10, 1)


@pytest.mark.parametrize("target", [1, "all"])
def test_files_json_frames_and_corpora(model, rng, tmp_path, target):
    lrp.save(model, tmp_path / "model.h5")
    loaded = lrp.load(tmp_path / "model.h5")
    assert loaded.digest == model.digest and lrp.load(tmp_path / "model.h5", isolate=True).digest == model.digest
    assert "source    3 features per step: a, b, c" in str(lrp.inspect(tmp_path / "model.h5"))
    records = [record(rng), record(rng, 3, 4)]
    stored = lrp.explain_corpus(
        model, records, "lrp-all", target, out=tmp_path / "out", step=2, unit="feature", progress=False
    )
    for x, kept in zip(records, stored, strict=True):
        found = lrp.explain(loaded, x, "lrp-all", target, step=2)
        back = lrp.Explanation.from_json(found.to_json())
        for other in (kept, back):
            for name, part in found.inputs.items():
                close(other.inputs[name].relevance, part.relevance, 1e-12, 1)
                close(other.inputs[name].feature_relevance, part.feature_relevance, 1e-12, 1)
                assert other.inputs[name].features == part.features
    one = found if target != "all" else found.for_class(1)
    assert "input 'given'" in str(one) and "given" in one._repr_html_()
    frame = one.to_frame()
    assert list(frame["input"]) == ["source"] * 3 + ["given"] * 4 and np.isclose(
        frame["relevance"].sum(), one.ledger.inputs
    )


def test_a_static_input_shows_its_features(rng):
    nodes = [
        lrp.Node("lstm", nets.lstm(rng, 2, 3), ("weather",)),
        lrp.Node("both", lrp.layers.Concat(), ("lstm:last", "basin")),
        lrp.Node("head", nets.dense(rng, 5, 1), ("both",)),
    ]
    inputs = {"weather": lrp.Input(2), "basin": lrp.Input(2, steps=False, features=["area", "slope"])}
    model = lrp.Model(nodes, inputs=inputs)
    x = {"weather": rng.normal(size=(4, 2)), "basin": np.array([1.0, 2.0])}
    for method in ("gradient-x-input", "lrp-all", "occlusion-f", "cd"):
        found = lrp.explain(model, x, method)
        assert found.inputs["basin"].relevance.shape == (1,)
        whole = lrp.predict(model, x)[0]
        if method != "lrp-all":  # the head is linear in the basin
            without = lrp.predict(model, {**x, "basin": np.zeros(2)})[0]
            close(found.inputs["basin"].relevance[0], whole - without, 1e-10, 1)
    shown = lrp.explain(model, x, "lrp-all").of_input("basin")
    assert shown.tokens == ("area", "slope") and "slope" in str(lrp.explain(model, x, "lrp-all"))


ERRORS = {
    "an input that is missing": (
        {"source": np.ones((2, 3))},
        r"x must have the inputs 'source', 'given', got 'source'",
    ),
    "no dict": (np.ones((2, 3)), r"x must be a dict with the inputs 'source', 'given', got ndarray"),
    "a wrong width": (
        {"source": np.ones((2, 3)), "given": np.ones((2, 3))},
        r"x, input 'given' must have shape \(T, 2\), got \(2, 3\); is it x.T\?",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_the_input(rng, case):
    value, message = ERRORS[case]
    with pytest.raises(lrp.LrpError, match=message):
        lrp.explain(encoder_decoder(rng), value, step=0)


WRONG = {  # inputs of `three_inputs`, and what is said of them
    "a name": (
        {"bassin": np.zeros(2)},
        "must have the inputs 'weather', 'notes', 'basin', got .*; is it 'basin' for 'b",
    ),
    "NaN": ({"weather": np.full((2, 3), np.nan)}, r", input 'weather' must be finite, got nan at index \[0, 0\]"),
    "too long": ({"basin": np.zeros(3)}, r", input 'basin' must be one vector of 2 numbers, got shape \(3,\)"),
    "two vectors": (
        {"basin": np.zeros((2, 2))},
        r", input 'basin' must be one vector of 2 numbers, got shape \(2, 2\)",
    ),
    "words": (
        {"basin": "dry"},
        ", input 'basin' must be one vector of 2 numbers, as the model has no vocabulary",
    ),
    "ids": ({"notes": [1, 9]}, ", input 'notes': token ids must lie from 0 to 5, got 9"),
    "ragged": ({"basin": [[1, 2], [1]]}, ", input 'basin' must be .* got a ragged list"),
    "no words": ({"notes": ""}, ", input 'notes' must have at least one word"),
}


@pytest.mark.parametrize("case", WRONG)
def test_every_call_names_the_input(rng, tmp_path, case):
    """In explain, predict, batches, windows, and in a corpus."""
    model, good = nets.three_inputs(rng), nets.three_values(rng)
    change, words = WRONG[case]
    bad = {**good, **change}
    if case == "a name":
        del bad["basin"]
    for place, call in {
        "x": lambda: lrp.explain(model, bad),
        "x ": lambda: lrp.predict(model, bad),
        "sequence 1": lambda: lrp.explain_all(model, [good, bad]),
        "sequence 1 ": lambda: lrp.predict_all(model, [good, bad]),
        "series": lambda: lrp.explain_windows(model, bad, length=2),
        "record 2 .*a record": lambda: lrp.explain_corpus(
            model, lrp.Corpus([good, bad], strict=True), out=tmp_path / "a"
        ),
    }.items():
        with pytest.raises(lrp.LrpError, match=f"^{place.strip()} ?{words}"):
            call()


def test_steps_that_do_not_fit_say_whose_they_are(rng):
    nodes = [
        lrp.Node("lstm", nets.lstm(rng, 2, 3), ("x",)),
        lrp.Node("sum", lrp.layers.Add(), ("lstm", "y")),
        lrp.Node("head", nets.dense(rng, 3, 2), ("sum",)),
    ]
    model = lrp.Model(nodes, inputs={"x": lrp.Input(2), "y": lrp.Input(3)})
    good, bad = ({"x": np.ones((4, 2)), "y": np.ones((T, 3))} for T in (4, 3))
    words = "layer 'sum', of 'lstm', 'y': Add: inputs must have the same number of steps, got 4 and 3"
    for method in ("lrp-all", "cd", "deeplift", "shapley"):
        with pytest.raises(lrp.LrpError, match=f"^sequence 1, {words}"):
            lrp.explain_all(model, [good, bad, good, bad], method)
    with pytest.raises(lrp.LrpError, match=f"^sequence 2, {words}"):
        lrp.predict_all(model, [good, good, bad])
    with pytest.raises(lrp.LrpError, match=f"^{words}"):
        lrp.explain(model, bad)


def test_columns_that_are_no_records(rng):
    model, good = nets.three_inputs(rng), nets.three_values(rng)
    columns = {name: [value, value, value] for name, value in good.items()}
    for change, words in (
        ({"notes": "dry"}, "^input 'notes' must have a list or array with one entry per record, got 'dry'"),
        ({"basin": 3.0}, "^input 'basin' must have a list or array"),
        ({"basin": np.zeros((2, 2))}, "as many records of each input, got {'weather': 3, 'notes': 3, 'basin': 2}"),
    ):
        with pytest.raises(lrp.LrpError, match=words):
            lrp.explain_all(model, {**columns, **change})
    with pytest.raises(lrp.LrpError, match="sequences must be a list of sequences, got generator"):
        lrp.explain_all(model, (good for _ in range(2)))


@pytest.mark.parametrize("method", [method.name for method in lrp.methods()])
def test_words_beside_numbers(rng, method):
    """Words are their vectors; a dict of lists is a list of dicts; a batch of several lengths is its single calls."""
    model = nets.three_inputs(rng, output="softmax")
    E = model.inputs["notes"].embedding.E
    some = [
        nets.three_values(rng, T, words) for T, words in ((5, "the dry river"), (1, "wet"), (3, "lake the dry wet"))
    ]
    rows = {"the": 5, "dry": 3, "river": 1, "wet": 4, "lake": 2}
    options = {"players": 2} if method == "shapley" else {}
    many = lrp.explain_all(model, some, method, "mid", **options)
    columns = lrp.explain_all(model, {name: [x[name] for x in some] for name in some[0]}, method, "mid", **options)
    for x, one, same in zip(some, many, columns, strict=True):
        vectors = {**x, "notes": E[[rows[word] for word in x["notes"].split()]]}
        for other in (same, *(lrp.explain(model, v, method, "mid", **options) for v in (x, vectors))):
            for name, part in one.inputs.items():
                close(other.inputs[name].relevance, part.relevance, 1e-9, 1)
        if one.ledger is not None:
            close(one.ledger.total, np.full(np.shape(one.ledger.total), one.scores[1]), 1e-9, 1 + abs(one.scores[1]))


def test_errors_of_graphs(rng):
    lstm, head = nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)
    wrong = {
        r"takes? values made before it, got 'nothing'": [lrp.Node("a", lstm, ("nothing",))],
        r"unique name .*got 'a'": [lrp.Node("a", lstm, ("x",)), lrp.Node("a", head, ("a",))],
        r"without ':' and '/', got 'a:b'": [lrp.Node("a:b", lstm, ("x",))],
        r"h of layer b \(LSTM\) must have one vector of 4 numbers per sequence, got 4 at every step from the layer a": [
            lrp.Node("a", lstm, ("x",)),
            lrp.Node("b", lstm, ("x", "a", "a:cell")),
        ],
    }
    for message, nodes in wrong.items():
        with pytest.raises(lrp.LrpError, match=message):
            lrp.Model(nodes)
    with pytest.raises(lrp.LrpError, match="result must be the name of a node, got 'b'; there are 'a'"):
        lrp.Model([lrp.Node("a", lstm, ("x",))], result="b")


def test_one_of_several_outputs_is_chosen(rng, tmp_path):
    lstm, one, two = nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2), nets.dense(rng, 4, 3)
    nodes = [lrp.Node("lstm", lstm, ("x",)), lrp.Node("one", one, ("lstm:last",)), lrp.Node("two", two, ("lstm:last",))]
    x = rng.normal(size=(5, 3))
    for name, head in (("one", one), ("two", two)):
        model, plain = lrp.Model(nodes, result=name), lrp.Model([lstm, head])
        lrp.save(model, tmp_path / name)
        assert ("from one" in str(lrp.inspect(tmp_path / name))) == (name == "one")
        close(lrp.predict(model, x), lrp.predict(plain, x))
        for method in ("gradient", "lrp-abs", "occlusion-f", "cd", "deeplift", "shapley"):
            close(lrp.explain(model, x, method, 1).relevance, lrp.explain(plain, x, method, 1).relevance)
    with pytest.raises(lrp.LrpError, match=r"step must be None .*, got step=1"):
        lrp.explain(model, x, step=1)


@pytest.mark.compiled
def test_start_states_receive_the_same_relevance_from_kernels_as_from_numpy(rng):
    """Kernels hand back one array of start states, NumPy a list: both are inputs of the layer."""
    model = encoder_decoder(rng)
    x = record(rng)
    found = []
    for path in ("numpy", "compiled"):
        with kernels.on(path):
            found.append(lrp.explain(model, x, "lrp-all", 0, step=2).relevance)
    close(*found)


@pytest.mark.parametrize("word", ["badge", "abc", "hgfedcb"])
def test_the_shipped_encoder_decoder_finds_its_letters(word):
    """It spells backwards, and the letter that it gives has got the most relevance."""
    model = lrp.load("reverse")
    given = ["<start>", *reversed(word)][:-1]
    scores = lrp.predict(model, {"word": list(word), "given": given})
    assert "".join(model.classes[k] for k in scores.argmax(axis=1)) == word[::-1]
    for step, letter in enumerate(reversed(word)):
        found = lrp.explain(model, {"word": list(word), "given": given}, "lrp-all", letter, step=step)
        assert found.top(1)[0].position == len(word) - 1 - step
