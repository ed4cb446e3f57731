"""Random variables of the priors: hidden states, weights, transition rows, self-persistence.

They differ from PyMC's own in two ways. Draws are made in log space, because Dirichlet
parameters of 1e-100 are ordinary here (see ``kernels/random.py``); and a coordinate that has
underflowed to exactly 0 is left out of the log-density, which would otherwise be infinite.
"""

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.continuous import UnitContinuous
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import Continuous, Discrete
from pymc.distributions.shape_utils import rv_size_is_none
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable

from pymc_dshdp.kernels.random import beta_draw, dirichlet_draw
from pymc_dshdp.kernels.simulation import simulate_path

__all__ = [
    "HiddenPath",
    "SelfPersistence",
    "StickFractions",
    "SymmetricWeights",
    "TransitionRows",
    "stick_breaking_weights",
]


def _draw_over_batch(draw, core_ndims, params, size, core_shape, dtype):
    """Call ``draw(*core_params, out)`` over the batch shape of the parameters or ``size``."""
    batch = np.broadcast_shapes(*(p.shape[: p.ndim - n] for p, n in zip(params, core_ndims)))
    if size is not None:
        batch = tuple(size)
    params = [np.broadcast_to(p, batch + p.shape[p.ndim - n :]) for p, n in zip(params, core_ndims)]
    out = np.empty(batch + core_shape, dtype)
    for index in np.ndindex(batch):
        cores = [p[index] for p in params]
        draw(*(np.ascontiguousarray(c) if c.ndim else c.item() for c in cores), out[(*index, ...)])
    return out


def _dirichlet_logp(value, concentration):
    """Dirichlet log-density without the coordinates that underflowed to 0 in double precision."""
    present = pt.gt(value, 0.0)
    a = pt.switch(present, concentration, 1.0)
    x = pt.switch(present, value, 1.0)
    logp = pt.sum((a - 1.0) * pt.log(x) - pt.gammaln(a), axis=-1)
    logp = logp + pt.gammaln(pt.sum(concentration, axis=-1))
    on_simplex = pt.and_(
        pt.all(pt.ge(value, 0.0), axis=-1), pt.lt(pt.abs(pt.sum(value, axis=-1) - 1.0), 1e-6)
    )
    return pt.switch(on_simplex, logp, -np.inf)


def _uniform_simplex(size, n_states):
    shape = [n_states] if rv_size_is_none(size) else [*size, n_states]
    return pt.full(shape, 1.0 / n_states)


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
        L = int(np.max(n_states))

        def draw(gamma, n_states, out):
            dirichlet_draw(rng, np.full(L, gamma / L), out)

        return _draw_over_batch(draw, (0, 0), (gamma, n_states), size, (L,), "float64")


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
        return _uniform_simplex(size, n_states.squeeze())

    def logp(value, gamma, n_states):
        """Log-density; see the class."""
        concentration = (gamma / n_states)[..., None] * pt.ones_like(value)
        return check_parameters(
            _dirichlet_logp(value, concentration), pt.gt(gamma, 0.0), msg="gamma > 0"
        )


class TransitionRowsRV(RandomVariable):
    """Rows ~ Dir(alpha beta)."""

    name = "transition_rows"
    signature = "(),(l)->(l)"
    dtype = "floatX"
    _print_name = ("TransitionRows", "\\operatorname{TransitionRows}")

    @classmethod
    def rng_fn(cls, rng, alpha, beta, size):
        def draw(alpha, beta, out):
            dirichlet_draw(rng, alpha * beta, out)

        return _draw_over_batch(draw, (0, 1), (alpha, beta), size, beta.shape[-1:], "float64")


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
        return _uniform_simplex(size, beta.shape[-1])

    def logp(value, alpha, beta):
        """Log-density; see the class."""
        return check_parameters(
            _dirichlet_logp(value, alpha[..., None] * beta), pt.gt(alpha, 0.0), msg="alpha > 0"
        )


class SelfPersistenceRV(RandomVariable):
    """kappa ~ Beta(phi eta^-3, (1 - phi) eta^-3)."""

    name = "self_persistence"
    signature = "(),()->()"
    dtype = "floatX"
    _print_name = ("SelfPersistence", "\\operatorname{SelfPersistence}")

    @classmethod
    def rng_fn(cls, rng, phi, eta, size):
        def draw(phi, eta, out):
            c = eta**-3.0
            out[...] = beta_draw(rng, phi * c, (1.0 - phi) * c)

        return _draw_over_batch(draw, (0, 0), (phi, eta), size, (), "float64")


@numba_core_rv_funcify.register(SelfPersistenceRV)
def _self_persistence_numba(op, node):
    @numba_njit
    def draw(rng, phi, eta):
        c = eta**-3.0
        return beta_draw(rng, phi * c, (1.0 - phi) * c)

    return draw, 1


