"""Forecasts against the distribution that a known model implies."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from results import recorded

import pymc_dshdp as dshdp

pytestmark = pytest.mark.usefixtures("python_readers")

COUNTS = np.array([1, 2, 9, 8, 1, 0, 7])
KAPPA, ROWS = np.array([0.6, 0.1]), np.array([[0.3, 0.7], [0.4, 0.6]])
P = np.diag(KAPPA) + (1 - KAPPA)[:, None] * ROWS
RATE = np.array([1.0, 50.0])


def draws(z, n, **theta):
    """A result all of whose draws are the same."""
    values = {"hmm_kappa": KAPPA, "hmm_pi_bar": ROWS, "hmm_pi_init": np.array([0.5, 0.5]), "z": z}
    out = {}
    for name, value in {**values, **theta}.items():
        value = np.asarray(value)
        dims = [f"{name}_{i}" for i in range(value.ndim)]
        out[name] = (("chain", "draw", *dims), np.broadcast_to(value, (1, n, *value.shape)))
    return {"posterior": xr.Dataset(out, {"chain": [0], "draw": np.arange(n)})}


def poisson(lengths=(7,), counts=COUNTS):
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), lengths=list(lengths))
        rate = pm.LogNormal("rate", 2.0, 1.0, dims="hmm_state")
        pm.Poisson("y", rate[z], observed=counts)
    return model


def test_forecast_distribution():
    """Fails if the path starts from pi_init, or from the last state of the other sequence."""
    n, horizon = 4000, 3
    z = np.array([0, 0, 0, 1, 0, 0, 0])  # sequences end in 1 and in 0
    found = dshdp.forecast(
        draws(z, n, rate=RATE), model=poisson((4, 3)), horizon=horizon, random_seed=1
    )
    assert found["y"].dims == ("chain", "draw", "sequence", "horizon")
    for s, last in enumerate((1, 0)):
        for h in range(horizon):
            p = np.linalg.matrix_power(P, h + 1)[last, 1]
            state = found["z"].values[0, :, s, h]
            assert abs(state.mean() - p) < 4.5 * np.sqrt(p * (1 - p) / n)
            mean = (1 - p) * RATE[0] + p * RATE[1]
            variance = (1 - p) * RATE[0] ** 2 + p * RATE[1] ** 2 - mean**2 + mean
            y = found["y"].values[0, :, s, h]
            assert abs(y.mean() - mean) < 4.5 * np.sqrt(variance / n)
            np.testing.assert_allclose([y[state == k].mean() for k in (0, 1)], RATE, rtol=0.1)
    again = dshdp.forecast(
        draws(z, n, rate=RATE), model=poisson((4, 3)), horizon=horizon, random_seed=1
    )
    xr.testing.assert_equal(found, again)


def test_autoregression_goes_on_from_its_last_rows():
    """Fails if lags are from the start of the data, of another sequence, or zero."""
    y = np.random.default_rng(0).normal(size=(9, 2))
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), lengths=[5, 4])
        A, Sigma = dshdp.MatrixNormalInverseWishart("ar", n_states=2, S0=np.eye(2), lags=2)
        dshdp.SwitchingVAR("y", A, Sigma, z, observed=y, lags=2)
    a = np.random.default_rng(1).normal(0.0, 0.5, size=(2, 2, 4))
    result = draws(np.zeros(9, int), 3, ar_A=a, ar_Sigma=np.stack([1e-20 * np.eye(2)] * 2))
    found = dshdp.forecast(result, model=model, horizon=4, random_seed=0)
    assert found["y"].dims[:4] == ("chain", "draw", "sequence", "horizon")
    for d in range(3):
        for n, stop in enumerate((5, 9)):
            now, before = y[stop - 1], y[stop - 2]
            for h in range(4):
                k = found["z"].values[0, d, n, h]
                now, before = a[k] @ np.concatenate([now, before]), now
                np.testing.assert_allclose(found["y"].values[0, d, n, h], now, atol=1e-7)


@pytest.mark.parametrize("horizon", [1, 7, 3])
def test_covariates(horizon):
    """Horizons of 1 and of the data's length must not be confused with a constant's."""
    x = np.linspace(0.0, 1.0, 7)

    def declare(x):
        with pm.Model() as model:
            z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), length=7)
            slope = pm.Normal("slope", dims="hmm_state")
            pm.Normal("y", slope[z] * (x() if callable(x) else x), 1e-9, observed=x_data)
        return model

    x_data = np.zeros(7)
    result = draws(np.zeros(7, int), 2, slope=[1.0, 2.0])
    future = np.arange(1.0, horizon + 1)
    model = declare(lambda: pm.Data("x", x))
    found = dshdp.forecast(result, model=model, horizon=horizon, covariates={"x": future})
    np.testing.assert_allclose(found["y"], (found["z"] + 1) * future, atol=1e-6)
    with pytest.raises(
        ValueError, match="depend on the pm.Data 'x' along the times of .*give 'x' too"
    ):
        dshdp.forecast(result, model=model, horizon=horizon)
    with pytest.raises(ValueError, match="a constant array .* pass forecast_model="):
        dshdp.forecast(result, model=declare(x), horizon=horizon)


def test_observations_missing_in_part():
    """The future is whole; fails if the mask of the data is kept."""
    y = np.ma.masked_array(np.zeros((7, 2)), mask=np.eye(7, 2, -2))
    result = draws(np.zeros(7, int), 3, mu=[[0.0, 1.0], [5.0, 6.0]])
    with pytest.warns(pm.exceptions.ImputationWarning), pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), length=7)
        mu = pm.Normal("mu", shape=(2, 2))
        pm.MvNormal("y", mu[z], 1e-12 * np.eye(2), observed=y)
    found = dshdp.forecast(result, model=model, horizon=4)
    assert found["y"].dims == ("chain", "draw", "horizon", "y_dim_0")
    expected = np.array([[0.0, 1.0], [5.0, 6.0]])[found["z"].values]
    np.testing.assert_allclose(found["y"], expected, atol=1e-4)
    with pytest.warns(pm.exceptions.ImputationWarning), pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), length=7)
        A, Sigma = dshdp.MatrixNormalInverseWishart("ar", n_states=2, S0=np.eye(2))
        dshdp.SwitchingVAR("y", A, Sigma, z, observed=y)
    with pytest.raises(ValueError, match="'y_unobserved' is a latent variable that depends on"):
        dshdp.forecast(result, model=model, horizon=4)


def test_lags_written_by_hand_are_refused():
    """They would be those of the data for ever."""
    y = np.arange(7.0)
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), length=7)
        phi = pm.Normal("phi", dims="hmm_state")
        pm.Normal("y", phi[z[1:]] * y[:-1], 1.0, observed=y[1:])
    with pytest.raises(ValueError, match=r"'y' does not fit .* declare .* as SwitchingVAR"):
        dshdp.forecast(draws(np.zeros(7, int), 2, phi=[0.5, 1.0]), model=model, horizon=3)


def test_forecast_model():
    """A latent variable on the states is drawn anew."""

    def declare(T):
        with pm.Model() as model:
            z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), length=T)
            mu = pm.Normal("mu", dims="hmm_state")
            x = pm.Normal("x", mu[z], 1e-9)
            pm.Normal("y", x + np.arange(T), 1e-9, observed=np.zeros(T))
        return model

    result = draws(np.zeros(7, int), 2, mu=[1.0, 20.0])
    with pytest.raises(ValueError, match="'x' is a latent variable that depends on the states"):
        dshdp.forecast(result, model=declare(7), horizon=3)
    found = dshdp.forecast(result, model=declare(7), forecast_model=declare(3))
    expected = np.array([1.0, 20.0])[found["z"].values] + np.arange(3)
    np.testing.assert_allclose(found["y"], expected, atol=1e-6)
    assert found["y"].dims == ("chain", "draw", "horizon")


def test_other_states_of_the_same_observations_are_refused():
    """Fails if the old path of the other states is taken for their future, where it is as long."""

    def declare(T):
        with pm.Model() as model:
            z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), length=T)
            w = dshdp.HiddenStates("w", dshdp.FixedTransitions("other", n_states=2), length=T)
            mu, nu = (pm.Normal(name, shape=2) for name in ("mu", "nu"))
            pm.Normal("y", mu[z] + nu[w], 1.0, observed=np.zeros(T))
        return model

    w, other = np.arange(7) % 2, {"other_pi_bar": ROWS, "other_pi_init": np.array([0.5, 0.5])}
    result = draws(np.zeros(7, int), 2, mu=[0.0, 1.0], nu=[0.0, 5.0], w=w, **other)
    message = r"'y' depends on the states \['w'\] besides 'z'.* future of 'z' alone"
    for kwargs in ({"horizon": 7}, {"forecast_model": declare(7)}, {"forecast_model": declare(3)}):
        with pytest.raises(ValueError, match=message):
            dshdp.forecast(result, model=declare(7), states="z", **kwargs)


@pytest.mark.parametrize("T", [3, 7])
def test_parameters_along_other_times_are_refused(T):
    """Fails if they are taken for those of the times ahead, of which there are as many."""

    def declare(T, effect, observed=0.0):
        with pm.Model() as model:
            z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=7), length=T)
            mu, x = pm.Normal("mu", shape=7), pm.Normal("x", shape=7 if effect == "state" else T)
            mean = mu[z] + (x if effect == "time" else x[z])
            pm.Normal("y", mean, 1.0, observed=np.full(T, observed))
        return model

    theta = {"hmm_kappa": np.full(7, 0.5), "hmm_pi_bar": np.full((7, 7), 1 / 7)}
    theta |= {"hmm_pi_init": np.full(7, 1 / 7), "mu": np.zeros(7), "x": np.arange(7.0)}
    result = draws(np.zeros(7, int), 2, **theta)
    result["observed_data"] = xr.Dataset({"y": ("time", np.zeros(7))})
    message = "observations of the states 'z' depend on 'x' along their times"
    with pytest.raises(ValueError, match=message):
        dshdp.forecast(result, model=declare(7, "time"), forecast_model=declare(T, "time"))
    dshdp.held_out_log_likelihood(result, model=declare(7, "time"))
    for score in (dshdp.held_out_log_likelihood, dshdp.smooth):
        with pytest.raises(ValueError, match=message):
            score(result, model=declare(T, "time", 1.0))
        score(result, model=declare(T, "state", 1.0))
    dshdp.forecast(result, model=declare(7, "state"), forecast_model=declare(T, "state"))


@pytest.mark.parametrize(
    ("change", "kwargs", "message"),
    [
        ((), {"horizon": 0}, "horizon must be a positive integer, received 0"),
        ((), {}, "horizon must be a positive integer, received None"),
        ((), {"horizon": 2, "covariates": {"x": [1, 2]}}, "covariates has 'x', which is not a pm"),
        ("z", {"horizon": 2}, "states 'z' are not in the posterior"),
        ("rate", {"horizon": 2}, "'rate' is not in the posterior"),
        ((), {"horizon": 2, "thin": 0}, "thin must be a positive integer"),
        ((), {"horizon": 2, "states": "w"}, "states must name one of the hidden states"),
    ],
)
def test_refusals(change, kwargs, message):
    result = draws(np.zeros(7, int), 2, rate=RATE)
    result["posterior"] = result["posterior"].drop_vars(change)
    with pytest.raises(ValueError, match=message):
        dshdp.forecast(result, model=poisson(), **kwargs)


def test_the_last_state_is_that_of_the_result():
    """Fails after ``pm.set_data`` if the state at the length of the model now is taken for it."""
    with pm.Model() as model:
        data = pm.Data("data", COUNTS)
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), length=data.shape[0])
        pm.Poisson("y", pm.LogNormal("rate", 2.0, 1.0, dims="hmm_state")[z], observed=data)
    result = draws(np.array([0, 0, 0, 1, 0, 0, 0]), 2, rate=RATE)
    dshdp.forecast(result, model=model, horizon=2)
    with model:
        pm.set_data({"data": COUNTS[:4]})
    message = (
        r"shape \(7,\) in the result, .* and \(4,\) in the model.* back to those of the result"
    )
    with pytest.raises(ValueError, match=message):
        dshdp.forecast(result, model=model, horizon=2)


@pytest.mark.parametrize("batch", [False, True])
def test_new_draws_of_other_lengths(batch):
    """Fails if a result drawn after ``pm.set_data`` has the lengths of the model as declared."""
    first, then = (COUNTS[:6], COUNTS) if not batch else (COUNTS[:6].reshape(2, 3), [[1], [2], [3]])
    with pm.Model() as model:
        data = pm.Data("data", first)
        layout = {"shape": data.shape} if batch else {"length": data.shape[0]}
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), **layout)
        pm.Poisson("y", pm.LogNormal("rate", 2.0, 1.0, dims="hmm_state")[z], observed=data)
        pm.set_data({"data": np.asarray(then)})
        result = pm.sample(
            2, tune=0, chains=1, random_seed=1, progressbar=False, compute_convergence_checks=False
        )
    lengths = [1, 1, 1] if batch else [7]
    np.testing.assert_array_equal(result["constant_data"]["z_lengths"], lengths)
    future = dshdp.forecast(result, model=model, horizon=2, random_seed=1)
    assert future["y"].shape == ((1, 2, 3, 2) if batch else (1, 2, 2))


def test_sequences_are_those_of_the_result():
    """Fails if only the number of times is compared."""
    result = draws(np.array([0, 0, 0, 1, 0, 0, 0]), 2, rate=RATE)
    result["constant_data"] = xr.Dataset(
        {"z_lengths": ("sequence", [4, 3]), "z_record": ("record", recorded("z", 2))}
    )
    dshdp.forecast(result, model=poisson((4, 3)), horizon=2)
    with pytest.raises(ValueError, match=r"of lengths \[4, 3\], .* of lengths \[3, 4\]"):
        dshdp.forecast(result, model=poisson((3, 4)), horizon=2)


def test_an_autoregression_goes_on_from_the_rows_of_the_result():
    """Fails if rows that were set since are continued from."""
    y = np.arange(10.0)[:, None]
    with pm.Model() as model:
        data = pm.Data("data", y)
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), length=10)
        A, Sigma = dshdp.MatrixNormalInverseWishart("ar", n_states=2, S0=np.eye(1))
        dshdp.SwitchingVAR("y", A, Sigma, z, observed=data)
    theta = {"ar_A": np.ones((2, 1, 1)), "ar_Sigma": np.full((2, 1, 1), 1e-6)}
    result = draws(np.zeros(10, int), 2, **theta)
    result["observed_data"] = xr.Dataset({"y": (("time", "one"), y)})
    found = dshdp.forecast(result, model=model, horizon=1, random_seed=1)["y"]
    np.testing.assert_allclose(found, 9.0, atol=0.01)
    with model:
        pm.set_data({"data": y + 5.0})
    with pytest.raises(ValueError, match="the model has other data of 'y' than the result"):
        dshdp.forecast(result, model=model, horizon=1)
