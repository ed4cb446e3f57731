"""Which graphs are affine functions of theta[z], time by time: proved from their operations."""

import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Add, Cast, Mul, Neg, Second, Sub, TrueDiv
from pytensor.tensor.basic import Join, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from pymc_dshdp._compat import axis_and_parts
from pymc_dshdp.graph.pointwise import depends_on, indexed_variable
from pymc_dshdp.graph.walks import has_op

__all__ = ["NotLinear", "linear_part", "rows_of_states"]

ALL = slice(None)


class NotLinear(Exception):
    """A graph is not proved to be affine in a variable, or mixes times."""


def rows_of_states(node, variables, z):
    """Write a graph in terms of the rows theta[z] of some variables.

    Parameters
    ----------
    node : TensorVariable
        In value variables.
    variables : list of TensorVariable
        Value variables.
    z : TensorVariable
        Value variable of the states.

    Returns
    -------
    graph : TensorVariable
        Of the rows, in place of the variables.
    rows : list of TensorVariable
        One for each variable: of its shape, with the axes of z for the first.

    Raises
    ------
    NotLinear
        If a variable enters other than as ``theta[z]``, ``theta[z, i]`` or ``theta[:, i][z]``.
    """
    rows = [v[z].type(name=f"{v.name}_rows") for v in variables]
    found = {}
    for inner in ancestors([node]):
        if not has_op(inner, AdvancedSubtensor):
            continue
        for theta, row in zip(variables, rows, strict=True):
            new = _row(inner, theta, row, z)
            if new is not None:
                found[inner] = new
    node = clone_replace(node, found, rebuild_strict=False)
    for theta in variables:
        if depends_on(node, theta):
            raise NotLinear(f"{theta.name!r} enters other than as {theta.name}[{z.name}]")
    return node, rows


def _row(node, theta, row, z):
    """Write a node in terms of theta[z]; None if it is something else."""
    base = indexed_variable(node, z)
    if base is theta:
        return row
    if base is not None and has_op(base, Subtensor) and base.owner.inputs[0] is theta:
        if z.type.ndim == 1 and base.owner.op.idx_list[0] == ALL:
            return base.owner.op.make_node(row, *base.owner.inputs[1:]).outputs[0]
        return None
    base, first, *others = node.owner.inputs
    if base is not theta or first is not z or len(others) != theta.type.ndim - 1:
        return None
    index = []
    for i in others:  # tensors of one integer each: then entries of v6's idx_list are in order
        if not has_op(i, TensorFromScalar) or not isinstance(i.owner.inputs[0], Constant):
            return None
        index.append(int(i.owner.inputs[0].data))
    entries = getattr(node.owner.op, "idx_list", None)
    if not index or (entries is not None and any(isinstance(e, slice) for e in entries)):
        return None
    return row[(*[ALL] * z.type.ndim, *index)]


def linear_part(node, rows, n):
    """Linear part of a graph that is affine in rows, each time in the rows of that time.

    Parameters
    ----------
    node : TensorVariable
    rows : list of TensorVariable
    n : int
        Axes of time, the first ones of the rows and of the graph.

    Returns
    -------
    TensorVariable
        The graph without the summands that do not depend on the rows.

    Raises
    ------
    NotLinear
    """
    part, axis = _part(node, set(rows), n)
    if axis != 0:
        raise NotLinear("it does not have the times along its first axes")
    return part


def _part(node, rows, n):
    """(linear part, first axis of time), or (node, None) where it does not depend on the rows."""
    if node in rows:
        return node, 0
    if node.owner is None or not rows & set(ancestors([node])):
        return node, None
    op, inputs = node.owner.op, node.owner.inputs
    found = [_part(x, rows, n) for x in inputs]
    moving = [i for i, (_, axis) in enumerate(found) if axis is not None]
    axes = {found[i][1] for i in moving}
    parts = [part for part, _ in found]
    axis = found[moving[0]][1]
    single = len(moving) == 1
    if isinstance(op, Elemwise) and len(axes) == 1:
        kind = type(op.scalar_op)
        if kind in (Add, Sub, Neg):
            parts = [p if i in moving else pt.zeros_like(p) for i, p in enumerate(parts)]
        elif not (
            (kind is Mul and single)
            or (kind is TrueDiv and moving == [0])
            or (kind is Second and moving == [1])
            or (kind is Cast and node.dtype.startswith("float"))
        ):
            raise NotLinear(f"{op} is not linear")
    elif isinstance(op, DimShuffle):
        order = list(op.new_order)
        first = order.index(axis) if axis in order else -1
        if order[first : first + n] != list(range(axis, axis + n)):
            raise NotLinear("the axes of time are taken apart")
        axis = first
    elif isinstance(op, Sum):
        summed = range(inputs[0].type.ndim) if op.axis is None else op.axis
        if set(summed) & set(range(axis, axis + n)):
            raise NotLinear("it sums over times")
        axis -= sum(a < axis for a in summed)
    elif isinstance(op, SpecifyShape) and moving == [0]:
        pass
    elif isinstance(op, Subtensor) and moving == [0]:
        if any(e != ALL for e in op.idx_list[: axis + n]):
            raise NotLinear("it takes some times")
    elif isinstance(op, Join) and len(axes) == 1:
        at, _ = axis_and_parts(node.owner)
        if not isinstance(at, int) or at % node.type.ndim in range(axis, axis + n):
            raise NotLinear("it joins times")
        parts = [
            p if i in moving or p.type.ndim == 0 else pt.zeros_like(p) for i, p in enumerate(parts)
        ]
    elif isinstance(op, Dot) or (isinstance(op, Blockwise) and isinstance(op.core_op, Dot)):
        if not single:
            raise NotLinear("a product of two of the variables")
        ndim = inputs[moving[0]].type.ndim
        contracted = ndim - 1 if moving == [0] else max(0, ndim - 2)
        if contracted in range(axis, axis + n):
            raise NotLinear("it sums over times")
        if moving == [1] and axis > contracted and isinstance(op, Dot):
            axis += inputs[0].type.ndim - 2  # a vector times a matrix has one axis
    else:
        raise NotLinear(f"{op} is not known to be linear")
    return node.owner.clone_with_new_inputs(parts).outputs[0], axis
