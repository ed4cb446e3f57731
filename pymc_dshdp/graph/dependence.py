"""Which time's state each element of a tensor depends on: one rule for each kind of Op.

The *times* of a tensor are an int32 array of its shape: the time whose state an element is a
function of, ``NONE`` where it depends on no state, ``SEVERAL`` where it may depend on those of
more than one time. A rule gives the times of an Op's outputs from those of its inputs; where
nothing better is known, everything depends on everything.
"""

from functools import singledispatch

import numpy as np
from pytensor.compile.ops import TypeCastingOp
from pytensor.graph.basic import Constant, Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import Mul, ScalarOp, Second, Switch
from pytensor.tensor import subtensor
from pytensor.tensor.basic import (
    Alloc,
    Choose,
    ExtractDiag,
    Join,
    MakeVector,
    ScalarFromTensor,
    Split,
    TensorFromScalar,
)
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp, Repeat
from pytensor.tensor.math import Argmax, Dot
from pytensor.tensor.reshape import JoinDims, SplitDims
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.sort import ArgSortOp, SortOp
from pytensor.tensor.special import LogSoftmax, Softmax
from pytensor.tensor.type import discrete_dtypes
from pytensor.tensor.utils import _parse_gufunc_signature

from pymc_dshdp._compat import IfElse, axis_and_parts
from pymc_dshdp.graph.walks import registering

__all__ = [
    "INDEXING",
    "NONE",
    "SETTING",
    "SEVERAL",
    "gathered",
    "index_entries",
    "shape_inputs",
    "times_of",
]

NONE = -1
SEVERAL = np.iinfo("int32").max
_REARRANGING = (DimShuffle, ExtractDiag, JoinDims, Repeat, Split, SplitDims)
_ELEMENTWISE = (Elemwise, ScalarOp)
_FIRST_INPUT = (CheckAndRaise, ScalarFromTensor, SpecifyShape, TensorFromScalar, TypeCastingOp)
_ALONG_AXIS = (ArgSortOp, CumOp, LogSoftmax, Softmax, SortOp)


def _subtensor_ops(*names):
    return tuple(getattr(subtensor, name) for name in names if hasattr(subtensor, name))


INDEXING = _subtensor_ops("Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1")
SETTING = _subtensor_ops("IncSubtensor", "AdvancedIncSubtensor", "AdvancedIncSubtensor1")
_SHAPE_OF_INPUTS = (
    *(*_ELEMENTWISE, *_FIRST_INPUT, *_ALONG_AXIS, *SETTING),
    *(
        DimShuffle,
        ExtractDiag,
        JoinDims,
        CAReduce,
        Argmax,
        Blockwise,
        Dot,
        MakeVector,
        Join,
        Choose,
    ),
)
_SHAPE_GIVEN = (Alloc, Reshape, Repeat, Split, SplitDims)


def shape_inputs(node):
    """List inputs of a node whose values may set the shape of its outputs."""
    if isinstance(node.op, _SHAPE_OF_INPUTS):
        return []
    if isinstance(node.op, _SHAPE_GIVEN):
        return node.inputs[1:]
    if isinstance(node.op, INDEXING):
        entries = index_entries(node.op, node.inputs[1:])
        slices = [e for e in entries if isinstance(e, slice)]
        bounds = [b for e in slices for b in (e.start, e.stop, e.step)]
        masks = [e for e in entries if getattr(getattr(e, "type", None), "dtype", None) == "bool"]
        return [v for v in (*bounds, *masks) if isinstance(v, Variable)]
    return [v for v in node.inputs if getattr(v.type, "dtype", "int64") in discrete_dtypes]


def united(parts, shape):
    """Unite the times of parts, broadcast to a shape, of which each element is a function."""
    out = np.broadcast_to(np.int32(NONE), shape)
    for part in parts:
        part = np.broadcast_to(part, shape)
        if np.array_equal(part, out):
            continue
        merged = np.where(out == NONE, part, out)
        merged[(part != merged) & (part != NONE)] = SEVERAL
        out = merged
    return out


def gathered(times, axes, keepdims=False):
    """Unite times along axes (all if None)."""
    last = times.max(axis=axes, keepdims=keepdims, initial=NONE)
    dated = np.where(times == NONE, SEVERAL, times)
    first = dated.min(axis=axes, keepdims=keepdims, initial=SEVERAL)
    return np.where(first < last, SEVERAL, last).astype("int32")


@singledispatch
def times_of(op, node, at):
    """Derive the times of the outputs of a node.

    Parameters
    ----------
    op : Op
        Of the node.
    node : Apply
    at : Dependence
        ``at.times(v)``, ``at.shape(v)``, ``at.fixed(v)`` (whether the value is one of constants and
        data) and ``at.value(v)`` of what is fixed.

    Returns
    -------
    list of ndarray
    """
    every = united([gathered(at.times(v), None) for v in node.inputs], ())
    return [np.broadcast_to(every, at.shape(v)) for v in node.outputs]


