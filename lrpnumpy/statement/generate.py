"""The text of a cell's Numba kernels, from its statement: forward with coefficients, backward, mean slopes of DeepLIFT.

Between matrix products a step is elementwise, and messages are linear in the incoming messages. `SymbolFlow` finds
the coefficients from every *root* (a state or output that the step returns, or a value that a matrix inside the step
multiplies) to its *targets*: sums of matrix products, states before the step, other roots, and what stabilizers and
biases absorb. The forward kernel writes the coefficients of the rule that it is called with, and the backward kernel
multiplies messages with them. Coefficients that are 0, 1 or -1 are not stored, and a sum that receives nothing is
not multiplied with its matrices: under LRP-all an LSTM has three coefficients per unit and one matrix product, because
nothing goes to its gates.

No text of a user enters a kernel: arrays and values are numbered, operations and activations are those of the
closed tables in `trace.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lrpnumpy.kernels.steps import CODES, SELU
from lrpnumpy.rules.propagation import Entry
from lrpnumpy.statement.backward import MessageFlow
from lrpnumpy.statement.trace import HELD, TERMS, Axes, Operation, Statement

RULES = ("gradient", "all", "shares")  # of the forward kernel; "shares" is for PROP, ABS and HALF
# Text of F of a number z; of F' where y = F(z); of the mean slope from z0 to z. Other activations are `rare`, and slow.
SCALARS: dict[str, tuple[str, str, str | None]] = {
    "sigmoid": ("sigmoid({z})", "{y} * (one - {y})", "sigmoid_secant({z}, {z0}, {y}, {y0})"),
    "tanh": ("tanh({z})", "one - {y} * {y}", "tanh_secant({z}, {z0}, {y}, {y0})"),
    "linear": ("{z}", "1", "1"),
    "relu": ("max({z}, zero)", "(one if {y} > zero else zero)", None),
    "hard_sigmoid": ("min(max(kind(0.2) * {z} + half, zero), one)", "(kind(0.2) if zero < {y} < one else zero)", None),
    "hard_sigmoid_3": (
        "min(max({z} / kind(6) + half, zero), one)",
        "(one / kind(6) if zero < {y} < one else zero)",
        None,
    ),
    "complement": ("one - {z}", "-1", "-1"),
    "negative": ("-{z}", "-1", "-1"),
    "reciprocal": ("one / {z}", "-{y} * {y}", "-{y} * {y0}"),
    "exponential": ("fast_exp({z})", "{y}", None),
    "softplus": ("fast_softplus({z})", "sigmoid({z})", None),
    "log_sigmoid": ("-fast_softplus(-{z})", "sigmoid(-{z})", "rare_secant(-{z}, -{z0}, -{y}, -{y0}, 8)"),
}
CHEAP = ("complement", "negative", "linear", "relu", "reciprocal")
MOST_PAIRS = 110  # of arrays that may overlap: from 128 on LLVM does not vectorize a loop


def resolve(node: Operation) -> Operation:
    """The value itself of whole, fixed and stop."""
    return resolve(node.args[0]) if node.op in HELD else node


def uncovered(statement: Statement) -> str:
    """Why no kernels are generated for a cell, in words; nothing where they are."""
    if len(statement.inputs) > 1:
        return "it takes several inputs"
    x = statement.inputs[0]
    for node in (*statement.states, *statement.nodes):
        if node.op in ("norm", "total", "maximum"):
            return f"it uses {node.op}"
        if node.op not in TERMS and node.axes != ("H",) and not (node.op == "same" and node.args[0] is x):
            return "its values have other axes than the units"
        if node.op != "matrix" and any(resolve(one) is x for one in node.args):
            return "it uses the input elsewhere than in a matrix product"
    after = [resolve(node) for node in (statement.output, *statement.after)]
    if any(node.op in ("state", "input") for node in after) or len({*after[1:]}) < len(after) - 1:
        return "it returns a state unchanged"
    counts = [sum(term.op == "matrix" and term.args[0] is x for term in node.args) for node in statement.nodes]
    if max(counts) != 1:
        return "it does not use its input in one matrix product per sum"
    return ""


def with_output_state(statement: Statement) -> Statement:
    """The statement with its output as a state: one that is not a state becomes one more, which nothing reads."""
    if resolve(statement.output) in map(resolve, statement.after):
        return statement
    more = Operation(-1, "state", (), "", statement.output.axes)
    return replace(statement, states=(*statement.states, more), after=(*statement.after, statement.output))


class Symbol:
    """A number in a loop, by name. Products with 0, 1 and -1 are not written down."""

    def __init__(self, loop: Loop, name: str) -> None:
        self.loop, self.name = loop, name

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, int):
            if other in (0, 1):
                return self if other else 0
            return self.loop.symbol(f"-{self.name}" if other == -1 else f"kind({other}) * {self.name}")
        return self.loop.symbol(f"{self.name} * {other.name}")

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Any:
        if isinstance(other, int):
            return self if other == 0 else self.loop.symbol(f"{self.name} + {constant(other)}")
        return self.loop.symbol(f"{self.name} + {other.name}")

    __radd__ = __add__


def constant(value: int) -> str:
    """The text of a small whole number."""
    return {1: "one", -1: "-one"}.get(value, f"kind({value})")


class Loop:
    """An elementwise loop: it reads the values that have `arrays` and computes the others, each expression once."""

    def __init__(self, plan: Plan, arrays: Mapping[Operation, str]) -> None:
        self.plan, self.arrays = plan, arrays
        self.lines: list[str] = []
        self.stores: dict[str, str] = {}
        self._names: dict[tuple[Operation, str], Any] = {}
        self._known: dict[str, tuple[Symbol, ...]] = {}
        self._reads: set[str] = set()

    def unpacked(self, text: str, count: int = 1) -> tuple[Symbol, ...]:
        """The numbers that an expression returns, computed once."""
        if text not in self._known:
            letters = "abc"[:count] if count > 1 else [""]
            names = [f"v{len(self.lines)}{letter}" for letter in letters]
            self.lines.append(f"{', '.join(names)} = {text}")
            self._known[text] = tuple(Symbol(self, name) for name in names)
        return self._known[text]

    def symbol(self, text: str) -> Symbol:
        """The value of an expression."""
        return self.unpacked(text)[0]

    def read(self, array: str) -> Symbol:
        """The number of an array."""
        self._reads.add(array)
        return Symbol(self, f"{array}[q]")

    def value(self, node: Operation, of: str = "") -> Symbol:
        """The number of a node; with `of` "_0" that of the reference."""
        node, plan = resolve(node), self.plan
        if (node, of) not in self._names:
            if node in plan.statement.states:
                self._names[node, of] = self.read(f"before_{plan.statement.states.index(node)}{of}")
            elif node in self.arrays:
                self._names[node, of] = self.read(self.arrays[node] + of)
            else:
                self._names[node, of] = self.symbol(self._text(node, of))
        return self._names[node, of]

    def _text(self, node: Operation, of: str) -> str:
        plan = self.plan
        if node.op == "sum":
            terms = [self.read(plan.rooms[node] + of).name] if node in plan.rooms else []
            for term in node.args:
                if term.op == "diagonal":
                    terms.append(f"{self.read(plan.vectors[term]).name} * {self.value(term.args[0], of).name}")
                elif term.op == "bias" and node not in plan.rooms:
                    terms.append(self.read(plan.vectors[term]).name)
                elif term.op not in TERMS:
                    terms.append(self.value(term, of).name)
            return " + ".join(terms)
        values = [self.value(one, of).name for one in node.args]
        if node.op == "product":
            return f"{values[0]} * {values[1]}"
        if node.op == "same":
            return values[0]
        if node.name in SCALARS:
            return f"kind({SCALARS[node.name][0].format(z=values[0])})"
        return f"kind(rare(float({values[0]}), {CODES[node.name]}))"

    def store(self, array: str, value: Any) -> None:
        """Write a number to an array, at the end of the round."""
        self.stores[array] = value.name if isinstance(value, Symbol) else constant(value)

    def text(self) -> list[str]:
        """The lines of the loop."""
        body = [*self.lines, *(f"{array}[q] = {value}" for array, value in self.stores.items())]
        return ["for q in range(m):", *(f"    {line}" for line in body)] if body else []

    @property
    def pairs(self) -> int:
        """Pairs of arrays that LLVM must check for overlap before it runs the vectorized loop."""
        written = len(self.stores)
        return written * len(self._reads - set(self.stores)) + written * (written - 1) // 2

    @property
    def states_read(self) -> set[str]:
        """The arrays of states before the step that it reads."""
        return {array for array in self._reads if array.startswith("before_")}


class SymbolFlow(MessageFlow):
    """Messages are symbols of a loop: what one root sends to its targets, by the rule of some coefficients."""

    def __init__(self, how: Coefficients, loop: Loop, root: Operation) -> None:
        super().__init__(how)
        self.plan, self.loop, self.root = how.plan, loop, root
        self.targets: dict[Any, Any] = {}

    def run(self, message: Any) -> dict[Any, Any]:
        """Coefficients by target."""
        self.messages[self.root] = message
        for node in reversed(self.plan.statement.nodes):
            if node in self.plan.roots and node is not self.root:
                if node in self.messages:
                    self._record(("root", node), self.messages.pop(node))
            else:
                self.through(node)
        for k, state in enumerate(self.plan.statement.states):
            self._record(("state", k), self.messages.get(state, 0))
        return {target: value for target, value in self.targets.items() if value != 0}

    def _record(self, target: Any, value: Any) -> None:
        self.targets[target] = self.targets.get(target, 0) + value

    def give(self, node: Operation, R: Any, axes: Axes) -> None:
        """Add a message to those of a node."""
        if R != 0:
            self.messages[node] = self.messages.get(node, 0) + R

    def keep(self, which: int, amount: Any) -> None:
        """What biases and stabilizers absorb is a target."""
        if self.how.times_input:
            self._record("biases" if which == Entry.BIASES else "stabilizer", amount)

    def through_matrix(self, node: Operation, term: Operation, s: Any) -> None:
        """Matrix products are outside of the loop: the sum is a target."""
        self.targets["sum", node] = s

    def value(self, node: Operation, axes: Axes) -> Symbol:
        """The number of a node."""
        return self.loop.value(node)

    def weights(self, term: Operation, axes: Axes) -> Any:
        """The trained numbers of a diagonal or a bias; biases of matrix products are multiplied at the very end."""
        if any(term in node.args for node in self.plan.rooms) and term.op == "bias":
            return 0
        return self.loop.read(self.plan.vectors[term])

    def gain(self, node: Operation) -> tuple[Any, Any]:
        """1 / stab(z) and the share of the stabilizer."""
        if not self.how.times_input:
            return 1, 0
        return self.loop.unpacked(f"inverse({self.loop.value(node).name}, eps)", 2)  # type: ignore[return-value]

    def slope(self, node: Operation) -> Any:
        """The slope of an activation: 1 under LRP."""
        if self.how.times_input:
            return 1
        texts, loop, values = SCALARS.get(node.name, (None, None, None)), self.loop, {}
        values["z"], values["y"] = loop.value(node.args[0]).name, loop.value(node).name
        if self.how.rule == "deeplift":
            values["z0"], values["y0"] = loop.value(node.args[0], "_0").name, loop.value(node, "_0").name
            text = (
                texts[2] or f"rare_secant(float({{z}}), float({{z0}}), float({{y}}), float({{y0}}), {CODES[node.name]})"
            )
        else:
            text = texts[1] or f"rare_slope(float({{z}}), {CODES[node.name]})"
        if text in ("1", "-1"):
            return int(text)
        return loop.symbol(f"kind({text.format(**values)})" if "rare" in text else text.format(**values))

    def shares(self, node: Operation) -> tuple[Any, Any, Any]:
        """The shares of gate and signal of a product, and of the stabilizer."""
        rule, loop = self.how.rule, self.loop
        if rule == "all":
            return 0, 1, 0
        gate, signal = (loop.value(one) for one in node.args)
        if rule == "gradient":
            return signal, gate, 0
        if rule == "deeplift":
            gate, signal = (self._mean(one) for one in node.args)
            return signal, gate, 0
        return loop.unpacked(f"share(HALF, {gate.name}, {signal.name}, eps)", 3)  # type: ignore[return-value]

    def _mean(self, node: Operation) -> Symbol:
        return self.loop.symbol(f"half * ({self.loop.value(node).name} + {self.loop.value(node, '_0').name})")


class Text:
    """Lines of a function."""

    def __init__(self, head: str) -> None:
        self.lines = [head]

    def __call__(self, depth: int, *lines: str) -> None:
        self.lines += ["    " * depth + line for line in lines]

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"


class Plan:
    """The forward kernel of a statement: which values have arrays, and in which order they are made."""

    def __init__(self, stated: Statement) -> None:
        statement = self.statement = with_output_state(stated)
        self.count = len(stated.states)  # without an output that was made a state
        x = statement.inputs[0]
        self.nodes = [node for node in statement.nodes if node.op not in (*TERMS, *HELD)]
        self.after = [resolve(node) for node in statement.after]
        self.output_at = self.after.index(resolve(statement.output))
        sums = [node for node in self.nodes if any(term.op == "matrix" for term in node.args)]
        self.x_terms = {  # of every sum with a matrix of the input, that matrix
            node: term for node in sums for term in node.args if term.op == "matrix" and term.args[0] is x
        }
        self.x_sums = list(self.x_terms)
        self.products = [  # all other matrix products: sum, term, value that is multiplied
            (node, term, resolve(term.args[0]))
            for node in sums
            for term in node.args
            if term.op == "matrix" and term is not self.x_terms.get(node)
        ]
        inner = [v for _, _, v in self.products if v not in statement.states]
        self.roots = [node for node in self.nodes if node in (*self.after, *inner)]
        terms = [term for node in self.nodes for term in node.args if term.op in ("diagonal", "bias")]
        in_table = [term for node in self.x_sums for term in node.args if term.op == "bias"]
        self.vectors = {term: f"p{k}" for k, term in enumerate(one for one in terms if one not in in_table)}
        self.level = self._levels(inner)
        self.top = max(self.level[node] for node in self.after)
        self._allocate(sums, inner)

    @property
    def fed(self) -> list[int]:
        """The states that matrices multiply."""
        return [k for k, state in enumerate(self.statement.states) if any(v is state for _, _, v in self.products)]

    def _levels(self, inner: list[Operation]) -> dict[Operation, int]:
        """How many matrix products inside the step come before each value."""
        level = dict.fromkeys((*self.statement.inputs, *self.statement.states), 0)
        for node in self.nodes:
            level[node] = 0
            for one in node.args:
                source = resolve(one.args[0]) if one.op in ("matrix", "diagonal") else resolve(one)
                if one.op != "bias":
                    level[node] = max(level[node], level[source] + (one.op == "matrix" and source in inner))
        return level

    def _allocate(self, sums: list[Operation], inner: list[Operation]) -> None:
        """Choose the values that have arrays: sums of matrix products, values that inner matrices multiply, and
        activations, which DeepLIFT needs and no loop should compute twice.
        """
        complete = [node for node in sums if all(term.op in ("matrix", "bias") for term in node.args)]
        applied = [node for node in self.nodes if node.op == "apply" and node not in self.after]
        loops = [name for name in CODES if CODES[name] < SELU or name not in SCALARS]  # `rare` ones would spoil others
        self.alone = [  # activations in a separate loop, while their sum is in the cache
            node for node in applied if node.name in loops and resolve(node.args[0]) in complete
        ]
        order = [*self.x_sums, *(node for node in sums if node not in self.x_sums)]
        self.alone.sort(key=lambda node: order.index(resolve(node.args[0])))
        kept = [node for node in applied if node.name in CODES or node.name not in CHEAP]
        self.slots = list(dict.fromkeys([*order, *self.alone, *inner, *kept]))
        self.rooms = {node: f"a{self.slots.index(node)}" for node in sums}
        self.arrays = {node: f"a{k}" for k, node in enumerate(self.slots) if node not in self.rooms or node in complete}

    def values_loop(self, level: int) -> Loop:
        """Values of a level that have arrays; in the last level the states too."""
        mine = [
            node
            for node in self.slots
            if self.level[node] == level and node not in self.rooms and node not in self.alone
        ]
        loop = Loop(self, {node: array for node, array in self.arrays.items() if node not in mine})
        for node in mine:
            loop.store(self.arrays[node], loop.value(node))
        if level == self.top:
            for k, node in enumerate(self.after):
                loop.store(f"after_{k}", loop.value(node))
        return loop

    # -- text ---------------------------------------------------------------------------------------------------------

    def forward(self, rules: Sequence[Coefficients]) -> str:
        """The text of the forward kernel, with the coefficients of some rules."""
        count, G, width = len(self.after), len(self.x_sums), len(self.slots)
        loops = [self.values_loop(level) for level in range(self.top + 1)]
        every = [*loops, *(loop for one in rules for loop in one.loops)]
        read = {name for loop in every for name in loop.states_read}
        moves = [f"before_{k}" in read for k in range(count)]  # old and new state are in one loop: they change places
        out = Text(
            "def forward(rows: BatchRows, weights: Weights, start: R3, eps: Scalar, rule: Int, keep: Int, every: Int, "
            f"K: W1, kept: W1, states: W2x{count}) -> None:"
        )
        out(1, "first, H, n_0, kind = rows.first, states[0].shape[1], rows.first[1], K.dtype.type")
        out(1, "zero, half, one = kind(0), kind(0.5), kind(1)", f"room = input_rooms(rows, {G}, H)")
        out(1, *self._vector_lines("weights.P"))
        for k in range(count):
            other = "np.empty((2 * n_0, H), K.dtype)" if moves[k] else f"states[{k}]"
            out(1, f"all_{k} = every >> {k} & 1 == 1", f"states_{k} = states[{k}] if all_{k} else {other}")
            out(1, f"repeat(flat(start[{k}]), flat(states_{k}[:n_0]))")
        out(1, f"now = np.empty({width} * n_0 * H, K.dtype)", "for t in range(first.size - 1):")
        out(2, "row = first[t]", "n = first[t + 1] - row", "m = n * H")
        for k in range(count):
            for name, t in (("before", "t"), ("after", "t + 1")):
                here = f"({t}) % 2 * n_0" if moves[k] else "0"
                out(2, f"{name}_{k} = part(states_{k}, (states_before(first, {t}) if all_{k} else {here}) * H, m)")
        out(2, f"step = part(kept, {width} * row * H, {width} * m) if keep == 2 else part(now, 0, {width} * m)")
        out(2, *(f"a{k} = part(step, {k} * m, m)" for k in range(width)))
        out(2, "prepare(t, rows, weights.U, room, step)")
        for level, loop in enumerate(loops):
            for node in self.rooms:
                if self._product_level(node) == level:
                    out(2, *self._product_lines(node, G))
            if level < self.top:
                out(2, *loop.text())
        out(2, "if rule == NONE:", *(f"    {line}" for line in loops[-1].text()))
        *others, last = [one for one in rules if one.rule != "all" or one.text() != rules[-1].text()]
        branches = {one.rule.upper(): one.text() for one in others}
        shares = last.text()
        if any("share(" in line for line in shares):  # a loop for each rule, with the rule as a constant: it is faster
            branches |= {
                name: [line.replace("share(HALF", f"share({name}") for line in shares] for name in ("PROP", "ABS")
            }
        for name, lines in branches.items():
            out(2, f"elif rule == {name}:", *(f"    {line}" for line in lines))
        out(2, "else:", *(f"    {line}" for line in shares))
        for k in range(count):
            if moves[k]:
                out(2, f"if not all_{k}:", f"    copy(after_{k}, states[{k}])")
        return str(out)

    def _product_level(self, node: Operation) -> int:
        """The level at which all values that a sum's matrices multiply are known."""
        sources = [v for one, _, v in self.products if one is node and v not in self.statement.states]
        return max((self.level[v] + 1 for v in sources), default=0)

    def _product_lines(self, node: Operation, G: int) -> list[str]:
        """The matrix products of a sum, and its activation."""
        z, states = self.rooms[node], self.statement.states
        if node in self.x_sums:
            k = self.x_sums.index(node)
            lines = [f"project({k}, t, rows, weights.U, room, {z})"]
            lines += ["if keep == 1:", f"    copy({z}, part(kept, ({G} * row + {k} * n) * H, m))"]
        else:
            lines = [f"fill({z}, zero)"]
            lines += [f"add(part({self.vectors[term]}, 0, m), {z})" for term in node.args if term.op == "bias"]
        for k, (one, _, v) in enumerate(self.products):
            if one is node:
                source = f"before_{states.index(v)}" if v in states else self.arrays[v]
                lines.append(f"add_product(matrix({source}, n, H), block(weights.W, {k}), matrix({z}, n, H))")
        for y in self.alone:
            if resolve(y.args[0]) is node:
                lines.append(f"activate({z}, {self.arrays[y]}, {CODES[y.name]})  # {y.name}")
        return lines

    def _vector_lines(self, P: str) -> list[str]:
        """Trained vectors, repeated for every sequence."""
        lines = []
        for k, name in enumerate(self.vectors.values()):
            lines += [f"{name} = np.empty(n_0 * H, {P}.dtype)", f"repeat({P}[{k}], {name})"]
        return lines

    def mean_slopes(self, coefficients: Coefficients) -> str:
        """The text of the kernel of DeepLIFT's coefficients, from the saved values of the inputs and of the
        references."""
        count, width = len(self.after), len(self.slots)
        out = Text(
            f"def mean_slopes(kept: R1, kept_0: R1, states: R2x{count}, states_0: R2x{count}, first: I1, P: R2, K: W1) "
            "-> None:"
        )
        out(1, "H, n_0, kind = states[0].shape[1], first[1], K.dtype.type")
        out(1, "zero, half, one = kind(0), kind(0.5), kind(1)", *self._vector_lines("P"))
        out(1, f"now, room = np.empty({width} * n_0 * H, K.dtype), np.empty(({count}, n_0 * H), K.dtype)")
        out(1, "for t in range(first.size - 1):", "    row = first[t]", "    n = first[t + 1] - row", "    m = n * H")
        out(2, f"step, step_0 = part(kept, {width} * row * H, {width} * m), part(now, 0, {width} * m)")
        out(2, f"kept_of_reference(kept_0, {width}, t, first, H, step_0)")
        for k in range(count):
            out(2, f"before_{k} = part(states[{k}], states_before(first, t) * H, m)")
            out(2, f"before_{k}_0 = part(room, {k} * n_0 * H, m)")
            out(2, f"states_of_reference(states_0[{k}], t, first, before_{k}_0)")
        out(2, *(f"a{k}{of} = part(step{of}, {k} * m, m)" for k in range(width) for of in ("", "_0")))
        out(2, *coefficients.text())
        return str(out)


