"""Does the model of a live PyTorch module give its scores? Inputs of several lengths and scales on which it must.

One run of a few ordinary steps cannot tell a mean from a sum over 7, or the last of 7 steps from step 6. So the scores
are compared for other lengths and scales, too, and for token ids that repeat or that have padding. Conditions such as
x == -999, which ordinary numbers never meet, are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError
from lrpnumpy.files.compare import matches, shown
from lrpnumpy.files.safe import Source, first_line
from lrpnumpy.files.torch.called import ModuleCall, ordinary, unchanged
from lrpnumpy.files.torch.merged import Sizes
from lrpnumpy.files.torch.recorded import Condition, Recorded, as_numpy, tensors
from lrpnumpy.model import Model
from lrpnumpy.predict import predict_all

LENGTHS, SCALES = (1, 7, 40), (0.1, 1.0, 10.0)
PADDED = (
    "the module takes the lengths of its sequences: pass each sequence at its own length, without padding; the model "
    "would compute with padding"
)


class Probe(NamedTuple):
    """An input that a module and its model are compared on."""

    kind: str
    given: list[Any]  # tensors, as the module takes them
    scale: float = 1.0
    pad: int | None = None  # the token id that may be padding
    place: str = "end"  # of the padding in each sequence: start, middle or end
    lengths: Sequence[int] | None = None  # of the sequences without padding, if the module is told them


@dataclass
class ScoreCheck:
    """A module, its model and how it is called."""

    source: Source
    call: ModuleCall
    which: str
    tolerance: float
    runs: Sequence[Recorded]

    @property
    def conditions(self) -> list[Condition]:
        """The conditions that became constants, of all runs."""
        return [*{text: condition for run in self.runs for text, condition in run.conditions.items()}.values()]

    def run(self, probe: Probe) -> np.ndarray | str:
        """What the module gives for a probe, or what it raised."""
        import torch

        args, kwargs = self.call.arguments(probe.given)
        try:
            with unchanged(self.call.module) as module, torch.no_grad():
                return as_numpy(dict(tensors(module(*args, **kwargs)))[self.which])
        except Exception as error:
            return first_line(error)

    def scores(self, model: Model, probe: Probe) -> np.ndarray | None:
        """What the model gives; None for an error."""
        try:
            if probe.lengths is not None and model.every:
                return None
            rows = list(predict_all(model, self.call.records(probe.given, probe.lengths)))
        except LrpError:
            return None
        if len({np.shape(row) for row in rows}) > 1:  # at every step, of sequences without their padding
            return None
        return np.stack(rows)

    def agrees(self, model: Model, scores: np.ndarray | None, y: np.ndarray) -> bool:
        """Whether a model gives what the module gives, as scores or as the probabilities that belong to them."""
        if scores is None:
            return False
        layouts = [y]
        if y.ndim == 3:  # steps before the batch, or features before the steps
            layouts += [np.swapaxes(y, 0, 1), np.swapaxes(y, 1, 2)]
        if y.ndim == 2 and scores.ndim == 3 and y.size == scores.size:  # batch and steps as one axis
            N, steps, width = scores.shape
            layouts += [y.T, y.reshape(scores.shape), y.reshape(steps, N, width).swapaxes(0, 1)]
        if y.size == scores.size and not model.every:  # the features of one record in several axes
            layouts += [one.reshape(scores.shape) for one in (y, np.moveaxis(y, min(1, y.ndim - 1), 0))]
        return any(matches(model, scores, one, self.tolerance) for one in layouts)

    def mismatch(self, model: Model, probe: Probe, scores: np.ndarray | None, y: np.ndarray) -> LrpError:
        """The error about other scores."""
        scale = "" if probe.scale == 1 else f" of numbers times {probe.scale:g}"
        ours = "takes no such input" if scores is None else f"gives {shown(scores, y)}"
        return self.source.error(
            "",
            f"gives {shown(y)} for {probe.kind}{scale}, the model made of it {ours}, {model!r}; the module does "
            "something else for other inputs; export the module to ONNX and load that",
        )

    def compared(self, model: Model) -> tuple[Model, list[str]]:
        """The model, which skips padding where the module does, and warnings; an error where the scores differ."""
        refused: dict[str, str] = {}
        warned: list[str] = []
        padded: list[str] = []  # probes with other scores
        tried: set[Any] = set()  # token ids as padding, and None
        for probe in self.probes(model):
            scores = self.scores(model, probe)
            if scores is None and probe.kind != "an input":  # an error for this input is not a wrong score
                continue
            y = self.run(probe)
            if isinstance(y, str):
                refused.setdefault(probe.kind, y)
                continue
            if scores is None:
                raise self.mismatch(model, probe, scores, y)
            if not np.isfinite(y).all():
                continue
            tried.add(probe.pad)
            if self.agrees(model, scores, y):
                continue
            if probe.pad is None or self.call.takes_lengths:
                raise self.mismatch(model, probe, scores, y)
            masked = _masked(model, probe.pad)
            if probe.place == "end" and self.agrees(masked, self.scores(masked, probe), y):
                model = masked
            else:
                padded.append(probe.kind)
        if padded:
            warned.append(
                f"the scores are not those of the module for {', '.join(padded)}: pass each sequence at its own "
                "length, without padding"
            )
        if not tried:
            raise self.source.error("", "gives no scores that could be compared; pass check=x, an input that it takes")
        for condition in self.conditions:
            fact = f"{condition.text} is {condition.value} for every input"
            if condition.value is None:
                fact = f"what the module does with {condition.text} is the same for every input"
            if tried.isdisjoint(condition.numbers):
                warned.append(f"assumed: {fact}")
        if self.call.takes_lengths:
            pad = _padding_id(self.call.module) if self.call.main.is_ids else None
            if pad is not None and not model.every and len(self.call.inputs) == 1:
                model = _masked(model, pad)
            else:
                warned.append(PADDED)
        if refused:
            reason = next(iter(refused.values()))
            warned.append(
                f"the module raises an error for {', '.join(refused)} ({reason}), so its scores were not compared there"
            )
        return model, warned

    # ---------------------------------------------------------------------------------------------------- the probes

    def probes(self, model: Model) -> Iterator[Probe]:
        """`check`, inputs of other lengths and scales, and token ids that repeat or end in padding."""
        call, rng = self.call, np.random.default_rng(0)
        tables = [port.embedding.E for port in model.inputs.values() if port.embedding is not None]
        if call.given is None:
            yield Probe("an input", call.tensors(call.sizes, rng))
        else:
            told = {port.axes: tensor for port, tensor in zip(call.ports, call.given, strict=True)}.get("L")
            yield Probe("an input", call.given, lengths=None if told is None else told.tolist())
        lengths = dict.fromkeys((call.sizes.T, *LENGTHS))
        is_words = call.main.is_ids and len(call.inputs) == 1
        for T in lengths if "T" in call.free else (call.sizes.T,):
            for scale in (1.0,) if is_words else SCALES:
                yield Probe(f"sequences of {T} steps", call.tensors(Sizes(call.sizes.N, T), rng, scale), scale)
        if len(call.inputs) > 1 or "T" not in call.main.axes:
            return
        if call.main.is_ids and tables:
            yield from self.of_ids(call, rng, len(tables[0]))
        elif call.takes_lengths:
            yield self.cut(call, rng, "padded sequences", None)

    def of_ids(self, call: ModuleCall, rng: np.random.Generator, rows: int) -> Iterator[Probe]:
        """Token ids that repeat, and those that end in padding."""
        axis = call.main.axes.index("T")
        given = call.tensors(call.sizes, rng)
        one = given[0].narrow(axis, 0, 1).expand_as(given[0]).clone()
        yield Probe("token ids that repeat", [one, *given[1:]])
        low, _ = ordinary(rows)
        reserved = [_padding_id(call.module), 0, *((1, rows - 1) if low > 1 else ())]
        reserved += [int(one) for condition in self.conditions for one in condition.numbers if one in range(rows)]
        for pad in dict.fromkeys(one for one in reserved if one is not None):
            yield self.cut(call, rng, f"token ids padded with {pad}", pad)
            if not call.takes_lengths:
                yield self.cut(call, rng, f"token ids that begin with {pad}", pad, "start")
                yield self.cut(call, rng, f"token ids with {pad} in the middle", pad, "middle")

    def cut(
        self, call: ModuleCall, rng: np.random.Generator, kind: str, pad: int | None, place: str = "end"
    ) -> Probe:  # fmt: skip
        """Sequences that are shorter than the tensor, each by one step more than the one before."""
        given, (count, T) = call.tensors(call.sizes, rng), call.sizes
        ends = [max(1, T - max(k, count == 1)) for k in range(count)]
        if pad is not None:
            x = given[0].movedim(call.main.axes.index("T"), -1)
            for row, end in zip(x if "N" in call.main.axes else [x], ends, strict=True):
                places = {"start": slice(0, T - end), "middle": slice(T // 2, T // 2 + 1), "end": slice(end, T)}
                row[..., places[place]] = pad
        for k, port in enumerate(call.ports):
            if port.axes == "L":
                given[k] = given[k].new_tensor(ends)
        return Probe(kind, given, pad=pad, place=place, lengths=ends if call.takes_lengths else None)


def _padding_id(module: Any) -> int | None:
    """The token id that the module's embedding has for padding."""
    found = (part.padding_idx for part in module.modules() if type(part).__name__ == "Embedding")
    return next(found, None)


def _masked(model: Model, pad: int) -> Model:
    """The model that skips a token id as padding, unless it skips another."""
    embedding, main = model.embedding, model.main
    if embedding is None or embedding.mask is not None:
        return model
    words = replace(model.inputs[main], embedding=replace(embedding, mask=pad))
    return replace(model, inputs={**model.inputs, main: words})
