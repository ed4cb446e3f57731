"""Splits and merges of the states of one prior."""

from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.collapsed_transitions import log_path_marginal, redraw_transitions
from pymc_dshdp.kernels.counts import empty_counts, path_counts
from pymc_dshdp.kernels.division import (
    DRAW,
    GIVEN,
    MODE,
    Launch,
    add_context,
    contexts,
    divide,
    fit_chain,
    linked_times,
    surroundings,
)
from pymc_dshdp.kernels.pair_density import Prior, log_weights, sticks_of
from pymc_dshdp.kernels.split_merge import (
    Path,
    Proposal,
    accept,
    choose_anchor,
    log_choices,
    merge_ratios,
    partner_probabilities,
    weigh,
)

__all__ = ["Configuration", "Moves", "SplitMerge", "proposals_in_time"]

PASSES = 3  # of the launch
ROUNDS = 2  # of improvements, with a split tried for every state in each
REHEARSED = 50  # times
BEGINNINGS = ((0, 1, 0.5), (2, 1, 0.9), (10, 1, 0.9), (3, 2, 0.5))
"""Reach and stride of what a launch begins with around its anchors, and how it stays at first."""

TIME_SHARE = 0.3  # of an iteration, for proposals
ITERATION, PROPOSAL = 150_000, 120_000  # what both cost beside their times, in table entries
PER_TIME = 4  # table entries that a proposal costs for each time


def proposals_in_time(n_times, n_states):
    """Find how many proposals take 0.3 of the time of a ``WeakLimitFFBS`` iteration, by size."""
    return TIME_SHARE * (ITERATION + n_times * n_states) / (PROPOSAL + PER_TIME * n_times)


