"""Networks whose program is known: LSTM and GRU weights that are constructed, so the steps that decide are certain.

Every unit of a program is a register: state = candidate where a saturated gate is open, else the state before.

    LSTM   i = sigmoid(p), f = sigmoid(-p), o = 1, g = tanh(s q):  h = tanh(g)     on = tanh(tanh(s))
    GRU    z = sigmoid(-p), r = 1, n = tanh(s q):                  h = n           on = tanh(s)

p ("write") and q ("take") are linear in the input and in the other registers, each divided by its `on`. So 0 and 1
remain 0 and 1 exactly, and a number v becomes tanh(tanh(s v)) / on or tanh(s v) / on (`Network.number`). An open gate
has p >= 30, a closed one p <= -30. In the table v is a number, a and b are marks, and k is a key, of a step.

| program      | registers: write if -> take                                                | score               |
| ------------ | -------------------------------------------------------------------------- | ------------------- |
| remember     | N: a -> v                                                                  | N                   |
| sum          | L1: a -> 1; L2: a, L1 -> 1; N1: a, not L1 -> v; N2: a, L1, not L2 -> v ... | N1 + N2 + N3        |
| difference   | L: a -> 1; N1: a, not L -> v; N2: a, L -> v                                | N1 - N2             |
| count        | C1: a -> 1; Ck: a, C(k-1) -> 1                                             | C1 + C2 + C3 + C4   |
| parity       | ODD: a -> 1 - ODD; EVEN: a -> ODD                                          | ODD - EVEN          |
| last maximum | M: k >= M -> k; N: k >= M -> v                                             | N                   |
| a before b   | A: a -> 1; AB: b, A -> 1                                                   | AB                  |
| negation     | NOT: always -> a; PLAIN: b, not NOT -> v; FLIPPED: b, NOT -> v             | PLAIN - FLIPPED     |
| delay        | D0: always -> v; Dj: always -> D(j-1)                                      | Dk, k of 1, 2, 3    |

A step decides if a neutral step in its place (no mark; a filler) would change the score. A seed decides whether the
latches of count and a before b are driven by the gate, as above, or by the signal (C1: not C1 -> a). Sizes add copies
of the registers with other scales s and signs, distractor units that nothing reads, and a layer below that copies every
input. Noise moves the gates a little; the order of the units is random. Count, parity, a before b and negation read
tokens through an embedding, the others numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, one_of, whole
from lrpnumpy.evaluate.case import Explainer, Values, finite
from lrpnumpy.evaluate.chance import pearson, ranks
from lrpnumpy.layers import GRU, LSTM, Dense, Embedding
from lrpnumpy.model import Model

Form = Mapping[str, float]  # coefficients of inputs and registers; "1" is the constant
CELLS = ("LSTM", "GRU")
NOISE = 2  # columns of the input that no program reads
FILLERS = 6  # tokens that no program reads
LENGTHS = (8, 14)
SHARP = 30.0  # size of the pre-activation of a saturated gate; noise moves it by 5 at most
NOTHING = 1e-6  # the networks are exact to this: smaller relevance counts as none
ALWAYS = {"1": 1.0}
NETWORKS = 2  # of each program and cell, for a ranking
SEQUENCES = 100  # for each network, for a ranking


class Register(NamedTuple):
    """A unit of a program: it is overwritten where `write` >= 1 and keeps its state where `write` <= -1."""

    name: str
    write: Form
    take: Form


class RegisterProgram(NamedTuple):
    """What a network computes, and how its inputs are drawn."""

    columns: tuple[str, ...]  # of the input, as the registers name them
    registers: tuple[Register, ...]
    score: Form
    result: Callable[..., Any]  # columns -> (T,) what each step adds to the score, or the score if it is not linear
    kinds: Callable[[np.random.Generator, int], np.ndarray]  # length -> (T,) kind of each step
    words: Mapping[int, tuple[tuple[float, ...], ...]] | None = None  # kind -> rows of its tokens; None for numbers
    largest: int = 1  # kind, for numbers: the second column is kind / largest
    neutral: int = 0  # kind of a step that does not count
    depth: int = 1  # registers that a number goes through
    scale: tuple[float, float] = (0.2, 1.0)  # range of |s|


class NetworkSize(NamedTuple):
    """How much is around a program."""

    copies: int
    distractors: int
    layers: int


SIZES = {"small": NetworkSize(1, 2, 1), "medium": NetworkSize(2, 4, 1), "large": NetworkSize(3, 8, 2)}


def when(*literals: str) -> Form:
    """At least 1 where all `literals`, which are 0 or 1, hold, else at most -1; "!A" holds where A is 0."""
    form = {name.lstrip("!"): -2.0 if name.startswith("!") else 2.0 for name in literals}
    return {**form, "1": 1.0 - sum(value for value in form.values() if value > 0)}


def registers(text: str) -> tuple[Register, ...]:
    """Registers from lines as in the table above: "L: a -> 1; N: a !L -> v", with a space between literals."""
    found = []
    for line in text.split("; "):
        name, _, rule = line.partition(":")
        literals, _, signal = rule.partition("->")
        found.append(Register(name, when(*literals.split()), {signal.strip(): 1}))
    return tuple(found)


def marks(low: int, high: int) -> Callable[[np.random.Generator, int], np.ndarray]:
    """Steps of kind 1, from `low` to `high` of them, at random positions."""

    def kinds(rng: np.random.Generator, T: int) -> np.ndarray:
        return rng.permutation(np.arange(T) < rng.integers(low, high + 1)).astype(int)

    return kinds


def numbers(rng: np.random.Generator, shape: Any) -> np.ndarray:
    """Numbers of size 0.25 to 1 with either sign."""
    return rng.uniform(0.25, 1, shape) * rng.choice((-1.0, 1.0), shape)


def _at(v: np.ndarray, step: int) -> np.ndarray:
    return np.where(np.arange(len(v)) == step, v, 0.0)


def _remember(rng: np.random.Generator) -> RegisterProgram:
    return RegisterProgram(("v", "a"), registers("N: a -> v"), {"N": 1}, lambda v, a: v * a, marks(1, 1))


def _sum(rng: np.random.Generator) -> RegisterProgram:
    text = "L1: a -> 1; L2: a L1 -> 1; N1: a !L1 -> v; N2: a L1 !L2 -> v; N3: a L2 -> v"
    return RegisterProgram(
        ("v", "a"), registers(text), dict.fromkeys(("N1", "N2", "N3"), 1), lambda v, a: v * a, marks(1, 3)
    )


def _difference(rng: np.random.Generator) -> RegisterProgram:
    def result(v: np.ndarray, a: np.ndarray) -> np.ndarray:
        return v * a * np.where(np.cumsum(a) == 1, 1, -1)

    text = "L: a -> 1; N1: a !L -> v; N2: a L -> v"
    return RegisterProgram(("v", "a"), registers(text), {"N1": 1, "N2": -1}, result, marks(2, 2))


def _count(rng: np.random.Generator) -> RegisterProgram:
    by_gate = "C1: a -> 1; C2: a C1 -> 1; C3: a C2 -> 1; C4: a C3 -> 1"
    by_signal = "C1: !C1 -> a; C2: !C2 C1 -> a; C3: !C3 C2 -> a; C4: !C4 C3 -> a"
    some = registers((by_signal, by_gate)[rng.integers(2)])
    return RegisterProgram(("a",), some, {one.name: 1.0 for one in some}, lambda a: a, marks(1, 4), {1: ((1.0,),)})


def _parity(rng: np.random.Generator) -> RegisterProgram:
    def result(a: np.ndarray) -> float:
        return 2.0 * (a.sum() % 2) - 1 if a.any() else 0.0

    some = (Register("ODD", when("a"), {"1": 1, "ODD": -1}), *registers("EVEN: a -> ODD"))
    return RegisterProgram(("a",), some, {"ODD": 1, "EVEN": -1}, result, marks(1, 4), {1: ((1.0,),)})


def _last_maximum(rng: np.random.Generator) -> RegisterProgram:
    # Keys are 1/4, 2/4, 3/4, 1. M holds a key k as up to k + 0.04, as tanh bends it, and below another layer keys are
    # at least 0.218 apart: k - M > -0.13 tells k >= M from k < M with at least 0.085 to spare.
    write = {"k": 1 / 0.085, "M": -1 / 0.085, "1": 0.13 / 0.085}
    some = (Register("M", write, {"k": 1}), Register("N", write, {"v": 1}))

    def result(v: np.ndarray, k: np.ndarray) -> np.ndarray:
        return _at(v, len(k) - 1 - int(np.argmax(k[::-1])))

    def kinds(rng: np.random.Generator, T: int) -> np.ndarray:
        out = rng.integers(1, 5, T)
        out[rng.integers(T)] = rng.integers(2, 5)  # a neutral step, of kind 1, is never the maximum
        return out

    return RegisterProgram(
        ("v", "k"), some, {"N": 1}, result, kinds, largest=4, neutral=1, scale=(0.2, 0.4)
    )  # fmt: skip


def _a_before_b(rng: np.random.Generator) -> RegisterProgram:
    some = registers(("A: !A -> a; AB: !AB A -> b", "A: a -> 1; AB: b A -> 1")[rng.integers(2)])

    def result(a: np.ndarray, b: np.ndarray) -> float:
        return float((np.cumsum(a) * b).any())

    def kinds(rng: np.random.Generator, T: int) -> np.ndarray:
        """One a before one b; often there is a b before both, and an a behind them: these do not count."""
        out = np.zeros(T, int)
        early, first, second, late = np.sort(rng.choice(T, 4, replace=False))
        out[early], out[first], out[second], out[late] = 2 * rng.integers(2), 1, 2, rng.integers(2)
        return out

    words = {1: ((1.0, 0.0),), 2: ((0.0, 1.0),)}
    return RegisterProgram(("a", "b"), some, {"AB": 1}, result, kinds, words)


def _negation(rng: np.random.Generator) -> RegisterProgram:
    some = registers("NOT: -> a; PLAIN: b !NOT -> v; FLIPPED: b NOT -> v")

    def result(v: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
        """The last word without a "not" before it, less the last one with it."""
        negated = np.append(0.0, a[:-1])
        plain, flipped = (v[b * which > 0][-1:].sum() for which in (1 - negated, negated))
        return float(plain - flipped)

    def kinds(rng: np.random.Generator, T: int) -> np.ndarray:
        """A word, a "not" with a word, and a "not" that a filler follows, in any order."""
        pieces = [[2], [1, 2], [1, 0], *([0] for _ in range(T - 5))]
        return np.concatenate([pieces[k] for k in rng.permutation(len(pieces))])

    words = {1: ((0.0, 1.0, 0.0),), 2: tuple((v, 0.0, 1.0) for v in numbers(rng, 8))}
    return RegisterProgram(("v", "a", "b"), some, {"PLAIN": 1, "FLIPPED": -1}, result, kinds, words)


def _delay(rng: np.random.Generator) -> RegisterProgram:
    k = int(rng.integers(1, 4))
    some = registers("; ".join(["D0: -> v", "D1: -> D0", "D2: -> D1", "D3: -> D2"][: k + 1]))
    return RegisterProgram(
        ("v",), some, {f"D{k}": 1}, lambda v: _at(v, len(v) - 1 - k), marks(0, 0), depth=k + 1, scale=(0.2, 0.6)
    )


PROGRAMS: dict[str, Callable[[np.random.Generator], RegisterProgram]] = {
    "remember": _remember, "sum": _sum, "difference": _difference, "count": _count, "parity": _parity,
    "last maximum": _last_maximum, "a before b": _a_before_b, "negation": _negation, "delay": _delay,
}  # fmt: skip


class Drawn(NamedTuple):
    """Inputs of a network, and what is right about them."""

    inputs: list[np.ndarray]  # (T, D) numbers, or (T,) token ids
    steps: list[np.ndarray]  # (T,) whether a step decides: a neutral step in its place would change the score
    values: list[np.ndarray] | None  # (T,) what each step adds to the score; None where the program is not linear


@dataclass(frozen=True, eq=False)
class ProgramNetwork:
    """A program as a network."""

    name: str
    program: RegisterProgram
    model: Model
    cell: str
    shares: np.ndarray  # (copies,) of the score
    scales: list[tuple[float, ...]]  # of each copy: the s of all registers that a number goes through

    @property
    def features(self) -> tuple[int, ...]:
        """The columns that the program reads."""
        return tuple(range(len(self.program.columns)))

    def number(self, v: np.ndarray) -> np.ndarray:
        """What the network returns for the number `v`; -1, 0 and 1 remain as they are."""
        out = np.zeros_like(v)
        for share, scales in zip(self.shares, self.scales, strict=True):
            u = v
            for s in scales:
                u = on(self.cell, s * u) / on(self.cell, s)
            out += share * u
        return out

    def result(self, x: np.ndarray) -> np.ndarray | float:
        """What the program computes of an input: (T,) what each step adds to the score, or the score."""
        rows = self.model.embedding.E[x] if self.model.embedding is not None else x
        columns = dict(zip(self.program.columns, rows.T, strict=False))
        if "v" in columns:
            columns["v"] = self.number(columns["v"])
        return self.program.result(**columns)

    def changed(self, x: np.ndarray, step: int, rng: np.random.Generator) -> np.ndarray:
        """The input with another, neutral step in the place of one."""
        out = x.copy()
        out[step] = self._steps(rng, np.array([self.program.neutral]))[0]
        return out

    def draw(self, n: int = 20, seed: int = 0) -> Drawn:
        """`n` inputs with the steps that decide, and what they add to the score."""
        rng = np.random.default_rng((seed, n))
        inputs, steps, values = [], [], []
        for T in rng.integers(*LENGTHS, n, endpoint=True):
            x = self._steps(rng, self.program.kinds(rng, T))
            result = np.asarray(self.result(x))
            if result.ndim:
                decides = result != 0
            else:
                others = [self.result(self.changed(x, t, rng)) for t in range(T)]
                decides = np.array(others) != result
            inputs.append(x)
            steps.append(decides)
            values.append(result)
        return Drawn(inputs, steps, values if values[0].ndim else None)

    def _steps(self, rng: np.random.Generator, kinds: np.ndarray) -> np.ndarray:
        """Token ids, or rows of numbers, of these kinds."""
        words = self.program.words
        if words is None:
            key = kinds / self.program.largest
            columns = [numbers(rng, len(kinds)), key][: len(self.program.columns)]
            return np.column_stack([*columns, rng.uniform(-1, 1, (len(kinds), NOISE))])
        counts = [FILLERS, *(len(words[kind]) for kind in sorted(words))]
        first = np.cumsum([0, *counts])
        return first[kinds] + rng.integers(np.array(counts)[kinds])


def on(cell: str, s: Any) -> Any:
    """The state of a register that took s."""
    return np.tanh(np.tanh(s)) if cell == "LSTM" else np.tanh(s)


def make(name: str, cell: str = "LSTM", size: str = "medium", seed: int = 0, sharp: float = SHARP) -> ProgramNetwork:
    """The network of a program: `name` of PROGRAMS, `cell` of CELLS, `size` of SIZES.

    `sharp` is the pre-activation of an open gate. The promise that steps that do not decide change the score by at
    most 1e-6 holds for the default.
    """
    one_of(name, "name", tuple(PROGRAMS))
    one_of(cell, "cell", CELLS)
    copies, distractors, depth = SIZES[one_of(size, "size", tuple(SIZES))]
    rng = np.random.default_rng((whole(seed, "seed", 0), list(PROGRAMS).index(name), list(SIZES).index(size)))
    program = PROGRAMS[name](rng)
    D = len(program.columns) + NOISE
    sources = [dict(zip(program.columns, np.eye(D), strict=False))] * copies
    noise = np.arange(D) >= len(program.columns)
    layers: list[Any] = []
    scales: list[tuple[float, ...]] = [()] * copies
    for k in range(depth):
        registers, through = program.registers, program.depth
        if k < depth - 1:
            registers, through = tuple(Register(one, ALWAYS, {one: 1}) for one in program.columns), 1
        s = rng.uniform(*program.scale, copies)
        layer, sources, noise = _layer(rng, cell, registers, sources, noise, s, distractors, sharp)
        layers.append(layer)
        scales = [(*before, *[s_c] * through) for before, s_c in zip(scales, s, strict=True)]
    shares = rng.uniform(0.5, 1.5, copies)
    shares /= shares.sum()
    V = np.zeros((1, layers[-1].units))
    for share, outputs in zip(shares, sources, strict=True):
        for register, value in program.score.items():
            V += share * value * outputs[register]
    model = Model((*layers, Dense(V)), embedding=_embedding(rng, program))
    return ProgramNetwork(name, program, model, cell, shares, scales)


def _embedding(rng: np.random.Generator, program: RegisterProgram) -> Embedding | None:
    """The tokens of a program: fillers first, then those of each kind."""
    if program.words is None:
        return None
    rows = [np.zeros(len(program.columns))] * FILLERS
    rows += [np.array(row) for kind in sorted(program.words) for row in program.words[kind]]
    return Embedding(np.column_stack([rows, rng.uniform(-1, 1, (len(rows), NOISE))]))


def _layer(
    rng: np.random.Generator,
    cell: str,
    registers: Sequence[Register],
    sources: Sequence[Mapping[str, np.ndarray]],
    noise: np.ndarray,
    scales: np.ndarray,
    distractors: int,
    sharp: float,
) -> tuple[LSTM | GRU, list[dict[str, np.ndarray]], np.ndarray]:
    """A layer with copies of `registers`; the rows that read each copy's registers from it; which units are noise.

    sources: of each copy, name -> row (D,) that reads an input of the program from the input of the layer.
    noise: (D,) which inputs of the layer are noise.
    """
    D, H = len(noise), len(registers) * len(scales) + distractors
    units = rng.permutation(H)
    idle = np.isin(np.arange(H), units[H - distractors :])
    signs = rng.choice((-1.0, 1.0), H)
    placed = units[: H - distractors].reshape(len(scales), len(registers))  # the unit of each register of a copy
    outputs = []
    for s, mine in zip(scales, placed, strict=True):
        outputs.append(
            {one.name: np.eye(H)[j] / on(cell, signs[j] * s) for one, j in zip(registers, mine, strict=True)}
        )

    def rows(form: Form, c: int) -> np.ndarray:
        """(D + H + 1,) a form as weights of input, state and bias."""
        out = np.zeros(D + H + 1)
        for name, value in form.items():
            if name == "1":
                out[-1] += value
            elif name in sources[c]:
                out[:D] += value * sources[c][name]
            else:
                out[D:-1] += value * outputs[c][name]
        return out

    write, take = np.zeros((2, H, D + H + 1))
    for c, s in enumerate(scales):
        for j, one in zip(placed[c], registers, strict=True):
            write[j], take[j] = sharp * rows(one.write, c), signs[j] * s * rows(one.take, c)
    always = sharp * np.eye(D + H + 1)[[-1] * H]
    if cell == "LSTM":
        gates = np.stack([write, -write, take, always])
    else:
        gates = np.stack([-write, always, take])
    moving = rng.uniform(-0.5, 0.5, gates.shape) * np.concatenate([noise, idle, [False]])  # noise moves the gates,
    moving[2] = 0  # but not the signal
    gates += moving
    gates[:, idle] = rng.normal(0, 1, gates[:, idle].shape)
    return {"LSTM": LSTM, "GRU": GRU}[cell](gates[:, :, :D], gates[:, :, D:-1], gates[:, :, -1]), outputs, idle


class Score(NamedTuple):
    """How right relevances are."""

    steps: float  # mean over the inputs of the AUROC of |relevance| for the steps that decide: 0.5 is chance
    values: float  # correlation with what the steps add to the score, over all steps: 0 is chance; NaN: not linear


def judge(drawn: Drawn, relevances: Iterable[Any]) -> Score:
    """How right relevances (T,) or (T, D), one for each input, are; they are in the unit of the score."""
    each = []
    for x, one in zip(drawn.inputs, relevances, strict=True):
        R = finite(getattr(one, "relevance", one))
        if R.ndim == 2:
            R = R.sum(axis=1)
        if R.shape != (len(x),):
            raise LrpError(f"relevance has shape {R.shape}; it must be ({len(x)},) or ({len(x)}, features).")
        each.append(np.where(abs(R) > NOTHING, R, 0))
    steps = float(np.mean([_auroc(abs(R), right) for R, right in zip(each, drawn.steps, strict=True)]))
    if drawn.values is None:
        return Score(steps, np.nan)
    return Score(steps, pearson(np.concatenate(each), np.concatenate(drawn.values)))


def _auroc(found: np.ndarray, right: np.ndarray) -> float:
    """Probability that a step that decides has more than one that does not."""
    few = right.sum()
    return float((ranks(found)[right].sum() - few * (few + 1) / 2) / (few * (len(right) - few)))


def score(
    function: Callable[[Model, np.ndarray], Any],
    names: Iterable[str] = tuple(PROGRAMS),
    cells: Iterable[str] = CELLS,
    sizes: Iterable[str] = tuple(SIZES),
    seeds: Iterable[int] = range(3),
    n: int = 10,
) -> dict[tuple[str, str, str, int], Score]:
    """How right a function from a model and an input to relevance is on `n` inputs of each of these networks.

        programs.score(lambda model, x: lrp.explain(model, x, "lrp-all"))
    """  # fmt: skip
    out = {}
    for key in ((name, cell, size, seed) for name in names for cell in cells for size in sizes for seed in seeds):
        network = make(*key)
        drawn = network.draw(n, key[-1])
        out[key] = judge(drawn, [function(network.model, x) for x in drawn.inputs])
    return out


def measure_truth(explainers: list[Explainer], seed: int) -> Values:
    """For each network: the share of relevance at the steps that decide, its correlation with what is right, and the
    share at the features that decide.
    """
    every = tasks(seed)
    found = np.full((3, len(explainers), len(every)), np.nan)
    for n, (network, drawn) in enumerate(every):
        steps = np.concatenate(drawn.steps)
        reads = np.isin(np.arange(network.model.input_size), network.features)
        for m, explainer in enumerate(explainers):
            try:
                got = explainer(network.model, drawn.inputs, {"target": 0}, explainer.has_features)
            except LrpError:  # it cannot explain this network: it needs a probability, or has options for another one
                continue
            relevance = np.concatenate(got.steps)
            relevance[abs(relevance) <= NOTHING] = 0
            found[0, m, n] = share(relevance, steps)
            if drawn.values is not None:
                found[1, m, n] = pearson(relevance, np.concatenate(drawn.values))
            if got.values is not None:
                found[2, m, n] = share(np.array([one.sum(axis=0) for one in got.values]), reads)
    linear = np.array([drawn.values is not None for _, drawn in every])
    return {
        "true_steps": (found[0], np.ones(len(every))),
        "true_values": (found[1][:, linear], np.ones(linear.sum())),
        "true_features": (found[2], np.ones(len(every))),
    }


def share(relevance: np.ndarray, right: np.ndarray) -> float:
    """Of the magnitudes, how much lies where it should: relevance (..., K), right (K,) or of the same shape."""
    sizes = abs(relevance)
    total = sizes.sum()
    return float((sizes * right).sum() / total) if total > 0 else 0.0


def tasks(seed: int = 0) -> list[tuple[ProgramNetwork, Drawn]]:
    """All networks, each with sequences and what is right about them."""
    out = []
    for name in PROGRAMS:
        for cell in CELLS:
            for k in range(NETWORKS):
                network = make(name, cell, seed=seed + k)
                out.append((network, network.draw(SEQUENCES, seed + k)))
    return out
