"""Layers: one file a layer, and the table of all that a weight file can hold."""

from lrpnumpy.layers.activation import Activation
from lrpnumpy.layers.affine import Affine
from lrpnumpy.layers.attention import AdditiveAttention, Attention, MultiHeadAttention
from lrpnumpy.layers.attention_pool import AttentionPool
from lrpnumpy.layers.base import Layer, Record, Size
from lrpnumpy.layers.bidirectional import Bidirectional
from lrpnumpy.layers.dense import Dense
from lrpnumpy.layers.embedding import Embedding
from lrpnumpy.layers.gru import GRU
from lrpnumpy.layers.join import Add, Average, Concat, Multiply, Subtract
from lrpnumpy.layers.lstm import LSTM
from lrpnumpy.layers.norm import LayerNorm
from lrpnumpy.layers.readout import LastRow, Max, Mean
from lrpnumpy.layers.recurrent import Cell
from lrpnumpy.layers.rnn import RNN
from lrpnumpy.layers.shape import Flatten, Repeat, Reshape, Reverse, Slice

_KINDS: tuple[type[Layer], ...] = (
    LSTM, GRU, RNN, Bidirectional, Dense, Mean, Max, LastRow, Activation, Affine, LayerNorm,
    Add, Average, Concat, Multiply, Subtract, Repeat, Flatten, Reshape, Slice, Reverse,
    AttentionPool, Attention, AdditiveAttention, MultiHeadAttention,
)  # fmt: skip
LAYERS = {kind.__name__: kind for kind in _KINDS}  # by their names in a file

__all__ = [
    "GRU",
    "LAYERS",
    "LSTM",
    "RNN",
    "Activation",
    "Add",
    "AdditiveAttention",
    "Affine",
    "Attention",
    "AttentionPool",
    "Average",
    "Bidirectional",
    "Cell",
    "Concat",
    "Dense",
    "Embedding",
    "Flatten",
    "LastRow",
    "Layer",
    "LayerNorm",
    "Max",
    "Mean",
    "MultiHeadAttention",
    "Multiply",
    "Record",
    "Repeat",
    "Reshape",
    "Reverse",
    "Size",
    "Slice",
    "Subtract",
]
