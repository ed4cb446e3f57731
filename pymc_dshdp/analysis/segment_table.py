"""Segments: the stretches of time that a segmentation gives to one state."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from pymc_dshdp.analysis.alignment import aligned
from pymc_dshdp.analysis.decode import state_probabilities
from pymc_dshdp.typing import Result

__all__ = ["segments"]


def segments(
    result: Result | ArrayLike,
    *,
    probabilities: ArrayLike | None = None,
    lengths: Sequence[int] | None = None,
    states: str | None = None,
) -> pd.DataFrame:
    """Table of the stretches of time spent in one state.

    Parameters
    ----------
    result : arviz.InferenceData, xarray.DataTree, xarray.DataArray or ndarray
        A result of ``pm.sample``, which is aligned first unless ``align`` has been: each time is
        given to its most probable state. Or probabilities whose last axis is the state (of
        ``smooth``): likewise. Or integers: one path over time, or over sequence and time (of
        ``viterbi``).
    probabilities : xarray.DataArray or ndarray, optional
        Of shape (..., time, state), for the ``probability`` of the segments of a path.
    lengths : sequence of int, optional
        Lengths of sequences laid end to end. Default: those known to ``result``, else one.
    states : str, optional
        The hidden-state variable of a result, where there are several.

    Returns
    -------
    pandas.DataFrame
        One row per segment: ``sequence``, ``start`` and ``stop`` (the first and the last time in
        it, in the coordinates of time, so that ``data.sel(time=slice(start, stop))`` is the
        segment), ``length`` (number of time points), ``label`` (state, in the coordinates of the
        states) and ``probability`` (mean over the segment of the probability of its state;
        NaN for a path without ``probabilities``).

    Raises
    ------
    ValueError, TypeError
        Naming the argument whose shape or type does not fit.

    Examples
    --------
    >>> table = dshdp.segments(aligned)
    >>> dshdp.segments(np.array([0, 0, 1, 1, 1]))[["start", "stop", "label"]].values.tolist()
    [[0, 1, 0], [2, 4, 1]]
    """
    if not isinstance(result, (xr.DataArray, np.ndarray)):
        result, hidden = aligned(result, states)
        result = state_probabilities(result, states=hidden.name)
    array = result if isinstance(result, xr.DataArray) else _labelled(result)
    if np.issubdtype(array.dtype, np.floating):
        if probabilities is not None:
            raise ValueError("probabilities go with a path; result already has probabilities")
        probabilities, labels = array, np.asarray(array[array.dims[-1]])
        path = array.isel({array.dims[-1]: 0}, drop=True).astype(np.intp)
        path = path.copy(data=array.values.argmax(axis=-1))
    elif np.issubdtype(array.dtype, np.integer):
        path, labels = array, None
    else:
        raise TypeError(f"result must hold integers or probabilities, received {array.dtype}")
    if path.ndim not in (1, 2) or path.size == 0:
        raise ValueError(
            "a path has the dimensions (time,) or (sequence, time) and is not empty, received "
            f"{dict(path.sizes)}; of draws, choose one or pass their probabilities"
        )
    shares = _shares(path, probabilities)
    if isinstance(probabilities, xr.DataArray) and labels is None:
        labels = np.asarray(probabilities[probabilities.dims[-1]])
    time = path.indexes.get(path.dims[-1], pd.RangeIndex(path.shape[-1]))
    rows = []
    for number, at, states_at, share in _sequences(path, time, shares, lengths):
        edges = np.flatnonzero(np.diff(states_at)) + 1
        starts, stops = np.r_[0, edges], np.r_[edges, states_at.size]
        for start, stop in zip(starts, stops, strict=True):
            label = states_at[start] if labels is None else labels[states_at[start]]
            mean = share[start:stop].mean()
            rows.append((number, at[start], at[stop - 1], stop - start, label, mean))
    columns = ["sequence", "start", "stop", "length", "label", "probability"]
    return pd.DataFrame(rows, columns=columns)


def _labelled(values):
    dims = ["sequence", "time", "state"]
    first = values.ndim - 1 if np.issubdtype(values.dtype, np.floating) else values.ndim
    if first not in (1, 2):
        raise ValueError(
            "result must be integers of shape (time,) or (sequence, time), or probabilities with "
            f"an axis of states after these; received shape {values.shape}"
        )
    dims = dims[2 - first : 2] + dims[2 : 2 + values.ndim - first]
    return xr.DataArray(values, {d: np.arange(n) for d, n in zip(dims, values.shape)}, dims)


def _shares(path, probabilities):
    """Probability of the path's state at each time, NaN where unknown."""
    if probabilities is None:
        return np.full(path.shape, np.nan)
    p = np.asarray(probabilities)
    if p.shape[:-1] != path.shape or path.values.max() >= p.shape[-1] or path.values.min() < 0:
        raise ValueError(
            f"probabilities must have shape {path.shape} and an axis of states after it, which "
            f"are {path.values.min()} to {path.values.max()}; received shape {p.shape}"
        )
    return np.take_along_axis(p, path.values[..., None].astype(np.intp), axis=-1)[..., 0]


def _sequences(path, time, shares, lengths):
    """Yield (sequence, times, states, shares) of each sequence."""
    values = path.values
    if path.ndim == 2:
        if lengths is not None:
            raise ValueError("lengths are for sequences laid end to end; leave them out")
        names = np.asarray(path[path.dims[0]])
        for n in range(values.shape[0]):
            yield names[n], time, values[n], shares[n]
        return
    T = values.size
    if lengths is None and "sequence" in path.coords:
        changes = np.flatnonzero(np.diff(path["sequence"].values)) + 1
        lengths = np.diff(np.r_[0, changes, T])
    lengths = np.array([T]) if lengths is None else np.asarray(lengths)
    if lengths.ndim != 1 or np.any(lengths < 1) or lengths.sum() != T:
        raise ValueError(f"lengths must be positive and sum to {T}, received {lengths.tolist()}")
    stops = np.cumsum(lengths)
    for n, (stop, length) in enumerate(zip(stops, lengths, strict=True)):
        part = slice(stop - length, stop)
        yield n, time[part], values[part], shares[part]
