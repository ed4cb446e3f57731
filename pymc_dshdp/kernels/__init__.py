"""Compiled kernels: arrays and a generator in, new arrays out. NumPy and numba only."""

from pymc_dshdp.kernels.cache import ensure_cache

_folder = ensure_cache()
