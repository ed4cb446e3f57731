"""A pair of states as two and as one: counts, transitions and weights of both configurations."""

import math
from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.collapsed_transitions import Persistence, log_own_marginal
from pymc_dshdp.kernels.elementary import log_rising
from pymc_dshdp.kernels.finite_mixture import NumberPrior, each_concentration
from pymc_dshdp.kernels.random import log_beta_draw, softplus

NO_MIXTURE = NumberPrior(np.empty(0), False)


class Prior(NamedTuple):
    """What the transitions are given.

    Attributes
    ----------
    alpha, gamma : float
    persistence : Persistence
    sticks : bool
        Whether beta was made by stick-breaking.
    each : float
        Dirichlet parameter of each weight where it was not, gamma / L say; 1 where it was. That
        of a finite mixture follows from the number of active states.
    number : NumberPrior
        Of a finite mixture, log p(K) up to a constant; without probabilities, all are active.
    """

    alpha: float
    gamma: float
    persistence: Persistence
    sticks: bool
    each: float
    number: NumberPrior = NO_MIXTURE


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
def is_mixture(prior):
    """Whether the weights are those of a finite mixture."""
    return prior.number.log_probabilities.shape[0] > 0


@njit(cache=True, nogil=True)
def each_weight(prior, number):
    """Dirichlet parameter g of each weight, with a number of active states."""
    if is_mixture(prior):
        return each_concentration(prior.gamma, number, prior.number.static)
    return prior.each


@njit(cache=True, nogil=True)
def log_sum_of(log_beta, a, b):
    """Log (beta_a + beta_b)."""
    top = max(log_beta[a], log_beta[b])
    return top + math.log(math.exp(log_beta[a] - top) + math.exp(log_beta[b] - top))


@njit(cache=True, nogil=True)
def draw_share(rng, log_beta, tables_a, tables_b, a, b, g):
    """Draw log weights of a and b: their sum stays, the share ~ Beta(g + tables)."""
    log_a, log_b = log_beta_draw(rng, g + tables_a, g + tables_b)
    log_sum = log_sum_of(log_beta, a, b)
    new = log_beta.copy()
    new[a], new[b] = log_sum + log_a, log_sum + log_b
    return new


@njit(cache=True, nogil=True)
def give_to_first(log_beta, a, b):
    """Log weights with that of b given to a."""
    new = log_beta.copy()
    new[a], new[b] = log_sum_of(log_beta, a, b), -np.inf
    return new


@njit(cache=True, nogil=True)
def log_without_share(log_beta, log_sum, tables_a, tables_b, a, b, g):
    """Less the log-density of the share that ``draw_share`` draws, its powers g - 1 left out."""
    out = log_beta_function(g + tables_a, g + tables_b)
    if tables_a > 0.0:
        out -= tables_a * (log_beta[a] - log_sum)
    if tables_b > 0.0:
        out -= tables_b * (log_beta[b] - log_sum)
    return out


@njit(cache=True, nogil=True)
def log_weight_ratio(log_beta, tables_a, tables_b, a, b, g, prior):
    """Log p(beta | gamma) less the log-density of ``draw_share``, up to a constant.

    With Dir(g, ..., g) the powers g - 1 of the prior cancel those of the draw, so that
    weights that have underflowed to 0 do no harm where there are no tables.
    """
    log_sum = log_sum_of(log_beta, a, b)
    out = log_without_share(log_beta, log_sum, tables_a, tables_b, a, b, g)
    if prior.sticks:
        out += log_stick_density(log_beta, prior.gamma)
    return out


@njit(cache=True, nogil=True)
def log_activation_ratio(log_beta, active, tables_a, tables_b, a, b, prior):
    """Return what b being active, beside K others, adds to log(divided / merged).

    With c and d the Dirichlet parameters of K and of K + 1 weights, s = beta_a + beta_b, which is
    the weight of a where b is not active, and u the share of a in it,

        p(K + 1) (L over K) / [p(K) (L over K + 1)]
          x Dir(beta of K + 1; d) s / [Dir(beta of K; c) Beta(u; d + tables_a, d + tables_b)]

    where s is the Jacobian of (s, u) -> (beta_a, beta_b). NaN, with which neither direction is
    accepted, where the weight of another state has underflowed and c is not d.

    Parameters
    ----------
    log_beta : ndarray of shape (L,)
        Of the divided configuration.
    active : ndarray of bool, shape (L,)
        What is said of b does not matter.
    """
    L, number, others = log_beta.shape[0], 0, 0.0
    for k in range(L):
        if active[k] and k != b:
            number += 1
            if k != a:
                others += log_beta[k]
    c, d = each_weight(prior, number), each_weight(prior, number + 1)
    log_p, log_sum = prior.number.log_probabilities, log_sum_of(log_beta, a, b)
    out = log_p[number] - log_p[number - 1] + math.log((number + 1.0) / (L - number))
    out += math.lgamma((number + 1) * d) - (number + 1) * math.lgamma(d)
    out -= math.lgamma(number * c) - number * math.lgamma(c)
    out += (2.0 * d - c) * log_sum
    out += log_without_share(log_beta, log_sum, tables_a, tables_b, a, b, d)
    if c != d:
        out += (d - c) * others if others > -np.inf else np.nan
    return out
