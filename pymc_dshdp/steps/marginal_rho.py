"""The concentrations of the rows and of the self-persistence, given the path alone."""

import numpy as np
from pytensor.graph.basic import Constant
from pytensor.tensor.random.basic import GammaRV

from pymc_dshdp.graph.readers import Reader, prior_log_density
from pymc_dshdp.graph.walks import has_op
from pymc_dshdp.kernels.alike_rows import alike_counts, log_others, log_own, own_tables
from pymc_dshdp.kernels.collapsed_transitions import beta_persistence, redraw_transitions
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
        self._log_prior = _log_density(model, prior.alpha) if self._alpha_free else None
        self._kappa = model.rvs_to_values[prior.kappa]

    def __call__(self, point, paths, rng):
        """Return the point with the concentrations, kappa and the rows drawn."""
        counts, (_, beta) = paths.counts(point), self._weights(point)
        found = self._hyper.read(point)
        alike = alike_counts(counts)
        tables = own_tables(alike, found[2], beta)

        def log_marginal(i, x):  # up to what phi and eta leave as it is
            given = list(found)
            given[i] = float(x)
            phi, eta, alpha = given
            if i < 2:
                return log_own(alike, alpha, beta, *_rho(phi, eta), tables)
            own = log_own(alike, alpha, beta, *_rho(phi, eta), own_tables(alike, alpha, beta))
            return own + log_others(alike, alpha, beta)

        if not log_marginal(2, found[2]) > -np.inf:
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
        R = len(counts) - 1
        drawn = redraw_transitions(
            rng,
            counts,
            equal_rows(found[2], beta, R),
            beta_persistence(*_rho(*found[:2]), R),
        )
        new = {**point, **self._hyper.write(point, found)}
        logit = drawn.kappa_logit.reshape(point[self._kappa.name].shape)
        new[self._kappa.name] = logit.astype(self._kappa.dtype, copy=False)
        return new | self._row_values(drawn.rows)


def _rho(phi, eta):
    total = eta**-3.0
    return phi * total, (1.0 - phi) * total


def _log_density(model, rv):
    """``f(point, x) -> log p(x)`` up to a constant; a Gamma of constants is not compiled."""
    parameters = rv.owner.inputs[2:]
    if has_op(rv, GammaRV) and all(isinstance(v, Constant) for v in parameters):
        shape, scale = (float(v.data) for v in parameters)
        return lambda point, x: (shape - 1.0) * np.log(x) - x / scale
    density = prior_log_density(model, rv)
    return lambda point, x: density(point, x)[0]
