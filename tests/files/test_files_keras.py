"""What a Keras configuration means: what is understood, and that everything else is refused by name."""

import copy
import io
import json
import math
import zipfile
from pathlib import Path

import h5py
import keras_table
import networks as nets
import numpy as np
import pytest
from interop import kerasgraph
from networks import close

import lrpnumpy as lrp
from lrpnumpy import files

FIXTURES = Path(__file__).parents[1] / "fixtures"
BASE = {"return_sequences": False, "activation": "tanh", "recurrent_activation": "sigmoid", "use_bias": True}


def layer(kind, **config):
    return {"class_name": kind, "config": {"name": config.pop("name", kind.lower()), **config}}


def lstm(units=2, kind="LSTM", **config):
    return layer(kind, units=units, **{**BASE, **config})


def dense(units=2, **config):
    return layer("Dense", units=units, **{"activation": "linear", "use_bias": True, **config})


def start(*shape):
    return layer("InputLayer", batch_input_shape=[None, *shape])


def written(path, layers, version="2.9.0", functional=None, text="S", **hdf5):
    """A Keras 2 file of these layers, with random arrays of the shapes that their settings ask for."""
    rng = np.random.default_rng(0)
    config = {"class_name": "Sequential", "config": {"name": "sequential", "layers": layers}}
    config = functional or config
    size, arrays = None, {}
    for k, item in enumerate(layers):
        settings, shapes = item["config"], []
        settings["name"] = f"layer_{k}"
        if item["class_name"] == "InputLayer":
            size = settings["batch_input_shape"][-1]
        inner = settings["layer"] if item["class_name"] in ("Bidirectional", "TimeDistributed") else item
        kind, inside = inner["class_name"], inner["config"]
        if kind == "Embedding":
            shapes, size = [(inside["input_dim"], inside["output_dim"])], inside["output_dim"]
        elif kind in ("LSTM", "CuDNNLSTM"):
            u = inside["units"]
            bias = [(8 * u if kind == "CuDNNLSTM" else 4 * u,)] if inside.get("use_bias", True) else []
            twice = 2 if item["class_name"] == "Bidirectional" else 1
            shapes = [(size, 4 * u), (u, 4 * u), *bias] * twice
            size = u * (2 if settings.get("merge_mode") == "concat" else 1)
        elif kind == "Dense":
            shapes = [(size, inside["units"]), *([(inside["units"],)] if inside["use_bias"] else [])]
            size = inside["units"]
        elif kind == "PReLU":  # without shared_axes
            shapes = [(6, size)]
        arrays[settings["name"]] = [rng.normal(size=shape).astype("f4") for shape in shapes]
    with h5py.File(path, "w", **hdf5) as file:
        file.attrs["model_config"] = json.dumps(config)
        if version is not None:
            file.attrs["keras_version"] = version
        weights = file.create_group("model_weights")
        weights.attrs["layer_names"] = np.array(list(arrays), text)
        for name, group in arrays.items():
            inside = [f"{name}/w:{k}" for k in range(len(group))]
            weights.create_group(name).attrs["weight_names"] = np.array(inside, text)
            for k, array in enumerate(group):
                weights[name][f"{name}/w:{k}"] = array
    return path


def opened(tmp_path, *layers, **options):
    return files.load(written(tmp_path / "model.h5", copy.deepcopy(list(layers)), **options))


def refused(tmp_path, *layers, **options):
    with pytest.raises(lrp.WeightFileError) as caught:
        opened(tmp_path, *layers, **options)
    return str(caught.value)


def test_the_table_of_layers_is_true():
    page = keras_table.PAGE.read_text(encoding="utf-8")
    assert page == keras_table.written(page), "write it anew: python -m tests.support.keras_table"


# ------------------------------------------------------------------------------------------------------------- refused

NUMBERS = start(None, 3)
UNKNOWN = [
    "GroupQueryAttention", "Lambda", "ConvLSTM1D", "Hashing", "Conv1DTranspose", "ThresholdedReLU",
    "MyOwnLayer", "Custom>LSTM",
]  # fmt: skip


@pytest.mark.parametrize("kind", UNKNOWN)
def test_layers_that_we_do_not_have(tmp_path, kind):
    message = refused(tmp_path, NUMBERS, layer(kind, units=3, filters=3), lstm(), dense())
    assert repr(kind) in message and "not supported" in message
    assert message.partition("close to it: ")[2].count(",") < 3
    assert f"custom={{{kind.removeprefix('Custom>')!r}: f}}" in message


def test_pictures_are_refused_without_a_way_that_leads_nowhere(tmp_path):
    message = refused(tmp_path, NUMBERS, layer("ConvLSTM2D", filters=3), lstm(), dense())
    assert "has layers of pictures, which are not supported: 'layer_1' of the class 'ConvLSTM2D'" in message
    assert "custom=" not in message


def test_one_error_names_all_layers_that_we_do_not_have(tmp_path):
    inner = {"class_name": "Sequential", "config": {"name": "inner", "layers": [layer("Hashing", name="swap")]}}
    message = refused(tmp_path, NUMBERS, layer("Lambda", name="f"), lstm(), layer("MyOwnLayer", name="g"), inner)
    for text in ("'Lambda'", "'MyOwnLayer'", "'swap' of the class 'Hashing'", "never run"):
        assert text in message


@pytest.mark.parametrize(
    "layers, reason",
    [
        ([lstm(time_major=True)], "time_major"),
        ([lstm(activation="glu")], "activation is glu, which is not supported; supported and close to it: "),
        ([lstm(activation="softmax")], "activation is softmax"),
        ([lstm(activation="leaky_relu")], "activation is leaky_relu with settings"),
        ([lstm(recurrent_activation="cos")], "recurrent_activation is cos"),
        ([lstm(activation={"class_name": "Custom"})], "a custom function"),
        ([lstm(), lstm()], "needs a vector for each step"),
        ([lstm(return_sequences=True), layer("Flatten")], "Flatten"),
        ([lstm(), layer("GlobalMaxPooling1D")], "needs a vector for each step"),
        ([lstm(return_sequences=True), layer("GlobalMaxPooling1D", data_format="channels_first")], "channels_last"),
        ([lstm(), dense(activation="cos")], "activation is cos"),
        ([lstm(), dense(), layer("ReLU", threshold=6.0)], "threshold"),
        ([lstm(), dense(), layer("Softmax", axis=3)], "axis -1"),
        ([layer("TimeDistributed", layer=layer("LSTM", units=3))], "it holds 'LSTM'"),
        ([lstm(), layer("TimeDistributed", layer=dense())], "needs a vector for each step"),
        ([layer("Bidirectional", layer=lstm(), merge_mode="max")], "merge_mode must be one of concat, sum, ave, mul"),
        ([layer("Bidirectional", layer=layer("Mine", units=2), merge_mode="sum")], "it holds Mine"),
        ([layer("Bidirectional", layer=lstm(go_backwards=True), merge_mode="sum")], "forwards with one layer"),
        ([lstm(), layer("Masking", mask_value=0.0)], "over an input of numbers"),
        ([dense()], "at least one recurrent layer"),
        ([], "at least one recurrent layer"),
        ([lstm(), dense(1, activation="softmax")], "softmax"),
        ([lstm(units=-1)], ""),
        ([lstm(units="2")], "units must be a whole number"),
        ([lstm(units=True)], "units must be a whole number"),
        ([{**dense(), "config": {**dense()["config"], "quantization_config": {"mode": "int8"}}}], "quantised"),
    ],
)
def test_settings_that_we_do_not_have(tmp_path, layers, reason):
    path = tmp_path / "model.h5"
    try:
        written(path, copy.deepcopy([NUMBERS, *layers]))
    except (TypeError, ValueError):  # no arrays can be made for it: any will do
        written(path, copy.deepcopy([NUMBERS, lstm()]))
        with h5py.File(path, "r+") as file:
            file.attrs["model_config"] = json.dumps(
                {"class_name": "Sequential", "config": {"layers": [NUMBERS, *layers]}}
            )
    with pytest.raises(lrp.WeightFileError) as caught:
        files.load(path)
    assert reason in str(caught.value) and str(path) in str(caught.value)


MASKED = [layer("Masking", mask_value=0.0)]
WORDS = [layer("Embedding", input_dim=5, output_dim=3, mask_zero=True)]


