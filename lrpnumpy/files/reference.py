"""The files of LRP_for_LSTM, the authors' own program: a folder of two pickles and an array.

`model` is a pickled dict of arrays (gates i, g, f, o; a Left encoder that reads forwards and a Right one that
reads backwards; no output bias), `vocab` a pickled list of words, `embeddings.npy` their vectors.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lrpnumpy.files import npy, pickles
from lrpnumpy.files.kinds import LoadOptions, WeightFile
from lrpnumpy.files.report import Imported
from lrpnumpy.files.safe import Shape, open_file, size_of
from lrpnumpy.layers import LSTM, Bidirectional, Dense, Embedding
from lrpnumpy.model import Model

_ORDER = [0, 2, 1, 3]  # positions of i, f, g, o in the file's i, g, f, o


def read(opened: WeightFile, options: LoadOptions) -> Imported:
    """The model, and what was assumed."""
    arrays, listed = (pickles.plain(opened, name, _content(opened, name)) for name in ("model", "vocab"))
    if not isinstance(arrays, dict):
        raise opened.error("model", "must be a dict of arrays")
    if not isinstance(listed, list) or not all(isinstance(word, (str, bytes)) for word in listed):
        raise opened.error("vocab", "must be a list of strings")
    with opened.guard("vocab"):
        words = tuple(map(pickles.text, listed))
    content = _content(opened, "embeddings.npy")
    header = npy.read_header(opened, "embeddings.npy", io.BytesIO(content), len(content))
    npy.check(opened, "embeddings.npy", header, (None, None))
    E = npy.floats(header, memoryview(content)[header.start :])
    notes = [
        "gates i, g, f, o are reordered to i, f, g, o, and the two biases are added",
        "the Left encoder reads forwards, the Right one backwards; scores are the sum of both",
        "the scores are those of classes, as in all networks of this program: probabilities by softmax",
    ]
    if len(E) > len(words):
        notes.append(f"{len(E) - len(words)} embeddings after the last word of the vocabulary are left out")
    array = partial(_array, opened, arrays)
    left, right = (_encoder(array, side, E.shape[1]) for side in ("Left", "Right"))
    V = [array("Why_Left", (None, left.units)), array("Why_Right", (None, right.units))]
    model = Model(
        (Bidirectional(left, right), Dense(np.concatenate(V, axis=1))),
        embedding=Embedding(E[: len(words)], vocabulary=words),
        output="softmax",
    )
    return Imported(model, notes, kind="files of LRP_for_LSTM")


def _content(opened: WeightFile, name: str) -> bytes:
    """The bytes of one of the files, read whole, within the memory limit."""
    with opened.guard(name), open_file(opened.path / name, follow=False) as stream:
        size = size_of(stream)
        opened.budget.grow(size)
        opened.spend(name, size)
        return stream.read(size)


def _array(opened: WeightFile, arrays: dict[Any, Any], name: str, shape: Shape) -> np.ndarray:
    """An array of the pickled dict, whose keys Python 2 wrote as bytes."""
    found = pickles.array(opened, f"model: {name}", arrays.get(name, arrays.get(name.encode())))
    opened.fits(f"model: {name}", found.shape, shape)
    return found


def _encoder(array: Callable[[str, Shape], np.ndarray], side: str, D: int) -> LSTM:
    """The LSTM of one side."""
    H = array(f"Whh_{side}", (None, None)).shape[1]
    U = array(f"Wxh_{side}", (4 * H, D)).reshape(4, H, D)
    W = array(f"Whh_{side}", (4 * H, H)).reshape(4, H, H)
    b = array(f"bxh_{side}", (4 * H,)) + array(f"bhh_{side}", (4 * H,))
    return LSTM(U[_ORDER], W[_ORDER], b.reshape(4, H)[_ORDER])
