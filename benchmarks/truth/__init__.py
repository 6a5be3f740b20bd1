"""Benchmarks with a known truth: State, Boxes, planted shortcuts, programs."""
