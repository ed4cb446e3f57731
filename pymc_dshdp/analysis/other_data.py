"""A model moved to other data: its hidden states and what depends on them, declared again.

Whatever has the length of the data must come from data that are replaced: observed values and
``pm.Data``, of the likelihoods and of the self-persistence. A graph that holds anything else of the
old length does not fit, and is refused by name.
"""

import warnings

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.distribution import PartialObservedRV
from pymc.exceptions import ImputationWarning
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_dshdp.distributions._common import core
from pymc_dshdp.distributions.path import NOTHING_KNOWN
from pymc_dshdp.emissions.autoregression import SwitchingVARRV
from pymc_dshdp.graph.walks import concrete_shape, densities, has_op, is_cast
from pymc_dshdp.likelihood.completed import split_observation
from pymc_dshdp.likelihood.missing import is_missing_observation
from pymc_dshdp.likelihood.observed import refuse_fractions

__all__ = ["observed_on_states", "on_other_data", "original_name", "rebuilt"]

ADVICE = (
    "Declare the model again on the other data and pass that model instead, or declare it with "
    "the data in pm.Data and the states with length=data.shape[0]"
)
SHAPES_ONLY = Mode(linker="py", optimizer="fast_run").excluding("fusion", "inplace")


def on_other_data(model, z, observed, lengths=None):
    """Declare the hidden states of a model, and what depends on them, on other data.

    Parameters
    ----------
    model : pymc.Model
    z : HiddenStates variable
    observed : dict
        Arrays by the name of an observed variable or a ``pm.Data``; see
        ``held_out_log_likelihood``.
    lengths : sequence of int, optional

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
    memo = {v: pt.constant(np.ma.filled(x, 0).astype(v.dtype)) for v, x in containers.items()}
    values = {rv: _value(model, rv, values, containers, memo) for rv in followers}
    for rv, value in values.items():
        refuse_fractions(original_name(model, rv), value, rv.dtype)
    lengths, size = _layout(model, z, followers[0], values[followers[0]], lengths, memo)
    _refuse_old_covariates(model, z, followers, memo, (*(size or ()), int(lengths.sum())))
    moved_z = _states(model, z, lengths, size, memo)
    behind = set(ancestors([z, *followers]))
    changed = set(memo)
    memo |= {z: moved_z, z.owner.inputs[5]: moved_z.owner.inputs[5]}

    coords = _coords(model, z, size, lengths)
    with pm.Model(coords=coords, model=None) as new, warnings.catch_warnings():
        warnings.simplefilter("ignore", ImputationWarning)
        for rv in dict.fromkeys(model.basic_RVs):
            name = original_name(model, rv)
            if rv in values:
                moved = _observed(model, rv, values[rv], memo, lengths)
                new.register_rv(moved, name, observed=values[rv])
            elif rv in behind and not is_missing_observation(rv):
                if rv is not z and changed & set(ancestors([rv])):
                    _refuse(name, "depends on data that are replaced, but is not observed")
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
            _refuse(v.name, f"is a {what} that depends on the states {z.name!r}")
    if not out:
        raise ValueError(f"no observed variable depends on the states {z.name!r}")
    return out


def rebuilt(graphs, memo, leaves):
    """Graphs with variables replaced, whose static shapes may differ.

    Parameters
    ----------
    graphs : list of Variable
    memo : dict
        Variables by those that they replace.
    leaves : collection of Variable
        Not copied, nor what is behind them.
    """
    known = dict(memo)
    for node in io_toposort([*leaves, *memo], graphs):
        inputs = [known.get(v, v) for v in node.inputs]
        if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            copy = node.clone_with_new_inputs(inputs, strict=False)
            for old, new in zip(node.outputs, copy.outputs, strict=True):
                known.setdefault(old, new)
    return [known.get(g, g) for g in graphs]


def original_name(model, rv):
    """Name under which a variable was declared: masked data make it ``name_observed``."""
    split = split_observation(model, rv)
    return rv.name if split is None else split.name


def _whole(rv):
    """Multivariate variable of which ``rv`` is the observed part, or ``rv`` itself."""
    return rv.owner.inputs[0] if has_op(rv, PartialObservedRV) else rv


def _refuse(name, why):
    raise ValueError(f"{name!r} {why}, so that the model cannot be moved to other data. {ADVICE}.")


# -- which data are replaced ------------------------------------------------------------------


def _source(value):
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
    replaced, values = {}, {}
    for name, given in observed.items():
        array = given if np.ma.isMaskedArray(given) else np.asarray(given)
        if name in by_name:
            rv = by_name[name]
            ndim, dtype = (model[name] if name in model.named_vars else rv).type.ndim, rv.dtype
            values[rv] = array
            source = _source(model.rvs_to_values[rv])
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


def _refuse_old_covariates(model, z, followers, memo, shape):
    """Raise if the new data have another shape, and pm.Data of the old one are not replaced."""
    old = concrete_shape(z)
    behind = set(ancestors([z, *followers]))
    left = [
        v.name
        for v in model.data_vars
        if v in behind - memo.keys()
        and v.type.ndim >= len(old)
        and concrete_shape(v)[: len(old)] == old
    ]
    if shape != old and left:
        raise ValueError(
            f"the states {z.name!r} now have shape {shape}, but {left}, on which they or their "
            f"observations depend, still have the times of shape {old}; give their values at the "
            "new times too"
        )


def _value(model, rv, values, containers, memo):
    """Get the value of an observed variable: given, or computed from the pm.Data given."""
    if rv in values:
        return values[rv]
    source = _source(model.rvs_to_values[rv])
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
    [symbolic] = rebuilt([core(z.owner.inputs[5], 1)], memo, ())
    now = np.asarray(symbolic.eval()).astype("int64")
    follows = memo.keys() & set(ancestors([z.owner.inputs[5]]))
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
    return value.data.shape if isinstance(value, Constant) else tuple(value.shape.eval())


def _states(model, z, lengths, size, memo):
    """Copy of the states, with other lengths and none of them known."""
    kappa = _self_persistence(model, z, (*(size or ()), int(lengths.sum())), memo)
    parameters = [*z.owner.inputs[2:4], kappa, pt.constant(lengths), pt.constant(NOTHING_KNOWN)]
    rng = pytensor.shared(np.random.default_rng())
    out = z.owner.op.make_node(rng, size, *parameters).outputs[1]
    out.tag.dshdp = z.tag.dshdp
    return out


def _self_persistence(model, z, times, memo):
    """Self-persistence of the new states: constant, or a row for each of their times."""
    kappa = z.owner.inputs[4]
    try:
        [moved] = rebuilt([kappa], memo, model.basic_RVs)
        before, now = (tuple(shape[:-1]) for shape in _evaluate([kappa.shape, moved.shape]))
        fits = all(n == t or n == b == 1 for n, b, t in zip(now, before, times, strict=True))
    except Exception:  # whatever PyTensor says of shapes that clash
        fits = False
    if not fits:
        data = [v.name for v in model.data_vars if v.type.ndim and v in set(ancestors([kappa]))]
        why = f"it depends on {data}, whose values must be given at the new times"
        _refuse(
            z.name,
            f"has a self-persistence kappa that does not have a row for each of the new times, of "
            f"shape {times}: {why if data else 'it depends on no pm.Data'}",
        )
    return moved


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


# -- what depends on them ---------------------------------------------------------------------


def _observed(model, rv, value, memo, lengths):
    """Copy of an observed variable that follows the new states and has the shape of its data."""
    shape = tuple(int(n) for n in np.shape(value))
    misfit = f"does not fit data of shape {shape} and sequences of lengths {lengths.tolist()}"
    name, leaves = original_name(model, rv), [v for v in model.basic_RVs if v is not rv]
    rv = _whole(rv)
    op = rv.owner.op
    try:
        if not isinstance(op, RandomVariable):
            [moved] = rebuilt([rv], memo, leaves)
            [found] = _evaluate([moved.shape])
            fits = tuple(found) == shape
        else:
            parameters = list(op.dist_params(rv.owner))
            if name != rv.name:
                parameters = [_unmasked(p) for p in parameters]
            parameters = rebuilt(parameters, memo, leaves)
            if isinstance(op, SwitchingVARRV):
                parameters[2] = _first_rows(value, lengths, parameters[2])
            batch = shape[: len(shape) - op.ndim_supp]
            rng = pytensor.shared(np.random.default_rng())
            moved = op.make_node(rng, list(batch) or None, *parameters).outputs[1]
            found = _evaluate([p.shape for p in parameters])
            found = [tuple(s)[: len(s) - n] for s, n in zip(found, op.ndims_params, strict=True)]
            fits = np.broadcast_shapes(*found, batch) == batch
            if op.ndim_supp:
                fits &= tuple(_evaluate([moved.shape])[0]) == shape
    except Exception as error:  # whatever PyTensor says of shapes that clash
        raise ValueError(f"{name!r} {misfit}. {ADVICE}.") from error
    if not fits:
        _refuse(name, misfit)
    return moved


def _evaluate(shapes):
    return pytensor.function([], shapes, mode=SHAPES_ONLY)()


def _unmasked(parameter):
    """Undo the selection of what was observed, which masked data put on a parameter."""
    if has_op(parameter, AdvancedSubtensor):
        inner, *index = parameter.owner.inputs
        if len(index) == 1 and isinstance(index[0], Constant) and index[0].dtype == "bool":
            return inner
    return parameter


def _first_rows(value, lengths, initial):
    """Rows of each sequence that an autoregression is given, shaped as its parameter."""
    lags, d = initial.type.shape[-2:]
    rows = np.ma.filled(value, 0.0).astype("float64")
    if rows.ndim == 3:
        return pt.constant(rows[:, None, :lags])
    starts = np.cumsum(lengths) - lengths
    within = np.minimum(np.arange(lags), lengths[:, None] - 1)
    return pt.constant(rows[starts[:, None] + within].reshape(-1, lags, d))
