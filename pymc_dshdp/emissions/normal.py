"""Normal observations with a normal mean, an inverse-gamma variance, or both."""

from math import prod

import numpy as np
import pytensor.tensor as pt
from pytensor.scalar.basic import Mul, Pow, Sqrt, TrueDiv
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.basic import InvGammaRV, NormalRV
from scipy.special import gammaln

from pymc_dshdp.emissions._products import log_gamma
from pymc_dshdp.emissions.base import Family, Parameter, register
from pymc_dshdp.emissions.conditional import Conditional, register_conditional
from pymc_dshdp.graph.pointwise import depends_on
from pymc_dshdp.graph.walks import concrete_shape, constant_number, declared_parameters
from pymc_dshdp.kernels.emissions_statistics import squared_residuals, state_moments, state_sums
from pymc_dshdp.kernels.predictive_continuous import (
    normal_inverse_gamma,
    normal_mean,
    normal_variance,
)
from pymc_dshdp.kernels.simd import normal_table

__all__ = ["NormalInverseGamma", "NormalMean", "NormalVariance"]

LOG_2PI = np.log(2.0 * np.pi)


class _Normal(Family):
    likelihood = NormalRV

    def in_support(self, y, data_parameters, shapes):
        """Finite numbers."""
        return np.isfinite(y)

    def log_likelihoods(self, data, mean, scale):
        """-((y - mean) / scale)^2 / 2 - log(scale) - log(2 pi) / 2."""
        return normal_table(data, mean, scale)

    def moments(self, data, z, n_states):
        """(visits, means, squared deviations from them)."""
        visits, sums, squares = state_moments(z, data, n_states)
        full = np.broadcast_to(visits[:, None], sums.shape)
        return full, sums / np.maximum(full, 1.0), squares

    def pooled(self, one, two):
        """Squared deviations from the common mean."""
        (n, x, squares), (m, y, others) = one, two
        total = np.maximum(n + m, 1.0)
        between = n * m / total * (x - y) ** 2
        return n + m, (n * x + m * y) / total, squares + others + between


@register
class NormalMean(_Normal):
    r"""Normal prior :math:`\mu_k \sim N(m, s^2)` on the mean; the scale is anything per state.

    :math:`\mu_k \mid y, z, \sigma \sim N(v (m / s^2 + \sum y / \sigma_k^2), v)` with
    :math:`1 / v = 1 / s^2 + n_k / \sigma_k^2`.
    """

    parameters = (Parameter(0, NormalRV, "natural"),)

    def suff_stats(self, data, z, n_states, scale):
        """Precision of the data about the mean, and the data weighted by it."""
        visits, sums = state_sums(z, data, n_states)
        precision = scale**-2.0
        return visits[:, None] * precision, sums * precision

    def sample_posterior(self, rng, stats, hyperparameters):
        """Means."""
        precision, weighted = stats
        mean, scale = hyperparameters
        total = scale**-2.0 + precision
        centre = (mean * scale**-2.0 + weighted) / total
        return (centre + rng.standard_normal(centre.shape) / np.sqrt(total),)

    def plug_in(self, moments, hyperparameters, noise):
        """Mean, and the scale as it is."""
        visits, mean, _ = moments
        location, scale = hyperparameters
        precision = visits * noise**-2.0
        total = scale**-2.0 + precision
        return (location * scale**-2.0 + mean * precision) / total, noise

    def log_evidence(self, moments, hyperparameters, noise):
        """Use that the mean of n observations has variance s^2 + noise^2 / n."""
        visits, mean, squares = moments
        location, scale = hyperparameters
        precision = visits * noise**-2.0
        out = -0.5 * np.log1p(precision * scale**2.0) - visits * np.log(noise)
        shrunk = precision / (1.0 + precision * scale**2.0)
        out -= 0.5 * (squares * noise**-2.0 + shrunk * (mean - location) ** 2)
        return (out - 0.5 * visits * LOG_2PI).sum(axis=1)

    def collapse(self, data, others, hyperparameters):
        """Use the normal predictive, given the scale."""
        return normal_mean(data, *others, *hyperparameters)


class _NormalVariance(_Normal):
    def unlink(self, position, node):
        """Undo the square root."""
        return node if position == 0 else _square(node)


