"""Odd calls: a public function, a valid call of it, one or two of its arguments replaced by something odd.

    python -m tests.attacks.odd_calls --cases 100000 --seed 1

Whatever is passed in, there is a result or an LrpError, within a few seconds.
"""

import argparse
import collections
import decimal
import fractions
import io
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np

import lrpnumpy as lrp
from lrpnumpy import evaluate

SECONDS = 30  # for one call, on a machine that is busy
RARE = 40  # so many of the quick calls come on one that is slow: pictures, files, rankings


class Word(str):
    """A string of one's own."""


class Whole(int):
    """A number of one's own."""


class Lazy:
    """Something with a length and no entries."""

    def __len__(self):
        return 3


class Broken(np.ndarray):
    """An array of one's own."""


def odd_values(model, e):
    """Functions that make odd values: some of them can be used once only."""
    circle = []
    circle.append(circle)
    ones = np.ones((4, 3))
    values = [
        None, True, False, 0, 1, -1, 2, 7, 10**400, -(10**400), 2**31, 2**63, -(2**63), 0.5, -0.0, 1e308, 1e-320,
        float("nan"), float("inf"), -float("inf"), 1 + 2j, complex("nan"), "", "x", "1", "all", "a b", "²", "\ud800",
        "\0", "nan", b"", b"x", bytearray(b"ab"), memoryview(b"ab"), Word("a"), Whole(1), (), [], [[]], [[], []], {},
        set(), {1}, {"a"}, frozenset(), {"a": 1}, {"x": ones}, {1: 2}, [None], [1], [1.5], ["a"], ["a", 1],
        ["a b", "b a"],
        [b"a"], [[1, 2, 3]], [[1.0, 2.0], [3.0]], [[[1.0]]], [10**400], [float("nan")] * 3, [1j], [[None] * 3], [{}],
        [set()], [object()], circle, range(3), range(0), slice(1), Ellipsis, NotImplemented, object, object(), len,
        lambda *_: 1, np.array(1), np.array(1.5), np.array("a"), np.array(None), np.array([]), np.zeros((0, 3)),
        np.zeros((3, 0)), np.zeros((2, 2, 2, 2)), np.array([1, 2]), np.array([True, False]), np.array(["a", "b"]),
        np.array([b"a"]), np.array([None, 1], object), np.array([[1.0, None, 2.0]], object), np.array([1 + 1j]),
        np.array([[np.nan] * 3]), np.array([[np.inf] * 3]), np.full((2, 3), 1e308), np.ones((4, 3), np.float16),
        np.ones((4, 3), np.longdouble), np.ones((4, 3), ">f8"), ones[::-1], ones.T, np.ones((2, 3), int),
        np.array(["2020-01-01"], "M8[D]"), np.zeros(2, [("a", float)]), np.ma.masked_array(ones, ones > 0),
        np.ma.masked_array(ones, ones < 0), np.matrix(ones), np.zeros((4, 3)).view(Broken), np.float32(1), np.int8(1),
        np.uint64(2**64 - 1), np.bool_(True), np.str_("a"), np.bytes_(b"a"), np.datetime64("2020"), np.timedelta64(1),
        np.dtype(float), np.random.default_rng(0), decimal.Decimal("1.5"), decimal.Decimal("nan"),
        fractions.Fraction(1, 3),
        Path("x"), Path(), Lazy(), collections.deque([1]), collections.OrderedDict(a=1), collections.Counter("ab"),
        lrp.Table(ones), lrp.Table(None), lrp.Table([[1, 2], [3]], [1]), lrp.Table(ones, ["a"]), model, e,
        [e], [model], type(e), lrp,
        Exception("x"), io.StringIO("x"), sys, "a" * 10_000, [0] * 10_000, ["a"] * 5, [(0, 2)],
        [(2, 1)], [(0, 99)], (0, 1),
    ]  # fmt: skip
    makers = [lambda value=value: value for value in values]
    return [
        *makers,
        lambda: iter([1]),
        lambda: (x for x in ("a", "b")),
        lambda: map(str, [1]),
        lambda: zip([1], [2], strict=True),
    ]


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
    e = lrp.explain(numbers, X, unit="variable", target=1)
    w = lrp.explain(words, text, spans=[(0, 2)])
    many = [lrp.explain(numbers, draw(5, 3), unit="variable", target=1) for _ in range(3)]
    lrp.save(numbers, folder / "m.h5")
    lrp.explain_corpus(words, ["a b", "c"], folder / "e.h5")
    sentences = ["a b", "b c", "c a a"]
    common = {
        "model": numbers,
        "x": X,
        "method": "lrp-all",
        "target": 1,
        "unit": "word",
        "versus": 0,
        "spans": [(0, 2)],
    }
    several = {**common, "sequences": [X, X[:2]], "spans": [[(0, 2)], [(1, 2)]], "target": [1, 1], "threads": 1}
    del several["x"]
    quick = {
        "explain": (lrp.explain, common | {"eps": 0.1, "gamma": 0.0, "hidden": True, "share_bias": False}),
        "explain words": (lrp.explain, common | {"model": words, "x": text}),
        "explain every": (lrp.explain, {**common, "model": every, "step": 2}),
        "explain cd": (lrp.explain, {**common, "method": "cd", "versus": None}),
        "explain occlusion": (
            lrp.explain,
            {**common, "method": "occlusion-f", "baseline": draw(3), "how": "zero", "tol": 0.0},
        ),
        "explain occlusion words": (
            lrp.explain,
            {**common, "model": words, "x": text, "method": "occlusion-p", "baseline": "a"},
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
        "explain_all": (lrp.explain_all, several),
        "explain_all words": (lrp.explain_all, {**several, "model": words, "sequences": ["a b", "b c"]}),
        "compare": (
            lrp.compare,
            {"model": numbers, "x": X, "methods": ["lrp-all", "gradient"], "target": 1, "eps": 0.1},
        ),
        "predict": (lrp.predict, {"model": numbers, "x": X, "trace": True}),
        "predict words": (lrp.predict, {"model": words, "x": ["a", "b"]}),
        "predict_all": (lrp.predict_all, {"model": words, "sequences": sentences, "threads": 1}),
        "trace": (lrp.trace, {"model": numbers, "x": X}),
        "explain_windows": (
            lrp.explain_windows,
            {"model": numbers, "series": X, "length": 3, "stride": 1, "target": 1, "threads": 1, "progress": False},
        ),
        "reconstruction_error": (lrp.reconstruction_error, {"model": error}),
        "from_json": (lrp.Explanation.from_json, {"text": json.dumps({})}),
        "for_class": (lrp.explain(numbers, X, target="all").for_class, {"target": 1}),
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
            lrp.Conv1D,
            {"K": draw(3, 2, 2), "d": None, "stride": 1, "dilation": 1, "padding": "same", "groups": 1},
        ),
        "MaxPool1D": (lrp.MaxPool1D, {"size": 2, "stride": 1, "padding": "valid"}),
        "AvgPool1D": (lrp.AvgPool1D, {"size": 2, "stride": 1, "padding": (1, 1), "count_padding": True}),
        "Affine": (lrp.Affine, {"s": draw(2), "t": draw(2)}),
        "LayerNorm": (lrp.LayerNorm, {"gamma": draw(2), "beta": draw(2), "eps": 0.1}),
        "Activation": (lrp.Activation, {"activation": "relu", "alpha": None, "slopes": None}),
        "Attention": (lrp.Attention, {"scale": 1.0, "causal": True}),
        "AdditiveAttention": (lrp.AdditiveAttention, {"scale": draw(2), "causal": True}),
        "AttentionPool": (lrp.AttentionPool, {"v": draw(2), "W": draw(2, 2), "b": draw(2), "c": 0.0}),
        "MultiHeadAttention": (
            lrp.MultiHeadAttention,
            {"Wq": draw(2, 2), "Wk": draw(2, 2), "Wv": draw(2, 2), "Wo": draw(2, 2), "bq": draw(2), "heads": 2},
        ),
        "Pad": (lrp.Pad, {"before": 1, "after": 1}),
        "Repeat": (lrp.Repeat, {"steps": 2}),
        "Reshape": (lrp.Reshape, {"width": 2}),
        "Slice": (lrp.Slice, {"start": 0, "stop": 2, "step": 1, "index": None, "axis": "steps"}),
        "Softmax": (lrp.Softmax, {"axis": "features"}),
        "Transpose": (lrp.Transpose, {"steps": 2}),
        "Input": (
            lrp.Input,
            {"size": 3, "steps": True, "features": ["a", "b", "c"], "mask_value": 0.0, "pad": (4, "pre", 0)},
        ),
        "Rule": (lrp.Rule, {"name": "mine", "shares": lambda gate, signal: (gate, signal)}),
        "Model": (
            lrp.Model,
            {
                "layers": [cell, head],
                "embedding": table,
                "readout": "last",
                "classes": ["a", "b"],
                "features": None,
                "output": "softmax",
                "provenance": {"a": "b"},
                "output_unit": "mm",
            },
        ),
        "Model of numbers": (
            lrp.Model,
            {
                "layers": [cell, head],
                "features": ["a", "b", "c"],
                "mask_value": 0.0,
                "scaler": (draw(3), [1.0, 2.0, 3.0]),
                "output_scaler": (0.0, 1.0),
            },
        ),
        "Model of nodes": (
            lrp.Model,
            {
                "layers": [lrp.Node("a", cell, ("x",)), lrp.Node("b", head, ("a:last",))],
                "ports": {"x": lrp.Input(3)},
                "result": "b",
            },
        ),
        "astype": (numbers.astype, {"dtype": "float32"}),
        "with_units": (numbers.with_units, {"features": ["a", "b", "c"]}),
        "best_words": (evaluate.best_words, {"model": words, "target": 1, "count": 2}),
        "predicted_as": (evaluate.predicted_as, {"model": words, "words": ["a", "b", "c"], "target": 1}),
        "average": (evaluate.average, {"model": words, "sequences": sentences}),
        "last_hidden": (evaluate.last_hidden, {"model": words, "sequences": sentences}),
        "weighted": (evaluate.weighted, {"model": words, "sequences": ["a b c"], "explanations": [w]}),
        "weighted_last_hidden": (
            evaluate.weighted_last_hidden,
            {"model": words, "sequences": ["a b c"], "explanations": [w]},
        ),
        "whitened_pca": (evaluate.whitened_pca, {"X": draw(5, 3), "components": 2}),
        "separation": (evaluate.separation, {"points": draw(6, 2), "labels": [0, 1, 0, 1, 0, 1], "neighbours": 2}),
        "right_to_left": (lrp.plot.right_to_left, {"words": ["a"]}),
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
        "open_explanations": (lambda path: lrp.open_explanations(path).close(), {"path": folder / "e.h5"}),
        "explain_corpus": (
            lambda **given: run_corpus(folder, **given),
            {
                "model": words,
                "source": sentences,
                "method": "lrp-all",
                "target": 1,
                "unit": "word",
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
                "resume": False,
                "client": None,
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
                "labels": [0, 1],
                "measures": ["completeness", "removal"],
                "remove": "zero",
                "unit": "step",
                "seed": 0,
                "progress": False,
            },
        ),
        "word_removal": (
            evaluate.word_removal,
            {
                "model": words,
                "sequences": ["a b c", "b c a"],
                "labels": [0, 1],
                "relevances": {"occlusion-p": [np.ones(3), np.ones(3)]},
                "counts": (1, 2),
                "how": "delete",
                "runs": 2,
                "seed": 0,
            },
        ),
        "read_trees": (evaluate.read_trees, {"path": folder / "trees.txt"}),
        "read_sentences": (evaluate.read_sentences, {"path": folder / "trees.txt"}),
        "plot.sentence": (lrp.plot.sentence, {"items": w, "width": 4.0}),
        "plot.ledger": (lrp.plot.ledger, {"e": w, "ax": None, "width": 4.0}),
        "plot.waterfall": (lrp.plot.waterfall, {"e": e, "ax": None, "width": 4.0}),
        "plot.series": (lrp.plot.series, {"e": e, "x": X, "ax": None, "width": 4.0}),
        "plot.feature_map": (lrp.plot.feature_map, {"e": e, "x": X, "width": 4.0}),
        "plot.bars": (lrp.plot.bars, {"many": many, "width": 4.0}),
        "plot.beeswarm": (lrp.plot.beeswarm, {"many": many, "width": 4.0}),
        "plot.memory": (lrp.plot.memory, {"many": many, "width": 4.0}),
        "plot.predictions": (lrp.plot.predictions, {"many": many, "width": 4.0}),
        "plot.gates": (lrp.plot.gates, {"model": numbers, "x": X, "width": 4.0}),
    }
    (folder / "trees.txt").write_text("(3 (2 not) (3 bad))\n")
    return quick, slow, odd_values(numbers, e)


