"""Helpers for tests of corpora: a run with the options of reading and writing in one call, and what is in a folder."""

import json

import lrpnumpy as lrp

READING = ("format", "field", "longest", "max_line", "strict")
WRITING = ("overwrite", "columns", "chunk")


def run(model, source, out, method=None, target=None, **given):
    """`explain_corpus`, which takes some of these options in records."""
    reading = {name: given.pop(name) for name in READING if name in given}
    writing = {name: given.pop(name) for name in WRITING if name in given}
    if reading:
        source = lrp.Corpus(source, **reading)
    if writing:
        out = lrp.Output(out, **writing)
    return lrp.explain_corpus(model, source, method, target, out=out, **given)


def contents(folder):
    """Every file of a run as bytes."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


def rejected(folder):
    """The list of rejected records."""
    path = folder / "rejected.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def parts(folder):
    """Names of the parts that are there."""
    return sorted(path.name for path in folder.glob("part-*.npz"))
