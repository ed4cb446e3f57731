"""The numbering of the states of a result: found on some draws, given to all."""

from typing import NamedTuple

import numpy as np
import xarray as xr

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.consensus import (
    ChainDistances,
    chain_distances,
    common_numbering,
    distances_between,
    numbers_by,
    thinned,
)
from pymc_dshdp.analysis.parameters import learn, state_parameters
from pymc_dshdp.analysis.result import observed_labels, read_records
from pymc_dshdp.kernels.segmentations import disagreements, modal_path, occupancies, rename, votes

__all__ = ["Matching", "match_states"]

TIMES = 20_000  # time points on which the numbering is found
DISTANCE_DRAWS = 100  # compared with each other
PARAMETERS = 0.1  # agreement of the parameters at a time point, in agreements of the label
ROUNDS = 10


class Matching(NamedTuple):
    """The numbering of the states of one dimension.

    Attributes
    ----------
    label_before : ndarray of shape (chains, draws, L)
        Number, in the input, of the state at each new place.
    consensus : ndarray of shape (T,)
        The label that most draws give each time, or the reference, in the new numbering, over all
        hidden-state variables end to end.
    distance : ndarray of shape (chains, draws)
        Share of time points at which a draw differs from it.
    sizes : ndarray of shape (chains, draws, L)
        Number of time points in each state, in the new numbering.
    chains : ChainDistances
    apart : float
        Share of time points on which two draws differ after the best matching of their labels, of
        those draws that are compared.
    from_consensus : float
        Share of time points on which the same draws differ from the consensus.
    """

    label_before: np.ndarray
    consensus: np.ndarray
    distance: np.ndarray
    sizes: np.ndarray
    chains: ChainDistances
    apart: float
    from_consensus: float


def match_states(idata, hidden, reference=None, states=None):
    """Match the states of all draws with each other, or with a reference.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
    hidden : list of Hidden
        The hidden-state variables that share a state dimension.
    reference : array of int, optional
    states : str, optional
        The hidden-state variable that the reference is for.

    Returns
    -------
    Matching

    Raises
    ------
    ValueError
        If several priors share the state dimension, or the reference does not fit.
    """
    first = hidden[0]
    posterior, L = group(idata, "posterior"), first.n_states
    _check_one_prior(idata, first.dim)
    chains, draws = first.z.shape[:2]
    paths = [h.paths() for h in hidden]
    paths = paths[0] if len(paths) == 1 else np.hstack(paths)
    known = np.concatenate([h.known for h in hidden])
    pinned = np.union1d(known[known >= 0], observed_labels(idata, first.dim))
    sizes, entered = occupancies(paths, L)
    order = _canonical_order(posterior, first, sizes, entered)
    few = thinned(chains, draws, DISTANCE_DRAWS).ravel()
    between = distances_between(rename(paths[few], np.argsort(order[few], axis=1)), L)
    some = thinned(chains, draws).ravel()
    if reference is None:
        medoids = few[_medoids(between, chains)]
        values = state_parameters(posterior, first)
        numbers = _numbers(paths, sizes, order, some, medoids, values, pinned)
        numbers = _by_occupancy(numbers, sizes, pinned)
        target, matched = modal_path(paths[some], numbers[some], L), paths
    else:
        [used] = [h for h in hidden if h.name == (states or first.name)]
        target, matched = _checked_reference(reference, used), used.paths()
        numbers = numbers_by(matched, target, sizes, order, pinned)
    label_before = np.argsort(numbers, axis=1)
    different = disagreements(matched, numbers, target) / len(target)
    return Matching(
        label_before.reshape(chains, draws, L),
        target,
        different.reshape(chains, draws),
        np.take_along_axis(sizes, label_before, axis=1).reshape(chains, draws, L),
        chain_distances(between, chains),
        between.sum() / max(len(few) * (len(few) - 1), 1),
        different[few].mean(),
    )


def _check_one_prior(idata, dim):
    """Raise if the states of several priors share a dimension: each has its own numbering."""
    records = read_records(idata).values()
    priors = list(dict.fromkeys(r.prior for r in records if r.dims[0] == dim))
    if len(priors) > 1:
        raise ValueError(
            f"the priors {', '.join(priors)} share the state dimension {dim!r}, so that the result "
            "does not tell whose states its variables belong to: give each prior a dimension of "
            f"its own (dims={dim + '_' + priors[0]!r}, say), and its emission parameters too"
        )


