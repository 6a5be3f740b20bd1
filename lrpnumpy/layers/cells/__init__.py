"""Recurrent cells besides LSTM, GRU and RNN: one file per cell, each its equations."""

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

__all__ = [
    "EALSTM",
    "SLSTM",
    "CfC",
    "CoupledLSTM",
    "DiagonalSSM",
    "LayerNormLSTM",
    "MinGRU",
    "MinLSTM",
    "MultiplicativeLSTM",
    "PeepholeLSTM",
    "ProjectedLSTM",
    "SelectiveSSM",
]
