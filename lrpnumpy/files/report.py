"""What was understood of a weight file, as a record that prints itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from lrpnumpy.checks import printable
from lrpnumpy.model import Model


class Imported(NamedTuple):
    """The model that a reader made of a file, what it assumed, and which of that the caller is warned of."""

    model: Model
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    kind: str = ""  # of the file
    guessed: bool = False  # the network was told from its arrays and the caller's hints

    def report(self, file: Path) -> Report:
        """The report on the `file`; the model remembers where it came from, unless the file has said so."""
        found = Report(str(file), self.kind, self.model, tuple(self.notes), (), tuple(self.warnings))
        if found.is_native:
            return found
        origin = {"imported from": self.kind, "file": file.name}
        if self.notes:
            origin["assumed"] = "; ".join(self.notes)
        return replace(found, model=replace(self.model, provenance=origin))


@dataclass(frozen=True)
class Report:
    """The kind of a file, its model, what was assumed and why, and the names of its models if several."""

    file: str  # its name
    kind: str  # who wrote it, and in which format
    model: Model | None  # None where the file holds several
    notes: tuple[str, ...] = ()  # what was assumed
    models: tuple[str, ...] = field(default=())  # names to pick one by, with `which`
    warnings: tuple[str, ...] = field(default=())  # those of the notes that `load` warns of

    @property
    def is_native(self) -> bool:
        """Whether the file is in the native format, which is complete."""
        return self.kind.startswith("lrpnumpy ")

    def with_names(self, model: Model, notes: list[str]) -> Report:
        """The report on the same network as a `model` with words and names; `notes` say what was assumed about them."""
        if notes:
            assumed = "; ".join([*self.notes, *notes])
            model = replace(model, provenance={**(model.provenance or {}), "assumed": assumed})
        return replace(self, model=model, notes=(*self.notes, *notes))

    def __str__(self) -> str:
        lines = [self.file, f"  kind      {self.kind}"]
        if self.models:
            lines += [f"  models    {len(self.models)}; pick one with which=", *(f"    {name}" for name in self.models)]
        if self.model is not None:
            lines += self.model.summary().split("\n")
            if not self.notes and self.model.provenance:  # an import has nothing there but these notes
                lines += ["  provenance", *(f"    {key}: {v}" for key, v in self.model.provenance.items())]
        if self.notes:
            lines += ["  assumed", *(f"    - {note}" for note in self.notes)]
        return "\n".join(map(printable, lines))
