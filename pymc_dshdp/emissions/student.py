"""Student's t observations: location, scale and degrees of freedom, given the states."""

import pytensor.tensor as pt
from pytensor.tensor.random.basic import StudentTRV

from pymc_dshdp.emissions.conditional import Conditional, register_conditional

__all__ = ["StudentTDegrees", "StudentTLocation", "StudentTScale"]


class _StudentT(Conditional):
    """No few numbers tell what the data of a state say: they all enter the density."""

    likelihood = StudentTRV
    by_time = True

    def statistics(self, data, z, n_states, *others):
        """Return (the likelihood's other parameters, data)."""
        return *others, data


def _log_kernel(squared, nu):
    """-(nu + 1) / 2 log(1 + squared / nu)."""
    return -0.5 * (nu + 1.0) * pt.log1p(squared / nu)


@register_conditional
class StudentTDegrees(_StudentT):
    """Degrees of freedom given location and scale."""

    moving = (0,)

    def statistics(self, data, z, n_states, location, scale):
        """(squared residuals in units of the scale,)."""
        return (((data - location) / scale) ** 2.0,)

    def log_likelihood(self, nu, squared):
        """See the class."""
        constant = pt.gammaln(0.5 * (nu + 1.0)) - pt.gammaln(0.5 * nu) - 0.5 * pt.log(nu)
        return constant + _log_kernel(squared, nu)


@register_conditional
class StudentTLocation(_StudentT):
    """Location given scale and degrees of freedom."""

    moving = (1,)

    def log_likelihood(self, location, nu, scale, data):
        """See the class."""
        return _log_kernel(((data - location) / scale) ** 2.0, nu)


@register_conditional
class StudentTScale(_StudentT):
    """Scale given location and degrees of freedom."""

    moving = (2,)

    def statistics(self, data, z, n_states, nu, location):
        """(degrees of freedom, squared residuals)."""
        return nu, (data - location) ** 2.0

    def log_likelihood(self, scale, nu, squares):
        """See the class; a residual of 0 stays one where the scale's square rounds to 0."""
        squared = pt.switch(pt.eq(squares, 0.0), 0.0, squares / scale**2.0)
        return -pt.log(scale) + _log_kernel(squared, nu)
