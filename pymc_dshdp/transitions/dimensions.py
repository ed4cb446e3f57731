"""Dimensions of a prior: its states, and the groups whose transitions differ."""

import numpy as np

__all__ = ["group_dim", "state_dims"]


def state_dims(model, name, n_states, dims, fewest):
    """Resolve (dim, dim_to, L) and the coordinates that are missing, by name."""
    if (n_states is None) == (dims is None):
        raise ValueError(
            f"{name}: give exactly one of n_states (an integer) and dims (the name of a model "
            f"coordinate); received n_states={n_states!r}, dims={dims!r}"
        )
    if dims is None:
        if isinstance(n_states, bool) or not isinstance(n_states, (int, np.integer)):
            raise TypeError(f"{name}: n_states must be an integer, received {n_states!r}")
        if n_states < fewest:
            raise ValueError(f"{name}: n_states must be at least {fewest}, received {n_states}")
        dim = f"{name}_state"
        missing = {dim: np.arange(n_states)}
    else:
        if isinstance(dims, (tuple, list)) and len(dims) == 1:
            [dims] = dims
        if not isinstance(dims, str):
            raise TypeError(f"{name}: dims must name one dimension, received {dims!r}")
        if dims not in model.coords or model.coords[dims] is None:
            raise ValueError(
                f"{name}: dims={dims!r} is not a coordinate of the model; declare it with "
                f"pm.Model(coords={{{dims!r}: range(20)}}) or use n_states=20"
            )
        dim = dims
        missing = {}
        n_states = len(model.coords[dim])
        if n_states < fewest:
            raise ValueError(
                f"{name}: the coordinate {dim!r} must have at least {fewest} states, received "
                f"{n_states}"
            )
    dim_to = f"{dim}_to"
    if dim_to not in model.coords:
        missing[dim_to] = missing[dim] if dim in missing else model.coords[dim]
    elif len(model.coords[dim_to]) != n_states:
        raise ValueError(
            f"{name}: the coordinate {dim_to!r} must have the {n_states} entries of {dim!r}, "
            f"received {len(model.coords[dim_to])}"
        )
    return dim, dim_to, int(n_states), missing


def group_dim(model, name, groups):
    """Resolve (dim, G) of groups and the coordinate that is missing, by name; (None, 1) of none."""
    if groups is None:
        return None, 1, {}
    if isinstance(groups, str):
        if groups not in model.coords or model.coords[groups] is None:
            raise ValueError(
                f"{name}: groups={groups!r} is not a coordinate of the model; declare it with "
                f"pm.Model(coords={{{groups!r}: [...]}}), or give the number of groups"
            )
        labels = list(model.coords[groups])
        if not labels or len(set(labels)) < len(labels):
            raise ValueError(
                f"{name}: the coordinate {groups!r} must have a label of its own for each group, "
                f"received {labels}"
            )
        return groups, len(labels), {}
    if isinstance(groups, bool) or not isinstance(groups, (int, np.integer)):
        raise TypeError(
            f"{name}: groups must be the name of a coordinate of the model, or their number, "
            f"received {groups!r}"
        )
    if groups < 1:
        raise ValueError(f"{name}: groups must be at least 1, received {groups}")
    return f"{name}_group", int(groups), {f"{name}_group": np.arange(groups)}
