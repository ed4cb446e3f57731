"""The metric of ConditionalNUTS that is a function of the states, and what it leaves out."""

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from models import FAST, needs_fork, posterior, sample
from pymc.step_methods.compound import CompoundStep
from reference import monte_carlo_error
from scipy import stats

import pymc_dshdp as dshdp
from pymc_dshdp._compat import begin_chain
from pymc_dshdp.graph.gathers import states_that_read
from pymc_dshdp.graph.prior_draws import PriorDraw, has_own_transform
from pymc_dshdp.likelihood.conditional import ConditionalTerm, find_conditional
from pymc_dshdp.likelihood.membership import find_membership
from pymc_dshdp.steps.metric import Block, StateMetric, fit
from pymc_dshdp.steps.nuts import _terms
from pymc_dshdp.transitions import find_transitions

PATH = np.array([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0])
Y = np.array([0.3, -0.2, 0.5, 1.0, -1.3, 0.5, 1.0, 0.8, 0.5, -1.0, 0.1, -0.6])
STATES = 4


def states(n_states=STATES):
    return dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=n_states), length=len(Y))


def membership_of(model):
    """Tables by name of which element of a variable which state uses; names of the coupled."""
    found = find_membership(model, find_transitions(model), _terms(model), model.initial_point())
    uses = {model.values_to_rvs[value].name: table for value, table in found.uses.items()}
    return uses, {model.values_to_rvs[value].name for value in found.coupled}


# -- who uses what ------------------------------------------------------------------------------


def test_elements_are_assigned_by_what_the_likelihood_uses():
    """Fails if the first axis of a shape decides."""
    with pm.Model() as model:
        z = states()
        rows = pm.Normal("rows", shape=(STATES, 2))
        scalars = [pm.Normal(f"scalar_{k}") for k in range(STATES)]
        steps = pm.HalfNormal("steps", shape=STATES)
        shared = pm.HalfNormal("shared")
        transposed = pm.Normal("transposed", shape=(3, STATES))
        pm.Normal("apart", shape=STATES)
        free = pm.Normal("free", shape=STATES - 1)
        offset = pt.concatenate([[0.0], free])
        mean = rows[z].sum(-1) + pt.stack(scalars)[z] + pt.cumsum(steps)[z] + offset[z]
        pm.Normal("y", mean + transposed[:, z].sum(0), shared, observed=Y)
    eye = np.eye(STATES, dtype=bool)
    expected = {
        "rows": np.repeat(eye, 2, axis=0),
        "steps": np.tril(np.ones((STATES, STATES), bool)).T,
        "shared": np.ones((1, STATES), bool),
        "transposed": np.tile(eye, (3, 1)),
        "free": eye[1:],
        "scalar_2": eye[2:3],
    }
    uses, coupled = membership_of(model)
    for name, table in expected.items():
        np.testing.assert_array_equal(uses[name], table, err_msg=name)
    assert "apart" not in uses
    assert coupled == {"hmm_pi_init", "hmm_pi_bar"}


def test_what_two_paths_share():
    """Fails if a term of two paths is taken for a term of one."""
    with pm.Model() as model:
        prior = dshdp.FixedTransitions("hmm", n_states=3)
        one = dshdp.HiddenStates("one", prior, length=12)
        two = dshdp.HiddenStates("two", prior, length=12)
        mean = pm.Normal("mean", shape=3)
        both = pm.Normal("both", shape=(3, 3))
        pm.Normal("y_one", mean[one], observed=Y)
        pm.Normal("y_two", mean[two] + both[one, two], observed=Y)
    uses, coupled = membership_of(model)
    assert {"mean", "both"} < coupled
    np.testing.assert_array_equal(uses["mean"], np.eye(3, dtype=bool))


def vacant_of(model, names):
    with model:
        step = dshdp.ConditionalNUTS([model[n] for n in names], compile_kwargs=FAST)
    return {v.name for v in step._vacant.values}


