"""Categories and multinomial counts with Dirichlet probabilities."""

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import CategoricalRV, DirichletRV, MultinomialRV
from scipy.special import gammaln

from pymc_dshdp.emissions._products import log_dirichlet_evidence, log_gamma, weighted_logs
from pymc_dshdp.emissions.base import Family, Parameter, register
from pymc_dshdp.kernels.emissions_statistics import category_counts, state_sums
from pymc_dshdp.kernels.emissions_tables import category_table
from pymc_dshdp.kernels.predictive_counts import categories, proportions

__all__ = ["CategoricalDirichlet", "MultinomialDirichlet"]


def _log_simplex(probabilities):
    """Log probabilities, NaN where they are not probabilities that add up to 1."""
    valid = pt.all(pt.ge(probabilities, 0.0), axis=-1, keepdims=True)
    valid = pt.and_(valid, pt.isclose(pt.sum(probabilities, axis=-1, keepdims=True), 1.0))
    return pt.switch(valid, pt.log(probabilities), np.nan)


class _Categories(Family):
    def sample_posterior(self, rng, stats, hyperparameters):
        """Log-gammas, whose normalised exponentials are Dir(concentration + counts)."""
        return (log_gamma(rng, hyperparameters[0] + stats[0]),)

    def plug_in(self, moments, hyperparameters):
        """Mean probabilities."""
        weights = hyperparameters[0] + moments[0]
        with np.errstate(divide="ignore"):
            return (np.log(weights) - np.log(weights.sum(axis=-1, keepdims=True)),)

    def log_evidence(self, moments, hyperparameters):
        """Beta functions of the concentrations."""
        return log_dirichlet_evidence(hyperparameters[0], moments[0]).sum(axis=1)


@register
class CategoricalDirichlet(_Categories):
    r""":math:`y_{tc} \sim \mathrm{Categorical}(p_{z_t c})`, :math:`p \sim \mathrm{Dir}(a)`."""

    likelihood = CategoricalRV
    parameters = (Parameter(0, DirichletRV, "log-simplex"),)

    def requires(self, shapes):
        """Name the categories."""
        return f"must be one of the categories 0 to {shapes[0][0] - 1}"

    def in_support(self, y, data_parameters, shapes):
        """Accept whole numbers below V."""
        return (y >= 0.0) & (y < shapes[0][0]) & (y == np.floor(y))

    def prepare(self, y, data_parameters, shapes):
        """Return (categories, V)."""
        return y.astype("int64"), shapes[0][0]

    def table_parameters(self, probabilities):
        """Log probabilities."""
        return [_log_simplex(probabilities)]

    def log_likelihoods(self, data, log_p):
        """Log probability of each category observed."""
        return category_table(data[0], np.ascontiguousarray(log_p.transpose(1, 2, 0)))

    def suff_stats(self, data, z, n_states):
        """Category counts."""
        y, n_categories = data
        return (category_counts(z, y, n_states, n_categories),)

    def collapse(self, data, others, hyperparameters):
        """Share of the category."""
        return categories(data[0], *hyperparameters)


@register
class MultinomialDirichlet(_Categories):
    r""":math:`y_{tc} \sim \mathrm{Multinomial}(n, p_{z_t c})`, :math:`p \sim \mathrm{Dir}(a)`."""

    likelihood = MultinomialRV
    parameters = (Parameter(1, DirichletRV, "log-simplex"),)
    data_parameters = (0,)
    requirement = "must have counts of at least 0 that add up to the number of trials"

    def in_support(self, y, data_parameters, shapes):
        """Accept counts from 0 that add up to n."""
        return np.all(y >= 0.0, axis=-1) & (y.sum(axis=-1) == data_parameters[0])

    def prepare(self, y, data_parameters, shapes):
        """Return (counts, log multinomial coefficients, (C, V))."""
        T = len(y)
        constant = gammaln(data_parameters[0] + 1.0) - gammaln(y + 1.0).sum(axis=-1)
        return y.reshape(T, -1), constant.sum(axis=1), y.shape[1:]

    def table_parameters(self, probabilities):
        """Log probabilities."""
        return [_log_simplex(probabilities)]

    def log_likelihoods(self, data, log_p):
        """Multiply counts by log(p)'."""
        counts, constant, _ = data
        table = weighted_logs(counts, log_p.reshape(len(log_p), -1))
        table += constant[:, None]
        return table

    def suff_stats(self, data, z, n_states):
        """Add up counts."""
        counts, _, (C, V) = data
        return (state_sums(z, counts, n_states)[1].reshape(n_states, C, V),)

    def collapse(self, data, others, hyperparameters):
        """Dirichlet-multinomial."""
        counts, _, shape = data
        return proportions(counts.reshape(len(counts), *shape), *hyperparameters)

    def log_constant(self, data):
        """Log multinomial coefficients."""
        return data[1].sum()
