"""Malicious files: each is refused with file, place and reason, before anything is run, followed or unpacked.

Among them what these describe: CVE-2024-3660, CVE-2025-1550 and CVE-2025-9905 (code in configurations), CVE-2026-0897
(a small file that declares terabytes) and CVE-2026-1669 (a file of the host read through external storage).
"""

import io
import json
import os
import pickle
import pickletools
import re
import resource
import struct
import subprocess
import sys
import time
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from interop import zoo

import lrpnumpy as lrp
from lrpnumpy import files
from lrpnumpy.files import isolated, pickles
from lrpnumpy.files.safe import MAX_TEXT, Budget, Source

FIXTURES = Path(__file__).parents[1] / "fixtures"
MATRIX = "layers/0/forward/U"  # of the native file below


def refused(path, *reasons, **load):
    """The message of the WeightFileError, which names the file and has each of the reasons."""
    with pytest.raises(lrp.WeightFileError) as caught:
        files.load(path, **load)
    message = str(caught.value)
    assert str(path) in message
    for reason in reasons:
        assert reason in message
    return message


@pytest.fixture
def native(tmp_path):
    """A valid file to make a bad one of; U is (4, 3, 4)."""
    path = tmp_path / "model.h5"
    lrp.save(zoo.NETWORKS["reference"].model(), path)
    return path


@pytest.fixture
def secret(tmp_path):
    """A file of the host that must never be read."""
    path = tmp_path / "secret"
    path.write_bytes(np.linspace(0, 1, 4 * 3 * 4, dtype="<f4").tobytes())
    return path


def replaced(path, dataset, make):
    """The dataset of a file made anew by `make(file, name)`."""
    with h5py.File(path, "r+") as file:
        del file[dataset]
        make(file, dataset)


# ---------------------------------------------------------------------------------------------------------- HDF5 links


def test_soft_links(native):
    replaced(native, MATRIX, lambda file, name: file.__setitem__(name, h5py.SoftLink("/layers/0/backward/U")))
    refused(native, MATRIX, "soft link")


def test_links_to_other_files(native, tmp_path):
    other = tmp_path / "other.h5"
    lrp.save(zoo.NETWORKS["reference"].model(), other)
    replaced(native, MATRIX, lambda file, name: file.__setitem__(name, h5py.ExternalLink("other.h5", MATRIX)))
    refused(native, MATRIX, "link to another file")


def test_links_in_the_middle_of_a_path(native, tmp_path):
    other = tmp_path / "other.h5"
    lrp.save(zoo.NETWORKS["reference"].model(), other)
    for link in (h5py.ExternalLink("other.h5", "/layers"), h5py.SoftLink("/elsewhere")):
        with h5py.File(native, "r+") as file:
            if isinstance(file.get("layers", getlink=True), h5py.HardLink):
                file.move("layers", "elsewhere")
            else:
                del file["layers"]
            file["layers"] = link
        refused(native, "layers", "never followed")


def test_groups_that_contain_themselves(tmp_path):
    path = tmp_path / "loop.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("a")
        group["again"] = group
    refused(path, "levels deep")


# ----------------------------------------------------------------------------------------------------- HDF5 datasets


def test_external_storage_reads_no_file_of_the_host(native, secret):  # CVE-2026-1669
    size = secret.stat().st_size
    make = {"shape": (4, 3, 4), "dtype": "<f4", "external": [(str(secret), 0, size)]}
    replaced(native, MATRIX, lambda file, name: file.create_dataset(name, **make))
    with h5py.File(native) as file:  # h5py alone would hand out the secret
        assert file[MATRIX][0, 0, 1] > 0
    refused(native, MATRIX, "external storage")


def test_virtual_datasets(native, tmp_path):
    other = tmp_path / "other.h5"
    lrp.save(zoo.NETWORKS["reference"].model(), other)
    layout = h5py.VirtualLayout((4, 3, 4), "<f4")
    layout[:] = h5py.VirtualSource(other, MATRIX, (4, 3, 4))
    replaced(native, MATRIX, lambda file, name: file.create_virtual_dataset(name, layout))
    refused(native, MATRIX, "virtual dataset")


@pytest.mark.parametrize("limits", [{}, {"max_bytes": 2**50}])
def test_a_small_file_that_declares_terabytes(tmp_path, limits):  # CVE-2026-0897
    path = tmp_path / "bomb.h5"
    model = zoo.NETWORKS["sentence"].model()
    lrp.save(model, path)
    rows = 2**40 // 4

    def bomb(file, name):
        settings = json.loads(file.attrs["model"])
        settings["inputs"][0]["embedding"]["rows"] = rows
        file.attrs["model"] = np.bytes_(json.dumps(settings))
        file.create_dataset(name, (rows, 4), "<f4", chunks=(2**16, 4), compression="gzip")

    replaced(path, "inputs/x/E", bomb)
    assert path.stat().st_size < 20_000
    refused(path, "inputs/x/E", "over the limit", **limits)


