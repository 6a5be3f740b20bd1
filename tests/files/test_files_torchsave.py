"""Files of torch.save, written by PyTorch in both formats: the scores are PyTorch's, and what is assumed is said."""

import io
import json
import os
import pickle
import shutil
import warnings
import zipfile
from pathlib import Path

import networks as nets
import numpy as np
import pytest
from attacks import hostile
from networks import close

import lrpnumpy as lrp
from lrpnumpy import files
from lrpnumpy.__main__ import main
from lrpnumpy.files.hints import as_flags, listed

FIXTURES = Path(__file__).parents[1] / "fixtures" / "torchsave"
ROWS = json.loads((FIXTURES / "expected.json").read_text())
pytestmark = pytest.mark.filterwarnings("ignore::lrpnumpy.AssumptionWarning")
ASSUMED = ["state.pt", "state_legacy.pth", "parallel.bin", "module.pt", "cells.pt", "views.pt", "prelu.pt"]


def opened(name, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrp.AssumptionWarning)
        return files.load(FIXTURES / name, **{**ROWS[name]["load"], **more})


def inputs(model, name):
    x = np.asarray(ROWS[name]["x"])
    return x if model.embedding is not None else x.astype(np.float32)


@pytest.mark.parametrize("name", ROWS)
def test_scores_are_those_of_torch(name):
    model = opened(name)
    close(lrp.predict(model, inputs(model, name)), ROWS[name]["scores"], tol=1e-5)
    assert model.dtype == (np.float64 if name == "float64.pt" else np.float32)


