"""Keras: files of versions 1 to 3, and live models, to a Model."""
