"""Starting paths from the data, for the tuning phase."""

import warnings

import numpy as np
from scipy.cluster.vq import kmeans2, vq
from scipy.optimize import linear_sum_assignment

__all__ = ["initial_path", "is_default_start"]


LARGEST_SAMPLE = 20_000


def initial_path(table, n_states, rng):
    """Segment the observed data by k-means, in agreement with what is known of the states.

    Features are what was observed at each time point, standardised (counts by their square
    root); time points without data take the label before them. The number of clusters is drawn
    between 3K/4 and K = min(L, max(2 + T^(1/2), T/10)), so that chains start differently: the
    sampler merges states that are too many sooner than it splits states that are too few. Where
    there are fewer than K distinct values, a time point has its neighbours' features too, so
    that one value may be in several states; if there are still fewer, K is their number.

    Parameters
    ----------
    table : LogLikelihoodTable
    n_states : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (T,)
    """
    path = _segmentation(table, n_states, rng)
    return path if table.known is None else _with_known(path, table.known, n_states)


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


def _segmentation(table, n_states, rng):
    T = int(np.prod(table.shape))
    features = table.features()
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
