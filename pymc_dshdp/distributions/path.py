"""The hidden path, w marginalised."""

from typing import NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.random import default_rng
from pymc.distributions.distribution import Discrete
from pymc.logprob.abstract import MeasurableOp, ValuedRV
from pytensor.gradient import disconnected_grad
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_dshdp.distributions._common import core, draw_over_batch
from pymc_dshdp.kernels.simulation import MARK, last_possible_path, simulate_path

NOTHING_KNOWN = np.empty(0, "int8")
SAME_MATRIX = np.empty(0, "int64")
UNKNOWN = -1


class PathParameters(NamedTuple):
    """What a ``HiddenPath`` holds, in the order of its inputs.

    Attributes
    ----------
    initial : tensor of shape (L,)
        pi_init.
    pi_bar : tensor of shape (G, L, L)
    kappa : tensor of shape (1, L), (T, L) or (batch, T, L)
    indices : tensor of int, shape (0,), (T,) or (batch, T)
        g(t), which of the G matrices leads to time t; empty where G = 1.
    lengths : tensor of int, shape (N,)
    known : tensor of int, shape (0,), (T,) or (batch, T)
    """

    initial: TensorVariable
    pi_bar: TensorVariable
    kappa: TensorVariable
    indices: TensorVariable
    lengths: TensorVariable
    known: TensorVariable


CORE_NDIMS = PathParameters(1, 3, 2, 1, 1, 1)


def path_parameters(z):
    """Parameters of a hidden path, a variable of ``HiddenPathRV``."""
    return PathParameters(*z.owner.inputs[2:])


class HiddenPathRV(RandomVariable):
    """z_1 ~ pi_init of each sequence, z_t ~ kappa_tj delta_j + (1 - kappa_tj) pi_bar_gj."""

    name = "hidden_path"
    signature = "(l),(g,l,l),(r,l),(i),(n),(m)->(t)"
    dtype = "int64"
    _print_name = ("HiddenPath", "\\operatorname{HiddenPath}")

    def _supp_shape_from_params(self, dist_params, param_shapes=None):
        return [core(PathParameters(*dist_params).lengths, 1).sum()]

    @classmethod
    def rng_fn(cls, rng, initial, pi_bar, kappa, index, lengths, known, size):
        """Draw in NumPy; the numba sampler is registered below."""
        T = int(lengths.reshape(-1, lengths.shape[-1])[0].sum())

        def draw(initial, pi_bar, kappa, index, lengths, known, out):
            simulate_path(rng, initial, pi_bar, kappa, index, lengths, known, out)

        params = (initial, pi_bar, kappa, index, lengths, known)
        return draw_over_batch(draw, CORE_NDIMS, params, size, (T,), "int64")


@numba_core_rv_funcify.register(HiddenPathRV)
def _hidden_path_numba(op, node):
    dtype = np.dtype(op.dtype)

    @numba_njit
    def draw(rng, initial, pi_bar, kappa, index, lengths, known):
        out = np.empty(lengths.sum(), dtype)
        simulate_path(rng, initial, pi_bar, kappa, index, lengths, known, out)
        return out

    return draw, 1


