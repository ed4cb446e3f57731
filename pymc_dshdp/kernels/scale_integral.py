r"""Scales of regressions integrated out, whatever their prior: one integral for each state.

Given a state's times, the coefficients integrate out in closed form. What is left of the data is

    n numbers of variance s^2, of which n - P have the sum of squares Q and the others, e_i, the
    variances s^2 + lambda_i (the coefficients' prior adds the latter),

so that with u = log s the integrand is one-dimensional, smooth, and near a normal density where n
is large. It is summed over nodes u_j = mode + h sinh(t_j) at equal distances in t, whose error
falls exponentially with their number, tails included (Takahasi & Mori 1974).

The same nodes make a density q, linear in t between them, that is drawn from and known exactly. A
move that draws u from q goes by p(y, u) / q(u) for each state and leaves the joint law of path and
scales invariant however coarse the nodes are: with u' drawn anew the ratio of target and proposal
is that of these weights. They vary by less than one per cent about the integral.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit

__all__ = ["Profile", "ScaleIntegral", "profile", "prior_mode"]

LOG_2PI = np.log(2.0 * np.pi)
STEP, REACH = 0.125, 4.75  # of t: sinh(4.75) = 58
T_NODES = STEP * np.arange(-round(REACH / STEP), round(REACH / STEP) + 1)
SCANNED = np.arange(-10.0, 10.5, 0.5)
NEWTON, CLOSE = 40, 0.05  # steps at most, and when one is the last, in standard deviations
ROUNDING = 1e-12  # of a residual, beside all squares
FURTHEST = 0.5  # that a step goes, of u, or five standard deviations
DIFFERENCES = np.array([-0.01, 0.0, 0.01])  # standard deviations


class Profile(NamedTuple):
    """What the data of K states say of their scales.

    Attributes
    ----------
    visits : ndarray of shape (K,)
        n, the numbers observed.
    residual : ndarray of shape (K,)
        Q, the sum of squares about the least-squares fit.
    added, squares : ndarray of shape (K, P)
        lambda_i and e_i^2.
    """

    visits: np.ndarray
    residual: np.ndarray
    added: np.ndarray
    squares: np.ndarray

    def log_likelihood(self, u):
        """Log p(y | u), coefficients integrated out, for u of shape (K, G)."""
        return _log_likelihood(*self, u)

    def typical(self, around):
        """Find a value of u near each mode, where one more number has the variance e^2 around."""
        square = np.exp(2.0 * around)
        shrunk = (self.squares * square[:, None] / (square[:, None] + self.added)).sum(axis=1)
        return 0.5 * np.log((square + self.residual + shrunk) / (1.0 + self.visits))


@njit(cache=True, nogil=True, error_model="numpy")
def _log_likelihood(visits, residual, added, squares, u):
    K, G = u.shape
    P = added.shape[1]
    out = np.empty((K, G))
    for k in range(K):
        for g in range(G):
            square = math.exp(2.0 * u[k, g])
            total = residual[k] / square if residual[k] > 0.0 else 0.0
            for i in range(P):
                total += math.log1p(added[k, i] / square)
                if squares[k, i] > 0.0:
                    total += squares[k, i] / (square + added[k, i])
            out[k, g] = -visits[k] * (u[k, g] + 0.5 * LOG_2PI) - 0.5 * total
    return out


def prior_mode(log_prior, n):
    """Find values of u that are typical of n priors: near their modes, to half a unit."""
    wide = np.arange(-40.0, 40.5, 0.5)
    density = log_prior(np.repeat(wide[:, None], n, axis=1))
    return wide[np.argmax(np.nan_to_num(density, nan=-np.inf), axis=0)]


def profile(visits, factors, prior):
    """Reduce regressions to a ``Profile``.

    Parameters
    ----------
    visits : ndarray of shape (K,)
    factors : ndarray of shape (K, P + 1, P + 1)
        Upper triangular factors of the rows (x, y).
    prior : ndarray of shape (K, P, P + 1)
        Upper triangular root R of the coefficients' precision, and R times their mean.
    """
    P = prior.shape[1]
    root, located = prior[..., :P], prior[..., P:]
    inverse = np.linalg.inv(root)
    spread = factors[:, :P, :P] @ inverse
    error = factors[:, :P, P:] - spread @ located
    left, values, _ = np.linalg.svd(spread)
    turned = (left.swapaxes(1, 2) @ error)[..., 0]
    return Profile(visits, factors[:, P, P] ** 2, values**2, turned**2)


class ScaleIntegral:
    """The integrals of K states at one point.

    Parameters
    ----------
    data : Profile
    log_prior : callable
        ``log_prior(u)``, the log prior density of u, elementwise.
    around : ndarray of shape (K,)
        Values of u that are typical of the prior.
    """

    def __init__(self, data, log_prior, around):
        self._data, self._log_prior, self._around = data, log_prior, around
        self.mode, self.spread = self._peak()
        with np.errstate(over="ignore"):
            nodes = self.mode[:, None] + self.spread[:, None] * np.sinh(T_NODES)
        log_density = self.log_density(nodes) + np.log(self.spread)[:, None]
        log_density += np.log(np.cosh(T_NODES))
        self._top = log_density.max(axis=1)
        self._heights = np.exp(log_density - self._top[:, None])

    @property
    def log_evidence(self):
        """Log integrals, shape (K,); 0 where a state has no data."""
        return np.where(self._data.visits == 0, 0.0, self._evidence())

    def log_density(self, u):
        """Log p(y, u) for u of shape (K, G)."""
        out = self._data.log_likelihood(u) + self._log_prior(u)
        return np.where(np.isnan(out), -np.inf, out)

    def draw(self, rng):
        """(u, log of weight over evidence) of a draw of q for each state."""
        K = len(self.mode)
        areas = self._areas()
        below = np.cumsum(areas, axis=1)
        cell = (below < rng.random((K, 1)) * below[:, -1:]).sum(axis=1)
        cell = np.minimum(cell, areas.shape[1] - 1)
        one, two = (self._heights[np.arange(K), cell + i] for i in (0, 1))
        w = rng.random(K)
        root = np.sqrt(one * one * (1.0 - w) + two * two * w)
        part = w * (one + two) / (one + root)  # solves the quadratic of the area below it
        u = self.mode + self.spread * np.sinh(T_NODES[cell] + STEP * part)
        return u, self.log_weight(u)

    def log_weight(self, u):
        """Log p(y, u) - log q(u) - log evidence of one u for each state; inf where q is 0."""
        t = np.arcsinh((u - self.mode) / self.spread)
        heights = [
            np.interp(x, T_NODES, h, 0.0, 0.0) for x, h in zip(t, self._heights, strict=True)
        ]
        with np.errstate(divide="ignore"):
            log_q = np.log(heights) - np.log(self._areas().sum(axis=1))
        log_q -= np.log(self.spread * np.cosh(t))
        return self.log_density(u[:, None])[:, 0] - log_q - self._evidence()

    def _areas(self):
        return 0.5 * STEP * (self._heights[:, 1:] + self._heights[:, :-1])

    def _evidence(self):
        return self._top + np.log(STEP * self._heights.sum(axis=1))

    def _beginning(self):
        """Values that are near the mode, or typical, or found by a scan; of the highest density.

        The residual of equal numbers is what rounding leaves: no scale is near that.
        """
        visits, residual, added, squares = self._data
        typical = self._data.typical(self._around)
        fitted = visits > added.shape[1]
        fitted &= residual > ROUNDING * (residual + squares.sum(axis=1))
        near = typical.copy()
        near[fitted] = 0.5 * np.log(residual[fitted] / visits[fitted])
        found = np.stack([near, typical], axis=1)
        density = self.log_density(found)
        if not np.isfinite(density.max(axis=1)).all():
            found = (found[:, :, None] + SCANNED).reshape(len(found), -1)
            found = np.concatenate([found, self._around[:, None] + SCANNED], axis=1)
            density = self.log_density(found)
        return found[np.arange(len(found)), density.argmax(axis=1)]

    def _peak(self):
        """(mode, standard deviation there) by Newton's method, from a scan where need be."""
        u = self._beginning()
        h = 1.0 / np.sqrt(1.0 + 2.0 * self._data.visits)
        for _ in range(NEWTON):
            low, here, high = self.log_density(u[:, None] + h[:, None] * DIFFERENCES).T
            with np.errstate(invalid="ignore"):
                slope = (high - low) / (2.0 * DIFFERENCES[2])
                bend = (high - 2.0 * here + low) / DIFFERENCES[2] ** 2
            known = np.isfinite(bend) & (bend < 0.0)
            step = np.sign(np.nan_to_num(slope))
            step[known] = -slope[known] / bend[known]
            furthest = np.maximum(5.0, FURTHEST / h)
            step = np.clip(step, -furthest, furthest)
            u = u + h * step
            h[known] = np.minimum(h[known] / np.sqrt(-bend[known]), 1.0)
            if (np.abs(step) < CLOSE).all():
                break
        return u, h