class SelfPersistence(UnitContinuous):
    r"""Self-persistence :math:`\kappa_j \sim \mathrm{Beta}(\phi\eta^{-3}, (1-\phi)\eta^{-3})`.

    Parameters
    ----------
    phi : tensor_like of float
        Prior mean, 0 < phi < 1.
    eta : tensor_like of float
        Scale, eta > 0: the two Beta parameters add up to eta^-3.
    """

    rv_op = SelfPersistenceRV()

    @classmethod
    def dist(cls, phi, eta, **kwargs):
        """Build the variable; see the class."""
        phi = pt.as_tensor_variable(phi, dtype="floatX")
        return super().dist([phi, pt.as_tensor_variable(eta, dtype="floatX")], **kwargs)

    def support_point(rv, size, phi, eta):
        """Return the starting value."""
        # The mean, not a draw: a draw may round to 1, whose log-odds are infinite.
        return phi if rv_size_is_none(size) else pt.full(size, phi)

    def logp(value, phi, eta):
        """Log-density; see the class."""
        c = eta**-3.0
        a, b = phi * c, (1.0 - phi) * c
        # log1p(-sigmoid(x)) is rewritten to -softplus(x), finite where kappa rounds to 1.
        logp = (a - 1.0) * pt.log(value) + (b - 1.0) * pt.log1p(-value)
        logp = logp + pt.gammaln(c) - pt.gammaln(a) - pt.gammaln(b)
        inside = pt.and_(pt.ge(value, 0.0), pt.le(value, 1.0))
        return check_parameters(
            pt.switch(inside, logp, -np.inf),
            pt.gt(phi, 0.0),
            pt.lt(phi, 1.0),
            pt.gt(eta, 0.0),
            msg="0 < phi < 1, eta > 0",
        )


class StickFractionsRV(RandomVariable):
    """v ~ Beta(1, gamma)."""

    name = "stick_fractions"
    signature = "()->()"
    dtype = "floatX"
    _print_name = ("StickFractions", "\\operatorname{StickFractions}")

    @classmethod
    def rng_fn(cls, rng, gamma, size):
        def draw(gamma, out):
            out[...] = beta_draw(rng, 1.0, gamma)

        return _draw_over_batch(draw, (0,), (gamma,), size, (), "float64")


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


class HiddenPathRV(RandomVariable):
    """z_1 ~ pi_init of each sequence, z_t ~ kappa_j delta_j + (1 - kappa_j) pi_bar_j."""

    name = "hidden_path"
    signature = "(l),(l,l),(l),(n)->(t)"
    dtype = "int64"
    _print_name = ("HiddenPath", "\\operatorname{HiddenPath}")

    def _supp_shape_from_params(self, dist_params, param_shapes=None):
        return [_core(dist_params[3], 1).sum()]

    @classmethod
    def rng_fn(cls, rng, initial, pi_bar, kappa, lengths, size):
        T = int(lengths.reshape(-1, lengths.shape[-1])[0].sum())

        def draw(initial, pi_bar, kappa, lengths, out):
            simulate_path(rng, initial, pi_bar, kappa, lengths, out)

        params = (initial, pi_bar, kappa, lengths)
        return _draw_over_batch(draw, (1, 2, 1, 1), params, size, (T,), "int64")


@numba_core_rv_funcify.register(HiddenPathRV)
def _hidden_path_numba(op, node):
    dtype = np.dtype(op.dtype)

    @numba_njit
    def draw(rng, initial, pi_bar, kappa, lengths):
        out = np.empty(lengths.sum(), dtype)
        simulate_path(rng, initial, pi_bar, kappa, lengths, out)
        return out

    return draw, 1


def _core(param, ndim):
    """Strip the batch axes of length one that a ``size`` puts before a parameter."""
    return param[(0,) * (param.ndim - ndim)]


class HiddenPath(Discrete):
    r"""Hidden states of sequences laid end to end, w marginalised.

    .. math::

       p(z) = \prod_n \bar\pi_{0, z_1} \prod_{t > 1}
              \left[\kappa_j \delta_{j, z_t} + (1 - \kappa_j) \bar\pi_{j, z_t}\right]_{j = z_{t-1}}

    Parameters
    ----------
    initial : tensor_like of float, shape (L,)
        pi_init.
    pi_bar : tensor_like of float, shape (L, L)
    kappa : tensor_like of float, shape (L,)
    lengths : tensor_like of int, shape (N,)
        Sequence lengths; their sum is the length of the last axis.
    """

    rv_op = HiddenPathRV()

    @classmethod
    def dist(cls, initial, pi_bar, kappa, lengths, **kwargs):
        """Build the variable; see the class."""
        params = [pt.as_tensor_variable(p) for p in (initial, pi_bar, kappa, lengths)]
        return super().dist(params, **kwargs)

    def support_point(rv, size, initial, pi_bar, kappa, lengths):
        """Return the starting value."""
        # The last state throughout: the sign for the sampler to start from the data.
        return pt.zeros_like(rv) + (initial.shape[-1] - 1).astype(rv.dtype)

    def logp(value, initial, pi_bar, kappa, lengths):
        """Log-density; see the class."""
        initial, pi_bar = _core(initial, 1), _core(pi_bar, 2)
        kappa, lengths = _core(kappa, 1), _core(lengths, 1)
        first = pt.cumsum(lengths) - lengths
        is_first = pt.zeros(value.shape[-1], dtype="bool")[first].set(np.array(True))
        at_first = pt.log(initial)[value[..., first]].sum(axis=-1)

        previous, current = value[..., :-1], value[..., 1:]
        stays = pt.eq(previous, current)
        switch_p = pi_bar[previous, current]
        # Gradients need both branches finite: a self-transition may have pi_bar_jj = 0.
        switched = pt.log1p(-kappa)[previous] + pt.log(pt.switch(stays, 1.0, switch_p))
        stayed = pt.switch(stays, kappa[previous] + (1.0 - kappa[previous]) * switch_p, 1.0)
        step = pt.switch(stays, pt.log(stayed), switched)
        after_first = pt.switch(is_first[1:], 0.0, step).sum(axis=-1)

        valid = pt.and_(pt.ge(value, 0), pt.lt(value, initial.shape[0])).all(axis=-1)
        return pt.switch(valid, at_first + after_first, -np.inf)
