r"""Evidence of sets of times by Laplace's approximation, for the tuning phase alone.

For the times of a state, with :math:`\hat\theta` the mode of
:math:`f(\theta) = \sum_t w_t \log p(y_t \mid \theta) + \log p(\theta)` and H the curvature,

.. math:: \log \int e^{f} \approx f(\hat\theta) + \tfrac d2 \log 2 \pi - \tfrac12 \log |H|,

where the mode is sought by a few scoring steps, and H is the sum of the squares of the scores about
their mean (which is about 0 at the mode) and the precision of a normal prior in the place of the
prior. No ratio of an exact move looks at it.
"""

import numpy as np

from pymc_dshdp.likelihood.marginals import SetMarginals

__all__ = ["LaplaceMarginals"]

STEPS = 8
ENOUGH = 0.01  # nats that no state gains any more
LOWEST = -1e200
SHRUNK = (1.0, 0.3, 0.1, 0.03)  # a step that goes too far is shortened
DIFFERENCE = 1e-5  # in spreads of the prior


class LaplaceMarginals(SetMarginals):
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
        return self._columns(self._fit(moments[0], slots)[0], self._times)[0].T

    def draw_kept(self, rng, moments, slots):
        """Modes of the states, and no weights."""
        return self._fit(moments[0], slots)[0], np.zeros(len(slots))

    def draw_empty(self, rng, slot):
        """Draw the vector of a state without data from its prior."""
        drawn = self._vectors.draw(self._point, rng, slot)
        return np.where(np.isfinite(drawn), drawn, self._vectors.middle)

    def _fit(self, weights, slots):
        """(modes, log evidence) of K rows of weights, from the vectors of their slots."""
        used = weights.any(axis=1)
        theta, evidence = np.tile(self._vectors.middle, (len(slots), 1)), np.zeros(len(slots))
        if used.any():
            theta[used], evidence[used] = self._ascend(self.kept[slots[used]], weights[used])
        return theta, evidence

    def _ascend(self, theta, weights):
        """(modes, log evidence) by scoring steps from some vectors, shape (K, d)."""
        v, times = self._vectors, np.flatnonzero(weights.any(axis=0))
        weights, n = weights[:, times], weights.sum(axis=1)
        value, columns, log_prior = self._value(theta, weights, times)
        for _ in range(STEPS):
            scores, slope = self._slopes(theta, times, columns, log_prior)
            of_data = (weights[:, :, None] * scores).sum(axis=1)
            scores -= (of_data / n[:, None])[:, None]
            H = np.einsum("kt,kti,ktj->kij", weights, scores, scores, optimize=True)
            H += np.diag(v.spread**-2.0)
            step = np.linalg.solve(H, (slope + of_data)[:, :, None])[:, :, 0]
            gain = np.zeros(len(theta))
            for share in SHRUNK:
                left = np.flatnonzero(gain == 0.0)
                there = theta[left] + share * step[left]
                found, of_data_there, prior_there = self._value(there, weights[left], times)
                better = found > value[left]
                took = left[better]
                gain[took] = (found - value[left])[better]
                theta[took], value[took] = there[better], found[better]
                columns[took], log_prior[took] = of_data_there[better], prior_there[better]
                if len(took) == len(left):
                    break
            if gain.max() < ENOUGH:
                break
        _, log_det = np.linalg.slogdet(H)
        return theta, value + 0.5 * v.size * np.log(2.0 * np.pi) - 0.5 * log_det

    def _slopes(self, theta, times, columns, log_prior):
        """Differentiate the log-likelihoods of some times, (K, n, d), and log priors, (K, d).

        0 where they are not finite.
        """
        d, steps = self._vectors.size, DIFFERENCE * self._vectors.spread
        scores, slope = np.empty((*columns.shape, d)), np.empty((len(theta), d))
        for k, h in enumerate(steps):
            moved = theta.copy()
            moved[:, k] += h
            there, prior_there = self._columns(moved, times)
            with np.errstate(invalid="ignore"):
                scores[:, :, k], slope[:, k] = (there - columns) / h, (prior_there - log_prior) / h
        for x in (scores, slope):
            x[~np.isfinite(x)] = 0.0
        return scores, slope

    def _value(self, theta, weights, times):
        """(f, log-likelihoods, log prior) at vectors of shape (K, d); f is finite, if very low."""
        columns, log_prior = self._columns(theta, times)
        with np.errstate(invalid="ignore"):
            out = np.where(weights > 0.0, weights * columns, 0.0).sum(axis=1) + log_prior
        return np.where(np.isfinite(out), out, LOWEST), columns, log_prior

    def _columns(self, theta, times):
        """Log-likelihoods of some times at (K, d) vectors, (K, n), and log priors, (K,)."""
        L, out = len(self.kept), np.empty((len(theta), len(times)))
        log_prior = np.empty(len(theta))
        for low in range(0, len(theta), L):
            some = theta[low : low + L]
            slots = np.vstack([some, self.kept[len(some) :]])
            point = self._vectors.write(self._point, slots)
            rows = self._table.rows(point, np.arange(len(some)))(0, self._T)
            out[low : low + len(some)] = rows[times].T
            log_prior[low : low + len(some)] = self._vectors.log_prior(point)[: len(some)]
        return out, log_prior
