"""One labelling of the states for all draws and chains."""

import re
import warnings
from typing import NamedTuple

import numpy as np
import xarray as xr

from pymc_dshdp._compat import group, group_names, with_groups
from pymc_dshdp.analysis.consensus import (
    ChainDistances,
    chain_distances,
    consensus_path,
    keep_known,
    label_matches,
    thinned,
)
from pymc_dshdp.analysis.result import find_hidden, hidden_variables, state_labels
from pymc_dshdp.kernels.segmentations import occupancies, permute, rename

__all__ = ["align"]

OTHER_DRAWS = {
    "alignment",
    "prior",
    "prior_predictive",
    "sample_stats_prior",
    "unconstrained_prior",
}
DISTANCE_DRAWS = 100  # compared with each other for the distances between chains


def align(idata, *, states=None, reference=None):
    """Give the states one numbering over all draws and chains.

    A consensus segmentation is found that minimises the expected variation of information to the
    draws (no truth is needed), the states of each draw are matched with it so that they agree on
    as many time points as possible, and every variable with the state dimension is permuted
    accordingly, on each of its state axes (``pi_bar`` on both). States are then numbered by
    decreasing mean occupancy. In a draw, occupied states that match none of the consensus come
    after them, by occupancy, and then unoccupied ones by their weight ``beta``. States of which
    something was ``known`` keep their numbers, and the others share the numbers left.

    The result does not depend on the numbering of the input, so that aligning twice changes
    nothing. Where a draw does not occupy a state of the consensus, that place holds a state that
    no data inform. Hidden-state variables that share a state dimension are aligned together.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Result of ``pm.sample``; it is not modified.
    states : str, optional
        A hidden-state variable: align its state dimension only. Default: all of them.
    reference : array of int, shape of one path of z, optional
        Match with this path instead of a consensus, and keep its numbers (0 to L - 1).

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        Like ``idata``, with all dimensions, coordinates, attributes and dtypes. State variables
        of the groups that share the posterior's draws (``posterior_predictive``,
        ``sample_stats`` ...) are permuted too; prior groups are not. The new group ``alignment``
        holds, for state variable ``z`` and state dimension ``state``,

        * ``z_consensus``: the consensus, or the reference;
        * ``state_distance`` (chain, draw): the share of time points at which a draw differs;
        * ``state_chain_distance`` (chain, chain_to): the expected share of time points labelled
          differently by draws of two chains after matching their labels; within a chain on the
          diagonal;
        * ``state_chain_group`` (chain): chains that found the same segmentation share a number;
        * ``state_label_before`` (chain, draw, state): each state's number in ``idata``.

    Warns
    -----
    UserWarning
        If chains found different segmentations, by chain; if a variable has an axis of L entries
        without a name, which therefore is left as it is.

    Raises
    ------
    ValueError, TypeError
        If the state dimension cannot be found, or the reference does not fit.

    Notes
    -----
    The consensus is searched among at most 200 evenly spaced draws and improved one time point at
    a time, so that it is a local minimum for these draws. Stick fractions ``v`` belong to an
    order of the states: they are computed again from the permuted ``beta``.
    """
    dimensions = _dimensions(idata, states)
    if reference is not None and len(dimensions) > 1:
        raise ValueError(
            f"states must say which of {[h.name for hs in dimensions.values() for h in hs]} the "
            "reference is for"
        )
    datasets, report = {}, {}
    for dim, hidden in dimensions.items():
        matching = match_states(idata, hidden, reference, states)
        _warn_of_chains(dim, matching.chains, hidden[0].z["chain"].values)
        _warn_of_unnamed(group(idata, "posterior"), hidden[0])
        for name in group_names(idata):
            if name.startswith("warmup") or name in OTHER_DRAWS:
                continue
            dataset = datasets.get(name, group(idata, name))
            label_before = _of_the_same_draws(matching.label_before, hidden[0].z, dataset)
            if label_before is not None:
                datasets[name] = _permuted(dataset, hidden, label_before)
        report |= _report(hidden, matching, state_labels(group(idata, "posterior"), hidden[0]))
    if "alignment" in idata:
        report = {**group(idata, "alignment").data_vars, **report}
    return with_groups(idata, {**datasets, "alignment": xr.Dataset(report)})


def is_aligned(idata, hidden):
    """Whether a result has been aligned, by its group ``alignment``."""
    return "alignment" in idata and f"{hidden.name}_consensus" in group(idata, "alignment")


def aligned(idata, states=None):
    """Align a result unless it has been; returns it and its hidden states."""
    hidden = find_hidden(idata, states)
    if not is_aligned(idata, hidden):
        idata = align(idata, states=hidden.name)
        hidden = find_hidden(idata, hidden.name)
    return idata, hidden


