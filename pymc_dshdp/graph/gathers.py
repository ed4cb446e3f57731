"""Which states read which elements of a variable: proved from the graph, for every path.

A *gather* takes the row of each time's state from a table: ``theta[z]``, ``f(theta)[z[1:]]``,
``pt.stack(scalars)[z]``, ``(X @ b.T)[times, z]``. Where a log-density depends on a variable through
gathers alone, it is, on any path, a function of the rows of the states on that path and of nothing
else of these tables. Which elements of the variable a row depends on is followed through the
table's own graph, as ``dependence.py`` follows times.
"""

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import Cast
from pytensor.tensor.basic import ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.reshape import JoinDims, SplitDims
from pytensor.tensor.shape import Reshape, SpecifyShape

from pymc_dshdp.graph.dependence import INDEXING, NONE, SEVERAL, index_entries
from pymc_dshdp.graph.placing import Dependence, SeveralTimes, inlined, lowered
from pymc_dshdp.graph.pointwise import depends_on

__all__ = ["states_that_read"]

_SELECTING = (
    *INDEXING,
    DimShuffle,
    JoinDims,
    Reshape,
    ScalarFromTensor,
    SpecifyShape,
    SplitDims,
    TensorFromScalar,
)


def states_that_read(graph, value, z, n_states, start):
    """Find the elements of a variable that a log-density may depend on where a state occurs.

    Parameters
    ----------
    graph : TensorVariable
        In value variables.
    value, z : TensorVariable
        Value variables: the variable, and the states.
    n_states : int
    start : dict
        Values of the value variables, for their shapes.

    Returns
    -------
    ndarray of bool, shape (size, n_states)
        False where the log-density is proved not to depend on the element on any path that the
        state is not on. All True where nothing is proved.
    """
    shape = start[value.name].shape
    size = int(np.prod(shape, dtype=int))
    every = np.ones((size, n_states), bool)
    try:
        [graph] = inlined([lowered(graph)])
        gathers = _gathers(graph, value, z)
        if gathers is None:
            return every
        uses = ~every
        for table, axis in gathers:
            uses |= _read_from(table, axis, value, n_states, start)
    except SeveralTimes:
        return every
    return uses


def _gathers(graph, value, z):
    """(table, axis of the states) of all gathers of what depends on a variable.

    None if the graph depends on it otherwise.
    """
    found, seen, behind = [], set(), [graph]
    while behind:
        v = behind.pop()
        if v in seen:
            continue
        seen.add(v)
        if v is value:
            return None
        if v.owner is None:
            continue
        axis = _axis_of_states(v, z)
        if axis is None:
            behind += v.owner.inputs
            continue
        table, *index = v.owner.inputs
        behind += index
        if depends_on(table, value):
            found.append((table, axis))
    return found


def _axis_of_states(v, z):
    """Axis of a table along which a node takes the rows of states; None if it does not."""
    if not isinstance(v.owner.op, INDEXING) or depends_on(v.owner.inputs[0], z):
        return None
    axis = 0
    for entry in index_entries(v.owner.op, v.owner.inputs[1:]):
        if entry is None:
            continue
        if isinstance(entry, Variable) and _is_selection(entry, z):
            return axis
        axis += (
            entry.type.ndim if getattr(getattr(entry, "type", None), "dtype", "") == "bool" else 1
        )
    return None


def _is_selection(v, z):
    """Whether all elements of an index are elements of z."""
    while v is not z:
        if v.owner is None:
            return False
        op, first = v.owner.op, v.owner.inputs[0]
        cast = isinstance(op, Elemwise) and isinstance(op.scalar_op, Cast)
        if not isinstance(op, _SELECTING) and not (
            cast and np.can_cast(first.type.dtype, v.type.dtype, "safe")
        ):
            return False
        v = first
    return True


def _read_from(table, axis, value, n_states, start):
    """Elements of a variable that the rows of a table depend on; (size, n_states).

    Every way to merge elements says what a row does not depend on.
    """
    shape = start[value.name].shape
    size = int(np.prod(shape, dtype=int))
    uses = np.ones((size, n_states), bool)
    checks = [v for v in ancestors([table]) if v.owner and isinstance(v.owner.op, CheckAndRaise)]
    if any(depends_on(c, value) for v in checks for c in v.owner.inputs[1:]):
        return uses
    labellings = [np.arange(size).reshape(shape)]
    labellings += [i for i, n in zip(np.indices(shape), shape, strict=True) if n > 1]
    for labels in labellings:
        [times] = Dependence([table], value, shape, start, labels).run()
        rows = np.moveaxis(times, axis, 0)
        rows = rows.reshape(len(rows), -1)[:n_states]
        own = np.zeros((n_states, labels.max(initial=0) + 1), bool)
        for k, row in enumerate(rows):
            if (row == SEVERAL).any():
                own[k] = True
            else:
                own[k, row[row != NONE]] = True
        uses &= own[:, labels.ravel()].T
    return uses
