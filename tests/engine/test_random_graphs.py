"""Random networks of all layers, up to twelve nodes: the laws of every network hold on them."""

import graphs
import laws
import networks as nets
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import lrpnumpy as lrp

CELLS = [name for name, kind in lrp.layers.LAYERS.items() if kind.__module__ == "lrpnumpy.layers.cells"]


def spans_of(model, records):
    return [[(0, 2), (len(r[model.main]) - 2, len(r[model.main]))] for r in records]


@given(st.data())
@nets.examples(60)
def test_the_ledger_adds_up(data):
    model = data.draw(graphs.graphs())
    records = data.draw(graphs.records(model))
    rules = data.draw(st.lists(st.sampled_from([*laws.LRP, laws.THIRD]), min_size=1, max_size=2, unique_by=str))
    laws.the_ledger_adds_up(model, records, 0, rules)


@given(st.data())
@nets.examples(60)
def test_gradients_are_slopes(data):
    """A difference across a kink of relu, prelu or a maximum would be off by far more than this."""
    model = data.draw(graphs.graphs())
    records = data.draw(graphs.records(model, 1))
    laws.gradients_are_slopes(model, records, 1, np.random.default_rng(0), 1e-5)


@given(st.data())
@nets.examples(40)
def test_a_batch_gives_what_single_calls_give(data):
    model = data.draw(graphs.graphs())
    records = data.draw(graphs.records(model))
    laws.a_batch_gives_what_single_calls_give(model, records, 0, spans_of(model, records))


@given(st.data())
@nets.examples(40)
def test_occlusion_is_forward_passes(data):
    model = data.draw(graphs.graphs())
    records = data.draw(graphs.records(model))
    laws.occlusion_is_forward_passes(model, records, 0, spans_of(model, records), omit=True)


@given(st.data())
@nets.examples(40)
def test_decomposition_adds_up(data):
    """And leaves nothing irrelevant where the whole series is the phrase, if there is no other input and no padding."""
    model = data.draw(graphs.graphs())
    records = data.draw(graphs.records(model))
    padded = any(isinstance(node.layer, (lrp.layers.Conv1D, lrp.layers.Pad)) for node in model.nodes)
    whole = len(model.inputs) == 1 and not padded
    laws.decomposition_adds_up(model, records, 0, spans_of(model, records), whole)


@given(data=st.data())
@nets.examples(20)
def test_files_hold_them(data, tmp_path):
    laws.files_and_pickles_hold_it(data.draw(graphs.graphs()), tmp_path)


def test_graphs_have_every_layer():
    """What is drawn covers every layer that does not fix the number of steps, and graphs of twelve nodes."""
    seen, sizes = set(), []

    @given(graphs.graphs())
    @settings(max_examples=200)
    def collect(model):
        seen.update(type(node.layer).__name__ for node in model.nodes)
        sizes.append(len(model.nodes))

    collect()
    assert seen >= {*lrp.layers.LAYERS} - {*CELLS, "Flatten", "SumAll", "Sum", "Transpose", "TwoClasses"}
    assert max(sizes) >= 10
