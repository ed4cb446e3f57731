"""A pair of states as two and as one: counts, transitions and weights of both configurations."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from pymc_dshdp.kernels.collapsed_transitions import Persistence, log_own_marginal
from pymc_dshdp.kernels.elementary import log_rising
from pymc_dshdp.kernels.random import log_beta_draw, softplus


class Prior(NamedTuple):
    """What the transitions are given.

    Attributes
    ----------
    alpha, gamma : float
    persistence : Persistence
    sticks : bool
        Whether beta was made by stick-breaking.
    each : float
        Dirichlet parameter of each weight where it was not, gamma / L say; 1 where it was.
    """

    alpha: float
    gamma: float
    persistence: Persistence
    sticks: bool
    each: float


@njit(cache=True, nogil=True)
def log_stick_density(log_beta, gamma):
    """Log p(beta | gamma) of stick-breaking weights, up to a constant.

    prod_k gamma (1 - v_k)^(gamma - 1) = gamma^(L - 1) beta_L^(gamma - 1), and |dv / dbeta| is
    prod_{k < L} 1 / R_k with R_k the weight from k on.
    """
    L = log_beta.shape[0]
    out = (gamma - 1.0) * log_beta[L - 1]
    log_rest = log_beta[L - 1]
    for k in range(L - 2, -1, -1):
        top = max(log_rest, log_beta[k])
        log_rest = top + math.log(math.exp(log_rest - top) + math.exp(log_beta[k] - top))
        out -= log_rest
    return out


@njit(cache=True, nogil=True)
def log_weights(sticks_logit):
    """Log beta from logit(v), finite where beta underflows."""
    L = sticks_logit.shape[0] + 1
    out = np.empty(L)
    log_remaining = 0.0
    for k in range(L - 1):
        out[k] = log_remaining - softplus(-sticks_logit[k])
        log_remaining -= softplus(sticks_logit[k])
    out[L - 1] = log_remaining
    return out


@njit(cache=True, nogil=True)
def sticks_of(log_beta):
    """logit(v) from log beta: log beta_k less the logarithm of the weight beyond k."""
    L = log_beta.shape[0]
    out = np.empty(L - 1)
    log_rest = log_beta[L - 1]
    for k in range(L - 2, -1, -1):
        out[k] = log_beta[k] - log_rest
        top = max(log_rest, log_beta[k])
        log_rest = top + math.log(math.exp(log_rest - top) + math.exp(log_beta[k] - top))
    return out


@njit(cache=True, nogil=True)
def divided_counts(states, first, counts, times, sides, a, b):
    """Count the transitions of the path with S divided between a and b."""
    counts = counts.copy()
    for k in (a, b):
        counts[k + 1] = 0
        counts[:, k] = 0
    place = np.full(states.shape[0] + 1, -1)
    for x in range(times.shape[0]):
        place[times[x]] = x
    pair = (a, b)
    for x in range(times.shape[0]):
        t = times[x]
        k = pair[sides[x]]
        if first[t]:
            counts[0, k] += 1
        else:
            before = place[t - 1]
            counts[(states[t - 1] if before < 0 else pair[sides[before]]) + 1, k] += 1
        if t + 1 < states.shape[0] and not first[t + 1] and place[t + 1] < 0:
            counts[k + 1, states[t + 1]] += 1
    return counts


@njit(cache=True, nogil=True)
def merged_counts(divided, a, b):
    """Make b one with a in the counts."""
    counts = divided.copy()
    counts[a + 1] += counts[b + 1]
    counts[b + 1] = 0
    counts[:, a] += counts[:, b]
    counts[:, b] = 0
    return counts


@njit(cache=True, nogil=True)
def log_pair_transitions(counts, log_beta, a, b, prior):
    """Factors of p(z | beta, alpha, rho) that involve a or b."""
    L = counts.shape[1]
    alpha, persistence = prior.alpha, prior.persistence
    out = 0.0
    for k in (a, b):
        base = alpha * math.exp(log_beta[k])
        stays, leaves = counts[k + 1, k], 0
        for j in range(L + 1):
            if j != k + 1 and j != a + 1 and j != b + 1 and counts[j, k] > 0:
                out += log_rising(base, counts[j, k])
        for to in range(L):
            if to != k and counts[k + 1, to] > 0:
                leaves += counts[k + 1, to]
                out += log_rising(alpha * math.exp(log_beta[to]), counts[k + 1, to])
        if stays + leaves > 0:
            out += log_own_marginal(
                stays,
                leaves,
                base,
                alpha,
                persistence.stay[k],
                persistence.leave[k],
                persistence.integrated,
            )
    return out


@njit(cache=True, nogil=True)
def tables_guess(counts, k):
    """Guess the tables of k from the transitions into it."""
    out = 0.0
    for j in range(counts.shape[0]):
        if j != k + 1:
            out += math.log1p(counts[j, k])
    return out


@njit(cache=True, nogil=True)
def log_beta_function(x, y):
    """Log B(x, y)."""
    return math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y)


@njit(cache=True, nogil=True)
def draw_share(rng, log_beta, tables_a, tables_b, a, b, prior):
    """Draw log weights of a and b: their sum stays, the share ~ Beta(g + tables)."""
    g = prior.each
    log_a, log_b = log_beta_draw(rng, g + tables_a, g + tables_b)
    top = max(log_beta[a], log_beta[b])
    log_sum = top + math.log(math.exp(log_beta[a] - top) + math.exp(log_beta[b] - top))
    new = log_beta.copy()
    new[a], new[b] = log_sum + log_a, log_sum + log_b
    return new


@njit(cache=True, nogil=True)
def log_weight_ratio(log_beta, tables_a, tables_b, a, b, prior):
    """Log p(beta | gamma) less the log-density of ``draw_share``, up to a constant.

    With Dir(g, ..., g) the powers g - 1 of the prior cancel those of the draw, so that
    weights that have underflowed to 0 do no harm where there are no tables.
    """
    g = prior.each
    top = max(log_beta[a], log_beta[b])
    log_sum = top + math.log(math.exp(log_beta[a] - top) + math.exp(log_beta[b] - top))
    out = log_beta_function(g + tables_a, g + tables_b)
    if tables_a > 0.0:
        out -= tables_a * (log_beta[a] - log_sum)
    if tables_b > 0.0:
        out -= tables_b * (log_beta[b] - log_sum)
    if prior.sticks:
        out += log_stick_density(log_beta, prior.gamma)
    return out
