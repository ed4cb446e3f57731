"""Draws of a free variable from its prior, in value space, given its hyperparameters."""

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import toposort
from pytensor.tensor.random.op import RandomVariable, RNGConsumerOp
from pytensor.tensor.type import TensorType

from pymc_dshdp.graph.readers import in_values, point_function

__all__ = ["PriorDraw"]


class PriorDraw:
    """``draw(point, rng) -> values`` of a free variable, independent of the values it has.

    Nothing is compiled but the hyperparameters.

    Parameters
    ----------
    model : pymc.Model
    rv : TensorVariable

    Raises
    ------
    NotImplementedError
        If the variable's distribution cannot be drawn from.
    """

    def __init__(self, model, rv):
        node = rv.owner
        given = [
            v for v in node.inputs if isinstance(v.type, TensorType) and not isinstance(v, Constant)
        ]
        self._read = point_function(in_values(model, given))
        fresh = {v: v.type() for v in given}
        inputs = [fresh.get(v, v) for v in node.inputs]
        draw = node.clone_with_new_inputs(inputs).outputs[node.outputs.index(rv)]
        transform = model.rvs_to_transforms[rv]
        if transform is not None:
            draw = transform.forward(draw, *inputs)
        self._dtype = model.rvs_to_values[rv].dtype
        self._program = _Program(list(fresh.values()), [draw])

    def __call__(self, point, rng):
        """Draw all elements."""
        [draw] = self._program(self._read(point), rng)
        return np.asarray(draw, self._dtype)


class _Program:
    """A small graph, evaluated node by node with the random numbers of a generator given."""

    def __init__(self, inputs, outputs):
        self._inputs, self._outputs = inputs, outputs
        self._nodes = list(toposort(outputs, blockers=inputs))
        self._inner = {}
        for node in self._nodes:
            if isinstance(node.op, RandomVariable) or not isinstance(node.op, RNGConsumerOp):
                continue
            if not isinstance(node.op, OpFromGraph):
                raise NotImplementedError(f"{node.op} cannot be drawn from")
            self._inner[node] = _Program(node.op.inner_inputs, node.op.inner_outputs)

    def __call__(self, values, rng):
        known = dict(zip(self._inputs, values, strict=True))
        for node in self._nodes:
            arguments = [v.data if isinstance(v, Constant) else known.get(v) for v in node.inputs]
            if isinstance(node.op, RandomVariable):
                _, size, *parameters = arguments
                size = None if size is None else tuple(int(n) for n in size)
                drawn = node.op.rng_fn(rng, *parameters, size)
                results = [None, np.asarray(drawn, node.outputs[1].dtype)]
            elif node in self._inner:
                results = self._inner[node](arguments, rng)
            else:
                cells = [[None] for _ in node.outputs]
                node.op.perform(node, arguments, cells)
                results = [cell[0] for cell in cells]
            known |= dict(zip(node.outputs, results, strict=True))
        return [known.get(v) for v in self._outputs]
