"""Files written here and now by the real frameworks, compared with the frameworks' own scores.

What is not installed is skipped. `make interop` installs all of it.
"""

import warnings

import networks as nets
import numpy as np
import pytest
from interop import kerasgraph, write, zoo
from networks import close

import lrpnumpy as lrp
from lrpnumpy import files

NEEDS = {
    "keras3": ("keras", "torch"),
    "tf_keras": ("tf_keras",),
    "cudnn": ("tf_keras",),
    "keras1": ("tf_keras",),
    "torch": ("torch", "safetensors"),
    "onnx": ("torch", "onnx"),
    "reference": (),
    "native": (),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What a framework writes, written once."""
    done = {}

    def get(kind):
        for module in NEEDS[kind]:
            pytest.importorskip(module)
        if kind not in done:
            folder = tmp_path_factory.mktemp(kind)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                done[kind] = folder, dict(write.WRITERS[kind](folder))
        return done[kind]

    return get


@pytest.mark.parametrize("kind", NEEDS)
def test_scores_and_explanations(written, kind):
    folder, rows = written(kind)
    assert rows
    for name, row in rows.items():
        load = {key: folder / value if key == "config" else value for key, value in row["load"].items()}
        model = files.load(folder / name, **load)
        same = zoo.NETWORKS[row["network"]].model(hard=row["hard_sigmoid"])
        x = np.asarray(row["x"])
        x = x if model.embedding is not None else x.astype(np.float32)
        close(lrp.predict(model, x), row["scores"], tol=1e-5)
        for method in ("lrp-all", "gradient-x-input"):
            got, want = (lrp.explain(m, x, method=method, target=0) for m in (model, same))
            close(got.relevance, want.relevance, tol=1e-6)  # the first calls run before kernels are compiled


@pytest.mark.parametrize("kind", ["keras3", "tf_keras"])
def test_graphs_of_keras(tmp_path, kind):
    for module in NEEDS[kind]:
        pytest.importorskip(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = dict(kerasgraph.written(kind, tmp_path))
    assert len(rows) == 2 * len(kerasgraph.NETWORKS)
    for name, row in rows.items():
        model = kerasgraph.opened(tmp_path / name, row)
        close(lrp.predict(model, kerasgraph.record(model, row)), row["scores"], tol=1e-5)


@pytest.mark.parametrize("kind", ["keras3", "tf_keras"])
def test_live_models_of_keras(kind):
    """from_keras finds all by itself, and compares the scores of a probe."""
    for module in NEEDS[kind]:
        pytest.importorskip(module)
    keras = kerasgraph.keras_module(kind)
    for name in kerasgraph.NETWORKS:
        made, rng = kerasgraph.made(keras, name)
        xs = list(kerasgraph.inputs(made, rng).values())
        custom = kerasgraph.CUSTOM if name == "attentive" else None
        with warnings.catch_warnings():
            warnings.simplefilter("error", lrp.AssumptionWarning)
            model = lrp.from_keras(made, custom=custom, **kerasgraph.LOAD.get(name, {}))
        want = kerasgraph.scores_of(made, xs, 1 if name == "double" else 0)
        close(lrp.predict(model, kerasgraph.record(model, {"x": xs})), want, tol=1e-5)


@pytest.mark.parametrize("kind", ["keras3", "tf_keras"])
def test_live_models_of_keras_that_are_refused(kind):
    for module in NEEDS[kind]:
        pytest.importorskip(module)
    keras = kerasgraph.keras_module(kind)
    L = keras.layers

    def model(custom=None, **hints):
        last = L.Lambda(lambda x: x[:, -1], output_shape=(3,))
        made = keras.Sequential([L.Input((4, 2)), L.LSTM(3, return_sequences=True), last, L.Dense(1)])
        return lrp.from_keras(made, custom=custom, **hints)

    with pytest.raises(lrp.LrpError, match=r"Lambda holds Python code.*custom={'Lambda': f}"):
        model()
    assert nets.readout(model({"Lambda": lambda settings, arrays: lrp.layers.LastRow()})) == "last-row"
    with pytest.raises(lrp.LrpError, match=r"the model gives \[.* the imported model \["):
        model({"Lambda": lambda settings, arrays: lrp.layers.Mean()})
    with pytest.raises(lrp.LrpError, match="check must be a batch of inputs that the model takes"):
        model({"Lambda": lambda settings, arrays: lrp.layers.LastRow()}, check=np.zeros((1, 4, 5), np.float32))
    with pytest.raises(lrp.LrpError, match="expects the scores"):
        model({"Lambda": lambda settings, arrays: lrp.layers.LastRow()}, check=(np.zeros((4, 2)), [7.0]))
    with pytest.raises(lrp.LrpError, match="call it once on an input first"):
        lrp.from_keras(keras.Sequential([L.LSTM(3)]))
    with pytest.raises(lrp.LrpError, match="must be a Keras model, got int"):
        lrp.from_keras(3)


def values(tensor):
    """The numbers of a tensor of any framework."""
    return np.asarray(tensor.detach() if hasattr(tensor, "detach") else tensor)


@pytest.mark.parametrize("kind", ["keras3", "tf_keras"])
def test_live_models_of_keras_keep_their_states(kind):
    """A stateful model goes on as if nothing had happened; it is compared from a zero state."""
    for module in NEEDS[kind]:
        pytest.importorskip(module)
    keras = kerasgraph.keras_module(kind)
    L, x = keras.layers, np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    layers = [
        L.LSTM(3, stateful=True), L.GRU(3, stateful=True, return_sequences=True), L.SimpleRNN(3, stateful=True),
        L.Bidirectional(L.LSTM(3, stateful=True)),
    ]  # fmt: skip
    if kind == "tf_keras":  # Keras 3 cannot reset the states of stacked cells
        layers.append(L.RNN([L.LSTMCell(3), L.GRUCell(3)], stateful=True))
    layers.append(keras.Sequential([L.Input(batch_size=2, shape=(4, 3)), L.LSTM(3, stateful=True)]))
    for layer in layers:
        made = keras.Sequential([L.Input(batch_size=2, shape=(4, 3)), layer, L.Dense(2)])
        others = [values(made(x)) for _ in range(3)]
        for part in made._flatten_layers():
            if getattr(part, "stateful", False) and hasattr(part, "reset_states"):
                part.reset_states()
        found = []
        for _ in range(3):
            found.append(values(made(x)))
            with warnings.catch_warnings():
                warnings.simplefilter("error", lrp.AssumptionWarning)
                lrp.from_keras(made)
                model = lrp.from_keras(made, check=x)
        close(np.array(found), np.array(others), tol=1e-6)
        assert abs(others[1] - others[0]).max() > 1e-4  # the states matter
        close(np.array(lrp.predict_all(model, list(x))), others[0], tol=1e-5)


def slices(keras):
    """Slices, each in a network of its own."""
    L = keras.layers
    for cut in (
        np.s_[..., 1:4], np.s_[..., -2:], np.s_[..., ::2], np.s_[..., 2:3], np.s_[:, ..., :3], np.s_[:, 1:, ...],
        np.s_[:, -1, ...], np.s_[..., -2, :], np.s_[..., -3:, :], np.s_[:, 1:6:2, 0:3], np.s_[:, -4:-1], np.s_[:, 0],
        np.s_[:, 3, 1:4], np.s_[..., :], np.s_[:, :, ...], np.s_[:, :, 2], np.s_[..., -1],
    ):  # fmt: skip
        x = L.Input((7, 3))
        y = L.LSTM(5, return_sequences=True)(x)[cut]
        yield cut, keras.Model(x, L.Dense(2)(L.GRU(4)(y) if len(y.shape) == 3 else y))


@pytest.mark.parametrize("kind", ["keras3", "tf_keras"])
def test_slices_of_keras(tmp_path, kind):
    for module in NEEDS[kind]:
        pytest.importorskip(module)
    x = np.random.default_rng(0).normal(size=(2, 7, 3)).astype(np.float32)
    for cut, made in slices(kerasgraph.keras_module(kind)):
        path = tmp_path / ("model.keras" if kind == "keras3" else "model.h5")
        made.save(path)
        found = np.array(lrp.predict_all(lrp.load(path), list(x)))
        assert abs(found - values(made(x))).max() < 1e-5, cut


def test_weights_of_a_custom_class(tmp_path):
    """Layers whose attributes sort before "layers" are stored beside that group."""
    pytest.importorskip("keras")
    keras = kerasgraph.keras_module("keras3")
    L = keras.layers

    class Custom(keras.Model):
        def __init__(self, normed):
            super().__init__()
            self.emb, self.rnn, self.dense = L.Embedding(9, 4), L.GRU(5), L.Dense(3)
            self.bn = L.BatchNormalization() if normed else None

        def call(self, x):
            h = self.rnn(self.emb(x))
            return self.dense(h if self.bn is None else self.bn(h))

    ids, path = np.array([[3, 1, 4, 1, 5]]), tmp_path / "model.weights.h5"
    for normed in (False, True):
        made = Custom(normed)
        want = values(made(ids))[0]
        made.save_weights(path)
        if normed:
            with pytest.raises(lrp.WeightFileError, match=r"say layers=\['emb', 'gru', 'bn', 'dense'\]"):
                lrp.load(path)
            x = L.Input((None,))
            h = L.BatchNormalization(name="bn")(L.GRU(5)(L.Embedding(9, 4, name="emb")(x)))
            config = keras.Model(x, L.Dense(3, name="dense")(h)).to_json()
            model = lrp.load(path, config=config)
        else:
            with pytest.warns(lrp.AssumptionWarning, match="dense, emb placed where the shapes fit"):
                model = lrp.load(path)
        close(lrp.predict(model, ids[0].tolist()), want, tol=1e-5)


@pytest.mark.parametrize("kind", ["keras3", "tf_keras"])
def test_sentences_of_keras(tmp_path, kind):
    """Vocabulary, standardisation and padding are those of the file, and of the live model."""
    pytest.importorskip("tensorflow")
    keras = kerasgraph.keras_module(kind)
    if kind == "keras3" and keras.backend.backend() != "tensorflow":
        pytest.skip("strings need the backend of TensorFlow")
    for path, live, scores in kerasgraph.worded(keras, tmp_path):
        for model in (lrp.load(path), lrp.from_keras(live)):
            assert model.embedding.tokenizer == "keras" and model.embedding.unknown == "[UNK]"
            close(lrp.predict_all(model, kerasgraph.SENTENCES), scores, tol=1e-5)


def test_cudnn_gru(tmp_path):
    """tf-keras writes CuDNNGRU anywhere but runs it on a GPU only; its GRU reads the file and runs."""
    keras = pytest.importorskip("tf_keras")
    from tf_keras.src.layers.rnn.cudnn_gru import CuDNNGRU

    def model(cell):
        layers = keras.layers
        both = layers.Bidirectional(cell(3, return_sequences=True))
        return keras.Sequential([layers.Input((None, 4)), both, cell(2), layers.Dense(2)])

    rng = np.random.default_rng(0)
    given, runs = model(CuDNNGRU), model(keras.layers.GRU)
    given.set_weights([rng.normal(0, 0.6, array.shape) for array in given.get_weights()])
    given.save(tmp_path / "model.h5")
    runs.load_weights(tmp_path / "model.h5")
    x = rng.normal(size=(6, 4)).astype(np.float32)
    close(lrp.predict(files.load(tmp_path / "model.h5"), x), np.asarray(runs(x[None]))[0], tol=1e-5)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("readout", ["last", "mean", "max", "every"])
def test_modules_of_torch(layers, two, readout):
    torch = pytest.importorskip("torch")
    module = network(torch, readout, two, layers)
    x = torch.randn(6, 5)
    with torch.no_grad():
        scores = module(x[None])[0].numpy()
    model = files.from_torch(module)
    close(lrp.predict(model, x.numpy()), scores, tol=1e-5)
    assert files.from_torch(module.state_dict(), readout=readout, activations=["relu"]).digest == model.digest
    assert not module.training and not module.lstm._forward_hooks
    with pytest.raises(lrp.LrpError, match=r"leave such hints out, or pass module\.state_dict"):
        files.from_torch(module, readout=readout)
    assert files.from_torch(module, check=x[None]).digest == model.digest
    with pytest.raises(lrp.LrpError, match="the module raised an error on the `check` input"):
        files.from_torch(module, check=torch.zeros(2, 2))


LIVE = {
    "LSTM": {"kind": "LSTM", "depth": 2},
    "GRU in two directions": {"kind": "GRU", "two": True},
    "RNN with relu": {"kind": "RNN", "nonlinearity": "relu"},
    "last row": {"kind": "LSTM", "two": True, "readout": "last-row"},
    "words": {"kind": "LSTM", "words": 11, "readout": "mean"},
    "every": {"kind": "GRU", "readout": "every"},
}


@pytest.mark.parametrize("name", LIVE)
def test_a_live_module_says_everything(name):
    torch = pytest.importorskip("torch")
    from interop import torchsave

    module = torchsave.Network(**LIVE[name]).train()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = files.from_torch(module)
    assert nets.readout(model) == LIVE[name].get("readout", "last") and module.training
    words = LIVE[name].get("words")
    x = torch.randint(0, words, (6,)) if words else torch.randn(6, torchsave.D)
    with torch.no_grad():
        close(lrp.predict(model, x.numpy()), module.eval()(x[None])[0].numpy(), tol=1e-5)


@pytest.mark.parametrize("name", ["relu", "tanh", "sigmoid", "gelu"])
def test_a_live_module_says_its_activations(name):
    torch = pytest.importorskip("torch")
    from interop import torchsave

    activation = torch.nn.functional.gelu if name == "gelu" else getattr(torch, name)
    model = files.from_torch(torchsave.Separate(activation=activation))
    assert model.layers[2].activation == name


def test_live_modules_of_other_kinds():
    torch = pytest.importorskip("torch")
    from interop import torchsave

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert nets.readout(files.from_torch(torchsave.Cells())) == "last"
        assert nets.readout(files.from_torch(torchsave.Tied())) == "every"
        assert nets.readout(files.from_torch(torchsave.Prelu())) == "last"
        convolved = files.from_torch(torchsave.Convolved())
    kinds = [type(layer).__name__ for layer in convolved.layers]
    assert kinds == ["Conv1D", "LSTM", "LayerNorm", "Dense"] and convolved.output == "softmax"

    class Doubled(torchsave.Separate):
        def forward(self, x):
            return self.fc2(torch.cos(self.fc1(self.lstm(x)[0][:, -1])))

    with pytest.raises(lrp.LrpError, match=r"cos\(\) is not supported; .*from_torch\(module\.encoder\)"):
        files.from_torch(Doubled())

    class Fixed(torchsave.Separate):
        def forward(self, x):
            assert x.shape[1] == 9
            return super().forward(x)

    with pytest.raises(lrp.LrpError, match=r"cannot be run on a probe .*: pass check=x"):
        files.from_torch(Fixed())
    assert files.from_torch(Fixed(), check=torch.randn(1, 9, torchsave.D)).layers[2].activation == "relu"


def test_live_modules_that_are_no_chain():
    """Attention, pools side by side, autoencoders, residuals: what a module does is seen, and its scores are ours."""
    torch = pytest.importorskip("torch")
    from interop import livemodules

    for name, (make, kinds) in livemodules.MODULES.items():
        module = make().eval()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if name == "packed" else "error")  # which says that it takes no padding
            model = files.from_torch(module)
        assert [type(node.layer).__name__ for node in model.nodes] == kinds.split(), name
        words = any(isinstance(part, torch.nn.Embedding) for part in module.modules())
        torch.manual_seed(3)
        x = torch.randint(0, 9, (1, 7)) if words else torch.randn(1, 7, livemodules.D)
        for given in (x, x[0], x.transpose(0, 1)):
            try:
                with torch.no_grad():
                    y = module(given, *([torch.tensor([7])] if name == "packed" else [])).numpy()
                break
            except (RuntimeError, AssertionError):
                continue
        else:
            pytest.fail(f"{name} takes no input of any layout")
        scores = lrp.predict(model, x[0].numpy()).reshape(y.shape)
        if name == "tagger":
            scores = np.log(np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True))
        close(scores, y, tol=1e-5)


def test_files_of_torch_save(tmp_path):
    pytest.importorskip("torch")
    from interop import torchsave

    rows = dict(torchsave.written(tmp_path))
    assert len(rows) > 15
    for name, row in rows.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lrp.AssumptionWarning)
            model = files.load(tmp_path / name, **row["load"])
        x = np.asarray(row["x"])
        close(lrp.predict(model, x if model.embedding is not None else x.astype("f4")), row["scores"], tol=1e-5)


def test_everything_without_arrays(tmp_path):
    """Each activation and each Dropout of torch.nn that is known, in a whole module and in a live one."""
    torch = pytest.importorskip("torch")
    from interop import livemodules

    from lrpnumpy.files.torch import pickled as modules

    x = torch.randn(6, livemodules.D)
    for k, name in enumerate((*modules.ACTIVATIONS, *modules.NOTHING)):
        module = livemodules.Headed(getattr(torch.nn, name)(), cell=torch.nn.GRU if k % 2 else torch.nn.LSTM).eval()
        with torch.no_grad():
            y = module(x[None])[0].numpy()
        torch.save(module, tmp_path / "model.pt")
        for model in (files.from_torch(module), files.load(tmp_path / "model.pt", readout="last")):
            close(lrp.predict(model, x.numpy()), y, tol=1e-5)
    celled = livemodules.Celled().eval()
    torch.save(celled, tmp_path / "model.pt")
    for model in (files.from_torch(celled), files.load(tmp_path / "model.pt", readout="last", nonlinearity="tanh")):
        assert model.output == "softmax"
        close(lrp.predict(model, x.numpy()), celled.fc(_states(torch, celled, x))[0].detach().numpy(), tol=1e-5)


def _states(torch, celled, x):
    h = torch.zeros(1, 4)
    for row in x:
        h = celled.cell(row[None], h)
    return h


def test_other_ways_to_save_a_module(tmp_path):
    """TorchScript, whose code is not looked at, wrapped modules, prefixes, and networks inside lists and dicts."""
    torch = pytest.importorskip("torch")
    from interop import livemodules

    module = livemodules.Plain().eval()
    state = module.state_dict()
    expected = files.from_torch(module).digest
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(module).save(tmp_path / "script.pt")
        torch.jit.trace(module, torch.randn(1, 6, livemodules.D)).save(tmp_path / "trace.pt")
        torch.export.save(torch.export.export(module, (torch.randn(1, 6, livemodules.D),)), tmp_path / "program.pt2")
        quantised = torch.ao.quantization.quantize_dynamic(livemodules.Plain(), {torch.nn.Linear})
    torch.save(torch.nn.DataParallel(module).state_dict(), tmp_path / "parallel.pt")
    torch.save(torch.compile(module).state_dict(), tmp_path / "compiled.pt")
    lightning = {f"model._orig_mod.{name}": tensor for name, tensor in state.items()}
    torch.save({"state_dict": lightning, "pytorch-lightning_version": "2.1", "loops": {}}, tmp_path / "lightning.ckpt")
    torch.save([state, 3], tmp_path / "list.pt")
    torch.save({"model": state, "mean": torch.ones(3)}, tmp_path / "dict.pt")
    hints = {"readout": "last", "activations": ["relu"]}
    for path in sorted(tmp_path.glob("*.[pc]*t")):
        assert files.load(path, **hints).digest == expected, path.name
    with pytest.raises(lrp.WeightFileError, match="is a program of torch"):
        files.load(tmp_path / "program.pt2")
    torch.save(quantised.state_dict(), tmp_path / "quantised.bin")
    with pytest.raises(lrp.WeightFileError):
        files.load(tmp_path / "quantised.bin", **hints)
    torch.save({"encoder": torch.nn.GRU(2, 3).state_dict(), "decoder": state}, tmp_path / "two.bin")
    with pytest.raises(lrp.WeightFileError, match="holds 2 networks; say which='encoder', or in its place 'decoder'"):
        files.load(tmp_path / "two.bin")
    assert files.load(tmp_path / "two.bin", which="decoder", **hints).digest == expected


def test_modules_of_torch_that_are_refused_by_name():
    torch = pytest.importorskip("torch")
    made = torch.nn.Sequential(torch.nn.LSTM(3, 2), torch.nn.Conv2d(1, 1, 1))
    with pytest.raises(lrp.LrpError, match="Conv2d"):
        files.from_torch(made.state_dict(), readout="last")


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_projections_of_torch(layers, two, bias, tmp_path):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    made = torch.nn.LSTM(3, 5, layers, proj_size=2, bidirectional=two, bias=bias, batch_first=True)
    x = torch.randn(7, 3)
    with torch.no_grad():
        out = made(x[None])[0][0].numpy()
    torch.save(made, tmp_path / "whole.pt")
    torch.save(made.state_dict(), tmp_path / "state.pt")
    opened = [files.load(tmp_path / name, readout="every", check=(x.numpy(), out)) for name in ("whole.pt", "state.pt")]
    opened += [files.from_torch(one, readout="every") for one in (made, made.state_dict())]
    for model in opened:
        np.testing.assert_allclose(lrp.predict(model, x.numpy()), out, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_tensors_of_other_widths(dtype):
    torch = pytest.importorskip("torch")
    module = network(torch, "last", False, 1).to(getattr(torch, dtype))
    model = files.from_torch(module.state_dict(), readout="last", activations=["relu"])
    assert model.dtype == (np.float64 if dtype == "float64" else np.float32)


def network(torch, readout, two, layers):
    """An LSTM of torch with a head of two linear layers, read in one of several ways."""
    torch.manual_seed(0)

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(5, 3, layers, batch_first=True, bidirectional=two)
            self.hidden = torch.nn.Linear(6 if two else 3, 4)
            self.head = torch.nn.Linear(4, 2)

        def forward(self, x):
            out, (h_n, _) = self.lstm(x)
            if readout == "last":
                out = torch.cat([h_n[-2], h_n[-1]], dim=-1) if two else h_n[-1]
            elif readout == "out[:, -1]":
                out = out[:, -1]
            elif readout == "mean":
                out = out.mean(dim=1)
            elif readout == "max":
                out = out.max(dim=1).values
            return self.head(torch.relu(self.hidden(out)))

    return Network().eval()