@pytest.mark.parametrize("name", ROWS)
def test_the_scores_can_be_checked_on_opening(name):
    row = ROWS[name]
    x = inputs(opened(name), name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what has been compared is no assumption any more
        files.load(FIXTURES / name, check=(x, row["scores"]), **row["load"])
        files.load(FIXTURES / name, check=(x[None], np.array(row["scores"])[None]), **row["load"])
    with pytest.raises(lrp.WeightFileError, match=r"expects the scores \[.*\] for x, the model gives \[.*try another"):
        files.load(FIXTURES / name, check=(x, np.array(row["scores"]) * 1.01), **row["load"])


@pytest.mark.parametrize("name", ASSUMED)
def test_the_last_step_is_assumed_and_said_once(name):
    with pytest.warns(lrp.AssumptionWarning, match=r"the last step is taken .* say readout='last'") as caught:
        model = files.load(FIXTURES / name, **ROWS[name]["load"])
    assert len(caught) == 1 and caught[0].filename == __file__ and nets.readout(model) == "last"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "the last step is taken" in str(files.inspect(FIXTURES / name, **ROWS[name]["load"]))
    with pytest.warns(lrp.AssumptionWarning, match="assumed: ") as caught:
        files.load(FIXTURES / name, **{**ROWS[name]["load"], "readout": "last"})
    assert len(caught) == 1 and "the last step is taken" not in str(caught[0].message)
    with pytest.warns(lrp.AssumptionWarning, match="the last step is taken"):
        files.load(FIXTURES / name, isolate=True, **ROWS[name]["load"])


def test_two_directions_ask_for_the_readout():
    with pytest.raises(lrp.WeightFileError) as caught:
        files.load(FIXTURES / "checkpoint.ckpt", activations=["relu"])
    for words in (
        "readout='last' (h_n",
        "readout='last-row' (out[:, -1]",
        "readout='mean' (out.mean",
        "readout='every'",
    ):
        assert words in str(caught.value)
    readouts = {name: opened("checkpoint.ckpt", readout=name) for name in ("last", "last-row", "mean", "every")}
    assert [nets.readout(model) for model in readouts.values()] == list(readouts)


def test_several_linear_modules_ask_for_activations_in_words_that_work():
    with pytest.raises(
        lrp.WeightFileError, match=r"fc1; .*say layers=\['model.lstm', 'model.fc1', 'relu', 'model.fc2'\] with"
    ):
        files.load(FIXTURES / "lightning.ckpt", readout="last-row")
    by_hand = opened("lightning.ckpt", activations=None, layers=["lstm", "fc1", "relu", "fc2"])
    by_config = opened("lightning.ckpt", activations=None, config={"activations": ["relu"]})
    assert by_hand.digest == by_config.digest == opened("lightning.ckpt").digest
    with pytest.warns(lrp.AssumptionWarning, match=r"no activation is applied after model\.lstm, model\.fc1"):
        files.load(FIXTURES / "lightning.ckpt", readout="mean", layers=["lstm", "fc1", "fc2"])
    with pytest.raises(lrp.LrpError, match="activations must be a list of names, got 'relu'"):
        files.load(FIXTURES / "lightning.ckpt", activations="relu")
    with pytest.raises(lrp.WeightFileError, match="unknown activation 'swish'; supported and close to it"):
        files.load(FIXTURES / "lightning.ckpt", readout="mean", activations=["swish"])
    with pytest.raises(lrp.WeightFileError, match=r"layers must name modules of the file, .*, got 'fc3'"):
        files.load(FIXTURES / "lightning.ckpt", readout="mean", layers=["lstm", "fc1", "fc3"])


def test_a_learned_activation_asks_for_its_place():
    with pytest.raises(lrp.WeightFileError) as caught:
        files.load(FIXTURES / "prelu.pt")
    assert "activation (PReLU)" in str(caught.value)
    assert "say layers=['up', 'activation', 'gru', 'predict']" in str(caught.value)


def test_a_module_says_its_activations():
    model = opened("module.pt")
    assert [type(layer).__name__ for layer in nets.chain(model)] == ["RNN", "Dense", "Dense"]
    assert [layer.activation for layer in nets.chain(model)] == ["relu", "relu", "linear"]
    assert nets.chain(opened("words_legacy.pt"))[1].activation == "tanh"


def test_a_checkpoint_says_where_its_network_is():
    report = files.inspect(FIXTURES / "parallel.bin", readout="last")
    assert "'model' in it" in report.kind
    assert files.load(FIXTURES / "parallel.bin", which="model", readout="last").digest == report.model.digest
    with pytest.raises(lrp.WeightFileError, match="which must be one of the networks in it, 'model', got 'ema'"):
        files.load(FIXTURES / "parallel.bin", which="ema")


def test_shared_storages_and_prefixes():
    model = opened("tied.pt")
    np.testing.assert_array_equal(model.embedding.E, model.layers[-1].V)
    assert opened("parallel.bin").digest == opened("state.pt").digest == opened("state_legacy.pth").digest
    assert opened("lightning.ckpt").digest == opened("checkpoint.ckpt").digest


def test_probabilities_are_not_guessed():
    assert opened("state.pt").output == "linear" and opened("state.pt").outputs == 2
    assert opened("state.pt", output="softmax").output == "softmax"
    assert "no probability belongs to the scores" in str(files.inspect(FIXTURES / "state.pt"))


def test_the_same_hints_everywhere(tmp_path, capsys):
    hints = {"layers": ["lstm", "fc1", "fc2"], "activations": ["relu"], "readout": "last-row", "output": "sigmoid"}
    path = FIXTURES / "lightning.ckpt"
    digest = files.load(path, **hints).digest
    assert files.inspect(path, **hints).model.digest == digest
    assert files.convert(path, tmp_path / "model.h5", **hints).digest == digest
    flags = ["--layers", "lstm,fc1,fc2", "--activations", "relu", "--readout", "last-row", "--output", "sigmoid"]
    assert main(["inspect", str(path), *flags]) == 0
    assert main(["convert", str(path), str(tmp_path / "again.h5"), *flags]) == 0
    assert files.load(tmp_path / "again.h5").digest == digest
    np.save(tmp_path / "x.npy", np.asarray(ROWS["lightning.ckpt"]["x"], "f4"))
    assert main(["explain", "--input", str(tmp_path / "x.npy"), "--model", str(path), *flags]) == 0
    np.savez(tmp_path / "x.npz", x=np.asarray(ROWS["lightning.ckpt"]["x"], "f4")[None])
    capsys.readouterr()


def test_errors_on_the_command_line_name_its_flags(capsys):
    path = str(FIXTURES / "lightning.ckpt")
    assert main(["inspect", path]) == 2
    assert "say --layers model.lstm,model.fc1,relu,model.fc2 with" in capsys.readouterr().err
    assert main(["inspect", path, "--activations", "relu"]) == 2
    error = capsys.readouterr().err
    assert "say --readout last (h_n" in error and "--readout last-row (out[:, -1]" in error
    assert main(["inspect", path, "--activations", "relu", "--readout", "last-row"]) == 0
    assert main(["inspect", str(FIXTURES / "prelu.pt")]) == 2
    assert "say --layers up,activation,gru,predict with every module" in capsys.readouterr().err
    assert as_flags("say layers=['conv(stride=1, padding=0)', 'fc']") == "say --layers 'conv(stride=1, padding=0),fc'"
    assert listed("conv(stride=1, padding=0),fc") == ["conv(stride=1, padding=0)", "fc"]


class Evil:
    def __reduce__(self):
        return os.system, ("touch owned",)


class Strange:
    """A class that nobody else has."""

    def __init__(self):
        self.value = 3


@pytest.mark.parametrize("thing", [Evil(), {"state_dict": Evil()}, [Evil()], {"a": {"b": {"c": Evil()}}}])
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_nothing_of_a_pickle_is_run(thing, protocol, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    called = []
    with zipfile.ZipFile("model.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(thing, protocol))
    monkeypatch.setattr(os, "system", called.append)
    with pytest.raises(lrp.WeightFileError, match=r"the file is malicious; nothing of it was run"):
        files.load("model.pt")
    assert not called and os.listdir() == ["model.pt"]


def test_classes_stay_names(tmp_path):
    """An object of a class that is not there is a record of its name and state."""
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"a": Strange(), "b": {1, 2}, "c": np.ones(3)}, 2))
    with pytest.raises(lrp.WeightFileError, match="holds no tensors of a network, it holds a dict of 'a', 'b', 'c'"):
        files.load(path)


