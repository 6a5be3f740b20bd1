"""A recurrent cell as its equations: traced once, run by NumPy or by generated kernels."""
