"""What the parameters of a state say about its number."""

from typing import NamedTuple

import numpy as np

__all__ = ["ParametersByLabel", "learn", "state_parameters"]

ELEMENTS = 30  # of the state parameters, evenly spaced where there are more
IN_USE = 0.5  # share of draws that occupy a state which its parameters tell
DEVIATION = 1.4826  # standard deviations of a Gaussian in its median absolute deviation


def state_parameters(posterior, hidden):
    """Values of what belongs to a state but its weights, (S, L, E); None if there are none.

    Elements that are the same in all draws, or not finite in some, tell nothing and are left out.
    """
    columns, own = [], hidden.record.own("active", "beta", "pi_init")
    for name, variable in posterior.items():
        weights = name in own or f"{hidden.dim}_to" in variable.dims
        if weights or variable.dtype.kind not in "fiu":
            continue
        if {"chain", "draw", hidden.dim} <= set(variable.dims):
            values = variable.transpose("chain", "draw", hidden.dim, ...).values
            values = values.reshape(-1, hidden.n_states, int(np.prod(values.shape[3:])))
            columns.append(values[..., :: max(1, values.shape[2] // ELEMENTS)].astype(float))
    if not columns:
        return None
    out = np.concatenate(columns, axis=-1)
    out = out[..., np.isfinite(out).all(axis=(0, 1))]
    out = out[..., np.ptp(out, axis=(0, 1)) > 0]
    if not out.shape[2]:
        return None
    return out[..., np.linspace(0, out.shape[2] - 1, min(ELEMENTS, out.shape[2])).astype(int)]


class ParametersByLabel(NamedTuple):
    """Where the parameters of the states in use lie, and how widely.

    Attributes
    ----------
    elements : ndarray of int
        Those that vary within each label.
    labels : ndarray of shape (K,)
        The states in use.
    centres, widths : ndarrays of shape (K + 1, elements)
        By label; the last are those of all states together.
    n_states : int
        L.
    """

    elements: np.ndarray
    labels: np.ndarray
    centres: np.ndarray
    widths: np.ndarray
    n_states: int

    def probabilities(self, values):
        """Probability that parameters (n, L, E) are those of each label, (n, L, L).

        A label's are independent Gaussians; a state may also have no label, with parameters as
        wide as those of all states. All of these are equally likely beforehand.
        """
        values = values[..., self.elements]
        log_p = np.stack(
            [
                -(0.5 * ((values - centre) / width) ** 2 + np.log(width)).sum(axis=-1)
                for centre, width in zip(self.centres, self.widths, strict=True)
            ],
            axis=-1,
        )
        p = np.exp(log_p - log_p.max(axis=-1, keepdims=True))
        out = np.zeros((*values.shape[:2], self.n_states))
        out[..., self.labels] = (p / p.sum(axis=-1, keepdims=True))[..., :-1]
        return out


def learn(values, numbers, sizes):
    """Take the medians and median deviations of the parameters of each label in use.

    Parameters
    ----------
    values : ndarray of shape (S, L, E)
    numbers : ndarray of shape (S, L)
        The label of each state.
    sizes : ndarray of shape (S, L)
        Number of time points in each state.

    Returns
    -------
    ParametersByLabel or None
        None if they cannot tell labels.
    """
    states = np.argsort(numbers, axis=1)
    values = np.take_along_axis(values, states[..., None], axis=1)
    occupied = np.take_along_axis(sizes, states, axis=1) > 0
    labels = np.flatnonzero(occupied.mean(axis=0) >= IN_USE)
    parts = [values[occupied[:, k], k] for k in labels]
    parts.append(values[occupied])
    centres = np.array([np.median(x, axis=0) for x in parts])
    widths = DEVIATION * np.array(
        [np.median(np.abs(x - m), axis=0) for x, m in zip(parts, centres, strict=True)]
    )
    elements = np.flatnonzero((widths > 0).all(axis=0))
    if len(labels) < 2 or not elements.size:
        return None
    return ParametersByLabel(
        elements, labels, centres[:, elements], widths[:, elements], values.shape[1]
    )