@pytest.mark.parametrize("first", [[NUMBERS, *MASKED], [start(None), *WORDS]], ids=["numbers", "words"])
def test_padding_that_some_layers_skip_and_others_see(tmp_path, first):
    """Keras takes a maximum over padding too; what is exact for sequences without padding is said by a warning."""
    with pytest.warns(lrp.AssumptionWarning, match=r"layer_3 computes with it.* for sequences without padding"):
        model = opened(tmp_path, *first, lstm(return_sequences=True), layer("GlobalMaxPooling1D"), dense())
    assert nets.readout(model) == "max"


@pytest.mark.parametrize("first", [[NUMBERS, *MASKED], [start(None), *WORDS]], ids=["numbers", "words"])
def test_padding_that_no_layer_skips_is_no_padding(tmp_path, first):
    pool = layer("MaxPooling1D", pool_size=[2], padding="same")
    model = opened(tmp_path, *first, pool, lstm(), dense())
    (port,) = model.inputs.values()
    assert port.mask_value is None and getattr(port.embedding, "mask", None) is None


def test_masking_over_an_embedding(tmp_path):
    """Its padding is the token whose vector is the masked value."""
    words = layer("Embedding", input_dim=5, output_dim=3)
    path = written(tmp_path / "model.h5", copy.deepcopy([start(None), words, *MASKED, lstm(), dense()]))
    assert files.load(path).embedding.mask is None
    with h5py.File(path, "r+") as file:
        file["model_weights/layer_1/layer_1/w:0"][3] = 0
    assert files.load(path).embedding.mask == 3
    with h5py.File(path, "r+") as file:
        file["model_weights/layer_1/layer_1/w:0"][1] = 0
    with pytest.raises(lrp.WeightFileError, match="finds 2 tokens"):
        files.load(path)


def test_masking_over_states_is_left_out_and_said(tmp_path):
    with pytest.warns(lrp.AssumptionWarning, match=r"\(Masking\) is left out"):
        opened(tmp_path, NUMBERS, lstm(return_sequences=True), *MASKED, lstm(), dense())


def test_hard_sigmoid_of_an_unknown_keras(tmp_path):
    message = refused(tmp_path, NUMBERS, lstm(recurrent_activation="hard_sigmoid"), dense(), version=None)
    assert "hard_sigmoid" in message and "keras_version" in message


@pytest.mark.parametrize("wrong", ["units", "missing", "more"])
def test_arrays_that_do_not_fit_the_configuration(tmp_path, wrong):
    path = written(tmp_path / "model.h5", [copy.deepcopy(NUMBERS), lstm(), dense()])
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        if wrong == "units":
            config["config"]["layers"][1]["config"]["units"] = 7
        elif wrong == "missing":
            del file["model_weights/layer_1/layer_1/w:1"]
        else:
            config["config"]["layers"].append(dense())
        file.attrs["model_config"] = json.dumps(config)
    reason = {"units": "must have shape (3, 28)", "missing": "layer_1/w:1: is missing", "more": "arrays for 2 layers"}
    with pytest.raises(lrp.WeightFileError) as caught:
        files.load(path)
    assert reason[wrong] in str(caught.value)


# ---------------------------------------------------------------------------------------------------------- understood


@pytest.mark.parametrize(
    "version, meaning",
    [("1.2.2", "hard_sigmoid"), ("2.15.0", "hard_sigmoid"), ("3.0.0", "hard_sigmoid_3"), ("2.4.0-tf", "hard_sigmoid")],
)
def test_hard_sigmoid_goes_by_the_version(tmp_path, version, meaning):
    hard = lstm(recurrent_activation="hard_sigmoid")
    model = opened(tmp_path, NUMBERS, hard, dense(), version=version)
    assert model.layers[0].recurrent_activation == meaning


@pytest.mark.parametrize(
    "last, output",
    [
        ([dense(3, activation="softmax")], "softmax"),
        ([dense(3), layer("Activation", activation="softmax")], "softmax"),
        ([dense(3), layer("Softmax", axis=-1)], "softmax"),
        ([dense(1, activation="sigmoid")], "sigmoid"),
        ([dense(3, activation="sigmoid"), layer("Dropout", rate=0.5)], "sigmoid"),
        ([dense(3)], "linear"),
        ([dense(3, activation="relu")], "linear"),
        ([], "linear"),
    ],
)
def test_a_probability_at_the_end_is_taken_off(tmp_path, last, output):
    path = written(tmp_path / "model.h5", copy.deepcopy([NUMBERS, lstm(), *last]))
    report = files.inspect(path)
    assert report.model.output == output
    assert ("taken off" in str(report)) == (output != "linear")


def test_stateful_starts_from_zero_and_says_so(tmp_path):
    path = written(tmp_path / "model.h5", copy.deepcopy([NUMBERS, lstm(stateful=True), dense()]))
    assert "zero state" in str(files.inspect(path))


def test_no_ops_are_left_out_and_named(tmp_path):
    idle = [layer(k, rate=0.1) for k in ("Dropout", "SpatialDropout1D", "GaussianDropout", "AlphaDropout", "Identity")]
    path = written(tmp_path / "model.h5", copy.deepcopy([NUMBERS, *idle, lstm(), layer("Flatten"), dense()]))
    report = files.inspect(path)
    assert len(report.model.layers) == 2
    assert all(item["class_name"] in str(report) for item in idle)


def test_long_lists_of_names_are_cut_into_pieces(tmp_path):
    path = written(tmp_path / "model.h5", copy.deepcopy([NUMBERS, lstm(), dense()]))
    whole = files.load(path)
    with h5py.File(path, "r+") as file:
        for holder, name in ((file["model_weights"], "layer_names"), (file["model_weights/layer_1"], "weight_names")):
            names = holder.attrs[name]
            del holder.attrs[name]
            for k, one in enumerate(np.array_split(names, 2)):
                holder.attrs[f"{name}{k}"] = one
    assert files.load(path).digest == whole.digest


@pytest.mark.parametrize("hdf5", [{}, {"libver": "latest"}, {"userblock_size": 1024}, {"track_order": True}])
@pytest.mark.parametrize("text", ["S", h5py.string_dtype()])
def test_names_in_files_of_any_layout(tmp_path, hdf5, text):
    layers = [NUMBERS, lstm(), dense()]
    plain = opened(tmp_path, *layers)
    assert opened(tmp_path, *layers, text=text, **hdf5).digest == plain.digest


@pytest.mark.parametrize("kind", ["bytes", "str"])
def test_names_are_bytes_or_strings(tmp_path, kind):
    path = written(tmp_path / "model.h5", copy.deepcopy([NUMBERS, lstm(), dense()]))
    whole = files.load(path)
    with h5py.File(path, "r+") as file:
        for holder in (file, file["model_weights"], *file["model_weights"].values()):
            for name, value in dict(holder.attrs).items():
                if isinstance(value, np.ndarray) and value.size:
                    texts = [text.decode() if isinstance(text, bytes) else text for text in value]
                    dtype = h5py.string_dtype() if kind == "str" else None
                    holder.attrs[name] = np.array(texts, dtype=dtype) if kind == "str" else np.array(texts, "S")
                elif isinstance(value, str):
                    holder.attrs[name] = value if kind == "str" else np.bytes_(value)
    assert files.load(path).digest == whole.digest


@pytest.mark.parametrize("form", ["json", "text", "path", "get_config", "list"])
def test_weights_alone_with_a_configuration_in_any_form(tmp_path, form):
    path = FIXTURES / "tf_keras" / "maximum_weights.h5"
    beside = FIXTURES / "tf_keras" / "maximum.json"
    parsed = json.loads(beside.read_text())
    config = {
        "json": parsed,
        "text": beside.read_text(),
        "path": str(beside),
        "get_config": parsed["config"],
        "list": parsed["config"]["layers"],
    }[form]
    assert files.load(path, config=config).digest == files.load(path, config=parsed).digest
    with pytest.raises(lrp.WeightFileError, match=r"without their configuration.*config"):
        files.load(FIXTURES / "tf_keras" / "maximum_weights.h5")
    with pytest.raises(lrp.WeightFileError, match="config"):
        files.load(path, config=tmp_path / "none.json")


def test_what_the_file_says_itself_must_not_be_said_again():
    path = FIXTURES / "tf_keras" / "stack.h5"
    for options in ({"config": {}}, {"readout": "mean"}, {"readout": "last"}, {"which": "a"}):
        with pytest.raises(lrp.WeightFileError, match=r"leave readout out|leave out|left out"):
            files.load(path, **options)


# ---------------------------------------------------------------------------------------------------------- functional


