"""A cell run by kernels over packed rows: generated ones, or those that the cell defines.

Both take the same arguments and have the same layout of coefficients and saved values, which `generate.Plan` derives.
"""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from lrpnumpy.kernels import steps
from lrpnumpy.kernels.compile import Kernel
from lrpnumpy.kernels.generated import NAMES as KERNEL_NAMES
from lrpnumpy.kernels.inputs import BatchRows, Messages, Weights
from lrpnumpy.kernels.product import pack
from lrpnumpy.packed import Batch, Packed, single
from lrpnumpy.rules.propagation import Entry
from lrpnumpy.statement.generate import RULES, Backward, Coefficients, Plan
from lrpnumpy.statement.trace import Statement

CODES = {rule: getattr(steps, rule.upper()) for rule in ("none", "gradient", "all", "prop", "abs", "half")}
CODES["deeplift"] = steps.GRADIENT  # its coefficients are used like derivatives
NAMES = {code: rule for rule, code in CODES.items() if rule != "deeplift"}
SHARED = {"prop": "shares", "abs": "shares", "half": "shares"}  # rules that have their coefficients in common
NO_ROWS = np.zeros(1, np.int64)  # where there is no order, and no ids
NO_ROWS.setflags(write=False)


class Kernels(NamedTuple):
    """The kernels of a statement, and what their caller must know; by rule: the RULES of `generate`, and "deeplift"."""

    forward: Kernel
    mean_slopes: Kernel
    backward: dict[str, Kernel]
    kinds: dict[str, int]  # coefficients per unit and step
    blocks: dict[str, tuple[int, int]]  # of U that receive anything

    def wanted(self, rule: str) -> list[Kernel]:
        """Those that an explanation by a rule runs."""
        if rule == "none":
            return [self.forward]
        more = [self.mean_slopes] if rule == "deeplift" else []
        return [self.forward, self.backward[SHARED.get(rule, rule)], *more]


_by_text: dict[str, Kernel] = {}


def _kernel(text: str, name: str) -> Kernel:
    """The kernel of a text; one text is one kernel, whatever cell and rule it was made for."""
    if text not in _by_text:
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        file = f"<generated>/{name}-{digest}.py"  # the name of the cached kernel
        names = dict(KERNEL_NAMES)
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        exec(compile(text, file, "exec"), names)
        kernel = _by_text[text] = Kernel(names[text[4 : text.index("(")]])
        kernel.name = name
    return _by_text[text]


_made: dict[str, Kernels] = {}


def kernels_of(statement: Statement) -> Kernels:
    """The generated kernels of a statement."""
    key = repr(statement.to_data())
    if key not in _made:
        plan = Plan(statement)
        rules = [Coefficients(plan, rule) for rule in RULES]
        means = Coefficients(plan, "deeplift")
        backward = {one.rule: Backward(one) for one in (*rules, means)}
        name = statement.kind
        _made[key] = Kernels(
            _kernel(plan.forward(rules), f"{name}-forward"),
            _kernel(plan.mean_slopes(means), f"{name}-mean_slopes"),
            {rule: _kernel(one.text(), f"{name}-{rule}-backward") for rule, one in backward.items()},
            {"none": 0, **{one.rule: one.kinds for one in (*rules, means)}},
            {rule: (one.lo, one.hi) for rule, one in backward.items()},
        )
    return _made[key]


