"""What was understood of a weight file, as a record that prints itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lrpnumpy.checks import printable
from lrpnumpy.inputs import Input
from lrpnumpy.model import READOUT, Model


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
        """Whether the file is in our own format, which says everything."""
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
            lines += [
                f"  models    {len(self.models)}; pick one with which=",
                *(f"    {name}" for name in self.models),
            ]
        if self.model is not None:
            lines += _described(self.model)
            if not self.notes and self.model.provenance:  # an import has nothing there but these notes
                lines += ["  provenance", *(f"    {key}: {v}" for key, v in self.model.provenance.items())]
        if self.notes:
            lines += ["  assumed", *(f"    - {note}" for note in self.notes)]
        return "\n".join(map(printable, lines))


def _described(model: Model) -> list[str]:
    lines = []
    for name, port in model.inputs.items():
        lines += _input(name if len(model.inputs) > 1 else "", port)
    for node in model.network:
        if model.readout is None or node.name != READOUT:
            first, *rest = node.layer.described().split("\n")
            lines += [f"  layer {node.name:<3} {first}", *(f"          {line}" for line in rest)]
        if model.readout is None:  # nodes say themselves what they take
            lines.append(f"            of {', '.join(node.inputs)}")
        elif node.name == READOUT or f"{node.name}:last" in model.used:
            lines.append(f"  readout   {model.readout}: {_READOUTS[model.readout]}")
    if model.readout == "every":
        lines.append(f"  readout   every: {_READOUTS['every']}")
    probability = "" if model.output == "linear" else f"; probabilities by {model.output}"
    unit = "" if model.output_unit is None else f" in {model.output_unit}"
    scaled = "" if model.output_scaler is None else "; the target was scaled"
    where = "" if model.result == model.network[-1].name else f" of {model.result}"
    lines.append(f"  scores    {model.outputs}{where}{_some(model.classes)}{unit}{probability}{scaled}")
    lines.append(f"  numbers   {model.dtype.name}")
    return lines


def _input(name: str, port: Input) -> list[str]:
    """What an input takes; `name` is empty where there is only one."""
    label = f" {name}:" if name else ""
    embedding = port.embedding
    if embedding is None:
        lines = [f"  inputs   {label} {port.size} features{' a step' if port.steps else ''}" + _some(port.features)]
        if port.scaler is not None:
            lines.append("            given in the user's units and scaled by a mean and a scale for each")
        if port.mask_value is not None:
            lines.append(f"            steps whose features all equal {port.mask_value:g} are skipped")
        return lines + _padding(port)
    words = "no vocabulary, inputs are token ids"
    if embedding.vocabulary is not None:
        shown = " ".join(embedding.vocabulary[:5])
        cut = embedding.settings()["tokenizer"]
        words = f"words {shown} …, cut by {cut!r}" + (", lowercased" if embedding.lowercase else "")
    lines = [f"  embedding{label} {len(embedding.E):,} tokens of {embedding.size}; {words}"]
    if embedding.unknown is not None:
        lines.append(
            f"            unknown words are {'left out' if embedding.unknown is False else repr(embedding.unknown)}"
        )
    if embedding.mask is not None:
        lines.append(f"            token {embedding.mask} is padding and skipped")
    return lines + _padding(port)


def _padding(port: Input) -> list[str]:
    if port.pad is None:
        return []
    length, side, value, cut = port.pad
    ends = {"pre": "start", "post": "end"}
    return [f"            filled up to {length} steps with {value:g} at the {ends[side]}, or cut at the {ends[cut]}"]


_READOUTS = {
    "last": "the final state, of each direction its own",
    "mean": "the mean over the steps",
    "max": "the maximum over the steps",
    "last-row": "the row of the last step, where a backward direction has read one step",
    "every": "one prediction for each step",
}


def _some(names: tuple[str, ...] | None) -> str:
    if names is None:
        return ""
    return ": " + ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
