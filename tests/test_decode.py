"""State probabilities, paths and segments against enumeration of the paths of small models."""

import itertools
import tracemalloc

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from models import posterior_of, sample
from results import recorded
from results import result as hand_made
from scipy import stats
from scipy.special import logsumexp

import pymc_dshdp as dshdp

pytestmark = pytest.mark.usefixtures("python_readers")

DAYS = pd.date_range("2020-01-01", periods=9)
LENGTHS = [5, 4]
COUNTS = np.array([0, 25, 1, 30, 2, 4, 5, 40, 33])
STATES = ["calm", "busy", "wild"]


def declare(counts=COUNTS, lengths=LENGTHS, days=DAYS):
    with pm.Model(coords={"state": STATES, "day": days}) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, dims="day", lengths=lengths)
        rate = pm.LogNormal("rate", 2.0, 1.0, dims="state")
        pm.Poisson("y", rate[z], observed=counts, dims="day")
    return model


@pytest.fixture(scope="module")
def model():
    return declare()


@pytest.fixture(scope="module")
def result(model):
    return posterior_of(model, draws=4)


@np.errstate(divide="ignore")
def enumerated(result, counts, lengths):
    """Draw by draw, sequence by sequence: (paths, log p(y, z))."""
    post = result["posterior"].isel(chain=0)
    observed = ~np.ma.getmaskarray(counts)
    values, draws = np.ma.filled(counts, 0), []
    for d in range(post.sizes["draw"]):
        kappa, rate = post["hmm_kappa"].values[d], post["rate"].values[d]
        P = np.diag(kappa) + (1 - kappa)[:, None] * post["hmm_pi_bar"].values[d]
        table = stats.poisson.logpmf(values[:, None], rate) * observed[:, None]
        stop, out = 0, []
        for length in lengths:
            ell, stop = table[stop : stop + length], stop + length
            paths = np.array(list(itertools.product(range(3), repeat=length)))
            joint = np.log(post["hmm_pi_init"].values[d])[paths[:, 0]]
            joint = joint + ell[np.arange(length), paths].sum(axis=1)
            out.append((paths, joint + np.log(P)[paths[:, :-1], paths[:, 1:]].sum(axis=1)))
        draws.append(out)
    return draws


def smoothed(result, counts, lengths):
    draws = []
    for sequences in enumerated(result, counts, lengths):
        rows = []
        for paths, joint in sequences:
            p = np.exp(joint - logsumexp(joint))
            rows += [[p[paths[:, t] == k].sum() for k in range(3)] for t in range(paths.shape[1])]
        draws.append(rows)
    return np.mean(draws, axis=0)


def test_smooth_averages_exact_probabilities(model, result):
    """Fails if draws are weighted by their likelihood, or a sequence runs on into the next."""
    found = dshdp.smooth(result, model=model)
    assert found.dims == ("day", "state") and list(found["state"].values) == STATES
    assert found.indexes["day"].equals(DAYS)
    np.testing.assert_array_equal(found["sequence"], [0] * 5 + [1] * 4)
    np.testing.assert_allclose(found, smoothed(result, COUNTS, LENGTHS), atol=1e-10)


def test_smooth_classifies_new_sequences(model, result):
    """Fails if the old lengths are kept, or the old counts."""
    new = np.array([3, 2, 50])
    found = dshdp.smooth(result, model=model, observed={"y": new}, lengths=[1, 2], thin=2)
    thin = {"posterior": result["posterior"].isel(draw=slice(None, None, 2))}
    np.testing.assert_allclose(found, smoothed(thin, new, [1, 2]), atol=1e-10)
    assert found.sizes == {"day": 3, "state": 3}
    np.testing.assert_array_equal(model["y"].shape.eval(), [9])


def test_missing_observations_say_nothing(result):
    masked = np.ma.masked_array(COUNTS, mask=np.isin(np.arange(9), [2, 7]))
    with pytest.warns(pm.exceptions.ImputationWarning):
        model = declare(masked)
    expected = smoothed(result, masked, LENGTHS)
    np.testing.assert_allclose(dshdp.smooth(result, model=model), expected, atol=1e-10)


