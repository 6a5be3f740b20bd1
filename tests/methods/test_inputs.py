"""What users pass in: arrays of any type and memory order, names of any kind, and numbers of any size."""

import warnings
from dataclasses import replace

import networks as nets
import numpy as np
import pytest
from cases import EVERY_CASE
from laws import QUICK
from networks import close

import lrpnumpy as lrp
from lrpnumpy.methods import METHODS

T, D = 6, 5
LRP = [name for name, method in METHODS.items() if method.kind == "lrp"]
OPTIONS = {"occlusion-f": {"unit": "feature"}, "occlusion-p": {"unit": "feature"}, **QUICK}


def strided(x):
    """Every second number of every third row of a larger array."""
    wide = np.full((3 * len(x), 2 * x.shape[1]), 7, x.dtype)
    wide[::3, ::2] = x
    return wide[::3, ::2]


def read_only(x):
    x = x.copy()
    x.setflags(write=False)
    return x


def other_bytes(x):
    """Stored in the byte order that is not this machine's."""
    return x.astype(x.dtype.newbyteorder("S"))


ORDERS = {
    "Fortran": np.asfortranarray,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "strided": strided,
    "reversed": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": read_only,
    "byte order": other_bytes,
    "unaligned": lambda x: np.frombuffer(b"." + x.tobytes(), x.dtype, offset=1).reshape(x.shape),
    "list": lambda x: x.tolist(),
}
TYPES = ["float16", "float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]


def networks(dtype):
    """Every cell, two directions and a head; wide enough for compiled kernels of every shape."""
    rng = np.random.default_rng(1)
    lower = nets.two_way(rng, D, 17, "concat", (nets.lstm, nets.gru))
    layers = [lower, nets.dense(rng, 34, 6, "tanh"), nets.gru_before(rng, 6, 9), nets.rnn(rng, 9, 7)]
    return lrp.Model([*layers, nets.dense(rng, 7, 3)], readout="mean").astype(dtype)


@pytest.mark.sampled
@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore::lrpnumpy.RelevanceWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", METHODS)
def test_type_and_order_of_an_input_do_not_matter(rng, method, dtype):
    """The same values give the same bits, alone and among others."""
    model, options = networks(dtype), OPTIONS.get(method, {})
    whole = rng.integers(0, 5, size=(T, D))  # fits every type
    plain = np.ascontiguousarray(whole, dtype)
    expected = lrp.explain(model, plain, method, 1, **options)
    forms = {kind: whole.astype(kind) for kind in TYPES}
    forms |= {f"{name} {kind}": order(whole.astype(kind)) for kind in TYPES for name, order in ORDERS.items()}
    for name, x in forms.items():
        before = np.array(x, copy=True)
        found = lrp.explain(model, x, method, 1, **options)
        assert (found.relevance == expected.relevance).all(), name
        if expected.feature_relevance is not None:
            assert (found.feature_relevance == expected.feature_relevance).all(), name
        assert (found.scores == expected.scores).all() and found.relevance.dtype == dtype, name
        assert np.array_equal(x, before), name
    many = lrp.explain_all(model, [*forms.values()], method, 1, **options)
    copies = lrp.explain_all(model, [plain] * len(forms), method, 1, **options)
    assert (many.relevance == copies.relevance).all()


@pytest.mark.parametrize("order", ORDERS)
def test_order_of_fractions(rng, order):
    """As above, with numbers that are not whole, through every way in."""
    model, x = networks("float64"), rng.normal(size=(T, D))
    given = ORDERS[order](x)
    assert (lrp.predict(model, given) == lrp.predict(model, x)).all()
    assert (lrp.predict_all(model, [given, x]) == lrp.predict_all(model, [x, x])).all()
    together = np.stack([x, 2 * x])
    many = lrp.explain_all(model, np.asfortranarray(together))
    assert (many.relevance == lrp.explain_all(model, [x, 2 * x]).relevance).all()


@pytest.mark.sampled
@pytest.mark.parametrize(
    "turned", [np.asfortranarray, read_only, lambda array: array[::-1].copy()[::-1], lambda array: array.repeat(2)[::2]]
)
@pytest.mark.parametrize("kind", nets.CELLS)
def test_order_of_weights(rng, turned, kind):
    """Weights are copied, so that their order in memory does not matter either."""
    cell, head = kind(rng, D, 9, state=True), nets.dense(rng, 9, 3)
    same = [
        replace(layer, **{name: turned(array.copy()).reshape(array.shape) for name, array in layer.arrays()})
        for layer in (cell, head)
    ]
    x = rng.normal(size=(T, D))
    for method in METHODS:
        options = QUICK.get(method, {})
        found = [lrp.explain(lrp.Model(layers), x, method, 1, **options) for layers in ([cell, head], same)]
        assert (found[0].relevance == found[1].relevance).all()


@pytest.mark.parametrize("kind", TYPES[3:])
def test_ids_of_any_type(rng, kind):
    embedding = lrp.Embedding(rng.normal(size=(9, D)))
    model = lrp.Model([nets.lstm(rng, D, 4), nets.dense(rng, 4, 2)], embedding=embedding)
    ids = rng.integers(0, 9, 7)
    for given in (ids.astype(kind), ids.astype(kind).repeat(2)[::2], read_only(ids.astype(kind))):
        found = lrp.explain(model, given)
        assert (found.relevance == lrp.explain(model, ids.tolist()).relevance).all()


@pytest.mark.parametrize("method", METHODS)
def test_numbers_too_large_for_float32_are_errors(rng, method):
    """Not infinities: 1e39 is a float64, and no float32."""
    model = networks("float32")
    x = rng.normal(size=(T, D))
    x[2, 3] = 1e39
    with pytest.raises(lrp.LrpError, match=r"x must be at most 3.4e\+38 .*\[2, 3\]"):
        lrp.explain(model, x, method)
    with pytest.raises(lrp.LrpError, match=r"sequence 1 must be at most 3.4e\+38 .*\[2, 3\]"):
        lrp.explain_all(model, [x[:2], x], method)
    with pytest.raises(lrp.LrpError, match=r"x must be at most 3.4e\+38"):
        lrp.predict(model, x)
    assert np.isfinite(lrp.predict(model.astype("float64"), x)).all()


@pytest.mark.parametrize("dtype", ["float32", "f4", "<f4", "f", "single", np.float32, np.dtype("f4")])
def test_all_names_of_a_dtype(dtype):
    assert networks("float64").astype(dtype).dtype == np.float32
    assert networks("float32").astype("double").dtype == networks("float32").astype(float).dtype == np.float64


def test_a_reference_too_large_for_float32_is_an_error(rng):
    model = networks("float32")
    with pytest.raises(lrp.LrpError, match=r"reference of .x. must be at most 3.4e\+38"):
        lrp.explain(model, rng.normal(size=(T, D)), "occlusion-f", reference=np.full(D, 1e39))


def test_weights_too_large_for_float32_are_an_error(rng):
    model = lrp.Model([nets.lstm(rng, D, 2), lrp.Dense(np.full((2, 2), 1e39))])
    with pytest.raises(lrp.LrpError, match=r"Dense: V must be at most 3.4e\+38 .*keep the model in float64"):
        model.astype("float32")


# ---- words ----


def test_a_mask_may_be_a_number_of_numpy():
    assert type(lrp.Embedding(np.ones((3, 2)), mask=np.int64(1)).mask) is int


def test_a_vocabulary_as_a_dict_is_the_list_in_the_order_of_its_rows(rng):
    E = rng.normal(size=(4, D))
    layers = [nets.lstm(rng, D, 4), nets.dense(rng, 4, 2)]
    rows = {"good": 2, "<unk>": 0, "bad": 3, "not": np.int64(1)}
    as_dict = lrp.Embedding(E, vocabulary=rows, unknown="<unk>")
    as_list = lrp.Embedding(E, vocabulary=["<unk>", "not", "good", "bad"], unknown="<unk>")
    assert as_dict.vocabulary == as_list.vocabulary
    one, other = (lrp.Model(layers, embedding=embedding) for embedding in (as_dict, as_list))
    assert one.digest == other.digest
    found = lrp.explain(one, "not good strange")
    assert (found.relevance == lrp.explain(one, E[[1, 2, 0]]).relevance).all()
    assert (found.relevance == lrp.explain(other, "not good strange").relevance).all()
    assert lrp.explain(one, [1, 2, 3]).tokens == ("not", "good", "bad")


# ---- rules of one's own ----


def two_thirds(gate, signal, eps):
    return gate * 0 + 0.25, signal * 0 + 0.5


@pytest.mark.parametrize("name", ["occlusion-p", "occlusion-f", "gradient", "gradient-x-input", "cd", "lrp-all"])
def test_a_rule_may_have_the_name_of_a_method(rng, name, tmp_path):
    """It is LRP by that rule, wherever a method is named; also for a model that has no probabilities."""
    rule, mine = lrp.Rule(name, two_thirds), lrp.Rule("mine", two_thirds)
    embedding = lrp.Embedding(rng.normal(size=(5, D)), vocabulary=list("abcde"))
    model = lrp.Model([nets.lstm(rng, D, 4), nets.dense(rng, 4, 1)], embedding=embedding)  # one output, linear
    texts = ["a b c", "d", "e e a b", "b c", "d a", "c", "a"]
    options = {"eps": 0.05}
    expected = lrp.explain(model, texts[0], mine, hidden=True, **options)
    found = lrp.explain(model, texts[0], rule, hidden=True, **options)
    assert found.method == name and (found.relevance == expected.relevance).all()
    assert found.ledger.total == expected.ledger.total and found.ledger.stabilizer != 0
    close(found.ledger.total, found.scores[0], 1e-10, found.ledger.largest)
    many, same = (lrp.explain_all(model, texts, one, unit="step", **options) for one in (rule, mine))
    assert (many.relevance == same.relevance).all() and many.ledger
    (compared,) = lrp.compare(model, texts[0], [rule], **options)
    assert (compared.relevance == expected.relevance).all() and compared.ledger.total == expected.ledger.total
    stored = lrp.explain_corpus(model, texts, rule, out=tmp_path / "out", progress=False, **options)
    for kept, one in zip(stored, same, strict=True):
        close(kept.relevance, one.relevance, 1e-12)
        close(kept.ledger.total, one.ledger.total, 1e-12)
    with pytest.raises(lrp.LrpError, match="'reference'"):
        lrp.explain(model, texts[0], rule, reference=np.zeros(D))


# ---- numbers of any size ----


def huge(rng, dtype, size):
    """A network whose weights are `size` times the usual."""

    def times(record):
        return replace(record, **{name: array * size for name, array in record.arrays()})

    two = lrp.Bidirectional(times(nets.lstm(rng, D, 4)), times(nets.gru(rng, D, 4, activation="relu")))
    layers = [
        two,
        times(nets.dense(rng, 8, 4, "relu")),
        times(nets.lstm(rng, 4, 3, activation="linear")),
        times(nets.gru_before(rng, 3, 3, recurrent_activation="exponential")),
        times(nets.rnn(rng, 3, 3, activation="softplus")),
        times(nets.dense(rng, 3, 2)),
    ]
    return lrp.Model(layers, readout="mean").astype(dtype)


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1e-30, 1e2, 1e10, 1e30])
@pytest.mark.parametrize("method", METHODS)
def test_no_warning_but_our_own(rng, dtype, size, method):
    """Whatever overflows: relevance may become infinite, which RelevanceWarning says; NumPy says nothing."""
    model = huge(rng, dtype, size)
    lengths = (3, 7) if EVERY_CASE else (4,)
    xs = [rng.normal(size=(length, D)) * scale for length in lengths for scale in (1, 1e20, 1e-30)]
    for given in [{"eps": 0.0}, {"eps": 1e-6}] if method in LRP else [OPTIONS.get(method, {})]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", lrp.RelevanceWarning)
            many = lrp.explain_all(model, xs, method, 1, spans=[[(0, 2)]] * len(xs), **given)
            for x, found in zip(xs, many, strict=True):
                one = lrp.explain(model, x, method, "all", **given)
                assert one.relevance.shape == (2, len(x))
                found.top(), found.to_json(), repr(found), str(found), found._repr_html_(), one.for_class(0)
            lrp.trace(model, xs[0])
            lrp.predict_all(model, xs)


