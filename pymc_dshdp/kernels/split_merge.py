r"""Exact splits and merges of states, with everything that can be integrated out left out.

The state of the move is (z, beta), given alpha, gamma and rho; emission parameters, the rows,
kappa and the w are integrated out, and redrawn after an acceptance. Its density is

    pi(z, beta) = prod_k m(y: z = k) x p(z | beta, alpha, rho) x p(beta | gamma)

with p(z | ...) of ``collapsed_transitions``. A proposal chooses a time i, in state a, and then

* *split*: one b of the E empty states; S are the times of a;
* *merge*: a state b with probability s(b | a), that rises with m(a and b together) / m(b); S are
  the times of a and b.

Of a finite mixture the state of the move is (z, K, active set, beta): b is one of the E = L - K
states that are not active, and becomes active by the split; a merge makes it inactive, and gives
its weight to a (``log_activation_ratio`` has the density of K, set and weights). Empty active
states take no part.

A split divides S in one of two ways, with i in a. By ``prior_division``, of probability q given
(S, i) and the path outside S: for states alike. Or by a draw of ``division.divide``, of probability
q given another time j besides, which is in b: a split chooses it from S - i and a merge from the
times of b, with probability r(j | i, X), uniform over X with probability 1/2, and over those of X
that are near i otherwise. The weight of both, beta_a + beta_b, stays; the share of a is drawn from
a Beta distribution whose parameters look at the configuration proposed. (beta_a, beta_b) ->
(share, sum) has the same Jacobian on both sides.

    log ratio of a split = log pi(divided) - log pi(merged)
        + log q(share | merged) + log s(b | a; divided) + log r(j | i, times of b)
        - log q(path) - log q(share | divided) - log r(j | i, S - i) + log E

and a merge has minus that with the roles exchanged; where there is no j there is no r. A *resplit*
is a merge with b and a split of what results, with the same anchors, in one proposal; the merged
configuration and E cancel:

    log ratio = log pi(new) - log pi(old) + log s(b | a; new) - log s(b | a; old)
        + log r(j | i, new times of b) - log r(j | i, old times of b)
        + log q(old path) - log q(new path) + log q(old share | old) - log q(new share | new)

with i in a and j in b, new and old, so that the launch is the same. States of known times take no
part.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.copies import copy_into
from pymc_dshdp.kernels.counts import number_of
from pymc_dshdp.kernels.pair_density import (
    divided_counts,
    draw_share,
    each_weight,
    give_to_first,
    is_mixture,
    log_activation_ratio,
    log_pair_transitions,
    log_weight_ratio,
    merged_counts,
    tables_guess,
)

SHARPNESS = 0.2
UNIFORM_SHARE = 0.1  # of s(b | a): every state can be chosen
NEAR = 4


class Path(NamedTuple):
    """The path and what follows from it; changed in place.

    Attributes
    ----------
    states : ndarray of int64, shape (T,)
    first : ndarray of bool, shape (T,)
        Beginnings of sequences.
    groups : ndarray of int64, shape (T,), or (0,)
        The group that leads to each time; see ``path_counts``.
    pinned : ndarray of bool, shape (L,)
        States of known times.
    counts : ndarray of int64, shape (R + 1, L)
    log_beta : ndarray of shape (L,)
    active : ndarray of bool, shape (L,)
        States whose weight is not 0 by declaration.
    """

    states: np.ndarray
    first: np.ndarray
    groups: np.ndarray
    pinned: np.ndarray
    counts: np.ndarray
    log_beta: np.ndarray
    active: np.ndarray


def partner_probabilities(gains):
    """s(b | a) of the candidates, from log m(a and b together) - log m(b)."""
    top = gains.max()
    out = np.exp(SHARPNESS * (gains - top)) if top > -np.inf else np.ones(len(gains))
    return (1.0 - UNIFORM_SHARE) * out / out.sum() + UNIFORM_SHARE / len(out)


def choose_anchor(rng, times, i):
    """Draw j from r(j | i, X) for the times X."""
    near = times[np.abs(times - i) <= NEAR]
    among = near if rng.random() < 0.5 and near.size else times
    return among[rng.integers(among.size)]


def log_anchor_probability(times, i, j):
    """Log r(j | i, X)."""
    near = np.count_nonzero(np.abs(times - i) <= NEAR)
    if near == 0:
        return -math.log(times.size)
    return math.log(0.5 / times.size + (0.5 / near if abs(j - i) <= NEAR else 0.0))


class Proposal(NamedTuple):
    """A pair of states and what goes with it.

    Attributes
    ----------
    split : bool
    a, b : int
    times : ndarray of int64, shape (n,)
        S.
    sides : ndarray of int64, shape (n,)
        The division of S.
    """

    split: bool
    a: int
    b: int
    times: np.ndarray
    sides: np.ndarray


class Weighing(NamedTuple):
    """Both configurations of a proposal.

    Attributes
    ----------
    log_ratio : float
        Of divided to merged: p(z | beta, alpha, rho) p(beta | gamma) over the density of the share.
    counts : ndarray of int64, shape (R + 1, L)
        Of the configuration proposed.
    log_beta : ndarray of shape (L,)
        Its weights.
    active : bool
        Whether b is active in it.
    """

    log_ratio: float
    counts: np.ndarray
    log_beta: np.ndarray
    active: bool


def vacant_states(path, prior):
    """Find the states that a split can take: the empty ones, of a finite mixture the inactive."""
    if is_mixture(prior):
        return np.flatnonzero(~path.active)
    return np.flatnonzero(np.bincount(path.states, minlength=path.active.size) == 0)


@njit(cache=True, nogil=True)
def _compare(rng, divided, merged, log_beta, active, split, a, b, prior):
    """Draw the weights of the other configuration; (log ratio of divided to merged, they)."""
    tables_a, tables_b = tables_guess(divided, a), tables_guess(divided, b)
    tables_m = tables_guess(merged, a)
    mixture, beta_d, beta_m = is_mixture(prior), log_beta, log_beta
    number = number_of(active) - active[b]
    g = each_weight(prior, number + 1)
    if split:
        new = beta_d = draw_share(rng, log_beta, tables_a, tables_b, a, b, g)
    elif mixture:
        new = beta_m = give_to_first(log_beta, a, b)
    else:
        new = beta_m = draw_share(rng, log_beta, tables_m, 0.0, a, b, g)
    log_ratio = log_pair_transitions(divided, beta_d, a, b, prior)
    log_ratio -= log_pair_transitions(merged, beta_m, a, b, prior)
    if mixture:
        log_ratio += log_activation_ratio(beta_d, active, tables_a, tables_b, a, b, prior)
    else:
        log_ratio += log_weight_ratio(beta_d, tables_a, tables_b, a, b, g, prior)
        log_ratio -= log_weight_ratio(beta_m, tables_m, 0.0, a, b, g, prior)
    return log_ratio, new


@njit(cache=True, nogil=True)
def weigh(rng, path, prior, proposal):
    """Draw the weights of the configuration proposed, and compare the two."""
    split, a, b, times, sides = proposal
    if split:
        divided = divided_counts(
            path.states, path.first, path.groups, path.counts, times, sides, a, b
        )
        merged = path.counts
    else:
        divided, merged = path.counts, merged_counts(path.counts, a, b)
    log_ratio, log_beta = _compare(
        rng, divided, merged, path.log_beta, path.active, split, a, b, prior
    )
    counts = divided if split else merged
    return Weighing(log_ratio, counts, log_beta, split or not is_mixture(prior))


@njit(cache=True, nogil=True)
def weigh_again(rng, path, prior, proposal):
    """Draw the weights of another division of the same times, and compare it with the present."""
    _, a, b, times, sides = proposal
    counts = divided_counts(path.states, path.first, path.groups, path.counts, times, sides, a, b)
    tables_a, tables_b = tables_guess(counts, a), tables_guess(counts, b)
    g = each_weight(prior, number_of(path.active))
    log_beta = draw_share(rng, path.log_beta, tables_a, tables_b, a, b, g)
    log_ratio = log_pair_transitions(counts, log_beta, a, b, prior)
    log_ratio += log_weight_ratio(log_beta, tables_a, tables_b, a, b, g, prior)
    tables_a, tables_b = tables_guess(path.counts, a), tables_guess(path.counts, b)
    log_ratio -= log_pair_transitions(path.counts, path.log_beta, a, b, prior)
    log_ratio -= log_weight_ratio(path.log_beta, tables_a, tables_b, a, b, g, prior)
    return Weighing(log_ratio, counts, log_beta, True)


@njit(cache=True, nogil=True)
def merge_ratios(rng, path, prior, states, chosen):
    """Log ratio of merged to divided, as of ``Weighing``, for pairs of states; (K, K).

    ``chosen`` is symmetric, of shape (K, K); -inf where it is False, or there is no ratio.
    """
    K = states.shape[0]
    out = np.full((K, K), -np.inf)
    for x in range(K):
        for y in range(x + 1, K):
            if not chosen[x, y]:
                continue
            a, b = states[x], states[y]
            merged = merged_counts(path.counts, a, b)
            ratio, _ = _compare(
                rng, path.counts, merged, path.log_beta, path.active, False, a, b, prior
            )
            if not math.isnan(ratio):
                out[x, y] = out[y, x] = -ratio
    return out


@njit(cache=True, nogil=True)
def accept(path, proposal, weighing):
    """Make the proposal the path."""
    split, a, b, times, sides = proposal
    for x in range(times.shape[0]):
        path.states[times[x]] = b if split and sides[x] == 1 else a
    copy_into(path.counts, weighing.counts)
    copy_into(path.log_beta, weighing.log_beta)
    path.active[b] = weighing.active
