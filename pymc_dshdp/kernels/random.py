"""Random draws in log space, exact where ordinary ones underflow.

Weak-limit weights make Dirichlet parameters of 1e-100 (or 0, by underflow) ordinary. A gamma
draw with such a shape is 0 in double precision, and a vector of them normalises to NaN; the
logarithms are finite, so everything here is drawn and normalised as logarithms.
"""

import math

import numpy as np

from pymc_dshdp.kernels.cache import njit


@njit(cache=True, nogil=True)
def log_gamma_draw(rng, shape):
    """Draw the logarithm of a Gamma(shape, 1) variate.

    For shape < 1, G(shape) = G(shape + 1) U^(1/shape) in distribution, with U uniform
    (Marsaglia & Tsang 2000, section 6). Shape 0 is the point mass at 0: returns -inf.
    """
    if shape >= 1.0:
        return math.log(rng.standard_gamma(shape))
    if shape == 0.0:
        return -np.inf
    return math.log(rng.standard_gamma(shape + 1.0)) - rng.standard_exponential() / shape


@njit(cache=True, nogil=True)
def log_beta_draw(rng, a, b):
    """Draw (log X, log(1 - X)) for X ~ Beta(a, b), each to full relative accuracy."""
    log_x = log_gamma_draw(rng, float(a))
    log_y = log_gamma_draw(rng, float(b))
    top = max(log_x, log_y)
    log_sum = top + math.log(math.exp(log_x - top) + math.exp(log_y - top))
    return log_x - log_sum, log_y - log_sum


@njit(cache=True, nogil=True)
def beta_logit_draw(rng, a, b):
    """Draw logit(X) for X ~ Beta(a, b): log G(a) - log G(b), finite where X rounds to 0 or 1."""
    return log_gamma_draw(rng, a) - log_gamma_draw(rng, b)


@njit(cache=True, nogil=True)
def beta_draw(rng, a, b):
    """Draw X ~ Beta(a, b); X may round to 0 or 1 where a or b is small."""
    return math.exp(log_beta_draw(rng, a, b)[0])


@njit(cache=True, nogil=True)
def dirichlet_draw(rng, concentration, out):
    """Draw out ~ Dir(concentration); entries that underflow, or have concentration 0, are 0.

    Parameters
    ----------
    rng : numpy.random.Generator
    concentration : ndarray of shape (L,)
        At least one entry positive.
    out : ndarray of shape (L,)
        Overwritten.
    """
    L = concentration.shape[0]
    top = -np.inf
    for k in range(L):
        out[k] = log_gamma_draw(rng, concentration[k])
        top = max(top, out[k])
    total = 0.0
    for k in range(L):
        out[k] = math.exp(out[k] - top)
        total += out[k]
    for k in range(L):
        out[k] /= total


@njit(cache=True, nogil=True)
def sigmoid(x):
    """Return 1 / (1 + exp(-x)) to full relative accuracy for either sign of x."""
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    e = math.exp(x)
    return e / (1.0 + e)


@njit(cache=True, nogil=True, inline="always")
def copy_probability(kappa_logit, own):
    """p(w_t = 1 | z_{t-1} = z_t = j) = kappa_j / (kappa_j + (1 - kappa_j) pi_bar_jj).

    Parameters
    ----------
    kappa_logit : float
        Of kappa_j; -inf for 0.
    own : float
        pi_bar_jj.

    Returns
    -------
    float
        0 where kappa_j and pi_bar_jj are: such a path has probability 0, and can only be a start.
    """
    kappa = sigmoid(kappa_logit)
    return kappa / (kappa + sigmoid(-kappa_logit) * own) if kappa > 0.0 else 0.0


@njit(cache=True, nogil=True)
def softplus(x):
    """Return log(1 + exp(x)), that is -log(1 - sigmoid(x)), without overflow."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))
