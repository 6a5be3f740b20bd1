"""PyTorch's modules to a chain: the order in which they are applied, and what stands between them.

The order is that of the file where the shapes allow it. Everything that neither shapes nor an nn.Sequential decide,
the caller says, and every error says how.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, islice, permutations, zip_longest
from typing import Any, NamedTuple

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.files.safe import Source, kind_of, nearby
from lrpnumpy.files.torch.described import WantedActivations, activations_of
from lrpnumpy.files.torch.modules import ADVICE, LayerHint, Module, called
from lrpnumpy.files.torch.pickled import Described, ModulePart

_MOST = 8  # modules whose order is looked for; more must be named
_ATTENTION = re.compile(r"att|score|energy|align")
_POOLS = {
    "maxpool": ("size", "stride", "padding"),
    "avgpool": ("size", "stride", "padding", "count_include_pad"),
}
POOLS = {"MaxPool1d": "maxpool", "AvgPool1d": "avgpool"}  # classes of torch.nn
WORDS = ("repeat", *_POOLS)
_IN_ORDER = "the modules are applied {}, one after the other, without branches, sums or other steps between them: {}"


class Word(NamedTuple):
    """Something without arrays that `layers` names: repeat, maxpool(2) or avgpool(2)."""

    name: str
    settings: dict[str, Any]
    kind: str = "word"
    recurrent: bool = False

    @property
    def text(self) -> str:
        """As `layers` has it."""
        return f"{self.name}({', '.join(f'{key}={value}' for key, value in self.settings.items())})"


@dataclass(frozen=True)
class AttentionStep:
    """A weighted sum of the steps: weights softmax(score(out)), or softmax(score(tanh(inner(out))))."""

    score: Module
    inner: Module | None = None

    @property
    def modules(self) -> tuple[Module, ...]:
        """One or two."""
        return (self.score,) if self.inner is None else (self.inner, self.score)

    @property
    def shown(self) -> str:
        """In words."""
        return self.score.name if self.inner is None else f"{self.score.name}(tanh({self.inner.name}))"


Step = Module | AttentionStep | Word | str  # a string is the name of an activation


@dataclass
class ModuleOrder:
    """What is known on the way to the order: the file, the hints, what a whole module says; and what is assumed."""

    source: Source
    said: Any  # Hints
    entries: list[LayerHint] | None
    described: Described | None
    assumed: list[str]

    def steps(self, modules: list[Module]) -> list[Step]:
        """The modules as they are applied, with the activations between them."""
        learned = {module.name: module for module in modules if is_activation(module)}
        attention = self.attention(modules) if self.said.readout == "attention" else None
        own = attention.modules if attention is not None else ()
        steps = self.order([m for m in modules if m not in own], modules)
        self.assume_kinds(modules, steps)
        steps = self.activated(steps, learned, own)
        if attention is not None:
            top = max(k for k, step in enumerate(steps) if isinstance(step, Module) and step.recurrent)
            if steps[top].outputs != attention.modules[0].inputs:  # type: ignore[union-attr]
                raise self.source.error("", f"has an attention of other sizes than the steps: {listed(own)}")
            steps.insert(top + 1, attention)
        return steps

    def assume_kinds(self, modules: list[Module], steps: list[Step]) -> None:
        """Note the matrices whose names do not tell whether they are a Linear or an Embedding."""
        unclear = {module.name for module in modules if module.kind == "matrix" and not _is_embedding(module)}
        for step in steps:
            if isinstance(step, Module) and step.name in unclear:
                kind = "an Embedding" if step.kind == "embedding" else "a Linear"
                self.assumed.append(f"{step.name}.weight {step.shapes['weight']} is the weight of {kind}")

    # ---------------------------------------------------------------------------------------------- attention

    def attention(self, modules: list[Module]) -> AttentionStep:
        """The modules that weigh the steps, by their names, or the first after the last recurrent module."""
        found = find_attention(modules)
        if found is None:
            raise self.source.error(
                "",
                "has no modules that readout='attention' can mean: a Linear from the steps to 1, or two with a tanh "
                f"between them, called attention or the like; it has {listed(modules)}",
            )
        if found.inner is not None and self.described is not None:
            names = [part.name for part in self.described.parts]
            between = names[names.index(found.inner.name) + 1 : names.index(found.score.name)]
            odd = [part for name in between if (part := self.described.part(name)) and not part.is_nothing]
            if any(part.activation not in (None, "tanh") for part in odd):
                raise self.source.error(odd[0].name, f"is {odd[0].kind}; inside an attention tanh is supported")
        return found

    # -------------------------------------------------------------------------------------------------- order

    def order(self, modules: list[Module], all_modules: list[Module]) -> list[Step]:
        """The modules as they are applied: as said, as in the file, or in the one order in which the shapes fit."""
        if self.entries is not None:
            return self.said_order(modules, [m for m in all_modules if m not in modules])
        modules = [module for module in modules if not is_activation(module)]
        if not modules:
            raise self.source.error("", "has no modules with arrays")
        if self.said.readout != "attention" and (named := [m for m in modules if m.linear and "att" in m.name.lower()]):
            raise self.source.error("", f"has {listed(named)}, which may be an attention{_advice(modules)}")
        found = list(fitting(modules))
        if len(found) == 1:
            if len(modules) > 1:
                self.assumed.append(_IN_ORDER.format("in the order of the file", _names(found[0])))
            return list(found[0])
        if len(modules) > _MOST:
            raise self.source.error("", f"has {len(modules)} modules whose order is not clear{_advice(modules)}")
        found = found or list(islice((chain for order in permutations(modules) for chain in fitting(list(order))), 2))
        if len(found) != 1:
            many = "more than one order" if found else "no order"
            raise self.source.error("", f"has modules whose shapes fit in {many}{_advice(modules)}")
        self.assumed.append(_IN_ORDER.format("in the only order that fits", _names(found[0])))
        return list(found[0])

    def said_order(self, modules: list[Module], others: list[Module]) -> list[Step]:
        """The modules, activations and words that the caller names, in the order of the names."""
        assert self.entries is not None
        steps: list[Step] = []
        for name, settings in self.entries:
            self.source.budget.visit("layers", len(modules))
            module = called(name, modules)
            part = called(name, self.described.parts) if self.described else None
            if module is not None:
                steps.append(module)
            elif called(name, others) is not None:  # the modules of an attention, whose place is known
                continue
            elif name in WORDS:
                steps.append(self.word(name, settings))
            elif name in ACTIVATIONS:
                steps.append(name)
            elif part is not None and part.activation is not None:
                steps.append(part.activation)
            elif part is not None and (pool := pool_of(self.source, part)) is not None:
                steps.append(pool)
            elif part is not None and part.kind in POOLS:
                raise self.source.error(
                    part.name, f"is {part.kind} with ceil_mode or dilation, which are not supported"
                )
            elif part is None or not part.is_nothing:
                there = ", ".join(repr(m.name) for m in modules)
                raise self.source.error(
                    "",
                    f"layers must name modules of the file, {there}, activations such as 'relu', or "
                    f"{', '.join(WORDS)}, got {name[:80]!r}",
                )
        chosen = [step for step in steps if isinstance(step, Module) and not is_activation(step)]
        found = list(fitting(chosen))
        if len(found) != 1:
            raise self.source.error(
                "", f"has modules whose shapes do not fit in the order that layers says: {listed(chosen)}"
            )
        if len(chosen) > 1:
            self.assumed.append(_IN_ORDER.format("in the order of layers=", _names(found[0])))
        decided = iter(found[0])
        return [next(decided) if isinstance(step, Module) and not is_activation(step) else step for step in steps]

    def word(self, name: str, settings: dict[str, Any]) -> Word:
        """A word of `layers`, its settings by name: maxpool(2, stride=1)."""
        keys = _POOLS.get(name, ())
        found = {
            keys[int(key[1:])] if key[1:].isdigit() and int(key[1:]) < len(keys) else key: value
            for key, value in settings.items()
        }
        if (
            set(found) - set(keys)
            or any(type(value) is not int for value in found.values())
            or ("size" in keys and "size" not in found)
        ):
            example = f"{name}(2, stride=2, padding=0)" if keys else name
            raise self.source.error("", f"layers must say {name} as {example!r}, got {settings}")
        return Word(name, found)

    # -------------------------------------------------------------------------------------------- activations

    def activated(self, steps: list[Step], learned: Mapping[str, Module], own: tuple[Module, ...]) -> list[Step]:
        """The chain with the activations in it: those that are said, or that a module says by itself."""
        said = self.said
        if any(map(is_activation, steps)):
            if said.activations is not None:
                raise self.source.error("", "activations must be left out where layers names activations")
            self.assume_none(steps, {})
            return steps
        modules = [step for step in steps if isinstance(step, Module)]
        linears = [module for module in modules if module.kind in ("linear", "conv")]
        inner = linears if modules[-1].kind != "linear" else linears[:-1]
        if said.activations is not None:
            given = list(said.activations)
            for name in given:
                if name not in ACTIVATIONS and name not in learned:
                    raise self.source.error("", f"unknown activation {kind_of(name)}{nearby(str(name), ACTIVATIONS)}")
            if len(given) not in (len(inner), len(linears)):
                raise self.ask(inner, given)
            after = dict(zip((module.name for module in linears), given, strict=False))
        elif self.described is not None:
            after = activations_of(
                self.source,
                self.described,
                WantedActivations(modules, inner, learned, own, self.entries is not None),
                self.assumed,
            )
        elif learned and self.entries is None:
            raise _ask_order(self.source, [*modules, *learned.values()])
        elif inner:
            raise self.ask(inner, None)
        else:
            after = {}
        self.assume_none(steps, after)
        found: list[Step] = []
        for step in steps:
            found.append(step)
            if isinstance(step, Module) and step.name in after:
                found.append(learned.get(after[step.name], after[step.name]))
        return found

    def assume_none(self, steps: list[Step], after: Mapping[str, str]) -> None:
        """Note the modules without an activation, unless `layers` says the activations ('linear' is one)."""
        if any(isinstance(step, str) for step in steps):
            return
        plain = []
        for step, following in zip_longest(steps, steps[1:]):
            if not isinstance(step, Module) or step.kind in ("embedding", "prelu") or step.name in after:
                continue
            if following is None and self.said.output is not None:  # the caller says what follows the scores
                continue
            if following is None or not is_activation(following):
                plain.append(step.name or "the recurrent module")
        if plain:
            self.assumed.append(f"no activation is applied after {', '.join(plain)}")

    def ask(self, inner: list[Module], given: list[str] | None) -> Exception:
        """The error that asks for activations."""
        names = ", ".join(module.name for module in inner) or "no module"
        example = ", ".join(["'relu'"] * len(inner))
        got = "" if given is None else f", got {len(given)}"
        return self.source.error(
            "",
            f"does not say which activations stand after {names}; say activations=[{example}], one for each, "
            f"'linear' where there is none{got}",
        )


def is_activation(step: Step) -> bool:
    """Whether a step works on each number by itself: it fits anywhere."""
    return isinstance(step, str) or (isinstance(step, Module) and step.kind == "prelu")


def listed(modules: list[Module] | tuple[Module, ...]) -> str:
    """Modules for an error message."""
    more = f" and {len(modules) - 20} more" if len(modules) > 20 else ""
    return ", ".join(module.shown for module in modules[:20]) + more


def _names(modules: list[Module]) -> str:
    return ", ".join(module.name for module in modules)


def find_attention(modules: list[Module]) -> AttentionStep | None:
    """One Linear to 1, or two, called attention or the like, or the first ones after the last recurrent module."""
    recurrent = [k for k, module in enumerate(modules) if module.recurrent]
    linears = [module for module in modules if module.linear]
    after = [module for module in modules[recurrent[-1] + 1 :] if module.linear] if recurrent else []
    named = [module for module in linears if _ATTENTION.search(module.name.lower())]
    for group in (named, after[:2], after[:1]):
        inner, score = (
            (group[0], group[-1]) if len(group) == 2 else (None, group[-1]) if len(group) == 1 else (None, None)
        )
        if score is None or score.outputs != 1 or (inner is not None and inner.outputs != score.inputs):
            continue
        if (inner or score).inputs in [modules[k].outputs for k in recurrent]:
            return AttentionStep(score, inner)
    return None


def fitting(order: list[Module]) -> Iterator[list[Module]]:
    """`order` with the open kinds decided, once for each way in which every module fits the one before it."""
    if not order or not any(module.recurrent for module in order):
        return
    first = order[0]
    kinds = ("embedding", "linear") if first.kind == "matrix" else (first.kind,)
    if _is_embedding(first):
        kinds = ("embedding",)
    for kind in kinds:
        rest = [replace(m, kind="linear") if m.kind == "matrix" else m for m in order[1:]]
        found = [replace(first, kind=kind), *rest]
        if all(m.kind != "embedding" and not _is_embedding(m) for m in order[1:]) and all(
            a.outputs == b.inputs for a, b in zip(found, rest, strict=False)
        ):
            yield found


def _is_embedding(module: Module) -> bool:
    """Whether a matrix is an Embedding by its name."""
    return module.kind == "matrix" and "emb" in module.name.lower()


def _advice(modules: list[Module]) -> str:
    """What to say where the order is not clear: an attention, or a list of some modules that fit."""
    attention = find_attention(modules)
    if attention is not None and any(_ATTENTION.search(m.name.lower()) for m in attention.modules):
        rest = [module for module in modules if module not in attention.modules]
        if len(list(fitting(rest))) == 1:
            inner = [m for m in rest if m.linear][:-1]
            more = f", activations=[{', '.join(repr('relu') for _ in inner)}]" if inner else ""
            return (
                f"; if the steps are weighted by softmax over the steps of {attention.shown}, say readout='attention'"
                f"{more}: {listed(modules)}"
            )
    for count in range(min(len(modules), _MOST), 0, -1):
        for some in combinations(modules[:_MOST], count):
            if any(True for _ in fitting(list(some))):
                example = ", ".join(repr(module.name) for module in some)
                return f"{ADVICE}, for example layers=[{example}]: {listed(modules)}"
    return f"{ADVICE}: {listed(modules)}"


def _ask_order(source: Source, modules: list[Module]) -> Exception:
    learned = ", ".join(module.shown for module in modules if is_activation(module))
    example = ", ".join(repr(module.name) for module in modules)
    return source.error(
        "",
        f"has {learned}, and does not say where it is applied; say layers=[{example}] with every module and "
        "activation in the place where it is applied, or without it where the network does not use it",
    )


def pool_of(source: Source, part: ModulePart) -> Word | None:
    """A pool of a whole module as a word; None where it is something else."""
    if part.foreign or part.kind not in POOLS:
        return None
    given = {key: single(value) for key, value in part.settings.items()}
    if given.get("ceil_mode") or given.get("dilation", 1) != 1:
        raise source.error(part.name, f"is {part.kind} with ceil_mode or dilation, which is not supported")
    found = {
        ours: given.get(key) for ours, key in (("size", "kernel_size"), ("stride", "stride"), ("padding", "padding"))
    }
    if given.get("count_include_pad") is False:
        found["count_include_pad"] = 0
    found = {key: value for key, value in found.items() if value is not None}
    return Word(POOLS[part.kind], found) if all(type(value) is int for value in found.values()) else None


def single(setting: Any) -> Any:
    """A setting that is a number, also where it is written as a tuple of one."""
    return setting[0] if isinstance(setting, tuple) and len(setting) == 1 else setting