def test_a_declared_shape_that_is_not_the_expected_one(native):
    replaced(native, MATRIX, lambda file, name: file.create_dataset(name, (4, 3, 2**37), "<f4", chunks=(1, 1, 2**20)))
    refused(native, MATRIX, "must have shape (4, 3, 4)")


def test_data_that_was_never_written(native):
    replaced(native, MATRIX, lambda file, name: file.create_dataset(name, (4, 3, 4), "<f4"))
    refused(native, MATRIX, "the file has 0")


def test_chunks_larger_than_the_array(native):
    make = {"maxshape": (None, None, None), "chunks": (1, 1, 2**29), "compression": "gzip"}
    replaced(native, MATRIX, lambda file, name: file.create_dataset(name, (4, 3, 4), "<f4", **make))
    refused(native, MATRIX, "declares")


def test_a_chunk_that_unpacks_to_far_more_than_it_should(native):
    def bomb(file, name):
        dataset = file.create_dataset(name, (4, 3, 4), "<f4", chunks=(4, 3, 4), compression="gzip")
        dataset.id.write_direct_chunk((0, 0, 0), zlib.compress(bytes(2**25), 9))  # under 64 KiB

    replaced(native, MATRIX, bomb)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(native, MATRIX, "unpacked")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**14  # KiB: half of what it unpacks to


@pytest.mark.parametrize("filters", [{"compression": "lzf"}, {"scaleoffset": 3}])
def test_other_filters(native, filters):
    replaced(native, MATRIX, lambda file, name: file.create_dataset(name, data=np.ones((4, 3, 4), "<f4"), **filters))
    refused(native, MATRIX, "only gzip, shuffle and fletcher32")


def test_the_allowed_filters(native):
    with h5py.File(native, "r+") as file:
        data = file[MATRIX][()]
        del file[MATRIX]
        file.create_dataset(MATRIX, data=data, compression="gzip", shuffle=True, fletcher32=True, chunks=(2, 2, 3))
    assert files.load(native).digest == zoo.NETWORKS["reference"].model().digest


@pytest.mark.parametrize(
    "data",
    [
        np.ones((4, 3, 4), np.int64),
        np.ones((4, 3, 4), bool),
        np.ones((4, 3, 4), complex),
        np.ones((4, 3, 4), [("a", "<f4")]),
        np.full((4, 3, 4), b"x"),
        np.ones((4, 3, 4), np.longdouble),
    ],
    ids=lambda data: str(data.dtype),
)
def test_other_types(native, data):
    replaced(native, MATRIX, lambda file, name: file.create_dataset(name, data=data))
    refused(native, MATRIX, "must hold float16, float32 or float64")


def test_a_compound_type_that_lies_about_its_members(native):  # CVE-2016-4333
    data = np.ones((4, 3, 4), [("a", "<f4")])
    replaced(native, MATRIX, lambda file, name: file.create_dataset(name, data=data))
    content, said = native.read_bytes(), b"\x16\x01\x00\x00\x04\x00\x00\x00"  # one member, in four bytes
    assert content.count(said) == 1
    native.write_bytes(content.replace(said, b"\x16\xff\xff\x00\x04\x00\x00\x00"))
    refused(native, MATRIX)


def test_variable_strings_and_references_are_no_vocabulary(native):
    name = "inputs/x/vocabulary"
    words = [f"w{k}" for k in range(zoo.VOCABULARY)]
    replaced(native, name, lambda file, at: file.create_dataset(at, data=words, dtype=h5py.string_dtype()))
    refused(native, name, "fixed stored length")
    replaced(native, name, lambda file, at: file.create_dataset(at, (zoo.VOCABULARY,), dtype=h5py.ref_dtype))
    refused(native, name, "fixed stored length")


def test_words_that_are_not_utf8(native):
    data = np.array([b"\xff%d" % k for k in range(zoo.VOCABULARY)])
    replaced(native, "inputs/x/vocabulary", lambda file, name: file.create_dataset(name, data=data))
    refused(native, "inputs/x/vocabulary", "UTF-8")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite(native, value):
    replaced(native, MATRIX, lambda file, name: file.create_dataset(name, data=np.full((4, 3, 4), value, "<f4")))
    refused(native, "U must be finite")


