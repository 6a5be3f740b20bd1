"""Shipped models: one HDF5 file each, found by name with `lrpnumpy.load`."""
