"""The order in which PyTorch's modules are applied: as `layers` lists them, or as is safe to assume.

Arrays do not tell a program. One recurrent module and linear modules are taken in the order of the file, or in the only
order that fits; a whole module tells its activations inside an nn.Sequential. For everything else an error shows the
`layers` to pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, permutations, zip_longest
from typing import Any, NamedTuple

from lrpnumpy.activations import ACTIVATIONS
from lrpnumpy.files.hints import LayerHint
from lrpnumpy.files.safe import Source, kind_of, nearby
from lrpnumpy.files.torch.modules import GATES, NAMES, Module, called, of_gates
from lrpnumpy.files.torch.pickled import PROBABILITIES, Described, ModulePart, inside

_MOST = 7  # modules for which an order is looked for
_ATTENTION = re.compile(r"att|score|energy|align")
POOLS = {"MaxPool1d": "maxpool", "AvgPool1d": "avgpool"}  # classes of torch.nn
WORDS: dict[str, tuple[tuple[str, ...], str]] = {  # settings of each, in their order, and an example
    "repeat": ((), "repeat"),
    "maxpool": (("size", "stride", "padding"), "maxpool(2, stride=2, padding=0)"),
    "avgpool": (("size", "stride", "padding", "count_include_pad"), "avgpool(2, stride=2, padding=0)"),
    "pad": (("before", "after", "mode"), "pad(0, 64, reflect)"),
    "magnitude": ((), "magnitude"),
    "concat": ((), "concat(a, b)"),
    "attention": ((), "attention(score)"),
}
_IN_ORDER = "the modules are applied {}, one after the other, without branches, sums or other steps between them: {}"
_DESCRIBED = "the modules are connected as layers= describes, without other steps between them: {}"
_ALONE = "{} is the only module of the network, without other steps before or after it"
_LIVE = "lrp.from_torch(module, check=x)"
_PLACES = "with every module and activation in the place where it is applied, or without those that are not used"


class Word(NamedTuple):
    """Something without arrays that `layers` names: repeat, maxpool(2), concat(a, b), …; an activation with alpha."""

    name: str
    settings: dict[str, Any]
    kind: str = "word"
    recurrent: bool = False


Step = Module | Word | str  # a string is the name of an activation


@dataclass
class ModuleOrder:
    """The facts that determine the order: the file, the hints, the description of a module; and the assumptions."""

    source: Source
    said: Any  # Hints
    entries: list[LayerHint] | None
    described: Described | None
    assumed: list[str]

    def steps(self, modules: list[Module], unused: list[str]) -> list[Step]:
        """The modules as they are applied, with the activations between them; `unused` are arrays of no module."""
        entries, where = self.entries, "in the order of layers="
        if entries is None:
            names, where = self.proposed(modules)
            entries = [LayerHint(name, {}) for name in names]
        steps = self.decided([self.step(entry, modules) for entry in entries])
        if self.entries is not None:
            used = used_by(steps)
            unused += [inside(one.name, leaf) for one in modules if one.name not in used for leaf in one.shapes]
        if unused:
            self.assumed.append(f"these arrays are not used: {', '.join(unused)[:500]}")
        unclear = {module.name for module in modules if module.kind == "matrix" and not _is_embedding(module)}
        chosen = modules_in(steps)
        shown = ", ".join(module.name or "the recurrent module" for module in chosen)
        if is_branched(steps):
            self.assumed.append(_DESCRIBED.format(shown))
        elif len(chosen) > 1:
            self.assumed.append(_IN_ORDER.format(where, shown))
        else:
            self.assumed.append(_ALONE.format(shown))
        for module in chosen:
            if module.name in unclear:
                kind = "an Embedding" if module.kind == "embedding" else "a Linear"
                self.assumed.append(f"{module.name}.weight {module.shapes['weight']} is the weight of {kind}")
        if self.said.activations is not None:
            steps = self.activated(steps, chosen)
        self.assume_none(steps)
        return steps

    # ------------------------------------------------------------------------------------- the entries of `layers`

    def step(self, entry: LayerHint, modules: list[Module]) -> Step:
        """What one entry names: a module, an activation or a word."""
        self.source.budget.visit("layers", len(modules))
        name, settings = entry
        module = called(name, modules)
        part = called(name, self.described.parts) if self.described else None
        if name in WORDS and (module is None or settings):
            return self.word(name, settings, modules)
        if set(GATES) <= set(settings):
            return of_gates(self.source, entry, modules)
        if module is not None and module.problem and self.entries is not None:
            raise self.source.error(module.name, f"is {module.problem}, which is not supported in layers")
        if module is not None:
            return replace(module, settings={**module.settings, **settings})
        if name in ACTIVATIONS:
            return name
        if part is not None and part.is_nothing:
            return "linear"
        if part is not None and part.activation is not None:
            if part.alpha is None:
                return part.activation
            return Word(part.activation, {"alpha": float(part.alpha)})
        if part is not None and part.kind in POOLS and not part.foreign:
            return pool_of(self.source, part)
        if part is not None and part.kind not in PROBABILITIES:
            raise self.unsupported(part)
        there = ", ".join(repr(m.name) for m in modules)
        known = f"modules of the file, {there}, activations such as 'relu', or {', '.join(WORDS)}"
        raise self.source.error("", f"layers must name {known}, got {name[:80]!r}")

    def word(self, name: str, settings: dict[str, Any], modules: list[Module]) -> Word:
        """A word of `layers`, its settings by name: maxpool(2, stride=1)."""
        keys, example = WORDS[name]
        if name == "concat":
            return Word(name, settings)
        if name == "attention":
            found = [called(str(one), modules) for one in settings.values()]
            if len(found) not in (1, 2) or not all(one is not None and one.linear for one in found):
                raise self.source.error(
                    "",
                    "layers takes attention as 'attention(score)' or 'attention(inner, score)', which are Linear "
                    f"modules: softmax over the steps of score(tanh(inner(out))), got {[*settings.values()]}",
                )
            return Word(name, {"inner": found[0] if len(found) == 2 else None, "score": found[-1]})
        numbered = {f"_{k}": key for k, key in enumerate(keys)}
        given = {numbered.get(key, key): value for key, value in settings.items()}
        needed = {"size", "before", "after"}.intersection(keys)
        is_known = needed <= set(given) <= set(keys)
        numbers = [value for key, value in given.items() if (key, value) != ("mode", "reflect")]
        if not is_known or any(type(value) is not int for value in numbers):
            raise self.source.error("", f"layers takes {name} as {example!r}, got {settings}")
        return Word(name, given)

    def decided(self, steps: list[Step]) -> list[Step]:
        """The steps with the open kinds of matrices decided; an error if modules of a chain do not fit."""
        if is_branched(steps):
            return [_by_name(step) if isinstance(step, Module) else step for step in steps]
        chosen = modules_in(steps)
        found = list(fitting(chosen))
        if len(found) != 1:
            reason = "has modules whose shapes do not fit in the order given by layers"
            raise self.source.error("", f"{reason}: {listed(chosen)}")
        kinds = dict(zip(map(id, chosen), found[0], strict=True))
        return [kinds.get(id(step), step) for step in steps]

    def activated(self, steps: list[Step], chosen: list[Module]) -> list[Step]:
        """The steps with the activations that the caller passes: one after each Linear, or after each but the last."""
        if any(map(is_activation, steps)) or is_branched(steps):
            raise self.source.error("", "activations must be left out where layers names activations")
        given, inner = list(self.said.activations), inner_modules(chosen)
        for name in given:
            if name not in ACTIVATIONS:
                raise self.source.error("", f"unknown activation {kind_of(name)}{nearby(str(name), ACTIVATIONS)}")
        linears = [module.name for module in chosen if module.kind in ("linear", "conv")]
        if len(given) not in (len(inner), len(linears)):
            names = ", ".join(inner) or "no module"
            raise self.source.error("", f"activations must have one for each of {names}, got {len(given)}")
        after = dict(zip(linears, given, strict=False))
        found: list[Step] = []
        for step in steps:
            found += [step, after[step.name]] if isinstance(step, Module) and step.name in after else [step]
        return found

    def assume_none(self, steps: list[Step]) -> None:
        """Note the modules without an activation, unless `layers` lists the activations ('linear' is one)."""
        if self.entries is not None and self.said.activations is None and any(isinstance(s, str) for s in steps):
            return
        plain = []
        for step, following in zip_longest(steps, steps[1:]):
            is_named = following is None and self.said.output is not None  # the caller named the output activation
            is_bare = not is_named and (following is None or not is_activation(following))
            if is_bare and isinstance(step, Module) and step.kind not in ("embedding", "prelu"):
                plain.append(step.name or "the recurrent module")
        if plain:
            self.assumed.append(f"no activation is applied after {', '.join(plain)}")

    # ------------------------------------------------------------------------------------ what is safe to assume

    def proposed(self, modules: list[Module]) -> tuple[list[str], str]:
        """The entries of `layers` that are safe to assume, and whose order that is; an error proposes others."""
        wrong = [module for module in modules if module.problem]
        learned = [module.name for module in modules if module.kind == "prelu"]
        attention = find_attention(modules)
        rest = [m for m in modules if m not in wrong and m not in attention and m.name not in learned]
        doubts = [_unsupported(wrong)] if wrong else []
        if attention:
            doubts.append(f"has {listed(attention)}, which may be an attention over the steps")
        order, where = self.order(rest, doubts)
        after = self.after(order, learned, self.bare(modules, attention), doubts)
        if doubts and _are_outputs(order):
            doubts.insert(0, f"has {listed(order[-2:])}, which may be two outputs of the network")
            after = {name: following for name, following in after.items() if name != order[-2].name}
            order = order[:-1]
        top = [module for module in order if module.recurrent][-1:]
        entries = []
        for module in order:
            is_open = module.kind == "conv" and not module.settings
            entries.append(f"{module.name}(stride=1, padding=0)" if is_open else module.name)
            if attention and module in top:
                entries.append(f"attention({', '.join(one.name for one in attention)})")
            entries += after.get(module.name, [])
        entries += after.get("", [])
        if not doubts:
            return entries, where
        hint = f"; in PyTorch, open the module itself, which needs no hints: {_LIVE}"
        if (pair := _encoder_decoder(rest)) is not None:
            hint += f"; otherwise say layers={pair}, readout='every', if the second starts where the first ends"
        elif order and not (wrong and self.described):  # whose parts are all used
            hint += f"; otherwise say layers={entries} {'if the network does without them' if wrong else _PLACES}"
            if (repeated := _autoencoder(order, entries)) is not None:
                hint += f"; or layers={repeated}, readout='every', if the second repeats the last state of the first"
        there = "" if wrong else f": {listed(modules)}"
        raise self.source.error("", f"{doubts[0]}{hint}{there}")

    def order(self, modules: list[Module], doubts: list[str]) -> tuple[list[Module], str]:
        """The modules in the order of the file or in the only one that fits; otherwise a doubt, and an example."""
        recurrent = [module for module in modules if module.recurrent]
        plain = all(module.recurrent or module.linear or module.kind == "embedding" for module in modules)
        is_safe = self.described is not None or (plain and len(recurrent) == 1)
        found, where = list(fitting(modules)), "in the order of the file"
        if is_safe and not found:  # HDF5 and safetensors sort the names
            found, where = list(islice(self.orders(modules), 2)), "in the only order that fits"
        if len(found) == 1 and is_safe and _is_tidy(found[0], modules):
            return found[0], where
        if not recurrent:
            doubts.append("has no recurrent module")
        elif len(found) > 1:
            doubts.append("has modules whose shapes fit in more than one order")
        elif not found and is_safe:
            doubts.append("has modules whose shapes fit in no order")
        else:
            doubts.append("does not say in which order its modules are applied")
        return self.example(modules), where

    def orders(self, modules: list[Module]) -> Iterator[list[Module]]:
        """All orders of the modules that fit; of many modules only that of the file."""
        for order in permutations(modules) if len(modules) <= _MOST else [modules]:
            self.source.budget.visit("")
            yield from fitting(list(order))

    def example(self, modules: list[Module]) -> list[Module]:
        """Modules in an order that fits, without categories that would be Linears, if possible.

        If not all of them fit, it is the longest chain in the order of the file, preferably with all recurrent modules.
        """
        linears = {module.name for module in modules if module.kind == "linear"}
        recurrent = {module.name for module in modules if module.recurrent}
        chains = [order for order in self.orders(modules) if _is_tidy(order, modules)][:1]
        for some in ([module for module in modules if module.kind != "matrix" or not linears], modules):
            chains += [*islice(self.orders(some), 1), longest(some)]
        for order in chains:
            names = {module.name for module in order}
            if recurrent <= names and (names & linears or not linears):
                return order
        last = chains[-1]  # recurrent modules of which not all fit, with a head
        return last if linears & {module.name for module in last} else []

    def after(
        self, order: list[Module], learned: list[str], bare: list[ModulePart], doubts: list[str]
    ) -> dict[str, list[str]]:
        """The activations after each module, as an nn.Sequential has them; none where the caller passes them."""
        if self.said.activations is not None and not learned:
            return {}
        kinds = {**{part.name: part.kind for part in bare}, **dict.fromkeys(learned, "PReLU")}
        found, loose = self.sequential([module.name for module in order], kinds)
        places = [name for name in inner_modules(order) if name not in found]
        if loose:
            shown = ", ".join(f"{name} ({kinds[name]})" for name in loose[:10])
            doubts.append(f"has {shown}, and does not store where that is applied")
        elif places:
            doubts.append(f"does not store the activations after {', '.join(places)}")
        filler = [*loose, "relu"][0]
        found |= {name: [filler] for name in places}
        found[""] = loose[1:] if places else loose
        return found

    def sequential(self, names: list[str], kinds: Mapping[str, str]) -> tuple[dict[str, list[str]], list[str]]:
        """What follows each module inside an nn.Sequential, and the activations and pools that are in none."""
        if self.described is None:
            return {}, [*kinds]
        found: dict[str, list[str]] = {}
        loose = dict.fromkeys(kinds)
        for sequence in self.described.sequences:
            last = ""
            for name in sequence:
                self.source.budget.visit(name)
                if name in names:
                    found |= {last: found.get(last, [])} if last else {}
                    last = name
                elif last and name in loose:
                    del loose[name]
                    found.setdefault(last, []).append(name)
        end = self.described.parts[-1]
        if [*loose] == [end.name] and end.activation == "sigmoid" and names and names[-1] not in found:
            self.assumed.append(f"{end.name} (Sigmoid), defined last, is the probability of the scores")
            return {**found, names[-1]: [end.name]}, []
        return found, [*loose]

    def bare(self, modules: list[Module], attention: Sequence[Module]) -> list[ModulePart]:
        """The parts of a whole module that have no arrays and change the scores: activations and pools."""
        if self.described is None:
            return []
        known = {module.name for module in modules}
        beside = {_parent(module.name) for module in attention} - {""}
        found = []
        for part in self.described.parts:
            is_probability = part.probability and (part is self.described.parts[-1] or attention)
            is_nothing = part.is_nothing or part.activation == "linear" or part.kind == "Flatten"
            if part.name in known or _parent(part.name) in beside or is_probability or is_nothing:
                continue
            if part.foreign or (part.activation is None and part.kind not in POOLS):
                raise self.unsupported(part)
            found.append(part)
        return found

    def unsupported(self, part: ModulePart) -> Exception:
        """The error about a part that is unknown, or that has special settings."""
        given = ", ".join(f"{key}={value}" for key, value in part.odd.items())
        shown = f"{part.kind}({given})" if given else part.kind
        return self.source.error(
            part.name, f"is {shown}, which is not supported in a file; in PyTorch, open the module itself: {_LIVE}"
        )


def _unsupported(wrong: list[Module]) -> str:
    """Modules that are not supported, for an error message."""
    kind = wrong[0].problem.partition(",")[0]
    near = "" if kind in NAMES.values() else nearby(kind, NAMES.values())
    return f"has modules that are not supported: {listed(wrong)}{near}"


def _parent(name: str) -> str:
    """The module that a part is in."""
    return name.rpartition(".")[0]


def is_activation(step: Step) -> bool:
    """Whether a step works on each number by itself: it fits anywhere."""
    if isinstance(step, Module):
        return step.kind == "prelu"
    return isinstance(step, str) or step.name in ACTIVATIONS


def used_by(steps: list[Step]) -> set[str]:
    """The names of all modules of a chain, also of those in settings: gates, and the Linears of an attention."""
    found = [step for step in steps if isinstance(step, Module)]
    for step in steps:
        if isinstance(step, (Module, Word)):
            inner = step.settings.get("gates", step.settings).values()
            found += [one for one in inner if isinstance(one, Module)]
    return {module.name for module in found}


def modules_in(steps: list[Step]) -> list[Module]:
    """The modules of a chain but for the activations."""
    return [step for step in steps if isinstance(step, Module) and not is_activation(step)]


def inner_modules(modules: list[Module]) -> list[str]:
    """The linear modules and convolutions of a chain after which there may be an activation: all but its end."""
    linears = [module.name for module in modules if module.kind in ("linear", "conv")]
    return linears if not modules or modules[-1].kind != "linear" else linears[:-1]


def listed(modules: Sequence[Module]) -> str:
    """Modules for an error message."""
    more = f" and {len(modules) - 20} more" if len(modules) > 20 else ""
    return ", ".join(module.shown for module in modules[:20]) + more


def find_attention(modules: list[Module]) -> list[Module]:
    """One Linear to 1, or two, called attention or the like, that take what a recurrent module gives."""
    named = [module for module in modules if module.linear and _ATTENTION.search(module.name.lower())]
    widths = [module.outputs for module in modules if module.recurrent]
    if len(named) not in (1, 2) or named[-1].outputs != 1 or named[0].inputs not in widths:
        return []
    if len(named) == 2 and named[0].outputs != named[1].inputs:
        return []
    return named


def is_branched(steps: list[Step]) -> bool:
    """Whether `layers` describes more than a chain: joins, start states, halves of vectors."""
    words = any(isinstance(step, Word) and step.name in ("concat", "magnitude") for step in steps)
    return words or any("start" in step.settings for step in steps if isinstance(step, Module))


def _by_name(module: Module) -> Module:
    """A module whose kind is open, by its name."""
    if module.kind != "matrix":
        return module
    return replace(module, kind="embedding" if _is_embedding(module) else "linear")


def _is_tidy(order: list[Module], modules: list[Module]) -> bool:
    """Whether no matrix without bias, which may be of categories, is a Linear of a chain whose Linears have a bias."""
    matrices = {module.name for module in modules if module.kind == "matrix"}
    has_bias = any(module.kind == "linear" for module in modules)
    return not has_bias or all(module.name not in matrices for module in order if module.kind == "linear")


def _are_outputs(order: list[Module]) -> bool:
    """Whether the last two of a chain are Linears of one shape, and not numbered: fc1 and fc2 are a chain."""
    if [module.kind for module in order[-2:]] != ["linear", "linear"]:
        return False
    before, last = order[-2:]
    is_numbered = before.name.rstrip("0123456789") == last.name.rstrip("0123456789")
    return not is_numbered and before.shapes["weight"] == last.shapes["weight"]


def longest(modules: list[Module]) -> list[Module]:
    """The longest chain of modules with a recurrent one in it, in the order of the file; of the first hundred."""
    best: list[Module] = []
    modules = modules[:100]
    for start, first in enumerate(modules):
        order = [first]
        for module in modules[start + 1 :]:
            if module.inputs == order[-1].outputs:
                order.append(module)
        best = max(best, next(fitting(order), []), key=len)
    return best


def _autoencoder(order: list[Module], entries: list[str]) -> list[str] | None:
    """`layers` for two recurrent modules in a row whose network gives vectors as long as those it takes."""
    for first, second in pairwise(order):
        if first.recurrent and second.recurrent and order[0].inputs == order[-1].outputs:
            at = entries.index(second.name)
            return [*entries[:at], "repeat", *entries[at:]]
    return None


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
    first, rest = order[0], [replace(m, kind="linear") if m.kind == "matrix" else m for m in order[1:]]
    kinds: tuple[str, ...] = (first.kind,)
    if first.kind == "matrix":
        kinds = ("embedding",) if _is_embedding(first) else ("embedding", "linear")
    if any(m.kind == "embedding" or _is_embedding(m) for m in order[1:]):
        return
    for kind in kinds:
        found = [replace(first, kind=kind), *rest]
        if all(before.outputs == after.inputs for before, after in pairwise(found)):
            yield found


def _is_embedding(module: Module) -> bool:
    """Whether a matrix is an Embedding by its name."""
    return module.kind == "matrix" and "emb" in module.name.lower()


def pool_of(source: Source, part: ModulePart) -> Word:
    """A pool of a whole module as a word."""
    given = {key: single(value) for key, value in part.settings.items()}
    if given.get("ceil_mode") or given.get("dilation", 1) != 1:
        raise source.error(part.name, f"is {part.kind} with ceil_mode or dilation, which is not supported")
    names = {"kernel_size": "size", "stride": "stride", "padding": "padding"}
    found = {ours: given[key] for key, ours in names.items() if given.get(key) is not None}
    if given.get("count_include_pad") is False:
        found["count_include_pad"] = 0
    return Word(POOLS[part.kind], found)


def single(setting: Any) -> Any:
    """A setting that is a number, also where it is written as a tuple of one."""
    return setting[0] if isinstance(setting, tuple) and len(setting) == 1 else setting
