"""Matrix products over data and states, and draws, that several families share."""

import numpy as np
from scipy.special import gammaln

from pymc_dshdp.kernels.emissions_statistics import log_gamma_draws

__all__ = ["log_dirichlet_evidence", "log_gamma", "weighted_logs"]


def log_dirichlet_evidence(weights, counts):
    """Log B(weights + counts) - log B(weights) over the last axis, of nonnegative weights."""
    with np.errstate(invalid="ignore"):
        rise = gammaln(weights + counts) - gammaln(weights)
    rise = np.where(counts == 0.0, 0.0, rise)
    rise[(weights == 0.0) & (counts > 0.0)] = -np.inf
    total = weights.sum(axis=-1)
    return rise.sum(axis=-1) + gammaln(total) - gammaln(total + counts.sum(axis=-1))


def weighted_logs(weights, logs):
    """Sum over features of weight x log, with 0 x -inf = 0.

    Parameters
    ----------
    weights : ndarray of shape (T, F)
        Nonnegative.
    logs : ndarray of shape (L, F)
        May contain -inf.

    Returns
    -------
    ndarray of shape (T, L)
    """
    infinite = np.isneginf(logs)
    if not infinite.any():
        return weights @ logs.T
    out = weights @ np.where(infinite, 0.0, logs).T
    affected = infinite.any(axis=1)
    hit = weights @ infinite[affected].T.astype("float64") > 0.0
    out[:, affected] = np.where(hit, -np.inf, out[:, affected])
    return out


def log_gamma(rng, shapes):
    """Logarithms of Gamma(shape, 1) draws, elementwise; finite where the draws underflow."""
    return log_gamma_draws(rng, np.ravel(shapes)).reshape(np.shape(shapes))
