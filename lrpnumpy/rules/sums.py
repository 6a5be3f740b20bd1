"""Sum rules of LRP: how a sum z_j = sum_i c_ij gives its relevance R_j to its contributions c_ij = x_i w_ij.

A rule looks at the contributions in one or several modes. A mode m turns x and w into contributions c^m_ij, and the
rule turns their sums z^m_j into gains:

    R_i = sum_m sum_j c^m_ij gain^m_j R_j

    mode            contributions
    PLAIN           x w
    POSITIVE        x+ w+ + x- w-, those above 0
    NEGATIVE        x+ w- + x- w+, those below 0
    SQUARE          w^2
    FLAT            1

with x+ = max(x, 0) and x- = min(x, 0). A mode is data: pairs of a function of x and a kind of weights, whose products
are added up. So a term of a sum (a matrix, a convolution, a diagonal, a plain value) only has to define what it
does with one array of values and one kind of weights, forward and backward, and works with every rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from lrpnumpy.checks import LrpError, non_negative, shown
from lrpnumpy.kernels import sums
from lrpnumpy.meant import called

inverse = sums.inverses
Mode = tuple[tuple[Callable[[np.ndarray], np.ndarray], str], ...]


def _same(x: np.ndarray) -> np.ndarray:
    return x


def _above(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def _below(x: np.ndarray) -> np.ndarray:
    return np.minimum(x, 0)


WEIGHTS: dict[str, Callable[[Any], Any]] = {
    "plain": _same,
    "positive": _above,
    "negative": _below,
    "square": np.square,
    "one": np.ones_like,
}
PLAIN: Mode = ((_same, "plain"),)
POSITIVE: Mode = ((_above, "positive"), (_below, "negative"))
NEGATIVE: Mode = ((_above, "negative"), (_below, "positive"))
SQUARE: Mode = ((np.ones_like, "square"),)
FLAT: Mode = ((np.ones_like, "one"),)


# -- rules ------------------------------------------------------------------------------------------------------------


class SumRule:
    """A sum rule. A custom rule is a subclass with `modes` and, unless it divides one mode by its own sum, `gains`."""

    modes: ClassVar[Any] = (PLAIN,)  # a mode is a tuple of pairs, see the top of this file
    bias_modes: ClassVar[Any] = None  # the modes in which biases are contributions, too; None for all
    conserves: ClassVar[Any] = False  # gains times sums and the stabilizer add up to 1
    eps: float = 0.001  # stabilizer

    def gains(self, *sums: np.ndarray) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """A gain per mode, and the fraction of R that the stabilizer absorbs, from the `sums` of each mode.

        What is missing to 1 is the ledger's entry "rule".
        """
        over, lost = inverse(sums[0], self.eps)
        return (over,), lost


class _Checked(SumRule):
    """A built-in rule, whose fields are numbers that are not negative."""

    conserves: ClassVar[Any] = True

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            name = field.name
            object.__setattr__(self, name, non_negative(getattr(self, name), f"{type(self).__name__}: {name}"))


@dataclass(frozen=True)
class Epsilon(_Checked):
    """R_i = x_i w_ij / stab(z_j) R_j, the default (Bach et al. 2015). `eps` is the stabilizer: stab(z) = z +- eps."""

    eps: float = 0.001


@dataclass(frozen=True)
class Gamma(_Checked):
    """Contributions that have the sign of z_j are weighed by 1 + `gamma` (Montavon et al. 2019), biases are not.

    Use it where contributions nearly cancel. `eps` is the stabilizer.
    """

    gamma: float = 0.25
    eps: float = 0.001
    modes: ClassVar[Any] = (PLAIN, POSITIVE, NEGATIVE)
    bias_modes: ClassVar[Any] = (PLAIN,)

    def gains(self, *sums: np.ndarray) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """1 / stab(z'), and gamma / stab(z') for contributions of the sign of z, with z' weighed, from the `sums`."""
        z, above, below = sums
        gamma, is_up = z.dtype.type(self.gamma), z >= 0  # sign(0) = +1
        over, lost = inverse(z + gamma * np.where(is_up, above, below), self.eps)
        more, none = gamma * over, z.dtype.type(0)
        return (over, np.where(is_up, more, none), np.where(is_up, none, more)), lost


