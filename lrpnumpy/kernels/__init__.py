"""Numba kernels: arrays and scalars in, arrays out; nothing here knows of the outer layers."""
