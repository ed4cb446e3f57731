"""The joint density of data and states with everything that can be integrated out."""

import numpy as np
from pytensor.graph.traversal import ancestors

from pymc_dshdp.graph.readers import Reader
from pymc_dshdp.kernels.collapsed_transitions import (
    beta_persistence,
    given_persistence,
    log_path_marginal,
)
from pymc_dshdp.steps.collapsed import find_complete
from pymc_dshdp.transitions.found import outside_dependents

__all__ = ["CollapsedPersistence", "JointDensity"]


class CollapsedPersistence:
    """Self-persistence of one prior, integrated out or constant.

    Parameters
    ----------
    model : pymc.Model
    prior : TransitionModel
    transition : TransitionUpdate
        What draws the prior's transition block.

    Attributes
    ----------
    value : TensorVariable or None
        Value variable of kappa, where it is integrated out.
    available : bool
        False where the rows do not integrate out, where kappa varies with time or is random with
        another prior, and where something outside the prior depends on it.
    """

    def __init__(self, model, prior, transition):
        self.value, self._transition = None, transition
        if not prior.collapses:
            self.available = False
            return
        free = prior.kappa in model.free_RVs
        if free and (prior.phi is not None or prior.sticky is not None):
            self.available = not any(outside_dependents(model, prior, [prior.kappa]))
            self.value = model.rvs_to_values[prior.kappa]
            self._tied = prior.sticky is not None
            self._read = Reader(model, prior.sticky if self._tied else [prior.phi, prior.eta]).read
        else:
            known = set(ancestors([prior.kappa], model.basic_RVs)).isdisjoint(model.basic_RVs)
            self.available = known and not prior.varies

    def __call__(self, point):
        """Read ``Persistence`` from a point."""
        logit, _ = self._transition.persistence_and_rows(point)
        if self.value is None:
            return given_persistence(logit)
        first, second = self._read(point)
        total = second if self._tied else second**-3.0
        return beta_persistence(first * total, (1.0 - first) * total, len(logit))


class JointDensity:
    r"""log p(y, z | beta, alpha, rho) of one prior, as it stands in a point.

    Emission parameters, :math:`\bar\pi`, :math:`\pi_\mathrm{init}` and :math:`\kappa` are
    integrated out, and the :math:`w_t` summed (see ``kernels.collapsed_transitions``).

    Parameters
    ----------
    model : pymc.Model
    prior : TransitionModel
    paths : PathReader
    transition : TransitionUpdate

    Attributes
    ----------
    available : bool
        False too where the path of some states is data.
    emissions : list of CollapsedEmission, RegressionEvidence, SeveralEmissions or None
        One per states variable.
    parts : int
        Of how many terms the density of the data is, each of which takes about as long.
    """

    def __init__(self, model, prior, paths, transition):
        self._paths, self._transition = paths, transition
        self.persistence = CollapsedPersistence(model, prior, transition)
        self.emissions = [find_complete(model, z) for z in prior.states]
        self.available = self.persistence.available and None not in self.emissions
        self.available &= bool(prior.states) and not prior.observed
        self.parts = sum(e.n_parts for e in self.emissions) if self.available else 1

    def __call__(self, point):
        """Evaluate; NaN where not ``available``."""
        if not self.available:
            return np.nan
        base = self._transition.row_concentrations(point)
        out = log_path_marginal(self._paths.counts(point), base, self.persistence(point))
        for value, emission in zip(self._paths.values, self.emissions, strict=True):
            states = np.array(np.ravel(point[value.name]), dtype=np.int64)
            with emission.named_if_singular():
                out += emission.marginals(point).of_path(states).sum()
            out += emission.log_constant(point)
        return out
