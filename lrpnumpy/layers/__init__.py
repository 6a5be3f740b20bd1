"""Layers: one file per kind of layer, and the table of all that a weight file can hold."""

from lrpnumpy.layers.attention import AdditiveAttention, Attention, MultiHeadAttention
from lrpnumpy.layers.base import Layer, Record, Size
from lrpnumpy.layers.bidirectional import Bidirectional
from lrpnumpy.layers.cells import (
    EALSTM,
    SLSTM,
    CfC,
    CoupledLSTM,
    DiagonalSSM,
    LayerNormLSTM,
    MinGRU,
    MinLSTM,
    MultiplicativeLSTM,
    PeepholeLSTM,
    ProjectedLSTM,
    SelectiveSSM,
)
from lrpnumpy.layers.dense import Conv1D, Dense
from lrpnumpy.layers.elementwise import Activation, Affine, LayerNorm, Softmax, Square, TwoClasses
from lrpnumpy.layers.embedding import Embedding
from lrpnumpy.layers.join import Add, Average, Concat, Multiply, Subtract
from lrpnumpy.layers.readout import AttentionPool, Max, Mean, Sum, SumAll
from lrpnumpy.layers.recurrent import Cell
from lrpnumpy.layers.shape import Flatten, LastRow, Pad, Repeat, Reshape, Reverse, Slice, Transpose
from lrpnumpy.layers.stacked import GRU, LSTM, RNN
from lrpnumpy.layers.windows import AvgPool1D, MaxPool1D

__all__ = [  # noqa: RUF022
    "Activation", "Add", "AdditiveAttention", "Affine", "Attention", "AttentionPool", "Average", "AvgPool1D",
    "Bidirectional", "Cell", "CfC", "Concat", "Conv1D", "CoupledLSTM", "Dense", "DiagonalSSM", "EALSTM",
    "Embedding", "Flatten", "GRU", "LSTM", "LastRow", "Layer", "LayerNorm", "LayerNormLSTM", "Max", "MaxPool1D",
    "Mean", "MinGRU", "MinLSTM", "MultiHeadAttention", "MultiplicativeLSTM", "Multiply", "Pad", "PeepholeLSTM",
    "ProjectedLSTM", "RNN", "Record", "Repeat", "Reshape", "Reverse", "SLSTM", "SelectiveSSM", "Size", "Slice",
    "Softmax", "Square", "Subtract", "Sum", "SumAll", "Transpose", "TwoClasses",
]  # fmt: skip
_NOT_NODES = ("Cell", "Embedding", "Layer", "Record", "Size")  # bases, and the table in front of a network
# By their names in a file.
LAYERS: dict[str, type[Layer]] = {name: globals()[name] for name in __all__ if name not in _NOT_NODES}
