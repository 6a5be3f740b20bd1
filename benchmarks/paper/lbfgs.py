"""L-BFGS without line search, with the settings and stopping rules that PyTorch documents for its own.

Written for the toy task, whose networks the paper trained so; it minimises any function of a few numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numba import njit

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]  # point -> value and gradient


@dataclass
class LBFGS:
    """The optimizer and what it remembers from one step to the next. `lr` may be changed between steps."""

    lr: float = 1.0
    max_iter: int = 20  # moves in a step
    max_eval: int = 25  # evaluations in a step
    tolerance_grad: float = 1e-7  # on the largest entry of the gradient
    tolerance_change: float = 1e-9  # on value and point
    history: int = 100
    evaluations: int = field(default=0, init=False)
    moves: int = field(default=0, init=False)

    def step(self, function: Function, x: np.ndarray) -> tuple[np.ndarray, float]:
        """Up to max_iter moves from x. Returns the new point, and the value at the old one."""
        value, g = self._evaluate(function, x)
        first, used = value, 1
        if abs(g).max() <= self.tolerance_grad:
            return x, first
        for move in range(1, self.max_iter + 1):
            self._remember(g)
            d = direction(g, self._S, self._Y)
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

    def _remember(self, g: np.ndarray) -> None:
        """Note the last move and the change of the gradient that it made, if the function curves upwards there."""
        if self.moves == 0:
            self._S = self._Y = np.empty((0, g.size))
            return
        g_before, s = self._last
        y = g - g_before
        if s @ y > 1e-10:
            self._S = np.vstack((self._S, s))[-self.history :]
            self._Y = np.vstack((self._Y, y))[-self.history :]


@njit(cache=True)  # products of a few numbers, hundreds of them: a call of NumPy for each would cost more
def direction(g: np.ndarray, S: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """-H g, with H the inverse Hessian that past moves S and changes of the gradient Y suggest (oldest row first)."""
    d, alpha = -g, np.empty(len(S))
    for k in range(len(S) - 1, -1, -1):
        alpha[k] = (S[k] * d).sum() / (S[k] * Y[k]).sum()
        d -= alpha[k] * Y[k]
    if len(S):
        d *= (S[-1] * Y[-1]).sum() / (Y[-1] * Y[-1]).sum()
    for k in range(len(S)):
        beta = (Y[k] * d).sum() / (S[k] * Y[k]).sum()
        d += (alpha[k] - beta) * S[k]
    return d
