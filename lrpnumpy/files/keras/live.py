"""`from_keras`: a model of a running Keras, of any version and backend, to a Model.

Keras is not imported here: the model provides its configuration and its weights, and is run on a probe. The imported
model must give the same scores.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from lrpnumpy.checks import AssumptionWarning, LrpError, outside
from lrpnumpy.files.compare import CLOSE, check_scores, matches, shown
from lrpnumpy.files.hints import NETWORK, taken, takes_hints
from lrpnumpy.files.keras import model as keras
from lrpnumpy.files.keras.config import KerasLayer
from lrpnumpy.files.named import named
from lrpnumpy.files.safe import first_line, parse_json
from lrpnumpy.files.torch.called import BATCH, STEPS
from lrpnumpy.files.torch.live import StateDict
from lrpnumpy.meant import door
from lrpnumpy.model import Model

NAME = "from_keras"
_NOT = ("config", *(name for name in NETWORK if name != "output"))  # hints that a Keras model does not need


@takes_hints(*_NOT)
@door
def from_keras(model: Any, *, check: Any = None, **hints: Any) -> Model:
    """A Model from a live Keras `model`, Sequential or functional: Keras 3 with any backend, tf-keras.

    The model is run once on a probe, or on `check`, a batch of inputs for Keras, and the scores are compared. If it
    cannot be run, `check` may be a pair (x, scores of x). The model is not changed.
    """
    known = taken(NAME, hints, _NOT)
    if not all(hasattr(model, name) for name in ("to_json", "layers", "get_weights")):
        advice = "; open a file by lrp.load" if isinstance(model, (str, os.PathLike)) else ""
        raise LrpError(f"{NAME}: the first argument must be a Keras model, got {type(model).__name__}{advice}.")
    if not any(getattr(layer, "weights", ()) for layer in model.layers):
        raise LrpError(f"{NAME}: the model must have weights, it has none yet; call it once on an input first.")
    try:
        text = str(model.to_json())
    except Exception as error:
        kind = type(model).__name__
        raise LrpError(
            f"{NAME}: to_json() of the model raised {first_line(error)}; give {kind} a get_config method, or rewrite "
            "it as a Sequential or functional model."
        ) from None
    live = _Live()
    source = StateDict(live.arrays, NAME)
    with source.guard(""):
        config = parse_json(source, "configuration", text)
        imported = keras.build(source, config, lambda layers: live.matched(layers, model), known, live.words)
    problem = _compared(model, imported.model, check, known.which)
    for text in (*imported.warnings, *([problem] if problem else ())):
        warnings.warn(f"{NAME}: {text}.", AssumptionWarning, stacklevel=outside())
    return named(NAME, imported.model, known)[0]


class _Live:
    """The layers of a model by their places in its configuration, and their arrays."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.layers: dict[tuple[int, ...], Any] = {}

    def matched(self, layers: list[KerasLayer], model: Any) -> keras.Paths:
        """Find the layers of a model, and of those inside it, by their names."""
        there = {layer.name: layer for layer in model.layers}
        for layer in layers:
            if (found := there.get(layer.name)) is not None:
                self.layers[layer.place] = found
                if layer.graph is not None:
                    self.matched(layer.graph.layers, found)
        return self._paths

    def _paths(self, layer: KerasLayer) -> dict[str, str]:
        if layer.place not in self.layers:
            layer.refuse("is in the configuration of the model, but not among its layers")
        paths = {}
        live = self.layers[layer.place]
        for k, (variable, array) in enumerate(zip(live.weights, live.get_weights(), strict=True)):
            path = f"{'/'.join(map(str, layer.place))}/{layer.name}/{k}"
            array = np.asarray(array)
            self.arrays[path] = array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)
            name = str(variable.name).split("/")[-1].split(":")[0]
            paths[name if name not in paths else f"{name}_{k}"] = path
        return paths

    def words(self, layer: KerasLayer) -> list[str] | None:
        """The vocabulary of a layer, without its reserved words."""
        live = self.layers.get(layer.place)
        if live is not None:
            return [str(word) for word in live.get_vocabulary(include_special_tokens=False)]
        return None


# ---------------------------------------------------------------------------------------------------------- comparison


