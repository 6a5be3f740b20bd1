"""Millions of explanations: in bounded memory, resumable, and on Dask where one machine is not enough."""

from lrpnumpy.corpus.bags import explain_bag, explain_partition
from lrpnumpy.corpus.run import Output, explain_corpus
from lrpnumpy.corpus.sources import Corpus
from lrpnumpy.corpus.stored import Stored, open_explanations

__all__ = ["Corpus", "Output", "Stored", "explain_bag", "explain_corpus", "explain_partition", "open_explanations"]
