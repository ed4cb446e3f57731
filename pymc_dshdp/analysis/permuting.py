"""Variables of a result with their states renumbered."""

import numpy as np

from pymc_dshdp.kernels.segmentations import permute, rename

__all__ = ["of_the_same_draws", "permuted"]


def of_the_same_draws(label_before, z, dataset):
    """Take ``label_before`` at the draws of a group; None if it has other draws."""
    if not {"chain", "draw"} <= set(dataset.sizes):
        return None
    positions = []
    for dim in ("chain", "draw"):
        if dim in dataset.indexes and dim in z.indexes:
            positions.append(z.indexes[dim].get_indexer(dataset.indexes[dim]))
        elif dataset.sizes[dim] == z.sizes[dim]:
            positions.append(np.arange(z.sizes[dim]))
        else:
            return None
    if any((where < 0).any() for where in positions):
        return None
    return label_before[np.ix_(*positions)]


def permuted(dataset, hidden, copies, label_before):
    """Permute the state axes of a group, and renumber its hidden states and what copies them.

    Stick fractions belong to an order of the weights: where that changes, they are broken anew.
    """
    dim = hidden[0].dim
    numbers = np.argsort(label_before, axis=-1)
    changed = {}
    for name, variable in dataset.items():
        if not {"chain", "draw"} <= set(variable.dims):
            continue
        if name in {h.name for h in hidden}:
            z = variable.transpose("chain", "draw", ...)
            number = numbers.reshape(-1, hidden[0].n_states)
            paths = rename(np.ascontiguousarray(z.values.reshape(len(number), -1)), number)
            changed[name] = z.copy(data=paths.reshape(z.shape)).transpose(*variable.dims)
            continue
        if name in copies:
            changed[name] = _renumbered(variable, numbers)
            continue
        if name in hidden[0].record.own("fractions"):
            changed[name] = _broken_anew(variable, label_before)
            continue
        for axis in (dim, f"{dim}_to"):
            if axis in variable.dims:
                variable = changed[name] = _permuted_axis(variable, axis, label_before)
    return dataset.assign(changed)


def _renumbered(variable, numbers):
    """Renumber the states in a variable; what is no state's number stays."""
    ordered = variable.transpose("chain", "draw", ...)
    values = ordered.values.reshape(*numbers.shape[:2], -1)
    label = (values >= 0) & (values < numbers.shape[-1])
    new = np.take_along_axis(numbers, np.where(label, values, 0).astype(int), axis=-1)
    new = np.where(label, new, values).astype(variable.dtype)
    return ordered.copy(data=new.reshape(ordered.shape)).transpose(*variable.dims)


def _broken_anew(variable, label_before):
    """Fractions v of the stick that leave the weights v_k prod_{j < k} (1 - v_j) in a new order."""
    fractions = variable.values
    whole = np.ones((*fractions.shape[:2], 1))
    left = np.concatenate([whole, np.cumprod(1.0 - fractions, axis=-1)], axis=-1)
    weights = np.concatenate([fractions, whole], axis=-1) * left
    weights = np.take_along_axis(weights, label_before, axis=-1)
    left = np.cumsum(weights[..., ::-1], axis=-1)[..., ::-1]
    new = np.divide(weights, left, out=np.ones_like(weights), where=left > 0)[..., :-1]
    moved = (label_before != np.arange(label_before.shape[-1])).any(axis=-1, keepdims=True)
    return variable.copy(data=np.where(moved, new, fractions))


def _permuted_axis(variable, dim, label_before):
    """Take the entries of one axis in the order of ``label_before`` of each draw."""
    by_draw = variable.transpose("chain", "draw", ...)
    before, after = by_draw.shape[: by_draw.dims.index(dim)], label_before.shape[-1:]
    values = by_draw.values.reshape(
        label_before.shape[0] * label_before.shape[1], int(np.prod(before[2:])), *after, -1
    )
    out = permute(np.ascontiguousarray(values), label_before.reshape(len(values), -1))
    return by_draw.copy(data=out.reshape(by_draw.shape)).transpose(*variable.dims)
