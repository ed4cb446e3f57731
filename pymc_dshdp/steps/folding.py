r"""Merges of states by what the chain says of their division, for the tuning phase.

States that follow one another in a fixed order, two or three in the place of one, may divide its
times frame by frame: their path is nearly certain given their transitions, though the data do not
tell them apart. A division is weighed by its evidence, here with the filter: as for any z,

.. math:: \log p(y) = \log p(y, z) - \log p(z \mid y),

the configuration with z has the joint density with rows and parameters integrated out less
log p(z | y, theta, P) at the modes of theta and at the frequencies P of the transitions of z.
"""

import numpy as np

from pymc_dshdp.kernels.chain import without_persistence
from pymc_dshdp.kernels.counts import empty_counts, path_counts
from pymc_dshdp.kernels.filtering import NO_SHIFTS, forward_filter
from pymc_dshdp.kernels.split_merge import Proposal, weigh

__all__ = ["fold"]

TRIES = 6  # pairs that are looked at, those whose data gain or lose least by an exchange
SPREAD = 1.0  # transitions added to those from each state, divided among all


def fold(now, rng):
    """Merge pairs of a ``Configuration`` as long as that raises its evidence.

    Parameters
    ----------
    now : Configuration
        With ``LaplaceMarginals``; its path and weights are changed.
    rng : numpy.random.Generator
    """
    used = np.flatnonzero(now.visits() > 0)
    columns = np.full((len(now.path.states), now.n_states), -np.inf)
    columns[:, used] = now.marginals.table([x[used] for x in now.moments], used)
    level = _log_posterior(now.path, now.path.states, columns)
    pairs = _nearest(now, columns)
    while pairs:
        a, b = pairs.pop(0)
        slots, times, sides = now.pair(a, b)
        pooled, whole = now.together(a, slots[1:])
        proposal = Proposal(False, *slots, times, sides)
        weighing = weigh(rng, now.path, now.prior, proposal)
        merged = columns.copy()
        merged[:, a] = now.marginals.table(pooled, slots[:1])[:, 0]
        there = _log_posterior(now.path, np.where(now.path.states == b, a, now.path.states), merged)
        gain = whole[0] - now.evidence[slots].sum() - weighing.log_ratio + level - there
        if gain > 0.0:
            kept, _ = now.merged(rng, pooled, slots)
            now.accept(proposal, weighing, pooled, (whole[0], 0.0), kept)
            columns, level = merged, there
            pairs = _nearest(now, columns)


def _nearest(now, columns):
    """Pairs of states, those first whose times lose least by the parameters of the other."""
    states = now.path.states
    used = np.flatnonzero((now.visits() > 0) & ~now.path.pinned)
    with np.errstate(invalid="ignore"):
        lost = columns[np.arange(len(states)), states][:, None] - columns[:, used]
    lost[~np.isfinite(lost)] = 0.0
    loss = np.array([lost[states == k].sum(axis=0) for k in used])
    loss = loss + loss.T
    order = [(loss[x, y], used[x], used[y]) for x in range(len(used)) for y in range(x)]
    return [(a, b) for _, a, b in sorted(order)[:TRIES]]


def _log_posterior(path, states, columns):
    """Log p(z | y, theta, P) of some states, with P as often as they make each transition."""
    used, z = np.unique(states, return_inverse=True)
    K, index, starts = len(used), path.groups, np.flatnonzero(path.first)
    lengths = np.diff(np.append(starts, len(z)))
    counts = empty_counts(K, 1 if index.size == 0 else int(index.max()) + 1)
    path_counts(z, lengths, index, counts)
    rows = counts + SPREAD / K
    rows /= rows.sum(axis=1, keepdims=True)
    table = np.ascontiguousarray(columns[:, used])
    own = table[np.arange(len(z)), z].sum() + (counts * np.log(rows)).sum()
    transitions = without_persistence(rows[1:].reshape(-1, K, K), index)
    filtered = np.empty(table.shape)
    found = forward_filter(table, rows[0], transitions, None, lengths, filtered, NO_SHIFTS)
    return own - found.log_marginal_likelihood.sum()
