"""Tensors whose entries along an axis are equal, and those that are constants."""

import numpy as np
from pytensor import scalar
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from pymc_dshdp.graph.walks import evaluate

__all__ = ["constant_value", "is_elementwise", "uniform"]


def is_elementwise(v, scalar_op):
    """Whether a variable is the output of an elementwise Op of a kind."""
    elementwise = v.owner is not None and isinstance(v.owner.op, Elemwise)
    return elementwise and isinstance(v.owner.op.scalar_op, scalar_op)


def constant_value(v):
    """Value of a graph of constants; None of any other."""
    if isinstance(v, Constant):
        return np.asarray(v.data)
    if not all(isinstance(x, Constant) for x in graph_inputs([v])):
        return None
    return np.asarray(evaluate([v])[0])


def uniform(v, axis):
    """Whether all entries of a tensor along an axis are shown to be equal."""
    if v.type.shape[axis] == 1:
        return True
    if isinstance(v, Constant):
        return bool((v.data == np.take(v.data, [0], axis)).all()) if v.data.size else True
    if v.owner is None:
        return False
    op, ndim, inputs = v.owner.op, v.type.ndim, v.owner.inputs
    if isinstance(op, DimShuffle):
        return op.new_order[axis] == "x" or uniform(inputs[0], op.new_order[axis])
    if isinstance(op, Alloc):
        inputs = inputs[:1]
    elif isinstance(op, Elemwise):
        inputs = inputs[1:] if isinstance(op.scalar_op, scalar.Second) else inputs
    else:
        return False
    own = [axis - ndim + x.type.ndim for x in inputs]
    return all(a < 0 or uniform(x, a) for x, a in zip(inputs, own, strict=True))
