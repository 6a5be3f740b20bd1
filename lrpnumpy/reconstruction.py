"""The reconstruction error of an autoencoder as a network of its own, so that it can be explained."""

from __future__ import annotations

from lrpnumpy.checks import LrpError
from lrpnumpy.layers import Activation, Square, Subtract, SumAll
from lrpnumpy.meant import door
from lrpnumpy.model import Model, Node


@door
def reconstruction_error(model: Model, *, mean: bool = False) -> Model:
    """A model whose one score is the error of an autoencoder: the sum of (input - output)² over steps and features.

    `model` gives at every step as many numbers as its input has. With `mean` the score is the mean instead of the sum,
    which is what a loss of mean squared errors is. Explain it like any other model: why is this window an anomaly?

        e = lrp.explain(lrp.reconstruction_error(model), window)
        e.feature_relevance  # (steps, features)

    The input gets relevance both ways: as what is compared, and through the network that reconstructs it. Where the
    model's output is "sigmoid", its scores are compared after the sigmoid. Where the model has scalers, scaled numbers
    are compared: a feature with large ones counts no more than another.
    """
    if not model.every or model.outputs != model.inputs:
        gives = f"{model.outputs} numbers" + (" at every step" if model.every else " once")
        raise LrpError(
            f"reconstruction_error: model must give the {model.inputs} numbers of its input at every step, got one "
            f"that gives {gives}."
        )
    taken = {*model.ports, *(node.name for node in model.nodes)}
    value, nodes = model.result, list(model.network)

    def add(name: str, layer: Activation | Subtract | Square | SumAll, *inputs: str) -> str:
        while name in taken:
            name += "_"
        nodes.append(Node(name, layer, inputs))
        return name

    if model.output == "sigmoid":
        value = add("reconstruction", Activation("sigmoid"), value)
    value = add("difference", Subtract(), model.main, value)
    value = add("square", Square(), value)
    value = add("error", SumAll(mean), value)
    return Model(
        tuple(nodes),
        ports=model.ports,
        result=value,
        classes=("reconstruction error",),
        provenance=model.provenance,
    )
