"""Negative binomial counts: their mean and size, given the states."""

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import NegBinomialRV

from pymc_dshdp.emissions.conditional import Conditional, register_conditional
from pymc_dshdp.kernels.emissions_statistics import category_counts, state_sums

__all__ = ["NegativeBinomialMean", "NegativeBinomialSize"]


@register_conditional
class NegativeBinomialMean(Conditional):
    r"""Probability p given the size n, hence a mean: sum of n log p + y log(1 - p)."""

    likelihood = NegBinomialRV
    moving = (1,)

    def statistics(self, data, z, n_states, size):
        """(sizes added up, counts added up)."""
        return state_sums(z, size, n_states)[1], state_sums(z, data, n_states)[1]

    def log_likelihood(self, p, sizes, counts):
        """Of a binomial with these successes and failures."""
        return sizes * pt.log(p) + counts * pt.log1p(-p)


@register_conditional
class NegativeBinomialSize(Conditional):
    r"""Size n, on which p = n / (mean + n) depends: the above and log Gamma(y + n) / Gamma(n).

    The gamma functions are evaluated once for each count that occurs.
    """

    likelihood = NegBinomialRV
    moving = (0, 1)

    def prepare(self, y, data_parameters, shapes):
        """Return (counts, counts that occur, which of them each is)."""
        values, which = np.unique(y, return_inverse=True)
        return y, values, which.reshape(y.shape)

    def statistics(self, data, z, n_states):
        """(visits, counts added up, counts that occur, how often each does)."""
        y, values, which = data
        visits, sums = state_sums(z, y, n_states)
        visits = np.broadcast_to(visits[:, None], sums.shape)
        often = category_counts(z, which, n_states, len(values))
        return visits, sums, np.broadcast_to(values, often.shape), often

    def log_likelihood(self, size, p, visits, sums, values, often):
        """Sum over the counts that occur."""
        rising = pt.gammaln(values + size[..., None]) - pt.gammaln(size[..., None])
        return (often * rising).sum(axis=-1) + visits * size * pt.log(p) + sums * pt.log1p(-p)
