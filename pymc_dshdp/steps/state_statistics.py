"""What the data in a state say about how well its parameters are known."""

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.type import TensorType

from pymc_dshdp.likelihood.observed import observed_data

__all__ = ["StateStatistics"]

LARGEST_NUMBER = 6  # of statistics


class StateStatistics:
    r"""Statistics of the data in each state to which information may be proportional.

    The number of time points :math:`n_k`; the sum of :math:`|y|`, for the logarithm of a rate;
    :math:`n_k / v_k` with the variance of y within the state, for a location; the sum of
    :math:`x^2` of each covariate, for a slope. All are scaled so that they add up to T over the
    states, the third about so. What is not there for a path is left out, or zero beside the
    path of another prior.

    Parameters
    ----------
    model : pymc.Model
    membership : Membership
    terms : list of (variable, graph)
        The densities of the model and their graphs in value variables.
    start : dict

    Attributes
    ----------
    number : int
        C.
    """

    def __init__(self, model, membership, terms, start):
        self._membership = membership
        self._paths = []
        for prior, first, names in membership.states:
            for name in names:
                shape = start[name].shape
                [value] = [v for v in membership.paths if v.name == name]
                using = [(v, g) for v, g in terms if value in set(ancestors([g]))]
                weights, y = _per_time(model, using, shape)
                self._paths.append((name, slice(first, first + prior.n_states), weights, y))
        self.number = 1 + max(
            (len(weights) + (y is not None) for _, _, weights, y in self._paths), default=0
        )

    def __call__(self, point):
        """Statistics at the states of a point; shape (S, C), the numbers of times first."""
        out = np.zeros((self._membership.n_states, self.number))
        for name, states, weights, y in self._paths:
            path = np.ravel(point[name]).astype(np.int64, copy=False)
            L = states.stop - states.start
            n = np.bincount(path, minlength=L)
            out[states, 0] += n
            for c, weight in enumerate(weights, 1):
                out[states, c] += np.bincount(path, weight, L)
            if y is not None:
                out[states, 1 + len(weights)] += n / _within_variance(path, y, n)
        return out


def _within_variance(path, y, n):
    """Variance of the standardised data within each state, shrunk to 1 by one observation."""
    L, total = len(n), np.zeros(len(n))
    for column in y.T:
        mean = np.bincount(path, column, L) / np.maximum(n, 1)
        total += np.bincount(path, (column - mean[path]) ** 2, L)
    return (total / y.shape[1] + 1.0) / (n + 1.0)


def _per_time(model, terms, shape):
    """Weights of the time points, each of mean 1, and continuous data standardised."""
    weights, y = [], None
    T, n = int(np.prod(shape)), len(shape)
    observed = set()
    for variable, _ in terms:
        if variable not in model.observed_RVs:
            continue
        observed |= set(ancestors([model.rvs_to_values[variable]]))
        data, _ = observed_data(model, variable)
        if data is None or data.shape[:n] != shape:
            continue
        data = np.nan_to_num(np.asarray(data, float).reshape(T, -1))
        weights.append(np.abs(data).mean(axis=1))
        if y is None and variable.dtype.startswith("float"):
            spread = data.std(axis=0)
            y = data[:, spread > 0] / spread[spread > 0]
            y = y if y.size else None
    for node in dict.fromkeys(ancestors([graph for _, graph in terms])):
        if node in observed or not isinstance(node, Constant | SharedVariable):
            continue
        tensor = isinstance(node.type, TensorType)  # not a slice, say
        if not tensor or not node.dtype.startswith("float") or node.type.ndim < n:
            continue
        data = np.asarray(node.data if isinstance(node, Constant) else node.get_value())
        if data.shape[:n] == shape:
            weights += list(np.nan_to_num(data.reshape(T, -1) ** 2).T)
    varying = [w / w.mean() for w in weights if w.mean() > 0 and np.ptp(w) > 1e-9 * w.mean()]
    return varying[: LARGEST_NUMBER - 1 - (y is not None)], y
