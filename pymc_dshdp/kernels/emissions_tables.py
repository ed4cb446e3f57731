"""Tables of log-densities of the emission families that are not plain matrix products."""

import math

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from pymc_dshdp.kernels.products import TALL, multiply_tall
from pymc_dshdp.kernels.simd import vectors


def _normal_rows(n_rows):
    """Make ``rows(y, t, packed, constant, out)`` for a number of rows of the table at a time.

    out[t + r, k] = constant[k] - sum_c ((y[t + r, c] - m_kc) / s_kc)^2 / 2. Row v of ``packed``
    has m_kc and then 1 / s_kc of the four states from 4 v on, for each c in turn.
    """

    @intrinsic
    def rows(typingctx, y, t, packed, constant, out):
        signature = types.void(y, t, packed, constant, out)

        def codegen(context, builder, signature, arguments):
            y, packed, constant, out = vectors.arrays_of(context, builder, signature, arguments)
            t = arguments[1]
            zero = t.type(0)
            lines = [builder.add(t, t.type(r)) for r in range(n_rows)]
            observed = [vectors.address(builder, y, line, zero) for line in lines]
            targets = [vectors.address(builder, out, line, zero) for line in lines]
            start, half = (vectors.constant(vectors.VECTOR, value) for value in (0.0, -0.5))
            sums = [cgutils.alloca_once(builder, vectors.VECTOR) for _ in lines]

            def body(k, mask):
                v = builder.udiv(k, k.type(vectors.WIDTH))
                source = vectors.address(builder, packed, v, zero)
                for total in sums:
                    builder.store(start, total)
                with cgutils.for_range(builder, vectors.n_columns(builder, y)) as loop:
                    c = loop.index
                    at = builder.mul(c, c.type(2 * vectors.WIDTH))
                    m = vectors.load(builder, builder.gep(source, [at]))
                    at = builder.add(at, c.type(vectors.WIDTH))
                    w = vectors.load(builder, builder.gep(source, [at]))
                    for line, total in zip(observed, sums, strict=True):
                        x = vectors.spread(builder, builder.load(builder.gep(line, [c])))
                        u = builder.fmul(builder.fsub(x, m), w)
                        added = vectors.multiply_add(builder, u, u, builder.load(total))
                        builder.store(added, total)
                top = vectors.load(builder, builder.gep(constant.data, [k]), mask)
                for target, total in zip(targets, sums, strict=True):
                    row = vectors.multiply_add(builder, half, builder.load(total), top)
                    vectors.store(builder, row, builder.gep(target, [k]), mask)

            vectors.each_vector(builder, vectors.n_columns(builder, out), body)

        return signature, codegen

    return rows


_normal_four, _normal_one = _normal_rows(4), _normal_rows(1)


@njit(cache=True, nogil=True, error_model="numpy")
def normal_table(y, mean, scale):
    """Table of independent normal log-densities, summed over C.

    The difference y - mean is formed before it is scaled, so that nothing cancels: the
    expansion into three matrix products loses (y / scale)^2 in accuracy, and is not faster.

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
    width = vectors.WIDTH
    packed = np.zeros((-(-L // width), 2 * width * C))
    constant = np.zeros(L)
    for k in range(L):
        for c in range(C):
            at = 2 * width * c + k % width
            packed[k // width, at] = mean[k, c]
            packed[k // width, at + width] = 1.0 / scale[k, c]
            constant[k] -= math.log(scale[k, c]) + 0.5 * math.log(2.0 * math.pi)
    y = np.ascontiguousarray(y)
    out = np.empty((T, L))
    whole = T // 4 * 4
    for t in range(0, whole, 4):
        _normal_four(y, t, packed, constant, out)
    for t in range(whole, T):
        _normal_one(y, t, packed, constant, out)
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
    columns = -(-L // vectors.WIDTH) * vectors.WIDTH
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
