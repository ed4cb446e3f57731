"""Decoding, scores and forecasts where the self-persistence follows a covariate."""

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from models import sample
from scipy import special, stats

import pymc_dshdp as dshdp
from pymc_dshdp.kernels import blocks

pytestmark = pytest.mark.usefixtures("python_mode")

MEANS = np.array([-0.5, 1.0])
X = np.array([0.0, 2.0, -1.0, 1.5, -2.0])
Y = np.array([0.3, 0.8, 1.0, -0.4, -0.9])
LENGTHS = [3, 2]
NEW_X, NEW_Y = np.array([-2.0, 1.0, 0.5, -1.0]), np.array([0.9, 0.2, -0.7, 0.4])


def declare(x=X, y=Y, held=True, **layout):
    """``held``: the covariate is a pm.Data."""
    with pm.Model() as model:
        a, b = pm.Normal("a", shape=2), pm.Normal("b", 1.0, 1.0)
        x = pm.Data("x", x) if held else x
        kappa = pm.math.invlogit(a + b * x[..., None])
        prior = dshdp.FixedTransitions("hmm", n_states=2, kappa=kappa)
        z = dshdp.HiddenStates("z", prior, **(layout or {"lengths": LENGTHS}))
        pm.Normal("y", pt.as_tensor(MEANS)[z], 1.0, observed=y)
    return model


@pytest.fixture(scope="module")
def model():
    return declare()


@pytest.fixture(scope="module")
def idata(model):
    return sample(model, draws=3, tune=3, chains=1)


def joints(idata, x, y):
    """All paths of one sequence, and p(y, z) of each in each draw, of shape (draws, paths)."""
    paths, draws = np.array(list(itertools.product(range(2), repeat=len(y)))), []
    for d in range(idata["posterior"].sizes["draw"]):
        names = "a", "b", "hmm_pi_init", "hmm_pi_bar"
        a, b, initial, rows = (idata["posterior"][name].values[0, d] for name in names)
        kappa = special.expit(a + b * x[:, None])
        p = initial[paths[:, 0]] * stats.norm.pdf(y, MEANS[paths], 1.0).prod(axis=1)
        for t in range(1, len(y)):
            P = np.diag(kappa[t]) + (1.0 - kappa[t])[:, None] * rows
            p = p * P[paths[:, t - 1], paths[:, t]]
        draws.append(p)
    return paths, np.array(draws)


def dense(idata, x, y, lengths):
    """Filtered and smoothed probabilities, one-step scores (draws, T), and the best path."""
    filtered, smoothed, scores, best, stop = [], [], [], [], 0
    for length in lengths:
        part = slice(stop, stop := stop + length)
        paths, p = joints(idata, x[part], y[part])
        best.append((p.max(axis=1), paths[p.argmax(axis=1)]))
        share = p / p.sum(axis=1, keepdims=True)
        smoothed += [[share[:, paths[:, t] == k].sum(1) for k in (0, 1)] for t in range(length)]
        before = 1.0
        for t in range(length):
            paths, p = joints(idata, x[part][: t + 1], y[part][: t + 1])
            now = p.sum(axis=1)
            filtered.append([p[:, paths[:, -1] == k].sum(1) / now for k in (0, 1)])
            scores.append(np.log(now / before))
            before = now
    draw = np.prod([p for p, _ in best], axis=0).argmax()
    path = np.concatenate([paths[draw] for _, paths in best])
    log_joint = np.log([p[draw] for p, _ in best]).sum()
    filtered, smoothed = np.mean(filtered, axis=-1), np.mean(smoothed, axis=-1)
    return filtered, smoothed, np.array(scores).T, (draw, path, log_joint)


def assert_decoded(model, idata, x, y, parts, **kwargs):
    """``parts``: the lengths of the sequences."""
    filtered, smoothed, scores, (draw, path, log_joint) = dense(idata, x, y, parts)
    shape = np.shape(kwargs["observed"]["y"]) if kwargs else y.shape
    np.testing.assert_allclose(
        dshdp.smooth(idata, model=model, **kwargs), smoothed.reshape(*shape, 2), atol=1e-12
    )
    found = dshdp.filter_states(idata, model=model, pointwise=True, **kwargs)
    np.testing.assert_allclose(found["probability"], filtered.reshape(*shape, 2), atol=1e-12)
    np.testing.assert_allclose(found["log_predictive"][0], scores.reshape(-1, *shape), atol=1e-12)
    best = dshdp.viterbi(idata, model=model, **kwargs)
    np.testing.assert_array_equal(best, path.reshape(shape))
    assert int(best["draw"]) == draw and float(best["log_joint"]) == pytest.approx(log_joint)
    held_out = dshdp.held_out_log_likelihood(idata, model=model, **kwargs)["log_likelihood"][0]
    starts = np.cumsum(parts) - parts
    np.testing.assert_allclose(held_out, np.add.reduceat(scores, starts, axis=1))


