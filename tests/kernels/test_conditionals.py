"""Each conditional of the two blocks against its density, on a grid or in closed form."""

import numpy as np
import pytest
import reference
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

from pymc_dshdp.kernels.chain import transition_matrix
from pymc_dshdp.kernels.transitions import (
    draw_dirichlet_rows,
    draw_gamma,
    draw_gamma_sticks,
    draw_sticks,
    draw_weights,
    log_alpha_marginal,
    log_gamma_conditional,
    log_gamma_conditional_sticks,
    self_persistence_counts,
    slice_alpha,
    split_counts,
    stick_breaking_weights,
    switch_counts,
)

DRAWS = 40_000
SWITCHES = np.array([[1, 0, 1, 0], [3, 4, 0, 0], [0, 0, 0, 0], [2, 9, 30, 0], [0, 1, 0, 0]])


@njit
def gamma_chain(rng, tables, shape, rate, n):
    out = np.empty(n)
    gamma = shape / rate
    for i in range(n):
        gamma = draw_gamma(rng, tables, gamma, shape, rate)
        out[i] = gamma
    return out


@njit
def alpha_chain(rng, switches, beta, shape, rate, n):
    out = np.empty(n)
    alpha = shape / rate
    for i in range(n):
        alpha = slice_alpha(rng, switches, alpha, beta, shape, rate)
        out[i] = alpha
    return out


def log_gamma_prior(x, shape, rate):
    return (shape - 1.0) * np.log(x) - rate * x


@pytest.mark.parametrize(
    ("tables", "shape", "rate"),
    [
        ([3, 1, 0, 0], 2.0, 1.0),
        ([40, 11, 7, 2], 2.0, 1.0),
        ([5], 1.0, 0.2),
        ([9, 9, 9, 9, 1, 1, 1, 0, 0, 0, 0, 0], 0.5, 0.1),
        ([600, 1], 2.0, 1.0),
    ],
)
def test_gamma_given_tables(tables, shape, rate):
    """Fails if the number of occupied dishes replaces the second-level tables r."""
    tables = np.array(tables)
    chain = gamma_chain(np.random.default_rng(1), tables, shape, rate, DRAWS)
    L = len(tables)

    def log_density(gamma):
        log_likelihood = reference.log_dirichlet_multinomial(tables, np.full(L, gamma / L))
        return log_likelihood + log_gamma_prior(gamma, shape, rate)

    reference.assert_chain_density(chain, log_density, 1e-14, 400.0)


def test_gamma_without_tables_is_its_prior():
    chain = gamma_chain(np.random.default_rng(2), np.zeros(3, int), 2.0, 4.0, DRAWS)
    reference.assert_distribution(chain, stats.gamma(2.0, scale=0.25).cdf)


def test_gamma_given_sticks():
    rng = np.random.default_rng(3)
    logit = np.array([1.0, -40.0, 60.0, 0.3])
    draws = np.array([draw_gamma_sticks(rng, logit, 2.0, 1.5) for _ in range(5000)])
    rate = 1.5 + np.logaddexp(0.0, logit).sum()
    reference.assert_distribution(draws, stats.gamma(2.0 + 4, scale=1.0 / rate).cdf)


@pytest.mark.parametrize(("shape", "rate"), [(1.0, 0.1), (2.0, 1.0), (1.0, 0.01)])
def test_alpha_given_switches(shape, rate):
    """Tables integrated out: the rows are Dirichlet-multinomial with concentration alpha beta.

    Fails if the Jacobian of log alpha is left out of the slice, or an empty row enters.
    """
    beta = np.array([0.5, 0.3, 0.15, 0.05])
    chain = alpha_chain(np.random.default_rng(5), SWITCHES, beta, shape, rate, DRAWS)

    def log_density(alpha):
        log_likelihood = reference.log_dirichlet_multinomial(SWITCHES, alpha * beta).sum()
        return log_likelihood + log_gamma_prior(alpha, shape, rate)

    reference.assert_chain_density(chain, log_density, 1e-6, 5e3)


def test_alpha_without_switches_is_its_prior():
    switches = np.zeros((4, 3), int)
    switches[0, 1] = 1
    beta = np.array([0.2, 0.8, 0.0])
    chain = alpha_chain(np.random.default_rng(12), switches, beta, 0.5, 0.01, DRAWS)
    reference.assert_chain_density(chain, lambda x: log_gamma_prior(x, 0.5, 0.01), 1e-16, 1e4)


