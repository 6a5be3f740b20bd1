"""Explain the decisions of trained LSTM networks, from plain arrays, without a deep-learning framework."""

from lrpnumpy.checks import LrpError, RelevanceWarning, WeightFileError
from lrpnumpy.model import LSTM, Bidirectional, Dense, Embedding, Model

__version__ = "0.1.0"

__all__ = [
    "LSTM",
    "Bidirectional",
    "Dense",
    "Embedding",
    "LrpError",
    "Model",
    "RelevanceWarning",
    "WeightFileError",
]
