"""Merges, splits and resplits that raise the evidence of a configuration, for the tuning phase.

Any rule is allowed there. A division of times S in two is weighed by the sum over all divisions,

    log sum_d pi(d) ~ log pi(d) - log q(d)

for a draw d of q, which is about the posterior of d. The density of the one division at hand would
always prefer what is merged where two states are hard to tell apart: it leaves out that many
divisions are nearly as probable.
"""

import numpy as np

from pymc_dshdp.kernels.split_merge import (
    Proposal,
    choose_anchor,
    merge_ratios,
    weigh,
    weigh_again,
)
from pymc_dshdp.steps.divisions import FittedDivision, log_probability_fitted_to_itself

__all__ = ["improve", "merge_all", "resplit_if_better", "split_if_better"]

LIKELY = 4  # partners of each state whose transitions are compared
ROUNDS = 2  # with a split and a resplit tried for every state in each


def improve(now, rng, splits=True):
    """Merge, and split, as long as that raises the evidence of a ``Configuration``."""
    merge_all(now, rng)
    for _ in range(ROUNDS if splits else 0):
        tries = np.count_nonzero(now.visits())
        better = sum(split_if_better(now, rng) for _ in range(tries))
        better += sum(resplit_if_better(now, rng) for _ in range(tries))
        if not better:
            break
        merge_all(now, rng)


def merge_all(now, rng):
    """Merge the pair that gains most, again and again."""
    states = np.flatnonzero((now.visits() > 0) & ~now.path.pinned)
    gains = np.full((len(states), len(states)), -np.inf)

    def compare(x):
        _, whole = now.together(states[x], states)
        gains[x] = gains[:, x] = whole - now.evidence[states] - now.evidence[states[x]]
        gains[x, x] = -np.inf

    for x in range(len(states)):
        compare(x)
    while len(states) > 1:
        total = gains + merge_ratios(rng, now.path, now.prior, states, _likely(gains))
        x, y = np.unravel_index(np.argmax(total), total.shape)
        if not total[x, y] > 0.0:
            break
        slots, times, sides = now.pair(states[x], states[y])
        if not total[x, y] + log_probability_fitted_to_itself(now, times, sides, slots) > 0.0:
            gains[x, y] = gains[y, x] = -np.inf
            continue
        pooled, whole = now.together(states[x], states[y : y + 1])
        proposal = Proposal(False, *slots, times, sides)
        weighing = weigh(rng, now.path, now.prior, proposal)
        kept, _ = now.merged(rng, pooled, slots)
        now.accept(proposal, weighing, pooled, (whole[0], 0.0), kept)
        compare(x)
        states = np.delete(states, y)
        gains = np.delete(np.delete(gains, y, 0), y, 1)


def _likely(gains):
    """Mark the pairs of which one is among the few whose data go best with those of the other."""
    few = min(LIKELY, len(gains) - 1)
    least = np.partition(gains, -few, axis=1)[:, -few]
    return ((gains >= least[:, None]) | (gains >= least)) & np.isfinite(gains)


def split_if_better(now, rng):
    """Try a division of a state from random anchors; whether it was taken."""
    i = rng.integers(len(now.path.states))
    a = now.path.states[i]
    times = np.flatnonzero(now.path.states == a)
    empty = np.flatnonzero(now.visits() == 0)
    if now.path.pinned[a] or len(times) < 2 or empty.size == 0:
        return False
    slots = np.array([a, empty[0]])
    j = choose_anchor(rng, times[times != i], i)
    sides, log_q, moments, apart = _divide(now, rng, times, (i, j), slots)
    proposal = Proposal(True, *slots, times, sides)
    weighing = weigh(rng, now.path, now.prior, proposal)
    if not weighing.log_ratio + apart.sum() - now.evidence[a] - log_q > 0.0:
        return False
    kept, _ = now.marginals.draw_kept(rng, moments, slots)
    now.accept(proposal, weighing, moments, apart, kept)
    return True


def resplit_if_better(now, rng):
    """Try another division of two states from random anchors; whether it was taken."""
    i = rng.integers(len(now.path.states))
    a = now.path.states[i]
    partner = None if now.path.pinned[a] else now.draw_partner(rng, a)
    if partner is None:
        return False
    slots, times, before = now.pair(a, partner.state)
    j = choose_anchor(rng, times[before == 1], i)
    sides, log_q, moments, apart = _divide(now, rng, times, (i, j), slots)
    proposal = Proposal(True, *slots, times, sides)
    weighing = weigh_again(rng, now.path, now.prior, proposal)
    gain = weighing.log_ratio + apart.sum() - now.evidence[slots].sum()
    if not gain - log_q + log_probability_fitted_to_itself(now, times, before, slots) > 0.0:
        return False
    kept, _ = now.marginals.draw_kept(rng, moments, slots)
    now.accept(proposal, weighing, moments, apart, kept)
    return True


def _divide(now, rng, times, anchors, slots):
    """(sides, log q, moments, evidence) of a draw."""
    sides, log_q = FittedDivision(now, rng).draw_between(times, anchors, slots)
    return sides, log_q, *now.apart(now.marginals.among(times), sides, slots)
