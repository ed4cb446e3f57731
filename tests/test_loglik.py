"""The (T, L) table against the model's own log-density, on every layout of the design."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from models import FAST
from pymc.exceptions import SamplingError
from pymc.logprob.utils import ParameterValueError
from scipy import special, stats

import pymc_dshdp as dshdp
from pymc_dshdp.likelihood import table as loglik
from pymc_dshdp.likelihood.table import LogLikelihoodTable, terms_involving

L, T = 3, 9
RNG = np.random.default_rng(20)
Y = RNG.normal(size=T)
COUNTS = RNG.integers(0, 9, T)
CASES = {}
IN_NUMBA = [
    "poisson",
    "mv_normal_with_covariances",
    *(pytest.param(x, marks=pytest.mark.slow) for x in ("mixture_per_state", "cell_by_time")),
]


@pytest.fixture(autouse=True)
def without_compiling(request, monkeypatch):
    """Evaluate tables in Python, except in tests that ask for numba: compiling takes longest."""
    if "in_numba" not in request.fixturenames:
        compile_pymc = loglik.compile_pymc
        monkeypatch.setattr(
            loglik, "compile_pymc", lambda *args, mode, **kw: compile_pymc(*args, **FAST, **kw)
        )


@pytest.fixture
def in_numba():
    """Ask for tables compiled as they are in use."""


def case(build):
    CASES[build.__name__] = build
    return build


def states(**layout):
    prior = dshdp.DSHDP("hmm", n_states=L)
    return dshdp.HiddenStates("z", prior, **(layout or {"length": T}))


def means(*extra):
    return pm.Normal("mu", 0.0, 2.0, shape=(L, *extra))


@case
def direct():
    pm.Normal("y", means()[states()], 0.7, observed=Y)


@case
def poisson():
    pm.Poisson("y", pm.LogNormal("rate", 1.0, 1.0, shape=L)[states()], observed=COUNTS)


@case
def data_container():
    pm.Normal("y", means()[states()], 0.7, observed=pm.Data("data", Y))


@case
def data_container_of_another_dtype():
    rate = pm.LogNormal("rate", 1.0, 1.0, shape=L)
    pm.Poisson("y", rate[states()], observed=pm.Data("data", COUNTS.astype("int32")))


@case
def lagged():
    pm.Normal("y", means()[states()[1:]], 1.0, observed=Y[1:])


@case
def student_t():
    z = states()
    nu = pm.Exponential("nu", 0.1)
    sigma = pm.HalfNormal("sigma", shape=L)
    pm.StudentT("y", nu, mu=means()[z], sigma=sigma[z], observed=Y)


@case
def several_likelihoods():
    z, mu = states(), means()
    pm.Normal("a", mu[z], 1.0, observed=Y)
    pm.Poisson("b", pt.exp(mu[z[::2]]), observed=COUNTS[::2])
    pm.Bernoulli("c", logit_p=mu[z], observed=COUNTS > 4)


@case
def latent_between():
    x = pm.Normal("x", means()[states()], 1.0)
    pm.Poisson("y", pt.exp(x), observed=COUNTS)


@case
def elementwise_potential():
    pm.Potential("p", -((means()[states()] - Y) ** 2))


@case
def summed_potential():
    pm.Potential("p", pm.logp(pm.Normal.dist(means()[states()], 1.0), Y).sum())


@case
def times_by_a_matrix():
    rows = np.eye(T)[[7, 2, 2, 5]]
    pm.Normal("y", rows @ means()[states()], 1.0, observed=Y[:4])


@case
def products_of_rows():
    x = RNG.normal(size=(T, 2))
    mean = pt.einsum("td,td->t", x, means(2)[states()]) + pt.diag(pt.diag(np.ones(T)))
    pm.Normal("y", mean, 1.0, observed=Y)


@case
def first_time_has_no_state():
    mu = pt.set_subtensor(pt.zeros(T)[1:], means()[states()[1:]])
    pm.Normal("y", mu, 1.0, observed=Y)


@case
def members_of_each_time():
    """Which of a row of parameters applies is sampled; the time is not."""
    member = pm.Categorical("member", np.ones(2) / 2, shape=T)
    pm.Normal("y", means(2)[states()][np.arange(T), member], 1.0, observed=Y)


@case
def regression():
    z = states()
    x = np.linspace(-1.0, 1.0, T)
    x[4] = 0.0
    slope = pm.Normal("slope", shape=L)
    pm.Normal("y", means()[z] + slope[z] * x, 1.0, observed=Y)


@case
def slope_only_with_a_zero_regressor():
    x = np.linspace(-1.0, 1.0, T)
    x[4] = 0.0  # the element at time 4 does not depend on z
    pm.Normal("y", means()[states()] * x, 1.0, observed=Y)


@case
def mixture_per_state():
    w = pm.Dirichlet("w", np.ones(2), shape=(L, 2))
    parts = [pm.Poisson.dist(2.0), pm.Poisson.dist(8.0)]
    pm.Mixture("y", w=w[states()], comp_dists=parts, observed=COUNTS)


@case
def masked():
    data = np.ma.masked_array(Y, mask=np.isin(np.arange(T), [0, 3, 8]))
    with pytest.warns(pm.exceptions.ImputationWarning):
        pm.Normal("y", means()[states()], 1.0, observed=data)


@case
def indexed_times():
    seen = np.array([7, 2, 2, 5])
    pm.Normal("y", means()[states()[seen]], 1.0, observed=Y[:4])


@case
def trial_by_time():
    pm.Normal("y", means()[states(shape=(2, 5))], 1.0, observed=RNG.normal(size=(2, 5)))


@case
def trial_by_time_by_cell():
    z = states(shape=(2, 4))
    rate = pm.LogNormal("rate", 1.0, 1.0, shape=(L, 3))
    pm.Poisson("y", rate[z], observed=RNG.integers(0, 5, (2, 4, 3)))


@case
def cell_by_time():
    z = states()
    rate = pm.LogNormal("rate", 1.0, 1.0, shape=(2, L))
    pm.Poisson("y", rate[:, z], observed=RNG.integers(0, 5, (2, T)))


@case
def reversed_time():
    pm.Normal("y", means()[states()[::-1]], 1.0, observed=Y)


@case
def halved_states():
    pm.Normal("y", means()[states() // 2], 1.0, observed=Y)


@case
def zero_at_the_first_states():
    pm.Normal("y", means()[pt.maximum(states() - 1, 0)], 1.0, observed=Y)


@case
def uniform_support():
    w = pm.HalfNormal("w", 3.0, shape=L)
    pm.Uniform("y", 0.0, w[states()], observed=np.abs(Y))


@case
def zero_probability_categorical():
    p = np.array([[0.5, 0.5, 0.0], [0.0, 0.3, 0.7], [0.4, 0.0, 0.6]])
    pm.Categorical("y", pt.as_tensor(p)[states()], observed=COUNTS % 3)


@case
def one_state_alone_is_possible():
    p = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    pm.Categorical("y", pt.as_tensor(p)[states()], observed=COUNTS % 3)


@case
def mv_normal():
    z = states()
    pm.MvNormal(
        "y", means(2)[z], np.array([[1.0, 0.4], [0.4, 2.0]]), observed=RNG.normal(size=(T, 2))
    )


@case
def mv_normal_with_covariances():
    z = states()
    cov = pt.as_tensor(np.array([[[s, 0.3], [0.3, 1.0]] for s in (1.0, 2.0, 3.0)]))
    pm.MvNormal("y", means(2)[z], cov[z], observed=RNG.normal(size=(T, 2)))


@case
def multinomial():
    p = pm.Dirichlet("p", np.ones(4), shape=(L, 4))
    pm.Multinomial("y", 6, p[states()], observed=RNG.multinomial(6, np.full(4, 0.25), T))


@case
def ragged_sequences():
    pm.Normal("y", means()[states(lengths=[4, 5])], 1.0, observed=Y)


@case
def one_time_point():
    pm.Normal("y", means()[states(length=1)], 1.0, observed=Y[:1])


def built(name):
    with pm.Model() as model:
        CASES[name]()
    return model


def random_point(model, seed):
    rng = np.random.default_rng(seed)
    start = model.initial_point()
    return {
        name: value + 0.7 * rng.normal(size=value.shape)
        if value.dtype.kind == "f" and not name.startswith("hmm_")
        else value
        for name, value in start.items()
    }


def brute_force(model, point):
    """log density of all that involves z, as a function of the path (flattened)."""
    value = model.rvs_to_values[model["z"]]
    total = sum(graph.sum() for _, graph in terms_involving(model, model["z"]))
    names = [v.name for v in model.value_vars]
    function = pytensor.function(model.value_vars, total, on_unused_input="ignore", **FAST)
    shape = point[value.name].shape

    def call(path):
        values = {**point, value.name: path.reshape(shape).astype(value.dtype)}
        return float(function(*(values[name] for name in names)))

    return call


def assert_same_as_model(model, seed, table):
    """Every entry, and sums along random paths, against the model's own log-density."""
    point = random_point(model, seed)
    ell = table(point)
    n = ell.shape[0]
    assert ell.shape == (int(np.prod(point["z"].shape)), L)
    assert not np.isnan(ell).any()
    log_density = brute_force(model, point)
    possible = np.where(np.isfinite(ell), 1.0, 0.0)
    reference = np.array([np.flatnonzero(row)[0] for row in possible])
    at_reference = log_density(reference)
    assert np.isfinite(at_reference)
    times = np.arange(n)
    for t in times:
        for k in range(L):
            path = reference.copy()
            path[t] = k
            expected = log_density(path) - at_reference
            got = ell[t, k] - ell[t, reference[t]]
            assert got == pytest.approx(expected, rel=1e-7, abs=1e-7), (t, k)
    rng = np.random.default_rng(seed)
    for path in rng.integers(L, size=(20, n)):
        expected = log_density(path)
        if np.isfinite(expected):
            got = ell[times, path].sum() - ell[times, reference].sum()
            assert got == pytest.approx(expected - at_reference, rel=1e-7, abs=1e-7)
        else:
            assert ell[times, path].sum() == -np.inf


