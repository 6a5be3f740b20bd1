"""Layers: one file per layer, and the table of all that a weight file can hold."""

from lrpnumpy.layers.activation import Activation
from lrpnumpy.layers.affine import Affine
from lrpnumpy.layers.attention import AdditiveAttention, Attention, MultiHeadAttention
from lrpnumpy.layers.attention_pool import AttentionPool
from lrpnumpy.layers.base import Layer, Record, Size
from lrpnumpy.layers.bidirectional import Bidirectional
from lrpnumpy.layers.cells.cfc import CfC
from lrpnumpy.layers.cells.coupled_lstm import CoupledLSTM
from lrpnumpy.layers.cells.diagonal_ssm import DiagonalSSM
from lrpnumpy.layers.cells.ea_lstm import EALSTM
from lrpnumpy.layers.cells.layer_norm_lstm import LayerNormLSTM
from lrpnumpy.layers.cells.min_gru import MinGRU
from lrpnumpy.layers.cells.min_lstm import MinLSTM
from lrpnumpy.layers.cells.multiplicative_lstm import MultiplicativeLSTM
from lrpnumpy.layers.cells.peephole_lstm import PeepholeLSTM
from lrpnumpy.layers.cells.projected_lstm import ProjectedLSTM
from lrpnumpy.layers.cells.selective_ssm import SelectiveSSM
from lrpnumpy.layers.cells.slstm import SLSTM
from lrpnumpy.layers.conv import Conv1D
from lrpnumpy.layers.dense import Dense
from lrpnumpy.layers.embedding import Embedding
from lrpnumpy.layers.error import Square, SumAll
from lrpnumpy.layers.gru import GRU
from lrpnumpy.layers.join import Add, Average, Concat, Multiply, Subtract
from lrpnumpy.layers.lstm import LSTM
from lrpnumpy.layers.norm import LayerNorm
from lrpnumpy.layers.pooling import AvgPool1D, MaxPool1D
from lrpnumpy.layers.readout import Max, Mean, Sum
from lrpnumpy.layers.recurrent import Cell
from lrpnumpy.layers.rnn import RNN
from lrpnumpy.layers.shape import Flatten, LastRow, Pad, Repeat, Reshape, Reverse, Slice, Transpose
from lrpnumpy.layers.softmax import Softmax
from lrpnumpy.layers.two_classes import TwoClasses

_KINDS: tuple[type[Layer], ...] = (
    LSTM, GRU, RNN, Bidirectional, Dense, Conv1D, MaxPool1D, AvgPool1D, Mean, Max, Sum, LastRow, Activation, Affine,
    LayerNorm, Concat, Add, Average, Subtract, Multiply, Repeat, Flatten, Reshape, Slice, Reverse, AttentionPool,
    Attention, AdditiveAttention, MultiHeadAttention, Square, SumAll, TwoClasses, Softmax, Transpose, Pad,
    MinGRU, MinLSTM, PeepholeLSTM, CoupledLSTM, ProjectedLSTM, LayerNormLSTM, SLSTM, DiagonalSSM, SelectiveSSM, CfC,
    EALSTM, MultiplicativeLSTM,
)  # fmt: skip
LAYERS = {kind.__name__: kind for kind in _KINDS}  # by their names in a file

__all__ = [*LAYERS, "Cell", "Embedding", "Layer", "Record", "Size"]