def functional(layers, links, inputs="layer_0", output=None):
    """The configuration of a functional model; `links` maps a layer's number to those that feed it."""
    items = []
    for k, item in enumerate(layers):
        node = [[[f"layer_{j}", 0, 0, {}] for j in links.get(k, ())]] if links.get(k) else []
        items.append({**item, "name": f"layer_{k}", "inbound_nodes": node})
    output = output or f"layer_{len(layers) - 1}"
    config = {"layers": items, "input_layers": [[inputs, 0, 0]], "output_layers": [[output, 0, 0]]}
    return {"class_name": "Functional", "config": config}


def test_layers_of_a_functional_model_in_any_order(tmp_path):
    layers = copy.deepcopy([NUMBERS, dense(2), lstm(2)])  # listed after the layer that it feeds
    config = functional(layers, {2: [0], 1: [2]}, output="layer_1")
    path = tmp_path / "model.h5"
    written(path, [layers[0], layers[2], layers[1]])  # for the arrays' shapes
    with h5py.File(path, "r+") as file:
        for item, name in zip(layers, ("layer_0", "layer_1", "layer_2"), strict=True):
            item["config"]["name"] = name
        file.attrs["model_config"] = json.dumps(config)
        weights = file["model_weights"]
        weights.attrs["layer_names"] = np.array(["layer_0", "layer_2", "layer_1"], "S")
    model = files.load(path)
    assert [type(item).__name__ for item in model.layers] == ["LSTM", "Dense"]


@pytest.mark.parametrize("axes, opens", [([2, 1], True), (1, False)])
def test_a_second_dot_that_sums_over_the_queries_is_no_attention(tmp_path, axes, opens):
    layers = copy.deepcopy([NUMBERS, lstm(3, return_sequences=True), layer("Dot", axes=2), layer("Softmax")])
    layers += copy.deepcopy([layer("Dot", axes=axes), layer("GlobalMaxPooling1D")])
    graph = functional(layers, {1: [0], 2: [1, 1], 3: [2], 4: [3, 1], 5: [4]})
    path = written(tmp_path / "model.h5", layers, functional=graph)
    if opens:
        assert kinds(files.load(path)) == ["LSTM", "Attention", "Max"]
    else:
        with pytest.raises(lrp.WeightFileError, match="the weights of an attention"):
            files.load(path)


SERIES = lstm(3, return_sequences=True)
WORDS = layer("Embedding", input_dim=5, output_dim=3)


@pytest.mark.parametrize(
    "layers, links, reason",
    [
        ([NUMBERS, SERIES, layer("Dot", axes=2, normalize=True)], {1: [0], 2: [1, 1]}, r"a cosine.*custom={'layer_2'"),
        ([NUMBERS, SERIES, layer("Dot", axes=1)], {1: [0], 2: [1, 1]}, "of these inputs; .*custom={'layer_2'"),
        ([NUMBERS, layer("TimeDistributed", layer=lstm(2))], {1: [0]}, r"it holds 'LSTM'; to say .*custom={'layer_1'"),
        (
            [start(4), WORDS, WORDS, layer("Concatenate")],
            {1: [0], 2: [0], 3: [1, 2]},
            r"second Embedding.*np\.hstack",
        ),
    ],
)
def test_layers_that_are_not_supported_come_with_a_next_step(tmp_path, layers, links, reason):
    layers = copy.deepcopy(layers)
    path = written(tmp_path / "model.h5", layers, functional=functional(layers, links))
    with pytest.raises(lrp.WeightFileError, match=reason):
        files.load(path)


@pytest.mark.parametrize("mode, kind", [("concat", "Concat"), ("sum", "Add"), ("mul", "Multiply"), ("ave", "Average")])
def test_joins_of_keras_1(tmp_path, mode, kind):
    layers = copy.deepcopy([NUMBERS, lstm(3), lstm(3), layer("Merge", mode=mode, concat_axis=-1)])
    path = written(tmp_path / "model.h5", layers, functional=functional(layers, {1: [0], 2: [0], 3: [1, 2]}))
    assert kinds(files.load(path))[-1] == kind
    layers[-1]["config"]["mode"] = "cos"
    path = written(tmp_path / "model.h5", layers, functional=functional(layers, {1: [0], 2: [0], 3: [1, 2]}))
    with pytest.raises(lrp.WeightFileError, match="of the class 'Merge by cos'"):
        files.load(path)


def test_inputs_by_name_are_refused(tmp_path):
    layers = copy.deepcopy([NUMBERS, lstm(), dense()])
    config = functional(layers, {1: [0], 2: [1]})
    config["config"]["layers"][1]["inbound_nodes"] = [{"series": ["layer_0", 0, 0, {}]}]
    path = written(tmp_path / "model.h5", layers, functional=config)
    with pytest.raises(lrp.WeightFileError, match=r"takes its inputs by name \(series\)"):
        files.load(path)


@pytest.mark.parametrize("training", [None, False, True])
def test_dropout_that_goes_on_after_training_is_left_out_and_said(tmp_path, training):
    layers = copy.deepcopy([NUMBERS, lstm(), dense()])
    config = functional(layers, {1: [0], 2: [1]})
    config["config"]["layers"][1]["inbound_nodes"][0][0][3]["training"] = training
    path = written(tmp_path / "model.h5", layers, functional=config)
    if training:
        with pytest.warns(lrp.AssumptionWarning, match="training=True: scores are those without Dropout"):
            files.load(path)
    else:
        assert files.load(path).outputs == 2


@pytest.mark.parametrize(
    "links, output, reason",
    [
        ({1: [0], 2: [1, 0]}, "layer_2", "must have one input"),
        ({1: [0], 2: [0]}, "layer_2", "must have shape (3, 2)"),
        ({1: [2], 2: [1]}, "layer_2", "form a circle"),
        ({1: [0], 2: [1]}, "layer_9", "'layer_9', call 0, which there is not"),
        ({1: [0]}, "layer_2", "'layer_2', call 0, which there is not"),
        ({1: [7], 2: [1]}, "layer_2", "'layer_7', call 0, which there is not"),
    ],
)
def test_graphs_that_are_none(tmp_path, links, output, reason):
    layers = copy.deepcopy([NUMBERS, lstm(), dense()])
    path = written(tmp_path / "model.h5", layers, functional=functional(layers, links, output=output))
    with h5py.File(path, "r+") as file:
        file.attrs["model_config"] = json.dumps(functional(layers, links, output=output))
    with pytest.raises(lrp.WeightFileError) as caught:
        files.load(path)
    assert reason in str(caught.value)


# ---------------------------------------------------------------------------------------------------------------- words


def words_before(kind, **settings):
    """A network whose first layer makes token ids of words."""
    return [start(1), layer(kind, **settings), layer("Embedding", input_dim=6, output_dim=3), lstm(), dense()]


TEXT = {"standardize": "lower_and_strip_punctuation", "split": "whitespace", "output_mode": "int", "ngrams": None}


def test_sentences_are_cut_and_filled_up_as_the_file_says(tmp_path):
    said = {**TEXT, "vocabulary": ["film", "good", "it"], "output_sequence_length": 4}
    model = opened(tmp_path, *words_before("TextVectorization", **said))
    embedding = model.embedding
    assert embedding.vocabulary == ("", "[UNK]", "film", "good", "it", "<row 5>")
    assert (embedding.tokenizer, embedding.unknown, model.inputs["x"].pad) == ("keras", "[UNK]", (4, "post", 0, "post"))
    ids = {"A good FILM!": [1, 3, 2, 0], "It, it it it good": [4, 4, 4, 4]}
    for sentence, expected in ids.items():
        close(lrp.predict(model, sentence), lrp.predict(model, expected))


@pytest.mark.parametrize(
    "wrong, reason",
    [
        ({"split": "character"}, "and split 'whitespace', it has"),
        ({"standardize": {"class_name": "function", "config": "mine"}}, "it has dict of 2 and 'whitespace'"),
        ({"output_mode": "multi_hot"}, "output_mode must be one of int"),
        ({"ngrams": 2}, "ngrams"),
        ({"vocabulary": [1.5]}, "a list of words"),
        ({"vocabulary": ["a"] * 9}, "6 rows for 11 words"),
    ],
)
def test_other_ways_to_cut_sentences_are_refused(tmp_path, wrong, reason):
    assert reason in refused(tmp_path, *words_before("TextVectorization", **{**TEXT, "vocabulary": ["film"], **wrong}))


def test_a_vocabulary_that_is_not_in_the_file_can_be_said(tmp_path):
    path = written(tmp_path / "model.h5", words_before("TextVectorization", **TEXT, vocabulary=None))
    with pytest.warns(lrp.AssumptionWarning, match="has no words in this file; pass token ids, or vocabulary="):
        assert files.load(path).embedding.vocabulary is None
    with pytest.warns(lrp.AssumptionWarning):
        model = files.load(path, vocabulary=["", "[UNK]", "film", "good", "it", "was"], unknown="[UNK]")
    close(lrp.predict(model, "Good film."), lrp.predict(model, [3, 2]))


