"""A model moved to other data: its hidden states and what depends on them, declared again.

Whatever is along the times must come from data that are replaced: observed values and ``pm.Data``,
of the likelihoods and of the self-persistence. A graph that holds anything else of the old times is
refused by name, also where the other data happen to be as long.
"""

import warnings

import numpy as np
import pymc as pm
from pymc.exceptions import ImputationWarning
from pymc.pytensorf import convert_data
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

from pymc_dshdp.analysis.moved_graphs import (
    evaluated,
    fixed,
    like,
    moved,
    original_name,
    rebuilt,
    refuse,
    replacing,
)
from pymc_dshdp.analysis.old_times import refuse_old_times
from pymc_dshdp.distributions._common import core
from pymc_dshdp.distributions.path import path_parameters
from pymc_dshdp.graph.terms import densities
from pymc_dshdp.graph.walks import is_cast
from pymc_dshdp.likelihood.missing import is_missing_observation
from pymc_dshdp.likelihood.observed import refuse_cast
from pymc_dshdp.model.groups import positions_of
from pymc_dshdp.transitions.record import record_in

__all__ = ["observed_on_states", "on_other_data", "positions_of_groups", "source_of"]


def on_other_data(model, z, observed, lengths=None, hold=fixed):
    """Declare the hidden states of a model, and what depends on them, on other data.

    Parameters
    ----------
    model : pymc.Model
    z : HiddenStates variable
    observed : dict
        Arrays by the name of an observed variable or a ``pm.Data``; see
        ``held_out_log_likelihood``.
    lengths : sequence of int, optional
    hold : callable
        ``hold(name, array)`` makes the variable that the new model has data in; see ``fixed``.

    Returns
    -------
    pymc.Model
        With the states, the variables that they and their observations depend on, and these.

    Raises
    ------
    ValueError, TypeError
        Naming what was not given, is not known or does not fit.
    """
    followers = observed_on_states(model, z)
    containers, values = _replacements(model, z, followers, observed)
    for v, x in containers.items():
        refuse_cast(v.name, x, v.dtype)
    memo = replacing(containers)
    values = {rv: _value(model, rv, values, containers, memo) for rv in followers}
    for rv, value in values.items():
        dtype = convert_data(np.ma.filled(value, 0)).dtype
        refuse_cast(original_name(model, rv), value, dtype, rv.dtype)
    _refuse_old_groups(model, z, containers)
    lengths, size = _layout(model, z, followers[0], values[followers[0]], lengths, memo)
    refuse_old_times(model, z, containers, values, lengths, size)
    moved_z, copies = moved(model, z, containers, values, lengths, size, hold=hold)
    behind = set(ancestors([z, *followers]))

    coords = _coords(model, z, size, lengths)
    with pm.Model(coords=coords, model=None) as new, warnings.catch_warnings():
        warnings.simplefilter("ignore", ImputationWarning)
        for rv in dict.fromkeys(model.basic_RVs):
            name = original_name(model, rv)
            if rv in values:
                new.register_rv(copies[rv], name, observed=like(copies[rv], values[rv]))
            elif rv in behind and not is_missing_observation(rv):
                if rv is not z and containers.keys() & set(ancestors([rv])):
                    refuse(name, "depends on data that are replaced, but is not observed")
                new.register_rv(
                    moved_z if rv is z else rv,
                    name,
                    dims=model.named_vars_to_dims.get(name),
                    transform=model.rvs_to_transforms[rv],
                    default_transform=None,
                )
    return new


def observed_on_states(model, z):
    """Observed variables that depend on the states.

    Raises
    ------
    ValueError
        If there are none, or if a latent variable or a Potential depends on them.
    """
    out = []
    for v in densities(model):
        blockers = [rv for rv in model.basic_RVs if rv is not v]
        if v is z or z not in set(ancestors([v], blockers=blockers)):
            continue
        if v in model.observed_RVs:
            out.append(v)
        elif not is_missing_observation(v):
            what = "potential" if v in model.potentials else "latent variable"
            refuse(v.name, f"is a {what} that depends on the states {z.name!r}")
    if not out:
        raise ValueError(f"no observed variable depends on the states {z.name!r}")
    return out


def _refuse_old_groups(model, z, containers):
    """Raise where it is not said which group the other sequences are of."""
    record = record_in(model, z)
    if record.group is not None and model.named_vars[record.group] not in containers:
        raise ValueError(
            f"the transitions of {z.name!r} differ between the groups {record.groups!r}; say which "
            f"group each of the other sequences, or each of their times, is of: give "
            f"{record.group!r} too, by label or position from 0"
        )


# -- which data are replaced ------------------------------------------------------------------


def source_of(value):
    """Return what holds the data of an observed variable, behind a cast."""
    while is_cast(value):
        value = value.owner.inputs[0]
    return value


