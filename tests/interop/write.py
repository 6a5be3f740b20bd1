"""Write the networks of the zoo with a real framework: files, and the framework's own scores beside them.

    python -m tests.interop.write keras3 DIR       # also: tf_keras, tf (an older TensorFlow), torch, onnx

The fixtures in tests/fixtures are a choice of these; `--fixtures` writes that choice.
"""

import argparse
import json
import os
from importlib import metadata
from pathlib import Path

import numpy as np

if __package__ == "tests.interop":
    from . import zoo
else:
    from interop import zoo

os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

FIXTURES = Path(__file__).parents[1] / "fixtures"


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
    shape = (None,) if ours.embedding is not None else (None, ours.inputs)
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


def write_keras(kind, folder, names=None):
    """Yield one row for each file: its name, how to load it, the input, and the framework's scores."""
    keras = keras_module(kind)
    major = keras_version(keras).split(".")[0]
    for name in names or zoo.NETWORKS:
        network = zoo.NETWORKS[name]
        model = keras_model(keras, name)
        ours = network.model()
        x = zoo.inputs(ours)
        scores = keras_scores(keras, model, x)
        if ours.readout == "every" and ours.mask_value is not None:
            scores = scores[zoo.kept(ours, x)]
        row = {
            "network": name,
            "framework": f"{kind} {keras_version(keras)}",
            "x": x.tolist(),
            "scores": scores.tolist(),
        }
        row["hard_sigmoid"] = "hard_sigmoid_3" if major == "3" else "hard_sigmoid"
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
        row = {
            "network": name,
            "framework": f"torch {torch.__version__}",
            "x": x.tolist(),
            "scores": scores.tolist(),
        }
        row["hard_sigmoid"] = "hard_sigmoid"
        state = module.state_dict()
        export_to_hdf5(state, folder / f"{name}_torch.h5", "last")
        yield f"{name}_torch.h5", {**row, "load": {}}
        np.savez_compressed(folder / f"{name}_torch.npz", **{key: t.numpy() for key, t in state.items()})
        yield f"{name}_torch.npz", {**row, "load": {"readout": "last"}}
        save_file(state, folder / f"{name}_torch.safetensors")
        yield f"{name}_torch.safetensors", {**row, "load": {"readout": "last"}}


WRITERS = {
    "keras3": lambda folder: write_keras("keras3", folder),
    "tf_keras": lambda folder: write_keras("tf_keras", folder),
    "tf": lambda folder: write_keras("tf", folder),
    "torch": write_torch,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("framework", choices=WRITERS)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = dict(WRITERS[options.framework](options.folder))
    (options.folder / "scores.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
