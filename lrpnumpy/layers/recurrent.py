"""What recurrent cells share: one direction over packed rows, forwards, back, decomposed and occluded.

A cell reads the rows of its input in the order that it is told: as they are (`STRAIGHT`), or mirrored. Only
`bidirectional.py` asks for mirrored rows, and joins two directions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.checks import LrpError, float_array, one_of
from lrpnumpy.kernels.steps import ALL, GRADIENT, NONE, PROP
from lrpnumpy.layers.base import Keep, Layer, Ran, Size, missing, stacked, takes
from lrpnumpy.lazy import cached_property
from lrpnumpy.packed import Batch, Change, Packed, Part, longest_first, single, vectors
from lrpnumpy.rules.propagation import Entry, Propagation

STRAIGHT = NO_IDS = np.empty(0, np.int64)


@lru_cache
def nothing(*shape: int, dtype: Any) -> np.ndarray:
    """An array without numbers, for kernel arguments that are not asked for."""
    return np.empty(shape, dtype)


class Read(NamedTuple):
    """One direction over one batch; its rows are in the order in which it read them."""

    x: Packed
    order: np.ndarray  # (R,) which row of x was read as each row; empty: the row of the same number
    ids: np.ndarray  # (R,) which row of `table` belongs to each row of x; empty: row 0 to all
    table: np.ndarray  # (any, G H) what U x and W h_prev are added to: the bias; of looked-up words, their U x + b
    Hs: np.ndarray  # (n + R, H) hidden states, the start states first; or only the last ones (n, H)
    C: np.ndarray  # (n + R, H) cell states of an LSTM with keep "states" and "trace", else (0, H)
    kept: np.ndarray  # flat, (kinds, n, H) a step: U x + b with keep "states"; every activation with "trace"
    K: np.ndarray  # flat, (kinds, n, H) a step: coefficients of the propagation that was kept for

    @property
    def h(self) -> np.ndarray:
        """(R, H) outputs of every step."""
        return self.Hs[self.x.batch.n :]

    @property
    def last(self) -> np.ndarray:
        """(n, H) state after each sequence's last step."""
        batch = self.x.batch
        if len(self.Hs) == batch.n:
            return self.Hs
        return self.Hs[-1:] if batch.n == 1 else self.h[batch.last]

    @property
    def last_cell(self) -> np.ndarray:
        """(n, H) cell state after each sequence's last step."""
        batch = self.x.batch
        return self.C if len(self.C) == batch.n else self.C[batch.n + batch.last]

    @property
    def seen(self) -> np.ndarray:
        """(R, D) inputs in the order in which they were read."""
        return self.x.rows[self.order] if len(self.order) else self.x.rows

    def of_step(self, kinds: int) -> list[np.ndarray]:
        """What is kept of each step, (kinds, n, H)."""
        return by_step(self.kept, kinds, self.x.batch, self.Hs.shape[1])


class Sent(NamedTuple):
    """What a way back through one direction starts from, and where it leaves what."""

    R_last: np.ndarray  # (states, n, H) what arrives at the last states, or (0, 0, H)
    R_steps: np.ndarray  # (R, H) what arrives at the outputs of every step, or (0, H)
    R_x: np.ndarray  # (R, D) what the inputs get is added here
    ledger: np.ndarray  # (4, n), see Entry
    R_states: np.ndarray  # (states, R, H) out: what arrives at every state, or (0, 0, H)
    R_start: np.ndarray  # (states, n, H) out: what arrives at the start states, or (0, 0, H)


