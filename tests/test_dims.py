"""Likelihoods of ``pymc.dims`` give what those of plain PyMC give."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from models import FAST, posterior_of

import pymc_dshdp as dshdp

pytestmark = pytest.mark.usefixtures("python_readers")

pmd = pytest.importorskip("pymc.dims")
if not hasattr(pmd, "Poisson"):
    pytest.skip("this PyMC has no pymc.dims.Poisson", allow_module_level=True)

COUNTS = np.random.default_rng(0).poisson(np.repeat([2, 9, 2], 4))
COORDS = {"state": range(3), "time": range(12)}


def named(y=COUNTS):
    with pm.Model(coords={**COORDS, "time": range(len(y))}) as model:
        hmm = dshdp.FixedTransitions("hmm", dims="state")
        z = dshdp.HiddenStates("z", hmm, dims="time")
        rate = pmd.Gamma("rate", alpha=2, beta=0.3, dims="state")
        mu = rate.isel(state=pmd.as_xtensor(z, dims=("time",)))
        pmd.Poisson("y", mu=mu, observed=pmd.as_xtensor(y, dims=("time",)))
    return model


@pytest.fixture(scope="module")
def both():
    with pm.Model(coords=COORDS) as plain:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", dims="state"), dims="time")
        pm.Poisson("y", pm.Gamma("rate", alpha=2, beta=0.3, dims="state")[z], observed=COUNTS)
    return plain, named(), posterior_of(plain, draws=3, compile_kwargs=FAST)


@pytest.mark.parametrize("observed", [None, {"y": COUNTS[::-1]}, {"y": COUNTS[:5]}])
def test_states_and_scores(both, observed):
    """Fails if a variable with names of its own is taken for a tensor."""
    plain, model, result = both
    for use in (dshdp.smooth, dshdp.viterbi, dshdp.filter_states, dshdp.held_out_log_likelihood):
        found = use(result, model=model, observed=observed)
        xr.testing.assert_allclose(found, use(result, model=plain, observed=observed))


def test_forecast(both):
    plain, model, result = both
    found = dshdp.forecast(result, model=model, horizon=3, random_seed=1)
    expected = dshdp.forecast(result, model=plain, horizon=3, random_seed=1)
    xr.testing.assert_equal(found, expected)


def test_what_people_write_is_sampled():
    """Fails if a step that looks at a variable of ``pymc.dims`` stops the others from starting."""
    with pm.Model(coords=COORDS):
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", dims="state"), dims="time")
        states = pmd.as_xtensor(z, dims=("time",))
        mu = pmd.Normal("mu", 0, 10, dims="state")
        sigma = pmd.HalfNormal("sigma", sigma=3.0, dims="state")
        rate = pmd.Gamma("rate", alpha=2, beta=0.3, dims="state")
        data = pmd.as_xtensor(COUNTS, dims=("time",))
        pmd.Poisson("counts", mu=rate.isel(state=states), observed=data)
        y = data.astype("float64")
        pmd.Normal("y", mu=mu.isel(state=states), sigma=sigma.isel(state=states), observed=y)
        quiet = {"progressbar": False, "compute_convergence_checks": False}
        drawn = pm.sample(5, tune=5, chains=1, cores=1, random_seed=1, **quiet)["posterior"]
    assert all(np.ptp(drawn[name].values) > 0 for name in ("mu", "sigma", "rate"))
