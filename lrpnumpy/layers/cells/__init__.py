"""Recurrent cells besides LSTM, GRU and RNN: one file per cell, each its equations."""
