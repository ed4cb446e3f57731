"""The segmentation in the middle of many, and how far chains are from each other."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components

from pymc_dshdp.kernels.segmentations import (
    contingencies,
    refine_consensus,
    variation_of_information,
    votes,
)

__all__ = [
    "ChainDistances",
    "by_size",
    "chain_distances",
    "consensus_path",
    "keep_known",
    "label_matches",
    "thinned",
]

DRAWS = 200  # compared with each other in the search for the consensus
TIMES = 20_000  # time points used in that search
SWEEPS = 50
CELLS = 2**22  # of contingency tables held at a time
LEAST_EXCESS = 0.02  # share of the time points


def thinned(chains, draws, most=DRAWS):
    """Choose evenly spaced draws, equally many a chain, as indices into (chain, draw) end to end.

    Returns
    -------
    ndarray of shape (chains, n)
    """
    n = min(draws, max(1, most // chains))
    within = (np.arange(n) * draws) // n + (draws // n) // 2
    return np.arange(chains)[:, None] * draws + within


def label_matches(paths, reference, n_states, n_reference, order=None, fixed=()):
    """Match the states of each path one to one with labels of the reference.

    The time points on which the two agree are as many as possible (Munkres 1957); pairs that
    never meet are not matched.

    Parameters
    ----------
    paths : ndarray of shape (S, T)
    reference : ndarray of shape (T,)
        Labels in 0..K-1.
    n_states, n_reference : int
        L and K.
    order : ndarray of shape (S, L), optional
        The states of each path in the order that decides between equally good matches.
    fixed : sequence of int
        States that match the label of the same number, whatever they meet.

    Returns
    -------
    matches : ndarray of shape (S, L)
        The label matched with each state, or -1.
    agreement : ndarray of shape (S,)
        Number of time points on which path and reference agree.
    """
    if order is None:
        order = np.broadcast_to(np.arange(n_states), (len(paths), n_states))
    matches = np.full((len(paths), n_states), -1)
    agreement = np.zeros(len(paths), np.int64)
    fixed = np.asarray(fixed, int)
    matches[:, fixed] = fixed
    block = max(1, CELLS // (n_states * n_reference))
    for start in range(0, len(paths), block):
        tables = contingencies(paths[start : start + block], reference, n_states, n_reference)
        for s, table in enumerate(tables, start):
            agreement[s] = table[fixed, fixed].sum()
            table[fixed] = 0
            table[:, fixed] = 0
            overlap = table[order[s]]
            visited = overlap.any(axis=1)
            overlap, states = overlap[visited], order[s, visited]
            rows, columns = linear_sum_assignment(overlap, maximize=True)
            shared = overlap[rows, columns]
            matches[s, states[rows]] = np.where(shared > 0, columns, -1)
            agreement[s] += shared.sum()
    return matches, agreement


def consensus_path(paths, n_states):
    """Segmentation of smallest expected variation of information to the given ones.

    The best of the paths themselves is improved one time point at a time until no single change
    helps. A series longer than ``TIMES`` is searched on evenly spaced time points, and the others
    take the label that most paths, matched with the consensus, give them.

    Parameters
    ----------
    paths : ndarray of shape (S, T)
        Labels in 0..L-1, numbered in an order that does not depend on how they were sampled.
    n_states : int
        L.

    Returns
    -------
    ndarray of shape (T,)
        Labels from 0, without gaps, by decreasing occupancy, then by first appearance.
    """
    T = paths.shape[1]
    grid = np.arange(T) if T <= TIMES else (np.arange(TIMES) * T) // TIMES
    seen = np.ascontiguousarray(paths[:, grid])
    start = seen[np.argmin(variation_of_information(seen, n_states).sum(axis=1))]
    path = by_size(refine_consensus(start, seen, n_states, SWEEPS))
    if len(grid) == T:
        return path
    n_labels = path.max() + 1
    matches, _ = label_matches(seen, path, n_states, n_labels)
    tally = votes(paths, np.where(matches < 0, n_labels, matches), n_labels + 1)
    return by_size(tally[:, :n_labels].argmax(axis=1))


def by_size(path):
    """Renumber the labels of a path by decreasing occupancy, then by first appearance."""
    _, first, labels, sizes = np.unique(
        path, return_index=True, return_inverse=True, return_counts=True
    )
    number = np.empty(len(sizes), np.int64)
    number[np.lexsort((first, -sizes))] = np.arange(len(sizes))
    return number[labels]


def keep_known(path, known, n_states):
    """Renumber the labels of a path so that known states keep their numbers.

    Parameters
    ----------
    path : ndarray of shape (T,)
        Labels from 0, without gaps.
    known : ndarray of shape (T,)
        Numbers of known states, -1 elsewhere.
    n_states : int
        L.

    Returns
    -------
    ndarray of shape (T,)
        Each known state is the label that it meets most; the others have the numbers left.
    """
    at = known >= 0
    states = np.unique(known[at])
    n_labels = path.max() + 1
    meet = contingencies(known[at][None], path[at], n_states, n_labels)[0, states]
    rows, columns = linear_sum_assignment(meet, maximize=True)
    number = np.full(n_labels, -1)
    number[columns] = states[rows]
    others = number < 0
    number[others] = np.setdiff1d(np.arange(n_states), states)[: others.sum()]
    return np.where(at, known, number[path])


class ChainDistances(NamedTuple):
    """How differently chains segment the series.

    Attributes
    ----------
    distances : ndarray of shape (chains, chains)
        Expected share of time points labelled differently, after the best matching of labels, by
        a draw of one chain and a draw of the other; by two draws of a chain on the diagonal.
    groups : ndarray of shape (chains,)
        Number of the group of each chain. Chains of one group agree: two draws of different chains
        differ hardly more than two draws of one chain.
    """

    distances: np.ndarray
    groups: np.ndarray


def chain_distances(paths, n_states):
    """Compare the segmentations of chains.

    Two chains agree if the distance between them exceeds the mean of those within them by at most
    2% of the time points or by half of that mean, whichever is more; agreement is passed on from
    chain to chain.

    Parameters
    ----------
    paths : ndarray of shape (chains, n, T)
        Some draws of each chain, labels in 0..L-1.
    n_states : int
        L.

    Returns
    -------
    ChainDistances
    """
    chains, n, T = paths.shape
    flat = np.ascontiguousarray(paths.reshape(chains * n, T))
    between = np.zeros((len(flat), len(flat)))
    for i in range(1, len(flat)):
        _, agreement = label_matches(flat[:i], flat[i], n_states, n_states)
        between[i, :i] = between[:i, i] = 1.0 - agreement / T
    blocks = between.reshape(chains, n, chains, n).sum(axis=(1, 3))
    pairs = np.full((chains, chains), float(n * n))
    np.fill_diagonal(pairs, max(n * (n - 1), 1))
    distances = (blocks + blocks.T) / (2.0 * pairs)
    within = np.diag(distances)
    within = 0.5 * (within[:, None] + within[None, :])
    agree = distances - within <= np.maximum(LEAST_EXCESS, 0.5 * within)
    _, groups = connected_components(agree, directed=False)
    return ChainDistances(distances, groups)
