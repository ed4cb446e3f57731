"""Emissions as the direct assignment sweep sees them: kept, or integrated out."""

import numpy as np

from pymc_dshdp.emissions.binomial import BernoulliBeta, BinomialBeta
from pymc_dshdp.emissions.categorical import CategoricalDirichlet, MultinomialDirichlet
from pymc_dshdp.emissions.conjugate import ConjugateTerm, NotConjugate, find_conjugate
from pymc_dshdp.emissions.exponential import ExponentialGamma
from pymc_dshdp.emissions.normal import NormalMean
from pymc_dshdp.emissions.poisson import PoissonExponential, PoissonGamma
from pymc_dshdp.kernels import predictive_continuous as continuous
from pymc_dshdp.kernels import predictive_counts as counts
from pymc_dshdp.kernels.predictive import Table, include_path
from pymc_dshdp.loglik import terms_involving

__all__ = ["CollapsedEmission", "KeptEmission", "find_collapsed"]


def _poisson(data, others, hyperparameters):
    return counts.poisson_rate(data[0], *hyperparameters)


def _successes(data, others, hyperparameters):
    both = np.stack([data[0], data[1]], axis=-1)
    return counts.proportions(both, np.stack(hyperparameters, axis=-1))


def _categories(data, others, hyperparameters):
    return counts.categories(data[0], *hyperparameters)


def _multinomial(data, others, hyperparameters):
    y, _, shape = data
    return counts.proportions(y.reshape(len(y), *shape), *hyperparameters)


def _exponential(data, others, hyperparameters):
    return continuous.exponential_rate(data, *hyperparameters)


def _normal_mean(data, others, hyperparameters):
    return continuous.normal_mean(data, *others, *hyperparameters)


BUILDERS = {
    BernoulliBeta: _successes,
    BinomialBeta: _successes,
    CategoricalDirichlet: _categories,
    ExponentialGamma: _exponential,
    MultinomialDirichlet: _multinomial,
    NormalMean: _normal_mean,
    PoissonExponential: _poisson,
    PoissonGamma: _poisson,
}
"""How the prepared data of a family, the likelihood's other parameters and the hyperparameters,
each of L + 1 rows, become an emission of the sweep."""


class KeptEmission:
    """An emission whose parameters are kept: its table of log-likelihoods.

    Parameters
    ----------
    table : LogLikelihoodTable
    """

    collapsed = False
    values = ()

    def __init__(self, table):
        self._table = table

    def statistics(self, point, states):
        """(emission for the sweep, whether all empty slots are alike)."""
        return Table(self._table(point)), False

    def draw(self, point, rng):
        """Return new values of the parameters integrated out: none."""
        return {}


class CollapsedEmission(ConjugateTerm):
    """An emission whose parameters are integrated out of the sweep and redrawn after it.

    Parameters
    ----------
    model : pymc.Model
    match : Match

    Attributes
    ----------
    values : list of TensorVariable
        Value variables of the parameters.
    """

    collapsed = True

    def __init__(self, model, match):
        super().__init__(model, match)
        self._build = BUILDERS[type(match.family)]

    @property
    def fits(self):
        """Whether each column of the data has parameters of its own."""
        return not self._lacking

    def statistics(self, point, states):
        """(emission with the states included, whether all empty slots are alike)."""
        arrays = self._read(point)
        n = self._n_hyper
        hyperparameters = [self._hyperparameter(h) for h in arrays[:n]]
        others = [self._likelihood.arrange(x) for x in arrays[n:]]
        alike = all(np.all(x == x[:1]) for x in [*hyperparameters, *others])
        padded = [_with_empty(x) for x in hyperparameters]
        data = self._likelihood.data(point)
        emission = self._build(data, [_with_empty(x) for x in others], padded)
        include_path(emission, states)
        return emission, alike


def _with_empty(rows):
    """Rows of the slots, and below them the first again for what is in no slot."""
    return np.concatenate([rows, rows[:1]]).astype("float64", copy=False)


def find_collapsed(model, z):
    """Find the emission of z to integrate out.

    Parameters
    ----------
    model : pymc.Model
    z : HiddenStates variable

    Returns
    -------
    CollapsedEmission or None
        None unless a single term of the model involves z, and it is of a conjugate family with
        parameters of its own for each column of the data.
    """
    terms = [rv for rv, _ in terms_involving(model, z)]
    if len(terms) != 1:
        return None
    for rv in model.free_RVs:
        try:
            match = find_conjugate(model, rv)
        except NotConjugate:
            continue
        if match.z is z and match.likelihood is terms[0] and type(match.family) in BUILDERS:
            emission = CollapsedEmission(model, match)
            return emission if emission.fits else None
    return None
