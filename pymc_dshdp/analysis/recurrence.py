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


def fed_back(model, z, followers):
    """Find the observed variables whose values at the time before the transitions depend on.

    Parameters
    ----------
    model : pymc.Model
    z : HiddenStates variable
    followers : list of observed variables
        Those that depend on the states, and are drawn by a forecast.

    Returns
    -------
    list of observed variables

    Raises
    ------
    ValueError
        If transitions or a likelihood depend on observations otherwise.
    """
    out = []
    for rv in followers:
        data = source_of(model.rvs_to_values[rv])
        if isinstance(data, SharedVariable):
            for other in followers:
                _refuse_lags(model, z, data, rv, other)
            if _lead_to_transitions(model, z, data, rv):
                out.append(rv)
    return out


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


def _lead_to_transitions(model, z, data, rv):
    """Whether transitions depend on the observations of the time before, and no others."""
    prior, _ = chosen_states(model, z.name)
    index = prior.indices[prior.states.index(z)]
    found = _times(model, z, data, [prior.kappa, prior.pi_bar, index])
    if found is not None:
        kappa, pi_bar, along = found
        if not any((t != NONE).any() for t in found):
            return False
        start = model.initial_point()
        shape, L = start[model.rvs_to_values[z].name].shape, prior.n_states
        lengths = path_lengths(model, z, start)
        inner = np.ones(int(np.prod(shape)), bool)
        inner[np.cumsum(lengths) - lengths] = False
        rows = [np.broadcast_to(kappa, (*shape, L)).reshape(-1, L)] if kappa.ndim > 1 else []
        if along.size:
            rows.append(np.broadcast_to(along, shape).reshape(-1, 1))
        if (pi_bar != NONE).any() and (along == NONE).all():
            [which] = evaluate(in_values(model, [index]))
            rows.append(pi_bar.reshape(-1, L * L)[np.broadcast_to(which, shape).ravel()])
        elif (pi_bar != NONE).any():
            rows.append(pi_bar.reshape(1, -1))  # a row that any time may take
        before = np.arange(inner.size)[:, None] - 1
        if all(((t == NONE) | (t == before))[inner].all() for t in rows):
            return True
    raise ValueError(
        f"the transitions of {z.name!r} depend on {data.name!r}, the observations of {rv.name!r}, "
        "of other times than the one before. A forecast feeds back the observation before each "
        f"transition: compute the covariate from it alone, as {data.name}[t - 1] at time t"
    )


def _times(model, z, data, graphs):
    """Of which time elements of graphs depend on data; None where they may be of several."""
    graphs = [lowered(as_tensor(g)) for g in in_values(model, graphs)]
    if data not in set(ancestors(graphs)):
        return [np.full(1, NONE)] * len(graphs)
    shape, n = data.get_value(borrow=True).shape, z.type.ndim
    labels = np.arange(int(np.prod(shape[:n]))).reshape(*shape[:n], *[1] * (len(shape) - n))
    labels = np.broadcast_to(labels, shape).copy()
    try:
        return Dependence(inlined(graphs), data, shape, model.initial_point(), labels).run()
    except SeveralTimes:
        return None
