"""Parameters of empty states: summed out while others move, then drawn from their prior."""

import logging

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors

from pymc_dshdp.graph.gathers import states_that_read
from pymc_dshdp.graph.prior_draws import drawn_from_prior
from pymc_dshdp.graph.walks import core_ndim, has_element_of_each_unit

__all__ = ["VacantUnits"]

_log = logging.getLogger(__name__)


class VacantUnits:
    r"""The parameters of states without observations, for a step that moves :math:`x`.

    Let :math:`\theta_k` be a parameter that enters the density of its own prior and the likelihood
    of times in state k, and nothing else. Where no time point is in state k,

    .. math:: p(x, \theta_k \mid z, y, \ldots) = p(x \mid z, y, \ldots) \; p(\theta_k \mid x),

    for all such k at once: the first factor is the joint density without their terms, the second
    their prior. A step that leaves the first invariant, followed by a draw from the second,
    leaves the joint invariant. Which k these are is a function of z alone, which does not move.

    That :math:`\theta_k` enters the likelihood of times in state k alone is proved from the graph
    (``graph/gathers.py``). Where it is not, the parameter is taken to enter that of all states, and
    stays in the trajectory.

    A unit is what the prior draws at once: an element of a batch, with its core dimensions.

    Parameters
    ----------
    model : pymc.Model
    terms : list of (variable, graph)
        The densities of the model and their elementwise graphs in value variables.
    membership : Membership
    moving : list of value variables
        Those of the step. Variables that others move take part where their prior depends on one
        of these, which the values of empty states would hold where they are.
    start : dict

    Attributes
    ----------
    values : list of value variables
        Those that have units.
    """

    def __init__(self, model, terms, membership, moving, start):
        self._membership = membership
        self._parts, self._draws, self.values, used = [], [], [], []
        graphs, low = dict(terms), 0
        for value in _candidates(model, terms, membership, moving):
            rv = model.values_to_rvs[value]
            shape = start[value.name].shape[: rv.type.ndim - core_ndim(rv)]
            n = int(np.prod(shape, dtype=int))
            uses = _proven_uses(membership, terms, value, start)
            uses = uses.reshape(n, len(uses) // n, -1).any(axis=1)
            if uses.all():
                _log.debug("%s stays where states are empty: all of them may read it", rv.name)
                continue
            draw = drawn_from_prior(model, rv, start)
            if draw is None or not uses.any() or not has_element_of_each_unit(graphs[rv], shape):
                continue
            self.values.append(value)
            self._parts.append((low, low + n, shape))
            self._draws.append(draw)
            used.append(uses)
            low += n
        self.active = np.ones(low, bool)
        self._shared = pytensor.shared(self.active, "active_units", shape=(low,))
        self._used = np.concatenate([np.empty((0, membership.n_states), bool), *used])
        self._used_by_some = self._used.any(axis=1)

    def masked(self, variable_value, graph):
        """Density graph of a variable without the units that are not active."""
        if variable_value not in self.values:
            return graph
        low, high, shape = self._parts[self.values.index(variable_value)]
        return pt.switch(self._shared[low:high].reshape(shape), graph, 0.0)

    def look(self, counts):
        """Find out which units are active at given numbers of time points in each state."""
        self.active = (self._used @ counts > 0) | ~self._used_by_some
        self._shared.set_value(self.active)

    def kept_by(self, value, size):
        """States that keep each element of a value variable active, (size, S); None if all do."""
        if value not in self.values:
            return None
        low, high, _ = self._parts[self.values.index(value)]
        return np.repeat(self._used[low:high], size // (high - low), axis=0)

    def active_elements(self, value, size):
        """Mark the elements of a value variable that belong to active units."""
        if value not in self.values:
            return np.ones(size, bool)
        low, high, _ = self._parts[self.values.index(value)]
        return np.repeat(self.active[low:high], size // (high - low))

    def draw(self, point, rng):
        """Draw the units that are not active from their priors given the point."""
        if self.active.all():
            return point
        out = dict(point)
        for value, (low, high, _), draw in zip(self.values, self._parts, self._draws, strict=True):
            vacant = ~self.active[low:high]
            if vacant.any():
                new = draw.renewed(point, rng, high - low, vacant)
                out[value.name] = new.reshape(point[value.name].shape)
        return out


def _candidates(model, terms, membership, moving):
    """Variables that enter their own prior and the likelihood of states, and nothing else."""
    graphs = {variable: set(ancestors([graph])) for variable, graph in terms}
    moving, paths = set(moving), set(membership.paths)
    for value in membership.uses:
        rv = model.values_to_rvs[value]
        if value in membership.coupled or rv not in graphs or paths & graphs[rv]:
            continue
        others = [v for v, behind in graphs.items() if v is not rv and value in behind]
        if not all(paths & graphs[v] for v in others):
            _log.debug("%s stays where states are empty: other terms depend on it", rv.name)
        elif moving & graphs[rv]:
            yield value


def _proven_uses(membership, terms, value, start):
    """States of which the likelihood may depend on each element of a variable; (size, S)."""
    uses = np.zeros((start[value.name].size, membership.n_states), bool)
    for (first, n_states), z in membership.of_paths():
        for _, graph in terms:
            if {value, z} <= set(ancestors([graph])):
                uses[:, first : first + n_states] |= states_that_read(
                    graph, value, z, n_states, start
                )
    return uses
