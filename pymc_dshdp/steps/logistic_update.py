"""The coefficients of a logistic self-persistence, given the path."""

import numpy as np

from pymc_dshdp.graph.readers import in_values, logit_node, point_function
from pymc_dshdp.kernels.chain import kappa_rows
from pymc_dshdp.kernels.transitions import persistence_trials
from pymc_dshdp.likelihood.coefficients import NormalPriors, Regressions, draw_logistic

__all__ = ["LogisticUpdate"]


class LogisticUpdate:
    r"""Draw the coefficients c of one prior, :math:`\kappa_{tj} = \mathrm{logit}^{-1}(x_t' c_j)`.

    First :math:`w_t \mid z, \kappa, \bar\pi` for every time inside a sequence. Given these,
    neither the rows nor the data say anything of c,

    .. math:: p(c_j \mid z, w) \propto p(c_j) \prod_{t: z_{t-1} = j}
       \kappa_{tj}^{w_t} (1 - \kappa_{tj})^{1 - w_t},

    a logistic regression for each state. That of a state which no transition leaves is the prior.

    Parameters
    ----------
    model : pymc.Model
    prior : DirichletRows
    """

    def __init__(self, model, prior):
        self._value = model.rvs_to_values[prior.coefficients]
        self._pi_bar = model.rvs_to_values[prior.pi_bar]
        design, logit = in_values(model, [prior.design])[0], logit_node(model, prior.kappa)
        self._read = point_function([design, logit])
        self._prior = NormalPriors(model, [prior.coefficients])

    def __call__(self, point, paths, rng):
        """Return the new value by its name, and that it was accepted."""
        paths.check(point)
        design, logit = self._read(point)
        pi_bar = np.asarray(point[self._pi_bar.name], "float64")
        trials = []
        for path, lengths in paths.paths(point):
            z, rows = np.ravel(path), kappa_rows(logit, path.shape)
            times, persists = persistence_trials(rng, z, lengths, rows, pi_bar)
            x = kappa_rows(design, path.shape)[times]
            trials.append((z[times - 1], x, np.zeros(len(x)), persists, np.ones(len(x))))
        together = Regressions(*map(np.concatenate, zip(*trials, strict=True)))
        present = np.asarray(point[self._value.name], "float64")
        new = draw_logistic(rng, together, present, self._prior(point))
        return {self._value.name: new.astype(self._value.dtype, copy=False)}, True