def test_words_that_are_looked_up(tmp_path):
    said = {"vocabulary": ["a", "b"], "mask_token": "", "num_oov_indices": 1, "oov_token": "<?>"}
    model = opened(tmp_path, *words_before("StringLookup", **said))
    assert model.embedding.vocabulary[:4] == ("", "<?>", "a", "b") and model.embedding.unknown == "<?>"
    close(lrp.predict(model, ["b", "q"]), lrp.predict(model, [3, 1]))
    message = refused(tmp_path, *words_before("StringLookup", **{**said, "num_oov_indices": 3}))
    assert "at most one id for unknown words" in message


@pytest.mark.parametrize("kind", ["StringLookup", "TextVectorization"])
def test_a_vocabulary_that_is_a_path_is_never_read(tmp_path, kind):  # CVE-2025-12058
    secret = tmp_path / "secret"
    secret.write_text("password\nof\nthis\nmachine\n", "utf-8")
    said = {**(TEXT if kind == "TextVectorization" else {}), "vocabulary": str(secret)}
    with pytest.warns(lrp.AssumptionWarning, match="which is not opened"):
        model = opened(tmp_path, *words_before(kind, **said))
    assert model.embedding.vocabulary is None and "password" not in repr(model)


def test_arrays_that_a_file_only_promises(tmp_path):
    """Features beyond all arrays make no array larger than the limits."""
    message = refused(tmp_path, start(None, 2**30), layer("Rescaling", scale=1.0, offset=0.0))
    assert "1,073,741,824 numbers together, over the limit" in message


def test_the_vocabulary_of_a_keras_file_lies_beside_its_arrays(tmp_path):
    path = tmp_path / "model.keras"
    with zipfile.ZipFile(FIXTURES / "keras3" / "stack.keras") as old, zipfile.ZipFile(path, "w") as new:
        config = json.loads(old.read("config.json"))
        cut = {"module": "keras.layers", "registered_name": None, **layer("TextVectorization", **TEXT, vocabulary=None)}
        config["config"]["layers"].insert(1, cut)
        arrays = io.BytesIO(old.read("model.weights.h5"))
        with h5py.File(arrays, "r+") as file:
            file.create_group("layers/text_vectorization")
        new.writestr("config.json", json.dumps(config))
        new.writestr("metadata.json", old.read("metadata.json"))
        new.writestr("model.weights.h5", arrays.getvalue())
        new.writestr("assets/layers/text_vectorization/vocabulary.txt", "\n[UNK]\nfilm\ngood")
    model = files.load(path)
    assert model.embedding.vocabulary[:5] == ("", "[UNK]", "film", "good", "<row 4>")
    close(lrp.predict(model, "good FILM"), lrp.predict(files.load(FIXTURES / "keras3" / "stack.keras"), [3, 2]))


# ------------------------------------------------------------------------------------------- weights without a network


def alone(tmp_path, *layers, version="2.9.0"):
    """The weights of a file without its configuration."""
    path = written(tmp_path / "weights.h5", copy.deepcopy(list(layers)), version)
    whole = files.load(path) if layers else None
    with h5py.File(path, "r+") as file:
        del file.attrs["model_config"]
    return path, whole


def renamed(path, names):
    """Layers with names as Keras gives them."""
    with h5py.File(path, "r+") as file:
        weights = file["model_weights"]
        for old, new in names.items():
            weights.move(old, new)
        found = [names.get(name.decode(), name.decode()) for name in weights.attrs["layer_names"]]
        weights.attrs["layer_names"] = np.array(found, "S")


def test_weights_without_a_configuration_that_form_a_chain(tmp_path):
    path, whole = alone(tmp_path, NUMBERS, lstm(3, return_sequences=True), lstm(2), dense(1))
    renamed(path, {"layer_0": "input_1"})
    with pytest.warns(lrp.AssumptionWarning, match=r"taken as LSTM, LSTM, Dense in this order.*check=\(x, y\)"):
        assert files.load(path).digest == whole.digest
    with pytest.warns(lrp.AssumptionWarning):
        assert nets.readout(files.load(path, output="sigmoid", readout="mean")) == "mean"
    x = np.ones((4, 3), "f4")
    assert files.load(path, check=(x, lrp.predict(whole, x))).digest == whole.digest  # compared: no warning


@pytest.fixture
def beside(tmp_path, rng):
    """Weights of a custom class: attributes that sort before "layers" are stored beside that group."""
    arrays = {
        "layers/simple_rnn/cell/vars/0": (4, 5), "layers/simple_rnn/cell/vars/1": (5, 5),
        "layers/simple_rnn/cell/vars/2": (5,), "dense/vars/0": (5, 3), "dense/vars/1": (3,), "emb/vars/0": (9, 4),
        "optimizer/vars/0": (), "optimizer/vars/1": (5, 3),
    }  # fmt: skip
    arrays = {name: rng.normal(size=shape).astype("f4") for name, shape in arrays.items()}
    path = tmp_path / "model.weights.h5"
    with h5py.File(path, "w") as file:
        file.create_group("vars")
        for name, array in arrays.items():
            file[name] = array
    K, R, b, V, d, E, *_ = arrays.values()
    ids = [3, 1, 4, 1, 5]
    h = np.zeros(5)
    for row in E[ids]:
        h = np.tanh(row @ K + h @ R + b)
    return path, ids, h @ V + d


def test_layers_beside_the_group_of_layers_are_used(beside):
    path, ids, expected = beside
    with pytest.warns(lrp.AssumptionWarning, match="dense, emb placed where the shapes fit"):
        model = files.load(path)
    close(lrp.predict(model, ids), expected, 1e-6)


@pytest.mark.parametrize("hints", [{}, {"layers": ["emb", "a_rnn", "dense"]}])
def test_weights_of_keras_3_without_a_group_of_layers(beside, hints):
    """Of a custom class whose attributes all sort before "layers", as in TensorFlow's text generation tutorial."""
    path, ids, expected = beside
    with h5py.File(path, "r+") as file:
        file.move("layers/simple_rnn", "a_rnn")
        del file["layers"]
    with pytest.warns(lrp.AssumptionWarning, match="holds weights without their configuration"):
        model = files.load(path, **hints)
    close(lrp.predict(model, ids), expected, 1e-6)
    rnn = layer("SimpleRNN", name="a_rnn", units=5, activation="tanh")
    layers = [start(None), layer("Embedding", name="emb", input_dim=9, output_dim=4), rnn, dense(3, name="dense")]
    config = {"class_name": "Sequential", "config": {"layers": layers}}
    close(lrp.predict(files.load(path, config=config), ids), expected, 1e-6)


def written_3(path, **arrays):
    """A .weights.h5 of Keras 3 with these arrays of each layer, all beside the group of layers."""
    with h5py.File(path, "w") as file:
        for name, listed in arrays.items():
            inside = "cell/vars" if len(listed) == 3 else "vars"
            for k, array in enumerate(listed):
                file[f"{name}/{inside}/{k}"] = array.astype("f4")
    return path


