"""Self-persistence that varies with time, against enumeration."""

import numpy as np
import pytest
from reference import all_paths, assert_frequencies
from scipy import special

from pymc_dshdp.kernels.chain import Transitions, kappa_rows
from pymc_dshdp.kernels.filtering import NO_SHIFTS, forward_filter
from pymc_dshdp.kernels.messages import forward_filter_backward_sample
from pymc_dshdp.kernels.transitions import persistence_trials, varying_persistence_counts

T, L = 5, 3
LENGTHS = np.array([3, 2])


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(5)
    rows = rng.dirichlet(np.ones(L), size=L + 1)
    ell = rng.normal(size=(T, L))
    return ell, rows[0], rows[1:], rng.normal(0.0, 2.0, (T, L))


def weights_of_paths(ell, initial, pi_bar, kappa_logit):
    paths = all_paths(L, T)
    kappa = special.expit(kappa_logit)
    log_p = ell[np.arange(T), paths].sum(axis=1)
    for t in range(T):
        if t in (0, 3):
            log_p += np.log(initial[paths[:, t]])
        else:
            j, k = paths[:, t - 1], paths[:, t]
            log_p += np.log((1 - kappa[t, j]) * pi_bar[j, k] + np.where(j == k, kappa[t, j], 0.0))
    return paths, np.exp(log_p)


def test_filter_and_sampler_follow_the_enumerated_posterior(arrays):
    """Fails if the row of kappa at t - 1 is used from t - 1 to t."""
    ell, initial, pi_bar, kappa_logit = arrays
    paths, weights = weights_of_paths(*arrays)
    filtered, transitions = np.empty((T, L)), Transitions(kappa_logit, pi_bar[None])
    found = forward_filter(ell, initial, transitions, kappa_logit, LENGTHS, filtered, NO_SHIFTS)
    assert not found.logarithms.any()
    assert found.log_marginal_likelihood.sum() == pytest.approx(np.log(weights.sum()))
    at_end = [weights[paths[:, T - 1] == k].sum() for k in range(L)]
    np.testing.assert_allclose(filtered[-1] / filtered[-1].sum(), np.array(at_end) / weights.sum())
    rng = np.random.default_rng(6)
    seen = np.zeros(len(paths))
    code = L ** np.arange(T - 1, -1, -1)
    for _ in range(20_000):
        states = forward_filter_backward_sample(
            ell, initial, transitions, LENGTHS, rng.random(T)
        ).states
        seen[states @ code] += 1
    assert_frequencies(seen, weights / weights.sum())


def test_constant_rows_agree_with_the_constant_kernel(arrays):
    ell, initial, pi_bar, kappa_logit = arrays
    row = kappa_logit[0]
    uniforms = np.random.default_rng(7).random(T)
    one, two = (
        forward_filter_backward_sample(
            ell, initial, Transitions(rows, pi_bar[None]), LENGTHS, uniforms
        )
        for rows in (np.tile(row, (T, 1)), row[None])
    )
    np.testing.assert_array_equal(one.states, two.states)
    np.testing.assert_allclose(one.log_marginal_likelihood, two.log_marginal_likelihood)


def test_maximum_on_an_unreachable_state(arrays):
    """Fails without the second shift: the normaliser is 0 though a state is possible."""
    initial = np.array([1.0, 0.0])
    pi_bar = np.array([[1.0, 0.0], [0.5, 0.5]])
    ell = np.array([[0.0, 0.0], [-2000.0, 0.0]])
    transitions, lengths = Transitions(np.zeros((2, 2)), pi_bar[None]), np.array([2])
    found = forward_filter(
        ell, initial, transitions, transitions.kappa_logit, lengths, np.empty((2, 2)), NO_SHIFTS
    )
    assert found.impossible[0] == -1
    assert found.log_marginal_likelihood[0] == pytest.approx(-2000.0)
    ell[1, 0] = -np.inf
    found = forward_filter(
        ell, initial, transitions, transitions.kappa_logit, lengths, np.empty((2, 2)), NO_SHIFTS
    )
    assert found.impossible[0] == 1


def test_self_persistences_of_each_time(arrays):
    """Fails if w is drawn with one row of kappa for all times, or across a boundary."""
    _, _, pi_bar, kappa_logit = arrays
    states = np.array([1, 1, 1, 1, 1])
    rng = np.random.default_rng(8)
    seen = np.zeros(4)
    for _ in range(20_000):
        counts = np.zeros(L, np.int64)
        varying_persistence_counts(rng, states, LENGTHS, kappa_logit, pi_bar, counts)
        assert counts[0] == counts[2] == 0
        seen[counts[1]] += 1
    kappa = special.expit(kappa_logit[[1, 2, 4], 1])
    p = kappa / (kappa + (1 - kappa) * pi_bar[1, 1])
    law = np.array([1.0])
    for q in p:
        law = np.convolve(law, [1 - q, q])
    assert_frequencies(seen, law)


def test_trials_of_the_self_persistence(arrays):
    """Of each time inside a sequence one, with the shares of ``varying_persistence_counts``."""
    _, _, pi_bar, kappa_logit = arrays
    states, rng = np.array([1, 1, 2, 0, 0]), np.random.default_rng(9)
    drawn = [persistence_trials(rng, states, LENGTHS, kappa_logit, pi_bar) for _ in range(20_000)]
    assert all(np.array_equal(times, [1, 2, 4]) for times, _ in drawn)
    kappa = special.expit(kappa_logit[[1, 4], [1, 0]])
    p = kappa / (kappa + (1 - kappa) * pi_bar[[1, 0], [1, 0]])
    persists = np.array([w for _, w in drawn])
    assert not persists[:, 1].any()
    for share, q in zip(persists[:, [0, 2]].T, p, strict=True):
        assert_frequencies([np.sum(share == 0.0), np.sum(share == 1.0)], [1.0 - q, q])


@pytest.mark.parametrize("shape", [(4,), (2, 4)])
def test_rows_of_a_batch(shape):
    logit = np.arange(12.0).reshape(4, 3)
    rows = kappa_rows(logit, shape)
    assert rows.flags.c_contiguous
    np.testing.assert_array_equal(rows, np.tile(logit, (np.prod(shape) // 4, 1)))
    with pytest.raises(
        ValueError, match=r"rows for times of shape \(3,\), but the states have shape"
    ):
        kappa_rows(logit[:3], shape)
