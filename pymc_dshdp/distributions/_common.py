"""What the random variables share: drawing over a batch, and the safe Dirichlet density."""

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.shape_utils import rv_size_is_none


def draw_over_batch(draw, core_ndims, params, size, core_shape, dtype):
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


def dirichlet_logp(value, concentration):
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


def uniform_simplex(size, n_states):
    shape = [n_states] if rv_size_is_none(size) else [*size, n_states]
    return pt.full(shape, 1.0 / n_states)


def core(param, ndim):
    """Strip the batch axes of length one that a ``size`` puts before a parameter."""
    return param[(0,) * (param.ndim - ndim)]
