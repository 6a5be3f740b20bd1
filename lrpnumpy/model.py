"""Frozen records of a trained network: Embedding, LSTM, Bidirectional, Dense, Model.

Arrays are copied on construction and are read-only and contiguous from then on. Gates stand in the order
i, f, g, o; the symbols are the paper's: U acts on x, W on h_prev, b is the bias.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from lrpnumpy.checks import LrpError, float_array, names, one_of

GATES = ("i", "f", "g", "o")
ACTIVATIONS = ("linear", "relu", "tanh")
RECURRENT_ACTIVATIONS = ("sigmoid", "hard_sigmoid", "hard_sigmoid_3")
MERGES = ("concat", "sum", "mean")
READOUTS = ("last", "mean", "max", "every")
OUTPUTS = ("linear", "softmax", "sigmoid")
TOKENIZERS = ("space", "treebank")


class _Record:
    """What the records share: setting fields while they are checked, and a readable repr."""

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                shown.append(f"{field.name}={value.dtype}{list(value.shape)}")
            elif isinstance(value, tuple) and len(value) > 8:
                shown.append(f"{field.name}=({len(value)} names)")
            elif value is not None and value != {}:
                shown.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as what it is made of: made anew, its arrays are read-only and contiguous again."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        plain = {name: dict(v) if isinstance(v, MappingProxyType) else v for name, v in values.items()}
        return _made, (type(self), plain)

    def arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        """The record's own arrays by field name."""
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                yield field.name, value


def _made(kind: type, values: dict[str, Any]) -> Any:
    return kind(**values)


@dataclass(frozen=True, eq=False, repr=False)
class Embedding(_Record):
    """Words to vectors: row k of `E` (V, D) belongs to word k of `vocabulary`.

    `unknown` is the word that stands for every word not in the vocabulary; without it such a word is an
    error. `tokenizer` cuts a sentence into words: "space" at blanks, "treebank" as the Penn Treebank does
    (`isn't` to `is n't`, punctuation apart). `mask` is a token id that means padding: such steps are skipped.
    """

    E: np.ndarray
    vocabulary: tuple[str, ...] | None = None
    unknown: str | None = None
    lowercase: bool = False
    tokenizer: Literal["space", "treebank"] = "space"
    mask: int | None = None

    def __post_init__(self) -> None:
        E = float_array(self.E, "Embedding: E", (None, None))
        vocabulary = names(self.vocabulary, "Embedding: vocabulary", len(E))
        one_of(self.tokenizer, "Embedding: tokenizer", TOKENIZERS)
        if self.unknown is not None and self.unknown not in (vocabulary or ()):
            raise LrpError(f"Embedding: unknown must be a word of the vocabulary, got {self.unknown!r}.")
        if self.mask is not None and not (isinstance(self.mask, int) and 0 <= self.mask < len(E)):
            raise LrpError(f"Embedding: mask must be a token id from 0 to {len(E) - 1}, got {self.mask!r}.")
        self._set(E=E, vocabulary=vocabulary, lowercase=bool(self.lowercase))

    @property
    def size(self) -> int:
        """Length D of a word vector."""
        return self.E.shape[1]

    @cached_property
    def index(self) -> dict[str, int]:
        """Word to row; where case does not count, only of words in lower case, since no other is ever looked up."""
        every = enumerate(self.vocabulary or ())
        return {word: k for k, word in every if not self.lowercase or word == word.lower()}

    @cached_property
    def unknown_row(self) -> int:
        """Row of the words that are not in the vocabulary, -1 where there is none."""
        return -1 if self.unknown is None else (self.vocabulary or ()).index(self.unknown)


@dataclass(frozen=True, eq=False, repr=False)
class LSTM(_Record):
    """One direction of an LSTM: U (4,H,D), W (4,H,H), b (4,H) or None for no bias; gates i, f, g, o.

    i, f, o = recurrent_activation(W h_prev + U x + b), g = activation(...), c = f c_prev + i g,
    h = o activation(c). `h0` and `c0` (H,) are the state before the first step, zero by default.
    """

    U: np.ndarray
    W: np.ndarray
    b: np.ndarray | None = None
    h0: np.ndarray | None = None
    c0: np.ndarray | None = None
    activation: str = "tanh"
    recurrent_activation: str = "sigmoid"

    def __post_init__(self) -> None:
        U = float_array(self.U, "LSTM: U", (4, None, None))
        H = U.shape[1]
        optional = {"b": (4, H), "h0": (H,), "c0": (H,)}
        zero = {name: np.zeros(shape, U.dtype) for name, shape in optional.items()}
        self._set(
            U=U,
            W=float_array(self.W, "LSTM: W", (4, H, H)),
            **{
                name: float_array(
                    zero[name] if (value := getattr(self, name)) is None else value, f"LSTM: {name}", shape
                )
                for name, shape in optional.items()
            },
        )
        one_of(self.activation, "LSTM: activation", ACTIVATIONS)
        one_of(self.recurrent_activation, "LSTM: recurrent_activation", RECURRENT_ACTIVATIONS)

    @property
    def units(self) -> int:
        """Number H of hidden units."""
        return self.U.shape[1]

    @property
    def inputs(self) -> int:
        """Length D of an input vector."""
        return self.U.shape[2]

    @property
    def outputs(self) -> int:
        """Length of an output vector, H."""
        return self.units


