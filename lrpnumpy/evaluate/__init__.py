"""Is an explanation any good: networks with a known answer, and measures."""

from lrpnumpy.evaluate.rank import MEASURES, rank_methods
from lrpnumpy.evaluate.ranking import Ranking

__all__ = ["MEASURES", "Ranking", "rank_methods"]
