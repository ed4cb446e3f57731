"""What a result says about itself: its states, their dimension, their prior, their sequences."""

import itertools
from typing import NamedTuple

import numpy as np

from pymc_dshdp._compat import group

__all__ = [
    "Hidden",
    "Prior",
    "element_labels",
    "find_hidden",
    "find_prior",
    "find_states",
    "hidden_variables",
    "is_truncation",
    "read_posterior",
    "state_labels",
]


class Hidden(NamedTuple):
    """A hidden-state variable of a result.

    Attributes
    ----------
    name : str
    dim : str
        The state dimension, of L states; the columns of a transition matrix have ``dim_to``.
    n_states : int
        L.
    z : xarray.DataArray
        Its draws, (chain, draw, ...).
    lengths : ndarray of shape (N,)
        Lengths of the sequences laid end to end in the other dimensions of z.
    known : ndarray of shape (T,)
        Labels that were known, -1 elsewhere.
    """

    name: str
    dim: str
    n_states: int
    z: object
    lengths: np.ndarray
    known: np.ndarray

    @property
    def dims(self):
        """Dimensions of one path: (time,) or (sequence, time)."""
        return self.z.dims[2:]

    def paths(self):
        """Return the draws as an array of shape (chains * draws, T)."""
        values = self.z.values
        return values.reshape(values.shape[0] * values.shape[1], -1)


def read_posterior(idata):
    """Return the posterior of a result.

    Raises
    ------
    TypeError
        If the argument is not a result, or has no posterior.
    """
    try:
        return group(idata, "posterior")
    except (KeyError, TypeError, IndexError, AttributeError, ValueError):
        raise TypeError(
            "the result must be an InferenceData or DataTree with the group 'posterior', as "
            f"pm.sample gives; received {type(idata).__name__}"
        ) from None


def hidden_variables(idata):
    """Names of the hidden-state variables of a result, by their constant data."""
    posterior = read_posterior(idata)
    if "constant_data" not in idata:
        return []
    constants = [str(name) for name in group(idata, "constant_data")]
    names = [name.removesuffix("_lengths") for name in constants if name.endswith("_lengths")]
    return [name for name in names if name in posterior]


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
    found = hidden_variables(idata)
    if states is None:
        if len(found) != 1:
            raise ValueError(
                f"states must name the hidden-state variable; the result has {found or 'none'}"
            )
        return found[0]
    if states not in read_posterior(idata):
        raise ValueError(f"states={states!r} is not in the posterior; it has {found or 'none'}")
    return states


def find_hidden(idata, states=None):
    """Read a hidden-state variable of a result, its state dimension and its sequences.

    The state dimension is that of constant data ``<states>_labels``; in a result without it, the
    only dimension ``d`` for which some variable has both ``d`` and ``d_to``.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
    states : str, optional
        The hidden-state variable, where there are several.

    Returns
    -------
    Hidden

    Raises
    ------
    ValueError
        If the variable, its dimension or its sequences cannot be found or contradict each other.
    """
    name = find_states(idata, states)
    posterior = group(idata, "posterior")
    z = posterior[name]
    if not {"chain", "draw"} <= set(z.dims) or z.ndim < 3:
        raise ValueError(
            f"{name!r} must have dimensions chain, draw and time, received {z.dims}; give the "
            "result of pm.sample, not a stacked or averaged one"
        )
    z = z.transpose("chain", "draw", ...)
    if not np.issubdtype(z.dtype, np.integer):
        raise ValueError(f"{name!r} must hold integer labels, received dtype {z.dtype}")
    if z.size == 0:
        raise ValueError(f"{name!r} is empty, received shape {z.shape}")
    dim, n_states = _state_dim(idata, posterior, name)
    low, high = int(z.min()), int(z.max())
    if low < 0 or high >= n_states:
        raise ValueError(
            f"{name!r} must have labels 0 to {n_states - 1}, one for each entry of {dim!r}; "
            f"received {low} to {high}"
        )
    return Hidden(name, dim, n_states, z, _lengths(idata, name, z), _known(idata, name, z))


def _state_dim(idata, posterior, name):
    """Name and size of the state dimension."""
    if "constant_data" in idata:
        labels = group(idata, "constant_data").get(f"{name}_labels")
        if labels is not None:
            return str(labels.dims[0]), labels.size
    found = {
        dim
        for variable in posterior.values()
        for dim in map(str, variable.dims)
        if f"{dim}_to" in variable.dims
    }
    if len(found) != 1:
        raise ValueError(
            f"the state dimension of {name!r} is not known: the result has no constant data "
            f"'{name}_labels', and the dimensions d for which a variable has d and d_to are "
            f"{sorted(found)}, where there should be one"
        )
    dim = found.pop()
    return dim, posterior.sizes[dim]


