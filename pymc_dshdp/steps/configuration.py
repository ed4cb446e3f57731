"""A path with its weights and evidence, and proposals to split, merge and resplit its states."""

from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.division import (
    DRAW,
    GIVEN,
    MODE,
    Launch,
    add_context,
    contexts,
    divide,
    fit_chain,
    halves,
    linked_times,
    surroundings,
)
from pymc_dshdp.kernels.split_merge import (
    Proposal,
    accept,
    choose_anchor,
    log_anchor_probability,
    log_choices,
    partner_probabilities,
    weigh,
    weigh_again,
)

__all__ = ["BEGINNINGS", "Configuration"]

PASSES = 3  # of the launch
HALVES = -1
BEGINNINGS = (
    *(
        (reach, stride, stay, how)
        for reach, stride, stay in ((0, 1, 0.5), (2, 1, 0.9), (10, 1, 0.9), (3, 2, 0.5))
        for how in (MODE, DRAW)
    ),
    (HALVES, 1, 0.9, DRAW),
    (HALVES, 1, 0.9, DRAW),
)
"""Reach and stride of what a launch begins with around its anchors, how it stays at first, and how
it goes on: by the more probable sides, or by drawing them.

Or it begins with the halves of each stay, for two states alike that are passed one after the other,
so that stays are not geometric. Nobody knows then when the one ends; the more probable sides would
put all ends at the same place.
"""

