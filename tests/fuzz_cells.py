"""Random cells: what generated kernels compute, run as plain Python, is what NumPy computes; and the laws hold.

    python -m tests.fuzz_cells --cells 500 --seed 7

prints every cell that breaks a law, with its operations and its seed. `test_fuzz_cells.py` runs a few of them.
"""

import argparse
import sys

import numpy as np

from lrpnumpy import laws
from lrpnumpy.layers.recurrent import StoredCell
from lrpnumpy.statement.generate import uncovered
from lrpnumpy.statement.trace import trace

UNARY = (
    "sigmoid",
    "tanh",
    "tanh",
    "sigmoid",
    "complement",
    "negative",
    "softplus",
    "log_sigmoid",
    "softsign",
    "exponential",
)
BOUNDED = ("sigmoid", "tanh", "softsign")


class Shape:
    """What `trace` takes for a cell."""


def random_statement(seed):
    """A step of random operations: 1 to 3 states, up to 2 matrices inside, perhaps an output that is not a state."""
    rng = np.random.default_rng(seed)
    states = ("h", "c", "m")[: rng.integers(1, 4)]
    names = iter(range(1000))

    def step(s, x, *before):
        inner = [0]
        values = list(before)

        def pick(some):
            return some[rng.integers(len(some))]

        def named(letter):
            return f"{letter}{next(names)}"

        def matrix_sum(with_x):
            terms = [s.matrix(named("U"), x)] if with_x else []
            for state in before:
                if rng.random() < 0.5:
                    terms.append(s.matrix(named("W"), state))
            if inner[0] < 2 and rng.random() < 0.4:
                inner[0] += 1
                terms.append(s.matrix(named("V"), pick(values)))
            if rng.random() < 0.3:
                terms.append(s.diagonal(named("p"), pick(values)))
            if rng.random() < 0.2:
                terms.append(pick(values))
            if rng.random() < 0.7 or not terms:
                terms.append(s.bias(named("b")))
            return s.sum(*terms)

        def factor():
            """A value, bounded where it is a product: rounding errors of high powers would hide others."""
            value = pick(values)
            return s.tanh(value) if value.op == "product" else value

        def gate():
            value = factor()
            kind = rng.integers(5)
            return (value, value, s.whole(value), s.fixed(value), s.fixed(s.reciprocal(s.softplus(value))))[kind]

        for k in range(rng.integers(1, 4)):
            values.append(matrix_sum(k == 0 or rng.random() < 0.8))
        for _ in range(rng.integers(2, 8)):
            kind = rng.integers(6)
            if kind < 2:
                name, value = pick(UNARY), pick(values)
                if name == "exponential":
                    value = s.tanh(value)  # exp(z) can overflow
                values.append(s.apply(name, value))
            elif kind < 4:
                values.append(s.product(gate(), factor()))
            elif kind == 4:
                values.append(matrix_sum(rng.random() < 0.3))
            else:
                terms = [pick(values), pick(values), s.diagonal(named("p"), pick(values)), s.bias(named("b"))]
                values.append(s.sum(*(terms[j] for j in rng.permutation(4)[: rng.integers(1, 5)])))
        made = values[len(before) :]
        after = [s.apply(pick(BOUNDED), made[-1 - k % len(made)]) for k in range(len(states))]
        if rng.random() < 0.3:
            after[0] = s.sum(s.product(s.complement(s.sigmoid(made[0])), before[0]), after[0])
        if rng.random() < 0.3:  # another output, or another state, or one that is also used elsewhere
            return (pick([*made, *after]), *after)
        return tuple(after)

    parameters = ", ".join(states)
    scope = {"step": step}
    exec(f"def stepped(s, x, {parameters}):\n    return step(s, x, {parameters})", scope)
    return trace(Shape(), scope["stepped"], states, {})


def problems(seed):
    """What is wrong with the cell of this seed: a list of laws; None where no kernels are generated for it."""
    rng = np.random.default_rng(seed)
    statement = random_statement(seed)
    if uncovered(statement):
        return None
    cell = StoredCell(statement.to_data(), **laws.random_arrays(statement, rng))
    report = laws.check_cell(cell, seed)
    found = [str(law) for law in report.laws if not law.holds]
    if any("kernels" in text for text in found):
        with np.errstate(all="ignore"):
            found.append(f"{laws._kernel_errors(laws._Case(cell, rng))}")
    return found


def main(arguments=None):
    parser = argparse.ArgumentParser(description="random cells against the laws of recurrent cells")
    parser.add_argument("--cells", type=int, default=500)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args(arguments)
    first = np.random.SeedSequence().entropy % 2**31 if options.seed is None else options.seed
    print(f"seeds from {first}")
    covered = broken = 0
    for seed in range(first, first + options.cells):
        found = problems(seed)
        covered += found is not None
        if found:
            broken += 1
            print(f"seed {seed}", *found, sep="\n  ")
            print(*random_statement(seed).nodes, sep="\n    ")
    print(f"{options.cells} cells, {covered} with kernels, {broken} broken")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
