"""Tables by the families against the model's own log-density, and what they refuse."""

import logging

import numpy as np
import pymc as pm
import pytest
from models import evaluate, python_graphs
from pymc.pytensorf import compile as compile_pymc
from pytensor.compile.mode import Mode
from scipy.stats import norm

import pymc_dshdp as dshdp
from emissions.family_models import COUNTS, FAMILIES, NUMBERS, PATH, L, T, build, hidden, poisson
from pymc_dshdp.emissions.poisson import PoissonGamma
from pymc_dshdp.kernels.simd import normal_table
from pymc_dshdp.likelihood import table as loglik
from pymc_dshdp.likelihood.conjugate import ConjugateTerm, find_conjugate
from pymc_dshdp.likelihood.families import TableTerm, table_term


@pytest.mark.parametrize("n_states", [1, 4, 6])
@pytest.mark.parametrize("n_channels", [0, 1, 3])
def test_normal_table_of_any_size(n_states, n_channels):
    """Fails if the rows left over after the last four, or the last columns, are forgotten."""
    rng = np.random.default_rng(3)
    y, mean = rng.normal(size=(7, n_channels)), rng.normal(size=(n_states, n_channels))
    scale = rng.uniform(0.5, 2.0, size=(n_states, n_channels))
    expected = norm.logpdf(y[:, None], mean, scale).sum(axis=-1)
    for n in range(8):
        table = normal_table(np.asfortranarray(y[:n]), mean, scale)
        np.testing.assert_allclose(table, expected[:n], rtol=1e-13, atol=1e-14)


def random_point(model, seed=0, scale=0.5):
    rng = np.random.default_rng(seed)
    point = model.initial_point()
    return {
        name: value + scale * rng.standard_normal(value.shape)
        if np.issubdtype(value.dtype, np.floating)
        else value
        for name, value in point.items()
    }


def logp_table(model, point, name="y"):
    """Elementwise log-density of a variable on constant paths, added up by time."""
    graphs = model.logp(vars=[model[name]], sum=False)
    z = model.rvs_to_values[model["z"]]
    others = [v for v in model.value_vars if v is not z]
    mode = Mode(linker="py", optimizer="fast_run").excluding("fusion")
    logp = compile_pymc([z, *others], graphs, mode=mode, on_unused_input="ignore")
    columns = []
    for k in range(L):
        path = np.full(point["z"].shape, k, dtype=z.dtype)
        [elements] = logp(path, *(point[v.name] for v in others))
        columns.append(elements.reshape(point["z"].size, -1).sum(axis=1))
    return np.stack(columns, axis=1)


def assert_close(table, expected, rtol=1e-10):
    np.testing.assert_array_equal(np.isneginf(table), np.isneginf(expected))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(table[finite], expected[finite], rtol=rtol, atol=0)


@pytest.mark.parametrize("declare", FAMILIES, ids=lambda f: f.__name__)
def test_table_is_the_log_density(declare):
    """Fails if a constant such as log y! is dropped, or a rate is summed over one cell only."""
    model = build(declare)
    term = table_term(model, model["y"], model["z"], L)
    assert term is not None
    for seed in range(2):
        point = random_point(model, seed)
        assert_close(term(point), logp_table(model, point))


def lognormal(z):
    rate = pm.LogNormal("rate", 1.0, 1.0, shape=(L, 2))
    pm.Poisson("y", rate[z], observed=COUNTS)


def log_link(z):
    pm.Poisson("y", pm.math.exp(pm.Normal("x", shape=(L, 2))[z]), observed=COUNTS)


def log_link_outside(z):
    pm.Poisson("y", pm.math.exp(pm.Normal("x", shape=(L, 2)))[z], observed=COUNTS)


def may_be_negative(z):
    pm.Poisson("y", pm.Normal("x", shape=(L, 2))[z], observed=COUNTS)


def logit_link(z):
    pm.Bernoulli("y", logit_p=9.0 * pm.Normal("x", shape=L)[z], observed=COUNTS[:, 0] > 3)


