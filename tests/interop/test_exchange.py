"""Objects of shap, captum and scikit-learn: plots of shap, the interface of captum, scalers and ColumnTransformer."""

import numpy as np
import pytest

import lrpnumpy as lrp

shap = pytest.importorskip("shap")
torch = pytest.importorskip("torch")
captum = pytest.importorskip("captum.attr")
pandas = pytest.importorskip("pandas")
pytest.importorskip("sklearn")

from matplotlib import pyplot  # noqa: E402
from sklearn.compose import ColumnTransformer  # noqa: E402
from sklearn.impute import SimpleImputer  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, PolynomialFeatures, StandardScaler  # noqa: E402

NAMES = ["rain", "warmth", "wind"]


class Forecaster(torch.nn.Module):
    """Of a series, and of a vector beside it."""

    def __init__(self, static=0, two_way=False):
        super().__init__()
        self.lstm = torch.nn.LSTM(3, 6, batch_first=True, bidirectional=two_way)
        self.head = torch.nn.Linear((12 if two_way else 6) + static, 2)

    def forward(self, x, static=None):
        last = self.lstm(x)[0][:, -1]
        return self.head(last if static is None else torch.cat([last, static], 1))


class Reader(torch.nn.Module):
    """Of token ids."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(20, 4)
        self.rnn = torch.nn.GRU(4, 5, batch_first=True)
        self.head = torch.nn.Linear(5, 3)

    def forward(self, ids):
        return self.head(self.rnn(self.words(ids))[1][0])


@pytest.fixture(scope="module")
def module():
    torch.manual_seed(0)
    return Forecaster().eval()


@pytest.fixture(scope="module")
def results(module):
    model = lrp.from_torch(module, features=NAMES)
    days = np.arange("2024-01-01", "2024-01-13", dtype="datetime64[D]")
    rng = np.random.default_rng(0)
    return lrp.explain_all(
        model, [lrp.Table(rng.normal(size=(12, 3)), days, tuple(NAMES)) for _ in range(20)], target=1
    )


# ---- shap ----


def test_an_explanation_of_shap(results):
    e = results[3]
    for method in ("deeplift", "lrp-all"):
        one = lrp.explain(e.source.model, e.values, method, 1).to_shap()
        assert one.values.shape == one.data.shape == (36,)
        np.testing.assert_allclose(one.base_values + one.values.sum(), e.score, rtol=1e-5)
    found = e.to_shap()
    np.testing.assert_array_equal(found.values, e.feature_relevance.ravel())
    np.testing.assert_array_equal(found.data, e.values.ravel())
    np.testing.assert_allclose(found.base_values, e.reference_score, atol=1e-6)
    assert found.feature_names[-3:] == ["rain, now", "warmth, now", "wind, now"]
    assert found.feature_names[:2] == ["rain, 11 days before", "warmth, 11 days before"]
    assert found.feature_names[-6] == "rain, 1 day before"
    by_step = e.to_shap(flat=False)
    np.testing.assert_array_equal(by_step.values, e.feature_relevance)
    assert by_step.feature_names == NAMES


def test_many_explanations_of_shap(results):
    found = results.to_shap()
    assert found.shape == (20, 36) and len(found.base_values) == 20
    np.testing.assert_array_equal(found[3].values, results[3].to_shap().values)
    assert results.to_shap(flat=False).shape == (20, 12, 3)


@pytest.mark.parametrize("name", ["waterfall", "beeswarm", "heatmap", "bar", "scatter"])
def test_plots_of_shap(results, name):
    found = results.to_shap()
    if name == "waterfall":
        found = found[0]
    if name == "scatter":
        found = found[:, "rain, now"]
    getattr(shap.plots, name)(found, show=False)
    texts = " ".join(text.get_text() for ax in pyplot.gcf().axes for text in [*ax.get_yticklabels(), ax.xaxis.label])
    pyplot.close("all")
    assert "rain, now" in texts


def test_words_in_shap():
    model = lrp.load("sentiment")
    one = lrp.explain(model, "neither funny nor suspenseful .", target=4).to_shap()
    assert one.feature_names == ["neither", "funny", "nor", "suspenseful", "."] and one.data[1] == "funny "
    many = lrp.explain_all(model, ["not funny", "a charming film !"], target=4).to_shap()
    for some in (one, many):
        page = shap.plots.text(some, display=False)
        assert "charming" in page or "suspenseful" in page
    assert many[1].values.shape == (4,)


def test_several_inputs_in_shap_and_what_does_not_fit(results):
    torch.manual_seed(1)
    model = lrp.from_torch(Forecaster(2).eval(), check=(torch.randn(2, 5, 3), torch.randn(2, 2)))
    first, second = model.inputs
    e = lrp.explain(model, {first: np.ones((5, 3)), second: np.ones(2)}, target=0)
    found = e.to_shap()
    assert found.feature_names[-1] == f"{second}: x1" and found.feature_names[0] == f"{first}: x0, 4 steps before"
    np.testing.assert_allclose(found.base_values + found.values.sum(), e.score, rtol=1e-5)
    with pytest.raises(lrp.LrpError, match="one input with relevance per feature"):
        e.to_shap(flat=False)
    model = results[0].source.model
    with pytest.raises(lrp.LrpError, match="all sequences must have one length, got 3 to 4"):
        lrp.explain_all(model, [np.ones((3, 3)), np.ones((4, 3))], target=0).to_shap()
    with pytest.raises(lrp.LrpError, match="needs one class"):
        lrp.explain(model, np.ones((3, 3)), target="all").to_shap()


# ---- captum ----


@pytest.mark.parametrize("two_way", [False, True])
def test_the_same_as_captum(two_way):
    """Integrated gradients and input x gradient, by the same call; a baseline for all, and one for each record."""
    torch.manual_seed(2)
    module = Forecaster(two_way=two_way).double().eval()
    x, own = torch.randn(3, 5, 3).double(), torch.randn(3, 5, 3).double()
    ours = lrp.Attribution(module, "integrated-gradients")
    theirs = captum.IntegratedGradients(module)
    for baselines in (None, 0.3, own[:1], own):
        for target in (1, torch.tensor([0, 1, 1])):
            found, delta = ours.attribute(x, baselines, target, return_convergence_delta=True)
            want = theirs.attribute(x, baselines, target, n_steps=60)
            assert found.shape == x.shape and found.dtype == x.dtype and delta.shape == (3,)
            torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-5)
            assert delta.abs().max() < 1e-5
    found = lrp.Attribution(module, "gradient-x-input").attribute(x, target=1)
    torch.testing.assert_close(found, captum.InputXGradient(module).attribute(x.requires_grad_(), target=1).detach())


def test_captum_with_several_inputs_and_with_words():
    torch.manual_seed(3)
    module, inputs = Forecaster(2).eval(), (torch.randn(4, 5, 3), torch.randn(4, 2))
    ours = lrp.Attribution(module, "integrated-gradients", check=inputs)
    found = ours.attribute(inputs, baselines=(0, torch.ones(2)), target=0)
    want = captum.IntegratedGradients(module).attribute(inputs, (0, torch.ones(1, 2)), 0, n_steps=100)
    for one, other in zip(found, want, strict=True):
        torch.testing.assert_close(one, other.float(), rtol=1e-3, atol=1e-3)
    reader, ids = Reader().eval(), torch.randint(0, 20, (3, 6))
    words = lrp.Attribution(reader, "lrp-all").attribute(ids, target=2)
    assert words.shape == ids.shape and words.dtype == torch.float32
    deeplift = lrp.Attribution(reader, "deeplift").attribute(ids, baselines=0, target=2)  # token 0 at every step
    gap = reader(ids)[:, 2] - reader(torch.zeros_like(ids))[:, 2]
    torch.testing.assert_close(deeplift.sum(1), gap.detach(), rtol=1e-4, atol=1e-5)


def test_a_model_and_arrays_in_the_interface_of_captum():
    model, x = lrp.load("vowels"), np.random.default_rng(0).normal(size=(2, 9, 12))
    found = lrp.Attribution(model).attribute(x, target=[1, 2])
    assert isinstance(found, np.ndarray) and found.shape == x.shape
    np.testing.assert_allclose(found[1], lrp.explain(model, x[1], target=2).feature_relevance, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("method", "inputs", "options", "says"),
    [
        (
            "deeplift",
            np.ones((2, 5, 3)),
            {"baselines": np.ones((3, 5, 3))},
            "baselines must be a number or have the shape",
        ),
        ("deeplift", (np.ones((2, 5, 3)),) * 2, {}, "inputs must be 1 tensors"),
        ("deeplift", np.ones(3), {}, "batch as their first axis"),
        ("deeplift", "text", {}, "batch as their first axis"),
        ("lrp-all", np.ones((2, 5, 3)), {"baselines": 0}, "unknown option 'reference' for lrp-all"),
        ("lrp-all", np.ones((2, 5, 3)), {"return_convergence_delta": True}, "needs a method with a reference"),
        ("integrated-gradients", np.ones((2, 5, 3)), {"n_steps": 50}, "did you mean nodes"),
        ("deeplift", np.ones((2, 5, 3)), {"target": [1]}, "one class for each of the 2"),
    ],
)
def test_what_cannot_be_attributed(module, method, inputs, options, says):
    with pytest.raises(lrp.LrpError, match=says):
        lrp.Attribution(module, method).attribute(inputs, **options)


# ---- scikit-learn ----


def wards(rng, T=8):
    kinds = rng.choice(["icu", "cardiac", "surgery"], size=T)
    return pandas.DataFrame({"age": rng.normal(60, 9, T), "ward": kinds, "pulse": rng.normal(80, 5, T), "id": 1.0})


def a_model(width, **options):
    rng = np.random.default_rng(5)
    gates = rng.normal(size=(4, 5, width)) / 3, rng.normal(size=(4, 5, 5)) / 3
    return lrp.Model([lrp.LSTM(*gates), lrp.Dense(rng.normal(size=(2, 5)))], **options)


@pytest.mark.parametrize("drop", [None, "first"])
def test_a_column_transformer_in_front_of_the_network(drop):
    """Raw frames go in; names, units and one-hot groups come out, and scores are those of transform."""
    rng = np.random.default_rng(6)
    train, x = wards(rng, 50), wards(rng)
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    transformer = ColumnTransformer(
        [("num", numbers, ["age"]), ("hot", OneHotEncoder(drop=drop), ["ward"]), ("01", MinMaxScaler(), ["pulse"])],
        sparse_threshold=0,
    ).fit(train)
    seen = transformer.transform(x)
    plain = a_model(seen.shape[1])
    model = plain.with_units(scaler=transformer)
    codes = ["ward_cardiac", "ward_icu", "ward_surgery"][drop is not None :]
    assert model.features == ("age", *codes, "pulse") and model.groups == {"ward": codes}
    np.testing.assert_allclose(lrp.predict(model, x), lrp.predict(plain, seen), rtol=1e-6)
    e = lrp.explain(model, x, "deeplift", 0).with_groups(model.groups)
    assert e.features == ("age", "ward", "pulse")
    want = lrp.explain(plain, seen, "deeplift", 0)
    np.testing.assert_allclose(e.relevance, want.relevance, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(e.values[:, 0], x["age"])
    one = lrp.explain(model, x[-1:], "deeplift", 0).with_groups(model.groups)
    assert drop or one.features[1] == f"ward = {x['ward'].iloc[-1]}"
    assert model.astype("float32").groups == model.groups
    with pytest.raises(lrp.LrpError, match="column 'ward' must hold one of 'cardiac', 'icu', 'surgery', got 'attic'"):
        lrp.explain(model, x.assign(ward="attic"))


def test_what_is_not_affine_is_an_error():
    train = wards(np.random.default_rng(7), 30)
    with pytest.raises(lrp.LrpError, match="must be fitted"):
        a_model(1, scaler=ColumnTransformer([("a", StandardScaler(), ["age"])]))
    with pytest.raises(lrp.LrpError, match="got a PolynomialFeatures for age"):
        a_model(3, scaler=ColumnTransformer([("a", PolynomialFeatures(), ["age"])]).fit(train))
    rare = ColumnTransformer([("a", OneHotEncoder(max_categories=2), ["ward"])]).fit(train)
    with pytest.raises(lrp.LrpError, match="joins some of them"):
        a_model(2, scaler=rare)


def test_shapley_values_of_a_module(module):
    """As captum's, with the steps of a feature as one player, whose value is shared among its steps."""
    x = torch.randn(2, 5, 3)
    found = lrp.Attribution(module, lrp.Shapley(players="features")).attribute(x, target=1)
    masks = torch.arange(3).expand(1, 5, 3).contiguous()
    assert found.shape == x.shape and found.dtype == x.dtype
    exact = captum.ShapleyValues(module).attribute(x, target=1, feature_mask=masks)
    torch.testing.assert_close(found.sum(1), exact[:, 0], atol=1e-4, rtol=0)


def test_columns_that_pass_through_and_scalers_alone():
    train = wards(np.random.default_rng(8), 30)[["age", "pulse"]]
    through = ColumnTransformer([("a", StandardScaler(), ["age"])], remainder="passthrough").fit(train)
    model = a_model(2, scaler=through)
    assert model.features == ("age", "pulse") and model.groups == {} and model.inputs["x"].scaler.scale[1] == 1
    assert a_model(2, scaler=StandardScaler().fit(train)).features == ("age", "pulse")
