"""The probability of a path with the rows, kappa and w integrated out, and their redraw."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from reference import LARGEST_Z, all_paths
from scipy.special import betaln, gammaln, logsumexp

from pymc_dshdp.kernels.chain import NO_INDEX
from pymc_dshdp.kernels.collapsed_transitions import (
    Persistence,
    draw_own,
    log_own_marginal,
    log_path_marginal,
    redraw_transitions,
)
from pymc_dshdp.kernels.counts import empty_counts, path_counts

L, LENGTHS = 3, np.array([4, 3])
BASE = 2.3 * np.tile([0.2, 0.5, 0.3], (L + 1, 1))
RHO = Persistence(np.full(L, 1.7), np.full(L, 0.6), True)
GIVEN = Persistence(np.array([0.9, 0.2, 0.0]), np.array([0.1, 0.8, 1.0]), False)


def log_choices(path, w, base, persistence):
    """log p(z, w) with the rows and kappa integrated out, or -inf where w is impossible."""
    first = {0, int(LENGTHS[0])}
    switches, kept, left = np.zeros((L + 1, L)), np.zeros(L), np.zeros(L)
    for t, k in enumerate(path):
        if t in first:
            if w[t]:
                return -np.inf
            switches[0, k] += 1
        elif w[t]:
            if path[t - 1] != k:
                return -np.inf
            kept[k] += 1
        else:
            left[path[t - 1]] += 1
            switches[path[t - 1] + 1, k] += 1
    out = (gammaln(base + switches) - gammaln(base)).sum()
    out += (gammaln(base.sum(axis=1)) - gammaln((base + switches).sum(axis=1))).sum()
    p, q = persistence.stay, persistence.leave
    if persistence.integrated:
        return out + (betaln(p + kept, q + left) - betaln(p, q)).sum()
    with np.errstate(divide="ignore"):
        return out + np.log(p**kept * q**left).sum()


def counts_of(path):
    counts = empty_counts(L)
    path_counts(path, LENGTHS, NO_INDEX, counts)
    return counts


@pytest.mark.parametrize("persistence", [RHO, GIVEN], ids=["integrated", "given"])
def test_path_marginal_is_the_sum_over_choices(persistence):
    """Fails if the sum over W loses its binomial coefficient, or a row its total."""
    rng = np.random.default_rng(1)
    choices = list(itertools.product([False, True], repeat=7))
    for path in all_paths(L, 7)[rng.integers(L**7, size=60)]:
        expected = logsumexp([log_choices(path, w, BASE, persistence) for w in choices])
        assert_allclose(log_path_marginal(counts_of(path), BASE, persistence), expected, atol=1e-12)


def test_probabilities_of_all_paths_add_up_to_one():
    logs = [log_path_marginal(counts_of(path), BASE, RHO) for path in all_paths(L, 7)]
    assert_allclose(np.exp(logs).sum(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("stays", [0, 1, 40_000])
def test_long_sums_stay_finite(stays):
    """The sum passes 1e308 on the way; the twin adds logarithms."""
    leaves, own, total, p, q = 20, 5.0, 9.0, 0.3, 800.0
    W = np.arange(stays + 1)
    n = stays - W
    twin = gammaln(stays + 1) - gammaln(W + 1) - gammaln(n + 1)
    twin = twin + betaln(p + W, q + leaves + n) - betaln(p, q)
    twin = twin + gammaln(own + n) - gammaln(own) + gammaln(total) - gammaln(total + leaves + n)
    found = log_own_marginal(stays, leaves, own, total, p, q, True)
    assert_allclose(found, logsumexp(twin), rtol=1e-10)
    rng = np.random.default_rng(2)
    draws = np.array([draw_own(rng, stays, leaves, own, total, p, q, True) for _ in range(500)])
    weights = np.exp(twin - logsumexp(twin))
    mean = weights @ W
    error = np.sqrt(weights @ (W - mean) ** 2 / len(draws))
    assert abs(draws.mean() - mean) <= LARGEST_Z * error


@pytest.mark.parametrize("scale", [1e-280, 1.0, 1e280])
def test_a_persistence_of_any_certainty(scale):
    """Fails if products of large ones overflow, or 1 is added to a small one and taken off."""
    p, q, own, total = 3.0 * scale, 2.0 * scale, 0.7, 2.5
    found = log_own_marginal(4, 2, own, total, p, q, True)
    if scale > 1.0:
        assert_allclose(found, log_own_marginal(4, 2, own, total, 0.6, 0.4, False), rtol=1e-12)
    else:
        W = np.arange(5)
        n = 4 - W
        twin = gammaln(5) - gammaln(W + 1) - gammaln(n + 1)
        twin = twin + betaln(p + W, q + 2 + n) - betaln(p, q)
        twin = twin + gammaln(own + n) - gammaln(own) + gammaln(total) - gammaln(total + 2 + n)
        assert_allclose(found, logsumexp(twin), rtol=1e-12)


def test_a_row_of_no_concentration_ends():
    """0 / 0 is told, and no loop waits for it."""
    assert np.isnan(log_own_marginal(3, 0, 0.0, 0.0, 0.5, 0.7, True))


def test_weights_of_zero_leave_only_persistences():
    """A state whose weight has underflowed can still copy itself."""
    assert log_own_marginal(3, 1, 0.0, 2.0, 0.5, 0.7, True) == pytest.approx(
        betaln(3.5, 1.7) - betaln(0.5, 0.7) - np.log(2.0)
    )
    assert draw_own(np.random.default_rng(1), 3, 1, 0.0, 2.0, 0.5, 0.7, True) == 3


def test_redraw_is_the_prior_weighed_with_the_path():
    """Of kappa and the rows given z, by their means; fails if W is drawn from kappa's prior."""
    rng = np.random.default_rng(3)
    path = np.array([0, 0, 0, 1, 1, 1, 0])
    counts = counts_of(path)
    n = 200_000
    kappa = rng.beta(1.7, 0.6, (n, L))
    rows = rng.dirichlet(BASE[0], (n, L + 1))
    P = kappa[:, :, None] * np.eye(L) + (1.0 - kappa)[:, :, None] * rows[:, 1:]
    weights = np.prod(rows[:, 0] ** counts[0], axis=1) * np.prod(P ** counts[1:], axis=(1, 2))
    prior = np.concatenate([kappa, rows[:, :, 0], rows[:, :, 1]], axis=1)
    found = []
    for _ in range(10_000):
        draw = redraw_transitions(rng, counts, BASE, RHO)
        kappa = 1.0 / (1.0 + np.exp(-draw.kappa_logit))
        found.append([*kappa, *draw.rows[:, 0], *draw.rows[:, 1]])
    found = np.array(found)
    share = weights / weights.sum()
    expected = share @ prior
    error = np.sqrt((share**2) @ (prior - expected) ** 2 + found.var(axis=0) / len(found))
    assert (np.abs(found.mean(axis=0) - expected) / error).max() < LARGEST_Z