def softmax(z):
    p = pm.math.softmax(pm.Normal("x", shape=(L, 4)), axis=-1)
    pm.Categorical("y", p[z], observed=COUNTS[:, 0] % 4)


def precision(z):
    tau = pm.Gamma("tau", 2.0, 2.0, shape=L)
    pm.Normal("y", pm.Normal("x", shape=L)[z], tau=tau[z], observed=NUMBERS[:, 0])


def common_offset(z):
    x = pm.Normal("x", shape=(L, 2))[z] + pm.Normal("offset", shape=2)
    pm.Normal("y", x, pm.HalfNormal("sigma"), observed=NUMBERS)


def negative_scale(z):
    pm.Normal("y", 0.0, pm.Normal("x", shape=L)[z], observed=NUMBERS[:, 0])


def not_positive_definite(z):
    x = pm.Normal("x", shape=(L, 2, 2))
    pm.MvNormal("y", np.zeros(2), cov=(x + x.mT)[z], observed=NUMBERS)


OTHER_PARAMETERS = [
    lognormal,
    log_link,
    log_link_outside,
    may_be_negative,
    logit_link,
    softmax,
    precision,
    common_offset,
    negative_scale,
    not_positive_definite,
]


@pytest.mark.parametrize("declare", OTHER_PARAMETERS, ids=lambda f: f.__name__)
def test_tables_of_parameters_that_are_not_conjugate(declare):
    """Fails if NaN of a parameter outside its support is kept: PyMC has -inf there."""
    model = build(declare)
    term = table_term(model, model["y"], model["z"], L)
    assert term is not None
    for seed in range(2):
        point = random_point(model, seed, scale=2.0)
        assert_close(term(point), logp_table(model, point))


def covariate(z):
    pm.Poisson("y", pm.Gamma("rate", 1.0, 1.0, shape=L)[z] + np.arange(T), observed=COUNTS[:, 0])


def random_walk(z):
    x = pm.Normal("x", shape=T) + pm.Normal("mean", shape=L)[z]
    pm.Normal("y", x, 1.0, observed=NUMBERS[:, 0])


def lagged(z):
    pm.Poisson("y", pm.Gamma("rate", 1.0, 1.0, shape=L)[z[1:]], observed=COUNTS[1:, 0])


def second_axis(z):
    pm.Poisson("y", pm.Gamma("rate", 1.0, 1.0, shape=(2, L))[:, z].T, observed=COUNTS)


def reversed_time(z):
    pm.Poisson("y", pm.Gamma("rate", 1.0, 1.0, shape=L)[z][::-1], observed=COUNTS[:, 0])


def other_family(z):
    pm.StudentT("y", 3.0, pm.Normal("x", shape=L)[z], observed=NUMBERS[:, 0])


def mixed_times(z):
    rate = pm.Gamma("rate", 1.0, 1.0, shape=L)
    pm.Poisson("y", pm.math.cumsum(rate[z]), observed=COUNTS[:, 0])


GENERIC = [covariate, random_walk, lagged, second_axis, reversed_time, other_family, mixed_times]


@pytest.mark.parametrize("declare", GENERIC, ids=lambda f: f.__name__)
def test_anything_else_takes_the_generic_path(declare, caplog):
    """Fails if only the presence of theta[z] is checked: T or L of these may even agree."""
    model = build(declare)
    with caplog.at_level(logging.DEBUG, "pymc_dshdp.likelihood.families"):
        assert table_term(model, model["y"], model["z"], L) is None
    assert "z: table of y from its log-density graph" in caplog.text


def test_the_path_taken_is_logged(caplog):
    model = build(poisson)
    with caplog.at_level(logging.DEBUG, "pymc_dshdp.likelihood.families"):
        table_term(model, model["y"], model["z"], L)
    assert "z: table of y by PoissonExponential" in caplog.text or (
        "z: table of y by PoissonGamma" in caplog.text
    )


