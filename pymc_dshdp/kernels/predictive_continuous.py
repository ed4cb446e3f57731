"""Predictive densities of continuous emissions, their parameters integrated out.

Sizes: T time points, C independent channels with parameters of their own, L slots. Arrays by slot
have a row L that stays empty: the prior, for slots that include nothing. Where a slot empties its
sums are set back to the prior's, and precisions are formed from whole counts, so that rounding
does not build up.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.members import empty_members, link_member, unlink_member
from pymc_dshdp.kernels.predictive import derive, implement

LOG_2PI = math.log(2.0 * math.pi)
VISITS, CONSTANT = 0, 1  # columns of ``totals``
WEAK = 1e-3  # a sum of squares that falls to less than this share of itself is formed afresh


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


def normal_mean(data, noise_scale, prior_mean, prior_scale):
    """Build ``NormalMean`` with nothing included; parameters of shape (L + 1, C)."""
    slots, C = prior_mean.shape
    emission = NormalMean(data, np.empty((slots, C, 5)), np.zeros((slots, 2)))
    emission.slots[:, :, 0] = noise_scale**-2.0
    emission.slots[:, :, 1] = prior_mean
    emission.slots[:, :, 2] = prior_scale**-2.0
    derive(emission)
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


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _normal_mean_log_density(data, slots, totals, t, k):
    square = 0.0
    for c in range(data.shape[1]):
        residual = data[t, c] - slots[k, c, 3]
        square += residual * residual * slots[k, c, 4]
    return totals[k, CONSTANT] - 0.5 * square


implement(NormalMean, _normal_mean_log_density, _normal_mean_change)


class NormalVariance(NamedTuple):
    """y_c ~ N(mu_kc, v_kc), the mean known, v_kc ~ InverseGamma(a, b): the next is Student t.

    Given n observations with S the sum of (y - mu)^2, a' = a + n/2 and b' = b + S/2, and the
    next one has 2 a' degrees of freedom, location mu and squared scale b' / a'.

    Attributes
    ----------
    data : ndarray of shape (T, C)
    slots : ndarray of shape (L + 1, C, 5)
        mu, a, 1 / (2 b'), b', and b.
    totals : ndarray of shape (L + 1, 2)
        n, and the logarithm of the predictive density at its mode, summed over C.
    links : ndarray of shape (2, T + L + 1)
        Members of each slot.
    """

    data: np.ndarray
    slots: np.ndarray
    totals: np.ndarray
    links: np.ndarray


def normal_variance(data, mean, prior_shape, prior_scale):
    """Build ``NormalVariance`` with nothing included; parameters of shape (L + 1, C)."""
    slots, C = mean.shape
    links = empty_members(data.shape[0], slots)
    emission = NormalVariance(data, np.empty((slots, C, 5)), np.zeros((slots, 2)), links)
    emission.slots[:, :, 0] = mean
    emission.slots[:, :, 1] = prior_shape
    emission.slots[:, :, 4] = prior_scale
    _begin_variance(emission)
    return emission


@njit(cache=True, nogil=True, error_model="numpy")
def _form_variance_afresh(emission, k):
    data, slots, _, links = emission
    head = data.shape[0] + k
    for c in range(data.shape[1]):
        slots[k, c, 3] = slots[k, c, 4]
        t = links[0, head]
        while t != head:
            slots[k, c, 3] += 0.5 * (data[t, c] - slots[k, c, 0]) ** 2
            t = links[0, t]


@njit(cache=True, nogil=True, error_model="numpy")
def _finish_variance(emission, k):
    _, slots, totals, _ = emission
    for c in range(slots.shape[1]):
        slots[k, c, 2] = 0.5 / slots[k, c, 3]
    totals[k, CONSTANT] = _log_mode(slots, totals, k)


@njit(cache=True, nogil=True, error_model="numpy")
def _begin_variance(emission):
    """Set what each slot has of the prior alone."""
    for k in range(emission.totals.shape[0]):
        _form_variance_afresh(emission, k)
        _finish_variance(emission, k)


@njit(cache=True, nogil=True, error_model="numpy")
def _normal_variance_change(emission, t, k, change):
    data, slots, totals, links = emission
    totals[k, VISITS] += change
    afresh = totals[k, VISITS] == 0.0
    if change > 0.0:
        link_member(links, t, k, totals.shape[0])
    else:
        unlink_member(links, t)
    for c in range(data.shape[1]):
        residual = data[t, c] - slots[k, c, 0]
        before = slots[k, c, 3]
        slots[k, c, 3] += change * 0.5 * residual * residual
        afresh |= not slots[k, c, 3] >= WEAK * before
    if afresh:
        _form_variance_afresh(emission, k)
    _finish_variance(emission, k)


@njit(cache=True, nogil=True, error_model="numpy")
def _log_mode(slots, totals, k):
    """Log-density of Student's t at its mode, summed over C."""
    out = 0.0
    for c in range(slots.shape[1]):
        a = slots[k, c, 1] + 0.5 * totals[k, VISITS]
        out += math.lgamma(a + 0.5) - math.lgamma(a) + 0.5 * math.log(slots[k, c, 2] / math.pi)
    return out


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _student_log_density(data, slots, totals, t, k):
    log_density = totals[k, CONSTANT]
    for c in range(data.shape[1]):
        residual = data[t, c] - slots[k, c, 0]
        exponent = slots[k, c, 1] + 0.5 * totals[k, VISITS] + 0.5
        log_density -= exponent * math.log1p(residual * residual * slots[k, c, 2])
    return log_density


implement(NormalVariance, _student_log_density, _normal_variance_change)


class NormalInverseGamma(NamedTuple):
    """y_c ~ N(mu_kc, v_kc), v_kc ~ InverseGamma(a, b), mu_kc | v_kc ~ N(m, v_kc / s).

    Given n observations the four are m', s' = s + n, a' = a + n/2 and b', and the next one is
    Student t with 2 a' degrees of freedom, location m' and squared scale b' (s' + 1) / (a' s').

    Attributes
    ----------
    data : ndarray of shape (T, C)
    slots : ndarray of shape (L + 1, C, 7)
        m', a, s' / (2 b' (s' + 1)), which multiplies the squared residual, b', m, s and b.
    totals : ndarray of shape (L + 1, 2)
        n, and the logarithm of the predictive density at its mode, summed over C.
    links : ndarray of shape (2, T + L + 1)
        Members of each slot.
    """

    data: np.ndarray
    slots: np.ndarray
    totals: np.ndarray
    links: np.ndarray


def normal_inverse_gamma(data, prior_mean, prior_count, prior_shape, prior_scale):
    """Build ``NormalInverseGamma`` with nothing included; parameters of shape (L + 1, C)."""
    slots, C = prior_mean.shape
    links = empty_members(data.shape[0], slots)
    emission = NormalInverseGamma(data, np.empty((slots, C, 7)), np.zeros((slots, 2)), links)
    emission.slots[:, :, 1] = prior_shape
    emission.slots[:, :, 4] = prior_mean
    emission.slots[:, :, 5] = prior_count
    emission.slots[:, :, 6] = prior_scale
    _begin_both(emission)
    return emission


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _move_both(data, slots, t, k, c, before, change):
    """Update m' and b' of a channel when t comes (1.0) or goes (-1.0) and ``before`` were there."""
    s = slots[k, c, 5] + before
    residual = data[t, c] - slots[k, c, 0]
    slots[k, c, 0] += change * residual / (s + change)
    slots[k, c, 3] += change * 0.5 * residual * residual * s / (s + change)


@njit(cache=True, nogil=True, error_model="numpy")
def _form_both_afresh(emission, k):
    data, slots, _, links = emission
    head = data.shape[0] + k
    for c in range(data.shape[1]):
        slots[k, c, 0] = slots[k, c, 4]
        slots[k, c, 3] = slots[k, c, 6]
        n = 0.0
        t = links[0, head]
        while t != head:
            _move_both(data, slots, t, k, c, n, 1.0)
            n += 1.0
            t = links[0, t]


@njit(cache=True, nogil=True, error_model="numpy")
def _finish_both(emission, k):
    _, slots, totals, _ = emission
    for c in range(slots.shape[1]):
        s = slots[k, c, 5] + totals[k, VISITS]
        slots[k, c, 2] = s / (2.0 * slots[k, c, 3] * (s + 1.0))
    totals[k, CONSTANT] = _log_mode(slots, totals, k)


@njit(cache=True, nogil=True, error_model="numpy")
def _begin_both(emission):
    """Set what each slot has of the prior alone."""
    for k in range(emission.totals.shape[0]):
        _form_both_afresh(emission, k)
        _finish_both(emission, k)


@njit(cache=True, nogil=True, error_model="numpy")
def _normal_inverse_gamma_change(emission, t, k, change):
    data, slots, totals, links = emission
    n = totals[k, VISITS]
    totals[k, VISITS] = n + change
    afresh = n + change == 0.0
    if change > 0.0:
        link_member(links, t, k, totals.shape[0])
    else:
        unlink_member(links, t)
    for c in range(data.shape[1]):
        before = slots[k, c, 3]
        _move_both(data, slots, t, k, c, n, change)
        afresh |= not slots[k, c, 3] >= WEAK * before
    if afresh:
        _form_both_afresh(emission, k)
    _finish_both(emission, k)


implement(NormalInverseGamma, _student_log_density, _normal_inverse_gamma_change)


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


def exponential_rate(data, prior_shape, prior_rate):
    """Build ``ExponentialRate`` with nothing included; parameters of shape (L + 1, C)."""
    slots, C = prior_rate.shape
    emission = ExponentialRate(data, np.empty((slots, C, 3)), np.zeros((slots, 2)))
    emission.slots[:, :, 0] = prior_shape
    emission.slots[:, :, 1] = prior_rate
    derive(emission)
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


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _exponential_rate_log_density(data, slots, totals, t, k):
    log_density = totals[k, CONSTANT]
    for c in range(data.shape[1]):
        a = slots[k, c, 0] + totals[k, VISITS]
        log_density -= (a + 1.0) * math.log(slots[k, c, 2] + data[t, c])
    return log_density


implement(ExponentialRate, _exponential_rate_log_density, _exponential_rate_change)
