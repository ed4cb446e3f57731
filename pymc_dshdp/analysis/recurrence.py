"""Transitions that depend on the observations before them, and what forecasts do about them.

A covariate of the transitions may be computed from the ``pm.Data`` that hold the observations. The
density given the data needs no care: row t of the covariate is known at time t. A forecast draws
the observations, and so must feed each of them back before it draws the next state. Of which time
an element of the transitions depends on the observation is proved from its graph, as it is of
states (see ``graph.placing``).
"""

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import ancestors

from pymc_dshdp.analysis.draws import chosen_states
from pymc_dshdp.analysis.other_data import source_of
from pymc_dshdp.emissions.autoregression import SwitchingVARRV
from pymc_dshdp.graph.dependence import NONE
from pymc_dshdp.graph.path import path_lengths
from pymc_dshdp.graph.placing import Dependence, SeveralTimes, inlined, lowered
from pymc_dshdp.graph.readers import in_values
from pymc_dshdp.graph.walks import as_tensor, evaluate, has_op

__all__ = ["fed_back"]


DEEPEST = 16  # times before, up to which observations are fed back


def fed_back(model, z, followers, anew=False):
    """Find the observed variables whose values at the times before the transitions depend on.

    Parameters
    ----------
    model : pymc.Model
    z : HiddenStates variable
    followers : list of observed variables
        Those that depend on the states, and are drawn by a forecast.
    anew : bool
        Whether sequences are drawn from their beginning.

    Returns
    -------
    fed : list of observed variables
    depth : int
        How many times before; 0 where there are none.

    Raises
    ------
    ValueError
        If transitions or a likelihood depend on observations otherwise.
    """
    fed, depth = [], 0
    for rv in followers:
        data = source_of(model.rvs_to_values[rv])
        if isinstance(data, SharedVariable):
            for other in followers:
                _refuse_lags(model, z, data, rv, other)
            found = _depth(model, z, data, rv, anew)
            if found > 0:
                fed.append(rv)
                depth = max(depth, found)
    return fed, depth


def _refuse_lags(model, z, data, rv, other):
    """Raise if the density of an observed variable depends on observations, but for its own value.

    The first rows of an autoregression are known, and its lags follow a forecast.
    """
    op = other.owner.op
    known = has_op(other, SwitchingVARRV) and other is rv
    parameters = op.dist_params(other.owner) if hasattr(op, "dist_params") else other.owner.inputs
    parameters = [v for v in parameters if hasattr(v.type, "ndim")]
    times = _times(model, z, data, parameters[:2] if known else parameters)
    if times is None or any((t != NONE).any() for t in times):
        raise ValueError(
            f"the likelihood of {other.name!r} depends on {data.name!r}, the observations of "
            f"{rv.name!r}, which a forecast draws. If the mean depends on past observations, as in "
            "phi[z] * y[t-1], declare the likelihood as SwitchingVAR, whose lags follow it"
        )


def _depth(model, z, data, rv, anew):
    """How many of the times before a transition depends on the observations of, and on no others.

    An element is proved to depend on a window of times alone where these have one label, and it
    depends on that. With windows of d times laid end to end from each of d beginnings, each
    transition comes right after one of them. Transitions to the first d times of a sequence lead
    to no time ahead; of a new sequence they may depend on the times that it has had.
    """
    transitions = _Transitions(model, z, data)
    if not transitions.depend:
        return 0
    depth = 1
    while depth <= DEEPEST and not transitions.follow(depth):
        depth *= 2
    while 1 < depth <= DEEPEST and transitions.follow(depth - 1):
        depth -= 1
    if depth > DEEPEST:
        raise ValueError(
            f"the transitions of {z.name!r} depend on {data.name!r}, the observations of "
            f"{rv.name!r}, of other times than up to {DEEPEST} before, or of more than sequences "
            "of this length can show. A forecast feeds back the observations before each "
            f"transition: compute the covariate from these alone, as {data.name}[t - 1] or "
            f"{data.name}[t - 2] at time t"
        )
    if anew and not transitions.begin(depth):
        raise ValueError(
            f"the transitions of {z.name!r} to the first {depth} times of a sequence depend on "
            f"observations of {rv.name!r} that it has not had then, so that a new one has no "
            f"beginning to draw from; let {data.name} be a batch, and zeros stand before it, or "
            "leave anew out"
        )
    return depth


