"""Runs that go on: from a store, bit for bit; from a result, in distribution."""

import multiprocessing
import os
import signal

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from models import (
    COUNTS,
    FAST,
    fixed_model,
    needs_fork,
    needs_kill,
    poisson_model,
    posterior,
    sample,
)
from reference import monte_carlo_error

import pymc_dshdp as dshdp
from pymc_dshdp._compat import group
from pymc_dshdp.runs import resume
from pymc_dshdp.steps.states import HELD_ITERATIONS

pytestmark = pytest.mark.usefixtures("python_mode")

SEED = 11
TUNE = HELD_ITERATIONS + 5


def nuts():
    with pm.Model() as model:
        # kappa keeps away from 1, where NUTS needs the rewrites that FAST_COMPILE leaves out.
        prior = dshdp.DSHDP("hmm", n_states=3, phi=0.7, eta=pm.Uniform("eta", 0.3, 0.8))
        z = dshdp.HiddenStates("z", prior, lengths=[12, 18])
        mean = pm.Normal("mean", 3.0, 2.0, dims="hmm_state")
        pm.Normal("y", mean[z], 0.5, observed=np.log1p(COUNTS))
    return model, lambda: [dshdp.ConditionalNUTS([model["mean"]], compile_kwargs=FAST)]


def conjugate():
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=3)
        z = dshdp.HiddenStates("z", prior, lengths=[12, 18])
        rate = pm.Gamma("rate", 2.0, 0.1, dims="hmm_state")
        pm.Poisson("y", rate[z], observed=COUNTS)
    return model, lambda: None


def direct():
    model = fixed_model(weights="stick-breaking")
    return model, lambda: [dshdp.DSBlockGibbs([model["z"]]), dshdp.GridRhoStep([model["z"]])]


def steps_of(model, make):
    with model:
        return make()


def run(model, make, draws, **kwargs):
    kwargs = {"tune": TUNE, "random_seed": SEED, "chains": 2, **kwargs}
    return sample(model, draws=draws, step=steps_of(model, make), **kwargs)


def go_on(model, make, store, draws, **kwargs):
    kwargs = {"cores": 1, "progressbar": False, **kwargs}
    return dshdp.continue_sampling(
        store, model=model, draws=draws, step=steps_of(model, make), **kwargs
    )


def assert_equal_results(one, two):
    """Equal but for times, and ``lp``, which a step among several does not report."""
    for name in ("posterior", "sample_stats"):
        a, b = group(one, name), group(two, name)
        assert set(a) == set(b)
        for variable in set(a) - {"lp"}:
            if "perf_counter" in variable or "process_time" in variable:
                continue
            np.testing.assert_array_equal(a[variable], b[variable], err_msg=variable)
            assert a[variable].dims == b[variable].dims
            assert a[variable].dtype == b[variable].dtype or variable == "z"  # a byte in a store


@pytest.mark.parametrize(
    ("make_model", "tune"),
    [pytest.param(nuts, 10, marks=pytest.mark.slow), (conjugate, TUNE), (direct, 5)],
)
def test_thirty_and_thirty_more_are_sixty(make_model, tune, tmp_path):
    """Bit for bit, draws and statistics, whatever was stored.

    Fails if a generator or a counter of a step is not in its state, if the point is rebuilt from
    rounded natural values, or if NUTS is reset.
    """
    model, make = make_model()
    whole = run(model, make, 60, tune=tune)
    trace = dshdp.ZarrTrace(tmp_path / "run.zarr", draws_per_chunk=7)
    half = run(model, make, 30, tune=tune, trace=trace)
    assert group(half, "posterior").sizes["draw"] == 30
    both = go_on(model, make, trace, 30)
    assert_equal_results(both, whole)
    np.testing.assert_array_equal(group(both, "posterior")["draw"], np.arange(60))


@pytest.fixture(scope="module")
def small():
    return conjugate()


@pytest.mark.slow
def test_little_stored_several_processes_and_a_summary(small, tmp_path):
    """Fails if what ``var_names`` left out is needed, or if workers share a state."""
    model, make = small
    whole_summary = dshdp.StateSummary(model=model, every=3)
    whole = run(model, make, 12, callback=whole_summary)
    path = tmp_path / "run.zarr"
    summary = dshdp.StateSummary(model=model, every=3)
    trace = dshdp.ZarrTrace(path, draws_per_chunk=4)
    run(model, make, 6, trace=trace, var_names=["rate"], cores=2, callback=summary)
    both = go_on(model, make, path, 3, cores=2)
    assert list(group(both, "posterior")) == ["rate"]
    np.testing.assert_array_equal(posterior(both)["rate"], posterior(whole)["rate"][:, :9])
    again = go_on(model, make, str(path), 3)
    np.testing.assert_array_equal(posterior(again)["rate"], posterior(whole)["rate"])
    # Draws 7 to 9 were made without the summary.
    run(model, make, 6, callback=(other := dshdp.StateSummary(model=model, every=3)))
    xr.testing.assert_equal(
        group(summary.to_inferencedata(), "posterior"), group(other.to_inferencedata(), "posterior")
    )


