"""Draws in log space against SciPy's distributions, and where ordinary draws underflow."""

import numpy as np
import pytest
import reference
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

from pymc_dshdp.kernels.random import (
    beta_draw,
    beta_logit_draw,
    dirichlet_draw,
    log_beta_draw,
    log_gamma_draw,
    sigmoid,
    softplus,
)

DRAWS = 40_000


@njit
def log_gammas(rng, shape, n):
    out = np.empty(n)
    for i in range(n):
        out[i] = log_gamma_draw(rng, shape)
    return out


@njit
def betas(rng, a, b, n):
    """log X, log(1 - X), and independent draws of logit X and X."""
    out = np.empty((4, n))
    for i in range(n):
        out[0, i], out[1, i] = log_beta_draw(rng, a, b)
        out[2, i] = beta_logit_draw(rng, a, b)
        out[3, i] = beta_draw(rng, a, b)
    return out


@njit
def dirichlets(rng, concentration, n):
    out = np.empty((n, concentration.shape[0]))
    for i in range(n):
        dirichlet_draw(rng, concentration, out[i])
    return out


def assert_mean(sample, exact):
    error = sample.std() / np.sqrt(len(sample))
    assert abs(sample.mean() - exact) < reference.LARGEST_Z * error


@pytest.mark.parametrize("shape", [0.05, 0.3, 0.999, 1.0, 2.5, 50.0, 1e4])
def test_log_gamma(shape):
    """Fails if the boost of shapes below 1 is left out or uses 1 / (shape + 1)."""
    rng = np.random.default_rng(1)
    x = log_gammas(rng, shape, DRAWS)
    reference.assert_distribution(np.exp(x), stats.gamma(shape).cdf)
    assert_mean(x, special.digamma(shape))
    assert_mean((x - special.digamma(shape)) ** 2, special.polygamma(1, shape))
    numpy_draws = np.random.default_rng(2).standard_gamma(shape, DRAWS)
    assert stats.ks_2samp(np.exp(x), numpy_draws).pvalue > reference.SMALLEST_P_VALUE


@pytest.mark.parametrize("shape", [1e-5, 1e-30, 1e-100, 1e-300])
def test_log_gamma_where_the_gamma_underflows(shape):
    """For small shapes -shape log G has the standard exponential distribution."""
    x = log_gammas(np.random.default_rng(3), shape, DRAWS)
    assert np.isfinite(x).all()
    reference.assert_distribution(-shape * x, stats.expon(loc=-1e-4 * (shape > 1e-6)).cdf)


def test_log_gamma_of_shape_zero():
    assert log_gamma_draw(np.random.default_rng(4), 0.0) == -np.inf


@pytest.mark.parametrize(("a", "b"), [(0.2, 0.7), (1.0, 3.0), (5.0, 0.5), (300.0, 20.0)])
def test_beta(a, b):
    log_x, log_1mx, logit, x = betas(np.random.default_rng(5), a, b, DRAWS)
    exact = stats.beta(a, b)
    reference.assert_distribution(np.exp(log_x), exact.cdf)
    reference.assert_distribution(special.expit(logit), exact.cdf)
    reference.assert_distribution(x, exact.cdf)
    assert_allclose(np.exp(log_x) + np.exp(log_1mx), 1.0, rtol=1e-14)
    assert_mean(log_x, special.digamma(a) - special.digamma(a + b))
    assert_mean(log_1mx, special.digamma(b) - special.digamma(a + b))
    assert_mean(logit, special.digamma(a) - special.digamma(b))


def test_beta_where_it_rounds_to_zero_or_one():
    log_x, log_1mx, logit, x = betas(np.random.default_rng(6), 1e-100, 3e-100, DRAWS)
    assert np.isfinite(logit).all()
    assert set(np.unique(x)) == {0.0, 1.0}
    for ones in (logit > 0.0, x == 1.0, log_x == 0.0):
        reference.assert_frequencies([ones.sum(), DRAWS - ones.sum()], [0.25, 0.75])
    assert_array_equal(np.maximum(log_x, log_1mx), 0.0)


@pytest.mark.parametrize("concentration", [[0.5, 0.5], [0.05, 0.3, 2.0, 10.0], [200.0, 1.0, 40.0]])
def test_dirichlet(concentration):
    """Fails if entries are clipped from below."""
    concentration = np.array(concentration)
    x = dirichlets(np.random.default_rng(7), concentration, DRAWS)
    assert_allclose(x.sum(axis=1), 1.0, rtol=1e-14)
    total = concentration.sum()
    for k, a in enumerate(concentration):
        reference.assert_distribution(x[:, k], stats.beta(a, total - a).cdf)
    assert_mean(x[:, 0] * x[:, 1], concentration[0] * concentration[1] / (total * (total + 1.0)))
    numpy_draws = np.random.default_rng(8).dirichlet(concentration, DRAWS)
    for k in range(len(concentration)):
        p_value = stats.ks_2samp(x[:, k], numpy_draws[:, k]).pvalue
        assert p_value > reference.SMALLEST_P_VALUE


def test_dirichlet_of_tiny_concentrations_is_one_hot():
    concentration = np.array([1e-100, 0.0, 2e-100, 1e-100])
    x = dirichlets(np.random.default_rng(9), concentration, DRAWS)
    assert_array_equal(x.max(axis=1), 1.0)
    assert_array_equal(x.sum(axis=1), 1.0)
    reference.assert_frequencies(x.sum(axis=0).astype(int), [0.25, 0.0, 0.5, 0.25])


def test_dirichlet_keeps_true_zeros():
    concentration = np.array([0.0, 3.0, 1e-310, 0.0, 1e-100])
    x = dirichlets(np.random.default_rng(10), concentration, 1000)
    assert_array_equal(x, np.tile([0.0, 1.0, 0.0, 0.0, 0.0], (1000, 1)))


def test_sigmoid_and_softplus():
    x = np.concatenate([np.linspace(-700.0, 700.0, 4001), [-1e-300, 0.0, 1e-300]])
    assert_allclose([sigmoid(v) for v in x], special.expit(x), rtol=1e-13, atol=0.0)
    assert_allclose([softplus(v) for v in x], np.logaddexp(0.0, x), rtol=1e-13, atol=0.0)
    assert sigmoid(-np.inf) == 0.0
    assert sigmoid(np.inf) == 1.0
    assert softplus(1e300) == 1e300
    assert softplus(-1e300) == 0.0
