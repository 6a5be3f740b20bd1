"""Sum rules by layer and AttnLRP: against dense matrices of the oracle, their ledgers, the map from layers to rules."""

from dataclasses import dataclass, replace

import networks as nets
import numpy as np
import oracle
import pytest
from networks import close

import lrpnumpy as lrp
from lrpnumpy import rules
from lrpnumpy.layers.base import Layer, Ran
from lrpnumpy.packed import Batch, Packed
from lrpnumpy.page.payload import _Columns
from lrpnumpy.rules.propagation import Entry, back_through_sum
from lrpnumpy.rules.sums import Bias, Matrix, Term, distribute

EPS = 0.05
CASES = [  # a rule, and how the oracle names it
    (rules.Epsilon(EPS), "epsilon", {}),
    (rules.Gamma(0.7, EPS), "gamma", {"gamma": 0.7}),
    (rules.AlphaBeta(2, 1, EPS), "alpha-beta", {"alpha": 2, "beta": 1}),
    (rules.AlphaBeta(1.5, 1.25, EPS), "alpha-beta", {"alpha": 1.5, "beta": 1.25}),
    (rules.ZPlus(EPS), "alpha-beta", {"alpha": 1, "beta": 0}),
    (rules.WSquare(EPS), "w-square", {}),
    (rules.Flat(EPS), "flat", {}),
    (rules.ZBox(-3, 4, EPS), "z-box", {"low": -3, "high": 4}),
    (rules.ZBox([-3, -2, -1, -5], [3, 2.5, 4, 1], EPS), "z-box", {"low": [-3, -2, -1, -5], "high": [3, 2.5, 4, 1]}),
]
IDS = [type(rule).__name__ + str(k) for k, (rule, _, _) in enumerate(CASES)]


def how(rule=None, attention=True):
    return rules.Relevance(rules.RULES["all"], rule or rules.Epsilon(EPS), attention)


def first_message(layer, xs, R, propagation):
    """Messages of a layer to its inputs, and what it keeps (6, n)."""
    (y,), trace = layer.run(xs, propagation, ("",))
    array = np.zeros((Entry.SIZE, xs[0].batch.n), R.dtype)
    return layer.give_back(Ran(xs, (y,), trace), {"": R}, propagation, Entry(array)), array


def kept(array, s):
    return array[[Entry.BIASES, Entry.STABILIZER, Entry.RULE], s]


@pytest.mark.parametrize(("rule", "name", "options"), CASES, ids=IDS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_dense_is_the_oracle_s(rng, rule, name, options, dtype):
    layer = lrp.Dense(rng.normal(size=(5, 4)), rng.normal(size=5), "tanh").astype(dtype)
    x, R = Packed(rng.normal(size=(3, 4)).astype(dtype), Batch(np.array([2, 1]))), rng.normal(size=(3, 5)).astype(dtype)
    (R_x,), array = first_message(layer, [x], R, how(rule))
    array, tol = array.astype(float), 1e-12 if dtype == "float64" else 1e-4
    total = np.zeros((3, 2))
    bounds = {key: np.broadcast_to(value, 4) if name == "z-box" else value for key, value in options.items()}
    for row, s in enumerate(x.batch.owner):
        want, *others = oracle.sum_rule(name, x.rows[row], layer.V, layer.d, R[row], EPS, **bounds)
        close(R_x[row], want, tol, 10)
        total[:, s] += others
    close(kept(array, slice(None)), total, tol, 10)


@pytest.mark.parametrize(("rule", "name", "options"), CASES, ids=IDS)
@pytest.mark.parametrize("shape", [{}, {"stride": 2, "padding": (2, 1)}, {"dilation": 2, "groups": 2}])
def test_conv_is_the_oracle_s(rng, rule, name, options, shape):
    inside = 4 // shape.get("groups", 1)
    layer = lrp.layers.Conv1D(rng.normal(size=(6, 3, inside)), rng.normal(size=6), **shape, activation="relu")
    batch, T = Batch(np.array([7, 5])), (7, 5)
    x = Packed(rng.normal(size=(12, 4)), batch)
    (y,), _ = layer.run([x], None, ("",))
    R = rng.normal(size=y.rows.shape)
    (R_x,), array = first_message(layer, [x], R, how(rule))
    left, right = shape.get("padding", (0, 0))
    plain = {key: shape.get(key, 1) for key in ("stride", "dilation", "groups")}
    for s in range(2):
        matrix = oracle.conv_matrix(layer.K, T[s], left=left, right=right, **plain)
        bounds = {key: np.tile(np.broadcast_to(v, 4), T[s]) if name == "z-box" else v for key, v in options.items()}
        rows, arrived = batch.split(x.rows)[s], y.batch.split(R)[s]
        d = np.tile(layer.d, len(arrived))
        want, *others = oracle.sum_rule(name, rows.ravel(), matrix, d, arrived.ravel(), EPS, **bounds)
        close(batch.split(R_x)[s].ravel(), want, 1e-12, 10)
        close(kept(array, s), others, 1e-12, 10)


@pytest.mark.parametrize(("rule", "name", "options"), CASES[:-1], ids=IDS[:-1])
def test_terms_of_several_kinds_are_one_matrix(rng, rule, name, options):
    """A matrix, a diagonal, a plain value and a bias, as a recurrent cell has them, by one call."""
    x, h, c, R = rng.normal(size=(2, 3)), rng.normal(size=(2, 4)), rng.normal(size=(2, 4)), rng.normal(size=(2, 4))
    W, w, b = rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=4)
    (R_x, R_h, R_c), array = distribute(rule, R, [Matrix(x, W), Term(h, w), Bias(b), Term(c)])
    matrix = np.concatenate([W, np.diag(w), np.eye(4)], axis=1)
    for row in range(2):
        values = np.concatenate([x[row], h[row], c[row]])
        bounds = {key: np.broadcast_to(v, 11) if name == "z-box" else v for key, v in options.items()}
        want, *others = oracle.sum_rule(name, values, matrix, b, R[row], EPS, **bounds)
        close(np.concatenate([R_x[row], R_h[row], R_c[row]]), want, 1e-12, 10)
        close(array[:, row], others, 1e-12, 10)


