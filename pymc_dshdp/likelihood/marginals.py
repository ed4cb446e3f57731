"""Marginal likelihoods of sets of times, parameters integrated out, as proposals need them."""

import numpy as np

__all__ = ["Marginals", "SetMarginals"]


class SetMarginals:
    """Marginals of sets of times, one for each of some states, from ``moments`` and ``evidence``.

    Subclasses say what these are. Here all that differs by state is integrated out; those that
    keep some of it say what is drawn, and how.

    Parameters
    ----------
    n_states : int

    Attributes
    ----------
    kept : ndarray of shape (L, R)
        What is drawn with a division of times, and not integrated out of it: R = 0 numbers, unless
        a subclass says otherwise.
    """

    def __init__(self, n_states):
        self.kept = np.empty((n_states, 0))

    def of_path(self, states):
        """Log marginal likelihoods of the times of each state, shape (L,)."""
        every = np.arange(len(self.kept))
        return self.evidence(self.moments(states, len(every)), every)

    def draw_kept(self, rng, moments, slots):
        """Draw what is kept for each of K states: (values, log weights), (K, R) and (K,).

        A weight is the density of data and values over that of the draw, over the evidence.
        """
        return self.kept[slots], np.zeros(len(slots))

    def log_weights(self, moments, slots, kept):
        """Log weights of given values."""
        return np.zeros(len(slots))

    def draw_empty(self, rng, slot):
        """Draw what is kept for a state without data: (R,)."""
        return self.kept[0]


class Marginals(SetMarginals):
    """What a family says of sets of times, at one point.

    Parameters
    ----------
    family : Family
        With ``log_evidence``.
    data : object
        What its ``prepare`` returned.
    prior : list of ndarray with an axis of states first
        What its ``prepare_prior`` returned.
    others : list of ndarray of shape (L, C, ...)
        The likelihood's other parameters at each state.
    """

    def __init__(self, family, data, prior, others):
        super().__init__(len(prior[0]))
        self.family, self.data = family, data
        self._prior, self._others = prior, others

    def _of(self, slots):
        return [x[slots] for x in self._prior], [x[slots] for x in self._others]

    def moments(self, states, n_states):
        """Sum over the times of each state."""
        return self.family.moments(self.data, states, n_states)

    def among(self, times):
        """Return the same for some of the times alone."""
        data = self.family.select(self.data, times)
        return Marginals(self.family, data, self._prior, self._others)

    def evidence(self, moments, slots):
        """Log marginal likelihoods of moments with the priors of some states, shape (K,)."""
        prior, others = self._of(slots)
        return self.family.log_evidence(moments, prior, *others)

    def table(self, moments, slots):
        """Log-densities of all times in states typical of some moments, shape (T, K)."""
        prior, others = self._of(slots)
        parameters = self.family.plug_in(moments, prior, *others)
        return self.family.log_likelihoods(self.data, *parameters)

    def pooled(self, moments, other, slots):
        """(moments, log evidence) of each of some with another one, in the states of these."""
        pooled = self.family.pooled(moments, other)
        return pooled, self.evidence(pooled, slots)