def _replacements(model, z, followers, observed):
    """Sort the argument into new values of pm.Data and of observed variables."""
    if not isinstance(observed, dict) or not observed:
        raise TypeError(f"observed must be a dict of arrays by name, received {observed!r}")
    by_name = {original_name(model, rv): rv for rv in followers}
    behind = set(ancestors([z, *followers, *(model.rvs_to_values[rv] for rv in followers)]))
    containers = {
        name: v
        for name, v in model.named_vars.items()
        if isinstance(v, SharedVariable) and v in behind
    }
    record = record_in(model, z)
    replaced, values = {}, {}
    for name, given in observed.items():
        array = given if np.ma.isMaskedArray(given) else np.asarray(given)
        if name == record.group:
            array = positions_of_groups(model, record, array, "observed")
        if name in by_name:
            rv = by_name[name]
            ndim, dtype = (model[name] if name in model.named_vars else rv).type.ndim, rv.dtype
            values[rv] = array
            source = source_of(model.rvs_to_values[rv])
            if isinstance(source, SharedVariable):
                replaced[source] = array
        elif name in containers:
            ndim, dtype = containers[name].type.ndim, containers[name].dtype
            replaced[containers[name]] = array
        else:
            raise ValueError(
                f"observed has {name!r}, which is neither an observed variable that depends on the "
                "states nor a pm.Data that they depend on; it may name "
                f"{sorted({*by_name, *containers})}"
            )
        if array.ndim != ndim or array.size == 0:
            raise ValueError(
                f"observed[{name!r}] must have {ndim} dimensions and not be empty, received shape "
                f"{array.shape}"
            )
        if np.issubdtype(dtype, np.integer) and np.any(np.ma.filled(array != np.floor(array), 0)):
            raise TypeError(f"observed[{name!r}] must have integers, received {given!r}")
    return replaced, values


def positions_of_groups(model, record, given, argument):
    """Positions of groups that may be given by labels, as ``HiddenStates`` takes them."""
    where, labels = f"{argument}[{record.group!r}]", model.coords[record.groups]
    if given.dtype.kind not in "iufb":
        given = positions_of(where, record.groups, labels, given)
    wrong = given[(given < 0) | (given >= len(labels))]
    if wrong.size:
        raise ValueError(
            f"{where} must be positions 0 to {len(labels) - 1} of {record.groups!r}, or labels "
            f"that are not numbers, of {list(labels)}; received {wrong.flat[0]}"
        )
    return given


def _value(model, rv, values, containers, memo):
    """Get the value of an observed variable: given, or computed from the pm.Data given."""
    if rv in values:
        return values[rv]
    source = source_of(model.rvs_to_values[rv])
    if source in containers:
        return containers[source]
    if not memo.keys() & set(ancestors([source])):
        raise ValueError(
            f"observed must have data for {original_name(model, rv)!r} too, which depends on the "
            f"same states; received only {sorted([v.name for v in [*containers, *values]])}"
        )
    return np.asarray(rebuilt([source], memo, ())[0].eval())


# -- the states -------------------------------------------------------------------------------


def _layout(model, z, rv, value, lengths, memo):
    """(sequence lengths, size of a batch or None) on the new data, of which ``value`` is one."""
    extents = [int(n) for n in np.shape(value)[: z.type.ndim]]
    if lengths is not None:
        given = np.asarray(lengths)
        if given.ndim != 1 or not np.issubdtype(given.dtype, np.integer) or np.any(given < 1):
            raise ValueError(f"lengths must be positive integers, received {lengths!r}")
        if z.type.ndim == 2:
            raise ValueError(
                f"the states {z.name!r} are a batch of sequences of one length, so that lengths "
                f"has nothing to say; leave it out, received {lengths!r}"
            )
        return given.astype("int64"), None
    if z.type.ndim == 2:
        return np.array([extents[1]]), (extents[0],)
    [symbolic] = rebuilt([core(path_parameters(z).lengths, 1)], memo, ())
    now = np.asarray(symbolic.eval()).astype("int64")
    follows = memo.keys() & set(ancestors([path_parameters(z).lengths]))
    if follows or now.sum() == extents[0] or _old_shape(model, rv) == np.shape(value):
        return now, None
    if now.size > 1:
        raise ValueError(
            f"the model has {now.size} sequences in {z.name!r}; give the lengths of the new ones, "
            f"lengths=[...] with a sum of {extents[0]}"
        )
    return np.array(extents, "int64"), None


def _old_shape(model, rv):
    value = model.rvs_to_values[rv]
    return value.data.shape if isinstance(value, Constant) else evaluated([value])[0].shape


def _coords(model, z, size, lengths):
    """Coordinates of the model, but of the states' dimensions those that still fit."""
    extents = dict(
        zip(model.named_vars_to_dims.get(z.name, ()), (*(size or ()), lengths.sum()), strict=False)
    )
    return {
        dim: values
        for dim, values in model.coords.items()
        if values is not None and extents.get(dim, len(values)) == len(values)
    }
