"""Tables of log-densities of the emission families that are not plain matrix products."""

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.simd import TALL, WIDTH, multiply_tall


@njit(cache=True, nogil=True)
def category_table(y, log_probabilities):
    """Table of categorical log-densities: (T, C) integers and (C, V, L) to (T, L)."""
    T, C = y.shape
    L = log_probabilities.shape[2]
    out = np.zeros((T, L))
    for t in range(T):
        for c in range(C):
            row = log_probabilities[c, y[t, c]]
            for k in range(L):
                out[t, k] += row[k]
    return out


@njit(cache=True, nogil=True, fastmath={"contract"})
def squares_table(rows, projections, constant):
    """Table of constant_k - |B_k x_t|^2 / 2, four rows at a time with the sums in registers.

    Parameters
    ----------
    rows : ndarray of shape (T, m)
        x.
    projections : ndarray of shape (L, d, m)
        B.
    constant : ndarray of shape (L,)

    Returns
    -------
    ndarray of shape (T, L)
    """
    T, m = rows.shape
    L, d, _ = projections.shape
    columns = -(-L // WIDTH) * WIDTH
    matrix = np.zeros((m, d * columns))
    for k in range(L):
        for i in range(d):
            for j in range(m):
                matrix[j, i * columns + k] = projections[k, i, j]
    every = np.empty(0, np.int64)
    four, projected = np.zeros((TALL, m)), np.empty((TALL, d * columns))
    total = np.empty(columns)
    out = np.empty((T, L))
    for low in range(0, T, TALL):
        here = min(TALL, T - low)
        for r in range(here):
            for j in range(m):
                four[r, j] = rows[low + r, j]
        multiply_tall(four, every, -1, matrix, projected)
        for r in range(here):
            for k in range(columns):
                total[k] = projected[r, k] * projected[r, k]
            for i in range(1, d):
                for k in range(columns):
                    x = projected[r, i * columns + k]
                    total[k] += x * x
            for k in range(L):
                out[low + r, k] = constant[k] - 0.5 * total[k]
    return out
