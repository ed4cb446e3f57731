"""The paper's scenarios by their moments, and the franchise against the truncated priors."""

import math

import franchise
import numpy as np
import pytest
from numba import njit
from tiny_model import categorical, dirichlet_variate, log_gamma_variate

from pymc_dshdp import datasets
from pymc_dshdp.kernels.transitions import stick_breaking_weights

SCENARIOS = [datasets.different_self_persistence, datasets.different_transitions]
EMISSIONS = ["gaussian", "multinomial"]
LENGTH = 30_000
LENGTHS = [12, 8]
PATHS = 5_000
N_STATES = 25


@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("build", SCENARIOS)
def test_series_follow_the_transition_matrix(build, emission):
    """Fails if the row is that of the new state, or w is drawn with the new state's kappa."""
    model = build(emission, np.random.default_rng(1))
    P = model.transition_matrix
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    z, w, y = model.sample(LENGTH, np.random.default_rng(2))
    counts = np.zeros((8, 8))
    np.add.at(counts, (z[:-1], z[1:]), 1)
    visits = counts.sum(axis=1, keepdims=True)
    error = np.sqrt(P * (1 - P) / visits)
    assert np.all(np.abs(counts / visits - P) <= 5 * error)
    persisted = np.bincount(z[:-1], w[1:]) / visits[:, 0]
    error = np.sqrt(model.kappa * (1 - model.kappa) / visits[:, 0])
    assert np.all(np.abs(persisted - model.kappa) < 5 * error)
    assert np.all(z[1:][w[1:] == 1] == z[:-1][w[1:] == 1])
    assert len(y) == LENGTH


def test_scenarios_are_the_papers():
    rng = np.random.default_rng(1)
    first = datasets.different_self_persistence("gaussian", rng)
    np.testing.assert_allclose(first.kappa, [0.4] * 4 + [0.9] * 4)
    np.testing.assert_allclose(first.transition_matrix[0, :5], [0.532, 0.132, 0.132, 0.132, 0.018])
    assert np.ptp(first.pi_bar, axis=0).max() == 0.0
    other = datasets.different_self_persistence("multinomial", rng)
    np.testing.assert_allclose(other.kappa, [0.65] * 4 + [0.9] * 4)
    row = [0.72142857, 0.07142857, 0.07142857, 0.07142857, 0.01607143]
    np.testing.assert_allclose(other.transition_matrix[0, :5], row, atol=1e-8)
    np.testing.assert_allclose(np.diag(other.emission.probabilities), 0.9)
    second = datasets.different_transitions("multinomial", rng)
    np.testing.assert_allclose(np.diag(second.transition_matrix), 0.8)
    np.testing.assert_allclose(np.diag(second.emission.probabilities), 0.8)
    np.testing.assert_allclose(second.emission.probabilities.sum(axis=1), 1.0)
    successors = (second.pi_bar > 0).sum(axis=1)
    np.testing.assert_array_equal(successors, [1] + [2] * 7)
    assert np.all(np.linalg.matrix_power(second.transition_matrix, 20) > 0)


def test_emissions():
    """Fails if the standard deviation is taken for a variance."""
    rng = np.random.default_rng(3)
    z = rng.integers(8, size=80_000)
    means = np.array([datasets.different_transitions("gaussian", rng).emission.mean
                      for _ in range(2_000)])  # fmt: skip
    assert abs(means.mean() - 3.5) < 5 * 6.0 / np.sqrt(means.size)
    assert abs(means.std() - 6.0) < 5 * 6.0 / np.sqrt(2 * means.size)
    gaussian = datasets.different_self_persistence("gaussian", rng).emission
    residual = gaussian.draw(z, rng) - gaussian.mean[z]
    assert abs(residual.mean()) < 5 * 0.5 / np.sqrt(z.size)
    assert abs(residual.std() - 0.5) < 5 * 0.5 / np.sqrt(2 * z.size)
    y = datasets.different_transitions("multinomial", rng).emission.draw(z, rng)
    np.testing.assert_array_equal(y.sum(axis=1), 1)
    same = (y.argmax(axis=1) == z).mean()
    assert abs(same - 0.8) < 5 * np.sqrt(0.16 / z.size)


def statistics(z, kappa, lengths):
    """Statistics of a path that no numbering of its states changes."""
    first, second = np.split(z, [lengths[0]])
    stays = np.concatenate([np.diff(first) == 0, np.diff(second) == 0])
    return (
        len(np.unique(z)),
        len(np.unique(second)),
        stays.mean(),
        z[0] == z[lengths[0]],
        z[0] == z[lengths[0] - 1],
        stays[0] * stays[-1],
        (first[1:-1] == first[:-2]) @ (first[2:] != first[1:-1]),
        kappa[z].mean(),
        (kappa[z] ** 2).mean(),
    )


