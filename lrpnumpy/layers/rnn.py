"""The plain RNN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.layers.stacked import StackedCell


@dataclass(frozen=True, eq=False, repr=False)
class RNN(StackedCell):
    """One direction of a plain RNN: h = activation(W h_prev + U x + b); `U` (H,D), `W` (H,H), `b` (H,) or None.

    `h0` (H,) is the state before the first step, zero by default, `activation` a name that `Dense` takes. The arrays
    are kept with a leading axis of one gate. LRP: one sum. Contextual decomposition: the sum is split as an LSTM
    splits a gate.
    """

    U: np.ndarray
    W: np.ndarray
    b: np.ndarray | None = None  # type: ignore[assignment]
    h0: np.ndarray | None = None
    activation: str = "tanh"

    GATES: ClassVar[str] = "h"
    OUTPUTS: ClassVar[tuple[str, ...]] = ("", ":last")

    def __post_init__(self) -> None:
        for name, axes in (("U", 2), ("W", 2), ("b", 1)):
            value = getattr(self, name)
            if value is not None and np.ndim(value) == axes:
                self._set(**{name: np.asarray(value)[None]})
        self._check({"b": (1, -1), "h0": (-1,)}, ("activation",))

    @staticmethod
    def step(s: Any, x: Any, h: Any) -> Any:
        """h = activation(W h_prev + U x + b)."""
        (z,) = s.gates("h", x, h)
        return s.apply(s.activation, z)

    def described(self) -> str:
        """One line for `inspect`."""
        return f"RNN, {self.inputs} to {self.units}, {self.activation}{self._start_text()}"
