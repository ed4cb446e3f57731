"""Quantities that do not change when states are renumbered."""

import numpy as np
import xarray as xr

from pymc_dshdp._compat import group

__all__ = ["find_states", "label_invariant"]


def find_states(idata, states=None):
    """Name of the hidden-state variable of a result.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
    states : str, optional
        Its name; may be left out where there is only one.

    Raises
    ------
    ValueError
        If there is none, more than one, or no such variable.
    """
    posterior = group(idata, "posterior")
    found = []
    if "constant_data" in idata:
        names = [str(name).removesuffix("_lengths") for name in group(idata, "constant_data")]
        found = [name for name in names if name in posterior]
    if states is None:
        if len(found) != 1:
            raise ValueError(
                f"states must name the hidden-state variable; the result has {found or 'none'}"
            )
        return found[0]
    if states not in posterior:
        raise ValueError(f"states={states!r} is not in the posterior; it has {found or 'none'}")
    return states


def label_invariant(idata, states=None):
    """Collect the quantities whose R-hat and effective sample size mean something.

    Labels switch between draws and chains, so R-hat of ``z[t]``, of ``kappa[k]`` or of an
    emission parameter of "state 3" says nothing about convergence. These do: the number of
    occupied states, the log marginal likelihood, and every scalar variable.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Result of ``pm.sample``.
    states : str, optional
        The hidden-state variable, where there are several.

    Returns
    -------
    xarray.Dataset
        Variables with dimensions (chain, draw): ``n_occupied``, ``log_marginal_likelihood``
        (where the sampler statistic is there) and the scalar variables of the posterior but rho1
        and rho2, whose tails are too heavy for a mean; pass it to ``arviz.summary``.

    Raises
    ------
    ValueError
        If the hidden-state variable cannot be found.
    """
    posterior = group(idata, "posterior")
    z = posterior[find_states(idata, states)]
    within = [d for d in z.dims if d not in ("chain", "draw")]
    occupied = sum((z == k).any(within).astype(int) for k in range(int(z.max()) + 1))
    out = {"n_occupied": occupied}
    if "sample_stats" in idata:
        stats = group(idata, "sample_stats")
        if "log_marginal_likelihood" in stats:
            out["log_marginal_likelihood"] = stats["log_marginal_likelihood"]
    for name, variable in posterior.items():
        if str(name).endswith(("_rho1", "_rho2")):
            continue  # functions of phi and eta, with tails too heavy for a mean
        if set(variable.dims) == {"chain", "draw"} and np.issubdtype(variable.dtype, np.number):
            out[str(name)] = variable
    return xr.Dataset(
        {
            name: variable.drop_vars(set(variable.coords) - {"chain", "draw"})
            for name, variable in out.items()
        }
    )