class Coefficients:
    """The coefficients of one of RULES, or of "deeplift": from which root to which target, and their loops."""

    def __init__(self, plan: Plan, rule: str) -> None:
        self.plan, self.rule = plan, rule
        self.times_input = self.holds_weights = rule in ("all", "shares")
        self.edges: dict[Operation, dict[Any, Any]] = {}  # {root: {target: 1, -1 or an array}}
        self.kinds = 0  # coefficients per unit and step
        roots = list(reversed(plan.roots))  # those of the end of the step first
        if rule == "deeplift":
            self.loops = self._separate(roots, plan.arrays)
            return
        self.loops = [plan.values_loop(plan.top)]
        self._store([(root, self.loops[0]) for root in roots])
        if self.loops[0].pairs > MOST_PAIRS:  # then the states after the step are read where they are stored
            stored = {node: f"after_{k}" for k, node in enumerate(plan.after)}
            self.loops = [plan.values_loop(plan.top), *self._separate(roots, stored | plan.arrays)]

    def _separate(self, roots: list[Operation], arrays: Mapping[Operation, str]) -> list[Loop]:
        """One loop of coefficients per root."""
        loops = [Loop(self.plan, arrays) for _ in roots]
        self._store([*zip(roots, loops, strict=True)])
        return loops

    def _store(self, where: list[tuple[Operation, Loop]]) -> None:
        """Have every root's loop store its coefficients."""
        self.edges = {root: {} for root, _ in where}
        self.kinds = 0
        found = []
        for root, loop in where:
            start = loop.value(root) if self._is_inner(root) and self.times_input else 1
            for target, value in SymbolFlow(self, loop, root).run(start).items():
                found.append((self._rank(root, target), root, target, value, loop))
        for _, root, target, value, loop in sorted(found, key=lambda one: one[0]):
            if value in (1, -1):
                self.edges[root][target] = value
            else:
                self.edges[root][target] = f"k{self.kinds}"
                loop.store(f"k{self.kinds}", value)
                self.kinds += 1

    def _is_inner(self, root: Operation) -> bool:
        """Whether a matrix inside the step multiplies it, and the step does not return it."""
        return root not in self.plan.after

    def _rank(self, root: Operation, target: Any) -> tuple[int, ...]:
        """The order of coefficients: to sums, to states, to other roots, to the ledger; as in kernels/lstm.py."""
        at, is_inner = self.plan.roots.index(root), self._is_inner(root)
        if isinstance(target, str):
            return 3, ("stabilizer", "biases").index(target), int(is_inner), at
        kind, what = target
        if kind == "sum":
            return 0, self.plan.slots.index(what), int(not is_inner), at
        if kind == "state":
            return 1, what, int(not is_inner), at
        return 2, what.number, int(not is_inner), at

    def places(self) -> list[str]:
        """The arrays of coefficients of a step."""
        return [f"k{k} = part(K, ({self.kinds} * row + {k} * n) * H, m)" for k in range(self.kinds)]

    def text(self) -> list[str]:
        """The lines that compute them."""
        return [*self.places(), *(line for loop in self.loops for line in loop.text())]