def test_which_parameters_are_summed_out():
    """Fails if one that another term needs, or with a transform of one's own, were."""
    with pm.Model() as model:
        z = states()
        centre = pm.Normal("centre")
        a = pm.Normal("a", centre, 1.0, shape=STATES)
        b = pm.Normal("b", shape=STATES)
        pm.Normal("needs_b", b, 1.0, shape=STATES)
        c = pm.Normal("c", shape=STATES, transform=pm.distributions.transforms.Interval(-3, 3))
        e = pm.Normal("e", shape=STATES)
        pm.Potential("needs_e", -(e.sum() ** 2))
        f = pm.Dirichlet("f", np.ones(3), shape=(STATES, 3))
        g = pm.Flat("g", shape=STATES)
        mean = a[z] + b[z] + c[z] + e[z] + f[z][:, 0] + g[z]
        pm.Normal("y", mean, pm.HalfNormal("s", shape=STATES)[z], observed=Y)
    names = ["centre", "a", "b", "needs_b", "c", "e", "f", "g", "s"]
    assert vacant_of(model, names) == {"a", "f_simplex__", "s_log__"}
    assert vacant_of(model, ["centre"]) == {"a"}  # which another step draws
    assert vacant_of(model, ["e"]) == set()


def test_states_that_read_an_element_are_proved():
    """Fails if a row is merged with another, or an index is taken for states that is not."""
    T, L = len(Y), 3
    x = np.linspace(-1.0, 1.0, T)
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=L), length=T)
        plain = pm.HalfNormal("plain", shape=L)
        rows = pm.Normal("rows", shape=(L, 2))
        scalars = [pm.Normal(f"scalar_{k}") for k in range(L)]
        free = pm.Normal("free", shape=L - 1)
        steps = pm.HalfNormal("steps", shape=L)
        neighbour = pm.Normal("neighbour", shape=L)
        chosen = pm.Normal("chosen")
        pairs = pm.Normal("pairs", shape=(L, L))
        lagged = pm.Normal("lagged", shape=L)
        normed = pm.Normal("normed", shape=L)
        mean = plain[z] ** 2 + (np.stack([x, x**2], axis=1) @ rows.T)[np.arange(T), z]
        mean += pt.stack(scalars)[z] + pt.concatenate([[0.0], free])[z] + pt.cumsum(steps)[z]
        mean += neighbour[z - 1] + pt.switch(pt.eq(z, 1), chosen, 0.0)
        mean += (normed / normed.sum())[z]
        mean += pt.concatenate([[0.0], lagged[z[1:]] + pairs[z[1:], z[:-1]]])
        pm.Normal("y", mean, 1.0, observed=Y)
    [(_, graph)] = [(v, g) for v, g in _terms(model) if v is model["y"]]
    start, z = model.initial_point(), model.rvs_to_values[z]
    eye, every = np.eye(L, dtype=bool), np.ones((L, L), bool)
    expected = {
        "plain": eye,
        "rows": np.repeat(eye, 2, axis=0),
        "scalar_1": eye[1:2],
        "free": eye[1:],
        "steps": every,
        "neighbour": every,
        "chosen": every[:1],
        "pairs": np.repeat(eye, L, axis=0),
        "lagged": eye,
        "normed": every,
    }
    for name, table in expected.items():
        found = states_that_read(graph, model.rvs_to_values[model[name]], z, L, start)
        np.testing.assert_array_equal(found, table, err_msg=name)


def beyond(theta, z):
    """A likelihood that reads the next state's parameter where that is beyond what is probed."""
    return pt.switch(pt.gt(pt.roll(theta, -1), 50.0), 1.0, 0.0)[z]


def test_what_no_probe_shows_is_not_summed_out():
    """Fails if who reads what is inferred from gradients at some points."""
    with pm.Model() as model:
        z = states()
        theta = pm.Normal("theta", 0.0, 100.0, shape=STATES)
        pm.Normal("y", theta[z] + beyond(theta, z), 1.0, observed=Y)
    uses, _ = membership_of(model)
    eye = np.eye(STATES, dtype=bool)
    np.testing.assert_array_equal(uses["theta"], eye)  # it is fooled
    with model:
        step = dshdp.ConditionalNUTS([theta], compile_kwargs=FAST)
    kept = step._vacant.kept_by(step.vars[0], STATES)
    np.testing.assert_array_equal(kept, eye | np.roll(eye, 1, axis=0))


