"""The gradient: messages are partial derivatives of the score."""

from lrpnumpy.kernels import steps
from lrpnumpy.rules.propagation import Propagation


class GradientPropagation(Propagation):
    """gain 1, product (signal, gate), slope F'."""

    code = steps.GRADIENT


GRADIENT = GradientPropagation()
