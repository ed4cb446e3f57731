"""Forward simulation of hidden paths."""

import numpy as np

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.chain import at_time, transition_row
from pymc_dshdp.kernels.messages import choose

MARK = np.array([t.bit_count() % 2 for t in range(64)])
"""How far below the last state the default path is at each time, all sequences laid end to end,
again and again: a pattern that nobody writes. Where some transitions may be impossible it is below
the last possible state, and begins anew with each sequence.
"""


@njit(cache=True, nogil=True)
def simulate_path(rng, initial, pi_bar, kappa, index, lengths, known, out):
    """Draw z_1 ~ pi_init of each sequence and z_t ~ kappa_tj delta_j + (1 - kappa_tj) pi_bar_gj.

    Parameters
    ----------
    rng : numpy.random.Generator
    initial : ndarray of shape (L,)
    pi_bar : ndarray of shape (G, L, L)
    kappa : ndarray of shape (1, L) or (T, L)
        Row t is in force from t - 1 to t.
    index : ndarray of shape (0,) or (T,), integer
        g(t), which of ``pi_bar`` is in force from t - 1 to t.
    lengths : ndarray of shape (N,)
    known : ndarray of shape (0,) or (T,), integer
        States to condition on, -1 where there is none.
    out : ndarray of shape (T,), integer
        Overwritten.
    """
    if known.shape[0] > 0:
        if known.shape[0] != out.shape[0]:
            raise ValueError("the states have another length than what is known of them")
        _simulate_given_known(rng, initial, pi_bar, kappa, index, lengths, known, out)
        return
    if index.shape[0] > 0 and index.shape[0] != out.shape[0]:
        raise ValueError("the states have another length than the index of their transitions")
    varies, indexed = kappa.shape[0] > 1, index.shape[0] > 0
    t = 0
    for length in lengths:
        state = choose(initial, rng.random())
        out[t] = state
        for i in range(t + 1, t + length):
            if rng.random() >= kappa[i if varies else 0, state]:
                state = choose(pi_bar[index[i] if indexed else 0, state], rng.random())
            out[i] = state
        t += length


@njit(cache=True, nogil=True, inline="always")
def _possible(pi_bar, kappa, j, k):
    """Whether diag(kappa) + (1 - kappa) pi_bar leads from j to k."""
    return (pi_bar[j, k] > 0.0 and kappa[j] < 1.0) or (j == k and kappa[j] > 0.0)


@njit(cache=True, nogil=True)
def last_possible_path(initial, pi_bar, kappa, index, lengths, known, out):
    """Find the path that is in the last state possible at each time, in the order of time.

    Where ``MARK`` says so it is in the last but one, if there is one. Known states are as known.
    The arguments are those of ``simulate_path``. Where what is known is impossible, so is the path.
    """
    T, L = out.shape[0], initial.shape[0]
    varies, indexed = kappa.shape[0] > 1, index.shape[0] > 0
    ahead = np.ones((T if known.shape[0] > 0 else 1, L), np.bool_)  # leads to what is known
    t = T
    for n in range(lengths.shape[0] - 1, -1, -1):
        if known.shape[0] == 0:
            break
        for i in range(t - 1, t - lengths[n] - 1, -1):
            for k in range(L):
                ahead[i, k] = known[i] < 0 or known[i] == k
                if ahead[i, k] and i < t - 1:
                    rows = pi_bar[index[i + 1] if indexed else 0]
                    row = kappa[i + 1 if varies else 0]
                    ahead[i, k] = False
                    for m in range(L):
                        if ahead[i + 1, m] and _possible(rows, row, k, m):
                            ahead[i, k] = True
                            break
        t -= lengths[n]
    t = 0
    for length in lengths:
        for i in range(t, t + length):
            rows, row = pi_bar[index[i] if indexed else 0], kappa[i if varies else 0]
            out[i] = known[i] if known.shape[0] > 0 and known[i] >= 0 else L - 1
            before, below = out[max(i - 1, 0)], MARK[(i - t) % MARK.size]
            for k in range(L - 1, -1, -1):
                if not ahead[i if known.shape[0] > 0 else 0, k]:
                    continue
                if initial[k] > 0.0 if i == t else _possible(rows, row, before, k):
                    out[i] = k
                    if below == 0:
                        break
                    below -= 1
        t += length


