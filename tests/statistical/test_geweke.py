"""Geweke's test of the steps, on the combinations of ``combinations.py``.

Which defects make it fail, and after how many sweeps, is in ``mutations.py`` and on the page that
``python -m benchmarks.calibration`` writes.
"""

import numpy as np
import pytest
from combinations import EVERY, SUBSET
from harness import Setup, geweke, same_means, seed_of

# A sweep takes longer with matrices, and with densities evaluated as graphs.
LONG = ("mvnormal", "normal-wishart", "autoregression", "normal-scale")
RUNS = [
    pytest.param(c, 2_500, id=c.name, marks=[pytest.mark.slow] if c.family in LONG else [])
    for c in SUBSET
]
RUNS += [pytest.param(c, 20_000, id=f"{c.name}-long", marks=pytest.mark.slow) for c in EVERY]


@pytest.mark.parametrize(("combination", "sweeps"), RUNS)
def test_joint_distribution(combination, sweeps):
    found = geweke(Setup(combination, seed_of("geweke", combination)), sweeps)
    z = np.array([values[2] for values in found.values()])
    worst = sorted(found.items(), key=lambda item: -abs(item[1][2]))[:5]
    assert same_means(z), {name: np.round(values, 3).tolist() for name, values in worst}
