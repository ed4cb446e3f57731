"""Splits and merges of the states of one prior."""

import numpy as np

from pymc_dshdp.kernels.collapsed_transitions import log_path_marginal, redraw_transitions
from pymc_dshdp.kernels.pair_density import Prior, log_weights, sticks_of
from pymc_dshdp.kernels.predictive import path_evidence
from pymc_dshdp.kernels.split_merge import Path, split_merge

__all__ = ["SplitMerge"]


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
        blank, _ = emission.empty(point)
        scratch, whole = _copied(blank), _copied(blank)
        states = np.array(np.ravel(point[self._value.name]), dtype=np.int64)
        evidence = np.zeros(self._paths.n_states)
        path_evidence(whole, states, evidence)
        gamma, alpha = self._transition.concentrations(point)
        sticks, beta = self._transition.weights(point)
        with np.errstate(divide="ignore"):
            log_beta = log_weights(sticks) if sticks.size else np.log(beta)
        prior = Prior(alpha, gamma, self._joint.persistence(point), sticks.size > 0)
        counts = self._paths.counts(point)
        path = Path(states, self._first, self._pinned, counts, log_beta, evidence)
        moves = split_merge(rng, n_proposals, path, prior, whole, scratch, blank)
        if moves.splits + moves.merges > 0:
            point = self._redraw(point, path, prior, emission, rng)
        base = self._transition.row_concentrations(point)
        log_joint = log_path_marginal(path.counts, base, prior.persistence)
        return point, moves, log_joint + evidence.sum() + emission.log_constant(point)

    def _redraw(self, point, path, prior, emission, rng):
        """Put the path and weights into the point, and draw all that was integrated out."""
        sticks = sticks_of(path.log_beta) if prior.sticks else None
        new = self._transition.weight_values(sticks, np.exp(path.log_beta))
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


def _copied(emission):
    """Copy what an emission sums up; the data are shared."""
    return type(emission)(emission.data, *(x.copy() for x in emission[1:]))
