"""The self-persistence block against its conditionals, on a grid and by integration."""

import numpy as np
import pytest
import reference
from numba import njit
from numpy.testing import assert_allclose
from scipy import integrate, special, stats

from pymc_dshdp.kernels.persistence import (
    PersistenceGrid,
    accept_persistence,
    draw_self_persistence,
    log_persistence_likelihood,
    log_persistence_marginal,
    log_persistence_table,
    propose_persistence,
    redraw_self_persistence,
)

# Rows that cannot return to their own state make W = N_jj certain.
PI_BAR = np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])
COUNTS = np.array([[1, 0, 0], [6, 2, 1], [3, 0, 1], [0, 0, 0]])
PERSISTENCES = np.array([6, 0, 0])
DEPARTURES = np.array([3, 4, 0])
KAPPA_LOGIT = np.zeros(3)
DRAWS = 60_000


def sloping_prior(phi, eta):
    """Another prior on the box: log density phi ~ Beta(2, 1), eta ~ a line, up to constants."""
    return np.log(phi) + np.log(0.3 + eta)


def flat_prior(phi, eta):
    return 0.0 * (phi + eta)


def make_grid(n_phi, n_eta, log_prior):
    phi_low, eta_low = np.arange(n_phi) / n_phi, 2.0 * np.arange(n_eta) / n_eta
    phi_mid, eta_mid = phi_low + 0.5 / n_phi, eta_low + 1.0 / n_eta
    return PersistenceGrid(
        phi_low, eta_low, 1.0 / n_phi, 2.0 / n_eta, log_prior(phi_mid[:, None], eta_mid)
    )


@njit
def chain_of_block(rng, counts, pi_bar, grid, sloping, refine, n):
    """phi, eta, whether accepted, and the logits of kappa, of n updates of the block."""
    L = pi_bar.shape[0]
    out = np.empty((n, 3 + L))
    phi, eta, logit = 0.5, 1.0, np.zeros(L)
    for i in range(n):
        proposal = propose_persistence(rng, counts, logit, pi_bar, phi, eta, grid, refine)
        ratio = 0.0
        if sloping and refine:
            ratio = np.log(proposal.phi / phi) + np.log((0.3 + proposal.eta) / (0.3 + eta))
        draw = accept_persistence(rng, proposal, ratio, phi, eta)
        phi, eta, logit = draw.phi, draw.eta, draw.kappa_logit
        out[i, 0], out[i, 1], out[i, 2] = phi, eta, draw.accepted
        out[i, 3:] = logit
    return out


@pytest.mark.parametrize("log_prior", [flat_prior, sloping_prior])
def test_midpoint_draws_follow_the_grid_table(log_prior):
    """With refine=False the draws are independent and have the table's probabilities."""
    rng = np.random.default_rng(1)
    grid = make_grid(7, 5, log_prior)
    chain = chain_of_block(rng, COUNTS, PI_BAR, grid, log_prior is sloping_prior, False, DRAWS)
    phi, eta = np.meshgrid((np.arange(7) + 0.5) / 7, (np.arange(5) + 0.5) / 2.5, indexing="ij")
    table = reference.log_persistence_marginal(phi, eta, PERSISTENCES, DEPARTURES)
    table = table + log_prior(phi, eta)
    mass = np.exp(table - table.max())
    mass /= mass.sum()
    cell = np.floor(chain[:, 0] * 7) * 5 + np.floor(chain[:, 1] * 2.5)
    assert chain[:, 2].all()
    reference.assert_frequencies(np.bincount(cell.astype(int), minlength=35), mass)


