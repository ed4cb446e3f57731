r"""Exact splits and merges of states, with everything that can be integrated out left out.

The state of the move is (z, beta), given alpha, gamma and rho; emission parameters, the rows,
kappa and the w are integrated out, and redrawn after an acceptance. Its density is

    pi(z, beta) = prod_k m(y: z = k) x p(z | beta, alpha, rho) x p(beta | gamma)

with p(z | ...) of ``collapsed_transitions``. A proposal chooses a time i, in state a, and then

* *split*: another time j of a, and one b of the E empty states; S are the times of a;
* *merge*: a state b with probability s(b | a), that rises with how well b predicts times of a,
  and a time j of b; S are the times of a and b.

A split divides S by a draw of ``division.divide``, of probability q, with i in a and j in b. The
weight of both, beta_a + beta_b, stays; the share of a is drawn from a Beta distribution whose
parameters look at the configuration proposed. (beta_a, beta_b) -> (share, sum) has the same
Jacobian on both sides. With n_S and n_b the sizes,

    log ratio of a split = log pi(divided) - log pi(merged)
        + log q(share | merged) + log s(b | a; divided) - log n_b
        - log q(path) - log q(share | divided) + log (n_S - 1) + log E

and a merge has minus that with the roles exchanged. States of known times take no part.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from pymc_dshdp.kernels.collapsed_transitions import Persistence, log_own_marginal
from pymc_dshdp.kernels.division import (
    DRAW,
    GIVEN,
    divide,
    division_evidence,
    prepare_launch,
)
from pymc_dshdp.kernels.elementary import log_rising
from pymc_dshdp.kernels.predictive import include_time, log_densities, restore
from pymc_dshdp.kernels.random import log_beta_draw, softplus

PROBES = 16  # times of a that other states are asked to predict
SHARPNESS = 0.25
UNIFORM_SHARE = 0.1  # of s(b | a): every state can be chosen


class Prior(NamedTuple):
    """What the transitions are given.

    Attributes
    ----------
    alpha, gamma : float
    persistence : Persistence
    sticks : bool
        Whether beta was made by stick-breaking, rather than Dir(gamma / L).
    """

    alpha: float
    gamma: float
    persistence: Persistence
    sticks: bool


class Path(NamedTuple):
    """The path and what follows from it; changed in place.

    Attributes
    ----------
    states : ndarray of int64, shape (T,)
    first : ndarray of bool, shape (T,)
        Beginnings of sequences.
    pinned : ndarray of bool, shape (L,)
        States of known times.
    counts : ndarray of int64, shape (L + 1, L)
    log_beta : ndarray of shape (L,)
    evidence : ndarray of shape (L,)
        log m(y: z = k).
    """

    states: np.ndarray
    first: np.ndarray
    pinned: np.ndarray
    counts: np.ndarray
    log_beta: np.ndarray
    evidence: np.ndarray


class Moves(NamedTuple):
    """What a call has done.

    Attributes
    ----------
    splits, merges : int
        Accepted.
    work : int
        Times whose densities were looked up, once for each pass and slot.
    """

    splits: int
    merges: int
    work: int


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
def divided_counts(path, times, sides, a, b):
    """Count the transitions of the path with S divided between a and b."""
    states, first, counts = path.states, path.first, path.counts.copy()
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
def _tables(counts, k):
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
    g = 1.0 if prior.sticks else prior.gamma / log_beta.shape[0]
    log_a, log_b = log_beta_draw(rng, g + tables_a, g + tables_b)
    top = max(log_beta[a], log_beta[b])
    log_sum = top + math.log(math.exp(log_beta[a] - top) + math.exp(log_beta[b] - top))
    new = log_beta.copy()
    new[a], new[b] = log_sum + log_a, log_sum + log_b
    return new


@njit(cache=True, nogil=True)
def log_weight_ratio(log_beta, tables_a, tables_b, a, b, prior):
    """Log p(beta | gamma) less the log-density of ``draw_share``, up to a constant.

    With Dir(gamma / L) the powers gamma / L - 1 of the prior cancel those of the draw, so that
    weights that have underflowed to 0 do no harm where there are no tables.
    """
    g = 1.0 if prior.sticks else prior.gamma / log_beta.shape[0]
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


@njit(cache=True, nogil=True)
def partner_probabilities(emission, other, b, times_a, candidates, out):
    """s(k | a) of the candidate states, by how well they predict times of a; in place.

    Parameters
    ----------
    emission : NamedTuple
        Holds the candidates but for b.
    other : NamedTuple
        Holds b, or is ``emission``.
    b : int
        -1 for none.
    times_a : ndarray of int
        Times of a, ascending.
    candidates : ndarray of bool, shape (L,)
    out : ndarray of shape (L,)
    """
    chosen = np.flatnonzero(candidates)
    m = chosen.shape[0]
    score, density, one = np.zeros(m), np.empty(m), np.empty(1)
    slot = np.array([b])
    n = times_a.shape[0]
    probes = min(n, PROBES)
    for x in range(probes):
        t = times_a[((2 * x + 1) * n) // (2 * probes)]
        log_densities(emission, t, chosen, density)
        if b >= 0:
            log_densities(other, t, slot, one)
        for c in range(m):
            score[c] += one[0] if chosen[c] == b else density[c]
    top = score.max()
    total = 0.0
    for c in range(m):
        score[c] = math.exp(SHARPNESS * (score[c] - top)) if top > -np.inf else 1.0
        total += score[c]
    out[:] = 0.0
    for c in range(m):
        out[chosen[c]] = (1.0 - UNIFORM_SHARE) * score[c] / total + UNIFORM_SHARE / m
    return probes * m


@njit(cache=True, nogil=True)
def _chosen(rng, probabilities):
    """Draw an index with the given probabilities."""
    left = rng.random() * probabilities.sum()
    last = -1
    for k in range(probabilities.shape[0]):
        if probabilities[k] > 0.0:
            last = k
            left -= probabilities[k]
            if left < 0.0:
                break
    return last


@njit(cache=True, nogil=True)
def _include_again(emission, blank, times, sides, slots):
    """Empty two slots and include S in them as divided."""
    for k in slots:
        restore(emission, blank, k)
    for x in range(times.shape[0]):
        include_time(emission, times[x], slots[sides[x]])


@njit(cache=True, nogil=True)
def split_merge(rng, n_proposals, path, prior, emission, scratch, blank):
    """Make proposals one after the other; ``path`` and ``emission`` follow in place.

    Parameters
    ----------
    rng : numpy.random.Generator
    n_proposals : int
    path : Path
    prior : Prior
    emission : NamedTuple
        An emission of ``kernels.predictive`` with the path included.
    scratch, blank : NamedTuple
        The same, nothing included.

    Returns
    -------
    Moves
    """
    states, pinned, evidence = path.states, path.pinned, path.evidence
    T, L = states.shape[0], pinned.shape[0]
    partners = np.empty(L)
    splits = merges = work = 0
    for _ in range(n_proposals):
        visits = np.bincount(states, minlength=L)
        i = rng.integers(0, T)
        a = states[i]
        split = rng.random() < 0.5
        if pinned[a]:
            continue
        candidates = (visits > 0) & ~pinned
        candidates[a] = False
        if split:
            empty = np.flatnonzero(visits == 0)
            if visits[a] < 2 or empty.shape[0] == 0:
                continue
            b = empty[rng.integers(0, empty.shape[0])]
            times = np.flatnonzero(states == a)
            j = i
            while j == i:
                j = times[rng.integers(0, times.shape[0])]
            n_empty = empty.shape[0]
        else:
            if not candidates.any():
                continue
            times_a = np.flatnonzero(states == a)
            work += partner_probabilities(emission, emission, -1, times_a, candidates, partners)
            b = _chosen(rng, partners)
            there = np.flatnonzero(states == b)
            j = there[rng.integers(0, there.shape[0])]
            times = np.flatnonzero((states == a) | (states == b))
            n_empty = np.sum(visits == 0) + 1
        n = times.shape[0]
        slots = np.array([a, b])
        sides = (states[times] == b).astype(np.int64)
        launch = prepare_launch(scratch, blank, times, path.first, i, j, slots)
        work += 10 * n
        log_q = divide(launch, DRAW if split else GIVEN, rng.random(n), sides)
        together = np.zeros(n, np.int64)
        if split:
            apart = division_evidence(scratch, blank, times, sides, slots)
            whole = evidence[a]
            divided = divided_counts(path, times, sides, a, b)
            merged = path.counts
            candidates[b] = True
            work += partner_probabilities(
                emission, scratch, b, times[sides == 0], candidates, partners
            )
        else:
            apart = np.array([evidence[a], evidence[b]])
            whole = division_evidence(scratch, blank, times, together, slots)[0]
            divided = path.counts
            merged = merged_counts(divided, a, b)
        for k in slots:
            restore(scratch, blank, k)
        tables_a, tables_b = _tables(divided, a), _tables(divided, b)
        tables_m = _tables(merged, a)
        if split:
            beta_m = path.log_beta
            beta_d = draw_share(rng, beta_m, tables_a, tables_b, a, b, prior)
        else:
            beta_d = path.log_beta
            beta_m = draw_share(rng, beta_d, tables_m, 0.0, a, b, prior)
        log_ratio = apart[0] + apart[1] - whole
        log_ratio += log_pair_transitions(divided, beta_d, a, b, prior)
        log_ratio -= log_pair_transitions(merged, beta_m, a, b, prior)
        log_ratio += log_weight_ratio(beta_d, tables_a, tables_b, a, b, prior)
        log_ratio -= log_weight_ratio(beta_m, tables_m, 0.0, a, b, prior)
        log_ratio += math.log(partners[b]) - math.log(sides.sum())
        log_ratio += math.log(n - 1.0) + math.log(n_empty) - log_q
        if not -rng.standard_exponential() < (log_ratio if split else -log_ratio):
            continue
        if split:
            splits += 1
        else:
            merges += 1
            sides = together
        for x in range(n):
            states[times[x]] = slots[sides[x]]
        path.counts[:] = divided if split else merged
        path.log_beta[:] = beta_d if split else beta_m
        evidence[a], evidence[b] = (apart[0], apart[1]) if split else (whole, 0.0)
        _include_again(emission, blank, times, sides, slots)
    return Moves(splits, merges, work)
