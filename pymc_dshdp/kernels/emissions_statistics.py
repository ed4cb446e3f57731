"""Sufficient statistics of the emission families, one pass over the data each, and draws."""

import numpy as np
from numba import njit

from pymc_dshdp.kernels.random import log_gamma_draw


@njit(cache=True, nogil=True)
def state_sums(z, y, n_states):
    """Visits and sums of the data by state.

    Parameters
    ----------
    z : ndarray of int, shape (T,)
    y : ndarray of shape (T, C)
    n_states : int

    Returns
    -------
    visits : ndarray of shape (L,)
    sums : ndarray of shape (L, C)
    """
    T, C = y.shape
    visits = np.zeros(n_states)
    sums = np.zeros((n_states, C))
    for t in range(T):
        k = z[t]
        visits[k] += 1.0
        for c in range(C):
            sums[k, c] += y[t, c]
    return visits, sums


@njit(cache=True, nogil=True)
def squared_residuals(z, y, mean):
    """Visits, and sums of (y_t - mean_k)^2 by state; ``mean`` has shape (L, C)."""
    T, C = y.shape
    L = mean.shape[0]
    visits = np.zeros(L)
    out = np.zeros((L, C))
    for t in range(T):
        k = z[t]
        visits[k] += 1.0
        for c in range(C):
            residual = y[t, c] - mean[k, c]
            out[k, c] += residual * residual
    return visits, out


@njit(cache=True, nogil=True)
def category_counts(z, y, n_states, n_categories):
    """Count categories by state: (T, C) integers to (L, C, V)."""
    T, C = y.shape
    out = np.zeros((n_states, C, n_categories))
    for t in range(T):
        for c in range(C):
            out[z[t], c, y[t, c]] += 1.0
    return out


@njit(cache=True, nogil=True)
def log_gamma_draws(rng, shapes):
    """Logarithms of Gamma(shape, 1) draws, elementwise over a vector of shapes."""
    out = np.empty(shapes.shape[0])
    for i in range(shapes.shape[0]):
        out[i] = log_gamma_draw(rng, shapes[i])
    return out