KINDS = ("split", "merge", "resplit")


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
        kind, i = KINDS[rng.integers(len(KINDS))], rng.integers(len(self.path.states))
        if self.path.pinned[self.path.states[i]]:
            return ""
        move = {"split": self._split, "merge": self._merge, "resplit": self._resplit}[kind]
        level = np.inf if always else rng.standard_exponential()
        return kind if move(rng, i, BEGINNINGS[rng.integers(len(BEGINNINGS))], level) else ""

    def _split(self, rng, i, beginning, level):
        path, a = self.path, self.path.states[i]
        times = np.flatnonzero(path.states == a)
        empty = self.empty_states()
        if len(times) < 2 or empty.size == 0:
            return False
        slots = np.array([a, empty[rng.integers(empty.size)]])
        j = choose_anchor(rng, times[times != i], i)
        among, sides = self.marginals.among(times), np.empty(len(times), np.int64)
        launch = self.launch(rng, among, times, (i, j), slots, beginning)
        log_q = divide(launch, DRAW, rng.random(len(times)), sides)
        moments, apart = self.apart(among, sides, slots)
        proposal = Proposal(True, i, j, *slots, times, sides, empty.size)
        weighing = weigh(rng, path, self.prior, proposal)
        log_partner = self._log_partner(self._partners(a), moments, apart, a)
        kept, log_weights = self.marginals.draw_kept(rng, moments, slots)
        log_ratio = weighing.log_ratio + log_choices(proposal) + log_partner - log_q
        log_ratio += apart.sum() - self.evidence[a]
        log_ratio += log_weights.sum() - self._log_weights(slots[:1]).sum()
        if not -level < log_ratio:
            return False
        self.accept(proposal, weighing, moments, apart, kept)
        return True

    def _merge(self, rng, i, beginning, level):
        path, a = self.path, self.path.states[i]
        partner = self.draw_partner(rng, a)
        if partner is None:
            return False
        slots, times, sides = self.pair(a, partner.state)
        j = choose_anchor(rng, times[sides == 1], i)
        among = self.marginals.among(times)
        launch = self.launch(rng, among, times, (i, j), slots, beginning)
        log_q = divide(launch, GIVEN, launch.gain, sides)
        n_empty = self.empty_states().size + 1
        proposal = Proposal(False, i, j, *slots, times, sides, n_empty)
        weighing = weigh(rng, path, self.prior, proposal)
        log_ratio = weighing.log_ratio + log_choices(proposal) + partner.log_probability - log_q
        log_ratio += self.evidence[slots].sum() - partner.evidence
        kept, log_weights = self.merged(rng, partner.moments, slots)
        log_ratio += self._log_weights(slots).sum() - log_weights.sum()
        if not -level < -log_ratio:
            return False
        self.accept(proposal, weighing, partner.moments, (partner.evidence, 0.0), kept)
        return True

    def _resplit(self, rng, i, beginning, level):
        path, a = self.path, self.path.states[i]
        partner = self.draw_partner(rng, a)
        if partner is None:
            return False
        slots, times, before = self.pair(a, partner.state)
        j = choose_anchor(rng, times[before == 1], i)
        among, sides = self.marginals.among(times), np.empty(len(times), np.int64)
        launch = self.launch(rng, among, times, (i, j), slots, beginning)
        log_q = divide(launch, DRAW, rng.random(len(times)), sides)
        log_q -= divide(launch, GIVEN, launch.gain, before)
        moments, apart = self.apart(among, sides, slots)
        proposal = Proposal(True, i, j, *slots, times, sides, 0)
        weighing = weigh_again(rng, path, self.prior, proposal)
        others = self._partners(a)
        others = others[others != partner.state]
        log_ratio = weighing.log_ratio + apart.sum() - self.evidence[slots].sum() - log_q
        log_ratio += self._log_partner(others, moments, apart, a) - partner.log_probability
        log_ratio += log_anchor_probability(times[sides == 1], i, j)
        log_ratio -= log_anchor_probability(times[before == 1], i, j)
        kept, log_weights = self.marginals.draw_kept(rng, moments, slots)
        log_ratio += log_weights.sum() - self._log_weights(slots).sum()
        if not -level < log_ratio:
            return False
        self.accept(proposal, weighing, moments, apart, kept)
        return True

    def launch(self, rng, among, times, anchors, slots, beginning):
        """Fit a two-state chain to S by hard or stochastic EM.

        It looks at S, i, j, y and the path outside S.
        """
        reach, stride, stay, how = beginning
        n = len(times)
        linked = linked_times(times, self.path.first)
        launch = Launch(np.zeros(n), linked, np.full(2, stay), np.full(2, 0.5))
        around = contexts(self.path.states, self.path.first, times, self.n_states)
        if reach == HALVES:
            sides = halves(linked)
        else:
            sides = surroundings(times, *anchors, reach, stride)
        at = np.searchsorted(times, anchors)
        sides[at] = 0, 1
        for count in range(PASSES):
            self._set_gain(launch, among, sides, slots, around)
            launch.gain[at] = -np.inf, np.inf
            if count + 1 == PASSES:
                break
            path = np.empty(n, np.int64)
            divide(launch, how, rng.random(n), path)
            if np.array_equal(path, sides):
                break
            sides = path
            fit_chain(launch, sides)
        return launch

    def log_division(self, times, sides, slots):
        """Log-probability of a division by the two-state chain that is fitted to itself.

        -log q varies about the entropy of the division as log pi varies the other way, so that
        log pi - log q is known better than either.
        """
        half = np.full(2, 0.5)
        launch = Launch(np.zeros(len(times)), linked_times(times, self.path.first), half, half + 0)
        around = contexts(self.path.states, self.path.first, times, self.n_states)
        self._set_gain(launch, self.marginals.among(times), sides, slots, around)
        fit_chain(launch, sides)
        return divide(launch, GIVEN, launch.gain, sides)

    def _set_gain(self, launch, among, sides, slots, around):
        """Set what the data and the states around S say for side 1, given sides of some of S."""
        seen = np.flatnonzero(sides >= 0)
        moments = among.among(seen).moments(sides[seen], 2)
        table = among.table(moments, slots)
        with np.errstate(invalid="ignore"):
            gain = table[:, 1] - table[:, 0]
        launch.gain[:] = np.where(np.isnan(gain), 0.0, gain)
        add_context(launch.gain, around, sides, self.n_states)

    def visits(self):
        """Count the times of each state."""
        return np.bincount(self.path.states, minlength=self.n_states)

    def empty_states(self):
        """Find the states that a split can take."""
        return np.flatnonzero((self.visits() == 0) & self.path.active)

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
        return np.stack([kept[0], self.marginals.draw_empty(rng)]), log_weight

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