def test_own_data(model, idata):
    """Fails if kappa_t stands where kappa_{t+1} belongs, or one draw's kappa serves all draws."""
    assert_decoded(model, idata, X, Y, LENGTHS)


def test_blocks_of_sequences(model, idata, monkeypatch):
    """Bit-equal to all at once; fails if a block has the kappa or the times of another."""
    lengths, rng = [3, 1, 4, 2, 5], np.random.default_rng(0)
    other = {"x": rng.normal(size=15), "y": rng.normal(size=15)}

    def found():
        given = {"model": model, "observed": other, "lengths": lengths}
        filtered = dshdp.filter_states(idata, **given, pointwise=True)
        scores = dshdp.held_out_log_likelihood(idata, **given)
        arrays = [dshdp.smooth(idata, **given), dshdp.viterbi(idata, **given)]
        compared = dshdp.compare_held_out({"one": (idata, model)}, observed=other, lengths=lengths)
        return [*arrays, *filtered.values(), *scores.values(), compared.to_numpy()]

    together = found()
    monkeypatch.setattr(blocks, "CACHE_BYTES", 1)
    monkeypatch.setattr(blocks, "SEQUENCES", 2)
    parts = [(slice(0, 4), slice(0, 2)), (slice(4, 10), slice(2, 4)), (slice(10, 15), slice(4, 5))]
    assert blocks.whole_sequences(np.array(lengths), 2) == parts
    for array, expected in zip(found(), together, strict=True):
        np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("lengths", [[4], [1, 3]])
def test_other_data(model, idata, lengths):
    """Fails if the rows of the model's own covariate are kept, or run on past a sequence."""
    observed = {"y": NEW_Y, "x": NEW_X}
    assert_decoded(model, idata, NEW_X, NEW_Y, lengths, observed=observed, lengths=lengths)


def test_other_batches(idata):
    """A covariate of times common to the sequences; fails if its rows are not repeated."""
    model = declare(X[:3], np.zeros((2, 3)), shape=(2, 3))
    observed = {"y": NEW_Y.reshape(2, 2), "x": NEW_X[:2]}
    assert_decoded(model, idata, np.tile(NEW_X[:2], 2), NEW_Y, [2, 2], observed=observed)


def test_compare(model, idata):
    again = declare(NEW_X, NEW_Y, held=False, length=4)
    found = dshdp.compare_held_out(
        {"a": (idata, model)}, observed={"y": NEW_Y, "x": NEW_X}, lengths=[4]
    )
    expected = dshdp.compare_held_out({"a": (idata, again)})
    np.testing.assert_allclose(found.values.astype(float), expected.values.astype(float))
    scores = dense(idata, NEW_X, NEW_Y, [4])[2]
    assert found["held_out"]["a"] == pytest.approx(np.log(np.exp(scores.sum(axis=1)).mean()))


def repeated(n, shape, **values):
    """A result of n equal draws, whose states are all 0."""
    values = {"z": np.zeros(shape, int), **values}
    out = {}
    for name, value in values.items():
        value = np.asarray(value)
        dims = [f"{name}_{i}" for i in range(value.ndim)]
        out[name] = (("chain", "draw", *dims), np.broadcast_to(value, (1, n, *value.shape)))
    return {"posterior": xr.Dataset(out, {"chain": [0], "draw": np.arange(n)})}


ROWS = np.array([[0.3, 0.7], [0.4, 0.6]])
PARAMETERS = {"a": [0.5, -1.0], "b": 1.5, "hmm_pi_bar": ROWS, "hmm_pi_init": [0.5, 0.5]}


def assert_forecast(found, future):
    """States against the products of P at the rows of each sequence, from state 0."""
    n = found.sizes["draw"]
    for sequence, x in zip(found["z"].transpose("sequence", ...).values[:, 0], future, strict=True):
        law = np.array([1.0, 0.0])
        for h, kappa in enumerate(special.expit(np.array([0.5, -1.0]) + 1.5 * x[:, None])):
            law = law @ (np.diag(kappa) + (1.0 - kappa)[:, None] * ROWS)
            error = np.sqrt(law[1] * law[0] / n)
            assert abs(sequence[:, h].mean() - law[1]) < 4.5 * error


FUTURE = np.array([[-3.0, 3.0, -3.0], [3.0, -3.0, 2.0]])


def test_forecast(model):
    """Fails if kappa_{h-1} is used to h, or the rows of one sequence for both."""
    result = repeated(1500, 5, **PARAMETERS)
    found = dshdp.forecast(result, model=model, horizon=3, covariates={"x": FUTURE}, random_seed=1)
    assert_forecast(found, FUTURE)
    ahead = declare(FUTURE.ravel(), np.zeros(6), held=False, lengths=[3, 3])
    again = dshdp.forecast(result, model=model, forecast_model=ahead, random_seed=1)
    np.testing.assert_array_equal(again["z"], found["z"])


