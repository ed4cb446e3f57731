"""The number of active states, the active set and gamma against sums over all active sets."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

from pymc_dshdp.kernels.finite_mixture import (
    NumberPrior,
    draw_active,
    draw_active_weights,
    draw_gamma_given_number,
    draw_number,
    log_gamma_given_number,
    log_number_given_tables,
)

L, GAMMA = 4, 1.3
P = np.array([0.1, 0.3, 0.4, 0.2])
TABLES = [np.array(m) for m in ([0, 0, 0, 0], [3, 0, 0, 0], [0, 2, 0, 5], [1, 4, 2, 1])]


def each(gamma, number, static):
    return gamma if static else gamma / number


def log_tables(tables, chosen, gamma, static):
    """Log p(m | active, gamma) of tables that all are in active labels; -inf else."""
    if tables[np.setdiff1d(np.arange(L), chosen)].any():
        return -np.inf
    a = np.full(len(chosen), each(gamma, len(chosen), static))
    m = tables[list(chosen)]
    out = gammaln(a.sum()) - gammaln(a.sum() + m.sum())
    return out + (gammaln(a + m) - gammaln(a)).sum()


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("tables", TABLES, ids=str)
def test_number_given_tables(tables, static):
    """Fails without K! / (K - K+)!, or with the other concentration."""
    logs = np.full(L, -np.inf)
    for number in range(1, L + 1):
        sets = list(itertools.combinations(range(L), number))
        terms = [log_tables(tables, chosen, GAMMA, static) for chosen in sets]
        logs[number - 1] = np.log(P[number - 1] / len(sets)) + logsumexp(terms)
    found = log_number_given_tables(tables, GAMMA, NumberPrior(np.log(P), static))
    expected, found = (np.exp(x - logsumexp(x)) for x in (logs, found))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_numbers_without_probability_are_not_drawn():
    logs = np.array([-np.inf, 2.0, -np.inf, 2.0 + np.log(3.0), -np.inf])
    rng = np.random.default_rng(1)
    drawn = np.bincount([draw_number(rng, logs) for _ in range(4_000)], minlength=6)
    assert drawn[[0, 1, 3, 5]].sum() == 0
    assert stats.binomtest(drawn[2], 4_000, 0.25).pvalue > 1e-3


def test_active_sets_are_alike():
    rng, occupied = np.random.default_rng(2), np.array([False, True, False, False])
    drawn = np.array([draw_active(rng, 3, occupied) for _ in range(3_000)])
    assert (drawn.sum(axis=1) == 3).all() and (drawn[:, 1] == 1).all()
    missing = np.argmin(drawn, axis=1)
    assert stats.chisquare(np.bincount(missing)[[0, 2, 3]]).pvalue > 1e-3


def test_weights_of_states_that_are_not_active_are_zero():
    rng, tables = np.random.default_rng(3), np.array([0, 2, 0, 5])
    drawn = [draw_active_weights(rng, tables, 2.0, 3, True) for _ in range(2_000)]
    active, beta = (np.array(x) for x in zip(*drawn, strict=True))
    assert (beta[active == 0] == 0.0).all() and (beta[active == 1] > 0.0).all()
    assert stats.kstest(beta[:, 3], stats.beta(7.0, 6.0).cdf).pvalue > 1e-3


@pytest.mark.parametrize("static", [False, True])
def test_gamma_given_number(static):
    """Fails with the power of x that the other concentration has."""
    rng, tables, number, shape, rate = np.random.default_rng(4), np.array([0, 3, 1]), 3, 2.0, 0.7
    grid = np.linspace(0.0, 40.0, 20_001)[1:]
    log_m = [log_gamma_given_number(g, tables, number, static) for g in grid]
    density = np.exp(stats.gamma.logpdf(grid, shape, scale=1 / rate) + log_m)
    cdf = np.cumsum(density) / density.sum()
    gamma, drawn = 1.0, []
    for _ in range(6_000):
        gamma = draw_gamma_given_number(rng, tables, gamma, number, static, shape, rate)
        drawn.append(gamma)
    thinned = np.array(drawn[::6])
    assert stats.kstest(thinned, lambda x: np.interp(x, grid, cdf)).pvalue > 1e-3
