"""Some explanations as the arrays of one file, and back: ragged arrays of any shape, and texts as JSON.

NAME            (n,) all values of a field, those of one explanation after those of the other
NAME/shapes     (N, axes) the shape that each explanation's values have; -1 where the field is None
text            (n,) JSON: words of every input, columns, records that were rejected and why
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, optional, parse_json
from lrpnumpy.fields import plain
from lrpnumpy.ledgers import LEDGERS
from lrpnumpy.readback import read_record
from lrpnumpy.result import Explanation, InputPart, Mark
from lrpnumpy.results import Explanations, InputColumn
from lrpnumpy.verdict import Evidence

OF_STEPS = ("relevance", "feature_relevance", "marks")  # arrays that every input has
SHAPES = "/shapes"


def pack(results: Explanations, text: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of some explanations, with more `text` that JSON can hold."""
    arrays: dict[str, np.ndarray] = {}
    words: dict[str, list[Any]] = {}
    ledger = None
    if len(results):
        arrays |= _columns("scores", results.scores)
        arrays |= _columns("target", np.full(len(results), -1) if results.every_class else results.targets)
        for name, column in results.inputs.items():
            arrays |= _input(f"inputs/{name}", column, results.every_class)
            words[name] = [one.tokens for one in column.encoded]
        for name, entries in results.ledger.items():  # (n,), (C, n), (layers, n) or (C, layers, n)
            arrays |= _columns(f"ledger/{name}", np.moveaxis(entries, -1, 0))
            ledger = "Ledger" if "biases" in results.ledger else "ReferenceLedger"
        if "cd" in results.single:
            ledger = "SpanLedger"
            for name in vars(results.single["cd"][0]):
                arrays |= ragged(f"ledger/{name}", [getattr(one, name) for one in results.single["cd"]])
    tested = {k: plain(one) for k, one in enumerate(results.single.get("tested", ())) if one is not None}
    computed = results.single.get("computed", [results.computed] * len(results))
    text = {**text, "count": len(results), "words": words, "ledger": ledger, "tested": tested, "computed": computed}
    arrays["text"] = np.frombuffer(json.dumps(text).encode(), np.uint8)
    return arrays


def _input(path: str, column: InputColumn, every_class: bool) -> dict[str, np.ndarray]:
    """What an input received."""
    arrays = ragged(f"{path}/marks", [one.marks for one in column.encoded])
    lengths = np.diff(column.starts)
    for field in OF_STEPS[:2]:
        values = getattr(column, field)  # (R,) or (R, D); with all classes the axis C first
        if values is None:
            continue
        if every_class:
            arrays |= ragged(f"{path}/{field}", np.split(values, column.starts[1:-1], axis=1))
            continue
        shapes = [lengths, *(np.full(len(lengths), size) for size in values.shape[1:])]
        arrays |= {f"{path}/{field}": values.ravel(), f"{path}/{field}{SHAPES}": np.stack(shapes, 1)}
    return arrays


def _columns(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Values of one shape for every explanation."""
    shapes = np.tile(np.array(values.shape[1:], np.int64), (len(values), 1))
    return {name: values.ravel(), name + SHAPES: shapes}


def ragged(name: str, values: list[Any]) -> dict[str, np.ndarray]:
    """Arrays, numbers, or None for each explanation: values and shapes."""
    given = [np.asarray(value) for value in values if value is not None]
    if not given:
        return {}
    axes = given[0].ndim
    shapes = [(-1,) * axes if value is None else np.shape(value) for value in values]
    flat = np.concatenate([array.ravel() for array in given])
    return {name: flat, name + SHAPES: np.array(shapes, np.int64).reshape(len(values), axes)}


class PartFile:
    """The explanations of one file, as `pack` wrote them; each is made when it is asked for.

    `common` holds what all explanations of a run have: method, classes, features, options,
    and the unit and activation of the output.
    """

    def __init__(self, arrays: dict[str, np.ndarray], common: Mapping[str, Any]) -> None:
        self.common, self.text = common, text_of(arrays)
        self.count: int = self.text["count"]
        self.fields: dict[str, list[Any]] = {}  # by name, of each explanation
        for name, shapes in arrays.items():
            if name.endswith(SHAPES):
                field = name.removesuffix(SHAPES)
                self.fields[field] = _cut(field, arrays[field], shapes, self.count)

    def __iter__(self) -> Iterator[Explanation]:
        return (self[k] for k in range(self.count))

    def __getitem__(self, k: int) -> Explanation:
        target = int(self._field("target", k))
        tested = self.text.get("tested", {}).get(str(k))
        return Explanation(
            **{name: value for name, value in self.common.items() if name != "features"},
            inputs={name: self._input(name, features, k) for name, features in self.common["features"].items()},
            scores=self._field("scores", k),
            target="all" if target < 0 else target,
            ledger=self._ledger(k),
            tested=optional(lambda found: read_record(found, (Evidence,)), tested),
            computed=self.text["computed"][k],
        )

    def _field(self, name: str, k: int) -> Any:
        return self.fields[name][k] if name in self.fields else None

    def _input(self, name: str, features: tuple[str, ...] | None, k: int) -> InputPart:
        relevance, feature_relevance, marks = (self._field(f"inputs/{name}/{field}", k) for field in OF_STEPS)
        words = self.text["words"][name][k]
        if marks is not None and (marks.dtype != np.uint8 or marks.max() > max(Mark)):
            raise LrpError(f"there is no mark {marks.max()}")
        if words is not None and not all(isinstance(word, str) for word in words):
            raise LrpError("words must be texts")
        if relevance.dtype.kind != "f":
            raise LrpError(f"relevance must be floats, got {relevance.dtype}")
        return InputPart(relevance, feature_relevance, features, optional(tuple, words), marks=marks)

    def _ledger(self, k: int) -> Any:
        if self.text["ledger"] is None:
            return None
        prefix = "ledger/"
        entries = {name.removeprefix(prefix): of[k] for name, of in self.fields.items() if name.startswith(prefix)}
        if "relevant" in entries and not entries["relevant"].size:
            raise LrpError("a ledger has an entry for every step, got none")
        return LEDGERS[self.text["ledger"]](**entries)


def text_of(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The texts of a part."""
    text = parse_json(arrays["text"].tobytes())
    if type(text["count"]) is not int or not isinstance(text["words"], dict):
        raise ValueError("its texts are not those of a part")
    return text


def _cut(name: str, values: np.ndarray, shapes: np.ndarray, count: int) -> list[Any]:
    """The values of each explanation, in its shape."""
    if shapes.ndim != 2 or len(shapes) != count or shapes.dtype.kind != "i" or values.ndim != 1:
        raise ValueError(f"{name} must have a shape for each of {count} explanations, got {shapes.shape}")
    axes = shapes.shape[1]
    if not axes:
        if len(values) != count:
            raise ValueError(f"{name} must have {count} values, got {len(values)}")
        return [*values]
    missing = shapes[:, 0] < 0
    sizes = np.where(missing, 0, np.prod(shapes, axis=1, dtype=np.float64))
    if (shapes[~missing] < 0).any() or sizes.sum() != len(values):
        raise ValueError(f"{name} must have {sizes.sum():.0f} values, as its shapes say, got {len(values)}")
    ends = np.cumsum(sizes.astype(np.int64)).tolist()
    cut: list[Any] = []
    for is_missing, start, stop, shape in zip(missing.tolist(), [0, *ends], ends, shapes.tolist(), strict=False):
        cut.append(None if is_missing else values[start:stop].reshape(shape))
    return cut