@pytest.mark.parametrize("cells", [(2, 2), (4, 3), (30, 30)])
@pytest.mark.parametrize("log_prior", [flat_prior, sloping_prior])
def test_refined_draws_follow_the_continuous_density(cells, log_prior):
    """Whatever the grid. Fails if the Metropolis correction, or the prior in it, is left out."""
    rng = np.random.default_rng(2)
    grid = make_grid(*cells, log_prior)
    chain = chain_of_block(rng, COUNTS, PI_BAR, grid, log_prior is sloping_prior, True, DRAWS)
    fine = 400
    phi, eta = np.meshgrid(
        (np.arange(fine) + 0.5) / fine, (np.arange(fine) + 0.5) * 2.0 / fine, indexing="ij"
    )
    log_density = reference.log_persistence_marginal(phi, eta, PERSISTENCES, DEPARTURES)
    log_density = log_density + log_prior(phi, eta)
    mass = np.exp(log_density - log_density.max())
    mass /= mass.sum()
    x, y = chain[:, 0], chain[:, 1]
    pairs = [
        (f(x, y), np.sum(mass * f(phi, eta)))
        for f in (
            lambda a, b: a,
            lambda a, b: b,
            lambda a, b: a * a,
            lambda a, b: b * b,
            lambda a, b: a * b,
            lambda a, b: a < 0.3,
            lambda a, b: b < 0.7,
            lambda a, b: (a > 0.6) & (b > 1.3),
            lambda a, b: a * (1.0 - a) / b,
        )
    ]
    z = [(np.mean(s) - e) / reference.monte_carlo_error(s) for s, e in pairs]
    assert np.max(np.abs(z)) < reference.LARGEST_Z, z
    if cells == (30, 30):
        assert chain[:, 2].mean() > 0.8


@pytest.mark.parametrize("refine", [True, False])
def test_kappa_follows_the_new_phi_and_eta(refine):
    """kappa_j is Beta(rho1 + W_j, rho2 + n_j.) at the (phi, eta) that are returned with it.

    Fails if kappa is drawn before (phi, eta) and kept.
    """
    rng = np.random.default_rng(3)
    grid = make_grid(10, 10, flat_prior)
    chain = chain_of_block(rng, COUNTS, PI_BAR, grid, False, refine, DRAWS)
    concentration = chain[:, 1] ** -3.0
    rho1, rho2 = chain[:, 0] * concentration, (1.0 - chain[:, 0]) * concentration
    ordinary = chain[:, 1] > 0.05
    for j in range(3):
        kappa = special.expit(chain[:, 3 + j])
        exact = stats.beta(rho1 + PERSISTENCES[j], rho2 + DEPARTURES[j])
        u = exact.cdf(kappa)[ordinary]
        z = [
            (np.mean(u < level) - level) / np.sqrt(level * (1.0 - level) / len(u))
            for level in (0.1, 0.3, 0.5, 0.7, 0.9)
        ]
        assert np.max(np.abs(z)) < reference.LARGEST_Z, z


def test_kappa_at_fixed_hyperparameters():
    rng = np.random.default_rng(4)
    phi, eta = 0.3, 0.8
    rho1, rho2 = phi * eta**-3.0, (1.0 - phi) * eta**-3.0
    draws = np.array(
        [redraw_self_persistence(rng, COUNTS, KAPPA_LOGIT, PI_BAR, phi, eta) for _ in range(5000)]
    )
    again = np.array(
        [draw_self_persistence(rng, PERSISTENCES, DEPARTURES, rho1, rho2) for _ in range(5000)]
    )
    for logit in (draws, again):
        for j in range(3):
            exact = stats.beta(rho1 + PERSISTENCES[j], rho2 + DEPARTURES[j])
            reference.assert_distribution(special.expit(logit[:, j]), exact.cdf)


def test_kappa_that_rounds_to_zero_and_one_stays_finite():
    rng = np.random.default_rng(5)
    visits = np.zeros(2000, int)
    logit = draw_self_persistence(rng, visits, visits, 1e-9, 1e-9)
    assert np.isfinite(logit).all()
    reference.assert_frequencies([np.sum(logit > 0), np.sum(logit < 0)], [0.5, 0.5])


