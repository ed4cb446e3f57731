"""Draws of the coefficients of regressions by state, given the path: linear, and logistic."""

from typing import NamedTuple

import numpy as np
from pytensor.tensor.random.basic import NormalRV

from pymc_dshdp.graph.readers import in_values, point_function
from pymc_dshdp.graph.walks import concrete_shape, declared_parameters, has_op
from pymc_dshdp.kernels.emissions_statistics import triangular_statistics
from pymc_dshdp.kernels.logistic import logistic_derivatives, logistic_log_likelihoods
from pymc_dshdp.kernels.polya_gamma import polya_gamma_draws

__all__ = ["NormalPriors", "Regressions", "draw_linear", "draw_logistic"]

MANY_TRIALS = 100  # for each coefficient
DEGREES = 8.0  # of freedom: the tails of a logistic posterior are heavier than normal ones
PART = 4_000  # times on which the search for a mode begins
NEWTON = 30  # steps at most, far more than it takes
CLOSE = 0.05  # squared distance from the mode, in standard deviations, of the last step


class NormalPriors:
    """Normal priors of coefficients, several variables with a row for each state end to end.

    ``prior(point)`` gives rows (R, R m), of shape (L, P, P + 1), with R'R the precision and m the
    mean of the P coefficients of each state.

    Parameters
    ----------
    model : pymc.Model
    variables : list of TensorVariable
        ``pm.Normal`` or ``pm.MvNormal``.
    """

    def __init__(self, model, variables):
        self._shapes = [concrete_shape(v) for v in variables]
        self._normal = [has_op(v, NormalRV) for v in variables]
        self._read = point_function(
            in_values(model, [p for v in variables for p in declared_parameters(v)])
        )

    def __call__(self, point):
        """See the class."""
        parameters = self._read(point)
        sizes = [int(np.prod(shape[1:], dtype=int)) for shape in self._shapes]
        L, P = self._shapes[0][0], sum(sizes)
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


def draw_linear(rng, z, x, residual, weight, prior):
    """Coefficients (L, P) of regressions of residuals on x, of normal error 1 / weight.

    Parameters
    ----------
    rng : numpy.random.Generator
    z : ndarray of int, shape (n,)
        State of each row.
    x : ndarray of shape (..., P)
        n rows in all.
    residual, weight : ndarray of shape (...)
    prior : ndarray of shape (L, P, P + 1)
        Of ``NormalPriors``.
    """
    n_states = len(prior)
    rows = np.concatenate([x * weight[..., None], (residual * weight)[..., None]], axis=-1)
    _, factors = triangular_statistics(z, rows.reshape(-1, rows.shape[-1]), n_states)
    r = np.linalg.qr(np.concatenate([prior, factors], axis=1), mode="r")
    P = r.shape[2] - 1
    right = r[:, :P, P:] + rng.standard_normal((n_states, P, 1))
    return np.linalg.solve(r[:, :P, :P], right)[..., 0]


class Regressions(NamedTuple):
    """Successes of trials with logit o_i + x_i'b_k, where k = z_i.

    Attributes
    ----------
    z : ndarray of int, shape (n,)
    x : ndarray of shape (n, P)
    offset, successes, trials : ndarray of shape (n,)
    """

    z: np.ndarray
    x: np.ndarray
    offset: np.ndarray
    successes: np.ndarray
    trials: np.ndarray


def draw_logistic(rng, regressions, b, prior):
    r"""Coefficients (L, P) of a logit after an update of the present ones, b.

    Those of a state are proposed from a Student t about the mode of their posterior with the
    curvature there, q, and accepted with probability
    :math:`\min(1, p(b') q(b) / (p(b) q(b')))`, each state by itself. Newton's search for the mode
    starts from 0, so that q depends on the data and the path alone; how near it comes is a matter
    of how many proposals are accepted.

    A state of few trials, whose posterior may be far from that, is drawn given Polya-Gamma
    variables before (see ``regression.py``). Where there are many these leave most of it to the
    values before, and take long to draw; where all trials are successes they do so from a few dozen
    on. Which states are drawn so depends on the path alone too.
    """
    trials = np.bincount(regressions.z, regressions.trials, len(b))
    new, moved = _independent(rng, regressions, b, prior, trials > MANY_TRIALS * b.shape[1])
    few = Regressions(*(a[~moved[regressions.z]] for a in regressions))
    drawn = _augmented(rng, *few, new, prior)
    new[~moved] = drawn[~moved]
    return _independent(rng, few, new, prior, ~moved & (trials > 0.0))[0]


def _independent(rng, regressions, b, prior, states):
    """Coefficients after a proposal about the mode for some states, and for which it was found."""
    if not states.any():
        return b.copy(), states
    centre, precision, found = _mode(regressions, prior, states)
    if not found.any():
        return b.copy(), found
    moved = _proposed(rng, regressions, b, prior, centre, precision)
    return np.where(found[:, None], moved, b), found


def _augmented(rng, z, x, offset, successes, trials, b, prior):
    """Coefficients given Polya-Gamma variables that are drawn given the present ones."""
    logit = offset + np.einsum("tp,tp->t", x, b[z])
    omega = polya_gamma_draws(rng, trials, logit)
    some = omega > 0.0
    residual = np.where(some, successes - 0.5 * trials, 0.0) / np.where(some, omega, 1.0)
    return draw_linear(rng, z, x, residual - offset, np.sqrt(omega), prior)


def _mode(regressions, prior, states):
    """About the modes of some states, the curvatures there, and which were found.

    By Newton's method, on a part of the times first and then on all.
    """
    P = prior.shape[1]
    root, location = prior[..., :P], prior[..., P]
    gram, right = root.swapaxes(1, 2) @ root, np.einsum("kpq,kp->kq", root, location)
    b = np.zeros(right.shape)
    with np.errstate(all="ignore"):
        for stride in (max(1, len(regressions.z) // PART), 1):
            for _ in range(NEWTON):
                slope, precision = logistic_derivatives(*regressions, b, stride)
                slope += right - np.einsum("kpq,kq->kp", gram, b)
                precision += gram
                step = np.linalg.solve(precision, slope[..., None])[..., 0]
                b = b + step
                found = states & ((slope * step).sum(axis=1) < CLOSE)
                if (found == states).all():
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