@pytest.mark.parametrize("target", [1, "all"])
@pytest.mark.parametrize("method", ["lrp-all", "gradient-x-input", "occlusion-f", "cd"])
def test_padding_of_an_input_besides_the_main_one_gets_nothing(method, target):
    """Steps that the network skips have relevance 0, and the others what they have without padding."""
    rng = np.random.default_rng(3)
    nodes = [
        lrp.Node("a", nets.lstm(rng, 3, 4), ("rain",)), lrp.Node("b", nets.lstm(rng, 2, 4), ("soil",)),
        lrp.Node("both", lrp.layers.Concat(), ("a:last", "b:last")), lrp.Node("out", nets.dense(rng, 8, 2), ("both",)),
    ]  # fmt: skip
    model = lrp.Model(nodes, inputs={"rain": lrp.Input(3), "soil": lrp.Input(2, mask_value=-9.0)})
    rain, soil = rng.normal(size=(5, 3)), rng.normal(size=(3, 2))
    padded = np.concatenate((np.full((1, 2), -9.0), soil[:1], np.full((2, 2), -9.0), soil[1:]))
    whole, found = (lrp.explain(model, {"rain": rain, "soil": one}, method, target) for one in (soil, padded))
    nets.close(found.relevance, whole.relevance)
    part, expected = found.inputs["soil"], whole.inputs["soil"]
    nets.close(part.relevance[..., [1, 4, 5]], expected.relevance)
    assert not part.relevance[..., [0, 2, 3]].any() and part.marks.tolist() == [2, 0, 2, 2, 0, 0]
    if part.feature_relevance is not None:
        nets.close(part.feature_relevance[..., [1, 4, 5], :], expected.feature_relevance)
        assert not part.feature_relevance[..., [0, 2, 3], :].any()


def test_targets_may_be_a_column_of_a_frame():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    model = lrp.Model([nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)])
    column = pandas.DataFrame({"label": [1, 0, 1]}, index=[7, 8, 9])["label"]
    found = lrp.explain_all(model, rng.normal(size=(3, 5, 3)), target=column)
    assert found.targets.tolist() == [1, 0, 1]
