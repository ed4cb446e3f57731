"""Switching vector autoregressions with matrix-normal inverse-Wishart priors."""

from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import Continuous
from pymc.logprob.abstract import _logprob
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.linalg import cholesky
from pytensor.tensor.random.op import RandomVariable

from pymc_dshdp.distributions._common import core, draw_over_batch
from pymc_dshdp.distributions.matrices import (
    InverseWishartRV,
    MatrixNormalRV,
    log_determinant,
    packed_cholesky,
    solve_lower,
)
from pymc_dshdp.emissions._gaussian import (
    draw_posterior,
    gaussian_table,
    log_regression_evidence,
    lower_factor,
    prepared_prior,
    prior_factor,
    typical_regression,
)
from pymc_dshdp.emissions.base import Family, Parameter, register
from pymc_dshdp.graph.walks import declared_parameters
from pymc_dshdp.kernels.emissions_matrix import simulate_var
from pymc_dshdp.kernels.emissions_statistics import pooled_factors, triangular_statistics
from pymc_dshdp.kernels.predictive_gaussian import regression

__all__ = ["Autoregression", "SwitchingVARDist"]


class SwitchingVARRV(RandomVariable):
    """Autoregressive sequences end to end, given coefficients and covariances at each time."""

    name = "switching_var"
    signature = "(t,d,p),(t,d,d),(n,q,d),(n)->(t,d)"
    dtype = "floatX"
    _print_name = ("SwitchingVAR", "\\operatorname{SwitchingVAR}")

    def _supp_shape_from_params(self, dist_params, param_shapes=None):
        shape = dist_params[0].shape if param_shapes is None else param_shapes[0]
        return [shape[-3], shape[-2]]

    @classmethod
    def rng_fn(cls, rng, coefficients, covariances, initial, lengths, size):
        def draw(coefficients, covariances, initial, lengths, out):
            simulate_var(rng, coefficients, covariances, initial, lengths, out)

        params = (coefficients, covariances, initial, lengths)
        shape = coefficients.shape[-3:-1]
        return draw_over_batch(draw, (3, 3, 3, 1), params, size, shape, "float64")


@numba_core_rv_funcify.register(SwitchingVARRV)
def _switching_var_numba(op, node):
    @numba_njit
    def draw(rng, coefficients, covariances, initial, lengths):
        out = np.empty((coefficients.shape[0], coefficients.shape[1]))
        simulate_var(rng, coefficients, covariances, initial, lengths, out)
        return out

    return draw, 1


class SwitchingVARDist(Continuous):
    """See ``SwitchingVAR``, which declares it; the log-density has one element per time."""

    rv_op = SwitchingVARRV()

    @classmethod
    def dist(cls, coefficients, covariances, initial, lengths, **kwargs):
        """Build the variable.

        Parameters
        ----------
        coefficients : tensor of shape (..., T, d, p)
        covariances : tensor of shape (..., T, d, d)
        initial : tensor of shape (..., N, lags, d)
        lengths : tensor of int, shape (N,)
        """
        params = (coefficients, covariances, initial, lengths)
        return super().dist([pt.as_tensor_variable(p) for p in params], **kwargs)

    def support_point(rv, size, coefficients, covariances, initial, lengths):
        """Return the starting value."""
        return pt.zeros_like(rv)

    def logp(value, coefficients, covariances, initial, lengths):
        """Log-density of each time point; 0 where it is given."""
        lags, (d, p) = initial.type.shape[-2], coefficients.type.shape[-2:]
        regressors = [_lagged(value, lag) for lag in range(1, lags + 1)]
        if p > lags * d:
            regressors.append(pt.ones_like(value[..., :1]))
        x = pt.concatenate(regressors, axis=-1)
        residual = value - pt.sum(coefficients * x[..., None, :], axis=-1)
        root = cholesky(covariances, lower=True)
        log_det, positive = log_determinant(root)
        whitened = solve_lower(root, residual[..., None])
        logp = -0.5 * (d * np.log(2.0 * np.pi) + log_det + pt.sum(whitened**2, axis=(-2, -1)))
        given = pt.lt(_time_in_sequence(core(lengths, 1), value.shape[-2]), lags)
        logp = pt.switch(given, 0.0, pt.switch(positive, logp, -np.inf))
        return check_parameters(logp, pt.all(positive), msg="positive definite covariance")


@_logprob.register(SwitchingVARRV)
def _switching_var_logp(op, values, rng, size, *parameters, **kwargs):
    # Without the resizing that PyMC adds for "size": elements have an axis of time after it.
    return SwitchingVARDist.logp(*values, *parameters)


def _lagged(value, lag):
    return pt.concatenate([pt.zeros_like(value[..., :lag, :]), value[..., :-lag, :]], axis=-2)


def _time_in_sequence(lengths, n_times):
    starts = pt.cumsum(lengths) - lengths
    is_first = pt.zeros(n_times, dtype="int64")[starts].set(np.array(1))
    return pt.arange(n_times) - starts[pt.cumsum(is_first) - 1]


class _Regression(NamedTuple):
    """Prepared data.

    Attributes
    ----------
    n_times : int
    active : ndarray of shape (R,)
        Times that have all their predecessors.
    y_and_x, x_and_y : ndarray of shape (R, d + p)
    """

    n_times: int
    active: np.ndarray
    y_and_x: np.ndarray
    x_and_y: np.ndarray


