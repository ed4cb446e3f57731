"""The slice sampler leaves known densities invariant, and reaches them."""

import numpy as np
import pytest
import reference
from scipy import special, stats

from pymc_dshdp.kernels.slice import slice_sample

COORDINATES = 20_000


def log_bimodal(x):
    return np.logaddexp(-0.5 * (x + 1.5) ** 2, np.log(2.0) - 0.5 * ((x - 1.5) / 0.5) ** 2)


def bimodal(rng, size):
    left = rng.random(size) < 0.5  # the second mode is half as wide and twice as high
    normal = rng.standard_normal(size)
    return np.where(left, -1.5 + normal, 1.5 + 0.5 * normal)


def bimodal_cdf(x):
    return 0.5 * stats.norm.cdf(x, -1.5, 1.0) + 0.5 * stats.norm.cdf(x, 1.5, 0.5)


CASES = {
    "normal": (stats.norm.logpdf, stats.norm.cdf, lambda rng, n: rng.standard_normal(n)),
    "uniform": (
        lambda x: np.where((x > 0.0) & (x < 1.0), 0.0, -np.inf),
        stats.uniform.cdf,
        lambda rng, n: rng.random(n),
    ),
    "log-gamma": (
        lambda x: 0.3 * x - np.exp(x),
        lambda x: stats.gamma(0.3).cdf(np.exp(x)),
        lambda rng, n: np.log(rng.standard_gamma(0.3, n)),
    ),
    "logit-beta": (
        lambda x: 2.0 * x - 7.0 * np.logaddexp(0.0, x),
        lambda x: stats.beta(2.0, 5.0).cdf(special.expit(x)),
        lambda rng, n: special.logit(rng.beta(2.0, 5.0, n)),
    ),
    "bimodal": (log_bimodal, bimodal_cdf, bimodal),
}


@pytest.mark.parametrize("width", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("most", [None, 3])
@pytest.mark.parametrize("case", CASES)
def test_density_is_left_invariant(case, most, width):
    """From exact draws, three updates give exact draws.

    Fails if the interval is not placed at random around the current point, or the steps that are
    allowed are not divided at random.
    """
    log_density, cdf, draw = CASES[case]
    rng = np.random.default_rng(1)
    x = draw(rng, COORDINATES)
    start = x.copy()
    new = x
    for _ in range(3):
        new = slice_sample(log_density, new, rng, width, most)
    assert np.array_equal(x, start)
    assert np.mean(new == x) < 0.01
    reference.assert_distribution(new, cdf)


@pytest.mark.parametrize("case", ["normal", "log-gamma", "logit-beta"])
def test_density_is_reached_from_one_point(case):
    log_density, cdf, _ = CASES[case]
    rng = np.random.default_rng(2)
    x = np.full(5000, 1.5)
    for _ in range(60):
        x = slice_sample(log_density, x, rng)
    reference.assert_distribution(x, cdf)


def test_a_density_without_end_needs_a_limit():
    """An angle; fails if there is no limit to the steps out."""
    rng, x = np.random.default_rng(3), np.full(5000, 1.5)
    with pytest.raises(ValueError, match="does not fall off"):
        slice_sample(lambda x: 0.5 * np.cos(x), x, rng)
    for _ in range(60):
        x = slice_sample(lambda x: 0.5 * np.cos(x), x, rng, most=20)
    angle = (x + np.pi) % (2.0 * np.pi) - np.pi
    reference.assert_distribution(angle, stats.vonmises(0.5).cdf)
