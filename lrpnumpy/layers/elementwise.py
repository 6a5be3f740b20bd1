"""Layers that take each row, or each number, by itself: activations, Affine and its kin, Softmax, LayerNorm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from lrpnumpy import activations
from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import LrpError, finite, float_array, non_negative, one_of, shown
from lrpnumpy.layers.base import ABSENT, Keep, Layer, Ran, Size, optional, takes
from lrpnumpy.lazy import cached_property
from lrpnumpy.packed import Batch, Packed, Split
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum, message
from lrpnumpy.rules.sums import Matrix, Term
from lrpnumpy.statement.backward import back_through_norm
from lrpnumpy.statement.interpret import Normed, normed

NAMES = (*ACTIVATIONS, "prelu", "sqrt")
ALPHA = {"leaky_relu": 0.01, "elu": 1.0}  # the defaults


class RowFunction(Layer):
    """A function of the rows of one input, here of as many numbers as it returns."""

    by_step: ClassVar[bool] = True
    of: Any  # the function of rows (R, M)

    def sizes(self, x: Size) -> Size:
        """The size of the input."""
        return x

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """The function of all rows."""
        return Packed(self.of(xs[0].rows), xs[0].batch), None


@dataclass(frozen=True, eq=False, repr=False)
class Activation(RowFunction):
    """F(x), elementwise; `activation` is a name that `Dense` takes, "prelu", or "sqrt", which is 0 below 0.

    `alpha` is the slope of "leaky_relu" below 0 (default 0.01), or the alpha of "elu" (default 1). `slopes` are those
    of "prelu" below 0: (M,), one per feature, or (1,), one for all.

    LRP propagates R unchanged.
    """

    activation: str
    alpha: float | None = None
    slopes: np.ndarray | None = None

    def __post_init__(self) -> None:
        name = one_of(self.activation, "Activation: activation", NAMES)
        alpha, slopes = self.alpha, self.slopes
        if (alpha is not None and name not in ALPHA) or (slopes is not None) != (name == "prelu"):
            raise LrpError(
                f"Activation: alpha is for {list(ALPHA)}, and slopes are for 'prelu', which needs them, got {name!r} "
                f"with alpha {shown(alpha)} and slopes {shown(slopes)}."
            )
        self._set(alpha=ALPHA.get(name) if alpha is None else finite(alpha, "Activation: alpha"))
        if slopes is not None:
            self._set(slopes=float_array(slopes, "Activation: slopes", (None,)))

    @cached_property
    def function(self) -> activations.Elementwise:
        """F and its slope."""
        if self.activation in ("leaky_relu", "prelu"):
            return activations.leaky_relu(self.slopes if self.alpha is None else self.alpha)
        if self.activation == "elu":
            return activations.elu(self.alpha)  # type: ignore[arg-type]
        return ACTIVATIONS.get(self.activation, activations.ROOT)

    def sizes(self, x: Size) -> Size:
        """The size of the input."""
        if self.slopes is not None and len(self.slopes) > 1:
            takes(x, len(self.slopes), "slopes")
        return x

    def of(self, x: np.ndarray) -> np.ndarray:
        """F(x)."""
        return self.function.F(x)

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """R times the slope."""
        return [R * how.slope(self.function, *ran.both(lambda one: (one.inputs[0].rows, one.outputs[0].rows)))]


@dataclass(frozen=True, eq=False, repr=False)
class Affine(RowFunction):
    """s x + t, with `s` and `t` (M,), one number per feature; t is None for 0. A trained BatchNorm is one.

    `scaler` marks the scaling of the inputs before training. Such a layer remains a node;
    any other may become part of its neighbor, see `lrpnumpy.folding`.

    LRP: one sum of one term and a bias.
    """

    s: np.ndarray
    t: np.ndarray = ABSENT
    scaler: bool = False

    def __post_init__(self) -> None:
        s = float_array(self.s, "Affine: s", (None,))
        self._set(s=s, t=optional(self.t, "Affine: t", s.shape, s.dtype), scaler=bool(self.scaler))

    @classmethod
    def batch_norm(cls, gamma: Any, beta: Any, mean: Any, var: Any, eps: float = 0.001) -> Affine:
        """gamma (x - mean) / sqrt(var + eps) + beta, the BatchNorm of a trained network.

        `mean` and `var` (M,) are the moving averages. `gamma` and `beta` (M,) are None if the layer has none. `eps`
        is 0.001 in Keras, 0.00001 in PyTorch.
        """
        mean = float_array(mean, "Affine.batch_norm: mean", (None,))
        shape, dtype = mean.shape, mean.dtype
        var = float_array(var, "Affine.batch_norm: var", shape)
        gamma = optional(gamma, "Affine.batch_norm: gamma", shape, dtype, 1)
        beta = optional(beta, "Affine.batch_norm: beta", shape, dtype)
        inside = var + var.dtype.type(non_negative(eps, "Affine.batch_norm: eps"))
        if not (inside > 0).all():
            k = int(np.argmin(inside))
            raise LrpError(f"Affine.batch_norm: var + eps must be above 0, got {inside[k]} at index {k}.")
        s = gamma / np.sqrt(inside)
        return cls(s, beta - s * mean)

    @property
    def inputs(self) -> int:
        """Length M of a row."""
        return len(self.s)

    outputs = inputs

    def sizes(self, x: Size) -> Size:
        """(M) to (M)."""
        takes(x, self.inputs, "s")
        return x

    def of(self, x: np.ndarray) -> np.ndarray:
        """s x + t."""
        return x * self.s + self.t

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """The only term receives what bias and stabilizer do not absorb."""
        return back_through_sum(how, R, ran.outputs[0], [Term(ran.inputs[0].rows, self.s)], entry, self.t)

    def with_affine_before(self, s: np.ndarray, t: np.ndarray) -> Affine | None:
        """Two consecutive Affine layers as one."""
        return None if self.scaler else Affine(self.s * s, self.s * t + self.t)

    def with_affine_after(self, s: np.ndarray, t: np.ndarray) -> Affine | None:
        """Two consecutive Affine layers as one."""
        return None if self.scaler else Affine(s * self.s, s * self.t + t)


@dataclass(frozen=True, eq=False, repr=False)
class Units(Affine):
    """s x + t as the last node of a network: its scores in the user's units, with the target's scale and mean.

    LRP has no stabilizer here: of the score s x + t exactly s x is propagated, and the bias absorbs t.
    """

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """R is a multiple of the score s x + t: the same multiple of s x is propagated."""
        if not how.times_input:
            return super().backward(ran, R, how, entry)
        x, y = ran.inputs[0].rows, ran.outputs[0]
        part = np.divide(R, y.rows, out=np.zeros_like(R), where=y.rows != 0)  # 1; -1 for the contrasted class
        entry.bias(part * self.t, y.batch)
        entry.see(R, y.batch)
        return [part * self.s * x]


@dataclass(frozen=True, eq=False, repr=False)
class Square(RowFunction):
    """x x, elementwise. LRP: a product whose two factors share evenly, so R is propagated unchanged."""

    def of(self, x: np.ndarray) -> np.ndarray:
        """The squares."""
        return x * x

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """Both factors are x."""
        to_one, to_other = how.even_product(*ran.both(lambda one: (one.inputs[0].rows,) * 2))
        return [R * (to_one + to_other)]


@dataclass(frozen=True, eq=False, repr=False)
class Softmax(Layer):
    """exp(x_i) / sum_k exp(x_k), over the features of each row, or with `axis="steps"` over the steps of each feature.

    LRP propagates R unchanged, as through every activation.
    """

    axis: Literal["features", "steps"] = "features"

    def __post_init__(self) -> None:
        one_of(self.axis, "Softmax: axis", ("features", "steps"))

    @property
    def by_step(self) -> bool:  # type: ignore[override]
        """If it is over the features."""
        return self.axis == "features"

    def sizes(self, x: Size) -> Size:
        """The size of the input."""
        if self.axis == "steps" and not x.steps:
            raise LrpError(f"axis must be 'features' for one vector of the {x.source}, got 'steps'.")
        return x

    def _over(self, reduce: np.ufunc, rows: np.ndarray, batch: Batch) -> np.ndarray:
        """Rows reduced over the axis, and repeated."""
        if self.axis == "features":
            return reduce.reduce(rows, axis=1, keepdims=True)
        return reduce.reduceat(batch.unpack(rows), batch.starts)[batch.owner]

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, None]:
        """(R, M) to (R, M)."""
        x, batch = xs[0].rows, xs[0].batch
        over = np.exp(x - self._over(np.maximum, x, batch))
        return Packed(over / self._over(np.add, over, batch), batch), None

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """R unchanged, or through the softmax."""
        if how.holds_weights:
            return [R]
        z, y, *reference = ran.both(lambda one: (one.inputs[0].rows, one.outputs[0].rows))
        batch = ran.inputs[0].batch
        return [how.softmax(R, z, y, lambda terms: self._over(np.add, terms, batch), *reference)]

    def part_after(self, ran: Ran, parts: Sequence[Split], beta: Packed, delta: np.ndarray) -> Split:
        """Over T steps biases alone give 1/T, which is not a constant: it counts as relevant inside the phrase."""
        part = super().part_after(ran, parts, beta, delta)
        if self.axis == "features":
            return part
        batch = beta.batch
        share = (part.inside(batch.owner, batch.step) / batch.lengths[batch.owner]).astype(beta.rows.dtype)
        return part._replace(beta=Packed(beta.rows + share[:, None], batch), delta=np.zeros_like(delta))


@dataclass(frozen=True, eq=False, repr=False)
class TwoClasses(RowFunction):
    """The score f of one sigmoid as the scores (-f, f) of two classes: sigmoid(-f) = 1 - sigmoid(f).

    A model with one score, output="sigmoid" and two class names, the negative first, ends with this layer.
    LRP propagates R unchanged, without a stabilizer.
    """

    def sizes(self, x: Size) -> Size:
        """(1) to (2)."""
        if x.width != 1:
            raise LrpError(f"input must be one number, the {x.source} gives {x.width}.")
        return x._replace(width=2)

    def of(self, x: np.ndarray) -> np.ndarray:
        """-f and f."""
        return np.concatenate([-x, x], axis=1)

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """Relevance already has the sign of its score; a gradient does not."""
        negative, positive = R[:, :1], R[:, 1:]
        if not how.times_input:
            negative = -negative
        return [positive + negative]


@dataclass(frozen=True, eq=False, repr=False)
class LayerNorm(Layer):
    """gamma (x - mean(x)) / sqrt(var(x) + eps) + beta, with mean and variance over the M features of each row.

    `gamma` and `beta` are (M,); beta is None for 0. `eps` is 0.001 in Keras, 0.00001 in PyTorch. With `center` False
    the mean is taken as 0: RMSNorm, gamma x / sqrt(mean(x x) + eps) + beta.

    LRP holds the standard deviation fixed: y_j = sum_i gamma_j (1[i = j] - 1/M) r x_i + beta_j is one sum per
    output. The gradient goes through all of it.
    """

    gamma: np.ndarray
    beta: np.ndarray = ABSENT
    eps: float = 0.001
    center: bool = True

    by_step: ClassVar[bool] = True

    def __post_init__(self) -> None:
        gamma = float_array(self.gamma, "LayerNorm: gamma", (None,))
        beta = optional(self.beta, "LayerNorm: beta", gamma.shape, gamma.dtype)
        eps = non_negative(self.eps, "LayerNorm: eps")
        if eps == 0:
            raise LrpError("LayerNorm: eps must be above 0, got 0: a row of equal numbers would be divided by 0.")
        self._set(gamma=gamma, beta=beta, eps=eps)

    @property
    def inputs(self) -> int:
        """Length M of a vector."""
        return len(self.gamma)

    outputs = inputs

    def sizes(self, x: Size) -> Size:
        """(M) to (M)."""
        takes(x, self.inputs, "gamma")
        return x

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, Normed]:
        """The normalized rows; the trace is their parts."""
        x = xs[0]
        kept = normed(x.rows, self.eps, self.center)
        return Packed(kept.u * kept.r * self.gamma + self.beta, x.batch), kept

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """Back through scale, product and mean, and if r is not held fixed, through the variance."""
        x, y, r = ran.inputs[0].rows, ran.outputs[0], ran.trace.r
        if how.rule is not None:
            mean = R.dtype.type(1 / self.inputs if self.center else 0)
            each = self.gamma[:, None] * (np.eye(self.inputs, dtype=R.dtype) - mean)
            return back_through_sum(how, R, y, [Matrix(x * r, each)], entry, self.beta)
        s = message(how, R, y, self.beta, entry) * self.gamma
        R_x = back_through_norm(how, s, ran.both(lambda one: (one.trace,)), self.center)
        if how.times_input:
            R_x *= x
        return [R_x]

    def with_affine_after(self, s: np.ndarray, t: np.ndarray) -> LayerNorm:
        """Another scale and shift."""
        return replace(self, gamma=self.gamma * s, beta=self.beta * s + t)