def test_both_paths_add_up_in_one_table(monkeypatch):
    """Fails if the families' part is dropped, or a generic element is put at another's time."""

    def declare(z):
        poisson(z)
        lagged_data = pm.Normal(
            "x", pm.Normal("mean", shape=L)[z[1:]], 1.0, observed=NUMBERS[1:, 0]
        )
        assert lagged_data is not None

    model = build(declare)
    table = loglik.LogLikelihoodTable(model, model["z"], L)
    assert table.names == ["x", "y"]
    point = random_point(model)
    expected = logp_table(model, point)
    [graph] = model.logp(vars=[model["x"]], sum=False)
    values = {v: point[v.name] for v in model.value_vars}
    for k in range(L):
        values[model.rvs_to_values[model["z"]]] = np.full(T, k, "int8")
        expected[1:, k] += evaluate([graph], values)[0]
    assert_close(table(point), expected)
    assert table.features().shape == (T, 3)


def test_batches_of_sequences():
    def declare(z):
        rate = pm.Gamma("rate", 1.0, 1.0, shape=(L, 2))
        pm.Poisson("y", rate[z], observed=COUNTS.reshape(3, 4, 2))

    model = build(declare, {"shape": (3, 4)})
    term = table_term(model, model["y"], model["z"], L)
    point = random_point(model)
    assert_close(term(point), logp_table(model, point))
    np.testing.assert_array_equal(term.times, np.repeat(np.arange(T), 2))


def test_free_likelihood():
    """A latent variable between the states and the data enters with its current value.

    Fails if its array is taken for its value: worker processes write points into the same memory.
    """

    def declare(z):
        x = pm.Normal("y", pm.Normal("mean", shape=L)[z], np.float64(0.7))
        pm.Poisson("counts", pm.math.exp(x), observed=COUNTS[:, 0])

    model = build(declare)
    term = table_term(model, model["y"], model["z"], L)
    for seed in range(2):
        point = random_point(model, seed)
        assert_close(term(point), logp_table(model, point))
    point["y"] += 1.0
    assert_close(term(point), logp_table(model, point))


def impossible(make, y):
    def declare(z):
        make(z, y)

    model = build(declare)
    return table_term(model, model["y"], model["z"], L)


def spoil(y, index, value):
    y = np.array(y)
    y[index] = value
    return y


OUTSIDE = {
    "negative count": (
        lambda z, y: pm.Poisson("y", pm.Gamma("r", 1, 1, shape=(L, 2))[z], observed=y),
        spoil(COUNTS, (4, 1), -2),
        r"observation -2 at position \(4, 1\) of 'y'",
    ),
    "negative time": (
        lambda z, y: pm.Exponential("y", pm.Gamma("r", 1, 1, shape=L)[z], observed=y),
        spoil(np.ones(T), 3, -0.5),
        r"observation -0.5 at position \(3,\)",
    ),
    "infinite number": (
        lambda z, y: pm.Normal("y", pm.Normal("r", shape=L)[z], observed=y),
        spoil(np.ones(T), 3, np.inf),
        r"observation inf at position \(3,\)",
    ),
    "category": (
        lambda z, y: pm.Categorical(
            "y", pm.Dirichlet("p", np.ones(4), shape=(L, 4))[z], observed=y
        ),
        spoil(np.zeros(T, int), 7, 4),
        r"observation 4 at position \(7,\)",
    ),
    "success": (
        lambda z, y: pm.Bernoulli("y", pm.Beta("p", 1, 1, shape=L)[z], observed=y),
        spoil(np.zeros(T, int), 7, 2),
        r"observation 2 at position \(7,\)",
    ),
    "more successes than trials": (
        lambda z, y: pm.Binomial("y", np.arange(T), pm.Beta("p", 1, 1, shape=L)[z], observed=y),
        spoil(np.zeros(T, int), 7, 8),
        r"observation 8 at position \(7,\)",
    ),
    "multinomial row": (
        lambda z, y: pm.Multinomial(
            "y", 3, pm.Dirichlet("p", np.ones(2), shape=(L, 2))[z], observed=y
        ),
        spoil(np.tile([1, 2], (T, 1)), 5, [1, 1]),
        r"observation \[1, 1\] at position \(5,\)",
    ),
}


@pytest.mark.parametrize("make, y, message", OUTSIDE.values(), ids=OUTSIDE)
def test_an_impossible_observation_is_named(make, y, message):
    with pytest.raises(ValueError, match=message):
        impossible(make, y)


