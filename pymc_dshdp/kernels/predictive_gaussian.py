"""Predictive densities of multivariate Gaussian emissions, their parameters integrated out.

Sizes: T time points, d channels, p regressors, L slots. Arrays by slot have a row L that stays
empty: the prior, for slots that include nothing.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.members import empty_members, link_member, unlink_member
from pymc_dshdp.kernels.predictive import derive, implement

LOG_2PI = math.log(2.0 * math.pi)
VISITS, CONSTANT = 0, 1  # columns of ``totals``
DEGREES, REGRESSORS, REMOVED = 2, 3, 4  # more of them, of ``Regression``
WEAK = 1e-4  # a removal that leaves less of a direction than this is not made by rotations


class Regression(NamedTuple):
    r"""y ~ N(A_k x, V_k), A_k | V_k ~ MN(M, V_k, K^{-1}), V_k ~ IW(S, n): multivariate t.

    With G the sum of (x, y)(x, y)' and of the prior's own [[K, K M'], [M K, S + M K M']], and F
    its lower Cholesky factor, the blocks of F are those of the posterior: K = F_xx F_xx',
    M = F_yx F_xx^{-1} and S = F_yy F_yy'. For F u = (x, y), therefore, |u_x|^2 = x' K^{-1} x
    and |u_y|^2 = (y - M x)' S^{-1} (y - M x), and the next y has

    log p = log Gamma((n + 1) / 2) - log Gamma((n + 1 - d) / 2) - d/2 log pi - log |F_yy|
            - d/2 log c - (n + 1) / 2 log(1 + |u_y|^2 / c),        c = 1 + |u_x|^2.

    F follows what comes and goes by plane rotations, O((p + d)^2); it is formed afresh from the
    slot's members where a removal would lose digits, and after as many removals as members.

    Attributes
    ----------
    data : ndarray of shape (T, p + d)
        (x, y); a row that begins with NaN says nothing of the states.
    slots : ndarray of shape (L + 1, 2 (p + d) + 2, p + d)
        F, the reciprocals of its diagonal, room for u, and F of the prior.
    totals : ndarray of shape (L + 1, 5)
        Members, the terms of log p that depend on the slot alone, n of the prior, p, and
        removals since F was formed afresh.
    links : ndarray of shape (2, T + L + 1)
        Members of each slot.
    """

    data: np.ndarray
    slots: np.ndarray
    totals: np.ndarray
    links: np.ndarray


def regression(data, prior_factors, degrees, n_regressors):
    """Build ``Regression`` with nothing included.

    Parameters
    ----------
    data : ndarray of shape (T, m)
    prior_factors : ndarray of shape (L + 1, m, m)
        F of the prior, lower triangular.
    degrees : ndarray of shape (L + 1,)
    n_regressors : int
        p.
    """
    slots, m, _ = prior_factors.shape
    emission = Regression(
        data,
        np.zeros((slots, 2 * m + 2, m)),
        np.zeros((slots, 5)),
        empty_members(data.shape[0], slots),
    )
    emission.slots[:, m + 2 :] = prior_factors
    emission.totals[:, DEGREES] = degrees
    emission.totals[:, REGRESSORS] = n_regressors
    _begin(emission)
    return emission


@njit(cache=True, nogil=True, error_model="numpy")
def _add_row(factor, row):
    """F F' + row row' by rotations of the columns of F against the row, which is overwritten."""
    m = row.shape[0]
    for j in range(m):
        r = math.hypot(factor[j, j], row[j])
        c, s = factor[j, j] / r, row[j] / r
        factor[j, j] = r
        for i in range(j + 1, m):
            old = factor[i, j]
            factor[i, j] = c * old + s * row[i]
            row[i] = c * row[i] - s * old


@njit(cache=True, nogil=True, error_model="numpy")
def _remove_row(factor, u):
    """F F' - row row' for u = F^{-1} row, by rotations (LINPACK, ``dchdd``).

    Returns
    -------
    bool
        False, and F as it was, where 1 - |u|^2 < ``WEAK``: the removal loses that many digits.
    """
    m = u.shape[0]
    left = 1.0
    for i in range(m):
        left -= u[i] * u[i]
    if not left >= WEAK:
        return False
    alpha = math.sqrt(left)
    cosines = np.empty(m)
    for i in range(m - 1, -1, -1):
        r = math.hypot(alpha, u[i])
        cosines[i] = alpha / r
        u[i] /= r
        alpha = r
    for j in range(m):
        carried = 0.0
        for i in range(j, -1, -1):
            old = factor[j, i]
            factor[j, i] = cosines[i] * old - u[i] * carried
            carried = cosines[i] * carried + u[i] * old
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _form_afresh(emission, k):
    """Set F of a slot from the prior and its members."""
    data, slots, totals, links = emission
    m = data.shape[1]
    row = slots[k, m + 1]
    for i in range(m):
        for j in range(m):
            slots[k, i, j] = slots[k, m + 2 + i, j]
    head = data.shape[0] + k
    t = links[0, head]
    while t != head:
        for i in range(m):
            row[i] = data[t, i]
        _add_row(slots[k, :m], row)
        t = links[0, t]
    totals[k, REMOVED] = 0.0


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _solve(data, slots, t, k):
    """Compute u of time point t in slot k, in the room that the slot has for it."""
    m = data.shape[1]
    for i in range(m):
        total = data[t, i]
        for j in range(i):
            total -= slots[k, i, j] * slots[k, m + 1, j]
        slots[k, m + 1, i] = total * slots[k, m, i]


@njit(cache=True, nogil=True, error_model="numpy")
def _finish(emission, k):
    """Bring up to date what is kept beside F."""
    data, slots, totals, _ = emission
    m = data.shape[1]
    d = m - totals[k, REGRESSORS]
    n = totals[k, DEGREES] + totals[k, VISITS]
    constant = math.lgamma(0.5 * (n + 1.0)) - math.lgamma(0.5 * (n + 1.0 - d))
    constant -= 0.5 * d * math.log(math.pi)
    for i in range(m):
        slots[k, m, i] = 1.0 / slots[k, i, i]
        if i >= totals[k, REGRESSORS]:
            constant -= math.log(slots[k, i, i])
    totals[k, CONSTANT] = constant


@njit(cache=True, nogil=True, error_model="numpy")
def _begin(emission):
    """Set what each slot has of the prior alone."""
    for k in range(emission.totals.shape[0]):
        _form_afresh(emission, k)
        _finish(emission, k)


@njit(cache=True, nogil=True, error_model="numpy")
def _regression_change(emission, t, k, change):
    data, slots, totals, links = emission
    if math.isnan(data[t, 0]):
        return
    m = data.shape[1]
    totals[k, VISITS] += change
    if change > 0.0:
        link_member(links, t, k, totals.shape[0])
        for i in range(m):
            slots[k, m + 1, i] = data[t, i]
        _add_row(slots[k, :m], slots[k, m + 1])
    else:
        unlink_member(links, t)
        totals[k, REMOVED] += 1.0
        _solve(data, slots, t, k)
        if totals[k, REMOVED] > totals[k, VISITS] or not _remove_row(slots[k, :m], slots[k, m + 1]):
            _form_afresh(emission, k)
    _finish(emission, k)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _regression_log_density(data, slots, totals, t, k):
    if math.isnan(data[t, 0]):
        return 0.0
    m = data.shape[1]
    p = int(totals[k, REGRESSORS])
    _solve(data, slots, t, k)
    spread = 1.0
    for i in range(p):
        spread += slots[k, m + 1, i] * slots[k, m + 1, i]
    square = 0.0
    for i in range(p, m):
        square += slots[k, m + 1, i] * slots[k, m + 1, i]
    log_density = totals[k, CONSTANT] - 0.5 * (m - p) * math.log(spread)
    exponent = 0.5 * (totals[k, DEGREES] + totals[k, VISITS] + 1.0)
    return log_density - exponent * math.log1p(square / spread)


implement(Regression, _regression_log_density, _regression_change)


class VectorMean(NamedTuple):
    """y_c ~ N(mu_kc, Sigma_kc), Sigma_kc known, mu_kc ~ N(m, S), in C independent groups.

    A matrix B_kc with B Sigma B' = I and B S B' diagonal makes the d components independent:
    B y has unit noise, and each component is a ``NormalMean``.

    Attributes
    ----------
    data : ndarray of shape (T, C, d)
    slots : ndarray of shape (L + 1, C, d, d + 4)
        B, then of each component of B mu: prior mean, prior variance, mean, and the precision of
        the next observation.
    totals : ndarray of shape (L + 1, 3)
        n, the logarithm of the predictive density at its mode, and of it what does not change.
    """

    data: np.ndarray
    slots: np.ndarray
    totals: np.ndarray


def vector_mean(data, whiten, prior_mean, prior_variance, log_volume):
    """Build ``VectorMean`` with nothing included.

    Parameters
    ----------
    data : ndarray of shape (T, C, d)
    whiten : ndarray of shape (L + 1, C, d, d)
        B.
    prior_mean, prior_variance : ndarray of shape (L + 1, C, d)
        Of B mu.
    log_volume : ndarray of shape (L + 1,)
        Log determinant of B, summed over C.
    """
    slots, C, d, _ = whiten.shape
    emission = VectorMean(data, np.empty((slots, C, d, d + 4)), np.zeros((slots, 3)))
    emission.slots[:, :, :, :d] = whiten
    emission.slots[:, :, :, d] = prior_mean
    emission.slots[:, :, :, d + 1] = prior_variance
    emission.totals[:, 2] = log_volume - 0.5 * C * d * LOG_2PI
    derive(emission)
    return emission


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _vector_mean_change(emission, t, k, change):
    data, slots, totals = emission.data, emission.slots, emission.totals
    _, C, d = data.shape
    n = totals[k, VISITS] + change
    totals[k, VISITS] = n
    log_density = totals[k, 2]
    for c in range(C):
        for i in range(d):
            prior = slots[k, c, i, d + 1]
            variance = prior / (1.0 + n * prior)
            if n == 0.0:
                slots[k, c, i, d + 2] = slots[k, c, i, d]
            else:
                y = 0.0
                for j in range(d):
                    y += slots[k, c, i, j] * data[t, c, j]
                slots[k, c, i, d + 2] += change * (y - slots[k, c, i, d + 2]) * variance
            slots[k, c, i, d + 3] = 1.0 / (1.0 + variance)
            log_density -= 0.5 * math.log1p(variance)
    totals[k, CONSTANT] = log_density


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _vector_mean_log_density(data, slots, totals, t, k):
    _, C, d = data.shape
    square = 0.0
    for c in range(C):
        for i in range(d):
            residual = -slots[k, c, i, d + 2]
            for j in range(d):
                residual += slots[k, c, i, j] * data[t, c, j]
            square += residual * residual * slots[k, c, i, d + 3]
    return totals[k, CONSTANT] - 0.5 * square


implement(VectorMean, _vector_mean_log_density, _vector_mean_change)
