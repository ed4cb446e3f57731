"""The contract of a parameter whose conditional is one-dimensional, and the registry of them.

Given the states, the log-likelihood of one element of an emission parameter is often a function
of a few numbers per state: of a Normal's scale, the visits and the summed squared residuals. Any
prior can stand before it, and the element is drawn by slice sampling; see
``likelihood/conditional.py``.
"""

import numpy as np

from pymc_dshdp.graph.walks import declared_parameters

__all__ = ["Conditional", "conditionals", "register_conditional"]

_conditionals: list["Conditional"] = []


class Conditional:
    """Log-likelihood of what a parameter moves, given the states; subclass and register.

    Sizes are those of ``emissions.base.Family``: T times, L states, C the product of the trailing
    dimensions of the data. The likelihood has no core dimensions.

    Attributes
    ----------
    likelihood : type
        Op of the likelihood.
    moving : tuple of int
        Positions of the parameters that depend on the variable drawn, no more and no fewer.
    data_parameters : tuple of int
        Positions of parameters that belong to the data.
    by_time : bool
        Whether there are no such few numbers: statistics and log-likelihoods are those of the
        time points, of shape (T, C).
    """

    likelihood: type | None = None
    moving: tuple[int, ...] = ()
    data_parameters: tuple[int, ...] = ()
    by_time = False
    core_time = 0
    requirement = "must be finite"

    def parameters_of(self, likelihood):
        """Graphs of a likelihood's parameters, as in ``emissions.base.Family``."""
        return declared_parameters(likelihood)

    def in_support(self, y, data_parameters, shapes):
        """Say which observations are possible, as in ``emissions.base.Family``."""
        return np.isfinite(y)

    def prepare(self, y, data_parameters, shapes):
        """Compute once what ``statistics`` needs of the data, as in ``emissions.base.Family``."""
        return y

    def statistics(self, data, z, n_states, *others):
        """Reduce the data to what ``log_likelihood`` needs, in one pass.

        Parameters
        ----------
        data : object
            What ``prepare`` returned.
        z : ndarray of int, shape (T,)
        n_states : int
        *others : ndarray of shape (T, C)
            The likelihood's other parameters at each time, at the present path.

        Returns
        -------
        tuple of ndarray of shape (L, C, ...), or (T, C)
        """
        raise NotImplementedError

    def log_likelihood(self, *arguments):
        """Graph of the log-likelihood of each state and column, up to a constant.

        Parameters
        ----------
        *arguments : TensorVariable
            The moving parameters at each state, then the statistics; of shape (L, C, ...) with C
            laid out as the data have it, or broadcastable to it. Of shape (T, C) where they are
            those of the time points.
        """
        raise NotImplementedError


def register_conditional(cls):
    """Class decorator: offer a conditional to ``SliceEmissionStep``.

    The last one registered is asked first. Registering a class again replaces the older one of
    the same module and name.
    """
    key = (cls.__module__, cls.__qualname__)
    _conditionals[:] = [
        c for c in _conditionals if (type(c).__module__, type(c).__qualname__) != key
    ]
    _conditionals.insert(0, cls())
    return cls


def conditionals():
    """All conditionals registered, in the order in which they are asked."""
    return tuple(_conditionals)
