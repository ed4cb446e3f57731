"""The probability of a path where all rows have the same parameters, by tables of factors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pymc_dshdp.kernels.alike_rows import alike_counts, log_others, log_own, own_tables
from pymc_dshdp.kernels.collapsed_transitions import beta_persistence, log_path_marginal

BETA = np.array([0.5, 0.3, 0.2])
L = len(BETA)


def counts_of(n_groups, stays, seed=1):
    """Counts of many groups, of which some leave states out, and rows of every kind."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(3.0, (1 + n_groups * L, L)) * (rng.random((1 + n_groups * L, 1)) < 0.8)
    for r in range(n_groups * L):
        counts[r + 1, r % L] = rng.integers(stays) * (rng.random() < 0.9)
    counts[2] = 0
    return counts


def both(counts, alpha, beta, rho1, rho2):
    """Log p(z) row by row, and as it is taken apart."""
    alike = alike_counts(counts)
    tables = own_tables(alike, alpha, beta)
    base = np.tile(alpha * beta, (len(counts), 1))
    expected = log_path_marginal(counts, base, beta_persistence(rho1, rho2, len(counts) - 1))
    found = log_own(alike, alpha, beta, rho1, rho2, tables)
    return alike, expected, found + log_others(alike, alpha, beta)


@pytest.mark.parametrize("rho", [(9.0, 1.5), (0.2, 0.01), (1e-6, 3e-5), (1e4, 40.0), (40.0, 1e6)])
@pytest.mark.parametrize("alpha", [1e-5, 2.3, 90.0, 4e3])
def test_factors_are_those_of_each_row(alpha, rho):
    """Fails if a factor is taken at the W of another, or of another state or row."""
    alike, expected, found = both(counts_of(30, 300), alpha, BETA, *rho)
    assert alike.longest > 0
    assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(("n_groups", "stays"), [(1, 300), (30, 1), (2, 5)])
def test_few_rows_have_no_tables(n_groups, stays):
    alike, expected, found = both(counts_of(n_groups, stays), 2.3, BETA, 9.0, 1.5)
    assert alike.longest == 0
    assert_allclose(found, expected, rtol=1e-12)


def test_a_state_without_weight():
    """It can only copy itself; a path that draws it is impossible."""
    counts = counts_of(30, 300)
    counts[:, 2] = 0
    counts[3::L, 2] = 40
    beta = np.array([0.6, 0.4, 0.0])
    alike, expected, found = both(counts, 2.3, beta, 9.0, 1.5)
    assert alike.longest > 0
    assert_allclose(found, expected, rtol=1e-12)
    counts[1, 2] = 1
    assert both(counts, 2.3, beta, 9.0, 1.5)[1:] == (-np.inf, -np.inf)


def test_counts_are_summed_up():
    counts = np.array([[1, 0, 2], [5, 1, 0], [0, 0, 0], [1, 0, 0], [7, 1, 2], [0, 3, 1], [0, 0, 2]])
    alike = alike_counts(counts)
    assert alike.own.tolist() == [[0, 5, 1], [2, 0, 1], [0, 7, 3], [1, 3, 1], [2, 2, 0]]
    assert alike.others.tolist() == [[0, 1, 2], [1, 1, 2], [2, 1, 1], [2, 2, 2]]
    assert (alike.starts, alike.n_states) == (3, 3)
