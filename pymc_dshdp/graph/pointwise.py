"""Which graphs are functions of theta[z] alone, so that z can be replaced by all states."""

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

__all__ = ["NotPointwise", "at_states", "depends_on", "indexed_variable", "is_pointwise"]

ALL = slice(None)
CONSTANT = -1


class NotPointwise(Exception):
    """A graph mixes time points, or varies with time other than through the states."""


def depends_on(node, variable, blockers=()):
    """Whether a graph contains a variable, not looking behind the blockers."""
    return variable in set(ancestors([node], blockers=blockers))


def indexed_variable(node, z):
    """Return ``theta`` if a node is ``theta[z]``, else None."""
    if node.owner is None or not isinstance(node.owner.op, AdvancedSubtensor):
        return None
    theta, *index = node.owner.inputs
    if len(index) != 1 or index[0] is not z:
        return None
    entries = getattr(node.owner.op, "idx_list", None)  # none where the index is an input
    if entries is not None and (entries[0] != 0 or any(e != ALL for e in entries[1:])):
        return None
    return theta


def _time_axis(node, z, blockers):
    """First of the axes along which a graph follows z, or CONSTANT."""
    if node is z:
        return 0
    if not depends_on(node, z, blockers):
        return CONSTANT
    if node.owner is None or node in blockers:
        raise NotPointwise
    op, inputs, n = node.owner.op, node.owner.inputs, z.type.ndim
    theta = indexed_variable(node, z)
    if theta is not None and not depends_on(theta, z, blockers):
        return 0
    if isinstance(op, DimShuffle):
        axis = _time_axis(inputs[0], z, blockers)
        order = list(op.new_order)
        if axis in order:
            first = order.index(axis)
            if order[first : first + n] == list(range(axis, axis + n)):
                return first
    elif isinstance(op, Elemwise):
        axes = [_time_axis(x, z, blockers) for x in inputs]
        [axis, *more] = {a for a in axes if a != CONSTANT}
        fixed = [x for x, a in zip(inputs, axes, strict=True) if a == CONSTANT]
        if not more and all(_is_broadcast(x, axis, n) for x in fixed):
            return axis
    elif isinstance(op, Subtensor):
        axis = _time_axis(inputs[0], z, blockers)
        whole = all(e == ALL for e in op.idx_list[: axis + n])
        integers = len(inputs) - 1 == sum(not isinstance(e, slice) for e in op.idx_list)
        if whole and integers and not any(depends_on(v, z, blockers) for v in inputs[1:]):
            return axis
    raise NotPointwise


def _is_broadcast(node, axis, n):
    return all(node.type.broadcastable[axis : axis + n])


def is_pointwise(node, z, ndim, blockers=()):
    """Whether a graph, padded on the left to ``ndim`` axes, follows z along its first axes only.

    Parameters
    ----------
    node : TensorVariable
    z : TensorVariable
        The states: a random variable, or its value variable.
    ndim : int
    blockers : collection of variables
        Not looked behind: the model's random variables.
    """
    try:
        axis = _time_axis(node, z, blockers)
    except NotPointwise:
        return False
    if axis == CONSTANT:
        return _is_broadcast(pt.atleast_Nd(node, n=ndim), 0, z.type.ndim)
    return axis == 0 and node.type.ndim == ndim


def at_states(graphs, z, n_states):
    """Replace z by all states: an axis of L where time was, of one for the sequences.

    Parameters
    ----------
    graphs : list of TensorVariable
        Pointwise in z.
    z : TensorVariable
    n_states : int

    Returns
    -------
    list of TensorVariable
    """
    states = np.arange(n_states, dtype=z.dtype).reshape((1,) * (z.type.ndim - 1) + (n_states,))
    return clone_replace(list(graphs), {z: pt.constant(states)}, rebuild_strict=False)
