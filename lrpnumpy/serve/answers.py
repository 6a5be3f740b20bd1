"""What the live page asks, answered: a request of plain JSON values and a model to an explanation for the page."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, one_of
from lrpnumpy.counterfactual import counterfactual
from lrpnumpy.explain import COMPARED, explain
from lrpnumpy.files import SHIPPED
from lrpnumpy.methods import COSTLY, METHODS, UNSTABLE, find
from lrpnumpy.model import Model
from lrpnumpy.page import payload
from lrpnumpy.result import Explanation
from lrpnumpy.series import read_csv
from lrpnumpy.tables import Table

WORDS, STEPS = 500, 2_000  # of one input at most
CHARACTERS, CELLS = 20_000, 200_000  # of a text, of a CSV file
CLASSES = 12  # of more classes, only the one that is asked for is explained
LARGEST = 1_000  # of options that count something: every method stays within seconds
KEYS = (
    "text", "values", "labels", "features", "csv", "methods", "options", "target", "phrase", "step", "counterfactual",
)  # fmt: skip
MOST_CHANGES = 5  # of a counterfactual
SENTENCE = "This isn't a good movie, and it isn't funny."


def answer(model: Model, asked: Any) -> dict[str, Any]:
    """The payload of a page with one record, and what belongs to it.

    asked: one of `text`, `values` (with `labels`, and `features` as the names of columns) or `csv`; `methods`, one or
        two, and `options`, of which each uses those that it has; `target`, a class; `step` of a model that predicts at
        every step; `phrase`, (start, stop), whose score by contextual decomposition is wanted; `counterfactual`: true
        to ask which changes would turn the decision, or move a quantity halfway to that of the reference.
    """
    started = time.perf_counter()
    if not isinstance(asked, Mapping):
        raise LrpError(f"a question must be a JSON object, got {type(asked).__name__}.")
    for key in asked:
        one_of(key, "a question's entry", KEYS)
    x = _input(model, asked)
    methods = _methods(asked.get("methods", [model.method]))
    options = _options(asked.get("options", {}))
    common = {"target": asked.get("target"), "step": asked.get("step")}
    if model.outputs <= CLASSES:  # every class, where there are few: then the page switches between them by itself
        common["target"] = "all"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        every = []
        for method in methods:  # the page remembers the options of methods that were chosen before
            own = {name: value for name, value in options.items() if name in METHODS[method].options()}
            every.append(explain(model, x, method, **common, **own))
        phrase, other = None, None
        if asked.get("phrase") is not None:
            (span,) = explain(model, x, "cd", **common, spans=[asked["phrase"]]).spans or ()
            scores = [value if np.isfinite(value) else None for value in np.atleast_1d(span.relevance).tolist()]
            phrase = {"start": span.start, "stop": span.stop, "scores": scores}
        if asked.get("counterfactual"):
            other = _counterfactual(model, x)
    found = every[0]
    return {
        "page": payload([[one] for one in every], title="Live"),
        "phrase": phrase,
        "counterfactual": other,
        "predicted": found.predicted,
        "warnings": [*dict.fromkeys(str(one.message) for one in caught)],
        "milliseconds": round(1000 * (time.perf_counter() - started), 3),
        **_editable(found),
    }


def _counterfactual(model: Model, x: Any) -> dict[str, Any]:
    """Both predictions, the changes, and the changed input as the page may ask about it."""
    change = None
    if model.outputs == 1 and model.output == "linear":
        ledger: Any = explain(model, x, "deeplift").ledger
        change = float(ledger.reference - ledger.score) / 2
        if not change:
            raise LrpError("the prediction is that of the reference already; change a value and ask again.")
    found = counterfactual(model, x, change=change, most=MOST_CHANGES)
    if isinstance(found.x, list):
        changed: Any = {"text": " ".join(found.x)}
    else:
        changed = {"values": found.x.tolist()}
    return {"headline": found.headline, "changes": [one._asdict() for one in found.changes], "input": changed}


def _editable(found: Explanation) -> dict[str, Any]:
    """The input as the page may change it and send it back."""
    if found.tokens is not None:
        own = [t for t in range(len(found)) if t not in {*found.padding}]
        return {"tokens": [found.tokens[t] for t in own], "positions": own}
    assert found.values is not None
    labels = None
    if found.labels is not None:
        labels = [*found.step_names]
    features = [*(found.features or (f"x{d}" for d in range(found.values.shape[1])))]
    return {"values": found.values.tolist(), "labels": labels, "features": features}


def _input(model: Model, asked: Mapping[str, Any]) -> Any:
    """What is to be explained, if it is not too much."""
    given = [key for key in ("text", "values", "csv") if asked.get(key) is not None]
    if len(given) != 1:
        raise LrpError(f"a question must have one of text, values and csv, got {' and '.join(given) or 'none'}.")
    value: Any = asked[given[0]]
    if given == ["text"]:
        return _text(value, "text")
    if given == ["csv"]:
        return _short(_named(model, read_csv(_text(value, "csv", 1 << 20), CELLS)))
    try:
        array = np.array(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise LrpError("values must be a list of steps with as many numbers each.") from None
    if array.ndim != 2 or not array.size:
        raise LrpError(f"values must be a list of steps with as many numbers each, got shape {array.shape}.")
    labels, features = (_names(asked.get(key), key) for key in ("labels", "features"))
    if labels is not None and len(labels) != len(array):
        raise LrpError(f"labels must be one for each of {len(array)} steps, got {len(labels)}.")
    if features is not None and len(features) != array.shape[1]:
        raise LrpError(f"features must be one for each of {array.shape[1]} columns, got {len(features)}.")
    return _short(Table(array, None if labels is None else np.array(labels), features))


def _named(model: Model, table: Table) -> Table:
    """Columns are found by their names where these are the model's, else by their order."""
    is_named = table.features is not None and not {*(model.features or ())} & {*table.features}
    if is_named and table.values.shape[1] == model.input_size:
        return table._replace(features=None)
    return table


