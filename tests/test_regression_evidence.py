"""Regressions as users write them: which are integrated out, and that the number is right."""

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, stats

import pymc_dshdp as dshdp
from pymc_dshdp.steps.collapsed import find_complete

pytestmark = pytest.mark.usefixtures("python_mode")

T, L = 12, 3


X = np.cos(np.arange(T))
Y = np.sin(3.0 * np.arange(T)) + np.arange(T) / 6.0
PATH = np.array([0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0])
ONES = np.ones((T, 1))
LINE = np.column_stack([np.ones(T), X])


def scale_of_each_state(z):
    mean, sigma = pm.Normal("mean", 0.5, 2.0, shape=L), pm.HalfNormal("sigma", 1.5, shape=L)
    pm.Normal("y", mean[z], sigma[z], observed=Y)


def line(z):
    a, b = pm.Normal("a", 0.5, 2.0, shape=L), pm.Normal("b", -0.5, 1.0, shape=L)
    sigma = pm.Exponential("sigma", 2.0, shape=L)
    pm.Normal("y", a[z] + b[z] * X, sigma[z], observed=Y)


def variance(z):
    mean, v = pm.Normal("mean", 0.5, 2.0, shape=L), pm.InverseGamma("v", 2.0, 1.0, shape=L)
    pm.Normal("y", mean[z], pm.math.sqrt(v[z]), observed=Y)


def precision(z):
    mean, tau = pm.Normal("mean", 0.5, 2.0, shape=L), pm.Gamma("tau", 2.0, 1.5, shape=L)
    pm.Normal("y", mean[z], tau=tau[z], observed=Y)


def bounded(z):
    mean, sigma = pm.Normal("mean", 0.5, 2.0, shape=L), pm.Uniform("sigma", 0.0, 4.0, shape=L)
    pm.Normal("y", mean[z], sigma[z], observed=Y)


def shared(z):
    a, b = pm.Normal("a", 0.5, 2.0, shape=L), pm.Normal("b", -0.5, 1.0, shape=L)
    sigma = pm.HalfNormal("sigma", 1.5)
    pm.Normal("y", a[z] + b[z] * X, sigma, observed=Y)


def by_time(z):
    b = pm.Normal("b", -0.5, 1.0, shape=L)
    pm.Normal("y", 0.3 + b[z] * X, 0.5 + X**2, observed=Y)


def density(times, design, mean, spread, offset, sigma):
    """Density of some of the data, coefficients integrated out."""
    x, noise = design[times], np.broadcast_to(sigma, T)[times]
    cov = (x * np.square(spread)) @ x.T + np.diag(noise**2)
    return stats.multivariate_normal.pdf(Y[times], offset + x @ mean, cov)


def integrated(times, design, mean, spread, prior, root):
    """The same with the scale integrated out: ``root`` makes it of the prior's variable."""
    return integrate.quad(
        lambda v: density(times, design, mean, spread, 0.0, root(v)) * prior.pdf(v), 0.0, np.inf
    )[0]


LEVEL, SLOPE = ([0.5], [2.0]), ([0.5, -0.5], [2.0, 1.0])
FORMS = {
    scale_of_each_state: lambda t: integrated(
        t, ONES, *LEVEL, stats.halfnorm(scale=1.5), lambda v: v
    ),
    line: lambda t: integrated(t, LINE, *SLOPE, stats.expon(scale=0.5), lambda v: v),
    variance: lambda t: integrated(t, ONES, *LEVEL, stats.invgamma(2.0), np.sqrt),
    precision: lambda t: integrated(
        t, ONES, *LEVEL, stats.gamma(2.0, scale=1 / 1.5), lambda v: v**-0.5
    ),
    bounded: lambda t: integrated(t, ONES, *LEVEL, stats.uniform(0.0, 4.0), lambda v: v),
    shared: lambda t: density(t, LINE, *SLOPE, 0.0, 0.9),
    by_time: lambda t: density(t, X[:, None], [-0.5], [1.0], 0.3, 0.5 + X**2),
}


