"""The concentrations of the rows and of the self-persistence, given the path alone."""

from functools import partial

import numpy as np
from pytensor.tensor.random.basic import GammaRV

from pymc_dshdp.graph.readers import Reader, prior_log_density
from pymc_dshdp.graph.uniform import constant_value
from pymc_dshdp.graph.walks import has_op
from pymc_dshdp.kernels.alike_rows import alike_counts
from pymc_dshdp.kernels.collapsed_transitions import beta_persistence, redraw_transitions
from pymc_dshdp.kernels.rho_slices import ALPHA, log_path, slice_rho
from pymc_dshdp.kernels.slice import slice_between, slice_sample
from pymc_dshdp.transitions.found import outside_dependents
from pymc_dshdp.transitions.rows import RowValues
from pymc_dshdp.transitions.weighted import WeightReader, equal_rows

__all__ = ["MarginalRho"]


class MarginalRho:
    r"""Draw phi, eta and alpha given the path and beta, kappa, w and the rows integrated out.

    kappa_j and pi_bar_jj explain the same stays, so that what is drawn given the :math:`w_t` moves
    in little steps. So each of the three is slice-sampled on

    .. math::

       p(\phi)\, p(\eta)\, p(\alpha)\, p(z \mid \beta, \alpha, \rho)

    (see ``kernels.alike_rows``), and then W | z; kappa | W, n; and the rows | n are
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
        self._weights, self._row_values = WeightReader(model, prior), RowValues(model, prior)
        self._hyper = Reader(model, [prior.phi, prior.eta, prior.alpha])
        self._axes, self._alpha_free = (phi, eta), prior.alpha in model.free_RVs
        self._gamma = _shape_and_scale(prior.alpha) if self._alpha_free else np.full(2, np.nan)
        self._closed = self._gamma is not None and phi.flat and eta.flat
        if self._closed:
            fixed = (np.nan, np.nan)
            self._ends = np.array([a.ends if a.free else fixed for a in self._axes])
        elif self._alpha_free:
            self._log_prior = prior_log_density(model, prior.alpha)
        self._kappa = model.rvs_to_values[prior.kappa]

    def __call__(self, point, paths, rng):
        """Return the point with the concentrations, kappa and the rows drawn."""
        counts, (_, beta) = paths.counts(point), self._weights(point)
        alike, found = alike_counts(counts), np.array(self._hyper.read(point))
        if not log_path(alike, beta, found) > -np.inf:
            return point  # a start through states without weight: that of a chain never is
        if self._closed:
            slice_rho(rng, alike, beta, found, self._ends, self._gamma)
        else:
            self._slice(point, alike, beta, found, rng)
        R = len(counts) - 1
        drawn = redraw_transitions(
            rng,
            counts,
            equal_rows(found[ALPHA], beta, R),
            beta_persistence(*_rho(*found[:2]), R),
        )
        new = {**point, **self._hyper.write(point, found)}
        logit = drawn.kappa_logit.reshape(point[self._kappa.name].shape)
        new[self._kappa.name] = logit.astype(self._kappa.dtype, copy=False)
        return new | self._row_values(drawn.rows)

    def _slice(self, point, counts, beta, found, rng):
        """Do as ``slice_rho`` does, under any prior."""

        def log_density(x, i, axis):
            return float(axis.log_prior(point, np.array([x]))[0]) + at(x, i)

        def at(x, i):
            given = found.copy()
            given[i] = x
            return log_path(counts, beta, given)

        def log_density_of_log(x):
            alpha = np.exp(x)
            if not 0.0 < alpha[0] < np.inf:
                return np.full(1, -np.inf)
            return self._log_prior(point, alpha)[0] + x + at(alpha[0], ALPHA)

        for i, axis in enumerate(self._axes):
            if axis.free:
                log_axis = partial(log_density, i=i, axis=axis)
                found[i] = slice_between(log_axis, found[i], *axis.ends, rng)
        if self._alpha_free:
            drawn = slice_sample(log_density_of_log, np.log(found[ALPHA]), rng)
            found[ALPHA] = np.exp(drawn[0])


def _rho(phi, eta):
    total = eta**-3.0
    return phi * total, (1.0 - phi) * total


def _shape_and_scale(rv):
    """Those of a Gamma of constants, shape (2,), else None."""
    parameters = [constant_value(v) for v in rv.owner.inputs[2:]] if has_op(rv, GammaRV) else ()
    known = parameters and all(x is not None for x in parameters)
    return np.array(parameters, float) if known else None
