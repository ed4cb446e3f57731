"""Pictures: what is drawn, on axes that are given or new, for few and for many states."""

import matplotlib

matplotlib.use("Agg")

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import scipy.stats
import xarray as xr
from models import posterior_of
from results import dressed, from_groups, noisy_copies, result

import pymc_dshdp as dshdp
from pymc_dshdp._compat import group, with_groups
from pymc_dshdp.plots.style import state_colours

TRUTH = np.repeat([0, 1, 0, 2, 1, 0], [14, 9, 12, 8, 10, 7])
DATA = 3.0 * TRUTH + np.sin(np.arange(60))


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def idata():
    raw = result(TRUTH, 6, noise=0.0, extra=0)
    observed = xr.Dataset({"y": ("time", DATA, {})}, {"time": 1900 + np.arange(60)})
    return dshdp.align(with_groups(raw, {"observed_data": observed}))


@pytest.fixture(scope="module")
def many():
    truth = np.random.default_rng(0).permutation(np.repeat(np.arange(40), 50))
    return dshdp.align(result(truth, 45, draws=10, chains=2, noise=0.02, extra=3))


def test_colours_differ():
    """Fails if two of the first 35 states share a colour."""
    colours = state_colours(40)
    assert len(np.unique(colours[:35], axis=0)) == 35
    distance = np.abs(colours[:7, None] - colours[None, :7]).sum(-1) + np.eye(7)
    assert distance.min() > 0.3
    np.testing.assert_array_equal(state_colours(3), colours[:3])


def test_series_in_the_colours_of_its_states(idata):
    ax = dshdp.plot_series(idata)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time", "y")
    [points] = ax.collections
    np.testing.assert_allclose(points.get_facecolors()[:, :3], state_colours(6)[TRUTH])
    np.testing.assert_allclose(points.get_offsets()[:, 0], 1900 + np.arange(60))
    [band] = ax.child_axes
    assert len(band.collections) == 3  # the occupied states
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert [text.split(", rate ")[0] for text in legend] == ["0", "1", "2"]
    given = plt.subplots()[1]
    assert dshdp.plot_series(idata, DATA, ax=given) is given
    several = dshdp.plot_series(idata, np.stack([DATA] * 3, axis=1))
    assert len(several.collections) == 3
    assert len(dshdp.plot_series(idata, np.stack([DATA] * 12, axis=1)).images) == 1


def test_missing_values_are_gaps(idata):
    """Fails if an imputed value is drawn as if it had been seen."""
    draws = np.tile(DATA, (3, 40, 1))
    draws[..., 5] += np.arange(40)
    posterior = group(idata, "posterior").assign(y=(("chain", "draw", "time"), draws))
    seen = xr.Dataset({"y_observed": ("y_observed_dim", np.delete(DATA, 5))})
    masked = with_groups(idata, {"posterior": posterior, "observed_data": seen})
    for ax in (dshdp.plot_series(masked), dshdp.plot_series(masked, "y")):
        drawn = np.ma.filled(ax.collections[0].get_offsets()[:, 1], np.nan)
        np.testing.assert_array_equal(drawn, np.where(np.arange(60) == 5, np.nan, DATA))


def test_many_series_over_dates(idata):
    """Images lie where their dates are; fails if they are drawn at positions."""
    days = np.datetime64("2020-01-01") + np.arange(60)
    dated = with_groups(
        idata, {"posterior": group(idata, "posterior").assign_coords(time=days.astype("M8[ns]"))}
    )
    ax = dshdp.plot_series(dated, np.stack([DATA] * 12, axis=1))
    raster = dshdp.plot_raster(dated)
    for image in (ax.images[0], raster.images[0]):
        assert image.get_extent()[:2] == [18262.0, 18321.0]


def test_series_refuses_what_does_not_fit(idata, many):
    with pytest.raises(ValueError, match="data='w' is not in observed_data; it has"):
        dshdp.plot_series(idata, "w")
    with pytest.raises(ValueError, match=r"must have the shape \(60,\) of 'z', and at most one"):
        dshdp.plot_series(idata, DATA[:-1])
    with pytest.raises(ValueError, match="data must name an observed variable or be an array"):
        dshdp.plot_series(many)
    with pytest.raises(ValueError, match="sequence must be 0 to 0, received 1"):
        dshdp.plot_series(idata, sequence=1)


