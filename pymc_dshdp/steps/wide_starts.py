"""Starting paths of many kinds, so that short runs from them meet different modes.

No kind is enough by itself: clusters of the level cannot see states that differ in dynamics,
few clusters cannot be split by later sweeps where many could have been merged, and labels at random
are the only start that knows nothing at all.
"""

import warnings

import numpy as np
from scipy.cluster.vq import kmeans2, vq

__all__ = ["KINDS", "standardised", "wide_start"]

LARGEST_SAMPLE = 20_000
FEWEST, MOST = 2, 40  # clusters
WINDOW = 15  # time points over which dynamics are averaged


def wide_start(kind, features, lengths, n_states, rng):
    """Draw a starting path.

    Parameters
    ----------
    kind : str
        One of ``KINDS``.
    features : ndarray of shape (T, F)
        Standardised; NaN where nothing was observed.
    lengths : ndarray of shape (N,)
    n_states : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of int, shape (T,)
    """
    return KINDS[kind](features, lengths, n_states, rng)


def _number(n_states, T, rng):
    """Draw a number of groups, small ones as likely as large ones."""
    most = max(FEWEST, min(n_states, MOST, T // 5))
    return min(n_states, int(np.exp(rng.uniform(np.log(FEWEST), np.log(most + 1)))))


def _clusters(x, n_states, rng):
    """k-means of the rows of x; those with NaN take the label before them."""
    T = len(x)
    seen = np.flatnonzero(np.isfinite(x).all(axis=1))
    if x.shape[1] == 0 or seen.size < 2:
        return np.zeros(T, int)
    sample = seen if seen.size <= LARGEST_SAMPLE else rng.choice(seen, LARGEST_SAMPLE, False)
    wanted = min(_number(n_states, T, rng), len(np.unique(x[sample], axis=0)))
    if wanted < 2:
        return np.zeros(T, int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a cluster may end up empty
        centres, _ = kmeans2(x[sample], wanted, minit="++", rng=rng)
    labels, _ = vq(x[seen], centres)
    before = np.maximum(np.searchsorted(seen, np.arange(T), side="right") - 1, 0)
    return labels[before]


def _firsts(lengths):
    return np.cumsum(lengths) - lengths


def _differences(x, lengths):
    """x_t - x_{t-1}; 0 at the beginnings of sequences."""
    out = np.diff(x, axis=0, prepend=x[:1])
    out[_firsts(lengths)] = 0.0
    return out


def standardised(x):
    """Columns of mean 0 and spread 1, whatever is missing; constant ones are 0."""
    if x.size == 0:
        return x
    with np.errstate(invalid="ignore"):
        spread = np.nanstd(x, axis=0)
        return (x - np.nanmean(x, axis=0)) / np.where(spread > 0, spread, 1.0)


def _running_means(x, lengths):
    """Means over the window around each time, within its sequence."""
    T = len(x)
    starts = np.repeat(_firsts(lengths), lengths)
    ends = np.repeat(np.cumsum(lengths), lengths)
    low = np.maximum(np.arange(T) - WINDOW // 2, starts)
    high = np.minimum(np.arange(T) + WINDOW // 2 + 1, ends)
    total = np.concatenate([np.zeros((1, x.shape[1])), np.cumsum(x, axis=0)])
    return (total[high] - total[low]) / (high - low)[:, None]


def _level(features, lengths, n_states, rng):
    return _clusters(features, n_states, rng)


def _level_and_difference(features, lengths, n_states, rng):
    changes = standardised(_differences(features, lengths))
    return _clusters(np.concatenate([features, changes], axis=1), n_states, rng)


def _whitened(features, lengths, n_states, rng):
    """Clusters in directions of equal spread, so that small ones count."""
    seen = np.isfinite(features).all(axis=1)
    if seen.sum() <= features.shape[1] or features.shape[1] == 0:
        return _level(features, lengths, n_states, rng)
    centred = features[seen] - features[seen].mean(axis=0)
    _, spread, directions = np.linalg.svd(centred, full_matrices=False)
    kept = spread > 1e-6 * spread[0] if spread[0] > 0 else np.zeros(spread.size, bool)
    return _clusters(features @ (directions[kept] / spread[kept, None]).T, n_states, rng)


def _dynamics(features, lengths, n_states, rng):
    """Clusters of the local level, spread and correlation with the time before."""
    x = np.nan_to_num(features)
    before = x - _differences(x, lengths)
    F = x.shape[1]
    local = _running_means(np.concatenate([x, x * x, x * before], axis=1), lengths)
    level, square, product = local[:, :F], local[:, F : 2 * F], local[:, 2 * F :]
    variance = np.maximum(square - level**2, 0.0)
    correlation = (product - level**2) / np.where(variance > 0.0, variance, np.inf)
    columns = np.concatenate([level, np.sqrt(variance), correlation], axis=1)
    return _clusters(standardised(columns), n_states, rng)


def _blocks(features, lengths, n_states, rng):
    """Stretches of time, each with a label of its own."""
    T = len(features)
    edges = rng.integers(1, max(T, 2), _number(n_states, T, rng) - 1)
    return np.searchsorted(np.sort(edges), np.arange(T), side="right")


def _labels(features, lengths, n_states, rng):
    """Labels at random."""
    return rng.integers(min(n_states, int(rng.choice([8, MOST]))), size=len(features))


KINDS = {
    "level": _level,
    "level and difference": _level_and_difference,
    "whitened": _whitened,
    "dynamics": _dynamics,
    "blocks": _blocks,
    "labels": _labels,
}
"""Functions that draw a starting path, by the name of the kind."""