class CellProgram:
    """The kernels of one cell with its arrays: all that does not change from call to call."""

    def __init__(
        self, statement: Statement, arrays: Mapping[str, np.ndarray], override: Any, codes: Sequence[int]
    ) -> None:
        """`override`: a module with the kernels `forward` and `backward`, or None."""
        self.statement, self.kernels = statement, kernels_of(statement)
        plan = self.plan = Plan(statement)
        if override is not None:
            backward = dict.fromkeys(self.kernels.backward, override.backward)
            self.kernels = self.kernels._replace(forward=override.forward, backward=backward)
        U = np.stack([arrays[term.name] for term in plan.x_terms.values()])  # (G, H, D)
        self.G, self.H, self.D = U.shape
        self.U = U.reshape(-1, self.D)
        dtype = self.dtype = U.dtype
        W = [arrays[term.name] for _, term, _ in plan.products] or [np.zeros((1, 1), dtype)]
        zero = np.zeros(self.H, dtype)
        biases = [[arrays[term.name] for term in node.args if term.op == "bias"] for node in plan.x_sums]
        self.b = np.stack([sum(some, zero) for some in biases])
        self.bias_row = self.b.reshape(1, -1)
        P = np.stack([arrays[term.name] for term in plan.vectors] or [zero])
        kinds = np.array(codes or [0], np.int64)
        self.ahead = Weights(_packed(U.transpose(0, 2, 1)), _packed([one.T for one in W]), P, kinds)
        U_back, W_back = _packed(U), _packed(W)
        self.backward: dict[str, tuple[Any, Weights]] = {  # by rule: the kernel, the weights of what receives anything
            rule: (self.kernels.backward[rule], Weights(U_back[lo:hi], W_back, P, kinds))
            for rule, (lo, hi) in self.kernels.blocks.items()
        }
        self._stored: dict[tuple[str, int, bool], tuple[int, int, list[bool], int, int]] = {}
        for array in (self.b, self.bias_row, P, kinds):
            array.setflags(write=False)
        self._tables: WeakKeyDictionary[Any, np.ndarray] = WeakKeyDictionary()

    def projected(self, embedding: Any) -> np.ndarray:
        """U x + b of every word (V, G H): looked up instead of multiplied, once the table is made."""
        if embedding not in self._tables:
            self._tables[embedding] = embedding.E @ self.U.T + self.b.ravel()
        return self._tables[embedding]

    def stored(self, rule: str, keep: int, every: bool) -> tuple[int, int, list[bool], int, int]:
        """What a forward pass writes: the number of coefficients and of saved values per unit and step; which states
        are wanted of all steps, not only of the last, also as one number; and the code of the coefficients.
        """
        key = (rule, keep, every)
        if key not in self._stored:
            plan = self.plan
            is_lrp = rule not in ("none", "gradient", "deeplift")
            wants = [keep > 0 or (is_lrp and k in plan.fed) for k in range(len(plan.after))]
            wants[plan.output_at] |= every
            bits = sum(1 << k for k, is_wanted in enumerate(wants) if is_wanted)
            kinds, code = self.kernels.kinds[SHARED.get(rule, rule)], CODES[rule]
            if rule == "deeplift":  # its coefficients also need the reference's values
                kinds, code = 0, CODES["none"]
            self._stored[key] = kinds, (0, self.G, len(plan.slots))[keep], wants, bits, code
        return self._stored[key]

    def rows(self, x: Packed, order: Any) -> BatchRows:
        """A batch as kernels take it. `order`: the row of x for each row, or a slice of all."""
        ids, table = NO_ROWS, self.bias_row
        if x.words is not None:
            ids, table = x.words.ids, self.projected(x.words.embedding)
        is_mirrored = isinstance(order, np.ndarray)
        read = order if is_mirrored else NO_ROWS
        return BatchRows(x.rows, x.batch.first, read, ids, table, int(is_mirrored), int(x.words is not None))

    def run(
        self, rows: BatchRows, batch: Batch, rule: str, eps: float, keep: int, every: bool, start: Any
    ) -> CompiledRun:
        """Forward. `start` (states, 1 or n, H); `every`: whether the outputs of all steps are wanted."""
        n, R, H, dtype = batch.n, batch.R, self.H, self.dtype
        kinds, width, wants, bits, code = self.stored(rule, keep, every)
        outputs = []
        for is_wanted in wants:
            outputs.append(np.empty((n + R * is_wanted, H), dtype))
        states = tuple(outputs)
        if len(start) < len(states):  # the output is not a state
            start = np.concatenate((start, np.zeros_like(start[:1])))
        K, kept = np.empty(kinds * R * H, dtype), np.empty(width * R * H, dtype)
        self.kernels.forward(rows, self.ahead, start, dtype.type(eps), code, keep, bits, K, kept, states)
        return CompiledRun(self, rows, batch, rule, states, K, kept)


def _packed(matrices: Any) -> np.ndarray:
    out = np.stack([pack(np.ascontiguousarray(matrix)) for matrix in matrices])
    out.setflags(write=False)
    return out


