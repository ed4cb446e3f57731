"""The transition probabilities of the hidden chain: P_t = diag(kappa_t) + (1 - kappa_t) pi_bar."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from pymc_dshdp.kernels.random import sigmoid, softplus
from pymc_dshdp.kernels.simd import exp_in_place


class Transitions(NamedTuple):
    """The matrices P_t = diag(kappa_t) + (1 - kappa_t) pi_bar, in force from t - 1 to t.

    Attributes
    ----------
    kappa_logit : ndarray of shape (R, L)
        Logit of kappa_t: one row for all times (R = 1), or one for each (R = T), of which those
        at first times of sequences are not used.
    pi_bar : ndarray of shape (L, L)
        Rows sum to one.
    """

    kappa_logit: np.ndarray
    pi_bar: np.ndarray

    @property
    def varying(self):
        """The rows of ``kappa_logit`` where there is one for each time, else None."""
        return None if len(self.kappa_logit) == 1 else self.kappa_logit

    def between(self, low, high):
        """Transitions of the times low..high - 1 alone."""
        if len(self.kappa_logit) == 1:
            return self
        return Transitions(self.kappa_logit[low:high], self.pi_bar)

    def among(self, states):
        """Transitions among states that lead to no other."""
        return Transitions(
            np.ascontiguousarray(self.kappa_logit[:, states]), self.pi_bar[np.ix_(states, states)]
        )


def without_persistence(matrix):
    """Transitions with the same given P at all times."""
    matrix = np.ascontiguousarray(matrix, dtype="float64")
    return Transitions(np.full((1, len(matrix)), -np.inf), matrix)


def kappa_rows(kappa_logit, shape):
    """Lay out rows (..., T, L) along the flattened states of a shape; contiguous (T_all, L)."""
    L = kappa_logit.shape[-1]
    try:
        rows = np.broadcast_to(kappa_logit, (*shape, L))
    except ValueError as error:
        raise ValueError(
            f"kappa has rows for times of shape {kappa_logit.shape[:-1]}, but the states have "
            f"shape {shape}; set its covariates for the same times"
        ) from error
    return np.ascontiguousarray(rows.reshape(-1, L))


@njit(cache=True, nogil=True)
def transition_row(kappa_logit, pi_bar, j, out):
    """Row j of P = diag(kappa) + (1 - kappa) pi_bar, for logit(kappa) of shape (L,)."""
    leave = sigmoid(-kappa_logit[j])
    for k in range(pi_bar.shape[0]):
        out[k] = leave * pi_bar[j, k]
    out[j] += sigmoid(kappa_logit[j])


@njit(cache=True, nogil=True)
def transition_matrix(kappa_logit, pi_bar):
    """P = diag(kappa) + (1 - kappa) pi_bar, rows scaled, from logit(kappa); shape (L, L)."""
    out = np.empty(pi_bar.shape)
    for j in range(pi_bar.shape[0]):
        transition_row(kappa_logit, pi_bar, j, out[j])
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def stay_and_leave(kappa_logit, stay, leave):
    """Kappa and 1 - kappa from logit(kappa), each to full relative accuracy; all of shape (L,)."""
    L = kappa_logit.shape[0]
    for k in range(L):
        leave[k] = -abs(kappa_logit[k])
    exp_in_place(leave, L)
    for k in range(L):
        larger = 1.0 / (1.0 + leave[k])
        smaller = leave[k] * larger
        stay[k] = larger if kappa_logit[k] >= 0.0 else smaller
        leave[k] = smaller if kappa_logit[k] >= 0.0 else larger


@njit(cache=True, nogil=True)
def log_leave(kappa_logit):
    """log(1 - kappa) from logit(kappa), also where 1 - kappa underflows."""
    return -softplus(kappa_logit)


@njit(cache=True, nogil=True)
def log_stay(kappa_logit):
    """log(kappa) from logit(kappa), also where kappa underflows."""
    return -softplus(-kappa_logit)


@njit(cache=True, nogil=True)
def add_logs(x, y):
    """log(exp(x) + exp(y)) for x and y below infinity."""
    if x < y:
        x, y = y, x
    return x if y == -np.inf else x + math.log1p(math.exp(y - x))


@njit(cache=True, nogil=True)
def reachable_states(initial, pi_bar):
    """States of positive probability at some time: those of pi_init, and all they lead to.

    Every other state has filtered probability 0 at every time, so that it can be left out of
    the table, the filter and the backward sample without changing them.

    Parameters
    ----------
    initial : ndarray of shape (L,)
    pi_bar : ndarray of shape (L, L)
        A state that never leaves is taken to lead where its row says.

    Returns
    -------
    ndarray of int, in ascending order
    """
    L = initial.shape[0]
    reached = initial > 0.0
    pending = np.flatnonzero(reached)
    while pending.size > 0:
        before = reached.copy()
        for j in pending:
            for k in range(L):
                reached[k] |= pi_bar[j, k] > 0.0
        pending = np.flatnonzero(reached & ~before)
    return np.flatnonzero(reached)
