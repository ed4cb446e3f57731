"""What a ``HiddenStates`` variable holds: lengths, known states, a declared start."""

import numpy as np

from pymc_dshdp.distributions._common import core
from pymc_dshdp.graph.readers import point_function

__all__ = ["initial_states", "known_states", "path_lengths"]


def path_lengths(model, z, start):
    """Sequence lengths of a states variable, row by row for a batch; int64 of shape (N,).

    Parameters
    ----------
    model : pymc.Model
    z : HiddenStates variable
    start : dict
        A point of the model.
    """
    [lengths] = point_function([core(z.owner.inputs[5], 1)])({})
    sequences = np.prod(start[model.rvs_to_values[z].name].shape[:-1], dtype=int)
    return np.tile(lengths.astype("int64"), sequences)


def known_states(z, shape):
    """Known states along the flattened path, -1 elsewhere; None if there are none.

    Parameters
    ----------
    z : HiddenStates variable
    shape : tuple of int
        Of the states.
    """
    known = z.owner.inputs[6]
    if known.type.shape[-1] == 0:
        return None
    [known] = point_function([known])({})
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
