"""The reconstruction error of an autoencoder as a network, so that it can be explained."""

from __future__ import annotations

from lrpnumpy.checks import LrpError
from lrpnumpy.layers import Activation, Square, Subtract, SumAll
from lrpnumpy.meant import door
from lrpnumpy.model import Model, Node, free_name


@door
def reconstruction_error(model: Model, *, mean: bool = False) -> Model:
    """A model whose one score is the error of an autoencoder: the sum of (input - output)² over steps and features.

    `model` must return one value per feature at every step. With `mean` the score is the mean instead of the sum, like
    a mean squared error loss. Explain it like any other model: why is this window an anomaly?

        e = lrp.explain(lrp.reconstruction_error(model), window)
        e.feature_relevance  # (steps, features)

    The input receives relevance in two ways: directly, and through the network that reconstructs it. If the model's
    output is "sigmoid", its scores are compared after the sigmoid. If the model has scalers, scaled values are
    compared, so features with large values do not count more.
    """
    if not model.every or model.outputs != model.input_size:
        gives = f"{model.outputs} numbers" + (" at every step" if model.every else " once")
        raise LrpError(
            f"reconstruction_error: model must give the {model.input_size} numbers of its input at every step, got one "
            f"that gives {gives}."
        )
    value, nodes = model.result, list(model.network)

    def add(name: str, layer: Activation | Subtract | Square | SumAll, *inputs: str) -> str:
        nodes.append(Node(free_name(name, model.sizes), layer, inputs))
        return nodes[-1].name

    if model.output == "sigmoid":
        value = add("reconstruction", Activation("sigmoid"), value)
    value = add("difference", Subtract(), model.main, value)
    value = add("square", Square(), value)
    value = add("error", SumAll(mean), value)
    return Model(
        tuple(nodes),
        inputs=model.inputs,
        result=value,
        classes=("reconstruction error",),
        provenance=model.provenance,
    )
