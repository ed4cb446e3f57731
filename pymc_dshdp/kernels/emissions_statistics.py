"""Sufficient statistics of the emission families, one pass over the data each, and draws."""

import math

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
def state_moments(z, y, n_states):
    """Visits, sums, and sums of squared deviations from the state's own mean; two passes.

    Parameters
    ----------
    z : ndarray of int, shape (T,)
    y : ndarray of shape (T, C)
    n_states : int

    Returns
    -------
    visits : ndarray of shape (L,)
    sums, squares : ndarray of shape (L, C)
    """
    visits, sums = state_sums(z, y, n_states)
    mean = np.zeros(sums.shape)
    for k in range(n_states):
        if visits[k] > 0.0:
            mean[k] = sums[k] / visits[k]
    return visits, sums, squared_residuals(z, y, mean)[1]


@njit(cache=True, nogil=True)
def category_counts(z, y, n_states, n_categories):
    """Count categories by state: (T, C) integers to (L, C, V)."""
    T, C = y.shape
    out = np.zeros((n_states, C, n_categories))
    for t in range(T):
        for c in range(C):
            out[z[t], c, y[t, c]] += 1.0
    return out


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def triangularise(rows, starts, out):
    """Householder triangular factors of blocks of consecutive rows, which are overwritten.

    Parameters
    ----------
    rows : ndarray of shape (T, m)
    starts : ndarray of int, shape (L + 1,)
        Block k is ``rows[starts[k] : starts[k + 1]]``.
    out : ndarray of shape (L, m, m)
        R_k with R_k'R_k = block'block; zero on entry.
    """
    m = rows.shape[1]
    weights = np.empty(m)
    for k in range(starts.shape[0] - 1):
        block = rows[starts[k] : starts[k + 1]]
        n = block.shape[0]
        for j in range(min(n, m)):
            largest = 0.0
            for i in range(j, n):
                largest = max(largest, abs(block[i, j]))
            if largest > 0.0:
                total = 0.0
                for i in range(j, n):
                    total += (block[i, j] / largest) ** 2
                norm = -math.copysign(largest * math.sqrt(total), block[j, j])
                pivot = block[j, j] - norm
                weights[:] = 0.0
                for i in range(j + 1, n):
                    block[i, j] /= pivot
                    for c in range(j + 1, m):
                        weights[c] += block[i, j] * block[i, c]
                for c in range(j + 1, m):
                    weights[c] = (weights[c] + block[j, c]) * (pivot / norm)
                    block[j, c] += weights[c]
                for i in range(j + 1, n):
                    for c in range(j + 1, m):
                        block[i, c] += block[i, j] * weights[c]
                block[j, j] = norm
            for c in range(j, m):
                out[k, j, c] = block[j, c]


@njit(cache=True, nogil=True)
def log_gamma_draws(rng, shapes):
    """Logarithms of Gamma(shape, 1) draws, elementwise over a vector of shapes."""
    out = np.empty(shapes.shape[0])
    for i in range(shapes.shape[0]):
        out[i] = log_gamma_draw(rng, shapes[i])
    return out
