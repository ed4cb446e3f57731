"""Pilots: short runs from starts of many kinds and crosses of them; the best becomes the chain.

A chain that has settled in one mode does not leave it within thousands of iterations where several
states have to change together, whatever kernel moves it; and no kind of start reaches the best mode
every time. So a chain runs a population of starts for a few iterations each, merging and splitting
greedily, and then crosses: times that are in one state in both of two paths stay together, and the
cells are merged as long as that helps. What is right in either of them survives. A child that is
better than the parent it is nearer to takes its place, so that the population stays one of many
modes; where the worst gave way, all would soon be copies of the first good one. Where that no
longer helps they are crossed with new starts, by which comes in what none of them has, unless three
quarters of the population have all but the evidence of the best: starts of every kind have then led
to the same place. Rank is the evidence of a mode,

    log p(y | beta, alpha, rho) = log p(y, z | beta, alpha, rho) - log p(z | y, beta, alpha, rho)
        ~ log p(y, z | beta, alpha, rho) - log p(z | y, theta, P),

the joint density of data and path with everything else integrated out, over the probability of the
path, for which theta and P drawn given z serve: what chance has done to z is in both.
This belongs to tuning: what follows leaves the posterior invariant from wherever it starts.
"""

from typing import NamedTuple

import numpy as np

from pymc_dshdp.steps.wide_starts import KINDS

__all__ = ["Plan", "best_of_pilots", "cross_paths", "paths_apart", "plan_of"]

SHARE = 3  # of the tuning iterations, one in so many for pilots
EACH = 5  # iterations of a pilot
FEWEST, MOST = 4, 24  # pilots from starts
GENERATIONS = 16  # crosses of the population at most
QUICK = 45_000_000
"""Table entries that pilots may take beyond their share of the tuning: some 30 to 90 s."""
PATIENCE = 3  # times the population, of crosses in which the best does not gain a nat
FRESH = 6  # times the population, of crosses with new starts in which it does not
AGREED = 5.0
"""Nats below the best within which three quarters of the population lie where all modes are one."""
SCORED = 2
"""Iterations at the end of a pilot over which the evidence is averaged."""


class Plan(NamedTuple):
    """How many pilots run from starts, and from crosses at most."""

    starts: int
    crosses: int


def plan_of(tune, n_entries):
    """Plan the pilots for so many tuning iterations; None where they are too few.

    Pilots run a third of that in all, and where the data are small more: in iterations and
    entries of the likelihood table (T x L), not in seconds, so that a seed gives the same draws on
    any machine.
    """
    pilots = tune // SHARE // EACH
    if pilots < 2 * FEWEST:
        return None
    pilots = max(pilots, QUICK // n_entries)
    starts = min(MOST, 2 * pilots // 5)
    return Plan(starts, min(pilots - starts, GENERATIONS * MOST))


def best_of_pilots(start, iterate, improve, cross, apart, evidence, plan, rng):
    """Run the pilots.

    Parameters
    ----------
    start : callable
        ``start(kind) -> point``, everything drawn given a starting path of that kind.
    iterate : callable
        ``iterate(point) -> point``, one iteration of the chain.
    improve : callable
        ``improve(point) -> point``, greedy merges and splits, of what comes from a start: of
        crosses they take a third of the time, and raise the evidence no further.
    cross : callable
        ``cross(point, other) -> point``, merged as far as that helps.
    apart : callable
        ``apart(point, other) -> float``, how much their paths differ, whatever the numbering.
    evidence : callable
        ``evidence(point) -> float``.
    plan : Plan
    rng : numpy.random.Generator

    Returns
    -------
    dict
        The point of the best.
    """

    def run(point, crossed=False):
        found = []
        for iteration in range(EACH):
            point = iterate(point)
            if 2 * iteration == EACH - 1 and not crossed:
                point = improve(point)
            if iteration >= EACH - SCORED:
                found.append(evidence(point))
        return point, np.mean(found)

    kinds = rng.permutation(list(KINDS))
    population = [run(start(kinds[i % len(kinds)])) for i in range(plan.starts)]
    highest, in_vain = -np.inf, 0
    for _ in range(plan.crosses):
        found = sorted(pilot[1] for pilot in population)
        best, agreed = found[-1], found[-1] - found[plan.starts // 4] < AGREED
        highest, in_vain = (best, 0) if best > highest + 1.0 else (highest, in_vain + 1)
        if in_vain >= plan.starts * (1 if agreed else PATIENCE + FRESH):
            break
        near, two = rng.choice(plan.starts, 2, replace=False)
        if in_vain > PATIENCE * plan.starts:
            other = start(kinds[rng.integers(len(kinds))])
            child = run(cross(population[near][0], other), crossed=True)
        else:
            child = run(cross(population[near][0], population[two][0]), crossed=True)
            near = min(near, two, key=lambda parent: apart(child[0], population[parent][0]))
        if child[1] > population[near][1]:
            population[near] = child
    return max(population, key=lambda pilot: pilot[1])[0]


def paths_apart(path, other, n_states):
    """Find the share of times outside the largest cells of the states of two paths."""
    sizes = _cells(path, other, n_states)
    return 1.0 - 0.5 * (sizes.max(axis=0).sum() + sizes.max(axis=1).sum()) / len(path)


def _cells(path, other, n_states):
    """Count the times of each pair of states of two paths."""
    sizes = np.zeros((n_states, n_states), np.int64)
    np.add.at(sizes, (path, other), 1)
    return sizes


def cross_paths(path, other, n_states):
    """Divide the states of a path by those of another.

    The largest cell of each state keeps its number, the others take those that are free, large
    ones first; what is left over stays where it was.
    """
    sizes = _cells(path, other, n_states)
    number = np.repeat(np.arange(n_states)[:, None], n_states, axis=1)
    sizes[np.arange(n_states), sizes.argmax(axis=1)] = 0
    free = np.setdiff1d(np.arange(n_states), path)
    cells = np.argsort(-sizes, axis=None, kind="stable")[: len(free)]
    cells = cells[sizes.ravel()[cells] > 0]
    number.ravel()[cells] = free[: len(cells)]
    return number[path, other]
