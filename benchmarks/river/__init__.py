"""A river from its weather: training, and what the trained network has learned about snow and memory."""
