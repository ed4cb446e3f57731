"""Any likelihood as a table: log-densities that involve z_t, at z_t = k.

Terms that an emission family knows are matrix products (see ``likelihood/families.py``). For
all others the model's own log-density graph is evaluated on constant paths z = k, all at once.
Which element of it belongs to which time point is proved from the graph (``graph/placing.py``).
"""

import logging
import warnings
from functools import partial

import numpy as np
import pytensor
import scipy.sparse as sp
from pymc.exceptions import SamplingError
from pymc.pytensorf import compile as compile_pymc
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors, explicit_graph_inputs

from pymc_dshdp.graph.path import known_states
from pymc_dshdp.graph.placing import SeveralTimes, place
from pymc_dshdp.graph.pointwise import indexed_variable
from pymc_dshdp.graph.readers import quiet_at_first
from pymc_dshdp.graph.terms import densities, log_densities
from pymc_dshdp.likelihood.families import table_term
from pymc_dshdp.likelihood.lengths import refuse_other_lengths
from pymc_dshdp.likelihood.observed import observed_data, time_columns
from pymc_dshdp.likelihood.partial import PartialNormal, has_marginal_density

__all__ = ["LogLikelihoodTable", "terms_involving"]

_log = logging.getLogger(__name__)

CHUNK_BYTES = 64e6


def terms_involving(model, z):
    """Random variables and potentials, other than z, whose log-density contains z's value.

    Parameters
    ----------
    model : pymc.Model
    z : TensorVariable
        A ``HiddenStates`` variable of the model.

    Returns
    -------
    list of (variable, graph)
        The elementwise log-density graphs, in value variables.
    """
    value = model.rvs_to_values[z]
    variables = [v for v in densities(model) if v is not z]
    graphs = log_densities(model, variables)
    return [
        (variable, graph)
        for variable, graph in zip(variables, graphs, strict=True)
        if value in set(ancestors([graph]))
    ]


