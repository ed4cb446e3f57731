"""Marginal likelihoods of sets of times of a regression, as proposals need them."""

import numpy as np

from pymc_dshdp.kernels.emissions_statistics import pooled_factors, triangular_statistics
from pymc_dshdp.kernels.scale_integral import ScaleIntegral, prior_mode, profile
from pymc_dshdp.likelihood.marginals import NothingKept

__all__ = ["RegressionMarginals", "ScaledMarginals"]

LOG_2PI = np.log(2.0 * np.pi)


class RegressionMarginals(NothingKept):
    r"""What regressions with normal coefficients say of sets of times, at one point.

    With F and F_0 the triangular factors of the rows (x, y) of the data, over their scale, and of
    the prior, those of both together are F_1, and

    .. math:: \log p(y) = -\frac{n}{2} \log 2 \pi - \sum_t \log \sigma_t
       + \log \frac{|F_{0,xx}|}{|F_{1,xx}|} - \frac{1}{2} F_{1,yy}^2.

    Parameters
    ----------
    rows : ndarray of shape (T, C, P + 1)
        Covariates, and what is left of the data once the offset is out; over the scale.
    log_precisions : ndarray of shape (T,)
        -log sigma, summed over C.
    prior : ndarray of shape (L, P, P + 1)
        Upper triangular root R of the coefficients' precision, and R times their mean.
    """

    def __init__(self, rows, log_precisions, prior):
        super().__init__(len(prior))
        self._rows, self._log_precisions, self._prior = rows, log_precisions, prior

    def moments(self, states, n_states):
        """(numbers observed, factors, log precisions) of each state."""
        _, C, m = self._rows.shape
        rows = self._rows.reshape(-1, m)
        visits, factors = triangular_statistics(np.repeat(states, C), rows, n_states)
        return visits, factors, np.bincount(states, self._log_precisions, n_states)

    def among(self, times):
        """Return the same for some of the times alone."""
        return type(self)(self._rows[times], self._log_precisions[times], self._prior)

    def evidence(self, moments, slots):
        """Log marginal likelihoods of moments with the priors of some states, shape (K,)."""
        visits, factors, log_precisions = moments
        prior, P = self._prior[slots], self._prior.shape[1]
        together = self._together(factors, prior)
        before, after = (
            np.log(np.abs(np.diagonal(x, axis1=1, axis2=2)[:, :P])).sum(axis=1)
            for x in (prior, together)
        )
        out = before - after - 0.5 * (visits * LOG_2PI + together[:, P, P] ** 2)
        return np.where(visits == 0, 0.0, out + log_precisions)

    def table(self, moments, slots):
        """Log-densities of all times in states typical of some moments, shape (T, K)."""
        _, factors, _ = moments
        return self._log_precisions[:, None] + self._squares(factors, self._prior[slots])

    def pooled(self, moments, other, slots):
        """(moments, log evidence) of each of some with another one, in the states of these."""
        (n, factors, w), (m, more, v) = moments, other
        pooled = n + m, pooled_factors(factors, more), w + v
        return pooled, self.evidence(pooled, slots)

    @staticmethod
    def _together(factors, prior):
        padded = np.zeros_like(factors)
        padded[:, :-1] = prior
        return pooled_factors(padded, factors)

    def _squares(self, factors, prior):
        """-(residual squared) / 2 of all times, at the coefficients' posterior means."""
        P = prior.shape[1]
        together = self._together(factors, prior)
        b = np.linalg.solve(together[:, :P, :P], together[:, :P, P:])[..., 0]
        contrast = np.concatenate([-b, np.ones((len(b), 1))], axis=1)
        residuals = self._rows @ contrast.T
        return -0.5 * (residuals**2).sum(axis=1)


class ScaledMarginals(RegressionMarginals):
    """The same where each state has a scale of its own, which has a prior of any kind.

    The scale is integrated out of the evidence by quadrature; its logarithm is the kept, and
    drawn with a division.

    Parameters
    ----------
    rows, prior
        As above, the rows as they are.
    log_prior : callable
        Log-densities of log scales, elementwise; the same for all states.
    draw_prior : callable
        ``draw_prior(rng) -> ndarray of shape (1,)``, the log scale of a state without data.
    log_scales : ndarray of shape (L,)
        At the point.
    around : float, optional
        A log scale that is typical of the prior; found by default.
    """

    def __init__(self, rows, prior, log_prior, draw_prior, log_scales, around=None):
        super().__init__(rows, np.zeros(len(rows)), prior)
        self._log_prior, self._draw_prior = log_prior, draw_prior
        self._around = prior_mode(log_prior) if around is None else around
        self.kept = log_scales[:, None]

    def among(self, times):
        """Return the same for some of the times alone."""
        kept = self.kept[:, 0]
        rows, draw = self._rows[times], self._draw_prior
        return ScaledMarginals(rows, self._prior, self._log_prior, draw, kept, self._around)

    def draw_empty(self, rng, slot):
        """Draw the log scale of a state without data from its prior: (1,)."""
        return self._draw_prior(rng)

    def _profile(self, moments, slots):
        visits, factors, _ = moments
        return profile(visits, factors, self._prior[slots])

    def _integral(self, moments, slots):
        return ScaleIntegral(self._profile(moments, slots), self._log_prior, self._around)

    def evidence(self, moments, slots):
        """Log marginal likelihoods of moments with the priors of some states, shape (K,)."""
        return self._integral(moments, slots).log_evidence

    def table(self, moments, slots):
        """Log-densities of all times in states typical of some moments, shape (T, K)."""
        _, factors, _ = moments
        log_scale = self._profile(moments, slots).typical(self._around)
        prior = self._prior[slots] * np.exp(log_scale)[:, None, None]
        squares = self._squares(factors, prior) * np.exp(-2.0 * log_scale)
        return squares - self._rows.shape[1] * log_scale

    def draw_kept(self, rng, moments, slots):
        """(log scales, log weights) of a draw for each state; see ``kernels.scale_integral``."""
        drawn, log_weights = self._integral(moments, slots).draw(rng)
        return drawn[:, None], log_weights

    def log_weights(self, moments, slots, kept):
        """Log of density over that of ``draw_kept``, over the evidence."""
        return self._integral(moments, slots).log_weight(kept[:, 0])