def test_raster_has_a_band_for_each_chain(idata):
    ax = dshdp.plot_raster(idata)
    [image] = ax.images
    assert image.get_array().shape == (3 * 40, 60, 3)
    np.testing.assert_allclose(image.get_array()[50], state_colours(6)[TRUTH])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["0", "1", "2"]


def test_one_sequence_of_several():
    truth = np.concatenate([TRUTH, TRUTH[:20]])
    idata = result(truth, 4, lengths=[60, 20], noise=0.0, extra=0)
    ax = dshdp.plot_raster(idata, sequence=1)
    assert ax.images[0].get_array().shape[1] == 20
    assert (
        len(dshdp.plot_series(idata, np.arange(80.0), sequence=1).collections[0].get_offsets())
        == 20
    )


def test_coassignment_is_the_share_of_draws(idata):
    values = dshdp.plot_coassignment(idata).images[0].get_array()
    np.testing.assert_array_equal(values, TRUTH[:, None] == TRUTH[None, :])


def test_transitions_show_the_mean(idata):
    ax = dshdp.plot_transitions(idata)
    expected = dshdp.summary(idata).transition_matrix
    np.testing.assert_allclose(ax.images[0].get_array(), expected)
    assert len(ax.texts) == 9
    assert ax.texts[0].get_text().startswith(f"{expected.iloc[0, 0]:.2f}\n[")
    _, small = plt.subplots(figsize=(2.0, 2.0))
    dshdp.plot_transitions(idata, ax=small)
    assert small.texts[0].get_text() == f"{expected.iloc[0, 0]:.2f}", "no room for intervals"


def test_a_state_is_drawn_over_the_draws_that_occupy_it():
    """Fails if draws in which the state is spare enter its row or its geometric."""
    rng = np.random.default_rng(0)
    z = noisy_copies(TRUTH, (2, 60), 3, 0.0, rng)
    z[:, ::3][z[:, ::3] == 2] = 1
    groups, described = dressed(z, 6, rng, shuffle=False)
    groups["posterior"]["hmm_kappa"][:, ::3, 2] = 0.999
    idata = from_groups(groups, **described)
    shown = dshdp.plot_transitions(idata).images[0].get_array()
    np.testing.assert_allclose(shown, dshdp.summary(idata).transition_matrix)
    assert shown[2, 2] < 0.6
    line = dshdp.plot_dwell_times(idata, label=2).lines[0].get_ydata()
    assert line[0] == pytest.approx(1 - shown[2, 2], rel=0.01)


def test_dwell_times_against_the_geometric(idata):
    """Fails if runs of different draws are joined, or the bars do not sum to one."""
    panels = dshdp.plot_dwell_times(idata)
    assert panels.shape == (1, 3)
    assert panels[0, 0].get_title() == "state 0, mean of all runs 11.0"
    heights = [bar.get_height() for bar in panels[0, 0].patches]
    assert sum(heights) == pytest.approx(1.0)
    assert heights[13] == heights[11] == heights[6] == pytest.approx(1 / 3)
    stay = dshdp.summary(idata).states.loc[0, "stay"]
    line = panels[0, 0].lines[0].get_ydata()
    np.testing.assert_allclose(line[:3], (1 - stay) * stay ** np.arange(3), rtol=0.05)
    ax = plt.subplots()[1]
    assert dshdp.plot_dwell_times(idata, label=1, ax=ax) is ax
    with pytest.raises(ValueError, match="label must be one of .* received 9"):
        dshdp.plot_dwell_times(idata, label=9)
    with pytest.raises(ValueError, match="ax is for one state"):
        dshdp.plot_dwell_times(idata, ax=ax)


def test_runs_end_with_their_sequence():
    truth = np.repeat([0, 1, 1, 0], [20, 10, 5, 30])
    idata = result(truth, 4, noise=0.0, extra=0, lengths=[30, 35])
    assert dshdp.plot_dwell_times(idata, label=1).get_title() == "state 1, mean of all runs 7.5"


def test_hyperparameters_over_their_prior(idata):
    [panel] = dshdp.plot_hyperparameters(idata)
    assert panel.get_title() == "hmm_alpha" and len(panel.patches) == 1
    with pm.Model() as model:
        pm.Gamma("hmm_alpha", 2.0, 1.0)
    [panel] = dshdp.plot_hyperparameters(idata, model=model)
    posterior, prior = (patch.get_data() for patch in panel.patches)
    width = np.diff(prior.edges)
    assert 0.9 < (prior.values * width).sum() <= 1.0
    np.testing.assert_allclose(posterior.values, prior.values, atol=0.25)
    with pytest.raises(ValueError, match="names must be scalars of the posterior"):
        dshdp.plot_hyperparameters(idata, var_names=["rate"])
    with pytest.raises(ValueError, match="ax must have 2 axes, one for each name; got 1"):
        dshdp.plot_hyperparameters(idata, var_names=["hmm_alpha"] * 2, ax=plt.subplots()[1])


