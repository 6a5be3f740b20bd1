"""What every recurrent cell must fulfil, tested on random numbers: `check_cell`.

Gate and signal are the author's choice: exchanging them keeps all laws, and changes LRP and contextual decomposition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, shown, whole
from lrpnumpy.layers.recurrent import STRAIGHT, Cell
from lrpnumpy.layers.stacked import StackedCell
from lrpnumpy.packed import Batch, Packed
from lrpnumpy.rules import DEEPLIFT, GRADIENT, RULES, Epsilon, Relevance
from lrpnumpy.rules.propagation import Entry, Propagation
from lrpnumpy.statement.backward import back
from lrpnumpy.statement.compiled import CellProgram
from lrpnumpy.statement.decompose import Phrases, split
from lrpnumpy.statement.generate import uncovered
from lrpnumpy.statement.interpret import InterpretedRun
from lrpnumpy.statement.trace import Statement

LENGTHS = (5, 3, 1)  # steps of the sequences
EPS = 0.01
HOWS: dict[str, Propagation] = {
    "gradient": GRADIENT,
    **{f"lrp-{name}": Relevance(rule, Epsilon(EPS)) for name, rule in RULES.items()},
    "deeplift": DEEPLIFT,
}


class Law(NamedTuple):
    """One law of `check_cell`, and the `error` of the cell relative to the size of its values."""

    name: str  # "gradient", "lrp-all", "deeplift", "cd", "kernels", ...
    meaning: str  # what must hold, in words
    error: float
    allowed: float  # the largest error
    hint: str = ""  # what is often wrong where it is broken

    @property
    def holds(self) -> bool:
        """Whether the error is within bounds; not where a value is not finite."""
        return bool(self.error <= self.allowed)

    def __str__(self) -> str:
        if self.holds:
            return f"  holds   {self.name}: {self.meaning} (error {self.error:.0e})"
        error = f"error {self.error:.0e}, at most {self.allowed:.0e}"
        return f"  BROKEN  {self.name}: {self.meaning} ({error}). {self.hint}"


class CellReport(NamedTuple):
    """What `check_cell` found; print it."""

    kind: str  # name of the cell
    products: tuple[str, ...]  # "gate x signal" of every product
    laws: tuple[Law, ...]  # each with its error
    numpy_only: str  # why no kernels are generated for the cell, in words; "" where they are

    @property
    def holds(self) -> bool:
        """Whether all laws hold."""
        return all(law.holds for law in self.laws)

    def __str__(self) -> str:
        broken = [law.name for law in self.laws if not law.holds]
        found = f"broken: {', '.join(broken)}" if broken else "all laws hold"
        lines = [f"{self.kind}: {found}", *map(str, self.laws)]
        if self.numpy_only:
            lines.append(f"  NumPy runs this cell: {self.numpy_only}.")
        lines += ["  gate x signal, which no law can check:", *(f"    {text}" for text in self.products)]
        return "\n".join(lines)


def check_cell(cell: Cell | type[Cell], seed: int = 0) -> CellReport:
    """Test the laws of a `cell` on random inputs. A class is tested with random arrays of different sizes.

    The laws: the gradient is that of numerical differences; the ledger of LRP closes for every product rule; DeepLIFT
    adds up to f(x) - f(reference); contextual decomposition gives a whole sequence everything and an empty phrase
    nothing; generated kernels compute what NumPy computes. Nothing is compiled. A broken law is reported, not raised.
    `seed` is that of the random numbers.
    """
    rng = np.random.default_rng(whole(seed, "check_cell: seed", 0))
    if isinstance(cell, type) and issubclass(cell, Cell):
        cell = random_cell(cell, rng)
    if not isinstance(cell, Cell):
        raise LrpError(f"check_cell: cell must be a cell or its class, such as lrp.layers.MinGRU, got {shown(cell)}.")
    with np.errstate(all="ignore"):
        laws = tuple(_laws(_Case(cell.astype(np.float64), rng)))
    return CellReport(cell.statement.kind, tuple(cell.statement.products()), laws, uncovered(cell.statement))


def random_cell(kind: type[Cell], rng: np.random.Generator, **sizes: int) -> Cell:
    """A cell with random arrays; every axis has another size. `sizes` are those of some axes."""
    arrays = random_arrays(kind.traced(), rng, **sizes)
    if issubclass(kind, StackedCell):
        found = {name: np.stack([arrays.pop(f"{name}_{k}") for k in kind.GATES]) for name in "UWb"}
        arrays = {**found, **arrays}
    return kind(**arrays)


def random_arrays(statement: Statement, rng: np.random.Generator, **sizes: int) -> dict[str, np.ndarray]:
    """Random trained arrays for a statement."""
    axes = dict.fromkeys(axis for of in statement.arrays.values() for axis in of)
    size = {axis: {"D": 3, "H": 4, **sizes}.get(axis, 5 + k) for k, axis in enumerate(axes)}
    out = {}
    for name, of in statement.arrays.items():
        width = size[of[-1]] if len(of) > 1 else 1
        out[name] = rng.normal(size=[size[axis] for axis in of]) / np.sqrt(width)
    return out


class CellRelevance(NamedTuple):
    """The result of a backward pass."""

    inputs: Sequence[np.ndarray]
    start: list[np.ndarray]
    states: list[np.ndarray]  # relevance of the states after every step
    entry: np.ndarray  # of the ledger

    @property
    def total(self) -> float:
        """Everything that LRP has distributed; start states are in the ledger."""
        kept = self.entry[[Entry.BIASES, Entry.STABILIZER, Entry.START]].sum()
        return float(kept + sum(one.sum() for one in self.inputs))


class _Case:
    """A cell with random inputs and references; its score is a random sum of all outputs and of the last states."""

    def __init__(self, cell: Cell, rng: np.random.Generator) -> None:
        self.cell, self.rng, self.batch = cell, rng, Batch(np.array(LENGTHS))
        n, R = self.batch.n, self.batch.R
        self.xs, self.xs0 = ([rng.normal(size=(R, cell._width(x))) for x in cell.statement.inputs] for _ in range(2))
        self.start, self.start0 = (
            [one + rng.normal(size=(n, *one.shape[1:])) for one in cell.started] for _ in range(2)
        )
        self.weights = rng.normal(size=(R, cell.units))
        self.weights_last = [rng.normal(size=one.shape) for one in self.start]
        self.run, self.run0 = self.ran(self.xs, self.start), self.ran(self.xs0, self.start0)

    def ran(self, xs: list[np.ndarray], start: list[np.ndarray]) -> InterpretedRun:
        """The forward pass by NumPy."""
        return self.cell._interpreted([Packed(x, self.batch) for x in xs], STRAIGHT, start)

    def terms(self, run: Any) -> list[np.ndarray]:
        """The terms of the score: of the outputs, then of each last state."""
        return [w * y for w, y in zip((self.weights, *self.weights_last), (run.output, *run.last), strict=True)]

    def score(self, run: InterpretedRun) -> float:
        """The score of a forward pass."""
        return float(sum(one.sum() for one in self.terms(run)))

    def messages(self, run: Any, how: Propagation) -> list[np.ndarray]:
        """The messages at the outputs and at each last state."""
        return self.terms(run) if how.times_input else [self.weights, *self.weights_last]

    def back(self, how: Propagation) -> CellRelevance:
        """The backward pass by NumPy."""
        entry = Entry(np.zeros((Entry.SIZE, self.batch.n)))
        R_output, *R_last = self.messages(self.run, how)
        arrived = back(self.run, how, R_output, R_last, entry, self.run0 if how.has_reference else None, True)
        if how.times_input:
            for message in arrived.inputs:
                entry.see(message, self.batch)
        return CellRelevance(arrived.inputs, list(arrived.start), list(arrived.states), entry.array)

    def back_by_kernels(self, name: str) -> CellRelevance:
        """Both passes by the generated kernels, as plain Python."""
        cell, how, rule = self.cell, HOWS[name], name.removeprefix("lrp-")
        program = CellProgram(cell.statement, cell.weights, None, ())
        made: Any = program.kernels
        program.kernels = made._replace(forward=made.forward.plain, mean_slopes=made.mean_slopes.plain)
        program.backward = {kind: (kernel.plain, weights) for kind, (kernel, weights) in program.backward.items()}
        keep = 2 if how.has_reference else 0
        run, run0 = (
            program.run(
                program.rows(Packed(x, self.batch), STRAIGHT), self.batch, rule, EPS, keep, True, np.stack(start)
            )
            for x, start in ((self.xs[0], self.start), (self.xs0[0], self.start0))
        )
        entry, R_x = Entry(np.zeros((Entry.SIZE, self.batch.n)), []), np.zeros_like(self.xs[0])
        R_output, *R_last = self.messages(run, how)
        start, states = run.back(R_output, R_last, entry, run0 if how.has_reference else None, R_x)
        return CellRelevance([R_x], list(start), list(states), entry.array)

    def phrase(self, inside: bool) -> tuple[np.ndarray, np.ndarray]:
        """The last outputs from start states of 0, and what contextual decomposition gives a phrase of them."""
        run = self.ran(self.xs, [np.zeros_like(one) for one in self.start])
        owner, lengths = np.arange(self.batch.n), self.batch.lengths
        begin = np.zeros_like(owner)
        phrases = Phrases(owner, begin, lengths if inside else begin, begin, None, np.zeros(self.cell.inputs))
        return run.last_output, split(run, phrases, self.batch, False)


def _laws(case: _Case) -> Iterator[Law]:
    meaning, hint = "agrees with numerical differences", "Is `stop` around a value that the output depends on?"
    yield Law("gradient", meaning, _differences(case), 1e-6, hint)
    for name in RULES:
        sent = case.back(HOWS[f"lrp-{name}"])
        size = sum(abs(one).sum() for one in case.terms(case.run)) + sent.entry[Entry.LARGEST].max()
        error = abs(sent.total - case.score(case.run)) / size
        yield Law(f"lrp-{name}", "the ledger closes", error, 1e-9, "Do values overflow?")
    error = _completeness(case)
    yield Law("deeplift", "adds up to f(x) - f(reference)", error, 1e-9, "Is `stop` around a value that differs?")
    if len(case.xs) == 1:
        meaning = "beta is 0 for an empty phrase and the output for the whole sequence"
        hint = "A value that can overflow, such as exp(z), must not be split: s.whole(v)."
        (true, everything), (_, nothing) = case.phrase(True), case.phrase(False)
        error = max(_relative(everything - true, true), _relative(nothing, true))
        yield Law("cd", meaning, error, 1e-9, hint)
    if not uncovered(case.cell.statement):
        hint = "This is a bug of lrpnumpy: please report it with the cell."
        yield Law("kernels", "compute what NumPy computes", max(_kernel_errors(case).values()), 1e-9, hint)


def _relative(error: np.ndarray, values: np.ndarray) -> float:
    return float(abs(error).max() / max(abs(values).max(), 1e-300))


def _differences(case: _Case) -> float:
    """The largest error of the gradient in a random direction, of every input and start state."""
    sent, errors, count, h = case.back(GRADIENT), [], len(case.xs), 1e-5
    values, gradients = [*case.xs, *case.start], [*sent.inputs, *sent.start]
    for k, gradient in enumerate(gradients):
        along, scores = case.rng.normal(size=gradient.shape), []
        for step in (h, -h):
            moved = [*values]
            moved[k] = values[k] + step * along
            scores.append(case.score(case.ran(moved[:count], moved[count:])))
        terms, slope = gradient * along, (scores[0] - scores[1]) / (2 * h)
        errors.append(abs(terms.sum() - slope) / (abs(terms).sum() + abs(slope) + 1e-3))
    return float(np.max(errors))


def _completeness(case: _Case) -> float:
    """How far DeepLIFT is from f(x) - f(reference)."""
    sent = case.back(DEEPLIFT)
    pairs = [*zip(sent.inputs, case.xs, case.xs0, strict=True), *zip(sent.start, case.start, case.start0, strict=True)]
    terms = [m * (value - value0) for m, value, value0 in pairs]
    gap = sum(one.sum() for one in terms) - (case.score(case.run) - case.score(case.run0))
    return float(abs(gap) / max(sum(abs(one).sum() for one in terms), 1e-300))


def _kernel_errors(case: _Case) -> dict[str, float]:
    """How far the generated kernels are from NumPy, by method."""
    errors = {}
    for name, how in HOWS.items():
        ours, theirs = case.back_by_kernels(name), case.back(how)
        found, want = ([*one.inputs, *one.start, *one.states, one.entry] for one in (ours, theirs))
        gaps = [abs(a - b).max() for a, b in zip(found, want, strict=True)]
        errors[name] = float(np.max(gaps) / max(*(abs(one).max() for one in want), 1e-300))
    return errors
