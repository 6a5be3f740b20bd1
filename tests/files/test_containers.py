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


PICKLES = {
    "plain": b"\x80\x02cdarts.models\nRNNModel\nq\x00.",
    "of torch.save": b"\x80\x02cdarts.models\nRNNModel\nq\x00)\x81q\x01.",
    "not understood": b"\x80\x02\xff.",
}


@pytest.mark.parametrize("kind", PICKLES)
@pytest.mark.parametrize("beside", ["model.pt.ckpt", "model.ckpt"])
@pytest.mark.parametrize("isolate", [False, True])
def test_a_pickle_without_tensors_opens_by_the_checkpoint_beside_it(kind, beside, isolate, tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(PICKLES[kind])
    if kind != "plain":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model/data.pkl", PICKLES[kind])
    with pytest.raises(lrp.WeightFileError, match=r"model\.pt: "):
        lrp.load(path)
    shutil.copy(STATE, tmp_path / beside)
    with pytest.warns(lrp.AssumptionWarning, match=f"{beside} is opened; PyTorch arrays do not"):
        assert lrp.load(path, readout="last", isolate=isolate).digest == WANT[STATE]
    assert f"{beside} is opened" in str(lrp.inspect(path, readout="last"))
    (tmp_path / beside).write_bytes(b"\x80\x02}.")
    with pytest.raises(lrp.WeightFileError, match=f"{beside}: is a pickle, but not one of torch"):
        lrp.load(path)


@pytest.mark.parametrize("beside", ["state.pt.ckpt", "state.ckpt"])
def test_a_file_of_tensors_opens_itself_whatever_is_beside_it(beside, tmp_path):
    for source in (STATE, STATE.with_name("state_legacy.pth")):
        path = tmp_path / "state.pt"
        shutil.copy(source, path)
        want = lrp.load(path, readout="last").digest
        for content in (STATE.with_name("cells.pt").read_bytes(), b"nothing"):
            (tmp_path / beside).write_bytes(content)
            assert lrp.load(path, readout="last").digest == want
            assert "is opened" not in str(lrp.inspect(path, readout="last"))
        with pytest.raises(lrp.WeightFileError, match="which must be one of"):
            lrp.load(path, which="other")
        (tmp_path / beside).unlink()


TRAINING = (
    "train_metrics.mae.total", "loss.weight", "metric.w", "ce_loss.weight", "valid_loss_fn.weight", "lossFn.weight",
    "focalLoss.alpha", "criterion_1.weight", "loss_module.quantiles", "logging_metrics.0.mean_error", "bce.pos_weight",
    "bce.weight", "train_acc.total", "acc.correct", "accuracy.tp", "val_f1.tp", "test_auroc.thresholds", "tn",
)  # fmt: skip


def recurrent(rng, name="rnn"):
    shapes = {"weight_ih_l0": (8, 3), "weight_hh_l0": (8, 2), "bias_ih_l0": (8,), "bias_hh_l0": (8,)}
    return {f"{name}.{leaf}": rng.normal(size=shape).astype("f4") for leaf, shape in shapes.items()}


@pytest.mark.parametrize("name", TRAINING)
def test_losses_and_metrics_are_not_layers(name, rng):
    state = recurrent(rng)
    with pytest.warns(lrp.AssumptionWarning, match=f"these arrays are not used: {name}"):
        found = lrp.from_torch({**state, name: np.ones(2, "f4")}, readout="last")
    assert found.digest == lrp.from_torch(state, readout="last").digest


@pytest.mark.parametrize("name", ["glossary", "acc", "symmetric", "acc_head", "precision"])
def test_layers_with_names_like_those_of_losses_are_layers(name, rng):
    V, d = rng.normal(size=(2, 2)).astype("f4"), np.ones(2, "f4")
    model = lrp.from_torch({**recurrent(rng), f"{name}.weight": V, f"{name}.bias": d}, readout="last")
    np.testing.assert_array_equal(model.layers[-1].V, V)
    model = lrp.from_torch(recurrent(rng, name), readout="last")
    assert len(model.layers) == 1


def test_a_vector_after_the_last_linear_is_not_an_activation(rng):
    state = {**recurrent(rng), "fc.weight": np.ones((2, 2), "f4"), "fc.bias": np.ones(2, "f4")}
    state["balance.weight"] = np.ones(2, "f4")
    with pytest.raises(lrp.WeightFileError, match=r"balance \(weight \(2,\)\).*say layers=\['rnn', 'fc'\]"):
        lrp.from_torch(state, readout="last")
    found = lrp.from_torch(state, readout="last", layers=["rnn", "fc", "balance"])  # as the caller names it
    assert found.layers[-1].activation == "prelu"
    state["prelu.weight"] = state.pop("balance.weight")
    with pytest.raises(lrp.WeightFileError, match=r"has prelu \(PReLU\), and does not store where that is applied"):
        lrp.from_torch(state, readout="last")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("saved_model.pb", b"\x08\x01\x12\x04abcd" * 20, "SavedModel.*load_model.*save"),
        ("folder/saved_model.pb", b"", "SavedModel.*load_model.*save"),
        ("model.tflite", b"\x1c\0\0\0TFL3" + bytes(40), "TensorFlow.*tf2onnx.convert --tflite"),
        ("model.tar.gz", b"\x1f\x8b\x08" + bytes(40), "gzip; unpack it"),
        ("arrays.pkl", b"\x80\x03}q\x00X\x01\x00\x00\x00a" + bytes(40), "a pickle.*np.savez"),
        ("cp.ckpt.index", bytes(64), "checkpoint of TensorFlow.*load_weights.*save_weights"),
        ("cp.ckpt.data-00000-of-00001", bytes(64), "checkpoint of TensorFlow.*load_weights.*save_weights"),
        ("checkpoint", b'model_checkpoint_path: "ck"\n', "checkpoint of TensorFlow.*load_weights.*save_weights"),
        ("model.ckpt-10.meta", b"\n\x10\n\x05input", "TensorFlow.*tf2onnx.convert.*--checkpoint"),
        ("frozen.pb", b"\n\x10\n\x05input", "graph of TensorFlow.*tf2onnx.convert --graphdef"),
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
