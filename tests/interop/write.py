"""Write the networks of the zoo with a real framework: files, and the framework's own scores beside them.

    python -m tests.interop.write keras3 DIR

`keras3` may also be tf_keras, tf (an older TensorFlow), cudnn, keras1, torch, onnx or reference. The fixtures
in tests/fixtures are a choice of these, a folder for each version: see the README there.
"""

import argparse
import json
import os
import pickle
import shutil
import tempfile
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np

import lrpnumpy as lrp
from lrpnumpy.files import save_many

if __package__ == "tests.interop":
    from . import zoo
else:
    from interop import zoo

os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def keras_module(kind):
    """Keras 3, tf-keras (Keras 2), or the Keras of an older TensorFlow."""
    if kind == "keras3":
        import keras
    elif kind == "tf_keras":
        import tf_keras as keras
    else:
        from tensorflow import keras
    return keras


def keras_model(keras, name):
    """A network of the zoo in Keras, with our weights."""
    network = zoo.NETWORKS[name]
    ours = network.model()
    layers = network.layers(keras.layers)
    shape = (None,) if ours.embedding is not None else (None, ours.input_size)
    start = keras.layers.Input(shape, dtype="int32" if ours.embedding is not None else "float32")
    if network.functional:
        made = start
        for layer in layers:
            made = layer(made)
        model = keras.Model(start, made)
    else:
        model = keras.Sequential([start, *layers])
    model.set_weights(zoo.keras_weights(ours))
    return model


def keras_scores(keras, model, x):
    """What the network computes before its softmax or sigmoid."""
    last = model.layers[-1]
    activation = last.activation
    try:
        if activation.__name__ in ("softmax", "sigmoid"):
            last.activation = keras.activations.linear
        scores = model(x[None])
    finally:
        last.activation = activation
    return np.asarray(scores.detach() if hasattr(scores, "detach") else scores)[0]


def keras_version(keras):
    """TensorFlow does not always tell the version of its Keras."""
    return getattr(keras, "__version__", None) or metadata.version("keras")


def write_keras(kind, folder):
    """Yield one row for each file: its name, how to load it, the input, and the framework's scores."""
    keras = keras_module(kind)
    major = keras_version(keras).split(".")[0]
    for name, network in zoo.NETWORKS.items():
        if network.layers is None:
            continue
        model = keras_model(keras, name)
        ours = network.model()
        x = zoo.inputs(ours)
        scores = keras_scores(keras, model, x)
        if ours.every and ours.inputs["x"].mask_value is not None:
            scores = scores[zoo.kept(ours, x)]
        hard = "hard_sigmoid_3" if major == "3" else "hard_sigmoid"
        row = _row(name, f"{kind} {keras_version(keras)}", x, scores, hard)
        config = f"{name}.json"
        (folder / config).write_text(model.to_json())
        for ending in (".h5", ".keras", ".weights.h5", "_weights.h5"):
            path = folder / f"{name}{ending}"
            if ending == "_weights.h5" and major == "3":
                continue  # only the older Keras writes this layout
            model.save_weights(path) if "weights" in ending else model.save(path)
            yield path.name, {**row, "load": {"config": config} if "weights" in ending else {}}


def torch_module(name):
    """A network of the zoo in PyTorch: a module with our weights."""
    import torch

    ours = zoo.NETWORKS[name].model()

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(*ours.embedding.E.shape)
            inputs, two = ours.layers[0].inputs, hasattr(ours.layers[0], "merge")
            units = ours.layers[0].outputs // (1 + two)
            self.lstm = torch.nn.LSTM(inputs, units, batch_first=True, bidirectional=two)
            self.head = torch.nn.Linear(ours.layers[0].outputs, ours.outputs)

        def forward(self, ids):
            _, (h_n, _) = self.lstm(self.embedding(ids))
            return self.head(torch.cat(list(h_n), dim=-1))

    module = Network()
    module.load_state_dict({key: torch.tensor(array) for key, array in zoo.torch_arrays(ours).items()})
    return module.eval()


def export_to_hdf5(state_dict, path, readout):
    """The ten-line export of docs/files.md."""
    import h5py

    with h5py.File(path, "w") as file:
        for name, tensor in state_dict.items():
            file[name] = tensor.detach().cpu().numpy()
        file.attrs["readout"] = readout


def write_torch(folder, names=("sentence",)):
    """The same rows for PyTorch: a state_dict as HDF5, npz and safetensors."""
    import torch
    from safetensors.torch import save_file

    for name in names:
        ours = zoo.NETWORKS[name].model()
        module = torch_module(name)
        x = zoo.inputs(ours)
        with torch.no_grad():
            scores = module(torch.tensor(x)[None])[0].numpy()
        row = _row(name, f"torch {torch.__version__}", x, scores)
        state = module.state_dict()
        export_to_hdf5(state, folder / f"{name}_torch.h5", "last")
        yield f"{name}_torch.h5", {**row, "load": {"output": "softmax"}}
        np.savez_compressed(folder / f"{name}_torch.npz", **{key: t.numpy() for key, t in state.items()})
        yield f"{name}_torch.npz", {**row, "load": {"readout": "last", "output": "softmax"}}
        save_file(state, folder / f"{name}_torch.safetensors")
        yield f"{name}_torch.safetensors", {**row, "load": {"readout": "last", "output": "softmax"}}