@pytest.mark.parametrize("padding, skipped", [("valid", 1), ("same", 0), ("causal", 0)])
def test_weights_with_a_normalization_and_a_convolution(tmp_path, rng, padding, skipped):
    """The error proposes all layers in an order that fits; layers= computes them, and the warning lists the rest."""
    E, C, V = (rng.normal(size=shape) for shape in ((9, 4), (2, 4, 6), (5, 3)))
    gamma, beta, mean, d = (rng.normal(size=n) for n in (4, 4, 4, 3))
    var, c = rng.uniform(0.3, 1.0, 4), rng.normal(size=6)
    K, R, b = (rng.normal(size=shape) for shape in ((6, 5), (5, 5), (5,)))
    path = written_3(
        tmp_path / "m.weights.h5", bn=[gamma, beta, mean, var], conv=[C, c], dense=[V, d], emb=[E], gru=[K, R, b]
    )
    with pytest.raises(lrp.WeightFileError) as caught:
        files.load(path)
    message = str(caught.value)
    assert "say layers=['emb', 'bn', 'conv', 'gru', 'dense'], and confirm their order and the activations" in message
    assert "pass config" in message and "model.save('model.keras')" in message
    layers = ["emb", "bn", f"conv(padding={padding})", "relu", "gru"]
    with pytest.warns(lrp.AssumptionWarning) as warned:
        model = files.load(path, layers=[*layers, "dense"])
    text = str(warned[0].message)
    assert "no activations or other steps than those listed, readout 'last', output 'linear'" in text
    assert "epsilon 0.001" in text and "stride 1" in text and "not used" not in text
    ids = [3, 1, 4, 1, 5]
    x = (E[ids] - mean) / np.sqrt(var + 0.001) * gamma + beta
    around = {"valid": (0, 0), "same": (0, 1), "causal": (1, 0)}[padding]
    x = np.pad(x, (around, (0, 0)))
    x = np.maximum(x[:-1] @ C[0] + x[1:] @ C[1] + c, 0)
    assert len(x) == len(ids) - skipped
    h = np.zeros(5)
    for row in x:
        h = np.tanh(row @ K + h @ R + b)
    close(lrp.predict(model, ids), h @ V + d, 1e-5)
    files.load(path, layers=[*layers, "dense"], check=(ids, h @ V + d))  # confirmed: no warning
    with pytest.warns(lrp.AssumptionWarning, match="arrays that are not used: dense"):
        files.load(path, layers=layers)
    for wrong in ("gru(padding=same)", "conv(stride=2)", "conv(padding=full)"):
        with pytest.raises(lrp.WeightFileError, match="layers takes no settings except"):
            files.load(path, layers=["emb", wrong])
    with pytest.raises(lrp.WeightFileError, match="leave out activations"):
        files.load(path, layers=["emb", "gru", "dense"], activations=["relu"])


def test_weights_with_two_outputs_or_a_layer_that_is_not_supported(tmp_path, rng):
    a, h = np.ones((4, 2)), np.ones(2)
    rnn = [np.ones((6, 4)), np.ones((4, 4)), np.ones(4)]
    path = written_3(tmp_path / "two.weights.h5", a=[a, h], b=[a, h], cell=rnn)
    with pytest.raises(lrp.WeightFileError, match=r"layers=\['cell', 'a', 'b'\].*fits b \(4 to 2\), which may be"):
        files.load(path)
    path = written_3(tmp_path / "other.weights.h5", a=[a, h], cell=rnn, filter=[np.ones((2, 2, 2, 2))])
    with pytest.raises(lrp.WeightFileError, match=r"'filter' has arrays \(2, 2, 2, 2\)") as caught:
        files.load(path)
    assert "say layers" not in str(caught.value) and "model.save" in str(caught.value)
    with pytest.raises(lrp.WeightFileError, match=r"'filter' .* which layers= does not support; save a"):
        files.load(path, layers=["filter", "cell", "a"])


def test_layers_beside_the_group_of_layers_by_their_names(beside):
    path, ids, expected = beside
    rnn = layer("SimpleRNN", name="states", units=5, activation="tanh")
    layers = [layer("Embedding", name="emb", input_dim=9, output_dim=4), rnn, dense(3, name="dense")]
    config = {"class_name": "Sequential", "config": {"layers": [start(None), *layers]}}
    close(lrp.predict(files.load(path, config=config), ids), expected, 1e-6)
    config["config"]["layers"].pop()
    with pytest.raises(lrp.WeightFileError, match="arrays that the configuration does not use: dense"):
        files.load(path, config=config)


@pytest.mark.parametrize(
    "name, shapes",
    [
        ("bn", [(5,)] * 4), ("conv", [(3, 4, 4), (4,)]), ("fc", [(3, 3), (3,)]), ("blocks/dense", [(3, 3), (3,)]),
        ("", [(3,)]),
    ],
)  # fmt: skip
def test_layers_beside_the_group_of_layers_are_never_dropped(beside, rng, name, shapes):
    """Where their place is not clear, they are named in an error."""
    with h5py.File(beside[0], "r+") as file:
        for k, shape in enumerate(shapes):
            file[f"{name}/vars/{k}".strip("/")] = rng.normal(size=shape).astype("f4")
    with pytest.raises(lrp.WeightFileError, match=name.split("/")[0] or "'vars'"):
        files.load(beside[0])


def test_layers_beside_the_group_of_layers_without_arrays_are_named(beside):
    with h5py.File(beside[0], "r+") as file:
        file.create_group("drop/vars")
    with pytest.warns(lrp.AssumptionWarning, match="drop without arrays left out"):
        files.load(beside[0])


def test_weights_without_a_configuration_say_a_pool_by_its_name(tmp_path):
    path, whole = alone(tmp_path, NUMBERS, lstm(return_sequences=True), layer("GlobalMaxPooling1D"), dense(1))
    renamed(path, {"layer_0": "input_1", "layer_2": "global_max_pooling1d"})
    with pytest.warns(lrp.AssumptionWarning, match="readout 'max'"):
        assert files.load(path).digest == whole.digest


def test_layers_of_weights_with_a_readout_and_without_some(tmp_path):
    path, whole = alone(tmp_path, NUMBERS, lstm(return_sequences=True), layer("GlobalMaxPooling1D"), dense(2), dense(2))
    for hints in ({"layers": ["layer_1", "layer_3"], "readout": "max"}, {"layers": ["layer_1", "max", "layer_3"]}):
        with pytest.warns(lrp.AssumptionWarning, match="readout 'max', .* arrays that are not used: layer_4"):
            model = files.load(path, **hints)
        assert nets.readout(model) == "max" and len(model.nodes) == len(whole.nodes) - 1


def test_weights_with_two_dense_layers_ask_for_layers_and_activations(tmp_path):
    both = layer("Bidirectional", layer=lstm(2), merge_mode="concat")
    words = layer("Embedding", input_dim=5, output_dim=3)
    path, whole = alone(tmp_path, start(None), words, both, dense(3, activation="relu"), dense(2))
    renamed(path, {"layer_0": "input_1", "layer_1": "embedding"})
    with pytest.raises(lrp.WeightFileError, match=r"say layers=\['embedding', 'layer_2', 'layer_3', 'layer_4'\]"):
        files.load(path)
    layers = ["embedding", "layer_2", "layer_3", "relu", "layer_4"]
    with pytest.warns(lrp.AssumptionWarning):
        assert files.load(path, layers=layers).digest == whole.digest
    with pytest.raises(lrp.WeightFileError, match="readout must be one of"):
        files.load(path, layers=layers, readout="last-row")


def test_weights_without_a_configuration_that_are_not_clear(tmp_path):
    path, _ = alone(tmp_path, NUMBERS, lstm(3, return_sequences=True), lstm(2), dense(1))
    with pytest.raises(lrp.WeightFileError, match="how the layers are connected; say layers="):
        files.load(path)
    renamed(path, {"layer_0": "input_1"})
    with h5py.File(path, "r+") as file:
        del file["model_weights/layer_2/layer_2/w:0"]
        file["model_weights/layer_2/layer_2/w:0"] = np.zeros((7, 8), "f4")
    with pytest.raises(lrp.WeightFileError, match="how the layers are connected; say layers="):
        files.load(path)


def test_weights_without_a_configuration_and_a_structure(tmp_path, rng):
    """An embedding, two LSTMs, the three joined, an attention: as textgenrnn is, with cuDNN's two biases."""
    E, V, d, W = (rng.normal(size=shape).astype("f4") for shape in ((7, 3), (7, 5), (5,), (7, 1)))
    cells = {
        f"rnn_{k}": [rng.normal(size=shape).astype("f4") for shape in ((n, 8), (2, 8), (16,))]
        for k, n in ((1, 3), (2, 2))
    }
    groups = {"input": [], "embedding": [E], **cells, "rnn_concat": [], "attention": [W], "output": [V, d]}
    path = tmp_path / "weights.hdf5"
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [name.encode() for name in groups]
        for name, arrays in groups.items():
            names = [f"{name}/{k}:0" for k in range(len(arrays))]
            file.create_group(name).attrs["weight_names"] = [one.encode() for one in names]
            for one, array in zip(names, arrays, strict=True):
                file[f"{name}/{one}"] = array
    order = ["embedding", "rnn_1", "rnn_2", "concat(embedding, rnn_1, rnn_2)", "attention", "output"]
    with pytest.raises(lrp.WeightFileError) as caught:
        files.load(path)
    assert f"layers={order}" in str(caught.value)
    with pytest.warns(lrp.AssumptionWarning, match="built as layers= describes"):
        model = files.load(path, layers=order, output="softmax")
    x = E[[3, 1, 6, 2]]
    joined = [x]
    for kernel, recurrent, bias in cells.values():
        U, R = (np.hstack([part.reshape(2, -1).T for part in np.split(one, 4, axis=1)]) for one in (kernel, recurrent))
        h, c, out = np.zeros(2), np.zeros(2), []
        for row in joined[-1]:
            i, f, g, o = np.split(row @ U + h @ R + bias[:8] + bias[8:], 4)
            c = 1 / (1 + np.exp(-f)) * c + 1 / (1 + np.exp(-i)) * np.tanh(g)
            h = 1 / (1 + np.exp(-o)) * np.tanh(c)
            out.append(h)
        joined.append(np.array(out))
    whole = np.hstack(joined)
    weights = np.exp(whole @ W[:, 0])
    np.testing.assert_allclose(lrp.predict(model, [3, 1, 6, 2]), weights @ whole / weights.sum() @ V + d, atol=1e-5)
    assert model.output == "softmax"
    with pytest.raises(lrp.WeightFileError, match="layers must name layers of the file, activations, or"):
        files.load(path, layers=["embedding", "rnn_9"])