@needs_fork
@needs_kill
def test_a_killed_run_keeps_what_it_had_and_is_finished(small, tmp_path):
    """SIGKILL in the middle of chain 1 of 3; finished, it is the run that was not killed.

    Fails if the position of a chain and its draws are written apart, or if a chain that had not
    begun starts from another generator.
    """
    model, make = small
    path = tmp_path / "run.zarr"

    def kill(trace, draw):
        if draw.chain == 1 and draw.draw_idx == TUNE + 8:
            os.kill(os.getpid(), signal.SIGKILL)

    def victim():
        trace = dshdp.ZarrTrace(path, draws_per_chunk=5)
        run(model, make, 20, chains=3, trace=trace, callback=kill)

    process = multiprocessing.get_context("fork").Process(target=victim)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    whole = run(model, make, 20, chains=3)
    left = dshdp.ZarrTrace.open(path).to_inferencedata(save_warmup=True)
    assert group(left, "posterior").sizes["draw"] == 20
    np.testing.assert_array_equal(posterior(left)["rate"], posterior(whole)["rate"][:1])
    assert group(left, "warmup_posterior").sizes["draw"] == TUNE
    trace = dshdp.ZarrTrace.open(path)
    np.testing.assert_array_equal(
        trace.root["_sampling_state"]["draw_idx"], [TUNE + 20, TUNE + 5, 0]
    )
    np.testing.assert_array_equal(
        trace.root["posterior"]["rate"][1, :5], posterior(whole)["rate"][1, :5]
    )
    finished = go_on(model, make, path, 0, random_seed=SEED)
    assert_equal_results(finished, whole)


@pytest.mark.slow
def test_chains_of_spawned_processes_write_their_store(small, tmp_path):
    """Fails if a recorder needs what only a forked process has."""
    model, make = small
    trace = dshdp.ZarrTrace(tmp_path / "run.zarr", draws_per_chunk=4)
    found = run(model, make, 6, tune=3, trace=trace, cores=2, mp_ctx="spawn")
    assert_equal_results(found, run(model, make, 6, tune=3))
    assert_equal_results(go_on(model, make, trace, 3), run(model, make, 9, tune=3))


@pytest.mark.slow
def test_killed_while_tuning(small, tmp_path):
    """Fails if tuning is not ended at its time in a chain that goes on, or z is held anew."""
    model, make = small
    path = tmp_path / "run.zarr"

    class Stop(Exception):
        pass

    def stop(trace, draw):
        if draw.draw_idx == 12:
            raise Stop

    with pytest.raises(Stop):
        run(model, make, 9, trace=dshdp.ZarrTrace(path, draws_per_chunk=10), callback=stop)
    finished = go_on(model, make, path, 0, random_seed=SEED)
    assert_equal_results(finished, run(model, make, 9))


def test_store_keeps_labels_and_is_not_overwritten(tmp_path):
    """Fails if object coordinates (times, names) reach zarr as they are."""
    times = pd.date_range("2001-01-01", periods=6, freq="D")
    with pm.Model(coords={"time": times, "state": ["low", "high"]}) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, dims="time")
        pm.Poisson("y", pm.math.stack([2.0, 30.0])[z], observed=COUNTS[3:9], dims="time")
    path = tmp_path / "run.zarr"
    idata = sample(model, draws=4, tune=0, trace=dshdp.ZarrTrace(path))
    stored = group(idata, "posterior")
    assert stored["time"].dtype.kind == "M" and list(stored["state"].values) == ["low", "high"]
    np.testing.assert_array_equal(stored["time"].values, times.values)
    idata.to_netcdf(tmp_path / "run.nc")
    with pytest.raises(FileExistsError, match="exists; continue the run in it"):
        dshdp.ZarrTrace(path)
    with pytest.raises(FileNotFoundError, match="is not the store of a run"):
        dshdp.ZarrTrace.open(tmp_path)
    with pytest.raises(ValueError, match="draws_per_chunk must be an integer of at least 1"):
        dshdp.ZarrTrace(tmp_path / "other", draws_per_chunk=0)


