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

from pymc_dshdp.kernels.division import (
    DRAW,
    GIVEN,
    divide,
    division_evidence,
    prepare_launch,
)
from pymc_dshdp.kernels.pair_density import (
    divided_counts,
    draw_share,
    log_pair_transitions,
    log_weight_ratio,
    merged_counts,
    tables_guess,
)
from pymc_dshdp.kernels.predictive import include_time, log_densities, restore

PROBES = 16  # times of a that other states are asked to predict
SHARPNESS = 0.25
UNIFORM_SHARE = 0.1  # of s(b | a): every state can be chosen


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


class Choice(NamedTuple):
    """A pair of states and what goes with it.

    Attributes
    ----------
    split : bool
    i, j, a, b : int
        Anchors and their states; b = -1 where there is nothing to propose.
    times : ndarray of int64, shape (n,)
        S.
    sides : ndarray of int64, shape (n,)
        The division of S: that of a merge is the present one, that of a split is drawn later.
    n_empty : int
        E, of the merged configuration.
    """

    split: bool
    i: int
    j: int
    a: int
    b: int
    times: np.ndarray
    sides: np.ndarray
    n_empty: int


@njit(cache=True, nogil=True)
def partners_of(path, a):
    """Find the states that a can be merged with: shape (L,), bool."""
    candidates = ~path.pinned
    visits = np.bincount(path.states, minlength=candidates.shape[0])
    for k in range(candidates.shape[0]):
        candidates[k] &= visits[k] > 0 and k != a
    return candidates


@njit(cache=True, nogil=True)
def choose_split(rng, path, i):
    """Choose j and an empty state for a split of the state of i."""
    states = path.states
    a = states[i]
    visits = np.bincount(states, minlength=path.pinned.shape[0])
    empty = np.flatnonzero(visits == 0)
    times = np.flatnonzero(states == a)
    sides = np.zeros(times.shape[0], np.int64)
    if visits[a] < 2 or empty.shape[0] == 0:
        return Choice(True, i, i, a, -1, times, sides, 0)
    b = empty[rng.integers(0, empty.shape[0])]
    j = i
    while j == i:
        j = times[rng.integers(0, times.shape[0])]
    return Choice(True, i, j, a, b, times, sides, empty.shape[0])


@njit(cache=True, nogil=True)
def choose_merge(rng, path, i, partners):
    """Choose a state b by the probabilities of partners, and a time of it."""
    states = path.states
    a, b = states[i], _chosen(rng, partners)
    visits = np.bincount(states, minlength=path.pinned.shape[0])
    there = np.flatnonzero(states == b)
    j = there[rng.integers(0, there.shape[0])]
    times = np.flatnonzero((states == a) | (states == b))
    sides = np.zeros(times.shape[0], np.int64)
    for x in range(times.shape[0]):
        sides[x] = states[times[x]] == b
    return Choice(False, i, j, a, b, times, sides, np.sum(visits == 0) + 1)


class Weighing(NamedTuple):
    """Both configurations of a proposal.

    Attributes
    ----------
    log_ratio : float
        Of the split, without the terms in log q of the division and s(b | a).
    counts : ndarray of int64, shape (L + 1, L)
        Of the configuration proposed.
    log_beta : ndarray of shape (L,)
        Its weights.
    """

    log_ratio: float
    counts: np.ndarray
    log_beta: np.ndarray


@njit(cache=True, nogil=True)
def weigh(rng, path, prior, choice, apart, whole):
    """Draw the weights of the configuration proposed, and compare the two.

    ``apart`` and ``whole`` are the log marginal likelihoods of the sides of S, and of S.
    """
    split, _, _, a, b, times, sides, n_empty = choice
    if split:
        divided = divided_counts(path.states, path.first, path.counts, times, sides, a, b)
        merged = path.counts
    else:
        divided, merged = path.counts, merged_counts(path.counts, a, b)
    tables_a, tables_b = tables_guess(divided, a), tables_guess(divided, b)
    tables_m = tables_guess(merged, a)
    beta_d = beta_m = path.log_beta
    if split:
        beta_d = draw_share(rng, beta_m, tables_a, tables_b, a, b, prior)
    else:
        beta_m = draw_share(rng, beta_d, tables_m, 0.0, a, b, prior)
    log_ratio = apart[0] + apart[1] - whole
    log_ratio += log_pair_transitions(divided, beta_d, a, b, prior)
    log_ratio -= log_pair_transitions(merged, beta_m, a, b, prior)
    log_ratio += log_weight_ratio(beta_d, tables_a, tables_b, a, b, prior)
    log_ratio -= log_weight_ratio(beta_m, tables_m, 0.0, a, b, prior)
    log_ratio += math.log(times.shape[0] - 1.0) + math.log(n_empty) - math.log(sides.sum())
    if split:
        return Weighing(log_ratio, divided, beta_d)
    return Weighing(log_ratio, merged, beta_m)


@njit(cache=True, nogil=True)
def accept(path, choice, weighing, apart, whole):
    """Make the proposal the path; returns the sides that S now has."""
    split, _, _, a, b, times, sides, _ = choice
    if not split:
        sides = np.zeros(times.shape[0], np.int64)
    for x in range(times.shape[0]):
        path.states[times[x]] = b if sides[x] == 1 else a
    path.counts[:] = weighing.counts
    path.log_beta[:] = weighing.log_beta
    path.evidence[a] = apart[0] if split else whole
    path.evidence[b] = apart[1] if split else 0.0
    return sides


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

    What does not look at the emission is in functions of its own, compiled once for all of them.

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
    evidence, partners = path.evidence, np.empty(path.pinned.shape[0])
    splits = merges = work = 0
    for _ in range(n_proposals):
        i = rng.integers(0, path.states.shape[0])
        a = path.states[i]
        split = rng.random() < 0.5
        candidates = partners_of(path, a)
        if path.pinned[a] or not (split or candidates.any()):
            continue
        if split:
            choice = choose_split(rng, path, i)
        else:
            times_a = np.flatnonzero(path.states == a)
            work += partner_probabilities(emission, emission, -1, times_a, candidates, partners)
            choice = choose_merge(rng, path, i, partners)
        _, _, j, _, b, times, sides, _ = choice
        if b < 0:
            continue
        slots = np.array([a, b])
        launch = prepare_launch(scratch, blank, times, path.first, i, j, slots)
        work += 10 * times.shape[0]
        log_q = divide(launch, DRAW if split else GIVEN, rng.random(times.shape[0]), sides)
        if split:
            apart, whole = division_evidence(scratch, blank, times, sides, slots), evidence[a]
            candidates[b] = True
            times_a = times[sides == 0]
            work += partner_probabilities(emission, scratch, b, times_a, candidates, partners)
        else:
            apart = np.array([evidence[a], evidence[b]])
            whole = division_evidence(scratch, blank, times, np.zeros_like(sides), slots)[0]
        weighing = weigh(rng, path, prior, choice, apart, whole)
        log_ratio = weighing.log_ratio - log_q + math.log(partners[b])
        if -rng.standard_exponential() < (log_ratio if split else -log_ratio):
            sides = accept(path, choice, weighing, apart, whole)
            _include_again(emission, blank, times, sides, slots)
            splits += split
            merges += not split
    return Moves(splits, merges, work)