def test_occupied_states_by_chain(idata):
    ax = dshdp.plot_occupied(idata)
    assert len(ax.lines) == 6  # the draws of each chain, and their running mean
    np.testing.assert_allclose([ax.lines[i].get_ydata() for i in (2, 3)], 3)
    full = dshdp.plot_occupied(result(TRUTH, 3, noise=0.0, extra=0))
    assert full.lines[-1].get_linestyle() == "--"


def test_forecast_fan():
    draws = xr.DataArray(
        np.random.default_rng(0).normal(size=(2, 500, 5)),
        {"year": np.arange(2007, 2012)},
        ("chain", "draw", "year"),
        name="count",
    )
    past = xr.DataArray(np.zeros(4), {"year": np.arange(2003, 2007)}, ("year",))
    ax = dshdp.plot_forecast(draws, past)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("year", "count")
    assert len(ax.collections) == 3
    outer = ax.collections[0].get_paths()[0].vertices
    assert outer[:, 0].min() == 2007 and outer[:, 1].max() == pytest.approx(1.96, abs=0.25)
    np.testing.assert_allclose(ax.lines[1].get_ydata(), 0, atol=0.15)
    with pytest.raises(ValueError, match="forecast must have draws before its last axis"):
        dshdp.plot_forecast(np.zeros(5))


def test_forecast_goes_on_from_the_observed():
    """Fails if a forecast begins at 1, or its last axis is taken for time."""
    values = np.random.default_rng(0).normal(size=(2, 50, 3, 2)) + 10.0 * np.arange(3)[:, None]
    coords = {"horizon": [1, 2, 3], "side": ["left", "right"]}
    future = xr.DataArray(values, coords, ("chain", "draw", "horizon", "side"), name="y")
    days = np.datetime64("2020-01-01") + 7 * np.arange(4)
    for past, expected in (
        (xr.DataArray(np.zeros(4), {"day": days}, ("day",)), days[-1] + 7 * np.arange(1, 4)),
        (xr.DataArray(np.zeros(3), {"year": [1990, 2000, 2010]}, ("year",)), [2020, 2030, 2040]),
        (np.zeros(4), [4, 5, 6]),
        (None, [1, 2, 3]),
    ):
        median = dshdp.plot_forecast(future.sel(side="left"), past).lines[-1]
        np.testing.assert_array_equal(median.get_xdata(), expected)
        np.testing.assert_allclose(median.get_ydata(), [0, 10, 20], atol=0.5)
    turned = dshdp.plot_forecast(future.sel(side="left").transpose("horizon", ...))
    np.testing.assert_array_equal(turned.lines[-1].get_ydata(), median.get_ydata())
    array = dshdp.plot_forecast(values[..., 0], np.zeros(4))
    np.testing.assert_array_equal(array.lines[-1].get_xdata(), [4, 5, 6])
    with pytest.raises(ValueError, match=r"besides chain and draw; .* forecast.isel\(side=0\)"):
        dshdp.plot_forecast(future)
    with pytest.raises(TypeError, match=r"must be one variable, forecast\['...'\] of \['y'\]"):
        dshdp.plot_forecast(future.to_dataset())
    with pytest.raises(ValueError, match=r"observed must be one series, received shape \(4, 2\)"):
        dshdp.plot_forecast(future.sel(side="left"), np.zeros((4, 2)))


