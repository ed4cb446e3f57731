"""Numbers of tables against their exact distribution."""

import math

import numpy as np
import pytest
import reference
from numba import njit
from numpy.testing import assert_array_equal

from pymc_dshdp.kernels.tables import DIRECT_CUSTOMERS, SKIP_COST, crt_draw, table_counts

DRAWS = 200_000


@njit
def histogram(rng, customers, concentration, draws):
    out = np.zeros(customers + 1, np.int64)
    for _ in range(draws):
        out[crt_draw(rng, customers, concentration)] += 1
    return out


def skips(customers, concentration):
    cost = SKIP_COST * (1.0 + concentration * math.log(customers / DIRECT_CUSTOMERS))
    return customers > 2 * DIRECT_CUSTOMERS and cost < customers


@pytest.mark.parametrize(
    ("customers", "concentration", "skipping"),
    [
        (1, 0.5, False),
        (2, 0.5, False),
        (5, 2.0, False),
        (33, 0.7, False),
        (64, 0.3, False),
        (150, 40.0, False),
        (65, 0.3, True),
        (300, 1e-3, True),
        (500, 0.05, True),
        (3000, 0.5, True),
        (4000, 0.98, True),
        (800, 1.0, True),
        (400, 1.2, True),
        (2000, 3.0, True),
        (4000, 20.0, True),
    ],
)
def test_distribution_of_the_number_of_tables(customers, concentration, skipping):
    """Fails if the first customer, or any later one, is counted off by one."""
    assert skips(customers, concentration) == skipping
    rng = np.random.default_rng(customers)
    exact = reference.table_distribution(customers, concentration)
    drawn = histogram(rng, customers, concentration, DRAWS)
    reference.assert_frequencies(drawn, exact)
    m = np.arange(customers + 1)
    mean = exact @ m
    error = math.sqrt((exact @ (m - mean) ** 2) / DRAWS)
    assert abs(drawn @ m / DRAWS - mean) <= reference.LARGEST_Z * error + 1e-12


@pytest.mark.parametrize("concentration", [1e-300, 1e-5])
def test_tiny_concentration_seats_all_at_one_table(concentration):
    rng = np.random.default_rng(2)
    for customers in (1, 20, 10_000):
        drawn = histogram(rng, customers, concentration, 1000)
        expected_more = 1000 * concentration * (1.0 + math.log(customers))
        assert 1000 - drawn[1] <= 5.0 + 5.0 * expected_more


def test_zero_customers_and_zero_concentration():
    rng = np.random.default_rng(3)
    assert crt_draw(rng, 0, 1.0) == 0
    assert crt_draw(rng, 0, 0.0) == 0
    for customers in (1, 10, 64, 65, 10_000):
        assert crt_draw(rng, customers, 0.0) == 1


def test_huge_concentration_gives_each_customer_a_table():
    rng = np.random.default_rng(4)
    assert crt_draw(rng, 500, 1e18) == 500


def test_tables_are_pooled_over_rows():
    rng = np.random.default_rng(5)
    switches = np.array([[1, 0, 0], [7, 3, 0], [0, 90, 0], [4, 5, 0]])
    alpha, beta = 3.0, np.array([0.2, 0.3, 0.5])
    draws = np.array([table_counts(rng, switches, alpha, beta) for _ in range(20_000)])
    assert_array_equal(draws[:, 2], 0)
    for k in range(2):
        exact = np.ones(1)
        for n in switches[:, k]:
            exact = np.convolve(exact, reference.table_distribution(n, alpha * beta[k]))
        observed = np.bincount(draws[:, k], minlength=len(exact))
        reference.assert_frequencies(observed, exact)


def test_a_weight_that_underflowed_still_gives_one_table_a_row():
    rng = np.random.default_rng(6)
    tables = table_counts(rng, np.array([[3, 1], [200, 0], [0, 5]]), 2.0, np.array([0.0, 1.0]))
    assert tables[0] == 2