def test_self_persistences_are_redrawn_with_kappa():
    """W varies where the rows can return: kappa | N_jj with (phi, eta) fixed, W summed out."""
    rng = np.random.default_rng(6)
    pi_bar = np.array([[0.6, 0.4], [0.3, 0.7]])
    counts = np.array([[1, 0], [5, 2], [1, 0]])
    phi, eta, n = 0.4, 0.9, 30_000
    rho1, rho2 = phi * eta**-3.0, (1.0 - phi) * eta**-3.0
    logit, chain = np.zeros(2), np.empty(n)
    for i in range(n):
        logit = redraw_self_persistence(rng, counts, logit, pi_bar, phi, eta)
        chain[i] = logit[0]
    chain = special.expit(chain)

    def log_density(kappa):
        if kappa >= 1.0:
            return -np.inf
        stay = kappa + (1.0 - kappa) * 0.6
        return stats.beta.logpdf(kappa, rho1, rho2) + 5 * np.log(stay) + 2 * np.log1p(-kappa)

    reference.assert_chain_density(chain, log_density, 1e-12, 1.0)


@pytest.mark.parametrize(("phi", "eta"), [(0.5, 1.0), (0.02, 1.9), (0.97, 0.6), (0.3, 0.05)])
def test_log_marginal_against_scipy_and_integration(phi, eta):
    persistences, departures = np.array([6, 0, 0, 40, 1]), np.array([3, 4, 0, 2, 900])
    ours = log_persistence_marginal(phi, eta, persistences, departures)
    exact = reference.log_persistence_marginal(phi, eta, persistences, departures)
    assert_allclose(ours, exact, rtol=1e-9)
    if eta < 0.5:
        return
    rho1, rho2 = phi * eta**-3.0, (1.0 - phi) * eta**-3.0
    ours = np.exp(log_persistence_marginal(phi, eta, np.array([3]), np.array([2])))
    integral = integrate.quad(
        lambda k: k**3 * (1.0 - k) ** 2 / special.beta(rho1, rho2),
        0.0,
        1.0,
        weight="alg",
        wvar=(rho1 - 1.0, rho2 - 1.0),
    )[0]
    assert_allclose(ours, integral, rtol=1e-7)


def test_log_table_against_log_marginal():
    rng = np.random.default_rng(7)
    persistences = np.array([0, 1, 7, 8, 200, 0, 31, 5000, 0])
    departures = np.array([0, 0, 3, 40, 9, 2, 8, 7, 0])
    phi, eta = (np.arange(100) + 0.5) / 100, (np.arange(37) + 0.5) / 18.5
    table = log_persistence_table(phi, eta, persistences, departures)
    assert table.shape == (100, 37)
    for p, e in rng.integers(0, [100, 37], (500, 2)):
        exact = log_persistence_marginal(phi[p], eta[e], persistences, departures)
        # Stirling's series at rho1 + rho2 = eta^-3, of the order of 1e5 at the smallest eta.
        assert_allclose(table[p, e], exact, rtol=1e-11, atol=1e-9)


def test_log_table_without_visits_is_zero():
    table = log_persistence_table(
        np.array([0.2, 0.7]), np.array([0.5]), np.zeros(4, int), np.zeros(4, int)
    )
    assert_allclose(table, 0.0)


def test_log_likelihood_of_kappa():
    logit = np.array([0.3, -5.0, 60.0, -np.inf, np.inf])
    W, n = np.array([4, 0, 1, 0, 3]), np.array([2, 7, 1, 5, 0])
    kappa = special.expit(logit[:2])
    exact = W[:2] * np.log(kappa) + n[:2] * np.log1p(-kappa)
    ours = log_persistence_likelihood(logit, W, n)
    assert_allclose(ours[:2], exact, rtol=1e-13)
    assert_allclose(ours[2:], [-60.0, 0.0, 0.0], rtol=1e-13, atol=1e-25)
