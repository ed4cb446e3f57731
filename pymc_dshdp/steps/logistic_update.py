"""The coefficients of a logistic self-persistence, given the path."""

import numpy as np

from pymc_dshdp.graph.readers import in_values, point_function
from pymc_dshdp.kernels.chain import kappa_rows
from pymc_dshdp.kernels.diagonals import divide_logistic_diagonals
from pymc_dshdp.kernels.transitions import persistence_trials
from pymc_dshdp.likelihood.coefficients import NormalPriors, Regressions, draw_logistic

__all__ = ["LogisticUpdate"]


class LogisticUpdate:
    r"""Draw the coefficients c of one prior, :math:`\kappa_{tj} = \mathrm{logit}^{-1}(x_t' c_j)`.

    First, where there is an intercept, :math:`(c_j, \bar\pi_{jj})` along a curve of which the path
    says little (``kernels/diagonals.py``). Then :math:`w_t \mid z, \kappa, \bar\pi` for every time
    inside a sequence. Given these, neither the rows nor the data say anything of c,

    .. math:: p(c_j \mid z, w) \propto p(c_j) \prod_{t: z_{t-1} = j}
       \kappa_{tj}^{w_t} (1 - \kappa_{tj})^{1 - w_t},

    a logistic regression for each state. That of a state which no transition leaves is the prior.

    Parameters
    ----------
    model : pymc.Model
    prior : DirichletRows
    step : str
        Name of the step, for messages.
    """

    def __init__(self, model, prior, step):
        self._value = model.rvs_to_values[prior.coefficients]
        self._pi_bar = model.rvs_to_values[prior.pi_bar]
        self._design = point_function(in_values(model, [prior.design]))
        self._prior = NormalPriors(model, [prior.coefficients])
        self._rows = prior.update(model, step)

    def __call__(self, point, paths, rng):
        """Return new values by their names, and that they were accepted."""
        paths.check(point)
        [design] = self._design(point)
        c, pi_bar = (np.array(point[v.name], "float64") for v in (self._value, self._pi_bar))
        prior, parts = self._prior(point), []
        for path, lengths in paths.paths(point):
            times = np.delete(np.arange(path.size), np.cumsum(lengths) - lengths)
            parts.append((np.ravel(path), lengths, kappa_rows(design, path.shape), times))
        before = np.concatenate([z[t - 1] for z, _, _, t in parts])
        stays = np.concatenate([z[t] == z[t - 1] for z, _, _, t in parts])
        x = np.concatenate([x[t] for _, _, x, t in parts])
        ones = np.flatnonzero((x == 1.0).all(axis=0))
        if len(x) and ones.size:
            concentrations = self._rows.row_concentrations(point)[1:]
            c, pi_bar = divide_logistic_diagonals(
                rng, before, stays, x, c, ones[0], prior, pi_bar, concentrations
            )
        w = [persistence_trials(rng, z, n, x @ c.T, pi_bar)[1] for z, n, x, _ in parts]
        none = np.zeros(len(x))
        regressions = Regressions(before, x, none, np.concatenate(w), none + 1.0)
        new = draw_logistic(rng, regressions, c, prior)
        return {
            v.name: values.astype(v.dtype, copy=False)
            for v, values in ((self._value, new), (self._pi_bar, pi_bar))
        }, True
