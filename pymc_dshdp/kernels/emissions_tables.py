"""Tables of log-densities of the emission families that are not plain matrix products."""

import math

import numpy as np
from numba import njit


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
def add_squares(projected, constant, out):
    """out[t, k] = constant[k] - 0.5 sum_i projected[t, k, i]^2."""
    T, L, d = projected.shape
    for t in range(T):
        for k in range(L):
            total = 0.0
            for i in range(d):
                total += projected[t, k, i] * projected[t, k, i]
            out[t, k] = constant[k] - 0.5 * total
