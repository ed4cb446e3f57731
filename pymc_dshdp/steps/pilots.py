"""Pilots: short runs from starts of many kinds; the one that promises most goes on as the chain.

A chain that has settled in one mode does not leave it within thousands of iterations where several
states have to change together, whatever kernel moves it; and no kind of start reaches the best mode
every time. So a chain draws a population of starts, runs each for a few iterations, drops the lower
half, and goes on until one is left. Its rank is the evidence of the mode that it is in,

    log p(y | beta, alpha, rho) ~ log p(y, z | beta, alpha, rho) + H(z | y, theta, P),

the joint density of data and path with everything else integrated out, and the entropy of the path.
This belongs to tuning: what follows leaves the posterior invariant from wherever it starts.
"""

import numpy as np

from pymc_dshdp.steps.wide_starts import KINDS

__all__ = ["PILOT_ITERATIONS", "best_of_pilots"]

ROUNDS = ((16, 5), (8, 8), (4, 16))
"""Pilots that are run and iterations of each, round by round; the better half goes on."""

SCORED = 2
"""Iterations at the end of a round over which the evidence is averaged."""

PILOT_ITERATIONS = sum(size * iterations for size, iterations in ROUNDS)


def best_of_pilots(start, iterate, evidence, rng):
    """Run the population down to one.

    Parameters
    ----------
    start : callable
        ``start(kind) -> point``, everything drawn given a starting path of that kind.
    iterate : callable
        ``iterate(point) -> point``, one iteration of the chain.
    evidence : callable
        ``evidence(point) -> float``.
    rng : numpy.random.Generator

    Returns
    -------
    dict
        The point of the winner.
    """
    kinds = rng.permutation(list(KINDS))
    size, _ = ROUNDS[0]
    population = [start(kinds[i % len(kinds)]) for i in range(size)]
    for size, iterations in ROUNDS:
        scores = np.empty(size)
        for i in range(size):
            found = []
            for iteration in range(iterations):
                population[i] = iterate(population[i])
                if iteration >= iterations - SCORED:
                    found.append(evidence(population[i]))
            scores[i] = np.mean(found)
        better = np.argsort(-scores, kind="stable")[: max(1, size // 2)]
        population = [population[i] for i in better]
    return population[0]
