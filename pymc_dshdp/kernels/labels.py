"""The numbering of the states along the sticks: neighbours exchanged, and the sticks after it."""

import math
from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.tables import table_counts
from pymc_dshdp.kernels.transitions import draw_sticks


class Renumbering(NamedTuple):
    """A new numbering of the states.

    Attributes
    ----------
    order : ndarray of shape (L,), int64
        Former number of the state that now has number k.
    sticks_logit : ndarray of shape (L - 1,)
        Logit of v, drawn given the new numbering.
    """

    order: np.ndarray
    sticks_logit: np.ndarray


@njit(cache=True, nogil=True)
def exchange_neighbours(rng, tables, gamma):
    """Offer each neighbour an exchange in turn; m changes in place, and the order is returned.

    With v integrated out, p(m | gamma) = prod_{k < L} Gamma(1 + m_k) Gamma(gamma + m_{>k})
    / Gamma(1 + gamma + m_{>=k}). The exchange of a = m_k and b = m_{k+1}, with r tables beyond
    them, multiplies it by (gamma + r + b) / (gamma + r + a), and at the last two, where
    v_L = 1, by Gamma(1 + b) Gamma(gamma + a) / (Gamma(1 + a) Gamma(gamma + b)): Metropolis.
    """
    L = tables.shape[0]
    order = np.arange(L)
    beyond = tables.sum() - tables[0]
    for k in range(L - 1):
        a, b = tables[k], tables[k + 1]
        beyond -= b
        if k < L - 2:
            log_ratio = math.log((gamma + beyond + b) / (gamma + beyond + a))
        else:
            log_ratio = math.lgamma(1.0 + b) - math.lgamma(gamma + b)
            log_ratio -= math.lgamma(1.0 + a) - math.lgamma(gamma + a)
        if -rng.standard_exponential() < log_ratio:
            tables[k], tables[k + 1] = b, a
            order[k], order[k + 1] = order[k + 1], order[k]
    return order


@njit(cache=True, nogil=True)
def renumber(rng, switches, gamma, alpha, beta):
    """Draw the numbering of the states along the sticks, then the sticks.

    m | n, alpha, beta; neighbours exchanged given m with v integrated out; v | m, gamma. All that
    belongs to a state (its path, kappa, emission, row and column of n) takes the new number, and
    the rest of the joint density, alike in all states, does not change.

    Parameters
    ----------
    rng : numpy.random.Generator
    switches : ndarray of shape (L + 1, L), int64
    gamma, alpha : float
    beta : ndarray of shape (L,)

    Returns
    -------
    Renumbering
    """
    tables = table_counts(rng, switches, alpha, beta)
    order = exchange_neighbours(rng, tables, gamma)
    return Renumbering(order, draw_sticks(rng, tables, gamma))