@njit(cache=True, nogil=True)
def first_impossible_time(states, initial, transitions, lengths):
    """First time to which a path of probability 0 takes a transition that is impossible, or -1."""
    t = 0
    for length in lengths:
        if not initial[states[t]] > 0.0:
            return t
        for i in range(t + 1, t + length):
            kappa_logit, pi_bar = at_time(transitions, i)
            j, k = states[i - 1], states[i]
            stays = j == k and kappa_logit[j] > -np.inf
            if not (stays or pi_bar[j, k] > 0.0):
                return i
        t += length
    return -1


@njit(cache=True, nogil=True)
def simulate_onward(rng, last, transitions, times, out):
    """Draw the states that follow the last ones of some sequences.

    Parameters
    ----------
    rng : numpy.random.Generator
    last : ndarray of shape (N,), integer
    transitions : Transitions
    times : ndarray of shape (N, H), integer
        Which of their times leads to each of the states drawn.
    out : ndarray of shape (N, H), integer
        Overwritten.
    """
    row = np.empty(transitions.pi_bar.shape[-1])
    for n in range(out.shape[0]):
        state = last[n]
        for h in range(out.shape[1]):
            kappa_logit, pi_bar = at_time(transitions, times[n, h])
            transition_row(kappa_logit, pi_bar, state, row)
            state = choose(row, rng.random())
            out[n, h] = state


@njit(cache=True, nogil=True)
def simulate_anew(rng, initial, transitions, times, out):
    """Draw the states of some sequences from their beginning, the first of them from pi_init.

    Parameters
    ----------
    rng : numpy.random.Generator
    initial : ndarray of shape (L,)
    transitions : Transitions
    times : ndarray of shape (N, H), integer
        Which of their times leads to each of the states drawn; that of the first is not used.
    out : ndarray of shape (N, H), integer
        Overwritten.
    """
    for n in range(out.shape[0]):
        out[n, 0] = choose(initial, rng.random())
    simulate_onward(rng, out[:, 0], transitions, times[:, 1:], out[:, 1:])


@njit(cache=True, nogil=True)
def _simulate_given_known(rng, initial, pi_bar, kappa, index, lengths, known, out):
    """Draw z | known states: b_t(k) = p(known from t on | z_t = k) backwards, then z forwards.

    b_t(k) = 1[k is allowed at t] sum_l P_t+1[k, l] b_t+1(l);  p(z_1 = k | known) is proportional
    to pi_init_k b_1(k), p(z_t = k | z_t-1 = j, known) to P_t[j, k] b_t(k). Where rows have
    underflowed so that what is known from t on has probability exactly 0, the states before t do
    not regard it.
    """
    T, L = out.shape[0], initial.shape[0]
    varies, indexed = kappa.shape[0] > 1, index.shape[0] > 0
    ahead = np.empty((T, L))
    weights = np.empty(L)
    t = T
    for n in range(lengths.shape[0] - 1, -1, -1):
        for i in range(t - 1, t - lengths[n] - 1, -1):
            total = 0.0
            if i < t - 1:
                row = kappa[i + 1 if varies else 0]
                rows = pi_bar[index[i + 1] if indexed else 0]
                for k in range(L):
                    onward = 0.0
                    for m in range(L):
                        onward += rows[k, m] * ahead[i + 1, m]
                    ahead[i, k] = (1.0 - row[k]) * onward + row[k] * ahead[i + 1, k]
                    if known[i] >= 0 and known[i] != k:
                        ahead[i, k] = 0.0
                    total += ahead[i, k]
            for k in range(L):
                if total > 0.0:
                    ahead[i, k] /= total
                else:
                    ahead[i, k] = 0.0 if known[i] >= 0 and known[i] != k else 1.0
        t -= lengths[n]
    t = 0
    for length in lengths:
        for i in range(t, t + length):
            rows, total = pi_bar[index[i] if indexed else 0], 0.0
            for k in range(L):
                if i == t:
                    prior = initial[k]
                else:
                    j = out[i - 1]
                    stay = kappa[i if varies else 0, j]
                    prior = (1.0 - stay) * rows[j, k] + (stay if j == k else 0.0)
                weights[k] = prior * ahead[i, k]
                total += weights[k]
            if total > 0.0:
                out[i] = choose(weights, rng.random())
            elif known[i] >= 0:
                out[i] = known[i]
            elif i == t:
                out[i] = choose(initial, rng.random())
            else:
                j = out[i - 1]
                stays = rng.random() < kappa[i if varies else 0, j]
                out[i] = j if stays else choose(rows[j], rng.random())
        t += length
