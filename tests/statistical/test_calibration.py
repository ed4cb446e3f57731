"""Simulation-based calibration of the steps, and the tests of uniformity that it uses."""

import numpy as np
import pytest
from combinations import CALIBRATED
from harness import RANKED_DRAWS, EcdfBand, Setup, calibrate, chi_square, seed_of, unit_ranks

SMALLEST = 1e-4  # p-value, of about a hundred

REPLICATIONS = 300


@pytest.mark.slow
@pytest.mark.parametrize("combination", CALIBRATED, ids=lambda c: c.name)
def test_ranks_are_uniform(combination):
    """Fails if missing values are kept or collapsed parameters not redrawn."""
    rng, band = np.random.default_rng(0), EcdfBand(REPLICATIONS)
    found = calibrate(Setup(combination, seed_of("sbc", combination)), REPLICATIONS)
    assert {"occupied states", "co-assignment", "held-out log-likelihood"} <= found.keys()
    for name, ranks in found.items():
        assert chi_square(ranks, RANKED_DRAWS) > SMALLEST, name
        assert band.p_value(unit_ranks(rng, ranks, RANKED_DRAWS)) > SMALLEST, name


def test_band_holds_as_often_as_it_says():
    """Fails if the levels of the points are not adjusted for their number."""
    band, rng = EcdfBand(100, simulations=4_000), np.random.default_rng(1)
    p_values, inside = [], []
    for _ in range(1_000):
        u = rng.random(100)
        ecdf = np.searchsorted(np.sort(u), band.points, side="right") / 100
        inside.append(np.all((ecdf >= band.lower) & (ecdf <= band.upper)))
        p_values.append(band.p_value(u))
    assert 0.93 < np.mean(inside) < 0.975
    assert abs(np.mean(np.array(p_values) < 0.05) - 0.05) < 0.025
    assert abs(np.mean(p_values) - 0.5) < 0.05


@pytest.mark.parametrize("shape", [(1.4, 1.0), (0.6, 0.6), (2.0, 2.0)])
def test_band_and_chi_square_see_skew_and_spread(shape):
    rng = np.random.default_rng(2)
    ranks = np.floor(20 * rng.beta(*shape, 300)).astype(int)
    assert EcdfBand(300, simulations=4_000).p_value(unit_ranks(rng, ranks, 19)) < 0.01
    assert chi_square(ranks, 19) < 0.01
