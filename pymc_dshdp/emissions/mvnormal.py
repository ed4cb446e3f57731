"""Multivariate normal observations with a normal mean, or a normal-inverse-Wishart prior."""

import numpy as np
from pytensor.scalar.basic import Second
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.basic import MvNormalRV, NormalRV

from pymc_dshdp.distributions.matrices import InverseWishartRV, ScaledNormalRV, packed_cholesky
from pymc_dshdp.emissions._gaussian import (
    draw_posterior,
    gaussian_table,
    log_regression_evidence,
    lower_factor,
    prepared_prior,
    prior_factor,
    typical_regression,
)
from pymc_dshdp.emissions.base import Family, Parameter, register
from pymc_dshdp.graph.walks import declared_parameters
from pymc_dshdp.kernels.emissions_statistics import (
    pooled_factors,
    state_sums,
    triangular_statistics,
)
from pymc_dshdp.kernels.predictive_gaussian import regression, vector_mean

__all__ = ["MvNormalIndependentMean", "MvNormalInverseWishart", "MvNormalMean"]


class _MvNormal(Family):
    """Data are prepared as (y, columns [y - centre, 1], centre)."""

    likelihood = MvNormalRV

    def in_support(self, y, data_parameters, shapes):
        """Finite vectors."""
        return np.isfinite(y)

    def prepare(self, y, data_parameters, shapes):
        """Centre the columns, so that residuals are not small beside them."""
        T, C, d = y.shape
        centre = y.mean(axis=0)
        ones = np.ones((C, T, 1))
        return y, np.concatenate([(y - centre).transpose(1, 0, 2), ones], axis=2), centre

    def rows(self, data, low, high):
        """Time points low..high - 1; time is the second axis of the columns."""
        y, columns, centre = data
        return y[low:high], columns[:, low:high], centre

    def select(self, data, times):
        """Time is the second axis of the columns."""
        y, columns, centre = data
        return y[times], np.ascontiguousarray(columns[:, times]), centre

    def log_likelihoods(self, data, mean, covariance):
        """Squared whitened residuals and log determinants."""
        _, columns, centre = data
        mean = mean - centre
        table = gaussian_table(columns[0], mean[:, 0, :, None], covariance[:, 0])
        for c in range(1, len(columns)):
            table += gaussian_table(columns[c], mean[:, c, :, None], covariance[:, c])
        return table

    def unlink(self, position, node):
        """Undo the broadcast of the mean with the covariance."""
        op = getattr(node.owner, "op", None)
        if position == 0 and isinstance(op, Elemwise) and isinstance(op.scalar_op, Second):
            return node.owner.inputs[1]
        return node


@register
class MvNormalMean(_MvNormal):
    r"""Normal prior :math:`\mu_k \sim N(m, S)`; the covariance is anything per state."""

    parameters = (Parameter(0, MvNormalRV, "natural"),)

    def suff_stats(self, data, z, n_states, covariance):
        """Precision of the data about the mean, and the data weighted by it."""
        y = data[0]
        T, C, d = y.shape
        visits, sums = state_sums(z, y.reshape(T, C * d), n_states)
        precision = np.linalg.inv(covariance)
        weighted = precision @ sums.reshape(n_states, C, d, 1)
        return visits[:, None, None, None] * precision, weighted[..., 0]

    def sample_posterior(self, rng, stats, hyperparameters):
        """Means."""
        mean, covariance = hyperparameters
        return (_draw_mean(rng, stats, mean, np.linalg.inv(covariance)),)

    def moments(self, data, z, n_states):
        """(visits, means, scatter about them)."""
        y = data[0]
        visits, sums = state_sums(z, y.reshape(len(y), -1), n_states)
        n = np.maximum(visits, 1.0)[:, None, None]
        mean = sums.reshape(n_states, *y.shape[1:]) / n
        residuals = y - mean[z]
        products = residuals[..., None] * residuals[..., None, :]
        _, scatter = state_sums(z, products.reshape(len(y), -1), n_states)
        full = np.broadcast_to(visits[:, None], mean.shape[:2])
        return full, mean, scatter.reshape(*mean.shape, mean.shape[-1])

    def pooled(self, one, two):
        """Scatter about the common mean."""
        (n, x, scatter), (m, y, others) = one, two
        total = np.maximum(n + m, 1.0)
        mean = (n[..., None] * x + m[..., None] * y) / total[..., None]
        gap = (x - y) * np.sqrt(n * m / total)[..., None]
        return n + m, mean, scatter + others + gap[..., None] * gap[..., None, :]

    def plug_in(self, moments, hyperparameters, noise):
        """Mean, and the covariance as it is."""
        mean, covariance = hyperparameters
        return _typical_mean(moments, mean, covariance, noise), noise

    def log_evidence(self, moments, hyperparameters, noise):
        """Multivariate normal."""
        mean, covariance = hyperparameters
        return _log_mean_evidence(moments, mean, covariance, noise)

    def collapse(self, data, others, hyperparameters):
        """Multivariate normal."""
        mean, covariance = hyperparameters
        return _collapsed_mean(data[0], others[0], mean, np.linalg.cholesky(covariance))