@register
class NormalVariance(_NormalVariance):
    r"""Inverse-gamma prior on the variance, used as ``pm.math.sqrt(variance[z])``.

    With :math:`\sigma_k^2 \sim \mathrm{InvGamma}(a, b)`, :math:`\sigma_k^2 \mid y, z, \mu \sim
    \mathrm{InvGamma}(a + n_k / 2, b + \sum (y - \mu_k)^2 / 2)`.
    """

    parameters = (Parameter(1, InvGammaRV, "log"),)

    def suff_stats(self, data, z, n_states, mean):
        """(visits, squared residuals)."""
        visits, squares = squared_residuals(z, data, mean)
        return np.broadcast_to(visits[:, None], squares.shape), squares

    def sample_posterior(self, rng, stats, hyperparameters):
        """Log variances."""
        visits, squares = stats
        shape, scale = hyperparameters
        return (np.log(scale + 0.5 * squares) - log_gamma(rng, shape + 0.5 * visits),)

    def plug_in(self, moments, hyperparameters, mean):
        """Mean as it is, and the scale of the mean precision."""
        visits, centre, squares = moments
        shape, scale = hyperparameters
        squares = squares + visits * (centre - mean) ** 2
        return mean, np.sqrt((scale + 0.5 * squares) / (shape + 0.5 * visits))

    def log_evidence(self, moments, hyperparameters, mean):
        """Student t, given the mean."""
        visits, centre, squares = moments
        shape, scale = hyperparameters
        return _log_t(visits, 0.5 * (squares + visits * (centre - mean) ** 2), shape, scale)

    def collapse(self, data, others, hyperparameters):
        """Student t, given the mean."""
        return normal_variance(data, *others, *hyperparameters)


@register
class NormalInverseGamma(_NormalVariance):
    r"""Mean and variance drawn together: the prior of the mean is scaled by the variance.

    :math:`\sigma_k^2 \sim \mathrm{InvGamma}(a, b)` and :math:`\mu_k \mid \sigma_k^2 \sim
    N(m, \sigma_k^2 / s)`, the latter written as ``pm.Normal("mean", m, pm.math.sqrt(variance /
    s))`` or any product or quotient equal to it. With n, :math:`\bar y` and Q the visits, mean and
    squared deviations from it of a state,

    .. math::

       \sigma_k^2 \mid y, z \sim \mathrm{InvGamma}\Big(a + \frac{n}{2},
       b + \frac{1}{2} Q + \frac{s n}{2 (s + n)} (\bar y - m)^2\Big), \qquad
       \mu_k \mid \sigma_k^2, y, z \sim
       N\Big(\frac{s m + n \bar y}{s + n}, \frac{\sigma_k^2}{s + n}\Big).
    """

    parameters = (Parameter(0, NormalRV, "natural"), Parameter(1, InvGammaRV, "log"))

    def joint(self, variables):
        """Whether the scale of the mean is a constant times the root of the variance."""
        mean, variance = variables
        location = declared_parameters(mean)[0]
        return (
            concrete_shape(mean) == concrete_shape(variance)
            and not depends_on(location, variance)
            and _prior_count(mean, variance) is not None
        )

    def prior_parameters(self, variables):
        """(m, s) and (a, b)."""
        mean, variance = variables
        location = declared_parameters(mean)[0]
        return [
            [location, _prior_count(mean, variance)],
            declared_parameters(variance),
        ]

    def suff_stats(self, data, z, n_states):
        """(visits, sums, squared deviations from each column's mean, sum^2 / visits)."""
        visits, sums, squares = state_moments(z, data, n_states)
        share = sums * sums / np.maximum(visits, 1.0)[:, None]
        return np.broadcast_to(visits[:, None], sums.shape), sums, squares, share

    def sample_posterior(self, rng, stats, hyperparameters):
        """Means and log variances."""
        visits, sums, squares, share = stats
        location, count, shape, scale = hyperparameters
        n = np.maximum(visits, 1.0)
        between = share - sums * sums / n  # 0 where one column has the parameter to itself
        centre = sums / n
        total = count + visits
        scale = scale + 0.5 * (squares + np.maximum(between, 0.0))
        scale += 0.5 * count * visits / total * (centre - location) ** 2
        log_variance = np.log(scale) - log_gamma(rng, shape + 0.5 * visits)
        spread = np.exp(0.5 * log_variance) / np.sqrt(total)
        mean = (count * location + visits * centre) / total
        return mean + rng.standard_normal(mean.shape) * spread, log_variance

    def plug_in(self, moments, hyperparameters):
        """Mean, and the scale of the mean precision."""
        visits, centre, squares = moments
        location, count, shape, scale = hyperparameters
        squares = squares + count * visits / (count + visits) * (centre - location) ** 2
        spread = np.sqrt((scale + 0.5 * squares) / (shape + 0.5 * visits))
        return (count * location + visits * centre) / (count + visits), spread

    def log_evidence(self, moments, hyperparameters):
        """Student t."""
        visits, centre, squares = moments
        location, count, shape, scale = hyperparameters
        squares = squares + count * visits / (count + visits) * (centre - location) ** 2
        mean = 0.5 * np.log(count / (count + visits)).sum(axis=1)
        return mean + _log_t(visits, 0.5 * squares, shape, scale)

    def collapse(self, data, others, hyperparameters):
        """Student t."""
        return normal_inverse_gamma(data, *hyperparameters)