# -------------------------------------------------------------------------------------------------------------- graphs

GRAPHS = {
    folder: json.loads((FIXTURES / folder / "expected.json").read_text())
    for folder in ("keras3_graphs", "tf_keras_graphs")
}
each_graph = pytest.mark.parametrize("folder, name", [(folder, name) for folder in GRAPHS for name in GRAPHS[folder]])


def graph(folder, name):
    row = GRAPHS[folder][name]
    return kerasgraph.opened(FIXTURES / folder / name, row), row


@each_graph
def test_scores_of_graphs_are_those_of_keras(folder, name, tmp_path):
    model, row = graph(folder, name)
    close(lrp.predict(model, kerasgraph.record(model, row)), row["scores"], tol=1e-5)
    lrp.save(model, tmp_path / "model.h5")
    assert lrp.load(tmp_path / "model.h5").digest == model.digest


def kinds(model):
    return [type(node.layer).__name__ for node in model.nodes]


def test_batch_norms_are_part_of_their_neighbors_and_the_notes_say_so():
    model, _ = graph("tf_keras_graphs", "normed.h5")
    assert "Affine" not in kinds(model) and "LayerNorm" in kinds(model)
    assert [one.activation for one in model.layers if isinstance(one, lrp.Dense)] == ["relu", "tanh", "linear"]
    report = str(files.inspect(FIXTURES / "tf_keras_graphs" / "normed.h5"))
    assert "merged into neighboring layers" in report and " into " in report


def test_inputs_that_the_network_scales_stay_apart():
    model, _ = graph("tf_keras_graphs", "scaled.h5")
    assert kinds(model)[0] == "Affine" and model.nodes[0].layer.scaler


def test_names_of_inputs_and_nodes_are_those_of_the_file():
    model, _ = graph("tf_keras_graphs", "two_sides.h5")
    assert list(model.inputs) == ["left", "right side", "still"]
    assert [port.steps for port in model.inputs.values()] == [True, True, False]
    assert "Reverse" in kinds(model) and "Concat" in kinds(model)


def test_a_model_with_two_outputs_asks_which():
    path = FIXTURES / "keras3_graphs" / "double.keras"
    with pytest.raises(lrp.WeightFileError, match=r"2 outputs, 'first', 'second'; say .* which='first'"):
        files.load(path)
    with pytest.raises(lrp.WeightFileError, match="got 'third'"):
        files.load(path, which="third")
    assert files.load(path, which="first").outputs == 2 and files.load(path, which="second").outputs == 1


def test_a_layer_of_ones_own():
    path = FIXTURES / "keras3_graphs" / "attentive.keras"
    with pytest.raises(
        lrp.WeightFileError, match=r"'weigh' of the class .*SimpleAttention.*custom={'SimpleAttention': f}"
    ):
        files.load(path)
    seen = {}

    def make(settings, arrays):
        seen.update(settings=settings, arrays=arrays)
        return kerasgraph.simple_attention(settings, arrays)

    by_class, by_name = (files.load(path, custom={key: make}) for key in ("SimpleAttention", "weigh"))
    assert by_class.digest == by_name.digest and kinds(by_class) == ["LSTM", "AttentionPool", "Dense"]
    assert {name: array.shape for name, array in seen["arrays"].items()} == {"0": (4, 3), "1": (3, 1)}
    assert "weigh" in str(files.inspect(path, custom={"weigh": make}))
    with pytest.raises(lrp.WeightFileError, match="must give a layer of lrpnumpy, got NoneType"):
        files.load(path, custom={"weigh": lambda settings, arrays: None})
    for wrong, reason in (({"weigh": 3}, "names to functions"), ({"weigh": make}, "isolate")):
        with pytest.raises(lrp.LrpError, match=reason):
            files.load(path, custom=wrong, isolate=True)


def test_arrays_of_a_layer_of_ones_own_in_hdf5_have_their_names(tmp_path):
    layers = [NUMBERS, layer("MyOwn", factor=2.0), lstm(), dense()]
    path = written(tmp_path / "model.h5", copy.deepcopy(layers))
    with h5py.File(path, "r+") as file:
        own = file["model_weights/layer_1"]
        own.attrs["weight_names"] = np.array(["layer_1/scale:0"], "S")
        own["layer_1/scale:0"] = np.array([1, 2, 3], "f4")
    model = files.load(path, custom={"MyOwn": lambda s, a: lrp.layers.Affine(s["factor"] * a["scale"], scaler=True)})
    np.testing.assert_array_equal(model.layers[0].s, [2, 4, 6])


@pytest.mark.parametrize(
    "layers, reason",
    [
        ([layer("BatchNormalization", axis=1, epsilon=0.001), lstm()], "axis of the features"),
        ([lstm(return_sequences=True), layer("Flatten")], "for which the file must say how many there are"),
        ([lstm(), layer("RepeatVector", n=0)], "n must be a whole number from 1"),
        ([lstm(return_sequences=True), layer("RepeatVector", n=2)], "one vector for each sequence"),
        (
            [lstm(return_sequences=True), layer("MaxPooling1D", pool_size=[2], padding="causal")],
            "padding must be one of",
        ),
        ([lstm(), layer("Concatenate", axis=0), lstm()], "the axis of the features"),
        ([lstm(), layer("Reshape", target_shape=[3])], "makes (1*N, 3) of (1*N, 2)"),
        ([lstm(), layer("Rescaling", scale="a", offset=0.0)], "scale must be a number"),
        ([layer("LayerNormalization", rms_scaling=True), lstm()], "rms_scaling"),
        ([layer("Normalization", mean=[0.0], variance=[-1.0, 1.0, 1.0]), lstm()], "variances below 0"),
        ([layer("Permute", dims=[2, 1]), lstm()], "must exchange the two axes"),
        ([layer("ZeroPadding1D", padding=-1), lstm()], "one or two whole numbers"),
        ([layer("UpSampling1D", size=65), lstm()], "at most 64"),
        ([lstm(), layer("Reshape", target_shape="a")], "one or two numbers"),
        ([lstm(), layer("Reshape", newshape=5)], "newshape must be a list"),
        ([layer("Merge", mode=["concat"]), lstm()], "'layer_1' of the class"),
        ([lstm(), layer("Reshape", target_shape=[3, 3])], "which is not supported"),
        (
            [lstm(return_sequences=True), layer("Max", axis=-1)],
            "or as a sum or a mean over one axis of features",
        ),
        ([lstm(return_sequences=True), layer("Sum", axis=-1)], "for which the file must say how many there are"),
        ([lstm(return_sequences=True), layer("ExpandDims", axis=1)], "more than two axes"),
        ([lstm(), layer("Squeeze", axis=1)], "an axis that is longer than 1"),
        ([lstm(), layer("Dot", axes=1)], "must have two inputs"),
        ([lstm(), layer("Subtract")], "must have two inputs, it has 1"),
        ([lstm(return_sequences=True), layer("Attention")], "a query, a value and perhaps a key"),
        ([layer("Embedding", input_dim=5, output_dim=3), lstm()], "token ids of more than one axis"),
        ([lstm(return_sequences=True), layer("Embedding", input_dim=5, output_dim=3)], "must be the first layer"),
        ([layer("NotEqual"), lstm()], "as part of a mask only"),
        ([layer("Any"), lstm()], "as part of a mask only"),
        ([lstm(), layer("GetItem")], "one to 2 slices"),
    ],
)
def test_settings_of_graphs_that_we_do_not_have(tmp_path, layers, reason):
    assert reason in refused(tmp_path, NUMBERS, *layers)


