"""Predictive densities against marginal likelihoods in closed form, and their running sums."""

import math

import numpy as np
import pytest
from scipy.special import gammaln, multigammaln
from scipy.stats import multivariate_normal

from pymc_dshdp.emissions._gaussian import lower_factor, prior_factor
from pymc_dshdp.emissions.mvnormal import _collapsed_mean
from pymc_dshdp.kernels import predictive_continuous as continuous
from pymc_dshdp.kernels import predictive_counts as counts
from pymc_dshdp.kernels import predictive_gaussian as gaussian
from pymc_dshdp.kernels.chain import NO_INDEX
from pymc_dshdp.kernels.direct_assignment import draw_persistences, sweep_states
from pymc_dshdp.kernels.predictive import exclude, include, include_path, log_predictive

L, T, C, V = 4, 40, 2, 3


def normal_mean_evidence(y, noise, mean, scale):
    total = 0.0
    for c in range(C):
        if len(y):
            covariance = noise[c] ** 2 * np.eye(len(y)) + scale[c] ** 2
            total += multivariate_normal.logpdf(y[:, c], np.full(len(y), mean[c]), covariance)
    return total


def normal_inverse_gamma_evidence(y, m, s, a, b):
    n = len(y)
    centre = y.mean(axis=0) if n else 0.0
    squares = ((y - centre) ** 2).sum(axis=0)
    b_n = b + 0.5 * squares + 0.5 * s * n * (centre - m) ** 2 / (s + n)
    out = gammaln(a + n / 2) - gammaln(a) + a * np.log(b) - (a + n / 2) * np.log(b_n)
    return (out + 0.5 * np.log(s / (s + n)) - 0.5 * n * np.log(2 * np.pi)).sum()


def exponential_evidence(y, a, b):
    n, total = len(y), y.sum(axis=0)
    return (gammaln(a + n) - gammaln(a) + a * np.log(b) - (a + n) * np.log(b + total)).sum()


def poisson_evidence(y, a, b):
    n, total = len(y), y.sum(axis=0)
    return (gammaln(a + total) - gammaln(a) + a * np.log(b) - (a + total) * np.log(b + n)).sum()


def exposed_evidence(y, a, b):
    total, exposure = np.moveaxis(y.sum(axis=0), -1, 0)
    out = gammaln(a + total) - gammaln(a) + a * np.log(b) - (a + total) * np.log(b + exposure)
    return out.sum()


def proportions_evidence(y, a):
    total = y.sum(axis=0)
    out = (gammaln(a + total) - gammaln(a)).sum()
    return out + (gammaln(a.sum(axis=1)) - gammaln((a + total).sum(axis=1))).sum()


def categories_evidence(y, a):
    return proportions_evidence(np.eye(V)[y], a)


def normal_variance_evidence(y, mean, a, b):
    n, squares = len(y), ((y - mean) ** 2).sum(axis=0)
    out = gammaln(a + n / 2) - gammaln(a) + a * np.log(b) - (a + n / 2) * np.log(b + squares / 2)
    return (out - 0.5 * n * np.log(2 * np.pi)).sum()


NOISE = np.array([[1.5, 0.4], [0.4, 0.8]])
SPREAD = np.array([[0.7, -0.3], [-0.3, 2.0]])


def vector_mean_evidence(y, centre):
    if not len(y):
        return 0.0
    covariance = np.kron(np.eye(len(y)), NOISE) + np.kron(np.ones((len(y), len(y))), SPREAD)
    return multivariate_normal.logpdf(y[:, 0].ravel(), np.tile(centre, len(y)), covariance)


def vector_mean(y, centre):
    """The kernel behind the family that makes noise and prior independent."""
    return _collapsed_mean(
        y,
        np.broadcast_to(NOISE, (L + 1, 1, 2, 2)),
        centre[:, None],
        np.linalg.cholesky(np.broadcast_to(SPREAD, (L + 1, 1, 2, 2))),
    )


M0 = np.array([[0.2, -0.1, 0.4], [0.0, 0.5, -0.3]])
V0 = np.array([[0.6, 0.1, 0.0], [0.1, 0.9, 0.2], [0.0, 0.2, 0.4]])
S0 = np.array([[1.2, 0.3], [0.3, 0.7]])


