"""What the suite covers."""

import itertools

import pytest
from combinations import (
    BESIDE,
    CALIBRATED,
    COVERING,
    EVERY,
    FAMILIES,
    LAYOUTS,
    PRIORS,
    SAMPLERS,
    SUBSET,
    SUBSET_CALIBRATED,
    WEIGHTS,
    Combination,
    feasible,
)

LEVELS = (PRIORS, WEIGHTS, SAMPLERS, FAMILIES, LAYOUTS)


def pairs(combination):
    return {(i, combination[i], j, combination[j]) for i, j in itertools.combinations(range(5), 2)}


def test_every_feasible_pair_is_covered():
    assert all(feasible(c) for c in COVERING)
    assert len({c.name for c in EVERY}) == len(EVERY)
    everything = filter(feasible, itertools.starmap(Combination, itertools.product(*LEVELS)))
    wanted = set().union(*map(pairs, everything))
    assert set().union(*map(pairs, COVERING)) == wanted


@pytest.mark.parametrize("chosen", [SUBSET, CALIBRATED], ids=["subset", "calibrated"])
def test_selections_have_every_prior_sampler_and_layout(chosen):
    assert set(chosen) <= set(EVERY)
    for i, levels in enumerate(LEVELS):
        if i != 3:
            assert {c[i] for c in chosen} - {"static-mixture"} == set(levels)
    assert {c.family for c in SUBSET} == set(FAMILIES) - {"laplace"} | {
        "bernoulli",
        "exposure",
        "logistic",
        "normal-scale",
    }
    assert set(SUBSET_CALIBRATED) <= set(CALIBRATED)
    assert len(CALIBRATED) == 22
    grouped = {(c.prior, c.weights) for c in CALIBRATED if c.groups > 1}
    assert grouped == set(itertools.product(PRIORS[:3], WEIGHTS[:2]))
    assert {c.weights for c in BESIDE if not c.refine} == {"weak-limit", "stick-breaking"}
