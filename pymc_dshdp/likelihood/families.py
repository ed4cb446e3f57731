"""A likelihood of a model, read for a family: its data, and its parameters at each state."""

import logging

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RNGConsumerOp

from pymc_dshdp.emissions.base import families
from pymc_dshdp.graph.pointwise import at_states, is_pointwise
from pymc_dshdp.graph.readers import in_values, point_function
from pymc_dshdp.graph.walks import concrete_shape, evaluate, has_op

__all__ = ["Likelihood", "TableTerm", "table_term"]

_log = logging.getLogger(__name__)


class Likelihood:
    """A likelihood ``Dist(f(theta[z]), ...)`` as a family sees it.

    Parameters
    ----------
    model : pymc.Model
    rv : TensorVariable
        The likelihood: observed, or free without a transform.
    z : TensorVariable
        A ``HiddenStates`` variable.
    n_states : int
    family : Family
    source : TensorVariable, optional
        Node of the model that has the likelihood's value, where it is not ``rv`` itself but
        observed and missing parts put together (see ``completed.py``).

    Attributes
    ----------
    T, C : int
        Time points, and the product of the other dimensions that are not core.
    trail : tuple of int
        Those dimensions.
    batch_ndim : int
        Axes before the core ones: those of z, then ``trail``.
    parameters : list of TensorVariable
        As the family takes them.
    core_ndims : list of int
    shapes : list of tuple
        Static core shapes of the parameters.
    """

    def __init__(self, model, rv, z, n_states, family, source=None):
        op = rv.owner.op
        self.name, self.family, self.n_states = rv.name, family, n_states
        self._model, self._z = model, z
        self.parameters = family.parameters_of(rv)
        self.core_ndims = [
            n if i in family.data_parameters else n - family.core_time
            for i, n in enumerate(_core_ndims(op, self.parameters))
        ]
        self.shapes = [
            p.type.shape[p.type.ndim - n :]
            for p, n in zip(self.parameters, self.core_ndims, strict=True)
        ]
        self._core_ndim = op.ndim_supp - family.core_time
        self.batch_ndim = rv.type.ndim - self._core_ndim
        [source] = [model.rvs_to_values[rv]] if source is None else in_values(model, [source])
        inputs = [v for v in ancestors([source]) if v.owner is None and not isinstance(v, Constant)]
        self._shared = [v for v in inputs if isinstance(v, SharedVariable)]
        self._inputs = [v.name for v in inputs if v not in self._shared]
        self._read = point_function([source])
        shape = concrete_shape(rv)
        n = z.type.ndim
        self.T = int(np.prod(shape[:n], dtype=int))
        self.trail = shape[n : self.batch_ndim]
        self.C = int(np.prod(self.trail, dtype=int))
        self._full = (1,) * (n - 1) + (n_states, *self.trail)
        self._data_parameters = [
            np.asarray(v, dtype="float64")
            for v in evaluate([self.parameters[i] for i in family.data_parameters])
        ]
        self._seen = self._data = None

    @staticmethod
    def accepts(model, rv, z, family):
        """Whether a random variable has the form that the family needs."""
        if not has_op(rv, family.likelihood):
            return False
        if rv not in model.observed_RVs and model.rvs_to_transforms.get(rv) is not None:
            return False
        op = rv.owner.op
        batch = rv.type.ndim - op.ndim_supp + family.core_time
        n = z.type.ndim
        if batch < n or (family.core_time and batch != n):
            return False
        if concrete_shape(rv)[:n] != concrete_shape(z):
            return False
        blockers = set(model.basic_RVs)
        parameters = family.parameters_of(rv)
        cores = _core_ndims(op, parameters)
        for i, (p, core) in enumerate(zip(parameters, cores, strict=True)):
            if i in family.data_parameters:
                if any(a.owner is not None and _is_random(a) for a in ancestors([p])):
                    return False
            elif not is_pointwise(p, z, batch + core - family.core_time, blockers):
                return False
        return True

    # -- data -------------------------------------------------------------------------------

    def data(self, point):
        """Return the prepared data: anew at each call if they are sampled, else once replaced.

        Sampled data are not told apart by their array: ``pm.sample`` writes each point of a
        worker process into the same memory.
        """
        seen = [v.get_value(borrow=True) for v in self._shared]
        replaced = self._data is None or any(
            a is not b for a, b in zip(seen, self._seen, strict=True)
        )
        if replaced or self._inputs:
            self._data = self._prepare(np.asarray(self._read(point)[0]))
            self._seen = seen
        return self._data

    def _prepare(self, raw):
        core = raw.shape[raw.ndim - self._core_ndim :]
        y = np.ascontiguousarray(raw, dtype="float64").reshape(self.T, self.C, *core)
        data_parameters = self._per_time(raw.shape[: self.batch_ndim])
        possible = self.family.in_support(y, data_parameters, self.shapes)
        if not np.all(possible):
            position = tuple(int(i) for i in np.argwhere(~possible)[0])
            index = np.ravel_multi_index(position[:2], (self.T, self.C))
            where = np.unravel_index(index, raw.shape[: self.batch_ndim])
            where = (*(int(i) for i in where), *position[2:])
            value = raw[where].tolist()
            if value == np.iinfo(np.int64).min:
                value = f"{value} (what an infinite value becomes as an integer)"
            raise ValueError(
                f"The observation {value} at position {where} of {self.name!r} is impossible: it "
                f"{self.family.requires(self.shapes)}"
            )
        return self.family.prepare(y, data_parameters, self.shapes)

    def _per_time(self, batch):
        """Lay out data parameters as (T, C, *core), or leave them where core has time."""
        if self.family.core_time:
            return self._data_parameters
        out = []
        for i, value in zip(self.family.data_parameters, self._data_parameters, strict=True):
            core = value.shape[value.ndim - self.core_ndims[i] :]
            full = np.broadcast_to(value, (*batch, *core))
            out.append(full.reshape(self.T, self.C, *core))
        return out

    # -- parameters -------------------------------------------------------------------------

    def graphs(self, positions):
        """Graphs in value variables of parameters at each state, padded to ``batch_ndim``."""
        values = in_values(self._model, [self.parameters[i] for i in positions])
        z_value = self._model.rvs_to_values[self._z]
        graphs = at_states(values, z_value, self.n_states) if values else []
        return [
            pt.atleast_Nd(g, n=self.batch_ndim + self.core_ndims[i])
            for i, g in zip(positions, graphs, strict=True)
        ]

    def arrange(self, array):
        """Array of a graph at each state as a contiguous (L, C, *core)."""
        core = array.shape[self.batch_ndim :]
        full = np.empty((*self._full, *core))
        full[...] = array
        return full.reshape(self.n_states, self.C, *core)


