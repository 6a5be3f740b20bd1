"""Odd calls: a public function, a valid call of it, one or two of its arguments replaced by something odd.

    python -m tests.attacks.odd_calls --cases 100000 --seed 1

Whatever is passed in, there is a result or an LrpError, within a few seconds, and no warning but ours. Which functions
there are is not listed here: `public` finds every public name, and every method of every kind of result. `calls` has
valid arguments for those that need some; a parameter that it does not name is drawn like any other.
"""

import argparse
import collections
import inspect
import json
import os
import re
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

import lrpnumpy as lrp
from lrpnumpy import evaluate
from tests.attacks.odd_values import odd_values
from tests.support import corpora

SECONDS = 120  # for one call, on a machine that is busy
RARE = 40  # so many of the quick calls come on one that is slow: pictures, files, rankings


def dask_bag():
    try:
        import dask.bag
    except ImportError:
        return None
    return dask.bag.from_sequence(["a b"], npartitions=1)


def calls(folder):
    """Valid calls: name -> function, arguments by name, and whether it is slow."""
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.normal(size=shape)  # noqa: E731
    cell, head = lrp.LSTM(draw(4, 2, 3), draw(4, 2, 2)), lrp.Dense(draw(2, 2))
    table = lrp.Embedding(draw(4, 3), ["<unk>", "a", "b", "c"], "<unk>")
    numbers = lrp.Model([cell, head], classes=["no", "yes"])
    words = lrp.Model([cell, head], embedding=table)
    every = lrp.Model([cell, head], readout="every")
    error = lrp.Model([cell, lrp.Dense(draw(3, 2))], readout="every")
    X, text = draw(5, 3), "a b c"
    e = lrp.explain(numbers, X, unit="feature", target=1)
    w = lrp.explain(words, text, spans=[(0, 2)])
    many = [lrp.explain(numbers, draw(5, 3), unit="feature", target=1) for _ in range(3)]
    lrp.save(numbers, folder / "m.h5")
    lrp.explain_corpus(words, ["a b", "c"], out=folder / "e")
    sentences = ["a b", "b c", "c a a"]
    common = {
        "model": numbers,
        "x": X,
        "method": "lrp-all",
        "target": 1,
        "unit": "step",
        "versus": 0,
        "spans": [(0, 2)],
    }
    several = {**common, "xs": [X, X[:2]], "spans": [[(0, 2)], [(1, 2)]], "target": [1, 1], "threads": 1}
    del several["x"]
    quick = {
        "explain": (lrp.explain, common | {"eps": 0.1, "gamma": 0.0, "hidden": True}),
        "explain words": (lrp.explain, common | {"model": words, "x": text}),
        "explain every": (lrp.explain, {**common, "model": every, "step": 2}),
        "explain cd": (lrp.explain, {**common, "method": "cd", "versus": None}),
        "explain occlusion": (
            lrp.explain,
            {**common, "method": "occlusion-f", "reference": draw(3), "tol": 0.0},
        ),
        "explain occlusion words": (
            lrp.explain,
            {**common, "model": words, "x": text, "method": "occlusion-p", "reference": "a"},
        ),
        "explain deeplift": (lrp.explain, {"model": numbers, "x": X, "method": "deeplift", "reference": draw(3)}),
        "explain mean": (
            lrp.explain,
            {"model": numbers, "x": X, "method": "deeplift", "reference": "mean", "data": [X]},
        ),
        "explain ig": (
            lrp.explain,
            {"model": words, "x": text, "method": "integrated-gradients", "nodes": 3, "gap": 0.1, "reference": "a"},
        ),
        "explain shapley": (lrp.explain, {"model": words, "x": text, "method": "shapley", "players": 2}),
        "explain many players": (
            lrp.explain,
            {"model": words, "x": text, "method": "shapley", "order": 2, "error": 0.5},
        ),
        "explain through": (lrp.explain, {"model": numbers, "x": X, "method": "deeplift", "through": {"0": [1]}}),
        "explain a unit": (lrp.explain, {"model": numbers, "x": X, "target": ("0", 1), "step": -1}),
        "decompose": (lrp.decompose, {"e": e, "periods": (2,), "by": "part"}),
        "decompose season": (lrp.decompose, {"e": e, "season": 2}),
        "decompose arrays": (lrp.decompose, {"e": e, "parts": {"a": X / 2, "b": X / 2}}),
        "Attribution": (lrp.Attribution, {"model": numbers, "method": "deeplift"}),
        "attribute": (
            lrp.Attribution(numbers, "deeplift").attribute,
            {"inputs": X[None], "baselines": 0.0, "target": 1, "return_convergence_delta": True},
        ),
        "explain_all": (lrp.explain_all, several),
        "explain_all words": (lrp.explain_all, {**several, "model": words, "xs": ["a b", "b c"]}),
        "compare": (
            lrp.compare,
            {"model": numbers, "x": X, "methods": ["lrp-all", "gradient"], "target": 1, "eps": 0.1},
        ),
        "predict": (lrp.predict, {"model": numbers, "x": X}),
        "predict words": (lrp.predict, {"model": words, "x": ["a", "b"]}),
        "predict_all": (lrp.predict_all, {"model": words, "xs": sentences, "threads": 1}),
        "trace": (lrp.trace, {"model": numbers, "x": X}),
        "explain_windows": (
            lrp.explain_windows,
            {"model": numbers, "series": X, "length": 3, "stride": 1, "target": 1, "threads": 1, "progress": False},
        ),
        "reconstruction_error": (lrp.reconstruction_error, {"model": error}),
        "from_json": (lrp.Explanation.from_json, {"text": json.dumps({})}),
        "for_class": (lrp.explain(numbers, X, target="all").for_class, {"target": 1}),
        "Explanation": (
            lrp.Explanation,
            {
                "inputs": {"x": lrp.InputPart(draw(5))},
                "scores": draw(2),
                "target": 1,
                "method": "mine",
                "activation": "softmax",
                "classes": ("no", "yes"),
                "options": {"versus": 0},
                "ledger": e.ledger,
                "spans": (),
            },
        ),
        "Explanation.with_first": (
            e.with_first,
            {
                "relevance": draw(5),
                "feature_relevance": draw(5, 3),
                "features": ("a", "b", "c"),
                "tokens": tuple("abcde"),
                "values": draw(5, 3),
                "labels": np.array([*"abcde"]),
                "marks": np.zeros(5, np.uint8),
            },
        ),
        "top": (e.top, {"k": 2}),
        "of_input": (e.of_input, {"name": "x"}),
        "summary": (lrp.explain_all(numbers, [X, X]).summary, {"by": ["a", "b"], "input": "x"}),
        "Embedding": (
            lrp.Embedding,
            {
                "E": draw(3, 2),
                "vocabulary": ["a", "b", "c"],
                "unknown": "a",
                "lowercase": True,
                "tokenizer": "space",
                "mask": 0,
            },
        ),
        "LSTM": (lrp.LSTM, {"U": draw(4, 2, 3), "W": draw(4, 2, 2), "b": draw(4, 2), "activation": "tanh"}),
        "GRU": (lrp.GRU, {"U": draw(3, 2, 3), "W": draw(3, 2, 2), "b": draw(3, 2), "reset_after": True}),
        "RNN": (lrp.RNN, {"U": draw(2, 3), "W": draw(2, 2), "b": draw(2)}),
        "Bidirectional": (lrp.Bidirectional, {"forward": cell, "backward": cell, "merge": "sum"}),
        "Dense": (lrp.Dense, {"V": draw(2, 2), "d": draw(2), "activation": "relu"}),
        "Conv1D": (
            lrp.layers.Conv1D,
            {"K": draw(3, 2, 2), "d": None, "stride": 1, "dilation": 1, "padding": "same", "groups": 1},
        ),
        "MaxPool1D": (lrp.layers.MaxPool1D, {"size": 2, "stride": 1, "padding": "valid"}),
        "AvgPool1D": (lrp.layers.AvgPool1D, {"size": 2, "stride": 1, "padding": (1, 1), "count_padding": True}),
        "Affine": (lrp.layers.Affine, {"s": draw(2), "t": draw(2)}),
        "LayerNorm": (lrp.layers.LayerNorm, {"gamma": draw(2), "beta": draw(2), "eps": 0.1}),
        "Activation": (lrp.layers.Activation, {"activation": "relu", "alpha": None, "slopes": None}),
        "Attention": (lrp.layers.Attention, {"scale": 1.0, "causal": True}),
        "AdditiveAttention": (lrp.layers.AdditiveAttention, {"scale": draw(2), "causal": True}),
        "AttentionPool": (lrp.layers.AttentionPool, {"v": draw(2), "W": draw(2, 2), "b": draw(2), "c": 0.0}),
        "MultiHeadAttention": (
            lrp.layers.MultiHeadAttention,
            {"Wq": draw(2, 2), "Wk": draw(2, 2), "Wv": draw(2, 2), "Wo": draw(2, 2), "bq": draw(2), "heads": 2},
        ),
        "Pad": (lrp.layers.Pad, {"before": 1, "after": 1}),
        "Repeat": (lrp.layers.Repeat, {"steps": 2}),
        "Reshape": (lrp.layers.Reshape, {"width": 2}),
        "Slice": (lrp.layers.Slice, {"start": 0, "stop": 2, "step": 1, "index": None, "axis": "steps"}),
        "Softmax": (lrp.layers.Softmax, {"axis": "features"}),
        "Transpose": (lrp.layers.Transpose, {"steps": 2}),
        "Input": (
            lrp.Input,
            {"size": 3, "steps": True, "features": ["a", "b", "c"], "mask_value": 0.0, "pad": (4, "pre", 0)},
        ),
        "Rule": (lrp.Rule, {"name": "mine", "shares": lambda gate, signal: (gate, signal)}),
        "Model": (
            lrp.Model,
            {
                "nodes": [cell, head],
                "embedding": table,
                "readout": "last",
                "classes": ["a", "b"],
                "features": None,
                "output": "softmax",
                "provenance": {"a": "b"},
                "output_unit": "mm",
                "window": 30,
                "default_method": "lrp-all",
            },
        ),
        "Model of numbers": (
            lrp.Model,
            {
                "nodes": [cell, head],
                "features": ["a", "b", "c"],
                "mask_value": 0.0,
                "scaler": (draw(3), [1.0, 2.0, 3.0]),
                "output_scaler": (0.0, 1.0),
            },
        ),
        "Model of nodes": (
            lrp.Model,
            {
                "nodes": [lrp.Node("a", cell, ("x",)), lrp.Node("b", head, ("a:last",))],
                "inputs": {"x": lrp.Input(3)},
                "result": "b",
            },
        ),
        "astype": (numbers.astype, {"dtype": "float32"}),
        "with_units": (numbers.with_units, {"features": ["a", "b", "c"]}),
    }
    slow = {
        "cite": (lambda used: lrp.cite(used), {"used": "lrp-all"}),
        "load": (
            lrp.load,
            {"path": folder / "m.h5", "max_bytes": 10**6, "classes": ["a", "b"], "check": None, "isolate": False},
        ),
        "inspect": (lrp.inspect, {"path": folder / "m.h5", "max_bytes": 10**6}),
        "save": (lrp.save, {"model": numbers, "path": folder / "s.h5", "overwrite": True}),
        "convert": (lrp.convert, {"source": folder / "m.h5", "target": folder / "c.h5", "overwrite": True}),
        "from_torch": (lrp.from_torch, {"module_or_state_dict": object(), "readout": "last"}),
        "from_keras": (lrp.from_keras, {"model": object()}),
        "open_explanations": (lrp.open_explanations, {"path": folder / "e"}),
        "explain_corpus": (
            lambda **given: run_corpus(folder, **given),
            {
                "model": words,
                "source": sentences,
                "method": "lrp-all",
                "target": 1,
                "unit": "step",
                "columns": {"a": [1, 2, 3]},
                "longest": 10,
                "max_line": 100,
                "chunk": 2,
                "threads": 1,
                "progress": False,
                "strict": True,
                "eps": 0.1,
                "format": None,
                "field": None,
                "overwrite": False,
                "workers": None,
            },
        ),
        "explain_bag": (
            lrp.explain_bag,
            {"model": words, "bag": dask_bag(), "method": "lrp-all", "target": 1, "bad": "raise"},
        ),
        "rank_methods": (
            lrp.rank_methods,
            {
                "model": numbers,
                "data": [X, X[:3]],
                "methods": ["lrp-all", "random"],
                "target": [0, 1],
                "measures": ["changes", "removal"],
                "reference": "zero",
                "unit": "step",
                "versus": None,
                "progress": False,
            },
        ),
        "plot.sentence": (lrp.plot.sentence, {"items": w, "width": 4.0}),
        "plot.ledger": (lrp.plot.ledger, {"e": w, "ax": None, "width": 4.0}),
        "plot.waterfall": (lrp.plot.waterfall, {"e": e, "ax": None, "width": 4.0}),
        "plot.series": (lrp.plot.series, {"e": e, "x": X, "ax": None, "width": 4.0}),
        "plot.feature_map": (lrp.plot.feature_map, {"e": e, "x": X, "width": 4.0}),
        "plot.bars": (lrp.plot.bars, {"many": many, "width": 4.0}),
        "plot.beeswarm": (lrp.plot.beeswarm, {"many": many, "width": 4.0}),
        "plot.memory": (lrp.plot.memory, {"many": many, "width": 4.0}),
        "plot.gates": (lrp.plot.gates, {"model": numbers, "x": X, "width": 4.0}),
    }
    series = lrp.explain_windows(numbers, X, length=3)
    corpus = lrp.explain_corpus(numbers, [X, X], out=lrp.Output(folder / "n", columns={"a": [1, 2]}))
    results = {
        "Explanation": e,
        "Explanation of words": w,
        "Explanation of all classes": lrp.explain(words, text, target="all", hidden=True),
        "Explanation against a reference": lrp.explain(numbers, X, "deeplift"),
        "Explanations": lrp.explain_all(numbers, [X, X]),
        "Comparison": lrp.compare(words, text, ["lrp-all", "cd"]),
        "Windows": series,
        "Summary": series.summary(by=["a", "b", "a"]),
        "Stored": corpus,
        "Ranking": lrp.rank_methods(numbers, [X, X[:3]], ["lrp-all", "random"], measures=["removal"]),
        "Report": lrp.inspect(folder / "m.h5"),
        "Method": lrp.methods()[0],
        "Model": numbers,
        "Input": lrp.Input(3),
    }
    good = {"path": folder / "page.html", "results": [e], "text": e.to_json(), "name": "x", "items": w}
    for title, function in public(results).items():
        if title not in quick | slow:
            given = {name: good[name] for name in inspect.signature(function).parameters if name in good}
            (slow if title.rpartition(".")[2] in SLOW or title.startswith("plot") else quick)[title] = function, given
    return quick, slow, odd_values(numbers, e)


