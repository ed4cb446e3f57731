r"""Hyperparameters of the states' parameters, by slice sampling.

The mean and the spread of what the states in use have are known from as many numbers as there are
states, often two or three. Their density has a heavy tail and, where the spread is small, a narrow
neck, in which a trajectory diverges. For hyperparameters h of parameters :math:`\theta`, the empty
states' summed out (``steps.vacant``),

.. math:: p(h \mid \theta, z, y, \ldots) \propto p(h) \prod_k p(\theta_k \mid h)

over the states in use, which takes no look at the data: each number of h is updated by slice
sampling given all else, which leaves it invariant.
"""

import numpy as np
from pytensor.graph.traversal import ancestors

from pymc_dshdp.graph.readers import point_function
from pymc_dshdp.steps.scarce import MOST_NUMBERS, rmap, slice_each

__all__ = ["Hyperparameters"]


class Hyperparameters:
    """Those variables of a step that enter nothing but priors of the states' parameters.

    Parameters
    ----------
    model : pymc.Model
    values : list of value variables
        Those of the step.
    terms : list of (variable, graph)
    vacant : VacantUnits
        Whose priors count.
    start : dict

    Attributes
    ----------
    values : list of value variables
        Empty if they have more than 16 numbers together, which are left to the trajectory.
    elements : ndarray of bool
        Which numbers of the step are theirs.
    """

    def __init__(self, model, values, terms, vacant, start):
        behind = [(model.rvs_to_values.get(rv), set(ancestors([graph]))) for rv, graph in terms]
        found = [v for v in values if _enters_priors(v, behind, vacant.values)]
        if sum(start[v.name].size for v in found) > MOST_NUMBERS:
            found = []
        self.values = found
        self.elements = np.concatenate([np.full(start[v.name].size, v in found) for v in values])
        own = [
            vacant.masked(value, graph).sum()
            for (value, nodes), (_, graph) in zip(behind, terms, strict=True)
            if nodes & set(found)
        ]
        self._density = point_function([sum(own)]) if found else None

    def update(self, point, scales, rng):
        """Update each in turn, given about the standard deviation of each given the others."""
        names = [v.name for v in self.values]

        def log_density(x, info):
            [found] = self._density({**point, **rmap(x, info)})
            return float(found), None

        return slice_each(log_density, point, names, np.arange(len(scales)), scales, rng)


def _enters_priors(value, behind, parameters):
    """Whether a value enters its own density, densities of some parameters, and no other."""
    others = [v for v, nodes in behind if value in nodes and v is not value]
    return bool(others) and all(v in parameters for v in others) and value not in parameters