class Moves(NamedTuple):
    """What a call has done.

    Attributes
    ----------
    splits, merges : int
        Accepted.
    """

    splits: int
    merges: int


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
        self.evidence = marginals.evidence(self.moments, slice(None))

    def launch(self, marginals, times, i, j, slots, beginning):
        """Fit a two-state chain to S by hard EM; it looks at S, i, j, y and the path outside S."""
        reach, stride, stay = BEGINNINGS[beginning]
        n = len(times)
        linked = linked_times(times, self.path.first)
        launch = Launch(np.zeros(n), linked, np.full(2, stay), np.full(2, 0.5))
        around = contexts(self.path.states, self.path.first, times, self.n_states)
        sides = surroundings(times, i, j, reach, stride)
        at = np.searchsorted(times, [i, j])
        sides[at] = 0, 1
        for count in range(PASSES):
            seen = np.flatnonzero(sides >= 0)
            moments = marginals.among(seen).moments(sides[seen], 2)
            table = marginals.table(moments, slots)
            with np.errstate(invalid="ignore"):
                gain = table[:, 1] - table[:, 0]
            launch.gain[:] = np.where(np.isnan(gain), 0.0, gain)
            add_context(launch.gain, around, sides, self.n_states)
            launch.gain[at] = -np.inf, np.inf
            if count + 1 == PASSES:
                break
            path = np.empty(n, np.int64)
            divide(launch, MODE, launch.gain, path)
            if np.array_equal(path, sides):
                break
            sides = path
            fit_chain(launch, sides)
        return launch

    def propose(self, rng, always=False):
        """Make one proposal: 1 for an accepted split, -1 for an accepted merge, else 0.

        ``always`` accepts any, for a rehearsal.
        """
        path, i = self.path, rng.integers(len(self.path.states))
        a, split = path.states[i], rng.random() < 0.5
        beginning = rng.integers(len(BEGINNINGS))
        visits = np.bincount(path.states, minlength=self.n_states)
        empty = np.flatnonzero((visits == 0) & path.active)
        candidates = self._partners(a)
        if path.pinned[a] or (split and (visits[a] < 2 or empty.size == 0)):
            return 0
        if not split and candidates.size == 0:
            return 0
        if split:
            b = empty[rng.integers(empty.size)]
            times = np.flatnonzero(path.states == a)
            j = choose_anchor(rng, times[times != i], i)
            sides = np.zeros(len(times), np.int64)
        else:
            pooled, whole = self._with(a, candidates)
            partners = partner_probabilities(whole - self.evidence[candidates])
            c = min(np.searchsorted(np.cumsum(partners), rng.random()), len(partners) - 1)
            b = candidates[c]
            times = np.flatnonzero((path.states == a) | (path.states == b))
            j = choose_anchor(rng, np.flatnonzero(path.states == b), i)
            sides = (path.states[times] == b).astype(np.int64)
        proposal = Proposal(split, i, j, a, b, times, sides, empty.size + (not split))
        slots, among = np.array([a, b]), self.marginals.among(times)
        launch = self.launch(among, times, i, j, slots, beginning)
        log_q = divide(launch, DRAW if split else GIVEN, rng.random(len(times)), sides)
        if split:
            moments, apart = self._apart(among, sides, slots)
            whole = self.evidence[a]
            gains = self._gains_of_split(candidates, moments, apart, a)
            log_partner = np.log(partner_probabilities(gains)[-1])
        else:
            moments, apart = [x[c : c + 1] for x in pooled], self.evidence[slots]
            whole, log_partner = whole[c], np.log(partners[c])
        weighing = weigh(rng, path, self.prior, proposal)
        log_ratio = weighing.log_ratio + log_choices(proposal) + log_partner - log_q
        log_ratio += apart.sum() - whole
        if not (always or -rng.standard_exponential() < (log_ratio if split else -log_ratio)):
            return 0
        self._accept(proposal, weighing, moments, apart if split else (whole, 0.0))
        return 1 if split else -1

    def improve(self, rng, splits=True):
        """Merge, and split, as long as that raises the joint density, for the tuning phase."""
        self.merge_all(rng)
        for _ in range(ROUNDS if splits else 0):
            tries = np.count_nonzero(np.bincount(self.path.states))
            if not sum(self.split_if_better(rng) for _ in range(tries)):
                break
            self.merge_all(rng)

    def merge_all(self, rng):
        """Merge the pair that gains most, again and again."""
        visits = np.bincount(self.path.states, minlength=self.n_states)
        states = np.flatnonzero((visits > 0) & ~self.path.pinned)
        gains = np.full((len(states), len(states)), -np.inf)

        def compare(x):
            _, whole = self._with(states[x], states)
            gains[x] = gains[:, x] = whole - self.evidence[states] - self.evidence[states[x]]

        for x in range(len(states)):
            compare(x)
        while len(states) > 1:
            total = gains + merge_ratios(rng, self.path, self.prior, states)
            np.fill_diagonal(total, -np.inf)
            x, y = np.unravel_index(np.argmax(total), total.shape)
            if not total[x, y] > 0.0:
                break
            a, b = states[[x, y]]
            pooled, whole = self._with(a, states[y : y + 1])
            times = np.flatnonzero((self.path.states == a) | (self.path.states == b))
            sides = (self.path.states[times] == b).astype(np.int64)
            proposal = Proposal(False, times[0], times[0], a, b, times, sides, 1)
            weighing = weigh(rng, self.path, self.prior, proposal)
            self._accept(proposal, weighing, pooled, (whole[0], 0.0))
            compare(x)
            states = np.delete(states, y)
            gains = np.delete(np.delete(gains, y, 0), y, 1)

    def split_if_better(self, rng):
        """Try the more probable division from random anchors; whether it was taken."""
        path, i = self.path, rng.integers(len(self.path.states))
        a = path.states[i]
        times = np.flatnonzero(path.states == a)
        empty = np.flatnonzero(np.bincount(path.states, minlength=self.n_states) == 0)
        if path.pinned[a] or len(times) < 2 or empty.size == 0:
            return False
        slots, among = np.array([a, empty[0]]), self.marginals.among(times)
        j = choose_anchor(rng, times[times != i], i)
        launch = self.launch(among, times, i, j, slots, rng.integers(len(BEGINNINGS)))
        sides = np.empty(len(times), np.int64)
        divide(launch, MODE, launch.gain, sides)
        moments, apart = self._apart(among, sides, slots)
        proposal = Proposal(True, i, j, *slots, times, sides, 1)
        weighing = weigh(rng, path, self.prior, proposal)
        if not weighing.log_ratio + apart.sum() - self.evidence[a] > 0.0:
            return False
        self._accept(proposal, weighing, moments, apart)
        return True

    def _partners(self, a):
        """Find the states that a can be merged with."""
        visits = np.bincount(self.path.states, minlength=self.n_states)
        candidates = np.flatnonzero((visits > 0) & ~self.path.pinned)
        return candidates[candidates != a]

    def _with(self, a, states):
        """(moments, evidence) of each of some states together with a, in a."""
        one, others = ([x[k] for x in self.moments] for k in ([a], states))
        return self.marginals.pooled(others, one, np.full(len(states), a))

    def _apart(self, among, sides, slots):
        """(moments, evidence) of the two sides."""
        moments = among.moments(sides, 2)
        return moments, among.evidence(moments, slots)

    def _gains_of_split(self, candidates, moments, apart, a):
        """Log m(a and b together) - log m(b) of the candidates and of the new state, the last."""
        others = [
            np.concatenate([x[candidates], y[1:]])
            for x, y in zip(self.moments, moments, strict=True)
        ]
        slots = np.full(len(candidates) + 1, a)
        _, whole = self.marginals.pooled(others, [x[:1] for x in moments], slots)
        return whole - np.append(self.evidence[candidates], apart[1])

    def _accept(self, proposal, weighing, moments, evidence):
        accept(self.path, proposal, weighing)
        for kept, new in zip(self.moments, moments, strict=True):
            kept[proposal.a] = new[0]
            kept[proposal.b] = new[1] if proposal.split else 0.0
        self.evidence[[proposal.a, proposal.b]] = evidence


