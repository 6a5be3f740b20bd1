"""Measurements of lrpnumpy: its speed, and the tables and figures of the paper."""
