"""Weibull durations: their shape and scale, given the states."""

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.continuous import WeibullBetaRV

from pymc_dshdp.emissions.conditional import Conditional, register_conditional
from pymc_dshdp.emissions.lognormal import Logarithms

__all__ = ["WeibullScale", "WeibullShape"]


class _Weibull(Logarithms, Conditional):
    """The powers of the data that tell about one parameter depend on the other."""

    likelihood = WeibullBetaRV
    by_time = True


@register_conditional
class WeibullShape(_Weibull):
    """Shape a given the scale: log a + a r - e^(a r), r the logarithm in units of the scale."""

    moving = (0,)

    def statistics(self, data, z, n_states, scale):
        """(r,)."""
        return (data - np.log(scale),)

    def log_likelihood(self, shape, r):
        """See the class."""
        return pt.log(shape) + shape * r - pt.exp(shape * r)


@register_conditional
class WeibullScale(_Weibull):
    """Scale b given the shape a: -a log b - e^(a (log y - log b))."""

    moving = (1,)

    def statistics(self, data, z, n_states, shape):
        """Return (a, log y)."""
        return shape, data

    def log_likelihood(self, scale, shape, data):
        """See the class."""
        log_scale = pt.log(scale)
        return -shape * log_scale - pt.exp(shape * (data - log_scale))
