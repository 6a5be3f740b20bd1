"""What results are: plain records, one table of fields, and one protocol for every sequence of them."""

import dataclasses
import gc
import json
import weakref
from importlib.util import find_spec

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy import fields
from lrpnumpy.ledgers import LEDGERS
from lrpnumpy.protocol import Results
from lrpnumpy.result import Hidden, InputPart, Span
from lrpnumpy.verdict import Experiments


@pytest.fixture
def model(rng):
    embedding = lrp.Embedding(rng.normal(size=(4, 3)), vocabulary=["a", "b", "c", "d"])
    return lrp.Model([nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)], embedding=embedding, classes=["no", "yes"])


@pytest.fixture
def numbers(rng):
    return lrp.Model([nets.lstm(rng, 2, 3), nets.dense(rng, 3, 2)], features=["rain", "snow"])


WORDS = [["a", "b", "c"], ["b"], ["d", "a"], ["c", "c"]]


def results_of(numbers, rng):
    days = np.datetime64("2001-01-01") + np.arange(12)
    table = lrp.Table(rng.normal(size=(12, 2)), labels=days, features=("rain", "snow"))
    every = lrp.explain_all(numbers, [np.asarray(table.values[k : k + 4]) for k in range(5)])
    return every, lrp.explain_windows(numbers, table, length=4), lrp.compare(numbers, table, ["lrp-all", "gradient"])


def test_an_explanation_is_a_plain_record(model):
    many = lrp.explain_all(model, WORDS, hidden=True)
    for e in (lrp.explain(model, WORDS[0]), many[0], *many):
        assert type(e) is lrp.Explanation and dataclasses.is_dataclass(e)
        with pytest.raises(dataclasses.FrozenInstanceError):
            e.method = "mine"
        again = dataclasses.replace(e)  # which checks every field
        assert np.array_equal(np.asarray(again), e.relevance) and np.asarray(e, np.float32).dtype == np.float32
    assert lrp.explain(model, WORDS[0]).inputs.keys() == {"x"}


@pytest.mark.parametrize("method", ["lrp-all", "cd", "occlusion-f", "integrated-gradients"])
def test_an_explanation_does_not_keep_the_others_in_memory(rng, numbers, method):
    many = lrp.explain_all(numbers, [rng.normal(size=(T, 2)) for T in (4, 3, 5, 4)], method, spans=[[(0, 2)]] * 4)
    e = many[2]
    arrays = [many.relevance, many.scores, many.books, many.feature_relevance, many.main.encoded[2].x.base]
    watched = [weakref.ref(array) for array in arrays if array is not None]
    assert len(watched) >= 2
    before = np.array(e.relevance)
    del many, arrays
    gc.collect()
    assert not [one for one in watched if one() is not None]
    assert np.array_equal(before, e.relevance) and len(e.values) == len(e)


def test_the_score_that_is_explained(model):
    e = lrp.explain(model, WORDS[0], target="no", versus="yes")
    assert e.score == e.scores[0] - e.scores[1] and e.predicted == int(e.scores.argmax())
    assert lrp.explain(model, WORDS[0], target=1).score == e.scores[1]
    assert np.array_equal(lrp.explain(model, WORDS[0], target="all").score, e.scores)


IN_MEMORY = {"source"}  # the model and its input are not stored


def test_every_field_of_a_result_is_in_the_table():
    """Slicing, joining, JSON, reading back and checks go through the table: a field without a row would be lost."""
    for kind in (lrp.Explanation, InputPart, Span, Hidden, lrp.Evidence, Experiments, *LEDGERS.values()):
        assert {row.name for row in fields.table(kind)} == {
            field.name for field in dataclasses.fields(kind)
        } - IN_MEMORY


def test_joining_classes_and_picking_one_are_inverse(rng):
    parts = [InputPart(rng.normal(size=3), rng.normal(size=(3, 2)), ("a", "b")) for _ in range(4)]
    joined = fields.joined(parts)
    assert joined.relevance.shape == (4, 3) and joined.feature_relevance.shape == (4, 3, 2)
    for c, part in enumerate(parts):
        one = fields.by_target(lambda array, c=c: array[c], joined)
        assert np.array_equal(one.feature_relevance, part.feature_relevance) and one.features == part.features


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_one_protocol(numbers, rng, kind, tmp_path):
    found = results_of(numbers, rng)[kind]
    assert isinstance(found, Results) and len(found) == len([*found])
    some = found[1:]
    assert type(some) is type(found) and len(some) == len(found) - 1
    assert np.array_equal(some[0].relevance, found[1].relevance) and some[0].options == found[1].options
    assert np.array_equal(found.relevance, np.concatenate([e.relevance for e in found]))
    assert np.array_equal(found.stacked(), [e.feature_relevance for e in found])
    assert np.array_equal(some.stacked(), found.stacked()[1:])
    assert found.summary().counts.tolist() == [len(found)]
    some.page(tmp_path / "page.html")
    some.save(tmp_path / "some.jsonl")
    lines = (tmp_path / "some.jsonl").read_text().splitlines()
    assert [json.loads(line)["record"] for line in lines] == [*range(1, len(found))]
    again = lrp.Explanation.from_json(lines[0])
    assert np.array_equal(again.feature_relevance, some[0].feature_relevance)
    with pytest.raises(lrp.LrpError, match="does not exist yet"):
        some.save(tmp_path / "some.jsonl")


def test_slices_of_slices_and_steps(numbers, rng):
    every = lrp.explain_all(numbers, [rng.normal(size=(T, 2)) for T in (2, 5, 3, 4)], "cd", target="all")
    some = every[::-1][1:3]
    assert [len(e) for e in some] == [3, 5] and np.array_equal(some[1].relevance, every[1].relevance)
    assert np.array_equal(some[1].ledger.relevant, every[1].ledger.relevant) and not len(every[4:])
    steps = lrp.explain(
        lrp.Model([nets.lstm(rng, 2, 3), nets.dense(rng, 3, 2)], readout="every"), rng.normal(size=(5, 2)), step="all"
    )
    assert [e.options["step"] for e in steps[2:4]] == [2, 3] and steps[2:4].summary().counts == [2]


@pytest.mark.skipif(not find_spec("pandas"), reason="pandas is not installed")
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_frames_of_many(numbers, rng, kind):
    found = results_of(numbers, rng)[kind]
    frame = found.to_frame()
    assert [*frame.columns[:2]] == ["record", "position"] and {"relevance", "rain", "snow"} <= {*frame.columns}
    assert np.array_equal(frame["relevance"], found.relevance)
    assert np.array_equal(frame["record"], np.repeat(range(len(found)), [len(e) for e in found]))


@pytest.mark.skipif(not find_spec("xarray"), reason="xarray is not installed")
def test_datasets_of_many(numbers, rng):
    every, windows, _ = results_of(numbers, rng)
    found = windows.to_xarray()
    assert found["relevance"].dims == ("record", "step", "feature") and found["scores"].dims == ("record", "output")
    assert np.array_equal(found["relevance"], windows.stacked()) and found["record"].dtype.kind == "M"
    assert np.array_equal(every.to_xarray()["relevance"], every.stacked())