def test_cut_off_priors_are_not_drawn_from():
    """Draws of the Normal leave the interval about once in 400."""
    with pm.Model() as model:
        z = states()
        cut = pm.Normal("cut", shape=STATES, transform=pm.distributions.transforms.Interval(-3, 3))
        pm.Normal("y", cut[z], 1.0, observed=Y)
    assert not has_own_transform(model, cut, np.zeros(STATES))
    match = find_conditional(model, cut)
    assert ConditionalTerm(model, match, model.initial_point())._draw is None


def test_units_move_among_the_values_that_draws_have():
    """Half the draws of Gamma(0.001, 0.001) round to 0; fails if others than these are moved."""
    with pm.Model() as model:
        x = pm.Gamma("x", 1e-3, 1e-3, shape=3)
    draw = PriorDraw(model, x)
    point = {"x_log__": np.array([0.0, -2000.0, 1.0])}
    where = np.array([True, True, False])
    rng = np.random.default_rng(1)
    new = np.array([draw.renewed(point, rng, 3, where)[:, 0] for _ in range(400)])
    assert (new[:, 1] == -2000.0).all()
    assert (new[:, 2] == 1.0).all()
    assert np.isfinite(new).all()
    stayed = (new[:, 0] == 0.0).mean()
    assert abs(stayed - np.exp(1e-3 * (np.log(5e-324) - np.log(1e3)))) < 0.1


def test_priors_with_loops_inside_are_drawn_from():
    """A correlation of LKJ has variance 1 / (2 eta + n - 1); fails if draws share a stream."""
    with pm.Model() as model:
        size = pm.HalfNormal.dist(1.0, shape=3)
        pm.LKJCholeskyCov("factor", n=3, eta=2.0, sd_dist=size, compute_corr=False)
    [factor] = model.free_RVs
    draw, rng = PriorDraw(model, factor), np.random.default_rng(1)
    assert has_own_transform(model, factor, np.zeros(6))
    drawn = np.array([draw({}, rng) for _ in range(400)])
    first, second = np.exp(drawn[:, 0]), np.hypot(drawn[:, 1], np.exp(drawn[:, 2]))
    correlation = drawn[:, 1] / second
    assert abs(correlation.var() - 1.0 / 6.0) < 0.05
    assert abs(np.corrcoef(correlation[1:], correlation[:-1])[0, 1]) < 0.2
    for scale in (first, second):
        assert stats.kstest(scale, stats.halfnorm.cdf).pvalue > 0.001


def test_priors_made_of_distributions_are_drawn_with_the_generator_given():
    """Fails if the draws of a component have a stream of their own: no seed gives them again."""
    with pm.Model() as model:
        a = pm.HalfNormal("a", 2.0)
        pm.Beta("twice", a, a, shape=2)
        pm.LKJCholeskyCov("factor", 1.0, 2, sd_dist=pm.Exponential.dist(a), compute_corr=False)
        pm.Mixture("mixture", [0.5, 0.5], [pm.Normal.dist(-9, 1), pm.Normal.dist(9, a)], shape=3)
    for rv in model.free_RVs[1:]:
        point = {"a_log__": np.array(0.3)}
        once, again = (PriorDraw(model, rv)(point, np.random.default_rng(1)) for _ in range(2))
        np.testing.assert_array_equal(once, again)
        assert not np.array_equal(once, PriorDraw(model, rv)(point, np.random.default_rng(2)))


# -- what is learnt -----------------------------------------------------------------------------


