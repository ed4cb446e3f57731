"""Draws of a free variable from its prior, in value space, given its hyperparameters."""

import logging

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.distributions.transforms import _default_transform
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Constant
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.random.op import RandomVariable, RNGConsumerOp
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.type import TensorType

from pymc_dshdp.graph.readers import in_values, point_function
from pymc_dshdp.graph.walks import has_op

__all__ = ["PriorDraw", "drawn_from_prior", "has_own_transform"]

_log = logging.getLogger(__name__)


class PriorDraw:
    """``draw(point, rng) -> values`` of a free variable, independent of the values it has.

    Nothing is compiled but the hyperparameters. Distributions that the prior is made of
    (``pm.HalfNormal.dist(1)`` in a correlation's, the components of a mixture) are drawn with it.

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
        given = list(dict.fromkeys(_to_read(model, node.inputs)))
        self._read = point_function(in_values(model, given))
        fresh = {v: v.type() for v in given}
        draw, *inputs = clone_replace([rv, *node.inputs], fresh)
        value = model.rvs_to_values[rv]
        again = present = value.type()
        transform = model.rvs_to_transforms[rv]
        if transform is not None:
            draw = transform.forward(draw, *inputs)
            again = transform.forward(transform.backward(present, *inputs), *inputs)
        self._name, self._dtype = value.name, value.dtype
        self._program = _Program(list(fresh.values()), [draw])
        self._again = _Program([*fresh.values(), present], [again])

    def __call__(self, point, rng):
        """Draw all elements."""
        [draw] = self._program(self._read(point), rng)
        return np.asarray(draw, self._dtype)

    def renewed(self, point, rng, units, where):
        """Draw some units, given the values that they have; (n, ...).

        A draw may have no value in floating point: the logarithm of a number that rounds to 0.
        So a unit is moved from such values only as draws can have, and to such, which leaves
        the prior of all values invariant; from others it stays.

        Parameters
        ----------
        point : dict
        rng : numpy.random.Generator
        units : int
            n: the variable is n units, end to end.
        where : ndarray of bool, shape (n,)
            Which of them to draw.
        """
        x = np.array(point[self._name]).reshape(units, -1)
        drawn = self(point, rng).reshape(units, -1)
        with np.errstate(all="ignore"):
            [again] = self._again([*self._read(point), point[self._name]], rng)
        where = where & np.isfinite(drawn).all(axis=1)
        where &= np.isfinite(again).reshape(units, -1).all(axis=1)
        x[where] = drawn[where]
        return x


def _to_read(model, nodes):
    """Yield what a point tells: the nodes nearest to a draw that depend on no other draw."""
    for node in nodes:
        if isinstance(node, Constant) or isinstance(node.type, RandomType):
            continue
        if node in model.basic_RVs or not _has_draws(model, node):
            if isinstance(node.type, TensorType):
                yield node
        else:
            yield from _to_read(model, node.owner.inputs)


def _has_draws(model, node):
    """Whether there are draws in a node's graph that are no variables of the model."""
    return any(has_op(v, RNGConsumerOp) for v in ancestors([node], blockers=model.basic_RVs))


def has_own_transform(model, rv, value):
    """Whether the transform of a variable maps to all of its distribution's support.

    A draw in the space of values then has the prior's density there; under another transform (a
    Normal between bounds) that density is cut off or distorted, and the draw's is not.

    Parameters
    ----------
    model : pymc.Model
    rv : TensorVariable
    value : ndarray
        A value, for its shape.
    """
    transform, own = model.rvs_to_transforms[rv], _default_transform(rv.owner.op, rv)
    if transform is None or own is None:
        return transform is own
    if type(transform) is not type(own):
        return False
    maps = []
    for low, high in ((-2.0, 2.0), (1.0, -0.5)):
        at = pt.constant(np.linspace(low, high, value.size).reshape(value.shape))
        maps += [t.backward(at, *rv.owner.inputs) for t in (transform, own)]
    one, two, three, four = pytensor.function([], maps, mode="FAST_COMPILE")()
    return np.array_equal(one, two) and np.array_equal(three, four)


def drawn_from_prior(model, rv, start):
    """``PriorDraw`` of a variable; None if its prior cannot be drawn from in value space."""
    value = start[model.rvs_to_values[rv].name]
    try:
        draw = PriorDraw(model, rv)
        if not has_own_transform(model, rv, value):
            raise NotImplementedError("its transform is not that of its distribution")
        if draw(start, np.random.default_rng(0)).shape != value.shape:
            raise NotImplementedError("its draws have another shape")
    except Exception as error:  # whatever a distribution of others raises where it cannot be drawn
        _log.debug("%s is not drawn from its prior where states are empty: %s", rv.name, error)
        return None
    return draw


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
                for i, v in enumerate(node.inputs):  # a loop: with a stream of its own
                    if isinstance(v.type, RandomType):
                        arguments[i] = np.random.default_rng(rng.integers(2**63, size=4))
                cells = [[None] for _ in node.outputs]
                node.op.perform(node, arguments, cells)
                results = [cell[0] for cell in cells]
            known |= dict(zip(node.outputs, results, strict=True))
        return [known.get(v) for v in self._outputs]
