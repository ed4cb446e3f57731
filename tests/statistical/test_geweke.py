"""Geweke's test of the steps, on the combinations of ``combinations.py``.

Which defects make it fail, and after how many sweeps, is in ``mutations.py`` and on the page that
``python -m benchmarks.calibration`` writes.
"""

import numpy as np
import pytest
from combinations import EVERY, SUBSET, by_name
from harness import Setup, geweke, same_means, seed_of

# A sweep takes longer with matrices, and with densities evaluated as graphs.
LONG = ("mvnormal", "normal-wishart", "autoregression", "normal-scale")
RUNS = [
    pytest.param(c, 2_500, id=c.name, marks=[pytest.mark.slow] if c.family in LONG else [])
    for c in SUBSET
]
RUNS += [pytest.param(c, 20_000, id=f"{c.name}-long", marks=pytest.mark.slow) for c in EVERY]


SPLIT_AND_MERGED = [
    "ds/stick-breaking/ffbs/normal-mean/ragged",
    "sticky/weak-limit/ffbs/mvnormal/one",
    "hdp/weak-limit/ffbs/autoregression/one",
    "ds/weak-limit/ffbs/regression/one",
    "ds/weak-limit/ffbs/normal-scale/one",
    "ds/weak-limit/ffbs/two-likelihoods/ragged",
]


@pytest.mark.parametrize(("combination", "sweeps"), RUNS)
def test_joint_distribution(combination, sweeps):
    assert_invariant(Setup(combination, seed_of("geweke", combination)), sweeps)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPLIT_AND_MERGED)
def test_joint_distribution_with_splits_and_merges(name):
    """Three proposals in each sweep."""
    setup = Setup(by_name(name), seed_of("split and merge", by_name(name)))
    step = setup.steps[0]
    step.n_proposals = 3.0
    assert_invariant(setup, 20_000)


def assert_invariant(setup, sweeps):
    found = geweke(setup, sweeps)
    z = np.array([values[2] for values in found.values()])
    worst = sorted(found.items(), key=lambda item: -abs(item[1][2]))[:5]
    assert same_means(z), {name: np.round(values, 3).tolist() for name, values in worst}