@pytest.mark.parametrize("name", CASES)
def test_table_is_the_models_log_density(name):
    model = built(name)
    table = LogLikelihoodTable(model, model["z"], L)
    for seed in range(2):
        assert_same_as_model(model, seed, table)


@pytest.mark.parametrize("name", IN_NUMBA)
def test_compiled_table_is_the_models_log_density(name, in_numba):
    model = built(name)
    assert_same_as_model(model, 4, LogLikelihoodTable(model, model["z"], L))


def test_absolute_values():
    model = built("direct")
    point = random_point(model, 1)
    table = LogLikelihoodTable(model, model["z"], L)(point)
    expected = stats.norm(point["mu"], 0.7).logpdf(Y[:, None])
    np.testing.assert_allclose(table, expected, rtol=1e-12)


def test_impossible_states_are_minus_infinity():
    model = built("zero_probability_categorical")
    table = LogLikelihoodTable(model, model["z"], L)(model.initial_point())
    p = np.array([[0.5, 0.5, 0.0], [0.0, 0.3, 0.7], [0.4, 0.0, 0.6]])
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(table, np.log(p[:, COUNTS % 3].T))


def test_times_without_data_have_rows_of_zeros():
    model = built("indexed_times")
    table = LogLikelihoodTable(model, model["z"], L)(random_point(model, 0))
    np.testing.assert_array_equal(table[[0, 1, 3, 4, 6, 8]], 0.0)
    assert np.all(table[[2, 5, 7]] != 0.0)


