"""Texts as Keras itself cuts, numbers and pads them: the scores are those of the framework."""

import json

import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp

TEXTS = ["The film isn't good, it's GREAT!", "Well-made; and\tnot (too) long...", "good good good", "A film of 1999"]
NEW = [*TEXTS, "the film", "Unheard-of words, and good.", "good " * 9, "not good"]


@pytest.fixture(scope="module")
def keras():
    return pytest.importorskip("tf_keras")


def network(keras, rows, path):
    """An LSTM without a mask over an embedding, saved: it computes with its padding."""
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Embedding(rows, 4), keras.layers.LSTM(5), keras.layers.Dense(1, "sigmoid")]
    model = keras.Sequential(layers)
    model.build((None, 6))
    model.set_weights([w + np.random.default_rng(1).normal(size=w.shape) for w in model.get_weights()])
    model.save(path)
    return model


def agree(model, texts, expected):
    for text, p in zip(texts, expected, strict=True):
        close(lrp.explain(model, text).probabilities, [1 - p, p], 1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("padding", "truncating"), [("pre", "pre"), ("post", "pre"), ("post", "post")])
@pytest.mark.parametrize("oov", [None, "<oov>"])
@pytest.mark.parametrize("num_words", [None, 8])
def test_tokenizer_and_pad_sequences(keras, tmp_path, padding, truncating, oov, num_words):
    tokenizer = keras.preprocessing.text.Tokenizer(num_words=num_words, oov_token=oov)
    tokenizer.fit_on_texts(TEXTS)
    rows = num_words or len(tokenizer.word_index) + 1
    theirs = network(keras, rows, tmp_path / "model.h5")
    ids = keras.utils.pad_sequences(tokenizer.texts_to_sequences(NEW), 6, padding=padding, truncating=truncating)
    expected = theirs.predict(ids, verbose=0)[:, 0]
    said = {"pad": (6, padding, 0, truncating), "classes": ["bad", "good"]}
    index = {word: row for word, row in tokenizer.word_index.items() if row < rows}
    said |= {"tokenizer": "keras-tokenizer", "unknown": oov or False}
    agree(lrp.load(tmp_path / "model.h5", vocabulary=index, **said), NEW, expected)


@pytest.mark.filterwarnings("ignore")
def test_text_vectorization(keras, tmp_path):
    vectorize = keras.layers.TextVectorization(output_sequence_length=6)
    vectorize.adapt(TEXTS)
    words = vectorize.get_vocabulary()
    theirs = network(keras, len(words), tmp_path / "model.h5")
    expected = theirs.predict(np.asarray(vectorize(NEW)), verbose=0)[:, 0]
    (tmp_path / "words.json").write_text(json.dumps([str(word) for word in words]))
    said = {"unknown": "[UNK]", "tokenizer": "keras", "pad": (6, "post", 0), "classes": ["bad", "good"]}
    agree(lrp.load(tmp_path / "model.h5", vocabulary=tmp_path / "words.json", **said), NEW, expected)
    agree(lrp.from_keras(theirs, vocabulary=[str(word) for word in words], **said), NEW, expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("padding", "truncating"), [("pre", "pre"), ("post", "pre"), ("post", "post")])
def test_series_padded_with_numbers(keras, tmp_path, padding, truncating):
    keras.utils.set_random_seed(0)
    theirs = keras.Sequential([keras.layers.Input((5, 2)), keras.layers.LSTM(4), keras.layers.Dense(2)])
    theirs.save(tmp_path / "model.h5")
    rng = np.random.default_rng(0)
    records = [rng.normal(size=(T, 2)).astype("f4") for T in (1, 3, 5, 8)]
    filled = keras.utils.pad_sequences(records, 5, "float32", padding, truncating, -1.0)
    model = lrp.load(tmp_path / "model.h5", pad=(5, padding, -1.0, truncating), features=["rain", "heat"])
    close(lrp.predict_all(model, records), theirs.predict(filled, verbose=0), 1e-5)
    assert lrp.explain(model, records[0]).probabilities is None and model.features == ("rain", "heat")


def test_words_of_a_live_module():
    torch = pytest.importorskip("torch")

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(6, 3)
            self.lstm = torch.nn.LSTM(3, 4, batch_first=True)
            self.head = torch.nn.Linear(4, 1)

        def forward(self, ids):
            return torch.sigmoid(self.head(self.lstm(self.embedding(ids))[0][:, -1]))

    torch.manual_seed(0)
    module = Network()
    stoi = {"<unk>": 0, "<pad>": 1, "the": 2, "film": 3, "is": 4, "good": 5}
    said = {"vocabulary": stoi, "unknown": "<unk>", "pad": (5, "post", "<pad>"), "classes": ["bad", "good"]}
    model = lrp.from_torch(module, **said)
    with torch.no_grad():
        p = float(module(torch.tensor([[2, 3, 0, 1, 1]])))
    agree(model, ["the film was"], [p])