def test_log_conditionals_of_concentrations_against_scipy():
    """Differences over a pair of values; the constants are free."""
    tables = np.array([4, 0, 11, 1])
    logit = np.array([0.3, -2.0, 30.0])
    beta = np.array([0.5, 0.3, 0.2, 1e-100])

    def exact_gamma(x):
        return reference.log_dirichlet_multinomial(tables, np.full(4, x / 4))

    def exact_sticks(x):
        return stats.beta(1.0, x).logpdf(special.expit(logit[:2])).sum() + (
            np.log(x) - (x - 1.0) * np.logaddexp(0.0, logit[2])
        )

    def exact_marginal(x):
        return reference.log_dirichlet_multinomial(SWITCHES, x * beta).sum()

    for x, y in [(0.01, 0.5), (1.0, 7.0), (3.0, 250.0)]:
        for ours, exact in [
            (lambda v: log_gamma_conditional(v, tables), exact_gamma),
            (lambda v: log_gamma_conditional_sticks(v, logit), exact_sticks),
            (lambda v: log_alpha_marginal(v, SWITCHES, beta), exact_marginal),
        ]:
            assert_allclose(ours(x) - ours(y), exact(x) - exact(y), rtol=1e-10)


def test_weights_given_tables():
    rng = np.random.default_rng(6)
    tables, gamma = np.array([3, 0, 7, 1]), 1.2
    draws = np.array([draw_weights(rng, tables, gamma) for _ in range(5000)])
    a = gamma / 4 + tables
    for k in range(4):
        reference.assert_distribution(draws[:, k], stats.beta(a[k], a.sum() - a[k]).cdf)


def test_sticks_given_tables():
    """Fails if a stick's own tables are left among those beyond it."""
    rng = np.random.default_rng(7)
    tables, gamma = np.array([3, 0, 7, 1]), 1.2
    logit = np.array([draw_sticks(rng, tables, gamma) for _ in range(5000)])
    for k in range(3):
        exact = stats.beta(1.0 + tables[k], gamma + tables[k + 1 :].sum())
        reference.assert_distribution(special.expit(logit[:, k]), exact.cdf)


def test_stick_breaking_weights():
    v = np.array([0.2, 0.9, 0.5, 1e-12])
    rest = np.concatenate([[1.0], np.cumprod(1.0 - v)])
    assert_allclose(stick_breaking_weights(special.logit(v)), np.append(v, 1.0) * rest, rtol=1e-13)
    far = stick_breaking_weights(np.array([-800.0, 800.0, 3.0]))
    assert_array_equal(far, [0.0, 1.0, 0.0, 0.0])


def test_rows_given_switches():
    rng = np.random.default_rng(8)
    alpha, beta = 3.0, np.array([0.5, 0.3, 0.2, 0.0])
    draws = np.array([draw_dirichlet_rows(rng, alpha * beta + SWITCHES) for _ in range(5000)])
    assert draws.shape == (5000, 5, 4)
    assert_array_equal(draws[:, :, 3], 0.0)
    assert_allclose(draws.sum(axis=2), 1.0, rtol=1e-14)
    for j in range(5):
        a = alpha * beta + SWITCHES[j]
        for k in range(3):
            reference.assert_distribution(draws[:, j, k], stats.beta(a[k], a.sum() - a[k]).cdf)


def test_self_persistence_counts():
    """Fails if p is computed from pi_bar_jj without kappa."""
    rng = np.random.default_rng(9)
    counts = np.zeros((5, 4), int)
    counts[0] = 7
    counts[np.arange(1, 5), np.arange(4)] = [10, 4, 6, 5]
    counts[1, 3] = 9
    kappa = np.array([0.7, 0.05, 0.0, 0.9])
    pi_bar = np.array(
        [[0.4, 0.6, 0, 0], [0.1, 0.8, 0.05, 0.05], [0, 0.5, 0.5, 0], [0.2, 0.8, 0, 0]]
    )
    with np.errstate(divide="ignore"):
        logit = special.logit(kappa)
    draws = np.array([self_persistence_counts(rng, counts, logit, pi_bar) for _ in range(20_000)])
    p = kappa / (kappa + (1.0 - kappa) * np.diag(pi_bar))
    assert_allclose(p[2:], [0.0, 1.0])
    for j in range(4):
        n = counts[j + 1, j]
        exact = stats.binom(n, p[j]).pmf(np.arange(n + 1))
        reference.assert_frequencies(np.bincount(draws[:, j], minlength=n + 1), exact)
    switches, W = split_counts(rng, counts, logit, pi_bar)
    assert_array_equal(switches, switch_counts(counts, W))
    switches = switch_counts(counts, draws[0])
    assert_array_equal(switches[0], counts[0])
    assert_array_equal(counts[1:] - switches[1:], np.diag(draws[0]))


def test_transition_matrix():
    rng = np.random.default_rng(10)
    pi_bar = reference.random_rows(rng, 3, 3)
    kappa = np.array([0.9, 1e-20, 0.4])
    P = transition_matrix(special.logit(kappa), pi_bar)
    assert_allclose(P, np.diag(kappa) + (1.0 - kappa)[:, None] * pi_bar, rtol=1e-14)
    assert_allclose(transition_matrix(np.full(3, -np.inf), pi_bar), pi_bar)
    # Off-diagonal mass survives where kappa rounds to 1.
    assert_allclose(transition_matrix(np.full(3, 50.0), pi_bar)[0, 1], np.exp(-50.0) * pi_bar[0, 1])