def test_terms_are_found_in_the_graph():
    model = built("latent_between")
    assert [v.name for v, _ in terms_involving(model, model["z"])] == ["x"]
    model = built("several_likelihoods")
    assert [v.name for v, _ in terms_involving(model, model["z"])] == ["a", "b", "c"]


def test_variables_may_be_left_out():
    model = built("several_likelihoods")
    table = LogLikelihoodTable(model, model["z"], L, without={model["b"], model["c"]})
    point = random_point(model, 1)
    assert table.names == ["a"]
    expected = stats.norm(point["mu"], 1.0).logpdf(Y[:, None])
    np.testing.assert_allclose(table(point), expected)


def test_table_follows_the_data():
    model = built("data_container")
    table = LogLikelihoodTable(model, model["z"], L)
    with model:
        pm.set_data({"data": Y + 1.0})
    point = random_point(model, 1)
    expected = stats.norm(point["mu"], 0.7).logpdf(Y[:, None] + 1.0)
    np.testing.assert_allclose(table(point), expected)


@pytest.mark.parametrize("name", ["direct", "trial_by_time_by_cell", "multinomial", "cell_by_time"])
def test_chunks_of_states_give_the_same_table(name, monkeypatch):
    monkeypatch.setattr(loglik, "table_term", lambda *_: None)
    model = built(name)
    point = random_point(model, 3)
    whole = LogLikelihoodTable(model, model["z"], L)
    monkeypatch.setattr(loglik, "CHUNK_BYTES", 1.0)
    chunked = LogLikelihoodTable(model, model["z"], L)
    assert whole._chunk >= L and chunked._chunk == 1
    np.testing.assert_array_equal(chunked(point), whole(point))