def test_filter_states(model, result):
    """Fails if the score is the mean of the log densities instead of the log of the mean."""
    with model:  # the model of the context
        found = dshdp.filter_states(result, pointwise=True)
    assert "log_predictive" not in dshdp.filter_states(result, model=model)
    smooth = dshdp.smooth(result, model=model)
    np.testing.assert_allclose(found["probability"][[4, 8]], smooth[[4, 8]], atol=1e-10)
    total = found["log_predictive"].sum("day")
    held_out = dshdp.held_out_log_likelihood(result, model=model)
    np.testing.assert_allclose(total, held_out["total"])
    scores = found["log_predictive"].values
    np.testing.assert_allclose(found["log_score"], np.log(np.exp(scores).mean(axis=(0, 1))))
    first = [
        np.exp([logsumexp(joint[0][1]) for joint in enumerated(result, COUNTS[:t], [t])])
        for t in (2, 3)
    ]
    expected = np.log(np.mean(first[1] / first[0]))
    assert float(found["log_score"][2]) == pytest.approx(expected)
    assert found["log_score"].indexes["day"].equals(DAYS)


def test_one_draw_is_held_at_a_time(model):
    """Fails if anything of (chains, draws, T) is held beside the draws of the states."""
    T, draws = 4000, 500
    days = pd.date_range("2000-01-01", periods=T)
    many = declare(np.resize(COUNTS, T), [T], days)
    one = posterior_of(model, draws=1)["posterior"]
    names = [name for name in one.data_vars if name != "z"]
    drawn = one[names].isel(draw=np.zeros(draws, int)).assign_coords(draw=np.arange(draws))
    result = {"posterior": drawn, "constant_data": posterior_of(many, draws=1)["constant_data"]}
    for read in (dshdp.filter_states, dshdp.smooth):
        read(one_of(result), model=many)  # what is compiled and kept
        tracemalloc.start()
        try:
            read(result, model=many)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 8 * T * draws / 2


def one_of(result):
    """Only its first draw."""
    return {**result, "posterior": result["posterior"].isel(draw=[0])}


def test_viterbi_is_the_best_path_of_the_best_draw(model, result):
    """Fails if the first draw is taken, or the sequences' maxima come from different draws."""
    path = dshdp.viterbi(result, model=model)
    best = []
    for sequences in enumerated(result, COUNTS, LENGTHS):
        joint = sum(joint.max() for _, joint in sequences)
        best.append((joint, np.concatenate([p[np.argmax(j)] for p, j in sequences])))
    draw = int(np.argmax([joint for joint, _ in best]))
    assert int(path["draw"]) == draw and float(path["log_joint"]) == pytest.approx(best[draw][0])
    np.testing.assert_array_equal(path, best[draw][1])
    assert path.name == "z" and path.indexes["day"].equals(DAYS)


def test_numbering_changes_only_labels(model, result):
    turned = result["posterior"].copy()
    order = [2, 0, 1]  # new state i is old state order[i]
    for name in ("hmm_kappa", "hmm_pi_init", "rate"):
        turned[name] = turned[name].copy(data=turned[name].values[..., order])
    rows = turned["hmm_pi_bar"].values[..., order, :][..., order]
    turned["hmm_pi_bar"] = turned["hmm_pi_bar"].copy(data=rows)
    turned["z"] = turned["z"].copy(data=np.argsort(order)[turned["z"].values])
    other = {**result, "posterior": turned}
    for one, two in (
        (dshdp.smooth(result, model=model), dshdp.smooth(other, model=model)),
        (dshdp.state_probabilities(result), dshdp.state_probabilities(other)),
    ):
        np.testing.assert_allclose(one.values[:, order], two)
    path = dshdp.viterbi(result, model=model).values
    np.testing.assert_array_equal(np.argsort(order)[path], dshdp.viterbi(other, model=model))
    np.testing.assert_allclose(
        dshdp.self_persistence_probability(result), dshdp.self_persistence_probability(other)
    )


def test_state_probabilities_are_shares_of_draws(result):
    found = dshdp.state_probabilities(result)
    z = result["posterior"]["z"].values
    for k in range(3):
        np.testing.assert_allclose(found[:, k], (z == k).mean(axis=(0, 1)))
    assert found.dims == ("day", "state") and list(found["state"].values) == STATES
    assert found.indexes["day"].equals(DAYS)


def with_record(result, **changed):
    record = ("record", recorded("z", 3, **changed))
    return {**result, "constant_data": result["constant_data"].assign(z_record=record)}


