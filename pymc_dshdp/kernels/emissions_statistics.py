"""Sufficient statistics of the emission families, one pass over the data each, and draws."""

import math

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.copies import copy_into
from pymc_dshdp.kernels.random import log_gamma_draw

WAITING = 64  # rows taken into a triangular factor at a time
SMALLEST_SQUARE = 1e-250


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
            copy_into(mean[k], sums[k] / visits[k])
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


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})
def _dot(x, y, n):
    """Sum of x_i y_i for i < n, in the order that vectorises."""
    total = 0.0
    for i in range(n):
        total += x[i] * y[i]
    return total


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _absorb(columns, n, factor):
    """Replace a triangular factor R by that of R'R + X'X, by Householder reflections.

    Reflection j leaves the rows of R below j alone, so that it acts on row j and on X only.

    Parameters
    ----------
    columns : ndarray of shape (m, WAITING)
        X transposed, n rows of which are used; overwritten.
    n : int
    factor : ndarray of shape (m, m)
        R, upper triangular.
    """
    m = factor.shape[0]
    for j in range(m):
        x, top = columns[j], factor[j, j]
        unit, total = 1.0, top * top + _dot(x, x, n)
        if not SMALLEST_SQUARE < total < 1.0 / SMALLEST_SQUARE:
            unit = abs(top)
            for i in range(n):
                unit = max(unit, abs(x[i]))
            if unit == 0.0:
                continue
            total = (top / unit) ** 2
            for i in range(n):
                total += (x[i] / unit) ** 2
        norm = -math.copysign(unit * math.sqrt(total), top)
        pivot = top - norm
        inverse = 1.0 / pivot
        for i in range(n):
            x[i] *= inverse
        factor[j, j] = norm
        for c in range(j + 1, m):
            y = columns[c]
            weight = (factor[j, c] + _dot(x, y, n)) * (pivot / norm)
            factor[j, c] += weight
            for i in range(n):
                y[i] += x[i] * weight


@njit(cache=True, nogil=True)
def triangular_statistics(z, rows, n_states):
    """Visits, and a triangular factor R_k of the rows of each state; one pass.

    R_k'R_k is the sum of the rows' outer products. A factor instead of that sum: differences of
    sums cancel where residuals are small beside the data. Rows wait by state until there are
    enough of them for a reflection to be worth it, in memory that stays in cache.

    Parameters
    ----------
    z : ndarray of int, shape (T,)
    rows : ndarray of shape (T, m)
    n_states : int

    Returns
    -------
    visits : ndarray of shape (L,)
    factors : ndarray of shape (L, m, m)
        Upper triangular.
    """
    T, m = rows.shape
    visits = np.zeros(n_states)
    factors = np.zeros((n_states, m, m))
    waiting = np.empty((n_states, m, WAITING))
    n_waiting = np.zeros(n_states, np.int64)
    for t in range(T):
        k = z[t]
        visits[k] += 1.0
        i = n_waiting[k]
        for c in range(m):
            waiting[k, c, i] = rows[t, c]
        n_waiting[k] = i + 1
        if i + 1 == WAITING:
            _absorb(waiting[k], WAITING, factors[k])
            n_waiting[k] = 0
    for k in range(n_states):
        _absorb(waiting[k], n_waiting[k], factors[k])
    return visits, factors


@njit(cache=True, nogil=True)
def pooled_factors(one, two):
    """Triangular factors of R'R + S'S for pairs of factors R and S.

    Parameters
    ----------
    one, two : ndarray of shape (K, m, m)
        Upper triangular; ``two`` may have one matrix for all.

    Returns
    -------
    ndarray of shape (K, m, m)
    """
    K, m, _ = one.shape
    out = np.empty((K, m, m))
    columns = np.empty((m, WAITING))
    for k in range(K):
        out[k] = two[k if two.shape[0] == K else 0]
        for low in range(0, m, WAITING):
            n = min(WAITING, m - low)
            seen = False
            for c in range(m):
                for i in range(n):
                    columns[c, i] = one[k, low + i, c]
                    seen |= columns[c, i] != 0.0
            if seen:
                _absorb(columns, n, out[k])
    return out


@njit(cache=True, nogil=True)
def log_gamma_draws(rng, shapes):
    """Logarithms of Gamma(shape, 1) draws, elementwise over a vector of shapes."""
    out = np.empty(shapes.shape[0])
    for i in range(shapes.shape[0]):
        out[i] = log_gamma_draw(rng, shapes[i])
    return out