def test_fit_finds_the_precisions():
    """Mutation: leave out the statistic's factor of the mean."""
    rng = np.random.default_rng(1)
    A, B = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([[0.5, 0.3], [0.3, 0.4]])
    n = rng.integers(0, 60, size=(300, 5, 1)).astype(float)
    P = A + n[..., None] * B
    g = np.einsum("nkij,nkj->nki", np.linalg.cholesky(P), rng.normal(size=(300, 5, 2)))
    parts = np.tile(np.eye(2), (2, 1, 1, 1))
    active = np.ones((300, 5, 1), bool)
    for _ in range(5):
        parts = fit(parts, g[:, :, None], n, active, 3.0)
    np.testing.assert_allclose(parts[1, 0], B, rtol=0.25)
    np.testing.assert_allclose(parts[0, 0], A, atol=1.0)
    assert np.linalg.eigvalsh(parts).min() > 0.0


@pytest.mark.parametrize("shape", [(3, 2, 1), (3, 1, 2)])
def test_energy_velocity_and_momenta_agree(shape):
    """Fails if momenta have another covariance than the metric, or move what is not active."""
    block = Block(np.arange(6).reshape(shape), 1)
    metric = StateMetric([block], 6, rng=np.random.default_rng(2))
    root = np.random.default_rng(3).normal(size=metric.parts[0].shape)
    metric.parts = [root @ root.swapaxes(-1, -2)]
    active = np.arange(6) >= 2
    metric.at([np.array([[0.0], [5.0], [50.0]])], active)
    momenta = np.array([metric.random() for _ in range(4000)])
    assert not momenta[:, :2].any()
    velocity = np.array([metric.velocity(p) for p in momenta])
    assert not velocity[:, :2].any()
    out = np.empty(6)
    assert metric.velocity_energy(momenta[0], out) == metric.energy(momenta[0])
    np.testing.assert_array_equal(out, velocity[0])
    np.testing.assert_allclose(momenta.T @ velocity / 4000, np.diag(active * 1.0), atol=0.1)


@pytest.mark.parametrize("shape", [(3, 2, 1), (3, 1, 2)])
@pytest.mark.filterwarnings("error")
def test_a_momentum_that_is_infinite_diverges_quietly(shape):
    """PyMC ends the trajectory where the energy is not a number; nobody is to read of it."""
    metric = StateMetric([Block(np.arange(6).reshape(shape), 1)], 6)
    metric.at([np.array([[0.0], [5.0], [50.0]])], np.arange(6) >= 2)
    momentum = np.ones(6)
    momentum[[0, 3]] = np.inf
    assert not np.isfinite(metric.velocity(momentum)).all()


# -- exactness ----------------------------------------------------------------------------------


def scale_model():
    """A scale for each of four states, of which two are empty, and a scale of these."""
    with pm.Model() as model:
        z = states()
        tau = pm.Gamma("tau", 3.0, 3.0)
        sigma = pm.HalfNormal("sigma", tau, shape=STATES)
        pm.Normal("y", 0.0, sigma[z], observed=Y)
    return model


def quadrature():
    """Posterior means of log tau and log sigma by sums over a grid."""
    tau, sigma = np.exp(np.linspace(-4, 3, 400)), np.exp(np.linspace(-6, 5, 800))
    prior = stats.halfnorm(scale=tau[:, None]).pdf(sigma) * sigma
    weight = stats.gamma(3.0, scale=1.0 / 3.0).pdf(tau) * tau
    inner, logs = [], []
    for k in range(STATES):
        y = Y[k == PATH]
        joint = prior * np.exp(stats.norm(0.0, sigma).logpdf(y[:, None]).sum(axis=0))
        inner.append(joint.sum(axis=1))
        logs.append(joint @ np.log(sigma) / joint.sum(axis=1))
    weight = weight * np.prod(inner, axis=0)
    weight /= weight.sum()
    return weight @ np.log(tau), [weight @ x for x in logs], weight @ (np.log(tau) * logs[3])


@pytest.fixture(scope="module")
def scales():
    """A step of ``scale_model`` after tuning, and a point."""
    model = scale_model()
    with model:
        step = dshdp.ConditionalNUTS(
            [model["tau"], model["sigma"]], compile_kwargs={"mode": "NUMBA"}
        )
    begin_chain(step, np.random.default_rng(5), 130, 4_000)
    point = {**model.initial_point(), "z": PATH.astype("int8")}
    for _ in range(130):
        point, _ = step.step(point)
    step.stop_tuning()
    return step, point


