"""Running summaries of the states, and results on disk."""

import arviz
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from models import COUNTS, fixed_model, posterior, prior_model, sample

import pymc_dshdp as dshdp
from pymc_dshdp._compat import group
from pymc_dshdp.runs.state_summary import longest_chains

pytestmark = pytest.mark.usefixtures("python_mode")

EVERY, DRAWS = 4, 31
RUN = {"draws": DRAWS, "tune": 10, "chains": 2}


@pytest.fixture(scope="module")
def model():
    """Rates so close that states are in doubt; two sequences."""
    return fixed_model(n_states=4, rates=(2.0, 19.0, 22.0, 58.0))


@pytest.fixture(scope="module")
def runs(model):
    """The same run with everything stored, and with next to nothing on two cores."""
    stored = dshdp.StateSummary(model=model, every=EVERY)
    full = sample(model, callback=stored, **RUN)
    dropped = dshdp.StateSummary(model=model, every=EVERY, states="z")
    small = sample(model, callback=dropped, var_names=["hmm_alpha"], cores=2, **RUN)
    assert list(group(small, "posterior")) == ["hmm_alpha"]
    return full, stored.to_inferencedata(), dropped.to_inferencedata()


def test_the_summary_is_that_of_the_stored_draws(runs):
    """Fails if tuning draws count, or a switch between two sequences (``is_first`` ignored)."""
    full, found, _ = runs
    z = posterior(full)["z"].astype(int)
    summary = group(found, "state_summary")
    one_hot = z[..., None] == np.arange(4)
    np.testing.assert_allclose(summary["state_probability"], one_hot.mean(axis=1))
    np.testing.assert_allclose(summary["occupancy"], one_hot.mean(axis=(1, 2)))
    counts = np.sort(one_hot.mean(axis=2), axis=-1)[..., ::-1]
    np.testing.assert_allclose(summary["ranked_occupancy"], counts.mean(axis=1))
    switches = (z[:, :, 1:] != z[:, :, :-1]).mean(axis=1)
    expected = np.concatenate([np.full((2, 1), np.nan), switches], axis=1)
    expected[:, 12] = np.nan
    np.testing.assert_allclose(summary["switch_probability"], expected)
    assert np.nanmax(expected) > 0 and 0.1 < one_hot.mean(axis=1)[..., 1].max() < 0.95
    occupied = one_hot.any(axis=2).sum(axis=-1)
    histogram = (occupied[..., None] == np.arange(1, 5)).mean(axis=1)
    np.testing.assert_allclose(summary["n_occupied_probability"], histogram)
    np.testing.assert_array_equal(summary["n_draws"], [DRAWS, DRAWS])
    assert summary["state_probability"].dims == ("chain", "z_dim_0", "hmm_state")


def test_kept_draws_are_the_posterior_thinned(runs):
    """Fails if views of the worker's shared memory are kept instead of copies."""
    full, found, _ = runs
    every = group(full, "posterior").isel(draw=slice(EVERY - 1, None, EVERY))
    kept = group(found, "posterior")
    assert set(kept) == set(every) and kept["z"].dtype == np.int8
    xr.testing.assert_equal(kept, every)


def test_what_is_stored_and_on_how_many_cores_makes_no_difference(runs):
    """Fails if the summary reads the trace, which lacks z, instead of the point."""
    _, one, two = runs
    for name in ("posterior", "state_summary", "constant_data", "observed_data"):
        xr.testing.assert_equal(group(one, name), group(two, name))


