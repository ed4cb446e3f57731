"""Elementary functions in loops that the compiler turns into vector instructions.

A call of the C library's ``exp`` or ``log`` stays scalar (about 11 ns an element); these
polynomials take 1 to 2 ns. ``contract`` lets multiply-adds fuse and leaves the order of the
additions alone; a division that had to raise at 0 would stop vectorisation.
"""

import math

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from pymc_dshdp.kernels.simd.vectors import LN2_HIGH, LN2_LOW, exp_vectors

EXPONENT_AT = np.uint64(52)
BITS_OF_ONE = np.uint64(0x3FF0000000000000)
BITS_OF_2_52 = np.uint64(0x4330000000000000)
ABOVE_SQRT_HALF = np.uint64(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)  # up to the bits of one
STIRLING_FROM = 8
HALF_LOG_2PI = 0.9189385332046727


@intrinsic
def bits_of(typingctx, x):
    """Return the bits of a float64 as a uint64."""

    def codegen(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.uint64(types.float64), codegen


@intrinsic
def float_of(typingctx, bits):
    """Return the float64 that a uint64 has the bits of."""

    def codegen(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.uint64), codegen


@njit(cache=True, nogil=True)
def exp_in_place(x, n):
    """Replace x[:n] by exp(x[:n]), for x <= 0; -inf gives 0 and NaN stays NaN.

    exp(x) = 2^k exp(r) with k = round(x / log 2), |r| <= log(2)/2, and a polynomial of degree
    11 that agrees with exp to 2e-17 relative. Values below -708 give 0.
    """
    exp_vectors(x, n)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def log_in_place(x, n):
    """Replace x[:n] by log(x[:n]), for positive, finite, normal x.

    x = 2^e m with sqrt(1/2) <= m < sqrt(2); log m = 2 artanh(s), s = (m - 1)/(m + 1), by the
    Taylor polynomial of degree 21 in s, whose remainder is 1e-17.
    """
    for i in range(n):
        biased = (bits_of(x[i]) + ABOVE_SQRT_HALF) >> EXPONENT_AT
        m = float_of(bits_of(x[i]) - (biased << EXPONENT_AT) + BITS_OF_ONE)
        e = (float_of(biased + BITS_OF_2_52) - 4503599627370496.0) - 1023.0
        s = (m - 1.0) / (m + 1.0)
        q = s * s
        p = 1.0 / 21.0
        p = p * q + 1.0 / 19.0
        p = p * q + 1.0 / 17.0
        p = p * q + 1.0 / 15.0
        p = p * q + 1.0 / 13.0
        p = p * q + 1.0 / 11.0
        p = p * q + 1.0 / 9.0
        p = p * q + 1.0 / 7.0
        p = p * q + 1.0 / 5.0
        p = p * q + 1.0 / 3.0
        x[i] = e * LN2_HIGH + (e * LN2_LOW + (2.0 * s + 2.0 * s * (q * p)))


@njit(cache=True, nogil=True, inline="always", error_model="numpy")
def _stirling_tail(y):
    """Series 1/(12 y) - 1/(360 y^3) + ... of log Gamma(y), to 1e-14 for y >= 8."""
    r = 1.0 / y
    q = r * r
    s = 1.0 / 156.0
    s = s * q - 691.0 / 360360.0
    s = s * q + 1.0 / 1188.0
    s = s * q - 1.0 / 1680.0
    s = s * q + 1.0 / 1260.0
    s = s * q - 1.0 / 360.0
    s = s * q + 1.0 / 12.0
    return s * r


@njit(cache=True, nogil=True, inline="always", error_model="numpy")
def _stirling(y, log_y):
    """Return log Gamma(y) for y >= 8 given log y, to 1e-14 (Abramowitz & Stegun 6.1.41)."""
    return (y - 0.5) * log_y - y + HALF_LOG_2PI + _stirling_tail(y)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def add_log_rising(x, repeats, n, out, work):
    """Add sum_i log Gamma(x + repeats_i) - log Gamma(x) to out[:n], for x[:n] > 0.

    A count below 8 is the logarithm of the product x (x+1) ... (x + count - 1); a larger one
    uses Stirling's series at x + count, and one log Gamma(x) for all of them. The differences
    of the series are good to about 1e-16 x log x: use ``log_rising`` for x above 1e4.

    Parameters
    ----------
    x : ndarray of shape (m,), m >= n
    repeats : ndarray of shape (V,), int64
        Not negative.
    out : ndarray of shape (m,)
    work : ndarray of shape (2, m)
        Scratch.
    """
    a, d = work[0], work[1]
    large = 0
    for count in repeats:
        if count == 0:
            continue
        if count < STIRLING_FROM:
            for i in range(n):
                a[i] = x[i]
            for step in range(1, count):
                for i in range(n):
                    a[i] *= x[i] + step
            log_in_place(a, n)
            for i in range(n):
                out[i] += a[i]
        else:
            large += 1
            for i in range(n):
                a[i] = x[i] + count
                d[i] = a[i]
            log_in_place(a, n)
            for i in range(n):
                out[i] += _stirling(d[i], a[i])
    if large > 0:
        for i in range(n):
            d[i] = x[i] + STIRLING_FROM
            a[i] = d[i]
        log_in_place(a, n)
        for i in range(n):
            out[i] -= large * _stirling(d[i], a[i])
        for i in range(n):
            a[i] = x[i]
        for step in range(1, STIRLING_FROM):
            for i in range(n):
                a[i] *= x[i] + step
        log_in_place(a, n)
        for i in range(n):
            out[i] += large * a[i]


@njit(cache=True, nogil=True)
def log_rising(x, n):
    """Return log Gamma(x + n) - log Gamma(x) for x > 0 and integer n >= 0.

    For x >= 8 by the difference of the two Stirling series, written with log1p(n / x) so that
    nothing cancels however large x is.
    """
    if n == 0:
        return 0.0
    if x < STIRLING_FROM:
        return math.lgamma(x + n) - math.lgamma(x)
    main = (x - 0.5) * math.log1p(n / x) + n * math.log(x + n) - n
    return main + (_stirling_tail(x + n) - _stirling_tail(x))