def chain(step, point, n):
    out = []
    for _ in range(n):
        point, _ = step.step(point)
        out.append([point["tau_log__"], *point["sigma_log__"]])
    return np.array(out, float)


def test_draws_follow_the_exact_posterior(scales):
    """Mutations: the metric looks at sigma; empty states keep their parameters, or their tau."""
    step, point = scales
    draws = chain(step, point, 4_000)
    log_tau, log_sigma, product = quadrature()
    expected = [log_tau, *log_sigma, product]
    found = np.column_stack([draws, draws[:, 0] * draws[:, 4]])
    for x, value in zip(found.T, expected, strict=True):
        assert abs(x.mean() - value) < 4.0 * monte_carlo_error(x)
    given_tau = draws[:, 3:] - draws[:, :1]  # of empty states: independent of all that was before
    correlations = [np.corrcoef(x[1:], x[:-1])[0, 1] for x in given_tau.T]
    assert np.abs(correlations).max() < 4.5 / np.sqrt(len(draws))


def test_metric_is_a_function_of_the_states_alone(scales):
    """Fails if it changes after tuning, or with the parameters."""
    step, point = scales
    step.step(point)
    before = step.potential._variance.copy(), [p.copy() for p in step.potential.parts]
    moved = {**point, "sigma_log__": point["sigma_log__"] + 1.0, "tau_log__": np.array(0.7)}
    step.step(moved)
    after = step.potential._variance, step.potential.parts
    for a, b in zip([before[0], *before[1]], [after[0], *after[1]], strict=True):
        np.testing.assert_array_equal(a, b)
    step.step({**point, "z": np.zeros_like(point["z"])})
    assert not np.array_equal(step.potential._variance, before[0])


def test_restored_state_repeats_the_draws(scales):
    """While the metric is being learnt; fails if what it has seen is not in the state."""
    step, point = scales
    kept = step.sampling_state
    step.reset_tuning()
    chain(step, point, 12)
    state = step.sampling_state
    first = chain(step, point, 30)
    after = step.sampling_state
    step.sampling_state = cloudpickle.loads(cloudpickle.dumps(state))
    np.testing.assert_array_equal(chain(step, point, 30), first)
    assert str(step.sampling_state) == str(after)
    step.sampling_state = kept


def test_parameters_of_other_steps_are_redrawn(scales):
    """Fails if the point it was given changes, or what is occupied."""
    model = scale_model()
    with model:
        step = dshdp.ConditionalNUTS([model["tau"]], compile_kwargs=FAST)
    point = {**model.initial_point(), "z": PATH.astype("int8")}
    before = {name: x.copy() for name, x in point.items()}
    after, _ = CompoundStep([step]).step(point)
    for name, x in before.items():
        np.testing.assert_array_equal(point[name], x)
    np.testing.assert_array_equal(after["sigma_log__"][:2], point["sigma_log__"][:2])
    assert (after["sigma_log__"][2:] != point["sigma_log__"][2:]).all()


def location_and_scale():
    """A mean and a scale of each of four states: eleven times in one, one in another."""
    with pm.Model() as model:
        z = states()
        mu = pm.Normal("mu", 0.0, 1.0, shape=STATES)
        sigma = pm.HalfNormal("sigma", 1.0, shape=STATES)
        pm.Normal("y", mu[z], sigma[z], observed=Y)
        step = dshdp.ConditionalNUTS([mu, sigma], compile_kwargs={"mode": "NUMBA"})
    point = {**model.initial_point(), "z": PATH.astype("int8")}
    begin_chain(step, np.random.default_rng(5), 300, 3_000)
    for _ in range(300):
        point, _ = step.step(point)
    step.stop_tuning()
    return step, point


