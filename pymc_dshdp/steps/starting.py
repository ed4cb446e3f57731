"""Starting paths from the data, for the tuning phase."""

import warnings

import numpy as np
from scipy import special
from scipy.cluster.vq import kmeans2, vq
from scipy.optimize import linear_sum_assignment

from pymc_dshdp.distributions.path import NOTHING_KNOWN
from pymc_dshdp.kernels.decoding import most_probable_path
from pymc_dshdp.kernels.simulation import MARK, last_possible_path
from pymc_dshdp.steps.wide_starts import standardised, wide_start

__all__ = [
    "alike",
    "default_path",
    "initial_paths",
    "numbered",
    "numbered_by_time",
    "possible_path",
]

LARGEST_SAMPLE = 20_000
PIECE = 5_000  # rows of a table at a time
LOWEST = -1e6  # of the log-density of one time in a comparison
MISMATCH = 50.0  # nats that a state other than that of a segmentation costs in ``possible_path``


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


def numbered(paths, tables, point, n_states):
    """Give the states of a segmentation the numbers by which a point knows their parameters.

    Where the priors of the states differ, or ``initvals`` say which is which, a state under the
    number of another does not find back: each time would have to change before its parameters do.
    Among all numberings the one under which the data are likeliest at the point is taken.

    Parameters
    ----------
    paths : list of ndarray of shape (T,)
    tables : list of LogLikelihoodTable
    point : dict
    n_states : int

    Returns
    -------
    list of ndarray of shape (T,), or None where parameters are alike in all states
    """
    scores = np.zeros((n_states, n_states))
    for path, table in zip(paths, tables, strict=True):
        rows = table.rows(point)
        for low in range(0, len(path), PIECE):
            piece = np.maximum(rows(low, min(low + PIECE, len(path))), LOWEST)
            if low == 0 and np.all(piece == piece[:, :1]):
                return None
            np.add.at(scores, path[low : low + PIECE], piece)
    _, number = linear_sum_assignment(scores, maximize=True)
    return [number[path] for path in paths]


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


def default_path(start, transitions, lengths, constrained, known=None):
    """Return the default initial value of ``HiddenStates``; see ``last_possible_path``.

    Parameters
    ----------
    start : ndarray of shape (L,)
        pi_init.
    transitions : Transitions
    lengths : ndarray of shape (N,)
    constrained : bool
        Whether some transitions may be impossible by declaration.
    known : ndarray of shape (T,), optional

    Returns
    -------
    ndarray of shape (T,), int64
    """
    if not constrained:
        path = np.maximum(len(start) - 1 - np.resize(MARK, lengths.sum()), 0)
        return path if known is None else np.where(known >= 0, known, path)
    out = np.empty(lengths.sum(), np.int64)
    kappa = special.expit(transitions.kappa_logit)
    known = NOTHING_KNOWN if known is None else known
    last_possible_path(start, transitions.pi_bar, kappa, transitions.indices, lengths, known, out)
    return out


def numbered_by_time(path, lengths):
    """Order the numbers of states by the times at which they are found, from 0 to 1 in a sequence.

    Those of a chain that only moves on are then in its order.
    """
    within = np.concatenate([np.arange(n) / n for n in lengths])
    found, number = np.unique(path, return_inverse=True)
    order = np.argsort(np.bincount(number, within) / np.bincount(number), kind="stable")
    return np.argsort(order, kind="stable")[number]


def possible_path(path, start, transitions, lengths, known=None):
    """Find the path that differs least from another, among those that are possible.

    Parameters
    ----------
    path : ndarray of shape (T,)
    start, transitions, lengths, known
        As in ``default_path``.

    Returns
    -------
    ndarray of shape (T,)
    """
    table = np.full((path.size, len(start)), -MISMATCH)
    table[np.arange(path.size), path] = 0.0
    if known is not None:
        table[known >= 0] = -np.inf
        table[known >= 0, known[known >= 0]] = 0.0
    return most_probable_path(table, start, transitions, lengths)[0]


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
