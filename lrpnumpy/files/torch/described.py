"""What a whole PyTorch module says of the activations between its parts: the order of an nn.Sequential, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lrpnumpy.files.safe import Source
from lrpnumpy.files.torch.modules import ADVICE, Module
from lrpnumpy.files.torch.pickled import Described, ModulePart


class WantedActivations(NamedTuple):
    """What activations are wanted for."""

    modules: list[Module]  # as they are applied
    inner: list[Module]  # those after which an activation may follow
    learned: Mapping[str, Module]  # activations that have arrays
    attention: tuple[Module, ...]
    placed: bool  # `layers` was said: activations that it does not name are not used


def activations_of(
    source: Source, described: Described, asked: WantedActivations, assumed: list[str]
) -> dict[str, str]:
    """The activation after each module, where the order of an nn.Sequential says it; else the caller is asked."""
    return _Sequences(source, described, asked, assumed).read()


class _Sequences:
    """The parts of a module that are not placed yet, and the activations that are found."""

    def __init__(self, source: Source, described: Described, asked: WantedActivations, assumed: list[str]) -> None:
        self.source, self.described, self.asked, self.assumed = source, described, asked, assumed
        parts = described.parts
        self.works = {part.name: part.activation for part in parts if part.activation not in (None, "linear")}
        self.works |= {name: name for name in asked.learned}
        attention = {module.name for module in asked.attention}
        self.own = attention | {part.name for part in parts if any(_together(part.name, one) for one in attention)}
        self.weighted = attention | {module.name for module in asked.modules}
        self.open_parts = {p.name: p for p in parts if p.name in self.works and p.name not in self.own}
        self.after: dict[str, str] = {}

    def read(self) -> dict[str, str]:
        """All of it."""
        for sequence in self.described.sequences:
            for k, name in enumerate(sequence):
                if name in self.weighted and name not in self.own:
                    self.following(name, sequence, k + 1)
        self.probability()
        self.ask()
        return self.after

    def following(self, name: str, sequence: list[str], start: int) -> None:
        """What stands between a module and the next one of an nn.Sequential."""
        until = next((n for n in range(start, len(sequence)) if sequence[n] in self.weighted), None)
        between = [part for other in sequence[start:until] if (part := self.described.part(other))]
        self.source.budget.visit(name, len(between))
        found = [self.works[part.name] for part in between if part.name in self.works]
        plain = [part for part in between if part.is_nothing or part.probability or part.activation == "linear"]
        odd = [part for part in between if part.name not in self.works and part not in plain]
        if odd and odd[0].odd:
            given = ", ".join(f"{key}={value}" for key, value in odd[0].odd.items())
            raise self.source.error(
                odd[0].name,
                f"is {odd[0].kind}({given}), which is not supported; export the module to ONNX and load that",
            )
        if odd or len(found) > 1:
            raise self.source.error(
                odd[0].name if odd else name,
                f"is {odd[0].kind if odd else 'followed by several activations'}, which is not supported{ADVICE}, "
                "with activations such as 'relu' among them",
            )
        for part in between:
            self.open_parts.pop(part.name, None)
        if found and found[0] is not None:
            self.after[name] = found[0]
        elif until is not None:
            self.after.setdefault(name, "linear")

    def probability(self) -> None:
        """A Sigmoid that is defined last is the probability of the scores."""
        last = self.asked.modules[-1]
        unknown = [module for module in self.asked.inner if module.name not in self.after]
        if not unknown and len(self.open_parts) == 1 and last.kind == "linear" and last.name not in self.after:
            (part,) = self.open_parts.values()
            if part.activation == "sigmoid" and self.described.parts[-1] is part:
                self.after[last.name] = "sigmoid"
                self.open_parts = {}
                self.assumed.append(f"{part.name} (Sigmoid), defined last, is the probability of the scores")

    def ask(self) -> None:
        """Ask for what is still open."""
        placed = self.weighted | self.own
        foreign = [part for part in self.described.parts if part.name not in placed and not self.harmless(part)]
        unknown = {module.name for module in self.asked.inner if module.name not in self.after}
        if not unknown and (self.asked.placed or not (self.open_parts or foreign)):
            return
        parts = [] if self.asked.placed else [*self.open_parts.values(), *foreign]
        shown = ", ".join(f"{part.name} ({part.kind})" for part in parts[:10])
        opened = {part.name for part in parts}
        names = [part.name for part in self.described.parts if part.name in self.weighted or part.name in opened]
        example = ", ".join(f"'{name}'" + (", 'relu'" if name in unknown and not parts else "") for name in names[:50])
        has = (
            f"has {shown}, and does not say where they are applied"
            if parts
            else f"does not say which activations stand after {', '.join(name for name in names if name in unknown)}"
        )
        raise self.source.error(
            "",
            f"{has}; say layers=[{example}] with every module and activation in the place where it is applied, "
            "or without those that are not used",
        )

    def harmless(self, part: ModulePart) -> bool:
        """Whether a part without arrays is understood wherever it is applied."""
        if part.probability and (part is self.described.parts[-1] or self.own):
            return True
        return not part.foreign and (part.is_nothing or part.activation is not None or part.kind == "Flatten")


def _together(name: str, other: str) -> bool:
    """Whether two parts are in the same module inside the network: attention.1 and attention.2."""
    return "." in name and "." in other and name.rpartition(".")[0] == other.rpartition(".")[0]