def write_onnx(folder):
    """ONNX of PyTorch's exporters: the older one, and today's with the weights in a file beside."""
    import torch

    ours = zoo.NETWORKS["sentence"].model()
    x = zoo.inputs(ours)
    module = torch_module("sentence")
    with torch.no_grad():
        scores = module(torch.tensor(x)[None])[0].numpy()
    row = _row("sentence", f"torch {torch.__version__}", x, scores)
    for name, how in {
        "sentence.onnx": {"dynamo": False, "dynamic_axes": {"x": {1: "T"}}},
        "beside.onnx": {"dynamo": True, "external_data": True, "dynamic_shapes": ({1: torch.export.Dim.AUTO},)},
    }.items():
        torch.onnx.export(module, (torch.tensor(x)[None],), folder / name, input_names=["x"], **how)
        _forget_paths(folder / name)
        yield name, {**row, "load": {}}


def _forget_paths(path):
    """Take off what the exporter notes about the program that called it: paths of this machine."""
    import onnx

    made = onnx.load(path, load_external_data=False)
    for part in (made, made.graph, *made.graph.node, *made.graph.value_info, *made.graph.initializer):
        del part.metadata_props[:]
        part.doc_string = ""
    path.write_bytes(made.SerializeToString())


def write_cudnn(folder):
    """CuDNNLSTM, which tf-keras writes anywhere but runs on a GPU only; its LSTM reads and runs the file."""
    import tf_keras as keras
    from tf_keras.src.layers.rnn.cudnn_lstm import CuDNNLSTM

    ours = zoo.NETWORKS["deep"].model()
    start = keras.layers.Input((None,), dtype="int32")
    model = keras.Sequential([start, *zoo.deep_layers(keras.layers, CuDNNLSTM)])
    model.set_weights(zoo.cudnn_weights(ours))
    path = folder / "cudnn.h5"
    model.save(path)
    runs = keras.Sequential([keras.layers.Input((None,), dtype="int32"), *zoo.deep_layers(keras.layers)])
    runs.load_weights(path)
    x = zoo.inputs(ours)
    yield (
        path.name,
        {**_row("deep", f"tf_keras {keras.__version__}", x, keras_scores(keras, runs, x)), "load": {}},
    )


def write_keras1(folder):
    """The layout of Keras 1 by hand; the scores are from tf-keras, which still converts such files."""
    import tf_keras as keras

    ours = zoo.NETWORKS["old"].model()
    x = zoo.inputs(ours)
    keras1_file(ours, folder / "keras1.h5", version=None)
    runs = keras.Sequential([keras.layers.Input((None,), dtype="int32"), *zoo.old_layers(keras.layers)])
    runs.load_weights(folder / "keras1.h5")  # tf-keras takes files that do not say their version for Keras 1
    keras1_file(ours, folder / "keras1.2.h5")
    row = _row("old", f"tf_keras {keras.__version__}", x, keras_scores(keras, runs, x))
    yield "keras1.h5", {**row, "load": {}}
    yield "keras1.2.h5", {**row, "load": {}}


def keras1_file(model, path, version="1.2.2"):
    """The network `old` as Keras 1 laid out whole models, which at first did not say their version."""
    import h5py

    common = {
        "activation": "tanh",
        "inner_activation": "hard_sigmoid",
        "consume_less": "cpu",
        "unroll": False,
    }
    common |= {"go_backwards": False, "stateful": False, "init": "glorot_uniform", "inner_init": "orthogonal"}

    def lstm(name, units, sequences):
        settings = {**common, "name": name, "output_dim": units, "return_sequences": sequences}
        return {"class_name": "LSTM", "config": settings}

    start = {
        "name": "embedding_1",
        "batch_input_shape": [None, None],
        "input_dim": zoo.VOCABULARY,
        "output_dim": 4,
    }
    both = {"name": "bidirectional_1", "merge_mode": "concat", "layer": lstm("lstm_2", 2, False)}
    end = {"name": "dense_1", "output_dim": 2, "activation": "softmax", "bias": True, "input_dim": 4}
    layers = [
        {
            "class_name": "Embedding",
            "config": {**start, "mask_zero": True, "input_length": None, "dropout": 0.0},
        },
        lstm("lstm_1", 3, True),
        {"class_name": "Bidirectional", "config": both},
        {"class_name": "Dense", "config": end},
    ]
    names = [layer["config"]["name"] for layer in layers]
    with h5py.File(path, "w") as file:
        weights = file.create_group("model_weights")
        for holder in (file, weights) if version else ():
            holder.attrs["keras_version"] = np.bytes_(version)
        file.attrs["model_config"] = np.bytes_(json.dumps({"class_name": "Sequential", "config": layers}))
        weights.attrs["layer_names"] = np.array(names, "S")
        for name, record in zip(names, (model.embedding, *model.layers), strict=True):
            group, arrays = weights.create_group(name), zoo.keras1_weights(record)
            group.attrs["weight_names"] = np.array([f"{name}_{k}" for k in range(len(arrays))], "S")
            for k, array in enumerate(arrays):
                group[f"{name}_{k}"] = array