class HiddenPath(Discrete):
    r"""Hidden states of sequences laid end to end, w marginalised.

    .. math::

       p(z) = \prod_n \bar\pi_{0, z_1} \prod_{t > 1}
              \left[\kappa_{tj} \delta_{j, z_t} + (1 - \kappa_{tj}) \bar\pi_{g(t), j, z_t}
              \right]_{j = z_{t-1}}

    Where states are known the density is that of p restricted to the paths that have them (not
    normalised again: it is the joint density of the path and what is known of it), and draws are
    from p given the known states.

    Parameters
    ----------
    initial : tensor_like of float, shape (L,)
        pi_init.
    pi_bar : tensor_like of float, shape (L, L), or (G, L, L) with ``index``
    kappa : tensor_like of float, shape (L,), (T, L) or (batch, T, L)
        With an axis of time, row t is in force from t - 1 to t.
    lengths : tensor_like of int, shape (N,)
        Sequence lengths; their sum is the length of the last axis.
    known : tensor_like of int, shape (T,) or (batch, T), optional
        Known states, -1 where the state is not known.
    index : tensor_like of int, shape (T,) or (batch, T), optional
        g(t), which of the G matrices is in force from t - 1 to t.
    """

    rv_op = HiddenPathRV()

    @classmethod
    def dist(cls, initial, pi_bar, kappa, lengths, known=None, index=None, **kwargs):
        """Build the variable; see the class."""
        pi_bar, kappa = pt.as_tensor_variable(pi_bar), pt.as_tensor_variable(kappa)
        params = PathParameters(
            initial,
            pi_bar[None] if pi_bar.type.ndim == 2 else pi_bar,
            kappa[None] if kappa.type.ndim == 1 else kappa,
            SAME_MATRIX if index is None else index,
            lengths,
            NOTHING_KNOWN if known is None else known,
        )
        return super().dist([pt.as_tensor_variable(p) for p in params], **kwargs)

    def support_point(rv, size, initial, pi_bar, kappa, index, lengths, known):
        """Return the starting value."""
        # The sign for the sampler to start from the data: see ``MARK``.
        last, position = initial.shape[-1] - 1, pt.arange(rv.size).reshape(tuple(rv.shape))
        mark = pt.as_tensor(MARK)[position % len(MARK)]
        path = pt.zeros_like(rv) + pt.maximum(last - mark, 0).astype(rv.dtype)
        return path if _is_empty(known) else _with_known(known, path)

    def logp(value, initial, pi_bar, kappa, index, lengths, known):
        """Log-density; see the class."""
        rows = pi_bar
        initial, pi_bar, lengths = core(initial, 1), core(pi_bar, 3), core(lengths, 1)
        first = pt.cumsum(lengths) - lengths
        is_first = pt.zeros(value.shape[-1], dtype="bool")[first].set(np.array(True))
        # Index before the logarithm: the gradient of an unused zero would be 0 times infinity.
        at_first = pt.log(initial[value[..., first]]).sum(axis=-1)

        previous, current = value[..., :-1], value[..., 1:]
        stays = pt.eq(previous, current)
        matrix = 0 if _is_empty(index) else _along(index, value)[..., 1:]
        switch_p = pi_bar[matrix, previous, current]
        log_switch = _in_force(pt.log1p(-kappa), previous, _varies(kappa))
        kappa = _in_force(kappa, previous, _varies(kappa))
        # Gradients need both branches finite: a self-transition may have pi_bar_jj = 0 or kappa_j
        # = 1. The value of log(1 - kappa) is exact where kappa rounds to 1 (it is a function of
        # its logit then); its gradient is taken where it is used.
        unused = pt.or_(stays, pt.eq(kappa, 1.0))
        slope = pt.log1p(-pt.switch(unused, 0.0, kappa))
        log_switch = disconnected_grad(log_switch - slope) + slope
        switched = log_switch + pt.log(pt.switch(stays, 1.0, switch_p))
        stayed = pt.switch(stays, kappa + (1.0 - kappa) * switch_p, 1.0)
        step = pt.switch(stays, pt.log(stayed), switched)
        after_first = pt.switch(is_first[1:], 0.0, step).sum(axis=-1)

        valid = pt.and_(pt.ge(value, 0), pt.lt(value, initial.shape[0]))
        if not _is_empty(known):
            valid = pt.and_(valid, pt.eq(value, _with_known(known, value)))
        valid = valid.all(axis=-1)
        if _is_computed(rows):
            valid = pt.and_(valid, _are_probabilities(rows))
        return pt.switch(valid, at_first + after_first, -np.inf)


class PossiblePathRV(HiddenPathRV):
    """A hidden path some of whose transitions may have probability 0."""

    name = "possible_path"


class PossiblePath(HiddenPath):
    """As ``HiddenPath``, with a starting value that is possible where some transitions are not."""

    rv_op = PossiblePathRV()

    def support_point(rv, size, *parameters):
        """Return the starting value."""
        rng = pytensor.shared(default_rng(0))  # that nothing draws from
        return LastPossiblePathRV().make_node(rng, size, *parameters).outputs[1]


class LastPossiblePathRV(HiddenPathRV):
    """The path that ``last_possible_path`` finds; nothing in it is random."""

    name = "last_possible_path"

    @classmethod
    def rng_fn(cls, rng, initial, pi_bar, kappa, index, lengths, known, size):
        """Find it in NumPy; the numba form is registered below."""
        T = int(lengths.reshape(-1, lengths.shape[-1])[0].sum())
        params = (initial, pi_bar, kappa, index, lengths, known)
        return draw_over_batch(last_possible_path, CORE_NDIMS, params, size, (T,), "int64")


@numba_core_rv_funcify.register(LastPossiblePathRV)
def _last_possible_path_numba(op, node):
    @numba_njit
    def find(rng, initial, pi_bar, kappa, index, lengths, known):
        out = np.empty(lengths.sum(), np.int64)
        last_possible_path(initial, pi_bar, kappa, index, lengths, known, out)
        return out

    return find, 1


def _is_computed(rows):
    """Whether rows are an expression, far out on a trajectory perhaps no probabilities."""
    while rows.owner is not None and isinstance(rows.owner.op, DimShuffle | ValuedRV):
        rows = rows.owner.inputs[0]
    return rows.owner is not None and not isinstance(rows.owner.op, MeasurableOp)


def _are_probabilities(rows):
    """Whether all rows are probabilities, as near as ``kernels.chain.first_wrong_row`` asks."""
    sums = pt.all(pt.abs(rows.sum(axis=-1) - 1.0) <= 1e-6)
    return pt.and_(sums, pt.all(rows >= 0.0))


def _is_empty(known):
    return known.type.shape[-1] == 0


def _along(index, value):
    """Index without the leading axes of length one that a ``size`` puts before it."""
    return index[(0,) * (index.type.ndim - value.type.ndim)]


def _with_known(known, path):
    return pt.switch(pt.eq(known, UNKNOWN), path, known).astype(path.dtype)


def _varies(kappa):
    return kappa.type.shape[-2] != 1


def _in_force(rows, previous, varies):
    """rows[t, z_{t-1}] of an array (..., T, L), or rows[0, z_{t-1}] where it is constant."""
    while rows.type.ndim > 2 and rows.type.shape[0] == 1:
        rows = rows[0]
    if not varies:
        return core(rows, 2)[0][previous]
    index = [pt.arange(previous.shape[-1]), previous]
    if rows.type.ndim > 2:
        index.insert(0, pt.arange(previous.shape[0])[:, None])
    return rows[..., 1:, :][tuple(index)]
