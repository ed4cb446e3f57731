"""Geweke's joint distribution test (2004): two simulators of one joint density.

The marginal-conditional simulator draws parameters from the prior and then data given them; the
successive-conditional one alternates a sweep of the sampler with fresh data given its current
parameters. A sampler that leaves the posterior invariant gives every statistic of (parameters,
states, data) the same mean under both.
"""

import numpy as np
from reference import monte_carlo_error

LARGE = 4.0
LARGEST = 5.0


def z_scores(independent, chain):
    """Differences of the means of two arrays (draws, statistics), in standard errors.

    The first array holds independent draws; the error of the second comes from its effective
    sample size.
    """
    error = np.hypot(
        independent.std(axis=0) / np.sqrt(len(independent)),
        [monte_carlo_error(column) for column in chain.T],
    )
    difference = chain.mean(axis=0) - independent.mean(axis=0)
    return np.where(difference == 0.0, 0.0, difference / np.where(error > 0.0, error, 1e-300))


def assert_same_means(names, independent, chain):
    """At most one |z| above 4, and none above 5."""
    assert np.isfinite(independent).all()
    assert np.isfinite(chain).all()
    z = z_scores(independent, chain)
    order = np.argsort(-np.abs(z))
    worst = ", ".join(f"{names[i]} {z[i]:.1f}" for i in order[:6])
    assert np.sum(np.abs(z) > LARGE) <= 1, worst
    assert np.max(np.abs(z)) < LARGEST, worst
