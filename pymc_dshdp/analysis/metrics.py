"""Distances between segmentations."""

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

__all__ = ["align_to", "hamming_distance"]


def _paths(z, z_true):
    """Check the arguments; paths as (n, T) and the truth as (T,), labels from 0."""
    paths, truth = _labels("z", z), _labels("z_true", z_true)
    if truth.ndim == 0 or truth.size == 0:
        raise ValueError(f"z_true must be one path, received shape {truth.shape}")
    if paths.shape[-truth.ndim :] != truth.shape:
        raise ValueError(
            f"the last axes of z, the draws, must be those of z_true, the truth, of shape "
            f"{truth.shape}; received shape {paths.shape}"
        )
    codes = np.unique(truth, return_inverse=True)
    labels = np.unique(paths, return_inverse=True)
    return labels[0], labels[1].reshape(-1, truth.size), codes[0], codes[1].ravel()


def _labels(name, given):
    try:
        labels = np.asarray(given)
    except TypeError:  # a DataTree or Dataset
        labels = np.array(None)
    if not np.issubdtype(labels.dtype, np.integer):
        way = ": of whole numbers (idxmax) give .astype(int)" if labels.dtype.kind == "f" else ""
        raise TypeError(
            f"{name} must be an array of integer labels, as idata.posterior['z'] is; received "
            f"{type(given).__name__} of dtype {labels.dtype}{way}"
        )
    return labels


def _overlaps(paths, truth, n_labels, n_true):
    """Numbers of times that label a of path i meets label b of the truth; (n, A, B)."""
    n = paths.shape[0]
    cell = (np.arange(n)[:, None] * n_labels + paths) * n_true + truth
    counts = np.bincount(cell.ravel(), minlength=n * n_labels * n_true)
    return counts.reshape(n, n_labels, n_true)


def hamming_distance(z: ArrayLike | xr.DataArray, z_true: ArrayLike | xr.DataArray) -> Any:
    """Share of time points labelled differently after the best matching of the labels.

    Labels of z are matched one to one with those of the truth so that they agree as often as
    possible (Munkres 1957, by ``scipy.optimize.linear_sum_assignment``); a label left over
    agrees nowhere.

    Parameters
    ----------
    z : array of int, shape (..., T)
        One path, or draws of it. An xarray.DataArray keeps its leading dimensions.
    z_true : array of int, shape (T,)
        Or (n_sequences, T) for draws of such a batch.

    Returns
    -------
    float, ndarray of shape (...) or xarray.DataArray
        In [0, 1).

    Raises
    ------
    ValueError, TypeError
        If the shapes do not fit or labels are not integers.

    Examples
    --------
    >>> float(dshdp.hamming_distance([1, 1, 0, 0], [0, 0, 1, 0]))
    0.25
    """
    labels, paths, codes, truth = _paths(z, z_true)
    agree = np.empty(len(paths))
    for i, overlap in enumerate(_overlaps(paths, truth, len(labels), len(codes))):
        agree[i] = overlap[linear_sum_assignment(overlap, maximize=True)].sum()
    n_axes = np.ndim(z_true)
    distance = (1.0 - agree / truth.size).reshape(np.shape(z)[:-n_axes])
    if isinstance(z, xr.DataArray):
        leading = z.isel(dict.fromkeys(z.dims[-n_axes:], 0), drop=True)
        return leading.copy(data=distance).rename("hamming_distance")
    return float(distance) if distance.ndim == 0 else distance


def align_to(z: ArrayLike | xr.DataArray, z_true: ArrayLike | xr.DataArray) -> Any:
    """Renumber the labels of each path to agree with the truth as often as possible.

    Parameters
    ----------
    z, z_true : array of int
        As in ``hamming_distance``.

    Returns
    -------
    ndarray of shape (..., T) or xarray.DataArray
        Labels matched with one of the truth carry its number; labels left over are numbered
        from max(z_true) + 1.

    Raises
    ------
    ValueError, TypeError
        If the shapes do not fit or labels are not integers.

    Examples
    --------
    >>> dshdp.align_to([2, 2, 0, 0, 1], [0, 0, 1, 1, 1])
    array([0, 0, 1, 1, 2])
    """
    labels, paths, codes, truth = _paths(z, z_true)
    out = np.empty_like(paths)
    for i, overlap in enumerate(_overlaps(paths, truth, len(labels), len(codes))):
        rows, columns = linear_sum_assignment(overlap, maximize=True)
        number = np.empty(len(labels), int)
        number[rows] = codes[columns]
        spare = np.ones(len(labels), bool)
        spare[rows] = False
        number[spare] = codes.max() + 1 + np.arange(spare.sum())
        out[i] = number[paths[i]]
    out = out.reshape(np.shape(z))
    return z.copy(data=out) if isinstance(z, xr.DataArray) else out