@register
class MvNormalIndependentMean(MvNormalMean):
    r"""Independent normal priors on the components of the mean."""

    parameters = (Parameter(0, NormalRV, "natural"),)

    def sample_posterior(self, rng, stats, hyperparameters):
        """Means."""
        mean, scale = hyperparameters
        precision = scale[..., None] ** -2.0 * np.eye(scale.shape[-1])
        return (_draw_mean(rng, stats, mean, precision),)

    def plug_in(self, moments, hyperparameters, noise):
        """Mean, and the covariance as it is."""
        mean, scale = hyperparameters
        covariance = scale[..., None] ** 2.0 * np.eye(scale.shape[-1])
        return _typical_mean(moments, mean, covariance, noise), noise

    def log_evidence(self, moments, hyperparameters, noise):
        """Multivariate normal."""
        mean, scale = hyperparameters
        covariance = scale[..., None] ** 2.0 * np.eye(scale.shape[-1])
        return _log_mean_evidence(moments, mean, covariance, noise)

    def collapse(self, data, others, hyperparameters):
        """Multivariate normal."""
        mean, scale = hyperparameters
        return _collapsed_mean(data[0], others[0], mean, scale[..., None] * np.eye(scale.shape[-1]))


def _draw_mean(rng, stats, mean, prior_precision):
    precision, weighted = stats
    root = np.linalg.cholesky(prior_precision + precision)
    weighted = weighted + (prior_precision @ mean[..., None])[..., 0]
    half = np.linalg.solve(root, weighted[..., None])
    half += rng.standard_normal(half.shape)
    return np.linalg.solve(np.swapaxes(root, -1, -2), half)[..., 0]


def _typical_mean(moments, mean, covariance, noise):
    """Posterior mean: m + n S (n S + noise)^{-1} (centre - m)."""
    visits, centre, _ = moments
    spread = visits[..., None, None] * covariance
    residual = np.where(visits[..., None] > 0.0, centre - mean, 0.0)[..., None]
    return mean + (spread @ np.linalg.solve(spread + noise, residual))[..., 0]


def _log_mean_evidence(moments, mean, covariance, noise):
    """Log evidence of n vectors: their mean has the covariance S + noise / n."""
    visits, centre, scatter = moments
    d = centre.shape[-1]
    n = np.maximum(visits, 1.0)
    root = np.linalg.cholesky(noise)
    within = np.linalg.solve(noise, scatter).trace(axis1=-2, axis2=-1)
    spread = np.linalg.cholesky(covariance + noise / n[..., None, None])
    residual = np.linalg.solve(spread, (centre - mean)[..., None])[..., 0]

    def log_det(factor):
        return np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)

    out = -(n - 1.0) * log_det(root) - 0.5 * d * np.log(n) - log_det(spread)
    out -= 0.5 * (n * d * np.log(2.0 * np.pi) + within + (residual**2).sum(axis=-1))
    return np.where(visits > 0.0, out, 0.0).sum(axis=1)