def test_a_series_with_missing_values_before_its_forecast():
    """Fails if imputed values are drawn as observed, or the dates of an index are lost."""
    future = np.random.default_rng(0).normal(size=(2, 50, 3))
    future = xr.DataArray(future, {"horizon": [1, 2, 3]}, ("chain", "draw", "horizon"))
    days = np.datetime64("2020-01-01") + 7 * np.arange(4)
    whole = np.array([1.0, np.nan, 3.0, 4.0])
    draws = np.broadcast_to(whole, (2, 5, 4)).copy()
    draws[..., 1] = np.arange(10).reshape(2, 5)
    posterior = xr.DataArray(draws, {"day": days}, ("chain", "draw", "day"))
    index = pd.DatetimeIndex(days, name="day")
    periods = pd.period_range("2020-01", periods=4, freq="M", name="day")
    for past in (
        posterior,
        posterior.transpose("day", "draw", "chain"),
        pd.Series(whole, index),
        pd.Series([1, None, 3, 4], index, dtype="Int64"),
        pd.Series(whole, periods),
        np.ma.masked_invalid(whole),
    ):
        ax = dshdp.plot_forecast(future, past)
        line, median = ax.lines[0], ax.lines[-1]
        np.testing.assert_array_equal(line.get_ydata(), whole)
        if isinstance(past, np.ndarray):
            np.testing.assert_array_equal(median.get_xdata(), [4, 5, 6])
        else:
            start = days if getattr(past, "index", None) is not periods else periods.to_timestamp()
            np.testing.assert_array_equal(line.get_xdata(), start)
            assert ax.get_xlabel() == "day" and median.get_xdata()[0] > start[-1]
    for past in (posterior.to_dataset(name="y"), "y"):
        with pytest.raises(
            TypeError, match=r"idata.posterior\['y'\] where values of y are missing"
        ):
            dshdp.plot_forecast(future, past)
    with pytest.raises(ValueError, match=r"observed must be one series, received shape \(4, 2\)"):
        dshdp.plot_forecast(
            future, xr.concat([posterior, posterior], "side").transpose(..., "side")
        )


def test_forty_states(many):
    """Fails if a picture needs a row of legend or a number in a cell for every state."""
    T = many["posterior"]["z"].shape[-1]
    ax = dshdp.plot_series(many, np.random.default_rng(0).normal(size=T))
    assert len(ax.get_legend().get_texts()) == 11
    assert len(dshdp.plot_transitions(many).texts) == 0
    assert dshdp.plot_dwell_times(many).shape == (2, 3)
    assert dshdp.plot_coassignment(many).images[0].get_array().shape == (400, 400)
    for axes in (dshdp.plot_raster(many), dshdp.plot_occupied(many)):
        axes.figure.canvas.draw()


# ArviZ 0.x calls Matplotlib in a way that Matplotlib 3.11 deprecates.
@pytest.mark.filterwarnings("ignore:Passing a dict or None:DeprecationWarning")
def test_arviz_works_as_usual():
    """Summaries, R-hat and the trace and rank plots, of aligned results and of the invariants."""
    aligned = dshdp.align(result(TRUTH, 6, noise=0.05, extra=3, seed=2, draws=60))
    invariant = dshdp.label_invariant(aligned)
    three = {"var_names": ["rate"], "coords": {"state": [0, 1, 2]}}
    assert list(az.summary(aligned, **three).index) == ["rate[0]", "rate[1]", "rate[2]"]
    assert set(az.summary(invariant).index) == {"n_occupied", "n_switches", "hmm_alpha"}
    assert float(az.rhat(aligned, var_names=["rate"])["rate"][:3].max()) < 1.05
    assert set(az.rhat(invariant)) == {"n_occupied", "n_switches", "hmm_alpha"}
    trace = getattr(az, "plot_trace_dist", az.plot_trace)  # its name in ArviZ 1
    for plot in (trace, az.plot_trace, az.plot_rank):
        plot(aligned, **three)
        plot(invariant, var_names=["hmm_alpha", "n_switches"])
    assert len(plt.get_fignums()) == 6


COUNTS = np.random.default_rng(3).poisson(np.array([2.0, 20.0, 60.0])[TRUTH])


@pytest.fixture(scope="module")
def fitted():
    """A model of counts, its result with replicates, and the result aligned."""
    with pm.Model(coords={"state": np.arange(4), "hour": np.arange(60)}) as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", dims="state"), dims="hour")
        rate = pm.Gamma("rate", 1.0, 0.05, dims="state")
        pm.Poisson("counts", rate[z], observed=COUNTS, dims="hour")
        raw = pm.sample(
            tune=20, draws=30, chains=2, cores=1, random_seed=1, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
        predicted = pm.sample_posterior_predictive(raw, random_seed=1, progressbar=False)
    replicates = group(predicted, "posterior_predictive")
    return model, dshdp.align(with_groups(raw, {"posterior_predictive": replicates}))


def test_densities_of_the_states(fitted):
    """Fails if a density is not weighted by the share of time, or not that of its state."""
    model, aligned = fitted
    ax = dshdp.plot_densities(aligned, model=model, prob=0.9)
    posterior = group(aligned, "posterior")
    grid = np.arange(COUNTS.min(), COUNTS.max() + 1)
    total = 0.0
    for k in range(4):
        share = (posterior["z"] == k).mean("hour").values[..., None]
        rate = posterior["rate"].isel(state=k).values[..., None]
        density = (share * scipy.stats.poisson(rate).pmf(grid)).mean(axis=(0, 1))
        total = total + density
        if k < 3:
            np.testing.assert_allclose(ax.lines[k].get_ydata(), density, rtol=1e-9)
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), total, rtol=1e-9)
    assert ax.get_xlabel() == "counts" and len(ax.get_legend().get_texts()) == 3
    heights = [bar.get_height() * bar.get_width() for bar in ax.patches]
    assert sum(heights) == pytest.approx(1.0)


