"""Splits and merges of the states of one prior."""

from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.collapsed_transitions import log_path_marginal, redraw_transitions
from pymc_dshdp.kernels.counts import path_counts
from pymc_dshdp.kernels.pair_density import Prior, log_weights, sticks_of
from pymc_dshdp.kernels.split_merge import Path
from pymc_dshdp.steps.configuration import Configuration
from pymc_dshdp.steps.improving import improve, merge_all, split_if_better

__all__ = ["Moves", "SplitMerge", "proposals_in_time"]

REHEARSED = 50  # times
TIME_SHARE = 0.4  # of a step, for proposals: about 30% of an iteration
ITERATION, PROPOSAL = 150_000, 65_000  # what both cost beside their times, in table entries
PER_TIME = 2  # table entries that a proposal costs for each time


def proposals_in_time(n_times, n_states):
    """Find how many proposals take that share of the time of a ``WeakLimitFFBS`` step, by size."""
    return TIME_SHARE * (ITERATION + n_times * n_states) / (PROPOSAL + PER_TIME * n_times)


class Moves(NamedTuple):
    """What a call has done.

    Attributes
    ----------
    splits, merges, resplits : int
        Accepted.
    """

    splits: int
    merges: int
    resplits: int


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
        moves = Moves(*(done.count(kind) for kind in ("split", "merge", "resplit")))
        if any(moves):
            point = self._redraw(point, now, emission, rng)
        base = self._transition.row_concentrations(point)
        log_joint = log_path_marginal(now.path.counts, base, now.prior.persistence)
        return point, moves, log_joint + now.evidence.sum() + emission.log_constant(point)

    def improve(self, point, rng, splits=True):
        """Merge, split and resplit, while tuning, wherever that raises the evidence."""
        [emission] = self._joint.emissions
        with emission.named_if_singular():
            now = self._configuration(point, emission)
            improve(now, rng, splits)
            return self._redraw(point, now, emission, rng)

    def rehearse(self, point):
        """Have the kernels compiled, on the beginning of the data."""
        [emission], rng = self._joint.emissions, np.random.default_rng(0)
        with emission.named_if_singular():
            now, T = self._configuration(point, emission), min(REHEARSED, self._first.size)
            states, first, index = np.zeros(T, np.int64), self._first[:T], now.path.groups[:T]
            lengths, counts = np.diff(np.append(np.flatnonzero(first), T)), now.path.counts * 0
            path_counts(states, lengths, index, counts)
            pinned, log_beta = np.zeros_like(self._pinned), now.path.log_beta
            path = Path(states, first, index, pinned, counts, log_beta, now.path.active.copy())
            short = Configuration(now.marginals.among(np.arange(T)), path, now.prior)
            for _ in range(12):
                short.propose(rng, always=True)
            split_if_better(short, rng)
            merge_all(short, rng)
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
        index = self._paths.groups[0]
        path = Path(states, self._first, index, self._pinned, counts, log_beta, active)
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
            logit = drawn.kappa_logit.reshape(point[kappa.name].shape)
            point[kappa.name] = logit.astype(kappa.dtype, copy=False)
        point = {**point, **emission.kept_values(point, now.kept)}
        return {**point, **emission.draw(point, rng)}
