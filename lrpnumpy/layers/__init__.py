"""Layers: one file a layer, and the table of all that a weight file can hold."""

from lrpnumpy.layers.base import Layer, Record, Size
from lrpnumpy.layers.bidirectional import Bidirectional
from lrpnumpy.layers.dense import Dense
from lrpnumpy.layers.embedding import Embedding
from lrpnumpy.layers.lstm import LSTM
from lrpnumpy.layers.readout import LastRow, Max, Mean
from lrpnumpy.layers.recurrent import Cell

LAYERS: dict[str, type[Layer]] = {kind.__name__: kind for kind in (LSTM, Bidirectional, Dense, Mean, Max, LastRow)}

__all__ = [
    "LAYERS",
    "LSTM",
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
