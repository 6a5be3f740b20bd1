"""What flows back through a network: the gradient, LRP by any rule, and DeepLIFT."""

from lrpnumpy.rules.deeplift import DEEPLIFT, REFERENCE, DeepLIFT
from lrpnumpy.rules.gradient import GRADIENT
from lrpnumpy.rules.lrp import LRP, RULES, Relevance, Rule
from lrpnumpy.rules.propagation import Propagation
from lrpnumpy.rules.sums import (
    FLAT,
    NEGATIVE,
    PLAIN,
    POSITIVE,
    SQUARE,
    AlphaBeta,
    Epsilon,
    Flat,
    Gamma,
    SumRule,
    WSquare,
    ZBox,
    ZPlus,
    inverse,
)

__all__ = [
    "DEEPLIFT",
    "FLAT",
    "GRADIENT",
    "LRP",
    "NEGATIVE",
    "PLAIN",
    "POSITIVE",
    "REFERENCE",
    "RULES",
    "SQUARE",
    "AlphaBeta",
    "DeepLIFT",
    "Epsilon",
    "Flat",
    "Gamma",
    "Propagation",
    "Relevance",
    "Rule",
    "SumRule",
    "WSquare",
    "ZBox",
    "ZPlus",
    "inverse",
]
