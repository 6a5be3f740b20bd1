"""What flows back through a network: the gradient, LRP by any rule, and DeepLIFT."""

from lrpnumpy.rules.deeplift import DEEPLIFT, REFERENCE, DeepLIFT
from lrpnumpy.rules.gradient import GRADIENT
from lrpnumpy.rules.lrp import LRP, RULES, Rule
from lrpnumpy.rules.propagation import Propagation

__all__ = ["DEEPLIFT", "GRADIENT", "LRP", "REFERENCE", "RULES", "DeepLIFT", "Propagation", "Rule"]
