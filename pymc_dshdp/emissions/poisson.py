"""Poisson counts with Gamma rates."""

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import ExponentialRV, GammaRV, PoissonRV
from scipy.special import gammaln, xlogy

from pymc_dshdp.emissions._products import log_gamma, weighted_logs
from pymc_dshdp.emissions.base import Family, Parameter, register
from pymc_dshdp.emissions.conditional import Conditional, register_conditional
from pymc_dshdp.graph.factors import known_factor
from pymc_dshdp.graph.walks import declared_parameters
from pymc_dshdp.kernels.emissions_statistics import state_sums
from pymc_dshdp.kernels.predictive_counts import exposed_rate, poisson_rate

__all__ = ["PoissonExponential", "PoissonGamma"]


class _Counts:
    """Poisson counts whose rate is known up to a factor: the exposure e, 1 where there is none.

    Data are prepared as (counts, exposures, sum of y log e - log y!), without exposures (None)
    where all are 1.
    """

    likelihood = PoissonRV
    data_parameters: tuple[int, ...] = (1,)
    requirement = (
        "must be finite and at least 0, and 0 where its exposure is; the exposure, which is the "
        "known factor of the rate, must be finite and at least 0"
    )

    def parameters_of(self, likelihood):
        """(rate, exposure)."""
        [rate] = declared_parameters(likelihood)
        return list(known_factor(rate))

    def in_support(self, y, data_parameters, shapes):
        """Accept counts from 0; without exposure none."""
        [exposure] = data_parameters
        possible = np.isfinite(y) & (y >= 0.0) & np.isfinite(exposure) & (exposure >= 0.0)
        return possible & ((exposure > 0.0) | (y == 0.0))

    def prepare(self, y, data_parameters, shapes):
        """See the class."""
        [exposure] = data_parameters
        constant = (xlogy(y, exposure) - gammaln(y + 1.0)).sum(axis=1)
        return y, None if (exposure == 1.0).all() else exposure, constant

    def suff_stats(self, data, z, n_states):
        """Return (counts added up, exposures added up)."""
        counts, exposures, _ = data
        visits, sums = state_sums(z, counts, n_states)
        if exposures is not None:
            return sums, state_sums(z, exposures, n_states)[1]
        return sums, np.broadcast_to(visits[:, None], sums.shape)


@register
class PoissonGamma(_Counts, Family):
    r"""Counts :math:`y_{tc} \sim \mathrm{Poisson}(e_{tc} \lambda_{z_t c})`, Gamma rates.

    With :math:`\lambda_{kc} \sim \mathrm{Gamma}(a, b)` (shape, rate) and known exposures e,
    :math:`\lambda_{kc} \mid y, z \sim \mathrm{Gamma}(a + \sum_{t: z_t = k} y_{tc},
    b + \sum_{t: z_t = k} e_{tc})`.
    """

    parameters = (Parameter(0, GammaRV, "log"),)

    def table_parameters(self, rate):
        """(log rate, rate)."""
        return [pt.log(rate), rate]

    def log_likelihoods(self, data, log_rate, rate):
        """Y log(rate)' - exposure rate' + y log exposure - log y!."""
        y, exposures, constant = data
        table = weighted_logs(y, log_rate)
        table -= rate.sum(axis=1) if exposures is None else exposures @ rate.T
        table += constant[:, None]
        return table

    def hyperparameters(self, shape, scale):
        """(shape, rate)."""
        return [shape, pt.reciprocal(scale)]

    def sample_posterior(self, rng, stats, hyperparameters):
        """Log rates."""
        total, exposure = stats
        shape, rate = hyperparameters
        return (log_gamma(rng, shape + total) - np.log(rate + exposure),)

    def plug_in(self, moments, hyperparameters):
        """Mean rates."""
        total, exposure = moments
        shape, rate = hyperparameters
        mean = (shape + total) / (rate + exposure)
        return np.log(mean), mean

    def log_evidence(self, moments, hyperparameters):
        """Gamma functions of the posterior's shape and rate, less those of the prior's."""
        total, exposure = moments
        shape, rate = hyperparameters
        out = gammaln(shape + total) - gammaln(shape) - shape * np.log1p(exposure / rate)
        return (out - total * np.log(rate + exposure)).sum(axis=1)

    def collapse(self, data, others, hyperparameters):
        """Negative binomial."""
        counts, exposures, _ = data
        if exposures is None:
            return poisson_rate(counts, *hyperparameters)
        return exposed_rate(np.stack([counts, exposures], axis=-1), *hyperparameters)

    def log_constant(self, data):
        """Sum of y log exposure - log y!."""
        return data[2].sum()


@register
class PoissonExponential(PoissonGamma):
    """Poisson counts with exponential rates: Gamma with shape 1."""

    parameters = (Parameter(0, ExponentialRV, "log"),)

    def hyperparameters(self, scale):
        """(1, rate)."""
        return [pt.ones_like(scale), pt.reciprocal(scale)]


@register_conditional
class PoissonRate(_Counts, Conditional):
    r"""Rate of any prior: :math:`\log \lambda \sum y - \lambda \sum e`, exposures e."""

    moving = (0,)

    def statistics(self, data, z, n_states):
        """Return (counts added up, exposures added up)."""
        return self.suff_stats(data, z, n_states)

    def log_likelihood(self, rate, sums, exposures):
        """See the class."""
        return sums * pt.log(rate) - exposures * rate
