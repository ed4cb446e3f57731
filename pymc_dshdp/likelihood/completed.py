"""Observations that are missing in part, put together again as one likelihood.

PyMC splits a masked observation ``y ~ Dist(theta[z])`` into ``y_observed`` and the free
``y_unobserved``, either two variables of their own with the parameters indexed by the mask, or
the two outputs of a ``PartialObservedRV``. What is conjugate to the whole likelihood is conjugate
given the imputed values in the point, which is exact whichever step drew them last.
"""

from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import PartialObservedRV
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor

from pymc_dshdp.graph.splits import split_observation
from pymc_dshdp.graph.walks import declared_parameters, has_op

__all__ = ["Completed", "completed"]


class Completed(NamedTuple):
    """One likelihood in two parts.

    Attributes
    ----------
    rv : TensorVariable
        The likelihood as it was before it was split; not a variable of the model. It has the name
        that the user gave.
    joined : TensorVariable
        The model's Deterministic of its value: observed and unobserved parts put together.
    mask : ndarray of bool
        True where unobserved; of the shape of ``rv``, or without its core dimensions.
    parts : tuple of two TensorVariable
        (observed, unobserved).
    """

    rv: Variable
    joined: Variable
    mask: np.ndarray
    parts: tuple


def completed(model, part):
    """Put together the likelihood that a variable is a part of.

    Parameters
    ----------
    model : pymc.Model
    part : TensorVariable

    Returns
    -------
    Completed or None
        None if the variable is no part of a masked observation, or one whose parameters cannot
        be told from the graph.
    """
    split = split_observation(model, part)
    if split is None:
        return None
    _, observed, unobserved, joined = split
    if has_op(unobserved, PartialObservedRV):
        rv, mask = unobserved.owner.inputs
        mask = np.asarray(mask.data) if isinstance(mask, Constant) else None
    else:
        mask = _mask(joined, unobserved)
        rv = None if mask is None else _whole(unobserved, mask, joined.name)
    if rv is None or mask is None:
        return None
    return Completed(rv, joined, mask, (observed, unobserved))


def _mask(joined, unobserved):
    for node in ancestors([joined]):
        if has_op(node, AdvancedIncSubtensor) and node.owner.inputs[1] is unobserved:
            mask = node.owner.inputs[2]
            return np.asarray(mask.data) if isinstance(mask, Constant) else None
    return None


def _whole(unobserved, mask, name):
    """Random variable of the shape of the mask whose masked part a variable is."""
    op = unobserved.owner.op
    if not isinstance(op, RandomVariable):
        return None
    parameters = [
        _whole_parameter(p, mask, core)
        for p, core in zip(declared_parameters(unobserved), op.ndims_params, strict=True)
    ]
    if any(p is None for p in parameters):
        return None
    rng = unobserved.owner.inputs[0]
    out = op.make_node(rng, pt.as_tensor(mask.shape, dtype="int64"), *parameters).outputs[1]
    out.name = name
    return out


def _whole_parameter(parameter, mask, core):
    if has_op(parameter, AdvancedSubtensor):
        base, *index = parameter.owner.inputs
        if len(index) == 1 and isinstance(index[0], Constant):
            at = index[0].data
            if at.dtype == bool and at.shape == mask.shape and np.array_equal(at, mask):
                return base
    batch = parameter.type.ndim - core
    return parameter if all(parameter.type.broadcastable[:batch]) else None
