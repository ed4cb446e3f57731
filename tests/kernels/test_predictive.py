"""Predictive densities against marginal likelihoods in closed form, and their running sums."""

import math

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import multivariate_normal

from pymc_dshdp.kernels import predictive_continuous as continuous
from pymc_dshdp.kernels import predictive_counts as counts
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


def proportions_evidence(y, a):
    total = y.sum(axis=0)
    out = (gammaln(a + total) - gammaln(a)).sum()
    return out + (gammaln(a.sum(axis=1)) - gammaln((a + total).sum(axis=1))).sum()


def categories_evidence(y, a):
    return proportions_evidence(np.eye(V)[y], a)


def parameters(rng, *shape):
    """Positive parameters that differ by channel and are the same in all slots."""
    return np.broadcast_to(rng.uniform(0.3, 3.0, shape), (L + 1, *shape)).copy()


def case(name, rng):
    """(builder, data, parameters of shape (L + 1, C, ...), evidence function)."""
    if name == "normal mean":
        made = [parameters(rng, C) for _ in range(3)]
        return continuous.normal_mean, rng.normal(size=(T, C)), made, normal_mean_evidence
    if name == "normal inverse gamma":
        made = [parameters(rng, C) for _ in range(4)]
        y = rng.normal(size=(T, C))
        return continuous.normal_inverse_gamma, y, made, normal_inverse_gamma_evidence
    if name == "exponential":
        made = [parameters(rng, C) for _ in range(2)]
        y = rng.exponential(size=(T, C))
        return continuous.exponential_rate, y, made, exponential_evidence
    if name == "poisson":
        made = [parameters(rng, C) for _ in range(2)]
        y = rng.poisson(rng.choice([0.5, 9.0, 60.0], size=(T, C))).astype("float64")
        return counts.poisson_rate, y, made, poisson_evidence
    if name == "proportions":
        y = rng.multinomial(11, [0.1, 0.2, 0.7], size=(T, C)).astype("float64")
        return counts.proportions, y, [parameters(rng, C, V)], proportions_evidence
    y = rng.integers(V, size=(T, C))
    return counts.categories, y, [parameters(rng, C, V)], categories_evidence


NAMES = [
    "normal mean",
    "normal inverse gamma",
    "exponential",
    "poisson",
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
        np.testing.assert_allclose(difference, difference[0], rtol=0.0, atol=1e-10)
        assert out[L] == out[L - 1]
        if name.startswith("normal"):
            assert abs(difference[0]) < 1e-10
        states[t] = rng.integers(L - 1)
        include(emission, t, states[t])


WHOLE = [pytest.param(name, marks=pytest.mark.slow) for name in NAMES[3:]]


@pytest.mark.parametrize("name", NAMES[:3] + WHOLE)
def test_sums_do_not_drift(name):
    """10,000 sweeps on one emission: sums kept equal sums afresh, emptied slots the prior."""
    rng = np.random.default_rng(22)
    build, y, made, _ = case(name, rng)
    emission = build(y, *made)
    states = rng.integers(L, size=T)
    include_path(emission, states)
    lengths = np.array([T - 15, 15])
    base, logit = np.array([0.4, 0.3, 0.2, 0.1]), np.zeros(L)
    pi_bar = np.full((L, L), 0.25)
    for _ in range(10_000):
        switches, visits = np.zeros((L + 1, L), np.int64), np.zeros(L, np.int64)
        persists = draw_persistences(rng, states, lengths, logit, pi_bar, switches, visits)
        draw = sweep_states(
            rng, states, persists, lengths, switches, visits, logit, base, emission, True, False
        )
        states = draw.states
    fresh = build(y, *made)
    include_path(fresh, states)
    for kept, new in zip(emission[1:], fresh[1:], strict=True):
        np.testing.assert_allclose(kept, new, rtol=1e-9, atol=1e-11)
    for t in range(T):
        exclude(emission, t, states[t])
    for kept, new in zip(emission[1:], build(y, *made)[1:], strict=True):
        np.testing.assert_array_equal(kept, new)


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
