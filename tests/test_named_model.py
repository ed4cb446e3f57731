"""Priors and states in ``pm.Model(name="rat1")``, alone or nested, from draw to analysis."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from models import COUNTS, sample

import pymc_dshdp as dshdp
from pymc_dshdp._compat import group
from pymc_dshdp.likelihood.table import LogLikelihoodTable

pytestmark = pytest.mark.usefixtures("python_mode")

PRIORS = (dshdp.DSHDP, dshdp.StickyHDP, dshdp.HDP, dshdp.FixedTransitions)
RATES = pt.as_tensor(np.array([2.0, 20.0, 60.0]))


def one_rat(name, y, prior=dshdp.DSHDP, **layout):
    """Counts whose rates are known, in a model of that name."""
    with pm.Model(name=name):
        hmm = prior("hmm", n_states=3)
        z = dshdp.HiddenStates("z", hmm, **(layout or {"length": len(y)}))
        pm.Poisson("counts", RATES[z], observed=y)
    return hmm


@pytest.fixture(scope="module")
def rats():
    with pm.Model() as model:
        one_rat("rat1", COUNTS, lengths=[12, 18], known={(1, 17): 1})
        one_rat("rat2", COUNTS[:12], initial_states=np.repeat([0, 1], 6), length=12)
    return model


@pytest.fixture(scope="module")
def result(rats):
    return sample(rats, draws=12, tune=12)


@pytest.mark.parametrize("prior", PRIORS)
def test_every_name_has_that_of_the_model(prior):
    """Fails if a prior looks for its own kappa by the name without the model's."""
    with pm.Model() as model:
        hmm = one_rat("rat1", COUNTS, prior)
    assert hmm.name == "rat1::hmm" and hmm.dims == ("rat1::hmm_state", "rat1::hmm_state_to")
    assert {name.split("::")[0] for name in (*model.named_vars, *model.coords)} == {"rat1"}
    assert {"rat1::z", "rat1::z_lengths", "rat1::z_record"} <= set(model.named_vars)


def test_rats_of_one_model_have_states_of_their_own(rats, result):
    z = group(result, "posterior")
    assert z["rat1::z"].shape == (2, 12, 30) and z["rat2::z"].shape == (2, 12, 12)
    assert {"rat1::hmm_state", "rat2::hmm_state"} <= set(z.sizes)
    assert np.all(z["rat1::z"][..., -1] == 1)  # known
    constants = group(result, "constant_data")
    np.testing.assert_array_equal(constants["rat1::z_lengths"], [12, 18])
    summary = dshdp.StateSummary(model=rats, every=3, states="rat1::z")
    again = sample(rats, draws=12, tune=12, callback=summary, var_names=["rat2::hmm_alpha"])
    assert list(group(again, "posterior")) == ["rat2::hmm_alpha"]
    kept = group(summary.to_inferencedata(), "posterior")
    xr.testing.assert_equal(kept["rat1::z"], z["rat1::z"][:, 2::3])


def test_states_of_a_named_model_are_aligned():
    with pm.Model() as model, pm.Model(name="rat1"):
        hmm = dshdp.DSHDP("hmm", n_states=3)
        z = dshdp.HiddenStates("z", hmm, length=30)
        rate = pm.Gamma("rate", 1.0, 0.1, dims=hmm.dims[0])
        pm.Poisson("counts", rate[z], observed=COUNTS)
    idata = sample(model, draws=12, tune=12)
    aligned = dshdp.align(idata)
    before = group(aligned, "alignment")["rat1::hmm_state_label_before"].values
    rates = group(idata, "posterior")["rat1::rate"].values
    moved = np.take_along_axis(rates, before, axis=-1)
    np.testing.assert_array_equal(group(aligned, "posterior")["rat1::rate"], moved)
    assert "rat1::hmm_pi_bar" in group(aligned, "posterior")


