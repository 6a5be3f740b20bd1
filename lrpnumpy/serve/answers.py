"""What the live page asks, answered: a request of plain JSON values and a model to an explanation for the page."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from lrpnumpy.checks import LrpError, names, one_of, shown
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
KINDS: dict[str, Any] = {  # what a question may have
    "text": str, "values": list, "labels": list, "features": list, "csv": str, "methods": list, "options": dict,
    "target": (int, str), "phrase": list, "step": int, "counterfactual": bool,
}  # fmt: skip
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
    asked = {key: value for key, value in asked.items() if value is not None}
    for key, value in asked.items():
        if not isinstance(value, KINDS[one_of(key, "a question's entry", tuple(KINDS))]):
            raise LrpError(f"{key} of a question has the wrong type, got {shown(value)}.")
    x = _input(asked)
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
        if "phrase" in asked:
            spans: Any = explain(model, x, "cd", **common, spans=[asked["phrase"]]).spans
            (span,) = spans
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
    changed = {"text": " ".join(found.x)} if isinstance(found.x, list) else {"values": found.x.tolist()}
    return {"headline": found.headline, "changes": [one._asdict() for one in found.changes], "input": changed}


def _editable(found: Explanation) -> dict[str, Any]:
    """The input as the page may change it and send it back."""
    if found.tokens is not None:
        own = [t for t in range(len(found)) if t not in {*found.padding}]
        return {"tokens": [found.tokens[t] for t in own], "positions": own}
    assert found.values is not None
    features = [*(found.features or (f"x{d}" for d in range(found.values.shape[1])))]
    labels = None if found.labels is None else [*found.step_names]
    return {"values": found.values.tolist(), "labels": labels, "features": features}


def _input(asked: Mapping[str, Any]) -> Any:
    """What is to be explained, if it is not too much."""
    given = [key for key in ("text", "values", "csv") if key in asked]
    if len(given) != 1:
        raise LrpError(f"a question must have one of text, values and csv, got {' and '.join(given) or 'none'}.")
    if given == ["text"]:
        return _text(asked["text"], "text")
    if given == ["csv"]:
        table = read_csv(_text(asked["csv"], "csv", 1 << 20), CELLS)
    else:
        try:
            values, labels = np.array(asked["values"], np.float64), asked.get("labels")
        except (TypeError, ValueError, OverflowError):
            values, labels = np.empty(0), None
        if values.ndim != 2 or not values.size:
            got = shown(asked["values"])
            raise LrpError(f"values must be a list of steps with as many numbers each, got {got}.")
        if labels is not None:
            labels = np.array([str(label) for label in labels])
        table = Table(values, labels, names(asked.get("features"), "features", values.shape[1]))
    if len(table.values) > STEPS:
        raise LrpError(f"a series must have at most {STEPS:,} steps here, got {len(table.values):,}.")
    if table.labels is not None and len(table.labels) != len(table.values):
        raise LrpError(f"labels must be one for each of {len(table.values)} steps, got {len(table.labels)}.")
    return table


def _text(value: str, what: str, most: int = CHARACTERS) -> str:
    if len(value) > most:
        raise LrpError(f"{what} must have at most {most:,} characters, got {len(value):,}.")
    if len(value.split()) > WORDS and what == "text":
        raise LrpError(f"{what} must have at most {WORDS} words here, got {len(value.split()):,}.")
    return value


def _methods(given: list[Any]) -> list[str]:
    if not 1 <= len(given) <= 2 or len({*map(str, given)}) < len(given):
        raise LrpError("methods must be one or two different names.")
    return [find(name).name for name in given]


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """Options of methods from plain JSON values: those that the command line has, in sizes that are sane."""
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
    rows = []
    for name, option in METHODS[method].options().items():
        default = "" if option.default is None else option.default
        if option.kind:
            rows.append({"name": name, **option._asdict(), "choices": [*option.choices] or None, "default": default})
    return rows


def facts(model: Model, name: str, start: dict[str, Any]) -> dict[str, Any]:
    """What the page must know of a model: what it takes, which classes, methods and options there are.

    start: the question that it begins with.
    """
    # Where the menu has a method: those that `compare` shows first, those that often fail their evidence last.
    groups = {**dict.fromkeys(UNSTABLE, "unstable"), **dict.fromkeys(COMPARED, "recommended")}
    is_words = model.embedding is not None and model.embedding.vocabulary is not None
    return {
        "model": name,
        "start": start,
        "kind": "words" if is_words else "series",
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
            for one in METHODS.values()
            if one.name != "occlusion-p" or model.output != "linear"
        ],
        "limits": {"words": WORDS, "steps": STEPS, "characters": CHARACTERS},
    }


def check_model(model: Model) -> None:
    """Refuse a model that the page has no fields for."""
    if len(model.inputs) > 1 or (model.embedding is not None and model.embedding.vocabulary is None):
        raise LrpError(
            "serve needs a model with one input, which is numbers, or words of a vocabulary (pass --vocabulary FILE); "
            f"this one has {', '.join(model.inputs)}."
        )


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
    mean, scale = port.affine
    count = max(24, model.least[model.main]) if port.steps else 1
    wave = np.repeat(np.sin(np.arange(count) / 3)[:, None], model.input_size, axis=1)
    return {"values": (wave * scale + mean).tolist()}
