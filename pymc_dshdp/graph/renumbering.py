"""Find what becomes of a variable if the states are numbered otherwise; see ``kinds.py``."""

import numpy as np
from pytensor import scalar
from pytensor.compile.ops import TypeCastingOp
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import (
    Alloc,
    ExtractDiag,
    Join,
    MakeVector,
    ScalarFromTensor,
    TensorFromScalar,
)
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import Unique
from pytensor.tensor.reshape import JoinDims, SplitDims
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape

from pymc_dshdp._compat import IfElse, axis_and_parts
from pymc_dshdp.graph import renumbered_sums  # noqa: F401, its rules
from pymc_dshdp.graph.dependence import INDEXING, SETTING, index_entries
from pymc_dshdp.graph.kinds import FREE, LABEL, NUMBERED, free, registered, rule_of, together
from pymc_dshdp.graph.placing import inlined, lowered
from pymc_dshdp.graph.uniform import constant_value, is_elementwise, uniform
from pymc_dshdp.graph.walks import is_cast

__all__ = ["kind_of", "rows_without_axis"]

_FIRST_INPUT = (CheckAndRaise, ScalarFromTensor, SpecifyShape, TensorFromScalar, TypeCastingOp)


def kind_of(graph, leaves, n_states):
    """Find what a renumbering of the states does to a variable.

    Parameters
    ----------
    graph : Variable
        Of random variables.
    leaves : dict of Kind
        Of all that is drawn, and of what has axes of states by declaration; the walk ends there.
    n_states : int
        L.

    Returns
    -------
    Kind
    """
    if graph in leaves:
        return leaves[graph]
    inputs = {v: v.type() for v in leaves}
    return _walked(graph, inputs, leaves, n_states)[0]


def rows_without_axis(graph, leaves, n_states):
    """Find what is indexed by states along an axis that is not one of states by declaration.

    A renumbering of the states leaves such rows as they are: those of ``pt.stack([a, b])[z]``, say,
    or of a variable without the dimension.

    Parameters
    ----------
    graph, leaves, n_states
        As for ``kind_of``.

    Returns
    -------
    list of (set, bool)
        For each, the leaves that it is computed from, none where nothing of it is drawn; and
        whether it is constant, and no two states have the same.
    """
    if graph in leaves:
        return []
    inputs = {v: v.type() for v in leaves}
    found = []
    for row, axis in _walked(graph, inputs, leaves, n_states)[1].unnamed:
        behind, data = set(ancestors([row])), constant_value(row)
        distinct = data is not None and np.unique(data, axis=axis).shape[axis] == n_states
        found.append(({v for v, x in inputs.items() if x in behind}, distinct))
    return found


def _walked(graph, inputs, leaves, n_states):
    """(kind, walk) of a graph."""
    [graph] = clone_replace([graph], inputs)
    [graph] = inlined([lowered(graph)])
    walk = _Walk({inputs[v]: kind for v, kind in leaves.items()}, n_states)
    return walk.run(graph), walk


class _Walk:
    def __init__(self, kinds, n_states):
        self.n_states = n_states
        self.unnamed = []
        """(graph, axis) of what is indexed by states along an axis not declared as theirs."""
        self._kinds = kinds

    def run(self, graph):
        for node in io_toposort([], [graph]):
            if any(self.drawn(v) for v in node.inputs):
                self._kinds |= dict.fromkeys(node.outputs, rule_of(node.op, node, self))
        return self.kind(graph)

    def kind(self, v):
        return self._kinds.get(v, FREE)

    def drawn(self, v):
        """Whether a variable depends on one that is drawn."""
        return v in self._kinds

    def kinds(self, variables):
        return [self.kind(v) for v in variables]


@registered(*_FIRST_INPUT)
def _as_the_first(op, node, at):
    return at.kind(node.inputs[0])


@registered(IfElse)
def _either(op, node, at):
    condition, *branches = node.inputs
    return together(at.kinds(branches)) if at.kind(condition) == FREE else NUMBERED


@registered(Shape, Shape_i)
def _shape(op, node, at):
    return FREE if _has_free_shape(node.inputs[0], at) else NUMBERED


