"""Which graphs take each element of theta[z] to one element of their own."""

from pytensor.tensor.elemwise import DimShuffle, Elemwise

from pymc_dshdp.graph.pointwise import depends_on, indexed_variable
from pymc_dshdp.graph.walks import has_op

__all__ = ["NotElementwise", "element_axes"]


class NotElementwise(Exception):
    """An element of a graph depends on several elements of a variable."""


def element_axes(node, theta, z, blockers=()):
    """Axes of theta along which the axes of a graph run.

    Proved from the operations: elementwise functions, rearranged axes and the index ``[z]`` along
    the first axis take one element of theta to one element of the graph; nothing else does.

    Parameters
    ----------
    node, theta, z : TensorVariable
    blockers : collection of variables
        Not looked behind: the model's random variables.

    Returns
    -------
    tuple of (int or None), or None
        For each axis of the graph, the axis of theta, or None where theta has none there. The
        axes of the states stand for axis 0 of theta, one or more of them. None alone if the
        graph does not depend on theta.

    Raises
    ------
    NotElementwise
    """
    if node is theta:
        return tuple(range(node.type.ndim))
    if node in blockers or node.owner is None or not depends_on(node, theta, blockers):
        return None
    base = indexed_variable(node, z)
    if base is not None:
        axes = element_axes(base, theta, z, blockers)
        if axes is None or axes[0] not in (0, None):
            raise NotElementwise
        return (axes[0],) * z.type.ndim + axes[1:]
    inputs = [element_axes(x, theta, z, blockers) for x in node.owner.inputs]
    if has_op(node, DimShuffle):
        return tuple(None if i == "x" else inputs[0][i] for i in node.owner.op.new_order)
    found = {axes for axes in inputs if axes is not None}
    if not has_op(node, Elemwise) or len(found) != 1:
        raise NotElementwise
    return found.pop()
