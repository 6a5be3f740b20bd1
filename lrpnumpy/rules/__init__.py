"""Backward passes: the gradient, LRP by any rule, and DeepLIFT."""

from lrpnumpy.rules.deeplift import DEEPLIFT, REFERENCE
from lrpnumpy.rules.lrp import RULES, ProductRule, Relevance, Rule, product_rule
from lrpnumpy.rules.propagation import GRADIENT, Propagation
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
    "DEEPLIFT", "FLAT", "GRADIENT", "NEGATIVE", "PLAIN", "POSITIVE", "REFERENCE", "RULES", "SQUARE",
    "AlphaBeta", "Epsilon", "Flat", "Gamma", "ProductRule", "Propagation", "Relevance", "Rule", "SumRule", "WSquare",
    "ZBox", "ZPlus", "inverse", "product_rule",
]  # fmt: skip
