"""Self-persistence and own entries of rows, along curves of which the path says little."""

import numpy as np
import pytest
from reference import monte_carlo_error
from scipy import special, stats

from pymc_dshdp.kernels import diagonals

A = np.array([[1.2, 2.0, 0.7], [0.4, 0.3, 2.0], [3.0, 0.0, 0.0]])


@pytest.mark.parametrize("rho", [(2.5, 0.8), (0.3, 4.0)])
def test_pairs_follow_the_law_along_their_curve(rho):
    """Against quadrature over v in (s, v), where kappa = 1 - s / (1 - v)."""
    rng = np.random.default_rng(1)
    kappa, rows = np.array([0.8, 0.3, 0.5]), np.array([[0.3, 0.5, 0.2], [0.6, 0.3, 0.1], [1, 0, 0]])
    s, logit, seen = (1.0 - kappa) * (1.0 - np.diagonal(rows)), special.logit(kappa), []
    given = logit.copy(), rows.copy()
    for _ in range(5_000):
        new = diagonals.divide_diagonals(rng, logit, rows, A, *rho)
        np.testing.assert_array_equal(logit, given[0])
        logit, rows = given = [x.copy() for x in new]
        seen.append(np.diagonal(rows)[:2])
    np.testing.assert_allclose((1.0 - special.expit(logit)) * (1.0 - np.diagonal(rows)), s)
    np.testing.assert_allclose(rows.sum(axis=1), 1.0)
    np.testing.assert_allclose([rows[0, 1] / rows[0, 2], rows[1, 0] / rows[1, 2]], [2.5, 6.0])
    assert logit[2] == 0.0 and rows[2, 0] == 1.0  # nothing to divide
    for j in range(2):
        q = (np.arange(200_000) + 0.5) / 200_000  # v = (1 - s) q^4: fine where it is close to 0
        v = (1.0 - s[j]) * q**4
        law = stats.beta(A[j, j], A[j].sum() - A[j, j]).pdf(v) / (1.0 - v) * q**3
        law *= stats.beta(*rho).pdf(1.0 - s[j] / (1.0 - v))
        law /= law.sum()
        for of in (np.log, np.square, np.sqrt):
            chain = of(np.array(seen)[:, j])
            assert abs(chain.mean() - law @ of(v)) < 4.0 * monte_carlo_error(chain)


@pytest.mark.parametrize("column", [0, 2])
def test_density_along_a_logistic_curve(column):
    """It is that of (c, v) divided by the determinant of the derivatives, taken numerically."""
    rng = np.random.default_rng(column)
    x, stays = rng.normal(size=(7, 3)), np.array([1, 0, 1, 1, 0, 1, 1], bool)
    x[:, column] = 1.0
    c, v, a, b = np.array([0.4, -0.8, 1.1]), 0.35, 0.6, 1.7
    prior = rng.normal(size=(3, 4))
    y, curve = diagonals.logistic_curve(x, stays, c, column, prior, v, 1.0 - v, a, b)
    assert y == pytest.approx(special.logit(v))
    slopes = [p for p in range(3) if p != column]

    def coordinates(at):
        c, v = at[:3], at[3]
        h = x.mean(axis=0) @ c
        held = special.log_expit(-h) + np.log1p(-v), *(special.expit(h) * c[slopes])
        return np.array([*held, special.logit(v)])

    def log_density(at):
        c, v = at[:3], at[3]
        kappa = special.expit(x @ c)
        stay = kappa + (1.0 - kappa) * v
        out = np.log(np.where(stays, stay, (1.0 - kappa) * (1.0 - v))).sum()
        out += stats.beta(a, b).logpdf(v) - 0.5 * ((prior[:, :3] @ c - prior[:, 3]) ** 2).sum()
        steps = 1e-6 * np.eye(4)
        jacobian = [(coordinates(at + d) - coordinates(at - d)) / 2e-6 for d in steps]
        return out - np.linalg.slogdet(np.array(jacobian))[1]

    here = np.array([*c, v])
    for new in (y - 4.0, y - 0.5, y + 0.4):
        gap = curve.total - special.softplus(new)
        there = np.array([*diagonals._coefficients(curve, gap), special.expit(new)])
        np.testing.assert_allclose(coordinates(there)[:3], coordinates(here)[:3])
        found = diagonals._log_density(new, curve) - diagonals._log_density(y, curve)
        assert found == pytest.approx(log_density(there) - log_density(here), abs=1e-6)
    assert diagonals._log_density(40.0, curve) == -np.inf  # kappa would be negative


def test_own_entries_do_not_underflow():
    """Where a row may have one at all: fails if pairs leave for 0, from which none comes back."""
    rng, a = np.random.default_rng(1), np.full((2, 2), 1e-3)
    logit, start = np.zeros(2), np.array([[0.5, 0.5], [1.0, 1e-320]])
    rows, seen = start, []
    for _ in range(1_000):
        logit, rows = diagonals.divide_diagonals(rng, logit, rows, a, 0.5, 0.5)
        seen.append(rows[0, 0])
    assert 0.0 < min(seen) < 1e-250 and max(seen) > 1e-3
    np.testing.assert_array_equal(rows[1], start[1])
    assert logit[1] == 0.0


def test_what_cannot_move_stays():
    """No time after the state, an own entry of 0 or 1, and a kappa that is lost in s."""
    x, c = np.ones((4, 1)), np.array([[-30.0], [1.0], [1.0], [1.0]])
    rows = np.array([[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0, 1.0]])
    z, stays = np.array([0, 1, 2, 3]), np.array([True, True, False, True])
    prior = np.tile([[[0.5, 1.0]]], (4, 1, 1))
    new, moved = diagonals.divide_logistic_diagonals(
        np.random.default_rng(1), z, stays, x, c, 0, prior, rows, np.ones((4, 4))
    )
    still = (new == c).all(axis=1)
    np.testing.assert_array_equal(still, [True, False, True, True])
    np.testing.assert_array_equal((moved == rows).all(axis=1), still)
