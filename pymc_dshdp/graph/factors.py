"""Products of a graph with known numbers: an exposure beside a rate."""

from functools import reduce

import numpy as np
import pytensor.tensor as pt
from pytensor.scalar.basic import Add, Exp, Log, Mul, Sub, TrueDiv
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_dshdp.graph.walks import depends_on_random_variables, has_op

__all__ = ["known_factor"]

ZERO, ONE = pt.constant(np.float64(0.0)), pt.constant(np.float64(1.0))  # not of smaller types


def known_factor(node):
    """Divide a positive graph into one that may be random and a factor that is not.

    Products, quotients and, below an exponential, sums are looked at: ``rate * exposure``,
    ``exp(intercept + log(exposure))``.

    Parameters
    ----------
    node : TensorVariable

    Returns
    -------
    rest, factor : TensorVariable
        node = rest * factor; the factor depends on no random variable, and is 1 where there is
        none to be seen.
    """
    if not depends_on_random_variables([node]):
        return node, ONE
    if _has(node, Mul):
        known, others = [], []
        for x in node.owner.inputs:
            if depends_on_random_variables([x]):
                rest, factor = known_factor(x)
                others.append(rest)
                known += [] if factor is ONE else [factor]
            else:
                known.append(x)
        if known:
            return reduce(pt.mul, others), reduce(pt.mul, known, ONE)
    elif _has(node, TrueDiv):
        over, under = node.owner.inputs
        if not depends_on_random_variables([under]):
            rest, factor = known_factor(over)
            return rest, factor / under
    elif _has(node, Exp):
        known, others = _addends(node.owner.inputs[0])
        if known:
            return _exp(reduce(pt.add, others)), pt.exp(reduce(pt.add, known, ZERO))
    return node, ONE


def _has(node, kind):
    return has_op(node, Elemwise) and isinstance(node.owner.op.scalar_op, kind)


def _addends(node):
    """Known addends of a sum or a difference, and the others."""
    if not depends_on_random_variables([node]):
        return [node], []
    if not _has(node, (Add, Sub)):
        return [], [node]
    parts = [_addends(x) for x in node.owner.inputs]
    if _has(node, Sub):
        known, others = parts[1]
        parts[1] = [ZERO - x for x in known], [-x for x in others]
    return sum((known for known, _ in parts), []), sum((others for _, others in parts), [])


def _exp(node):
    """Exp of a node, which undoes a logarithm, of what is indexed too."""
    if _has(node, Log):
        return node.owner.inputs[0]
    if has_op(node, AdvancedSubtensor) and _has(node.owner.inputs[0], Log):
        log, *index = node.owner.inputs
        return node.owner.clone_with_new_inputs([log.owner.inputs[0], *index]).outputs[0]
    return pt.exp(node)
