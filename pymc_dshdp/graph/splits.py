"""Masked observations, which PyMC splits into an observed and a free part."""

from typing import NamedTuple

from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

__all__ = ["OBSERVED", "UNOBSERVED", "Split", "split_observation"]

OBSERVED, UNOBSERVED = "_observed", "_unobserved"


class Split(NamedTuple):
    """A masked observation as PyMC splits it: its name, two parts and what joins them."""

    name: str
    observed: Variable
    unobserved: Variable
    joined: Variable


def split_observation(model, part):
    """Find the split observation that a variable is a part of, or None.

    The names alone do not tell: a latent variable may be called ``y_unobserved``. The observed and
    the free part must be there, and the Deterministic of the whole must be put together of both.
    """
    suffix = next((s for s in (UNOBSERVED, OBSERVED) if str(part.name).endswith(s)), None)
    if suffix is None:
        return None
    name = part.name.removesuffix(suffix)
    observed, unobserved, joined = (
        model.named_vars.get(n) for n in (name + OBSERVED, name + UNOBSERVED, name)
    )
    if observed not in model.observed_RVs or unobserved not in model.free_RVs:
        return None
    if joined not in model.deterministics:
        return None
    both = {observed, unobserved} <= set(ancestors([joined], blockers=model.basic_RVs))
    return Split(name, observed, unobserved, joined) if both else None
