"""The path and weights of one prior as moves change them, and what is drawn after a change."""

import numpy as np

from pymc_dshdp.kernels.collapsed_transitions import redraw_transitions
from pymc_dshdp.kernels.pair_density import Prior, log_weights, sticks_of
from pymc_dshdp.kernels.split_merge import Path

__all__ = ["PathMoves"]


class PathMoves:
    """Reads (path, weights) from a point, and writes it with rows and kappa drawn anew.

    Parameters
    ----------
    paths : PathReader
        Of one states variable.
    transition : TransitionUpdate
    persistence : CollapsedPersistence

    Attributes
    ----------
    first : ndarray of bool, shape (T,)
        Beginnings of sequences.
    pinned : ndarray of bool, shape (L,)
        States of known times.
    """

    def __init__(self, paths, transition, persistence):
        self._paths, self._transition, self._persistence = paths, transition, persistence
        [self._value], [lengths], [known] = paths.values, paths.lengths, paths.known
        self.first = np.zeros(lengths.sum(), bool)
        self.first[np.cumsum(lengths) - lengths] = True
        self.pinned = np.zeros(paths.n_states, bool)
        if known is not None:
            self.pinned[known[known >= 0]] = True

    def read(self, point):
        """(path, prior) for ``kernels.split_merge``."""
        states = np.array(np.ravel(point[self._value.name]), dtype=np.int64)
        gamma, alpha = self._transition.concentrations(point)
        sticks, beta = self._transition.weights(point)
        with np.errstate(divide="ignore"):
            log_beta = log_weights(sticks) if sticks.size else np.log(beta)
        each, active = self._transition.each_concentration(point), self._transition.active(point)
        number = self._transition.number_prior
        prior = Prior(alpha, gamma, self._persistence(point), sticks.size > 0, each, number)
        counts, index = self._paths.counts(point), self._paths.groups[0]
        return Path(states, self.first, index, self.pinned, counts, log_beta, active), prior

    def write(self, point, path, prior, rng):
        """Put the path and weights into the point; draw rows and kappa given them."""
        sticks = sticks_of(path.log_beta) if prior.sticks else None
        new = self._transition.weight_values(sticks, np.exp(path.log_beta), path.active)
        new[self._value.name] = path.states.astype(self._value.dtype).reshape(
            point[self._value.name].shape
        )
        point = {**point, **new}
        base = self._transition.row_concentrations(point)
        drawn = redraw_transitions(rng, path.counts, base, prior.persistence)
        point = {**point, **self._transition.row_values(drawn.rows)}
        kappa = self._persistence.value
        if kappa is not None:
            logit = drawn.kappa_logit.reshape(point[kappa.name].shape)
            point[kappa.name] = logit.astype(kappa.dtype, copy=False)
        return point
