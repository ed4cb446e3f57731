"""The hidden path, w marginalised."""

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import Discrete
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable

from pymc_dshdp.distributions._common import core, draw_over_batch
from pymc_dshdp.kernels.simulation import simulate_path


class HiddenPathRV(RandomVariable):
    """z_1 ~ pi_init of each sequence, z_t ~ kappa_j delta_j + (1 - kappa_j) pi_bar_j."""

    name = "hidden_path"
    signature = "(l),(l,l),(l),(n)->(t)"
    dtype = "int64"
    _print_name = ("HiddenPath", "\\operatorname{HiddenPath}")

    def _supp_shape_from_params(self, dist_params, param_shapes=None):
        return [core(dist_params[3], 1).sum()]

    @classmethod
    def rng_fn(cls, rng, initial, pi_bar, kappa, lengths, size):
        """Draw in NumPy; the numba sampler is registered below."""
        T = int(lengths.reshape(-1, lengths.shape[-1])[0].sum())

        def draw(initial, pi_bar, kappa, lengths, out):
            simulate_path(rng, initial, pi_bar, kappa, lengths, out)

        params = (initial, pi_bar, kappa, lengths)
        return draw_over_batch(draw, (1, 2, 1, 1), params, size, (T,), "int64")


@numba_core_rv_funcify.register(HiddenPathRV)
def _hidden_path_numba(op, node):
    dtype = np.dtype(op.dtype)

    @numba_njit
    def draw(rng, initial, pi_bar, kappa, lengths):
        out = np.empty(lengths.sum(), dtype)
        simulate_path(rng, initial, pi_bar, kappa, lengths, out)
        return out

    return draw, 1


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
        initial, pi_bar = core(initial, 1), core(pi_bar, 2)
        kappa, lengths = core(kappa, 1), core(lengths, 1)
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
