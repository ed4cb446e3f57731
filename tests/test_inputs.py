"""Data as people have them: containers, dtypes, memory layouts, labels."""

import numpy as np
import pandas as pd
import polars as pl
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from models import sample
from pymc.exceptions import SamplingError

import pymc_dshdp as dshdp

pytestmark = [
    pytest.mark.usefixtures("python_mode"),
    pytest.mark.filterwarnings("ignore:Data in .* contains missing"),
]
X = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
TABLE = np.column_stack([X, X[::-1]])
DAYS = pd.date_range("2024-01-01", periods=6)


def frozen(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def table_of(observed, kind):
    """The likelihood table at the starting point, from what the user passes as ``observed``."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), length=6)
        if kind == "normal":
            pm.Normal("y", pm.math.stack([0.0, 1.0])[z], 1.0, observed=observed)
        elif kind == "poisson":
            pm.Poisson("y", pm.math.stack([1.0, 4.0])[z], observed=observed)
        elif kind == "bernoulli":
            pm.Bernoulli("y", pm.math.stack([0.2, 0.7])[z], observed=observed)
        else:
            means = pm.math.stack([np.zeros(2), np.ones(2)])
            pm.MvNormal("y", means[z], np.eye(2), observed=observed)
        step = dshdp.WeakLimitFFBS([z])
    return step._priors[0].tables[0](model.initial_point())


@pytest.mark.parametrize(
    ("observed", "kind", "plain"),
    [
        (list(X), "normal", X),
        (X.astype("float32"), "normal", X),
        (X.astype("int64"), "normal", X),
        (frozen(X), "normal", X),
        (np.repeat(X, 2)[::2], "normal", X),
        (pd.Series(X, index=DAYS), "normal", X),
        (xr.DataArray(X, dims="day", coords={"day": DAYS}), "normal", X),
        (X.astype("uint8"), "poisson", X.astype(int)),
        (pd.Series(X.astype("int32")), "poisson", X.astype(int)),
        (X > 2.0, "bernoulli", (X > 2.0).astype(int)),
        (pd.DataFrame(TABLE, columns=["a", "b"], index=DAYS), "mvnormal", TABLE),
        (xr.DataArray(TABLE, dims=("day", "channel")), "mvnormal", TABLE),
        (np.asfortranarray(TABLE), "mvnormal", TABLE),
        (frozen(TABLE), "mvnormal", TABLE),
        (TABLE.astype("float32"), "mvnormal", TABLE),
    ],
)
def test_what_counts_is_the_numbers(observed, kind, plain):
    np.testing.assert_allclose(table_of(observed, kind), table_of(plain, kind), rtol=1e-6)


def test_polars():
    np.testing.assert_array_equal(
        table_of(pl.Series(X).to_numpy(), "normal"), table_of(X, "normal")
    )
    frame = pl.DataFrame({"a": TABLE[:, 0], "b": TABLE[:, 1]})
    np.testing.assert_array_equal(
        table_of(frame.to_numpy(), "mvnormal"), table_of(TABLE, "mvnormal")
    )


@pytest.mark.parametrize("columns", [False, True])
def test_nan_of_pandas_is_missing(columns):
    data = (TABLE if columns else X).copy()
    data[(2, 0) if columns else 2] = np.nan
    kind = "mvnormal" if columns else "normal"
    frame = pd.DataFrame(data) if columns else pd.Series(data)
    table = table_of(frame, kind)
    assert np.isfinite(table).all()
    np.testing.assert_allclose(table, table_of(np.ma.masked_invalid(data), kind))


def test_labels_of_the_user_are_kept():
    """A DatetimeIndex over time and names of states and channels, in the result."""
    coords = {"day": DAYS, "state": ["calm", "wild"], "channel": ["a", "b"]}
    with pm.Model(coords=coords) as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", dims="state"), dims="day")
        mu = pm.Normal("mu", dims=("state", "channel"))
        pm.Normal(
            "y", mu[z], 1.0, observed=pd.DataFrame(TABLE, index=DAYS), dims=("day", "channel")
        )
    idata = sample(model, draws=2, tune=1, chains=1)
    posterior = idata["posterior"]
    assert posterior["z"].dims == ("chain", "draw", "day")
    np.testing.assert_array_equal(posterior["z"]["day"].values, DAYS.values)
    assert list(posterior["hmm_kappa"]["state"].values) == ["calm", "wild"]
    assert list(posterior["hmm_pi_bar"]["state_to"].values) == ["calm", "wild"]
    probabilities = dshdp.state_probabilities(idata)
    assert probabilities.sel(day="2024-01-03", state="wild").size == 1
    assert str(dshdp.segments(idata)["start"][0])[:10] == "2024-01-01"


@pytest.mark.parametrize(
    ("observed", "layout", "shape"),
    [
        (np.zeros(7), {"lengths": [4, 2]}, r"\(7,\)"),
        (np.zeros(5), {"lengths": [4, 2]}, r"\(5,\)"),
        (np.zeros((2, 4)), {"shape": (2, 3)}, r"\(2, 4\)"),
    ],
)
def test_lengths_that_are_not_those_of_the_data(observed, layout, shape):
    """Fails if it is left to PyTensor, whose message names neither."""
    with pm.Model():
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), **layout)
        pm.Normal("y", pm.math.stack([0.0, 1.0])[z], 1.0, observed=observed)
        with pytest.raises(ValueError, match=f"'y' has data of shape {shape}.*lengths.*'z' of sh"):
            dshdp.WeakLimitFFBS([z])


def test_covariates_of_sequences_and_of_times():
    """b[z] * x with x per sequence, per time and per both: the table has each one's own value."""
    rng = np.random.default_rng(1)
    y = rng.normal(size=(2, 3))
    slopes = np.array([-1.0, 2.0])
    for x in (np.array([[0.5], [2.0]]), rng.normal(size=3), rng.normal(size=(2, 3))):
        with pm.Model() as model:
            z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), shape=(2, 3))
            pm.Normal("y", pm.math.stack(list(slopes))[z] * x, 1.0, observed=y)
            step = dshdp.WeakLimitFFBS([z])
        table = step._priors[0].tables[0](model.initial_point())
        mean = np.multiply.outer(np.broadcast_to(x, (2, 3)), slopes)
        expected = -0.5 * (y[..., None] - mean) ** 2 - 0.5 * np.log(2 * np.pi)
        np.testing.assert_allclose(table, expected.reshape(6, 2))