@register
class Autoregression(Family):
    r"""``SwitchingVAR`` with a ``MatrixNormalInverseWishart`` prior.

    With :math:`K = V_0^{-1} + \sum x x'`, :math:`M = (M_0 V_0^{-1} + \sum y x') K^{-1}` and
    :math:`S = S_0 + \sum (y - M x)(y - M x)' + (M - M_0) V_0^{-1} (M - M_0)'`, sums over
    the times of a state:
    :math:`\Sigma_k \sim \mathrm{IW}(S, n_0 + n_k)`, :math:`A_k \sim \mathrm{MN}(M, \Sigma_k,
    K^{-1})`.
    """

    likelihood = SwitchingVARRV
    parameters = (
        Parameter(0, MatrixNormalRV, "natural"),
        Parameter(1, InverseWishartRV, "cholesky"),
    )
    data_parameters = (2, 3)
    core_time = 1

    def in_support(self, y, data_parameters, shapes):
        """Finite vectors."""
        return np.isfinite(y)

    def prepare(self, y, data_parameters, shapes):
        """Build the regressors of every time that has its predecessors."""
        y = y[:, 0]
        T, d = y.shape
        p = shapes[0][-1]
        initial, lengths = data_parameters
        lags = initial.shape[-2]
        lengths = lengths.reshape(-1, lengths.shape[-1])[0].astype(int)
        lengths = np.tile(lengths, T // max(1, lengths.sum()))
        starts = np.cumsum(lengths) - lengths
        within = np.arange(T) - np.repeat(starts, lengths)
        active = np.flatnonzero(within >= lags)
        x = np.ones((active.size, p))
        for lag in range(lags):
            x[:, lag * d : (lag + 1) * d] = y[active - 1 - lag]
        y_and_x = np.concatenate([y[active], x], axis=1)
        return _Regression(T, active, y_and_x, np.concatenate([x, y[active]], axis=1))

    def rows(self, data, low, high):
        """Time points low..high - 1: those among them that have all their predecessors."""
        first, last = np.searchsorted(data.active, [low, high])
        part = slice(first, last)
        active = data.active[part] - low
        return _Regression(high - low, active, data.y_and_x[part], data.x_and_y[part])

    def select(self, data, times):
        """Those among the time points that have all their predecessors."""
        place = np.searchsorted(data.active, times)
        active = np.flatnonzero(np.searchsorted(data.active, times, side="right") > place)
        rows = place[active]
        return _Regression(len(times), active, data.y_and_x[rows], data.x_and_y[rows])

    def log_likelihoods(self, data, coefficients, covariances):
        """Squared whitened residuals and log determinants; 0 where y_t is given."""
        part = gaussian_table(data.y_and_x, coefficients[:, 0], covariances[:, 0])
        if data.active.size == data.n_times:
            return part
        table = np.zeros((data.n_times, part.shape[1]))
        table[data.active] = part
        table[:, np.isnan(part).any(axis=0)] = np.nan
        return table

    def joint(self, variables):
        """Whether the coefficients' rows have the noise covariance."""
        coefficients, covariances = variables
        return declared_parameters(coefficients)[1] is covariances

    def hyperparameters(self, mean, _, columns, scale, degrees):
        """(M0, V0, S0, n0)."""
        return [mean, columns, scale, degrees]

    def suff_stats(self, data, z, n_states):
        """(visits, triangular factor of the rows (x, y))."""
        visits, factors = triangular_statistics(z[data.active], data.x_and_y, n_states)
        return visits[:, None], factors[:, None]

    def sample_posterior(self, rng, stats, hyperparameters):
        """Coefficients, and packed Cholesky factors of the covariances."""
        visits, factors = (s[:, 0] for s in stats)
        mean, columns, scale, degrees = (h[:, 0] for h in hyperparameters)
        prior = prior_factor(mean, columns, scale)
        draw = draw_posterior(rng, factors, prior, degrees + visits, mean.shape[1])
        return draw[0][:, None], packed_cholesky(draw[1])[:, None]

    def pooled(self, one, two):
        """Add up visits, and join the factors."""
        return one[0] + two[0], pooled_factors(one[1][:, 0], two[1][:, 0])[:, None]

    def prepare_prior(self, hyperparameters):
        """Triangular factors."""
        return prepared_prior(*(h[:, 0] for h in hyperparameters))

    def plug_in(self, moments, hyperparameters):
        """Mean coefficients, and a covariance."""
        found = typical_regression([x[:, 0] for x in moments], *hyperparameters)
        return tuple(x[:, None] for x in found)

    def log_evidence(self, moments, hyperparameters):
        """Matrix-t."""
        return log_regression_evidence([x[:, 0] for x in moments], *hyperparameters)

    def collapse(self, data, others, hyperparameters):
        """Matrix-t: multivariate t given the regressors; times that are given have density 1."""
        mean, columns, scale, degrees = (h[:, 0] for h in hyperparameters)
        rows = np.full((data.n_times, data.x_and_y.shape[1]), np.nan)
        rows[data.active] = data.x_and_y
        factors = lower_factor(prior_factor(mean, columns, scale))
        return regression(rows, factors, degrees, columns.shape[1])
