"""Backward sample of a hidden Markov model, and whole draws of its paths."""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from pymc_dshdp.kernels.antecedents import antecedents_for, many_matrices, of_times_before
from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.chain import exact_stay_and_leave, stay_and_leave, transition_matrix
from pymc_dshdp.kernels.copies import copy_into
from pymc_dshdp.kernels.filtering import filter_whole, first_impossible
from pymc_dshdp.kernels.log_messages import sample_by_logarithms
from pymc_dshdp.kernels.simd import weigh


class PathDraw(NamedTuple):
    """One draw of the hidden paths.

    Attributes
    ----------
    states : ndarray of shape (T,)
        z ~ p(z | y, pi_init, P).
    log_marginal_likelihood : ndarray of shape (N,)
        log p(y_n | pi_init, P) of each sequence, the path summed out.
    impossible_time : int
        First time point at which no reachable state has a finite log-density, or -1.
        Where it is not -1 the other fields are not valid.
    """

    states: np.ndarray
    log_marginal_likelihood: np.ndarray
    impossible_time: int


@njit(cache=True, nogil=True)
def choose(weights, uniform):
    """Index drawn in proportion to weights; never one of weight 0, whatever the rounding."""
    total = 0.0
    for weight in weights:
        total += weight
    return _choose(weights, uniform * total)


@njit(cache=True, nogil=True, inline="always")
def _choose(weights, target):
    """First weight at which their running sum exceeds the target; the largest if none does."""
    cumulative = 0.0
    for k in range(weights.shape[0]):
        cumulative += weights[k]
        if cumulative > target:
            return k
    return np.argmax(weights)


@njit(cache=True, nogil=True, fastmath={"contract"})
def backward_sample(
    filtered, transitions, kappa, lengths, uniforms, logarithms, following, antecedents
):
    """Draw z ~ p(z | y) from the filtered probabilities, last time point first.

    p(z_T = k) is proportional to a_T(k), p(z_t = k | z_{t+1}, y_1..t) to
    a_t(k) P_{t+1, k, z_{t+1}}.

    Parameters
    ----------
    filtered : ndarray of shape (T, L)
        a, each row up to a factor, or its logarithms.
    transitions : Transitions
        Where they vary and a state follows, also to the time of that state.
    kappa : ndarray of shape (T, L), or None
        Its ``kappa_logit`` where there is a row for each time, else None.
    lengths : ndarray of shape (N,)
    uniforms : ndarray of shape (T,)
        In [0, 1).
    logarithms : ndarray of shape (N,), bool
        Sequences whose rows are logarithms.
    following : int
        State after the last time point where the last sequence goes on, else -1.
    antecedents : ndarray of shape (T, C), int16, or (0, C)
        Of ``filter_rows``, where it has drawn them; where a state follows, also of its time.

    Returns
    -------
    states : ndarray of shape (T,), int64
    """
    T, L = filtered.shape
    kappa_logit, pi_bar, index, grouped = transitions
    stay, leave = exact_stay_and_leave(kappa_logit[0])
    indexed, loaded = index.shape[0] > 0, 0
    drawn = antecedents.shape[0] > 0
    few = not drawn and not many_matrices(pi_bar.shape[0], T)
    held = pi_bar.shape[0] if few else 1  # matrices with columns in a row
    incoming = np.empty((held * L, L))
    for g in range(held):
        if kappa is None:
            row = kappa_logit[g if grouped else 0]
            copy_into(incoming[g * L : (g + 1) * L], transition_matrix(row, pi_bar[g]).T)
        else:
            copy_into(incoming[g * L : (g + 1) * L], pi_bar[g].T)
    apart = kappa is not None  # kappa is beside the rows
    apart |= held < pi_bar.shape[0] and (grouped or stay.max() > 0.0)
    weights, column = np.empty((1, L)), np.empty((1, L))
    states = np.empty(T, np.int64)
    t = T - 1
    j = following
    for sequence in range(lengths.shape[0] - 1, -1, -1):
        if logarithms[sequence]:
            low = t + 1 - lengths[sequence]
            sample_by_logarithms(filtered, transitions, low, t + 1, uniforms, j, states)
            t, j = low - 1, np.int64(-1)
            continue
        for _ in range(lengths[sequence]):
            if j < 0:
                j = choose(filtered[t], uniforms[t])
            elif drawn:
                j = min(np.int64(antecedents[t + 1, j]), L - 1)
            else:
                g = index[t + 1] if indexed else 0
                if held == pi_bar.shape[0]:
                    total, _ = weigh(filtered, t, 1.0, incoming, g * L + j, weights, 0)
                else:
                    for k in range(L):
                        column[0, k] = pi_bar[g, k, j]
                    total, _ = weigh(filtered, t, 1.0, column, 0, weights, 0)
                    if grouped and g != loaded:
                        stay, leave = exact_stay_and_leave(kappa_logit[g])
                        loaded = g
                if kappa is not None:
                    stay_and_leave(kappa[t + 1], stay, leave)
                if apart:
                    total = 0.0
                    for k in range(L):
                        weights[0, k] *= leave[k]
                        if k == j:
                            weights[0, k] += filtered[t, k] * stay[k]
                        total += weights[0, k]
                j = _choose(weights[0], uniforms[t] * total)
            states[t] = j
            t -= 1
        j = -1
    return states


def forward_filter_backward_sample(log_likelihoods, initial, transitions, lengths, uniforms):
    """Draw the hidden paths of all sequences; a pure function of its arguments.

    Parameters
    ----------
    log_likelihoods : ndarray of shape (T, L)
    initial : ndarray of shape (L,)
    transitions : Transitions
    lengths : ndarray of shape (N,)
    uniforms : ndarray of shape (T,)

    Returns
    -------
    PathDraw
    """
    kappa = transitions.varying
    return draw_paths(log_likelihoods, initial, transitions, kappa, lengths, uniforms)


@register_jitable
def draw_paths(log_likelihoods, initial, transitions, kappa, lengths, uniforms):
    """See ``forward_filter_backward_sample``; ``kappa`` is ``transitions.varying``."""
    filtered = np.empty(log_likelihoods.shape)
    antecedents = antecedents_for(
        transitions[1].shape[0], kappa is not None, *log_likelihoods.shape
    )
    nothing = np.empty(0)
    given = log_likelihoods, initial, transitions, kappa, lengths, filtered, nothing
    found = filter_whole(given, of_times_before(uniforms), antecedents)
    impossible = first_impossible(found)
    if impossible >= 0:
        states = np.zeros(filtered.shape[0], np.int64)
    else:
        states = backward_sample(
            filtered,
            transitions,
            kappa,
            lengths,
            uniforms,
            found.logarithms,
            np.int64(-1),
            antecedents,
        )
    return PathDraw(states, found.log_marginal_likelihood, impossible)
