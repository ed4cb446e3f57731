"""``pm.sample_posterior_predictive`` on results with hidden states."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from models import posterior_of

import pymc_dshdp as dshdp
from pymc_dshdp._compat import PYMC_6
from pymc_dshdp.analysis.other_data import observed_on_states
from pymc_dshdp.likelihood.table import terms_involving

N = 600


def model(data):
    with pm.Model() as out:
        y = pm.Data("data", data)
        prior = dshdp.DSHDP("hmm", n_states=2)
        z = dshdp.HiddenStates("z", prior, length=y.shape[0])
        rate = pm.Gamma("rate", 2.0, 1.0, dims="hmm_state")
        pm.Poisson("y", rate[z], observed=y)
    return out


@pytest.fixture(scope="module")
def draws():
    """Draws all alike, with known parameters."""
    found = posterior_of(model(np.zeros(6, int)), draws=N)
    post = found["posterior"]
    values = {
        "hmm_kappa": [0.7, 0.2],
        "hmm_pi_bar": [[0.5, 0.5], [0.9, 0.1]],
        "hmm_pi_init": [0.25, 0.75],
        "rate": [1.0, 30.0],
        "z": [0, 0, 1, 0, 1, 1],
    }
    for name, value in values.items():
        array = np.broadcast_to(np.array(value, post[name].dtype), post[name].shape)
        post[name] = post[name].copy(data=array)
    return found


def replicates(model, draws, redraw=(), **kwargs):
    if PYMC_6:
        result = xr.DataTree.from_dict(draws)
        kwargs |= {"sample_vars": list(redraw)} if redraw else {}
    else:
        import arviz as az

        result = az.InferenceData(**draws)
    if redraw:
        kwargs["var_names"] = [*redraw, "y"]
    found = pm.sample_posterior_predictive(
        result,
        model=model,
        random_seed=3,
        progressbar=False,
        compile_kwargs={"mode": "FAST_COMPILE"},
        **kwargs,
    )["posterior_predictive"]
    return {name: np.asarray(found[name].values)[0] for name in found.data_vars}


def test_states_kept(draws):
    """The states of the draws are used as they are; fails on PyMC 5.28 if y then counts twice."""
    used = model(np.zeros(6, int))
    observed = xr.Dataset({"y": ("y_dim_0", np.zeros(6, int))})
    y = replicates(used, {**draws, "observed_data": observed})["y"]
    assert [v.name for v, _ in terms_involving(used, used["z"])] == ["y"]
    assert observed_on_states(used, used["z"]) == [used["y"]]
    expected = np.array([1.0, 1.0, 30.0, 1.0, 30.0, 30.0])
    assert np.all(np.abs(y.mean(axis=0) - expected) < 4.5 * np.sqrt(expected / N))


def test_states_redrawn_at_another_length(draws):
    """Paths come from pi_init and P of the draws, of the length that ``pm.set_data`` gave."""
    moved = model(np.zeros(6, int))
    with moved:
        pm.set_data({"data": np.zeros(4, int)})
    found = replicates(moved, draws, redraw=["z"])
    z, y = found["z"], found["y"]
    assert z.shape == y.shape == (N, 4)
    p = np.array([0.25, 0.75])
    P = np.array([[0.85, 0.15], [0.72, 0.28]])
    for t in range(4):
        assert abs(z[:, t].mean() - p[1]) < 4.5 * np.sqrt(p[1] * p[0] / N)
        p = p @ P
    np.testing.assert_allclose([y[z == k].mean() for k in (0, 1)], [1.0, 30.0], rtol=0.1)