def write_reference(folder):
    """The folder of LRP_for_LSTM, after its description; the scores are from a few lines of NumPy."""
    ours = zoo.NETWORKS["reference"].model()
    both, V = ours.layers[0], ours.layers[1].V
    arrays = {}
    for name, side in (("Left", both.forward), ("Right", both.backward)):
        H, order = side.units, [0, 2, 1, 3]  # i, g, f, o
        arrays[f"Wxh_{name}"] = side.U[order].reshape(4 * H, -1)
        arrays[f"Whh_{name}"] = side.W[order].reshape(4 * H, H)
        arrays[f"bxh_{name}"] = side.b[order].reshape(-1) * np.float32(0.25)
        arrays[f"bhh_{name}"] = side.b[order].reshape(-1) - arrays[f"bxh_{name}"]
        arrays[f"Why_{name}"] = V[:, :H] if name == "Left" else V[:, H:]
    for protocol in (2, 4):
        inside = folder / f"reference{protocol}"
        inside.mkdir(exist_ok=True)
        with (inside / "model").open("wb") as file:
            pickle.dump(arrays, file, protocol)
        with (inside / "vocab").open("wb") as file:
            pickle.dump(list(ours.embedding.vocabulary), file, protocol)
        np.save(inside / "embeddings.npy", ours.embedding.E)
        x = zoo.inputs(ours)
        h = [_final_state(side, ours.embedding.E[ids]) for side, ids in ((both.forward, x), (both.backward, x[::-1]))]
        yield inside.name, {**_row("reference", "NumPy", x, V @ np.concatenate(h)), "load": {}}


def _final_state(lstm, inputs):
    h = c = np.zeros(lstm.units)
    for x in inputs:
        i, f, g, o = lstm.U @ x + lstm.W @ h + lstm.b
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
    return h


def write_native(folder):
    """Our own format, to see in years to come that version 2 is still read; the scores are our own."""
    for name in ("reference", "every"):
        ours = zoo.NETWORKS[name].model()
        x = zoo.inputs(ours)
        lrp.save(ours, folder / f"{name}.h5", overwrite=True)
        yield f"{name}.h5", {**_row(name, "lrpnumpy", x, lrp.predict(ours, x)), "load": {}}
    both = {f"zoo/{name}": zoo.NETWORKS[name].model() for name in ("relu", "sentence")}
    ours = both["zoo/relu"]
    save_many({**both, "zoo/relu": replace(ours, provenance={"error": "0.125"})}, folder / "many.h5", overwrite=True)
    x = zoo.inputs(ours)
    row = _row("relu", "lrpnumpy", x, lrp.predict(ours, x))
    yield "many.h5", {**row, "load": {"which": "zoo/relu"}}


def _row(network, framework, x, scores, hard_sigmoid="hard_sigmoid"):
    """What a test needs to know of a file; `scores` are the framework's own."""
    row = {"network": network, "framework": framework, "x": x.tolist(), "scores": np.asarray(scores).tolist()}
    return {**row, "hard_sigmoid": hard_sigmoid}


WRITERS = {
    "keras3": lambda folder: write_keras("keras3", folder),
    "tf_keras": lambda folder: write_keras("tf_keras", folder),
    "tf": lambda folder: write_keras("tf", folder),
    "cudnn": write_cudnn,
    "keras1": write_keras1,
    "torch": write_torch,
    "onnx": write_onnx,
    "reference": write_reference,
    "native": write_native,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("framework", choices=WRITERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", help="of what is written, the files to keep")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        rows = dict(WRITERS[options.framework](Path(scratch)))
        keep = [name for name in rows if options.only is None or name in options.only]
        for name in {
            *keep,
            *(rows[name]["load"]["config"] for name in keep if "config" in rows[name]["load"]),
            *(f"{name}.data" for name in keep if (Path(scratch) / f"{name}.data").exists()),
        }:
            place = shutil.copytree if (Path(scratch) / name).is_dir() else shutil.copy
            target = options.folder / name
            place(Path(scratch) / name, target, **({"dirs_exist_ok": True} if target.is_dir() else {}))
    (options.folder / "scores.json").write_text(json.dumps({name: rows[name] for name in keep}, indent=1) + "\n")


if __name__ == "__main__":
    main()
