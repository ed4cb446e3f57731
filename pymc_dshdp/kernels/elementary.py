"""Ratios of gamma functions.

``contract`` lets multiply-adds fuse and leaves the order of the additions alone; a division that
had to raise at 0 would stop the compiler from turning a loop into vector instructions.
"""

import math

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.simd import log_in_place

STIRLING_FROM = 8
HALF_LOG_2PI = 0.9189385332046727


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
