"""Tables of log-densities of the emission families that are not plain matrix products."""

import math

import numpy as np
from numba import njit

from pymc_dshdp.kernels.products import TALL, WIDTH, multiply_tall


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def normal_table(y, mean, scale):
    """Table of independent normal log-densities, summed over C.

    The difference y - mean is formed before it is scaled, so that nothing cancels: the
    expansion into three matrix products loses (y / scale)^2 in accuracy. Loops run over states
    innermost, which vectorises; it is as fast as those products.

    Parameters
    ----------
    y : ndarray of shape (T, C)
    mean, scale : ndarray of shape (L, C)

    Returns
    -------
    ndarray of shape (T, L)
    """
    T, C = y.shape
    L = mean.shape[0]
    m = np.ascontiguousarray(mean.T)
    w = np.ascontiguousarray(scale.T)
    constant = np.zeros(L)
    for c in range(C):
        for k in range(L):
            constant[k] -= math.log(w[c, k]) + 0.5 * math.log(2.0 * math.pi)
            w[c, k] = 1.0 / w[c, k]
    out = np.zeros((T, L))
    t = 0
    while t + 2 <= T:
        first, second = out[t], out[t + 1]
        for c in range(C):
            a, b = y[t, c], y[t + 1, c]
            m_c, w_c = m[c], w[c]
            for k in range(L):
                u = (a - m_c[k]) * w_c[k]
                v = (b - m_c[k]) * w_c[k]
                first[k] += u * u
                second[k] += v * v
        for k in range(L):
            first[k] = constant[k] - 0.5 * first[k]
            second[k] = constant[k] - 0.5 * second[k]
        t += 2
    while t < T:
        row = out[t]
        for c in range(C):
            a = y[t, c]
            for k in range(L):
                u = (a - m[c, k]) * w[c, k]
                row[k] += u * u
        for k in range(L):
            row[k] = constant[k] - 0.5 * row[k]
        t += 1
    return out


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
    every = np.arange(m)
    four, projected = np.zeros((TALL, m)), np.empty((TALL, d * columns))
    total = np.empty(columns)
    out = np.empty((T, L))
    for low in range(0, T, TALL):
        here = min(TALL, T - low)
        for r in range(here):
            for j in range(m):
                four[r, j] = rows[low + r, j]
        multiply_tall(four, every, m, matrix, projected)
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
