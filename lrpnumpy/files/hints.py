"""Model hints: what a caller can add to a weight file, in one list.

The arguments of `load`, `inspect`, `convert`, `from_torch` and `from_keras`, their documentation and the flags of the
command line all come from here.
"""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from lrpnumpy.checks import LrpError, entries, shown
from lrpnumpy.files.safe import Source
from lrpnumpy.layers.embedding import TOKENIZERS
from lrpnumpy.model import OUTPUTS, READOUTS

_ENTRY = re.compile(r"([^()]{0,200})(?:\(([^()]{0,200})\))?")  # of `layers`
NETWORK = ("readout", "layers", "activations", "output", "nonlinearity")  # also in `config`, or beside the arrays


def listed(text: str) -> list[str]:
    """Names on the command line, with commas between them; a comma in brackets is part of a name: conv(3, stride=1)."""
    whole = re.sub(r"\([^()]*\)", lambda match: match[0].replace(",", "\0"), text)
    return [name.replace("\0", ",").strip() for name in whole.split(",")]


def constants_of(text: str) -> list[tuple[str, float]]:
    """Constants on the command line: sr=16000, several with commas between them."""
    pairs = [one.rpartition("=") for one in text.split(",")]
    try:
        return [(name.strip(), float(value)) for name, _, value in pairs]
    except ValueError:
        from argparse import ArgumentTypeError  # only a command line needs it

        raise ArgumentTypeError(f"must be NAME=VALUE, such as sr=16000, got {text!r}") from None


def hint(text: str, flag: Any = None, metavar: str | None = None) -> Any:
    """A field of Hints: its documentation, and how the command line reads it.

    `flag` is a function of the typed text, a tuple of choices, or True for a switch; None where there is no flag.
    """
    return field(default=None, metadata={"text": text, "flag": flag, "metavar": metavar})


class LayerHint(NamedTuple):
    """One entry of `layers`: a name, and settings in brackets."""

    name: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Hints:
    """Every hint; None if it is not passed."""

    which: str | None = hint("one model, or one output, of a file or live module that has several", str)
    config: Any = hint(
        "for files with arrays only: Keras' configuration as JSON, JSON text, or the path of a JSON file", str, "FILE"
    )
    custom: Mapping[str, Callable[..., Any]] | None = hint(
        '{"SimpleAttention": f} defines an unknown Keras layer or ONNX operation, by its name: '
        "f(settings, arrays) takes two dicts and returns an lrpnumpy layer; for a file that `save` wrote, "
        '{"Scale": Scale} is the class of a custom layer'
    )
    constants: Mapping[str, Any] | None = hint(
        'inputs of an ONNX model that are always the same, {"sr": 16000} (sr=16000 on the command line); one number '
        "fills the whole array", constants_of, "NAME=VALUE"
    )  # fmt: skip
    readout: str | None = hint("PyTorch files: how the steps become a prediction", READOUTS)
    layers: Sequence[str] | None = hint(
        "names of PyTorch modules, or of Keras layers whose file has weights only, and activations, in the order in "
        "which they are applied; concat(a, b) joins their outputs, decoder(start=encoder) starts from its state",
        listed, "A,B,…"
    )  # fmt: skip
    activations: Sequence[str] | None = hint("activations after each linear module except the last", listed, "A,B,…")
    nonlinearity: str | None = hint("nonlinearity of a plain RNN in a state_dict", ("tanh", "relu"))
    output: str | None = hint("output activation that turns scores into probabilities", OUTPUTS)
    vocabulary: Any = hint(
        "the words of the embedding's rows: a list, words mapped to rows, or the path of a text file (one word per "
        "line) or JSON file", str, "FILE"
    )  # fmt: skip
    unknown: str | int | None = hint(
        "the word, or the row, used for words outside the vocabulary; an empty word leaves such words out",
        lambda text: text or False, "WORD"
    )  # fmt: skip
    lowercase: bool | None = hint("look words up in lower case", True)
    tokenizer: Any = hint(
        f"how a sentence is split into words: {', '.join(map(repr, TOKENIZERS))}, or a custom function from a string "
        "to a list of words", TOKENIZERS
    )  # fmt: skip
    pad: Sequence[Any] | None = hint(
        "padding used in training: (length, side, value), such as (50, 'pre', 0) (50,pre,0 on the command line), side "
        "'pre' or 'post'; longer inputs are truncated on the same side, or on that of a fourth entry", listed,
        "LENGTH,SIDE,VALUE"
    )  # fmt: skip
    features: Sequence[str] | None = hint("names of the features", listed, "A,B,…")
    classes: Sequence[str] | None = hint(
        "names of the classes; for one sigmoid also two names, the negative class first", listed, "A,B,…"
    )

    @property
    def given(self) -> dict[str, Any]:
        """The hints about the network itself that were passed."""
        return {name: getattr(self, name) for name in NETWORK if getattr(self, name) is not None}