def run_corpus(folder, **given):
    """A corpus into a file that is removed again."""
    out = folder / "out.h5"
    try:
        lrp.explain_corpus(out=out, **given).open().close()
    finally:
        for path in (out, *out.with_name("out.h5.parts").glob("*"), out.with_name("out.h5.rejected.jsonl")):
            path.unlink(missing_ok=True)
        if out.with_name("out.h5.parts").exists():
            out.with_name("out.h5.parts").rmdir()


class TooLong(BaseException):
    """A call that does not come back."""


def _late(*_):
    raise TooLong


def attempt(function, given):
    """None where there is a result or an LrpError, else what went wrong."""
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(SECONDS)
    try:
        found = function(**given)
        repr(found)
        if isinstance(found, lrp.Explanation):
            str(found), found.to_json()
    except lrp.LrpError as error:
        assert str(error)
    except (Exception, TooLong) as error:
        return error
    finally:
        signal.alarm(0)
    return None


def run(cases, seed, only=None):
    """Try so many odd calls; yields what is neither a result nor an LrpError."""
    rng = np.random.default_rng(seed)
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        quick, slow, values = calls(Path(name))
        os.chdir(name)
        try:
            for case in range(cases):
                table = slow if case % RARE == RARE - 1 else quick
                if only:
                    table = {key: one for key, one in (quick | slow).items() if only in key}
                title = [*table][rng.integers(len(table))]
                function, given = table[title]
                given = dict(given)
                keys = [*given]
                if len(keys) > 1 and rng.random() < 0.05:
                    a, b = rng.choice(len(keys), 2, replace=False)
                    given[keys[a]], given[keys[b]] = given[keys[b]], given[keys[a]]
                else:
                    for k in rng.integers(0, len(keys), rng.integers(1, 3)):
                        given[keys[k]] = values[rng.integers(len(values))]()
                wrong = attempt(function, given)
                if wrong is not None:
                    yield case, title, given, wrong
        finally:
            os.chdir(before)


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--only", help="functions whose name has this in it")
    options = parser.parse_args()
    seen = collections.Counter()
    for case, title, given, wrong in run(options.cases, options.seed, options.only):
        last = traceback.extract_tb(wrong.__traceback__)[-1]
        ours = [one for one in traceback.extract_tb(wrong.__traceback__) if "lrpnumpy/" in one.filename] or [last]
        place = f"{type(wrong).__name__} {Path(ours[-1].filename).name}:{ours[-1].lineno}"
        seen[place] += 1
        if seen[place] == 1:
            print(f"case {case}: {title}: {place}: {str(wrong)[:100]}", flush=True)  # noqa: T201
            shown = [f"{key}={type(value).__name__} {ascii(value)[:40]}" for key, value in given.items()]
            print("    ", ", ".join(shown)[:700])  # noqa: T201
    print(f"seed {options.seed}: {options.cases} cases, {sum(seen.values())} foreign exceptions at {len(seen)} places")  # noqa: T201
    raise SystemExit(bool(seen))


if __name__ == "__main__":
    main()
