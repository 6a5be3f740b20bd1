"""The native format: an exact round trip, files that appear whole or not at all, and shipped models by name."""

import json
import os
import stat
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import h5py
import networks as nets
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interop import zoo

import lrpnumpy as lrp
from lrpnumpy import files

FIXTURES = Path(__file__).parents[1] / "fixtures"
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


def same(a, b):
    """Records equal in every field, arrays to the bit and of one dtype."""
    assert type(a) is type(b)
    for field in fields(a):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if isinstance(x, np.ndarray):
            assert x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
        elif field.name == "nodes":
            assert [(one.name, one.inputs) for one in x] == [(one.name, one.inputs) for one in y]
            for one, other in zip(x, y, strict=True):
                same(one.layer, other.layer)
        elif field.name == "inputs":
            assert list(x) == list(y)
            for name in x:
                same(x[name], y[name])
        elif hasattr(x, "arrays"):
            same(x, y)
        else:
            assert x == y


@st.composite
def models(draw):
    """Any model: layers, activations, states, readouts, dtypes, words, names and remarks of all kinds."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    size = D = draw(st.integers(1, 4))

    def array(*shape):
        return (rng.normal(size=shape) * 10.0 ** rng.integers(-30, 30, shape)).astype(dtype)

    def lstm(H):
        arrays = [array(4, H, size), array(4, H, H), array(4, H), array(H), array(H)]
        activation = draw(st.sampled_from(["tanh", "relu", "linear"]))
        gate = draw(st.sampled_from(["sigmoid", "hard_sigmoid", "hard_sigmoid_3"]))
        return lrp.LSTM(*arrays, activation=activation, recurrent_activation=gate)

    layers = []
    for kind in [*draw(st.lists(st.sampled_from(["lstm", "two", "dense"]), max_size=3)), "lstm", "dense"]:
        H = draw(st.integers(1, 3))
        if kind == "dense":
            layers.append(lrp.Dense(array(H, size), array(H), activation=draw(st.sampled_from(["linear", "tanh"]))))
        elif kind == "two":
            layers.append(lrp.Bidirectional(lstm(H), lstm(H), merge=draw(st.sampled_from(["concat", "sum", "mean"]))))
        else:
            layers.append(lstm(H))
        size = layers[-1].outputs
    embedding = None
    if draw(st.booleans()):
        words = draw(st.none() | st.lists(WORDS, min_size=1, max_size=6, unique=True))
        E = array(len(words) if words else 3, D)
        embedding = lrp.Embedding(
            E,
            vocabulary=words,
            unknown=draw(st.sampled_from([None, *(words or [])])),
            lowercase=draw(st.booleans()),
            tokenizer=draw(st.sampled_from(["space", "treebank", "keras"])),
            mask=draw(st.none() | st.integers(0, len(E) - 1)),
        )
    return lrp.Model(
        layers,
        embedding=embedding,
        readout=draw(st.sampled_from(["last", "mean", "max", "every"])),
        classes=draw(st.none() | st.lists(WORDS, min_size=size, max_size=size, unique=True)),
        features=draw(st.none() | st.lists(WORDS, min_size=D, max_size=D, unique=True)),
        output=draw(st.sampled_from(["linear", "sigmoid"])),
        mask_value=None if embedding else draw(st.none() | st.floats(-9, 9)),
        provenance=draw(st.dictionaries(st.text(max_size=4), st.text(max_size=20), max_size=3)),
    )


@nets.examples(40)
@given(models())
def test_a_round_trip_is_exact(tmp_path_factory, model):
    path = tmp_path_factory.mktemp("native") / "model.h5"
    lrp.save(model, path)
    again = lrp.load(path)
    same(again, model)
    assert again.digest == model.digest
    first = path.read_bytes()
    lrp.save(again, path, overwrite=True)
    if h5py.version.version_tuple >= (3, 16):  # 3.14 and older write the time into a file
        assert path.read_bytes() == first  # the same model is the same file


@pytest.mark.parametrize("size", [1, 100_000])
def test_strings_of_any_size(tmp_path, size):
    model = zoo.NETWORKS["maximum"].model()
    features = [f"feature {k} " + "ü🙂" * (size // 10) for k in range(model.input_size)]
    same(_again(replace(model, features=features), tmp_path), replace(model, features=features))


def _again(model, folder):
    lrp.save(model, folder / "again.h5", overwrite=True)
    return lrp.load(folder / "again.h5")


@pytest.mark.parametrize("word, why", [("a\0b", "NUL"), ("\0", "NUL"), ("\ud800", "UTF-8")])
def test_words_that_cannot_be_stored_are_refused_and_nothing_is_lost(tmp_path, word, why):
    model = zoo.NETWORKS["sentence"].model()
    path = tmp_path / "model.h5"
    lrp.save(model, path)
    before = path.read_bytes()
    words = [word, *(f"w{k}" for k in range(1, zoo.VOCABULARY))]
    with pytest.raises(lrp.LrpError, match=why):
        lrp.save(replace(model, embedding=replace(model.embedding, vocabulary=words)), path, overwrite=True)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.h5"]


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    model = zoo.NETWORKS["sentence"].model()
    path = tmp_path / "model.h5"
    lrp.save(model, path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    for broken in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, broken, full)
            with pytest.raises(lrp.WeightFileError, match="No space left"):
                lrp.save(model, path, overwrite=True)
        assert path.read_bytes() == before and os.listdir(tmp_path) == ["model.h5"]
    with pytest.raises(lrp.WeightFileError, match=r"cannot be written \(No such.*\); choose another name or folder"):
        lrp.save(model, tmp_path / "no such folder" / "model.h5")


def test_hints_of_a_model_without_words(tmp_path):
    rng = np.random.default_rng(0)
    embedding = lrp.Embedding(rng.normal(size=(5, 3)))
    lrp.save(lrp.Model([nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)], embedding=embedding), tmp_path / "model.h5")
    load = partial(files.load, tmp_path / "model.h5")
    words = [*"abcde"]
    assert load(vocabulary=words, pad=["007", "pre", "0"]).inputs["x"].pad[:3] == (7, "pre", 0)
    assert load(vocabulary=words, unknown="").embedding.unknown is False
    assert load(vocabulary={"a": 1, "b": 2, "c": 3, "d": 4}).embedding.vocabulary == ("<pad>", "a", "b", "c", "d")
    for wrong, message in (
        ({"vocabulary": words, "unknown": np.array(["a", "b"])}, "unknown must be a word of the vocabulary"),
        ({"vocabulary": {word: np.array([1, 2]) for word in "abcd"}}, "must name each of the 5 rows once, got 4 words"),
        ({"vocabulary": {k + 1: word for k, word in enumerate("abcd")}}, "of the 5 rows once, got 4 words"),
    ):
        with pytest.raises(lrp.LrpError, match=message):
            load(**wrong)


def test_permissions_and_links_stay(tmp_path):
    model = zoo.NETWORKS["sentence"].model()
    path, link = tmp_path / "model.h5", tmp_path / "link.h5"
    lrp.save(model, path)
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    path.chmod(0o600)
    link.symlink_to(path)
    lrp.save(model, link, overwrite=True)
    assert link.is_symlink() and stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_exists_is_replaced_only_when_told_to(tmp_path):
    model, path, link = zoo.NETWORKS["sentence"].model(), tmp_path / "model.h5", tmp_path / "link.h5"
    path.write_bytes(b"mine")
    link.symlink_to(path)
    saves = [
        partial(lrp.save, model),
        partial(files.save_many, {"a": model}),
        partial(lrp.convert, FIXTURES / "keras3" / "stack.keras"),
    ]
    for save in saves:
        for target in (path, link, str(path)):
            with pytest.raises(lrp.LrpError, match=r"does not exist yet, got .*model\.h5; .*overwrite=True"):
                save(target)
        assert path.read_bytes() == b"mine" and sorted(os.listdir(tmp_path)) == ["link.h5", "model.h5"]
    for save in saves:
        path.write_bytes(b"mine")
        save(link, overwrite=True)
        assert link.is_symlink() and len(path.read_bytes()) > 1000


def test_a_link_that_leads_nowhere_is_filled(tmp_path):
    link = tmp_path / "link.h5"
    link.symlink_to(tmp_path / "model.h5")
    lrp.save(zoo.NETWORKS["sentence"].model(), link)
    assert link.is_symlink() and nets.readout(lrp.load(tmp_path / "model.h5")) == "last"


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
def test_a_file_that_appears_while_we_write_is_not_replaced(tmp_path, monkeypatch, links):
    """Somebody else's file takes the name after it was found free: between the two only the system can tell."""
    model, path, link, fsync = zoo.NETWORKS["sentence"].model(), tmp_path / "model.h5", os.link, os.fsync
    monkeypatch.setattr(os, "link", link if links else none_here)
    lrp.save(model, path)
    good = path.read_bytes()
    path.unlink()

    def taken(handle):
        fsync(handle)
        if stat.S_ISREG(os.fstat(handle).st_mode):  # not the folder, which comes last
            path.write_bytes(b"theirs")
            monkeypatch.setattr(os.path, "lexists", lambda _: False)  # nor does a second look tell

    monkeypatch.setattr(os, "fsync", taken)
    with pytest.raises(lrp.LrpError, match="overwrite=True"):
        lrp.save(model, path)
    assert path.read_bytes() == b"theirs" and os.listdir(tmp_path) == ["model.h5"]
    lrp.save(model, path, overwrite=True)
    assert path.read_bytes() == good and os.listdir(tmp_path) == ["model.h5"]


