"""Which elements of the parameters enter the likelihood of which state: learnt by probing.

A metric may be built on it, whose draws are exact whatever the metric; nothing else may, for
probing proves nothing (``graph/gathers.py`` does). On a path that is k throughout, the gradient of
the terms that depend on the states is zero in every parameter that state k does not use. So
``theta[z]``, stacked scalars, cumulated sums and shared parameters need no special case.
"""

from itertools import islice
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.vartypes import continuous_types
from pytensor.graph.traversal import ancestors

from pymc_dshdp.graph.readers import python_function
from pymc_dshdp.graph.walks import as_tensor
from pymc_dshdp.likelihood.probing import probe_points

__all__ = ["Membership", "find_membership"]

POINTS = 3  # in general position
RANDOM_PATHS = 4  # on which what the constant ones say is verified


class Membership(NamedTuple):
    """Use of the elements of some value variables by the states.

    The states of all priors stand end to end: S in all. Paths of one prior share its states.

    Attributes
    ----------
    states : list of tuple (prior, first, names)
        Each prior, the position of its first state, and the names of its paths.
    n_states : int
        S.
    uses : dict
        Value variable to a boolean array (size, S): whether an element enters the likelihood of a
        time at which the path is in a state.
    coupled : set of value variables
        Those of which that is not known: the density of a path contains them, or a term depends
        on several paths at once, or an element depends on states that no constant path shows.
    paths : list of value variables
    """

    states: list
    n_states: int
    uses: dict
    coupled: set
    paths: list

    def of_paths(self):
        """((position of its first state, number of states), path) of each path."""
        by_name = {z.name: z for z in self.paths}
        for prior, first, names in self.states:
            yield from (((first, prior.n_states), by_name[name]) for name in names)


def find_membership(model, priors, terms, start):
    """Learn which elements of the continuous value variables which states use.

    Parameters
    ----------
    model : pymc.Model
    priors : list of TransitionModel
    terms : list of (variable, graph)
        The densities of the model and their elementwise graphs in value variables.
    start : dict
        A point of the model.

    Returns
    -------
    Membership
    """
    states, first = [], 0
    for prior in priors:
        names = [model.rvs_to_values[z].name for z in prior.states]
        states.append((prior, first, names))
        first += prior.n_states
    continuous = [v for v in model.value_vars if v.dtype in continuous_types]
    paths = [model.rvs_to_values[z] for prior in priors for z in prior.states]
    membership = Membership(states, first, {}, set(), paths)
    of_path = {z: [] for z in paths}
    rng = np.random.default_rng(first)
    for variable, graph in terms:
        behind = set(ancestors([graph]))
        used = behind & set(paths)
        if model.rvs_to_values.get(variable) in paths or len(used) > 1:
            membership.coupled.update(behind & set(continuous))
        elif used:
            of_path[used.pop()].append(graph)
    for prior, low, _ in states:
        for z in prior.states:
            value = model.rvs_to_values[z]
            _probe(membership, model, value, of_path[value], (low, prior.n_states), start, rng)
    return membership


def _probe(membership, model, z, graphs, states, start, rng):
    """Add what the terms of one path use."""
    behind = set(ancestors(graphs))
    values = [v for v in model.value_vars if v.dtype in continuous_types and v in behind]
    if not values:
        return
    low, n_states = states
    gradient = _gradient(graphs, values)
    shape = start[z.name].shape
    sizes = [start[v.name].size for v in values]
    uses = np.zeros((sum(sizes), n_states), bool)
    finite = np.zeros((sum(sizes), n_states), bool)
    points = list(islice(probe_points(model, start), POINTS))
    for point in points:
        for k in range(n_states):
            slope = gradient({**point, z.name: np.full(shape, k, z.dtype)})
            finite[:, k] |= np.isfinite(slope)
            uses[:, k] |= np.isfinite(slope) & (slope != 0.0)
    uses |= ~finite
    hidden = np.zeros(sum(sizes), bool)
    for i in range(RANDOM_PATHS):
        some = rng.permutation(n_states)[: 1 + i * n_states // RANDOM_PATHS]
        path = rng.choice(some, size=shape)
        slope = gradient({**points[i % POINTS], z.name: path.astype(z.dtype)})
        seen = uses[:, np.unique(path)].any(axis=1)
        hidden |= np.isfinite(slope) & (slope != 0.0) & ~seen
    ends = np.cumsum(sizes)[:-1]
    for value, own, unknown in zip(
        values, np.split(uses, ends), np.split(hidden, ends), strict=True
    ):
        known = membership.uses.setdefault(value, np.zeros((len(own), membership.n_states), bool))
        known[:, low : low + n_states] |= own
        if unknown.any():
            membership.coupled.add(value)


def _gradient(graphs, values):
    """Compile ``f(point) -> gradient`` of the sum of graphs."""
    total = sum(graph.sum() for graph in graphs)
    call = python_function([pt.concatenate([as_tensor(g).ravel() for g in pt.grad(total, values)])])

    def evaluate(point):
        with np.errstate(all="ignore"):
            return call(point)[0]

    return evaluate