def test_analysis_of_one_of_them(rats, result, states="rat1::z"):
    dshdp.summary(result, states=states)
    dshdp.check(result, states=states)
    dshdp.label_invariant(result, states=states)
    with pytest.raises(ValueError, match="told apart by the model"):  # by the rates of counts()
        dshdp.align(result, states=states)
    path = dshdp.viterbi(result, model=rats, states=states)
    smoothed = dshdp.smooth(result, model=rats, states=states)
    np.testing.assert_allclose(smoothed.sum(axis=-1), 1.0)
    assert path.dims == (f"{states}_dim_0",)
    ahead = dshdp.forecast(result, model=rats, horizon=3, states=states, random_seed=1)
    assert {states, f"{states.split('::')[0]}::counts"} <= set(ahead)


def test_the_run_goes_on(rats, result, tmp_path):
    quiet = {"progressbar": False, "cores": 1}
    longer = dshdp.continue_sampling(
        result,
        model=rats,
        draws=3,
        tune=2,
        compute_convergence_checks=False,
        random_seed=1,
        **quiet,
    )
    assert group(longer, "posterior").sizes["draw"] == 15
    pytest.importorskip("zarr", "3.1")
    sample(rats, draws=6, tune=12, trace=dshdp.ZarrTrace(tmp_path / "run"))
    stored = {path.name for path in (tmp_path / "run").rglob("*")}
    assert not set('<>:"|?*') & set("".join(stored)), "no system refuses these names"
    whole = dshdp.continue_sampling(tmp_path / "run", model=rats, draws=6, **quiet)
    found = group(whole, "posterior")
    assert found["rat1::z"].dtype == np.int8  # stored in one byte
    xr.testing.assert_equal(found, group(result, "posterior")[list(found)])


def test_a_root_model_with_a_name_and_the_other_sampler():
    with pm.Model(name="rat1") as model:
        hmm = dshdp.DSHDP("hmm", n_states=3, weights="stick-breaking")
        z = dshdp.HiddenStates("z", hmm, length=30)
        rate = pm.Gamma("rate", 2.0, 0.1, dims=hmm.dims[0])
        pm.Poisson("counts", rate[z], observed=COUNTS)
        mu, Sigma = dshdp.NormalInverseWishart("niw", data=np.eye(30)[:, :2], dims=hmm.dims[0])
        pm.MvNormal("pairs", mu[z], Sigma[z], observed=np.eye(30)[:, :2])
        step = [dshdp.DSBlockGibbs([z]), dshdp.GridRhoStep([z])]
    found = group(sample(model, draws=4, tune=4, chains=1, step=step), "posterior")
    assert found["rat1::niw_mu"].dims[2:] == ("rat1::hmm_state", "rat1::niw_channel")


def test_a_prior_shared_by_the_rats():
    """Declared in the outer model, with states in the inner ones; fails if it is refused."""
    with pm.Model() as model:
        gamma = pm.Gamma("gamma", 2.0, 1.0)
        with pm.Model(name="both"):
            hmm = dshdp.HDP("hmm", n_states=3, gamma=gamma)
        for name in ("rat1", "rat2"):
            with pm.Model(name=name):
                z = dshdp.HiddenStates("z", hmm, length=30)
                pm.Poisson("counts", RATES[z], observed=COUNTS)
    found = group(sample(model, draws=2, tune=2, chains=1), "posterior")
    assert {"gamma", "both::hmm_alpha", "rat1::z", "rat2::z"} <= set(found)


def test_what_to_write_has_no_name_of_the_model():
    """The states are not called rat1::z in the code of the user."""
    with pm.Model(name="rat1") as model:
        z = dshdp.HiddenStates("z", dshdp.HDP("hmm", n_states=3), length=5)
    with pytest.warns(UserWarning, match=r"on 'rat1::z'.* rate\[z\], observed=y"):
        LogLikelihoodTable(model, z, 3)