@dataclass(frozen=True)
class AlphaBeta(_Checked):
    """R_i = (`alpha` c+_ij / stab(z+_j) - `beta` c-_ij / stab(z-_j)) R_j (Bach et al. 2015).

    Relevance is conserved where alpha - beta = 1; else the difference is the ledger's entry "rule". Biases are
    contributions, too. `eps` is the stabilizer.
    """

    alpha: float = 2.0
    beta: float = 1.0
    eps: float = 0.001
    modes: ClassVar[Any] = (POSITIVE, NEGATIVE)

    @property
    def conserves(self) -> bool:
        """Where alpha - beta = 1."""
        return self.alpha - self.beta == 1

    def gains(self, *sums: np.ndarray) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """alpha / stab(z+) and -beta / stab(z-), from the `sums` z+ and z-."""
        (above, lost_above), (below, lost_below) = (inverse(z, self.eps) for z in sums)
        alpha, beta = above.dtype.type(self.alpha), above.dtype.type(self.beta)
        return (alpha * above, -beta * below), alpha * lost_above - beta * lost_below


@dataclass(frozen=True)
class ZPlus(_Checked):
    """Contributions above 0 alone: AlphaBeta(1, 0) (Montavon et al. 2017). `eps` is the stabilizer."""

    eps: float = 0.001
    modes: ClassVar[Any] = (POSITIVE,)


@dataclass(frozen=True)
class WSquare(_Checked):
    """R_i = w_ij^2 / sum_i w_ij^2 R_j, whatever x is; biases receive nothing (Montavon et al. 2017).

    For a first layer whose inputs have no bounds. `eps` is the stabilizer.
    """

    eps: float = 0.001
    modes: ClassVar[Any] = (SQUARE,)
    bias_modes: ClassVar[Any] = ()


@dataclass(frozen=True)
class Flat(_Checked):
    """Every input of a sum receives the same share; biases receive nothing (Lapuschkin et al. 2019).

    For a first layer, to see where relevance comes from rather than which value. `eps` is the stabilizer.
    """

    eps: float = 0.001
    modes: ClassVar[Any] = (FLAT,)
    bias_modes: ClassVar[Any] = ()


@dataclass(frozen=True, eq=False)
class ZBox(SumRule):
    """x_i w_ij - low_i w+_ij - high_i w-_ij in place of x_i w_ij, for inputs from `low` to `high`.

    Both are a number, or one per feature. For a first layer whose inputs have bounds (Montavon et al. 2017).
    Biases receive nothing. `eps` is the stabilizer.
    """

    low: Any
    high: Any
    eps: float = 0.001
    bias_modes: ClassVar[Any] = ()
    conserves: ClassVar[Any] = True

    def __post_init__(self) -> None:
        try:
            given = [np.asarray(value) for value in (self.low, self.high)]
            low, high = (one.astype(np.float64) for one in given)
            is_right = all(one.dtype.kind in "fiu" and one.ndim <= 1 and np.isfinite(one).all() for one in given)
            is_right = is_right and bool((low <= high).all())
        except (TypeError, ValueError):
            is_right = False
        if not is_right:
            raise LrpError(
                "ZBox: low and high must each be a number or one for each feature, low at most high, got "
                f"{shown(self.low)} and {shown(self.high)}."
            )
        for name, value in {"low": low, "high": high, "eps": non_negative(self.eps, "ZBox: eps")}.items():
            object.__setattr__(self, name, value)

    @property
    def modes(self) -> tuple[Mode, ...]:
        """One mode of three pairs."""
        return (((_same, "plain"), (self._minus("low"), "positive"), (self._minus("high"), "negative")),)

    def _minus(self, name: str) -> Callable[[np.ndarray], np.ndarray]:
        bound = getattr(self, name)

        def negated(x: np.ndarray) -> np.ndarray:
            if bound.ndim and len(bound) != x.shape[-1]:
                raise LrpError(
                    f"ZBox: {name} must be a number, or one for each of the {x.shape[-1]} features of this layer's "
                    f"input, got {len(bound)}."
                )
            return np.full_like(x, -bound)

        return negated


# -- terms of a sum ---------------------------------------------------------------------------------------------------


class Term:
    """Contributions x_j w_j of a sum z_j: one number each, with `x` (rows, M) and `w` (M,) or a number; None is 1.

    A term with other weights defines `ahead` and `back`; Matrix and Gathered are two of them.
    """

    is_bias: ClassVar[bool] = False  # whether it is a bias, whose relevance is an entry of the ledger

    def __init__(self, x: np.ndarray, w: Any = None) -> None:
        self.x = x  # (rows, …)
        self.w = x.dtype.type(1) if w is None else w

    def ahead(self, a: np.ndarray, kind: str) -> np.ndarray:
        """(rows, M) the sums of `a` times the weights of this `kind`, a name in WEIGHTS."""
        return a * WEIGHTS[kind](self.w)

    def back(self, s: np.ndarray, kind: str) -> np.ndarray:
        """The messages `s` (rows, M) times the weights of this `kind`, of the shape of x."""
        return s * WEIGHTS[kind](self.w)

    def total(self, mode: Mode) -> np.ndarray:
        """(rows, M) the sums of the contributions in a `mode`."""
        return sum(self.ahead(values(self.x), kind) for values, kind in mode)  # type: ignore[return-value]

    def sent(self, s: np.ndarray, mode: Mode) -> np.ndarray:
        """The message to x if contribution c_ij in a `mode` receives c_ij s_j, with the message `s` (rows, M)."""
        return sum(values(self.x) * self.back(s, kind) for values, kind in mode)