class _Transitions:
    """Of which labels of observations the transitions to each time depend."""

    def __init__(self, model, z, data):
        prior, _ = chosen_states(model, z.name)
        self._index = prior.indices[prior.states.index(z)]
        self._model, self._z, self._data = model, z, data
        self._graphs, self._L = [prior.kappa, prior.pi_bar, self._index], prior.n_states
        start = model.initial_point()
        self._shape = start[model.rvs_to_values[z].name].shape
        lengths = path_lengths(model, z, start)
        self._time = np.arange(lengths.sum())
        starts = np.cumsum(lengths) - lengths
        self._sequence = np.repeat(np.arange(lengths.size), lengths)
        self._place = self._time - starts[self._sequence]
        found = self._found(self._time)
        self.depend = found is None or any((t != NONE).any() for t in found)

    def _found(self, labels):
        return _times(self._model, self._z, self._data, self._graphs, labels)

    def _rows(self, labels):
        """Labels by time, a row for each; None where they cannot be told."""
        found = self._found(labels)
        if found is None:
            return None
        (kappa, pi_bar, along), L, shape = found, self._L, self._shape
        rows = [np.broadcast_to(kappa, (*shape, L)).reshape(-1, L)] if kappa.ndim > 1 else []
        if along.size:
            rows.append(np.broadcast_to(along, shape).reshape(-1, 1))
        if (pi_bar != NONE).any() and (along == NONE).all():
            [which] = evaluate(in_values(self._model, [self._index]))
            rows.append(pi_bar.reshape(-1, L * L)[np.broadcast_to(which, shape).ravel()])
        elif (pi_bar != NONE).any():
            every = pi_bar.reshape(1, -1)  # a row that any time may take
            rows.append(np.broadcast_to(every, (self._time.size, every.size)))
        return np.concatenate(rows, axis=1)

    def follow(self, depth):
        """Whether transitions after the first times depend on that many times before, no others.

        Not unless there is one to a later time, which would show that all before matter.
        """
        if self._place.max() < 2 * depth - 1:
            return False
        for offset in range(depth):
            labels = (self._time + offset) // depth
            rows = self._rows(labels)
            ahead = (self._place >= depth) & ((self._time + offset) % depth == 0)
            if rows is None or not _of(rows, labels - 1)[ahead].all():
                return False
        return True

    def begin(self, depth):
        """Whether transitions to the first times depend on the times that the sequence has had."""
        N = self._sequence[-1] + 1
        for place in range(1, depth):
            labels = np.where(self._place < place, self._sequence, N + self._time)
            rows = self._rows(labels)
            if rows is None or not _of(rows, self._sequence)[self._place == place].all():
                return False
        return True


def _of(rows, label):
    """Whether all elements of each row are of its label, or of none."""
    return ((rows == NONE) | (rows == label[:, None])).all(axis=1)


def _times(model, z, data, graphs, labels=None):
    """Of which label (time) elements of graphs depend on data; None where shapes do."""
    graphs = [lowered(as_tensor(g)) for g in in_values(model, graphs)]
    if data not in set(ancestors(graphs)):
        return [np.full(1, NONE)] * len(graphs)
    shape, n = data.get_value(borrow=True).shape, z.type.ndim
    if labels is None:
        labels = np.arange(int(np.prod(shape[:n])))
    labels = labels.reshape(*shape[:n], *[1] * (len(shape) - n))
    labels = np.broadcast_to(labels, shape).copy()
    try:
        return Dependence(inlined(graphs), data, shape, model.initial_point(), labels).run()
    except SeveralTimes:
        return None
