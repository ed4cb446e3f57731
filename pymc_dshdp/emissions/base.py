"""The contract of an emission family, and the registry of families.

A family says how one likelihood of PyMC is written as matrix products over states and, where a
conjugate prior exists, how its parameter is drawn. It never sees the model:
``likelihood/families.py`` reads the graph and hands over arrays.
"""

from typing import NamedTuple

import numpy as np
from pymc.logprob.transforms import LogOddsTransform, LogTransform, SimplexTransform
from pytensor.tensor.random.op import RandomVariable

from pymc_dshdp.graph.walks import declared_parameters

__all__ = ["Family", "Parameter", "SCALES", "families", "register"]

SCALES = {
    "natural": None,
    "log": LogTransform,
    "logit": LogOddsTransform,
    "log-simplex": SimplexTransform,
}
"""Scales on which a family returns its draws, with the transform whose values they are."""

_families: list["Family"] = []


class Parameter(NamedTuple):
    """A parameter that a family draws.

    Attributes
    ----------
    position : int
        Which parameter of the likelihood's op it is.
    prior : type
        Op of its conjugate prior.
    scale : str
        A key of ``SCALES``: the scale on which ``sample_posterior`` returns it. Draws on the log
        or logit scale stay finite where the parameter itself rounds to 0 or 1.
    """

    position: int
    prior: type[RandomVariable]
    scale: str


