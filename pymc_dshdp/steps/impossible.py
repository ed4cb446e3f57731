"""Words for log-densities that are not finite."""

import numpy as np
from pymc.exceptions import SamplingError

from pymc_dshdp.graph.readers import in_values, point_function
from pymc_dshdp.graph.terms import log_densities

__all__ = ["explain", "raise_impossible"]

NOT_A_NUMBER = (
    "a parameter has left its support, or data or a covariate contain NaN (mask the data)"
)
INFINITE = "a scale parameter has collapsed to 0; give it a prior that keeps away from 0"
IMPOSSIBLE = "the observation is impossible under the model; check it, or widen the likelihood"


def raise_impossible(name, table, rows, time, when=""):
    """Raise for an observation without a finite log-density, naming its time point."""
    [row] = rows(time, time + 1)
    if np.isnan(row).any():
        what, hint = "is NaN for some state", NOT_A_NUMBER
    elif np.isposinf(row).any():
        what, hint = "is infinite for some state", INFINITE
    else:
        what, hint = "is -inf in every state that can be reached", IMPOSSIBLE
    raise SamplingError(
        f"The log-density of {', '.join(table.names)} at {name}[{_where(time, table.shape)}] "
        f"{what}{when}: {hint}."
    )


def explain(model, terms, variables, point):
    """Say which of a model's terms is not finite at a point, and which variables are at an edge.

    Parameters
    ----------
    model : pymc.Model
    terms : list of random variables and potentials
    variables : list of free random variables
    point : dict

    Returns
    -------
    str or None
        None where all are finite.
    """
    with np.errstate(all="ignore"):
        elements = point_function(log_densities(model, terms))(point)
        values = point_function(in_values(model, variables))(point)
    for term, found in zip(terms, elements, strict=True):
        wrong = np.flatnonzero(~np.isfinite(found))
        if not wrong.size:
            continue
        value = found.flat[wrong[0]]
        if np.isnan(value):
            what, hint = "NaN", NOT_A_NUMBER
        elif value > 0.0:
            what, hint = "infinite", INFINITE
        else:
            what, hint = "-inf", IMPOSSIBLE
        at = f" at {_where(wrong[0], found.shape)}" if found.ndim else ""
        edge = ", ".join(_at_an_edge(model, variables, values))
        if edge:
            what, hint = f"{what} where {edge}", INFINITE
        return f"The log-density of {term.name}{at} is {what}: {hint}."
    return None


def _at_an_edge(model, variables, values):
    for variable, value in zip(variables, values, strict=True):
        bounded = model.rvs_to_transforms[variable] is not None
        wrong = np.flatnonzero(((value == 0.0) & bounded) | ~np.isfinite(value))
        if wrong.size:
            at = f"[{_where(wrong[0], value.shape)}]" if value.ndim else ""
            yield f"{variable.name}{at} is {value.flat[wrong[0]]:g}"


def _where(index, shape):
    where = tuple(int(i) for i in np.unravel_index(index, shape))
    return where[0] if len(where) == 1 else where
