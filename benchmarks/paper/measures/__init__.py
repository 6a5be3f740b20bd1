"""Measures that only the paper's tables need: composition, representations, removal of words, the toy task."""
