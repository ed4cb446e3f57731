"""Which time points a slot includes, so that its sums can be formed afresh at any moment.

Circular doubly linked lists in one array: row 0 the next time point of the same slot and row 1
the one before; slot k has its own entry T + k, where its list begins and ends.
"""

import numpy as np

from pymc_dshdp.kernels.cache import njit


def empty_members(T, slots):
    """Build lists of no members; shape (2, T + slots), int64."""
    return np.tile(np.arange(T + slots, dtype=np.int64), (2, 1))


@njit(cache=True, nogil=True, inline="always")
def link_member(links, t, k, slots):
    """Add time point t to slot k, the k-th of so many."""
    head = links.shape[1] - slots + k
    first = links[0, head]
    links[0, t] = first
    links[1, t] = head
    links[1, first] = t
    links[0, head] = t


@njit(cache=True, nogil=True, inline="always")
def unlink_member(links, t):
    """Take time point t out of its slot."""
    links[0, links[1, t]] = links[0, t]
    links[1, links[0, t]] = links[1, t]