def _collapsed_mean(y, covariance, mean, prior_root):
    """Build the emission with the mean integrated out.

    With L L' the covariance, L^{-1} prior_root = U D V' and B = U' L^{-1}: B y has unit noise and
    the prior variances of B mu are D^2, all independent.
    """
    root = np.linalg.cholesky(covariance)
    left, spread, _ = np.linalg.svd(np.linalg.solve(root, prior_root))
    whiten = np.swapaxes(left, -1, -2) @ np.linalg.inv(root)
    log_volume = -np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=(1, 2))
    return vector_mean(y, whiten, (whiten @ mean[..., None])[..., 0], spread**2.0, log_volume)


@register
class MvNormalInverseWishart(_MvNormal):
    r""":math:`\Sigma_k \sim \mathrm{IW}(S_0, n_0)`, :math:`\mu_k \sim N(\mu_0, \Sigma_k / k_0)`."""

    parameters = (
        Parameter(0, ScaledNormalRV, "natural"),
        Parameter(1, InverseWishartRV, "cholesky"),
    )
    several_columns = False

    def joint(self, variables):
        """Whether the mean's covariance is the covariance."""
        mean, covariance = variables
        return declared_parameters(mean)[1] is covariance

    def hyperparameters(self, mean, _, count, scale, degrees):
        """(mu0, k0, S0, n0)."""
        return [mean, count, scale, degrees]

    def suff_stats(self, data, z, n_states):
        """(visits, factor of the rows (1, y)), which are rows (y - centre, 1) times a matrix."""
        _, columns, centre = data
        visits, factors = triangular_statistics(z, columns[0], n_states)
        d = centre.shape[1]
        move = np.block([[np.zeros((d, 1)), np.eye(d)], [1.0, centre[0]]])
        return visits[:, None], (factors @ move)[:, None]

    def sample_posterior(self, rng, stats, hyperparameters):
        """Means, and packed Cholesky factors of the covariances."""
        visits, factors = (s[:, 0] for s in stats)
        mean, count, scale, degrees = (h[:, 0] for h in hyperparameters)
        prior = prior_factor(mean[..., None], 1.0 / count[:, None, None], scale)
        draw = draw_posterior(rng, factors, prior, degrees + visits, mean.shape[1])
        return draw[0][:, None, :, 0], packed_cholesky(draw[1])[:, None]

    def moments(self, data, z, n_states):
        """(visits, triangular factor of the rows (1, y))."""
        visits, factors = self.suff_stats(data, z, n_states)
        return visits, pooled_factors(factors[:, 0], np.zeros_like(factors[:1, 0]))[:, None]

    def pooled(self, one, two):
        """Add up visits, and join the factors."""
        return one[0] + two[0], pooled_factors(one[1][:, 0], two[1][:, 0])[:, None]

    def prepare_prior(self, hyperparameters):
        """Triangular factors."""
        mean, count, scale, degrees = (h[:, 0] for h in hyperparameters)
        return prepared_prior(mean[..., None], 1.0 / count[:, None, None], scale, degrees)

    def plug_in(self, moments, hyperparameters):
        """Mean, and a covariance."""
        mean, covariance = typical_regression([x[:, 0] for x in moments], *hyperparameters)
        return mean[:, None, :, 0], covariance[:, None]

    def log_evidence(self, moments, hyperparameters):
        """Multivariate t."""
        return log_regression_evidence([x[:, 0] for x in moments], *hyperparameters)

    def collapse(self, data, others, hyperparameters):
        """Multivariate t."""
        y, _, centre = data
        mean, count, scale, degrees = (h[:, 0] for h in hyperparameters)
        rows = np.concatenate([np.ones((len(y), 1)), (y - centre)[:, 0]], axis=1)
        prior = prior_factor((mean - centre[0])[..., None], 1.0 / count[:, None, None], scale)
        return regression(rows, lower_factor(prior), degrees, 1)
