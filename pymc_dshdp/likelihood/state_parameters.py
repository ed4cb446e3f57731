"""The parameters of each state as a vector, where they are those of that state alone."""

import logging

import numpy as np
import pytensor.tensor as pt
from pymc.vartypes import continuous_types
from pytensor.graph.traversal import ancestors

from pymc_dshdp.graph.gathers import states_that_read
from pymc_dshdp.graph.prior_draws import drawn_from_prior
from pymc_dshdp.graph.readers import point_function
from pymc_dshdp.graph.terms import densities, log_densities
from pymc_dshdp.graph.walks import core_ndim, has_element_of_each_unit
from pymc_dshdp.likelihood.table import terms_involving

__all__ = ["NoVectors", "StateParameters"]

_log = logging.getLogger(__name__)

PRIOR_DRAWS = 64  # from which the middle and the spread of the prior are learnt
MOST = 16  # numbers of a state


class NoVectors(Exception):
    """The parameters of the states are no such vectors; says why."""


class StateParameters:
    r"""The vector :math:`\theta_k` of each state k, in the space of value variables.

    Every number that enters the likelihood of some states and not of others enters that of one
    state k alone, as the graph proves (``graph/gathers.py``), and nothing else but its own prior,
    which can be drawn from and is independent of the other states' given the rest. So

    .. math:: p(y, \theta \mid z, \ldots) = \prod_k p(\theta_k \mid \ldots)
              \prod_t p(y_t \mid \theta_{z_t}, \ldots).

    What all states share is part of the rest.

    Parameters
    ----------
    model : pymc.Model
    z : TensorVariable
        The states.
    n_states : int
        L.
    start : dict
        A point of the model.
    without : collection of random variables, optional
        Missing observations, which are summed out: parameters may enter theirs too.

    Attributes
    ----------
    size : int
        d, the numbers of a state.
    middle, spread : ndarray of shape (d,)
        Median and robust standard deviation of the prior at ``start``: for proposals.

    Raises
    ------
    NoVectors
        If that does not hold.
    """

    def __init__(self, model, z, n_states, start, without=()):
        self._values, self._draws, owners, graphs, units = [], [], [], [], []
        for value, uses in _partial_uses(model, z, n_states, start, without):
            rv = model.values_to_rvs[value]
            shape = start[value.name].shape[: rv.type.ndim - core_ndim(rv)]
            n = int(np.prod(shape, dtype=int))
            own = uses.reshape(n, len(uses) // n, n_states).any(axis=1)
            draw = _draw(model, rv, z, start, without)
            [graph] = log_densities(model, [rv])
            if (own.sum(axis=1) != 1).any() or not has_element_of_each_unit(graph, shape):
                raise NoVectors(f"elements of {rv.name!r} are not each of one state")
            self._values.append(value)
            self._draws.append(draw)
            graphs.append(graph.ravel())
            units.append(own.argmax(axis=1))
            owners.append(np.repeat(units[-1], len(uses) // n))
        if not owners:
            raise NoVectors("no parameter differs by state")
        owner = np.concatenate(owners)
        sizes = np.bincount(owner, minlength=n_states)
        if (sizes != sizes[0]).any() or sizes[0] > MOST:
            raise NoVectors(f"the states have {sorted(set(sizes))} numbers")
        self.size = int(sizes[0])
        self._places = np.argsort(owner, kind="stable").reshape(n_states, self.size)
        self._ends = np.cumsum([start[v.name].size for v in self._values])[:-1]
        self._units, self._n_states = np.concatenate(units), n_states
        self._density = point_function([pt.concatenate(graphs)])
        self._learn(start)

    def _learn(self, start):
        rng = np.random.default_rng(0)
        drawn = [self._draw_all(start, rng)[self._places] for _ in range(PRIOR_DRAWS)]
        drawn = np.reshape(drawn, (-1, self.size))
        drawn[~np.isfinite(drawn)] = np.nan
        low, self.middle, high = np.nanquantile(drawn, [0.25, 0.5, 0.75], axis=0)
        self.spread = np.where(high > low, (high - low) / 1.349, 1.0)

    def read(self, point):
        """Vectors of all states, shape (L, d)."""
        whole = np.concatenate([np.ravel(point[v.name]) for v in self._values])
        return whole[self._places].astype(float)

    def write(self, point, theta):
        """Put vectors of shape (L, d) into the point."""
        whole = np.empty(self._places.size)
        whole[self._places] = theta
        parts = np.split(whole, self._ends)
        new = {
            v.name: x.reshape(point[v.name].shape).astype(v.dtype)
            for v, x in zip(self._values, parts, strict=True)
        }
        return {**point, **new}

    def log_prior(self, point):
        """Log prior density of each state's vector, shape (L,)."""
        [terms] = self._density(point)
        return np.bincount(self._units, terms, self._n_states)

    def draw(self, point, rng, k):
        """Draw the vector of state k from its prior, shape (d,)."""
        return self._draw_all(point, rng)[self._places[k]]

    def _draw_all(self, point, rng):
        return np.concatenate([np.ravel(draw(point, rng)) for draw in self._draws]).astype(float)


def _partial_uses(model, z, n_states, start, without):
    """Yield the value variables that some states use and others do not, and which, (size, L)."""
    path, terms = model.rvs_to_values[z], terms_involving(model, z)
    terms = [(v, graph) for v, graph in terms if v not in without]
    behind = {v: set(ancestors([graph])) for v, graph in terms}
    for value in model.value_vars:
        graphs = [graph for v, graph in terms if value in behind[v]]
        if value is path or not graphs:
            continue
        uses = np.zeros((start[value.name].size, n_states), bool)
        for graph in graphs:
            uses |= states_that_read(graph, value, path, n_states, start)
        number = uses.sum(axis=1)
        if ((number > 0) & (number < n_states)).any():
            yield value, uses


def _draw(model, rv, z, start, without):
    """``PriorDraw`` of a variable that is in its own prior and in the likelihood of z alone."""
    value, path = model.rvs_to_values[rv], model.rvs_to_values[z]
    if rv not in model.free_RVs or value.dtype not in continuous_types:
        raise NoVectors(f"{rv.name!r} is not a continuous free variable")
    terms = [v for v in densities(model) if v not in without]
    for v, graph in zip(terms, log_densities(model, terms), strict=True):
        behind = set(ancestors([graph]))
        if value in behind and (v is z or (v is rv) == (path in behind)):
            raise NoVectors(f"{v.name!r} depends on {rv.name!r} otherwise")
    draw = drawn_from_prior(model, rv, start)
    if draw is None:
        raise NoVectors(f"{rv.name!r} cannot be drawn from its prior")
    return draw
