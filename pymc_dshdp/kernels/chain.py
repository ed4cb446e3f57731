"""The transition probabilities of the hidden chain.

P_t = diag(kappa_t) + (1 - kappa_t) pi_bar_g, of which kappa_t and g may depend on time. Groups
(subjects, conditions) are such matrices, each with a row of kappa of its own.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.random import sigmoid, softplus
from pymc_dshdp.kernels.simd import exp_in_place

NO_INDEX = np.empty(0, np.int64)


class Transitions(NamedTuple):
    """The matrices P_t = diag(kappa_t) + (1 - kappa_t) pi_bar_g(t), in force from t - 1 to t.

    Attributes
    ----------
    kappa_logit : ndarray of shape (R, L)
        Logit of kappa_t: one row for all times (R = 1), one for each of the matrices (R = G), or
        one for each time (R = T), of which those at first times of sequences are not used.
    pi_bar : ndarray of shape (G, L, L)
        Rows sum to one.
    indices : ndarray of shape (T,), int64, or (0,)
        g(t), which of them leads to time t; empty where G = 1.
    grouped : bool
        Whether the rows of ``kappa_logit`` are those of the matrices, and not of the times.
    """

    kappa_logit: np.ndarray
    pi_bar: np.ndarray
    indices: np.ndarray = NO_INDEX
    grouped: bool = False

    @property
    def varying(self):
        """The rows of ``kappa_logit`` where there is one for each time, else None."""
        return None if self.grouped or len(self.kappa_logit) == 1 else self.kappa_logit

    @property
    def matrices(self):
        """P of each of the matrices, (G, L, L), where kappa does not vary with time."""
        rows = np.broadcast_to(self.kappa_logit, self.pi_bar.shape[:2])
        return np.array([transition_matrix(*x) for x in zip(rows, self.pi_bar, strict=True)])

    def between(self, low, high):
        """Transitions of the times low..high - 1 alone."""
        if self.varying is None and self.indices.size == 0:
            return self
        kappa = self.kappa_logit if self.varying is None else self.kappa_logit[low:high]
        return Transitions(kappa, self.pi_bar, self.indices[low:high], self.grouped)

    def among(self, states):
        """Transitions among states that lead to no other."""
        return Transitions(
            np.ascontiguousarray(self.kappa_logit[:, states]),
            np.ascontiguousarray(self.pi_bar[:, states][:, :, states]),
            self.indices,
            self.grouped,
        )


def plain(x, dtype="float64"):
    """Lay an array out as kernels take it: contiguous and writable, copied if it is not.

    Numba compiles a kernel once more for an array that may not be written to.
    """
    return np.require(x, dtype, ["C", "W"])


def without_persistence(matrices, index=NO_INDEX):
    """Transitions of given P: the same at all times, (L, L), or (G, L, L) with an index."""
    L = matrices.shape[-1]
    matrices = plain(matrices).reshape(-1, L, L)
    return Transitions(np.full((1, L), -np.inf), matrices, plain(index, "int64"))


def kappa_rows(kappa_logit, shape):
    """Lay out rows (..., T, L) along the flattened states of a shape; contiguous (T_all, L)."""
    full = (*shape, kappa_logit.shape[-1])
    if kappa_logit.shape == full:
        return plain(kappa_logit).reshape(-1, full[-1])
    try:
        rows = np.broadcast_to(kappa_logit, full)
    except ValueError as error:
        raise ValueError(
            f"kappa has rows for times of shape {kappa_logit.shape[:-1]}, but the states have "
            f"shape {shape}; set its covariates for the same times"
        ) from error
    return plain(rows).reshape(-1, full[-1])


@njit(cache=True, nogil=True)
def at_time(transitions, t):
    """(logit of kappa, pi_bar) in force from t - 1 to t, of shapes (L,) and (L, L)."""
    kappa_logit, pi_bar, index, grouped = transitions
    g = index[t] if index.shape[0] > 0 else 0
    row = g if grouped else t
    return kappa_logit[row if kappa_logit.shape[0] > 1 else 0], pi_bar[g]


@njit(cache=True, nogil=True, inline="always")
def _fill_row(pi_bar, j, stay, leave, out):
    """Row j of diag(stay) + leave pi_bar."""
    for k in range(pi_bar.shape[0]):
        out[k] = leave * pi_bar[j, k]
    out[j] += stay


@njit(cache=True, nogil=True)
def transition_row(kappa_logit, pi_bar, j, out):
    """Row j of P = diag(kappa) + (1 - kappa) pi_bar, for logit(kappa) of shape (L,)."""
    _fill_row(pi_bar, j, sigmoid(kappa_logit[j]), sigmoid(-kappa_logit[j]), out)


@njit(cache=True, nogil=True)
def fill_matrix(pi_bar, stay, leave, scale, out):
    """Write scale (diag(stay) + leave pi_bar) into the first columns of ``out``."""
    for j in range(pi_bar.shape[0]):
        _fill_row(pi_bar, j, scale * stay[j], scale * leave[j], out[j])


@njit(cache=True, nogil=True)
def exact_stay_and_leave(kappa_logit):
    """(kappa, 1 - kappa) from logit(kappa), of shape (L,), by the C library's exponential."""
    stay, leave = np.empty(kappa_logit.shape[0]), np.empty(kappa_logit.shape[0])
    for k in range(kappa_logit.shape[0]):
        stay[k], leave[k] = sigmoid(kappa_logit[k]), sigmoid(-kappa_logit[k])
    return stay, leave


@njit(cache=True, nogil=True)
def transition_matrix(kappa_logit, pi_bar):
    """P = diag(kappa) + (1 - kappa) pi_bar, rows scaled, from logit(kappa); shape (L, L)."""
    stay, leave = exact_stay_and_leave(kappa_logit)
    out = np.empty(pi_bar.shape)
    fill_matrix(pi_bar, stay, leave, 1.0, out)
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
def first_wrong_row(matrices):
    """(g, j) of the first row that is no probability vector, to 1e-6; (-1, -1) if all are."""
    for g in range(matrices.shape[0]):
        for j in range(matrices.shape[1]):
            total, low = 0.0, 0.0
            for k in range(matrices.shape[2]):
                total += matrices[g, j, k]
                low = min(low, matrices[g, j, k])
            if not (low >= 0.0 and abs(total - 1.0) <= 1e-6):  # also NaN
                return g, j
    return -1, -1


@njit(cache=True, nogil=True)
def reachable_states(initial, pi_bar):
    """States of positive probability at some time: those of pi_init, and all they lead to.

    Every other state has filtered probability 0 at every time, so that it can be left out of
    the table, the filter and the backward sample without changing them.

    Parameters
    ----------
    initial : ndarray of shape (L,)
    pi_bar : ndarray of shape (G, L, L)
        A state that never leaves is taken to lead where its rows say.

    Returns
    -------
    ndarray of int, in ascending order
    """
    L = initial.shape[0]
    reached = initial > 0.0
    pending = np.flatnonzero(reached)
    while pending.size > 0:
        before = reached.copy()
        for matrix in pi_bar:
            if reached.all():
                break
            for j in pending:
                for k in range(L):
                    reached[k] |= matrix[j, k] > 0.0
        pending = np.flatnonzero(reached & ~before)
    return np.flatnonzero(reached)
