"""Multivariate normal observations of which some components are missing."""

import numpy as np
from pymc.distributions.distribution import PartialObservedRV
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import MvNormalRV
from pytensor.tensor.random.op import RNGConsumerOp

from pymc_dshdp.distributions import HiddenPathRV
from pymc_dshdp.emissions._gaussian import gaussian_table
from pymc_dshdp.emissions.mvnormal import MvNormalMean
from pymc_dshdp.graph.path import n_states_of
from pymc_dshdp.graph.pointwise import is_pointwise
from pymc_dshdp.graph.readers import point_function
from pymc_dshdp.graph.walks import declared_parameters, has_op
from pymc_dshdp.likelihood.completed import completed
from pymc_dshdp.likelihood.families import Likelihood

__all__ = ["PartialNormal", "has_marginal_density"]


def has_marginal_density(rv):
    """Whether the observed components alone have a density that is known here.

    True of a part of ``pm.MvNormal`` whose parameters are functions of theta[z] only.
    """
    if not has_op(rv, PartialObservedRV) or not has_op(rv.owner.inputs[0], MvNormalRV):
        return False
    whole, mask = rv.owner.inputs
    states = _states_behind(whole)
    if len(states) != 1 or not isinstance(mask, Constant):
        return False
    [z] = states
    parameters = declared_parameters(whole)
    batch = whole.type.ndim - 1
    return batch >= z.type.ndim and all(
        is_pointwise(p, z, batch + core, _walls(whole))
        for p, core in zip(parameters, (1, 2), strict=True)
    )


def _states_behind(whole):
    return {v for v in ancestors([whole], _walls(whole)) if has_op(v, HiddenPathRV)}


def _walls(whole):
    return {v for v in ancestors([whole]) if has_op(v, RNGConsumerOp) and v is not whole}


class PartialNormal:
    r"""Table and missing components of one masked ``pm.MvNormal``.

    With O the components observed at t and M the others,
    :math:`p(y_{tO} \mid z_t = k) = N(\mu_{kO}, \Sigma_{kOO})` and :math:`y_{tM} \mid y_{tO}, z_t
    = k \sim N(\mu_{kM} + B (y_{tO} - \mu_{kO}), \Sigma_{kMM} - B \Sigma_{kOM})`,
    :math:`B = \Sigma_{kMO} \Sigma_{kOO}^{-1}`. Times with the same components are taken together.

    Parameters
    ----------
    model : pymc.Model
    part : TensorVariable
        The observed or unobserved part.

    Attributes
    ----------
    times : ndarray of shape (E,)
        Time point of each observed component.
    """

    def __init__(self, model, part):
        whole = completed(model, part)
        [z] = _states_behind(whole.rv)
        self._z = model.rvs_to_values[z].name
        n_states = n_states_of(z)
        likelihood = Likelihood(model, whole.rv, z, n_states, MvNormalMean(), whole.joined)
        self._likelihood = likelihood
        self._parameters = point_function(likelihood.graphs([0, 1]))
        d = whole.mask.shape[-1]
        self._C, self._mask = likelihood.C, whole.mask.reshape(-1, d)
        self._y = np.full(self._mask.shape, np.nan)
        [seen] = point_function([model.rvs_to_values[whole.parts[0]]])({})
        self._y[~self._mask] = seen
        if not np.isfinite(seen).all():
            raise ValueError(f"{whole.parts[0].name!r} must have finite observations")
        patterns, which = np.unique(self._mask, axis=0, return_inverse=True)
        self._patterns = [
            (np.flatnonzero(~missing), np.flatnonzero(missing), np.flatnonzero(which == i))
            for i, missing in enumerate(patterns)
        ]
        self.times = np.argwhere(~self._mask)[:, 0] // self._C

    def _read(self, point):
        """(mean (L, C, d), covariance (L, C, d, d))."""
        return [self._likelihood.arrange(x) for x in self._parameters(point)]

    def _groups(self):
        """(components observed, missing, column c, rows) of the data (T C, d)."""
        for seen, missing, rows in self._patterns:
            for c in range(self._C):
                yield seen, missing, c, rows[rows % self._C == c]

    def rows(self, point, states=slice(None)):
        """Return a function that gives rows low..high - 1 of the states' columns."""
        table = self._table(*(x[states] for x in self._read(point)))
        return lambda low, high: table[low:high].copy()

    def _table(self, mean, covariance):
        table = np.zeros((self._likelihood.T, len(mean)))
        for seen, _, c, rows in self._groups():
            if seen.size and rows.size:
                y = self._y[np.ix_(rows, seen)]
                centre = y.mean(axis=0)
                table[rows // self._C] += gaussian_table(
                    np.column_stack([y - centre, np.ones(len(rows))]),
                    (mean[:, c, seen] - centre)[..., None],
                    covariance[:, c][:, seen[:, None], seen],
                )
        table[np.isnan(table)] = -np.inf  # a covariance that is not positive definite
        return table

    def draw(self, point, rng):
        """Draw the missing components given the states and what was observed; (E',)."""
        mean, covariance = self._read(point)
        states = np.repeat(np.ravel(point[self._z]), self._C)
        y = self._y.copy()
        for seen, missing, c, rows in self._groups():
            if not missing.size:
                continue
            for k in np.unique(states[rows]):
                at = rows[states[rows] == k]
                S = covariance[k, c]
                slopes = np.linalg.solve(S[np.ix_(seen, seen)], S[np.ix_(seen, missing)]).T
                within = S[np.ix_(missing, missing)] - slopes @ S[np.ix_(seen, missing)]
                noise = rng.standard_normal((at.size, missing.size))
                y[np.ix_(at, missing)] = (
                    mean[k, c, missing]
                    + (y[np.ix_(at, seen)] - mean[k, c, seen]) @ slopes.T
                    + noise @ np.linalg.cholesky(within).T
                )
        return y[self._mask]
