"""Quantities that do not change when states are renumbered."""

import numpy as np
import pandas as pd
import xarray as xr

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.result import find_hidden, read_records
from pymc_dshdp.kernels.segmentations import count_visits
from pymc_dshdp.typing import Result

__all__ = ["diagnostics", "label_invariant"]


def label_invariant(idata: Result, *, states: str | None = None) -> xr.Dataset:
    """Collect the quantities whose R-hat and effective sample size mean something.

    Labels switch between draws and chains, so R-hat of ``z[t]``, of ``kappa[k]`` or of an
    emission parameter of "state 3" says nothing about convergence. These do: the number of
    occupied states, of switches between states, the log marginal likelihood, and every scalar
    variable.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Result of ``pm.sample``.
    states : str, optional
        The hidden-state variable, where there are several.

    Returns
    -------
    xarray.Dataset
        Variables with dimensions (chain, draw): ``n_occupied``, ``n_switches``,
        ``log_marginal_likelihood`` and ``log_joint`` (where these sampler statistics are there, and
        are numbers) and the scalar variables
        of the posterior but rho1 and rho2, whose tails are too heavy for a mean, and those that are
        numbers of states or depend on them, as ``z.max()`` and ``mu[1] - mu[0]`` do; pass it to
        ``arviz.summary``.

    Raises
    ------
    ValueError
        If the hidden-state variable cannot be found.

    Examples
    --------
    >>> number = dshdp.label_invariant(idata)["n_occupied"]
    >>> number.dims
    ('chain', 'draw')
    """
    posterior = group(idata, "posterior")
    hidden = find_hidden(idata, states)
    shape = hidden.z.shape[:2]
    visits = count_visits(hidden.paths(), hidden.lengths, hidden.n_states)
    switches = visits.sum(axis=1) - len(hidden.lengths)
    first = hidden.z.isel({dim: 0 for dim in hidden.dims}, drop=True)
    out = {
        "n_occupied": first.copy(data=(visits > 0).sum(axis=1).reshape(shape)),
        "n_switches": first.copy(data=switches.reshape(shape)),
    }
    if "sample_stats" in idata:
        stats = group(idata, "sample_stats")
        for name in ("log_marginal_likelihood", "log_joint"):
            found = statistic(stats, name)
            if found is not None:
                out[name] = found
    records = read_records(idata).values()
    heavy = set().union(*(r.own("rho1", "rho2") for r in records))  # functions of phi and eta
    numbered = {
        name for r in records if not _told_apart(idata, r) for name in r.labels + r.numbered
    }
    for name, variable in posterior.items():
        if name in heavy | numbered:
            continue
        if set(variable.dims) == {"chain", "draw"} and np.issubdtype(variable.dtype, np.number):
            out[str(name)] = variable
    return xr.Dataset(
        {
            name: variable.drop_vars(set(variable.coords) - {"chain", "draw"})
            for name, variable in out.items()
        }
    )


def _told_apart(idata, record):
    """Whether the number of each state means the same in every draw."""
    known = group(idata, "constant_data").get(record.known)
    return record.tied or (
        known is not None and len(np.unique(known.values[known.values >= 0])) == record.n_states
    )


def statistic(stats, name):
    """Return a scalar sampler statistic, (chain, draw); None where it is missing, or NaN."""
    found = stats.get(name)
    if found is None or set(found.dims) != {"chain", "draw"} or not np.isfinite(found).all():
        return None
    return found


def diagnostics(dataset):
    """Tabulate the mean, standard deviation, R-hat and effective sample sizes of scalars.

    Parameters
    ----------
    dataset : xarray.Dataset
        Variables with dimensions (chain, draw).

    Returns
    -------
    pandas.DataFrame
        A row for each variable; columns ``mean``, ``sd``, ``r_hat``, ``ess_bulk`` and
        ``ess_tail``. R-hat is NaN for a constant.
    """
    import arviz as az  # see analysis/convergence.py

    draws = ("chain", "draw")
    if not dataset.data_vars:
        columns = ["mean", "sd", "r_hat", "ess_bulk", "ess_tail"]
        return pd.DataFrame(columns=columns, index=pd.Index([], name="quantity"), dtype=float)
    with np.errstate(all="ignore"):
        columns = {
            "mean": dataset.mean(draws),
            "sd": dataset.std(draws),
            "r_hat": az.rhat(dataset),
            "ess_bulk": az.ess(dataset, method="bulk"),
            "ess_tail": az.ess(dataset, method="tail"),
        }
    names = list(dataset.data_vars)
    return pd.DataFrame(
        {column: [float(values[name]) for name in names] for column, values in columns.items()},
        index=pd.Index(names, name="quantity"),
    )
