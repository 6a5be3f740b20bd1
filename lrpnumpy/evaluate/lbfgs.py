"""L-BFGS without line search, with the settings and stopping rules that PyTorch documents for its own.

Written for the toy task, whose networks the paper trained so; it minimises any function of a few numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from lrpnumpy.kernels.lbfgs import direction

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]  # point -> value and gradient


@dataclass
class LBFGS:
    """The optimiser and what it remembers from one step to the next. `lr` may be changed between steps."""

    lr: float = 1.0
    max_iter: int = 20  # moves in a step
    max_eval: int = 25  # evaluations in a step
    tolerance_grad: float = 1e-7  # on the largest entry of the gradient
    tolerance_change: float = 1e-9  # on value and point
    history: int = 100
    evaluations: int = field(default=0, init=False)
    moves: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        direction.compile(np.float64)  # now, not half way: its rounding differs from the plain function's

    def step(self, function: Function, x: np.ndarray) -> tuple[np.ndarray, float]:
        """Up to max_iter moves from x. Returns the new point, and the value at the old one."""
        value, g = self._evaluate(function, x)
        first, used = value, 1
        if abs(g).max() <= self.tolerance_grad:
            return x, first
        for move in range(1, self.max_iter + 1):
            d = self._direction(g)
            t = self.lr * (min(1.0, 1 / float(abs(g).sum())) if self.moves == 0 else 1.0)
            self._last = g, d * t
            self.moves += 1
            if g @ d > -self.tolerance_change:
                break
            x = x + d * t
            if move == self.max_iter:  # the next step begins with an evaluation here
                break
            before = value
            value, g = self._evaluate(function, x)
            used += 1
            if (
                used >= self.max_eval
                or abs(g).max() <= self.tolerance_grad
                or abs(d * t).max() <= self.tolerance_change
                or abs(value - before) < self.tolerance_change
            ):
                break
        return x, first

    def _evaluate(self, function: Function, x: np.ndarray) -> tuple[float, np.ndarray]:
        self.evaluations += 1
        value, gradient = function(x)
        return float(value), gradient

    def _direction(self, g: np.ndarray) -> np.ndarray:
        """-H g, after the last move and the change of the gradient it made have been noted."""
        if self.moves == 0:
            self._S, self._Y = np.zeros((self.history, g.size)), np.zeros((self.history, g.size))
            self._rho, self._alpha = np.zeros(self.history), np.zeros(self.history)
            self._known, self._scale = 0, 1.0
            return -g
        g_before, s = self._last
        y = g - g_before
        if (sy := float(s @ y)) > 1e-10:
            if self._known == self.history:
                for past in (self._S, self._Y, self._rho):
                    past[:-1] = past[1:].copy()
                self._known -= 1
            k = self._known
            self._S[k], self._Y[k], self._rho[k] = s, y, 1 / sy
            self._known, self._scale = k + 1, sy / float(y @ y)
        d = np.empty_like(g)
        direction(g, self._S, self._Y, self._rho, self._known, self._scale, self._alpha, d)
        return d