@pytest.mark.parametrize(
    "layers, function",
    [
        ([layer("Sum", axis=1)], lambda s: s.sum(0)),
        ([layer("Mean", axis=1, keepdims=True), layer("Squeeze", axis=1)], lambda s: s.mean(0)),
        ([layer("Max", axis=[1])], lambda s: s.max(0)),
        ([layer("Sum", axis=-1)], lambda s: s.sum(1)),
        ([layer("Mean", axis=2, keepdims=True), layer("Squeeze", axis=[2])], lambda s: s.mean(1)),
        ([layer("Max", axis=1), layer("ExpandDims", axis=1), layer("Squeeze", axis=1)], lambda s: s.max(0)),
        (
            [layer("Max", axis=1), layer("ExpandDims", axis=-1), layer("Sum", axis=1)],
            lambda s: s.max(0).sum(keepdims=True),
        ),
        ([layer("Reshape", target_shape=[6, 4]), layer("Sum", axis=1)], lambda s: s.sum(0)),
        ([layer("Reshape", target_shape=[-1])], np.ravel),
        ([layer("Reshape", target_shape=[3, -1]), layer("Sum", axis=1)], lambda s: s.reshape(3, 8).sum(0)),
        ([layer("Permute", dims=[1, 2]), layer("Sum", axis=1)], lambda s: s.sum(0)),
        ([layer("Permute", dims=[2, 1]), layer("Sum", axis=1)], lambda s: s.sum(1)),
        ([layer("UpSampling1D", size=2), layer("Add"), layer("Sum", axis=1)], lambda s: 2 * s.sum(0)),
        ([layer("UpSampling1D", size=1), layer("Sum", axis=1)], lambda s: s.sum(0)),
        (
            [layer("Normalization", mean=[[1.0, 2, 3, 4]], variance=[[4.0, 4, 4, 4]]), layer("Sum", axis=1)],
            lambda s: ((s - [1, 2, 3, 4]) / 2).sum(0),
        ),
        (
            [layer("LayerNormalization", scale=False, center=False, epsilon=0.5), layer("Sum", axis=1)],
            lambda s: ((s - s.mean(1, keepdims=True)) / np.sqrt(s.var(1, keepdims=True) + 0.5)).sum(0),
        ),
    ],
)
def test_operations_by_themselves(tmp_path, rng, layers, function):
    states, x = lstm(4, return_sequences=True), rng.normal(size=(6, 3))
    every = opened(tmp_path, start(6, 3), states, layer("Reshape", target_shape=[-1]))
    expected = function(lrp.predict(every, x).reshape(6, 4))
    close(lrp.predict(opened(tmp_path, start(6, 3), states, *layers), x), expected, 1e-6)


# ------------------------------------------------------------------------------------------------------------- slices


def archived(path, layers, arrays):
    """A `.keras` file of Keras 3 of a chain of layers, with arrays by their paths."""
    before, items = None, []
    for item in layers:
        item = {
            "module": "keras.layers",
            "registered_name": None,
            **copy.deepcopy(item),
            "name": item["config"]["name"],
        }
        more = item["config"].pop("args", [])
        tensor = {"class_name": "__keras_tensor__", "config": {"keras_history": [before, 0, 0]}}
        item["inbound_nodes"] = [{"args": [tensor, *more], "kwargs": {}}] if before else []
        before = item["name"]
        items.append(item)
    ends = {"input_layers": [[items[0]["name"], 0, 0]], "output_layers": [[before, 0, 0]]}
    config = {"class_name": "Functional", "config": {"name": "f", "layers": items, **ends}}
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file.create_group("layers")
        for name, array in arrays.items():
            file[name] = array
    with zipfile.ZipFile(path, "w") as new:
        new.writestr("config.json", json.dumps(config))
        new.writestr("metadata.json", json.dumps({"keras_version": "3.9.0"}))
        new.writestr("model.weights.h5", stream.getvalue())
    return path


def written_index(one):
    """A part of an index as Keras 3 writes it."""
    if one is Ellipsis:
        return {"class_name": "__ellipsis__", "config": {}}
    if isinstance(one, slice):
        ends = {"start": one.start, "stop": one.stop, "step": one.step}
        return {"class_name": "__slice__", "config": ends}
    return one


def plain_rnn(x, K, R):
    """The states of a SimpleRNN with tanh and without biases: its formula."""
    h, states = np.zeros(len(R)), []
    for row in x:
        h = np.tanh(row @ K + h @ R)
        states.append(h)
    return np.array(states)


def sliced(path, index):
    """A file of the states of an RNN, 7 steps of 5, sliced; its input and the states."""
    rng = np.random.default_rng(0)
    K, R, x = rng.normal(size=(3, 5)), rng.normal(size=(5, 5)), rng.normal(size=(7, 3))
    settings = {"units": 5, "activation": "tanh", "use_bias": False, "return_sequences": True}
    first = [layer("InputLayer", batch_shape=[None, 7, 3]), layer("SimpleRNN", **settings)]
    arrays = {f"layers/simple_rnn/cell/vars/{k}": array.astype("f4") for k, array in enumerate((K, R))}
    archived(path, [*first, layer("GetItem", args=[[written_index(one) for one in index]])], arrays)
    return x, plain_rnn(x, K, R)


s_ = np.s_
SLICES = [
    s_[..., 1:4], s_[..., :5], s_[..., -2:], s_[..., ::2], s_[..., 3], s_[..., -1], s_[..., 2:99], s_[..., :],
    s_[:, ..., 1:3], s_[:, ..., -2], s_[:, 2:, ...], s_[:, -1, ...], s_[:, ...], s_[:, :, ...], s_[:, :, ..., 2],
    s_[..., -2, :], s_[..., -3:, :], s_[:, 1:6:2, 0:3], s_[:, -4:-1], s_[:, 0], s_[:, ::-1, 1:], s_[:, -20:],
    s_[:, 3, 1:4], s_[:, -1, 2], s_[:,], s_[..., ::-1],
]  # fmt: skip


@pytest.mark.parametrize("index", SLICES, ids=str)
def test_slices_are_those_of_numpy(tmp_path, index):
    x, states = sliced(tmp_path / "model.keras", index)
    expected = states[None][index][0]
    close(lrp.predict(files.load(tmp_path / "model.keras"), x), np.atleast_1d(expected), 1e-5)


@pytest.mark.parametrize(
    "index, reason",
    [
        (s_[:, ::-2], "in reverse order; reverse all steps first"),
        (s_[:, -1:0:-1], "in reverse order; reverse all steps first"),
        (s_[1:, ...], "leave the batch as it is"),
        (s_[0, ...], "leave the batch as it is"),
        (s_[:, None], "it has None; new axes"),
        (s_[..., None], "it has None; new axes"),
        (s_[..., 1, ...], "at most one ellipsis"),
        (s_[:, :, :, :], "one to 3 slices"),
        (s_[..., {"class_name": "__other__", "config": {}}], "must slice by whole numbers"),
        (s_[..., "a":], "must slice by whole numbers"),
    ],
)
def test_slices_that_we_do_not_have_are_refused(tmp_path, index, reason):
    sliced(tmp_path / "model.keras", index)
    with pytest.raises(lrp.WeightFileError, match=reason):
        files.load(tmp_path / "model.keras")


def test_slices_of_an_input(tmp_path, rng):
    """Features of an input go into the layers behind; a mask over some of them would be another one."""
    K, R, x = rng.normal(size=(2, 4)), rng.normal(size=(4, 4)), rng.normal(size=(5, 3))
    settings = {"units": 4, "activation": "tanh", "use_bias": False, "return_sequences": True}
    index = layer("GetItem", args=[[written_index(one) for one in s_[..., 1:]]])
    chain = [layer("InputLayer", batch_shape=[None, None, 3]), index, layer("SimpleRNN", **settings)]
    arrays = {f"layers/simple_rnn/cell/vars/{k}": array.astype("f4") for k, array in enumerate((K, R))}
    path = archived(tmp_path / "model.keras", chain, arrays)
    close(lrp.predict(files.load(path), x), plain_rnn(x[:, 1:], K, R), 1e-5)
    path = archived(tmp_path / "masked.keras", [*chain[:2], layer("Masking", mask_value=0.0), chain[2]], arrays)
    with pytest.raises(lrp.WeightFileError, match="is supported over an input of numbers"):
        files.load(path)


