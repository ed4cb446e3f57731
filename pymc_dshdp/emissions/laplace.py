"""Laplace observations: their scale, given the states."""

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import LaplaceRV

from pymc_dshdp.emissions.conditional import Conditional, register_conditional
from pymc_dshdp.kernels.emissions_statistics import state_sums

__all__ = ["LaplaceScale"]


@register_conditional
class LaplaceScale(Conditional):
    r"""Scale b given the location: :math:`-n \log b - \sum |y - \mu| / b`."""

    likelihood = LaplaceRV
    moving = (1,)

    def statistics(self, data, z, n_states, location):
        """(visits, absolute residuals added up)."""
        visits, sums = state_sums(z, np.abs(data - location), n_states)
        return np.broadcast_to(visits[:, None], sums.shape), sums

    def log_likelihood(self, scale, visits, sums):
        """See the class."""
        return -visits * pt.log(scale) - sums / scale
