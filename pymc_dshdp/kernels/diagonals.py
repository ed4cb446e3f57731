"""How P_jj divides into self-persistence and the row's own entry, of which the path says little.

A path knows P = diag(kappa) + (1 - kappa) pi_bar: with v_j = pi_bar_jj, the probability to leave j
is s_j = (1 - kappa_j) (1 - v_j), and r_jk = pi_bar_jk / (1 - v_j) says where to. Given w the pair
(kappa_j, v_j) hardly moves along the curve of one s_j, as the w_t of all stays repeat what the pair
says. Here it is drawn along that curve, by a slice with the w_t summed out. Under Dir(a_j),
v_j ~ Beta(a_jj, sum_{k != j} a_jk) is independent of r_j, which stays as it is.

The coordinate is y = logit v. From kappa^(rho1 - 1) (1 - kappa)^(rho2 - 1) v^(a - 1)
(1 - v)^(b - 1) in (kappa, v), and d(log s, y) / d(kappa, v) = 1 / ((1 - kappa) v (1 - v)), its
density along a curve is kappa^(rho1 - 1) (1 - kappa)^rho2 v^a (1 - v)^b.

Where logit kappa_t = x_t'c, of which one column is 1, the curve is that of h = c'x_mean, x_mean the
mean over the times with z_{t-1} = j; slopes go along as sigmoid(h) c, which keeps the derivative of
log(1 - kappa) in x. With q slopes d(log s, sigmoid(h) c, y) / d(h, c, v) = sigmoid(h)^(1 + q) /
(v (1 - v)); and the path does say something: a stay has the probability kappa_t + (1 - kappa_t) v.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.random import softplus

# The move is one among pairs with a kappa above 4e-9, below which its logarithm is lost in that of
# s, and y between bounds beyond which the own entry, or others, underflow. All other pairs stay.
LOWEST_GAP = 4e-9
LOWEST, HIGHEST = -700.0, 30.0


class Curve(NamedTuple):
    """The pairs (kappa, v) of one s, and their density; without a regression M and P are 0.

    Attributes
    ----------
    total : float
        -log s.
    kappa_power, left_power : float
        Powers of kappa and of 1 - kappa.
    own, others : float
        Powers of v and of 1 - v.
    spread : ndarray of shape (M,)
        (x_t - x_mean)'c of the times that z_{t-1} = j.
    stays : ndarray of bool, shape (M,)
    log_kappa : float
        At present.
    slopes, centre : ndarray of shape (P,)
        Present c, with 0 for the intercept, and x_mean.
    column : int
        Of the intercept.
    prior : ndarray of shape (P, P + 1)
        Of ``NormalPriors``.
    """

    total: float
    kappa_power: float
    left_power: float
    own: float
    others: float
    spread: np.ndarray
    stays: np.ndarray
    log_kappa: float
    slopes: np.ndarray
    centre: np.ndarray
    column: int
    prior: np.ndarray


@njit(cache=True, nogil=True)
def _log_kappa(gap):
    """Log kappa, from gap = -log(1 - kappa)."""
    return math.log(-math.expm1(-gap))


@njit(cache=True, nogil=True)
def _coefficients(curve, gap):
    """Coefficients c at a pair of the curve."""
    c = curve.slopes * math.exp(curve.log_kappa - _log_kappa(gap))
    c[curve.column] = gap + _log_kappa(gap) - curve.centre @ c
    return c


@njit(cache=True, nogil=True)
def _log_density(y, curve):
    """Log-density of y = logit v along a curve, up to a constant."""
    gap = curve.total - softplus(y)
    if not (gap > LOWEST_GAP and LOWEST < y < HIGHEST):
        return -np.inf
    log_kappa = _log_kappa(gap)
    out = curve.kappa_power * log_kappa - curve.left_power * gap
    out -= curve.own * softplus(-y) + curve.others * softplus(y)
    M, P = curve.spread.shape[0], curve.slopes.shape[0]
    if P == 0:
        return out
    c = _coefficients(curve, gap)
    for p in range(P):
        misfit = -curve.prior[p, P]
        for q in range(P):
            misfit += curve.prior[p, q] * c[q]
        out -= 0.5 * misfit * misfit
    v, log_rest = math.exp(-softplus(-y)), -softplus(y)
    scale, level = math.exp(curve.log_kappa - log_kappa), gap + log_kappa
    for t in range(M):
        logit = level + scale * curve.spread[t]
        out -= softplus(logit)
        if not curve.stays[t]:
            out += log_rest
        elif logit > 0.0:
            out += logit + math.log1p(v * math.exp(-logit))
        else:
            out += math.log(math.exp(logit) + v)
    return out


@njit(cache=True, nogil=True)
def _slice(rng, y, curve):
    """Draw y given the curve (Neal 2003, stepping out, shrinkage); outside the bounds it stays."""
    height = _log_density(y, curve) - rng.standard_exponential()
    if not height > -np.inf:
        return y
    width = min(1.0 + 1.0 / curve.own, HIGHEST - LOWEST)
    left = y - width * rng.random()
    right = left + width
    while _log_density(left, curve) > height:
        left -= width
    while _log_density(right, curve) > height:
        right += width
    while True:
        new = left + rng.random() * (right - left)
        if _log_density(new, curve) >= height:
            return new
        if new < y:
            left = new
        else:
            right = new


@njit(cache=True, nogil=True)
def _parts(row, concentration, j):
    """(v, 1 - v, a, b) of a row: its own entry and the others', and their Dirichlet parameters."""
    rest, others = 0.0, 0.0
    for k in range(row.shape[0]):
        if k != j:
            rest += row[k]
            others += concentration[k]
    return row[j], rest, concentration[j], others


