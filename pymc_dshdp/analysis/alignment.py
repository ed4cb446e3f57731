"""One labelling of the states for all draws and chains."""

import re
import warnings
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from pymc_dshdp._compat import group, group_names, with_groups
from pymc_dshdp.analysis.label_copies import find_label_copies
from pymc_dshdp.analysis.numbering import match_states
from pymc_dshdp.analysis.permuting import of_the_same_draws, permuted
from pymc_dshdp.analysis.result import (
    find_hidden,
    hidden_variables,
    left_behind,
    state_labels,
)
from pymc_dshdp.typing import SomeResult

__all__ = ["align"]

OTHER_DRAWS = {
    "alignment",
    "prior",
    "prior_predictive",
    "sample_stats_prior",
    "unconstrained_prior",
}


def align(
    idata: SomeResult, *, states: str | None = None, reference: ArrayLike | None = None
) -> SomeResult:
    """Give the states one numbering over all draws and chains.

    The numbering sought is the one under which two draws label as few time points differently as
    may be; where the paths leave it open, the parameters of the states help (a time point counts
    for a tenth more if those in force agree as well). Every variable with the state dimension is
    permuted accordingly, on each of its state axes (``pi_bar`` on both). States are numbered by
    decreasing mean occupancy, those that a draw does not occupy by their weight ``beta``. States of
    which something was ``known`` keep their numbers, and the others share the numbers left.

    The result does not depend on the numbering of the input, so that aligning twice changes
    nothing. Where a draw does not occupy a state, its place holds one that no data inform.
    Hidden-state variables of one prior are aligned together.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Result of ``pm.sample``; it is not modified.
    states : str, optional
        A hidden-state variable: align its state dimension only. Default: all of them.
    reference : array of int, shape of one path of z, optional
        Match with this path instead of each other, and keep its numbers (0 to L - 1).

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        Like ``idata``, with all dimensions, coordinates, attributes and dtypes. State variables
        of the groups that share the posterior's draws (``posterior_predictive``,
        ``sample_stats`` ...) are permuted too; prior groups are not. The new group ``alignment``
        holds, for state variable ``z`` and state dimension ``state``,

        * ``z_consensus``: the label that most draws give each time, or the reference;
        * ``state_distance`` (chain, draw): the share of time points at which a draw differs from
          it;
        * ``state_chain_distance`` (chain, chain_to): the expected share of time points labelled
          differently by draws of two chains after matching their labels; within a chain on the
          diagonal;
        * ``state_chain_group`` (chain): chains that found the same segmentation share a number;
        * ``state_label_before`` (chain, draw, state): each state's number in ``idata``.

    Warns
    -----
    UserWarning
        If chains found different segmentations, by chain; if a variable is left as it is although
        it has an axis of L entries without a name, or depends on the numbers of states, or may
        hold them.

    Raises
    ------
    ValueError, TypeError
        If the state dimension cannot be found, if several priors share it, or if the reference
        does not fit.

    Notes
    -----
    The numbering is found on at most 200 evenly spaced draws, from the draw nearest to all others
    and from that of each chain, and is a local minimum for these draws. Variables whose entries
    are states, such as ``z[events]``, are renumbered with z. What a renumbering does to a
    ``pm.Deterministic`` is told from its graph: ``mu[z]`` and ``z[1:] != z[:-1]`` stay as they are,
    ``z.max()``, ``z == 2`` and ``mu[1] - mu[0]`` are named. Stick fractions ``v`` belong to an
    order of the weights: they are broken anew.
    Where the model tells the states apart (by a reference whose mean is 0, say), their numbers
    mean something already, and nothing should be aligned.

    Examples
    --------
    >>> aligned = dshdp.align(idata)
    >>> aligned["alignment"]["z_consensus"].sizes["year"]
    107
    """
    dimensions = _dimensions(idata, states)
    for hidden in [h for found in dimensions.values() for h in found]:
        if hidden.record.tied:
            raise ValueError(
                f"the states of {hidden.name!r} are told apart by the model, by transitions that "
                f"{hidden.record.prior!r} makes impossible or by constants that it indexes with "
                "them, so that their numbers mean the same in every draw and there is nothing to "
                "align; read the result as it is"
            )
    if reference is not None and len(dimensions) > 1:
        raise ValueError(
            f"states must say which of {[h.name for hs in dimensions.values() for h in hs]} the "
            "reference is for"
        )
    datasets: dict[str, xr.Dataset] = {}
    report: dict[str, Any] = {}
    hidden_names = {h.name for hs in dimensions.values() for h in hs} | set(hidden_variables(idata))
    for dim, hidden in dimensions.items():
        matching = match_states(idata, hidden, reference, states)
        _warn_of_chains(dim, matching.chains, hidden[0].z["chain"].values)
        posterior = group(idata, "posterior")
        _warn_of_unnamed(posterior, hidden)
        numbers = np.argsort(matching.label_before, axis=-1)
        sizes = np.take_along_axis(matching.sizes, numbers, axis=-1)
        visited = np.where(sizes > 0, numbers, -1).reshape(-1, hidden[0].n_states)
        copies, numbered, doubtful = find_label_copies(posterior, hidden, visited, hidden_names)
        _warn_of_numbers(numbered, doubtful, hidden)
        for name in group_names(idata):
            if name.startswith("warmup") or name in OTHER_DRAWS:
                continue
            dataset = datasets.get(name, group(idata, name))
            label_before = of_the_same_draws(matching.label_before, hidden[0].z, dataset)
            if label_before is not None:
                datasets[name] = permuted(dataset, hidden, copies, label_before)
        report |= _report(hidden, matching, state_labels(posterior, hidden[0]))
    if "alignment" in idata:
        report = {**group(idata, "alignment").data_vars, **report}
    return with_groups(idata, {**datasets, "alignment": xr.Dataset(report)})


