"""Counts over many segmentations of one series."""

import numpy as np

from pymc_dshdp.kernels.cache import njit


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
def shared_votes(paths, tally, n_states):
    """Sum the votes for each label over the time points at which a path is in each state.

    Divided by the number of voters, the expected number of time points at which state j of a path
    meets label k of one of them.

    Parameters
    ----------
    paths : ndarray of shape (S, T)
        Labels in 0..L-1.
    tally : ndarray of shape (T, K), int64
        Votes.
    n_states : int
        L.

    Returns
    -------
    ndarray of shape (S, L, K), int64
    """
    S, T = paths.shape
    K = tally.shape[1]
    out = np.zeros((S, n_states, K), np.int64)
    for s in range(S):
        for t in range(T):
            j = paths[s, t]
            for k in range(K):
                out[s, j, k] += tally[t, k]
    return out


@njit(cache=True, nogil=True)
def modal_path(paths, new_label, n_states):
    """Find the label that most paths, their labels renamed, have at each time.

    Parameters
    ----------
    paths : ndarray of shape (S, T)
        Labels in 0..L-1.
    new_label : ndarray of shape (S, L)
        Name of each label of each path.
    n_states : int
        Number of names.

    Returns
    -------
    ndarray of shape (T,), int64
        The lowest of equally frequent ones.
    """
    S, T = paths.shape
    out = np.empty(T, np.int64)
    counts = np.empty(n_states, np.int64)
    for t in range(T):
        counts[:] = 0
        for s in range(S):
            counts[new_label[s, paths[s, t]]] += 1
        best = 0
        for k in range(1, n_states):
            if counts[k] > counts[best]:
                best = k
        out[t] = best
    return out


@njit(cache=True, nogil=True)
def disagreements(paths, new_label, reference):
    """Count the time points at which each path, its labels renamed, differs from a reference."""
    S, T = paths.shape
    out = np.zeros(S, np.int64)
    for s in range(S):
        for t in range(T):
            out[s] += new_label[s, paths[s, t]] != reference[t]
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