def test_self_persistence_probability(result):
    """Fails if switches count, or 1 - kappa is left out of the denominator."""
    found = dshdp.self_persistence_probability(result)
    post = result["posterior"].isel(chain=0)
    expected = np.full((4, 9), np.nan)
    for d, t in itertools.product(range(4), [1, 2, 3, 4, 6, 7, 8]):
        i, j = post["z"].values[d, t - 1], post["z"].values[d, t]
        kappa, stay = post["hmm_kappa"].values[d, j], post["hmm_pi_bar"].values[d, j, j]
        expected[d, t] = kappa / (kappa + (1 - kappa) * stay) if i == j else 0.0
    np.testing.assert_allclose(found, expected.mean(axis=0))
    assert found.indexes["day"].equals(DAYS)
    turned = {**result, "posterior": result["posterior"].transpose("state_to", "day", "state", ...)}
    xr.testing.assert_allclose(dshdp.self_persistence_probability(turned), found)
    xr.testing.assert_equal(dshdp.state_probabilities(turned), dshdp.state_probabilities(result))
    for names in (["hmm_kappa"], ["hmm_kappa", "hmm_phi"]):
        with pytest.raises(ValueError, match="'hmm_kappa' is not in the posterior, the self-per"):
            dshdp.self_persistence_probability(
                {**result, "posterior": result["posterior"].drop_vars(names)}
            )
    mean = result["posterior"].rename(hmm_kappa="hmm_kappa_mean")
    varying = with_record(result, kappa="varies")
    with pytest.raises(ValueError, match="self-persistence of 'z' varies with time"):
        dshdp.self_persistence_probability({**varying, "posterior": mean})
    hdp = with_record(result, kind="HDP", kappa="none")
    np.testing.assert_array_equal(dshdp.self_persistence_probability(hdp)[[1, 8]], 0.0)


def test_arguments_in_the_wrong_place(model, result):
    for function in (dshdp.smooth, dshdp.filter_states, dshdp.viterbi, dshdp.forecast):
        name = function.__name__
        with pytest.raises(TypeError, match=f"{name} takes the result first and the model by key"):
            function(model, result)
        with pytest.raises(TypeError, match="model must be a pymc.Model, received dict"):
            function(result, model=result)
        with pytest.raises(TypeError, match="there is no model: pass it by keyword, model=model"):
            function(result)
    with pytest.raises(TypeError, match=r"models\['one'\] must have the result first"):
        dshdp.compare_held_out({"one": (model, result)})
    for function in (dshdp.align, dshdp.check, dshdp.summary, dshdp.segments, dshdp.plot_series):
        with pytest.raises(TypeError, match="an InferenceData or DataTree with the group 'post.*M"):
            function(model)
    with pytest.raises(TypeError, match="the group 'posterior', as pm.sample gives; received str"):
        dshdp.smooth("z", model=model)


def test_segments_of_a_path():
    """Fails if a segment runs on into the next sequence."""
    coords = {"day": DAYS, "sequence": ("day", [0] * 5 + [1] * 4)}
    path = xr.DataArray([1, 1, 0, 0, 2, 2, 2, 1, 1], coords, ["day"])
    found = dshdp.segments(path)
    assert list(found.columns) == ["sequence", "start", "stop", "length", "label", "probability"]
    assert list(found["sequence"]) == [0, 0, 0, 1, 1]
    assert list(found["start"]) == list(DAYS[[0, 2, 4, 5, 7]])
    assert list(found["stop"]) == list(DAYS[[1, 3, 4, 6, 8]])
    assert list(found["label"]) == [1, 0, 2, 2, 1]
    assert found["probability"].isna().all() and list(found["length"]) == [2, 2, 1, 2, 2]
    p = np.full((9, 3), 0.25)
    p[:2, 1] = 0.7, 0.9
    found = dshdp.segments(path.values, probabilities=p, lengths=[5, 4])
    np.testing.assert_allclose(found["probability"], [0.8, 0.25, 0.25, 0.25, 0.25])
    assert list(found["start"]) == [0, 2, 4, 5, 7]
    batch = dshdp.segments(np.array([[0, 0, 1], [1, 1, 1]]))
    assert list(zip(batch["sequence"], batch["stop"], strict=True)) == [(0, 1), (0, 2), (1, 2)]


