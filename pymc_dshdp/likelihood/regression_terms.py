"""Draws of the coefficients of regressions, whose forms ``regression.py`` finds."""

import numpy as np
import pytensor.tensor as pt
from pytensor.compile import SharedVariable
from pytensor.gradient import grad
from pytensor.graph.basic import Constant
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs

from pymc_dshdp.graph.path import observed_path
from pymc_dshdp.graph.readers import point_function
from pymc_dshdp.graph.walks import concrete_shape
from pymc_dshdp.likelihood.coefficients import (
    NormalPriors,
    Regressions,
    draw_linear,
    draw_logistic,
)
from pymc_dshdp.likelihood.families import Likelihood

__all__ = ["LogisticTerm", "RegressionTerm"]


class RegressionTerm:
    """The exact conditional of the coefficients of one match.

    Parameters
    ----------
    model : pymc.Model
    match : RegressionMatch

    Attributes
    ----------
    values : list of TensorVariable
        Value variables drawn.
    """

    def __init__(self, model, match):
        self._z = model.rvs_to_values[match.z].name
        self._known = None if match.z in model.free_RVs else observed_path(model, match.z)[0]
        self._n_states = match.n_states
        self.values = [model.rvs_to_values[v] for v in match.variables]
        self._shapes = [concrete_shape(v) for v in match.variables]
        self._likelihood = likelihood = Likelihood(
            model,
            match.likelihood,
            match.z,
            match.n_states,
            match.family,
            match.source,
        )
        self._path_shape = concrete_shape(match.z) + likelihood.trail
        n = match.z.type.ndim
        zeros = {row: pt.zeros(concrete_shape(match.z) + shape[1:], dtype=row.dtype)
                 for row, shape in zip(match.rows, self._shapes, strict=True)}  # fmt: skip
        offset = clone_replace(match.mean, zeros, rebuild_strict=False)
        columns = pt.broadcast_to(match.linear, self._path_shape)
        columns = columns.reshape((*concrete_shape(match.z), likelihood.C))
        covariates = [
            clone_replace(x.flatten(n + 1) if x.type.ndim > n else x[..., None], zeros,
                          rebuild_strict=False)
            for c in range(likelihood.C)
            for x in grad(columns[..., c].sum(), match.rows, disconnected_inputs="ignore")
        ]  # fmt: skip
        self._n_variables = len(match.variables)
        self._read = point_function([offset, *match.scale])
        inputs = [v for v in graph_inputs(covariates) if not isinstance(v, Constant)]
        self._covariates, self._shared = point_function(covariates), inputs
        self._of_data = all(isinstance(v, SharedVariable) for v in inputs)
        self._x = self._seen = None
        self._prior = NormalPriors(model, match.variables)
        if match.likelihood in model.observed_RVs:
            likelihood.data({})

    def _arrays(self, point):
        """Covariates (T, C, P), offset (T, C) and, of a Normal, scale (T, C)."""
        x, T, C = self._design(point), self._likelihood.T, self._likelihood.C
        others = self._read(point)
        return x, *(np.broadcast_to(a, self._path_shape).reshape(T, C) for a in others)

    def _design(self, point):
        """Covariates (T, C, P): anew at each call unless they are data, else once replaced."""
        if not self._of_data:
            return self._evaluated(point)
        seen = [v.get_value(borrow=True) for v in self._shared]
        if self._x is None or any(a is not b for a, b in zip(seen, self._seen, strict=True)):
            self._x, self._seen = self._evaluated(point), seen
        return self._x

    def _evaluated(self, point):
        """Evaluate the covariates; those of a column are variable after variable."""
        T, width = self._likelihood.T, self._n_variables
        flat = [x.reshape(T, -1) for x in self._covariates(point)]
        columns = range(0, len(flat), width)
        return np.stack([np.concatenate(flat[i : i + width], axis=1) for i in columns], axis=1)

    def draw(self, point, rng):
        """Draw the coefficients of all states given everything else; new values by name."""
        x, offset, scale = self._arrays(point)
        y = self._likelihood.data(point)
        return self._named(
            draw_linear(rng, self._path(point), x, y - offset, 1.0 / scale, self._prior(point))
        )

    def _path(self, point):
        """States of the rows, the columns of a time one after the other."""
        z = point[self._z] if self._known is None else self._known
        return np.repeat(np.ravel(z), self._likelihood.C)

    def _named(self, drawn):
        """Values by name of coefficients (L, P)."""
        new, first = {}, 0
        for value, shape in zip(self.values, self._shapes, strict=True):
            size = int(np.prod(shape[1:], dtype=int))
            part = drawn[:, first : first + size]
            new[value.name] = part.reshape(shape).astype(value.dtype)
            first += size
        return new


class LogisticTerm(RegressionTerm):
    """The same for the coefficients of a logit; see ``draw_logistic``."""

    def draw(self, point, rng):
        """Update the coefficients of all states given everything else; new values by name."""
        x, offset = self._arrays(point)
        successes, failures = self._likelihood.data(point)
        present = [point[v.name].reshape(self._n_states, -1) for v in self.values]
        b = np.concatenate(present, axis=1, dtype=float)
        z = self._path(point)
        x, offset = np.ascontiguousarray(x.reshape(len(z), -1)), np.ravel(offset)
        successes, trials = successes.ravel(), (successes + failures).ravel()
        regressions = Regressions(z, x, offset, successes, trials)
        return self._named(draw_logistic(rng, regressions, b, self._prior(point)))
