"""Draws of the coefficients of regressions, whose forms ``regression.py`` finds."""

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import grad
from pytensor.graph.replace import clone_replace
from pytensor.tensor.random.basic import NormalRV

from pymc_dshdp.graph.path import observed_path
from pymc_dshdp.graph.readers import in_values, point_function
from pymc_dshdp.graph.walks import concrete_shape, has_op
from pymc_dshdp.kernels.emissions_statistics import triangular_statistics
from pymc_dshdp.kernels.logistic import logistic_derivatives, logistic_log_likelihoods
from pymc_dshdp.kernels.polya_gamma import polya_gamma_draws
from pymc_dshdp.likelihood.families import Likelihood

__all__ = ["LogisticTerm", "RegressionTerm"]

MANY_TRIALS = 100  # for each coefficient
DEGREES = 8.0  # of freedom: the tails of a logistic posterior are heavier than normal ones
PART = 4_000  # times on which the search for a mode begins
NEWTON = 30  # steps at most, far more than it takes
CLOSE = 0.05  # squared distance from the mode, in standard deviations, of the last step


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
        self._n_scales = len(match.scale)
        self._read = point_function([offset, *match.scale, *covariates])
        self._read_priors = point_function(
            in_values(model, [p for v in match.variables for p in v.owner.op.dist_params(v.owner)])
        )
        self._normal = [has_op(v, NormalRV) for v in match.variables]
        if match.likelihood in model.observed_RVs:
            likelihood.data({})

    def _arrays(self, point):
        """Covariates (T, C, P), offset (T, C) and, of a Normal, scale (T, C)."""
        T, C = self._likelihood.T, self._likelihood.C
        offset, *arrays = self._read(point)
        offset, *scale = (
            np.broadcast_to(a, self._path_shape).reshape(T, C)
            for a in (offset, *arrays[: self._n_scales])
        )
        flat = [x.reshape(T, -1) for x in arrays[self._n_scales :]]
        width = self._n_variables
        x = [np.concatenate(flat[c * width : (c + 1) * width], axis=1) for c in range(C)]
        return np.stack(x, axis=1), offset, *scale

    def _prior_rows(self, point):
        """Rows (R, R m) with R'R the prior's precision, block by block."""
        parameters = self._read_priors(point)
        sizes = [int(np.prod(shape[1:], dtype=int)) for shape in self._shapes]
        L, P = self._n_states, sum(sizes)
        out = np.zeros((L, P, P + 1))
        first = 0
        for i, (shape, size, normal) in enumerate(
            zip(self._shapes, sizes, self._normal, strict=True)
        ):
            mean, spread = parameters[2 * i : 2 * i + 2]
            mean = np.broadcast_to(mean, shape).reshape(L, size)
            if normal:
                spread = np.broadcast_to(spread, shape).reshape(L, size)
                root = np.eye(size) / spread[:, :, None]
            else:
                d = shape[-1]
                blocks = np.linalg.inv(np.linalg.cholesky(spread))
                blocks = np.broadcast_to(blocks, (*shape, d)).reshape(L, size // d, d, d)
                root = np.zeros((L, size // d, d, size // d, d))
                for j in range(size // d):
                    root[:, j, :, j] = blocks[:, j]
                root = root.reshape(L, size, size)
            last = first + size
            out[:, first:last, first:last] = root
            out[:, first:last, P] = (root @ mean[:, :, None])[..., 0]
            first = last
        return out

    def draw(self, point, rng):
        """Draw the coefficients of all states given everything else; new values by name."""
        x, offset, scale = self._arrays(point)
        y = self._likelihood.data(point)
        return self._named(
            self._drawn(rng, self._path(point), x, y - offset, 1.0 / scale, self._prior_rows(point))
        )

    def _path(self, point):
        """States of the rows, the columns of a time one after the other."""
        z = point[self._z] if self._known is None else self._known
        return np.repeat(np.ravel(z), self._likelihood.C)

    def _drawn(self, rng, z, x, residual, weight, prior):
        """Coefficients (L, P) given residuals of precision weight^2."""
        rows = np.concatenate([x * weight[..., None], (residual * weight)[..., None]], axis=-1)
        _, factors = triangular_statistics(z, rows.reshape(-1, rows.shape[-1]), self._n_states)
        r = np.linalg.qr(np.concatenate([prior, factors], axis=1), mode="r")
        P = r.shape[2] - 1
        right = r[:, :P, P:] + rng.standard_normal((self._n_states, P, 1))
        return np.linalg.solve(r[:, :P, :P], right)[..., 0]

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
    r"""The same for the coefficients of a logit.

    Those of a state of few trials are drawn given Polya-Gamma variables (see ``regression.py``).
    Where there are many, their posterior is nearly normal, the Polya-Gamma variables leave most of
    it to the values before, and take long to draw. There the coefficients are proposed from a
    Student t about the mode with the curvature there, q, and accepted with probability
    :math:`\min(1, p(b') q(b) / (p(b) q(b')))`, each state by itself. Newton's search for the mode
    starts from 0, so that q depends on the data and the path alone; how near it comes is a matter
    of how many proposals are accepted. Which of the two it is depends on the path alone too.
    """

    def draw(self, point, rng):
        """Update the coefficients of all states given everything else; new values by name."""
        x, offset = self._arrays(point)
        successes, failures = self._likelihood.data(point)
        present = [point[v.name].reshape(self._n_states, -1) for v in self.values]
        b = np.concatenate(present, axis=1, dtype=float)
        z, prior = self._path(point), self._prior_rows(point)
        x, offset = np.ascontiguousarray(x.reshape(len(z), -1)), np.ravel(offset)
        successes, trials = successes.ravel(), (successes + failures).ravel()
        regressions = z, x, offset, successes, trials
        new = b.copy()
        many = np.bincount(z, trials, self._n_states) > MANY_TRIALS * b.shape[1]
        if many.any():
            centre, precision, many = _mode(regressions, prior, many)
            moved = _proposed(rng, regressions, b, prior, centre, precision)
            new[many] = moved[many]
        few = ~many[z]
        drawn = self._augmented(rng, *(a[few] for a in regressions), b, prior)
        new[~many] = drawn[~many]
        return self._named(new)

    def _augmented(self, rng, z, x, offset, successes, trials, b, prior):
        """Coefficients given Polya-Gamma variables that are drawn given the present ones."""
        logit = offset + np.einsum("tp,tp->t", x, b[z])
        omega = polya_gamma_draws(rng, trials, logit)
        some = omega > 0.0
        residual = np.where(some, successes - 0.5 * trials, 0.0) / np.where(some, omega, 1.0)
        return self._drawn(rng, z, x, residual - offset, np.sqrt(omega), prior)


def _mode(regressions, prior, many):
    """About the modes of states of many trials, the curvatures there, and which were found.

    By Newton's method, on a part of the times first and then on all.
    """
    P = prior.shape[1]
    root, location = prior[..., :P], prior[..., P]
    gram, right = root.swapaxes(1, 2) @ root, np.einsum("kpq,kp->kq", root, location)
    b = np.zeros(right.shape)
    with np.errstate(all="ignore"):
        for stride in (max(1, len(regressions[0]) // PART), 1):
            for _ in range(NEWTON):
                slope, precision = logistic_derivatives(*regressions, b, stride)
                slope += right - np.einsum("kpq,kq->kp", gram, b)
                precision += gram
                step = np.linalg.solve(precision, slope[..., None])[..., 0]
                b = b + step
                found = many & ((slope * step).sum(axis=1) < CLOSE)
                if (found == many).all():
                    break
    b[~found], precision[~found] = 0.0, np.eye(P)
    return b, precision, found


def _proposed(rng, regressions, b, prior, centre, precision):
    """Coefficients after one proposal for each state."""
    L, P = b.shape
    root, location = prior[..., :P], prior[..., P]
    factor = np.linalg.cholesky(precision)
    noise = rng.standard_normal((L, P)) / np.sqrt(rng.chisquare(DEGREES, (L, 1)) / DEGREES)
    new = centre + np.linalg.solve(factor.swapaxes(1, 2), noise[..., None])[..., 0]

    def log_ratio(b):  # of target and proposal
        distance = np.einsum("kpq,kp->kq", factor, b - centre)
        back = 0.5 * (DEGREES + P) * np.log1p((distance**2).sum(axis=1) / DEGREES)
        misfit = np.einsum("kpq,kq->kp", root, b) - location
        target = logistic_log_likelihoods(*regressions, b) - 0.5 * (misfit**2).sum(axis=1)
        return target + back

    accepted = -rng.standard_exponential(L) < log_ratio(new) - log_ratio(b)
    return np.where(accepted[:, None], new, b)
