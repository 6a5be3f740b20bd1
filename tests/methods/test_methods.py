"""Methods as records: names stand for them, their fields are the options, and nothing about them is written twice."""

import dataclasses
import pickle

import networks as nets
import numpy as np
import pytest

import lrpnumpy as lrp
from lrpnumpy.commands.common import _typed_options
from lrpnumpy.methods import METHODS, find
from lrpnumpy.methods.base import documented

RECORDS = {
    "gradient": lrp.Gradient(),
    "gradient-x-input": lrp.Gradient(times_input=True),
    "occlusion-f": lrp.Occlusion(),
    "occlusion-p": lrp.Occlusion("probability"),
    "lrp-all": lrp.LRP("all"),
    "lrp-prop": lrp.LRP("prop"),
    "lrp-abs": lrp.LRP("abs"),
    "lrp-half": lrp.LRP("half"),
    "cd": lrp.CD(),
    "deeplift": lrp.DeepLIFT(),
    "integrated-gradients": lrp.IntegratedGradients(),
    "shapley": lrp.Shapley(),
}
OPTIONS = {"lrp-all": {"eps": 0.2}, "occlusion-f": {"reference": np.ones(3)}, "shapley": {"players": 3}}
OPTIONS |= {"deeplift": {"reference": np.ones(3)}, "integrated-gradients": {"nodes": 6}}


def test_names_stand_for_records():
    assert RECORDS == METHODS and tuple(METHODS.values()) == lrp.methods()
    assert all(method.name == name and find(method) is method for name, method in METHODS.items())


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_a_call_are_fields_of_the_record(rng, name):
    model = lrp.Model([nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)])
    x, record = rng.normal(size=(4, 3)), type(METHODS[name])(**OPTIONS[name])
    one, other = lrp.explain(model, x, name, **OPTIONS[name]), lrp.explain(model, x, record)
    np.testing.assert_array_equal(one.relevance, other.relevance)
    assert one.options == other.options and one.method == other.method == name


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_a_record_is_frozen_documented_and_can_be_sent(method):
    assert method.description and method.cost and method.conserves and method.paper and method.kind
    assert all(option.text for option in method.options().values())
    assert pickle.loads(pickle.dumps(method)) == method
    for name in [*method.options(), "name"]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(method, name, 1)


def test_an_array_in_a_record_is_its_own():
    given = np.ones(3)
    record = lrp.DeepLIFT(given)
    given[0] = 5
    assert record.reference[0] == 1 and not record.reference.flags.writeable


def test_flags_are_the_fields_that_can_be_typed():
    assert {*_typed_options()} == {
        "reference",
        "tol",
        "eps",
        "gamma",
        "attention",
        "nodes",
        "gap",
        "players",
        "order",
        "error",
    }
    assert documented("What.\n\neps: a number,\n    not large.\ntol: small.") == {
        "eps": "a number, not large",
        "tol": "small",
    }


def test_the_table_of_methods_is_readable():
    lines = repr(lrp.methods()).splitlines()
    assert lines[0].startswith("method") and len(lines) < 45 and max(map(len, lines)) <= 105
    heads = [line for line in lines[1:] if not line.startswith(" ")]
    assert all(
        line.startswith(method.name) and method.paper in line
        for method, line in zip(METHODS.values(), heads, strict=True)
    )
    text = " ".join(" ".join(lines).split())
    assert all(method.description in text for method in METHODS.values())
    assert lrp.methods()._repr_html_().count("<tr>") == 1 + len(METHODS)