def test_a_sum_that_is_0_goes_to_the_stabilizer():
    (R_x,), array = distribute(rules.AlphaBeta(2, 1, 0), np.ones((1, 1)), [Term(np.array([[3.0]]))])
    close(R_x, [[2.0]])
    close(array[:, 0], [0, -1, 0])  # nothing is below 0: what beta would take from it


# ---- AttnLRP ----


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_the_oracle_s(rng, causal):
    T, batch = (4, 3), Batch(np.array([4, 3]))
    q, v, k = (Packed(rng.normal(size=(7, d)), batch) for d in (3, 5, 3))
    R = rng.normal(size=(7, 5))
    layer = lrp.layers.Attention(0.7, causal)
    found, array = first_message(layer, [q, v, k], R, how(attention=False))
    for s in range(len(T)):
        rows = [batch.split(one)[s] for one in (q.rows, k.rows, v.rows, R)]
        R_q, R_k, R_v, stabilizer, attention = oracle.attention_lrp(*rows[:3], 0.7, rows[3], EPS, causal)
        for ours, want in zip(found, (R_q, R_v, R_k), strict=True):
            close(batch.split(ours)[s], want, 1e-12, 10)
        close(array[[Entry.STABILIZER, Entry.ATTENTION], s], [stabilizer, attention], 1e-12, 10)
    (R_qk, R_v), array = first_message(layer, [q, k], R[:, :3], how(attention=True))
    assert R_qk is None and not array[Entry.ATTENTION].any()