@njit
def truncated_path(rng, L, lengths, gamma, alpha, rho1, rho2):
    """(z, kappa) of the stick-breaking prior truncated at L, as ``tiny_model`` simulates it."""
    sticks = np.empty(L - 1)
    for k in range(L - 1):
        sticks[k] = math.log(rng.standard_exponential()) - log_gamma_variate(rng, gamma)
    beta = stick_breaking_weights(sticks)
    kappa = np.zeros(L)
    if rho1 > 0.0:
        for k in range(L):
            kappa[k] = rng.beta(rho1, rho2)
    rows = np.empty((L + 1, L))
    for j in range(L + 1):
        rows[j] = dirichlet_variate(rng, alpha * beta)
    z = np.empty(lengths.sum(), np.int64)
    t = 0
    for length in lengths:
        z[t] = categorical(rng, rows[0])
        for i in range(t + 1, t + length):
            j = z[i - 1]
            z[i] = j if rng.random() < kappa[j] else categorical(rng, rows[j + 1])
        t += length
    return z, kappa


PRIORS = {
    "DS": lambda rng: franchise.ds_hdp_path(
        LENGTHS, gamma=1.2, alpha=1.5, phi=0.6, eta=0.9, rng=rng
    ),
    "sticky": lambda rng: franchise.sticky_hdp_path(LENGTHS, gamma=1.2, s=2.5, phi=0.4, rng=rng),
    "HDP": lambda rng: franchise.hdp_path(LENGTHS, gamma=1.2, alpha=1.5, rng=rng),
}


@pytest.mark.parametrize("name", PRIORS)
def test_franchise_is_the_prior_without_truncation(name):
    """At 25 sticks the truncated prior differs by at most 20 (1.2 / 2.2)^24 = 1e-5.

    Fails if customers that persist are counted in the restaurants, if the starts join the
    restaurant of state 0, or if a new state's table is left out.
    """
    rng = np.random.default_rng(6)
    paths = [PRIORS[name](rng) for _ in range(PATHS)]
    hyper = [paths[0].hyperparameters[h] for h in ("gamma", "alpha", "rho1", "rho2")]
    found = [statistics(path.z, path.kappa, LENGTHS) for path in paths]
    lengths = np.array(LENGTHS)
    expected = [
        statistics(*truncated_path(rng, N_STATES, lengths, *hyper), LENGTHS) for _ in range(PATHS)
    ]
    found, expected = np.array(found, float), np.array(expected, float)
    error = np.sqrt((found.var(axis=0) + expected.var(axis=0)) / PATHS)
    gap = np.abs(found.mean(axis=0) - expected.mean(axis=0))
    assert np.all(gap <= 4.5 * error), gap / np.maximum(error, 1e-300)


def test_hyperparameters_of_paths():
    """By default the paper's hyperpriors; theorem 1 for the sticky prior."""
    rng = np.random.default_rng(7)
    drawn = [franchise.ds_hdp_path(1, rng=rng).hyperparameters for _ in range(4_000)]
    gamma, alpha = (np.array([h[name] for h in drawn]) for name in ("gamma", "alpha"))
    rho1, rho2 = (np.array([h[name] for h in drawn]) for name in ("rho1", "rho2"))
    for sample, mean, sd in (
        (gamma, 2.0, np.sqrt(2.0)),
        (alpha, 100.0, 100.0),
        (rho1 / (rho1 + rho2), 0.5, 12**-0.5),
        ((rho1 + rho2) ** (-1 / 3), 1.0, 3**-0.5),
    ):
        assert abs(sample.mean() - mean) < 5 * sd / np.sqrt(len(sample))
    sticky = franchise.sticky_hdp_path([3], s=5.0, phi=0.4, rng=rng).hyperparameters
    assert sticky["rho1"] == 2.0
    assert sticky["rho2"] == sticky["alpha"] == 3.0
    plain = franchise.hdp_path([50], rng=rng)
    assert not plain.w.any()
    assert not plain.kappa.any()


def test_numbering_and_lengths():
    path = franchise.ds_hdp_path([30, 1, 19], alpha=3.0, gamma=4.0, rng=np.random.default_rng(8))
    assert path.z.shape == path.w.shape == (50,)
    _, first = np.unique(path.z, return_index=True)
    assert np.all(np.diff(first) > 0)
    assert len(path.kappa) == path.z.max() + 1
    assert path.w[0] == path.w[30] == path.w[31] == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rng: franchise.hdp_path([], rng=rng), "lengths must be one or more positive"),
        (lambda rng: franchise.hdp_path([3, 0], rng=rng), "lengths must be one or more positive"),
        (lambda rng: franchise.hdp_path(3, alpha=-1.0, rng=rng), "alpha must be positive"),
        (lambda rng: franchise.ds_hdp_path(3, phi=1.0, rng=rng), r"phi must be in \(0, 1\)"),
        (lambda rng: franchise.sticky_hdp_path(3, s=0.0, rng=rng), "s must be positive"),
        (lambda rng: datasets.different_transitions("poisson", rng), "emission must be"),
        (
            lambda rng: datasets.different_transitions("gaussian", rng).sample(0, rng),
            "length must be at least 1, received 0",
        ),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(np.random.default_rng(9))