@pytest.mark.parametrize("layout", [{"shape": (2, 10)}, {"lengths": [10, 10]}])
def test_densities_where_more_was_observed(layout, quick):
    """Fails if what else was observed of the states counts."""
    rng, L = np.random.default_rng(0), 4
    with pm.Model(coords={"state": np.arange(L), "channel": np.arange(3)}) as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", dims="state"), **layout)
        mu = pm.Normal("mu", dims=("state", "channel"))
        rate = pm.Gamma("rate", 2.0, 0.1, dims="state")
        size = z.type.shape
        counts = rng.poisson(5, size)
        pm.Poisson("counts", rate[z], observed=counts)
        pm.Normal("other", mu[z], 1.0, observed=rng.normal(size=(*size, 3)))
    drawn = posterior_of(model, 6, compile_kwargs={"mode": "FAST_COMPILE"})
    posterior = drawn["posterior"]
    data = xr.Dataset({"counts": (posterior["z"].dims[2:], counts)})
    ax = dshdp.plot_densities({**drawn, "observed_data": data}, "counts", model=model)
    grid, paths = np.arange(counts.min(), counts.max() + 1), posterior["z"].values.reshape(1, 6, -1)
    total = 0.0
    for k in range(L):
        rate = posterior["rate"].values[..., k, None]
        share = (paths == k).mean(axis=-1)[..., None]
        total = total + (share * scipy.stats.poisson(rate).pmf(grid)).mean(axis=(0, 1))
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), total, rtol=1e-9)


@pytest.fixture(scope="module")
def channels():
    """A model of two columns that are correlated in each state, and its result with replicates."""
    L, y = 4, np.random.default_rng(2).normal(np.stack([TRUTH * 4.0, -TRUTH], axis=1))
    sd = np.array([1.0, 2.0])
    covariance = np.outer(sd, sd) * np.array([[1.0, 0.8], [0.8, 1.0]])
    coords = {"state": np.arange(L), "channel": ["left", "right"], "hour": np.arange(60)}
    with pm.Model(coords=coords) as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", dims="state"), dims="hour")
        mu = pm.Normal("mu", 0.0, 5.0, dims=("state", "channel"))
        pm.MvNormal("y", mu[z], covariance, observed=y, dims=("hour", "channel"))
        raw = pm.sample(
            tune=20, draws=30, chains=2, cores=1, random_seed=1, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
        made = pm.sample_posterior_predictive(raw, random_seed=1, progressbar=False)
    replicates = group(made, "posterior_predictive")
    return model, dshdp.align(with_groups(raw, {"posterior_predictive": replicates})), sd, y


@pytest.mark.parametrize("position, label", [(0, "left"), (1, "right")])
def test_one_channel_of_several(channels, position, label):
    """Fails if a density is conditional on the other channel, or the columns are taken twice."""
    model, aligned, sd, y = channels
    ax = dshdp.plot_densities(aligned, model=model, channel=label)
    posterior, total = group(aligned, "posterior"), 0.0
    for k in range(4):
        share = (posterior["z"] == k).mean("hour").values[..., None]
        mean = posterior["mu"].sel(state=k, channel=label).values[..., None]
        grid = ax.lines[-1].get_xdata()
        density = scipy.stats.norm(mean, sd[position]).pdf(grid)
        total = total + (share * density).mean(axis=(0, 1))
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), total, rtol=1e-6)
    assert ax.get_xlabel() == f"y, {label}"
    ax = dshdp.plot_fit(aligned, channel=label)
    replicates = group(aligned, "posterior_predictive")["y"].sel(channel=label)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), replicates.mean(("chain", "draw")))
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), y[:, position])
    assert ax.get_ylabel() == f"y, {label}"


