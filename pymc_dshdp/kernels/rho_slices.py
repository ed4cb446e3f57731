"""Slices of phi, eta and alpha given the path, under flat and Gamma priors, in one call.

The plain twin, for any prior, is ``steps.marginal_rho``: the same numbers are drawn in the same
order, so that both give the same draws.
"""

import math

import numpy as np

from pymc_dshdp.kernels.alike_rows import log_others, log_own, own_tables
from pymc_dshdp.kernels.cache import njit

PHI, ETA, ALPHA = 0, 1, 2


@njit(cache=True, nogil=True, error_model="numpy")
def log_path(counts, beta, given):
    """Log p(z) given phi, eta and alpha; see ``alike_rows``."""
    tables = own_tables(counts, given[ALPHA], beta)
    return _log_given_alpha(counts, beta, given, tables) + log_others(counts, given[ALPHA], beta)


@njit(cache=True, nogil=True, error_model="numpy")
def _log_given_alpha(counts, beta, given, tables):
    """Log p(z) as far as it depends on phi and eta."""
    total = given[ETA] ** -3.0
    rho1, rho2 = given[PHI] * total, (1.0 - given[PHI]) * total
    return log_own(counts, given[ALPHA], beta, rho1, rho2, tables)


@njit(cache=True, nogil=True, error_model="numpy")
def _log_of_log_alpha(counts, beta, given, x, shape, scale):
    """Log p(z) plus the log density of x = log alpha."""
    alpha = math.exp(x)
    if not 0.0 < alpha < np.inf:
        return -np.inf
    given[ALPHA] = alpha
    return (shape - 1.0) * x - alpha / scale + x + log_path(counts, beta, given)


@njit(cache=True, nogil=True, error_model="numpy")
def slice_rho(rng, counts, beta, given, ends, gamma):
    """Update phi, eta and alpha, one after the other, by a slice each.

    Parameters
    ----------
    rng : numpy.random.Generator
    counts : AlikeCounts
    beta : ndarray of shape (L,)
    given : ndarray of shape (3,)
        phi, eta and alpha, where the density is not zero; overwritten.
    ends : ndarray of shape (2, 2)
        Between which phi and eta are uniform a priori; NaN where they are fixed.
    gamma : ndarray of shape (2,)
        Shape and scale of alpha; NaN where it is fixed.
    """
    tables = own_tables(counts, given[ALPHA], beta)
    for i in range(2):
        low, high = ends[i]
        if math.isnan(low):
            continue
        start = given[i]
        height = _log_given_alpha(counts, beta, given, tables) - rng.standard_exponential()
        while True:  # as ``slice.slice_between``
            new = given[i] = low + rng.random() * (high - low)
            if low < new < high and _log_given_alpha(counts, beta, given, tables) >= height:
                break
            if new < start:
                low = new
            else:
                high = new
    shape, scale = gamma
    if math.isnan(shape):
        return
    start = math.log(given[ALPHA])
    height = _log_of_log_alpha(counts, beta, given, start, shape, scale)
    height -= rng.standard_exponential()
    left = start - rng.random()  # as ``slice.slice_sample``
    right = left + 1.0
    for side in range(2):
        end = right if side else left  # alpha = 0 and inf have no density
        while _log_of_log_alpha(counts, beta, given, end, shape, scale) > height:
            end += 1.0 if side else -1.0
        left, right = (left, end) if side else (end, right)
    while True:
        new = left + rng.random() * (right - left)
        if _log_of_log_alpha(counts, beta, given, new, shape, scale) >= height:
            return  # with alpha set
        if new < start:
            left = new
        else:
            right = new
