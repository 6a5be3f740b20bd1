"""Methods with a reference against captum, on networks that both can do."""

import networks as nets
import numpy as np
import pytest
from networks import close

import lrpnumpy as lrp

torch = pytest.importorskip("torch")
captum = pytest.importorskip("captum.attr")
from interop import restated  # noqa: E402


@pytest.mark.parametrize("cell", nets.CELLS)
def test_integrated_gradients(cell):
    rng = np.random.default_rng(0)
    model = lrp.Model([cell(rng, 3, 4), nets.dense(rng, 4, 2, "tanh"), nets.dense(rng, 2, 2)])
    x, reference = rng.normal(size=(2, 5, 3))

    def scores(batch):
        return torch.stack([restated.scores(model, {"x": one})[1] for one in batch])

    theirs = captum.IntegratedGradients(scores).attribute(
        torch.tensor(x)[None], torch.tensor(reference)[None], n_steps=20, method="gausslegendre"
    )
    ours = lrp.explain(model, x, "integrated-gradients", 1, reference=reference, nodes=20)
    close(ours.feature_relevance, theirs[0].numpy(), 1e-6)  # captum has its weights in float32


def of_captum(network, x, references):
    """captum's DeepLift, the mean over the references."""
    peer = captum.DeepLift(network)
    return np.mean([peer.attribute(x, one[None], target=1).detach().numpy()[0] for one in references], axis=0)


def of_shap(network, x, references):
    """shap's DeepExplainer."""
    explainer = pytest.importorskip("shap").DeepExplainer(network, references)
    return explainer.shap_values(x, check_additivity=False)[0, :, 1]


@pytest.mark.parametrize("peer", [of_captum, of_shap], ids=["captum", "shap"])
@pytest.mark.parametrize("activation", ["Tanh", "Sigmoid", "ReLU", "Softplus"])
def test_deeplift_of_one_step(activation, peer):
    """One step of a plain RNN is a layer like any other: the rescale rule of others knows it."""
    rng = np.random.default_rng(1)
    name = activation.lower()
    cell, hidden = nets.rnn(rng, 3, 4, activation=name), nets.dense(rng, 4, 5, name)
    model = lrp.Model([cell, hidden, nets.dense(rng, 5, 2)])
    layers = []
    for V, d in ((cell.U[0], cell.b[0]), (hidden.V, hidden.d), (model.layers[2].V, model.layers[2].d)):
        linear = torch.nn.Linear(*V.shape[::-1], dtype=torch.float64)
        linear.weight.data, linear.bias.data = torch.tensor(np.array(V)), torch.tensor(np.array(d))
        layers += [linear, getattr(torch.nn, activation)()]
    x, references = rng.normal(size=(1, 3)), rng.normal(size=(2, 3))
    theirs = peer(torch.nn.Sequential(*layers[:-1]), torch.tensor(x), torch.tensor(references))
    ours = lrp.explain(model, x, "deeplift", 1, reference=[*references])
    close(ours.feature_relevance[0], theirs, 1e-6)  # their quotients are not exact near the reference