def test_analysis_reads_a_summary_as_a_result(runs, model):
    full, _, found = runs
    test = fixed_model(n_states=4, rates=(2.0, 19.0, 22.0, 58.0))
    score = dshdp.held_out_log_likelihood(found, model=test)
    every = {"posterior": group(full, "posterior").isel(draw=slice(EVERY - 1, None, EVERY))}
    xr.testing.assert_equal(score, dshdp.held_out_log_likelihood(every, model=test))
    assert np.isfinite(score["total"]).all()
    numbers = dshdp.label_invariant(found)
    z = posterior(found)["z"]
    np.testing.assert_array_equal(
        numbers["n_occupied"], [[len(np.unique(path)) for path in chain] for chain in z]
    )
    aligned = dshdp.align_to(group(found, "posterior")["z"], z[0, 0])
    np.testing.assert_array_equal(aligned[0, 0], z[0, 0])


def test_round_trip_through_netcdf(runs, tmp_path):
    """Both the result of ``pm.sample`` and the summary come back equal, with their dtypes."""
    for i, result in enumerate((runs[0], runs[2])):
        path = tmp_path / f"{i}.nc"
        result.to_netcdf(path)
        back = arviz.from_netcdf(path)
        for name in ("posterior", "sample_stats", "state_summary", "constant_data"):
            if name in result:
                xr.testing.assert_equal(group(back, name), group(result, name))
        assert group(back, "posterior")["z"].dtype == group(result, "posterior")["z"].dtype
        xr.testing.assert_equal(dshdp.label_invariant(back), dshdp.label_invariant(result))


def test_a_batch_of_sequences_with_labelled_time():
    """Fails if a rectangular layout is counted as one sequence."""
    coords = {"trial": ["a", "b"], "time": np.array(["2000-01-01", "2000-01-02"], "M8[ns]")}
    with pm.Model(coords=coords) as model:
        prior = dshdp.DSHDP("hmm", n_states=2)
        dshdp.HiddenStates("z", prior, dims=("trial", "time"))
    summary = dshdp.StateSummary(model=model, every=1)
    of = "StateSummary of 'z', 4 times in 2 states; draws by chain"
    assert repr(summary) == f"{of} {{}}, every 1 kept"
    point = model.initial_point()
    for path in ([[0, 1], [1, 0]], [[0, 0], [1, 0]]):
        summary(None, Draw({**point, "z": np.array(path, "int8")}))
    assert repr(summary) == f"{of} {{0: 2}}, every 1 kept"
    found = group(summary.to_inferencedata(), "state_summary")
    assert found["switch_probability"].dims == ("chain", "trial", "time")
    np.testing.assert_array_equal(found["switch_probability"][0], [[np.nan, 0.5], [np.nan, 1.0]])
    np.testing.assert_array_equal(found["state_probability"][0, :, :, 1], [[0, 0.5], [1, 0]])
    assert found["time"].dtype.kind == "M" and list(found["trial"].values) == ["a", "b"]


class Draw:
    def __init__(self, point, chain=0, tuning=False):
        self.point, self.chain, self.tuning = point, chain, tuning


def test_refusals():
    model = prior_model()
    with pytest.raises(TypeError, match="model must be a pymc.Model, received str"):
        dshdp.StateSummary(model="z")
    for every in (0, 2.5, True):
        with pytest.raises(ValueError, match=f"every must be a positive integer, received {every}"):
            dshdp.StateSummary(model=model, every=every)
    with pytest.raises(ValueError, match=r"hidden states of the model, \['z'\]; received 'w'"):
        dshdp.StateSummary(model=model, states="w")
    summary = dshdp.StateSummary(model=model)
    with pytest.raises(ValueError, match="has seen 0 draws after tuning, and keeps every 10"):
        summary.to_inferencedata()
    other = prior_model(T=len(COUNTS)).initial_point()
    with pytest.raises(ValueError, match="no 'z' of shape .* was made for another model"):
        summary(None, Draw(other))
    summary(None, Draw(other, tuning=True))


def test_longest_chains_of_an_interrupted_run():
    assert longest_chains({0: 100, 1: 80, 2: 3}) == [0, 1]
    assert longest_chains({0: 3, 2: 100}) == [2]
    assert longest_chains({0: 0}) == longest_chains({}) == []
