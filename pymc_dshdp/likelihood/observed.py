"""Observed data, checked, and as standardised features of time points."""

import numpy as np
from pytensor.graph.basic import Constant
from pytensor.tensor.random.basic import CategoricalRV

from pymc_dshdp.graph.walks import is_cast

__all__ = ["observed_data", "refuse_fractions", "standardised"]


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