SLOW = {"page", "figure", "to_html", "export", "write_page", "compose", "open", "horizons", "Composition"}
PYTHON = ("index", "count")  # of every Sequence
HIDDEN = {"Stored.some", "Report.with_names", "Input.scaled"}
HIDDEN |= {f"Method.{name}" for name in ("with_options", "prepare", "settle", "run", "settings")}


def public(results):
    """Every public function that takes arguments, and every such method of the results, by title.

    What is only for other modules of the package (HIDDEN) trusts its arguments.
    """
    found = {name: getattr(lrp, name) for name in lrp.__all__}
    found |= {f"plot.{name}": getattr(lrp.plot, name) for name in lrp.plot.__all__}
    found |= {name: one for name in evaluate.__all__ if not isinstance(one := getattr(evaluate, name), type)}
    for title, result in results.items():
        for name in dir(type(result)):
            public = not name.startswith("_") or name in ("__getitem__",)
            if public and name not in PYTHON and callable(getattr(type(result), name)):
                found[f"{title}.{name}"] = getattr(result, name)
    return {
        title: one
        for title, one in found.items()
        if callable(one)
        and not (isinstance(one, type) and issubclass(one, BaseException))
        and title not in HIDDEN
        and inspect.signature(one).parameters
    }


def run_corpus(folder, **given):
    """A corpus into a folder that is removed again."""
    out = folder / "out"
    try:
        corpora.run(out=out, **given)
    finally:
        shutil.rmtree(out, ignore_errors=True)


