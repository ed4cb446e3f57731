"""Vectorised elementary functions to their stated accuracy."""

import numpy as np
import pytest
import reference
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

from pymc_dshdp.kernels.elementary import add_log_rising, log_rising
from pymc_dshdp.kernels.simd import exp_in_place, log_in_place


def exp_of(x):
    out = np.array(x, float)
    exp_in_place(out, out.size)
    return out


def log_of(x):
    out = np.array(x, float)
    log_in_place(out, out.size)
    return out


def test_exp_to_three_units_in_the_last_place():
    rng = np.random.default_rng(1)
    x = -np.concatenate(
        [
            rng.uniform(0.0, 708.0, 200_000),
            rng.uniform(0.0, 1.0, 50_000),
            10.0 ** rng.uniform(-320, 0, 1000),
        ]
    )
    assert_allclose(exp_of(x), np.exp(x), rtol=6e-16)


def test_exp_at_special_values():
    assert_array_equal(exp_of([0.0, -0.0, -np.inf]), [1.0, 1.0, 0.0])
    assert np.isnan(exp_of([np.nan, -1.0, np.nan])[[0, 2]]).all()
    assert_allclose(exp_of([np.nan, -1.0])[1], np.exp(-1.0), rtol=6e-16)
    # Results below 2^-1022 count as 0, those just above do not.
    assert_array_equal(exp_of([-708.5, -720.0, -745.2, -1e4, -1e300]), np.zeros(5))
    assert_allclose(exp_of([-708.0, -707.99]), np.exp([-708.0, -707.99]), rtol=6e-16)


@pytest.mark.parametrize("n", range(10))
def test_only_the_first_n_are_replaced(n):
    x = np.full(9, -1.0)
    exp_in_place(x, min(n, 9))
    assert_allclose(x[:n], np.exp(-1.0), rtol=6e-16)
    assert_array_equal(x[n:], -1.0)
    y = np.full(9, 3.0)
    log_in_place(y, min(n, 9))
    assert_allclose(y[:n], np.log(3.0), rtol=1e-15)
    assert_array_equal(y[n:], 3.0)


def test_log_over_the_normal_range():
    rng = np.random.default_rng(2)
    tiny, huge = np.finfo(float).tiny, np.finfo(float).max
    x = np.concatenate(
        [
            10.0 ** rng.uniform(-307, 308, 100_000),
            rng.uniform(0.5, 2.0, 100_000),
            1.0 + 10.0 ** rng.uniform(-15, -1, 10_000),
            2.0 ** np.arange(-1022, 1024),
            np.nextafter(np.sqrt(0.5), [0.0, 1.0]),
            [tiny, huge, 1.0],
        ]
    )
    assert_allclose(log_of(x), np.log(x), rtol=1e-15, atol=0.0)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 9, 50, 3000])
@pytest.mark.parametrize(
    "x", [1e-300, 1e-8, 0.3, 1.0, 7.5, 7.999999, 8.0, 30.0, 1e4, 1e8, 1e15, 1e50]
)
def test_log_rising_against_the_sum_of_logarithms(x, n):
    assert_allclose(log_rising(x, n), float(reference.log_rising(x, n)), rtol=2e-13, atol=2e-14)


def test_log_rising_against_scipy():
    rng = np.random.default_rng(3)
    for x, n in zip(10.0 ** rng.uniform(-3, 3, 200), rng.integers(0, 500, 200), strict=True):
        exact = special.gammaln(x + n) - special.gammaln(x)
        assert_allclose(log_rising(x, n), exact, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    "repeats", [[0], [1], [7], [8], [9], [250], [1, 2, 3, 4, 5, 6, 7], [8, 0, 3, 12, 1000, 1]]
)
def test_add_log_rising_against_the_sum_of_logarithms(repeats):
    x = np.concatenate([10.0 ** np.linspace(-12, 5, 60), np.linspace(0.1, 20.0, 41)])
    out = np.linspace(-1.0, 1.0, x.size)
    start = out.copy()
    add_log_rising(x, np.array(repeats), x.size, out, np.empty((2, x.size)))
    exact = np.array([float(sum(reference.log_rising(v, n) for n in repeats)) for v in x])
    # Stirling's series is to 1e-14 of log Gamma(x + n), whose size is (x + n) log(x + n).
    largest = x + max(repeats)
    scale = len(repeats) * largest * np.log(largest + 2.0)
    assert np.all(np.abs(out - start - exact) <= 1e-15 * scale + 1e-14 * np.abs(exact) + 2e-14)


def test_add_log_rising_leaves_the_rest():
    x = np.array([0.5, 2.0, 9.0])
    out = np.zeros(3)
    add_log_rising(x, np.array([3, 20]), 2, out, np.empty((2, 3)))
    assert out[2] == 0.0
    assert np.all(out[:2] > 0.0)
