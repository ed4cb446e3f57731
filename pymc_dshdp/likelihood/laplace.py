r"""Evidence of sets of times by Laplace's approximation, for the tuning phase alone.

For the times of a state, with :math:`\hat\theta` the mode of
:math:`f(\theta) = \sum_t w_t \log p(y_t \mid \theta) + \log p(\theta)` and H the curvature,

.. math:: \log \int e^{f} \approx f(\hat\theta) + \tfrac d2 \log 2 \pi - \tfrac12 \log |H|,

where the mode is sought by a few scoring steps, H is the sum of the squares of the scores about
their mean (which is 0 at the mode), and the prior is taken for a normal one. No ratio of an exact
move looks at it.
"""

import numpy as np

from pymc_dshdp.likelihood.marginals import NothingKept

__all__ = ["LaplaceMarginals"]

STEPS = 8
LOWEST = -1e200
SHRUNK = (1.0, 0.3, 0.1, 0.03)  # a step that goes too far is shortened
DIFFERENCE = 1e-5  # in spreads of the prior


class LaplaceMarginals(NothingKept):
    """As ``Marginals``, with the vector of each state kept.

    Moments of a state are the weights of all times, 1 where they are its own.

    Parameters
    ----------
    vectors : StateParameters
    table : LogLikelihoodTable
    point : dict
    """

    def __init__(self, vectors, table, point):
        self.kept = vectors.read(point)
        self._vectors, self._table, self._point = vectors, table, point
        self._T = int(np.prod(table.shape))
        self._times = np.arange(self._T)

    def moments(self, states, n_states):
        """Weights of the times of each state, shape (n_states, T)."""
        weights = np.zeros((n_states, self._T))
        weights[states, self._times] = 1.0
        return [weights]

    def among(self, times):
        """Return the same for some of the times alone."""
        other = object.__new__(type(self))
        other.__dict__ = {**self.__dict__, "_times": self._times[times]}
        return other

    def pooled(self, one, two, slots):
        """(moments, evidence) of states together; see ``Marginals``."""
        together = [a + b for a, b in zip(one, two, strict=True)]
        return together, self.evidence(together, slots)

    def evidence(self, moments, slots):
        """Log evidence of the times of each state; 0 where it has none."""
        return self._fit(moments[0], slots)[1]

    def table(self, moments, slots):
        """Log-likelihoods of the times at the mode of each state, shape (n, K)."""
        return self._columns(self._fit(moments[0], slots)[0], self._times).T

    def draw_kept(self, rng, moments, slots):
        """Modes of the states, and no weights."""
        return self._fit(moments[0], slots)[0], np.zeros(len(slots))

    def draw_empty(self, rng):
        """Draw the vector of a state without data from its prior."""
        drawn = self._vectors.draw(self._point, rng, 0)
        return np.where(np.isfinite(drawn), drawn, self._vectors.middle)

    def _fit(self, weights, slots):
        """(modes, log evidence) of K rows of weights, from the vectors of their slots."""
        v = self._vectors
        theta, precision = self.kept[slots].copy(), v.spread**-2.0
        used, times = weights.any(axis=1), np.flatnonzero(weights.any(axis=0))
        weights = weights[:, times]
        value = self._value(theta, weights, times)
        H = np.empty((len(theta), v.size, v.size))
        for _ in range(STEPS):
            base, scores = self._columns(theta, times), np.empty((*weights.shape, v.size))
            for k in range(v.size):
                moved = theta.copy()
                moved[:, k] += DIFFERENCE * v.spread[k]
                with np.errstate(invalid="ignore"):
                    scores[:, :, k] = (self._columns(moved, times) - base) / (
                        DIFFERENCE * v.spread[k]
                    )
            scores[~np.isfinite(scores)] = 0.0
            slope = (weights[:, :, None] * scores).sum(axis=1)
            scores -= (slope / np.maximum(weights.sum(axis=1), 1.0)[:, None])[:, None]
            weighted = weights[:, :, None] * scores
            H[:] = np.einsum("kti,ktj->kij", weighted, scores) + np.diag(precision)
            slope += precision * (v.middle - theta)
            step = np.linalg.solve(H, slope[:, :, None])[:, :, 0]
            better = np.zeros(len(theta), bool)
            for share in SHRUNK:
                there = np.where(better[:, None], theta, theta + share * step)
                found = self._value(there, weights, times)
                take = ~better & (found > value)
                theta[take], value[take] = there[take], found[take]
                better |= take
            if not better.any():
                break
        _, log_det = np.linalg.slogdet(H)
        evidence = value + 0.5 * v.size * np.log(2.0 * np.pi) - 0.5 * log_det
        return theta, np.where(used, evidence, 0.0)

    def _value(self, theta, weights, times):
        """Evaluate f at vectors of shape (K, d), a very low number where it is not finite."""
        columns, v = self._columns(theta, times), self._vectors
        with np.errstate(invalid="ignore"):
            terms = np.where(weights > 0.0, weights * columns, 0.0).sum(axis=1)
        log_prior = -0.5 * (((theta - v.middle) / v.spread) ** 2).sum(axis=1)
        log_prior -= np.log(v.spread * np.sqrt(2.0 * np.pi)).sum()
        out = terms + log_prior
        return np.where(np.isfinite(out), out, LOWEST)

    def _columns(self, theta, times):
        """Log-likelihoods of some times at vectors of shape (K, d): (K, n)."""
        L, out = len(self.kept), np.empty((len(theta), len(times)))
        for low in range(0, len(theta), L):
            some = theta[low : low + L]
            slots = np.vstack([some, self.kept[len(some) :]])
            point = self._vectors.write(self._point, slots)
            rows = self._table.rows(point, np.arange(len(some)))(0, self._T)
            out[low : low + len(some)] = rows[times].T
        return out