class LogLikelihoodTable:
    """Table of the log-densities that involve z_t, at z_t = k, of any PyMC model.

    ``table(point)[t, k]`` is the sum over all terms of the log-density elements that depend on
    z_t, with z_t set to k; elements that do not depend on z at all are left out.

    Parameters
    ----------
    model : pymc.Model
    z : TensorVariable
        A ``HiddenStates`` variable of the model.
    n_states : int
        L.
    without : set of random variables, optional
        Variables to leave out because they integrate to one (missing observations).
    start : dict, optional
        An initial point of the model, where one is at hand.

    Attributes
    ----------
    names : list of str
        The variables and potentials that involve z; empty if nothing does.
    parameters : set of str
        The value variables that they involve beside z.
    shape : tuple of int
        Of the states.
    known : ndarray of shape (T,), or None
        Known states, -1 where there is none. The table has -inf in every other state.

    Raises
    ------
    ValueError
        If an element cannot be shown to depend on the states at one time only, naming the
        variable and the expression at fault.
    """

    def __init__(self, model, z, n_states, without=(), start=None):
        self.n_states = n_states
        self.z_value = model.rvs_to_values[z]
        start = model.initial_point() if start is None else start
        refuse_other_lengths(model, z)
        terms = [(v, g) for v, g in terms_involving(model, z) if v not in without]
        self.names = [v.name for v, _ in terms]
        behind = set(ancestors([graph for _, graph in terms]))
        self.parameters = {v.name for v in model.value_vars if v in behind} - {self.z_value.name}
        self.shape = start[self.z_value.name].shape
        self._T = int(np.prod(self.shape))
        self.known = known_states(z, self.shape)
        if not terms:
            warnings.warn(
                f"No likelihood depends on {z.name!r}: its prior is sampled. Index a parameter "
                f"with it, as in pm.Poisson('y', rate[{z.name.split('::')[-1]}], observed=y).",
                UserWarning,
                stacklevel=2,
            )
            self._observed = self._by_family = []
            return
        _refuse_other_sizes(terms, self.z_value, n_states)
        observed = {v: observed_data(model, v) for v, _ in terms}
        found = [(v, _fast_term(model, v, z, n_states)) for v, _ in terms]
        self._by_family = [term for _, term in found if term is not None]
        graphs = [g for (_, g), (_, term) in zip(terms, found, strict=True) if term is None]
        found.sort(key=lambda pair: pair[1] is not None)  # terms without a family come first
        self.names = [v.name for v, _ in found]
        self._observed = [observed[v] for v, _ in found]
        self._times = [term.times for term in self._by_family]
        if not graphs:
            return
        self._place(graphs, start)
        self._compile()

    def __call__(self, point):
        """Evaluate the table.

        Parameters
        ----------
        point : dict
            Values of the value variables; the entry of z is not used.

        Returns
        -------
        ndarray of shape (T, L)
            For a batch of sequences the rows run over the flattened states.
        """
        return self.rows(point)(0, self._T)

    def rows(self, point, states=slice(None)):
        """Evaluate the table part by part, as ``table(point)[low:high, states]``.

        Terms without a family are evaluated at once, for all times.

        Parameters
        ----------
        point : dict
        states : ndarray of int, optional
            The columns.

        Returns
        -------
        callable
            ``rows(low, high)``, a row for each time; safe to call from several threads.
        """
        terms = [term.rows(point, states) for term in self._by_family]
        columns = np.arange(self.n_states)[states]
        whole = self._whole(point, columns) if len(terms) < len(self.names) else None

        def evaluate(low, high):
            parts = [term(low, high) for term in terms]
            if whole is not None:
                parts.append(whole[low:high])
            table = parts[0] if parts else np.zeros((high - low, columns.size))
            for part in parts[1:]:
                table += part
            if self.known is not None:
                known = self.known[low:high, None]
                table[(columns != known) & (known >= 0)] = -np.inf
            return table

        return evaluate

    def _whole(self, point, columns):
        """Sum of the terms without a family at the states that are columns."""
        self._refuse_other_places()
        table = np.zeros((self._T, columns.size))
        for low in range(0, columns.size, self._chunk):
            states = columns[low : low + self._chunk]
            paths = np.broadcast_to(states[:, None], (len(states), self._T))
            values, part = self._evaluate(point, paths), table[:, low : low + len(states)]
            checks = []
            for placed, add in zip(self._places, self._adders, strict=True):
                value = values.pop(0)
                if value.shape[1] != placed.times.size:
                    raise SamplingError(
                        f"{' or '.join(self.names)} had {placed.times.size} elements when the step "
                        f"was built and has {value.shape[1]} now; build the step again"
                    )
                _refuse_impossible(value, placed.times, self.names)
                add(part, value)
                checks += [(check, values.pop(0)) for check in placed.checks]
            for check, holds in sorted(checks, key=lambda pair: not pair[0].whole):
                if not holds.all():
                    self._apply(check, holds, part)
        return table

    def _apply(self, check, holds, part):
        """Make states impossible where a check of their parameters does not hold."""
        column, element = np.nonzero(~holds)
        time = check.times[element]
        wrong = np.zeros(part.shape, bool)
        wrong[time[time >= 0], column[time >= 0]] = True
        wrong[:, column[time < 0]] = True
        if check.whole:
            part[wrong] = -np.inf
        elif np.any(part[wrong] != -np.inf):
            raise SamplingError(
                f"A parameter of a part of {' or '.join(self.names)}, such as a component of a "
                "mixture, has left its support in some state, where PyMC takes the part away at "
                "all times; write it so that it stays inside, as with pt.exp or pt.softplus"
            )

    def features(self):
        """Collect what was observed at each time point, for choosing a starting path.

        Returns
        -------
        ndarray of shape (T, F)
            Columns, one per datum of a time point (counts by their square root, categories one
            by one); NaN where nothing was observed.
        """
        columns = [np.empty((int(np.prod(self.shape)), 0))]
        for (data, kind), time in zip(self._observed, getattr(self, "_times", ()), strict=False):
            if data is not None:
                columns.append(time_columns(data, kind, time, self._T))
        return np.concatenate(columns, axis=1)

    # -- evaluation -------------------------------------------------------------------------

    def _place(self, graphs, start):
        """Find which element belongs to which time point."""
        self._places = []
        for name, graph in zip(self.names, graphs, strict=False):
            try:
                self._places.append(place(graph, self.z_value, self.shape, start))
            except SeveralTimes as error:
                raise ValueError(
                    f"{name!r} couples the states {self.z_value.name!r} at several times: in its "
                    f"log-density, {error}, so that they cannot be drawn by forward filtering. "
                    "Write it so that each element depends on one z_t (theta[z], theta[z[1:]], "
                    "theta[z] * x, ...), with indices that are constants or data; scans over "
                    "states, and functions of neighbouring ones, are not supported."
                ) from None
        self._times = [*(p.times for p in self._places), *self._times]
        self._adders = [_adder(p.times, self._T) for p in self._places]
        self._data = {v: x for p in self._places for v, x in p.data.items()}
        asked = {v: x for p in self._places for v, x in p.asked.items()}
        self._asked = list(asked.values())
        self._ask = self._asking(list(asked), start) if asked else None

    def _asking(self, graphs, start):
        """Compile graphs that only shared variables, and the shapes of others, determine."""
        now = {**start, self.z_value.name: np.zeros(self.shape, self.z_value.dtype)}
        inputs = list(explicit_graph_inputs(graphs))
        function = pytensor.function(inputs, graphs, mode="FAST_COMPILE")
        return partial(function, *(now[v.name] for v in inputs))

    def _refuse_other_places(self):
        """Raise if data that say which element belongs to which time were replaced since.

        Other data that say the same are right.
        """
        now = {shared: shared.get_value(borrow=True) for shared in self._data}
        if all(now[v] is x or np.array_equal(now[v], x) for v, x in self._data.items()):
            self._data = now
            return
        if not all(map(np.array_equal, self._ask(), self._asked)):
            names = [f"{v.name!r}" for v, x in self._data.items() if not np.array_equal(now[v], x)]
            raise SamplingError(
                f"{' or '.join(names)}, which says which element of {' or '.join(self.names)} "
                "belongs to which time, was replaced since the step was built; build it again"
            )
        self._data = now

    def _compile(self):
        value = self.z_value
        graphs = [g for p in self._places for g in (p.graph, *(c.graph for c in p.checks))]
        batch_type = value.type.clone(shape=(None, *value.type.shape))
        batch = batch_type(name=f"{value.name}_paths")
        self._batched = True
        try:
            outputs = vectorize_graph(graphs, {value: batch})
            self._function, self._inputs = _compiled(outputs, batch)
        except Exception as error:
            _log.debug("%s: evaluated state by state (%s)", value.name, error)
            self._batched = False
            self._function, self._inputs = _compiled(graphs, value)
        sizes = [_static_size(v) for v in ancestors(graphs)]
        largest = max([1, *sizes, *(p.times.size for p in self._places)])
        self._chunk = int(max(1, CHUNK_BYTES // (8 * largest)))
        self._places = [p.without_graphs() for p in self._places]  # they are pickled with the step

    def _evaluate(self, point, paths):
        """Elementwise log-densities on paths of shape (B, T): a list of (B, E) arrays."""
        paths = np.asarray(paths, dtype=self.z_value.dtype).reshape(-1, *self.shape)
        values = [point[name] for name in self._inputs]
        if self._batched:
            out = self._function(paths, *values)
            return [
                np.broadcast_to(v, (len(paths), *v.shape[1:])).reshape(len(paths), -1) for v in out
            ]
        out = [self._function(path, *values) for path in paths]
        return [np.stack([np.ravel(v) for v in term]) for term in zip(*out, strict=True)]


def _fast_term(model, variable, z, n_states):
    """Table of a term that needs no log-density graph, or None."""
    if has_marginal_density(variable):
        return PartialNormal(model, variable)
    return table_term(model, variable, z, n_states)


def _refuse_other_sizes(terms, z, n_states):
    """Raise if something indexed by z does not have one entry for each state."""
    for variable, graph in terms:
        for node in ancestors([graph]):
            theta = indexed_variable(node, z)
            size = None if theta is None else theta.type.shape[0]
            if size is not None and size != n_states:
                few = "only " if size < n_states else ""
                raise ValueError(
                    f"{variable.name!r} indexes with {z.name!r}, which has {n_states} states, a "
                    f"parameter that has {few}{size}; declare it with the dims of the states"
                )


def _compiled(outputs, path):
    found, known = explicit_graph_inputs(outputs), (Constant, SharedVariable)
    inputs = [v for v in found if v is not path and not isinstance(v, known)]
    function = compile_pymc([path, *inputs], outputs, mode="NUMBA", on_unused_input="ignore")
    return quiet_at_first(function), [v.name for v in inputs]


def _static_size(variable):
    shape = getattr(variable.type, "shape", None)
    if shape is None or variable.owner is None or any(s is None for s in shape):
        return 0
    return int(np.prod(shape))


def _refuse_impossible(values, times, names):
    """Raise if an element that does not depend on the states is impossible or NaN."""
    [constant] = np.nonzero(times < 0)
    wrong = constant[~np.isfinite(values[0, constant])]
    if wrong.size:
        raise SamplingError(
            f"Element {wrong[0]} of the log-density of {' or '.join(names)} is "
            f"{values[0, wrong[0]]} in every state: the observation is impossible under the model, "
            "or a parameter is outside its support; check both."
        )


def _adder(time, T):
    """Return a function that adds elements (B, E) to a table (T, B) by their times."""
    if np.array_equal(time, np.arange(T)):

        def add(table, values):
            table += values.T

    elif time.size % T == 0 and np.array_equal(time, np.repeat(np.arange(T), time.size // T)):

        def add(table, values):
            table += values.reshape(len(values), T, -1).sum(axis=2).T

    else:
        used = np.flatnonzero(time >= 0)
        gather = sp.csr_array((np.ones(used.size), (time[used], used)), (T, time.size))

        def add(table, values):
            table += gather @ values.T

    return add