def test_a_group_where_a_dataset_should_be(native):
    replaced(native, MATRIX, lambda file, name: file.create_group(name))
    refused(native, MATRIX, "must be a dataset")
    with h5py.File(native, "r+") as file:
        del file[MATRIX]
    refused(native, MATRIX, "is missing")


# --------------------------------------------------------------------------------------------------- HDF5 attributes


@pytest.mark.parametrize(
    "text, reason",
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "must be a JSON object"),
        ("{}", "nodes must be a list, got nothing"),
        ('{"nodes": [3]}', "node 0: must be a JSON object"),
        ('{"nodes": [{"name": "0", "layer": {"kind": "Model"}}]}', "Model is a custom layer; pass its class to load"),
        (
            '{"nodes": [{"name": "0", "layer": {"kind": "LSTM", "arrays": {"x": []}, "parts": {}, "settings": {}}}]}',
            "'x'",
        ),
        ('{"nodes": [], "inputs": 1}', "inputs must be a list"),
        ('{"nodes": [], "readout": 1}', "readout must be a string"),
        (" " * (MAX_TEXT + 1), "too much for an attribute"),
    ],
)
def test_settings_that_are_none(native, text, reason):
    with h5py.File(native, "r+", libver=("v110", "v110")) as file:
        file.attrs["model"] = np.bytes_(text)
    refused(native, "@model", reason)


def test_attributes_of_other_types(native):
    for value in (np.zeros((3, 3)), 1.5, np.zeros(3, [("a", "i4")]), h5py.Empty("f4")):
        with h5py.File(native, "r+") as file:
            file.attrs["model"] = value
        refused(native, "@model")


def variable(path, change):
    """A file whose layer_names is a string of variable length, its bytes changed by `change(data, at, heap)`."""
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = np.array(["one"], dtype=h5py.string_dtype())
    data = bytearray(path.read_bytes())
    heap = data.index(b"GCOL")
    change(data, data.index(struct.pack("<IQI", 3, heap, 1)), heap)
    path.write_bytes(data)


def put(data, at, form, *values):
    data[at : at + struct.calcsize(form)] = struct.pack(form, *values)


@pytest.mark.parametrize(
    "change, reason",
    [
        (lambda data, at, heap: put(data, at, "<I", 2**31), "2,147,483,648 bytes, of which 3 are there"),
        (lambda data, at, heap: put(data, at + 4, "<Q", 2**60), "outside the file"),
        (lambda data, at, heap: put(data, at + 4, "<Q", 8), "heap that does not exist"),
        (lambda data, at, heap: put(data, at + 12, "<I", 999), "of which 0 are there"),
        (lambda data, at, heap: put(data, heap + 8, "<Q", 2**50), "outside the file"),
        (lambda data, at, heap: put(data, heap + 24, "<Q", 2**64 - 1), "do not fit"),
        (lambda data, at, heap: put(data, heap + 16, "<H6xQ", 0, 0), "of which 0 are there"),  # h5py hangs on this one
        (lambda data, at, heap: put(data, heap + 32, "<3s", b"\xff\xfe\xfd"), "UTF-8"),
    ],
)
def test_strings_of_variable_length_that_are_not_what_they_say(tmp_path, change, reason):
    variable(tmp_path / "names.h5", change)
    refused(tmp_path / "names.h5", "@layer_names", reason)


def test_lists_of_strings_that_all_point_at_the_same_bytes(tmp_path):
    path = tmp_path / "names.h5"
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = np.array(["x" * 30_000] + ["y"] * 3000, dtype=h5py.string_dtype())
    data = bytearray(path.read_bytes())
    long = struct.pack("<I", 30_000)
    at = next(k for k in range(len(data)) if data[k : k + 4] == long and data[k + 16 : k + 20] == b"\1\0\0\0")
    data[at : at + 16 * 3001] = data[at : at + 16] * 3001  # 90 MB in a file of 200 KB
    path.write_bytes(data)
    refused(path, "@layer_names", "over the limit")


def test_messages_do_not_command_the_terminal(tmp_path):
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["\x1b[2Jgone\r\n\u202e"] = np.ones(3)
        file[b"\xff\xfe"] = np.ones(3)
    message = refused(path, r"\x1b[2Jgone\r\n\u202e", r"\udcff\udcfe")
    assert message.isprintable()
    model = zoo.NETWORKS["reference"].model()
    words = ["\x1b[31m\n", *model.embedding.vocabulary[1:]]
    lrp.save(replace(model, embedding=replace(model.embedding, vocabulary=words)), path, overwrite=True)
    assert all(line.isprintable() for line in str(files.inspect(path)).split("\n"))