POINTS = np.array([0.0, 1.0, 2.5, 1.0, 0.0, 1.0])
PAIRS = np.column_stack([POINTS, 3.0 - POINTS])
LIKELIHOODS = {
    "poisson": lambda z, y: pm.Poisson("y", RATES[z], observed=y),
    "bernoulli": lambda z, y: pm.Bernoulli("y", RATES[z], observed=y),
    "binomial": lambda z, y: pm.Binomial("y", 5, RATES[z], observed=y),
    "negative binomial": lambda z, y: pm.NegativeBinomial("y", RATES[z], 1.0, observed=y),
    "zero-inflated": lambda z, y: pm.ZeroInflatedPoisson("y", 0.5, RATES[z], observed=y),
    "categorical": lambda z, y: pm.Categorical("y", ROWS[z], observed=y),
    "multinomial": lambda z, y: pm.Multinomial("y", 3, ROWS[z], observed=y),
}
RATES = pt.as_tensor(np.array([0.2, 0.7]))
ROWS = pt.as_tensor(np.array([[0.2, 0.8], [0.7, 0.3]]))


def step_on(likelihood, held):
    """A model and its states step, where ``held()`` declares the data of the likelihood."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=2), length=6)
        LIKELIHOODS[likelihood](z, held())
        return model, dshdp.WeakLimitFFBS([z])


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_fractions_for_a_likelihood_of_integers(likelihood):
    """In pm.Data. Fails if they are looked for behind the cast, where 2.5 is 2."""
    data = PAIRS if likelihood == "multinomial" else POINTS
    where = r"\(2, 0\)" if likelihood == "multinomial" else r"\(2,\)"
    with pytest.raises(ValueError, match=f"'y' has 2.5 at position {where} of its obs.*np.round"):
        step_on(likelihood, lambda: pm.Data("data", data))


@pytest.mark.parametrize("likelihood", ["poisson", "binomial", "negative binomial", "categorical"])
def test_negative_data_of_a_likelihood_of_integers(likelihood):
    """In pm.Data. Fails if fractions are looked for above 0 only: -0.5 would be read as 0."""
    data = np.minimum(POINTS, 1.0)
    for value, message in (
        (-0.5, "'y' has -0.5 at"),
        (-1.0, "of '?y'? is (impossible|-inf in ev)"),
    ):
        data[2] = value
        with pytest.raises((ValueError, SamplingError), match=message):
            step_on(likelihood, lambda: pm.Data("data", data))


def test_where_fractions_are_seen():
    """In tensors, in parts of pm.Data and after pm.set_data; whole numbers and booleans pass."""
    message = "'y' has 2.5 at position"
    for held in (
        lambda: pt.as_tensor(POINTS),
        lambda: pm.Data("data", np.append(POINTS, 0.5))[:6],
        lambda: pm.Data("data", POINTS.reshape(2, 3)).ravel(),
    ):
        with pytest.raises(ValueError, match=message + r" \(2,\)"):
            step_on("poisson", held)
    for held in (
        lambda: pm.math.floor(pm.Data("data", POINTS)),
        lambda: pm.Data("data", POINTS) > 1.0,
    ):
        step_on("poisson", held)
    model, _ = step_on("poisson", lambda: pm.Data("data", np.floor(POINTS)))
    with model:
        pm.set_data({"data": POINTS})
        with pytest.raises(ValueError, match=message):
            dshdp.WeakLimitFFBS([model["z"]])


def test_fractions_in_other_data():
    """Fails if the dtype of pm.Data decides, or PyMC casts them first."""
    for held in (
        lambda: pm.Data("data", np.floor(POINTS)),
        lambda: pm.Data("data", np.floor(POINTS))[:],
    ):
        model, _ = step_on("poisson", held)
        nothing = {"posterior": xr.Dataset(coords={"chain": [0], "draw": [0]})}
        with pytest.raises(ValueError, match=r"'y' has 2.5 at position \(2,\)"):
            dshdp.smooth(nothing, model=model, observed={"data": POINTS})


LARGE = np.array([1, 2**40, 3, 2**31, 0, 2])


def test_counts_that_a_cast_to_fewer_bits_changes():
    """Fails if the data are read behind the casts, where 2^40 is 0; as floats they pass."""
    message = r"'y' has 1099511627776 at position \(1,\) of its observed data, which PyMC would "
    for held in (lambda: pt.as_tensor(LARGE), lambda: pytensor.shared(LARGE)):
        with pytest.raises(ValueError, match=message + r"read as 0, .*int32; .*astype\(float\)"):
            step_on("poisson", held)
    for held in (lambda: LARGE.astype(float), lambda: pm.Data("data", LARGE.astype(float))):
        model, _ = step_on("poisson", held)
        np.testing.assert_array_equal(model.rvs_to_values[model["y"]].eval(), LARGE)


def test_large_counts_in_other_data():
    """Fails if they are handed to PyMC, or put into pm.Data of int32, as they are."""
    nothing = {"posterior": xr.Dataset(coords={"chain": [0], "draw": [0]})}
    model, _ = step_on("poisson", lambda: np.floor(POINTS))
    with pytest.raises(ValueError, match="'y' has 1099511627776 at position"):
        dshdp.smooth(nothing, model=model, observed={"y": LARGE})
    model, _ = step_on("poisson", lambda: pm.Data("data", np.arange(6)))
    with pytest.raises(ValueError, match="'data' has 1099511627776 at position"):
        dshdp.smooth(nothing, model=model, observed={"data": LARGE})
