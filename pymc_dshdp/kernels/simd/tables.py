"""The table of normal log-densities, four states and four rows at a time."""

import math

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.simd import vectors
from pymc_dshdp.kernels.simd.switch import WIDTH
from pymc_dshdp.kernels.simd.vectors import (
    VECTOR,
    address,
    arrays_of,
    each_vector,
    load,
    multiply_add,
    n_columns,
    spread,
    store,
)


def _normal_rows(n_rows):
    """Make ``rows(y, t, packed, constant, out)`` for a number of rows of the table at a time.

    out[t + r, k] = constant[k] - sum_c ((y[t + r, c] - m_kc) / s_kc)^2 / 2. Row v of ``packed``
    has m_kc and then 1 / s_kc of the four states from 4 v on, for each c in turn.
    """

    @intrinsic
    def rows(typingctx, y, t, packed, constant, out):
        signature = types.void(y, t, packed, constant, out)

        def codegen(context, builder, signature, arguments):
            y, packed, constant, out = arrays_of(context, builder, signature, arguments)
            t = arguments[1]
            zero = t.type(0)
            lines = [builder.add(t, t.type(r)) for r in range(n_rows)]
            observed = [address(builder, y, line, zero) for line in lines]
            targets = [address(builder, out, line, zero) for line in lines]
            start, half = (vectors.constant(VECTOR, value) for value in (0.0, -0.5))
            sums = [cgutils.alloca_once(builder, VECTOR) for _ in lines]

            def body(k, mask):
                v = builder.udiv(k, k.type(WIDTH))
                source = address(builder, packed, v, zero)
                for total in sums:
                    builder.store(start, total)
                with cgutils.for_range(builder, n_columns(builder, y)) as loop:
                    c = loop.index
                    at = builder.mul(c, c.type(2 * WIDTH))
                    m = load(builder, builder.gep(source, [at]))
                    at = builder.add(at, c.type(WIDTH))
                    w = load(builder, builder.gep(source, [at]))
                    for line, total in zip(observed, sums, strict=True):
                        x = spread(builder, builder.load(builder.gep(line, [c])))
                        u = builder.fmul(builder.fsub(x, m), w)
                        added = multiply_add(builder, u, u, builder.load(total))
                        builder.store(added, total)
                top = load(builder, builder.gep(constant.data, [k]), mask)
                for target, total in zip(targets, sums, strict=True):
                    row = multiply_add(builder, half, builder.load(total), top)
                    store(builder, row, builder.gep(target, [k]), mask)

            each_vector(builder, n_columns(builder, out), body)

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
    packed = np.zeros((-(-L // WIDTH), 2 * WIDTH * C))
    constant = np.zeros(L)
    for k in range(L):
        for c in range(C):
            at = 2 * WIDTH * c + k % WIDTH
            packed[k // WIDTH, at] = mean[k, c]
            packed[k // WIDTH, at + WIDTH] = 1.0 / scale[k, c]
            constant[k] -= math.log(scale[k, c]) + 0.5 * math.log(2.0 * math.pi)
    y = np.ascontiguousarray(y)
    out = np.empty((T, L))
    whole = T // 4 * 4
    for t in range(0, whole, 4):
        _normal_four(y, t, packed, constant, out)
    for t in range(whole, T):
        _normal_one(y, t, packed, constant, out)
    return out