def _has_free_shape(v, at):
    if None not in v.type.shape or at.kind(v) != NUMBERED:
        return True
    if v.owner is None:
        return False
    if isinstance(v.owner.op, Elemwise):
        return all(_has_free_shape(x, at) for x in v.owner.inputs)
    return isinstance(v.owner.op, Unique) and at.kind(v.owner.inputs[0]) != NUMBERED


# -- element by element -------------------------------------------------------------------------


@registered(Elemwise)
def _elementwise(op, node, at):
    inputs = node.inputs
    if isinstance(op.scalar_op, scalar.Second):  # the first gives its shape alone
        return at.kind(inputs[1]) if _has_free_shape(inputs[0], at) else NUMBERED
    kinds = at.kinds(inputs)
    if NUMBERED in kinds:
        return NUMBERED
    if LABEL not in kinds:
        return _broadcast(inputs, at)
    if is_cast(node.outputs[0]):
        return NUMBERED if node.outputs[0].type.dtype == "bool" else LABEL
    if isinstance(op.scalar_op, scalar.Identity):
        return LABEL
    if isinstance(op.scalar_op, scalar.Switch):
        return LABEL if kinds == [FREE, LABEL, LABEL] else NUMBERED
    if isinstance(op.scalar_op, scalar.EQ | scalar.NEQ):
        return FREE if kinds == [LABEL, LABEL] else _compared(inputs, kinds, at)
    return NUMBERED


def _broadcast(inputs, at):
    """Kind of elements computed from free ones at the same place."""
    axes = frozenset().union(*(at.kind(v).axes for v in inputs))
    for axis in axes:
        if not all(axis in at.kind(v).axes or uniform(v, axis) for v in inputs):
            return NUMBERED
    return free(axes)


def _compared(inputs, kinds, at):
    """Kind of ``z[..., None] == arange(L)``: whether each is in each state, an axis of these."""
    labels, numbers = inputs if kinds[0] == LABEL else inputs[::-1]
    data = constant_value(numbers)
    if data is None:
        return NUMBERED
    wide = [a for a, n in enumerate(data.shape) if n != 1]
    if len(wide) != 1 or labels.type.shape[wide[0]] != 1 or at.kind(labels) != LABEL:
        return NUMBERED
    return free(wide) if np.array_equal(data.ravel(), np.arange(at.n_states)) else NUMBERED


# -- elements that move -------------------------------------------------------------------------


@registered(DimShuffle)
def _shuffled(op, node, at):
    kind = at.kind(node.inputs[0])
    return kind._replace(axes=frozenset(i for i, a in enumerate(op.new_order) if a in kind.axes))


@registered(Reshape, JoinDims, SplitDims)
def _reshaped(op, node, at):
    kind, [x, *rest] = at.kind(node.inputs[0]), node.inputs
    if any(at.kind(v) != FREE for v in rest):
        return NUMBERED
    if not kind.axes:
        return kind
    old = [at.n_states if a in kind.axes else n for a, n in enumerate(x.type.shape)]
    new = node.outputs[0].type.shape
    if None in (*old, *new):
        return NUMBERED
    places = {(int(np.prod(new[:a])), n): a for a, n in enumerate(new)}
    found = [places.get((int(np.prod(old[:a])), old[a])) for a in kind.axes]
    return NUMBERED if None in found else free(found)


@registered(Alloc)
def _filled(op, node, at):
    x, *shape = node.inputs
    if any(at.kind(v) != FREE and not _covers_all(v, at) for v in shape):
        return NUMBERED
    kind, lead = at.kind(x), node.outputs[0].type.ndim - x.type.ndim
    return kind._replace(axes=frozenset(a + lead for a in kind.axes))


