"""The concentrations of the rows and of the self-persistence, given the path alone."""

import numpy as np
from pytensor.graph.basic import Constant
from pytensor.tensor.random.basic import GammaRV

from pymc_dshdp.graph.readers import Reader, prior_log_density
from pymc_dshdp.graph.walks import has_op
from pymc_dshdp.kernels.collapsed_transitions import (
    Persistence,
    log_path_marginal,
    redraw_transitions,
)
from pymc_dshdp.kernels.slice import slice_between, slice_sample
from pymc_dshdp.kernels.transitions import stick_breaking_weights
from pymc_dshdp.transitions.found import outside_dependents

__all__ = ["MarginalRho"]


class MarginalRho:
    r"""Draw phi, eta and alpha given the path and beta, kappa, w and the rows integrated out.

    kappa_j and pi_bar_jj explain the same stays, so that what is drawn given the :math:`w_t` moves
    in little steps. So each of the three is slice-sampled on

    .. math::

       p(\phi)\, p(\eta)\, p(\alpha)\, p(z \mid \beta, \alpha, \rho)

    (see ``kernels.collapsed_transitions``), and then W | z; kappa | W, n; and the rows | n are
    drawn, so that all of them have their law given z and beta.

    Parameters
    ----------
    model : pymc.Model
    prior : DirichletRows
    phi, eta : object
        Sides of a grid, with ``free``, ``ends`` and ``log_prior``.

    Attributes
    ----------
    available : bool
        False where the rows have no weights in common, or something outside the prior depends on
        what is drawn.
    """

    def __init__(self, model, prior, phi, eta):
        drawn = [prior.pi_bar, prior.pi_init, prior.kappa]
        drawn += [v for v in (prior.alpha,) if v in model.free_RVs]
        self.available = prior.gamma is not None and not prior.varies
        self.available = self.available and not any(outside_dependents(model, prior, drawn))
        if not self.available:
            return
        values = model.rvs_to_values
        self._hyper = Reader(model, [prior.phi, prior.eta, prior.alpha])
        self._axes, self._alpha_free = (phi, eta), prior.alpha in model.free_RVs
        self._log_prior = _log_density(model, prior.alpha) if self._alpha_free else None
        self._sticks = None if prior.fractions is None else values[prior.fractions]
        self._beta = None if prior.fractions is not None else values[prior.beta]
        self._kappa, self._pi_bar = values[prior.kappa], values[prior.pi_bar]
        self._pi_init = values[prior.pi_init]

    def __call__(self, point, paths, rng):
        """Return the point with the concentrations, kappa and the rows drawn."""
        counts, beta = paths.counts(point), self._weights(point)
        found = self._hyper.read(point)

        def log_marginal(i, x):
            given = [*found[:i], float(x), *found[i + 1 :]]
            base, persistence = _parameters(*given, beta, len(counts))
            return log_path_marginal(counts, base, persistence)

        if not log_marginal(0, found[0]) > -np.inf:
            return point  # a start through states without weight: that of a chain never is
        for i, axis in enumerate(self._axes):
            if axis.free:

                def log_density(x, i=i, axis=axis):
                    return float(axis.log_prior(point, np.array([x]))[0]) + log_marginal(i, x)

                found[i] = slice_between(log_density, found[i], *axis.ends, rng)
        if self._alpha_free:

            def log_density_of_log(x):
                alpha = np.exp(x)
                if not 0.0 < alpha[0] < np.inf:
                    return np.full(1, -np.inf)
                return self._log_prior(point, alpha) + x + log_marginal(2, alpha[0])

            found[2] = float(np.exp(slice_sample(log_density_of_log, np.log(found[2]), rng)[0]))
        drawn = redraw_transitions(rng, counts, *_parameters(*found, beta, len(counts)))
        new = self._hyper.write(point, found)
        for value, x in (
            (self._kappa, drawn.kappa_logit),
            (self._pi_init, drawn.rows[0]),
            (self._pi_bar, drawn.rows[1:]),
        ):
            new[value.name] = x.reshape(point[value.name].shape).astype(value.dtype, copy=False)
        return {**point, **new}

    def _weights(self, point):
        if self._sticks is None:
            return np.asarray(point[self._beta.name], dtype="float64")
        return stick_breaking_weights(np.asarray(point[self._sticks.name], dtype="float64"))


def _parameters(phi, eta, alpha, beta, n_rows):
    """(alpha beta of each row, ``Persistence``)."""
    full, total = np.ones(n_rows - 1), eta**-3.0
    persistence = Persistence(phi * total * full, (1.0 - phi) * total * full, True)
    return np.tile(alpha * beta, (n_rows, 1)), persistence


def _log_density(model, rv):
    """``f(point, x) -> log p(x)`` up to a constant; a Gamma of constants is not compiled."""
    parameters = rv.owner.inputs[2:]
    if has_op(rv, GammaRV) and all(isinstance(v, Constant) for v in parameters):
        shape, scale = (float(v.data) for v in parameters)
        return lambda point, x: (shape - 1.0) * np.log(x) - x / scale
    density = prior_log_density(model, rv)
    return lambda point, x: density(point, x)[0]