def test_a_million_words_with_one_twice(tmp_path):
    path = tmp_path / "model.h5"
    model = zoo.NETWORKS["reference"].model()
    count = 100_000
    E = np.zeros((count, 4), np.float32)
    lrp.save(replace(model, embedding=lrp.Embedding(E, vocabulary=[str(k) for k in range(count)])), path)
    words = np.array([str(k) for k in range(count - 1)] + ["7"], "S6")
    replaced(path, "inputs/x/vocabulary", lambda file, name: file.create_dataset(name, data=words))
    began = time.process_time()
    refused(path, "'7' twice")
    assert time.process_time() - began < 60


# ----------------------------------------------------------------------------------------------- code in configurations

LAMBDA = {  # as Keras stores Python code: marshalled, in base64
    "class_name": "Lambda",
    "config": {"name": "lambda", "function": {"class_name": "__lambda__", "config": {"code": "4wAAAA==\n"}}},
}
SYSTEM = {  # CVE-2025-1550: a function of any module as a "layer"
    "module": "os", "class_name": "function", "config": "system", "registered_name": "system",
    "inbound_nodes": [{"args": ["touch owned"], "kwargs": {}}],
}  # fmt: skip
PICKLED = {"module": "builtins", "class_name": "eval", "config": {"name": "x", "__builtins__": "eval"}}
DOTTED = {"class_name": "os.system", "config": {"name": "touch owned"}}
DOWNLOAD = {  # CVE-2025-8747: a helper of Keras itself, which fetches a file
    "module": "keras.utils", "class_name": "function", "config": "get_file", "registered_name": "get_file",
    "inbound_nodes": [{"args": ["owned", "http://127.0.0.1:9/owned"], "kwargs": {}}],
}  # fmt: skip
UNSAFE = {  # CVE-2025-9906: switches the safe mode off, for a Lambda behind it
    "module": "keras.config", "class_name": "function", "config": "enable_unsafe_deserialization",
    "registered_name": "enable_unsafe_deserialization", "inbound_nodes": [{"args": [], "kwargs": {}}],
}  # fmt: skip
SAVED = {  # CVE-2026-1462: a SavedModel of TensorFlow, at a path that the file names
    "module": "keras.layers", "class_name": "TFSMLayer", "config": {"name": "saved", "filepath": "owned"},
}  # fmt: skip
PICKLE = {"class_name": "__bytes__", "config": {"value": "cos\nsystem\n(S'touch owned'\ntR."}}
WRAPPED = {  # CVE-2025-49655: a pickle of PyTorch inside a layer
    "module": "keras.layers", "class_name": "TorchModuleWrapper", "config": {"name": "wrapped", "module": PICKLE},
}  # fmt: skip
CODE = {
    "lambda": LAMBDA, "function": SYSTEM, "eval": PICKLED, "dotted": DOTTED, "download": DOWNLOAD, "unsafe": UNSAFE,
    "saved": SAVED, "wrapped": WRAPPED,
}  # fmt: skip


@pytest.mark.parametrize("layer", CODE.values(), ids=CODE)
@pytest.mark.parametrize("kind", ["h5", "keras"])
def test_code_in_a_configuration_is_never_run(tmp_path, monkeypatch, layer, kind):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"model.{kind}"
    if kind == "h5":
        path.write_bytes((FIXTURES / "tf_keras" / "stack.h5").read_bytes())
        with h5py.File(path, "r+") as file:
            config = json.loads(file.attrs["model_config"])
            config["config"]["layers"].insert(1, layer)
            file.attrs["model_config"] = json.dumps(config)
    else:
        rewrite_archive(FIXTURES / "keras3" / "stack.keras", path, lambda c: c["config"]["layers"].insert(1, layer))
    called = []
    monkeypatch.setattr(os, "system", called.append)
    name = layer["class_name"]
    message = refused(path)
    assert name in message and "not supported" in message
    assert not called and os.listdir(tmp_path) == [path.name]