def test_heads_are_the_oracle_s(rng):
    W, b, batch = rng.normal(size=(4, 6, 6)), rng.normal(size=(4, 6)), Batch(np.array([4]))
    x, R, d = rng.normal(size=(4, 6)), rng.normal(size=(4, 6)), 3
    layer = lrp.layers.MultiHeadAttention(*W, *b, heads=2)
    (R_q, R_kv), array = first_message(layer, [Packed(x, batch), Packed(x, batch)], R, how(attention=False))
    q, k, v = (x @ W[n].T + b[n] for n in range(3))
    joined, weights = np.zeros((4, 6)), []
    for head in (slice(0, 3), slice(3, 6)):
        weights.append([oracle.softmax(row) for row in q[:, head] @ k[:, head].T / np.sqrt(d)])
        joined[:, head] = np.array(weights[-1]) @ v[:, head]
    entries, R_joined = np.zeros(3), np.zeros((4, 6))  # biases, stabilizer, attention
    for t in range(4):
        R_joined[t], to_bias, stabilizer, _ = oracle.sum_rule("epsilon", joined[t], W[3], b[3], R[t], EPS)
        entries += [to_bias, stabilizer, 0]
    arrived = [np.zeros((4, 6)) for _ in range(3)]
    for head in (slice(0, 3), slice(3, 6)):
        parts = (one[:, head] for one in (q, k, v))
        *messages, stabilizer, attention = oracle.attention_lrp(*parts, 1 / np.sqrt(d), R_joined[:, head], EPS)
        entries += [0, stabilizer, attention]
        for one, message in zip(arrived, messages, strict=True):
            one[:, head] = message
    want = [np.zeros((4, 6)) for _ in range(3)]
    for n in range(3):
        for t in range(4):
            want[n][t], to_bias, stabilizer, _ = oracle.sum_rule("epsilon", x[t], W[n], b[n], arrived[n][t], EPS)
            entries += [to_bias, stabilizer, 0]
    close(R_q, want[0], 1e-12, 10)
    close(R_kv, want[1] + want[2], 1e-12, 10)
    close(array[[Entry.BIASES, Entry.STABILIZER, Entry.ATTENTION], 0], entries, 1e-12, 10)


@pytest.mark.parametrize("additive", [True, False])
def test_an_attention_pool_is_the_oracle_s(rng, additive):
    h, R, v, W, b = rng.normal(size=(5, 4)), rng.normal(size=(1, 4)), rng.normal(size=3), *rng.normal(size=(2, 3, 4))
    b = b[:, 0]
    layer = lrp.layers.AttentionPool(v, W, b, 0.3) if additive else lrp.layers.AttentionPool(W[0], c=0.3)
    (R_h,), array = first_message(layer, [Packed(h, Batch(np.array([5])))], R, how(attention=False))
    if additive:
        want, *entries = oracle.pool_lrp(h, v, W, b, 0.3, R[0], EPS)
        close(R_h, want, 1e-12, 10)
        close(array[[Entry.BIASES, Entry.STABILIZER, Entry.ATTENTION], 0], entries, 1e-12, 10)
    close(R_h.sum() + array[[Entry.BIASES, Entry.STABILIZER, Entry.ATTENTION]].sum(), R.sum(), 1e-12, 10)


# ---- whole networks ----


def graph(rng):
    """A network with every kind of sum outside cells."""
    two = lrp.Bidirectional(nets.gru(rng, 6, 4), nets.gru(rng, 6, 4), "sum")
    nodes = [
        lrp.Node("conv", lrp.layers.Conv1D(rng.normal(size=(6, 2, 3)), rng.normal(size=6), activation="relu"), ("x",)),
        lrp.Node("two", two, ("conv",)),
        lrp.Node("affine", lrp.layers.Affine(rng.normal(size=4), rng.normal(size=4)), ("two",)),
        lrp.Node("norm", lrp.layers.LayerNorm(rng.normal(size=4), rng.normal(size=4)), ("affine",)),
        lrp.Node("heads", lrp.layers.MultiHeadAttention(*rng.normal(size=(4, 4, 4)), heads=2), ("norm", "two")),
        lrp.Node("dot", lrp.layers.Attention(0.5), ("heads", "norm", "two")),
        lrp.Node("additive", lrp.layers.AdditiveAttention(rng.normal(size=4), causal=True), ("dot", "norm")),
        lrp.Node("sum", lrp.layers.Add(), ("additive", "heads")),
        lrp.Node("means", lrp.layers.AvgPool1D(2, 1, padding="same"), ("sum",)),
        lrp.Node("mean", lrp.layers.Mean(), ("means",)),
        lrp.Node(
            "pool", lrp.layers.AttentionPool(rng.normal(size=4), rng.normal(size=(4, 4)), rng.normal(size=4)), ("sum",)
        ),
        lrp.Node("join", lrp.layers.Concat(), ("mean", "pool")),
        lrp.Node("head", nets.dense(rng, 8, 3), ("join",)),
    ]
    return lrp.Model(nodes)