registered = registering(times_of)


@registered(*_ELEMENTWISE)
def _elementwise(op, node, at):
    scalar, inputs = getattr(op, "scalar_op", op), node.inputs
    shape = np.broadcast_shapes(*(at.shape(v) for v in inputs))
    if isinstance(scalar, Second):  # the first gives its shape alone
        inputs = inputs[1:]
    if isinstance(scalar, Switch) and at.fixed(inputs[0]):
        out = np.where(at.value(inputs[0]), at.times(inputs[1]), at.times(inputs[2]))
        return [np.broadcast_to(out, shape)] * len(node.outputs)
    out = united([at.times(v) for v in inputs], shape)
    if isinstance(scalar, Mul) and (out == SEVERAL).any():
        zero = [at.value(v) == 0 for v in inputs if at.fixed(v)]
        for where in zero:  # 0 times anything (finite) is 0
            out = np.where(where, np.int32(NONE), out)
    return [out] * len(node.outputs)


@registered(IfElse)
def _either(op, node, at):
    condition, *branches = node.inputs
    n = len(node.outputs)
    condition = at.times(condition)
    return [
        united([condition, at.times(a), at.times(b)], at.shape(a))
        for a, b in zip(branches[:n], branches[n:], strict=True)
    ]


@registered(*_FIRST_INPUT)
def _as_the_first(op, node, at):
    return [np.reshape(at.times(node.inputs[0]), at.shape(node.outputs[0]))]


@registered(Choose)
def _chosen(op, node, at):
    which, choices = node.inputs
    if at.timed(choices):
        return times_of.dispatch(object)(op, node, at)
    return [np.broadcast_to(at.times(which), at.shape(node.outputs[0]))]


# -- elements that move -------------------------------------------------------------------------


@registered(*_REARRANGING)
def _rearranged(op, node, at):
    storage = [[None] for _ in node.outputs]
    op.perform(node, [at.times(node.inputs[0]), *(at.value(v) for v in node.inputs[1:])], storage)
    return [np.asarray(out) for [out] in storage]


@registered(Reshape)
def _reshaped(op, node, at):
    return [at.times(node.inputs[0]).reshape(at.shape(node.outputs[0]))]


@registered(Alloc)
def _filled(op, node, at):
    return [np.broadcast_to(at.times(node.inputs[0]), at.shape(node.outputs[0]))]


@registered(MakeVector)
def _stacked(op, node, at):
    return [np.stack([at.times(v) for v in node.inputs])]


@registered(Join)
def _joined(op, node, at):
    axis, parts = axis_and_parts(node)
    axis = axis if isinstance(axis, int) else int(at.value(axis))
    return [np.concatenate([at.times(v) for v in parts], axis=axis)]


def index_entries(op, inputs):
    """Index of a subtensor Op as a tuple of slices of variables, None and variables."""
    if isinstance(op, _subtensor_ops("AdvancedSubtensor1", "AdvancedIncSubtensor1")):
        return tuple(inputs)
    if getattr(op, "idx_list", None) is not None:
        return tuple(subtensor.indices_from_subtensor(list(inputs), op.idx_list))
    return tuple(_entry(v) for v in inputs)


def _entry(variable):
    """Entry of an index that is an input of the Op: a slice, None or an array."""
    if isinstance(variable, Constant) and isinstance(variable.data, slice | None):
        return variable.data
    if variable.owner is not None and not hasattr(variable.type, "ndim"):  # makes a slice
        return slice(*variable.owner.inputs)
    return variable


def _bound(bound, at):
    if isinstance(bound, Variable):
        bound = at.value(bound)
    return None if bound is None else int(bound)


class _Index:
    """Index of one node in numbers, 0 for an entry that is not fixed.

    Attributes
    ----------
    plain : list
    moving : list of (int, int, Variable)
        Position, axis of the tensor, and variable of each entry that is not fixed.
    """

    def __init__(self, op, inputs, at):
        self.plain, self.moving, axis = [], [], 0
        for entry in index_entries(op, inputs):
            if entry is None:
                self.plain.append(None)
                continue
            if isinstance(entry, slice):
                bounds = (entry.start, entry.stop, entry.step)
                value = slice(*(_bound(b, at) for b in bounds))
            elif at.fixed(entry):
                value = np.asarray(at.value(entry))
            else:
                value = np.zeros(at.shape(entry), int)
                self.moving.append((len(self.plain), axis, entry))
            self.plain.append(value)
            axis += value.ndim if isinstance(value, np.ndarray) and value.dtype.kind == "b" else 1

    def __call__(self, array):
        return array[tuple(self.plain)]

    def replaced(self, position, value):
        """Index with one entry replaced."""
        entries = list(self.plain)
        entries[position] = value
        return tuple(entries)