def _lengths(idata, name, z):
    T = int(np.prod(z.shape[2:]))
    lengths = None
    if "constant_data" in idata:
        lengths = group(idata, "constant_data").get(f"{name}_lengths")
    if lengths is not None and int(lengths.sum()) == T:
        return lengths.values.astype(np.int64).ravel()
    if z.ndim > 3:  # a rectangular batch is its own record
        return np.full(T // z.shape[-1], z.shape[-1], np.int64)
    if lengths is None or lengths.size == 1:
        return np.array([T], np.int64)
    raise ValueError(
        f"'{name}_lengths' must add up to the {T} time points of {name!r}, received a sum of "
        f"{int(lengths.sum())}"
    )


def _known(idata, name, z):
    T = int(np.prod(z.shape[2:]))
    if "constant_data" in idata:
        known = group(idata, "constant_data").get(f"{name}_known")
        if known is not None and known.size == T:
            return known.values.ravel().astype(np.int64)
    return np.full(T, -1)


class Prior(NamedTuple):
    """The transition prior of a hidden-state variable, as its result tells.

    Attributes
    ----------
    name : str
    kappa : xarray.DataArray or None
        Self-persistence probabilities (chain, draw, state), their mean over time where they depend
        on it; None where there are none.
    pi_bar : xarray.DataArray
        Switching rows (chain, draw, state, state_to).
    varies : bool
        Whether kappa depends on time.
    """

    name: str
    kappa: object
    pi_bar: object
    varies: bool

    def transition_matrices(self, states):
        """P = diag(kappa) + (1 - kappa) pi_bar among some states, (draws, K, K)."""
        rows = self.pi_bar.values[:, :, states][:, :, :, states]
        rows = rows.reshape(-1, len(states), len(states)).copy()
        if self.kappa is not None:
            kappa = self.kappa.values[:, :, states].reshape(-1, len(states))
            rows *= (1.0 - kappa)[:, :, None]
            diagonal = np.arange(len(states))
            rows[:, diagonal, diagonal] += kappa
        return rows


def find_prior(idata, hidden):
    """Find the transition prior of a hidden-state variable in the posterior.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
    hidden : Hidden

    Returns
    -------
    Prior

    Raises
    ------
    ValueError
        If the switching rows or kappa are not in the posterior, or if several priors have the
        state dimension.
    """
    posterior = group(idata, "posterior")
    axes = {"chain", "draw", hidden.dim, f"{hidden.dim}_to"}
    names = [
        str(name).removesuffix("_pi_bar")
        for name, variable in posterior.items()
        if str(name).endswith("_pi_bar") and set(variable.dims) == axes
    ]
    if len(names) != 1:
        raise ValueError(
            f"there should be one variable named <prior>_pi_bar with dimensions {hidden.dim!r} and "
            f"'{hidden.dim}_to' in the posterior, the switching rows of {hidden.name!r}; found "
            f"{[f'{name}_pi_bar' for name in names] or 'none'}. Keep it in var_names of pm.sample, "
            "and give each prior a state dimension of its own"
        )
    [name] = names
    order = ("chain", "draw", hidden.dim)
    kappa = posterior.get(f"{name}_kappa", posterior.get(f"{name}_kappa_mean"))
    if kappa is None and f"{name}_phi" in posterior:
        raise ValueError(
            f"'{name}_kappa' is not in the posterior; keep it in var_names of pm.sample"
        )
    varies = False
    if kappa is not None:
        over_time = set(kappa.dims) - set(order)
        varies = bool(over_time) or f"{name}_kappa" not in posterior
        kappa = kappa.mean(over_time).transpose(*order)
    rows = posterior[f"{name}_pi_bar"].transpose(*order, f"{hidden.dim}_to")
    return Prior(name, kappa, rows, varies)


def is_truncation(idata, hidden):
    """Whether L is the truncation of a prior with weights, and not the number of states itself."""
    own = {"chain", "draw", hidden.dim}
    return any(
        str(name).endswith("_beta") and set(variable.dims) == own
        for name, variable in group(idata, "posterior").items()
    )


def state_labels(posterior, hidden):
    """Coordinate values of the states."""
    if hidden.dim in posterior.coords:
        return posterior[hidden.dim].values
    return np.arange(hidden.n_states)


def element_labels(variable, dims):
    """Coordinates of the elements along some dimensions, as strings, in C order."""
    values = [variable[d].values for d in dims]
    return [", ".join(map(str, labels)) for labels in itertools.product(*values)]