@dataclass(frozen=True, eq=False, repr=False)
class Bidirectional(_Record):
    """Two LSTMs, one reading the sequence forwards and one backwards; `merge` joins their outputs."""

    forward: LSTM
    backward: LSTM
    merge: Literal["concat", "sum", "mean"] = "concat"

    def __post_init__(self) -> None:
        for side in ("forward", "backward"):
            if not isinstance(getattr(self, side), LSTM):
                raise LrpError(f"Bidirectional: {side} must be an LSTM, got {type(getattr(self, side)).__name__}.")
        one_of(self.merge, "Bidirectional: merge", MERGES)
        if self.forward.inputs != self.backward.inputs:
            raise LrpError(
                "Bidirectional: backward.U must take the same inputs as forward.U, "
                f"got {self.backward.inputs} columns against {self.forward.inputs}."
            )
        if self.merge != "concat" and self.forward.units != self.backward.units:
            raise LrpError(
                f"Bidirectional: merge={self.merge!r} must have directions of the same size, got "
                f"{self.forward.units} and {self.backward.units} units; use merge='concat'."
            )

    @property
    def inputs(self) -> int:
        """Length D of an input vector."""
        return self.forward.inputs

    @property
    def outputs(self) -> int:
        """Length of an output vector: the sum of both directions' units with "concat", else H."""
        return self.forward.units + (self.backward.units if self.merge == "concat" else 0)


@dataclass(frozen=True, eq=False, repr=False)
class Dense(_Record):
    """activation(V x + d), with V (out, in) and d (out,) or None for no bias."""

    V: np.ndarray
    d: np.ndarray | None = None
    activation: Literal["linear", "relu", "tanh"] = "linear"

    def __post_init__(self) -> None:
        V = float_array(self.V, "Dense: V", (None, None))
        d = np.zeros(len(V), V.dtype) if self.d is None else self.d
        self._set(V=V, d=float_array(d, "Dense: d", (len(V),)))
        one_of(self.activation, "Dense: activation", ACTIVATIONS)

    @property
    def inputs(self) -> int:
        """Length of an input vector."""
        return self.V.shape[1]

    @property
    def outputs(self) -> int:
        """Length of an output vector."""
        return self.V.shape[0]


Layer = LSTM | Bidirectional | Dense


