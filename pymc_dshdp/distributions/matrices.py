"""Normal- and matrix-normal inverse-Wishart priors, batched over states."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import Continuous
from pymc.distributions.shape_utils import rv_size_is_none
from pymc.distributions.transforms import _default_transform
from pymc.logprob.transforms import Transform
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.linalg import cholesky, solve_triangular
from pytensor.tensor.random.op import RandomVariable

from pymc_dshdp.distributions._common import draw_over_batch
from pymc_dshdp.emissions.base import SCALES
from pymc_dshdp.kernels.emissions_matrix import inverse_wishart_draw, matrix_normal_draw

__all__ = [
    "CholeskyTransform",
    "InverseWishart",
    "MatrixNormal",
    "ScaledNormal",
    "declare_dims",
    "log_determinant",
    "packed_cholesky",
    "solve_lower",
]


def packed_cholesky(roots):
    """Values of ``CholeskyTransform`` from lower Cholesky factors of shape (..., d, d)."""
    i, j = np.tril_indices(roots.shape[-1])
    packed = roots[..., i, j]
    packed[..., i == j] = np.log(packed[..., i == j])
    return packed


class CholeskyTransform(Transform):
    """Covariances as rows of their lower Cholesky factor, the diagonal as logarithms.

    Parameters
    ----------
    d : int
    """

    name = "cholesky"
    ndim_supp = 2

    def __init__(self, d):
        self._rows, self._columns = np.tril_indices(d)
        self._diagonal = np.flatnonzero(self._rows == self._columns)
        self._d = d

    def forward(self, value, *inputs):
        """Pack a covariance."""
        packed = cholesky(pt.as_tensor(value), lower=True)[..., self._rows, self._columns]
        return pt.set_subtensor(packed[..., self._diagonal], pt.log(packed[..., self._diagonal]))

    def backward(self, value, *inputs):
        """Form the covariance."""
        root = self._root(pt.as_tensor(value))
        return root @ pt.swapaxes(root, -1, -2)

    def log_jac_det(self, value, *inputs):
        """Log determinant: log 2 each, and of L_ii the power d - i + 2, for i = 1, ..., d."""
        value = pt.as_tensor(value)
        powers = self._d + 1.0 - np.arange(self._d)
        return self._d * np.log(2.0) + pt.sum(value[..., self._diagonal] * powers, axis=-1)

    def _root(self, value):
        value = pt.set_subtensor(value[..., self._diagonal], pt.exp(value[..., self._diagonal]))
        zeros = pt.zeros((*value.shape[:-1], self._d, self._d), dtype=value.dtype)
        return pt.set_subtensor(zeros[..., self._rows, self._columns], value)


SCALES["cholesky"] = CholeskyTransform


def log_determinant(root):
    """Return the log determinant of a matrix from its Cholesky factor, and whether it has one."""
    diagonal = pt.diagonal(root, axis1=-2, axis2=-1)
    positive = pt.all(pt.gt(diagonal, 0.0), axis=-1)
    return 2.0 * pt.sum(pt.log(pt.switch(positive[..., None], diagonal, 1.0)), axis=-1), positive


def solve_lower(root, matrix):
    """Solve root x = matrix for a batch of lower triangular roots."""
    return solve_triangular(root, matrix, lower=True, b_ndim=2)


class InverseWishartRV(RandomVariable):
    """Sigma ~ IW(scale, degrees)."""

    name = "inverse_wishart"
    signature = "(d,d),()->(d,d)"
    dtype = "floatX"
    _print_name = ("InverseWishart", "\\operatorname{InverseWishart}")

    @classmethod
    def rng_fn(cls, rng, scale, degrees, size):
        def draw(scale, degrees, out):
            out[...] = inverse_wishart_draw(rng, scale, degrees)

        return draw_over_batch(draw, (2, 0), (scale, degrees), size, scale.shape[-2:], "float64")


@numba_core_rv_funcify.register(InverseWishartRV)
def _inverse_wishart_numba(op, node):
    @numba_njit
    def draw(rng, scale, degrees):
        return inverse_wishart_draw(rng, scale, degrees)

    return draw, 1


class InverseWishart(Continuous):
    r"""Covariance :math:`\Sigma \sim \mathrm{IW}(S, n)`, with mean :math:`S / (n - d - 1)`.

    .. math::

       p(\Sigma) \propto |\Sigma|^{-(n + d + 1) / 2} \exp(-\mathrm{tr}(S \Sigma^{-1}) / 2)

    Parameters
    ----------
    scale : tensor_like of float, shape (..., d, d)
        S, positive definite.
    degrees : tensor_like of float
        n > d - 1.
    """

    rv_op = InverseWishartRV()

    @classmethod
    def dist(cls, scale, degrees, **kwargs):
        """Build the variable; see the class."""
        params = [pt.as_tensor_variable(p, dtype="floatX") for p in (scale, degrees)]
        return super().dist(params, **kwargs)

    def support_point(rv, size, scale, degrees):
        """Return the starting value."""
        mode = scale / (degrees + scale.shape[-1] + 1.0)[..., None, None]
        return mode if rv_size_is_none(size) else pt.zeros_like(rv) + mode

    def logp(value, scale, degrees):
        """Log-density; see the class."""
        d = value.shape[-1]
        root, scale_root = cholesky(value, lower=True), cholesky(scale, lower=True)
        log_det, positive = log_determinant(root)
        scale_log_det, scale_positive = log_determinant(scale_root)
        broadcast = pt.zeros_like(root)
        trace = pt.sum(solve_lower(root, scale_root + broadcast) ** 2, axis=(-2, -1))
        half = 0.5 * degrees
        i = pt.arange(d)
        log_gamma = pt.sum(pt.gammaln(half[..., None] - 0.5 * i), axis=-1)
        log_gamma = log_gamma + 0.25 * d * (d - 1) * np.log(np.pi)
        logp = half * (scale_log_det - d * np.log(2.0)) - log_gamma
        logp = logp - 0.5 * (degrees + d + 1) * log_det - 0.5 * trace
        return check_parameters(
            pt.switch(positive, logp, -np.inf),
            scale_positive,
            pt.gt(degrees, d - 1),
            msg="positive definite scale, degrees > d - 1",
        )


@_default_transform.register(InverseWishartRV)
def _inverse_wishart_transform(op, rv):
    return CholeskyTransform(int(rv.type.shape[-1]))


class MatrixNormalRV(RandomVariable):
    """A ~ MN(mean, rows, columns)."""

    name = "matrix_normal"
    signature = "(d,p),(d,d),(p,p)->(d,p)"
    dtype = "floatX"
    _print_name = ("MatrixNormal", "\\operatorname{MatrixNormal}")

    @classmethod
    def rng_fn(cls, rng, mean, rows, columns, size):
        def draw(mean, rows, columns, out):
            out[...] = matrix_normal_draw(rng, mean, rows, columns)

        params = (mean, rows, columns)
        return draw_over_batch(draw, (2, 2, 2), params, size, mean.shape[-2:], "float64")


@numba_core_rv_funcify.register(MatrixNormalRV)
def _matrix_normal_numba(op, node):
    @numba_njit
    def draw(rng, mean, rows, columns):
        return matrix_normal_draw(rng, mean, rows, columns)

    return draw, 1


class MatrixNormal(Continuous):
    r"""Matrix :math:`A \sim \mathrm{MN}(M, \Sigma, V)`: cov(vec A) = V kron Sigma.

    Parameters
    ----------
    mean : tensor_like of float, shape (..., d, p)
    rows : tensor_like of float, shape (..., d, d)
        Sigma.
    columns : tensor_like of float, shape (..., p, p)
        V.
    """

    rv_op = MatrixNormalRV()

    @classmethod
    def dist(cls, mean, rows, columns, **kwargs):
        """Build the variable; see the class."""
        params = [pt.as_tensor_variable(p, dtype="floatX") for p in (mean, rows, columns)]
        return super().dist(params, **kwargs)

    def support_point(rv, size, mean, rows, columns):
        """Return the starting value."""
        return pt.zeros_like(rv) + mean

    def logp(value, mean, rows, columns):
        """Log-density; see the class."""
        d, p = value.shape[-2:]
        row_root, column_root = cholesky(rows, lower=True), cholesky(columns, lower=True)
        row_log_det, row_positive = log_determinant(row_root)
        column_log_det, column_positive = log_determinant(column_root)
        half = solve_lower(row_root, value - mean)
        whitened = solve_lower(column_root, pt.swapaxes(half, -1, -2))
        logp = -0.5 * (
            d * p * np.log(2.0 * np.pi)
            + p * row_log_det
            + d * column_log_det
            + pt.sum(whitened**2, axis=(-2, -1))
        )
        return check_parameters(
            pt.switch(row_positive, logp, -np.inf),
            column_positive,
            msg="positive definite columns",
        )


class ScaledNormalRV(RandomVariable):
    """mu ~ N(mean, covariance / count)."""

    name = "scaled_normal"
    signature = "(d),(d,d),()->(d)"
    dtype = "floatX"
    _print_name = ("ScaledNormal", "\\operatorname{ScaledNormal}")

    @classmethod
    def rng_fn(cls, rng, mean, covariance, count, size):
        def draw(mean, covariance, count, out):
            one = np.array([[1.0 / count]])
            out[...] = matrix_normal_draw(rng, mean[:, None], covariance, one)[:, 0]

        params = (mean, covariance, count)
        return draw_over_batch(draw, (1, 2, 0), params, size, mean.shape[-1:], "float64")


@numba_core_rv_funcify.register(ScaledNormalRV)
def _scaled_normal_numba(op, node):
    @numba_njit
    def draw(rng, mean, covariance, count):
        one = np.ones((1, 1)) / count
        return matrix_normal_draw(rng, mean.copy().reshape(-1, 1), covariance, one)[:, 0]

    return draw, 1


class ScaledNormal(Continuous):
    r"""Vector :math:`\mu \sim N(m, \Sigma / k)`.

    Parameters
    ----------
    mean : tensor_like of float, shape (..., d)
    covariance : tensor_like of float, shape (..., d, d)
    count : tensor_like of float
        k > 0, the number of observations that the prior is worth.
    """

    rv_op = ScaledNormalRV()

    @classmethod
    def dist(cls, mean, covariance, count, **kwargs):
        """Build the variable; see the class."""
        params = [pt.as_tensor_variable(p, dtype="floatX") for p in (mean, covariance, count)]
        return super().dist(params, **kwargs)

    def support_point(rv, size, mean, covariance, count):
        """Return the starting value."""
        return pt.zeros_like(rv) + mean

    def logp(value, mean, covariance, count):
        """Log-density; see the class."""
        d = value.shape[-1]
        root = cholesky(covariance, lower=True)
        log_det, positive = log_determinant(root)
        whitened = solve_lower(root, (value - mean)[..., None])
        logp = 0.5 * (
            d * pt.log(count / (2.0 * np.pi)) - log_det - count * pt.sum(whitened**2, axis=(-2, -1))
        )
        return check_parameters(
            pt.switch(positive, logp, -np.inf), pt.gt(count, 0.0), msg="count > 0"
        )


def declare_dims(name, n_states, dims, d, suffixes):
    """Coordinates (state, channel, channel_to) of a prior, declared where they are missing."""
    model = pm.modelcontext(None)
    if (n_states is None) == (dims is None):
        raise ValueError(
            f"{name}: give exactly one of n_states and dims; received n_states={n_states!r}, "
            f"dims={dims!r}"
        )
    whole = isinstance(n_states, (int, np.integer)) and not isinstance(n_states, bool)
    if dims is None and not (whole and n_states > 0):
        raise ValueError(f"{name}: n_states must be a positive integer, received {n_states!r}")
    dims = (dims,) if isinstance(dims, str) else tuple(dims or ())
    if len(dims) > 2:
        raise ValueError(f"{name}: dims are (state,) or (state, channel), received {dims!r}")
    state = dims[0] if dims else f"{name}_state"
    channel = dims[1] if len(dims) == 2 else f"{name}_channel"
    if dims and state not in model.coords:
        raise ValueError(f"{name}: dims={state!r} is not a coordinate of the model")
    wanted = {state: n_states, channel: d, **suffixes}
    for dim, size in wanted.items():
        if dim not in model.coords:
            model.add_coord(dim, np.arange(size))
    to = f"{channel}_to"
    if to not in model.coords:
        model.add_coord(to, model.coords[channel])
    if len(model.coords[channel]) != d:
        raise ValueError(
            f"{name}: the coordinate {channel!r} must have the {d} channels, received "
            f"{len(model.coords[channel])}"
        )
    return state, channel, to
