"""Exponential waiting times with Gamma rates."""

import numpy as np
import pytensor.tensor as pt
from pytensor.scalar.basic import Reciprocal
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.basic import ExponentialRV, GammaRV
from scipy.special import gammaln

from pymc_dshdp.emissions._products import log_gamma
from pymc_dshdp.emissions.base import Family, Parameter, register
from pymc_dshdp.emissions.conditional import Conditional, register_conditional
from pymc_dshdp.kernels.emissions_statistics import state_sums
from pymc_dshdp.kernels.predictive_continuous import exponential_rate

__all__ = ["ExponentialGamma"]


@register
class ExponentialGamma(Family):
    r"""Times :math:`y_{tc} \sim \mathrm{Exponential}(\lambda_{z_t c})`, Gamma rates.

    With :math:`\lambda \sim \mathrm{Gamma}(a, b)` (shape, rate), :math:`\lambda \mid y, z \sim
    \mathrm{Gamma}(a + n_k, b + \sum y)`.
    """

    likelihood = ExponentialRV
    parameters = (Parameter(0, GammaRV, "log"),)
    requirement = "must be finite and at least 0"

    def in_support(self, y, data_parameters, shapes):
        """Nonnegative."""
        return np.isfinite(y) & (y >= 0.0)

    def table_parameters(self, scale):
        """(log scale, rate)."""
        return [pt.log(scale), pt.reciprocal(scale)]

    def log_likelihoods(self, data, log_scale, rate):
        """-Y rate' - log scale."""
        table = data @ -rate.T
        table -= log_scale.sum(axis=1)
        return table

    def unlink(self, position, node):
        """Undo scale = 1 / rate."""
        op = getattr(node.owner, "op", None)
        if isinstance(op, Elemwise) and isinstance(op.scalar_op, Reciprocal):
            return node.owner.inputs[0]
        return None

    def hyperparameters(self, shape, scale):
        """(shape, rate)."""
        return [shape, pt.reciprocal(scale)]

    def suff_stats(self, data, z, n_states):
        """(visits, times added up)."""
        visits, sums = state_sums(z, data, n_states)
        return np.broadcast_to(visits[:, None], sums.shape), sums

    def sample_posterior(self, rng, stats, hyperparameters):
        """Log rates."""
        visits, total = stats
        shape, rate = hyperparameters
        return (log_gamma(rng, shape + visits) - np.log(rate + total),)

    def plug_in(self, moments, hyperparameters):
        """Mean rates."""
        visits, total = moments
        shape, rate = hyperparameters
        mean = (shape + visits) / (rate + total)
        return -np.log(mean), mean

    def log_evidence(self, moments, hyperparameters):
        """Gamma functions of the posterior's shape and rate, less those of the prior's."""
        visits, total = moments
        shape, rate = hyperparameters
        out = gammaln(shape + visits) - gammaln(shape) - shape * np.log1p(total / rate)
        return (out - visits * np.log(rate + total)).sum(axis=1)

    def collapse(self, data, others, hyperparameters):
        """Lomax."""
        return exponential_rate(data, *hyperparameters)


@register_conditional
class ExponentialScale(Conditional):
    r"""Scale (or rate) of any prior: :math:`-n \log s - \sum y / s`."""

    likelihood = ExponentialRV
    moving = (0,)

    def statistics(self, data, z, n_states):
        """(visits, times added up)."""
        visits, sums = state_sums(z, data, n_states)
        return np.broadcast_to(visits[:, None], sums.shape), sums

    def log_likelihood(self, scale, visits, sums):
        """See the class."""
        return -visits * pt.log(scale) - sums / scale
