"""Millions of explanations: in bounded memory, resumable, and on Dask where one machine is not enough."""

from lrpnumpy.corpus.cluster import explain_bag, explain_partition
from lrpnumpy.corpus.run import Run, explain_corpus
from lrpnumpy.corpus.stored import Stored, open_explanations

__all__ = ["Run", "Stored", "explain_bag", "explain_corpus", "explain_partition", "open_explanations"]