@pytest.mark.parametrize("name", ["direct", "trial_by_time_by_cell", "several_likelihoods"])
def test_state_by_state_gives_the_same_table(name, monkeypatch):
    monkeypatch.setattr(loglik, "table_term", lambda *_: None)
    model = built(name)
    point = random_point(model, 3)
    batched = LogLikelihoodTable(model, model["z"], L)
    assert batched._batched

    def refuse(*args, **kwargs):
        raise NotImplementedError("no vectorization")

    monkeypatch.setattr(loglik, "vectorize_graph", refuse)
    one_by_one = LogLikelihoodTable(model, model["z"], L)
    assert not one_by_one._batched
    np.testing.assert_allclose(one_by_one(point), batched(point), rtol=1e-12)


# -- what cannot be a table ---------------------------------------------------------------------


def cumulative_sum(n):
    pm.Normal("y", pt.cumsum(means()[states(length=n)]), 1.0, observed=np.zeros(n))


def pairs(n):
    z = states(length=n)
    pm.Normal("y", means(L)[z[1:], z[:-1]], 1.0, observed=np.zeros(n - 1))


def sum_of_neighbours(n):
    mu, z = means(), states(length=n)
    pm.Normal("y", mu[z[1:]] + mu[z[:-1]], 1.0, observed=np.zeros(n - 1))


def number_of_visits(n):
    pm.Normal("y", pt.eq(states(length=n), 2).sum() + means()[0], 1.0, observed=0.3)


@pytest.mark.parametrize("n", [7, 9])
@pytest.mark.parametrize("build", [cumulative_sum, pairs, sum_of_neighbours, number_of_visits])
def test_coupled_times_are_refused_by_name(build, n):
    with pm.Model() as model:
        build(n)
    with pytest.raises(ValueError, match=r"'y' couples the states 'z' at several times"):
        LogLikelihoodTable(model, model["z"], L)


def test_nothing_depends_on_the_states():
    with pm.Model() as model:
        states()
        pm.Normal("y", means(), 1.0, observed=np.zeros(L))
    with pytest.warns(UserWarning, match="No likelihood depends on 'z': its prior is sampled"):
        table = LogLikelihoodTable(model, model["z"], L)
    assert table.names == []
    np.testing.assert_array_equal(table(model.initial_point()), np.zeros((T, L)))


@pytest.mark.parametrize("shape", [(T,), (2, 5)])
def test_unmasked_nan_is_refused_by_position(shape):
    data = np.ones(shape)
    with pm.Model() as model:
        container = pm.Data("data", data)
        pm.Normal("y", means()[states(shape=shape)], 1.0, observed=container)
    data[(6,) if len(shape) == 1 else (1, 3)] = np.nan
    container.set_value(data)
    position = r"\(6,\)" if len(shape) == 1 else r"\(1, 3\)"
    with pytest.raises(ValueError, match=rf"'y' has NaN at position {position}.*masked_invalid"):
        LogLikelihoodTable(model, model["z"], L)


def test_an_element_may_come_to_depend_on_the_states():
    with pm.Model() as model:
        z, mu = states(), means()
        on = pm.Normal("on")
        pm.Potential("y", pt.switch(on > 50.0, mu[z], 0.0))
    table = LogLikelihoodTable(model, model["z"], L)
    point = random_point(model, 0)
    np.testing.assert_array_equal(table(point), 0.0)
    at = {**point, "on": np.array(60.0)}
    np.testing.assert_array_equal(table(at), np.tile(point["mu"], (T, 1)))


