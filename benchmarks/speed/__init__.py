"""How fast, against other libraries and against what the machine can do: python -m benchmarks.speed."""
