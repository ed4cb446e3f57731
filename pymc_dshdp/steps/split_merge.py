"""Splits and merges of the states of one prior."""

from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.collapsed_transitions import log_path_marginal
from pymc_dshdp.kernels.counts import path_counts
from pymc_dshdp.kernels.split_merge import Path
from pymc_dshdp.steps.configuration import Configuration
from pymc_dshdp.steps.divisions import BEGINNINGS, FittedDivision
from pymc_dshdp.steps.improving import improve, merge_all, split_if_better
from pymc_dshdp.steps.path_moves import PathMoves

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
    effort : float
        Proposals for each of ``proposals_in_time``.
    sums_out_missing : bool
        Whether missing observations are summed out, and to be drawn again after an acceptance;
        otherwise moves are made given them.
    """

    sums_out_missing = False

    def __init__(self, model, prior, paths, transition, joint):
        self.available = joint.available and prior.gamma is not None and len(prior.states) == 1
        if not self.available:
            return
        self._transition, self._joint = transition, joint
        self.effort = 1.0 / joint.parts
        self._moves = PathMoves(paths, transition, joint.persistence)

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
            now, T = self._configuration(point, emission), min(REHEARSED, self._moves.first.size)
            states, first, index = np.zeros(T, np.int64), now.path.first[:T], now.path.groups[:T]
            lengths, counts = np.diff(np.append(np.flatnonzero(first), T)), now.path.counts * 0
            path_counts(states, lengths, index, counts)
            pinned, log_beta = np.zeros_like(now.path.pinned), now.path.log_beta
            path = Path(states, first, index, pinned, counts, log_beta, now.path.active.copy())
            short = Configuration(now.marginals.among(np.arange(T)), path, now.prior)
            for beginning in BEGINNINGS if T > 1 else ():  # chance might leave some to the chain
                FittedDivision(short, rng, beginning).draw(np.arange(T), 0, np.arange(2))
            for _ in range(12):
                short.propose(rng, always=True)
            split_if_better(short, rng)
            merge_all(short, rng)
            self._redraw(point, now, emission, rng)

    def _configuration(self, point, emission):
        return Configuration(emission.marginals(point), *self._moves.read(point))

    def _redraw(self, point, now, emission, rng):
        """Put the path and weights into the point, and draw all that was integrated out."""
        point = self._moves.write(point, now.path, now.prior, rng)
        point = {**point, **emission.kept_values(point, now.kept)}
        return {**point, **emission.draw(point, rng)}
