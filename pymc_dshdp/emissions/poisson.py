"""Poisson counts with Gamma rates."""

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import ExponentialRV, GammaRV, PoissonRV
from scipy.special import gammaln

from pymc_dshdp.emissions._products import log_gamma, weighted_logs
from pymc_dshdp.emissions.base import Family, Parameter, register
from pymc_dshdp.emissions.conditional import Conditional, register_conditional
from pymc_dshdp.kernels.emissions_statistics import state_sums
from pymc_dshdp.kernels.predictive_counts import poisson_rate

__all__ = ["PoissonExponential", "PoissonGamma"]


@register
class PoissonGamma(Family):
    r"""Counts :math:`y_{tc} \sim \mathrm{Poisson}(\lambda_{z_t c})`, Gamma rates.

    With :math:`\lambda_{kc} \sim \mathrm{Gamma}(a, b)` (shape, rate),
    :math:`\lambda_{kc} \mid y, z \sim \mathrm{Gamma}(a + \sum_{t: z_t = k} y_{tc}, b + n_k)`.
    """

    likelihood = PoissonRV
    parameters = (Parameter(0, GammaRV, "log"),)
    requirement = "must be at least 0"

    def in_support(self, y, data_parameters, shapes):
        """Accept counts from 0."""
        return np.isfinite(y) & (y >= 0.0)

    def prepare(self, y, data_parameters, shapes):
        """Return (counts, -sum log y!)."""
        return y, -gammaln(y + 1.0).sum(axis=1)

    def table_parameters(self, rate):
        """(log rate, rate)."""
        return [pt.log(rate), rate]

    def log_likelihoods(self, data, log_rate, rate):
        """Y log(rate)' - rate - log y!."""
        y, constant = data
        table = weighted_logs(y, log_rate)
        table -= rate.sum(axis=1)
        table += constant[:, None]
        return table

    def hyperparameters(self, shape, scale):
        """(shape, rate)."""
        return [shape, pt.reciprocal(scale)]

    def suff_stats(self, data, z, n_states):
        """Return (counts added up, visits)."""
        visits, sums = state_sums(z, data[0], n_states)
        return sums, np.broadcast_to(visits[:, None], sums.shape)

    def sample_posterior(self, rng, stats, hyperparameters):
        """Log rates."""
        total, visits = stats
        shape, rate = hyperparameters
        return (log_gamma(rng, shape + total) - np.log(rate + visits),)

    def plug_in(self, moments, hyperparameters):
        """Mean rates."""
        total, visits = moments
        shape, rate = hyperparameters
        mean = (shape + total) / (rate + visits)
        return np.log(mean), mean

    def log_evidence(self, moments, hyperparameters):
        """Gamma functions of the posterior's shape and rate, less those of the prior's."""
        total, visits = moments
        shape, rate = hyperparameters
        out = gammaln(shape + total) - gammaln(shape) - shape * np.log1p(visits / rate)
        return (out - total * np.log(rate + visits)).sum(axis=1)

    def collapse(self, data, others, hyperparameters):
        """Negative binomial."""
        return poisson_rate(data[0], *hyperparameters)

    def log_constant(self, data):
        """-sum log y!."""
        return data[1].sum()


@register
class PoissonExponential(PoissonGamma):
    """Poisson counts with exponential rates: Gamma with shape 1."""

    parameters = (Parameter(0, ExponentialRV, "log"),)

    def hyperparameters(self, scale):
        """(1, rate)."""
        return [pt.ones_like(scale), pt.reciprocal(scale)]


@register_conditional
class PoissonRate(Conditional):
    r"""Rate of any prior: :math:`\log \lambda \sum y - n \lambda`."""

    likelihood = PoissonRV
    moving = (0,)

    def statistics(self, data, z, n_states):
        """Return (counts added up, visits)."""
        visits, sums = state_sums(z, data, n_states)
        return sums, np.broadcast_to(visits[:, None], sums.shape)

    def log_likelihood(self, rate, sums, visits):
        """See the class."""
        return sums * pt.log(rate) - visits * rate
