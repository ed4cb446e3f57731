"""A path with its weights and evidence, and proposals to split, merge and resplit its states."""

from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.split_merge import (
    Proposal,
    accept,
    partner_probabilities,
    vacant_states,
    weigh,
    weigh_again,
)
from pymc_dshdp.steps.divisions import FittedDivision, PriorDivision

__all__ = ["MOVES", "Configuration"]

KINDS = ("split", "merge", "resplit")
MOVES = (
    *((kind, FittedDivision) for kind in KINDS),
    *((kind, PriorDivision) for kind in ("split", "merge") for _ in range(3)),
)
"""Kinds of proposals and of their divisions, all alike probable."""


class Partner(NamedTuple):
    """A state b that is taken together with a, drawn from s(b | a) of the candidates.

    Attributes
    ----------
    state : int
    log_probability : float
    moments : list of ndarray
        Of a and b together, of one row each.
    evidence : float
        Of both together.
    """

    state: int
    log_probability: float
    moments: list
    evidence: float


class Configuration:
    """A path, its weights, and the moments and evidence of its states, that moves change.

    Parameters
    ----------
    marginals : Marginals
    path : Path
    prior : kernels.pair_density.Prior
    """

    def __init__(self, marginals, path, prior):
        self.marginals, self.path, self.prior = marginals, path, prior
        self.n_states = len(path.pinned)
        moments = marginals.moments(path.states, self.n_states)
        self.moments = [np.array(x) for x in moments]  # may be broadcast
        self.evidence = marginals.evidence(self.moments, np.arange(self.n_states))
        self.kept = marginals.kept.copy()

    def propose(self, rng, always=False):
        """Make one proposal; the kind of the move if it was accepted, otherwise "".

        ``always`` accepts any, for a rehearsal.
        """
        kind, how = MOVES[rng.integers(len(MOVES))]
        i = rng.integers(len(self.path.states))
        if self.path.pinned[self.path.states[i]]:
            return ""
        move = {"split": self._split, "merge": self._merge, "resplit": self._resplit}[kind]
        level = np.inf if always else rng.standard_exponential()
        return kind if move(rng, i, how(self, rng), level) else ""

    def _split(self, rng, i, division, level):
        path, a = self.path, self.path.states[i]
        times = np.flatnonzero(path.states == a)
        empty = self.empty_states()
        if len(times) < 2 or empty.size == 0:
            return False
        slots = np.array([a, empty[rng.integers(empty.size)]])
        sides, log_q = division.draw(times, i, slots)
        if not sides.any():
            return False
        moments, apart = self.apart(self.marginals.among(times), sides, slots)
        proposal = Proposal(True, *slots, times, sides)
        weighing = weigh(rng, path, self.prior, proposal)
        log_partner = self._log_partner(self._partners(a), moments, apart, a)
        kept, log_weights = self.marginals.draw_kept(rng, moments, slots)
        log_ratio = weighing.log_ratio + log_partner + np.log(empty.size) - log_q
        log_ratio += apart.sum() - self.evidence[a]
        log_ratio += log_weights.sum() - self._log_weights(slots[:1]).sum()
        if not -level < log_ratio:
            return False
        self.accept(proposal, weighing, moments, apart, kept)
        return True

    def _merge(self, rng, i, division, level):
        path, a = self.path, self.path.states[i]
        partner = self.draw_partner(rng, a)
        if partner is None:
            return False
        slots, times, sides = self.pair(a, partner.state)
        log_q = division.log_probability(times, i, slots, sides)
        proposal = Proposal(False, *slots, times, sides)
        weighing = weigh(rng, path, self.prior, proposal)
        n_empty = self.empty_states().size + 1
        log_ratio = weighing.log_ratio + partner.log_probability + np.log(n_empty) - log_q
        log_ratio += self.evidence[slots].sum() - partner.evidence
        kept, log_weights = self.merged(rng, partner.moments, slots)
        log_ratio += self._log_weights(slots).sum() - log_weights.sum()
        if not -level < -log_ratio:
            return False
        self.accept(proposal, weighing, partner.moments, (partner.evidence, 0.0), kept)
        return True

    def _resplit(self, rng, i, division, level):
        path, a = self.path, self.path.states[i]
        partner = self.draw_partner(rng, a)
        if partner is None:
            return False
        slots, times, before = self.pair(a, partner.state)
        sides, log_q = division.redraw(times, i, slots, before)
        moments, apart = self.apart(self.marginals.among(times), sides, slots)
        proposal = Proposal(True, *slots, times, sides)
        weighing = weigh_again(rng, path, self.prior, proposal)
        others = self._partners(a)
        others = others[others != partner.state]
        log_ratio = weighing.log_ratio + apart.sum() - self.evidence[slots].sum() - log_q
        log_ratio += self._log_partner(others, moments, apart, a) - partner.log_probability
        kept, log_weights = self.marginals.draw_kept(rng, moments, slots)
        log_ratio += log_weights.sum() - self._log_weights(slots).sum()
        if not -level < log_ratio:
            return False
        self.accept(proposal, weighing, moments, apart, kept)
        return True

    def visits(self):
        """Count the times of each state."""
        return np.bincount(self.path.states, minlength=self.n_states)

    def empty_states(self):
        """Find the states that a split can take."""
        return vacant_states(self.path, self.prior)

    def pair(self, a, b):
        """(slots, times, sides) of the division of two states."""
        times = np.flatnonzero((self.path.states == a) | (self.path.states == b))
        return np.array([a, b]), times, (self.path.states[times] == b).astype(np.int64)

    def draw_partner(self, rng, a):
        """Draw a ``Partner`` of a; None if there is no candidate."""
        candidates = self._partners(a)
        if candidates.size == 0:
            return None
        pooled, whole = self.together(a, candidates)
        partners = partner_probabilities(whole - self.evidence[candidates])
        c = min(np.searchsorted(np.cumsum(partners), rng.random()), len(partners) - 1)
        moments = [x[c : c + 1] for x in pooled]
        return Partner(candidates[c], np.log(partners[c]), moments, whole[c])

    def _partners(self, a):
        """Find the states that a can be merged with."""
        candidates = np.flatnonzero((self.visits() > 0) & ~self.path.pinned)
        return candidates[candidates != a]

    def together(self, a, states):
        """(moments, evidence) of each of some states together with a, in a."""
        one, others = ([x[k] for x in self.moments] for k in ([a], states))
        return self.marginals.pooled(others, one, np.full(len(states), a))

    def apart(self, among, sides, slots):
        """(moments, evidence) of the two sides."""
        moments = among.moments(sides, 2)
        return moments, among.evidence(moments, slots)

    def _log_partner(self, others, moments, apart, a):
        """Log s(b | a; divided), beside the other states that a could be merged with."""
        candidates = [
            np.concatenate([x[others], y[1:]]) for x, y in zip(self.moments, moments, strict=True)
        ]
        slots = np.full(len(others) + 1, a)
        _, whole = self.marginals.pooled(candidates, [x[:1] for x in moments], slots)
        gains = whole - np.append(self.evidence[others], apart[1])
        return np.log(partner_probabilities(gains)[-1])

    def merged(self, rng, moments, slots):
        """Draw what is kept for a, with all times, and b, with none; log weight of the former."""
        kept, log_weight = self.marginals.draw_kept(rng, moments, slots[:1])
        return np.stack([kept[0], self.marginals.draw_empty(rng, slots[1])]), log_weight

    def _log_weights(self, slots):
        """Log weights of what is kept now; see ``Marginals.draw_kept``."""
        moments = [x[slots] for x in self.moments]
        return self.marginals.log_weights(moments, slots, self.kept[slots])

    def accept(self, proposal, weighing, moments, evidence, kept):
        """Make the proposal the configuration."""
        accept(self.path, proposal, weighing)
        self.kept[[proposal.a, proposal.b]] = kept
        for old, new in zip(self.moments, moments, strict=True):
            old[proposal.a] = new[0]
            old[proposal.b] = new[1] if proposal.split else 0.0
        self.evidence[[proposal.a, proposal.b]] = evidence