def is_aligned(idata, hidden):
    """Whether a result has been aligned, by its group ``alignment``."""
    return "alignment" in idata and f"{hidden.name}_consensus" in group(idata, "alignment")


def aligned(idata, states=None):
    """Align a result unless it has been, or needs not be; returns it and its hidden states."""
    hidden = find_hidden(idata, states)
    if not (is_aligned(idata, hidden) or hidden.record.tied):
        idata = align(idata, states=hidden.name)
        hidden = find_hidden(idata, hidden.name)
    return idata, hidden


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
    n_states, dim = hidden[0].n_states, hidden[0].dim
    unnamed = [
        (name, axis)
        for name, variable in posterior.items()
        if name not in hidden[0].record.missing
        for axis in variable.dims
        if re.fullmatch(rf"{re.escape(str(name))}_dim_\d+", str(axis))
        and variable.sizes[axis] == n_states
    ]
    parted = {name for h in hidden for name in left_behind(posterior, h)} - set(dict(unnamed))
    texts = []
    if unnamed:
        texts.append(
            f"left as they are, because their axes of {n_states} entries have no name: "
            f"{', '.join(f'{name} ({axis})' for name, axis in unnamed)}. If they are states, "
            f"declare the variables with dims={dim!r}, or rename the axes in the result to {dim!r}"
        )
    if parted:
        texts.append(
            "left as they are, although the model indexes them with the states: "
            f"{', '.join(sorted(parted))}. They belong to the numbers before; declare one variable "
            f"with dims={dim!r} in their place"
        )
    if texts:
        warnings.warn("; ".join(texts), UserWarning, stacklevel=3)


def _warn_of_numbers(numbered, doubtful, hidden):
    states = " and ".join(h.name for h in hidden)
    texts = []
    if numbered:
        texts.append(
            "left as they are, although they depend on how the states are numbered: "
            f"{', '.join(numbered)}. They are those of the old numbers; compute them anew from "
            f"{states}, and from what belongs to the states, in the aligned result"
        )
    if doubtful:
        texts.append(
            f"left as they are, although they may hold numbers of states: {', '.join(doubtful)}. "
            f"If they do, the numbers are the old ones; take them from {states} in the aligned "
            "result"
        )
    if texts:
        warnings.warn("; ".join(texts), UserWarning, stacklevel=3)


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
            f"alignment ({dim}_chain_distance). See what check says of them",
            UserWarning,
            stacklevel=3,
        )