@registered(*INDEXING)
def _indexed(op, node, at):
    x, *inputs = node.inputs
    index = _Index(op, inputs, at)
    times, shape = at.times(x), at.shape(x)
    thin = list(shape)
    for _, axis, _ in index.moving:  # any entry along this axis may be meant
        times = gathered(times, axis, keepdims=True)
        thin[axis] = 1
    parts = [index(times)]
    codes = np.concatenate([[NONE], np.arange(at.T), [SEVERAL]]).astype("int32")
    for position, axis, entry in index.moving:
        if at.timed(entry):
            # the tensor whose entry i along the axis is code i, read where the index is the code
            along = codes.reshape([-1 if i == axis else 1 for i in range(len(shape))])
            size = (*thin[:axis], codes.size, *thin[axis + 1 :])
            code = np.minimum(at.times(entry), at.T) + 1
            parts.append(np.broadcast_to(along, size)[index.replaced(position, code)])
    return [united(parts, parts[0].shape)]


@registered(*SETTING)
def _set(op, node, at):
    x, y, *inputs = node.inputs
    index = _Index(op, inputs, at)
    if index.moving:
        rest = [gathered(at.times(v), None) for v in (y, *(e for _, _, e in index.moving))]
        return [united([at.times(x), *rest], at.shape(x))]
    out, y = at.times(x).copy(), at.times(y)
    entries = tuple(index.plain)
    if op.set_instead_of_inc:
        out[entries] = y
        return [out]
    first = np.where(out == NONE, SEVERAL, out)
    np.maximum.at(out, entries, y)
    np.minimum.at(first, entries, np.where(y == NONE, SEVERAL, y))
    return [np.where(first < out, SEVERAL, out).astype("int32")]


# -- elements that are taken together -----------------------------------------------------------


@registered(CAReduce, Argmax)
def _reduced(op, node, at):
    out = gathered(at.times(node.inputs[0]), None if op.axis is None else tuple(np.ravel(op.axis)))
    return [out] * len(node.outputs)


@registered(*_ALONG_AXIS)
def _along_axis(op, node, at):
    times = at.times(node.inputs[0])
    axis = op.axis if hasattr(op, "axis") else at.value(node.inputs[1])
    axes = None if axis is None else tuple(np.ravel(axis).astype(int))
    shape = at.shape(node.outputs[0])
    return [np.broadcast_to(gathered(times, axes, keepdims=axis is not None), shape)]


@registered(Blockwise, Dot)
def _blockwise(op, node, at):
    core_op = getattr(op, "core_op", op)
    signature = getattr(op, "signature", None) or core_op.gufunc_signature
    inputs_sig, outputs_sig = _parse_gufunc_signature(signature)
    separate = _separate(core_op, inputs_sig)
    parts = []
    for v, core, own in zip(node.inputs, inputs_sig, separate, strict=True):
        times = at.times(v)
        start = times.ndim - len(core)
        axes = tuple(start + i for i, name in enumerate(core) if name not in own)
        parts.append((gathered(times, axes, keepdims=True), start, core))
    out = []
    for v, core in zip(node.outputs, outputs_sig, strict=True):
        placed = [_at_core(times, start, names, core) for times, start, names in parts]
        out.append(united(placed, at.shape(v)))
    if isinstance(core_op, Dot) and (out[0] == SEVERAL).any():
        out = [_without_zeros(node, at, out[0])]
    return out


def _separate(core_op, inputs_sig):
    """Core axes of each input along which the output's elements are computed one by one."""
    if isinstance(core_op, Dot):
        return ({inputs_sig[0][0]}, {inputs_sig[1][1]})
    if getattr(core_op, "b_ndim", None) == 2:  # columns of the right-hand side of a solve
        return (set(),) * (len(inputs_sig) - 1) + ({inputs_sig[-1][-1]},)
    return (set(),) * len(inputs_sig)


def _at_core(times, start, names, core):
    """Lay the core axes that are left where the output has them, and 1 elsewhere."""
    sizes = dict(zip(names, times.shape[start:], strict=True))
    kept = [sizes[name] if name in sizes else 1 for name in core]
    return times.reshape(*times.shape[:start], *kept)


def _without_zeros(node, at, times):
    """Unite the times in a matrix product but where a fixed factor is 0."""
    a, b = node.inputs
    if not (at.fixed(a) or at.fixed(b)):
        return times
    out = np.broadcast_to(np.int32(NONE), times.shape)
    ones = np.ones((), bool)
    left, right = at.times(a), at.times(b)
    used_a = at.value(a) != 0 if at.fixed(a) else np.broadcast_to(ones, left.shape)
    used_b = at.value(b) != 0 if at.fixed(b) else np.broadcast_to(ones, right.shape)
    for i in range(left.shape[-1]):
        used = used_a[..., :, i, None] & used_b[..., i, None, :]
        pair = united([left[..., :, i, None], right[..., i, None, :]], times.shape)
        out = united([out, np.where(used, pair, np.int32(NONE))], times.shape)
    return out
