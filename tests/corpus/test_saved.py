"""Results in memory as one HDF5 file: what is read back is equal."""

import dataclasses
import json

import h5py
import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy.corpus import export


def ragged(file, name):
    """The arrays of a field, as docs/corpora.md says; numbers have no shapes."""
    values = file[name]["values"][:]
    if "shapes" not in file[name]:
        return [*values]
    shapes = file[name]["shapes"][:]
    sizes = np.where(shapes[:, 0] < 0, 0, shapes.prod(axis=1))
    cut = np.split(values, np.cumsum(sizes)[:-1])
    return [None if shape[0] < 0 else part.reshape(shape) for part, shape in zip(cut, shapes, strict=True)]


def check(path, results):
    every = [*results]
    with h5py.File(path) as file:
        for name, field in (("inputs/x/relevance", "relevance"), ("inputs/x/feature_relevance", "feature_relevance"),
                            ("inputs/x/values", "values"), ("scores", "scores")):  # fmt: skip
            wanted = [getattr(e, field) for e in every]
            found = ragged(file, name) if name in file else [None] * len(every)
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(a, b)
        assert ragged(file, "target") == [-1 if e.target == "all" else e.target for e in every]
        assert ragged(file, "record") == [*range(1, len(every) + 1)]
        for name in file.get("ledger", ()):
            for a, e in zip(ragged(file, f"ledger/{name}"), every, strict=True):
                own = {} if e.ledger is None else dataclasses.asdict(e.ledger)
                assert name in own or a is None or np.isnan(a)
                if name in own:
                    np.testing.assert_array_equal(a, own[name])
        methods = [json.loads(text.tobytes())["method"] for text in ragged(file, "columns")]
        assert methods == [e.method for e in every]
        run = json.loads(file.attrs["run"])
        assert run["method"] == every[0].method and run["options"] == every[0].to_dict()["options"]
        if every[0].tokens is not None:
            texts = ragged(file, "inputs/x/words")
            assert [json.loads(text.tobytes()) for text in texts] == [[*e.tokens] for e in every]
        if every[0].labels is not None:
            texts = ragged(file, "inputs/x/labels")
            assert [json.loads(text.tobytes()) for text in texts] == [[*map(str, e.labels)] for e in every]
        if every[0].tested is not None:
            verdicts = [json.loads(text.tobytes())["verdict"] for text in ragged(file, "tested")]
            assert verdicts == [e.tested.verdict for e in every]


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    return lrp.Model([nets.lstm(rng, 2, 3), nets.dense(rng, 3, 2)], features=["a", "b"])


@pytest.mark.parametrize("target", [None, "all"])
@pytest.mark.parametrize("method", ["gradient", "lrp-all", "deeplift", "cd"])
def test_results_of_several_sequences(model, tmp_path, monkeypatch, method, target):
    monkeypatch.setattr(export, "GROUP", 2)  # several blocks
    rng = np.random.default_rng(1)
    results = lrp.explain_all(model, [rng.normal(size=(T, 2)) for T in (3, 1, 5, 2, 4)], method, target)
    if target is None:
        results.evidence()
    results.save(tmp_path / "es.h5")
    check(tmp_path / "es.h5", results)
    with pytest.raises(lrp.LrpError, match="must be a file that does not exist yet"):
        results.save(tmp_path / "es.h5")


def test_windows_with_dates(model, tmp_path):
    dates = np.arange("2024-01-01", "2024-01-15", dtype="datetime64[D]")
    series = lrp.Table(np.random.default_rng(2).normal(size=(14, 2)), dates, ("a", "b"))
    windows = lrp.explain_windows(model, series, length=5)
    windows.save(tmp_path / "w.h5")
    check(tmp_path / "w.h5", windows)


def test_words(tmp_path):
    rng = np.random.default_rng(3)
    embedding = lrp.Embedding(rng.normal(size=(4, 3)), ["<unk>", "a", "b", "c"], "<unk>")
    model = lrp.Model([nets.lstm(rng, 3, 3), nets.dense(rng, 3, 2)], embedding=embedding)
    results = lrp.explain_all(model, [["a", "naïve"], ["b"], ["c", "a", "b"]])
    results.save(tmp_path / "words.h5")
    check(tmp_path / "words.h5", results)
    with h5py.File(tmp_path / "words.h5") as file:
        marks = ragged(file, "inputs/x/marks")
    for a, e in zip(marks, results, strict=False):
        np.testing.assert_array_equal(a, e.marks)


def test_a_comparison_of_methods(model, tmp_path):
    """Methods have other ledgers: what one does not have is not a number, or missing."""
    found = lrp.compare(model, np.random.default_rng(4).normal(size=(4, 2)), ["gradient", "lrp-all", "deeplift"])
    found.save(tmp_path / "c.h5")
    check(tmp_path / "c.h5", found)