def _compared(model: Any, imported: Model, check: Any, which: str | None) -> str:
    """Compare scores, and raise an error if they differ; returns why they could not be compared, or ""."""
    if isinstance(check, tuple) and len(check) == 2:
        check_scores(imported, check, NAME)
        return ""
    names = [str(getattr(tensor, "name", k)) for k, tensor in enumerate(model.inputs)]
    try:
        xs = _probe(model, imported) if check is None else _as_list(check, names)
        with _kept(model):
            expected = _run(model, xs, names, which)
    except Exception as error:
        if check is not None:
            raise LrpError(
                f"{NAME}: check must be a batch of inputs that the model takes, got an error: {first_line(error)}."
            ) from None
        return (
            f"the model cannot be run on a probe ({first_line(error)}), so its scores were not compared; pass check=x"
        )
    from lrpnumpy.predict import predict_all

    used = list(imported.inputs)
    if len(xs) != len(used):
        return f"the model has {len(xs)} inputs of which {len(used)} are used, so its scores were not compared"
    records: list[Any] = [_record(x) for x in xs[0]]
    if len(used) > 1:
        records = [dict(zip(used, map(_record, record), strict=True)) for record in zip(*xs, strict=True)]
    scores = np.stack([np.asarray(score) for score in predict_all(imported, records)])
    half = any("16" in str(getattr(layer, "compute_dtype", "")) for layer in model.layers)
    if not matches(imported, scores, expected, 0.05 if half else CLOSE):
        raise LrpError(
            f"{NAME}: the model gives {shown(expected)} for an input, the imported model {shown(scores, expected)}; "
            "some layer does not follow its configuration; define it with custom=."
        )
    return ""


def _record(x: Any) -> Any:
    """One record: an array, or of a text its string."""
    x = np.asarray(x)
    if x.dtype.kind not in "OSU":
        return x
    return str(x.reshape(-1)[0]) if x.size == 1 else [str(word) for word in x]


def _as_list(check: Any, names: list[str]) -> list[Any]:
    """The inputs in the order of the model."""
    if isinstance(check, Mapping):
        return [np.asarray(check[name]) for name in names]
    return [np.asarray(x) for x in (check if len(names) > 1 else [check])]


def _probe(model: Any, imported: Model) -> list[np.ndarray]:
    """A batch for each input: token ids where there is an embedding, or numbers."""
    rng, batches = np.random.default_rng(0), []
    for tensor, port, least in zip(model.inputs, imported.inputs.values(), imported.least.values(), strict=True):
        batch, *rest = tensor.shape
        shape = [batch or BATCH, *((max(STEPS, least) if n is None else int(n)) for n in rest)]
        embedding = port.embedding
        if embedding is None:
            batches.append(rng.normal(size=shape).astype(np.float32))
        elif "string" in str(tensor.dtype):
            words = [word for word in embedding.vocabulary or () if word.isalpha()] or ["a"]
            chosen = rng.choice(words, (shape[0], STEPS) if shape[1:] == [1] else shape)
            batches.append(np.array([[" ".join(row)] for row in chosen] if shape[1:] == [1] else chosen, object))
        else:
            batches.append(rng.integers(min(1, len(embedding.E) - 1), len(embedding.E), shape).astype(np.int32))
    return batches


@contextmanager
def _kept(model: Any) -> Iterator[None]:
    """Run a model from zero states; afterwards its states and random seeds are as before."""
    saved = {id(one): np.array(one.numpy()) for one in (*_states(model), *model.non_trainable_variables)}
    for variable in _states(model):
        variable.assign(np.zeros_like(saved[id(variable)]))
    try:
        yield
    finally:
        for variable in (*_states(model), *model.non_trainable_variables):
            zeros = np.zeros_like(variable.numpy())  # for states that the run has made
            variable.assign(saved.get(id(variable), zeros))


def _states(model: Any) -> list[Any]:
    """The variables in which stateful layers, and those inside them, keep their states."""
    left = [getattr(layer, "states", None) for layer in model._flatten_layers()]
    variables = []
    while left:
        state = left.pop()
        if isinstance(state, (list, tuple)):  # those of stacked cells are lists of lists
            left += state
        elif hasattr(state, "assign"):
            variables.append(state)
    return variables


def _run(model: Any, xs: list[np.ndarray], names: list[str], which: str | None) -> np.ndarray:
    """The scores of a batch."""
    xs = [_strings(x) if x.dtype.kind in "OSU" else x for x in xs]
    forms: list[Any] = [xs[0]] if len(xs) == 1 else [xs, dict(zip(names, xs, strict=True))]
    for k, form in enumerate(forms):
        try:
            y = model(form, training=False)
            break
        except Exception:
            if k + 1 == len(forms):
                raise
    if isinstance(y, Mapping):
        y = y[which] if which in y else list(y.values())
    if isinstance(y, (list, tuple)):
        outputs = [str(name) for name in getattr(model, "output_names", ())]
        y = y[outputs.index(which) if which in outputs else 0]
    return np.asarray(y.detach().cpu().float() if hasattr(y, "detach") else y, np.float32)


def _strings(x: np.ndarray) -> Any:
    """Strings as TensorFlow takes them, which alone has such tensors."""
    tensorflow = sys.modules.get("tensorflow")
    return x if tensorflow is None else tensorflow.constant(x.tolist())
