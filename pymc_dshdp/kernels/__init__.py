"""Compiled kernels: arrays and a generator in, new arrays out. NumPy and numba only."""