def test_the_state_of_a_torchscript_archive(tmp_path):
    """Its pickle is read as records of modules inside modules; its code is not looked at."""
    lstm = hostile.network()[2:-1]  # the dict alone
    inner = b"c__torch__.torch.nn.modules.rnn\nLSTM\n)\x81" + lstm + b"b"
    content = b"\x80\x02c__torch__\nNetwork\n)\x81}(U\x08training\x89U\x04lstm" + inner + b"ub."
    numbers = {"0": np.arange(24, dtype="f4").tobytes(), "1": np.ones(16, "f4").tobytes()}
    path, _ = hostile.saved(tmp_path, content, **numbers)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("archive/code/__torch__.py", "import os; os.system('touch owned')")
    model = files.load(path, readout="last")
    np.testing.assert_array_equal(model.layers[0].U.reshape(-1), np.arange(24))


def test_a_torchscript_archive_whose_modules_hold_themselves(tmp_path):
    content = b"\x80\x02c__torch__\nNetwork\n)\x81q\x00}(U\x01ah\x00U\x01bh\x00ub."
    path, _ = hostile.saved(tmp_path, content)
    with pytest.raises(lrp.WeightFileError, match="levels deep"):
        files.load(path)


def test_other_pickles_are_named(tmp_path):
    (tmp_path / "model.pkl").write_bytes(pickle.dumps([1, 2, 3]))
    with pytest.raises(lrp.WeightFileError, match=r"is a pickle, but not one of torch\.save"):
        files.load(tmp_path / "model.pkl")


def test_every_truncation(tmp_path):
    for name in ("state_legacy.pth", "state.pt"):
        content = (FIXTURES / name).read_bytes()
        for length in range(0, len(content) - 1, 61):
            (tmp_path / name).write_bytes(content[:length])
            with pytest.raises(lrp.WeightFileError):
                files.load(tmp_path / name, readout="last")


def test_a_storage_that_was_changed(tmp_path):
    shutil.copy(FIXTURES / "state.pt", tmp_path / "model.pt")
    with zipfile.ZipFile(FIXTURES / "state.pt") as archive:
        info = next(one for one in archive.infolist() if one.filename.endswith("data/0"))
        content = archive.read(info)
    data = (tmp_path / "model.pt").read_bytes()
    (tmp_path / "model.pt").write_bytes(data.replace(content, bytes(len(content))))
    with pytest.raises(lrp.WeightFileError, match=r"state/data/0: .*damaged"):
        files.load(tmp_path / "model.pt", readout="last")


# ----------------------------------------------------------------------------------------- settings of whole modules