def regression_evidence(rows, degrees):
    """Marginal likelihood of a matrix-normal inverse-Wishart regression, by sums of products."""
    rows = rows[np.isfinite(rows[:, 0])]
    x, y, n = rows[:, :3], rows[:, 3:], len(rows)
    K0 = np.linalg.inv(V0)
    K = K0 + x.T @ x
    M = np.linalg.solve(K, K0 @ M0.T + x.T @ y).T
    S = S0 + y.T @ y + M0 @ K0 @ M0.T - M @ K @ M.T
    half = 0.5 * (degrees + n)
    out = multigammaln(half, 2) - multigammaln(0.5 * degrees, 2) - n * np.log(np.pi)
    out += 0.5 * degrees * np.linalg.slogdet(S0)[1] - half * np.linalg.slogdet(S)[1]
    return out + np.linalg.slogdet(K0)[1] - np.linalg.slogdet(K)[1]


def regression(rows, degrees):
    full = (np.broadcast_to(x, (L + 1, *x.shape)) for x in (M0, V0, S0))
    return gaussian.regression(rows, lower_factor(prior_factor(*full)), degrees, 3)


def parameters(rng, *shape):
    """Positive parameters that differ by channel and are the same in all slots."""
    return np.broadcast_to(rng.uniform(0.3, 3.0, shape), (L + 1, *shape)).copy()


def case(name, rng):
    """(builder, data, parameters of shape (L + 1, ...), evidence function)."""
    numbers = rng.normal(size=(T, C))
    if name == "normal mean":
        made = [parameters(rng, C) for _ in range(3)]
        return continuous.normal_mean, numbers, made, normal_mean_evidence
    if name == "normal variance":
        made = [parameters(rng, C) for _ in range(3)]
        return continuous.normal_variance, numbers, made, normal_variance_evidence
    if name == "normal inverse gamma":
        made = [parameters(rng, C) for _ in range(4)]
        return continuous.normal_inverse_gamma, numbers, made, normal_inverse_gamma_evidence
    if name == "vector mean":
        return vector_mean, numbers[:, None], [parameters(rng, 2)], vector_mean_evidence
    if name == "regression":
        rows = np.column_stack([rng.normal(size=(T, 2)), np.ones(T), numbers])
        rows[::9] = np.nan
        rows[4] *= 1e4  # leaves hardly anything of a direction where it goes
        return regression, rows, [5.5 + parameters(rng)], regression_evidence
    if name == "exponential":
        made = [parameters(rng, C) for _ in range(2)]
        y = rng.exponential(size=(T, C))
        return continuous.exponential_rate, y, made, exponential_evidence
    if name == "poisson":
        made = [parameters(rng, C) for _ in range(2)]
        y = rng.poisson(rng.choice([0.5, 9.0, 60.0], size=(T, C))).astype("float64")
        return counts.poisson_rate, y, made, poisson_evidence
    if name == "exposure":
        made = [parameters(rng, C) for _ in range(2)]
        exposure = rng.choice([0.0, 0.01, 1.0, 300.0], size=(T, C))
        y = np.stack([rng.poisson(5.0 * exposure), exposure], axis=-1)
        return counts.exposed_rate, y, made, exposed_evidence
    if name == "no counts":  # rates near 0
        made = [parameters(rng, C) * 1e-6, parameters(rng, C)]
        return counts.poisson_rate, np.zeros((T, C)), made, poisson_evidence
    if name == "proportions":
        y = rng.multinomial(11, [0.1, 0.2, 0.7], size=(T, C)).astype("float64")
        return counts.proportions, y, [parameters(rng, C, V)], proportions_evidence
    y = rng.integers(V, size=(T, C))
    return counts.categories, y, [parameters(rng, C, V)], categories_evidence


CONTINUOUS = ("normal mean", "normal variance", "normal inverse gamma", "vector mean", "regression")
NAMES = [
    "normal mean",
    "normal inverse gamma",
    "regression",
    "normal variance",
    "vector mean",
    "exponential",
    "poisson",
    "exposure",
    "no counts",
    "proportions",
    "categories",
]