class Cell(Layer):
    """One direction of a recurrent layer. Subclasses have arrays U (G, H, D), W (G, H, H), b (G, H), and their step."""

    OUTPUTS: ClassVar[tuple[str, ...]] = ("", ":last")  # what comes after "" are the last states
    KERNELS: ClassVar[Any]  # the module with its kernels, and with KINDS of their coefficients
    DEEPLIFT: ClassVar[Any]  # the module with the kernel of DeepLIFT's coefficients
    GATES: ClassVar[str]  # their names in the order of U, W and b
    TRACED: ClassVar[int]  # kinds of numbers that keep "trace" keeps of a step
    ONE_BLOCK: ClassVar[slice]  # the gates that receive anything under the rule "all"

    U: np.ndarray
    W: np.ndarray
    b: np.ndarray
    h0: np.ndarray | None
    activation: str

    def _check(self, optional: Mapping[str, tuple[int, ...]], activations: Sequence[str]) -> None:
        """Check U and W, and those of the optional arrays that are given; the others become 0."""
        kind, G = type(self).__name__, len(self.GATES)
        U = float_array(self.U, f"{kind}: U", (G, None, None))
        H = U.shape[1]
        arrays = {"U": U, "W": float_array(self.W, f"{kind}: W", (G, H, H))}
        for name, letters in optional.items():
            value, shape = getattr(self, name), tuple(H if n < 0 else n for n in letters)
            arrays[name] = float_array(np.zeros(shape, U.dtype) if value is None else value, f"{kind}: {name}", shape)
        self._set(**arrays)
        for name in activations:
            one_of(getattr(self, name), f"{kind}: {name}", tuple(ACTIVATIONS))

    @property
    def causal(self) -> bool:
        """It reads forwards."""
        return True

    @cached_property
    def units(self) -> int:
        """Number H of hidden units."""
        return self.U.shape[1]

    @property
    def inputs(self) -> int:
        """Length D of an input vector."""
        return self.U.shape[2]

    @property
    def outputs(self) -> int:
        """Length of an output vector, H."""
        return self.units

    def sizes(self, x: Size, *start: Size) -> Size:  # type: ignore[override]
        """(D) to (H); other inputs, one vector a sequence, are the start states."""
        takes(x, self.inputs, "U")
        states = self.start.shape[0]
        if len(start) not in (0, states) or any(one.steps or one.width != self.units for one in start):
            got = ", ".join(f"{one.width}{' at every step' if one.steps else ''}" for one in start)
            raise LrpError(f"W must get its start states as {states} vectors of {self.units} numbers, got {got}.")
        return x._replace(width=self.units)

    # -- arrays as kernels take them ------------------------------------------------------------------------------

    @cached_property
    def ahead(self) -> tuple[np.ndarray, np.ndarray]:
        """U and W transposed and packed, for the way forwards."""
        return stacked(self.U.transpose(0, 2, 1)), stacked(self.W.transpose(0, 2, 1))

    @cached_property
    def returning(self) -> tuple[np.ndarray, np.ndarray]:
        """W and U packed, for the way back."""
        return stacked(self.W), stacked(self.U)

    def packed_back(self, how: Propagation) -> tuple[np.ndarray, np.ndarray]:
        """W and U packed for the way back: of all gates, or of those that receive anything."""
        W, U = self.returning
        return (W[self.ONE_BLOCK], U[self.ONE_BLOCK]) if how.code == ALL else (W, U)

    @cached_property
    def bias_row(self) -> np.ndarray:
        """The bias as a table of one row, (1, G H)."""
        row = self.b.reshape(1, -1)
        row.setflags(write=False)
        return row

    @cached_property
    def _tables(self) -> WeakKeyDictionary[Any, np.ndarray]:
        return WeakKeyDictionary()

    def projected(self, embedding: Any) -> np.ndarray:
        """U x + b of every word (V, G H): looked up instead of multiplied, once the table is made."""
        if embedding not in self._tables:
            self._tables[embedding] = embedding.E @ self.U.reshape(-1, self.inputs).T + self.b.ravel()
        return self._tables[embedding]

    # -- what a subclass says about its kernels -------------------------------------------------------------------

    @cached_property
    def start(self) -> np.ndarray:
        """(states, 1, H) state before the first step: h0, and of an LSTM c0."""
        return self.h0[None, None]  # type: ignore[index]

    @cached_property
    def codes(self) -> dict[int, np.ndarray]:
        """What kernels must know of the cell besides its arrays, for each rule."""
        raise missing(self, "codes")

    def run_forward(self, read: Read, codes: np.ndarray, eps: Any, start: np.ndarray) -> None:
        """Call the forward kernel."""
        raise missing(self, "run_forward")

    def run_backward(self, read: Read, K: np.ndarray, how: Propagation, sent: Sent) -> None:
        """Call the backward kernel."""
        W, U = self.packed_back(how)
        self.KERNELS.backward(
            K, read.x.batch.first, read.order, read.ids, read.x.rows, read.table, self.b, read.Hs, W, U,
            int(how.times_input), *sent,
        )  # fmt: skip

    def coefficients(self, read: Read, how: Propagation, other: Any) -> np.ndarray:
        """The coefficients of a propagation that the forward kernel does not have built in, made from the trace."""
        module = self.KERNELS
        if how.has_reference:
            K = np.empty(module.KINDS[GRADIENT] * read.x.batch.R * self.units, self.U.dtype)
            states = "C" if len(read.C) else "Hs"
            self.DEEPLIFT.coefficients(
                read.kept, getattr(read, states), other.kept, getattr(other, states), read.x.batch.first,
                self.codes[NONE], K,
            )  # fmt: skip
            return K
        kinds = module.KINDS[PROP]
        K = np.zeros(kinds * read.x.batch.R * self.units, self.U.dtype)
        parts = zip(read.of_step(self.TRACED), by_step(K, kinds, read.x.batch, self.units), strict=True)
        for t, (kept, k) in enumerate(parts):
            self.fill_coefficients(read, t, kept, how, k)
        return K

    def fill_coefficients(self, read: Read, t: int, kept: np.ndarray, how: Propagation, k: np.ndarray) -> None:
        """Write the coefficients of step t to k (kinds, n, H); kept (TRACED, n, H) are its activations."""
        raise missing(self, "fill_coefficients")

    # -- one direction --------------------------------------------------------------------------------------------

    def read(
        self, x: Packed, order: np.ndarray, keep: Keep, every: bool, start: Sequence[Packed] = (), cells: bool = False
    ) -> Read:
        """Forwards; with keep None and not `every`, only the last states are kept, with `cells` those of cells too.

        `start` are start states for each sequence; without them they are the layer's own.
        """
        n, R, H, dtype = x.batch.n, x.batch.R, self.units, self.U.dtype
        is_reference = isinstance(keep, Propagation) and keep.is_reference
        if is_reference and not start and not cells and (longest := _all_begin_like(x, order)) is not None:
            return self._read_longest(x, order, longest, keep)
        ids, table = NO_IDS, self.bias_row
        if x.words is not None:
            ids, table = x.words.ids, self.projected(x.words.embedding)
        rule, eps = NONE, 0.0
        if isinstance(keep, Propagation) and keep.rule is not None:
            raise LrpError(f"{type(self).__name__}: sums inside a cell must follow the epsilon rule, got {keep.rule}.")
        if isinstance(keep, Propagation):
            if keep.code is None:
                keep = "trace"
            else:
                rule, eps = keep.code, keep.eps
        kinds = len(self.GATES) if keep == "states" else self.TRACED if keep == "trace" else 0
        C = 0
        if self.start.shape[0] > 1:
            C = n + R if keep in ("states", "trace") else n if cells else 0
        read = Read(
            x,
            order,
            ids,
            table,
            np.empty((n + R if every or keep is not None else n, H), dtype),
            np.empty((C, H), dtype) if C else nothing(0, H, dtype=dtype),
            np.empty(kinds * R * H, dtype) if kinds else nothing(0, dtype=dtype),
            nothing(0, dtype=dtype) if rule == NONE else np.empty(self.KERNELS.KINDS[rule] * R * H, dtype),
        )
        begin = np.stack([one.rows for one in start]) if start else self.start
        self.run_forward(read, self.codes[rule], dtype.type(eps), begin)
        return read

    def _read_longest(self, x: Packed, order: np.ndarray, longest: np.ndarray, keep: Keep) -> Read:
        """The references of a batch where all begin like the longest: it is read once, and states are repeated."""
        one = self.read(Packed(longest, single(len(longest))), STRAIGHT, keep, True)
        states = np.concatenate([one.Hs[:1].repeat(x.batch.n, axis=0), one.h[x.batch.step]])
        return one._replace(x=x, order=order, Hs=states)

    def back(
        self,
        read: Read,
        R_last: Sequence[np.ndarray | None],
        R_steps: np.ndarray | None,
        how: Propagation,
        R_x: np.ndarray,
        entry: Entry,
        started: bool = False,
        other: Read | None = None,
    ) -> Sent:
        """Backwards: relevance of the inputs is added to R_x, that of the states is returned if it is asked for.

        `R_last` is what arrives at the last h, and at the last c. With `started` the start states are inputs of the
        layer, and what arrives there is theirs. `other` is the reference's forward pass.
        """
        n, R, H, dtype = read.x.batch.n, read.x.batch.R, self.units, self.U.dtype
        count = self.start.shape[0]
        nowhere = nothing(0, 0, H, dtype=dtype)
        arrives = nowhere
        for k, one in enumerate(R_last):
            if one is not None:
                if arrives is nowhere:
                    arrives = np.zeros((count, n, H), dtype)
                arrives[k] = one
        sent = Sent(
            arrives,
            nothing(0, H, dtype=dtype) if R_steps is None else R_steps,
            R_x,
            entry.array,
            nowhere if entry.states is None else np.empty((count, R, H), dtype),
            np.empty((count, n, H), dtype) if started else nowhere,
        )
        self.run_backward(read, read.K if len(read.K) else self.coefficients(read, how, other), how, sent)
        if started and how.times_input:
            entry.array[Entry.START] -= sent.R_start.sum(axis=(0, 2))
        return sent

    def decomposed(self, read: Read, part: Part, way: int, every: bool) -> np.ndarray:
        """beta of the last states (V, H), or of every step in the rows of a batch of variants.

        `way` is -1 where the cell reads mirrored; the phrase is then that of the mirrored sequence. Here: all variants
        go through time together, each step by the cell's own `split_step`.
        """
        batch, H, G, dtype = read.x.batch, self.units, len(self.GATES), self.U.dtype
        variants = Batch(batch.lengths[part.owner])
        mirror = slice(None) if way > 0 else variants.flip  # rows in the order in which the cell reads
        given = None if part.beta is None else part.beta.rows[mirror]
        seen, kept = read.seen, read.of_step(self.TRACED)
        b = self.b + self.U @ part.delta
        flat_U = self.U.reshape(-1, self.inputs).T
        beta = np.zeros((len(part.owner), H), dtype)
        rows = np.empty((variants.R if every else 0, H), dtype)
        for t, (row, end) in enumerate(pairwise(variants.first.tolist())):
            V = end - row
            owner = part.owner[:V]
            inside = ((part.start[:V] <= t) & (t < part.stop[:V]))[:, None]
            beta_x = given[row:end] if given is not None else seen[batch.first[t] + owner] * inside
            a_x = (beta_x @ flat_U).reshape(V, G, H).transpose(1, 0, 2)
            beta[:V] = self.split_step(kept[t][:, owner], a_x, beta[:V], inside, b)
            if every:
                rows[row:end] = beta[:V]
        return rows[mirror] if every else beta

    def split_step(
        self, kept: np.ndarray, a_x: np.ndarray, beta: np.ndarray, inside: np.ndarray, b: np.ndarray
    ) -> np.ndarray:
        """beta of h (V, H) from that of h_prev.

        kept (kinds, V, H) are the true activations, a_x = U beta_x (G, V, H), inside (V, 1) says whether the step is in
        the phrase, b (G, H) is the bias.
        """
        raise missing(self, "split_step")

    def varied(self, read: Read, change: Change, tol: float, every: bool) -> tuple[np.ndarray, np.ndarray]:
        """Outputs of the variants of an occlusion: the last ones (V, H), or all from step lo on, one after another.

        And the step of its sequence from which on each variant is as its sequence. Here: each variant starts from the
        state before its first changed step, and what is left of it is one sequence of a batch. Inputs of the sequence
        are projected already and looked up.
        """
        batch, H, G = read.x.batch, self.units, len(self.GATES)
        T = batch.lengths[change.owner]
        steps = change.size + T - change.hi
        out = np.zeros((int(steps.sum()) if every else len(steps), H), self.U.dtype)
        begins = np.cumsum(steps) - steps
        before = read.Hs[batch.states_before[change.lo] + change.owner]
        if not every:
            out[steps == 0] = before[steps == 0]
        some = np.flatnonzero(steps)
        if len(some):
            order, lengths = longest_first(steps[some])
            some = some if order is None else some[order]
            rest = Batch(lengths)
            v = some[rest.owner]
            t = change.hi[v] + rest.step - change.size[v]  # step of the sequence, where it has its own input there
            is_own = rest.step < change.size[v]
            where = batch.first[np.where(is_own, 0, t)] + change.owner[v]
            own = change.own[v] + change.stride * np.minimum(rest.step, np.maximum(change.size[v] - 1, 0))
            parts = (
                *(step.transpose(1, 0, 2).reshape(-1, G * H) for step in read.of_step(G)),
                change.rows @ self.U.reshape(-1, self.inputs).T + self.b.ravel(),
            )
            table = np.ascontiguousarray(np.concatenate(parts))  # parts of one unit may stand in Fortran's order
            ids = np.where(is_own, batch.R + own, where)
            Hs = np.empty((rest.n + rest.R if every else rest.n, H), self.U.dtype)
            empty = nothing(0, dtype=self.U.dtype)
            variant = Read(
                Packed(nothing(0, self.inputs, dtype=self.U.dtype), rest), STRAIGHT, ids, table, Hs,
                nothing(0, H, dtype=self.U.dtype), empty, empty,
            )  # fmt: skip
            self.run_forward(variant, self.codes[NONE], self.U.dtype.type(0), before[some][None])
            if every:
                out[begins[v] + rest.step] = variant.h
            else:
                out[some] = Hs
        return out, T

    # -- as a layer that reads forwards ---------------------------------------------------------------------------

    def run(self, xs: Sequence[Packed], keep: Keep, wanted: tuple[str, ...]) -> tuple[tuple[Packed, ...], Any]:
        """Outputs of every step, and the last states."""
        x = xs[0]
        read = self.read(x, STRAIGHT, keep, "" in wanted, xs[1:], ":cell" in wanted)
        values = {"": lambda: read.h, ":last": lambda: read.last, ":cell": lambda: read.last_cell}
        return tuple(Packed(values[name](), x.batch.ends if name else x.batch) for name in wanted), read

    def give_back(
        self, ran: Ran, Rs: Mapping[str, np.ndarray], how: Propagation, entry: Entry
    ) -> list[np.ndarray | None]:
        """Relevance of the inputs."""
        R_x = room_for_inputs(ran.inputs[0], self.units)
        last, started = (Rs.get(":last"), Rs.get(":cell")), len(ran.inputs) > 1
        other = None if ran.reference is None else ran.reference.trace
        sent = self.back(ran.trace, last, Rs.get(""), how, R_x, entry, started, other)
        if entry.states is not None:
            entry.states.append(("forward", sent.R_states))
        return [summed(ran.inputs[0], R_x), *(sent.R_start if started else ())]

    def changed(
        self, ran: Ran, changes: Sequence[Change | None], wanted: tuple[str, ...], tol: float
    ) -> tuple[Change, ...]:
        """From the first changed step on everything changes, and nothing before."""
        change = changes[0]
        if change is None or any(one is not None for one in changes[1:]) or ":cell" in wanted:
            return super().changed(ran, changes, wanted, tol)
        return tuple(
            last_change(change.owner, self.varied(ran.trace, change, tol, False)[0])
            if name
            else after(self, ran.trace, change, tol)
            for name in wanted
        )

    def split(self, ran: Ran, parts: Sequence[Part], wanted: tuple[str, ...]) -> tuple[Part, ...]:
        """Contextual decomposition by the cell's own definition; what biases give the input is a bias here.

        With start states that are inputs, or the cell's last c wanted, it is that of any layer.
        """
        if len(parts) > 1 or ":cell" in wanted:
            return super().split(ran, parts, wanted)
        part, T = parts[0], ran.inputs[0].batch.lengths[parts[0].owner]
        delta = np.zeros(self.units, self.U.dtype)
        out = []
        for name in wanted:
            rows = self.decomposed(ran.trace, part, 1, name == "")
            after = self.part_after(ran, parts, Packed(rows, vectors(len(T)) if name else Batch(T)), delta)
            out.append(after if name else after._replace(since=part.since))
        return tuple(out)

    def part_after(self, ran: Ran, parts: Sequence[Part], beta: Packed, delta: np.ndarray) -> Part:
        """The phrase is that of the series, not of a start state. A last state counts as the middle of its steps."""
        part, T = parts[0], ran.inputs[0].batch.lengths[parts[0].owner]
        if beta.batch.n == beta.batch.R:
            return part.of_vector((T - 1) // 2, beta, delta)
        return part._replace(beta=beta, delta=delta, since=np.zeros_like(part.since))

    def spread(self, trace: Read, xs: Sequence[Packed]) -> Any:
        """States and coefficients of each step, once for every sequence that has it."""
        x, H, R = xs[0], self.units, trace.x.batch.R
        if not len(trace.K) or len(xs) > 1:
            return NotImplemented
        kinds = len(trace.K) // (R * H)
        Hs = np.concatenate((trace.Hs[:1].repeat(x.batch.n, axis=0), trace.h[x.batch.step]))
        K = np.empty(kinds * x.batch.R * H, trace.K.dtype)
        for new, old in zip(by_step(K, kinds, x.batch, H), by_step(trace.K, kinds, trace.x.batch, H), strict=False):
            new[:] = old
        return trace._replace(x=x, Hs=Hs, K=K)

    def with_affine_before(self, s: np.ndarray, t: np.ndarray) -> Any:
        """U (s x + t) + b."""
        return replace(self, U=self.U * s, b=self.b + self.U @ t)  # type: ignore[type-var]

    def activations(self, number: int, ran: Ran) -> tuple[NamedTuple, ...]:
        """All states of one sequence."""
        return (self.states(number, "forward", ran.trace),)

    def states(self, number: int, direction: str, read: Read) -> States:
        """All states of one sequence, in the order of the input."""
        G, T, H = len(self.GATES), read.x.batch.R, self.units
        order = slice(None, None, -1 if direction == "backward" else 1)
        kept = read.kept.reshape(T, self.TRACED, H)
        c = read.C[1:][order] if len(read.C) else None
        return States(number, direction, kept[order, :G], kept[order, G : 2 * G], c, read.h[order], self.GATES)


class States(NamedTuple):
    """Every activation of one direction of a recurrent layer, in the order of the input."""

    layer: int  # its number among the layers
    direction: str  # "forward" or "backward"
    z: np.ndarray  # (T, G, H) pre-activations of the gates
    gates: np.ndarray  # (T, G, H)
    c: np.ndarray | None  # (T, H), of an LSTM
    h: np.ndarray  # (T, H)
    names: str  # of the G gates, a letter each


def by_step(numbers: np.ndarray, kinds: int, batch: Batch, H: int) -> list[np.ndarray]:
    """A flat array with several kinds of numbers a step as one view for each step, (kinds, n, H)."""
    return [
        numbers[kinds * row * H : kinds * end * H].reshape(kinds, end - row, H)
        for row, end in pairwise(batch.first.tolist())
    ]


def _all_begin_like(x: Packed, order: np.ndarray) -> np.ndarray | None:
    """(T, D) the longest sequence in reading order, if all others are what it begins with; else None."""
    rows, batch = x.rows, x.batch
    if batch.n == 1 or (rows[: batch.n] != rows[0]).any():  # a quick look at the first step of each
        return None
    seen = rows[order] if len(order) else rows
    longest = seen[batch.first[:-1]]
    return longest if (seen == longest[batch.step]).all() else None


def room_for_inputs(x: Packed, units: int) -> np.ndarray:
    """Where the way back adds what the inputs get: (R, D); or (R, H) for words that were looked up projected."""
    if x.words is None:
        return np.zeros(x.rows.shape, x.rows.dtype)
    return np.zeros((x.batch.R, units), x.words.embedding.E.dtype)


def summed(x: Packed, R_x: np.ndarray) -> np.ndarray:
    """Relevance of the inputs; words that were looked up have one number each, (R, 1)."""
    return R_x if x.words is None else R_x.sum(axis=1, keepdims=True)


def relevant(
    F: Callable[[np.ndarray], np.ndarray], a: np.ndarray, z: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """L_a = 1/2 [F(a+b) - F(b) + F(z) - F(z-a)], the relevant part of F(z), and L_b = F(b), that of the bias."""
    L_b = F(b)
    return (F(a + b) - L_b + F(z) - F(z - a)) * a.dtype.type(0.5), L_b


def table_of(*columns: np.ndarray) -> np.ndarray:
    """Columns of integers as the rows of one array, as kernels take them."""
    table = np.empty((len(columns), len(columns[0])), np.int64)
    for row, column in zip(table, columns, strict=True):
        row[:] = column
    return table


def last_change(owner: np.ndarray, rows: np.ndarray) -> Change:
    """The change of a last state: one new vector (V, H) for each variant."""
    zero, one = np.zeros_like(owner), np.ones_like(owner)
    return Change(owner, zero, one, one, np.arange(len(owner)), 1, rows)


def after(cell: Cell, read: Read, change: Change, tol: float) -> Change:
    """The change of a direction's outputs: from the first changed step until the state is back."""
    rows, done = cell.varied(read, change, tol, True)
    steps = change.size + read.x.batch.lengths[change.owner] - change.hi
    size = change.size + done - change.hi
    return change._replace(hi=done, size=size, own=np.cumsum(steps) - steps, stride=1, rows=rows)