def model_of(declare):
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=L), length=T)
        declare(z)
    return model


@pytest.mark.parametrize("declare", FORMS)
def test_evidence(declare):
    """Fails if the Jacobian of a power, or the prior's mean, is left out.

    Where the prior's density jumps, quadrature knows the evidence less well; moves are exact.
    """
    model = model_of(declare)
    point = model.initial_point()
    if "sigma_log__" in point:
        point["sigma_log__"] = np.full(np.shape(point["sigma_log__"]), np.log(0.9))
    found = find_complete(model, model["z"]).marginals(point).of_path(PATH)
    expected = [np.log(FORMS[declare](PATH == k)) for k in (0, 1)] + [0.0]
    np.testing.assert_allclose(found, expected, atol=1e-2 if declare is bounded else 1e-6)


PAIR = np.column_stack([Y, np.cos(2.0 * np.arange(T))])


def level_and_slope(z):
    """Of two columns, a scale each, whose prior differs between them."""
    mean, slope = (pm.Normal(name, 0.5, 2.0, shape=(L, 2)) for name in ("mean", "slope"))
    sigma = pm.HalfNormal("sigma", [1.5, 0.7], shape=(L, 2))
    pm.Normal("y", mean[z] + slope[z] * X[:, None], sigma[z], observed=PAIR)


def products(z):
    """The same as products with a matrix of covariates."""
    b = pm.Normal("b", 0.5, 2.0, shape=(L, 2, 2))
    sigma = pm.HalfNormal("sigma", np.array([1.5, 0.7]), shape=(L, 2))
    pm.Normal("y", (LINE[:, :, None] * b[z]).sum(axis=1), sigma[z], observed=PAIR)


def columns_first(z):
    """The same with the axes of the parameters the other way round."""
    mean, slope = (pm.Normal(name, 0.5, 2.0, shape=(L, 2, 1)) for name in ("mean", "slope"))
    sigma = pm.HalfNormal("sigma", np.array([[1.5], [0.7]]), shape=(L, 2, 1))
    pm.Normal(
        "y", mean[z].transpose(0, 2, 1) + slope[z].transpose(0, 2, 1) * X[:, None, None],
        sigma[z].transpose(0, 2, 1), observed=PAIR[:, None],
    )  # fmt: skip


@pytest.mark.parametrize("declare", [level_and_slope, products, columns_first])
def test_columns_with_a_scale_each(declare, monkeypatch):
    """Fails if a column has the coefficients, or the prior of the scale, of another."""
    model, expected = model_of(declare), np.zeros(L)
    for c, spread in enumerate((1.5, 0.7)):
        monkeypatch.setitem(globals(), "Y", PAIR[:, c])
        for k in (0, 1):
            prior = stats.halfnorm(scale=spread)
            expected[k] += np.log(
                integrated(k == PATH, LINE, [0.5, 0.5], [2.0, 2.0], prior, lambda v: v)
            )
    found = find_complete(model, model["z"]).marginals(model.initial_point())
    np.testing.assert_allclose(found.of_path(PATH), expected, atol=1e-6)


def test_scales_are_kept_where_they_belong():
    """Of axes the other way round: what is drawn for a state and column is its scale's value."""
    model = model_of(columns_first)
    point, emission = model.initial_point(), find_complete(model, model["z"])
    kept = np.log(1.0 + np.arange(6.0).reshape(3, 2))
    new = {**point, **emission.kept_values(point, kept)}
    np.testing.assert_allclose(emission.marginals(new).kept, kept)
    np.testing.assert_allclose(np.exp(new["sigma_log__"]), 1.0 + np.arange(6.0).reshape(3, 2, 1))


