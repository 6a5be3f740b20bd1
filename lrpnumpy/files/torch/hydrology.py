"""A run of neuralhydrology: the folder that its training writes, with the network, its inputs and their scalers.

`config.yml` describes the network and the names of its inputs, `model_epoch001.pt` and so on hold its arrays after each
epoch, `train_data/train_data_scaler.yml` how inputs and targets were scaled. All of them are read as plain data. The
model takes values in units, and gives scores in units.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.files.kinds import LoadOptions, WeightFile
from lrpnumpy.files.report import Imported
from lrpnumpy.files.safe import Budget, Fields, Source, kind_of, open_file, size_of
from lrpnumpy.files.torch import saved as torchsave
from lrpnumpy.files.torch import yamls
from lrpnumpy.files.torch.known import KnownNetwork, lstm
from lrpnumpy.inputs import Input
from lrpnumpy.layers import EALSTM, Concat, Dense, Repeat
from lrpnumpy.model import Model
from lrpnumpy.scaling import Scaler

CONFIG, SCALER, BASINS = "config.yml", "train_data/train_data_scaler.yml", "train_data/id_to_int.yml"
# network: where its cell is
CELLS = {"cudalstm": "lstm", "embcudalstm": "lstm", "gru": "gru", "customlstm": "cell", "ealstm": "dynamic_gates"}
_EPOCH = re.compile(r"model_epoch(\d{1,9})\.pt")
_EMBEDDED = ("tanh", "sigmoid", "relu", "linear")  # activations of embedding networks
# Settings that change the inputs of a network in an unsupported way.
_REFUSED = (
    "nan_handling_method", "mass_inputs", "autoregressive_inputs", "evolving_attributes", "static_inputs",
    "timestep_counter", "dynamic_conceptual_inputs", "hindcast_inputs", "forecast_inputs",
)  # fmt: skip


class Scaled(NamedTuple):
    """Names of numbers, and how they were scaled for training."""

    names: tuple[str, ...]
    scaler: Scaler


def read(opened: WeightFile, options: LoadOptions) -> Imported:
    """The model of a run."""
    run = HydrologyRun(opened.path, options.max_bytes, options.which)
    return Imported(run.read(options.readout), run.notes, kind="run of neuralhydrology")


class HydrologyRun(Source):
    """The folder of a run; `which` picks an epoch, as "3" or "model_epoch003.pt"."""

    def __init__(self, folder: Path, max_bytes: int, which: str | None = None) -> None:
        self._folder = folder
        super().__init__(str(folder), Budget(str(folder), 0, max_bytes))
        epochs: dict[str, int] = {}
        with os.scandir(folder) as entries:
            for entry in entries:
                self.budget.visit("")
                if match := _EPOCH.fullmatch(entry.name):
                    epochs[entry.name] = int(match[1])
        asked = [name for name, epoch in epochs.items() if which in (None, name, name.removesuffix(".pt"), str(epoch))]
        if not asked:
            raise self.error("", f"which must be one of its epochs, {', '.join(sorted(epochs)[-20:])}, got {which!r}")
        self._arrays = max(asked, key=lambda name: epochs[name])
        self.budget = Budget(str(folder), self._size(self._arrays), max_bytes)
        self.config = Fields(self, CONFIG, self._yaml(CONFIG))
        self.notes = [f"the arrays are those of {self._arrays}"]

    def _size(self, name: str) -> int:
        with self.guard(name), open_file(self._folder / name, follow=False) as stream:
            return size_of(stream)

    def _yaml(self, name: str) -> Any:
        with self.guard(name), open_file(self._folder / name, follow=False) as stream:
            content = stream.read(min(size_of(stream), yamls.MAX_YAML + 1))
        self.budget.hold(name, len(content))
        return yamls.parse(self, name, content)

    def read(self, readout: str | None = None) -> Model:
        """The model; `readout` is "last" or "every" where the configuration is not to decide."""
        config = self.config
        kind = config.string("model").lower()
        if kind not in CELLS:
            shown = kind_of(config.value["model"])
            config.refuse(
                f"has the network {shown}, which is not supported; train one of {', '.join(CELLS)} to explain it"
            )
        if config.string("head").lower() != "regression":
            config.refuse(f"has the head {kind_of(config.value['head'])}, which is not supported; regression is")
        for key in _REFUSED:
            if config.value.get(key):
                config.refuse(f"{key} is not supported, got {kind_of(config.value[key])}")
        if readout not in (None, "last", "every"):
            raise self.error("", f"readout must be 'last' or 'every' for a run of neuralhydrology, got {readout!r}")
        self._scalers = Fields(self, SCALER, self._yaml(SCALER))
        dynamic, static = self._series(self._names("dynamic_inputs")), self._static()
        targets = self._series(self._names(config.first("target_variables", "target_variable")))
        if readout is None:
            readout = "last" if config.value.get("predict_last_n", 1) == 1 else "every"
            self.notes.append(f"predict_last_n is {config.value.get('predict_last_n', 1)}: readout {readout!r}")
        if not dynamic.names:
            config.refuse("dynamic_inputs must be a list of names")
        inputs = {"x_d": Input(len(dynamic.names), features=dynamic.names, scaler=dynamic.scaler)}
        if static.names:
            inputs["x_s"] = Input(len(static.names), False, features=static.names, scaler=static.scaler)
        self.notes.append("inputs and scores are in units: the scalers of the run are part of the model")
        if config.value.get("clip_targets_to_zero"):
            self.notes.append("clip_targets_to_zero is left out: the scores explained may be below 0")
        with torchsave.opened(self._folder / self._arrays, self.budget) as saved:
            network = _Network(saved, kind, config, inputs)
            return network.model(
                network.scores(readout),
                classes=targets.names,
                output_scaler=targets.scaler,
                window=config.optional("integer", "seq_length"),
            )

    def _names(self, *keys: str) -> list[str]:
        """The names in lists of the configuration, which may be left out."""
        found: list[str] = []
        for key in keys:
            value = self.config.value.get(key)
            if isinstance(value, str):
                found.append(value)
            elif value is not None:
                found += self.config.strings(key)
        return found

    def _series(self, names: list[str]) -> Scaled:
        """How series were scaled: what xarray wrote."""
        parts = []
        for what, old in (("center", "xarray_means"), ("scale", "xarray_stds")):
            entries = self._scalers.object(self._scalers.first(f"xarray_feature_{what}", old)).object("data_vars").value
            parts.append({name: one.get("data") if isinstance(one, dict) else None for name, one in entries.items()})
        return self._scaling(names, *parts)

    def _static(self) -> Scaled:
        """Attributes in alphabetical order, as the library sorts them, then one number for each basin."""
        names = sorted(self._names("static_attributes", "camels_attributes", "hydroatlas_attributes"))
        old = "camels_attr" if self._scalers.has("camels_attr_means") else "attribute"
        both = [self._scalers.object(f"{old}_{what}").value if names else {} for what in ("means", "stds")]
        found = self._scaling(names, *both)
        if not self.config.boolean("use_basin_id_encoding", default=False):
            return found
        basins = Fields(self, BASINS, self._yaml(BASINS)).value
        if sorted(map(str, basins.values())) != sorted(map(str, range(len(basins)))):
            raise self.error(BASINS, f"must number the basins from 0 to {len(basins) - 1}")
        ids = tuple(f"basin {name}" for name in sorted(basins, key=lambda name: basins[name]))
        mean, scale = found.scaler
        return Scaled(found.names + ids, Scaler(mean + (0.0,) * len(ids), scale + (1.0,) * len(ids)))

    def _scaling(self, names: list[str], center: dict[str, Any], scale: dict[str, Any]) -> Scaled:
        parts = [Fields(self, SCALER, part) for part in (center, scale)]
        numbers = [[part.number(name) for name in names] for part in parts]
        if 0 in numbers[1]:
            raise self.error(SCALER, f"must scale {names[numbers[1].index(0)]!r} by a number other than 0")
        return Scaled(tuple(names), Scaler(*map(tuple, numbers)))


class _Network(KnownNetwork):
    """The nodes of a network, from its arrays."""

    def __init__(self, saved: torchsave.Saved, kind: str, config: Fields, ports: Mapping[str, Input]) -> None:
        super().__init__(saved)
        self.kind, self.config = kind, config
        for name, port in ports.items():
            self.entry(port, name)

    def scores(self, readout: str) -> str:
        """From scaled inputs through the embeddings and the cell to the head; the name of the scores."""
        value = self.through_embedding("x_d", "dynamics")
        cell = CELLS[self.kind]
        if self.kind == "ealstm":
            if "x_s" not in self.ports:
                self.config.refuse("static_attributes must be a list of names: an EA-LSTM has none without them")
            value = self.put(self.entity_aware(), value, self.through_embedding("x_s", "statics"), name="ealstm")
        else:
            if "x_s" in self.ports:
                vector = self.through_embedding("x_s", "statics")
                repeated = self.put(Repeat(), vector, value, name="static at every step")
                value = self.put(Concat(), value, repeated, name="inputs")
            if cell == "cell":
                U, W = (self.array(f"cell.{name}", 2) for name in ("w_ih", "w_hh"))
                biases = [self.array(f"cell.{name}", 1) for name in ("b_ih", "b_hh")]
                value = self.put(lstm(U, W, biases), value, name="cell")
            else:
                value = self.recurrent(cell, value)
        head = self.activated("head.net.0", self.config.value.get("output_activation"), ("relu", "softplus"))
        return self.put(head, value if readout == "every" else f"{value}:last", name="head")

    def entity_aware(self) -> EALSTM:
        """The cell of an EA-LSTM: gates f, o, g in columns, and an input gate of the static inputs."""
        cell = CELLS["ealstm"]
        U, W, b = (self.array(f"{cell}.{name}", n) for name, n in (("weight_ih", 2), ("weight_hh", 2), ("bias", 1)))
        arrays = {"U_i": self.array("input_gate.weight", 2), "b_i": self.array("input_gate.bias", 1)}
        for letter, array in (("U", U), ("W", W), ("b", b)):
            if array.shape[-1] % 3:
                raise self.source.error(cell, f"must have three gates, it has {array.shape[-1]} columns")
            for gate, part in zip("fog", np.split(array, 3, axis=-1), strict=True):
                arrays[f"{letter}_{gate}"] = np.ascontiguousarray(part.T)
        return EALSTM(**arrays)

    def through_embedding(self, value: str, which: str) -> str:
        """The embedding network of the dynamic or the static inputs, if there is one."""
        spec = self.config.value.get(f"{which}_embedding")
        if not spec:
            return value
        activation = self.config.value.get("embedding_activation", "tanh")
        if isinstance(spec, dict):
            activation = spec.get("activation", "tanh")
        if not isinstance(activation, str) or activation.lower() not in _EMBEDDED:
            self.config.refuse(f"{which}_embedding must have an activation of {', '.join(_EMBEDDED)}")
        place = f"embedding_net.{which}_embedding.net."
        if which == "dynamics" and not any(name.startswith(place) for name in self.names):
            place = "embedding_net.dynamics_embeddings.0.net."
        weights = re.compile(rf"{re.escape(place)}(\d{{1,4}})\.weight")
        numbers = sorted(int(match[1]) for match in map(weights.fullmatch, self.names) if match) or [0]
        for k in numbers[:-1]:
            value = self.put(self.activated(f"{place}{k}", activation, _EMBEDDED), value, name=f"{which} {k}")
        return self.put(self.linear(f"{place}{numbers[-1]}"), value, name=f"{which} {numbers[-1]}")

    def activated(self, place: str, activation: Any, known: tuple[str, ...]) -> Dense:
        """A Linear and its activation; one that is not known is linear, as in the library."""
        name = str(activation).lower()
        return self.linear(place, name if name in known else "linear")