def rewrite_archive(source, target, change=None, drop=(), add=None):
    """A `.keras` file with its configuration changed, members left out, or added."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "config.json" and change is not None:
                config = json.loads(content)
                change(config)
                content = json.dumps(config).encode()
            if name not in drop:
                new.writestr(name, content)
        for name, content in (add or {}).items():
            new.writestr(name, content, compress_type=zipfile.ZIP_DEFLATED)


def test_activations_are_names_and_never_functions(tmp_path):
    def change(config):
        lstm = next(layer for layer in config["config"]["layers"] if layer["class_name"] == "LSTM")
        lstm["config"]["activation"] = {"module": "builtins", "class_name": "function", "config": "eval"}

    rewrite_archive(FIXTURES / "keras3" / "stack.keras", tmp_path / "model.keras", change)
    refused(tmp_path / "model.keras", "lstm", "activation is eval, which is not supported")


# ------------------------------------------------------------------------------------------------------------ archives


def test_paths_in_archives_are_labels(tmp_path, monkeypatch):
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    rewrite_archive(
        FIXTURES / "keras3" / "stack.keras",
        inside / "model.keras",
        add={"../../owned": b"x", "/tmp/owned": b"x", "..\\owned": b"x", "assets/../../owned": b"x"},
    )
    assert files.load(inside / "model.keras").outputs == 2
    assert os.listdir(tmp_path) == ["inside"] and os.listdir(inside) == ["model.keras"]


def test_names_of_layers_are_labels(tmp_path, monkeypatch):  # CVE-2026-12479
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)

    def change(config):
        next(layer for layer in config["config"]["layers"] if layer["class_name"] == "LSTM")["config"]["name"] = (
            "../../owned"
        )

    rewrite_archive(FIXTURES / "keras3" / "stack.keras", inside / "model.keras", change)
    model = files.load(inside / "model.keras")
    files.save(model, inside / "copy.h5")
    assert files.load(inside / "copy.h5").digest == model.digest
    assert os.listdir(tmp_path) == ["inside"] and sorted(os.listdir(inside)) == ["copy.h5", "model.keras"]


def test_archives_that_unpack_to_too_much(tmp_path):
    path = tmp_path / "model.keras"
    big = {"config.json": b" " * (MAX_TEXT + 1)}
    rewrite_archive(FIXTURES / "keras3" / "stack.keras", path, drop=big, add=big)
    refused(path, "config.json", "over the limit")
    big = {"model.weights.h5": bytes(2**20)}
    rewrite_archive(FIXTURES / "keras3" / "stack.keras", path, drop=big, add=big)
    refused(path, "model.weights.h5", "over the limit", max_bytes=2**19)


def test_archives_that_lie_about_sizes(tmp_path):
    path = tmp_path / "arrays.npz"
    np.savez_compressed(path, **zoo.torch_arrays(zoo.NETWORKS["sentence"].model()))
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x01\x02")  # the first entry of the directory: its size, unpacked
    content[at + 24 : at + 28] = struct.pack("<I", 2**31)
    path.write_bytes(content)
    refused(path, readout="last")


def test_two_members_of_one_name_and_encrypted_ones(tmp_path):
    path = tmp_path / "model.keras"
    with pytest.warns(UserWarning, match="Duplicate"):
        rewrite_archive(FIXTURES / "keras3" / "stack.keras", path, add={"config.json": b"{}"})
    refused(path, "two of one name")
    rewrite_archive(FIXTURES / "keras3" / "stack.keras", path)
    content = path.read_bytes()
    locked = content.replace(b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00")
    assert locked != content
    path.write_bytes(locked)
    refused(path, "encrypted")


def test_pickled_objects_in_npz(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, ("touch owned",)

    path = tmp_path / "arrays.npz"
    np.savez(path, weight_ih_l0=np.array([Evil()], dtype=object))
    refused(path, "weight_ih_l0", "must hold numbers", readout="last")
    assert not Path("owned").exists()


def test_npz_headers_that_declare_too_much(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (2**20, 2**20)})
    path = tmp_path / "arrays.npz"
    good = zoo.torch_arrays(zoo.NETWORKS["sentence"].model())
    np.savez(path, **{name: array for name, array in good.items() if name != "embedding.weight"})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("embedding.weight.npy", header.getvalue() + b"1234")
    refused(path, readout="last")


def test_commands_in_files_of_torch_save(tmp_path):
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", b"cos\nsystem\n(S'touch owned'\ntR.")
    refused(path, "os.system", "nothing of it was run")


# --------------------------------------------------------------------------------------------------------- safetensors


def safetensors(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)


@pytest.mark.parametrize(
    "item, reason",
    [
        ({"dtype": "F32", "shape": [2**20, 2**20], "data_offsets": [0, 2**42]}, "does not fit"),
        ({"dtype": "F32", "shape": [4, 1], "data_offsets": [-16, 0]}, "whole numbers"),
        ({"dtype": "F32", "shape": [4, 1], "data_offsets": [16, 0]}, "does not fit"),
        ({"dtype": "F32", "shape": [4, 10**300], "data_offsets": [0, 16]}, "which no array has"),
        ({"dtype": "F32", "shape": [4, 1], "data_offsets": [0, 16, 32]}, "two offsets"),
        ({"dtype": "F32", "shape": [4.0, 1], "data_offsets": [0, 16]}, "whole numbers"),
        ({"dtype": "I64", "shape": [2, 1], "data_offsets": [0, 16]}, "must hold F16"),
        ({"shape": [4, 1]}, "must be"),
        (3, "must be a JSON object"),
    ],
)
def test_safetensors_headers(tmp_path, item, reason):
    path = tmp_path / "model.safetensors"
    safetensors(path, {"weight_ih_l0": item}, bytes(16))
    refused(path, "weight_ih_l0", reason, readout="last")


def test_safetensors_header_that_is_too_long(tmp_path):
    path = tmp_path / "model.safetensors"
    safetensors(path, b"{" + b" " * MAX_TEXT + b"}")
    refused(path, "header")
    safetensors(path, b"{", length=2**63)
    refused(path, "not known")


# ------------------------------------------------------------------------------------------------------------- pickles


def reference(tmp_path, **contents):
    """The folder of LRP_for_LSTM with some of its files replaced."""
    folder = tmp_path / "model"
    folder.mkdir()
    for path in (FIXTURES / "reference" / "reference4").iterdir():
        (folder / path.name).write_bytes(contents.get(path.stem, path.read_bytes()))
    return folder


class Evil:
    def __reduce__(self):
        return os.system, ("touch owned",)


class Sneaky:
    """A class of NumPy that is not an array."""

    def __reduce__(self):
        return np.memmap, ("/etc/passwd", "u1", "r")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("thing", [Evil(), {"Wxh_Left": Evil()}, [Sneaky()]])
def test_pickles_that_call_something(tmp_path, monkeypatch, protocol, thing):
    monkeypatch.chdir(tmp_path)
    called = []
    monkeypatch.setattr(os, "system", called.append)
    folder = reference(tmp_path, model=pickle.dumps(thing, protocol))
    refused(folder, "model", "never loaded")
    assert not called and os.listdir(tmp_path) == ["model"]


def nested_tuples():
    """A tuple of a tuple of … twice each: to hash it takes 2**64 steps."""
    return b"\x80\x02}" + b")" + b"2\x86" * 64 + b"K\x01s."


PICKLES = {
    "empty": b"",
    "text": b"hello\n",
    "huge memory": b"\x80\x02]r\xff\xff\xff\x7f.",
    "huge string": b"\x80\x02T\xff\xff\xff\x7fabc.",
    "huge bytes": b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7fabc.",
    "hash for ever": nested_tuples(),
    "instance": b"(ios\nsystem\n.",
    "object": b"(cos\nsystem\no.",
    "new object": b"\x80\x02cnumpy\ndtype\n)\x81.",
    "persistent": b"Pabc\n.",
    "extension": b"\x80\x02\x82\x01.",
    "state of a list": b"\x80\x02]}b.",
    "nothing left": b"\x80\x02.",
    "no mark": b"\x80\x02e.",
    "pops too much": b"\x80\x02\x87.",
    "call a string": b"\x80\x02X\x01\x00\x00\x00a)R.",
    "call the class": b"\x80\x02cnumpy\nndarray\n)R.",
    "set": b"\x80\x04\x8f.",
    "global of two lines": b"\x80\x02cnumpy.core\nmultiarray._reconstruct\n.",
    "global on the stack": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
    "array of nothing": pickle.dumps({"Whh_Left": np.ones((12, 3), "f4")}),
    "array of objects": pickle.dumps({"Whh_Left": np.array([{}], object)}),
    "array of integers": pickle.dumps({"Whh_Left": np.ones((12, 3), int)}),
}


@pytest.mark.parametrize("name", PICKLES)
def test_pickles_of_all_kinds(tmp_path, name):
    began = time.process_time()
    refused(reference(tmp_path, model=PICKLES[name]))
    assert time.process_time() - began < 10


ARGUMENTS = (b"", b"\x00" * 9, b"\xff" * 9, b"\x01a\n", b"os\nsystem\n", b"12\n", b"-1L\n", b"'a'\n", b"\x08" * 9)
BEFORE = (b"", b"(", b"]", b"}", b")", b"]q\x00", b"(K\x01K\x02", b"}K\x01", b"cnet\nNet\n)", b"cnet\nNet\n)\x81}")


def test_every_instruction_of_pickles(tmp_path):
    """Each byte as an instruction, with all kinds of arguments behind it and values before it: an error, in no time."""
    source = Source(str(tmp_path / "model.pt"))
    outcomes = {"value": 0, "error": 0}
    began = time.process_time()
    for code in range(256):
        for before in BEFORE:
            for argument in ARGUMENTS:
                content = b"\x80\x02" + before + bytes([code]) + argument + b"."
                source.budget = Budget("x", len(content))
                try:
                    pickles.run(source, "data.pkl", content, persistent=str)
                    outcomes["value"] += 1
                except lrp.WeightFileError:
                    outcomes["error"] += 1
    assert min(outcomes.values()) > 400 and time.process_time() - began < 60
    known = {ord(one.code) for one in pickletools.opcodes}
    assert set(pickles._INSTRUCTIONS) | {0x2E} <= known
    missing = {one.name for one in pickletools.opcodes if ord(one.code) not in pickles._INSTRUCTIONS}
    assert missing == {"STOP", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER"}  # refused by name


def test_pickled_arrays_that_declare_another_shape(tmp_path):
    content = pickle.dumps({"Whh_Left": np.ones((12, 3), "f4")}, 2).replace(b"K\x0cK\x03\x86", b"K\x0cK\x7f\x86")
    refused(reference(tmp_path, model=content), "Whh_Left", "does not fit")


def test_a_vocabulary_that_is_no_list(tmp_path):
    refused(reference(tmp_path, vocab=pickle.dumps({"a": 1})), "vocab", "list of strings")


def test_embeddings_that_are_pickled(tmp_path):
    stream = io.BytesIO()
    np.save(stream, np.array([Evil()], dtype=object))
    refused(reference(tmp_path, embeddings=stream.getvalue()), "embeddings.npy", "must hold numbers")


# ------------------------------------------------------------------------------------------- not files, and not models


def test_pipes_devices_and_folders(tmp_path):
    os.mkfifo(tmp_path / "pipe.h5")
    refused(tmp_path / "pipe.h5", "regular file")
    refused("/dev/zero", "regular file")
    refused(tmp_path, "folder")
    refused(tmp_path / "none.h5", "no such file")


@pytest.mark.parametrize(
    "content", [b"", b"\x00", b"hello", b"PK\x03\x04", b"\x89HDF\r\n\x1a\n", b"\x08\x07\x12", bytes(9000)]
)
def test_foreign_and_truncated_files(tmp_path, content):
    path = tmp_path / "model.h5"
    path.write_bytes(content)
    refused(path)


def test_foreign_hdf5_says_what_is_in_it(tmp_path):
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["measurements/temperature"] = np.ones(3)
    refused(path, "measurements/temperature", "supported are", "Keras")


def test_every_truncation_of_a_small_file(native, tmp_path):
    content = native.read_bytes()
    for length in range(0, len(content), 97):
        (tmp_path / "short.h5").write_bytes(content[:length])
        refused(tmp_path / "short.h5")


# ------------------------------------------------------------------------------------------ a process of its own


def child(tmp_path, monkeypatch, script):
    """Have `script` run in place of the child process."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(isolated.sys, "executable", str(program))


