"""The LSTM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.layers.stacked import StackedCell


@dataclass(frozen=True, eq=False, repr=False)
class LSTM(StackedCell):
    """One direction of an LSTM: `U` (4,H,D), `W` (4,H,H), `b` (4,H) or None for no bias; gates i, f, g, o.

    i, f, o = recurrent_activation(W h_prev + U x + b), g = activation(...), c = f c_prev + i g,
    h = o activation(c). `h0` and `c0` (H,) are the state before the first step, zero by default. `activation` and
    `recurrent_activation` are names that `Dense` takes.

    LRP: each gate's pre-activation is one sum; c is a sum of the products (f, c_prev) and (i, g); h is the product
    (o, activation(c)). Contextual decomposition: Murdoch, Liu & Yu, ICLR 2018, who do not split o.
    """

    U: np.ndarray
    W: np.ndarray
    b: np.ndarray | None = None  # type: ignore[assignment]
    h0: np.ndarray | None = None
    c0: np.ndarray | None = None
    activation: str = "tanh"
    recurrent_activation: str = "sigmoid"

    states: ClassVar[tuple[str, ...]] = ("h", "c")
    OUTPUTS: ClassVar[tuple[str, ...]] = ("", ":last", ":cell")
    GATES: ClassVar[str] = "ifgo"

    def __post_init__(self) -> None:
        self._check({"b": (4, -1), "h0": (-1,), "c0": (-1,)}, ("activation", "recurrent_activation"))

    @staticmethod
    def step(s: Any, x: Any, h: Any, c: Any) -> Any:
        """The formulas above."""
        i, f, g, o = s.gates("ifgo", x, h)
        i, f, o = (s.apply(s.recurrent_activation, z) for z in (i, f, o))
        c = s.sum(s.product(f, c), s.product(i, s.apply(s.activation, g)))
        return s.product(s.whole(o), s.apply(s.activation, c)), c

    def described(self) -> str:
        """One line for `inspect`."""
        gate = {"hard_sigmoid": "hard_sigmoid (0.2 z + 0.5)", "hard_sigmoid_3": "hard_sigmoid (z / 6 + 0.5)"}
        gates = gate.get(self.recurrent_activation, self.recurrent_activation)
        sizes = f"{self.inputs} to {self.units}"
        return f"LSTM, {sizes}, gates i f g o with {gates}, {self.activation}{self._start_text()}"