def test_replaced_data_are_seen():
    """Fails if the prepared data are kept when pm.set_data has replaced them."""
    with pm.Model() as model:
        z = hidden()
        y = pm.Data("data", COUNTS)
        pm.Poisson("y", pm.Gamma("rate", 1.0, 1.0, shape=(L, 2))[z], observed=y)
    term = table_term(model, model["y"], z, L)
    point = random_point(model)
    before = term(point)
    with model:
        pm.set_data({"data": COUNTS + 1})
    after = term(point)
    assert not np.allclose(before, after)
    assert_close(after, logp_table(model, point))


def test_float32_and_integer_data_are_upcast(monkeypatch):
    """In the table and in the conjugate draw."""
    python_graphs(monkeypatch)
    tables, draws = [], []
    for dtype in ("int16", "f4"):
        with pm.Model() as model:
            z, y = hidden(), COUNTS[:, 0].astype(dtype)
            mean = pm.Normal("mean", shape=L)
            pm.Normal("y", mean[z], 1.0, observed=y)
        point = {**random_point(model), "z": PATH.astype("int8")}
        tables.append(table_term(model, model["y"], z, L)(point))
        term = ConjugateTerm(model, find_conjugate(model, mean))
        draws.append(term.draw(point, np.random.default_rng(1))["mean"])
        assert tables[-1].dtype == draws[-1].dtype == np.float64
    np.testing.assert_array_equal(*tables)
    np.testing.assert_array_equal(*draws)


def test_nearly_singular_covariance(monkeypatch):
    """Fails if something is added to the diagonal: it leaves 1e-8 of the variance one way."""
    python_graphs(monkeypatch)
    along, across = 2.0 - 1e-8, 1e-8  # variances of the sum and the difference, over 2
    covariance = np.array([[along + across, along - across], [along - across, along + across]]) / 2
    y = np.column_stack([NUMBERS[:, 0], NUMBERS[:, 0] + 1e-4 * NUMBERS[:, 1]])
    with pm.Model() as model:
        z = hidden()
        mean = pm.Normal("mean", shape=(L, 2))
        pm.MvNormal("y", mean[z], covariance, observed=y)
    point = {**model.initial_point(), "mean": np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0 + 1e-4]])}
    table = table_term(model, model["y"], z, L)(point)
    x = y[:, None] - point["mean"]
    parts = (
        ((x[..., 0] + x[..., 1]) / np.sqrt(2), along),
        ((x[..., 1] - x[..., 0]) / np.sqrt(2), across),
    )
    expected = sum(-0.5 * u**2 / v - 0.5 * np.log(2 * np.pi * v) for u, v in parts)
    np.testing.assert_allclose(table, expected, rtol=1e-6)


def test_large_poisson_rows():
    """Rows of 100 cells with log-likelihoods near -1e4, rates near 0 and counts of 0."""
    rng = np.random.default_rng(1)
    counts = rng.poisson(300.0, (T, 100))
    counts[3] = 0
    with pm.Model() as model:
        z = hidden()
        rate = pm.Gamma("rate", 1.0, 1.0, shape=(L, 100))
        pm.Poisson("y", rate[z], observed=counts)
    point = random_point(model)
    point["rate_log__"][1] = -50.0
    point["rate_log__"][2] = -800.0  # underflows: log-likelihoods stay finite
    table = table_term(model, model["y"], z, L)(point)
    expected = logp_table(model, point)
    assert expected[0, 0] < -1e4
    assert_close(table[:, :2], expected[:, :2])
    assert np.isfinite(table).all()
    np.testing.assert_allclose(table[3, 2], 0.0, atol=1e-300)


def test_two_families_of_the_same_likelihood_have_one_table():
    assert issubclass(PoissonGamma, dshdp.emissions.Family)
    model = build(poisson)
    term = TableTerm(model, model["y"], model["z"], L, PoissonGamma())
    point = random_point(model)
    np.testing.assert_array_equal(term(point), table_term(model, model["y"], model["z"], L)(point))