@pytest.mark.filterwarnings("ignore::lrpnumpy.RelevanceWarning")
@pytest.mark.parametrize("attention", ["fixed", "attnlrp"])
@pytest.mark.parametrize("rule", [rule for rule, _, _ in CASES[:-1]], ids=IDS[:-1])
def test_ledgers_close_by_every_rule(rng, rule, attention):
    """Every layer but the cells by the rule; batches give what single calls give."""
    model, xs = graph(rng), [rng.normal(size=(T, 3)) for T in (6, 4)]
    method = lrp.LRP("half", {"default": rule, "GRU": rules.Epsilon(EPS)}, attention=attention)
    many = lrp.explain_all(model, xs, method, 1)
    for x, found in zip(xs, many, strict=True):
        ledger, unit = found.ledger, max(found.ledger.largest, abs(found.scores[1]))
        close(sum(ledger.entries.values()), found.scores[1], 1e-12, unit)
        close(ledger.total, found.scores[1], 1e-12, unit)
        assert (ledger.rule != 0) == (not rule.conserves)
        assert (ledger.attention != 0) == (attention == "attnlrp")
        one = lrp.explain(model, x, method, 1)
        close(found.feature_relevance, one.feature_relevance, 1e-12, unit)
        again = lrp.Explanation.from_json(one.to_json())
        assert again.ledger.entries == one.ledger.entries and again.options == one.options


@pytest.mark.parametrize("name", ["all", "prop", "abs", "half"])
def test_names_are_records(rng, name):
    """lrp-all is LRP("all"), to the last bit; so is the short form of gamma."""
    model, x = graph(rng), rng.normal(size=(6, 3))
    for options, record in [
        ({}, lrp.LRP(name)),
        ({"eps": 0.1}, lrp.LRP(name, eps=0.1)),
        ({"eps": 0.1}, lrp.LRP(rules.RULES[name], {"default": rules.Epsilon(0.1)})),
        (
            {"eps": 0.1, "gamma": 0.5},
            lrp.LRP(name, {"Dense": rules.Gamma(0.5, 0.1), "Conv1D": rules.Gamma(0.5, 0.1)}, eps=0.1),
        ),
    ]:
        ours, theirs = lrp.explain(model, x, record, 1), lrp.explain(model, x, f"lrp-{name}", 1, **options)
        assert (ours.feature_relevance == theirs.feature_relevance).all() and ours.method == theirs.method
    function = lrp.explain(model, x, lrp.LRP(rules.RULES[name].shares), 1)
    close(function.feature_relevance, lrp.explain(model, x, f"lrp-{name}", 1).feature_relevance, 1e-10)


def eps_at(method, model, name):
    """The stabilizer of the propagation at a node."""
    propagation = method.prepare(model, None)
    return propagation.nodes.get(name, propagation).eps


def test_the_more_specific_key_wins(rng):
    model = graph(rng)
    sums = {
        "default": rules.Epsilon(0.01),
        "Dense": rules.Epsilon(0.02),
        "GRU": rules.Epsilon(0.03),
        "Conv1D": rules.Epsilon(0.04),
        "last": rules.Epsilon(0.05),
        "first": rules.Epsilon(0.06),
        "conv": rules.Epsilon(0.07),
    }
    eps = {name: value.eps for name, value in sums.items()}

    def at(name, without=()):
        left = {key: rule for key, rule in sums.items() if key not in without}
        return eps_at(lrp.LRP(sums=left), model, name)

    assert at("sum") == eps["default"] and at("two") == eps["GRU"] and at("head") == eps["last"]
    assert at("head", ["last"]) == eps["Dense"] and at("head", ["last", "Dense"]) == eps["default"]
    assert at("conv") == eps["conv"] and at("conv", ["conv"]) == eps["first"]
    assert at("conv", ["conv", "first"]) == eps["Conv1D"]
    assert eps_at(lrp.LRP(eps=0.3), model, "conv") == 0.3


