"""What a result says about itself: its states, their dimension, their prior, their sequences."""

import itertools
from typing import NamedTuple

import numpy as np

from pymc_dshdp._compat import group
from pymc_dshdp.transitions.drawn import drawn_transitions
from pymc_dshdp.transitions.record import StatesRecord, records_of

__all__ = [
    "Hidden",
    "element_labels",
    "find_hidden",
    "find_prior",
    "find_states",
    "hidden_variables",
    "observed_labels",
    "read_posterior",
    "read_records",
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
    groups : ndarray of shape (T,), or None
        Position of the group that each time is of, where the prior has groups.
    record : StatesRecord
        What the model wrote of them and of their prior.
    """

    name: str
    dim: str
    n_states: int
    z: object
    lengths: np.ndarray
    known: np.ndarray
    groups: np.ndarray | None
    record: StatesRecord

    @property
    def truncated(self):
        """Whether L is the truncation of a prior with weights, and not the number of states."""
        return self.record.weights is not None

    @property
    def dims(self):
        """Dimensions of one path: (time,) or (sequence, time)."""
        return self.z.dims[2:]

    def paths(self):
        """Return the draws as an array of shape (chains * draws, T)."""
        values = self.z.values
        return values.reshape(values.shape[0] * values.shape[1], -1)

    def of_group(self, g):
        """(paths, lengths) of the times of a group; the stretches of it within a sequence apart."""
        if self.groups is None:
            return self.paths(), self.lengths
        sequence = np.repeat(np.arange(len(self.lengths)), self.lengths)
        times = np.flatnonzero(self.groups == g)
        apart = (np.diff(times) != 1) | (np.diff(sequence[times]) != 0)
        ends = np.flatnonzero(np.append(apart, True)[: len(times)]) + 1
        return np.ascontiguousarray(self.paths()[:, times]), np.diff(ends, prepend=0)


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


def read_records(idata):
    """Read the records of the hidden states of a result, by name.

    Raises
    ------
    ValueError
        If there are none: nothing else says which variables are states, and of which prior.
    """
    read_posterior(idata)
    found = records_of(group(idata, "constant_data")) if "constant_data" in idata else {}
    if not found:
        raise ValueError(
            "the result does not say which of its variables are hidden states: HiddenStates writes "
            "that into the group constant_data, as '<states>_record'. Keep this group with the "
            "posterior; a result of another model has none"
        )
    return found


def hidden_variables(idata):
    """Names of the hidden-state variables in the posterior of a result."""
    posterior = read_posterior(idata)
    return [name for name in read_records(idata) if name in posterior]


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
                f"states must name the hidden-state variable; the posterior has {found or 'none'}"
                f" of those declared, {sorted(read_records(idata))}"
            )
        return found[0]
    if states not in found:
        what = (
            "no hidden-state variable"
            if states in read_posterior(idata)
            else "not in the posterior"
        )
        raise ValueError(f"states={states!r} is {what}; it has {found or 'none'}")
    return states


def is_renumbered(idata, hidden):
    """Whether ``align`` has given states of a result other numbers."""
    name = f"{hidden.dim}_label_before"
    if "alignment" not in idata or name not in group(idata, "alignment"):
        return False
    return bool((group(idata, "alignment")[name].values != np.arange(hidden.n_states)).any())


def left_behind(posterior, hidden):
    """Find what the model indexes with states along an axis that a renumbering does not move."""
    return [
        name
        for name in hidden.record.unnamed
        if name not in posterior or hidden.dim not in posterior[name].dims
    ]


def find_hidden(idata, states=None):
    """Read a hidden-state variable of a result, its state dimension and its sequences.

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
        If the variable or its record cannot be found, or contradict each other.
    """
    name = find_states(idata, states)
    record = read_records(idata)[name]
    z = group(idata, "posterior")[name]
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
    dim, n_states = record.dims[0], record.n_states
    low, high = int(z.min()), int(z.max())
    if low < 0 or high >= n_states:
        raise ValueError(
            f"{name!r} must have labels 0 to {n_states - 1}, one for each entry of {dim!r}; "
            f"received {low} to {high}"
        )
    constants = group(idata, "constant_data")
    lengths, known = _lengths(constants, record, z), _known(constants, record, z)
    groups = _groups(constants, record, lengths)
    return Hidden(name, dim, n_states, z, lengths, known, groups, record)


def _lengths(constants, record, z):
    T = int(np.prod(z.shape[2:]))
    lengths = constants.get(record.lengths)
    if lengths is not None and int(lengths.sum()) == T:
        return lengths.values.astype(np.int64).ravel()
    if z.ndim > 3:  # a rectangular batch is its own record
        return np.full(T // z.shape[-1], z.shape[-1], np.int64)
    if lengths is not None and lengths.size == 1:
        return np.array([T], np.int64)
    found = "none" if lengths is None else f"a sum of {int(lengths.sum())}"
    raise ValueError(
        f"{record.lengths!r} must add up to the {T} time points of {record.states!r}, received "
        f"{found}"
    )


def _known(constants, record, z):
    T = int(np.prod(z.shape[2:]))
    known = constants.get(record.known)
    if known is not None and known.size == T:
        return known.values.ravel().astype(np.int64)
    return np.full(T, -1)


def observed_labels(idata, dim):
    """Labels that are data: those of states that are all observed and number by this dimension."""
    names = [name for name, record in read_records(idata).items() if record.dims[0] == dim]
    found = [
        group(idata, where)[name].values.ravel().astype(np.int64)
        for where in ("observed_data", "constant_data")
        if where in idata
        for name in names
        if name in group(idata, where)
    ]
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)


def _groups(constants, record, lengths):
    if record.groups is None:
        return None
    group = constants.get(record.group)
    if group is not None and group.size == len(lengths):
        return np.repeat(group.values.ravel(), lengths).astype(np.int64)
    if group is not None and group.size == lengths.sum():
        return group.values.ravel().astype(np.int64)
    found = "none" if group is None else f"shape {group.shape}"
    raise ValueError(
        f"{record.group!r} must say which of the groups {record.groups!r} each of the "
        f"{len(lengths)} sequences of {record.states!r}, or each time, is of; received {found}"
    )


def find_prior(idata, hidden):
    """Read the transitions of a hidden-state variable from the posterior, ``DrawnTransitions``."""
    return drawn_transitions(group(idata, "posterior"), hidden.record)


def state_labels(posterior, hidden):
    """Coordinate values of the states."""
    if hidden.dim in posterior.coords:
        return posterior[hidden.dim].values
    return np.arange(hidden.n_states)


def element_labels(variable, dims):
    """Coordinates of the elements along some dimensions, as strings, in C order."""
    values = [variable[d].values for d in dims]
    return [", ".join(map(str, labels)) for labels in itertools.product(*values)]
