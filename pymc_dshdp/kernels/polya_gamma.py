r"""Exact draws of Polya-Gamma variables (Polson, Scott & Windle 2013, section 4).

:math:`\omega \sim PG(b, c)` has :math:`E e^{-\omega s} = (\cosh(c / 2) / \cosh(\sqrt{c^2 / 4 +
s / 2}))^b`. For a whole number b it is the sum of b draws of PG(1, c), which is a quarter of
Devroye's :math:`J^*(1, |c| / 2)`. With z = |c| / 2 the density of that is

.. math:: f(x) \propto e^{-z^2 x / 2} \sum_n (-1)^n a_n(x),

where the partial sums lie above and below it in turn. A draw from the envelope with the first
term alone is accepted or rejected as soon as they leave no doubt. The envelope is an exponential
density right of t and an inverse Gaussian density left of t.
"""

import math

import numpy as np

from pymc_dshdp.kernels.cache import njit

CUT = 0.64  # where both forms of the terms fall off fast
HALF_PI_SQUARED = 0.5 * math.pi**2


@njit(cache=True, nogil=True)
def _term(n, x):
    """a_n(x), in the form that falls off faster."""
    half = n + 0.5
    if x > CUT:
        return math.pi * half * math.exp(-HALF_PI_SQUARED * half * half * x)
    root = math.sqrt(2.0 / (math.pi * x))
    return math.pi * half * root * root * root * math.exp(-2.0 * half * half / x)


@njit(cache=True, nogil=True)
def _right_share(z, rate):
    """Share of the envelope right of t: pi / (2 rate) exp(-rate t), the rest 2 exp(-z) F(t).

    F is the distribution function of the inverse Gaussian with mean 1 / z and shape 1.
    """
    scale = math.sqrt(0.5 / CUT)
    below = 0.5 * math.erfc(scale * (1.0 - CUT * z))
    tail = 0.5 * math.erfc(scale * (1.0 + CUT * z))
    if tail > 0.0:
        below += math.exp(2.0 * z) * tail
    return 1.0 / (1.0 + 4.0 * rate / math.pi * math.exp(rate * CUT - z) * below)


@njit(cache=True, nogil=True)
def _left(rng, z):
    """Inverse Gaussian with mean 1 / z and shape 1, given that it is at most t."""
    if z * CUT < 1.0:
        while True:  # 1 / chi-square left of t, tilted
            one, two = rng.standard_exponential(), rng.standard_exponential()
            if one * one * CUT > 2.0 * two:
                continue
            x = CUT / (1.0 + CUT * one) ** 2
            if rng.random() < math.exp(-0.5 * z * z * x):
                return x
    mean = 1.0 / z
    while True:
        normal = rng.standard_normal()
        y = mean * normal * normal
        x = mean / (1.0 + 0.5 * (y + math.sqrt(y * (4.0 + y))))  # the smaller root
        if rng.random() > mean / (mean + x):
            x = mean * mean / x
        if x <= CUT:
            return x


@njit(cache=True, nogil=True)
def polya_gamma_one(rng, c):
    """Draw from PG(1, c)."""
    z = 0.5 * abs(c)
    rate = 0.25 * HALF_PI_SQUARED + 0.5 * z * z
    right = _right_share(z, rate)
    while True:
        if rng.random() < right:
            x = CUT + rng.standard_exponential() / rate
        else:
            x = _left(rng, z)
        total = _term(0, x)
        height = rng.random() * total
        n = 0
        while True:
            n += 1
            if n % 2 == 1:
                total -= _term(n, x)
                if height <= total:
                    return 0.25 * x
            else:
                total += _term(n, x)
                if height > total:
                    break


@njit(cache=True, nogil=True)
def polya_gamma_draws(rng, trials, tilts):
    """Draw from PG(trials, tilt), elementwise over vectors; 0 where there are no trials.

    The time is proportional to the sum of the trials.

    Parameters
    ----------
    rng : numpy.random.Generator
    trials : ndarray of shape (n,)
        Whole numbers.
    tilts : ndarray of shape (n,)

    Returns
    -------
    ndarray of shape (n,)
    """
    out = np.zeros(trials.shape[0])
    for i in range(trials.shape[0]):
        for _ in range(int(trials[i])):
            out[i] += polya_gamma_one(rng, tilts[i])
    return out