class Matching(NamedTuple):
    """The numbering of the states of one dimension.

    Attributes
    ----------
    label_before : ndarray of shape (chains, draws, L)
        Number, in the input, of the state at each new place.
    consensus : ndarray of shape (T,)
        Path matched with, in the new numbering, over all hidden-state variables end to end.
    distance : ndarray of shape (chains, draws)
        Share of time points at which a draw differs from it.
    sizes : ndarray of shape (chains, draws, L)
        Number of time points in each state, in the new numbering.
    chains : ChainDistances
    """

    label_before: np.ndarray
    consensus: np.ndarray
    distance: np.ndarray
    sizes: np.ndarray
    chains: ChainDistances


def match_states(idata, hidden, reference=None, states=None):
    """Match the states of each draw with a consensus of all, or with a reference.

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
    """
    first = hidden[0]
    L = first.n_states
    chains, draws = first.z.shape[:2]
    paths = [h.paths() for h in hidden]
    paths = paths[0] if len(paths) == 1 else np.hstack(paths)
    known = np.concatenate([h.known for h in hidden])
    pinned = np.unique(known[known >= 0])
    sizes, entered = occupancies(paths, L)
    order = _canonical_order(group(idata, "posterior"), first, sizes, entered)
    chosen = thinned(chains, draws)
    sample = rename(paths[chosen.ravel()], np.argsort(order[chosen.ravel()], axis=1))
    if reference is None:
        target = consensus_path(sample, L)
        if pinned.size:
            target = keep_known(target, known, L)
        matches, agreement = label_matches(paths, target, L, L, order, pinned)
    else:
        [used] = [h for h in hidden if h.name == (states or first.name)]
        target = _checked_reference(reference, used)
        matches, agreement = label_matches(used.paths(), target, L, L, order)
    places = _places(matches, order, sizes, np.union1d(target, pinned))
    label_before = np.argsort(places, axis=1)
    sizes = np.take_along_axis(sizes, label_before, axis=1)
    if reference is None:  # number by mean occupancy
        others = np.setdiff1d(np.arange(L), pinned)
        rank = np.arange(L)
        rank[others] = others[np.argsort(-sizes[:, others].mean(axis=0), kind="stable")]
        label_before, sizes = label_before[:, rank], sizes[:, rank]
        target = np.argsort(rank)[target]
    some = thinned(chains, draws, DISTANCE_DRAWS)
    renamed = rename(paths[some.ravel()], np.argsort(label_before[some.ravel()], axis=1))
    return Matching(
        label_before.reshape(chains, draws, L),
        target,
        (1.0 - agreement / len(target)).reshape(chains, draws),
        sizes.reshape(chains, draws, L),
        chain_distances(renamed.reshape(*some.shape, -1), L),
    )


def _dimensions(idata, states):
    """Hidden-state variables by state dimension; with ``states``, of its dimension only."""
    names = hidden_variables(idata) if states is None else [states]
    found = [find_hidden(idata, name) for name in names or [None]]
    if states is not None:
        others = [find_hidden(idata, name) for name in hidden_variables(idata) if name != states]
        found += [h for h in others if h.dim == found[0].dim]
    out = {}
    for hidden in found:
        out.setdefault(hidden.dim, []).append(hidden)
    return out


def _canonical_order(posterior, hidden, sizes, entered):
    """Order the states of each draw, (S, L), without regard to their numbers.

    Occupied ones first, by occupancy and by their first visit; then the others, by their weight
    beta and then by what else is known of them.
    """
    own = {"chain", "draw", hidden.dim}
    names = [name for name, variable in posterior.items() if set(variable.dims) == own]
    names.sort(key=lambda name: not str(name).endswith("_beta"))
    columns = (posterior[name].transpose("chain", "draw", hidden.dim) for name in names)
    keys = [-column.values.reshape(sizes.shape).astype(float) for column in columns]
    return np.lexsort((*reversed(keys), entered, -sizes), axis=1)


def _places(matches, order, sizes, used):
    """Give each state, (S, L), the number of its match, or else one that is left.

    Occupied states without a match prefer places that the consensus does not use.
    """
    n_states = matches.shape[1]
    free = np.setdiff1d(np.arange(n_states), used)
    places = matches.copy()
    for s, match in enumerate(matches):
        left = order[s, match[order[s]] < 0]
        open_places = np.concatenate([free, np.setdiff1d(used, match)])
        occupied = np.count_nonzero(sizes[s, left])
        places[s, left[:occupied]] = open_places[:occupied]
        places[s, left[occupied:]] = np.sort(open_places[occupied:])
    return places


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


def _of_the_same_draws(label_before, z, dataset):
    """Take ``label_before`` at the draws of a group; None if it has other draws."""
    if not {"chain", "draw"} <= set(dataset.sizes):
        return None
    positions = []
    for dim in ("chain", "draw"):
        if dim in dataset.indexes and dim in z.indexes:
            positions.append(z.indexes[dim].get_indexer(dataset.indexes[dim]))
        elif dataset.sizes[dim] == z.sizes[dim]:
            positions.append(np.arange(z.sizes[dim]))
        else:
            return None
    if any((where < 0).any() for where in positions):
        return None
    return label_before[np.ix_(*positions)]