def times(value: Any) -> str:
    """A coefficient as a factor."""
    return {1: "", -1: "-"}[value] if isinstance(value, int) else f"{value}[q] * "


class Backward:
    """The text of the kernel that sends messages backward: which arrays they are in, and what each step does."""

    def __init__(self, how: Coefficients) -> None:
        self.how = how
        plan = self.plan = how.plan
        states = plan.statement.states
        self.count = len(states)
        reached = [target for edges in how.edges.values() for target in edges]
        self.got = [node for node in plan.rooms if ("sum", node) in reached]
        x_got = [k for k, node in enumerate(plan.x_sums) if node in self.got]
        self.lo, self.hi = (x_got[0], x_got[-1] + 1) if x_got else (0, 0)  # blocks of U
        slots = [*plan.x_sums[self.lo : self.hi], *(node for node in self.got if node not in plan.x_sums)]
        self.s_of = {node: f"s{k}" for k, node in enumerate(slots)}
        self.inner = [root for root in plan.roots if root not in plan.after]
        self.arrays = {root: f"r_{k}" for k, root in enumerate(plan.after)}
        self.arrays |= {root: f"i_{k}" for k, root in enumerate(self.inner)}
        self.sends = [(k, node, v) for k, (node, _, v) in enumerate(plan.products) if node in self.got]
        self.fed = [k for k, state in enumerate(states) if any(v is state for _, _, v in self.sends)]
        # States with a separate array of messages: LRP multiplies only those of matrices, and incoming ones may not
        # have been read yet.
        self.apart = []
        for k, after in enumerate(plan.after):
            levels = [plan.level[root] for root, edges in how.edges.items() if ("state", k) in edges]
            if max(levels, default=0) > plan.level[after] or (how.times_input and k in self.fed and levels):
                self.apart.append(k)
        has_bias = [node for node in self.got if any(term.op == "bias" for term in node.args)]
        self.biased = has_bias if how.times_input else []
        self.sums = [name for name in ("stabilizer", "biases") if name in reached]

    def text(self) -> str:
        """All of it."""
        plan, how, count = self.plan, self.how, self.count
        out = Text(
            f"def backward(rows: BatchRows, weights: Weights, b: R2, K: R1, states: R2x{count}, rule: Int, "
            "sent: Messages, ledger: W2) -> None:"
        )
        out(1, "first, H, n_0, R = rows.first, sent.R_steps.shape[1], rows.first[1], rows.first[-1]")
        out(1, "kind = K.dtype.type", "zero, one = kind(0), kind(1)")
        if self.hi:
            out(1, f"room = message_rooms(rows, sent.R_x, {self.hi - self.lo}, H)")
        names = [f"carry_{k}" for k in range(count)] + [f"direct_{k}" for k in self.apart]
        names += [f"inner_{k}" for k in range(len(self.inner))]
        totals = [*self.sums, *(f"sum_{k}" for k in range(len(self.biased)))]
        totals += ["top"] * how.times_input
        out(1, *(f"{name} = np.zeros(n_0 * H, K.dtype)" for name in (*names, *(f"all_{name}" for name in totals))))
        out(1, f"now = np.empty({max(1, len(self.s_of))} * n_0 * H, K.dtype)")
        out(1, *(f"copy(sent.R_last[{k}], carry_{k})" for k in range(count)))
        out(1, "for t in range(first.size - 2, -1, -1):")
        out(2, "row = first[t]", "n = first[t + 1] - row", "m = n * H")
        short = [name.replace("carry", "r").replace("direct", "d").replace("inner", "i") for name in names]
        out(2, *(f"{a} = part({name}, 0, m)" for a, name in zip(short, names, strict=True)))
        out(2, *(f"s{k} = part(now, {k} * m, m)" for k in range(len(self.s_of))))
        out(2, *(f"{name} = part(all_{name}, 0, m)" for name in totals))
        out(2, *how.places())
        out(2, "if sent.has_steps:", f"    add(part(sent.R_steps, row * H, m), r_{plan.output_at})")
        out(2, *(f"fill({self.arrays[root]}, zero)" for root in self.inner))
        written: set[str] = set()
        for level in sorted({plan.level[root] for root in how.edges}, reverse=True):
            self._level(out, level, written)
        self._to_states(out, written)
        if self.hi:
            out(2, f"s = part(now, 0, {self.hi - self.lo} * m)")
            out(2, f"pass_on(s, t, rows, b, weights.U, {self.lo}, {int(how.times_input)}, room, sent.R_x)")
        out(1, *(f"copy(carry_{k}, sent.R_start[{k}])" for k in range(count)))
        if how.times_input:
            self._ledger(out)
        return str(out)

    def _level(self, out: Text, level: int, written: set[str]) -> None:
        """The roots of one level: what matrices send them, then the elementwise loop."""
        plan, how = self.plan, self.how
        roots = [root for root in how.edges if plan.level[root] == level]
        for root in roots:
            for k, node, v in self.sends:
                if v is root:
                    s = f"matrix({self.s_of[node]}, n, H)"
                    out(2, f"add_product({s}, block(weights.W, {k}), matrix({self.arrays[root]}, n, H))")
        states = [root for root in roots if root in plan.after]
        if states:
            out(
                2,
                "if sent.wants_states:",
                "    for q in range(m):",
                *(f"        {self._arriving(one)}" for one in roots),
            )
            for root in states:
                place = f"part(sent.R_states, ({plan.after.index(root)} * R + row) * H, m)[q]"
                out(4, f"{place} = R{root.number}")
        body: list[str] = []
        stores: dict[str, list[str]] = {}
        for root in roots:
            body.append(self._arriving(root))
            for target, value in how.edges[root].items():
                text = f"{times(value)}R{root.number}"
                if isinstance(target, str):
                    stores.setdefault(target, []).append(text)
                elif target[0] == "state":
                    k = target[1]
                    stores.setdefault(f"d_{k}" if k in self.apart else f"r_{k}", []).append(text)
                elif target[0] == "sum":
                    stores.setdefault(self.s_of[target[1]], []).append(text)
                elif plan.level[target[1]] < level:  # a root of this level has it from `_arriving`
                    body.append(f"{self.arrays[target[1]]}[q] += {text}")
            if how.times_input and root in plan.after[: plan.count]:
                body += [f"size = abs(R{root.number})", "top[q] = size if size > top[q] else top[q]"]
        for root in states:  # its message has been read: what matrices will send is added up in its place
            if self.arrays[root] not in stores and self.arrays[root] not in written:
                stores[self.arrays[root]] = ["zero"]
        for array, texts in stores.items():
            sign = "+=" if array in written or array in self.sums else "="
            body.append(f"{array}[q] {sign} {' + '.join(texts)}")
        written |= set(stores)
        out(2, "for q in range(m):", *(f"    {line}" for line in body))

    def _arriving(self, root: Operation) -> str:
        plan, how = self.plan, self.how
        into = [
            f"{times(edges['root', root])}R{other.number}"
            for other, edges in how.edges.items()
            if ("root", root) in edges and plan.level[other] == plan.level[root]
        ]
        return f"R{root.number} = " + " + ".join([f"{self.arrays[root]}[q]", *into])

    def _to_states(self, out: Text, written: set[str]) -> None:
        """What the states before the step receive: from matrices, times their value under LRP, and directly."""
        plan, how = self.plan, self.how
        out(2, *(f"fill(r_{k}, zero)" for k in range(self.count) if f"r_{k}" not in written))
        out(2, *(f"fill({array}, zero)" for node, array in self.s_of.items() if node not in self.got))
        out(2, *(f"add({self.s_of[node]}, sum_{k})" for k, node in enumerate(self.biased)))
        for k in self.fed:
            for block, node, v in self.sends:
                if v is plan.statement.states[k]:
                    s = f"matrix({self.s_of[node]}, n, H)"
                    out(2, f"add_product({s}, block(weights.W, {block}), matrix(r_{k}, n, H))")
            if how.times_input:
                direct = f" + d_{k}[q]" if k in self.apart else ""
                out(2, f"h_{k} = part(states[{k}], states_before(first, t) * H, m)", "for q in range(m):")
                out(3, f"r_{k}[q] = r_{k}[q] * h_{k}[q]{direct}")
        out(2, *(f"add(d_{k}, r_{k})" for k in self.apart if not (how.times_input and k in self.fed)))

    def _ledger(self, out: Text) -> None:
        plan = self.plan
        out(1, "settle(ledger, all_top)")
        if self.hi:
            out(1, "settle(ledger, room[2])")
        out(1, "for q in range(n_0 * H):")
        out(2, f"ledger[{Entry.START}, q // H] += " + " + ".join(f"carry_{k}[q]" for k in range(self.count)))
        rows = {"stabilizer": Entry.STABILIZER, "biases": Entry.BIASES}
        out(2, *(f"ledger[{rows[name]}, q // H] += all_{name}[q]" for name in self.sums))
        for k, node in enumerate(self.biased):
            if node in plan.x_sums:
                bias = f"b[{plan.x_sums.index(node)}, q % H]"
            else:
                names = [[*plan.vectors].index(term) for term in node.args if term.op == "bias"]
                bias = "(" + " + ".join(f"weights.P[{index}, q % H]" for index in names) + ")"
            out(2, f"ledger[{Entry.BIASES}, q // H] += all_sum_{k}[q] * {bias}")
