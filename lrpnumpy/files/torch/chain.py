"""PyTorch's modules to a chain: the order in which they are applied, and what is between them.

Arrays do not tell a program. One recurrent module and linear modules are taken in the order of the file, or in the only
order that fits. Inside an nn.Sequential of a whole module it is certain what follows what. Everything else the caller
passes in `layers`, and every error shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice, permutations, zip_longest
from typing import Any, NamedTuple

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.files.hints import LayerHint
from lrpnumpy.files.safe import Source, kind_of, nearby
from lrpnumpy.files.torch.modules import ADVICE, Module, called
from lrpnumpy.files.torch.pickled import Described, ModulePart

_MOST = 7  # modules for which an order is looked for, as an example
_ATTENTION = re.compile(r"att|score|energy|align")
POOLS = {"MaxPool1d": "maxpool", "AvgPool1d": "avgpool"}  # classes of torch.nn
WORDS: dict[str, tuple[tuple[str, ...], str]] = {  # settings of each, in their order, and an example
    "repeat": ((), "repeat"),
    "maxpool": (("size", "stride", "padding"), "maxpool(2, stride=2, padding=0)"),
    "avgpool": (("size", "stride", "padding", "count_include_pad"), "avgpool(2, stride=2, padding=0)"),
    "pad": (("before", "after", "mode"), "pad(0, 64, reflect)"),
    "magnitude": ((), "magnitude"),
    "concat": ((), "concat(a, b)"),
}
_IN_ORDER = "the modules are applied {}, one after the other, without branches, sums or other steps between them: {}"
_PLACES = "with every module and activation in the place where it is applied, or without those that are not used"


class Word(NamedTuple):
    """Something without arrays that `layers` names: repeat, maxpool(2), pad(0, 64, reflect), concat(a, b), …"""

    name: str
    settings: dict[str, Any]
    kind: str = "word"
    recurrent: bool = False


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
    """The facts that determine the order: the file, the hints, the description of a module; and the assumptions."""

    source: Source
    said: Any  # Hints
    entries: list[LayerHint] | None
    described: Described | None
    assumed: list[str]

    def steps(self, modules: list[Module]) -> list[Step]:
        """The modules as they are applied, with the activations between them."""
        attention = self.attention(modules) if self.said.readout == "attention" else None
        own = attention.modules if attention is not None else ()
        rest = [module for module in modules if module not in own]
        steps = self.order(rest) if self.entries is None else self.said_order(rest, own)
        unclear = {module.name for module in modules if module.kind == "matrix" and not _is_embedding(module)}
        for step in steps:
            if isinstance(step, Module) and step.name in unclear:
                kind = "an Embedding" if step.kind == "embedding" else "a Linear"
                self.assumed.append(f"{step.name}.weight {step.shapes['weight']} is the weight of {kind}")
        steps = self.activated(steps, {m.name: m for m in modules if is_activation(m)}, own)
        if attention is not None:
            top = max(k for k, step in enumerate(steps) if isinstance(step, Module) and step.recurrent)
            if steps[top].outputs != attention.modules[0].inputs:  # type: ignore[union-attr]
                raise self.source.error("", f"has an attention of other sizes than the steps: {listed(own)}")
            steps.insert(top + 1, attention)
        return steps

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
            for name in names[names.index(found.inner.name) + 1 : names.index(found.score.name)]:
                part = self.described.part(name)
                if part is not None and not part.is_nothing and part.activation not in (None, "tanh"):
                    raise self.source.error(name, f"is {part.kind}; inside an attention tanh is supported")
        return found

    # -------------------------------------------------------------------------------------------------- order

    def order(self, modules: list[Module]) -> list[Step]:
        """The modules in the order of the file, where that is safe to assume."""
        modules = [module for module in modules if not is_activation(module)]
        if not modules:
            raise self.source.error("", "has no modules with arrays")
        if self.said.readout != "attention" and (named := [m for m in modules if m.linear and "att" in m.name.lower()]):
            raise self.source.error("", f"has {listed(named)}, which may be an attention{self.advice(modules)}")
        recurrent = [module for module in modules if module.recurrent]
        plain = all(module.recurrent or module.linear or module.kind == "embedding" for module in modules)
        is_safe = self.described is not None or (plain and len(recurrent) == 1)
        found, where = list(fitting(modules)), "in the order of the file"
        if is_safe and not found and len(modules) <= _MOST:  # HDF5 and safetensors sort the names
            orders = (one for order in permutations(modules) for one in fitting(list(order)))
            found, where = list(islice(orders, 2)), "in the only order that fits"
        if len(found) != 1:
            many = "more than one order" if found else "no order, or not in that of the file"
            raise self.source.error("", f"has modules whose shapes fit in {many}{self.advice(modules)}")
        if not is_safe:
            raise self.source.error("", f"does not say in which order its modules are applied{self.advice(modules)}")
        if len(modules) > 1:
            self.assumed.append(_IN_ORDER.format(where, _names(found[0])))
        return list(found[0])

    def said_order(self, modules: list[Module], own: tuple[Module, ...]) -> list[Step]:
        """The modules, activations and words that the caller names, in the order of the names."""
        assert self.entries is not None
        steps: list[Step] = []
        for name, settings in self.entries:
            self.source.budget.visit("layers", len(modules))
            module = called(name, modules)
            part = called(name, self.described.parts) if self.described else None
            if module is not None:
                steps.append(module)
            elif called(name, own) is not None:  # the modules of an attention, whose place is known
                continue
            elif name in WORDS:
                steps.append(self.word(name, settings))
            elif name in ACTIVATIONS:
                steps.append(name)
            elif part is not None and part.activation is not None:
                steps.append(part.activation)
            elif part is not None and (pool := pool_of(self.source, part)) is not None:
                steps.append(pool)
            elif part is None or not part.is_nothing:
                there = ", ".join(repr(m.name) for m in modules)
                raise self.source.error(
                    "",
                    f"layers must name modules of the file, {there}, activations such as 'relu', or "
                    f"{', '.join(WORDS)}, got {name[:80]!r}",
                )
        chosen = [step for step in steps if isinstance(step, Module) and not is_activation(step)]
        if is_branched(steps):
            return [_decided(step) if isinstance(step, Module) else step for step in steps]
        found = list(fitting(chosen))
        if len(found) != 1:
            raise self.source.error(
                "", f"has modules whose shapes do not fit in the order given by layers: {listed(chosen)}"
            )
        if len(chosen) > 1:
            self.assumed.append(_IN_ORDER.format("in the order of layers=", _names(found[0])))
        decided = iter(found[0])
        return [next(decided) if isinstance(step, Module) and not is_activation(step) else step for step in steps]

    def word(self, name: str, settings: dict[str, Any]) -> Word:
        """A word of `layers`, its settings by name: maxpool(2, stride=1)."""
        if name == "concat":
            return Word(name, settings)
        keys, example = WORDS[name]
        numbered = {f"_{k}": key for k, key in enumerate(keys)}
        found = {numbered.get(key, key): value for key, value in settings.items()}
        needed = {"size", "before", "after"}.intersection(keys)
        is_known = needed <= set(found) <= set(keys)
        numbers = [value for key, value in found.items() if (key, value) != ("mode", "reflect")]
        if not is_known or any(type(value) is not int for value in numbers):
            raise self.source.error("", f"layers takes {name} as {example!r}, got {settings}")
        return Word(name, found)

    def advice(self, modules: list[Module]) -> str:
        """What to say where the order is not clear: an attention, or a list of modules that fit."""
        attention = find_attention(modules)
        if attention is not None and any(_ATTENTION.search(m.name.lower()) for m in attention.modules):
            rest = [module for module in modules if module not in attention.modules]
            if len(list(fitting(rest))) == 1:
                inner = [m for m in rest if m.linear][:-1]
                more = f", activations=[{', '.join(repr('relu') for _ in inner)}]" if inner else ""
                return (
                    f"; if the steps are weighted by softmax over the steps of {attention.shown}, say "
                    f"readout='attention'{more}: {listed(modules)}"
                )
        if (pair := _encoder_decoder(modules)) is not None:
            return f"{ADVICE}, for example layers={pair}, readout='every': {listed(modules)}"
        example = self.example(modules)
        if not example:
            return f"{ADVICE}: {listed(modules)}"
        names = ", ".join(repr(module.name) for module in example)
        return f"{ADVICE}, for example layers=[{names}]: {listed(modules)}"

    def example(self, modules: list[Module]) -> list[Module]:
        """Modules in an order that fits: all of them, or as many of them as fit in the order of the file."""
        some = modules[:_MOST]
        whole = permutations(modules) if len(modules) <= _MOST else iter([modules])
        parts = (part for count in range(len(some), 0, -1) for part in combinations(some, count))
        for order in chain(whole, parts):
            self.source.budget.visit("")
            if any(True for _ in fitting(list(order))):
                return list(order)
        return []

    # -------------------------------------------------------------------------------------------- activations

    def activated(self, steps: list[Step], learned: Mapping[str, Module], own: tuple[Module, ...]) -> list[Step]:
        """The chain with its activations: those passed by the caller, or stored in a module."""
        if any(map(is_activation, steps)) or is_branched(steps):
            if self.said.activations is not None:
                raise self.source.error("", "activations must be left out where layers names activations")
            self.assume_none(steps, {})
            return steps
        modules = [step for step in steps if isinstance(step, Module)]
        linears = [module for module in modules if module.kind in ("linear", "conv")]
        inner = linears if modules[-1].kind != "linear" else linears[:-1]
        after: dict[str, str] = {}
        if self.said.activations is not None:
            given = list(self.said.activations)
            for name in given:
                if name not in ACTIVATIONS and name not in learned:
                    raise self.source.error("", f"unknown activation {kind_of(name)}{nearby(str(name), ACTIVATIONS)}")
            if len(given) not in (len(inner), len(linears)):
                raise self.ask(inner, given)
            after = dict(zip((module.name for module in linears), given, strict=False))
        elif self.described is not None:
            after = self.sequential(self.described, modules, inner, learned, own)
        elif learned and self.entries is None:
            shown, names = listed(tuple(learned.values())), [*(m.name for m in modules), *learned]
            raise self.source.error("", f"has {shown}, and does not say where it is applied; {_say(names)}")
        elif inner:
            raise self.ask(inner, None)
        self.assume_none(steps, after)
        found: list[Step] = []
        for step in steps:
            found.append(step)
            if isinstance(step, Module) and step.name in after:
                found.append(learned.get(after[step.name], after[step.name]))
        return found

    def sequential(
        self,
        described: Described,
        modules: list[Module],
        inner: list[Module],
        learned: Mapping[str, Module],
        own: tuple[Module, ...],
    ) -> dict[str, str]:
        """The activation after each module, if the order of an nn.Sequential shows it; otherwise the caller must pass
        it."""
        attention = {module.name for module in own}
        inside = attention | {p.name for p in described.parts if any(_together(p.name, one) for one in attention)}
        placed = attention | {module.name for module in modules}
        after: dict[str, str] = {}
        seen: set[str] = set()
        for sequence in described.sequences:
            last = ""  # the module that the parts follow
            for name in sequence:
                part = described.part(name)
                self.source.budget.visit(name)
                if name in placed:
                    if last:
                        after.setdefault(last, "linear")
                    last = "" if name in inside else name
                elif part is not None and last and not part.is_nothing and part.activation != "linear":
                    seen.add(name)
                    if name in learned or part.activation:
                        if last in after:
                            raise self.source.error(last, f"is followed by several activations{ADVICE}")
                        after[last] = name if name in learned else str(part.activation)
                    elif not (part.probability and part is described.parts[-1]):
                        raise self.unsupported(part)
        open_parts = [
            part
            for part in described.parts
            if part.name not in placed | inside | seen and (part.name in learned or not self.harmless(part, bool(own)))
        ]
        unknown = [module.name for module in inner if module.name not in after]
        last = modules[-1].name
        if not unknown and len(open_parts) == 1 and modules[-1].kind == "linear" and last not in after:
            part = open_parts[0]
            if part.activation == "sigmoid" and part is described.parts[-1]:
                self.assumed.append(f"{part.name} (Sigmoid), defined last, is the probability of the scores")
                return {**after, last: "sigmoid"}
        if unknown or (open_parts and self.entries is None):
            raise self.ask_places(described, placed, unknown, open_parts if self.entries is None else [])
        return after

    def harmless(self, part: ModulePart, weighted: bool) -> bool:
        """Whether a part without arrays does nothing, or is the probability at the end."""
        if part.probability and (weighted or (self.described and part is self.described.parts[-1])):
            return True
        return part.is_nothing or (not part.foreign and (part.activation == "linear" or part.kind == "Flatten"))

    def unsupported(self, part: ModulePart) -> Exception:
        """The error about a part of an nn.Sequential that is unknown, or that has special settings."""
        if not part.odd:
            return self.source.error(part.name, f"is {part.kind}, which is not supported{ADVICE}, with activations")
        given = ", ".join(f"{key}={value}" for key, value in part.odd.items())
        return self.source.error(
            part.name, f"is {part.kind}({given}), which is not supported; export the module to ONNX and load that"
        )

    def ask_places(
        self, described: Described, placed: set[str], unknown: list[str], open_parts: list[ModulePart]
    ) -> Exception:
        """The error that asks where the parts of a whole module are applied."""
        wanted = placed | {part.name for part in open_parts}
        names = [part.name for part in described.parts if part.name in wanted][:50]
        reason = f"does not store the activations after {', '.join(n for n in names if n in unknown)}"
        if open_parts:
            shown = ", ".join(f"{part.name} ({part.kind})" for part in open_parts[:10])
            reason = f"has {shown}, and does not store where they are applied"
        else:
            names = [text for name in names for text in ((name, "relu") if name in unknown else (name,))]
        return self.source.error("", f"{reason}; {_say(names)}")

    def assume_none(self, steps: list[Step], after: Mapping[str, str]) -> None:
        """Note the modules without an activation, unless `layers` lists the activations ('linear' is one)."""
        if any(isinstance(step, str) for step in steps):
            return
        plain = []
        for step, following in zip_longest(steps, steps[1:]):
            if not isinstance(step, Module) or step.kind in ("embedding", "prelu") or step.name in after:
                continue
            if following is None and self.said.output is not None:  # the caller named the output activation
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
            f"does not store the activations after {names}; pass activations=[{example}], one for each, "
            f"'linear' where there is none{got}",
        )


def _say(names: list[str]) -> str:
    return f"say layers=[{', '.join(map(repr, names))}] {_PLACES}"


def _together(name: str, other: str) -> bool:
    """Whether two parts are in the same module inside the network: attention.1 and attention.2."""
    return "." in name and "." in other and name.rpartition(".")[0] == other.rpartition(".")[0]


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


def is_branched(steps: list[Step]) -> bool:
    """Whether `layers` describes more than a chain: joins, start states, halves of vectors."""
    words = any(isinstance(step, Word) and step.name in ("concat", "magnitude") for step in steps)
    return words or any("start" in step.settings for step in steps if isinstance(step, Module))


def _decided(module: Module) -> Module:
    """A module whose kind is open, by its name."""
    if module.kind != "matrix":
        return module
    return replace(module, kind="embedding" if _is_embedding(module) else "linear")


def _encoder_decoder(modules: list[Module]) -> list[str] | None:
    """`layers` for two recurrent modules, each with an embedding, the second of which starts where the first ends."""
    recurrent = [module for module in modules if module.recurrent]
    embeddings = [module for module in modules if _is_embedding(module) or module.kind == "embedding"]
    others = [module.name for module in modules if module not in recurrent and module not in embeddings]
    if len(recurrent) != 2 or len(embeddings) != 2 or len({(one.kind, one.outputs) for one in recurrent}) > 1:
        return None
    first, second = recurrent
    before, after = embeddings
    return [before.name, first.name, after.name, f"{second.name}(start={first.name})", *others]


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
