"""Where nutpie is installed, which PyMC 6.4 then prefers: models with hidden states, and stores."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

import pymc_dshdp as dshdp
from pymc_dshdp._compat import group

pytest.importorskip("nutpie", "0.16.10", reason="nutpie is not installed")
pytest.importorskip("pymc", "6.4", reason="older PyMC does not choose nutpie")

PATH = np.repeat([0, 1, 0, 1], [30, 20, 30, 20])
Y = 3.0 * PATH + np.random.default_rng(1).normal(size=PATH.size)
QUIET = {"random_seed": 1, "progressbar": False, "compute_convergence_checks": False}


def two_states(**states):
    """Transitions that NUTS samples, and a location that a step of ours does."""
    with pm.Model() as model:
        stay = pm.Beta("stay", 2.0, 2.0, shape=2)
        rows = [[stay[0], 1.0 - stay[0]], [1.0 - stay[1], stay[1]]]
        prior = dshdp.Transitions("hmm", pt.stack([pt.stack(row) for row in rows]))
        z = dshdp.HiddenStates("z", prior, length=Y.size, **states)
        if not states:
            mu = pm.Normal("mu", [0.0, 3.0], 1.0, shape=2)
            pm.Normal("y", mu[z], 1.0, observed=Y)
    return model


def test_hidden_states_are_sampled_by_our_steps(tmp_path):
    """Fails if PyMC hands the model to nutpie, or if a store cannot be used beside it."""
    model = two_states()
    store = dshdp.ZarrTrace(tmp_path / "run.zarr")
    run = {"draws": 10, "tune": 60, "chains": 1, "cores": 1, "model": model, **QUIET}
    whole = group(pm.sample(**run), "posterior")
    assert np.mean(whole["z"].values == PATH) > 0.9
    pm.sample(**{**run, "draws": 6}, trace=store)
    both = dshdp.continue_sampling(store, model=model, draws=4, progressbar=False)
    for name in ("z", "stay", "mu"):
        np.testing.assert_array_equal(group(both, "posterior")[name], whole[name])
    with pytest.raises(ValueError, match="requires all variables to be differentiable"):
        pm.sample(**run, nuts_sampler="nutpie")


def test_a_known_path_may_be_left_to_nutpie():
    """Fails if the density of a path, which nutpie compiles, is not that of its transitions."""
    model = two_states(observed=PATH)
    run = {"draws": 400, "tune": 300, "chains": 2, "cores": 1, "model": model, **QUIET}
    result = pm.sample(**run, nuts_sampler="nutpie")
    for state, (switches, stays) in enumerate([(2, 58), (1, 38)]):
        draws = group(result, "posterior")["stay"][..., state].values.ravel()
        expected = stats.beta(2.0 + stays, 2.0 + switches)
        assert abs(draws.mean() - expected.mean()) < 5.0 * expected.std() / np.sqrt(100.0)
        assert 0.8 < draws.std() / expected.std() < 1.25
