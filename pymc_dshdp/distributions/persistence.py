"""Self-persistence probabilities."""

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.continuous import UnitContinuous
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.shape_utils import rv_size_is_none
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable

from pymc_dshdp.distributions._common import draw_over_batch
from pymc_dshdp.kernels.random import beta_draw


def _beta_logp(value, mean, concentration):
    """Log-density of Beta(mean c, (1 - mean) c), finite where a value rounds to 1.

    log1p(-sigmoid(x)) is rewritten to -softplus(x) when the graph is compiled.
    """
    a, b = mean * concentration, (1.0 - mean) * concentration
    logp = (a - 1.0) * pt.log(value) + (b - 1.0) * pt.log1p(-value)
    logp = logp + pt.gammaln(concentration) - pt.gammaln(a) - pt.gammaln(b)
    inside = pt.and_(pt.ge(value, 0.0), pt.le(value, 1.0))
    return pt.switch(inside, logp, -np.inf)


class SelfPersistenceRV(RandomVariable):
    """kappa ~ Beta(phi eta^-3, (1 - phi) eta^-3)."""

    name = "self_persistence"
    signature = "(),()->()"
    dtype = "floatX"
    _print_name = ("SelfPersistence", "\\operatorname{SelfPersistence}")

    @classmethod
    def rng_fn(cls, rng, phi, eta, size):
        """Draw in NumPy; the numba sampler is registered below."""

        def draw(phi, eta, out):
            c = eta**-3.0
            out[...] = beta_draw(rng, phi * c, (1.0 - phi) * c)

        return draw_over_batch(draw, (0, 0), (phi, eta), size, (), "float64")


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
        return check_parameters(
            _beta_logp(value, phi, eta**-3.0),
            pt.gt(phi, 0.0),
            pt.lt(phi, 1.0),
            pt.gt(eta, 0.0),
            msg="0 < phi < 1, eta > 0",
        )


class StickyPersistenceRV(RandomVariable):
    """kappa ~ Beta(phi s, (1 - phi) s)."""

    name = "sticky_persistence"
    signature = "(),()->()"
    dtype = "floatX"
    _print_name = ("StickyPersistence", "\\operatorname{StickyPersistence}")

    @classmethod
    def rng_fn(cls, rng, phi, s, size):
        """Draw in NumPy; the numba sampler is registered below."""

        def draw(phi, s, out):
            out[...] = beta_draw(rng, phi * s, (1.0 - phi) * s)

        return draw_over_batch(draw, (0, 0), (phi, s), size, (), "float64")


@numba_core_rv_funcify.register(StickyPersistenceRV)
def _sticky_persistence_numba(op, node):
    @numba_njit
    def draw(rng, phi, s):
        return beta_draw(rng, phi * s, (1.0 - phi) * s)

    return draw, 1


class StickyPersistence(UnitContinuous):
    r"""Self-persistence :math:`\kappa_j \sim \mathrm{Beta}(\kappa_0, \alpha)`, the sticky tie.

    Parameters
    ----------
    phi : tensor_like of float
        kappa0 / (alpha + kappa0), 0 < phi < 1.
    s : tensor_like of float
        alpha + kappa0 > 0.
    """

    rv_op = StickyPersistenceRV()

    @classmethod
    def dist(cls, phi, s, **kwargs):
        """Build the variable; see the class."""
        phi = pt.as_tensor_variable(phi, dtype="floatX")
        return super().dist([phi, pt.as_tensor_variable(s, dtype="floatX")], **kwargs)

    def support_point(rv, size, phi, s):
        """Return the starting value."""
        return phi if rv_size_is_none(size) else pt.full(size, phi)

    def logp(value, phi, s):
        """Log-density; see the class."""
        return check_parameters(
            _beta_logp(value, phi, s),
            pt.gt(phi, 0.0),
            pt.lt(phi, 1.0),
            pt.gt(s, 0.0),
            msg="0 < phi < 1, s > 0",
        )