def test_an_impossible_element_without_a_time_is_an_error():
    with pm.Model() as model:
        rate = pt.set_subtensor(pt.ones(T)[1:], pm.HalfNormal("rate", shape=L)[states()[1:]])
        pm.Truncated(
            "y", pm.Exponential.dist(rate), lower=0.0, upper=9.0, observed=np.arange(T) - 1
        )
    table = LogLikelihoodTable(model, model["z"], L)
    with pytest.raises(SamplingError, match="Element 0 of the log-density of y is -inf"):
        table(model.initial_point())


# -- couplings that no value at hand shows --------------------------------------------------------


def sampled_delay(z):
    lag = pm.DiscreteUniform("lag", 0, 3)
    n = z.type.shape[0]
    pm.Normal("y", means()[z[pt.clip(np.arange(n) - lag, 0, n - 1)]], 0.7, observed=np.zeros(n))


def one_pair_of_states(z):
    delta = np.zeros((L, L))
    delta[1, 2] = 5.0
    mean = pt.constant(np.arange(3.0))[z[1:]] + pt.constant(delta)[z[:-1], z[1:]]
    pm.Normal("y", mean, 0.5, observed=np.linspace(-1.0, 1.0, z.type.shape[0] - 1))


def switched_on_by_a_parameter(z):
    b, mu = pm.Normal("b"), means()
    mean = mu[z[1:]] + pt.switch(b > 8.0, mu[z[:-1]], 0.0)
    pm.Normal("y", mean, 1.0, observed=np.zeros(z.type.shape[0] - 1))


def forbidden_transition(z):
    pm.Potential("y", pt.switch(pt.eq(z[:-1], 1) & pt.eq(z[1:], 2), -1000.0, 0.0))


def states_of_other_states(z):
    other = dshdp.HiddenStates("other", dshdp.DSHDP("of_other", n_states=L), length=T)
    pm.Normal("y", means()[z[other]], 1.0, observed=np.zeros(T))


def parameters_of_the_state_at_one_time(z):
    pm.Normal("y", means(L)[z][:, z[0]], 1.0, observed=np.zeros(z.type.shape[0]))


def number_of_times(z):
    pm.Potential("y", means()[z[z.sum() :]])


def turned_by_a_sampled_number(z):
    mean = pt.roll(means()[z], pm.DiscreteUniform("lag", 0, 3))
    pm.Normal("y", mean, 1.0, observed=np.zeros(z.type.shape[0]))


HIDDEN = {
    sampled_delay: "which of them it reads is set by 'lag', which is sampled",
    one_pair_of_states: r"\[z\[:-1\], z\[1:\]\]",
    switched_on_by_a_parameter: r"mu\[z\[1:\]\] \+ Switch\(Gt\(b, \[8.\]\), mu\[z\[:-1\]\]",
    forbidden_transition: r"And\(Eq\(z\[:-1\], \[?1\]?\), Eq\(z\[1:\], \[?2\]?\)\)",
    states_of_other_states: "is set by 'other', which is sampled",
    parameters_of_the_state_at_one_time: r"mu\[z\]\[:, .*z\[0\]",
    turned_by_a_sampled_number: r"the shape of mu\[z\].* depends on 'lag'",
    number_of_times: r"the shape of z\[.*sum\(z.*depends on the states",
}


@pytest.mark.parametrize("n", [5, 20])
@pytest.mark.parametrize("build", HIDDEN)
def test_hidden_couplings_are_refused_with_the_expression(build, n):
    """At so few times that random paths seldom show the coupling, or at values that never do."""
    if build is states_of_other_states:
        n = T
    with pm.Model() as model:
        build(states(length=n))
    message = rf"'y' couples the states 'z' at several times.*{HIDDEN[build]}"
    with pytest.raises(ValueError, match=message):
        LogLikelihoodTable(model, model["z"], L)


# -- parameters outside their support --------------------------------------------------------------


