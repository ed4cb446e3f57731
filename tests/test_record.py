"""What a result knows of itself: read from its record, and refused where it is not there."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from models import FAST, posterior_of, sample
from results import dressed, from_groups, noisy_copies

import pymc_dshdp as dshdp
from pymc_dshdp._compat import group, make_result
from pymc_dshdp.analysis.result import find_hidden, find_prior, hidden_variables, read_records
from pymc_dshdp.likelihood.completed import split_observation
from pymc_dshdp.likelihood.missing import MissingValues, is_missing_observation
from pymc_dshdp.plots import series
from pymc_dshdp.transitions.record import records_of

TRUTH = np.repeat([0, 1, 0, 2], 8)
L = 4


def declared(prior, n_states=3, **layout):
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", prior(n_states=n_states), **(layout or {"length": 6}))
        pm.Poisson("y", pm.Gamma("rate", 1.0, 1.0, dims="hmm_state")[z], observed=np.arange(6))
    return model


def record(model):
    data = {"z_record": xr.DataArray(model["z_record"].get_value())}
    return records_of(data)["z"]


def test_what_is_recorded():
    """By role, with the names that the user gave; numbers and what a prior lacks have none."""

    def given(n_states):
        alpha = pm.HalfNormal("concentration", 10.0)
        return dshdp.DSHDP("hmm", n_states=n_states, alpha=alpha, phi=0.9, weights="stick-breaking")

    found = record(declared(given, lengths=[4, 2]))
    assert (found.kind, found.prior, found.n_states) == ("DSHDP", "hmm", 3)
    assert found.dims == ("hmm_state", "hmm_state_to") and found.weights == "stick-breaking"
    assert found.kappa == "constant" and found.lengths == "z_lengths" and found.known is None
    roles = "gamma eta rho1 rho2 kappa beta pi_bar pi_init".split()
    expected = {role: f"hmm_{role}" for role in roles}
    assert found.variables == {**expected, "fractions": "hmm_v", "alpha": "concentration"}
    plain = record(declared(lambda n_states: dshdp.HDP("hmm", n_states=n_states)))
    assert plain.kappa == "none" and "kappa" not in plain.variables
    fixed = record(
        declared(lambda n_states: dshdp.FixedTransitions("hmm", n_states=n_states, kappa=0.5))
    )
    assert (fixed.kind, fixed.weights, fixed.kappa) == ("FixedTransitions", None, "constant")
    assert fixed.variables == {r: f"hmm_{r}" for r in ("pi_bar", "pi_init", "kappa")}
    sticky = record(declared(lambda n_states: dshdp.StickyHDP("hmm", n_states=n_states)))
    assert {"s", "phi", "alpha", "rho1"} < set(sticky.variables) and sticky.kappa == "constant"


def test_a_name_that_is_taken_is_not_passed_over():
    """Fails if kappa is read from a variable that only has its name."""
    with pm.Model(), pytest.raises(ValueError, match="hmm_kappa already exists"):
        half = pm.Beta("hmm_kappa", 1.0, 1.0, shape=3)
        dshdp.DSHDP("hmm", n_states=3, kappa=0.5 * half)


def test_the_record_goes_wherever_the_draws_go(tmp_path):
    """Fails if it is an attribute, or something that a file does not keep."""
    model = declared(lambda n_states: dshdp.HDP("hmm", n_states=n_states))
    expected = record(model)
    idata = sample(model, draws=2, tune=2, chains=1)
    trace = dshdp.ZarrTrace(tmp_path / "run.zarr")
    stored = sample(model, draws=2, tune=2, chains=1, trace=trace)
    longer = dshdp.continue_sampling(
        tmp_path / "run.zarr", model=model, draws=1, cores=1, progressbar=False
    )
    idata.to_netcdf(tmp_path / "run.nc")
    constants = [group(found, "constant_data") for found in (idata, stored, longer)]
    constants.append(xr.open_dataset(tmp_path / "run.nc", group="constant_data"))
    posterior = group(idata, "posterior")
    for dataset in constants:
        found = make_result({"posterior": posterior, "constant_data": dataset})
        assert read_records(found) == {"z": expected}
        assert find_hidden(found).n_states == 3 and find_prior(found, find_hidden(found)).name


@pytest.mark.parametrize("left_out", ["hmm_kappa", "hmm_pi_bar"])
def test_what_is_not_stored_is_refused(left_out):
    """Without kappa the model was taken for an HDP-HMM, whose states hardly last."""
    model = declared(lambda n_states: dshdp.DSHDP("hmm", n_states=n_states, phi=0.9))
    result = posterior_of(model, draws=3, compile_kwargs=FAST)
    result = make_result({**result, "posterior": result["posterior"].drop_vars(left_out)})
    readers = dshdp.summary, dshdp.plot_transitions, dshdp.self_persistence_probability
    for reader in (*readers, dshdp.plot_dwell_times):
        with pytest.raises(ValueError, match=f"'{left_out}' is not in the posterior, the s"):
            reader(result)


def test_names_of_the_user_are_the_users():
    """Names that end like those of a prior or of its states; each was passed over or misread."""
    rng = np.random.default_rng(0)
    z = noisy_copies(TRUTH, (2, 12), 3, 0.0, rng)
    groups, described = dressed(z, L, rng)
    posterior, constants = groups["posterior"], groups["constant_data"]
    posterior |= {f"{name}_beta": posterior["rate"] for name in ("slope", "my_pi_init")}
    posterior |= {"mood_pi_bar": posterior["hmm_pi_bar"], "x_rho1": posterior["hmm_alpha"]}
    posterior |= {"my_gamma": posterior["hmm_alpha"], "x": np.zeros((2, 12, 5), int)}
    constants |= {"x_lengths": np.array([5]), "x_record": np.array([1, 2, 3])}
    described["dims"] |= {"slope_beta": ["state"], "my_pi_init_beta": ["state"]}
    described["dims"] |= {"mood_pi_bar": ["state", "state_to"]}
    idata = from_groups(groups, **described)
    assert hidden_variables(idata) == ["z"] and find_hidden(idata).name == "z"
    found = dshdp.check(idata).aligned.index
    assert any(name.startswith("slope_beta[") for name in found)
    assert not any(name.startswith("hmm_beta[") for name in found)
    assert "x_rho1" in dshdp.label_invariant(idata)
    assert find_prior(idata, find_hidden(idata)).name == "hmm"
    panels = dshdp.plot_hyperparameters(idata)
    assert [panel.get_title() for panel in np.ravel(panels)] == ["hmm_alpha"]
    with pytest.raises(ValueError, match="states='x' is no hidden-state variable"):
        dshdp.align(idata, states="x")


def test_a_result_that_says_nothing_is_refused():
    rng = np.random.default_rng(0)
    groups, described = dressed(noisy_copies(TRUTH, (1, 4), 3, 0.0, rng), L, rng)
    del groups["constant_data"]["z_record"]
    idata = from_groups(groups, **described)
    for reader in (dshdp.align, dshdp.check, dshdp.summary, dshdp.plot_occupied):
        with pytest.raises(ValueError, match="HiddenStates writes that into the group constant_"):
            reader(idata)
    with pytest.raises(ValueError, match="'z_record' was written in version 9 of the record"):
        text = b'{"pymc_dshdp": 9, "states": "z"}'
        groups["constant_data"]["z_record"] = np.frombuffer(text, np.uint8)
        dshdp.check(from_groups(groups, **described))


@pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
def test_a_latent_variable_is_not_a_missing_observation():
    """By its name it was summed out of the states' likelihood and redrawn from its prior."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), length=6)
        mu = pm.Normal("mu", 0.0, 5.0, dims="hmm_state")
        foo = pm.Normal("foo_unobserved", mu[z], 1.0)
        pm.Normal("y", foo, 1.0, observed=np.arange(6.0))
        masked = pm.Normal("bar_unobserved", mu[z][np.arange(6) > 2], 1.0)
        pm.Normal("x", masked, 1.0, observed=np.arange(3.0))
        pm.Normal("w", mu[z], 1.0, observed=np.ma.masked_equal([0.0, 1, 2, 9, 4, 5], 9))
    assert not is_missing_observation(foo)
    assert split_observation(model, foo) is None and split_observation(model, masked) is None
    assert split_observation(model, model["w_unobserved"]).name == "w"
    assert is_missing_observation(model["w_unobserved"])
    with pytest.raises(ValueError, match="'bar_unobserved' has the name and the form of the miss"):
        MissingValues(model, [z])


def test_a_latent_series_is_not_drawn_as_data():
    """Fails if ``foo`` of the posterior is taken for the series of the data ``foo_observed``."""
    rng = np.random.default_rng(0)
    posterior = {name: xr.DataArray(rng.normal(size=(1, 5, 8))) for name in ("foo", "bar")}
    posterior["bar"][..., [0, 1, 2, 4, 5, 7]] = values = np.arange(6.0)
    posterior["bar_unobserved"] = posterior["bar"][..., [3, 6]]
    observed = {"foo_observed": xr.DataArray(np.zeros(8)), "bar_observed": xr.DataArray(values)}
    found = series._with_gaps(observed, posterior)
    assert list(found) == ["bar"]
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(found["bar"])), [3, 6])