def test_fitted_values_over_the_series(fitted):
    _, aligned = fitted
    ax = dshdp.plot_fit(aligned, prob=0.9)
    mean, data = ax.lines
    replicates = group(aligned, "posterior_predictive")["counts"]
    np.testing.assert_allclose(mean.get_ydata(), replicates.mean(("chain", "draw")))
    np.testing.assert_array_equal(data.get_ydata(), COUNTS)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("hour", "counts")
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["90% of replicates", "their mean", "observed"]


def test_what_a_fit_is_not_drawn_of(idata, many):
    with pytest.raises(ValueError, match=r"no replicates of 'y'; make them with"):
        dshdp.plot_fit(idata)
    two = xr.Dataset({"y": (("time", "part"), np.stack([DATA, DATA], axis=1))})
    several = with_groups(idata, {"observed_data": two})
    for plot in (dshdp.plot_fit, dshdp.plot_densities):
        for channel in (None, 2, "left"):
            with pytest.raises(ValueError, match=f"channel must be one of 0, 1; .* {channel!r}"):
                plot(several, channel=channel)
        with pytest.raises(ValueError, match="'y' is one series, received channel=0"):
            plot(idata, channel=0)


def test_distances_of_chains():
    """Fails if chains of another segmentation look as near as the others."""
    z = np.repeat(TRUTH[None, None], 3, axis=0).repeat(20, axis=1)
    z[2] = np.roll(TRUTH, 30)
    groups, described = dressed(z, 4, np.random.default_rng(0))
    ax = dshdp.plot_chain_distances(from_groups(groups, **described))
    found = ax.images[0].get_array()
    assert np.allclose(found[:2, :2], 0.0) and (found[2, :2] > 0.1).all()
    assert [t.get_text() for t in ax.texts][:2] == ["0.000", "0.000"]


def test_series_have_their_names_and_states_their_numbers(fitted):
    _, aligned = fitted
    legend = dshdp.plot_series(aligned).get_legend().get_texts()
    rates = group(aligned, "posterior")["rate"].mean(("chain", "draw")).values[:3]
    shown = [float(text.get_text().split("rate ")[1]) for text in legend]
    np.testing.assert_allclose(shown, rates, rtol=0.01)
    wide = xr.DataArray(
        np.stack([COUNTS, COUNTS], axis=1), {"part": ["east", "west"]}, ("hour", "part")
    )
    labels = dshdp.plot_series(aligned, wide).get_yticklabels()
    assert [text.get_text() for text in labels] == ["east", "west"]


def test_units_of_time_and_what_lies_beyond(fitted):
    _, aligned = fitted
    assert dshdp.plot_coassignment(aligned).get_xlabel() == "hour"
    assert dshdp.plot_dwell_times(aligned, label=0).get_xlabel().startswith("dwell time (hour)")
    days = np.datetime64("2020-01-01") + np.arange(60)
    posterior = group(aligned, "posterior").assign_coords(hour=days)
    dated = with_groups(aligned, {"posterior": posterior})
    assert dshdp.plot_dwell_times(dated, label=0).get_xlabel().startswith("dwell time (days)")
    dshdp.plot_coassignment(dated).figure.canvas.draw()
    truth = np.append(np.tile([0, 1], 300), np.zeros(900, int))
    rare = dshdp.align(result(truth, 4, noise=0.0, extra=0))
    label = dshdp.plot_dwell_times(rare, label=0).get_xlabel()
    assert label == "dwell time (time)\n0.3% are longer, up to 900"


@pytest.mark.parametrize("name", ["phi", "gamma"])
def test_a_prior_is_drawn_to_the_ends_of_its_support(name):
    """Fails if a bounded axis ends before the support does, or a long tail takes all of it."""
    with pm.Model() as model:
        pm.Uniform("phi", 0.0, 1.0)
        pm.Gamma("gamma", 2.0, 1.0)
    draws = np.random.default_rng(0).uniform(0.8, 0.9, (2, 100))
    idata = from_groups({"posterior": {name: draws}})
    [panel] = dshdp.plot_hyperparameters(idata, model=model, var_names=[name]).ravel()
    _, edges, _ = panel.patches[1].get_data()
    assert edges[0] == 0.0
    assert edges[-1] == pytest.approx(1.0, abs=1e-3) if name == "phi" else edges[-1] < 4.0