class CompiledRun(NamedTuple):
    """What kernels have saved of one direction over one batch, in the order in which its rows were read."""

    program: CellProgram
    rows: BatchRows
    batch: Batch
    rule: str
    states: tuple[np.ndarray, ...]  # (n + R, H) each, the start states first; or (n, H) the last ones
    K: np.ndarray  # flat, (kinds, n, H) per step: coefficients
    kept: np.ndarray  # flat, (kinds, n, H) per step: U x + b, or every value that has an array

    @property
    def output(self) -> np.ndarray:
        """(R, H) outputs of every row."""
        return self.states[self.program.plan.output_at][-self.batch.R :]

    @property
    def last(self) -> list[np.ndarray]:
        """(n, H) each state after each sequence's last step."""
        return [self._last(one) for one in self.states[: self.program.plan.count]]

    @property
    def last_output(self) -> np.ndarray:
        """(n, H) outputs of each sequence's last step."""
        return self._last(self.states[self.program.plan.output_at])

    def _last(self, states: np.ndarray) -> np.ndarray:
        batch = self.batch
        if len(states) == batch.n:
            return states
        if batch.n == 1:
            return states[-1:]
        return states[batch.n + batch.last]

    def before(self, k: int, lo: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """(V, H) state k of the sequences `owner` before their steps `lo`."""
        return self.states[k][self.batch.states_before[lo] + owner]

    def by_step(self, numbers: np.ndarray, kinds: int) -> list[np.ndarray]:
        """A flat array with several kinds of numbers per step as one view per step, (kinds, n, H)."""
        H = self.program.H
        return [
            numbers[kinds * row * H : kinds * end * H].reshape(kinds, end - row, H)
            for row, end in pairwise(self.batch.first.tolist())
        ]

    def spread(self, x: Packed) -> Any:
        """The run of one sequence as that of a batch `x` of its beginnings."""
        if self.rule in ("none", "deeplift"):
            return NotImplemented
        batch, kinds, H = x.batch, len(self.K) // (self.batch.R * self.program.H), self.program.H
        rows = np.append(np.zeros(batch.n, np.int64), 1 + batch.step)
        states = [one[rows] if len(one) > 1 else one for one in self.states]
        K = np.empty(kinds * batch.R * H, self.K.dtype)
        wide = self._replace(batch=batch, rows=self.program.rows(x, slice(None)), states=tuple(states), K=K)
        for new, old in zip(wide.by_step(K, kinds), self.by_step(self.K, kinds), strict=False):
            new[:] = old
        return wide

    def varied(self, new: np.ndarray, ids: np.ndarray, rest: Batch, start: np.ndarray, every: bool) -> CompiledRun:
        """Sequences `rest` whose inputs are looked up: in the rows of this batch, and after them in `new` rows."""
        program = self.program
        steps_ = (
            step.transpose(1, 0, 2).reshape(-1, program.G * program.H) for step in self.by_step(self.kept, program.G)
        )
        table = np.ascontiguousarray(np.concatenate([*steps_, new @ program.U.T + program.b.ravel()]))
        rows = BatchRows(new[:0], rest.first, NO_ROWS, ids, table, 0, 1)
        return program.run(rows, rest, "none", 0.0, 0, every, start)

    def back(
        self,
        R_output: np.ndarray | None,
        R_last: Sequence[np.ndarray | None],
        entry: Entry,
        reference: CompiledRun | None,
        R_x: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Backward: relevance of the inputs is added to R_x; returns the relevance of the initial states and of all
        states."""
        program, n, R = self.program, self.batch.n, self.batch.R
        H, dtype, count, states = program.H, program.dtype, len(self.states), program.plan.count
        kernel, weights = program.backward[SHARED.get(self.rule, self.rule)]
        K = self.K
        if reference is not None:
            K = np.empty(program.kernels.kinds["deeplift"] * R * H, dtype)
            program.kernels.mean_slopes(
                self.kept, reference.kept, self.states, reference.states, self.batch.first, program.ahead.P, K
            )
        last, start = np.zeros((count, n, H), dtype), np.empty((count, n, H), dtype)
        for message, given in zip(last, R_last, strict=False):
            if given is not None:
                message[:] = given
        every = np.zeros((1, H), dtype) if R_output is None else np.ascontiguousarray(R_output, dtype)
        wants_states = entry.states is not None
        arrived = np.empty((count, R if wants_states else 1, H), dtype)
        sent = Messages(last, every, R_x, arrived, start, int(R_output is not None), int(wants_states))
        kernel(self.rows, weights, program.b, K, self.states, CODES[self.rule], sent, entry.array)
        return start[:states], arrived[:states]


def longest_of(x: Packed, order: Any) -> Packed | None:
    """The longest sequence in reading order, if all others are what it begins with; else None."""
    rows, batch = x.rows, x.batch
    if batch.n == 1 or (rows[: batch.n] != rows[0]).any():  # a quick look at the first step of each
        return None
    seen = rows[order]
    longest = seen[batch.first[:-1]]
    if not (seen == longest[batch.step]).all():
        return None
    return Packed(np.ascontiguousarray(longest), single(len(longest)))