class Pickler(pickle._Pickler):
    """Writes the pickle of torch.save of modules that are made here, without PyTorch."""

    def __init__(self, stream):
        super().__init__(stream, 2)
        self.arrays = []

    def save_global(self, obj, name=None):
        self.write(b"c" + f"{obj.__module__}\n{obj.__name__}\n".encode())
        self.memoize(obj)

    def reducer_override(self, obj):
        if not isinstance(obj, np.ndarray):
            return NotImplemented
        strides = tuple(n // obj.itemsize for n in obj.strides)
        return named("torch._utils._rebuild_tensor_v2"), (Storage(obj), 0, obj.shape, strides, False, {})

    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        self.arrays.append(obj.array)
        return "storage", named("torch.FloatStorage"), str(len(self.arrays) - 1), "cpu", obj.array.size


class Storage:
    def __init__(self, array):
        self.array = array


def named(path):
    """A class or function of PyTorch, which is only its name."""
    place, _, name = path.rpartition(".")
    return type(name, (), {"__module__": place})


def torch_module(kind, parts=(), arrays=(), **settings):
    """An object of a class of torch.nn, or of a custom class, as torch.save sees it."""
    place = "__main__" if kind == "Network" else "torch.nn.modules"
    made = named(f"{place}.{kind}")()
    arrays = {name: array.astype("f4") for name, array in dict(arrays).items()}
    made.__dict__.update(training=False, _parameters=arrays, _buffers={}, _modules=dict(parts), **settings)
    return made


def linear(V, d):
    return torch_module("Linear", arrays={"weight": V, "bias": d})


def saved_module(path, **parts):
    stream = io.BytesIO()
    pickler = Pickler(stream)
    pickler.dump(torch_module("Network", parts))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", stream.getvalue())
        for k, array in enumerate(pickler.arrays):
            archive.writestr(f"archive/data/{k}", array.tobytes())
    return path


@pytest.fixture
def cell(rng):
    """An RNN of 4 units over 3 features, and its formula."""
    U, W, b, c = (rng.normal(size=shape) for shape in ((4, 3), (4, 4), 4, 4))
    arrays = {"weight_ih_l0": U, "weight_hh_l0": W, "bias_ih_l0": b, "bias_hh_l0": c}

    def last(x):
        h = np.zeros(4)
        for row in x:
            h = np.tanh(U @ row + W @ h + b + c)
        return h

    return torch_module("RNN", arrays=arrays, mode="RNN_TANH", nonlinearity="tanh"), last


ACTIVATIONS = [
    ("Softplus", {"beta": 1, "threshold": 20}, lambda z: np.log1p(np.exp(z))),
    ("Softplus", {"beta": 1.0, "threshold": 0.5}, None),
    ("Softplus", {"beta": 2.0, "threshold": 20.0}, None),
    ("ELU", {"alpha": 1.0}, lambda z: np.where(z > 0, z, np.exp(z) - 1)),
    ("ELU", {"alpha": 0.5}, lambda z: np.where(z > 0, z, 0.5 * (np.exp(z) - 1))),
    ("ELU", {"alpha": "large"}, None),
    ("LeakyReLU", {"negative_slope": 0.01}, lambda z: np.where(z > 0, z, 0.01 * z)),
    ("LeakyReLU", {"negative_slope": 0.3}, lambda z: np.where(z > 0, z, 0.3 * z)),
    ("LeakyReLU", {"negative_slope": 0}, lambda z: np.maximum(z, 0)),
    ("GELU", {"approximate": "tanh"}, lambda z: z / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (z + 0.044715 * z**3)))),
    ("GELU", {"approximate": "other"}, None),
    ("Hardswish", {}, None),
    ("Hardtanh", {"min_val": -1.0, "max_val": 1.0}, None),
    ("ReLU6", {"min_val": 0.0, "max_val": 6.0}, None),
    ("CELU", {"alpha": 1.0}, None),
    ("Threshold", {"threshold": 0.1, "value": 0.0}, None),
    ("Softmax", {"dim": 0}, None),
    ("Softmax", {"dim": -1}, None),
    ("LogSoftmax", {"dim": -1}, None),
]


@pytest.mark.parametrize("kind, settings, function", ACTIVATIONS)
def test_settings_of_activations_are_computed_or_refused(tmp_path, rng, cell, kind, settings, function):
    rnn, last = cell
    V, d, A, a, x = (rng.normal(size=shape) for shape in ((5, 4), 5, (2, 5), 2, (6, 3)))
    parts = {"0": linear(V, d), "1": torch_module(kind, **settings), "2": linear(A, a)}
    path = saved_module(tmp_path / "model.pt", rnn=rnn, head=torch_module("Sequential", parts))
    if function is None:
        advice = r"open the module itself: lrp.from_torch\(module, check=x\)"
        with pytest.raises(lrp.WeightFileError, match=f"head.1.*{kind}.*{advice}") as caught:
            files.load(path, readout="last")
        assert "leave it out" not in str(caught.value)
    else:
        expected = A @ function(V @ last(x) + d) + a
        close(lrp.predict(files.load(path, readout="last"), x), expected, 1e-5)
        named = files.load(path, readout="last", layers=["rnn", "head.0", "head.1", "head.2"])
        close(lrp.predict(named, x), expected, 1e-5)


def test_a_softmax_over_the_batch_is_no_probability(tmp_path, rng, cell):
    V, d = rng.normal(size=(5, 4)), rng.normal(size=5)
    for dim, readout, is_known in ((1, "last", True), (-1, "every", True), (0, "last", False), (1, "every", False)):
        head = torch_module("Sequential", {"0": linear(V, d), "1": torch_module("Softmax", dim=dim)})
        path = saved_module(tmp_path / "model.pt", rnn=cell[0], head=head)
        if is_known:
            assert files.load(path, readout=readout).output == "softmax"
        else:
            with pytest.raises(lrp.WeightFileError, match="Softmax"):
                files.load(path, readout=readout)


