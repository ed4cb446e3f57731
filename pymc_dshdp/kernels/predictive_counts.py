"""Predictive probabilities of counts and categories, their parameters integrated out.

Sizes: T time points, C independent channels with parameters of their own, V categories, L slots.
Arrays by slot have a row L that stays empty: the prior, for slots that include nothing. All sums
but those of exposures are whole numbers, kept apart from the prior's parameters, so that nothing is
lost when time points come and go; those of exposures are 0 again where a slot empties. What is the
same for all slots (factorials, binomial coefficients) is left out.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.elementary import log_rising
from pymc_dshdp.kernels.predictive import derive, implement

SMALL_COUNT = 8
VISITS, CONSTANT = 0, 1  # columns of ``totals``
PRIOR, SUM = 0, 1  # last axis of ``slots``


@njit(cache=True, nogil=True, error_model="numpy")
def _log_rise(x, n):
    """Log Gamma(x + n) - log Gamma(x) for x >= 0 and whole n >= 0; -inf for x = 0 < n."""
    if n < SMALL_COUNT:
        product = 1.0
        for i in range(int(n)):
            product *= x + i
        return math.log(product) if product > 0.0 else -np.inf
    return log_rising(x, int(n)) if x > 0.0 else -np.inf


class PoissonRate(NamedTuple):
    """y_c ~ Poisson(r_kc), r_kc ~ Gamma(a, b) (shape, rate): the next is negative binomial.

    Given n observations with sum S, a' = a + S and b' = b + n,
    log p(y) = log Gamma(a' + y) / Gamma(a') + a' log(b' / (b' + 1)) - y log(b' + 1) - log y!.

    Attributes
    ----------
    data : ndarray of shape (T, C)
    slots : ndarray of shape (L + 1, C, 4)
        a, S, b and log(b' + 1).
    totals : ndarray of shape (L + 1, 2)
        n, and sum_c a' log(b' / (b' + 1)).
    """

    data: np.ndarray
    slots: np.ndarray
    totals: np.ndarray


def poisson_rate(data, shape, rate):
    """Build ``PoissonRate`` with nothing included; parameters of shape (L + 1, C)."""
    slots, C = rate.shape
    emission = PoissonRate(data, np.zeros((slots, C, 4)), np.zeros((slots, 2)))
    emission.slots[:, :, 0] = shape
    emission.slots[:, :, 2] = rate
    derive(emission)
    return emission


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _poisson_rate_change(emission, t, k, change):
    data, slots, totals = emission.data, emission.slots, emission.totals
    totals[k, VISITS] += change
    constant = 0.0
    for c in range(data.shape[1]):
        slots[k, c, SUM] += change * data[t, c]
        b = slots[k, c, 2] + totals[k, VISITS]
        slots[k, c, 3] = math.log(b + 1.0)
        constant -= (slots[k, c, PRIOR] + slots[k, c, SUM]) * math.log1p(1.0 / b)
    totals[k, CONSTANT] = constant


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _poisson_rate_log_density(data, slots, totals, t, k):
    log_density = totals[k, CONSTANT]
    for c in range(data.shape[1]):
        y = data[t, c]
        log_density += _log_rise(slots[k, c, PRIOR] + slots[k, c, SUM], y)
        log_density -= y * slots[k, c, 3]
    return log_density


implement(PoissonRate, _poisson_rate_log_density, _poisson_rate_change)


class ExposedRate(NamedTuple):
    """y_c ~ Poisson(e_c r_kc), exposures e known, r_kc ~ Gamma(a, b): negative binomial.

    Given a sum S of counts and E of exposures, a' = a + S and b' = b + E,
    log p(y) = log Gamma(a' + y) / Gamma(a') - a' log(1 + e / b') - y log(b' + e)
    + y log e - log y!.

    Attributes
    ----------
    data : ndarray of shape (T, C, 2)
        Counts and exposures.
    slots : ndarray of shape (L + 1, C, 4)
        a, S, b and E.
    totals : ndarray of shape (L + 1, 1)
        The number of time points: where it is 0, E is.
    """

    data: np.ndarray
    slots: np.ndarray
    totals: np.ndarray


def exposed_rate(data, shape, rate):
    """Build ``ExposedRate`` with nothing included; parameters of shape (L + 1, C)."""
    slots, C = rate.shape
    emission = ExposedRate(data, np.zeros((slots, C, 4)), np.zeros((slots, 1)))
    emission.slots[:, :, 0] = shape
    emission.slots[:, :, 2] = rate
    return emission


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _exposed_rate_change(emission, t, k, change):
    data, slots, totals = emission.data, emission.slots, emission.totals
    totals[k, VISITS] += change
    for c in range(data.shape[1]):
        slots[k, c, SUM] += change * data[t, c, 0]
        slots[k, c, 3] += change * data[t, c, 1]
        if totals[k, VISITS] == 0.0:
            slots[k, c, 3] = 0.0


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _exposed_rate_log_density(data, slots, totals, t, k):
    log_density = 0.0
    for c in range(data.shape[1]):
        y, exposure = data[t, c, 0], data[t, c, 1]
        a, b = slots[k, c, PRIOR] + slots[k, c, SUM], slots[k, c, 2] + slots[k, c, 3]
        log_density += _log_rise(a, y) - a * math.log1p(exposure / b)
        log_density -= y * math.log(b + exposure)
    return log_density


implement(ExposedRate, _exposed_rate_log_density, _exposed_rate_change)


class Proportions(NamedTuple):
    """Counts y_c of V categories, probabilities p_kc ~ Dir(a): Dirichlet-multinomial.

    Given sums S of the counts, log p(y) = sum_v log Gamma(a_v + S_v + y_v) / Gamma(a_v + S_v)
    - log Gamma(a. + S. + y.) / Gamma(a. + S.), up to the multinomial coefficient. Two categories
    are the Beta-binomial.

    Attributes
    ----------
    data : ndarray of shape (T, C, V)
    slots : ndarray of shape (L + 1, C, V, 2)
        a and S.
    totals : ndarray of shape (L + 1, C, 2)
        a. and S..
    """

    data: np.ndarray
    slots: np.ndarray
    totals: np.ndarray


def proportions(data, concentration):
    """Build ``Proportions`` with nothing included; ``concentration`` of shape (L + 1, C, V)."""
    slots, C, V = concentration.shape
    emission = Proportions(data, np.zeros((slots, C, V, 2)), np.zeros((slots, C, 2)))
    emission.slots[:, :, :, PRIOR] = concentration
    emission.totals[:, :, PRIOR] = concentration.sum(axis=2)
    return emission


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _proportions_change(emission, t, k, change):
    data, slots, totals = emission.data, emission.slots, emission.totals
    for c in range(data.shape[1]):
        for v in range(data.shape[2]):
            slots[k, c, v, SUM] += change * data[t, c, v]
            totals[k, c, SUM] += change * data[t, c, v]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _proportions_log_density(data, slots, totals, t, k):
    log_density = 0.0
    for c in range(data.shape[1]):
        seen = 0.0
        for v in range(data.shape[2]):
            y = data[t, c, v]
            if y > 0.0:
                seen += y
                log_density += _log_rise(slots[k, c, v, PRIOR] + slots[k, c, v, SUM], y)
        log_density -= _log_rise(totals[k, c, PRIOR] + totals[k, c, SUM], seen)
    return log_density


implement(Proportions, _proportions_log_density, _proportions_change)


class Categories(NamedTuple):
    """Categories y_c out of V, probabilities p_kc ~ Dir(a): p(y) = (a_y + S_y) / (a. + S.).

    Attributes
    ----------
    data : ndarray of shape (T, C), int64
    slots : ndarray of shape (L + 1, C, V, 2)
        a, and counts S of each category.
    totals : ndarray of shape (L + 1, C, 2)
        a. and S..
    """

    data: np.ndarray
    slots: np.ndarray
    totals: np.ndarray


def categories(data, concentration):
    """Build ``Categories`` with nothing included; ``concentration`` of shape (L + 1, C, V)."""
    slots, C, V = concentration.shape
    emission = Categories(data, np.zeros((slots, C, V, 2)), np.zeros((slots, C, 2)))
    emission.slots[:, :, :, PRIOR] = concentration
    emission.totals[:, :, PRIOR] = concentration.sum(axis=2)
    return emission


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _categories_change(emission, t, k, change):
    data, slots, totals = emission.data, emission.slots, emission.totals
    for c in range(data.shape[1]):
        slots[k, c, data[t, c], SUM] += change
        totals[k, c, SUM] += change


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _categories_log_density(data, slots, totals, t, k):
    log_density = 0.0
    for c in range(data.shape[1]):
        v = data[t, c]
        weight = slots[k, c, v, PRIOR] + slots[k, c, v, SUM]
        total = totals[k, c, PRIOR] + totals[k, c, SUM]
        log_density += math.log(weight / total) if weight > 0.0 else -np.inf
    return log_density


implement(Categories, _categories_log_density, _categories_change)
