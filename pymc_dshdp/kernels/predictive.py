"""What the direct assignment sweep asks of an emission, and the table of log-likelihoods.

An emission is a NamedTuple of arrays; its class decides, when numba compiles the sweep, which
functions answer. One sweep kernel therefore serves every kind, without a branch at run time:
a new kind is a NamedTuple and two functions passed to ``implement``. Few, packed arrays: a
tuple of many is slow to take apart at each time point.
"""

from typing import NamedTuple

import numpy as np
from numba.extending import overload, register_jitable

from pymc_dshdp.kernels.cache import njit

_IMPLEMENTATIONS: dict[type, tuple] = {}


def log_predictive(emission, t, active, n, with_empty, out):
    """Log-density of what was seen at t in each of some slots, given what they include.

    Parameters
    ----------
    emission : NamedTuple
    t : int
        Not included in any slot.
    active : ndarray of shape (m,), int64
        The slots of interest in the first n entries.
    n : int
    with_empty : bool
        Also write the log-density in a slot that includes nothing to ``out[n]``.
    out : ndarray of shape (m,), m > n
        Overwritten. A term that is the same for all slots may be left out.
    """
    return _IMPLEMENTATIONS[type(emission)][0](emission, t, active, n, with_empty, out)


def include(emission, t, k):
    """Add what was seen at t to the sums of slot k, in place."""
    return _IMPLEMENTATIONS[type(emission)][1](emission, t, k)


def exclude(emission, t, k):
    """Take what was seen at t from the sums of slot k, in place; an emptied slot is as new."""
    return _IMPLEMENTATIONS[type(emission)][2](emission, t, k)


def prepare(emission, k):
    """Compute what follows from the prior of slot k, which includes nothing, in place."""
    return _IMPLEMENTATIONS[type(emission)][3](emission, k)


def implement(cls, log_density, change):
    """Say how an emission class answers.

    Parameters
    ----------
    cls : type
        A NamedTuple class with a field ``totals``, an array by slot. Its last row is a slot more
        that never includes anything: the prior.
    log_density : njit function
        ``log_density(emission, t, k)`` of what was seen at t, given what slot k includes.
    change : njit function
        ``change(emission, t, k, sign)`` includes t in slot k for sign 1.0 and excludes it for
        -1.0, in place. For 0.0 it computes what follows from what is included, where something
        does: see ``derive``.
    """

    def log_predictive(emission, t, active, n, with_empty, out):
        data, slots, totals = emission.data, emission.slots, emission.totals
        for i in range(n):
            out[i] = log_density(data, slots, totals, t, active[i])
        if with_empty:
            out[n] = log_density(data, slots, totals, t, totals.shape[0] - 1)

    def include(emission, t, k):
        change(emission, t, k, 1.0)

    def exclude(emission, t, k):
        change(emission, t, k, -1.0)

    def prepare(emission, k):
        change(emission, 0, k, 0.0)

    _register(cls, log_predictive, include, exclude, prepare)


def _register(cls, *functions):
    _IMPLEMENTATIONS[cls] = tuple(register_jitable(f) for f in functions)


def _implementation(emission, index):
    functions = _IMPLEMENTATIONS.get(getattr(emission, "instance_class", None))
    return None if functions is None else functions[index]


@overload(log_predictive, inline="always")
def _log_predictive(emission, t, active, n, with_empty, out):
    return _implementation(emission, 0)


@overload(include, inline="always")
def _include(emission, t, k):
    return _implementation(emission, 1)


@overload(exclude, inline="always")
def _exclude(emission, t, k):
    return _implementation(emission, 2)


@overload(prepare, inline="always")
def _prepare(emission, k):
    return _implementation(emission, 3)


@njit(cache=True, nogil=True, error_model="numpy")
def derive(emission):
    """Compute what follows from the priors of an emission that includes nothing, in place."""
    for k in range(emission.totals.shape[0]):
        prepare(emission, k)


class Table(NamedTuple):
    """Emission parameters are kept: nothing is integrated out, nothing summed.

    Attributes
    ----------
    log_likelihoods : ndarray of shape (T, L)
        log p(y_t | theta_k).
    """

    log_likelihoods: np.ndarray


def _table_log_predictive(emission, t, active, n, with_empty, out):
    row = emission.log_likelihoods[t]
    for i in range(n):
        out[i] = row[active[i]]


def _table_unchanged(emission, t, k):
    pass


_register(Table, _table_log_predictive, _table_unchanged, _table_unchanged)


@njit(cache=True, nogil=True)
def include_path(emission, states):
    """Include every time point in the slot of its state, in place."""
    for t in range(states.shape[0]):
        include(emission, t, states[t])