def _covers_all(v, at):
    """Whether a number is max(z.max() + 1, L), as in ``pt.bincount(z, minlength=L)``: L."""
    if not is_elementwise(v, scalar.Maximum):
        return False
    largest, fewest = v.owner.inputs
    if not isinstance(fewest, Constant) or fewest.data != at.n_states:
        return False
    if not is_elementwise(largest, scalar.Add):
        return False
    [most, one] = largest.owner.inputs
    return (
        isinstance(one, Constant)
        and one.data == 1
        and most.owner is not None
        and isinstance(most.owner.op, CAReduce)
        and isinstance(most.owner.op.scalar_op, scalar.Maximum)
        and at.kind(most.owner.inputs[0]) == LABEL
    )


@registered(MakeVector)
def _stacked(op, node, at):
    return together(at.kinds(node.inputs))


@registered(Join)
def _joined(op, node, at):
    axis, parts = axis_and_parts(node)
    kind = together(at.kinds(parts))
    if len(parts) == 1:
        return kind
    if not isinstance(axis, int):
        return NUMBERED
    return NUMBERED if axis % node.outputs[0].type.ndim in kind.axes else kind


@registered(ExtractDiag)
def _diagonal(op, node, at):
    kind, ndim = at.kind(node.inputs[0]), node.inputs[0].type.ndim
    if not kind.axes:
        return kind
    both = {op.axis1 % ndim, op.axis2 % ndim}
    return free([ndim - 2]) if ndim == 2 and kind.axes == both and op.offset == 0 else NUMBERED


@registered(*INDEXING)
def _indexed(op, node, at):
    x, *inputs = node.inputs
    kind = at.kind(x)
    if NUMBERED in (kind, *at.kinds(inputs)):
        return NUMBERED
    kept, out, axis, arrays = set(), 0, 0, []
    for entry in index_entries(op, inputs):
        if entry is None:
            out += 1
        elif isinstance(entry, slice):
            bounds = [b for b in (entry.start, entry.stop, entry.step) if b is not None]
            if any(isinstance(b, Variable) and at.kind(b) != FREE for b in bounds):
                return NUMBERED
            if axis in kind.axes:
                if not all(_is_none(b) for b in bounds):
                    return NUMBERED
                kept.add((out, len(arrays) > 0))
            axis, out = axis + 1, out + 1
        else:
            picks = at.kind(entry) if isinstance(entry, Variable) else FREE
            if picks == LABEL:
                if axis not in kind.axes:
                    if not uniform(x, axis):
                        at.unnamed.append((x, axis))
                    if not _rows_of_states(x, axis, at):
                        return NUMBERED
            elif picks.axes or axis in kind.axes:
                return NUMBERED
            mask = getattr(getattr(entry, "type", None), "dtype", "") == "bool"
            ndim = getattr(getattr(entry, "type", None), "ndim", 0)
            arrays.append((out, 1 if mask else ndim))
            axis += ndim if mask else 1
    kept |= {(out + a - axis, len(arrays) > 0) for a in kind.axes if a >= axis}
    if kind == LABEL:
        return LABEL if all(k == FREE for k in at.kinds(inputs)) else NUMBERED
    width = max((n for _, n in arrays), default=0)
    together = len({place for place, _ in arrays}) <= 1
    if not together:  # the axes of separate index arrays come first
        return free({width + a for a, _ in kept})
    return free({a + (width if behind else 0) for a, behind in kept})


def _is_none(bound):
    return isinstance(bound, Constant) and bound.data is None


def _rows_of_states(x, axis, at):
    """Whether L rows without a name are drawn with the draw, and so belong to its states."""
    return at.kind(x) == FREE and x.type.shape[axis] in (None, at.n_states) and at.drawn(x)


@registered(*SETTING)
def _set(op, node, at):
    x, y, *inputs = node.inputs
    kinds = at.kinds([x, y])
    entries = index_entries(op, inputs)
    if len(entries) == 1 and isinstance(entries[0], Variable) and at.kind(entries[0]) == LABEL:
        counts = kinds == [FREE, FREE] and uniform(x, 0)
        once = not op.set_instead_of_inc or y.type.ndim == 0 or uniform(y, 0)
        return free([0]) if counts and once else NUMBERED
    if any(k != FREE for k in at.kinds(inputs)):
        return NUMBERED
    return together(kinds) if not any(k.axes for k in kinds) else NUMBERED
