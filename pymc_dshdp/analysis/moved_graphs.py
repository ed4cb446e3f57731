"""Copies of hidden states, and of what is observed of them, on other times."""

from functools import partial

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.distributions.distribution import PartialObservedRV
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_dshdp.distributions.path import NOTHING_KNOWN, path_parameters
from pymc_dshdp.emissions.autoregression import SwitchingVARRV
from pymc_dshdp.graph.splits import split_observation
from pymc_dshdp.graph.walks import has_op, unwrap

__all__ = [
    "ADVICE",
    "evaluated",
    "fixed",
    "like",
    "moved",
    "original_name",
    "rebuilt",
    "refuse",
    "replacing",
]

ADVICE = (
    "Declare the model again on the other data and pass that model instead, or declare it with "
    "the data in pm.Data and the states with length=data.shape[0]"
)
KAPPA = "a self-persistence kappa that does not have a row"
INDEX = "an index of its transition matrices that does not have a number"
SHAPES_ONLY = Mode(linker="py", optimizer="fast_run").excluding("fusion", "inplace")


def fixed(name, array):
    """Hold data in a constant."""
    return pt.constant(array)


def moved(model, z, containers, values, lengths, size, others=None, hold=fixed):
    """Copy the states and what is observed of them, (z, {variable: copy})."""
    memo = replacing(containers, hold) | (others or {})
    shape = (*(size or ()), lengths.sum())
    for dim, n in zip(model.named_vars_to_dims.get(z.name) or (), shape, strict=False):
        length = model.dim_lengths[dim]
        if not isinstance(length, Constant):
            memo[length] = pt.constant(n, dtype=length.dtype)
    moved_z = _states(model, z, lengths, size, memo)
    memo |= {z: moved_z, path_parameters(z).lengths: path_parameters(moved_z).lengths}
    copies = {rv: _observed(model, rv, y, memo, lengths, hold) for rv, y in values.items()}
    return moved_z, copies


def _states(model, z, lengths, size, memo):
    """Copy of the states, with other lengths and none of them known."""
    times = (*(size or ()), int(lengths.sum()))
    old = path_parameters(z)
    now, then = pt.constant(lengths), old.lengths
    while then.type.ndim > 1:  # a size puts axes before it
        then = then.owner.inputs[0]
    memo = memo | {then: now}
    [pi_bar] = rebuilt([old.pi_bar], memo, model.basic_RVs)
    index = _along_time(model, z, old.indices, 0, INDEX, times, memo)
    memo |= {unwrap(old.indices): unwrap(index)}  # by which kappa of groups is taken too
    parameters = old._replace(
        pi_bar=pi_bar,
        kappa=_along_time(model, z, old.kappa, 1, KAPPA, times, memo),
        indices=index,
        lengths=now,
        known=pt.constant(NOTHING_KNOWN),
    )
    rng = pytensor.shared(np.random.default_rng())
    out = z.owner.op.make_node(rng, size, *parameters).outputs[1]
    out.tag.dshdp = z.tag.dshdp
    return out


def _along_time(model, z, parameter, core, what, times, memo):
    """Parameter of the new states: the same for all times, or with a part for each of theirs."""
    if parameter.type.shape[-1] == 0:
        return parameter
    try:
        [moved] = rebuilt([parameter], memo, model.basic_RVs)
        before, now = evaluated([parameter.shape, moved.shape])
        before, now = (tuple(shape[: len(shape) - core]) for shape in (before, now))
        fits = all(n == t or n == b == 1 for n, b, t in zip(now, before, times, strict=True))
    except Exception:  # whatever PyTensor says of shapes that clash
        fits = False
    if not fits:
        data = [v.name for v in model.data_vars if v.type.ndim and v in set(ancestors([parameter]))]
        why = f"it depends on {data}, whose values must be given at the new times"
        refuse(
            z.name,
            f"has {what} for each of the new times, of shape {times}: "
            f"{why if data else 'it depends on no pm.Data'}",
        )
    return moved


def replacing(containers, hold=fixed):
    """Variables that replace data containers, by these."""
    return {
        v: like(v, np.ma.filled(x, 0).astype(v.dtype), partial(hold, v.name))
        for v, x in containers.items()
    }


def _observed(model, rv, value, memo, lengths, hold):
    """Copy of an observed variable that follows the new states and has the shape of its data."""
    shape = tuple(int(n) for n in np.shape(value))
    misfit = f"does not fit data of shape {shape} and sequences of lengths {lengths.tolist()}"
    name, leaves = original_name(model, rv), [v for v in model.basic_RVs if v is not rv]
    rv = _whole(rv)
    op = rv.owner.op
    try:
        if not isinstance(op, RandomVariable):
            [moved] = rebuilt([rv], memo, leaves)
            fits = tuple(map(int, evaluated(list(moved.shape)))) == shape
        else:
            parameters = list(op.dist_params(rv.owner))
            if name != rv.name:
                parameters = [_unmasked(p) for p in parameters]
            parameters = rebuilt(parameters, memo, leaves)
            if isinstance(op, SwitchingVARRV):
                parameters[2] = hold(name, _first_rows(value, lengths, parameters[2]))
            batch = shape[: len(shape) - op.ndim_supp]
            rng = pytensor.shared(np.random.default_rng())
            moved = op.make_node(rng, list(batch) or None, *parameters).outputs[1]
            found = evaluated([p.shape for p in parameters])
            found = [tuple(s)[: len(s) - n] for s, n in zip(found, op.ndims_params, strict=True)]
            fits = np.broadcast_shapes(*found, batch) == batch
            if op.ndim_supp:
                fits &= tuple(evaluated([moved.shape])[0]) == shape
    except Exception as error:  # whatever PyTensor says of shapes that clash
        raise ValueError(f"{name!r} {misfit}. {ADVICE}.") from error
    if not fits:
        refuse(name, misfit)
    return moved


def evaluated(shapes):
    """Evaluate graphs of shapes, whatever is random in them."""
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
        return rows[:, None, :lags]
    starts = np.cumsum(lengths) - lengths
    within = np.minimum(np.arange(lags), lengths[:, None] - 1)
    return rows[starts[:, None] + within].reshape(-1, lags, d)


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


def like(variable, values, otherwise=np.asanyarray):
    """Values with the dimension names of a variable of ``pymc.dims``; of others as they are."""
    if not hasattr(variable.type, "dims"):
        return otherwise(values)
    from pytensor.xtensor import as_xtensor

    return as_xtensor(values, dims=variable.type.dims)


def refuse(name, why):
    """Raise because a model cannot be moved, with the way out."""
    raise ValueError(f"{name!r} {why}, so that the model cannot be moved to other data. {ADVICE}.")
