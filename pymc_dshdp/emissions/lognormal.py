"""Log-normal observations: the mean and the scale of their logarithms, given the states."""

import numpy as np
from pytensor.tensor.random.basic import LogNormalRV

from pymc_dshdp.emissions.conditional import register_conditional
from pymc_dshdp.emissions.normal import NormalLocation, NormalScale

__all__ = ["LogNormalLocation", "LogNormalScale", "Logarithms"]


class Logarithms:
    """Of positive data."""

    requirement = "must be finite and greater than 0"

    def in_support(self, y, data_parameters, shapes):
        """Positive."""
        return np.isfinite(y) & (y > 0.0)

    def prepare(self, y, data_parameters, shapes):
        """Their logarithms."""
        return np.log(y)


@register_conditional
class LogNormalLocation(Logarithms, NormalLocation):
    """A Normal's mean, of the logarithms."""

    likelihood = LogNormalRV


@register_conditional
class LogNormalScale(Logarithms, NormalScale):
    """A Normal's scale, of the logarithms."""

    likelihood = LogNormalRV