def test_first_and_last_are_next_to_inputs_and_scores(rng):
    """Of two branches each has a first layer; what has no weight matrix does not count."""
    nodes = [
        lrp.Node("scale", lrp.layers.Affine(np.ones(3)), ("x",)),
        lrp.Node("a", nets.lstm(rng, 3, 4), ("scale",)),
        lrp.Node("b", nets.dense(rng, 3, 4), ("x",)),
        lrp.Node("last", lrp.layers.LastRow(), ("b",)),
        lrp.Node("c", nets.dense(rng, 4, 4), ("a:last",)),
        lrp.Node("sum", lrp.layers.Add(), ("c", "last")),
    ]
    model = lrp.Model(nodes)
    sums = {"first": rules.Epsilon(0.1), "last": rules.Epsilon(0.2)}
    found = {node.name: eps_at(lrp.LRP(sums=sums), model, node.name) for node in model.nodes}
    assert found == {"scale": 0.001, "a": 0.1, "b": 0.1, "last": 0.2, "c": 0.2, "sum": 0.001}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rules.Epsilon(-1), "Epsilon: eps must be .*, got -1"),
        (lambda: rules.Gamma("much"), "Gamma: gamma must be .*, got 'much'"),
        (lambda: rules.ZBox(1, 0), "low at most high, got 1 and 0"),
        (lambda: rules.ZBox("a", 0), "ZBox: low and high must each be a number"),
        (lambda: rules.ZBox([[1], [1, 2]], 0), "one for each feature"),
        (lambda: lrp.LRP("some"), "LRP: product must be one of 'all', 'prop', 'abs', 'half', got 'some'"),
        (lambda: lrp.LRP(sums=rules.Flat()), "LRP: sums must be a dict of layers and sum rules, got Flat"),
        (lambda: lrp.LRP(sums={"first": rules.Flat}), r"sums\['first'\] must be a rule such as"),
        (lambda: lrp.LRP(sums={"first": "flat"}), r"sums\['first'\] must be a rule .*, got 'flat'"),
        (lambda: lrp.LRP(eps=1, sums={"default": rules.Flat()}), "eps must be left out where sums has a 'default'"),
        (lambda: lrp.LRP(eps=-1), "LRP: eps must be .*, got -1"),
        (lambda: lrp.LRP(attention="both"), "LRP: attention must be one of 'fixed', 'attnlrp', got 'both'"),
        (lambda: explain(sums={"Denes": rules.Flat()}), "no layer or type 'Denes' to apply to; did you mean 'Dense'"),
        (lambda: explain(sums={7: rules.Flat()}), "no layer or type 7 to apply to; the layers of this model are 0,"),
        (lambda: explain(sums={"0": rules.ZBox([0, 1], [1, 2])}), "one for each of the 3 features .*, got 2"),
        (lambda: explain(sums={"0": Strange()}), "Strange: gains must give a tuple of 1 arrays, one for each mode"),
        (
            lambda: explain(eps=0.1, given={"eps": 0.2}),
            "eps is given twice, in lrp.LRP and in the call; leave one out",
        ),
    ],
)
def test_wrong_rules_are_one_sentence(make, words):
    with pytest.raises(lrp.LrpError, match=words):
        make()


def explain(given=None, **options):
    rng = np.random.default_rng(0)
    model = lrp.Model([nets.dense(rng, 3, 4), nets.lstm(rng, 4, 4), nets.dense(rng, 4, 2)])
    return lrp.explain(model, rng.normal(size=(4, 3)), lrp.LRP(**options), 1, **(given or {}))


def test_the_code_of_a_rule_is_not_settable():
    with pytest.raises(TypeError):
        lrp.Rule("mine", lambda gate, signal, eps: (gate, signal), 1, 2)
    with pytest.raises(TypeError):
        lrp.Rule("mine", lambda gate, signal, eps: (gate, signal), _code=2)


# ---- rules from outside the package ----


class Strange(rules.SumRule):
    """Does not give what it should."""

    def gains(self, z):
        return z


@dataclass(frozen=True)
class Largest(rules.SumRule):
    """Contributions above 0 alone, and only a part of R."""

    part: float = 0.5
    modes = (rules.POSITIVE,)
    bias_modes = ()

    def gains(self, above):
        over, lost = rules.inverse(above, self.eps)
        return (self.part * over,), self.part * lost


