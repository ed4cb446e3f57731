"""Predictive densities of continuous emissions, their parameters integrated out.

Sizes: T time points, C independent channels with parameters of their own, L slots. Arrays by slot
have a row L that stays empty: the prior, for slots that include nothing. Where a slot empties its
sums are set back to the prior's, and precisions are formed from whole counts, so that rounding
does not build up.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from pymc_dshdp.kernels.predictive import implement

LOG_2PI = math.log(2.0 * math.pi)
VISITS, CONSTANT = 0, 1  # columns of ``totals``


class NormalMean(NamedTuple):
    """y_c ~ N(mu_kc, 1/q), the precision q known, mu_kc ~ N(m, 1/p).

    Given n observations, mu ~ N(mean, 1/P) with P = p + n q, and the next one has precision
    q P / (q + P).

    Attributes
    ----------
    data : ndarray of shape (T, C)
    slots : ndarray of shape (L + 1, C, 5)
        q, m, p, the mean of mu, and the precision of the next observation.
    totals : ndarray of shape (L + 1, 2)
        n, and the logarithm of the predictive density at its mode, summed over C.
    """

    data: np.ndarray
    slots: np.ndarray
    totals: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def normal_mean(data, noise_scale, prior_mean, prior_scale):
    """Build ``NormalMean`` with nothing included; parameters of shape (L + 1, C)."""
    slots, C = prior_mean.shape
    emission = NormalMean(data, np.empty((slots, C, 5)), np.zeros((slots, 2)))
    emission.slots[:, :, 0] = noise_scale**-2.0
    emission.slots[:, :, 1] = prior_mean
    emission.slots[:, :, 2] = prior_scale**-2.0
    for k in range(slots):
        _normal_mean_change(emission, 0, k, 0.0)
    return emission


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _normal_mean_change(emission, t, k, change):
    data, slots, totals = emission.data, emission.slots, emission.totals
    n = totals[k, VISITS] + change
    totals[k, VISITS] = n
    log_precision = 0.0
    for c in range(data.shape[1]):
        noise = slots[k, c, 0]
        posterior = slots[k, c, 2] + n * noise
        if n == 0.0:
            slots[k, c, 3] = slots[k, c, 1]
        else:
            slots[k, c, 3] += change * (data[t, c] - slots[k, c, 3]) * (noise / posterior)
        slots[k, c, 4] = noise * posterior / (noise + posterior)
        log_precision += math.log(slots[k, c, 4]) - LOG_2PI
    totals[k, CONSTANT] = 0.5 * log_precision


def _normal_mean_log_predictive(emission, t, active, n, with_empty, out):
    data, slots, totals = emission.data, emission.slots, emission.totals
    for i in range(n + 1 if with_empty else n):
        k = active[i] if i < n else totals.shape[0] - 1
        square = 0.0
        for c in range(data.shape[1]):
            residual = data[t, c] - slots[k, c, 3]
            square += residual * residual * slots[k, c, 4]
        out[i] = totals[k, CONSTANT] - 0.5 * square


def _normal_mean_include(emission, t, k):
    _normal_mean_change(emission, t, k, 1.0)


def _normal_mean_exclude(emission, t, k):
    _normal_mean_change(emission, t, k, -1.0)


implement(NormalMean, _normal_mean_log_predictive, _normal_mean_include, _normal_mean_exclude)


class NormalInverseGamma(NamedTuple):
    """y_c ~ N(mu_kc, v_kc), v_kc ~ InverseGamma(a, b), mu_kc | v_kc ~ N(m, v_kc / s).

    Given n observations the four are m', s' = s + n, a' = a + n/2 and b', and the next one is
    Student t with 2 a' degrees of freedom, location m' and squared scale b' (s' + 1) / (a' s').

    Attributes
    ----------
    data : ndarray of shape (T, C)
    slots : ndarray of shape (L + 1, C, 7)
        m, s, a, b, m', b', and s' / (2 b' (s' + 1)), which multiplies the squared residual.
    totals : ndarray of shape (L + 1, 2)
        n, and the logarithm of the predictive density at its mode, summed over C.
    """

    data: np.ndarray
    slots: np.ndarray
    totals: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def normal_inverse_gamma(data, prior_mean, prior_count, prior_shape, prior_scale):
    """Build ``NormalInverseGamma`` with nothing included; parameters of shape (L + 1, C)."""
    slots, C = prior_mean.shape
    emission = NormalInverseGamma(data, np.empty((slots, C, 7)), np.zeros((slots, 2)))
    emission.slots[:, :, 0] = prior_mean
    emission.slots[:, :, 1] = prior_count
    emission.slots[:, :, 2] = prior_shape
    emission.slots[:, :, 3] = prior_scale
    for k in range(slots):
        _normal_inverse_gamma_change(emission, 0, k, 0.0)
    return emission


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _normal_inverse_gamma_change(emission, t, k, change):
    data, slots, totals = emission.data, emission.slots, emission.totals
    before = totals[k, VISITS]
    n = before + change
    totals[k, VISITS] = n
    constant = 0.0
    for c in range(data.shape[1]):
        s = slots[k, c, 1] + n
        a = slots[k, c, 2] + 0.5 * n
        if n == 0.0:
            slots[k, c, 4] = slots[k, c, 0]
            slots[k, c, 5] = slots[k, c, 3]
        else:
            residual = data[t, c] - slots[k, c, 4]
            share = change * (slots[k, c, 1] + before) / s
            slots[k, c, 4] += change * residual / s
            slots[k, c, 5] += 0.5 * share * residual * residual
        slots[k, c, 6] = s / (2.0 * slots[k, c, 5] * (s + 1.0))
        constant += math.lgamma(a + 0.5) - math.lgamma(a) + 0.5 * math.log(slots[k, c, 6] / math.pi)
    totals[k, CONSTANT] = constant


def _normal_inverse_gamma_log_predictive(emission, t, active, n, with_empty, out):
    data, slots, totals = emission.data, emission.slots, emission.totals
    for i in range(n + 1 if with_empty else n):
        k = active[i] if i < n else totals.shape[0] - 1
        log_density = totals[k, CONSTANT]
        for c in range(data.shape[1]):
            residual = data[t, c] - slots[k, c, 4]
            exponent = slots[k, c, 2] + 0.5 * totals[k, VISITS] + 0.5
            log_density -= exponent * math.log1p(residual * residual * slots[k, c, 6])
        out[i] = log_density


def _normal_inverse_gamma_include(emission, t, k):
    _normal_inverse_gamma_change(emission, t, k, 1.0)


def _normal_inverse_gamma_exclude(emission, t, k):
    _normal_inverse_gamma_change(emission, t, k, -1.0)


implement(
    NormalInverseGamma,
    _normal_inverse_gamma_log_predictive,
    _normal_inverse_gamma_include,
    _normal_inverse_gamma_exclude,
)


class ExponentialRate(NamedTuple):
    """y_c ~ Exponential(r_kc), r_kc ~ Gamma(a, b) (shape, rate): the next is a Lomax variable.

    Given n observations with sum S, log p(y) = log a' + a' log b' - (a' + 1) log(b' + y) with
    a' = a + n and b' = b + S.

    Attributes
    ----------
    data : ndarray of shape (T, C)
    slots : ndarray of shape (L + 1, C, 3)
        a, b and b'.
    totals : ndarray of shape (L + 1, 2)
        n, and sum_c log a' + a' log b'.
    """

    data: np.ndarray
    slots: np.ndarray
    totals: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def exponential_rate(data, prior_shape, prior_rate):
    """Build ``ExponentialRate`` with nothing included; parameters of shape (L + 1, C)."""
    slots, C = prior_rate.shape
    emission = ExponentialRate(data, np.empty((slots, C, 3)), np.zeros((slots, 2)))
    emission.slots[:, :, 0] = prior_shape
    emission.slots[:, :, 1] = prior_rate
    for k in range(slots):
        _exponential_rate_change(emission, 0, k, 0.0)
    return emission


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _exponential_rate_change(emission, t, k, change):
    data, slots, totals = emission.data, emission.slots, emission.totals
    n = totals[k, VISITS] + change
    totals[k, VISITS] = n
    constant = 0.0
    for c in range(data.shape[1]):
        if n == 0.0:
            slots[k, c, 2] = slots[k, c, 1]
        else:
            slots[k, c, 2] += change * data[t, c]
        a = slots[k, c, 0] + n
        constant += math.log(a) + a * math.log(slots[k, c, 2])
    totals[k, CONSTANT] = constant


def _exponential_rate_log_predictive(emission, t, active, n, with_empty, out):
    data, slots, totals = emission.data, emission.slots, emission.totals
    for i in range(n + 1 if with_empty else n):
        k = active[i] if i < n else totals.shape[0] - 1
        log_density = totals[k, CONSTANT]
        for c in range(data.shape[1]):
            a = slots[k, c, 0] + totals[k, VISITS]
            log_density -= (a + 1.0) * math.log(slots[k, c, 2] + data[t, c])
        out[i] = log_density


def _exponential_rate_include(emission, t, k):
    _exponential_rate_change(emission, t, k, 1.0)


def _exponential_rate_exclude(emission, t, k):
    _exponential_rate_change(emission, t, k, -1.0)


implement(
    ExponentialRate,
    _exponential_rate_log_predictive,
    _exponential_rate_include,
    _exponential_rate_exclude,
)