@pytest.mark.parametrize("name", NAMES)
def test_predictive_is_a_ratio_of_evidences(name):
    """Fails if a sum misses the time point that comes or goes, or a constant is off."""
    rng = np.random.default_rng(21)
    build, y, made, evidence = case(name, rng)
    emission = build(y, *made)
    states = rng.integers(L - 1, size=T)
    include_path(emission, states)
    prior = [x[0] for x in made]
    out = np.full(L + 1, np.nan)
    for t in range(T):
        exclude(emission, t, states[t])
        others = np.arange(T) != t
        log_predictive(emission, t, np.arange(L), L, True, out)
        expected = []
        for k in range(L):
            member = others & (states == k)
            with_t = np.concatenate([y[member], y[t : t + 1]])
            expected.append(evidence(with_t, *prior) - evidence(y[member], *prior))
        expected.append(evidence(y[t : t + 1], *prior))
        difference = out - np.array(expected)  # the same for all slots
        atol = 1e-6 if name == "regression" else 1e-10  # the twin's sums of products cancel
        np.testing.assert_allclose(difference, difference[0], rtol=0.0, atol=atol)
        assert out[L] == out[L - 1]
        if name in CONTINUOUS:
            assert abs(difference[0]) < atol
        states[t] = rng.integers(L - 1)
        include(emission, t, states[t])


def sums(emission):
    """What is kept of each slot, without the room for working and the age of a factor."""
    if not isinstance(emission, gaussian.Regression):
        return emission.slots, emission.totals
    m = emission.data.shape[1]
    return emission.slots[:, : m + 1], emission.totals[:, : gaussian.REMOVED]


WHOLE = [pytest.param(name, marks=pytest.mark.slow) for name in NAMES[1:]]


@pytest.mark.parametrize("name", NAMES[:1] + WHOLE)
def test_sums_do_not_drift(name):
    """10,000 sweeps on one emission: sums kept equal sums afresh, emptied slots the prior.

    Fails if a factor is not formed afresh where a removal loses digits.
    """
    rng = np.random.default_rng(22)
    build, y, made, _ = case(name, rng)
    emission = build(y, *made)
    states = rng.integers(L, size=T)
    include_path(emission, states)
    lengths = np.array([T - 15, 15])
    base, logit = np.tile([0.4, 0.3, 0.2, 0.1], (L + 1, 1)), np.zeros(L)
    pi_bar, every = np.full((L, L), 0.25), np.arange(T)
    for _ in range(10_000):
        switches, visits = np.zeros((L + 1, L), np.int64), np.zeros(L, np.int64)
        given = rng, states, lengths, NO_INDEX, logit, pi_bar, switches, visits
        persists = draw_persistences(*given)
        draw = sweep_states(
            rng,
            states,
            persists,
            lengths,
            NO_INDEX,
            switches,
            visits,
            logit,
            base,
            emission,
            True,
            every,
        )
        states = draw.states
    fresh = build(y, *made)
    include_path(fresh, states)
    for kept, new in zip(sums(emission), sums(fresh), strict=True):
        np.testing.assert_allclose(kept, new, rtol=1e-9, atol=1e-11)
    for t in range(T):
        exclude(emission, t, states[t])
    for kept, new in zip(sums(emission), sums(build(y, *made)), strict=True):
        np.testing.assert_array_equal(kept, new)


@pytest.mark.parametrize("name", ["normal variance", "normal inverse gamma", "regression"])
def test_far_observations_leave_no_trace(name):
    """What came with an observation of 1e5 goes with it; fails without the sums afresh."""
    rng = np.random.default_rng(23)
    build, y, made, _ = case(name, rng)
    y = np.nan_to_num(y, nan=0.5)
    y[7] = 1e5
    emission, expected = build(y, *made), build(y, *made)
    for t in (3, 4, 5):
        include(expected, t, 1)
    for t in (3, 7, 4, 5):
        include(emission, t, 1)
    exclude(emission, 7, 1)
    for kept, new in zip(sums(emission), sums(expected), strict=True):
        np.testing.assert_allclose(kept, new, rtol=1e-12, atol=1e-12)


def test_zero_concentration_gives_no_probability():
    """A category of prior parameter 0 that was not seen is impossible, not NaN."""
    emission = counts.categories(
        np.array([[0], [1]]), np.broadcast_to([0.0, 1.0], (3, 1, 2)).copy()
    )
    out = np.empty(3)
    log_predictive(emission, 0, np.arange(2), 2, True, out)
    assert (out == -math.inf).all()
    log_predictive(emission, 1, np.arange(2), 2, True, out)
    assert (out == 0.0).all()