@njit(cache=True, nogil=True)
def _divided(row, j, rest, y):
    """Give a row the own entry of which y is the logit, and the others in their proportions."""
    for k in range(row.shape[0]):
        row[k] *= math.exp(-softplus(y)) / rest
    row[j] = math.exp(-softplus(-y))


@njit(cache=True, nogil=True)
def divide_diagonals(rng, kappa_logit, pi_bar, concentrations, rho1, rho2):
    """Draw (kappa_j, pi_bar_jj) of each row along the curve of one s_j; see the module.

    Parameters
    ----------
    rng : numpy.random.Generator
    kappa_logit : ndarray of shape (R,)
    pi_bar : ndarray of shape (R, L)
    concentrations : ndarray of shape (R, L)
        Dirichlet parameters of the rows.
    rho1, rho2 : float
        kappa_j ~ Beta(rho1, rho2).

    Returns
    -------
    kappa_logit, pi_bar : ndarray
        New.
    """
    logit, rows = kappa_logit.copy(), pi_bar.copy()
    none, no_prior, no_stays = np.zeros(0), np.zeros((0, 1)), np.zeros(0, np.bool_)
    for r in range(rows.shape[0]):
        j = r % rows.shape[1]
        own, rest, a, b = _parts(pi_bar[r], concentrations[r], j)
        if own > 0.0 and rest > 0.0 and a > 0.0:
            y = math.log(own) - math.log(rest)
            total = softplus(kappa_logit[r]) + softplus(y)
            curve = Curve(
                total, rho1 - 1.0, rho2, a, b, none, no_stays, 0.0, none, none, 0, no_prior
            )
            new = _slice(rng, y, curve)
            if new != y:
                gap = total - softplus(new)
                logit[r] = gap + _log_kappa(gap)
                _divided(rows[r], j, rest, new)
    return logit, rows


@njit(cache=True, nogil=True)
def logistic_curve(x, stays, c, column, prior, own, rest, a, b):
    """Curve of the coefficients c of one state and its v = own, at x of the times after it.

    Returns
    -------
    y : float
        Present logit of v.
    curve : Curve
    """
    M, P = x.shape
    centre, slopes, spread = np.zeros(P), c.copy(), np.zeros(M)
    for t in range(M):
        centre += x[t] / M
    centre[column], slopes[column] = 1.0, 0.0
    for t in range(M):
        for p in range(P):
            spread[t] += (x[t, p] - centre[p]) * slopes[p]
    gap = softplus(centre @ c)
    y = math.log(own) - math.log(rest)
    total = gap + softplus(y)
    log_kappa = _log_kappa(max(gap, LOWEST_GAP))  # of a pair that moves, gap is larger
    return y, Curve(
        total, -float(P), 0.0, a, b, spread, stays, log_kappa, slopes, centre, column, prior
    )


@njit(cache=True, nogil=True)
def divide_logistic_diagonals(rng, z, stays, x, c, column, prior, pi_bar, concentrations):
    """Draw (c_j, pi_bar_jj) of each state along its curve; see the module.

    Parameters
    ----------
    rng : numpy.random.Generator
    z : ndarray of int, shape (M,)
        z_{t-1} of the times inside a sequence.
    stays : ndarray of bool, shape (M,)
        z_t = z_{t-1}.
    x : ndarray of shape (M, P)
        Of time t; of the column of the intercept 1.
    c : ndarray of shape (L, P)
    column : int
        Of the intercept.
    prior : ndarray of shape (L, P, P + 1)
        Of ``NormalPriors``.
    pi_bar, concentrations : ndarray of shape (L, L)

    Returns
    -------
    c, pi_bar : ndarray
        New. Those of a state that no time is after stay.
    """
    new, rows = c.copy(), pi_bar.copy()
    order = np.argsort(z, kind="mergesort")
    first = np.searchsorted(z[order], np.arange(len(c) + 1))
    for j in range(len(c)):
        times = order[first[j] : first[j + 1]]
        own, rest, a, b = _parts(pi_bar[j], concentrations[j], j)
        if len(times) > 0 and own > 0.0 and rest > 0.0 and a > 0.0:
            y, curve = logistic_curve(
                x[times], stays[times], c[j], column, prior[j], own, rest, a, b
            )
            moved = _slice(rng, y, curve)
            if moved != y:
                new[j] = _coefficients(curve, curve.total - softplus(moved))
                _divided(rows[j], j, rest, moved)
    return new, rows
