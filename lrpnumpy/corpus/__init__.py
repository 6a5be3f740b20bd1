"""Millions of explanations: in bounded memory, resumable, and on Dask where one machine is not enough."""

from lrpnumpy.corpus.run import Output, explain_corpus
from lrpnumpy.corpus.sources import Corpus
from lrpnumpy.corpus.stored import Stored, open_explanations
from lrpnumpy.corpus.work import explain_bag, explain_partition

__all__ = ["Corpus", "Output", "Stored", "explain_bag", "explain_corpus", "explain_partition", "open_explanations"]
