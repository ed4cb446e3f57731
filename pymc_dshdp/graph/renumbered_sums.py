"""What a renumbering of the states does to elements that are taken together; see ``kinds.py``."""

import numpy as np
from pytensor.graph.basic import Constant
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Argmax, Dot
from pytensor.tensor.sort import ArgSortOp, SortOp
from pytensor.tensor.special import LogSoftmax, Softmax
from pytensor.tensor.utils import _parse_gufunc_signature

from pymc_dshdp.graph.kinds import FREE, NUMBERED, free, registered
from pymc_dshdp.graph.uniform import uniform


@registered(CAReduce)
def _reduced(op, node, at):
    kind, ndim = at.kind(node.inputs[0]), node.inputs[0].type.ndim
    if kind.name != "free":
        return NUMBERED
    gone = range(ndim) if op.axis is None else [a % ndim for a in np.ravel(op.axis)]
    left = [a for a in range(ndim) if a not in gone]
    return free(i for i, a in enumerate(left) if a in kind.axes)


@registered(Argmax)
def _largest(op, node, at):
    kind, ndim = at.kind(node.inputs[0]), node.inputs[0].type.ndim
    gone = range(ndim) if op.axis is None else [a % ndim for a in np.ravel(op.axis)]
    return NUMBERED if kind.axes.intersection(gone) else _reduced(op, node, at)


@registered(ArgSortOp, CumOp, LogSoftmax, Softmax, SortOp)
def _along_axis(op, node, at):
    kind, x = at.kind(node.inputs[0]), node.inputs[0]
    if not kind.axes:
        return kind if kind == FREE else NUMBERED
    axis = getattr(op, "axis", None)
    if len(node.inputs) > 1:
        axis = node.inputs[1].data if isinstance(node.inputs[1], Constant) else None
    if axis is None:
        return NUMBERED
    along = {int(a) % x.type.ndim for a in np.ravel(axis)} & kind.axes
    if isinstance(op, SortOp):
        return free(kind.axes - along)
    return kind if isinstance(op, LogSoftmax | Softmax) or not along else NUMBERED


@registered(Blockwise, Dot)
def _products(op, node, at):
    core_op, kinds = getattr(op, "core_op", op), at.kinds(node.inputs)
    if any(k.name != "free" for k in kinds):
        return NUMBERED
    if not any(k.axes for k in kinds):
        return FREE
    if not isinstance(core_op, Dot):
        return NUMBERED
    signature = getattr(op, "signature", None) or core_op.gufunc_signature
    named, [result] = _parse_gufunc_signature(signature)
    ndim = node.outputs[0].type.ndim
    axes, sums = set(), {}
    for v, kind, names in zip(node.inputs, kinds, named, strict=True):
        lead = v.type.ndim - len(names)
        axes |= {a - lead + ndim - len(result) for a in kind.axes if a < lead}
        for i, name in enumerate(names):
            if name not in result:
                moves = lead + i in kind.axes
                sums[name] = sums.get(name, []) + [(moves, moves or uniform(v, lead + i))]
            elif lead + i in kind.axes:
                axes.add(ndim - len(result) + result.index(name))
    for pairs in sums.values():
        if any(moves for moves, _ in pairs) and not all(fits for _, fits in pairs):
            return NUMBERED
    batch = ndim - len(result)
    for v, kind, names in zip(node.inputs, kinds, named, strict=True):
        lead = v.type.ndim - len(names)
        own = [a - batch + lead for a in axes if a < batch]
        if any(a >= 0 and a not in kind.axes and not uniform(v, a) for a in own):
            return NUMBERED
    return free(axes)