class SplitMerge:
    """Split-merge moves of one prior, and the redraw of what they integrate out.

    The moves leave p(z, beta | alpha, gamma, rho, y) invariant (see ``kernels.split_merge``). The
    rows, kappa and the emission parameters are not looked at; where a move was accepted they are
    drawn from their conditional given the new (z, beta), together with which they then have the
    posterior's law, before anything else can use them. Where none was, they stay.

    Parameters
    ----------
    model : pymc.Model
    prior : TransitionModel
    paths : PathReader
    transition : TransitionUpdate
    joint : JointDensity

    Attributes
    ----------
    available : bool
        False where ``joint`` is not, the rows have no weights in common (``FixedTransitions``),
        or the prior has several states variables.
    """

    def __init__(self, model, prior, paths, transition, joint):
        self.available = joint.available and prior.gamma is not None and len(prior.states) == 1
        if not self.available:
            return
        self._paths, self._transition, self._joint = paths, transition, joint
        [self._value], [self._lengths], [known] = paths.values, paths.lengths, paths.known
        self._first = np.zeros(self._lengths.sum(), bool)
        self._first[np.cumsum(self._lengths) - self._lengths] = True
        self._pinned = np.zeros(paths.n_states, bool)
        if known is not None:
            self._pinned[known[known >= 0]] = True

    def __call__(self, point, rng, n_proposals):
        """Make proposals.

        Returns
        -------
        point : dict
        moves : Moves
        log_joint : float
            ``JointDensity`` at the point returned.
        """
        [emission] = self._joint.emissions
        with emission.named_if_singular():
            now = self._configuration(point, emission)
            done = [now.propose(rng) for _ in range(n_proposals)]
        moves = Moves(done.count(1), done.count(-1))
        if moves.splits + moves.merges > 0:
            point = self._redraw(point, now, emission, rng)
        base = self._transition.row_concentrations(point)
        log_joint = log_path_marginal(now.path.counts, base, now.prior.persistence)
        return point, moves, log_joint + now.evidence.sum() + emission.log_constant(point)

    def improve(self, point, rng, splits=True):
        """Merge, and split, while tuning, wherever that raises the joint density."""
        [emission] = self._joint.emissions
        with emission.named_if_singular():
            now = self._configuration(point, emission)
            now.improve(rng, splits)
            return self._redraw(point, now, emission, rng)

    def rehearse(self, point):
        """Have the kernels compiled, on the beginning of the data."""
        [emission], rng = self._joint.emissions, np.random.default_rng(0)
        with emission.named_if_singular():
            now, T = self._configuration(point, emission), min(REHEARSED, self._first.size)
            counts = empty_counts(self._paths.n_states)
            states, first = np.zeros(T, np.int64), self._first[:T]
            path_counts(states, np.diff(np.append(np.flatnonzero(first), T)), counts)
            pinned, log_beta = np.zeros_like(self._pinned), now.path.log_beta
            path = Path(states, first, pinned, counts, log_beta, now.path.active.copy())
            short = Configuration(now.marginals.among(np.arange(T)), path, now.prior)
            for _ in range(8):
                short.propose(rng, always=True)
            short.split_if_better(rng)
            short.merge_all(rng)
            self._redraw(point, now, emission, rng)

    def _configuration(self, point, emission):
        states = np.array(np.ravel(point[self._value.name]), dtype=np.int64)
        gamma, alpha = self._transition.concentrations(point)
        sticks, beta = self._transition.weights(point)
        with np.errstate(divide="ignore"):
            log_beta = log_weights(sticks) if sticks.size else np.log(beta)
        each, active = self._transition.each_concentration(point), self._transition.active(point)
        prior = Prior(alpha, gamma, self._joint.persistence(point), sticks.size > 0, each)
        counts = self._paths.counts(point)
        path = Path(states, self._first, self._pinned, counts, log_beta, active)
        return Configuration(emission.marginals(point), path, prior)

    def _redraw(self, point, now, emission, rng):
        """Put the path and weights into the point, and draw all that was integrated out."""
        path, prior = now.path, now.prior
        sticks = sticks_of(path.log_beta) if prior.sticks else None
        new = self._transition.weight_values(sticks, np.exp(path.log_beta), path.active)
        new[self._value.name] = path.states.astype(self._value.dtype).reshape(
            point[self._value.name].shape
        )
        point = {**point, **new}
        base = self._transition.row_concentrations(point)
        drawn = redraw_transitions(rng, path.counts, base, prior.persistence)
        point = {**point, **self._transition.row_values(drawn.rows)}
        kappa = self._joint.persistence.value
        if kappa is not None:
            point[kappa.name] = drawn.kappa_logit.astype(kappa.dtype, copy=False)
        return {**point, **emission.draw(point, rng)}
