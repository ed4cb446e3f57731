"""Compiled readers: values of nodes at a point of the model, and back."""

import warnings

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numba.core.errors import NumbaWarning
from pymc.logprob.transforms import LogOddsTransform
from pymc.pytensorf import compile as compile_pymc
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import explicit_graph_inputs, graph_inputs
from pytensor.scalar.math import Sigmoid
from pytensor.tensor.elemwise import Elemwise

from pymc_dshdp.graph.terms import log_densities
from pymc_dshdp.graph.walks import has_op

__all__ = [
    "Reader",
    "in_values",
    "is_log_odds",
    "log_density_function",
    "logit_node",
    "point_function",
    "prior_log_density",
    "python_function",
    "quiet_at_first",
]


def is_log_odds(model, rv):
    """Whether the value variable of a free variable is its logit."""
    return isinstance(model.rvs_to_transforms.get(rv), LogOddsTransform)


def logit_node(model, node):
    """Graph of logit(node) in value variables: where it stands in the graph, that itself."""
    if node in model.free_RVs and is_log_odds(model, node):
        return model.rvs_to_values[node]
    [node] = model.replace_rvs_by_values([node])
    if has_op(node, Elemwise) and isinstance(node.owner.op.scalar_op, Sigmoid):
        return node.owner.inputs[0]
    return pt.log(node) - pt.log1p(-node)


def in_values(model, nodes):
    """Graphs of nodes with the random variables replaced by their value variables."""
    return model.replace_rvs_by_values(list(nodes))


def point_function(graphs, inputs=()):
    """Compile graphs in value variables to ``f(point, *inputs) -> list``, in numba mode.

    Graphs of constants alone are evaluated once, those of data by Python, and values that the
    point has are taken from it as they are. Every call returns new arrays.
    """
    varying = [v for v in graph_inputs(graphs) if not isinstance(v, Constant)]
    free = [v for v in varying if v not in inputs and not isinstance(v, SharedVariable)]
    if all(graph in free for graph in graphs):
        return lambda point, *_: [_as_type(point[v.name], v.dtype).copy() for v in graphs]
    if not (free or inputs):
        function = python_function(graphs)
        if varying:
            return function
        constants = function({})
        return lambda point: [np.copy(x) for x in constants]
    function = compile_pymc([*inputs, *free], graphs, mode="NUMBA", on_unused_input="ignore")
    function.trust_input = True  # ``_as_type`` sees to the types of values, in less time
    function = quiet_at_first(function)
    names, dtypes = [v.name for v in free], [v.dtype for v in (*inputs, *free)]

    def call(point, *values):
        given = (*values, *(point[name] for name in names))
        return function(*map(_as_type, given, dtypes))

    return call


def quiet_at_first(function):
    """Return the function, without what numba says at its first call, when it compiles.

    That arrays are not contiguous, or that it cannot cache what it compiles, is of no use to who
    has written ``X @ phi.T``.
    """
    compiled = False

    def call(*values):
        nonlocal compiled
        if compiled:
            return function(*values)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumbaWarning)
            found = function(*values)
        compiled = True
        return found

    return call


def python_function(graphs):
    """Compile graphs in value variables to ``f(point) -> list``, quickly, for Python to evaluate.

    For what is evaluated a few times, or is small.
    """
    inputs = [
        v for v in explicit_graph_inputs(graphs) if not isinstance(v, Constant | SharedVariable)
    ]
    function = pytensor.function(inputs, graphs, mode=Mode("py", "fast_compile"))
    return lambda point: function(*(point[v.name] for v in inputs))


def _as_type(value, dtype):
    """Array of a dtype; a TypeError if that would cut off fractions."""
    return np.asarray(value).astype(dtype, casting="same_kind", copy=False)


class Reader:
    """Scalar hyperparameters: natural values from a point, and value-space numbers back.

    Parameters
    ----------
    model : pymc.Model
    nodes : list of scalar nodes
    """

    def __init__(self, model, nodes):
        self._read = point_function(in_values(model, nodes))
        self._free = [i for i, node in enumerate(nodes) if node in model.free_RVs]
        self._values = [model.rvs_to_values[nodes[i]] for i in self._free]
        natural = [pt.scalar(dtype=nodes[i].dtype) for i in self._free]
        forward = []
        for i, x in zip(self._free, natural, strict=True):
            transform = model.rvs_to_transforms[nodes[i]]
            rng_and_size, parameters = nodes[i].owner.inputs[:2], nodes[i].owner.inputs[2:]
            inputs = [*rng_and_size, *in_values(model, parameters)]
            forward.append(x if transform is None else transform.forward(x, *inputs))
        self._write = point_function(forward, natural) if forward else None

    def read(self, point):
        """Natural values, floats."""
        return [float(x) for x in self._read(point)]

    def write(self, point, naturals):
        """Value-variable entries of the free ones, given the natural values of all nodes."""
        if self._write is None:
            return {}
        out = self._write(point, *(naturals[i] for i in self._free))
        return {
            value.name: value.type.filter(x, allow_downcast=True)
            for value, x in zip(self._values, out, strict=True)
        }


def log_density_function(model, rv):
    """``f(point, x) -> log p(x | parents)`` of a free scalar variable, x in value space."""
    value = model.rvs_to_values[rv]
    [graph] = log_densities(model, [rv])
    call = point_function([graph.sum()], [value])
    return lambda point, x: float(call(point, value.type.filter(x, allow_downcast=True))[0])


def prior_log_density(model, rv):
    """``f(point, x) -> log p(x | parents)`` of a scalar variable at a vector of natural x."""
    x = pt.vector("x", dtype=rv.dtype)
    scalar = pt.scalar("x_scalar", dtype=rv.dtype)
    [graph] = in_values(model, [pm.logp(rv, scalar)])
    evaluate = point_function([vectorize_graph(graph, {scalar: x})], [x])
    return lambda point, values: evaluate(point, np.asarray(values, rv.dtype))
