"""A model moved to other data scores them as the model declared again on them."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from models import FAST, posterior_of
from scipy import stats

import pymc_dshdp as dshdp

pytestmark = pytest.mark.usefixtures("python_readers")

TRAIN = np.random.default_rng(0).poisson(5.0, size=12)
TEST = np.array([0, 25, 1, 30, 2])
MASKED = np.ma.masked_array(TRAIN, mask=np.arange(12) == 3)
VECTORS = np.random.default_rng(1).normal(size=(12, 2))


def states(**layout):
    prior = dshdp.DSHDP("hmm", n_states=3)
    rate = pm.LogNormal("rate", 2.0, 1.0, dims="hmm_state")
    return rate, dshdp.HiddenStates("z", prior, **layout)


def poisson(y, **layout):
    rate, z = states(**layout)
    pm.Poisson("y", rate[z], observed=y)


def student(y, **layout):
    rate, z = states(**layout)
    pm.StudentT("y", nu=4.0, mu=rate[z], sigma=1.5, observed=y)


def held_in_data(y, **layout):
    data, x = pm.Data("data", np.ma.filled(y, 0)), pm.Data("x", np.linspace(1.0, 2.0, len(y)))
    rate, z = states(length=data.shape[0])
    pm.Poisson("y", rate[z] * x, observed=data)


def autoregression(y, **layout):
    _, z = states(**layout)
    A, Sigma = dshdp.MatrixNormalInverseWishart("ar", n_states=3, S0=np.eye(2))
    dshdp.SwitchingVAR("y", A, Sigma, z, observed=y)


def lagged(y, **layout):
    rate, z = states(**layout)
    pm.Normal("y", rate[z[1:]] + 0.5 * y[:-1], 1.0, observed=y[1:])


def two(y, **layout):
    rate, z = states(**layout)
    pm.Poisson("y", rate[z], observed=y)
    pm.Normal("x", rate[z], 1.0, observed=np.asarray(y, float))


def built(declare, y, **layout):
    with pm.Model() as model:
        declare(y, **(layout or {"length": len(y)}))
    return model


X = np.linspace(1.0, 2.0, 5)


@pytest.mark.parametrize(
    ("declare", "train", "test", "lengths", "extra"),
    [
        (poisson, TRAIN, TEST, None, {}),
        (poisson, TRAIN, TEST, [3, 2], {}),
        (poisson, TRAIN, np.ma.masked_array(TEST, mask=[0, 1, 0, 0, 0]), None, {}),
        pytest.param(poisson, MASKED, TEST, None, {}, marks=pytest.mark.slow),
        pytest.param(student, TRAIN, TEST, None, {}, marks=pytest.mark.slow),
        (autoregression, VECTORS, VECTORS[:7], [4, 3], {}),
        pytest.param(held_in_data, TRAIN, TEST, None, {"x": X}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
def test_other_lengths(declare, train, test, lengths, extra):
    """Fails if data or sequence lengths of the training data are kept."""
    model = built(declare, train)
    before = model.rvs_to_values.copy()
    result = posterior_of(model, draws=2)
    found = dshdp.held_out_log_likelihood(
        result, model=model, observed={"y": test, **extra}, lengths=lengths
    )
    again = built(declare, test, **({"lengths": lengths} if lengths else {}))
    expected = dshdp.held_out_log_likelihood(result, model=again)
    np.testing.assert_allclose(found["log_likelihood"], expected["log_likelihood"])
    assert model.rvs_to_values == before and len(model["z"].eval()) == 12


def scaled(y, x=np.arange(12.0), **layout):
    rate, z = states(**layout)
    pm.Poisson("y", rate[z] * pm.math.exp(-x / 12), observed=y)


def scaled_by_data(y, **layout):
    scaled(y, pm.Data("x", np.arange(12.0)), **layout)


def scaled_by_parameter(y, **layout):
    scaled(y, pm.Normal("w", shape=12), **layout)


def scaled_as_far_as_it_goes(y, **layout):
    data, x = pm.Data("y_data", y), pm.Data("x", np.arange(12.0))
    rate, z = states(length=data.shape[0])
    pm.Poisson("y", rate[z] * pm.math.exp(-x[: data.shape[0]] / 12), observed=data)


def lasting(y, **layout):
    x = pm.Data("x", np.linspace(-1.0, 1.0, 12))
    kappa = pm.math.invlogit(pm.Normal("a", shape=2) + x[:, None])
    z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2, kappa=kappa), **layout)
    pm.Poisson("y", pm.LogNormal("rate", 2.0, 1.0, dims="hmm_state")[z], observed=y)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (scaled, r"a constant array of shape \(12,\) along the times .*: Declare the model again"),
        (scaled_by_data, "the pm.Data 'x' along the times .*: give 'x' too, or declare"),
        (scaled_by_parameter, "the parameter 'w' along the times"),
        (scaled_as_far_as_it_goes, "the pm.Data 'x' along the times"),
        (lasting, "the pm.Data 'x' along the times"),
    ],
)
def test_covariates_of_the_training_data_are_not_those_of_others(declare, message):
    """Fails where what was not given fits because the other data are as long, or shorter."""
    model = built(declare, TRAIN, length=12)
    result = {"posterior": _nothing()}
    for y in (TRAIN[::-1], TRAIN[:5]):
        with pytest.raises(ValueError, match=message):
            dshdp.held_out_log_likelihood(result, model=model, observed={"y": y})
    for use in (dshdp.smooth, dshdp.filter_states, dshdp.viterbi):
        with pytest.raises(ValueError, match=message):
            use(result, model=model, observed={"y": TRAIN[::-1]})
    with pytest.raises(ValueError, match=message):
        dshdp.compare_held_out({"a": (result, model)}, observed={"y": TRAIN[::-1]})


def test_covariates_of_a_batch():
    """Along sequences, times or both; fails if an old one of either is left in place."""
    y = TRAIN.reshape(3, 4)
    covariates = {"both": y + 1.0, "time": np.ones(4), "sequence": np.ones((3, 1))}
    with pm.Model() as model:
        rate, z = states(shape=(3, 4))
        x = {name: pm.Data(name, value) for name, value in covariates.items()}
        flat = pt.specify_broadcastable(x["sequence"], 1)
        pm.Poisson("y", rate[z] * x["both"] * x["time"] * flat, observed=y)
    result = posterior_of(model, draws=1, compile_kwargs=FAST)
    new = {**covariates, "both": covariates["both"][::-1], "y": y[::-1]}
    found = dshdp.held_out_log_likelihood(result, model=model, observed=new)
    old = dshdp.held_out_log_likelihood(result, model=model)["log_likelihood"]
    np.testing.assert_allclose(found["log_likelihood"], old[..., ::-1])
    for name in covariates:
        given = {key: value for key, value in new.items() if key != name}
        with pytest.raises(ValueError, match=f"the pm.Data '{name}' along the times"):
            dshdp.held_out_log_likelihood(result, model=model, observed=given)


def test_set_data_of_another_length():
    """The states follow ``length=data.shape[0]``."""
    model = built(held_in_data, TRAIN)
    result = posterior_of(model, draws=2)
    expected = dshdp.held_out_log_likelihood(result, model=model, observed={"data": TEST, "x": X})
    with model:
        pm.set_data({"data": TEST, "x": X})
    found = dshdp.held_out_log_likelihood(result, model=model)
    np.testing.assert_allclose(found["total"], expected["total"])
    assert dshdp.smooth(result, model=model).sizes["z_dim_0"] == 5


def test_named_times_of_another_length():
    """Fails if the length that the coordinates give is taken for that of the new data."""
    with pm.Model(coords={"time": 1900 + np.arange(12)}) as model:
        x = pm.Data("x", np.linspace(1.0, 2.0, 12), dims="time")
        rate, z = states(dims="time")
        pm.Poisson("y", rate[z] * x, observed=TRAIN, dims="time")
    result = posterior_of(model, draws=1)
    found = dshdp.smooth(result, model=model, observed={"y": [0, 25], "x": [1.0, 2.0]})
    kappa, rows, initial, rate = (
        result["posterior"][name].values[0, 0]
        for name in ("hmm_kappa", "hmm_pi_bar", "hmm_pi_init", "rate")
    )
    P = np.diag(kappa) + (1 - kappa)[:, None] * rows
    joint = (initial * stats.poisson.pmf(0, rate))[:, None] * P * stats.poisson.pmf(25, 2 * rate)
    np.testing.assert_allclose(found, [joint.sum(1) / joint.sum(), joint.sum(0) / joint.sum()])
    assert list(found["time"].values) == [0, 1]


@pytest.mark.parametrize(
    ("declare", "observed", "lengths", "error", "message"),
    [
        (poisson, {"w": TEST}, None, ValueError, r"observed has 'w'.*may name \['y'\]"),
        (poisson, TEST, None, TypeError, "observed must be a dict of arrays by name"),
        (poisson, {"y": TEST[None]}, None, ValueError, r"must have 1 dimensions.*shape \(1, 5\)"),
        (poisson, {"y": TEST + 0.5}, None, TypeError, r"observed\['y'\] must have integers"),
        (poisson, {"y": TEST}, [2, 2], ValueError, "does not fit .* of lengths"),
        (poisson, {"y": TEST}, [2.5, 2.5], ValueError, "lengths must be positive integers"),
        (poisson, None, [5], ValueError, "lengths are those of other data"),
        (lagged, {"y": TEST[1:]}, [5], ValueError, "'y' does not fit data of shape"),
        (two, {"y": TEST}, None, ValueError, "must have data for 'x' too"),
    ],
)
def test_refusals(declare, observed, lengths, error, message):
    model = built(declare, TRAIN)
    with pytest.raises(error, match=message):
        dshdp.held_out_log_likelihood(
            {"posterior": _nothing()}, model=model, observed=observed, lengths=lengths
        )


def _nothing():
    return xr.Dataset(coords={"chain": [0], "draw": [0]})


def test_refused_models():
    result = {"posterior": _nothing()}
    model = built(poisson, TRAIN, lengths=[7, 5])
    with pytest.raises(ValueError, match="the model has 2 sequences in 'z'; give the lengths"):
        dshdp.smooth(result, model=model, observed={"y": TEST})
    with pm.Model() as latent:
        rate, z = states(length=5)
        pm.Poisson("y", pm.math.exp(pm.Normal("x", rate[z], 1.0)), observed=TEST)
    with pytest.raises(ValueError, match="'x' is a latent variable that depends on the states 'z'"):
        dshdp.smooth(result, model=latent, observed={"y": TEST})
    with pm.Model() as batch:
        rate, z = states(shape=(2, 5))
        pm.Poisson("y", rate[z], observed=[TEST, TEST])
    with pytest.raises(ValueError, match="lengths has nothing to say"):
        dshdp.smooth(result, model=batch, observed={"y": [TEST, TEST]}, lengths=[5, 5])