@pytest.mark.parametrize("likelihood", [pm.NegativeBinomial, pm.Poisson])
def test_a_parameter_is_checked_at_each_time(likelihood):
    """PyMC makes all elements impossible where one is: the path alone that has it is."""
    x = np.linspace(-1.0, 1.0, T)
    other = {"alpha": 2.0} if likelihood is pm.NegativeBinomial else {}
    with pm.Model() as model:
        z = states()
        a, b = pm.Normal("a", shape=L), pm.Normal("b", shape=L)
        likelihood("y", mu=a[z] + b[z] * x, observed=COUNTS, **other)
    point = {**model.initial_point(), "a": np.array([1.0, 0.5, 2.0]), "b": np.array([0.1, 0.9, 0])}
    table = LogLikelihoodTable(model, model["z"], L)(point)
    expected = point["a"] + np.outer(x, point["b"]) >= 0
    assert not expected.all() and expected[:, 1].any()
    np.testing.assert_array_equal(np.isfinite(table), expected)
    log_density = brute_force(model, point)
    for path in RNG.integers(L, size=(20, T)):
        if expected[np.arange(T), path].all():
            assert log_density(path) == pytest.approx(table[np.arange(T), path].sum())
        else:
            with pytest.raises(ParameterValueError):
                log_density(path)


def test_a_part_that_is_taken_away_at_all_times_is_an_error():
    """PyMC drops a component of a mixture everywhere if its parameter is wrong at one time."""
    with pm.Model() as model:
        z = states()
        rate = pm.Normal("rate", 3.0, shape=L)
        parts = [pm.Poisson.dist(rate[z]), pm.Poisson.dist(8.0)]
        pm.Mixture("y", w=[0.5, 0.5], comp_dists=parts, observed=COUNTS)
    table = LogLikelihoodTable(model, model["z"], L)
    assert np.isfinite(table({**model.initial_point(), "rate": np.ones(L)})).all()
    with pytest.raises(SamplingError, match=r"part of y, .*stays inside, as with pt\.exp"):
        table({**model.initial_point(), "rate": np.array([1.0, -1.0, 2.0])})


# -- data that say which element belongs to which time --------------------------------------------


def test_times_read_from_data_may_not_be_replaced_later():
    with pm.Model() as model:
        seen = pm.Data("seen", np.array([7, 2, 2, 5], "int32"))
        pm.Normal("y", means()[states()[seen]], 1.0, observed=Y[:4])
    table = LogLikelihoodTable(model, model["z"], L)
    point = random_point(model, 0)
    first = table(point)
    seen.set_value(np.array([7, 2, 2, 5], "int32"))
    np.testing.assert_array_equal(table(point), first)
    seen.set_value(np.array([7, 3, 2, 5], "int32"))
    with pytest.raises(SamplingError, match="'seen', which says which element of y belongs"):
        table(point)
    assert LogLikelihoodTable(model, model["z"], L)(point)[3].any()


def test_times_may_be_read_from_shapes_of_what_is_sampled():
    """The length is data's, and the axis of a softmax is counted from the shape of logits."""
    y = np.arange(T, dtype="int32") % L
    with pm.Model() as model:
        seen = pm.Data("seen", y)
        z = states(length=seen.shape[0])
        pm.Categorical("y", logit_p=pm.Normal("logit_p", shape=(L, L))[z], observed=seen)
    table, point = LogLikelihoodTable(model, model["z"], L), random_point(model, 0)
    expected = special.log_softmax(point["logit_p"], axis=1)[:, y].T
    np.testing.assert_allclose(table(point), expected, atol=1e-12)
    seen.set_value(y[1:])
    with pytest.raises(SamplingError, match="'seen', which says which element of y belongs"):
        table(point)


def test_labelled_dimensions_give_the_same_table():
    dims = pytest.importorskip("pymc.dims")
    with pm.Model(coords={"state": range(L), "time": range(T)}) as model:
        z = dims.as_xtensor(states(dims="time"), dims=("time",))
        mu = dims.Normal("mu", 0.0, 2.0, dims="state")
        y = dims.as_xtensor(Y, dims=("time",))
        dims.StudentT("y", 3.0, mu.isel(state=z), 0.7, observed=y)
    point = random_point(model, 1)
    table = LogLikelihoodTable(model, model["z"], L)
    assert table._batched
    expected = stats.t(3.0, point["mu"], 0.7).logpdf(Y[:, None])
    np.testing.assert_allclose(table(point), expected, rtol=1e-7)


def test_features_follow_the_times():
    model = built("indexed_times")
    features = LogLikelihoodTable(model, model["z"], L).features()
    assert features.shape == (T, 1)
    assert np.array_equal(np.flatnonzero(np.isfinite(features[:, 0])), [2, 5, 7])
    model = built("trial_by_time_by_cell")
    features = LogLikelihoodTable(model, model["z"], L).features()
    assert features.shape == (8, 3) and np.isfinite(features).all()
