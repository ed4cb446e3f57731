"""What a ``HiddenStates`` variable holds: lengths, known states, a declared start."""

import numpy as np

from pymc_dshdp.distributions import HiddenPathRV
from pymc_dshdp.distributions._common import core
from pymc_dshdp.distributions.path import path_parameters
from pymc_dshdp.graph.walks import evaluate, has_op, unwrap

__all__ = [
    "initial_states",
    "known_states",
    "n_states_of",
    "observed_path",
    "path_lengths",
    "storage_dtypes",
]


def n_states_of(z):
    """Read the number of states of a ``HiddenStates`` variable."""
    return int(unwrap(path_parameters(z).initial).type.shape[0])


def storage_dtypes(model):
    """Smallest integer types that hold the free states of a model, by name, to store draws in.

    In the model states are int64, so that no arithmetic on them wraps around.
    """
    states = [z for z in model.free_RVs if has_op(z, HiddenPathRV)]
    return {z.name: _smallest(n_states_of(z)) for z in states}


def _smallest(n_states):
    for dtype in map(np.dtype, ("int8", "int16", "int32")):
        if n_states - 1 <= np.iinfo(dtype).max:
            return dtype
    return np.dtype("int64")


def path_lengths(model, z, start):
    """Sequence lengths of a states variable, row by row for a batch; int64 of shape (N,).

    Parameters
    ----------
    model : pymc.Model
    z : HiddenStates variable
    start : dict
        A point of the model.
    """
    return _lengths(z, start[model.rvs_to_values[z].name].shape)


def _lengths(z, shape):
    [lengths] = evaluate([core(path_parameters(z).lengths, 1)])
    return np.tile(lengths.astype("int64"), np.prod(shape[:-1], dtype=int))


def observed_path(model, z):
    """(path, sequence lengths) of a states variable that is observed.

    Raises ``ValueError`` where they do not fit each other.
    """
    [path] = evaluate([model.rvs_to_values[z]])
    lengths = _lengths(z, path.shape)
    if path.size != lengths.sum():
        raise ValueError(
            f"{z.name}: the path observed has shape {path.shape}, but the sequences have "
            f"{lengths.sum()} times in all"
        )
    return path, lengths


def known_states(z, shape):
    """Known states along the flattened path, -1 elsewhere; None if there are none.

    Parameters
    ----------
    z : HiddenStates variable
    shape : tuple of int
        Of the states.
    """
    known = path_parameters(z).known
    if known.type.shape[-1] == 0:
        return None
    [known] = evaluate([known])
    return np.broadcast_to(known, shape).ravel()


def initial_states(model, z, shape):
    """Read the declared starting path of a ``HiddenStates`` variable, None if there is none.

    Raises ``ValueError`` where the states have changed their shape since.
    """
    data = model.named_vars.get(f"{z.name}_initial_states")
    if data is None:
        return None
    path = data.get_value()
    if path.shape != shape:
        raise ValueError(
            f"{z.name}: initial_states has shape {path.shape}, but the states now have {shape}; "
            f"set {data.name!r} too with pm.set_data"
        )
    return path
