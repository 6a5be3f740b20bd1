"""One input of a network: its size and names, its words, its padding, and how its numbers were scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.checks import LrpError, finite, names, one_of, optional, shown, whole
from lrpnumpy.layers import Embedding, Record
from lrpnumpy.lazy import cached_property
from lrpnumpy.scaling import ColumnScaler, names_of, scaler_of

MOST_PADDED = 1_000_000  # steps


@dataclass(frozen=True, eq=False, repr=False)
class Input(Record):
    """One input of a network: a series of vectors, or with `steps=False` one vector for each record.

    `size` is the length of a vector, `features` names its numbers. With an `embedding` the input is words or token ids;
    what is explained are their vectors. `mask_value` means padding: a step whose features all equal it is skipped.
    `pad=(length, side, value)` fills every series up to its length with `value` (with an embedding a token id or a
    word), before it ("pre") or after it ("post"), for a network that was trained on such input and computes with the
    padding; `value` is in the units of the network, after scaling. A longer series is truncated on the same side, or on
    the one that a fourth entry names. `scaler` describes how the numbers were scaled before training, see `Model`.
    """

    size: int | None = None
    steps: bool = True
    features: tuple[str, ...] | None = None
    embedding: Embedding | None = None
    mask_value: float | None = None
    scaler: Any = None  # a Scaler, once it is checked
    pad: tuple[int, str, float, str] | None = None

    dtype: ClassVar[np.dtype]  # that of the model

    def __post_init__(self) -> None:
        if self.embedding is not None and not isinstance(self.embedding, Embedding):
            raise LrpError(f"Model: embedding must be an Embedding, got {type(self.embedding).__name__}.")
        size = self.size if self.embedding is None else self.embedding.size
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise LrpError(f"Input: size must be a positive number, got {shown(size)}.")
        if self.embedding is not None and (self.mask_value is not None or self.scaler is not None):
            raise LrpError("Model: mask_value and scaler must be None with an embedding; use Embedding(mask=...).")
        masks = (self.mask_value, getattr(self.embedding, "mask", None), self.pad)
        if not self.steps and masks != (None, None, None):
            raise LrpError("Input: an input without steps must have no padding, got a mask, or pad.")
        given = names_of(self.scaler, int(size)) if self.features is None else self.features
        features = names(given, "Model: features", int(size))
        self._set(
            size=int(size),
            features=features,
            mask_value=optional(lambda value: finite(value, "Model: mask_value"), self.mask_value),
            pad=optional(self._checked_pad, self.pad),
            scaler=scaler_of(self.scaler, "Model: scaler", int(size), features),
        )

    def _checked_pad(self, pad: Any) -> tuple[int, str, float, str]:
        """(length, side, value, side that is cut)."""
        if isinstance(pad, str) or not isinstance(pad, Sequence) or len(pad) not in (3, 4):
            raise LrpError(f"Input: pad must be (length, side, value), for example (100, 'pre', 0), got {shown(pad)}.")
        length, side, value, cut = [*pad, pad[1]][:4]
        length = whole(length, "Input: length of pad", 1)
        if length > MOST_PADDED:  # it would fill the memory at the first input
            raise LrpError(f"Input: length of pad must be at most {MOST_PADDED:,}, got {length}.")
        for name in (side, cut):
            one_of(name, "Input: side of pad", ("pre", "post"))
        if self.embedding is None:
            return length, side, finite(value, "Input: value of pad"), cut
        words, count = self.embedding.vocabulary or (), len(self.embedding.E)
        if isinstance(value, str):
            value = words.index(one_of(value, "Input: value of pad", words))
        if not 0 <= whole(value, "Input: value of pad") < count:
            raise LrpError(f"Input: value of pad must be a token id from 0 to {count - 1}, got {value!r}.")
        return length, side, int(value), cut

    @cached_property
    def takes_words(self) -> bool:
        """Whether a sentence can be given to it."""
        return self.steps and self.embedding is not None and self.embedding.vocabulary is not None

    @property
    def marks(self) -> bool:
        """Whether steps may have a mark: padding, or unknown words."""
        words = self.embedding is not None and (self.embedding.unknown is not None or self.embedding.mask is not None)
        return words or self.mask_value is not None or self.pad is not None

    @property
    def pad_row(self) -> Any:
        """A step of padding, in the units of the user where the network's are others: a number or (D,)."""
        value: Any = self.pad[2]  # type: ignore[index]
        if self.embedding is not None:
            return self.embedding.E[value]
        mean, scale = self.affine
        return mean + value * scale

    @property
    def affine(self) -> tuple[Any, Any]:
        """Mean and scale of the numbers of the user; 0 and 1 without a scaler."""
        if self.scaler is None:
            return 0.0, 1.0
        return np.array(self.scaler.mean), np.array(self.scaler.scale)

    @property
    def given_dtype(self) -> np.dtype:
        """In which numbers of the user are kept: those that are still to be scaled lose no digits before."""
        return self.dtype if self.scaler is None else np.dtype(np.float64)

    def _expanded(self, value: Any) -> Any:
        """A frame of pandas with the one-hot codes of its categories, where the scaler knows them; else `value`."""
        if not isinstance(self.scaler, ColumnScaler) or not hasattr(value, "assign"):
            return value
        return self.scaler.expanded(value)

    def scaled(self, values: np.ndarray) -> np.ndarray:
        """(…, D) `values` of the user as the network takes them."""
        if self.scaler is None:
            return values
        return self.scaler.scaled(values).astype(self.dtype)

    def described(self) -> list[str]:
        """Lines for `Model.summary`."""
        embedding, lines = self.embedding, []
        if embedding is None:
            lines.append(f"{self.size} features{' per step' if self.steps else ''}{listed(self.features)}")
        else:
            lines.append(f"{len(embedding.E):,} tokens of {embedding.size} numbers; {_words(embedding)}")
            if embedding.unknown is not None:
                unknown = "left out" if embedding.unknown is False else repr(embedding.unknown)
                lines.append(f"unknown words are {unknown}")
            if embedding.mask is not None:
                lines.append(f"token {embedding.mask} is padding and skipped")
        if self.scaler is not None:
            lines.append("in the user's units, scaled by a mean and a scale for each feature")
        if self.mask_value is not None:
            lines.append(f"steps whose features all equal {self.mask_value:g} are skipped")
        if self.pad is not None:
            length, side, value, cut = self.pad
            ends = {"pre": "start", "post": "end"}
            lines.append(f"filled up to {length} steps with {value:g} at the {ends[side]}, or cut at the {ends[cut]}")
        return lines


def _words(embedding: Embedding) -> str:
    if embedding.vocabulary is None:
        return "no vocabulary, inputs are token ids"
    end = ", lowercased" if embedding.lowercase else ""
    return f"words {' '.join(embedding.vocabulary[:5])} …, split by {embedding.settings()['tokenizer']!r}{end}"


def listed(names: Sequence[str] | None) -> str:
    """The first few of some names, behind a colon."""
    if names is None:
        return ""
    return ": " + ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