@pytest.mark.parametrize("common", [False, True])
def test_forecast_of_a_batch(common):
    """Fails if a covariate that the sequences have in common must have one row for each."""
    x = X[:2] if common else X[:4].reshape(2, 2)
    model = declare(x, np.zeros((2, 2)), shape=(2, 2))
    future = FUTURE[0] if common else FUTURE
    found = dshdp.forecast(
        repeated(1500, (2, 2), **PARAMETERS),
        model=model,
        horizon=3,
        covariates={"x": future},
        random_seed=1,
    )
    assert_forecast(found, np.broadcast_to(future, (2, 3)))
    wrong = r"covariates\['x'\] must have shape \(.*3, ...\), .*first, rec"
    with pytest.raises(ValueError, match=wrong):
        dshdp.forecast(
            repeated(2, (2, 2)), model=model, horizon=3, covariates={"x": future[..., :2]}
        )


def test_forecast_of_an_autoregression():
    """Fails if kappa is read at the lags, which stand before the horizon."""
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(9))
        kappa = pm.math.invlogit(x[:, None] + pm.Normal("a", shape=2))
        prior = dshdp.FixedTransitions("hmm", n_states=2, kappa=kappa)
        z = dshdp.HiddenStates("z", prior, lengths=[5, 4])
        A, Sigma = dshdp.MatrixNormalInverseWishart("ar", n_states=2, S0=np.eye(1), lags=2)
        dshdp.SwitchingVAR("y", A, Sigma, z, observed=np.zeros((9, 1)), lags=2)
    theta = {"a": [0.0, 0.0], "ar_A": np.zeros((2, 1, 2)), "ar_Sigma": np.ones((2, 1, 1))}
    result = repeated(1, 9, **{**PARAMETERS, **theta, "hmm_pi_bar": 1.0 - np.eye(2)})
    future = 800.0 * np.array([[1, -1, -1], [-1, 1, -1]])  # stay or switch for certain
    found = dshdp.forecast(result, model=model, horizon=3, covariates={"x": future})
    np.testing.assert_array_equal(found["z"][0, 0], [[0, 1, 0], [1, 1, 0]])


# -- refusals -----------------------------------------------------------------------------------

NO_ROWS = r"'z' has a self-persistence kappa that does not have a row for .* of shape \(4,\): "


@pytest.mark.parametrize(
    ("held", "given", "message"),
    [
        (True, {}, "the pm.Data 'x' along the times of the model's own data.* give 'x' too, or"),
        (True, {"x": NEW_X[:3]}, NO_ROWS + r"it depends on \['x'\], whose values must be given"),
        (True, {"x": NEW_X[:1]}, NO_ROWS + r"it depends on \['x'\], whose values must be given"),
        (False, {}, "on a constant array of shape .* along the times .*: Declare the model again"),
    ],
)
def test_covariates_that_do_not_fit(held, given, message):
    """Fails if one row is broadcast to all times."""
    result = repeated(1, 5, **PARAMETERS)
    for function in (dshdp.smooth, dshdp.filter_states, dshdp.viterbi):
        with pytest.raises(ValueError, match=message):
            function(result, model=declare(held=held), observed={"y": NEW_Y, **given}, lengths=[4])


def test_forecasts_without_the_future_of_the_covariate(model):
    result = repeated(1, 5, **PARAMETERS)
    with pytest.raises(
        ValueError, match="on the pm.Data 'x' along .* give 'x' too, .*covariates={"
    ):
        dshdp.forecast(result, model=model, horizon=3)
    with pytest.raises(ValueError, match="on a constant array .* along .*pass forecast_model="):
        dshdp.forecast(result, model=declare(held=False), horizon=3)


def test_rows_drawn_at_each_time():
    """A kappa with parameters of every time has no values at other times."""
    with pm.Model() as model:
        kappa = pm.math.invlogit(pm.Normal("a", shape=(5, 2)))
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2, kappa=kappa), length=5)
        pm.Normal("y", pt.as_tensor(MEANS)[z], 1.0, observed=Y)
    with pytest.raises(ValueError, match="on the parameter 'a' along the times"):
        dshdp.smooth(repeated(1, 5), model=model, observed={"y": NEW_Y})


def test_stale_covariates(model):
    """After pm.set_data of the covariate alone."""
    other = declare()
    with other:
        pm.set_data({"x": NEW_X})
    with pytest.raises(ValueError, match=r"kappa has rows for times of shape \(4,\), but the stat"):
        dshdp.smooth(repeated(1, 5, **PARAMETERS), model=other)
