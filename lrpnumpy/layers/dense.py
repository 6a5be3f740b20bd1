"""Sums with weights and an activation: Dense, at every step or once per sequence, and Conv1D, over windows of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import LrpError, float_array, one_of
from lrpnumpy.layers.base import Keep, Layer, Ran, Size, needs_steps, optional, takes
from lrpnumpy.layers.windows import View, Windowed, WindowSteps, checked, padded
from lrpnumpy.lazy import cached_property
from lrpnumpy.packed import Packed, Split
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum
from lrpnumpy.rules.sums import WEIGHTS, Matrix, Term


@dataclass(frozen=True, eq=False, repr=False)
class Dense(Layer):
    """activation(V x + d), with `V` (out, in) and `d` (out,) or None for no bias.

    `activation` is a name: "linear", "tanh", "relu", "sigmoid" or another one of `lrpnumpy/activations.py`.

    LRP: one sum per output. Contextual decomposition:
    L_a = 1/2 [F(a+b) - F(b) + F(z) - F(z-a)] with a = V beta and b = V delta + d.
    """

    V: np.ndarray
    d: np.ndarray | None = None
    activation: str = "linear"

    by_step: ClassVar[bool] = True

    def __post_init__(self) -> None:
        V = float_array(self.V, "Dense: V", (None, None))
        self._set(V=V, d=optional(self.d, "Dense: d", V.shape[:1], V.dtype))
        one_of(self.activation, "Dense: activation", tuple(ACTIVATIONS))

    @property
    def inputs(self) -> int:
        """Length of an input vector."""
        return self.V.shape[1]

    @property
    def outputs(self) -> int:
        """Length of an output vector."""
        return self.V.shape[0]

    def sizes(self, x: Size) -> Size:
        """(in) to (out)."""
        takes(x, self.inputs, "V")
        return x._replace(width=self.outputs)

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, np.ndarray]:
        """The outputs; the trace is z."""
        x = xs[0]
        y = z = x.rows.dot(self.V.T) + self.d  # for few rows faster than @
        if self.activation != "linear":
            y = ACTIVATIONS[self.activation].F(z)
        return Packed(y, x.batch), z

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """R_i = x_i sum_j v_ji s_j."""
        z, x, batch = ran.trace, ran.inputs[0].rows, ran.inputs[0].batch
        if self.activation != "linear" and not how.times_input:  # LRP propagates R unchanged
            R = R * how.slope(self.activation, *ran.both(lambda one: (one.trace, one.outputs[0].rows)))
        return back_through_sum(how, R, Packed(z, batch), [Matrix(x, self.V)], entry, self.d)

    def with_affine_before(self, s: np.ndarray, t: np.ndarray) -> Dense:
        """V (s x + t) + d."""
        return replace(self, V=self.V * s, d=self.d + self.V @ t)

    def with_affine_after(self, s: np.ndarray, t: np.ndarray) -> Dense | None:
        """s (V x + d) + t, where no activation is in between."""
        if self.activation != "linear":
            return None
        return replace(self, V=self.V * s[:, None], d=self.d * s + t)


@dataclass(frozen=True, eq=False, repr=False)
class Conv1D(Windowed):
    """activation(sum_k K[:, k] x[t + k dilation] + d), with `K` (out, width, in / groups), `d` (out,) or None.

    A new window begins every `stride` steps; its own steps are `dilation` apart. `activation` is as in `Dense`.
    `padding` puts zeros around the sequence: "valid" none, "same" as many as Keras does, "causal" only before it,
    (left, right) these numbers. `groups` splits outputs and inputs into blocks, and each block of outputs depends only
    on its block of inputs.

    LRP: one sum per output. Contextual decomposition: as Dense, with the bias of windows without padding for all.
    """

    K: np.ndarray
    d: np.ndarray | None = None
    stride: int = 1
    dilation: int = 1
    padding: str | tuple[int, int] = "valid"
    groups: int = 1
    activation: str = "linear"

    def __post_init__(self) -> None:
        K = float_array(self.K, "Conv1D: K", (None, None, None))
        self._set(K=K, d=optional(self.d, "Conv1D: d", K.shape[:1], K.dtype))
        checked(self, {"stride": 1, "dilation": 1, "groups": 1}, ("valid", "same", "causal"))
        one_of(self.activation, "Conv1D: activation", tuple(ACTIVATIONS))
        if len(K) % self.groups:
            raise LrpError(f"Conv1D: groups must divide the {len(K)} outputs, got {self.groups}.")

    @property
    def inputs(self) -> int:
        """Length of an input vector."""
        return self.K.shape[2] * self.groups

    @property
    def outputs(self) -> int:
        """Length of an output vector."""
        return self.K.shape[0]

    @property
    def windows(self) -> WindowSteps:
        """How the windows follow one another."""
        return WindowSteps(self.K.shape[1], self.stride, self.dilation, self.padding)

    @property
    def causal(self) -> bool:
        """With padding on the left alone."""
        return self.padding == "causal" and self.stride == 1

    def sizes(self, x: Size) -> Size:
        """(in) to (out)."""
        needs_steps(x)
        takes(x, self.inputs, "K")
        return x._replace(width=self.outputs)

    def _of_groups(self, rows: np.ndarray) -> np.ndarray:
        """Inputs (Q, width, in) of windows as (groups, Q, width * in / groups), or outputs (Q, 1, out) likewise."""
        parts = rows.reshape(*rows.shape[:2], self.groups, -1).transpose(2, 0, 1, 3)
        return parts.reshape(self.groups, len(rows), -1)

    @cached_property
    def _blocks(self) -> np.ndarray:
        """(groups, out / groups, width * in / groups)."""
        return self.K.reshape(self.groups, len(self.K) // self.groups, -1)

    def sums(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """(Q, out) sums of Q windows, without the activation: one matrix product per group."""
        seen = padded(x, 0).take(rows, axis=0)  # (Q, width, in)
        z = self._of_groups(seen) @ self._blocks.swapaxes(1, 2)
        z = z.swapaxes(0, 1).reshape(len(rows), self.outputs)
        z += self.d
        return z

    def of_windows(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Outputs (Q, out)."""
        return ACTIVATIONS[self.activation].F(self.sums(x, rows))

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, tuple[np.ndarray, View]]:
        """The outputs; the trace is z and the windows."""
        view = self.view(xs[0].batch)
        z = self.sums(xs[0].rows, view.rows)
        return Packed(ACTIVATIONS[self.activation].F(z), view.batch), (z, view)

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """R_i = x_i sum_j K_ji s_j, over all windows j that see x_i."""
        x, y, (z, view) = ran.inputs[0], ran.outputs[0], ran.trace
        if self.activation != "linear" and not how.times_input:  # LRP propagates R unchanged
            R = R * how.slope(self.activation, *ran.both(lambda one: (one.trace[0], one.outputs[0].rows)))
        return back_through_sum(how, R, Packed(z, y.batch), [_Convolved(self, x.rows, view)], entry, self.d)

    @cached_property
    def kinds(self) -> dict[str, Conv1D]:
        """The same sums without bias, by the kind of weights."""
        return {kind: replace(self, K=of(self.K), d=None) for kind, of in WEIGHTS.items()}

    def split(self, ran: Ran, parts: Sequence[Split], wanted: tuple[str, ...]) -> tuple[Split, ...]:
        """beta_y = 1/2 [F(a+b) - F(b) + F(z) - F(z-a)], with a the sums of beta and b those of delta, plus d."""
        part, x = parts[0], ran.inputs[0]
        beta = part.written(x)
        view = self.view(beta.batch)
        a = self.kinds["plain"].sums(beta.rows, view.rows)
        b = self.sums(part.delta[None], np.zeros((1, self.K.shape[1]), np.int64))[0]
        z = part.true(ran.outputs[0]._replace(rows=ran.trace[0]), view.batch)
        a, delta = ACTIVATIONS[self.activation].split(a, b, z)
        return (self.part_after(ran, parts, Packed(a, view.batch), delta),)

    def with_affine_before(self, s: np.ndarray, t: np.ndarray) -> Conv1D | None:
        """Of s x + t, if there is no padding: padding is 0 after an Affine layer, not t."""
        if self.padding not in ("valid", (0, 0)):
            return None
        blocks = self.K.reshape(self.groups, -1, *self.K.shape[1:])  # (groups, out / groups, width, in / groups)
        s, t = s.reshape(self.groups, 1, 1, -1), t.reshape(self.groups, 1, 1, -1)
        return replace(self, K=(blocks * s).reshape(self.K.shape), d=self.d + (blocks * t).sum(axis=(2, 3)).ravel())

    def with_affine_after(self, s: np.ndarray, t: np.ndarray) -> Conv1D | None:
        """s y + t, where no activation is in between."""
        if self.activation != "linear":
            return None
        return replace(self, K=self.K * s[:, None, None], d=self.d * s + t)

    def described(self) -> str:
        """One line for `inspect`."""
        return f"{super().described()}, width {self.K.shape[1]}"


class _Convolved(Term):
    """The contributions of the inputs `x` to the sums of the windows of a `view`."""

    def __init__(self, layer: Conv1D, x: np.ndarray, view: View) -> None:
        self.x, self.layer, self.view = x, layer, view

    def ahead(self, a: np.ndarray, kind: str) -> np.ndarray:
        """The sums of the windows."""
        return self.layer.kinds[kind].sums(a, self.view.rows)

    def back(self, s: np.ndarray, kind: str) -> np.ndarray:
        """Messages, added up over the windows that see an input."""
        layer = self.layer.kinds[kind]
        each = layer._of_groups(s[:, None]) @ layer._blocks  # (groups, Q, width * in / groups)
        each = each.reshape(layer.groups, len(s), layer.K.shape[1], -1).transpose(1, 2, 0, 3)
        return self.view.spread(each.reshape(*each.shape[:2], layer.inputs))
