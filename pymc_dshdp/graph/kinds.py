"""What becomes of a variable if the states are numbered otherwise: one rule for each kind of Op.

A renumbering s gives state k the number s(k) and takes along what belongs to it: every axis of
states is permuted. A tensor f(z, theta) is, for every s,

* *free* with the axes of states A: f(s(z), s(theta)) is f(z, theta) with the axes A permuted, as
  ``mu[z]``, ``z[1:] != z[:-1]`` (no axes) and ``pt.log(mu)`` are (the axes of mu); or
* *a label*: each of its elements is the number of a state, and becomes s of it, as those of
  ``z[events]`` do; or
* *numbered*: neither can be shown, as of ``z.max()``, ``z == 2``, ``mu[1] - mu[0]``.

The rules prove the first two; whatever they do not know is numbered.
"""

from functools import singledispatch
from typing import NamedTuple

from pymc_dshdp.graph.walks import registering

__all__ = ["FREE", "LABEL", "NUMBERED", "Kind", "free", "registered", "rule_of", "together"]


class Kind(NamedTuple):
    """What a renumbering does to a tensor; ``axes`` are those of states, of what is free."""

    name: str
    axes: frozenset = frozenset()


LABEL, NUMBERED, FREE = Kind("label"), Kind("numbered"), Kind("free")


def free(axes):
    """Return the kind of what moves along some axes of states alone."""
    return Kind("free", frozenset(axes))


def together(kinds):
    """Kind of what consists of whole tensors: that of all of them, if it is one."""
    kinds = set(kinds)
    return kinds.pop() if len(kinds) == 1 else NUMBERED


@singledispatch
def rule_of(op, node, at):
    """Kind of the outputs of a node; ``at`` is the walk."""
    return together([*at.kinds(node.inputs), FREE])


registered = registering(rule_of)
