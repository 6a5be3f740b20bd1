"""The doors through which damaged things come in: each opens one the way a user would, and uses what it gets."""

import argparse
import contextlib
import io
import warnings
from functools import cache

import numpy as np

import lrpnumpy as lrp
from lrpnumpy.asked import request
from lrpnumpy.corpus.export import to_csv, to_jsonl
from lrpnumpy.corpus.run import beside_of
from lrpnumpy.corpus.sources import chunks, open_source
from lrpnumpy.corpus.work import Job, explain_chunk
from lrpnumpy.evaluate import rank_methods
from lrpnumpy.files.native import arrays_of

MAX_BYTES = 2**26  # of arrays; the largest seed has a few KB
RANKED = "completeness of two methods"


def outcome(seed, path, rng):
    """What comes of opening a damaged file, in one word, and the exception if it is not one of ours."""
    allowed = lrp.WeightFileError if seed.door == "load" else lrp.LrpError
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            DOORS[seed.door](path, dict(seed.given), rng)
        except allowed:
            return "error", None
        except BaseException as error:  # SystemExit too: nothing in a file may end a program
            return "exception", error
    return "result", None


# What a user may say besides; it may contradict the file, but must not break anything.
HINTS = (
    {"readout": "last"}, {"readout": "max"}, {"layers": ["lstm", "out"]}, {"layers": []}, {"which": "a\ud800"},
    {"output": "sigmoid"}, {"activations": ["relu"]}, {"nonlinearity": "relu"}, {"config": "{}"},
    {"classes": ["a", "b"]}, {"features": ["a"]}, {"vocabulary": ["a", "b", "a"]},
    {"custom": {"Xx": lambda settings, arrays: None}},
    {"unknown": 10**9}, {"pad": (10, "pre", 0)}, {"check": (np.zeros((2, 3)), np.zeros(2))},
)  # fmt: skip


def _load(path, given, rng):
    if str(given.get("config", "")).startswith("@"):
        given["config"] = path.with_name(given["config"][1:])
    if rng.random() < 0.1:
        with contextlib.suppress(lrp.LrpError):  # it may be about what is said, too
            lrp.load(path, max_bytes=MAX_BYTES, **{**given, **rng.choice(HINTS)})
        return
    if rng.random() < 0.02:
        lrp.convert(path, path.with_name("converted.h5"), max_bytes=MAX_BYTES, **given)
        return
    if rng.random() < 0.1:
        print(lrp.inspect(path, max_bytes=MAX_BYTES, **given), file=io.StringIO())
        return
    model = lrp.load(path, max_bytes=MAX_BYTES, **given)
    if rng.random() < 0.1:
        _use(model)


def _use(model):
    """A prediction; what the network cannot take is an error of ours, too."""
    ports = {
        name: [0, 0] if port.embedding is not None else np.zeros((2, port.size)) for name, port in model.inputs.items()
    }
    if sum(array.size for array in arrays_of(model).values()) > 1e5:
        return
    try:
        lrp.predict(model, ports if len(ports) > 1 else next(iter(ports.values())))
    except lrp.WeightFileError:
        raise
    except lrp.LrpError:
        return


@cache
def _models():
    from .seeds import model, series_model

    return model(), series_model()


def _corpus(path, given, rng):
    """One in eight is a whole run; the others do without threads and files, which take most of its time."""
    model, longest = _models()[given.pop("series", False)], 100
    corpus = lrp.Corpus(path, field=given.get("field"), longest=longest)
    if rng.random() < 0.125:
        output = lrp.Output(path.with_name("out"), columns=given.get("columns"))
        lrp.explain_corpus(model, corpus, "gradient", out=output, threads=1)
        return
    source = open_source(corpus)
    beside = beside_of(given.get("columns"), source.kind)
    asked = request(model, "gradient", "step", None, None, {})
    job = Job(model, asked, None, source.kind, corpus.field, longest, beside.fields)
    for chunk in chunks(source, 4):
        explain_chunk(job, chunk._replace(columns=beside.of(chunk.first, len(chunk.records))))


def _parts(path, given, rng):
    lrp.explain_corpus(_models()[0], path, out=lrp.Output(path.with_name("b"), chunk=2), threads=1)


def _input(path, given, rng):
    from lrpnumpy.commands.explain import _input

    lrp.explain(_models()[1], _input(argparse.Namespace(text=None, input=str(path))), "gradient")


def _explanations(path, given, rng):
    found = lrp.open_explanations(path.parent)
    repr(found)
    kind = rng.randrange(4)
    if kind == 0:
        to_csv(found, io.BytesIO())
    elif kind == 1:
        to_jsonl(found, io.BytesIO())
    elif kind == 2:
        found.summary(rng.choice((None, "class", "season")))
    else:
        for one in (*found, *found[-1:]):
            str(one)


def explained():
    """Explanations that have all there is to be written down."""
    words, series = _models()
    x = np.arange(12.0).reshape(4, 3)
    some = {"words": lrp.explain(words, "the film is n't good"), "series": lrp.explain(series, x, unit="feature")}
    some |= {"every class": lrp.explain(words, "not good", target="all"), "cd": lrp.explain(words, "not good", "cd")}
    some["hidden"] = lrp.explain(series, x, "lrp-all", hidden=True)
    some["integrated"] = lrp.explain(series, x, "integrated-gradients")
    return some


def _text(path):
    return path.read_bytes().decode("utf-8", "surrogateescape")


def _explanation(path, given, rng):
    found = lrp.Explanation.from_json(_text(path))
    kind = rng.randrange(4)
    if kind == 0:
        found.to_json()
    elif kind == 1:
        str(found)
    elif kind == 2:
        found._repr_html_()
    else:
        to_csv(lrp.Comparison((found,)), io.BytesIO())


def ranked(state=None):
    """A small ranking."""
    x = np.arange(12.0).reshape(4, 3)
    return rank_methods(
        _models()[1], [x, -x[:2]], ["gradient", "lrp-all"], measures=["removal"], state=state, progress=False
    )


def _state(path, given, rng):
    str(ranked(path.parent))


DOORS = {
    "load": _load, "corpus": _corpus, "parts": _parts, "input": _input, "explanations": _explanations,
    "explanation": _explanation, "state": _state,
}  # fmt: skip
