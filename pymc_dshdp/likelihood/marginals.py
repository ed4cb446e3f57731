"""Marginal likelihoods of sets of times, parameters integrated out, as proposals need them."""

__all__ = ["Marginals"]


class Marginals:
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
