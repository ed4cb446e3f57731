"""Starting paths from the data, for the tuning phase."""

import warnings

import numpy as np
from scipy.cluster.vq import kmeans2, vq

__all__ = ["initial_path", "is_default_start"]

LARGEST_SAMPLE = 20_000


def is_default_start(path, n_states):
    """Whether a path is the default initial value of ``HiddenStates`` (all states L - 1)."""
    return bool(np.all(path == n_states - 1))


def initial_path(table, n_states, rng):
    """Segment the observed data by k-means.

    Features are what was observed at each time point, standardised (counts by their square
    root); time points without data take the label before them. The number of clusters is drawn
    between K/2 and K = min(L, 2 + T^(1/2), distinct values), so that chains start differently.

    Parameters
    ----------
    table : LogLikelihoodTable
    n_states : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (T,)
    """
    T = int(np.prod(table.shape))
    features = table.features()
    seen = np.flatnonzero(np.all(np.isfinite(features), axis=1))
    if features.shape[1] == 0 or seen.size < 2:
        return np.zeros(T, int)
    x = features[seen]
    sample = x if seen.size <= LARGEST_SAMPLE else x[rng.choice(seen.size, LARGEST_SAMPLE, False)]
    most = min(n_states, 2 + int(np.sqrt(seen.size)), len(np.unique(sample, axis=0)))
    if most < 2:
        return np.zeros(T, int)
    clusters = int(rng.integers(max(2, (most + 1) // 2), most + 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a cluster may end up empty
        centres, _ = kmeans2(sample, clusters, minit="++", rng=rng)
    labels, _ = vq(x, centres)
    labels = np.unique(labels, return_inverse=True)[1]
    before = np.maximum(np.searchsorted(seen, np.arange(T), side="right") - 1, 0)
    return labels[before]