def mixture_by_state(z):
    mean = pm.Normal("mean", shape=(L, 2))
    part = pm.HalfNormal.dist(np.array([0.1, 1.0, 9.0])[:, None, None], shape=(L, 2, 2))
    sigma = pm.Mixture("sigma", [0.5, 0.5], part, shape=(L, 2))
    pm.Normal("y", mean[z], sigma[z], observed=PAIR)


def truncated(z):
    mean = pm.Normal("mean", shape=(L, 2))
    sigma = pm.Truncated("sigma", pm.Gamma.dist(2.0, 2.0), lower=0.1, upper=4.0, shape=(L, 2))
    pm.Normal("y", mean[z], sigma[z], observed=PAIR)


def one_slope_for_both(z):
    slope, sigma = pm.Normal("slope", shape=L), pm.HalfNormal("sigma", 1.0, shape=(L, 2))
    pm.Normal("y", (slope[z] * X)[:, None], sigma[z], observed=PAIR)


def correlated(z):
    mean = pm.MvNormal("mean", np.zeros(2), np.array([[1.0, 0.5], [0.5, 1.0]]), shape=(L, 2))
    sigma = pm.HalfNormal("sigma", 1.0, shape=(L, 2))
    pm.Normal("y", mean[z], sigma[z], observed=PAIR)


def random_covariate(z):
    x, b = pm.Normal("x", shape=(T, 1)), pm.Normal("b", shape=(L, 2))
    sigma = pm.HalfNormal("sigma", 1.0, shape=(L, 2))
    pm.Normal("y", b[z] * x, sigma[z], observed=PAIR)


def differing_priors(z):
    mean = pm.Normal("mean", 0.0, 2.0, shape=L)
    sigma = pm.HalfNormal("sigma", np.array([1.0, 2.0, 3.0]), shape=L)
    pm.Normal("y", mean[z], sigma[z], observed=Y)


def another_mean(z):
    b, c = pm.Normal("b", shape=L), pm.HalfNormal("c", shape=L)
    pm.Normal("y", b[z] + c[z] * X, 1.0, observed=Y)


def two_likelihoods(z):
    b = pm.Normal("b", shape=L)
    pm.Normal("y", b[z] * X, 1.0, observed=Y)
    pm.Normal("x", 2.0 * z, 1.0, observed=Y)


def scale_in_two_places(z):
    b, sigma = pm.Normal("b", shape=L), pm.HalfNormal("sigma", shape=L)
    pm.Normal("y", b[z] * X, sigma[z], observed=Y)
    pm.Normal("x", 0.0, sigma[0], observed=1.0)


def size_of_a_number(z):
    b, s = pm.Normal("b", shape=L), pm.Normal("s", 1.0, 1.0, shape=L)
    pm.Normal("y", b[z] * X, pm.math.abs(s[z]), observed=Y)


@pytest.mark.parametrize(
    "declare",
    [
        differing_priors,
        another_mean,
        two_likelihoods,
        scale_in_two_places,
        size_of_a_number,
        mixture_by_state,
        truncated,
        one_slope_for_both,
        correlated,
        random_covariate,
    ],
)
def test_what_is_left_to_differ_is_not_integrated_out(declare):
    model = model_of(declare)
    assert find_complete(model, model["z"]) is None


def test_designs_too_large_to_look_through(monkeypatch):
    """Covariates of all times, numbers and coefficients: too many for a hundred columns."""
    monkeypatch.setattr("pymc_dshdp.likelihood.regression_evidence.LARGEST", T * 2 * 4 - 1)
    model = model_of(level_and_slope)
    assert find_complete(model, model["z"]) is None


TIED = np.array([0.1, 0.1, 1.0, 2.0])
SCALES = {
    "inverse gamma": (pm.InverseGamma, (2.0, 1.0), stats.invgamma(2.0)),
    "uniform": (pm.Uniform, (0.2, 2.0), stats.uniform(0.2, 1.8)),
    "log-normal": (pm.LogNormal, (0.0, 0.5), stats.lognorm(0.5)),
}


