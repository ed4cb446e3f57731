"""The operations as plain loops; each docstring stands with its twin of the same name."""

import math

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.simd.switch import LOST, NEGLIGIBLE, SMALLEST_EXPONENT, TALL, WIDTH


@njit(cache=True, nogil=True)
def _exp(x):
    return 0.0 if x < SMALLEST_EXPONENT else math.exp(x)


@njit(cache=True, nogil=True)
def exp_in_place(x, n):
    """See ``rows.exp_in_place``."""
    for i in range(n):
        x[i] = _exp(x[i])


@njit(cache=True, nogil=True)
def log_in_place(x, n):
    """See ``scalars.log_in_place``."""
    for i in range(n):
        x[i] = math.log(x[i])


@njit(cache=True, nogil=True)
def binary_exponent(x):
    """See ``scalars.binary_exponent``."""
    e = math.frexp(x)[1] - 1
    return e, math.ldexp(1.0, -e)


@njit(cache=True, nogil=True)
def exponentiate(table, t, weights, line):
    """See ``rows.exponentiate``."""
    L = table.shape[1]
    top = -np.inf
    for k in range(L):
        if table[t, k] > top:
            top = table[t, k]
    for k in range(L):
        weights[line, k] = _exp(table[t, k] - top)
    for k in range(L, -(-L // WIDTH) * WIDTH):
        weights[line, k] = 0.0
    return top


@njit(cache=True, nogil=True)
def weigh(rows, row, factor, weights, line, out, target):
    """See ``rows.weigh``."""
    total, positive = 0.0, 0
    for k in range(rows.shape[1]):
        product = (rows[row, k] * factor) * weights[line, k]
        out[target, k] = product
        total += product
        positive += product > 0.0
    return total, positive


@njit(cache=True, nogil=True)
def weigh_in_doubt(rows, row, factor, weights, line, out, target, most, growth, bound, lost):
    """See ``rows.weigh_in_doubt``."""
    total_lost, largest = 0.0, 0.0
    for k in range(rows.shape[1]):
        arriving = (lost[target, k] * growth) * most[0, k] + bound * most[1, k]
        weight = weights[line, k] if rows[row, k] * factor < arriving / NEGLIGIBLE else 0.0
        largest = weight if weight > largest else largest
        lost[target, k] = arriving * weight + LOST
        total_lost += lost[target, k]
    total, positive = weigh(rows, row, factor, weights, line, out, target)
    return total, positive, total_lost, largest


@njit(cache=True, nogil=True)
def scale_to(rows, row, factor, out, line):
    """See ``rows.scale_to``."""
    for k in range(out.shape[1]):
        out[line, k] = rows[row, k] * factor


@njit(cache=True, nogil=True)
def multiply_flat(rows, active, n, matrix, row, out):
    """See ``products.multiply_flat``."""
    out[row] = 0.0
    for i in range(matrix.shape[0] if n < 0 else n):
        j = i if n < 0 else active[i]
        for k in range(matrix.shape[1]):
            out[row, k] += rows[row, j] * matrix[j, k]


@njit(cache=True, nogil=True)
def multiply_tall(rows, active, n, matrix, out):
    """See ``products.multiply_tall``."""
    for row in range(TALL):
        multiply_flat(rows, active, n, matrix, row, out)


@njit(cache=True, nogil=True)
def count_below(rows, row, matrix, targets, t, out):
    """See ``products.count_below``."""
    for k in range(matrix.shape[1]):
        total, out[t, k] = 0.0, 0
        for j in range(matrix.shape[0]):
            total += rows[row, j] * matrix[j, k]
            out[t, k] += total <= targets[0, k]


@njit(cache=True, nogil=True)
def normal_table(y, mean, scale):
    """See ``tables.normal_table``."""
    T, C = y.shape
    L = mean.shape[0]
    constant = np.zeros(L)
    for k in range(L):
        for c in range(C):
            constant[k] -= math.log(scale[k, c]) + 0.5 * math.log(2.0 * math.pi)
    out = np.empty((T, L))
    for t in range(T):
        for k in range(L):
            total = 0.0
            for c in range(C):
                u = (y[t, c] - mean[k, c]) / scale[k, c]
                total += u * u
            out[t, k] = constant[k] - 0.5 * total
    return out
