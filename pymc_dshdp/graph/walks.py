"""Questions to a node of a model's graph."""

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar import Cast
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random.op import RNGConsumerOp
from pytensor.tensor.shape import SpecifyShape

__all__ = [
    "as_tensor",
    "constant_number",
    "depends_on_random_variables",
    "has_op",
    "concrete_shape",
    "core_ndim",
    "evaluate",
    "is_cast",
    "declared_parameters",
    "registering",
    "role_of",
    "support",
    "unwrap",
    "without_views",
]


def has_op(variable, op_type):
    """Whether a variable is the output of an Op of the given type."""
    return variable.owner is not None and isinstance(variable.owner.op, op_type)


def is_cast(variable):
    """Whether a variable is another one in a different dtype."""
    return has_op(variable, Elemwise) and isinstance(variable.owner.op.scalar_op, Cast)


def as_tensor(variable):
    """Return a variable of ``pymc.dims`` as the tensor of its values, others as they are."""
    return variable.values if hasattr(variable.type, "dims") else pt.as_tensor(variable)


def core_ndim(rv):
    """Return the number of dimensions of one draw of a random variable, of ``pymc.dims`` too."""
    op = rv.owner.op
    return getattr(op, "core_op", op).ndim_supp


def has_element_of_each_unit(graph, shape):
    """Whether a log-density has an element for each unit of a batch of a shape."""
    fixed = graph.type.broadcastable
    return len(fixed) == len(shape) and all(
        n == 1 or not b for n, b in zip(shape, fixed, strict=True)
    )


def constant_number(node):
    """Return the number that all elements of a constant are, broadcast or not; None of others."""
    while has_op(node, DimShuffle):
        node = node.owner.inputs[0]
    numbers = np.unique(node.data) if isinstance(node, Constant) else ()
    return float(numbers[0]) if len(numbers) == 1 else None


def declared_parameters(rv):
    """Parameters of a random variable as declared, a ``pm.Deterministic`` among them seen through.

    Parameters
    ----------
    rv : TensorVariable

    Returns
    -------
    list of TensorVariable
    """
    return without_views(rv.owner.op.dist_params(rv.owner))


def without_views(graphs):
    """Take the views out that ``pm.Deterministic`` puts into graphs, up to the random variables.

    What is not above a view stays the variable that it is.
    """
    new = {}
    for node in toposort(graphs):
        inputs = [new.get(v, v) for v in node.inputs]
        if isinstance(node.op, ViewOp):
            new[node.outputs[0]] = inputs[0]
        elif not isinstance(node.op, RNGConsumerOp) and any(v in new for v in node.inputs):
            clones = node.clone_with_new_inputs(inputs).outputs
            new |= dict(zip(node.outputs, clones, strict=True))
    return [new.get(graph, graph) for graph in graphs]


def unwrap(variable):
    """Strip what a ``size`` or ``pm.do`` puts around a parameter: leading dimensions, shapes."""
    while has_op(variable, SpecifyShape) or _adds_leading_axes(variable):
        variable = variable.owner.inputs[0]
    return variable


def _adds_leading_axes(variable):
    if not has_op(variable, DimShuffle):
        return False
    n = variable.owner.inputs[0].type.ndim
    order = list(variable.owner.op.new_order)
    return order == ["x"] * (len(order) - n) + list(range(n))


def support(model, rv):
    """Bounds (low, high) of a free variable, read from its transform.

    Raises
    ------
    ValueError
        If they depend on random variables: a step of those would move this variable too.
    """
    transform = model.rvs_to_transforms[rv]
    if transform is None:
        return -np.inf, np.inf
    ends = [transform.backward(pt.constant(x), *rv.owner.inputs) for x in (-700.0, 700.0)]
    if depends_on_random_variables(ends):
        raise ValueError(
            f"{rv.name!r} has bounds that are random variables; give it constant bounds, or a "
            "prior without bounds of its own such as pm.Gamma or pm.HalfNormal"
        )
    low, high = evaluate(ends)
    low, high = float(np.min(low)), float(np.max(high))
    return low, np.inf if high > 1e200 else high


def depends_on_random_variables(nodes):
    """Whether graphs contain random variables."""
    return any(has_op(v, RNGConsumerOp) for v in ancestors(nodes))


def role_of(rv):
    """Role of a variable that carries a prior's tag, or None."""
    return getattr(rv.tag, "dshdp", (None, None))[1]


def concrete_shape(rv):
    """Shape of a random variable, or of data, as integers."""
    if None not in rv.type.shape:
        return rv.type.shape
    return tuple(int(n) for n in evaluate(list(rv.shape)))


def evaluate(graphs):
    """Evaluate graphs without random variables, once, which is not worth compiling."""
    return pytensor.function([], graphs, mode="FAST_COMPILE")()


def registering(rules):
    """``registered(*kinds)``: decorate a rule of a ``singledispatch`` for several kinds of Op."""

    def registered(*kinds):
        def register(rule):
            for kind in kinds:
                rules.register(kind, rule)
            return rule

        return register

    return registered
