"""Logistic log-likelihoods and their derivatives against NumPy and differences."""

import numpy as np

from pymc_dshdp.kernels.logistic import logistic_derivatives, logistic_log_likelihoods

T, L, P = 40, 3, 2


def inputs():
    rng = np.random.default_rng(1)
    trials = rng.integers(0, 4, T).astype(float)
    z, x = rng.integers(0, L - 1, T), rng.normal(size=(T, P))  # the last state is empty
    return z, x, rng.normal(size=T), rng.binomial(trials.astype(int), 0.4).astype(float), trials


def test_against_numpy():
    """Fails if a logit of large size overflows."""
    z, x, offset, successes, trials = inputs()
    for size in (1.0, 800.0):
        b = size * np.random.default_rng(2).normal(size=(L, P))
        logit = offset + (x * b[z]).sum(axis=1)
        terms = successes * logit - trials * np.logaddexp(0.0, logit)
        expected = np.bincount(z, terms, L)
        np.testing.assert_allclose(logistic_log_likelihoods(*inputs(), b), expected, rtol=1e-12)


def test_derivatives_are_those_of_the_log_likelihood():
    b = np.random.default_rng(2).normal(size=(L, P))
    slope, precision = logistic_derivatives(*inputs(), b, 1)
    for p, move in enumerate(1e-5 * np.eye(P)):
        up, down = (logistic_log_likelihoods(*inputs(), b + s * move) for s in (1.0, -1.0))
        np.testing.assert_allclose(slope[:, p], (up - down) / 2e-5, atol=1e-7)
        up, down = (logistic_derivatives(*inputs(), b + s * move, 1)[0] for s in (1.0, -1.0))
        np.testing.assert_allclose(precision[:, p], (down - up) / 2e-5, atol=1e-7)


def test_a_part_stands_for_the_whole():
    z, x, offset, successes, trials = inputs()
    every = [np.repeat(a, 2, axis=0) for a in (z, x, offset, successes, trials)]
    b = np.ones((L, P))
    for part, whole in zip(
        logistic_derivatives(*every, b, 2), logistic_derivatives(*every, b, 1), strict=True
    ):
        np.testing.assert_allclose(part, whole)
