"""Marginal likelihoods of sets of times of regressions, as proposals need them."""

import numpy as np

from pymc_dshdp.kernels.emissions_statistics import pooled_factors, triangular_statistics
from pymc_dshdp.kernels.scale_integral import ScaleIntegral, prior_mode, profile
from pymc_dshdp.likelihood.marginals import SetMarginals

__all__ = ["RegressionMarginals", "ScaledMarginals"]

LOG_2PI = np.log(2.0 * np.pi)


class RegressionMarginals(SetMarginals):
    r"""What regressions with normal coefficients say of sets of times, at one point.

    There are B of them side by side, each of C numbers at a time and with P coefficients of its
    own in each state. With F and F_0 the triangular factors of the rows (x, y) of the data of one,
    over their scale, and of the prior, those of both together are F_1, and

    .. math:: \log p(y) = -\frac{n}{2} \log 2 \pi - \sum_t \log \sigma_t
       + \log \frac{|F_{0,xx}|}{|F_{1,xx}|} - \frac{1}{2} F_{1,yy}^2.

    Parameters
    ----------
    rows : ndarray of shape (B, T, C, P + 1)
        Covariates, and what is left of the data once the offset is out; over the scale.
    log_precisions : ndarray of shape (T,)
        -log sigma, summed over B and C.
    prior : ndarray of shape (L, B, P, P + 1)
        Upper triangular root R of the coefficients' precision, and R times their mean.
    """

    def __init__(self, rows, log_precisions, prior):
        super().__init__(len(prior))
        self._rows, self._log_precisions, self._prior = rows, log_precisions, prior

    def moments(self, states, n_states):
        """(numbers observed, factors, log precisions) of each state."""
        B, _, C, m = self._rows.shape
        units = states[:, None] * B + np.arange(B)[:, None, None]  # (B, T, 1)
        rows = self._rows.reshape(-1, m)
        visits, factors = triangular_statistics(np.repeat(units, C), rows, n_states * B)
        log_precisions = np.bincount(states, self._log_precisions, n_states)
        return visits.reshape(n_states, B), factors.reshape(n_states, B, m, m), log_precisions

    def among(self, times):
        """Return the same for some of the times alone."""
        return type(self)(self._rows[:, times], self._log_precisions[times], self._prior)

    def evidence(self, moments, slots):
        """Log marginal likelihoods of moments with the priors of some states, shape (K,)."""
        visits, factors, log_precisions = moments
        prior, P = self._prior[slots], self._prior.shape[2]
        together = _together(factors, prior)
        before, after = (
            np.log(np.abs(np.diagonal(x, axis1=2, axis2=3)[..., :P])).sum(axis=2)
            for x in (prior, together)
        )
        out = before - after - 0.5 * (visits * LOG_2PI + together[..., P, P] ** 2)
        return np.where(visits == 0, 0.0, out).sum(axis=1) + log_precisions

    def table(self, moments, slots):
        """Log-densities of all times in states typical of some moments, shape (T, K)."""
        _, factors, _ = moments
        squares = self._squares(factors, self._prior[slots]).sum(axis=0)
        return self._log_precisions[:, None] - 0.5 * squares

    def pooled(self, moments, other, slots):
        """(moments, log evidence) of each of some with another one, in the states of these."""
        (n, factors, w), (m, more, v) = moments, other
        pooled = n + m, _pooled(factors, np.broadcast_to(more, factors.shape)), w + v
        return pooled, self.evidence(pooled, slots)

    def _squares(self, factors, prior):
        """Residuals squared at the coefficients' posterior means, shape (B, T, K)."""
        B, T, C, m = self._rows.shape
        together = _together(factors, prior)
        b = np.linalg.solve(together[..., :-1, :-1], together[..., :-1, -1:])[..., 0]
        contrast = np.concatenate([-b, np.ones((*b.shape[:2], 1))], axis=2)
        residuals = self._rows.reshape(B, T * C, m) @ contrast.transpose(1, 2, 0)
        return (residuals**2).reshape(B, T, C, len(b)).sum(axis=2)


