"""Starting paths from the data, for the tuning phase."""

import warnings

import numpy as np
from pytensor.graph.basic import Constant
from pytensor.tensor.random.basic import CategoricalRV
from scipy.cluster.vq import kmeans2, vq
from scipy.optimize import linear_sum_assignment

from pymc_dshdp.structure import is_cast

__all__ = [
    "initial_path",
    "is_default_start",
    "observed_data",
    "refuse_fractions",
    "standardised",
]

LARGEST_SAMPLE = 20_000


def is_default_start(path, n_states, known=None):
    """Whether a path is the default initial value of ``HiddenStates``.

    All states are L - 1, but for those that are known.
    """
    path = np.ravel(path)
    return bool(np.all(path == n_states - 1 if known is None else path[known < 0] == n_states - 1))


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


def observed_data(model, variable):
    """(array, "categories" | "numbers") of an observed variable, else (None, None).

    Raises
    ------
    ValueError
        If there is NaN among the data, or a fraction among those of a likelihood of integers.
    """
    if variable not in model.observed_RVs:
        return None, None
    value = model.rvs_to_values[variable]
    given = value.owner.inputs[0] if is_cast(value) else value
    data = np.asarray(given.data if isinstance(given, Constant) else given.eval())
    if np.issubdtype(data.dtype, np.floating) and np.isnan(data).any():
        where = tuple(int(i) for i in np.argwhere(np.isnan(data))[0])
        raise ValueError(
            f"{variable.name!r} has NaN at position {where} of its observed data; pass missing "
            "values as a NumPy masked array, np.ma.masked_invalid(data)"
        )
    refuse_fractions(variable.name, data, value.dtype)
    data = data.astype(value.dtype, copy=False)
    kind = "categories" if isinstance(variable.owner.op, CategoricalRV) else "numbers"
    return data, kind


def refuse_fractions(name, data, dtype):
    """Raise if data are not integers where a likelihood has them cast to an integer dtype.

    PyMC casts arrays before they can be seen here; what is in ``pm.Data`` it casts in the graph.
    """
    data = np.ma.filled(data, 0)
    if np.dtype(dtype).kind not in "iu" or data.dtype.kind != "f":
        return
    wrong = np.argwhere(~np.isfinite(data) | (data != np.floor(data)))
    if wrong.size:
        where = tuple(int(i) for i in wrong[0])
        raise ValueError(
            f"{name!r} has {data[where]:g} at position {where} of its observed data, but its "
            "likelihood is of integers, and PyMC would cut off the fraction; give integers, as "
            "np.round(data), or a likelihood of real numbers"
        )


def standardised(data, kind, time, T):
    """Standardised columns of one variable's data, placed by the times of its elements."""
    if time.size == 0 or data.size % time.size:
        return np.empty((T, 0))
    rows = data.reshape(time.size, -1)
    if kind == "categories":
        rows = (rows == np.unique(rows)).astype("float64")
    elif np.issubdtype(rows.dtype, np.integer) and rows.min() >= 0:
        rows = np.sqrt(rows)
    used = np.flatnonzero(time >= 0)
    used = used[np.argsort(time[used], kind="stable")]
    times, first, per_time = np.unique(time[used], return_index=True, return_counts=True)
    out = np.full((T, rows.shape[1]), np.nan)
    if per_time.size and np.all(per_time == per_time[0]):
        out = np.full((T, rows.shape[1] * per_time[0]), np.nan)
        out[times] = rows[used].reshape(times.size, -1)
    elif per_time.size:
        out[times] = np.add.reduceat(rows[used], first, axis=0) / per_time[:, None]
    with np.errstate(invalid="ignore"):
        spread = np.nanstd(out, axis=0) if times.size else np.ones(out.shape[1])
        return (out - np.nanmean(out, axis=0)) / np.where(spread > 0, spread, 1.0)
