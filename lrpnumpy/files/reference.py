"""The files of LRP_for_LSTM, the authors' own program: a folder of two pickles and an array.

`model` is a pickled dict of arrays (gates i, g, f, o; a Left encoder that reads forwards and a Right one that
reads backwards; no output bias), `vocab` a pickled list of words, `embeddings.npy` their vectors.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from lrpnumpy.files import npy, pickles
from lrpnumpy.files.kinds import REFERENCE, LoadOptions, WeightFile
from lrpnumpy.files.report import Imported
from lrpnumpy.files.safe import Budget, Source, open_file, size_of
from lrpnumpy.layers import LSTM, Bidirectional, Dense, Embedding
from lrpnumpy.model import Model

_ORDER = (0, 2, 1, 3)  # positions of i, f, g, o in the file's i, g, f, o


def read(opened: WeightFile, options: LoadOptions) -> Imported:
    """The model, and what was assumed."""
    return Reference(opened.path, options.max_bytes).read()


class Reference(Source):
    """The folder: each file is read whole, within the memory limit."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        size = sum((folder / name).lstat().st_size for name in REFERENCE)
        super().__init__(str(folder), Budget(str(folder), size, max_bytes))

    def content(self, name: str) -> bytes:
        """The bytes of one of the files."""
        with self.guard(name), open_file(self._folder / name, follow=False) as stream:
            size = size_of(stream)
            self.spend(name, size)
            return stream.read(size)

    def read(self) -> Imported:
        """The model, and what was assumed."""
        arrays, listed = (pickles.plain(self, name, self.content(name)) for name in ("model", "vocab"))
        if not isinstance(arrays, dict):
            raise self.error("model", "must be a dict of arrays")
        if not isinstance(listed, list) or not all(isinstance(word, (str, bytes)) for word in listed):
            raise self.error("vocab", "must be a list of strings")
        with self.guard("vocab"):
            words = tuple(map(pickles.text, listed))
        notes = [
            "gates i, g, f, o are reordered to i, f, g, o, and the two biases are added",
            "the Left encoder reads forwards, the Right one backwards; scores are the sum of both",
            "the scores are those of classes, as in all networks of this program: probabilities by softmax",
        ]
        E = self._embeddings()
        if len(E) > len(words):
            notes.append(f"{len(E) - len(words)} embeddings after the last word of the vocabulary are left out")
        left, right = (self._encoder(arrays, side, E.shape[1]) for side in ("Left", "Right"))
        V = [
            self._array(arrays, "Why_Left", (None, left.units)),
            self._array(arrays, "Why_Right", (None, right.units)),
        ]
        model = Model(
            (Bidirectional(left, right), Dense(np.concatenate(V, axis=1))),
            embedding=Embedding(E[: len(words)], vocabulary=words),
            output="softmax",
        )
        return Imported(model, notes, kind="files of LRP_for_LSTM")

    def _embeddings(self) -> np.ndarray:
        content = self.content("embeddings.npy")
        header = npy.read_header(self, "embeddings.npy", io.BytesIO(content))
        npy.check(self, "embeddings.npy", header, (None, None), len(content))
        return npy.array(header, memoryview(content)[header.start :])

    def _encoder(self, arrays: dict[Any, Any], side: str, D: int) -> LSTM:
        H = self._array(arrays, f"Whh_{side}", (None, None)).shape[1]
        U = self._array(arrays, f"Wxh_{side}", (4 * H, D)).reshape(4, H, D)
        W = self._array(arrays, f"Whh_{side}", (4 * H, H)).reshape(4, H, H)
        b = sum(self._array(arrays, f"{name}_{side}", (4 * H,)).reshape(4, H) for name in ("bxh", "bhh"))
        return LSTM(U[list(_ORDER)], W[list(_ORDER)], np.asarray(b)[list(_ORDER)])

    def _array(self, arrays: dict[Any, Any], name: str, shape: tuple[int | None, ...]) -> np.ndarray:
        array = arrays.get(name, arrays.get(name.encode()))
        if not isinstance(array, pickles.Pickled):
            raise self.error(f"model: {name}", "must be an array")
        found = pickles.array(self, f"model: {name}", array)
        self.fits(f"model: {name}", found.shape, shape)
        return found