class Matrix(Term):
    """Contributions x_i w_ji, with `w` (M, inputs)."""

    def ahead(self, a: np.ndarray, kind: str) -> np.ndarray:
        """a W^T."""
        return a @ WEIGHTS[kind](self.w).T

    def back(self, s: np.ndarray, kind: str) -> np.ndarray:
        """s W."""
        return s @ WEIGHTS[kind](self.w)


class Gathered(Term):
    """Contributions x_i w_i that `gather` adds up, for example over steps. `spread` returns the message of each x.

    Both are functions of an array; `w` has the shape of x, or is a number, 1 where it is left out.
    """

    def __init__(
        self,
        x: np.ndarray,
        gather: Callable[[np.ndarray], np.ndarray],
        spread: Callable[[np.ndarray], np.ndarray],
        w: Any = None,
    ) -> None:
        super().__init__(x, w)
        self.gather, self.spread = gather, spread

    def ahead(self, a: np.ndarray, kind: str) -> np.ndarray:
        """The sums."""
        return self.gather(super().ahead(a, kind))

    def back(self, s: np.ndarray, kind: str) -> np.ndarray:
        """The messages, spread."""
        return super().back(self.spread(s), kind)


class Bias(Term):
    """The bias `b` (M,) of a sum: a contribution 1 b_j. Its relevance is an entry of the ledger."""

    is_bias: ClassVar[bool] = True

    def __init__(self, b: np.ndarray) -> None:
        super().__init__(b.dtype.type(1), b)


def distribute(rule: SumRule, R: np.ndarray, terms: Sequence[Term]) -> tuple[list[np.ndarray], np.ndarray]:
    """The share in `R` (rows, M) of each of the `terms` that is not a bias, by a `rule`.

    And (3, rows) what biases, the stabilizer and the rule absorb of each row; these and the messages add up to R.
    """
    modes = rule.modes
    others = [term for term in terms if not term.is_bias]
    contributing = []  # the terms that count in each mode
    for mode in modes:
        has_bias = rule.bias_modes is None or mode in rule.bias_modes
        contributing.append(terms if has_bias else others)
    sums = [
        sum((term.total(mode) for term in some), start=np.zeros_like(R))
        for mode, some in zip(modes, contributing, strict=True)
    ]
    gains, lost = _gains(rule, sums)
    received: dict[Term, Any] = dict.fromkeys(terms, 0)
    for mode, some, gain in zip(modes, contributing, gains, strict=True):
        s = R * gain
        for term in some:
            received[term] += term.sent(s, mode)
    kept = np.zeros((3, len(R)), R.dtype)
    for term in terms:
        if term.is_bias:
            kept[0] += np.sum(received[term], axis=-1)
    kept[1] = (R * lost).sum(axis=1)
    if not rule.conserves:
        passed = sum(gain * z for gain, z in zip(gains, sums, strict=True))
        kept[2] = (R * (1 - lost - passed)).sum(axis=1)
    return [received[term] for term in others], kept


def _gains(rule: SumRule, sums: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """The gains of a rule, checked if the rule is custom."""
    if type(rule).gains.__module__ == __name__:
        return rule.gains(*sums)  # type: ignore[return-value]
    what, shape, dtype = f"rule {type(rule).__name__}", sums[0].shape, sums[0].dtype
    result = called(what, rule.gains, *sums)
    try:
        gains, lost = result
        gains = [np.broadcast_to(np.asarray(gain, dtype), shape) for gain in gains]
        lost = np.broadcast_to(np.asarray(lost, dtype), shape)
        if len(gains) != len(sums):
            raise ValueError
    except (TypeError, ValueError) as error:
        raise LrpError(
            f"{what}: gains must give a tuple of {len(sums)} arrays, one for each mode, and the fraction that the "
            f"stabilizer keeps, each of shape {shape}, got {shown(result)}."
        ) from error
    return gains, lost
