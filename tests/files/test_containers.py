"""Folders and archives that hold a model among other things; kinds of TensorFlow, refused with a way out."""

import io
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

import lrpnumpy as lrp

pytestmark = pytest.mark.filterwarnings("ignore::lrpnumpy.AssumptionWarning")
FIXTURES = Path(__file__).parents[1] / "fixtures"
STATE, TENSORS = FIXTURES / "torchsave" / "state.pt", FIXTURES / "torch" / "sentence_torch.safetensors"
WANT = {path: lrp.load(path, readout="last").digest for path in (STATE, TENSORS)}


@pytest.mark.parametrize(
    ("name", "source"), [("model.safetensors", TENSORS), ("pytorch_model.bin", STATE), ("policy.pth", STATE)]
)
@pytest.mark.parametrize("isolate", [False, True])
def test_a_folder_opens_by_the_file_inside(name, source, isolate, tmp_path):
    shutil.copy(source, tmp_path / name)
    (tmp_path / "config.json").write_text("{}")
    assert lrp.load(tmp_path, readout="last", isolate=isolate).digest == WANT[source]
    assert f"{name} is opened" in str(lrp.inspect(tmp_path, readout="last"))


@pytest.mark.parametrize(
    ("name", "source"), [("model.safetensors", TENSORS), ("sub/pytorch_model.bin", STATE), ("policy.pth", STATE)]
)
@pytest.mark.parametrize("packed", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_archive_opens_by_the_file_inside(name, source, packed, tmp_path):
    path = tmp_path / "agent.zip"
    with zipfile.ZipFile(path, "w", packed) as archive:
        archive.writestr("data", "{}")
        archive.writestr("policy.optimizer.pth", b"nothing")
        archive.write(source, name)
    assert lrp.load(path, readout="last").digest == WANT[source]


def test_a_bomb_in_an_archive_is_refused(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10**7))
    with zipfile.ZipFile(tmp_path / "agent.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("policy.pth", inner.getvalue())
    with pytest.raises(lrp.WeightFileError):
        lrp.load(tmp_path / "agent.zip", max_bytes=10**6)
    with zipfile.ZipFile(tmp_path / "agent.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.safetensors", (8).to_bytes(8, "little") + bytes(10**7))
    with pytest.raises(lrp.WeightFileError):
        lrp.load(tmp_path / "agent.zip", max_bytes=10**6)


def test_links_in_a_folder_are_not_followed(tmp_path):
    (tmp_path / "policy.pth").symlink_to(STATE)
    with pytest.raises(lrp.WeightFileError, match="which is a link and not followed"):
        lrp.load(tmp_path)


def test_a_checkpoint_beside_a_pickle(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"\x80\x02cdarts.models\nRNNModel\nq\x00.")
    with pytest.raises(lrp.WeightFileError, match="is a pickle, but not one of torch"):
        lrp.load(tmp_path / "model.pt")
    shutil.copy(STATE, tmp_path / "model.pt.ckpt")
    assert lrp.load(tmp_path / "model.pt", readout="last").digest == WANT[STATE]


def test_losses_and_metrics_are_not_layers(rng):
    state = {f"rnn.{w}_l0": rng.normal(size=s).astype("f4") for w, s in
             (("weight_ih", (8, 3)), ("weight_hh", (8, 2)), ("bias_ih", (8,)), ("bias_hh", (8,)))}  # fmt: skip
    extra = {
        "train_metrics.mae.total": np.zeros(3, "f4"),
        "loss.weight": np.ones(2, "f4"),
        "metric.w": np.ones(1, "f4"),
    }
    assert lrp.from_torch({**state, **extra}, readout="last").digest == lrp.from_torch(state, readout="last").digest


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("saved_model.pb", b"\x08\x01\x12\x04abcd" * 20, "SavedModel.*load_model.*save"),
        ("folder/saved_model.pb", b"", "SavedModel.*load_model.*save"),
        ("model.tflite", b"\x1c\0\0\0TFL3" + bytes(40), "TensorFlow Lite.*tf2onnx.convert --tflite"),
        ("model.mlmodel", b"\x08\x02\x12\x08\x0a\x06input" + b"\xff" * 40, "Core ML.*torch.save"),
        ("model.tar.gz", b"\x1f\x8b\x08" + bytes(40), "gzip; unpack it"),
        ("arrays.pkl", b"\x80\x03}q\x00X\x01\x00\x00\x00a" + bytes(40), "a pickle.*np.savez"),
        ("cp.ckpt.index", bytes(64), "checkpoint of TensorFlow.*load_weights.*save_weights"),
        ("cp.ckpt.data-00000-of-00001", bytes(64), "checkpoint of TensorFlow.*load_weights.*save_weights"),
        ("checkpoint", b'model_checkpoint_path: "ck"\n', "checkpoint of TensorFlow.*load_weights.*save_weights"),
        ("model.ckpt-10.meta", b"\n\x10\n\x05input", "TensorFlow 1.*tf2onnx.convert --checkpoint"),
        ("frozen.pb", b"\n\x10\n\x05input", "frozen graph of TensorFlow.*tf2onnx.convert --graphdef"),
        ("folder/1/saved_model.pb", bytes(64), "SavedModel of TensorFlow"),
        ("empty.pt", b"", "is empty, it has 0 bytes"),
        ("pointer.pt", b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "Git LFS.*git lfs pull"),
        ("page.pt", b"\n<!DOCTYPE html><html>", "web page.*download the file itself"),
        ("folder/cp.ckpt.index", bytes(64), "checkpoint of TensorFlow.*load_weights.*save_weights"),
    ],
)
def test_other_kinds_are_named_with_what_to_do(name, content, says, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(content)
    with pytest.raises(lrp.WeightFileError, match=says):
        lrp.load(tmp_path / name.split("/")[0])


def test_the_prefix_of_a_checkpoint(tmp_path):
    (tmp_path / "cp.ckpt.index").write_bytes(b"")
    with pytest.raises(lrp.WeightFileError, match="checkpoint of TensorFlow"):
        lrp.load(tmp_path / "cp.ckpt")