def _numbers(paths, sizes, order, some, medoids, values, pinned):
    """Find the numbers of the states of all draws, (S, L), by the votes of some of them.

    The votes are found from each of the ``medoids``; those under which two draws differ least are
    taken, and then counted again with the help of the parameters.
    """
    T, L = paths.shape[1], sizes.shape[1]
    grid = np.arange(T) if T <= TIMES else (np.arange(TIMES) * T) // TIMES
    seen = paths if T <= TIMES else np.ascontiguousarray(paths[:, grid])
    names = _canonical_names(order, pinned)
    sample = rename(seen[some], names[some])
    starts = rename(seen[medoids], names[medoids]).astype(np.int64)
    found = [common_numbering(sample, start, L, pinned) for start in starts]
    _, by_name = min(found, key=lambda one: one[0])
    numbers = np.take_along_axis(by_name, names[some], axis=1)
    own = None if values is None else values[some]
    for _ in range(ROUNDS):
        tally = votes(seen[some], numbers, L)
        told = None if own is None else learn(own, numbers, sizes[some])
        if told is None:
            break
        more = _worth(told, own, sizes[some])
        by_both = numbers_by(seen[some], tally, sizes[some], order[some], pinned, more)
        if np.array_equal(by_both, numbers):
            break
        numbers = by_both
    more = None if told is None else _worth(told, values, sizes)
    return numbers_by(seen, tally, sizes, order, pinned, more)


def _worth(told, values, sizes):
    """Give what the agreement of parameters is worth, as ``numbers_by`` asks for it."""
    return lambda part: PARAMETERS * sizes[part][..., None] * told.probabilities(values[part])


def _by_occupancy(numbers, sizes, pinned):
    """Exchange the numbers so that mean occupancy decreases; pinned ones are kept."""
    label = np.argsort(numbers, axis=1)
    mean = np.take_along_axis(sizes, label, axis=1).mean(axis=0)
    others = np.setdiff1d(np.arange(len(mean)), pinned)
    new = np.arange(len(mean))
    new[others[np.argsort(-mean[others], kind="stable")]] = others
    return new[numbers]


def _medoids(between, chains):
    """Find the draw nearest to all others, and in each chain that nearest to its others."""
    n = len(between) // chains
    blocks = between.reshape(chains, n, chains, n)
    own = [c * n + np.argmin(blocks[c, :, c].sum(axis=1)) for c in range(chains)]
    return list(dict.fromkeys([int(np.argmin(between.sum(axis=1))), *map(int, own)]))


def _canonical_order(posterior, hidden, sizes, entered):
    """Order the states of each draw, (S, L), without regard to their numbers.

    Occupied ones first, by occupancy and by their first visit; then the others, by their weight
    beta and then by what else is known of them.
    """
    own = {"chain", "draw", hidden.dim}
    names = [name for name, variable in posterior.items() if set(variable.dims) == own]
    names.sort(key=lambda name: name not in hidden.record.own("beta"))
    columns = (posterior[name].transpose("chain", "draw", hidden.dim) for name in names)
    keys = [-column.values.reshape(sizes.shape).astype(float) for column in columns]
    return np.lexsort((*reversed(keys), entered, -sizes), axis=1)


def _canonical_names(order, pinned):
    """Name the states of each draw by their places in the order; pinned ones keep their numbers."""
    names = np.empty_like(order)
    free = np.setdiff1d(np.arange(order.shape[1]), pinned)
    np.put_along_axis(names, order[~np.isin(order, pinned)].reshape(len(order), -1), free, axis=1)
    names[:, pinned] = pinned
    return names


def _checked_reference(reference, hidden):
    if isinstance(reference, xr.DataArray) and set(reference.dims) == set(hidden.dims):
        reference = reference.transpose(*hidden.dims)
    path = np.asarray(reference)
    if path.shape != hidden.z.shape[2:]:
        raise ValueError(
            f"reference must be one path of {hidden.name!r}, of shape {hidden.z.shape[2:]}; "
            f"received shape {path.shape}"
        )
    if not np.issubdtype(path.dtype, np.integer):
        raise TypeError(f"reference must have integer labels, received dtype {path.dtype}")
    if path.min() < 0 or path.max() >= hidden.n_states:
        raise ValueError(
            f"reference must have labels 0 to {hidden.n_states - 1}, received {path.min()} to "
            f"{path.max()}; renumber them, for example np.unique(path, return_inverse=True)[1]"
        )
    return path.ravel().astype(np.int64)
