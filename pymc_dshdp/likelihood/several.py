"""Several likelihoods of the same states, each with parameters of its own, as one."""

from contextlib import ExitStack, contextmanager

import numpy as np

from pymc_dshdp.likelihood.marginals import SetMarginals

__all__ = ["SeveralEmissions", "SeveralMarginals"]


class SeveralEmissions:
    """Emissions that are independent given the states: their evidence is the product.

    Parameters
    ----------
    parts : list of CollapsedEmission or RegressionEvidence

    Attributes
    ----------
    n_parts : int
        Regressions and families in all.
    """

    def __init__(self, parts):
        self._parts = parts
        self.n_parts = sum(part.n_parts for part in parts)

    @contextmanager
    def named_if_singular(self):
        """Raise ``SamplingError`` with the names where scales are 0 or matrices singular."""
        with ExitStack() as stack:
            for part in self._parts:
                stack.enter_context(part.named_if_singular())
            yield

    def marginals(self, point):
        """Return ``SeveralMarginals`` of sets of times."""
        return SeveralMarginals([part.marginals(point) for part in self._parts])

    def kept_values(self, point, kept):
        """Values, by name, of what was drawn with a division of times."""
        new, first = {}, 0
        for part in self._parts:
            new |= part.kept_values(point, kept[:, first : first + part.n_kept])
            first += part.n_kept
        return new

    def log_constant(self, point):
        """Terms of the log-density that the evidence leaves out."""
        return sum(part.log_constant(point) for part in self._parts)

    def draw(self, point, rng):
        """Draw the parameters integrated out; new values by name."""
        new = {}
        for part in self._parts:
            new |= part.draw(point, rng)
        return new


class SeveralMarginals(SetMarginals):
    """What several likelihoods say of sets of times, all of them together.

    Moments are those of one part after another, and so are the numbers kept.

    Parameters
    ----------
    parts : list of Marginals or RegressionMarginals
    sizes : list of int, optional
        How many arrays the moments of each are; found by default.
    """

    def __init__(self, parts, sizes=None):
        self._parts = parts
        self.kept = np.concatenate([part.kept for part in parts], axis=1)
        self._widths = np.cumsum([part.kept.shape[1] for part in parts])[:-1]
        one = np.zeros(1, np.int64)
        self._sizes = sizes or [len(part.among(one).moments(one, 1)) for part in parts]

    def _each(self, moments):
        """(part, its moments) of every part."""
        first = 0
        for part, size in zip(self._parts, self._sizes, strict=True):
            yield part, moments[first : first + size]
            first += size

    def moments(self, states, n_states):
        """Moments of the times of each state."""
        return [x for part in self._parts for x in part.moments(states, n_states)]

    def among(self, times):
        """Return the same for some of the times alone."""
        return SeveralMarginals([part.among(times) for part in self._parts], self._sizes)

    def evidence(self, moments, slots):
        """Log marginal likelihoods of moments with the priors of some states, shape (K,)."""
        return sum(part.evidence(own, slots) for part, own in self._each(moments))

    def table(self, moments, slots):
        """Log-densities of all times in states typical of some moments, shape (T, K)."""
        return sum(part.table(own, slots) for part, own in self._each(moments))

    def pooled(self, moments, other, slots):
        """(moments, log evidence) of each of some with another one, in the states of these."""
        pooled, total = [], 0.0
        others = [own for _, own in self._each(other)]
        for (part, own), more in zip(self._each(moments), others, strict=True):
            together, evidence = part.pooled(own, more, slots)
            pooled += together
            total = total + evidence
        return pooled, total

    def draw_kept(self, rng, moments, slots):
        """Draw what is kept for each of K states: (values, log weights), (K, R) and (K,)."""
        kept, log_weights = zip(
            *(part.draw_kept(rng, own, slots) for part, own in self._each(moments)), strict=True
        )
        return np.concatenate(kept, axis=1), sum(log_weights)

    def log_weights(self, moments, slots, kept):
        """Log weights of given values."""
        own_kept = np.split(kept, self._widths, axis=1)
        return sum(
            part.log_weights(own, slots, values)
            for (part, own), values in zip(self._each(moments), own_kept, strict=True)
        )

    def draw_empty(self, rng, slot):
        """Draw what is kept for a state without data: (R,)."""
        return np.concatenate([part.draw_empty(rng, slot) for part in self._parts])
