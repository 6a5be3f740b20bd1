"""Explain the decisions of trained LSTM networks, from plain arrays, without a deep-learning framework."""

from lrpnumpy.checks import LrpError, RelevanceWarning, WeightFileError
from lrpnumpy.corpus import explain_bag, explain_corpus, open_explanations
from lrpnumpy.explain import compare, explain, explain_all
from lrpnumpy.explanation import Comparison, Explanation
from lrpnumpy.files import convert, from_torch, inspect, load, save
from lrpnumpy.methods import methods
from lrpnumpy.model import LSTM, Bidirectional, Dense, Embedding, Model
from lrpnumpy.predict import predict, predict_all
from lrpnumpy.rules import Rule

__version__ = "0.1.0"

__all__ = [
    "LSTM",
    "Bidirectional",
    "Comparison",
    "Dense",
    "Embedding",
    "Explanation",
    "LrpError",
    "Model",
    "RelevanceWarning",
    "Rule",
    "WeightFileError",
    "compare",
    "convert",
    "explain",
    "explain_all",
    "explain_bag",
    "explain_corpus",
    "from_torch",
    "inspect",
    "load",
    "methods",
    "open_explanations",
    "predict",
    "predict_all",
    "save",
]
