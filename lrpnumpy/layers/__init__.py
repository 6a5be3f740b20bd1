"""Layers: one file per kind of layer, and the table of all that a weight file can hold."""

from lrpnumpy.layers.attention import AdditiveAttention, Attention, MultiHeadAttention
from lrpnumpy.layers.attention_pool import AttentionPool
from lrpnumpy.layers.base import Layer, Record, Size
from lrpnumpy.layers.bidirectional import Bidirectional
from lrpnumpy.layers.cells.continuous import CfC, DiagonalSSM, SelectiveSSM
from lrpnumpy.layers.cells.lstms import (
    EALSTM,
    SLSTM,
    CoupledLSTM,
    LayerNormLSTM,
    MultiplicativeLSTM,
    PeepholeLSTM,
    ProjectedLSTM,
)
from lrpnumpy.layers.cells.minimal import MinGRU, MinLSTM
from lrpnumpy.layers.conv import Conv1D
from lrpnumpy.layers.dense import Dense
from lrpnumpy.layers.elementwise import Activation, Affine, Softmax, Square, TwoClasses
from lrpnumpy.layers.embedding import Embedding
from lrpnumpy.layers.join import Add, Average, Concat, Multiply, Subtract
from lrpnumpy.layers.lstm import LSTM
from lrpnumpy.layers.norm import LayerNorm
from lrpnumpy.layers.pooling import AvgPool1D, MaxPool1D
from lrpnumpy.layers.readout import Max, Mean, Sum, SumAll
from lrpnumpy.layers.recurrent import Cell
from lrpnumpy.layers.shape import Flatten, LastRow, Pad, Repeat, Reshape, Reverse, Slice, Transpose
from lrpnumpy.layers.stacked import GRU, RNN

_KINDS: tuple[type[Layer], ...] = (
    LSTM, GRU, RNN, Bidirectional, Dense, Conv1D, MaxPool1D, AvgPool1D, Mean, Max, Sum, LastRow, Activation, Affine,
    LayerNorm, Concat, Add, Average, Subtract, Multiply, Repeat, Flatten, Reshape, Slice, Reverse, AttentionPool,
    Attention, AdditiveAttention, MultiHeadAttention, Square, SumAll, TwoClasses, Softmax, Transpose, Pad,
    MinGRU, MinLSTM, PeepholeLSTM, CoupledLSTM, ProjectedLSTM, LayerNormLSTM, SLSTM, DiagonalSSM, SelectiveSSM, CfC,
    EALSTM, MultiplicativeLSTM,
)  # fmt: skip
LAYERS = {kind.__name__: kind for kind in _KINDS}  # by their names in a file

__all__ = [*LAYERS, "Cell", "Embedding", "Layer", "Record", "Size"]
