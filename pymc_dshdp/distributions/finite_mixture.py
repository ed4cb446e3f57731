"""Weights of a mixture of finite mixtures: which states are active, and their weights."""

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import Continuous, Discrete
from pymc.distributions.shape_utils import rv_size_is_none
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable

from pymc_dshdp.distributions._common import dirichlet_logp, draw_over_batch
from pymc_dshdp.kernels.finite_mixture import draw_active, draw_number, each_concentration
from pymc_dshdp.kernels.random import dirichlet_draw


class ActiveStatesRV(RandomVariable):
    """K ~ p(K), then K of L labels, all sets alike."""

    name = "active_states"
    signature = "(l)->(l)"
    dtype = "int64"
    _print_name = ("ActiveStates", "\\operatorname{ActiveStates}")

    @classmethod
    def rng_fn(cls, rng, log_probabilities, size):
        """Draw in NumPy; the numba sampler is registered below."""
        L = log_probabilities.shape[-1]

        def draw(log_probabilities, out):
            number = draw_number(rng, log_probabilities)
            out[...] = draw_active(rng, number, np.zeros(L, np.bool_))

        return draw_over_batch(draw, (1,), (log_probabilities,), size, (L,), "int64")


@numba_core_rv_funcify.register(ActiveStatesRV)
def _active_states_numba(op, node):
    @numba_njit
    def draw(rng, log_probabilities):
        number = draw_number(rng, log_probabilities)
        return draw_active(rng, number, np.zeros(log_probabilities.shape[0], np.bool_))

    return draw, 1


class ActiveStates(Discrete):
    r"""Which states are active: 1 or 0 for each, :math:`p(K) / \binom{L}{K}` of K ones.

    Parameters
    ----------
    log_probabilities : tensor_like of float, shape (L,)
        log p(K) of K = 1..L, normalised. The last, from which chains start, is finite.
    """

    rv_op = ActiveStatesRV()

    @classmethod
    def dist(cls, log_probabilities, **kwargs):
        """Build the variable; see the class."""
        return super().dist([pt.as_tensor_variable(log_probabilities, dtype="floatX")], **kwargs)

    def support_point(rv, size, log_probabilities):
        """Return the starting value: every state is active, so that any path is possible."""
        L = log_probabilities.shape[-1]
        return pt.ones([L] if rv_size_is_none(size) else [*size, L], dtype="int64")

    def logp(value, log_probabilities):
        """Log-density; see the class."""
        L, number = log_probabilities.shape[-1], value.sum(axis=-1)
        valid = pt.and_(pt.all(pt.or_(pt.eq(value, 0), pt.eq(value, 1)), axis=-1), pt.ge(number, 1))
        number = pt.switch(valid, number, 1)
        log_p = log_probabilities.reshape((-1, L))[0][number - 1]
        log_sets = pt.gammaln(L + 1) - pt.gammaln(number + 1) - pt.gammaln(L - number + 1)
        return pt.switch(valid, log_p - log_sets, -np.inf)


class ActiveWeightsRV(RandomVariable):
    """beta ~ Dir(c, ..., c) on the active states, 0 elsewhere; c = gamma or gamma / K."""

    name = "active_weights"
    signature = "(),(l),()->(l)"
    dtype = "floatX"
    _print_name = ("ActiveWeights", "\\operatorname{ActiveWeights}")

    @classmethod
    def rng_fn(cls, rng, gamma, active, static, size):
        """Draw in NumPy; the numba sampler is registered below."""

        def draw(gamma, active, static, out):
            dirichlet_draw(rng, active * each_concentration(gamma, active.sum(), static), out)

        shape = active.shape[-1:]
        return draw_over_batch(draw, (0, 1, 0), (gamma, active, static), size, shape, "float64")


@numba_core_rv_funcify.register(ActiveWeightsRV)
def _active_weights_numba(op, node):
    @numba_njit
    def draw(rng, gamma, active, static):
        out = np.empty(active.shape[0])
        dirichlet_draw(rng, active * each_concentration(gamma, active.sum(), static), out)
        return out

    return draw, 1


class ActiveWeights(Continuous):
    r"""Weights :math:`\beta \sim \mathrm{Dir}(c, \dots, c)` on the active states, 0 elsewhere.

    Which states are active is told by ``active`` alone: a weight may underflow to 0.

    Parameters
    ----------
    gamma : tensor_like of float
        Concentration (gamma > 0).
    active : tensor_like of int, shape (L,)
        1 where active, else 0.
    static : tensor_like of bool
        c is gamma, and else gamma / K with K states active.
    """

    rv_op = ActiveWeightsRV()

    @classmethod
    def dist(cls, gamma, active, static, **kwargs):
        """Build the variable; see the class."""
        gamma = pt.as_tensor_variable(gamma, dtype="floatX")
        static = pt.as_tensor_variable(np.asarray(static) if isinstance(static, bool) else static)
        return super().dist([gamma, pt.as_tensor_variable(active), static], **kwargs)

    def support_point(rv, size, gamma, active, static):
        """Return the starting value."""
        even = active / active.sum(axis=-1, keepdims=True)
        return even if rv_size_is_none(size) else pt.alloc(even, *size, active.shape[-1])

    def logp(value, gamma, active, static):
        """Log-density; see the class."""
        each = pt.switch(static, gamma, gamma / active.sum(axis=-1))
        inside = pt.all(pt.or_(pt.eq(active, 1), pt.eq(value, 0.0)), axis=-1)
        logp = dirichlet_logp(value, each[..., None] * active)
        return check_parameters(
            pt.switch(inside, logp, -np.inf), pt.gt(gamma, 0.0), msg="gamma > 0"
        )
