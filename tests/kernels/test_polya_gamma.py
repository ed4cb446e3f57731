"""Polya-Gamma draws against their Laplace transform and moments, and against sums of gammas."""

import numpy as np
import pytest
from scipy import stats

from pymc_dshdp.kernels.polya_gamma import polya_gamma_draws

N = 40_000
TILTS = (0.0, 0.4, -1.5, 3.0, 3.2, 12.0, -60.0, 1500.0)  # either side of the two ways left of t


def draws(trials, tilt, n=N, seed=1):
    rng = np.random.default_rng(seed)
    return polya_gamma_draws(rng, np.full(n, float(trials)), np.full(n, float(tilt)))


def log_cosh(x):
    return np.abs(x) + np.log1p(np.exp(-2.0 * np.abs(x))) - np.log(2.0)


def assert_mean(x, expected):
    error = x.std() / np.sqrt(len(x))
    assert abs(x.mean() - expected) < 4.0 * error, (x.mean(), expected, error)


@pytest.mark.parametrize("tilt", TILTS)
@pytest.mark.parametrize("trials", [1, 4])
def test_laplace_transform_and_mean(trials, tilt):
    """Mutation: draw from PG(trials, 2 tilt), or leave the series out."""
    x = draws(trials, tilt)
    c = abs(tilt)
    mean = trials * (0.25 if c == 0.0 else np.tanh(0.5 * c) / (2.0 * c))
    assert_mean(x, mean)
    for s in (0.5 / mean, 3.0 / mean):
        exponent = log_cosh(0.5 * c) - log_cosh(np.sqrt(0.25 * c * c + 0.5 * s))
        assert_mean(np.exp(-s * x), np.exp(trials * exponent))


def test_distribution_is_that_of_a_sum_of_gammas():
    """The definition, its tail replaced by its mean."""
    rng = np.random.default_rng(2)
    k = np.arange(1, 201) - 0.5
    c = 1.2
    weights = 1.0 / (2.0 * np.pi**2 * (k**2 + c * c / (4.0 * np.pi**2)))
    reference = rng.standard_exponential((20_000, len(k))) @ weights
    reference += np.tanh(0.5 * c) / (2.0 * c) - weights.sum()
    assert stats.ks_2samp(draws(1, c, 20_000), reference).pvalue > 0.001


def test_no_trials():
    assert draws(0, 1.0, 3).tolist() == [0.0, 0.0, 0.0]