class Family:
    """Likelihood, table and conjugate draw of one emission family; subclass and ``register``.

    Sizes: T time points, L states, C the product of the trailing dimensions that the data have
    beside time (cells, channels; 1 if none), and the core dimensions of a multivariate
    likelihood. Data arrive as float64 arrays of shape ``(T, C, *core)`` and parameters at each
    state as ``(L, C, *core)``, broadcast.

    Attributes
    ----------
    likelihood : type
        Op of the likelihood, such as ``PoissonRV``.
    parameters : tuple of Parameter
        What the family draws: none (only a table), one, or several drawn together.
    data_parameters : tuple of int
        Positions of likelihood parameters that belong to the data, such as the number of trials.
        They must not depend on any random variable.
    several_columns : bool
        Whether the draw serves data with dimensions beside time and core.
    core_time : int
        1 if the likelihood's first core dimension is time, else 0.
    requirement : str
        What ``requires`` says where it does not depend on shapes.
    """

    likelihood: type | None = None
    parameters: tuple[Parameter, ...] = ()
    data_parameters: tuple[int, ...] = ()
    several_columns = True
    core_time = 0
    requirement = "must be finite"

    # -- likelihood -------------------------------------------------------------------------

    def parameters_of(self, likelihood):
        """Graphs of a likelihood's parameters: those of its op, then what else is read of them.

        Parameters
        ----------
        likelihood : TensorVariable

        Returns
        -------
        list of TensorVariable
            Positions in ``parameters`` and ``data_parameters`` are those of this list.
        """
        return declared_parameters(likelihood)

    def in_support(self, y, data_parameters, shapes):
        """Say which observations are possible.

        Parameters
        ----------
        y : ndarray of shape (T, C, *core)
        data_parameters : list of ndarray
        shapes : list of tuple
            Shapes of one element of each likelihood parameter, such as (V,) for probabilities of
            V categories.

        Returns
        -------
        ndarray of bool, shape (T, C) or that of ``y``
        """
        raise NotImplementedError

    def requires(self, shapes):
        """Say what ``in_support`` asks of an observation, for the error message."""
        return self.requirement

    def prepare(self, y, data_parameters, shapes):
        """Compute once what ``log_likelihoods`` and ``suff_stats`` need of the data.

        The arguments are those of ``in_support``.
        """
        return y

    def rows(self, data, low, high):
        """Select time points low..high - 1 of prepared data, for ``log_likelihoods``.

        Here the first axis of every array that was prepared is time.
        """
        if isinstance(data, tuple):
            return tuple(self.rows(x, low, high) for x in data)
        return data[low:high] if isinstance(data, np.ndarray) else data

    def select(self, data, times):
        """Select some time points of prepared data, given by an array of indices.

        Here the first axis of every array that was prepared is time.
        """
        if isinstance(data, tuple):
            return tuple(self.select(x, times) for x in data)
        return data[times] if isinstance(data, np.ndarray) else data

    def table_parameters(self, *parameters):
        """Graphs of what ``log_likelihoods`` needs, from graphs of the parameters at each state.

        Written as graphs so that PyTensor's rewrites apply: log(exp(x)) is x.
        """
        return list(parameters)

    def log_likelihoods(self, data, *table_parameters):
        """Evaluate log p(y_t | theta_k), summed over C.

        Parameters
        ----------
        data : object
            What ``prepare`` returned.
        *table_parameters : ndarray of shape (L, C, *core)

        Returns
        -------
        ndarray of shape (T, L)
            NaN where a parameter is outside its support: the table then has -inf.
        """
        raise NotImplementedError

    # -- conjugate draw ---------------------------------------------------------------------

    def unlink(self, position, node):
        """Undo what PyMC does to a parameter, such as 1 / rate; None if it did not do it."""
        return node

    def joint(self, variables):
        """Whether variables of the right priors, and their own parameters, are as assumed."""
        return True

    def prior_parameters(self, variables):
        """Parameters of each variable's prior as declared: a list of graphs for each."""
        return [declared_parameters(rv) for rv in variables]

    def hyperparameters(self, *prior_parameters):
        """Graphs of the hyperparameters, from ``prior_parameters`` in values, end to end."""
        return list(prior_parameters)

    def suff_stats(self, data, z, n_states, *others):
        """Sufficient statistics of each state, in one pass over the data.

        Parameters
        ----------
        data : object
            What ``prepare`` returned.
        z : ndarray of int, shape (T,)
        n_states : int
        *others : ndarray of shape (L, C, *core)
            The likelihood's other parameters at each state, in order.

        Returns
        -------
        tuple of ndarray of shape (L, C, ...)
            Additive over time and over C: where one parameter serves several columns of the
            data, they are summed over those.
        """
        raise NotImplementedError

    def sample_posterior(self, rng, stats, hyperparameters):
        """Draw the parameters of all states; those without data come from the prior.

        Parameters
        ----------
        rng : numpy.random.Generator
        stats : tuple of ndarray
        hyperparameters : list of ndarray of shape (L, C, ...)

        Returns
        -------
        tuple of ndarray, one per parameter
            Each of shape (L, C, *core) on the parameter's scale.
        """
        raise NotImplementedError

    # -- marginal likelihood ----------------------------------------------------------------

    def moments(self, data, z, n_states):
        """Sum over the times of each state what the marginal likelihood depends on.

        Parameters
        ----------
        data : object
            What ``prepare`` returned.
        z : ndarray of int, shape (T,)
        n_states : int

        Returns
        -------
        tuple of ndarray of shape (L, C, ...)
        """
        return self.suff_stats(data, z, n_states)

    def prepare_prior(self, hyperparameters):
        """Compute once what ``log_evidence`` and ``plug_in`` need of the hyperparameters.

        Returns a list of arrays with an axis of states first.
        """
        return hyperparameters

    def pooled(self, one, two):
        """Moments of the times of ``one`` and ``two`` together, state by state.

        Both have an axis of states first, of which ``two`` may have one for all of ``one``.
        """
        return tuple(a + b for a, b in zip(one, two, strict=True))

    def plug_in(self, moments, hyperparameters, *others):
        """Parameters of ``log_likelihoods`` where each state is typical of what it has.

        Any estimate that is finite for a state without data too; proposals look at it.
        The arguments are those of ``log_evidence``.
        """
        raise NotImplementedError

    log_evidence = None
    """None, or a method that integrates the parameters out.

    ``log_evidence(moments, hyperparameters, *others)`` is the log marginal likelihood of what each
    state has, an array of shape (L,), 0 where a state has nothing. ``moments`` are as above,
    ``hyperparameters`` what ``prepare_prior`` made of arrays of shape (L, C, ...), and ``others``
    the likelihood's other parameters at each state, ``(L, C, *core)``. ``log_constant`` is left
    out. A family that has it has ``plug_in`` too."""

    # -- collapsed sweep --------------------------------------------------------------------

    collapse = None
    """None, or a method ``collapse(data, others, hyperparameters)`` for the sampler that
    integrates the parameters out: it returns an emission of ``kernels.predictive``, with nothing
    included, from what ``prepare`` returned, the likelihood's other parameters at each state and
    the hyperparameters, arrays of L + 1 rows whose last stands for what is in no state."""

    def log_constant(self, data):
        """Sum what ``collapse`` and ``log_evidence`` leave out: the same in all states.

        Parameters
        ----------
        data : object
            What ``prepare`` returned.
        """
        return 0.0


def register(cls):
    """Class decorator: offer a family to the table and to ``ConjugateStep``.

    The last family registered is asked first. Registering a class again replaces the older one
    of the same module and name.
    """
    key = (cls.__module__, cls.__qualname__)
    _families[:] = [f for f in _families if (type(f).__module__, type(f).__qualname__) != key]
    _families.insert(0, cls())
    return cls


def families():
    """All families registered, in the order in which they are asked."""
    return tuple(_families)
