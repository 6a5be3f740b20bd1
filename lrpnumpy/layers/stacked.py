"""Cells whose arrays are stacked by gate, as files have them: U (G, H, D), W (G, H, H), b (G, H)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import float_array, one_of
from lrpnumpy.layers.base import Record
from lrpnumpy.layers.recurrent import Cell
from lrpnumpy.lazy import cached_property


class StackedCell(Cell):
    """A cell with a special constructor: U_k, W_k and b_k of its `step` are rows of U, W and b."""

    GATES: ClassVar[str]  # letters k in the order of U, W and b

    U: np.ndarray
    W: np.ndarray
    b: np.ndarray

    _values = Record._values

    def _check(self, optional: Mapping[str, tuple[int, ...]], activations: Sequence[str]) -> None:
        """Check U and W, and those of the optional arrays that are given; the others become 0."""
        kind, G = type(self).__name__, len(self.GATES)
        U = float_array(self.U, f"{kind}: U", (G, None, None))
        H = U.shape[1]
        arrays = {"U": U, "W": float_array(self.W, f"{kind}: W", (G, H, H))}
        for name, axes in optional.items():
            value = getattr(self, name)
            shape = tuple(H if size < 0 else size for size in axes)
            if value is None:
                value = np.zeros(shape, U.dtype)
            arrays[name] = float_array(value, f"{kind}: {name}", shape)
        self._set(**arrays)
        for name in activations:
            one_of(getattr(self, name), f"{kind}: {name}", tuple(ACTIVATIONS))

    @cached_property
    def weights(self) -> dict[str, np.ndarray]:
        """The arrays by their names in `step`."""
        found = {
            f"{name}_{k}": array for name in "UWb" for k, array in zip(self.GATES, getattr(self, name), strict=True)
        }
        more = {name: getattr(self, name) for name in self.statement.arrays if name not in found}
        return {**found, **more}

    def with_affine_before(self, s: np.ndarray, t: np.ndarray) -> Any:
        """U (s x + t) + b."""
        return replace(self, U=self.U * s, b=self.b + self.U @ t)

    def _start_text(self) -> str:
        has_start = any(one.any() for one in self.started)
        return ", with a start state" if has_start else ""
