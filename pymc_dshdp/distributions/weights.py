"""Weights of the states and rows of the switching distribution."""

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.continuous import UnitContinuous
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import Continuous
from pymc.distributions.shape_utils import rv_size_is_none
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable

from pymc_dshdp.distributions._common import dirichlet_logp, draw_over_batch, uniform_simplex
from pymc_dshdp.kernels.random import beta_draw, dirichlet_draw


class SymmetricWeightsRV(RandomVariable):
    """beta ~ Dir(gamma / L, ..., gamma / L)."""

    name = "symmetric_weights"
    signature = "(),()->(l)"
    dtype = "floatX"
    _print_name = ("SymmetricWeights", "\\operatorname{SymmetricWeights}")

    def _supp_shape_from_params(self, dist_params, param_shapes=None):
        return [dist_params[1].squeeze()]

    @classmethod
    def rng_fn(cls, rng, gamma, n_states, size):
        """Draw in NumPy; the numba sampler is registered below."""
        L = int(np.max(n_states))

        def draw(gamma, n_states, out):
            dirichlet_draw(rng, np.full(L, gamma / L), out)

        return draw_over_batch(draw, (0, 0), (gamma, n_states), size, (L,), "float64")


@numba_core_rv_funcify.register(SymmetricWeightsRV)
def _symmetric_weights_numba(op, node):
    @numba_njit
    def draw(rng, gamma, n_states):
        out = np.empty(n_states)
        dirichlet_draw(rng, np.full(n_states, gamma / n_states), out)
        return out

    return draw, 1


class SymmetricWeights(Continuous):
    r"""Weak-limit weights :math:`\beta \sim \mathrm{Dir}(\gamma/L, \dots, \gamma/L)`.

    Parameters
    ----------
    gamma : tensor_like of float
        Concentration (gamma > 0).
    n_states : int
        L, the length of the result.
    """

    rv_op = SymmetricWeightsRV()

    @classmethod
    def dist(cls, gamma, n_states, **kwargs):
        """Build the variable; see the class."""
        gamma = pt.as_tensor_variable(gamma, dtype="floatX")
        return super().dist([gamma, pt.as_tensor_variable(n_states, dtype="int64")], **kwargs)

    def support_point(rv, size, gamma, n_states):
        """Return the starting value."""
        return uniform_simplex(size, n_states.squeeze())

    def logp(value, gamma, n_states):
        """Log-density; see the class."""
        concentration = (gamma / n_states)[..., None] * pt.ones_like(value)
        return check_parameters(
            dirichlet_logp(value, concentration), pt.gt(gamma, 0.0), msg="gamma > 0"
        )


class TransitionRowsRV(RandomVariable):
    """Rows ~ Dir(alpha beta)."""

    name = "transition_rows"
    signature = "(),(l)->(l)"
    dtype = "floatX"
    _print_name = ("TransitionRows", "\\operatorname{TransitionRows}")

    @classmethod
    def rng_fn(cls, rng, alpha, beta, size):
        """Draw in NumPy; the numba sampler is registered below."""

        def draw(alpha, beta, out):
            dirichlet_draw(rng, alpha * beta, out)

        return draw_over_batch(draw, (0, 1), (alpha, beta), size, beta.shape[-1:], "float64")


@numba_core_rv_funcify.register(TransitionRowsRV)
def _transition_rows_numba(op, node):
    @numba_njit
    def draw(rng, alpha, beta):
        out = np.empty(beta.shape[0])
        dirichlet_draw(rng, alpha * beta, out)
        return out

    return draw, 1


class TransitionRows(Continuous):
    r"""Rows :math:`\bar\pi_j \sim \mathrm{Dir}(\alpha \beta)` of the switching distribution.

    Parameters
    ----------
    alpha : tensor_like of float
        Concentration (alpha > 0).
    beta : tensor_like of float, shape (..., L)
        Weights on the simplex; a weight of exactly 0 gives entries of exactly 0.
    """

    rv_op = TransitionRowsRV()

    @classmethod
    def dist(cls, alpha, beta, **kwargs):
        """Build the variable; see the class."""
        alpha = pt.as_tensor_variable(alpha, dtype="floatX")
        return super().dist([alpha, pt.as_tensor_variable(beta)], **kwargs)

    def support_point(rv, size, alpha, beta):
        """Return the starting value."""
        present = pt.gt(beta, 0.0)  # uniform over what is possible
        flat = present / present.sum(axis=-1, keepdims=True)
        return flat if rv_size_is_none(size) else pt.alloc(flat, *size, beta.shape[-1])

    def logp(value, alpha, beta):
        """Log-density; see the class."""
        return check_parameters(
            dirichlet_logp(value, alpha[..., None] * beta), pt.gt(alpha, 0.0), msg="alpha > 0"
        )


class StickFractionsRV(RandomVariable):
    """v ~ Beta(1, gamma)."""

    name = "stick_fractions"
    signature = "()->()"
    dtype = "floatX"
    _print_name = ("StickFractions", "\\operatorname{StickFractions}")

    @classmethod
    def rng_fn(cls, rng, gamma, size):
        """Draw in NumPy; the numba sampler is registered below."""

        def draw(gamma, out):
            out[...] = beta_draw(rng, 1.0, gamma)

        return draw_over_batch(draw, (0,), (gamma,), size, (), "float64")


@numba_core_rv_funcify.register(StickFractionsRV)
def _stick_fractions_numba(op, node):
    @numba_njit
    def draw(rng, gamma):
        return beta_draw(rng, 1.0, gamma)

    return draw, 1


class StickFractions(UnitContinuous):
    r"""Fractions :math:`v_k \sim \mathrm{Beta}(1, \gamma)` broken off the remaining stick.

    Parameters
    ----------
    gamma : tensor_like of float
        Concentration (gamma > 0).
    """

    rv_op = StickFractionsRV()

    @classmethod
    def dist(cls, gamma, **kwargs):
        """Build the variable; see the class."""
        return super().dist([pt.as_tensor_variable(gamma, dtype="floatX")], **kwargs)

    def support_point(rv, size, gamma):
        """Return the starting value."""
        mean = 1.0 / (1.0 + gamma)
        return mean if rv_size_is_none(size) else pt.full(size, mean)

    def logp(value, gamma):
        """Log-density; see the class."""
        inside = pt.and_(pt.ge(value, 0.0), pt.le(value, 1.0))
        logp = pt.log(gamma) + (gamma - 1.0) * pt.log1p(-value)
        return check_parameters(
            pt.switch(inside, logp, -np.inf), pt.gt(gamma, 0.0), msg="gamma > 0"
        )


def stick_breaking_weights(fractions):
    """beta_k = v_k prod_{l<k} (1 - v_l), v_L = 1, from fractions of shape (L - 1,)."""
    log_remaining = pt.cumsum(pt.log1p(-fractions))
    first = pt.concatenate([pt.log(fractions), [0.0]])
    return pt.exp(first + pt.concatenate([[0.0], log_remaining]))