@dataclass(frozen=True, eq=False, repr=False)
class Model(_Record):
    """A trained network: embedding, layers, and how the steps become one prediction.

    The readout sits after the last recurrent layer: "last" (each direction's own final state), "mean" or
    "max" over the steps, or "every": the head predicts at each step. Dense layers after it are the head,
    Dense layers before it act at each step. `output` says which probability belongs to the scores: "softmax"
    (the default for several outputs), "sigmoid", or "linear" for none (the default for one output). The
    scores themselves never include it. `mask_value` means padding where the inputs are numbers: a step whose
    features all equal it is skipped.
    """

    layers: tuple[Layer, ...]
    embedding: Embedding | None = None
    readout: Literal["last", "mean", "max", "every"] = "last"
    classes: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    output: Literal["linear", "softmax", "sigmoid"] | None = None
    mask_value: float | None = None
    provenance: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        layers = _checked_layers(self.layers)
        if self.embedding is not None and not isinstance(self.embedding, Embedding):
            raise LrpError(f"Model: embedding must be an Embedding, got {type(self.embedding).__name__}.")
        size = layers[0].inputs if self.embedding is None else self.embedding.size
        for k, layer in enumerate(layers):
            if layer.inputs != size:
                array = {LSTM: "U", Bidirectional: "forward.U", Dense: "V"}[type(layer)]
                below = "embedding" if k == 0 else f"layer {k - 1} ({type(layers[k - 1]).__name__})"
                raise LrpError(
                    f"Model: {array} of layer {k} ({type(layer).__name__}) must take the {size} outputs "
                    f"of the {below}, got {layer.inputs} columns."
                )
            size = layer.outputs
        one_of(self.readout, "Model: readout", READOUTS)
        output = self.output or ("softmax" if size > 1 else "linear")
        one_of(output, "Model: output", OUTPUTS)
        if output == "softmax" and size == 1:
            raise LrpError("Model: output must be 'linear' or 'sigmoid' where there is one output, got 'softmax'.")
        if self.mask_value is not None and not math.isfinite(self.mask_value):
            raise LrpError(f"Model: mask_value must be a finite number, got {self.mask_value!r}.")
        if self.mask_value is not None and self.embedding is not None:
            raise LrpError("Model: mask_value must be None with an embedding; use Embedding(mask=...).")
        provenance = MappingProxyType({str(k): str(v) for k, v in dict(self.provenance or {}).items()})
        self._set(
            layers=layers,
            classes=names(self.classes, "Model: classes", size),
            features=names(self.features, "Model: features", layers[0].inputs),
            output=output,
            mask_value=None if self.mask_value is None else float(self.mask_value),
            provenance=provenance,
        )
        self._one_dtype()

    def _one_dtype(self) -> None:
        """Give all arrays the widest dtype among them: float32 only where everything is."""
        dtype = np.result_type(*(array.dtype for _, array in _all_arrays(self)))
        self._set(
            layers=tuple(_cast(layer, dtype) for layer in self.layers),
            embedding=None if self.embedding is None else _cast(self.embedding, dtype),
        )

    @cached_property
    def dtype(self) -> np.dtype:
        """float32 or float64, that of every array and every result."""
        return next(_all_arrays(self))[1].dtype

    @property
    def inputs(self) -> int:
        """Length D of an input vector."""
        return self.layers[0].inputs

    @property
    def outputs(self) -> int:
        """Number C of scores."""
        return self.layers[-1].outputs

    @cached_property
    def readout_at(self) -> int:
        """How many layers come before the readout."""
        return 1 + max(k for k, layer in enumerate(self.layers) if not isinstance(layer, Dense))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that decides a result: two models with one digest explain alike."""
        state = hashlib.sha256()
        for name, array in _all_arrays(self):
            state.update(f"{name}{array.dtype}{array.shape}".encode())
            state.update(array.tobytes())
        settings: list[Any] = [self.readout, self.output, self.mask_value, self.classes, self.features]
        for record in [*self.layers, *([self.embedding] if self.embedding else [])]:
            for part in _parts(record):
                settings += [
                    f.name + repr(v) for f in fields(part) if isinstance(v := getattr(part, f.name), (str, int, tuple))
                ]
        state.update(repr(settings).encode())
        return state.hexdigest()

    def astype(self, dtype: Any) -> Model:
        """The same model with all arrays in float32 or float64."""
        layers = tuple(_cast(layer, np.dtype(dtype)) for layer in self.layers)
        embedding = None if self.embedding is None else _cast(self.embedding, np.dtype(dtype))
        return replace(self, layers=layers, embedding=embedding)


def _checked_layers(layers: Any) -> tuple[Layer, ...]:
    if isinstance(layers, _Record) or not isinstance(layers, Sequence):
        raise LrpError(
            f"Model: layers must be a list of LSTM, Bidirectional and Dense layers, got {type(layers).__name__}."
        )
    for k, layer in enumerate(layers):
        if not isinstance(layer, (LSTM, Bidirectional, Dense)):
            raise LrpError(
                f"Model: layer {k} must be an LSTM, Bidirectional or Dense layer, got {type(layer).__name__}."
            )
    if all(isinstance(layer, Dense) for layer in layers):
        raise LrpError(f"Model: layers must have at least one LSTM or Bidirectional, got {len(layers)} others.")
    return tuple(layers)


def _parts(record: Any) -> tuple[Any, ...]:
    """The records that hold arrays: both directions of a Bidirectional, else the record itself."""
    return (record, record.forward, record.backward) if isinstance(record, Bidirectional) else (record,)


def _all_arrays(model: Model) -> Iterator[tuple[str, np.ndarray]]:
    for record in (*model.layers, *((model.embedding,) if model.embedding else ())):
        for part in _parts(record):
            yield from part.arrays()


def _cast(record: Any, dtype: np.dtype) -> Any:
    """`record` with its arrays in `dtype`; itself where they are already."""
    if isinstance(record, Bidirectional):
        return replace(record, forward=_cast(record.forward, dtype), backward=_cast(record.backward, dtype))
    change = {name: array.astype(dtype) for name, array in record.arrays() if array.dtype != dtype}
    return replace(record, **change) if change else record
