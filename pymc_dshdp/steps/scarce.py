r"""Numbers of states with few times, one after the other by slice sampling.

The density of a mean and a scale, or of a covariance matrix, given hardly more times than it has
numbers is so far from normal that a trajectory of any metric diverges. Which states these are is a
function of z, which does not move; so for the numbers x of a step, i in the set S of such states,

    1. NUTS on p(x_{-S} | x_S, z, y, ...),
    2. three times for each i in S: x_i from p(x_i | x_{-i}, z, y, ...) by slice sampling,

each of which leaves p(x | z, y, ...) invariant, whatever S is.
"""

import numpy as np
from pymc.blocking import DictToArrayBijection, RaveledVars
from pymc.step_methods.hmc.integration import IntegrationError

from pymc_dshdp.kernels.slice import slice_sample

__all__ = ["FEW_PER_NUMBER", "MOST_NUMBERS", "rmap", "slice_each"]

FEW_PER_NUMBER = 2  # a state has few times if there are at most so many for each number, and one
MOST_NUMBERS = 16  # of a state; more are left to the trajectory
WIDTH = 3.0  # of the first interval, in standard deviations
SCANS = 3  # of all numbers: with one, states come and go half as often
MOST_STEPS = 20  # out of it: the density of an angle does not fall off
OUTSIDE = IntegrationError, np.linalg.LinAlgError
"""What ends a trajectory of NUTS where there is no density."""


def slice_each(log_density, point, names, elements, scales, rng):
    """Update some of a step's numbers, each given the others.

    Parameters
    ----------
    log_density : callable
        ``log_density(vector, point_map_info) -> (float, gradient)``, of all numbers of the step.
    point : dict
    names : list of str
        The step's value variables, in their order in the vector.
    elements : ndarray of int
        Positions in the vector.
    scales : ndarray of float
        About the conditional standard deviation of each of these.
    rng : numpy.random.Generator

    Returns
    -------
    dict
        The new point.
    """
    whole = DictToArrayBijection.map({name: point[name] for name in names})
    x, info = whole.data.copy(), whole.point_map_info
    for i, scale in SCANS * list(zip(elements, scales, strict=True)):

        def density(value, i=i):
            x[i] = value.item()
            try:
                return np.array([log_density(x, info)[0]])
            except OUTSIDE:
                return np.array([-np.inf])

        x[i] = slice_sample(density, x[i], rng, WIDTH * scale, MOST_STEPS).item()
    return {**point, **rmap(x, info)}


def rmap(x, info):
    """Values by name from a vector of all numbers and what it is made of."""
    return DictToArrayBijection.rmap(RaveledVars(x, info))