@pytest.mark.parametrize("shift", [0.0, 1000.0])
@pytest.mark.parametrize("kind", SCALES)
def test_equal_numbers(kind, shift):
    """Of which rounding leaves a residual. Fails if the search for the scale begins there."""
    make, parameters, prior = SCALES[kind]
    path = np.array([0, 0, 1, 1])
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2), length=4)
        mean, sigma = pm.Normal("mean", shift, 1.0, shape=2), make("sigma", *parameters, shape=2)
        pm.Normal("y", mean[z], sigma[z], observed=TIED + shift)

    def log_evidence(y):
        def density(s):
            cov = np.ones((2, 2)) + s**2 * np.eye(2)
            return stats.multivariate_normal.pdf(y, np.zeros(2), cov) * prior.pdf(s)

        return np.log(integrate.quad(density, 1e-3, 2.0, limit=200)[0]
                      + integrate.quad(density, 2.0, 60.0, limit=200)[0])  # fmt: skip

    found = find_complete(model, z).marginals(model.initial_point()).of_path(path)
    expected = [log_evidence(TIED[:2]), log_evidence(TIED[2:])]
    np.testing.assert_allclose(found, expected, atol=0.05 if kind == "uniform" else 1e-5)


def test_covariates_may_be_replaced():
    """As the data may, for a step that is used again: for draws and for the evidence."""
    with pm.Model() as model:
        x, y = pm.Data("x", X), pm.Data("yd", PAIR)
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=L), length=T)
        b, sigma = pm.Normal("b", 0.0, 9.0, shape=(L, 2)), pm.HalfNormal("sigma", 1.0, shape=(L, 2))
        pm.Normal("y", b[z] * x[:, None], sigma[z], observed=y)
    emission, point = find_complete(model, z), {**model.initial_point(), "z": PATH}
    point["sigma_log__"] = np.full((L, 2), np.log(0.01))
    emission.draw(point, np.random.default_rng(1))
    other = np.sin(np.arange(T))
    with model:
        pm.set_data({"x": other, "yd": 3.0 * np.column_stack([other, other])})
    drawn = emission.draw(point, np.random.default_rng(1))["b"]
    np.testing.assert_allclose(drawn[:2], 3.0, atol=0.1)
    again = find_complete(model, z).marginals(point).of_path(PATH)
    np.testing.assert_allclose(emission.marginals(point).of_path(PATH), again)


@pytest.mark.slow
def test_chains_arrive_and_scales_follow_the_states():
    """Bare ``pm.sample``: pilots and moves are on, and a scale is that of its state."""
    rng = np.random.default_rng(3)
    truth = np.repeat(np.arange(8) % 2, 25)
    x = rng.normal(size=truth.size)
    y = np.where(truth, 2.0, -1.0) * x + np.where(truth, 0.2, 1.0) * rng.normal(size=truth.size)
    with pm.Model():
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=5), length=truth.size)
        slope, sigma = pm.Normal("slope", 0.0, 3.0, shape=5), pm.HalfNormal("sigma", 1.0, shape=5)
        pm.Normal("y", slope[z] * x, sigma[z], observed=y)
        idata = pm.sample(
            100, tune=130, chains=1, random_seed=1, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    stats = idata["sample_stats"]
    assert stats["piloted"].all()
    assert np.isfinite(stats["log_joint"]).all()
    assert stats["proposals"].sum() > 0
    path = idata["posterior"]["z"].values[0]
    assert dshdp.hamming_distance(path[-1], truth) < 0.15
    for name, values in (("slope", (-1.0, 2.0)), ("sigma", (1.0, 0.2))):
        found = np.take_along_axis(idata["posterior"][name].values[0], path, axis=1).mean(axis=0)
        for k, value in enumerate(values):
            assert found[truth == k].mean() == pytest.approx(value, abs=0.2)
