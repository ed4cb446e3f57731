"""Normal observations with a normal mean, and with an inverse-gamma variance."""

import numpy as np
from pytensor.scalar.basic import Sqrt
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.basic import InvGammaRV, NormalRV

from pymc_dshdp.emissions._products import log_gamma
from pymc_dshdp.emissions.base import Family, Parameter, register
from pymc_dshdp.kernels.emissions_statistics import squared_residuals, state_sums
from pymc_dshdp.kernels.emissions_tables import normal_table

__all__ = ["NormalMean", "NormalVariance"]


class _Normal(Family):
    likelihood = NormalRV

    def in_support(self, y, data_parameters, shapes):
        """Finite numbers."""
        return np.isfinite(y)

    def log_likelihoods(self, data, mean, scale):
        """-((y - mean) / scale)^2 / 2 - log(scale) - log(2 pi) / 2."""
        return normal_table(data, mean, scale)


@register
class NormalMean(_Normal):
    r"""Normal prior :math:`\mu_k \sim N(m, s^2)` on the mean; the scale is anything per state.

    :math:`\mu_k \mid y, z, \sigma \sim N(v (m / s^2 + \sum y / \sigma_k^2), v)` with
    :math:`1 / v = 1 / s^2 + n_k / \sigma_k^2`.
    """

    parameters = (Parameter(0, NormalRV, "natural"),)

    def suff_stats(self, data, z, n_states, scale):
        """Precision of the data about the mean, and the data weighted by it."""
        visits, sums = state_sums(z, data, n_states)
        precision = scale**-2.0
        return visits[:, None] * precision, sums * precision

    def sample_posterior(self, rng, stats, hyperparameters):
        """Means."""
        precision, weighted = stats
        mean, scale = hyperparameters
        total = scale**-2.0 + precision
        centre = (mean * scale**-2.0 + weighted) / total
        return (centre + rng.standard_normal(centre.shape) / np.sqrt(total),)


@register
class NormalVariance(_Normal):
    r"""Inverse-gamma prior on the variance, used as ``pm.math.sqrt(variance[z])``.

    With :math:`\sigma_k^2 \sim \mathrm{InvGamma}(a, b)`, :math:`\sigma_k^2 \mid y, z, \mu \sim
    \mathrm{InvGamma}(a + n_k / 2, b + \sum (y - \mu_k)^2 / 2)`.
    """

    parameters = (Parameter(1, InvGammaRV, "log"),)

    def unlink(self, position, node):
        """Undo the square root."""
        op = getattr(node.owner, "op", None)
        if isinstance(op, Elemwise) and isinstance(op.scalar_op, Sqrt):
            return node.owner.inputs[0]
        return None

    def suff_stats(self, data, z, n_states, mean):
        """(visits, squared residuals)."""
        visits, squares = squared_residuals(z, data, mean)
        return np.broadcast_to(visits[:, None], squares.shape), squares

    def sample_posterior(self, rng, stats, hyperparameters):
        """Log variances."""
        visits, squares = stats
        shape, scale = hyperparameters
        return (np.log(scale + 0.5 * squares) - log_gamma(rng, shape + 0.5 * visits),)