def test_vectors_longer_than_max_norm(tmp_path, rng, cell):
    rnn, last = cell
    E, V, d = rng.normal(size=(9, 3)), rng.normal(size=(2, 4)), rng.normal(size=2)
    E[4] /= 100
    for p in (2.0, 1.0):
        words = torch_module("Embedding", arrays={"weight": E}, max_norm=0.5, norm_type=p, padding_idx=None)
        path = saved_module(tmp_path / "model.pt", words=words, rnn=rnn, head=linear(V, d))
        lengths = (abs(E) ** p).sum(axis=1) ** (1 / p)
        ids = [3, 1, 4, 1, 5]
        expected = V @ last((E / np.maximum(lengths / 0.5, 1)[:, None])[ids]) + d
        close(lrp.predict(files.load(path, readout="last"), ids), expected, 1e-5)


@pytest.mark.parametrize("counted", [True, False])
def test_zeros_around_the_steps_in_a_mean(tmp_path, rng, cell, counted):
    rnn, last = cell
    V, d, A, a, x = (rng.normal(size=shape) for shape in ((3, 3), 3, (2, 4), 2, (6, 3)))
    settings = {"kernel_size": (3,), "stride": (1,), "padding": (1,), "ceil_mode": False, "count_include_pad": counted}
    pool = torch_module("AvgPool1d", **settings)
    path = saved_module(tmp_path / "model.pt", front=linear(V, d), pool=pool, rnn=rnn, head=linear(A, a))
    rows = np.pad(x @ V.T + d, ((1, 1), (0, 0)))
    sums = rows[:-2] + rows[1:-1] + rows[2:]
    counts = 3 if counted else np.array([2, 3, 3, 3, 3, 2])[:, None]
    model = files.load(path, readout="last", layers=["front", "linear", "pool", "rnn", "head"])
    close(lrp.predict(model, x), A @ last(sums / counts) + a, 1e-5)
    if counted:
        word = "avgpool(3, stride=1, padding=1)"
        model = files.load(path, readout="last", layers=["front", "linear", word, "rnn", "head"])
        close(lrp.predict(model, x), A @ last(sums / counts) + a, 1e-5)


@pytest.mark.parametrize("settings", [{"ceil_mode": True}, {"dilation": 2}])
def test_pools_with_other_windows_are_refused(tmp_path, rng, cell, settings):
    pool = torch_module("MaxPool1d", **{"kernel_size": 2, "stride": 2, "padding": 0, "dilation": 1, **settings})
    front, head = (
        linear(rng.normal(size=(3, 3)), rng.normal(size=3)),
        linear(rng.normal(size=(2, 4)), rng.normal(size=2)),
    )
    path = saved_module(tmp_path / "model.pt", front=front, pool=pool, rnn=cell[0], head=head)
    with pytest.raises(lrp.WeightFileError, match="pool: is MaxPool1d with ceil_mode or dilation"):
        files.load(path, readout="last", layers=["front", "linear", "pool", "rnn", "head"])


def test_losses_are_not_layers(tmp_path, rng, cell):
    rnn, last = cell
    V, d, x = rng.normal(size=(2, 4)), rng.normal(size=2), rng.normal(size=(6, 3))
    loss = torch_module("CrossEntropyLoss", arrays={"weight": np.ones(2)})
    path = saved_module(tmp_path / "model.pt", weigh=loss, rnn=rnn, head=linear(V, d), plain=torch_module("MSELoss"))
    with pytest.warns(lrp.AssumptionWarning, match="these arrays are not used: weigh.weight"):
        model = files.load(path, readout="last")
    close(lrp.predict(model, x), V @ last(x) + d, 1e-5)


@pytest.mark.parametrize("name", ["act", "scale"])
def test_a_custom_class_of_one_array_is_not_a_prelu(tmp_path, rng, cell, name):
    swish = named("my.activations.Swish")()
    swish.__dict__.update(training=False, _parameters={"weight": np.ones(1, "f4")}, _buffers={}, _modules={})
    head = linear(rng.normal(size=(2, 4)), rng.normal(size=2))
    path = saved_module(tmp_path / "model.pt", rnn=cell[0], **{name: swish}, head=head)
    for hints, match in (({}, rf"not supported: {name} \(Swish\)"), ({"layers": ["rnn", name, "head"]}, "is Swish")):
        with pytest.raises(lrp.WeightFileError, match=match):
            files.load(path, readout="last", **hints)
