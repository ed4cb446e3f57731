"""Geweke's test of the kernels of a complete sampler, without PyMC: many cheap sweeps."""

import itertools

import numpy as np
import pytest
from harness import assert_same_means
from tiny_model import (
    NAMES,
    WITHOUT_EMISSION,
    Hyperparameters,
    marginal_conditional,
    successive_conditional,
)

from pymc_dshdp.kernels.persistence import PersistenceGrid
from pymc_dshdp.kernels.transitions import TransitionPrior

L = 4
# alpha of the order of 1, so that rows, weights and tables inform each other; few cells, so that
# the Metropolis correction of the refined draw has much to correct.
HYPER = Hyperparameters(2.0, 1.0, 2.0, 1.0, 3, 3)
LENGTHS = {"one": [30], "two": [17, 13]}


def simulate(weights, refinement, lengths="two", emission=True, sweeps=60_000, seed=11):
    """(names, independent draws, chain) of label-invariant statistics."""
    by_sticks, refine = weights == "stick-breaking", refinement == "refined"
    cells = HYPER.phi_cells, HYPER.eta_cells
    grid = PersistenceGrid(
        np.arange(cells[0]) / cells[0],
        2.0 * np.arange(cells[1]) / cells[1],
        1.0 / cells[0],
        2.0 / cells[1],
        np.zeros(cells),
    )
    lengths = np.array(LENGTHS[lengths])
    independent = marginal_conditional(
        np.random.default_rng(seed), sweeps, L, lengths, HYPER, refine, by_sticks
    )
    chain = successive_conditional(
        np.random.default_rng(seed + 1),
        sweeps,
        L,
        lengths,
        HYPER,
        grid,
        TransitionPrior(*HYPER[:4]),
        refine,
        by_sticks,
        emission,
    )
    kept = slice(None) if emission else WITHOUT_EMISSION
    return NAMES[kept], independent[:, kept], chain[:, kept]


CASES = list(
    itertools.product(
        ["weak-limit", "stick-breaking"],
        ["refined", "midpoints"],
        [("one", True), ("two", True), ("two", False)],
    )
)


@pytest.mark.parametrize(
    ("weights", "refinement", "rest"),
    CASES,
    ids=[f"{w}-{r}-{n}-{'data' if e else 'no data'}" for w, r, (n, e) in CASES],
)
@pytest.mark.parametrize(
    ("sweeps", "seed"),
    [(60_000, 11), pytest.param(1_500_000, 23, marks=pytest.mark.slow)],
    ids=["short", "long"],
)
def test_complete_sampler(weights, refinement, rest, sweeps, seed):
    """Fails for each defect of ``mutations.py`` that names this file, and see ``tiny_model``."""
    assert_same_means(*simulate(weights, refinement, *rest, sweeps, seed))