class TooLong(BaseException):
    """A call that does not come back."""


def _late(*_):
    raise TooLong


def attempt(function, given, odd=None):
    """None where there is a result or an LrpError, else what went wrong.

    An error of Python that was made an LrpError must name one of the arguments that are `odd`.
    """
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(SECONDS)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            look_at(invoke(function, given))
        except lrp.LrpError as error:
            assert str(error)
            named = re.search(r"^\w+: (\w+) cannot be used, got ", str(error))
            if named and odd and named[1] not in odd:
                return error
        except (Exception, TooLong) as error:
            return error
        finally:
            signal.alarm(0)
    for one in said:
        ours = issubclass(one.category, (lrp.RelevanceWarning, lrp.AssumptionWarning))
        if not ours and "NotImplemented" not in str(one.message):  # which becomes a TypeError in Python 3.14
            return one.category(f"{one.filename}:{one.lineno}: {one.message}")
    return None


def invoke(function, given):
    """Call a function with arguments by name; those that cannot have one, or stand before such, by position."""
    parameters = inspect.signature(function).parameters.values()
    last = max((k for k, one in enumerate(parameters) if one.kind in (0, 2)), default=-1)  # without a name
    named = dict(given)
    unnamed = [named.pop(one.name) for k, one in enumerate(parameters) if k <= last and one.name in named]
    return function(*unnamed, **named)


