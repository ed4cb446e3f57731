"""A pair of states as two and as one: counts, transitions and weights of both configurations."""

import math
from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit
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
def divided_counts(states, first, index, counts, times, sides, a, b):
    """Count the transitions of the path with S divided between a and b; see ``path_counts``."""
    counts, grouped = counts.copy(), index.shape[0] > 0
    L = counts.shape[1]
    for k in (a, b):
        counts[k + 1 :: L] = 0
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
            own = 1 + L * index[t] if grouped else 1
            counts[own + (states[t - 1] if before < 0 else pair[sides[before]]), k] += 1
        if t + 1 < states.shape[0] and not first[t + 1] and place[t + 1] < 0:
            own = 1 + L * index[t + 1] if grouped else 1
            counts[own + k, states[t + 1]] += 1
    return counts


@njit(cache=True, nogil=True)
def merged_counts(divided, a, b):
    """Make b one with a in the counts."""
    counts, L = divided.copy(), divided.shape[1]
    for first in range(1, counts.shape[0], L):
        for k in range(L):
            counts[first + a, k] += counts[first + b, k]
        counts[first + b] = 0
    for r in range(counts.shape[0]):
        counts[r, a] += counts[r, b]
    counts[:, b] = 0
    return counts


@njit(cache=True, nogil=True)
def log_pair_transitions(counts, log_beta, a, b, prior):
    """Factors of p(z | beta, alpha, rho) that involve a or b."""
    R, L = counts.shape[0] - 1, counts.shape[1]
    alpha, persistence = prior.alpha, prior.persistence
    out = 0.0
    for k in (a, b):
        base = alpha * math.exp(log_beta[k])
        for row in range(R + 1):
            j = (row - 1) % L if row > 0 else -1
            if j != a and j != b and counts[row, k] > 0:
                out += log_rising(base, counts[row, k])
        for r in range(k, R, L):
            stays, leaves = counts[r + 1, k], 0
            for to in range(L):
                if to != k and counts[r + 1, to] > 0:
                    leaves += counts[r + 1, to]
                    out += log_rising(alpha * math.exp(log_beta[to]), counts[r + 1, to])
            if stays + leaves > 0:
                out += log_own_marginal(
                    stays,
                    leaves,
                    base,
                    alpha,
                    persistence.stay[r],
                    persistence.leave[r],
                    persistence.integrated,
                )
    return out


@njit(cache=True, nogil=True)
def tables_guess(counts, k):
    """Guess the tables of k from the transitions into it."""
    out, L = 0.0, counts.shape[1]
    for row in range(counts.shape[0]):
        if row == 0 or (row - 1) % L != k:
            out += math.log1p(counts[row, k])
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
