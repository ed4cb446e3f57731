"""Kernels written with vector instructions."""