def _log_t(visits, half_squares, shape, scale):
    """Log evidence of Normal observations under an inverse-gamma variance, over columns."""
    after = shape + 0.5 * visits
    out = gammaln(after) - gammaln(shape) - shape * np.log1p(half_squares / scale)
    out -= 0.5 * visits * (LOG_2PI + np.log(scale + half_squares))
    return out.sum(axis=1)


def _prior_count(mean, variance):
    """Graph of s where the scale of the mean is sqrt(variance / s), else None."""
    _, scale = declared_parameters(mean)
    found = _monomial(scale, variance)
    if found is None or found[1] != 0.5:
        return None
    return found[0] ** -2.0


def _square(node):
    """Return x where a graph is sqrt(x) or x**0.5, else None."""
    op = getattr(node.owner, "op", None)
    kind = type(op.scalar_op) if isinstance(op, Elemwise) else None
    root = kind is Sqrt or (kind is Pow and constant_number(node.owner.inputs[1]) == 0.5)
    return node.owner.inputs[0] if root else None


def _monomial(node, variable):
    """(c, e) where a graph is c variable^e by products, quotients and powers, else None."""
    if node is variable:
        return pt.ones_like(variable), 1.0
    if not depends_on(node, variable):
        return node, 0.0
    op = node.owner.op
    if not isinstance(op, Elemwise):
        return None
    parts = [_monomial(x, variable) for x in node.owner.inputs]
    if None in parts:
        return None
    kind = type(op.scalar_op)
    if kind is Mul:
        return prod(c for c, _ in parts), sum(e for _, e in parts)
    if kind is TrueDiv:
        (c, e), (d, f) = parts
        return c / d, e - f
    if kind is Sqrt:
        [(c, e)] = parts
        return pt.sqrt(c), 0.5 * e
    if kind is Pow and constant_number(node.owner.inputs[1]) is not None:
        (c, e), _ = parts
        power = constant_number(node.owner.inputs[1])
        return c**power, power * e
    return None


@register_conditional
class NormalScale(Conditional):
    r"""Scale given the mean, of any prior: :math:`-n \log \sigma - Q / (2 \sigma^2)`.

    Q adds up the squared residuals about a mean that may differ at every time.
    """

    likelihood = NormalRV
    moving = (1,)

    def statistics(self, data, z, n_states, mean):
        """(visits, squared residuals)."""
        visits, squares = state_sums(z, (data - mean) ** 2.0, n_states)
        return np.broadcast_to(visits[:, None], squares.shape), squares

    def log_likelihood(self, scale, visits, squares):
        """See the class; a Q of 0 stays one where the scale's square rounds to 0."""
        squared = pt.switch(pt.eq(squares, 0.0), 0.0, squares / scale**2.0)
        return -visits * pt.log(scale) - 0.5 * squared


@register_conditional
class NormalLocation(Conditional):
    r"""Mean given the scale, of any prior: :math:`-P (\mu - c)^2 / 2`.

    P adds up the precisions and c is the mean of the data weighted by them.
    """

    likelihood = NormalRV
    moving = (0,)

    def statistics(self, data, z, n_states, scale):
        """(P, c)."""
        weights = np.ascontiguousarray(scale**-2.0)
        precision = state_sums(z, weights, n_states)[1]
        weighted = state_sums(z, weights * data, n_states)[1]
        return precision, weighted / np.where(precision > 0.0, precision, 1.0)

    def log_likelihood(self, mean, precision, centre):
        """See the class."""
        return -0.5 * precision * (mean - centre) ** 2.0