def none_here(*_):
    """`os.link` on a file system that has no hard links."""
    raise PermissionError(1, "Operation not permitted")


def test_a_name_that_was_taken_for_a_failed_write_is_given_back(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", none_here)
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(lrp.WeightFileError, match="No space left"):
        lrp.save(zoo.NETWORKS["sentence"].model(), tmp_path / "model.h5")
    assert os.listdir(tmp_path) == []


def test_several_models_in_one_file(tmp_path):
    models = {f"addition/{k}": zoo.NETWORKS[name].model() for k, name in enumerate(["relu", "sentence"])}
    path = tmp_path / "toy.h5"
    models["addition/1"] = replace(models["addition/1"], provenance={"error": "0.001"})
    files.save_many(models, path)
    same(lrp.load(path, which="addition/0"), models["addition/0"])
    assert lrp.load(path, which="addition/1").provenance == {"error": "0.001"}
    with pytest.raises(
        lrp.WeightFileError,
        match=r"holds 2 models, 'addition/0', 'addition/1'; say which, as which='addition/0', got None",
    ):
        lrp.load(path)
    with pytest.raises(lrp.WeightFileError, match=r"'addition/0'.*say which, .*got 'addition/2'"):
        lrp.load(path, which="addition/2")
    report = files.inspect(path)
    assert report.models == ("addition/0", "addition/1") and "addition/1" in str(report)
    assert "of 0:last" in str(files.inspect(path, which="addition/1"))


@pytest.mark.parametrize("names", [[], ["a//b"], ["/a"], ["a/."], ["a", "a/b"], ["a\0"], [""]])
def test_names_of_several_models_are_checked(tmp_path, names):
    model = zoo.NETWORKS["relu"].model()
    with pytest.raises(lrp.LrpError, match="save_many"):
        files.save_many(dict.fromkeys(names, model), tmp_path / "toy.h5")
    assert os.listdir(tmp_path) == []


def test_one_model_needs_no_name(tmp_path):
    lrp.save(zoo.NETWORKS["relu"].model(), tmp_path / "one.h5")
    with pytest.raises(lrp.WeightFileError, match="holds one model; leave out which"):
        lrp.load(tmp_path / "one.h5", which="one")


def test_a_newer_version_says_so(tmp_path):
    path = tmp_path / "new.h5"
    lrp.save(zoo.NETWORKS["relu"].model(), path)
    with h5py.File(path, "r+") as file:
        file.attrs["version"] = 3
    with pytest.raises(lrp.WeightFileError, match=r"got 3; it is from a newer lrpnumpy.*upgrade"):
        lrp.load(path)


def test_damaged_weights_are_noticed(tmp_path):
    path = tmp_path / "model.h5"
    model = zoo.NETWORKS["sentence"].model()
    lrp.save(model, path)
    content = path.read_bytes()
    at = content.index(model.layers[0].forward.U.tobytes())
    path.write_bytes(content[: at + 5] + bytes([content[at + 5] ^ 1]) + content[at + 6 :])
    with pytest.raises(lrp.WeightFileError, match="other weights than were saved"):
        lrp.load(path)


def test_what_the_format_page_shows_can_be_read_without_us(tmp_path):
    """Another program needs nothing but HDF5 and JSON."""
    model = zoo.NETWORKS["reference"].model()
    lrp.save(model, tmp_path / "model.h5")
    with h5py.File(tmp_path / "model.h5") as file:
        assert file.attrs["format"] == b"lrpnumpy" and file.attrs["version"] == 2
        settings = json.loads(file.attrs["model"])
        assert [node["layer"]["kind"] for node in settings["nodes"]] == ["Bidirectional", "Dense"]
        np.testing.assert_array_equal(file["layers/0/backward/U"], model.layers[0].backward.U)
        words = [word.decode("utf-8") for word in file["inputs/x/vocabulary"]]
        assert tuple(words) == model.embedding.vocabulary


def test_shipped_models_by_name(tmp_path, monkeypatch):
    (tmp_path / "weights").mkdir()
    model = zoo.NETWORKS["sentence"].model()
    lrp.save(model, tmp_path / "weights" / "tiny.h5")
    monkeypatch.setattr(files, "SHIPPED", (tmp_path / "nowhere", tmp_path / "weights"))
    monkeypatch.chdir(tmp_path)
    assert lrp.load("tiny").digest == model.digest
    with pytest.raises(lrp.WeightFileError, match=r"no bundled model of this name; bundled are 'tiny'"):
        lrp.load("tinny")
    with pytest.raises(lrp.WeightFileError, match="no such file"):
        lrp.load("tiny.h5")
    with pytest.raises(lrp.WeightFileError, match="no such file"):
        lrp.load(Path("tiny"))  # a path is a path
    lrp.save(model, tmp_path / "mine")
    assert lrp.load("mine").digest == model.digest  # a file without an ending


@pytest.mark.parametrize("path", [None, 3, b"model.h5"])
def test_a_path_must_be_one(path):
    with pytest.raises(lrp.LrpError, match="path must be"):
        lrp.load(path)


def test_only_models_are_saved(tmp_path):
    with pytest.raises(lrp.LrpError, match="must be a Model, got dict"):
        lrp.save({}, tmp_path / "model.h5")


@pytest.mark.parametrize("readout", ["last", "mean", "every"])
def test_an_older_file_has_a_readout_and_a_list_of_layers(tmp_path, readout):
    rng = np.random.default_rng(0)
    model = lrp.Model([nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)], readout=readout)
    lrp.save(model, tmp_path / "model.h5")
    with h5py.File(tmp_path / "model.h5", "r+") as file:
        settings = json.loads(file.attrs["model"])
        nodes = [{**node, "inputs": []} for node in settings["nodes"] if node["name"] != "readout"]
        settings |= {"nodes": nodes, "readout": readout, "result": None}
        file.attrs["model"] = np.bytes_(json.dumps(settings))
    assert lrp.load(tmp_path / "model.h5").digest == model.digest
