"""The convolution over time: y = F(sum of K x over the places of a window + d)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import LrpError, float_array, one_of
from lrpnumpy.layers.base import Keep, Outputs, Ran, Size, takes
from lrpnumpy.layers.windows import View, Windowed, Windows, checked
from lrpnumpy.packed import Packed, Part
from lrpnumpy.rules.propagation import Entry, Propagation, back_through_sum


@dataclass(frozen=True, eq=False, repr=False)
class Conv1D(Windowed):
    """activation(sum_k K[:, k] x[t + k dilation] + d), with K (out, width, in / groups), d (out,) or None for no bias.

    A new window begins every `stride` steps. `padding` puts zeros around the sequence: "valid" none, "same" as many as
    Keras does, "causal" only before it, (left, right) so many. `groups` cuts outputs and inputs into blocks, and
    each block of outputs sees its own block of inputs.

    LRP: one sum for each output. Contextual decomposition: as Dense, with the bias of windows without padding for all.
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
        d = np.zeros(len(K), K.dtype) if self.d is None else self.d
        self._set(K=K, d=float_array(d, "Conv1D: d", (len(K),)))
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
    def windows(self) -> Windows:
        """How the windows follow one another."""
        return Windows(self.K.shape[1], self.stride, self.dilation, self.padding)

    @cached_property
    def blocks(self) -> np.ndarray:
        """K as one matrix for each group, (groups, outputs of a group, width * inputs of a group)."""
        return self.K.reshape(self.groups, self.outputs // self.groups, -1)

    def sizes(self, x: Size) -> Size:  # type: ignore[override]
        """(in) to (out)."""
        self._needs_steps(x, "K")
        takes(x, self.inputs, "K")
        return x._replace(width=self.outputs)

    def product(self, seen: np.ndarray) -> np.ndarray:
        """Sums (Q, out) without the bias, of what the windows see, (Q, width, in)."""
        if self.groups == 1:
            return seen.reshape(len(seen), -1) @ self.blocks[0].T
        grouped = seen.reshape(*seen.shape[:2], self.groups, -1).transpose(2, 0, 1, 3)
        z = grouped.reshape(self.groups, len(seen), -1) @ self.blocks.transpose(0, 2, 1)
        return z.transpose(1, 0, 2).reshape(len(seen), -1)

    def of_windows(self, seen: np.ndarray, real: np.ndarray) -> np.ndarray:
        """Outputs (Q, out)."""
        return ACTIVATIONS[self.activation].F(self.product(seen) + self.d)

    def forward(self, xs: Sequence[Packed], keep: Keep) -> tuple[Packed, tuple[np.ndarray, View]]:
        """The outputs; the trace is z and the windows."""
        x = xs[0]
        view = self.view(x.batch)
        z = self.product(view.seen(x.rows))
        z += self.d
        return Packed(ACTIVATIONS[self.activation].F(z), view.batch), (z, view)

    def backward(self, ran: Ran, R: np.ndarray, how: Propagation, entry: Entry) -> list[np.ndarray]:
        """R_i = x_i sum_j K_ji s_j, over all windows j that see x_i."""
        x, y, (z, view) = ran.inputs[0], ran.outputs[0], ran.trace
        if self.activation != "linear":
            R = R * how.slope(self.activation, z, y.rows)
        s, alike = back_through_sum(how, R, z, self.d, 1, y.batch, entry)
        R_x = view.back(self._messages(s), len(x.rows))
        if how.times_input:
            R_x *= x.rows
        if how.share_bias:
            R_x += self._shared(alike, view, len(x.rows), entry)
        if how.times_input:
            entry.see(R_x, x.batch)
        return [R_x]

    def _messages(self, s: np.ndarray) -> np.ndarray:
        """(Q, width, in) what the places of the windows get of s (Q, out)."""
        Q, width = len(s), self.K.shape[1]
        if self.groups == 1:
            return (s @ self.blocks[0]).reshape(Q, width, -1)
        found = s.reshape(Q, self.groups, -1).transpose(1, 0, 2) @ self.blocks
        return found.reshape(self.groups, Q, width, -1).transpose(1, 2, 0, 3).reshape(Q, width, -1)

    def _shared(self, left: np.ndarray, view: View, R: int, entry: Entry) -> np.ndarray:
        """(R, in) what biases and stabilisers would keep of windows, (Q, out), spread over the inputs they see."""
        count = view.real.sum(axis=1, keepdims=True)
        if not count.all():  # a window that sees nothing but padding: its bias has nobody to share with
            entry.bias(np.where(count == 0, left, 0), view.batch)
        terms = np.maximum(count, 1) * self.K.shape[2]
        of_group = left.reshape(len(left), self.groups, -1).sum(axis=2) / terms.astype(left.dtype)
        alike = of_group.repeat(self.K.shape[2], axis=1)[:, None]
        return view.back(np.broadcast_to(alike, (len(left), self.K.shape[1], self.inputs)), R)

    def split(self, ran: Ran, parts: Sequence[Part], wanted: tuple[str, ...]) -> tuple[Part, ...]:
        """beta_y = 1/2 [F(a+b) - F(b) + F(z) - F(z-a)], with a the sums of beta and b those of delta, plus d."""
        part, x = parts[0], ran.inputs[0]
        beta = part.written(x)
        view = self.view(beta.batch)
        a = self.product(view.seen(beta.rows))
        everywhere = np.broadcast_to(part.delta, (1, self.K.shape[1], self.inputs))
        b = self.product(everywhere)[0] + self.d
        F = ACTIVATIONS[self.activation].F
        delta = F(b)
        if self.activation != "linear":
            z = part.true(ran.outputs[0]._replace(rows=ran.trace[0]), view.batch)
            a = (F(a + b) - delta + F(z) - F(z - a)) * a.dtype.type(0.5)
        part = self._phrase(part, x.batch, ran.outputs[0].batch)
        return (part._replace(beta=Packed(a, view.batch), delta=delta),)

    def activations(self, number: int, ran: Ran) -> tuple[NamedTuple, ...]:
        """z and y."""
        return (Outputs(number, ran.trace[0], ran.outputs[0].rows),)

    def described(self) -> str:
        """One line for `inspect`."""
        others: dict[str, Any] = {"stride": self.stride, "dilation": self.dilation, "groups": self.groups}
        rare = "".join(f", {name} {value}" for name, value in others.items() if value != 1)
        sizes = f"{self.inputs} to {self.outputs}, width {self.K.shape[1]}"
        return f"Conv1D, {sizes}, padding {self.padding}{rare}, {self.activation}"