def moments_of_location_and_scale(y):
    """Means of mu, mu^2, log sigma, its square and |mu - mean(y)| < .3 sigma: sums over a grid."""
    log_sigma = np.linspace(-15.0, 4.0, 4_000)
    sigma, normal = np.exp(log_sigma), stats.norm
    v = 1.0 / (1.0 + len(y) / sigma**2)
    m = v * y.sum() / sigma**2
    weight = stats.halfnorm.logpdf(sigma) + log_sigma + normal.logpdf(m) + 0.5 * np.log(v)
    weight += sum(normal(m, sigma).logpdf(one) for one in y)
    weight = np.exp(weight - weight.max())
    near = normal(m, np.sqrt(v)).cdf([y.mean() - 0.3 * sigma, y.mean() + 0.3 * sigma])
    functions = np.array([m, m**2 + v, log_sigma, log_sigma**2, near[1] - near[0]])
    return functions @ weight / weight.sum()


def test_states_of_few_times_are_sliced_exactly():
    """Mutations: a number does not see those before it; the whole first interval is the slice."""
    step, point = location_and_scale()
    draws, diverged = [], 0
    for _ in range(3_000):
        point, [found] = step.step(point)
        diverged += found["diverging"]
        draws.append(np.r_[point["mu"], point["sigma_log__"]])
    draws = np.array(draws)
    for k in (0, 1):
        y, mu, log_sigma = Y[k == PATH], draws[:, k], draws[:, STATES + k]
        near = 1.0 * (np.abs(mu - y.mean()) < 0.3 * np.exp(log_sigma))
        found = [mu, mu**2, log_sigma, log_sigma**2, near]
        for x, expected in zip(found, moments_of_location_and_scale(y), strict=True):
            assert abs(x.mean() - expected) < 4.0 * monte_carlo_error(x)
    assert diverged == 0


def test_the_trajectory_leaves_states_of_few_times_alone():
    """Fails if they move with the others, or if there is no end of what is few."""
    step, point = location_and_scale()
    step.step(point)
    on = step.potential._variance > 0.0
    for index, covariance, _ in step.potential._dense:
        on[index] = np.diagonal(covariance, axis1=-2, axis2=-1) > 0.0
    np.testing.assert_array_equal(on, np.tile([True, False, False, False], 2))


def test_nothing_is_learnt_where_nothing_moves():
    """Fails if the acceptance of 1 of a trajectory of no numbers makes the step size grow."""
    step, point = location_and_scale()
    path = np.resize(np.arange(STATES), len(Y)).astype("int8")  # three times each: all few
    step.tune = True
    before = step.step_adapt._log_step
    for _ in range(20):
        point, [found] = step.step({**point, "z": path})
        assert found["energy_error"] == 0.0
    assert step.step_adapt._log_step == before
    assert step.adapt_step_size


@pytest.mark.slow
@pytest.mark.parametrize("start", [pytest.param("fork", marks=needs_fork), "spawn"])
def test_sequential_and_parallel_chains_agree(start):
    """Fails if what is summed out, or learnt, is not that of the process."""
    model = scale_model()

    def draws(**kwargs):
        with model:
            steps = [
                dshdp.WeakLimitFFBS([model["z"]]),
                dshdp.ConditionalNUTS([model["tau"], model["sigma"]], compile_kwargs=FAST),
            ]
        return posterior(sample(model, step=steps, draws=10, tune=20, **kwargs))

    one, two = draws(cores=1), draws(cores=2, mp_ctx=start)
    for name, x in one.items():
        np.testing.assert_array_equal(x, two[name], err_msg=name)


def test_constants_that_are_no_arrays():
    """PyTensor of PyMC 5.28 has slices as constants of the graph, without a dtype."""
    with pm.Model():
        z = states()
        b = pm.Normal("b", shape=(STATES, 4))
        mean = b[z][:, np.array([0, 2])]
        pm.StudentT("y", nu=4.0, mu=mean, sigma=1.0, observed=np.stack([Y, -Y], axis=1))
        assert dshdp.ConditionalNUTS([b]).vars