def test_a_custom_sum_rule_is_one_class(rng, tmp_path):
    model, xs = graph(rng), [rng.normal(size=(T, 3)) for T in (6, 4)]
    half, whole = (lrp.LRP(sums={"conv": Largest(part), "head": rules.ZPlus()}) for part in (0.5, 1.0))
    found, other = lrp.explain(model, xs[0], half, 1), lrp.explain(model, xs[0], whole, 1)
    close(found.feature_relevance, 0.5 * other.feature_relevance, 1e-12)
    for one in (found, other):
        close(one.ledger.total, one.scores[1], 1e-12, one.ledger.largest)
    assert found.ledger.rule != 0 and abs(other.ledger.rule) < 1e-12 * other.ledger.largest
    (compared,) = lrp.compare(model, xs[0], [half], 1)
    assert (compared.relevance == found.relevance).all() and "Largest(part=0.5)" in compared.options["sums"]
    many = lrp.explain_all(model, xs, half, 1)
    page = _Columns(many, np.arange(2), {}).method("mine")
    assert page["entries"] == ["inputs", "biases", "stabilizer", "initial state", "rule"]
    assert "rule" in str(found) and "rule" in found._repr_html_()
    for _ in range(2):
        stored = lrp.explain_corpus(model, xs, half, 1, out=tmp_path / "a", progress=False)
        assert len(stored) == 2
    close(stored[0].ledger.rule, found.ledger.rule, 1e-12, 1)
    with pytest.raises(lrp.LrpError):
        lrp.explain_corpus(model, xs, whole, 1, out=tmp_path / "a", progress=False)
    Largest.version = 2
    try:
        with pytest.raises(lrp.LrpError, match="custom Largest was 1 and is now 2"):
            lrp.explain_corpus(model, xs, half, 1, out=tmp_path / "a", progress=False)
    finally:
        del Largest.version


def test_methods_that_share_a_name_are_not_lost(rng):
    model, xs = lrp.Model([nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)]), [rng.normal(size=(5, 3)) for _ in range(4)]
    two = [lrp.LRP(eps=0.1), lrp.LRP(eps=0.2)]
    with pytest.raises(lrp.LrpError, match="methods must be different methods, or a dict of names and methods"):
        lrp.rank_methods(model, xs, two, measures=["removal"])
    found = lrp.rank_methods(model, xs, {"small": two[0], "large": two[1]}, measures=["removal"])
    assert [*found.methods] == ["small", "large"]


@dataclass(frozen=True, eq=False, repr=False)
class Gated(Layer):
    """sigmoid(x) x, with and without the reference's values."""

    careful: bool = True

    def sizes(self, x):
        return x

    def forward(self, xs, keep):
        gate = 1 / (1 + np.exp(-xs[0].rows))
        return xs[0]._replace(rows=gate * xs[0].rows), gate

    def backward(self, ran, R, how, entry):
        pairs = ran.both(lambda one: (one.trace, one.inputs[0].rows))
        to_gate, to_signal, lost = how.product(*(pairs if self.careful else pairs[:2]))
        if how.times_input:
            entry.stabilizer(R * lost, ran.outputs[0].batch)
            return [R * (to_gate + to_signal)]
        gates = ran.both(lambda one: (one.inputs[0].rows, one.trace))
        return [R * to_signal + R * to_gate * how.slope("sigmoid", *gates)]


def test_deeplift_takes_the_values_of_the_reference(rng):
    layers = [Gated(), nets.lstm(rng, 3, 4), nets.dense(rng, 4, 2)]
    model, x = lrp.Model(layers, inputs={"x": lrp.Input(3)}), rng.normal(size=(5, 3))
    found = lrp.explain(model, x, "deeplift", 1, reference=np.ones(3))
    close(found.relevance.sum(), found.scores[1] - lrp.predict(model, np.ones((5, 3)))[1], 1e-12, 1)
    careless = lrp.Model([replace(layers[0], careful=False), *layers[1:]], inputs={"x": lrp.Input(3)})
    with pytest.raises(
        lrp.LrpError, match=r"how.product needs the reference's values as well; pass how.product\(\*ran"
    ):
        lrp.explain(careless, x, "deeplift")


def test_gathered_sums_are_one_matrix(rng):
    """A layer of a user's own, written with one Term, takes every rule."""

    class Scale(Layer):
        def sizes(self, x):
            return x

        def forward(self, xs, keep):
            return xs[0]._replace(rows=xs[0].rows * np.array([1.0, -2.0, 3.0])), None

        def backward(self, ran, R, how, entry):
            term = Term(ran.inputs[0].rows, np.array([1.0, -2.0, 3.0]))
            return back_through_sum(how, R, ran.outputs[0], [term], entry)

    x, R = Packed(rng.normal(size=(4, 3)), Batch(np.array([4]))), rng.normal(size=(4, 3))
    for rule, _, _ in CASES[:-1]:
        (R_x,), array = first_message(Scale(), [x], R, how(rule))
        close(R_x.sum() + kept(array, 0).sum(), R.sum(), 1e-12, 10)
