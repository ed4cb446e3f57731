"""Log-likelihood of logistic regressions by state, and its derivatives."""

import math

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.copies import copy_into


@njit(cache=True, nogil=True)
def _log_one_plus_exp(x):
    return x + math.log1p(math.exp(-x)) if x > 0.0 else math.log1p(math.exp(x))


@njit(cache=True, nogil=True)
def logistic_log_likelihoods(z, x, offset, successes, trials, b):
    """Sum s eta - n log(1 + e^eta) over the times of each state, with eta = offset + x'b_z.

    Parameters
    ----------
    z : ndarray of int, shape (T,)
    x : ndarray of shape (T, P)
    offset, successes, trials : ndarray of shape (T,)
    b : ndarray of shape (L, P)

    Returns
    -------
    ndarray of shape (L,)
    """
    T, P = x.shape
    out = np.zeros(b.shape[0])
    for t in range(T):
        k = z[t]
        logit = offset[t]
        for p in range(P):
            logit += x[t, p] * b[k, p]
        out[k] += successes[t] * logit - trials[t] * _log_one_plus_exp(logit)
    return out


@njit(cache=True, nogil=True)
def logistic_derivatives(z, x, offset, successes, trials, b, stride):
    """First and negative second derivatives of ``logistic_log_likelihoods`` in b.

    Parameters
    ----------
    z, x, offset, successes, trials, b
        See there.
    stride : int
        Every so many-th time is taken, and stands for so many.

    Returns
    -------
    slope : ndarray of shape (L, P)
    precision : ndarray of shape (L, P, P)
    """
    T, P = x.shape
    L = b.shape[0]
    slope, precision = np.zeros((L, P)), np.zeros((L, P, P))
    for t in range(0, T, stride):
        k = z[t]
        logit = offset[t]
        for p in range(P):
            logit += x[t, p] * b[k, p]
        e = math.exp(-abs(logit))
        small, large = e / (1.0 + e), 1.0 / (1.0 + e)
        success = large if logit > 0.0 else small
        residual = stride * (successes[t] - trials[t] * success)
        weight = stride * trials[t] * small * large
        for p in range(P):
            slope[k, p] += residual * x[t, p]
            for q in range(p + 1):
                precision[k, p, q] += weight * x[t, p] * x[t, q]
    for p in range(P):
        for q in range(p):
            copy_into(precision[:, q, p], precision[:, p, q])
    return slope, precision
