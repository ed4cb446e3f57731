"""Checks of parameters, such as sigma > 0, taken out of a log-density.

PyMC makes all elements -inf where a condition does not hold at one time, which ties them to the
states at every time. The sum of the elements is the same if the condition alone is -inf, at its
own time.
"""

import pytensor.tensor as pt
from pymc.logprob.utils import CheckParameterValue
from pytensor.compile.ops import TypeCastingOp
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import Add, Cast, Switch
from pytensor.scalar.basic import AND
from pytensor.tensor.basic import Alloc, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.shape import Shape, Shape_i, SpecifyShape

__all__ = ["is_sum", "on_states", "without_checks"]


def on_states(graphs, z):
    """Find the variables whose values depend on z; the shape of what depends on it does not."""
    found = {z}
    for node in io_toposort([z], graphs):
        if found & set(node.inputs) and not isinstance(node.op, Shape | Shape_i):
            found.update(node.outputs)
    return found


def is_sum(graph):
    """Whether a graph is a sum over axes."""
    op = getattr(graph.owner, "op", None)
    return isinstance(op, CAReduce) and isinstance(op.scalar_op, Add)


def without_checks(graph, z):
    """Take the checks that depend on the states out of a log-density.

    Returns
    -------
    graph : TensorVariable
    conditions : list of (TensorVariable, bool)
        Boolean graphs, and whether the sum of the log-density is -inf where one does not hold
        (it need not be for a part, such as a component of a mixture).
    """
    depend = on_states([graph], z)
    summands = _summands(graph, depend)
    known, found = {}, []
    for node in io_toposort([], [graph]):
        inputs = [known.get(v, v) for v in node.inputs]
        if isinstance(node.op, CheckAndRaise) and depend & set(node.inputs[1:]):
            conditions = [c for v in node.inputs[1:] for c in _conjuncts(v)]
            [out] = node.outputs
            whole = isinstance(node.op, CheckParameterValue) and out in summands
            for condition in conditions:
                if condition in depend:
                    condition = known.get(condition, condition).astype("bool")
                    if whole and summands[out] is not None:
                        condition = condition | ~pt.any(summands[out])
                    found.append((condition, whole))
            rest = [pt.all(c) for c in conditions if c not in depend]
            known[out] = node.op(inputs[0], *rest) if rest else inputs[0]
        elif any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            copy = node.clone_with_new_inputs(inputs)
            known.update(zip(node.outputs, copy.outputs, strict=True))
    return known.get(graph, graph), found


def _summands(graph, depend):
    """Variables that make a graph's sum -inf by being so themselves, and where.

    Where is a boolean graph of the elements that count, chosen by ``pt.switch`` on what does not
    depend on the states, or None if all do.
    """
    found, mixed, behind = {}, [], [(graph, None)]
    while behind:
        v, where = behind.pop()
        if v in found:
            mixed += [] if found[v] is where else [v]
            continue
        found[v] = where
        op = getattr(v.owner, "op", None)
        scalar = getattr(op, "scalar_op", None)
        inputs = [] if v.owner is None else v.owner.inputs
        if isinstance(op, Elemwise) and isinstance(scalar, Add | Cast):
            behind += [(x, where) for x in inputs]
        elif isinstance(op, Elemwise) and isinstance(scalar, Switch) and inputs[0] not in depend:
            on, off = inputs[0].astype(bool), ~inputs[0].astype(bool)
            behind.append((inputs[1], on if where is None else where & on))
            behind.append((inputs[2], off if where is None else where & off))
        elif isinstance(op, CheckAndRaise):
            behind.append((inputs[0], where))
        elif where is None and (
            isinstance(op, Alloc | DimShuffle | SpecifyShape | TypeCastingOp) or is_sum(v)
        ):
            behind.append((inputs[0], None))
    for v in ancestors(mixed):
        found.pop(v, None)
    return found


def _conjuncts(condition):
    """Conditions that together are the one given."""
    op = getattr(condition.owner, "op", None)
    is_all = isinstance(op, CAReduce | Elemwise) and isinstance(op.scalar_op, AND)
    if condition.type.dtype == "bool" and (
        is_all or isinstance(op, DimShuffle | MakeVector | ScalarFromTensor | TensorFromScalar)
    ):
        return [c for v in condition.owner.inputs for c in _conjuncts(v)]
    return [condition]
