"""Layers: one file a layer, and the table of all that a weight file can hold."""

from lrpnumpy.layers.base import Layer, Record, Size
from lrpnumpy.layers.bidirectional import Bidirectional
from lrpnumpy.layers.dense import Dense
from lrpnumpy.layers.embedding import Embedding
from lrpnumpy.layers.gru import GRU
from lrpnumpy.layers.lstm import LSTM
from lrpnumpy.layers.readout import LastRow, Max, Mean
from lrpnumpy.layers.recurrent import Cell
from lrpnumpy.layers.rnn import RNN

_KINDS: tuple[type[Layer], ...] = (LSTM, GRU, RNN, Bidirectional, Dense, Mean, Max, LastRow)
LAYERS = {kind.__name__: kind for kind in _KINDS}  # by their names in a file

__all__ = [
    "GRU",
    "LAYERS",
    "LSTM",
    "RNN",
    "Bidirectional",
    "Cell",
    "Dense",
    "Embedding",
    "LastRow",
    "Layer",
    "Max",
    "Mean",
    "Record",
    "Size",
]