def test_a_crash_in_the_child_is_an_error(native, tmp_path, monkeypatch):
    child(tmp_path, monkeypatch, "kill -SEGV $$")
    refused(native, "crashed the process", "-11", isolate=True)


def test_a_hang_in_the_child_is_an_error(native, tmp_path, monkeypatch):
    child(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setattr(isolated, "SECONDS", 0.2)
    refused(native, "took more than", isolate=True)


@pytest.mark.parametrize(
    "answer",
    ["", "hello", "{}", "[]", '{"kind": 1}', '{"kind": "x", "notes": [], "models": [], "model": {}}', "[" * 5000],
)
def test_a_child_that_was_taken_over_is_not_believed(native, tmp_path, monkeypatch, answer):
    child(tmp_path, monkeypatch, f"cat > /dev/null; printf '%s\\n' '{answer}'")
    refused(native, isolate=True)


def test_a_child_that_never_stops_talking(native, tmp_path, monkeypatch):
    child(tmp_path, monkeypatch, "exec cat /dev/zero")
    refused(native, isolate=True, max_bytes=2**20)


def test_errors_of_the_child_are_ours(native, tmp_path):
    native.write_bytes(native.read_bytes()[:-200])
    alone, here = refused(native, isolate=True), refused(native)
    assert alone == here


def test_the_child_does_not_import_from_the_current_folder(native, tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('owned')")
    (tmp_path / "h5py.py").write_text("raise SystemExit('owned')")
    code = f"import lrpnumpy, os; os.chdir({str(tmp_path)!r}); print(lrpnumpy.load('model.h5', isolate=True).result)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=FIXTURES.parents[1])
    assert done.stdout.strip() == "1", done.stderr


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4"])
def test_large_arrays_in_pickles(protocol, dtype):
    """Python 3 writes their bytes as a text of latin-1 up to protocol 2."""
    array = np.random.default_rng(0).normal(size=(60, 50)).astype(dtype)
    source = Source("a.pickle")
    given = {"C": array, "F": np.asfortranarray(array), "yes": [True, False]}
    found = pickles.plain(source, "a", pickle.dumps(given, protocol))
    for name in "CF":
        np.testing.assert_array_equal(pickles.array(source, name, found[name]), array)
    assert found["yes"] == [True, False]
    with pytest.raises(lrp.WeightFileError, match="must be an array, got list of 2"):
        pickles.array(source, "yes", found["yes"])


def test_the_oldest_pickles():
    source = Source("a.pickle")
    plain = [True, False, 3, 2.5, "a", None]
    assert pickles.plain(source, "a", pickle.dumps(plain, 0)) == plain
    record, _ = pickles.run(source, "a", b"(I1\nicollections\nOrderedDict\n.")  # INST
    assert record.name == "collections.OrderedDict" and record.arguments == (1,)
    pairs, _ = pickles.run(source, "a", b"ccollections\nOrderedDict\n(((S'a'\nI1\nlp0\nltR.")
    assert pickles.entries(pairs) is not None
    with pytest.raises(lrp.WeightFileError, match="a whole number of 41 bytes"):
        pickles.plain(source, "a", b"I" + b"1" * 100 + b"\n.")


WORDS = [
    "caf\xe9",
    "it's",
    'a "b"',
    "back\\slash",
    "\u65e5\u672c",
    "new\nline",
    "tab\t",
    "\U0001f642",
    "\\u0041",
    "\\x41",
]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_words_of_pickles_of_every_protocol(tmp_path, protocol):
    folder = FIXTURES / "reference" / "reference4"
    words = [str(word) for word in files.load(folder).embedding.vocabulary]
    words[: len(WORDS)] = WORDS
    model = files.load(reference(tmp_path, vocab=pickle.dumps(words, protocol)))
    assert list(model.embedding.vocabulary) == words


def test_words_of_python_2(tmp_path):
    """It wrote strings of bytes as it showed them."""
    words = [str(word) for word in files.load(FIXTURES / "reference" / "reference4").embedding.vocabulary]
    words[: len(WORDS)] = WORDS
    lines = [b"S" + repr(word.encode()).encode()[1:] + b"\na" for word in words]
    model = files.load(reference(tmp_path, vocab=b"(l" + b"".join(lines) + b"."))
    assert list(model.embedding.vocabulary) == words


def stored_members(path):
    """An archive of two arrays that are not packed, the places of its list of members and of its headers."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
            shape = {"weight_ih_l0": (8, 3), "weight_hh_l0": (8, 2)}.get(name, (8,))
            stream = io.BytesIO()
            np.save(stream, np.ones(shape, "f4"))
            archive.writestr(f"{name}.npy", stream.getvalue())
    content = bytearray(path.read_bytes())
    listed = [m.start() for m in re.finditer(b"PK\x01\x02", content)]
    headers = [m.start() for m in re.finditer(b"PK\x03\x04", content)]
    return content, listed, headers


def test_a_stored_member_is_not_read_into_the_one_behind_it(tmp_path):
    path = tmp_path / "model.npz"
    content, listed, headers = stored_members(path)
    files.load(path, readout="last")
    first = content[headers[0] + 30 + len("weight_ih_l0.npy") : headers[1]]
    longer = content[headers[0] + 30 + len("weight_ih_l0.npy") : headers[1] + 40]
    for changed, size in ((first, len(first) - 40), (longer, len(longer))):  # of the packed bytes, of the unpacked ones
        damaged = bytearray(content)
        at = listed[0] + (20 if changed is first else 24)
        struct.pack_into("<I", damaged, at, size)
        struct.pack_into("<I", damaged, listed[0] + 16, zlib.crc32(changed))
        path.write_bytes(damaged)
        refused(path, "weight_ih_l0", "is not packed, and declares")


def test_a_member_that_starts_in_the_one_behind_it(tmp_path):
    path = tmp_path / "model.npz"
    content, listed, headers = stored_members(path)
    struct.pack_into("<H", content, headers[0] + 28, 64)  # fields behind the name, which the list does not have
    start = headers[0] + 30 + len("weight_ih_l0.npy") + 64
    size = struct.unpack_from("<I", content, listed[0] + 20)[0]
    struct.pack_into("<I", content, listed[0] + 16, zlib.crc32(content[start : start + size]))
    path.write_bytes(content)
    refused(path, "weight_ih_l0", "reaches into the member behind it")


def test_other_archives(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("a.txt", "{}")
    with pytest.raises(lrp.WeightFileError, match="a zip archive of a kind"):
        files.load(tmp_path / "model.zip")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "saved_model.pb").touch()
    with pytest.raises(lrp.WeightFileError, match="a SavedModel of TensorFlow"):
        files.load(tmp_path / "folder")