def known(without: Sequence[str] = ()) -> dict[str, Field[Any]]:
    """All hints by name, except some."""
    return {one.name: one for one in fields(Hints) if one.name not in without}


def taken(function: str, given: Mapping[str, Any], without: Sequence[str] = ()) -> Hints:
    """The hints that a function was called with, each of the right kind."""
    for name in given:
        if name not in known(without):
            raise LrpError(f"{function}: unknown hint {name!r}; use one of {', '.join(known(without))}.")
    found = dict(given)
    for name in ("layers", "activations"):
        if (value := found.get(name)) is not None:
            if isinstance(value, str) or not np.iterable(value):
                raise LrpError(f"{function}: {name} must be a list of names, got {shown(value)}.")
            found[name] = [str(one) for one in entries(value, f"{function}: {name}", 1000)]
    if isinstance(found.get("unknown"), str) and not found["unknown"]:
        found["unknown"] = False
    if (constants := found.get("constants")) is not None:
        try:  # the command line gives pairs
            arrays = {name: np.asarray(value) for name, value in dict(constants).items()}
        except (TypeError, ValueError):
            arrays = {"": np.asarray("")}
        if not all(isinstance(name, str) and array.dtype.kind in "biuf" for name, array in arrays.items()):
            wanted = "a dict of names of inputs to numbers or arrays"
            raise LrpError(f"{function}: constants must be {wanted}, got {shown(constants)}.")
        found["constants"] = {name: array.tolist() for name, array in arrays.items()}
    custom = found.get("custom")
    if custom is not None and not (isinstance(custom, Mapping) and all(map(callable, custom.values()))):
        raise LrpError(f"{function}: custom must be a dict of names to functions, got {shown(custom)}.")
    return Hints(**found)


def as_flags(text: str) -> str:
    """A message with its hints as the command line takes them: --layers lstm,fc for layers=['lstm', 'fc']."""
    names = "|".join(name for name, one in known().items() if one.metadata["flag"] not in (None, True))

    def flag(match: re.Match[str]) -> str:
        values = re.findall(r"'([^']*)'", match[2])
        return f"--{match[1]} {shlex.quote(','.join(values))}" if values else match[0]

    return re.sub(rf"\b({names})=(\[[^\[\]]*\]|'[^']*')", flag, text)


def takes_hints(*without: str) -> Callable[[Any], Any]:
    """Decorator: name the hints in the signature and the documentation of a function."""

    def decorate(function: Any) -> Any:
        signature = inspect.signature(function)
        parameters = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        lines = []
        for one in known(without).values():
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(one.name, kind, default=one.default, annotation=one.type))
            lines.append(f"{one.name}: {one.metadata['text']}.")
        function.__signature__ = signature.replace(parameters=parameters)
        function.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", "Hints:", "", *lines, ""])
        return function

    return decorate


def layer_hints(source: Source, layers: Sequence[str]) -> list[LayerHint]:
    """An entry of `layers`."""
    found = []
    for text in layers:
        match = _ENTRY.fullmatch(text.strip())
        if match is None:
            raise source.error("", f"layers must name modules, as 'fc' or 'conv(stride=1)', got {text[:80]!r}")
        parts = [part.partition("=") for part in (match[2] or "").split(",") if part.strip()]
        settings: dict[str, Any] = {}
        for k, (key, sign, value) in enumerate(parts):
            value = (value or key).strip()
            is_number = re.fullmatch(r"[0-9]{1,6}", value)
            settings[key.strip() if sign else f"_{k}"] = int(value) if is_number else value
        found.append(LayerHint(match[1].strip(), settings))
    return found
