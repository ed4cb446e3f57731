"""One numbering for many segmentations, and how far chains are from each other."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components

from pymc_dshdp.kernels.segmentations import contingencies, occupancies, shared_votes, votes

__all__ = [
    "ChainDistances",
    "chain_distances",
    "common_numbering",
    "distances_between",
    "label_matches",
    "numbers_by",
    "thinned",
]

DRAWS = 200
ROUNDS = 50
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


def label_matches(scores, order, fixed=()):
    """Match the states of each path one to one with labels, so that the scores add up to the most.

    States without a score and pairs without one are not matched (Munkres 1957 for the others).

    Parameters
    ----------
    scores : ndarray of shape (S, L, K)
        What matching state j of path s with label k is worth, not negative: the number of time
        points at which they meet, for one.
    order : ndarray of shape (S, L)
        The states of each path in the order that decides between equally good matches.
    fixed : sequence of int
        States that match the label of the same number, whatever they meet.

    Returns
    -------
    ndarray of shape (S, L)
        The label matched with each state, or -1.
    """
    fixed = np.asarray(fixed, int)
    matches = np.full(scores.shape[:2], -1)
    matches[:, fixed] = fixed
    for s, table in enumerate(scores):
        table = table.copy()
        table[fixed] = 0
        table[:, fixed] = 0
        table = table[order[s]]
        visited = table.any(axis=1)
        rows, columns = linear_sum_assignment(table[visited], maximize=True)
        found = table[visited][rows, columns] > 0
        matches[s, order[s, visited][rows]] = np.where(found, columns, -1)
        matches[s, fixed] = fixed
    return matches


def numbers_by(paths, reference, sizes, order, fixed=(), more=None):
    """Find numbers for the states of each path that agree with a reference as often as possible.

    Parameters
    ----------
    paths : ndarray of shape (S, T)
        Labels in 0..L-1.
    reference : ndarray of shape (T,) or (T, L)
        A path, or the number of votes for each label.
    sizes : ndarray of shape (S, L)
        Number of time points in each state.
    order : ndarray of shape (S, L)
        The states of each path in the order that decides what the reference leaves open.
    fixed : sequence of int
        States that keep their numbers.
    more : callable, optional
        What matching states with labels is worth beside the time points on which they agree, for
        a slice of the paths, (n, L, L).

    Returns
    -------
    ndarray of shape (S, L)
        Occupied states without a match take labels that the reference does not use, if they can.
    """
    n_states = sizes.shape[1]
    matches = np.empty(sizes.shape, np.int64)
    for part, scores in _tables(paths, reference, n_states):
        if reference.ndim == 2:
            scores = scores / reference[0].sum()
        if more is not None:
            scores = scores + more(part)
        matches[part] = label_matches(scores, order[part], fixed)
    used = np.unique(reference) if reference.ndim == 1 else np.flatnonzero(reference.any(axis=0))
    used = np.union1d(used, np.asarray(fixed, int))
    free = np.setdiff1d(np.arange(n_states), used)
    numbers = matches.copy()
    for s, match in enumerate(matches):
        left = order[s, match[order[s]] < 0]
        places = np.concatenate([free, np.setdiff1d(used, match)])
        occupied = np.count_nonzero(sizes[s, left])
        numbers[s, left[:occupied]] = places[:occupied]
        numbers[s, left[occupied:]] = np.sort(places[occupied:])
    return numbers


def _tables(paths, reference, n_states):
    """Yield slices of the paths with the time points shared with labels, or votes, (n, L, L)."""
    block = max(1, CELLS // n_states**2)
    for start in range(0, len(paths), block):
        part = slice(start, min(start + block, len(paths)))
        if reference.ndim == 1:
            yield part, contingencies(paths[part], reference, n_states, n_states)
        else:
            yield part, shared_votes(paths[part], reference, n_states)


def common_numbering(paths, start, n_states, fixed=()):
    r"""Find numbers for the states of segmentations so that two differ as little as may be.

    With :math:`V_{tk}` the number of paths that are in state k at time t, two paths drawn with
    replacement differ on the share :math:`1 - \sum_{tk} V_{tk}^2 / (S^2 T)` of the time points.
    All paths at once take the numbers with which they agree with the most votes. The sum of
    squares is convex in the numbering, so that this never lowers it; it ends when nothing is
    gained.

    Parameters
    ----------
    paths : ndarray of shape (S, T)
        Labels in 0..L-1, numbered in an order that does not depend on how they were sampled.
    start : ndarray of shape (T,)
        The path matched with first.
    n_states : int
        L.
    fixed : sequence of int
        States that keep their numbers.

    Returns
    -------
    distance : float
        Share of the time points on which two of the paths differ.
    numbers : ndarray of shape (S, L)
        The number of each state of each path.
    """
    S, T = paths.shape
    order = np.broadcast_to(np.arange(n_states), (S, n_states))
    sizes, _ = occupancies(paths, n_states)
    reference, most, kept = start, -1, None
    for _ in range(ROUNDS):
        numbers = numbers_by(paths, reference, sizes, order, fixed)
        reference = votes(paths, numbers, n_states)
        squares = int(np.sum(reference**2))
        if squares <= most:
            break
        most, kept = squares, numbers
    return 1.0 - most / (S * S * T), kept


def distances_between(paths, n_states):
    """Share of time points on which paths differ after the best matching of labels, (S, S)."""
    out = np.zeros((len(paths), len(paths)))
    order = np.broadcast_to(np.arange(n_states), (len(paths), n_states))
    for i in range(1, len(paths)):
        for part, tables in _tables(paths[:i], paths[i].astype(np.int64), n_states):
            matches = label_matches(tables, order[part])
            shared = np.take_along_axis(tables, np.maximum(matches, 0)[..., None], axis=2)[..., 0]
            agreement = np.sum(shared, axis=1, where=matches >= 0)
            out[i, part] = out[part, i] = 1.0 - agreement / paths.shape[1]
    return out


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


def chain_distances(between, chains):
    """Compare the segmentations of chains.

    Two chains agree if the distance between them exceeds the mean of those within them by at most
    2% of the time points or by half of that mean, whichever is more; agreement is passed on from
    chain to chain.

    Parameters
    ----------
    between : ndarray of shape (chains * n, chains * n)
        Distances between some draws, equally many of each chain.
    chains : int

    Returns
    -------
    ChainDistances
    """
    n = len(between) // chains
    blocks = between.reshape(chains, n, chains, n).sum(axis=(1, 3))
    pairs = np.full((chains, chains), float(n * n))
    np.fill_diagonal(pairs, max(n * (n - 1), 1))
    distances = (blocks + blocks.T) / (2.0 * pairs)
    within = np.diag(distances)
    within = 0.5 * (within[:, None] + within[None, :])
    agree = distances - within <= np.maximum(LEAST_EXCESS, 0.5 * within)
    _, groups = connected_components(agree, directed=False)
    return ChainDistances(distances, groups)
