"""Logarithms and powers of two from the bits of a number.

A call of the C library's ``log`` stays scalar (about 11 ns an element); the polynomial, in a loop
that the compiler turns into vector instructions, takes 1 to 2 ns. ``contract`` lets multiply-adds
fuse and leaves the order of the additions alone; a division that had to raise at 0 would stop
vectorisation.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.simd.vectors import LN2_HIGH, LN2_LOW

EXPONENT_AT = np.uint64(52)
BITS_OF_ONE = np.uint64(0x3FF0000000000000)
BITS_OF_2_52 = np.uint64(0x4330000000000000)
ABOVE_SQRT_HALF = np.uint64(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)  # up to the bits of one
BIASED_TWICE = np.uint64(2046)


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


@njit(cache=True, nogil=True, inline="always")
def binary_exponent(x):
    """Return e and 2^-e with 1 <= x 2^-e < 2, for a positive, normal x."""
    biased = bits_of(x) >> EXPONENT_AT
    return np.int64(biased) - 1023, float_of((BIASED_TWICE - biased) << EXPONENT_AT)
