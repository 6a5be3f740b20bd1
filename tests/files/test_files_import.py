"""Files of every framework: the model, its scores and its explanation are those of the same weights from arrays."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from interop import zoo
from networks import close

import lrpnumpy as lrp
from lrpnumpy import files
from lrpnumpy.__main__ import main

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
ROWS = [
    (scores.parent / name, row)
    for scores in sorted(FIXTURES.glob("*/scores.json"))
    for name, row in sorted(json.loads(scores.read_text()).items())
]
each_file = pytest.mark.parametrize("path, row", ROWS, ids=[f"{p.parent.name}/{p.name}" for p, _ in ROWS])


def opened(path, row, **more):
    load = dict(row["load"])
    if "config" in load:
        load["config"] = path.parent / load["config"]
    return files.load(path, **load, **more)


def expected(path, row):
    """The same network built from arrays."""
    model = zoo.NETWORKS[row["network"]].model(hard=row["hard_sigmoid"])
    return replace(model, output="linear") if path.suffix == ".onnx" else model  # its graph has no softmax


def inputs(model, row):
    x = np.asarray(row["x"])
    return x if model.embedding is not None else x.astype(np.float32)


@each_file
def test_the_model_is_the_one_that_was_written(path, row):
    assert opened(path, row).digest == expected(path, row).digest


@each_file
def test_scores_are_those_of_the_framework(path, row):
    model = opened(path, row)
    x = inputs(model, row)
    close(lrp.predict(model, x), row["scores"], tol=1e-5)


@each_file
def test_the_explanation_is_that_of_the_same_weights(path, row):
    model, same = opened(path, row), expected(path, row)
    x = inputs(model, row)
    for method in ("lrp-all", "gradient"):
        got, want = (lrp.explain(m, x, method=method, target=0) for m in (model, same))
        np.testing.assert_array_equal(got.relevance, want.relevance)


@each_file
def test_a_report_says_what_was_understood(path, row):
    load = {key: path.parent / value if key == "config" else value for key, value in row["load"].items()}
    report = files.inspect(path, **load)
    text = str(report)
    assert report.model.digest == expected(path, row).digest
    assert "LSTM" in text and "gates i f g o" in text and report.model.summary() in text
    if path.parent.name != "native":
        assert report.notes and all(note in text for note in report.notes)
    if report.model.output != "linear" and path.parent.name.startswith(("keras", "tf")):
        assert "taken off" in text


@pytest.mark.parametrize("name", ["native/reference.h5", "keras3/stack.keras", "torch/sentence_torch.h5"])
def test_reading_in_a_child_process_gives_the_same(name):
    path = FIXTURES / name
    row = dict(ROWS)[path]
    model, alone = opened(path, row), opened(path, row, isolate=True)
    assert alone.digest == model.digest and alone.provenance == model.provenance


def test_convert_keeps_everything(tmp_path):
    path = FIXTURES / "keras3" / "stack.keras"
    made = files.convert(path, tmp_path / "model.h5")
    again = files.load(tmp_path / "model.h5")
    assert again.digest == made.digest
    assert again.provenance["imported from"].startswith("Keras 3")
    assert "hard_sigmoid is clip(x/6 + 0.5, 0, 1)" in str(files.inspect(tmp_path / "model.h5"))


def test_a_file_is_never_converted_onto_itself(tmp_path, monkeypatch):
    """Whatever it is called, and told to overwrite or not: the user's only copy would be gone."""
    monkeypatch.chdir(tmp_path)
    good = (FIXTURES / "keras3" / "stack.keras").read_bytes()
    Path("a.keras").write_bytes(good)
    Path("soft.keras").symlink_to("a.keras")
    os.link("a.keras", "hard.keras")
    os.mkdir("sub")
    names = ["a.keras", "./a.keras", "sub/../a.keras", tmp_path / "a.keras", "soft.keras", "hard.keras"]
    for source in names:
        for target in names:
            for overwrite in (False, True):
                with pytest.raises(lrp.LrpError, match=r"another file than what is read, .*; choose another name"):
                    files.convert(source, target, overwrite=overwrite)
                assert main(["convert", str(source), str(target), *["--overwrite"] * overwrite]) == 2
    assert Path("a.keras").read_bytes() == good == Path("hard.keras").read_bytes()
    assert sorted(os.listdir()) == ["a.keras", "hard.keras", "soft.keras", "sub"]


def test_nor_onto_a_file_of_a_folder_that_is_read(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(FIXTURES / "reference" / "reference4", folder)
    for name in os.listdir(folder):
        before = (folder / name).read_bytes()
        with pytest.raises(lrp.LrpError, match="target must be another file than what is read"):
            files.convert(folder, folder / name, overwrite=True)
        assert (folder / name).read_bytes() == before


def test_the_command_convert_overwrites_when_told_to(tmp_path, capsys):
    source, target = str(FIXTURES / "keras3" / "stack.keras"), tmp_path / "model.h5"
    target.write_bytes(b"mine")
    assert main(["convert", source, str(target)]) == 2
    assert "--overwrite" in capsys.readouterr().err and target.read_bytes() == b"mine"
    assert main(["convert", source, str(target), "--overwrite"]) == 0
    assert files.load(target).digest == files.load(source).digest


def test_float64_and_float16_weights(tmp_path):
    model = zoo.NETWORKS["sentence"].model(dtype=np.float64)
    np.savez(tmp_path / "wide.npz", **zoo.torch_arrays(model))
    assert files.load(tmp_path / "wide.npz", readout="last").dtype == np.float64
    narrow = {name: a.astype(np.float16) for name, a in zoo.torch_arrays(model).items()}
    np.savez(tmp_path / "narrow.npz", **narrow)
    found = files.load(tmp_path / "narrow.npz", readout="last")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.embedding.E, narrow["embedding.weight"].astype(np.float32))


def test_a_reader_is_imported_only_for_files_of_its_kind():
    code = (
        "import sys, lrpnumpy; before = set(sys.modules); lrpnumpy.load('sentiment'); "
        "print(*(name for name in set(sys.modules) - before if name.startswith('lrpnumpy.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    found = done.stdout.split()
    assert 5 < len(found) <= 20
    assert not any(name.startswith(("lrpnumpy.files.keras", "lrpnumpy.files.torch")) for name in found)