def _core_ndims(op, parameters):
    """Core dimensions of an op's parameters, and of what a family reads of them besides: none."""
    return (*op.ndims_params, *(0,) * (len(parameters) - len(op.ndims_params)))


def _is_random(node):
    return isinstance(node.owner.op, RNGConsumerOp)


class TableTerm:
    """Log-densities of one likelihood at each state, by its family.

    Attributes
    ----------
    times : ndarray of shape (E,)
        Time point of each element of the likelihood's log-density.
    """

    def __init__(self, model, rv, z, n_states, family):
        self._likelihood = Likelihood(model, rv, z, n_states, family)
        positions = [
            i for i in range(len(self._likelihood.parameters)) if i not in family.data_parameters
        ]
        self._family = family
        self._parameters = point_function(
            family.table_parameters(*self._likelihood.graphs(positions))
        )
        self.times = np.repeat(np.arange(self._likelihood.T), self._likelihood.C)
        if rv in model.observed_RVs:
            self._likelihood.data({})

    def __call__(self, point):
        """Table of shape (T, L)."""
        return self.rows(point)(0, self._likelihood.T)

    def rows(self, point, states=slice(None)):
        """Return a function that evaluates rows low..high - 1 of the states' columns."""
        parameters = [self._likelihood.arrange(x)[states] for x in self._parameters(point)]
        data = self._likelihood.data(point)

        def evaluate(low, high):
            part = self._family.rows(data, low, high)
            with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
                table = self._family.log_likelihoods(part, *parameters)
            if np.isnan(table.min()):
                table[np.isnan(table)] = -np.inf  # a parameter outside its support, as in PyMC
            return table

        return evaluate


def table_term(model, rv, z, n_states):
    """Ask the registry for the table of one term.

    Returns
    -------
    TableTerm or None
        None if no family can compute it.
    """
    if rv.owner is None or rv not in model.basic_RVs:
        return None
    for family in families():
        if Likelihood.accepts(model, rv, z, family):
            _log.debug("%s: table of %s by %s", z.name, rv.name, type(family).__name__)
            return TableTerm(model, rv, z, n_states, family)
    _log.debug("%s: table of %s from its log-density graph", z.name, rv.name)
    return None
