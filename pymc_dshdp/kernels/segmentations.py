"""Counts over many segmentations of one series, and the search for the one in their middle."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def occupancies(paths, n_states):
    """Count the visits to each state and find the first one, path by path.

    Parameters
    ----------
    paths : ndarray of shape (S, T)
        Labels in 0..L-1.
    n_states : int
        L.

    Returns
    -------
    counts, first : ndarrays of shape (S, L), int64
        Number of time points in each state and the first of them, T where there is none.
    """
    S, T = paths.shape
    counts = np.zeros((S, n_states), np.int64)
    first = np.full((S, n_states), T, np.int64)
    for s in range(S):
        for t in range(T):
            k = paths[s, t]
            if counts[s, k] == 0:
                first[s, k] = t
            counts[s, k] += 1
    return counts, first


@njit(cache=True, nogil=True)
def count_visits(paths, lengths, n_states):
    """Count the visits to each state: maximal runs of it inside a sequence.

    Parameters
    ----------
    paths : ndarray of shape (S, T)
        Labels in 0..L-1.
    lengths : ndarray of shape (N,)
        Sequence lengths; a run ends with its sequence.
    n_states : int
        L.

    Returns
    -------
    ndarray of shape (S, L), int64
    """
    S = paths.shape[0]
    visits = np.zeros((S, n_states), np.int64)
    for s in range(S):
        t = 0
        for length in lengths:
            visits[s, paths[s, t]] += 1
            for i in range(t + 1, t + length):
                if paths[s, i] != paths[s, i - 1]:
                    visits[s, paths[s, i]] += 1
            t += length
    return visits


@njit(cache=True, nogil=True)
def contingencies(paths, reference, n_states, n_reference):
    """Count the time points at which state j of a path meets label k of the reference.

    Parameters
    ----------
    paths : ndarray of shape (S, T)
        Labels in 0..L-1.
    reference : ndarray of shape (T,)
        Labels in 0..K-1.
    n_states, n_reference : int
        L and K.

    Returns
    -------
    ndarray of shape (S, L, K), int64
    """
    S, T = paths.shape
    tables = np.zeros((S, n_states, n_reference), np.int64)
    for s in range(S):
        for t in range(T):
            tables[s, paths[s, t], reference[t]] += 1
    return tables


@njit(cache=True, nogil=True)
def votes(paths, new_label, n_states):
    """Count how many paths, their labels renamed, are in each state at each time.

    Parameters
    ----------
    paths : ndarray of shape (S, T)
        Labels in 0..L-1.
    new_label : ndarray of shape (S, L)
        Name of each label of each path.
    n_states : int
        Number of names, K.

    Returns
    -------
    ndarray of shape (T, K), int64
    """
    S, T = paths.shape
    out = np.zeros((T, n_states), np.int64)
    for s in range(S):
        for t in range(T):
            out[t, new_label[s, paths[s, t]]] += 1
    return out


@njit(cache=True, nogil=True)
def rename(paths, new_label):
    """Rename the labels of each path; the result has the dtype of ``paths``."""
    S, T = paths.shape
    out = np.empty_like(paths)
    for s in range(S):
        for t in range(T):
            out[s, t] = new_label[s, paths[s, t]]
    return out


@njit(cache=True, nogil=True)
def permute(values, order):
    """Take the entries of axis 2 of each values[s] in the order order[s].

    Parameters
    ----------
    values : ndarray of shape (S, A, L, B)
    order : ndarray of shape (S, L)
    """
    out = np.empty_like(values)
    S, A, L, B = values.shape
    for s in range(S):
        for a in range(A):
            for k in range(L):
                for b in range(B):
                    out[s, a, k, b] = values[s, a, order[s, k], b]
    return out


@njit(cache=True, nogil=True)
def _n_log_n(largest):
    out = np.zeros(largest + 1)
    for n in range(2, largest + 1):
        out[n] = n * np.log(n)
    return out


@njit(cache=True, nogil=True)
def variation_of_information(paths, n_states):
    r"""Variation of information between all pairs of segmentations (Meila 2007), in nats.

    .. math:: \mathrm{VI}(a, b) = \frac1T \Big[\sum_j n_j \log n_j + \sum_k m_k \log m_k
              - 2 \sum_{jk} n_{jk} \log n_{jk}\Big]

    with n_j and m_k the sizes of the states of a and b, and n_jk those of their intersections.

    Parameters
    ----------
    paths : ndarray of shape (S, T)
        Labels in 0..L-1.
    n_states : int
        L.

    Returns
    -------
    ndarray of shape (S, S)
    """
    S, T = paths.shape
    n_log_n = _n_log_n(T)
    table = np.zeros((n_states, n_states), np.int64)
    own = np.zeros(S)
    for s in range(S):
        sizes = np.zeros(n_states, np.int64)
        for t in range(T):
            sizes[paths[s, t]] += 1
        for k in range(n_states):
            own[s] += n_log_n[sizes[k]]
    out = np.zeros((S, S))
    for a in range(S):
        for b in range(a):
            joint = 0.0
            for t in range(T):
                table[paths[a, t], paths[b, t]] += 1
            for j in range(n_states):
                for k in range(n_states):
                    joint += n_log_n[table[j, k]]
                    table[j, k] = 0
            out[a, b] = out[b, a] = (own[a] + own[b] - 2.0 * joint) / T
    return out


@njit(cache=True, nogil=True)
def refine_consensus(consensus, paths, n_states, sweeps):
    r"""Lower the expected variation of information to given paths, one time point at a time.

    Moving time t, of state b_s in path s, into state k of the consensus adds

    .. math:: g(m_k) - \frac2S \sum_s g(n^s_{k b_s}), \qquad
              g(n) = (n + 1) \log(n + 1) - n \log n

    to T times the expectation, with the sizes m and intersections n of the consensus without t;
    each time point in turn is put where this is smallest (Rastelli & Friel 2018; Dahl, Johnson &
    Mueller 2022), until a sweep changes nothing.

    Parameters
    ----------
    consensus : ndarray of shape (T,)
        Labels in 0..L-1 to start from.
    paths : ndarray of shape (S, T)
        Labels in 0..L-1.
    n_states : int
        L, also the largest number of states of the result.
    sweeps : int
        Stop after so many.

    Returns
    -------
    ndarray of shape (T,)
        A new path; no single change of label lowers its expected variation of information,
        unless ``sweeps`` ran out.
    """
    S, T = paths.shape
    by_time = paths.T.copy()
    n_log_n = _n_log_n(T + 1)
    gain = n_log_n[1:] - n_log_n[:-1]
    out = consensus.copy()
    sizes = np.zeros(n_states, np.int64)
    joint = np.zeros((S, n_states, n_states), np.int32)  # path, its state, state of the consensus
    for t in range(T):
        sizes[out[t]] += 1
        for s in range(S):
            joint[s, by_time[t, s], out[t]] += 1
    shared = np.empty(n_states)
    for _ in range(sweeps):
        changed = False
        tried = 1  # every label in use and one more
        for k in range(n_states):
            if sizes[k] > 0:
                tried = min(k + 2, n_states)
        for t in range(T):
            old = out[t]
            sizes[old] -= 1
            shared[:] = 0.0
            for s in range(S):
                row = joint[s, by_time[t, s]]
                row[old] -= 1
                for k in range(tried):
                    shared[k] += gain[row[k]]
            best = old
            lowest = gain[sizes[old]] - 2.0 / S * shared[old]
            for k in range(tried):
                cost = gain[sizes[k]] - 2.0 / S * shared[k]
                if cost < lowest - 1e-9:
                    best, lowest = k, cost
            sizes[best] += 1
            for s in range(S):
                joint[s, by_time[t, s], best] += 1
            if best != old:
                out[t] = best
                changed = True
                tried = max(tried, min(best + 2, n_states))
        if not changed:
            break
    return out