def _pooled(one, two):
    """``pooled_factors`` of matrices of shape (K, B, m, m)."""
    m = one.shape[-1]
    pooled = pooled_factors(one.reshape(-1, m, m), np.ascontiguousarray(two).reshape(-1, m, m))
    return pooled.reshape(one.shape)


def _together(factors, prior):
    padded = np.zeros_like(factors)
    padded[..., :-1, :] = prior
    return _pooled(padded, factors)


class ScaledMarginals(RegressionMarginals):
    """The same where each state has scales of its own, which have a prior of any kind.

    Each of the B regressions has one. The scales are integrated out of the evidence by quadrature;
    their logarithms are the kept, and drawn with a division.

    Parameters
    ----------
    rows, prior
        As above, the rows as they are.
    log_prior : callable
        Log-densities of log scales of shape (..., B), elementwise; the same for all states.
    draw_prior : callable
        ``draw_prior(rng) -> ndarray of shape (B,)``, log scales of a state without data.
    log_scales : ndarray of shape (L, B)
        At the point.
    around : ndarray of shape (B,), optional
        Log scales that are typical of the prior; found by default.
    """

    def __init__(self, rows, prior, log_prior, draw_prior, log_scales, around=None):
        super().__init__(rows, np.zeros(rows.shape[1]), prior)
        self._log_prior, self._draw_prior = log_prior, draw_prior
        self._around = prior_mode(log_prior, len(rows)) if around is None else around
        self.kept = log_scales

    def among(self, times):
        """Return the same for some of the times alone."""
        rows, draw = self._rows[:, times], self._draw_prior
        return ScaledMarginals(rows, self._prior, self._log_prior, draw, self.kept, self._around)

    def draw_empty(self, rng, slot):
        """Draw the log scales of a state without data from their prior: (B,)."""
        return self._draw_prior(rng)

    def _profile(self, moments, slots):
        visits, factors, _ = moments
        of_units = (x.reshape(-1, *x.shape[2:]) for x in (visits, factors, self._prior[slots]))
        return profile(*of_units)

    def _of_units(self, u):
        """Log prior of (K B, G) log scales."""
        u = u.reshape(-1, len(self._around), u.shape[1]).swapaxes(1, 2)
        return self._log_prior(u).swapaxes(1, 2).reshape(-1, u.shape[1])

    def _integral(self, moments, slots):
        around = np.tile(self._around, len(slots))
        return ScaleIntegral(self._profile(moments, slots), self._of_units, around)

    def _by_state(self, units):
        """Arrange (K B,) numbers by state and regression."""
        return units.reshape(-1, len(self._around))

    def evidence(self, moments, slots):
        """Log marginal likelihoods of moments with the priors of some states, shape (K,)."""
        return self._by_state(self._integral(moments, slots).log_evidence).sum(axis=1)

    def table(self, moments, slots):
        """Log-densities of all times in states typical of some moments, shape (T, K)."""
        _, factors, _ = moments
        around = np.tile(self._around, len(slots))
        log_scales = self._by_state(self._profile(moments, slots).typical(around))
        prior = self._prior[slots] * np.exp(log_scales)[..., None, None]
        squares = self._squares(factors, prior)
        out = (-0.5 * np.exp(-2.0 * log_scales).T[:, None] * squares).sum(axis=0)
        return out - self._rows.shape[2] * log_scales.sum(axis=1)

    def draw_kept(self, rng, moments, slots):
        """(log scales, log weights) of a draw for each state; see ``kernels.scale_integral``."""
        drawn, log_weights = map(self._by_state, self._integral(moments, slots).draw(rng))
        return drawn, log_weights.sum(axis=1)

    def log_weights(self, moments, slots, kept):
        """Log of density over that of ``draw_kept``, over the evidence."""
        log_weights = self._integral(moments, slots).log_weight(kept.ravel())
        return self._by_state(log_weights).sum(axis=1)
