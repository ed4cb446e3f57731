"""Observed data, checked, and as features of time points."""

import numpy as np
from pytensor.graph.basic import Constant
from pytensor.tensor.random.basic import CategoricalRV

from pymc_dshdp.graph.walks import is_cast

__all__ = ["observed_data", "refuse_cast", "time_columns"]


def observed_data(model, variable):
    """(array, "categories" | "numbers") of an observed variable, else (None, None).

    Raises
    ------
    ValueError
        If there is NaN among the data, or if those of a likelihood of integers are cast to others.
    """
    if variable not in model.observed_RVs:
        return None, None
    value = model.rvs_to_values[variable]
    given, dtypes = value, [value.dtype]
    while is_cast(given):
        [given] = given.owner.inputs
        dtypes.insert(0, given.dtype)
    data = np.asarray(given.data if isinstance(given, Constant) else given.eval())
    if np.issubdtype(data.dtype, np.floating) and np.isnan(data).any():
        where = tuple(int(i) for i in np.argwhere(np.isnan(data))[0])
        raise ValueError(
            f"{variable.name!r} has NaN at position {where} of its observed data; pass missing "
            "values as a NumPy masked array, np.ma.masked_invalid(data)"
        )
    refuse_cast(variable.name, data, *dtypes)
    data = data.astype(value.dtype, copy=False)
    kind = "categories" if isinstance(variable.owner.op, CategoricalRV) else "numbers"
    return data, kind


def refuse_cast(name, data, *dtypes):
    """Raise if data are changed where a likelihood has them cast, in turn, to integer dtypes.

    PyMC casts arrays before they can be seen here; tensors and what is in ``pm.Data`` it casts in
    the graph.
    """
    data = np.ma.filled(data, 0)
    if np.dtype(dtypes[-1]).kind not in "iu" or data.dtype.kind not in "iuf":
        return
    cast = data
    with np.errstate(invalid="ignore"):
        for dtype in dtypes:
            cast = cast.astype(dtype)
    wrong = np.argwhere(cast != data)
    if not wrong.size:
        return
    where = tuple(int(i) for i in wrong[0])
    found = f"{name!r} has {data[where]} at position {where} of its observed data, "
    if not np.isfinite(data[where]) or data[where] != np.floor(data[where]):
        raise ValueError(
            f"{found}but its likelihood is of integers, and PyMC would cut off the fraction; give "
            "integers, as np.round(data), or a likelihood of real numbers"
        )
    raise ValueError(
        f"{found}which PyMC would read as {cast[where]}, because it casts integers to "
        f"{min(map(np.dtype, dtypes), key=lambda d: d.itemsize)}; give them as "
        "data.astype(float), which keeps integers below 2**53"
    )


def time_columns(data, kind, time, T):
    """Columns of one variable's data, placed by the times of its elements."""
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
    if not times.size:
        return np.empty((T, 0))
    out = np.full((T, rows.shape[1]), np.nan)
    if np.all(per_time == per_time[0]):
        out = np.full((T, rows.shape[1] * per_time[0]), np.nan)
        out[times] = rows[used].reshape(times.size, -1)
    else:
        out[times] = np.add.reduceat(rows[used], first, axis=0) / per_time[:, None]
    return out