def look_at(found):
    """Whatever was made must also show itself; some shows what was put into it, by that one's own function."""
    if not isinstance(found, (tuple, lrp.Rule, lrp.Method, lrp.Embedding, lrp.InputPart)):
        repr(found), str(found)
    if isinstance(found, lrp.Explanation):
        found.to_json()
        if found.target != "all":
            found.top()
    if hasattr(found, "_repr_html_"):
        found._repr_html_()


def run(cases, seed, only=None):
    """Try so many odd calls; yields what is neither a result nor an LrpError."""
    rng = np.random.default_rng(seed)
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        quick, slow, values = calls(Path(name))
        os.chdir(name)
        try:
            for case in range(cases):
                table = slow if case % RARE == RARE - 1 else quick
                if only:
                    table = {key: one for key, one in (quick | slow).items() if only in key}
                title = [*table][rng.integers(len(table))]
                function, given = table[title]
                parameters = inspect.signature(function).parameters.values()
                named = [one.name for one in parameters if one.kind != one.VAR_KEYWORD]
                keys = [*dict.fromkeys([*given, *named])] or ["indent"]
                valid, given = given, dict(given)
                for one in parameters:
                    if one.default is one.empty and one.kind <= one.VAR_POSITIONAL and one.name not in given:
                        given[one.name] = values[rng.integers(len(values))]()
                if len(given) > 1 and rng.random() < 0.05:
                    a, b = rng.choice([*given], 2, replace=False)
                    given[a], given[b] = given[b], given[a]
                else:
                    for k in rng.integers(0, len(keys), rng.integers(1, 3)):
                        given[keys[k]] = values[rng.integers(len(values))]()
                odd = [key for key, value in given.items() if key not in valid or value is not valid[key]]
                wrong = attempt(function, given, odd)
                if wrong is not None:
                    yield case, title, given, wrong
        finally:
            os.chdir(before)


def shown(value):
    """An odd value in a line of the report."""
    try:
        return f"{type(value).__name__} {ascii(value)[:60]}"
    except Exception:
        return type(value).__name__


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--only", help="functions whose name has this in it")
    options = parser.parse_args()
    seen = collections.Counter()
    for case, title, given, wrong in run(options.cases, options.seed, options.only):
        ours = [one for one in traceback.extract_tb(wrong.__traceback__) if "lrpnumpy/" in one.filename]
        place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else title
        place = f"{type(wrong).__name__} {place}"
        seen[place] += 1
        if seen[place] == 1:
            print(f"case {case}: {title}: {place}: {ascii(str(wrong))[:160]}", flush=True)  # noqa: T201
            print("    ", ", ".join(f"{key}={shown(value)}" for key, value in given.items())[:700])  # noqa: T201
    print(f"seed {options.seed}: {options.cases} cases, {sum(seen.values())} foreign exceptions at {len(seen)} places")  # noqa: T201
    raise SystemExit(bool(seen))


if __name__ == "__main__":
    main()
