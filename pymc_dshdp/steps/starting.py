"""Starting paths from the data, for the tuning phase."""

import warnings

import numpy as np
from scipy.cluster.vq import kmeans2, vq
from scipy.optimize import linear_sum_assignment

from pymc_dshdp.steps.wide_starts import standardised, wide_start

__all__ = ["alike", "initial_paths", "is_default_start"]

LARGEST_SAMPLE = 20_000


def initial_paths(tables, lengths, n_states, rng, kind=None):
    """Segment the observed data by k-means, in agreement with what is known of the states.

    The data of several tables are segmented together, so that a label means the same in all of
    them. Features are what was observed at each time point, standardised (counts by their square
    root); time points without data take the label before them. The number of clusters is drawn
    between 3K/4 and K = min(L, max(2 + T^(1/2), T/10)), so that chains start differently: the
    sampler merges states that are too many sooner than it splits states that are too few. Where
    there are fewer than K distinct values, a time point has its neighbours' features too, so
    that one value may be in several states; if there are still fewer, K is their number.

    Parameters
    ----------
    tables : list of LogLikelihoodTable
        One, or several that are ``alike``.
    lengths : ndarray of shape (N,)
        Of their sequences, end to end.
    n_states : int
    rng : numpy.random.Generator
    kind : str, optional
        Another kind of start, one of ``wide_starts.KINDS``.

    Returns
    -------
    list of ndarray of shape (T,)
    """
    features = standardised(np.concatenate([table.features() for table in tables]))
    if kind is None:
        path = _segmentation(features, n_states, rng)
    else:
        path = wide_start(kind, features, lengths, n_states, rng)
    ends = np.cumsum([np.prod(table.shape, dtype=int) for table in tables])
    parts = np.split(path, ends[:-1])
    if any(table.known is not None for table in tables):
        known = [
            np.full(len(part), -1) if table.known is None else table.known
            for part, table in zip(parts, tables, strict=True)
        ]
        parts = np.split(_with_known(path, np.concatenate(known), n_states), ends[:-1])
    return parts


def alike(tables):
    """Group the positions of tables whose data can be segmented together.

    Those of several recordings can: their likelihoods share parameters, have as many data at a
    time, and are not one and the same.
    """
    groups = []
    for i, table in enumerate(tables):
        for group in groups:
            if all(_of_one_kind(table, tables[j]) for j in group):
                group.append(i)
                break
        else:
            groups.append([i])
    return groups


def _of_one_kind(one, two):
    return (
        bool(one.parameters & two.parameters)
        and not set(one.names) & set(two.names)
        and one.features().shape[1] == two.features().shape[1]
    )


def is_default_start(path, n_states, known=None):
    """Whether a path is the default initial value of ``HiddenStates``.

    All states are L - 1, but for those that are known.
    """
    path = np.ravel(path)
    return bool(np.all(path == n_states - 1 if known is None else path[known < 0] == n_states - 1))


def _with_known(path, known, n_states):
    """Match the numbers of the clusters with the known states, then put these in."""
    at = known >= 0
    agree = np.zeros((n_states, n_states))
    np.add.at(agree, (path[at], known[at]), 1)
    _, number = linear_sum_assignment(agree, maximize=True)
    return np.where(at, known, number[path])


def _segmentation(features, n_states, rng):
    T = len(features)
    seen = np.flatnonzero(np.all(np.isfinite(features), axis=1))
    if features.shape[1] == 0 or seen.size < 2:
        return np.zeros(T, int)
    x = features[seen]
    chosen = np.arange(seen.size)
    if seen.size > LARGEST_SAMPLE:
        chosen = rng.choice(seen.size, LARGEST_SAMPLE, False)
    wanted = min(n_states, max(2 + int(np.sqrt(seen.size)), seen.size // 10))
    distinct = len(np.unique(x[chosen], axis=0))
    if distinct < wanted:
        x = _with_neighbours(x)
        distinct = len(np.unique(x[chosen], axis=0))
    sample, most = x[chosen], min(wanted, distinct)
    if most < 2:
        return np.zeros(T, int)
    clusters = int(rng.integers(max(2, (3 * most + 3) // 4), most + 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a cluster may end up empty
        centres, _ = kmeans2(sample, clusters, minit="++", rng=rng)
    labels, _ = vq(x, centres)
    labels = np.unique(labels, return_inverse=True)[1]
    before = np.maximum(np.searchsorted(seen, np.arange(T), side="right") - 1, 0)
    return labels[before]


def _with_neighbours(x):
    """Join to each row the one before and the one after it."""
    return np.concatenate([np.vstack([x[:1], x[:-1]]), x, np.vstack([x[1:], x[-1:]])], axis=1)