def _names(value: Any, what: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(one, str) and len(one) < 1000 for one in value):
        raise LrpError(f"{what} must be a list of texts.")
    return tuple(value)


def _short(table: Table) -> Table:
    if len(table.values) > STEPS:
        raise LrpError(f"a series must have at most {STEPS:,} steps here, got {len(table.values):,}.")
    return table


def _text(value: Any, what: str, most: int = CHARACTERS) -> str:
    if not isinstance(value, str) or len(value) > most:
        got = type(value).__name__
        if isinstance(value, str):
            got = f"{len(value):,}"
        raise LrpError(f"{what} must be a text of at most {most:,} characters, got {got}.")
    if len(value.split()) > WORDS and what == "text":
        raise LrpError(f"{what} must have at most {WORDS} words here, got {len(value.split()):,}.")
    return value


def _methods(given: Any) -> list[str]:
    if not isinstance(given, list) or not 1 <= len(given) <= 2 or len({*map(str, given)}) < len(given):
        raise LrpError("methods must be a list of one or two names.")
    return [find(name).name for name in given]


def _options(given: Any) -> dict[str, Any]:
    """Options of methods from plain JSON values: those that the command line has, in sizes that are sane."""
    if not isinstance(given, Mapping):
        raise LrpError(f"options must be a JSON object, got {type(given).__name__}.")
    known = {one["name"]: one for method in METHODS for one in options_of(method)}
    for name, value in given.items():
        one_of(name, "an option", tuple(known))
        if isinstance(value, bool) or not isinstance(value, (int, float, str)) or len(str(value)) > 200:
            raise LrpError(f"{name} must be a number or a short text, got {type(value).__name__}.")
        is_count = known[name]["kind"] in ("whole", "text") and not isinstance(value, str)
        if is_count and not (isinstance(value, int) and 0 < value <= LARGEST):
            raise LrpError(f"{name} must be a whole number from 1 to {LARGEST:,} here, got {value!r}.")
    return dict(given)


def options_of(method: str) -> list[dict[str, Any]]:
    """The options of a method that the page has a field for: name, kind, default, choices, and what it does."""
    found = []
    for name, option in METHODS[method].options().items():
        row = {"name": name, **option._asdict(), "choices": [*option.choices] or None}
        if option.default is None:
            row["default"] = ""
        if option.kind:
            found.append(row)
    return found


def facts(model: Model, name: str, start: dict[str, Any]) -> dict[str, Any]:
    """What the page must know of a model: what it takes, which classes, methods and options there are.

    start: the question that it begins with.
    """
    ways = [one for one in METHODS.values() if one.name != "occlusion-p" or model.output != "linear"]
    # Where the menu has a method: those that `compare` shows first, those that often fail their evidence last.
    groups = {**dict.fromkeys(UNSTABLE, "unstable"), **dict.fromkeys(COMPARED, "recommended")}
    kind = "series"
    if model.embedding is not None and model.embedding.vocabulary is not None:
        kind = "words"
    return {
        "model": name,
        "start": start,
        "kind": kind,
        "features": model.features and [*model.features],
        "inputs": model.input_size,
        "classes": model.classes and [*model.classes],
        "every": model.every,
        "method": model.method,
        "every_class": model.outputs <= CLASSES,
        "methods": [
            {
                "name": one.name,
                "description": one.description,
                "costly": one.name in COSTLY,
                "group": groups.get(one.name, "others"),
                "options": options_of(one.name),
            }
            for one in ways
        ],
        "limits": {"words": WORDS, "steps": STEPS, "characters": CHARACTERS},
    }


def check_model(model: Model) -> None:
    """Refuse a model that the page has no fields for."""
    if len(model.inputs) > 1:
        raise LrpError(
            f"serve needs a model with one input; this one has {len(model.inputs)}: {', '.join(model.inputs)}."
        )
    port = model.inputs[model.main]
    if port.embedding is not None and port.embedding.vocabulary is None:
        raise LrpError("serve: the model takes token ids and has no vocabulary; pass --vocabulary FILE.")


def example(model: Model, name: str) -> dict[str, Any]:
    """A question to start with: a sentence or series of a bundled model, else a neutral one."""
    if model.embedding is not None:
        if name in ("sentiment", "sentiment-2"):
            return {"text": SENTENCE}
        words = [word for word in model.embedding.vocabulary or () if word.isalpha()]
        return {"text": " ".join(words[:8] or (model.embedding.vocabulary or ())[:8])}
    for folder in SHIPPED:
        if name.isidentifier() and (folder / f"{name}.csv").is_file():
            return {"csv": (folder / f"{name}.csv").read_text("utf-8")}
    port = model.inputs[model.main]
    mean, scale, count = 0.0, 1.0, 1
    if port.scaler is not None:
        mean, scale = port.scaler.mean, port.scaler.scale
    if port.steps:
        count = max(24, model.least[model.main])
    wave = np.repeat(np.sin(np.arange(count) / 3)[:, None], model.input_size, axis=1)
    return {"values": (wave * np.asarray(scale) + mean).tolist()}
