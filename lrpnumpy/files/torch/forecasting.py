"""The networks of checkpoints of darts and pytorch-forecasting: known programs with their settings.

Of darts these are RNNModel and BlockRNNModel, of pytorch-forecasting RecurrentNetwork and DeepAR. There a row of
the input has the columns of the library's data set: the real ones (`x`), and one input for each category. The network
takes the target of the row before and everything else of the row itself, and forecasts the target of the row. So the
forecast of the last row needs no target in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.files import pickles
from lrpnumpy.files.hints import Hints
from lrpnumpy.files.pickles import Pickled
from lrpnumpy.files.report import Imported
from lrpnumpy.files.safe import Fields, Source
from lrpnumpy.files.torch.known import KnownNetwork
from lrpnumpy.files.torch.pickled import ACTIVATIONS
from lrpnumpy.inputs import Input
from lrpnumpy.layers import Concat, Dense, Embedding, Repeat, Slice
from lrpnumpy.scaling import Scaler

_OF_DARTS = ("input_chunk_length", "output_chunk_length", "target_size", "nr_params", "train_sample_shape")
_SETTINGS = ("x_reals", "x_categoricals", "embedding_sizes", "static_categoricals", "target")
_NOTE = "the network is that of pytorch-forecasting: each row forecasts its target, from the target of the row before"
_LOSS = "DistributionLoss"  # how the names of losses end whose network gives parameters of a distribution
_CENTERS = {  # by scaler: its center, and the setting that leaves the center out
    "StandardScaler": ("mean_", "with_mean"),
    "RobustScaler": ("center_", "with_centering"),
    "TorchNormalizer": ("center_", "center"),
}


class Scaling(NamedTuple):
    """How a column was scaled: (x - center) / scale."""

    center: float = 0.0
    scale: float = 1.0


def read_darts(source: Source, settings: Mapping[str, Any], said: Hints) -> Imported | None:
    """The model of a network of darts; None for other settings, or where hints describe the network."""
    is_plain = said.layers is None and said.readout is None and all(key in settings for key in _OF_DARTS)
    if not is_plain or settings.get("use_reversible_instance_norm") or settings.get("likelihood") is not None:
        return None
    net = KnownNetwork(source)
    if "rnn.weight_ih_l0" not in net.names:
        return None
    x = net.entry(Input(source.shape("rnn.weight_ih_l0")[-1]), "x")
    value = net.recurrent("rnn", x)
    if "V.weight" in net.names:  # RNNModel: one step ahead
        value = net.put(net.linear("V"), f"{value}:last", name="V")
    else:  # BlockRNNModel: the last steps, as many as an output chunk has
        heads = [name.removesuffix(".weight") for name in source.names() if name.startswith("fc.") and "weight" in name]
        activation, _ = ACTIVATIONS.get(str(settings.get("activation", "ReLU")), (None, {}))
        count = settings["output_chunk_length"]
        if not heads or (len(heads) > 1 and activation is None) or type(count) is not int:
            return None
        for head in heads[:-1]:
            value = net.put(net.linear(head, str(activation)), value, name=head)
        value = net.put(net.linear(heads[-1]), value, name=heads[-1])
        value = net.put(Slice(-count, None), value, name="forecast")
    return Imported(net.model(value), ["the network is that of darts, with its settings"], kind="darts")


def read(source: Source, settings: Mapping[str, Any], said: Hints) -> Imported | None:
    """The model; None where the settings are not those of such a network, or where hints describe it."""
    is_plain = said.layers is None and said.activations is None and not settings.get("categorical_groups")
    if not is_plain or not all(key in settings for key in _SETTINGS):
        return None
    if said.readout not in (None, "last", "every"):
        raise source.error("", f"readout must be 'last' or 'every' for pytorch-forecasting, got {said.readout!r}")
    return _Forecast(source, Fields(source, "hyper_parameters", dict(settings))).read(said.readout or "last")


class _Forecast:
    """A network and its settings."""

    def __init__(self, source: Source, settings: Fields) -> None:
        self.source, self.settings = source, settings
        self.net = KnownNetwork(source)
        self.notes = [_NOTE]
        self.reals = settings.strings("x_reals")
        target = settings.value["target"]
        self.targets = [target] if isinstance(target, str) else target
        self.data = pickles.entries(settings.value.get("dataset_parameters")) or {}
        self.scalers = pickles.entries(self.data.get("scalers")) or {}

    def read(self, readout: str) -> Imported:
        """The model."""
        value = self.net.put(Concat(), *self.real_columns(), *self.categories())
        value = self.net.recurrent("rnn", value)
        if readout == "last":
            value = f"{value}:last"
        head, classes, scaler = self.head()
        result = self.net.put(head, value, name="forecast")
        window = self.data.get("max_encoder_length")
        if type(window) is int:
            window += 1  # the row of the forecast
        model = self.net.model(result, classes=classes, output_scaler=scaler, window=window)
        return Imported(model, self.notes, kind="pytorch-forecasting")

    def real_columns(self) -> list[str]:
        """The values of the real columns, those of the targets one row later."""
        scalings = [self.scaling(name) for name in self.reals]
        if unknown := [name for name, scaling in zip(self.reals, scalings, strict=True) if scaling is None]:
            self.notes.append(f"pass these columns as the library scales them: {', '.join(unknown)}")
        scaler = _scaler([scaling or Scaling() for scaling in scalings])
        x = self.net.entry(Input(len(self.reals), features=tuple(self.reals), scaler=scaler), "x")
        self.row = self.net.put(Slice(1, None), x, name="row")
        before = self.net.put(Slice(None, -1), x, name="row before")
        columns = []
        for is_target, run in groupby(range(len(self.reals)), lambda k: self.reals[k] in self.targets):
            places = list(run)
            cut = Slice(places[0], places[-1] + 1, axis="features")
            value, name = (before, "target") if is_target else (self.row, "reals")
            columns.append(self.net.put(cut, value, name=name))
        return columns

    def categories(self) -> list[str]:
        """The vectors of the categories in each row; a static one is the same in all rows."""
        labels = pickles.entries(self.settings.value.get("embedding_labels")) or {}
        static = self.settings.strings("static_categoricals")
        columns = []
        for name in pickles.entries(self.settings.value["embedding_sizes"]) or {}:
            E = self.net.array(f"embeddings.embeddings.{name}.weight", 2)
            embedding = Embedding(E, pickles.entries(labels.get(name)))  # type: ignore[arg-type]
            x = self.net.entry(Input(steps=name not in static, embedding=embedding), name)
            if name in static:
                columns.append(self.net.put(Repeat(), x, self.row, name=f"{name} in each row"))
            else:
                columns.append(self.net.put(Slice(1, None), x, name=f"{name} in the row"))
        return columns

    def head(self) -> tuple[Dense, tuple[str, ...], Scaler]:
        """The Linear of all outputs, their names, and their units."""
        places = [name.removesuffix(".weight") for name in self.source.names() if name.endswith(".weight")]
        heads = [self.net.linear(place) for place in places if "_projector" in place]
        if not heads:
            raise self.source.error("output_projector", "is missing")
        whole = Dense(np.concatenate([head.V for head in heads]), np.concatenate([head.d for head in heads]))
        loss = self.settings.value.get("loss")
        kind = loss.name.rpartition(".")[2] if isinstance(loss, Pickled) else ""
        is_normal = kind == f"Normal{_LOSS}" and len(whole.V) == 2
        names: tuple[str, ...] = ("loc", "scale") if is_normal else tuple(self.targets)
        if len(names) != len(whole.V):
            names = tuple(f"output {k}" for k in range(len(whole.V)))
        if kind.endswith(_LOSS):
            self.notes.append(f"the scores are the parameters of {kind} before they are rescaled and made positive")
        scaling = self.scaling(self.targets[0])
        if scaling is None or len(self.targets) > 1 or (kind.endswith(_LOSS) and not is_normal):
            self.notes.append("the scores are in the units of the network: the scaler of the target is not part of it")
            scaling = Scaling()
        scalings = [scaling if name in ("loc", *self.targets) else Scaling() for name in names]
        return whole, names, _scaler(scalings)

    def scaling(self, column: str) -> Scaling | None:
        """How the library scales a column; None where that is not the same for all series, or not linear."""
        record = self.scalers.get(column)
        if column in self.targets:
            record = self.data.get("target_normalizer")
        if not isinstance(record, Pickled):
            return None
        center, uses_center = _CENTERS.get(record.name.rpartition(".")[2], ("", ""))
        state = pickles.entries(record.state) or {}
        if not center or state.get("transformation") is not None:
            return None
        return Scaling(
            self.number(column, state.get(center)) if state.get(uses_center) is not False else 0.0,
            self.number(column, state["scale_"]) if state.get("scale_") is not None else 1.0,
        )

    def number(self, column: str, value: Any) -> float:
        """A number of Python or NumPy, or an array of one."""
        if isinstance(value, (int, float)):
            return float(value)
        if isinstance(value, Pickled) and value.name.endswith("multiarray.scalar") and len(value.arguments) == 2:
            dtype, data = value.arguments
            value = Pickled(value.name)
            value.state = (1, (1,), dtype, False, data)
        return float(pickles.array(self.source, f"the scaler of {column[:80]}", value).reshape(-1)[0])


def _scaler(scalings: Sequence[Scaling]) -> Scaler:
    return Scaler(tuple(one.center for one in scalings), tuple(one.scale for one in scalings))