def test_segments_of_probabilities_and_results():
    """Fails if a result that has not been aligned is read with the numbers of its draws."""
    raw = hand_made(np.repeat([0, 1, 2], 3), 4)
    aligned = dshdp.align(raw)
    p = dshdp.state_probabilities(aligned)
    found = dshdp.segments(raw)
    pd.testing.assert_frame_equal(found, dshdp.segments(aligned))
    pd.testing.assert_frame_equal(found, dshdp.segments(p))
    assert found["length"].tolist() == [3, 3, 3]
    first = found.iloc[0]
    part = p.sel(time=slice(first["start"], first["stop"]), state=first["label"])
    assert part.size == first["length"]
    np.testing.assert_allclose(part.mean(), first["probability"])


@pytest.mark.parametrize(
    ("argument", "kwargs", "error", "message"),
    [
        (np.zeros((2, 2, 2), int), {}, ValueError, r"received shape \(2, 2, 2\)"),
        (np.array(["a"]), {}, TypeError, "integers or probabilities"),
        ("z", {}, TypeError, "result must be an InferenceData or DataTree"),
        (np.zeros(3, int), {"lengths": [2, 2]}, ValueError, r"sum to 3, received \[2, 2\]"),
        (np.full(3, 4), {"probabilities": np.ones((3, 2))}, ValueError, "axis of states after"),
        (np.ones((3, 2)), {"probabilities": np.ones((3, 2))}, ValueError, "go with a path"),
    ],
)
def test_segments_refuse(argument, kwargs, error, message):
    with pytest.raises(error, match=message):
        dshdp.segments(argument, **kwargs)


def test_impossible_sequences():
    """Draws in which a sequence is impossible are left out of it; none left is an error.

    Fails if of several impossible sequences only the first is scored so.
    """
    with pm.Model(coords={"state": range(2)}) as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", dims="state"), lengths=[2, 1, 1])
        top = pm.Gamma("top", 2.0, 1.0, dims="state")
        pm.Uniform("y", 0.0, top[z], observed=np.array([0.5, 2.0, 0.1, 2.0]))
    result = posterior_of(model, draws=2)
    post = result["posterior"]
    post["top"] = post["top"].copy(data=[[[3.0, 1.0], [1.0, 0.8]]])
    found = dshdp.smooth(result, model=model)
    np.testing.assert_allclose(found.sum("state"), 1.0)
    assert float(found[1, 0]) == 1.0
    scores = dshdp.filter_states(result, model=model, pointwise=True)["log_predictive"].values[0]
    assert np.isfinite(scores[0]).all() and np.isneginf(scores[1, 1]) and np.isfinite(scores[1, 2])
    held_out = dshdp.held_out_log_likelihood(result, model=model)["log_likelihood"][0]
    np.testing.assert_allclose(held_out, np.add.reduceat(scores, [0, 2, 3], axis=1))
    post["top"] = post["top"].copy(data=[[[1.0, 1.0], [1.0, 0.8]]])
    with pytest.raises(ValueError, match="sequence of time point 0 has probability 0 in every"):
        dshdp.smooth(result, model=model)
    with pytest.raises(ValueError, match="no path is possible in any draw"):
        dshdp.viterbi(result, model=model)


def test_batches_on_a_sampled_result():
    """InferenceData and DataTree, states of shape (sequence, time), rates that are sampled."""
    counts = COUNTS[:8].reshape(2, 4)
    with pm.Model(coords={"state": range(3), "trial": ["a", "b"], "time": range(4)}) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, dims=("trial", "time"))
        rate = pm.Gamma("rate", 2.0, 0.1, dims="state")
        pm.Poisson("y", rate[z], observed=counts)
    idata = sample(model, draws=5, tune=5)
    found = dshdp.smooth(idata, model=model)
    assert found.dims == ("trial", "time", "state")
    np.testing.assert_allclose(found.sum("state"), 1.0)
    assert dshdp.state_probabilities(idata).dims == found.dims
    path = dshdp.viterbi(idata, model=model)
    assert path.dims == ("trial", "time") and list(path["trial"].values) == ["a", "b"]
    table = dshdp.segments(path, probabilities=found)
    assert set(table["sequence"]) == {"a", "b"} and table["length"].sum() == 8
    assert dshdp.segments(idata)["length"].sum() == 8
    w = dshdp.self_persistence_probability(idata)
    assert np.isnan(w[:, 0]).all() and np.isfinite(w[:, 1:]).all()