def _permuted(dataset, hidden, label_before):
    """Permute the state axes of a group and renumber its hidden states."""
    dim = hidden[0].dim
    changed = {}
    for name, variable in dataset.items():
        if not {"chain", "draw"} <= set(variable.dims):
            continue
        if name in {h.name for h in hidden}:
            z = variable.transpose("chain", "draw", ...)
            number = np.argsort(label_before, axis=-1).reshape(-1, hidden[0].n_states)
            paths = rename(np.ascontiguousarray(z.values.reshape(len(number), -1)), number)
            changed[name] = z.copy(data=paths.reshape(z.shape)).transpose(*variable.dims)
            continue
        for axis in (dim, f"{dim}_to"):
            if axis in variable.dims:
                variable = changed[name] = _permuted_axis(variable, axis, label_before)
    for name, variable in dataset.items():
        beta = re.sub("_v$", "_beta", str(name))
        if variable.dims[2:] == (f"{dim}_stick",) and beta in changed:
            weights = changed[beta].values
            left = np.cumsum(weights[..., ::-1], axis=-1)[..., ::-1]
            fractions = np.divide(weights, left, out=np.ones_like(weights), where=left > 0)
            changed[name] = variable.copy(data=fractions[..., :-1])
    return dataset.assign(changed)


def _permuted_axis(variable, dim, label_before):
    """Take the entries of one axis in the order of ``label_before`` of each draw."""
    by_draw = variable.transpose("chain", "draw", ...)
    before, after = by_draw.shape[: by_draw.dims.index(dim)], label_before.shape[-1:]
    values = by_draw.values.reshape(
        label_before.shape[0] * label_before.shape[1], int(np.prod(before[2:])), *after, -1
    )
    out = permute(np.ascontiguousarray(values), label_before.reshape(len(values), -1))
    return by_draw.copy(data=out.reshape(by_draw.shape)).transpose(*variable.dims)


def _report(hidden, matching, labels):
    """Variables of the group ``alignment``."""
    dim, z = hidden[0].dim, hidden[0].z
    chain = {"chain": z["chain"].values}
    draws = {**chain, "draw": z["draw"].values}
    distances, groups = matching.chains
    report = {
        f"{dim}_distance": xr.DataArray(matching.distance, draws, ("chain", "draw")),
        f"{dim}_chain_distance": xr.DataArray(
            distances, {**chain, "chain_to": z["chain"].values}, ("chain", "chain_to")
        ),
        f"{dim}_chain_group": xr.DataArray(groups, chain, ("chain",)),
        f"{dim}_label_before": xr.DataArray(
            matching.label_before, {**draws, dim: labels}, ("chain", "draw", dim)
        ),
    }
    start = 0
    for h in hidden:
        path = h.z.isel(chain=0, draw=0, drop=True)
        part = matching.consensus[start : start + path.size]
        if part.size:  # a reference is for one variable only
            report[f"{h.name}_consensus"] = path.copy(data=part.reshape(path.shape))
        start += path.size
    return report


def _warn_of_unnamed(posterior, hidden):
    unnamed = [
        f"{name} ({dim})"
        for name, variable in posterior.items()
        for dim in variable.dims
        if re.fullmatch(rf"{re.escape(str(name))}_dim_\d+", str(dim))
        and variable.sizes[dim] == hidden.n_states
    ]
    if unnamed:
        warnings.warn(
            f"left as they are, because their axes of {hidden.n_states} entries have no name: "
            f"{', '.join(unnamed)}. If they are states, declare the variables with "
            f"dims={hidden.dim!r}, or rename the axes in the result to {hidden.dim!r}",
            UserWarning,
            stacklevel=3,
        )


def chain_message(chains, names):
    """Say which chains found which segmentation; None if all agree."""
    distances, groups = chains
    if groups.max() == 0:
        return None
    parts = [f"[{', '.join(map(str, names[groups == g]))}]" for g in range(groups.max() + 1)]
    apart = distances[groups[:, None] != groups[None, :]].mean()
    within = np.diag(distances).mean()
    return (
        f"the chains {', '.join(parts[:-1])} and {parts[-1]} found different segmentations: draws "
        f"of different groups label {apart:.1%} of the time points differently after matching "
        f"their labels, draws of one chain {within:.1%}"
    )


def _warn_of_chains(dim, chains, names):
    message = chain_message(chains, names)
    if message:
        warnings.warn(
            f"{message}. Means and R-hat over all chains mix them; the distances are in the group "
            f"alignment ({dim}_chain_distance). Compare their log_marginal_likelihood, and run "
            "longer chains",
            UserWarning,
            stacklevel=3,
        )
