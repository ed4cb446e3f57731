"""Emissions as the direct assignment sweep sees them: kept, or integrated out."""

from itertools import chain

import numpy as np
from pytensor.graph.traversal import ancestors

from pymc_dshdp.kernels.predictive import Table, include_path
from pymc_dshdp.likelihood.conjugate import ConjugateTerm, NotConjugate, find_conjugate
from pymc_dshdp.likelihood.marginals import Marginals
from pymc_dshdp.likelihood.regression_evidence import regression_evidence
from pymc_dshdp.likelihood.several import SeveralEmissions
from pymc_dshdp.likelihood.table import terms_involving

__all__ = ["CollapsedEmission", "KeptEmission", "find_collapsed", "find_complete"]


class KeptEmission:
    """An emission whose parameters are kept: its table of log-likelihoods.

    Parameters
    ----------
    table : LogLikelihoodTable
    """

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
    terms : set of TensorVariable
        Terms of the model that it stands for.
    n_kept : int
        Numbers of a state that are drawn with a division of times, see ``Marginals``: none.
    n_parts : int
        See ``JointDensity``: one.
    """

    n_kept, n_parts = 0, 1

    def __init__(self, model, match):
        super().__init__(model, match)
        self.terms = match.terms
        self._states, self._blockers = match.z, model.basic_RVs

    @property
    def fits(self):
        """Whether each column of the data has parameters of its own."""
        return not self._lacking

    @property
    def complete(self):
        """Whether nothing random that differs by state is left once the parameters are out."""
        drawn = {p.position for p in self._family.parameters}
        others = [p for i, p in enumerate(self._likelihood.parameters) if i not in drawn]
        for node in others:
            behind = set(ancestors([node], self._blockers)) & set(self._blockers)
            if self._states in behind and len(behind) > 1:
                return False
        return True

    def statistics(self, point, states):
        """(emission with the states included, whether all empty slots are alike)."""
        emission, alike = self.empty(point)
        include_path(emission, states)
        return emission, alike

    def empty(self, point):
        """(emission with nothing included, whether all slots are alike)."""
        hyperparameters, others = self._given(point)
        alike = all(np.all(x == x[:1]) for x in [*hyperparameters, *others])
        padded = [_with_empty(x) for x in hyperparameters]
        data = self._likelihood.data(point)
        with self.named_if_singular():
            return self._family.collapse(data, [_with_empty(x) for x in others], padded), alike

    def marginals(self, point):
        """Return ``Marginals`` of sets of times."""
        hyperparameters, others = self._given(point)
        prior = self._family.prepare_prior(hyperparameters)
        return Marginals(self._family, self._likelihood.data(point), prior, others)

    def kept_values(self, point, kept):
        """Values, by name, of what was drawn with a division of times: nothing is."""
        return {}

    def log_constant(self, point):
        """Terms of the log-density that the evidence leaves out."""
        return self._family.log_constant(self._likelihood.data(point))

    def _given(self, point):
        """(hyperparameters, the likelihood's other parameters), at each state."""
        arrays = self._read(point)
        n = self._n_hyper
        hyperparameters = [self._hyperparameter(np.asarray(h, "float64")) for h in arrays[:n]]
        return hyperparameters, [self._likelihood.arrange(x) for x in arrays[n:]]


def _with_empty(rows):
    """Rows of the slots, and below them the first again for what is in no slot."""
    return np.concatenate([rows, rows[:1]])


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
    terms = _terms_of(model, z)
    if len(terms) != 1:
        return None
    return next(_conjugate_emissions(model, z, "collapse", terms), None)


def find_complete(model, z):
    """Find the emissions of z if their parameters are all that tells the states apart.

    As ``find_collapsed``; missing observations are among the data, at their present values.
    There may be several likelihoods, and regressions among them.

    Parameters
    ----------
    model : pymc.Model
    z : HiddenStates variable

    Returns
    -------
    CollapsedEmission, RegressionEvidence, SeveralEmissions or None
    """
    left, parts = _terms_of(model, z), []
    conjugate = _conjugate_emissions(model, z, "log_evidence", left)
    complete = (emission for emission in conjugate if emission.complete)
    for emission in chain(complete, regression_evidence(model, z, left)):
        parts.append(emission)
        left -= emission.terms
        if not left:
            return parts[0] if len(parts) == 1 else SeveralEmissions(parts)
    return None


def _terms_of(model, z):
    return {rv for rv, _ in terms_involving(model, z)}


def _conjugate_emissions(model, z, method, terms):
    """Yield the emissions of z among some terms whose family has a method."""
    for rv in model.free_RVs:
        try:
            match = find_conjugate(model, rv)
        except NotConjugate:
            continue
        if match.z is not z or not match.terms <= terms:
            continue
        if getattr(match.family, method) is not None:
            emission = CollapsedEmission(model, match)
            if emission.fits:
                yield emission
