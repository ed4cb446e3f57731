"""Bernoulli and binomial successes with Beta probabilities."""

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import BernoulliRV, BetaRV, BinomialRV
from scipy.special import gammaln

from pymc_dshdp.emissions._products import log_dirichlet_evidence, log_gamma, weighted_logs
from pymc_dshdp.emissions.base import Family, Parameter, register
from pymc_dshdp.emissions.conditional import Conditional, register_conditional
from pymc_dshdp.kernels.emissions_statistics import state_sums
from pymc_dshdp.kernels.predictive_counts import proportions

__all__ = ["BernoulliBeta", "BinomialBeta"]


class _Successes(Family):
    """Data are prepared as (successes, failures, log of the binomial coefficients)."""

    def table_parameters(self, *parameters):
        """(log p, log(1 - p))."""
        probability = parameters[-1]
        return [pt.log(probability), pt.log1p(-probability)]

    def log_likelihoods(self, data, log_p, log_q):
        """Successes log(p)' + failures log(1 - p)'; all terms have one sign."""
        successes, failures, constant = data
        table = weighted_logs(successes, log_p)
        table += weighted_logs(failures, log_q)
        table += constant[:, None]
        return table

    def suff_stats(self, data, z, n_states):
        """(successes, failures)."""
        return state_sums(z, data[0], n_states)[1], state_sums(z, data[1], n_states)[1]

    def sample_posterior(self, rng, stats, hyperparameters):
        """Log-odds of p ~ Beta(a + successes, b + failures)."""
        a, b = (h + s for h, s in zip(hyperparameters, stats, strict=True))
        return (log_gamma(rng, a) - log_gamma(rng, b),)

    def plug_in(self, moments, hyperparameters):
        """Mean probabilities."""
        a, b = (h + s for h, s in zip(hyperparameters, moments, strict=True))
        total = np.log(a + b)
        return np.log(a) - total, np.log(b) - total

    def log_evidence(self, moments, hyperparameters):
        """Beta functions."""
        weights, counts = np.stack(hyperparameters, axis=-1), np.stack(moments, axis=-1)
        return log_dirichlet_evidence(weights, counts).sum(axis=1)

    def collapse(self, data, others, hyperparameters):
        """Beta-binomial."""
        both = np.stack([data[0], data[1]], axis=-1)
        return proportions(both, np.stack(hyperparameters, axis=-1))

    def log_constant(self, data):
        """Log binomial coefficients."""
        return data[2].sum()


@register
class BernoulliBeta(_Successes):
    r""":math:`y_{tc} \sim \mathrm{Bernoulli}(p_{z_t c})`, :math:`p \sim \mathrm{Beta}(a, b)`."""

    likelihood = BernoulliRV
    parameters = (Parameter(0, BetaRV, "logit"),)
    requirement = "must be 0 or 1"

    def in_support(self, y, data_parameters, shapes):
        """0 or 1."""
        return (y == 0.0) | (y == 1.0)

    def prepare(self, y, data_parameters, shapes):
        """(successes, failures, 0)."""
        return y, 1.0 - y, np.zeros(len(y))


@register
class BinomialBeta(_Successes):
    r""":math:`y_{tc} \sim \mathrm{Binomial}(n, p_{z_t c})`, :math:`p \sim \mathrm{Beta}(a, b)`."""

    likelihood = BinomialRV
    parameters = (Parameter(1, BetaRV, "logit"),)
    data_parameters = (0,)
    requirement = "must be between 0 and the number of trials"

    def in_support(self, y, data_parameters, shapes):
        """From 0 to n."""
        return (y >= 0.0) & (y <= data_parameters[0])

    def prepare(self, y, data_parameters, shapes):
        """(successes, failures, log binomial coefficients)."""
        [n] = data_parameters
        constant = gammaln(n + 1.0) - gammaln(y + 1.0) - gammaln(n - y + 1.0)
        return y, n - y, constant.sum(axis=1)


class _Probability(Conditional):
    """Probability of any prior; the data are prepared as (successes, failures)."""

    def statistics(self, data, z, n_states):
        """(successes, failures)."""
        return tuple(state_sums(z, x, n_states)[1] for x in data)

    def log_likelihood(self, p, successes, failures):
        """Successes log p + failures log(1 - p)."""
        return successes * pt.log(p) + failures * pt.log1p(-p)


@register_conditional
class BernoulliProbability(_Probability):
    """Of single trials."""

    likelihood = BernoulliRV
    moving = (0,)

    def prepare(self, y, data_parameters, shapes):
        """(successes, failures)."""
        return y, 1.0 - y


@register_conditional
class BinomialProbability(_Probability):
    """Of n trials."""

    likelihood = BinomialRV
    moving = (1,)
    data_parameters = (0,)

    def prepare(self, y, data_parameters, shapes):
        """(successes, failures)."""
        return y, data_parameters[0] - y