def test_chunks_are_those_that_zarr_writes(small, tmp_path):
    """Fails if the last chunk, which is not full, is cut, or if other programs read other draws."""
    model, make = small
    path = tmp_path / "run.zarr"
    trace = dshdp.ZarrTrace(path, draws_per_chunk=4)
    run(model, make, 6, tune=3, trace=trace)
    for name in ("rate", "z", "hmm_pi_bar"):
        array = trace.root["posterior"][name]
        written = array[...]
        files = {file: file.read_bytes() for file in (path / "posterior" / name).glob("c.*")}
        array[...] = written
        assert files == {file: file.read_bytes() for file in files} and len(files) == 2 * 2
    found = xr.open_zarr(path, group="posterior", consolidated=False).load()
    expected = group(trace.to_inferencedata(), "posterior")
    xr.testing.assert_equal(found.assign_coords(expected.coords), expected)
    with pytest.raises(ValueError, match="has the draws of an earlier pm.sample"):
        run(model, make, 6, trace=trace)


def test_a_damaged_chunk_is_named(small, tmp_path):
    """Fails if bytes that are not those written are read as draws."""
    model, make = small
    path = tmp_path / "run.zarr"
    run(model, make, 3, tune=0, trace=dshdp.ZarrTrace(path))
    chunk = path / "posterior" / "rate" / "c.1.0.0"
    whole = chunk.read_bytes()
    for harmed in (whole[:-3], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        chunk.write_bytes(harmed)
        with pytest.raises(ValueError, match="is damaged: 'posterior/rate' cannot be read"):
            dshdp.ZarrTrace.open(path).to_inferencedata()
    with pytest.raises(ValueError, match="run.zarr' is damaged: 'posterior/rate' cannot be read"):
        go_on(model, make, path, 3)


def test_stores_that_cannot_be_opened(tmp_path):
    zarr = pytest.importorskip("zarr")
    old = tmp_path / "old.zarr"
    zarr.open_group(old, mode="w", zarr_format=2).create_group("posterior")
    with pytest.raises(ValueError, match=r"old.zarr' is in zarr's format 2, .* xarray.open_zarr\("):
        dshdp.ZarrTrace.open(old)
    other = tmp_path / "other.zarr"
    zarr.open_group(other, mode="w", zarr_format=3)
    with pytest.raises(FileNotFoundError, match="other.zarr' is not the store of a run begun with"):
        dshdp.ZarrTrace.open(other)
    begun = tmp_path / "begun.zarr"
    dshdp.ZarrTrace(begun)
    with pytest.raises(ValueError, match="begun.zarr' is not complete: its run was killed before"):
        dshdp.ZarrTrace.open(begun)


# -- from a result ------------------------------------------------------------------------------


def test_from_a_result_the_last_draw_is_where_it_starts(small):
    """Fails if the states are held (no log-likelihood then), or started from the data again."""
    model, make = small
    first = run(model, make, 5)
    paths, scores = {}, []

    def watch(trace, draw):
        paths.setdefault(draw.chain, draw.point["z"])
        scores.extend(s["log_marginal_likelihood"] for s in draw.stats if "n_occupied" in s)

    both = again_from_result(model, first, draws=6, random_seed=3, callback=watch)
    for name in ("posterior", "sample_stats"):
        old, new = group(first, name), group(both, name)
        assert set(old) == set(new) and new.sizes["draw"] == 11
        xr.testing.assert_equal(new.isel(draw=slice(5)), old)
    assert group(both, "constant_data")["z_lengths"].values.tolist() == [12, 18]
    assert len(scores) == 2 * (6 + 2) and np.isfinite(scores).all()
    last = posterior(first)["z"][:, -1]
    for chain in range(2):  # with the labels, which only the chain itself knows
        assert np.mean(paths[chain] == last[chain]) > 0.7


@pytest.mark.slow
def test_from_a_result_the_posterior_is_that_of_one_run(small):
    """Fails if draws of the second tuning are kept, or the steps forget to stop it."""
    model, make = small
    settings = {"draws": 3_000, "tune": 300}
    whole = run(model, make, **settings, random_seed=4)
    both = again_from_result(model, run(model, make, 5, tune=0), random_seed=5, **settings)
    one, two = posterior(whole), {name: x[:, 5:] for name, x in posterior(both).items()}
    for name, read in {
        "switches": lambda x: np.mean(x["z"][..., 1:] != x["z"][..., :-1], axis=-1),
        "log alpha": lambda x: np.log(x["hmm_alpha"]),
        "eta": lambda x: x["hmm_eta"],
        "largest rate": lambda x: x["rate"].max(axis=-1),
        "rate in use": lambda x: np.take_along_axis(x["rate"], x["z"].astype(int), 2).mean(-1),
    }.items():
        a, b = read(one), read(two)
        error = np.sqrt(sum(monte_carlo_error(chain) ** 2 for x in (a, b) for chain in x)) / 2
        assert abs(a.mean() - b.mean()) < 4.0 * error, name


def again_from_result(model, result, **kwargs):
    quiet = {"cores": 1, "tune": 2, "progressbar": False, "compute_convergence_checks": False}
    return dshdp.continue_sampling(result, model=model, **{**quiet, **kwargs})


def test_arguments_of_sample_and_of_steps(small, tmp_path):
    """Fails if options of steps, ``chains`` or ``var_names`` are not those of ``pm.sample``."""
    model, make = small
    result = run(model, make, 4)
    quiet = {"cores": 1, "progressbar": False, "model": model, "draws": 2}
    again = dshdp.continue_sampling(
        result,
        tune=1,
        chains=2,
        var_names=["rate"],
        grid_rho={"grid": (5, 5)},
        compute_convergence_checks=False,
        **quiet,
    )
    assert {name: v.shape[:2] for name, v in posterior(again).items()} == {"rate": (2, 6)}
    path = tmp_path / "run.zarr"
    run(model, make, 4, trace=dshdp.ZarrTrace(path))
    for run_, arguments, message in (
        (result, {"chains": 3}, "chains must be 2, as the result has, .* received 3"),
        (result, {"var_names": ["rate", "no"]}, r"var_names has \['no'\], of which the result has"),
        (result, {"initvals": {}}, "initvals cannot be given: each chain starts from its last"),
        (path, {"chains": 3, "tune": 4}, r"\['chains', 'tune'\] cannot be given for a store"),
    ):
        with pytest.raises(ValueError, match=message):
            dshdp.continue_sampling(run_, **arguments, **quiet)


def test_a_damaged_store_goes_on_from_the_last_whole_position(small, tmp_path):
    """Fails with ``UnpicklingError`` if there is one copy only, of which half is written."""
    model, make = small
    path = tmp_path / "run.zarr"
    run(model, make, 6, trace=dshdp.ZarrTrace(path, draws_per_chunk=2))
    copies = sorted((path / "_sampling_state").glob("position.0.?"), key=os.path.getmtime)
    copies[-1].write_bytes(copies[-1].read_bytes()[:100])
    assert_equal_results(go_on(model, make, path, 3), run(model, make, 9))
    for copy in copies:
        copy.write_bytes(b"")
    with pytest.raises(
        ValueError, match="run.zarr' is damaged: where chain 0 stood cannot be read"
    ):
        go_on(model, make, path, 3)
    again = again_from_result(model, dshdp.ZarrTrace.open(path).to_inferencedata(), draws=2)
    assert group(again, "posterior").sizes["draw"] == 11


def test_variables_that_were_not_stored(small):
    """Fails if the missing ones are not all named, or a summary is not used."""
    model, make = small
    summary = dshdp.StateSummary(model=model, every=2)
    first = run(model, make, 5, callback=summary, var_names=["rate", "hmm_alpha"])
    with pytest.raises(ValueError, match=r"lacks \[.*'hmm_pi_bar'.*'z'.*\].*StateSummary"):
        dshdp.continue_sampling(first, model=model, draws=3)
    for start in (summary, summary.to_inferencedata()):
        both = again_from_result(model, first, draws=3, start=start)
        assert set(group(both, "posterior")) == {"rate", "hmm_alpha"}
        assert group(both, "posterior").sizes["draw"] == 8


def test_a_rounded_probability_of_one_is_no_obstacle(small):
    """Fails if kappa = 1 in the result becomes an infinite starting value."""
    model, make = small
    first = run(model, make, 2, chains=1)
    group(first, "posterior")["hmm_kappa"].values[0, -1] = 1.0
    both = again_from_result(model, first, draws=2)
    assert np.isfinite(group(both, "sample_stats")["log_marginal_likelihood"]).all()
    [start] = resume._last_draws(model, group(first, "posterior"), None)
    assert start["hmm_kappa"][-1] == np.nextafter(1.0, 0.0)


def test_refusals(small, tmp_path):
    model, make = small
    path = tmp_path / "run.zarr"
    run(model, make, 2, tune=1, trace=dshdp.ZarrTrace(path))
    with pytest.raises(ValueError, match="sampled by other steps"):
        go_on(model, lambda: [dshdp.DSBlockGibbs([model["z"]])], path, 1)
    with pytest.raises(ValueError, match="one of another model"):
        dshdp.continue_sampling(path, model=poisson_model(), draws=1)
    with pytest.raises(ValueError, match="draws must be an integer of at least 0, received -1"):
        dshdp.continue_sampling(path, model=model, draws=-1)
    with pytest.raises(TypeError, match="run must be a ZarrTrace .* received int"):
        dshdp.continue_sampling(3, model=model, draws=1)
    with pytest.raises(TypeError, match="continue_sampling takes the result first and the model"):
        dshdp.continue_sampling(model, path, draws=1)
    with pytest.raises(FileNotFoundError):
        dshdp.continue_sampling(tmp_path / "none", model=model, draws=1)
