"""What flows back through a network: the gradient, and LRP by any rule."""

from lrpnumpy.rules.gradient import GRADIENT
from lrpnumpy.rules.lrp import LRP, RULES, Rule
from lrpnumpy.rules.propagation import Propagation

__all__ = ["GRADIENT", "LRP", "RULES", "Propagation", "Rule"]