def test_slices_of_keras_2(tmp_path, rng):
    states, x = lstm(4, return_sequences=True), rng.normal(size=(6, 3))
    flat = layer("Reshape", target_shape=[-1])
    every = lrp.predict(opened(tmp_path, start(6, 3), states, flat), x).reshape(6, 4)
    layers = copy.deepcopy([start(6, 3), states, layer("SlicingOpLambda", function="__operators__.getitem"), flat])
    model = functional(layers, {1: [0], 2: [1], 3: [2]})
    spec = [{"class_name": "__ellipsis__"}, {"start": 1, "stop": 3, "step": None}]
    model["config"]["layers"][2]["inbound_nodes"][0][0][3] = {"slice_spec": spec}
    path = written(tmp_path / "model.h5", layers, functional=model)
    close(lrp.predict(files.load(path), x).reshape(6, 2), every[..., 1:3], 1e-6)


# -------------------------------------------------------------------------------------------- numbers and activations


def numbers_path(tmp_path, *layers):
    """A file of the states of an RNN of 4 units and layers after them; its input and the last state."""
    rng = np.random.default_rng(1)
    K, R, x = rng.normal(size=(3, 4)), rng.normal(size=(4, 4)), rng.normal(size=(5, 3))
    settings = {"units": 4, "activation": "tanh", "use_bias": False, "return_sequences": False}
    first = [layer("InputLayer", batch_shape=[None, None, 3]), layer("SimpleRNN", **settings)]
    arrays = {f"layers/simple_rnn/cell/vars/{k}": array.astype("f4") for k, array in enumerate((K, R))}
    path = archived(tmp_path / "model.keras", [*first, *layers], arrays)
    return path, x, plain_rnn(x, K, R)[-1]


SECOND = layer("GetItem", args=[[written_index(s_[:]), 1]])
SCALED = layer("Rescaling", scale=9.0, offset=1.0)


def test_one_number_for_each_sequence_is_not_a_vector(tmp_path):
    path, x, h = numbers_path(tmp_path, SECOND)
    close(lrp.predict(files.load(path), x), h[1:2], 1e-6)
    path, *_ = numbers_path(tmp_path, SECOND, layer("ExpandDims", axis=-1), layer("Rescaling", scale=2.0, offset=1.0))
    close(lrp.predict(files.load(path), x), 2 * h[1:2] + 1, 1e-6)
    path, *_ = numbers_path(
        tmp_path, SECOND, layer("Activation", activation="relu"), layer("Reshape", target_shape=[1])
    )
    close(lrp.predict(files.load(path), x), np.maximum(h[1:2], 0), 1e-6)
    for after in (SCALED, layer("RepeatVector", n=2)):
        with pytest.raises(lrp.WeightFileError, match="got batch; reshape them"):
            files.load(numbers_path(tmp_path, layer("Sum", axis=-1, keepdims=False), after)[0])


def test_log_softmax_is_taken_off_at_the_end_and_refused_inside(tmp_path):
    log = layer("Activation", activation="log_softmax")
    path, x, h = numbers_path(tmp_path, log)
    model = files.load(path)
    close(lrp.predict(model, x), h, 1e-6)
    assert model.output == "softmax"
    logs = h - np.log(np.exp(h).sum())
    files.load(path, check=(x, logs))
    with pytest.raises(lrp.WeightFileError, match="expects the scores"):
        files.load(path, check=(x, logs + 0.1))
    for after in (SCALED, layer("ReLU"), layer("Sum", axis=-1)):
        with pytest.raises(lrp.WeightFileError, match="only at the end of a network"):
            files.load(numbers_path(tmp_path, log, after)[0])
    assert "log_softmax, which is supported only at the end" in refused(tmp_path, NUMBERS, log, lstm())
    assert "activation is log_softmax" in refused(tmp_path, NUMBERS, lstm(activation="log_softmax"))


@pytest.mark.parametrize("approximate", [True, False])
def test_gelu_as_an_operation(tmp_path, approximate):
    path, x, h = numbers_path(tmp_path, layer("Gelu", approximate=approximate), SCALED)
    exact = np.array([z * 0.5 * (1 + math.erf(z / 2**0.5)) for z in h])
    rough = 0.5 * h * (1 + np.tanh((2 / np.pi) ** 0.5 * (h + 0.044715 * h**3)))
    assert abs(exact - rough).max() > 1e-5
    close(lrp.predict(files.load(path), x), 9 * (rough if approximate else exact) + 1, 1e-6)


def test_two_probabilities_of_one_value(tmp_path, rng):
    layers = [NUMBERS, lstm(3), layer("Activation", activation="softmax")]
    layers = copy.deepcopy([*layers, layer("Activation", activation="sigmoid"), layer("Subtract")])
    path = written(tmp_path / "two.h5", layers, functional=functional(layers, {1: [0], 2: [1], 3: [1], 4: [2, 3]}))
    x = rng.normal(size=(5, 3))
    h = lrp.predict(opened(tmp_path, NUMBERS, lstm(3)), x)
    close(lrp.predict(files.load(path), x), np.exp(h) / np.exp(h).sum() - 1 / (1 + np.exp(-h)), 1e-6)


def test_settings_that_change_an_operation_are_refused(tmp_path):
    steps = lstm(return_sequences=True)
    assert "no initial value" in refused(tmp_path, NUMBERS, steps, layer("Max", axis=1, initial=0.5))
    softmax = {"class_name": "Softmax", "config": {"axis": 1}}
    assert "over the features" in refused(tmp_path, NUMBERS, steps, dense(activation=softmax))


def test_inputs_of_which_the_file_says_too_little_or_too_much(tmp_path):
    scaled = layer("Rescaling", scale=1.0, offset=0.0)
    assert "how many features it has" in refused(tmp_path, start(None, None), scaled)
    assert "takes records of shape" in refused(tmp_path, start(2, 2, 3), scaled, lstm())
    inverse = words_before("StringLookup", vocabulary=["film"], invert=True)
    assert "invert=True is not supported" in refused(tmp_path, *inverse)


def test_an_input_taken_with_padding_and_without(tmp_path):
    layers = copy.deepcopy([NUMBERS, layer("Masking", mask_value=0.0), lstm(), lstm(), layer("Add")])
    links = {1: [0], 2: [1], 3: [0], 4: [2, 3]}
    path = written(tmp_path / "model.h5", layers, functional=functional(layers, links))
    with h5py.File(path, "r+") as file:  # both LSTM layers take the input's three features
        del file["model_weights/layer_3/layer_3/w:0"]
        file["model_weights/layer_3/layer_3/w:0"] = np.zeros((3, 8), "f4")
    with pytest.warns(lrp.AssumptionWarning, match="layer_3 computes with it"):
        files.load(path)


@pytest.mark.parametrize(
    "levels, reason", [(20, "kept the processor|parts to look at|more than 1,000 layers"), (40, "levels deep")]
)
def test_layers_called_again_and_again_stay_within_the_budget(tmp_path, levels, reason):
    """Each model calls the one inside it twice: twenty levels are a million calls."""
    inner = functional(copy.deepcopy([NUMBERS, lstm(3, return_sequences=True)]), {1: [0]})
    for depth in range(levels):
        again = {**inner, "name": "again", "config": {**inner["config"], "name": "again"}}
        again["inbound_nodes"] = [[["start", 0, 0, {}]], [["again", 0, 0, {}]]]
        first = {**copy.deepcopy(NUMBERS), "name": "start", "inbound_nodes": []}
        config = {"layers": [first, again], "input_layers": [["start", 0, 0]], "output_layers": [["again", 1, 0]]}
        inner = {"class_name": "Functional", "config": config, "depth": depth}
    path = written(tmp_path / "model.h5", copy.deepcopy([NUMBERS, lstm(3)]))
    with h5py.File(path, "r+") as file:
        file.attrs["model_config"] = json.dumps(inner)
    with pytest.raises(lrp.WeightFileError, match=reason):
        files.load(path)


def test_slopes_for_every_step_are_refused(tmp_path):
    reason = refused(tmp_path, start(6, 3), lstm(return_sequences=True), layer("PReLU"), lstm())
    assert "only those shared by all steps (shared_axes=[1]) are supported" in reason


def test_an_array_beyond_those_of_both_directions_is_refused(tmp_path):
    both = layer("Bidirectional", layer=lstm(), merge_mode="concat")
    path = written(tmp_path / "model.h5", [start(6, 3), both, dense()])
    with h5py.File(path, "r+") as file:
        group = file["model_weights/layer_1"]
        group["layer_1/w:6"] = np.zeros(8, "f4")
        names = [*group.attrs["weight_names"], b"layer_1/w:6"]
        del group.attrs["weight_names"]
        group.attrs["weight_names"] = np.array(names, "S")
    with pytest.raises(lrp.WeightFileError, match="must have 3 arrays, the file has 4"):
        files.load(path)
