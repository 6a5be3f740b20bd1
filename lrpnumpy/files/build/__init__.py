"""The one builder: a graph of operations, from whichever file, to a Model."""
