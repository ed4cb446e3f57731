"""The parameters of each state as vectors, and moves that change them."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import logsumexp

import pymc_dshdp as dshdp
from pymc_dshdp.likelihood.laplace import LaplaceMarginals
from pymc_dshdp.likelihood.state_parameters import NoVectors, StateParameters
from pymc_dshdp.steps import WeakLimitFFBS

T, L = 40, 5
Y = np.random.default_rng(1).normal(np.repeat([-3.0, 3.0], T // 2), 1.0)
X = np.random.default_rng(2).normal(size=T)


def student(z):
    mu = pm.Normal("mu", 0.0, 4.0, dims="hmm_state")
    sigma = pm.HalfNormal("sigma", 2.0, dims="hmm_state")
    nu = pm.Gamma("nu", 2.0, 0.1)
    pm.StudentT("y", nu=nu, mu=mu[z], sigma=sigma[z], observed=Y)


def weights(z):
    """Two columns of a simplex, and a hyperparameter."""
    tau = pm.HalfNormal("tau", 2.0)
    mu = pm.Normal("mu", 0.0, tau, shape=(L, 2))
    share = pm.Dirichlet("share", np.ones(2), shape=(L, 2))
    sigma = pm.HalfNormal("sigma", 2.0)
    parts = pm.Normal.dist(mu[z], sigma)
    pm.Mixture("y", w=share[z], comp_dists=parts, observed=Y)


def one_each(z):
    """A variable for every state."""
    means = pt.stack([pm.StudentT(f"mu_{k}", nu=3.0, mu=0.0, sigma=3.0) for k in range(L)])
    pm.Logistic("y", means[z], 1.0, observed=Y)


def ordered(z):
    order = pm.distributions.transforms.ordered
    mu = pm.Normal("mu", 0.0, 4.0, shape=L, transform=order, initval=np.arange(L) - 2.0)
    pm.StudentT("y", nu=4.0, mu=mu[z], sigma=1.0, observed=Y)


def penalised(z):
    mu = pm.Normal("mu", 0.0, 4.0, shape=L)
    pm.Potential("penalty", -pt.abs(mu).sum())
    pm.StudentT("y", nu=4.0, mu=mu[z], sigma=1.0, observed=Y)


def chained(z):
    """Each mean has that of the state before as its prior's."""
    steps = pm.Normal("steps", 0.0, 2.0, shape=L)
    pm.StudentT("y", nu=4.0, mu=pt.cumsum(steps)[z], sigma=1.0, observed=Y)


def shared(z):
    mu = pm.Normal("mu", 0.0, 4.0)
    pm.StudentT("y", nu=4.0, mu=mu + 1.0 * pt.eq(z, 0), sigma=1.0, observed=Y)


def build(likelihood):
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=L), lengths=[T])
        likelihood(z)
    return model, z


@pytest.mark.parametrize(("likelihood", "size"), [(student, 2), (weights, 3), (one_each, 1)])
def test_vectors_are_read_written_and_have_their_prior(likelihood, size):
    model, z = build(likelihood)
    start, rng = model.initial_point(), np.random.default_rng(1)
    vectors = StateParameters(model, z, L, start)
    assert vectors.size == size
    theta = rng.normal(size=(L, size))
    point = vectors.write(start, theta)
    np.testing.assert_allclose(vectors.read(point), theta)
    logp = model.compile_logp(sum=False, vars=[v for v in model.free_RVs if v is not z])
    before = sum(np.sum(x) for x in logp(point))
    change = np.zeros(L)
    for k in range(L):
        other = theta.copy()
        other[k] += rng.normal(size=size)
        there = vectors.write(start, other)
        change[k] = sum(np.sum(x) for x in logp(there)) - before
        difference = vectors.log_prior(there) - vectors.log_prior(point)
        np.testing.assert_allclose(difference, change * (np.arange(L) == k), atol=1e-9)
    assert np.std([vectors.draw(start, rng, 2)[0] for _ in range(200)]) > 0.3


def test_a_state_reads_its_own_vector_alone():
    """The likelihood at z = k is that of any other state with the vector of k."""
    model, z = build(weights)
    step = WeakLimitFFBS([z], model=model)
    [table] = step._priors[0].tables
    start = model.initial_point()
    vectors = StateParameters(model, z, L, start)
    theta = np.random.default_rng(1).normal(size=(L, 3))
    columns = table(vectors.write(start, theta))
    np.testing.assert_allclose(
        table(vectors.write(start, theta[[1, 0, 3, 2, 4]]))[:, 3], columns[:, 2]
    )
    assert not np.allclose(columns[:, 3], columns[:, 2])


@pytest.mark.parametrize(
    ("likelihood", "words"),
    [
        (ordered, "no parameter differs"),
        (penalised, "'penalty' depends on 'mu'"),
        (chained, "no parameter differs"),
        (shared, "no parameter differs"),
    ],
)
def test_other_parameters_are_left_alone(likelihood, words):
    model, z = build(likelihood)
    with pytest.raises(NoVectors, match=words):
        StateParameters(model, z, L, model.initial_point())
    with model:
        step = WeakLimitFFBS([z])
    step.hold = 0
    point = model.initial_point()
    for _ in range(3):
        point, [stats] = step.step(point)
        assert stats["proposals"] == 0


def test_states_alike_come_and_go():
    """Splits and merges are made, and the density and labels of the point stay in order."""
    model, z = build(student)
    with model:
        step = WeakLimitFFBS([z], rng=1)
    step.hold, step.n_proposals = 0, 10.0
    step.stop_tuning()
    point, made = model.initial_point(), {"splits": 0, "merges": 0}
    logp = model.compile_logp()
    for _ in range(60):
        point, [stats] = step.step(point)
        assert stats["n_occupied"] == len(set(point["z"]))
        assert np.isnan(stats["log_joint"])
        assert np.isfinite(logp(point))
        made = {name: made[name] + stats[name] for name in made}
    assert min(made.values()) > 10
    assert step.sampling_state is not None


def test_missing_observations_follow_their_states():
    """After a move they have the law of the new states and parameters; see mutations.py."""
    y = np.ma.masked_array(np.zeros(12), mask=np.arange(12) % 3 > 0)
    with pytest.warns(pm.exceptions.ImputationWarning), pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=4), length=12)
        mu = pm.Normal("mu", 0.0, 4.0, dims="hmm_state")
        sigma = pm.HalfNormal("sigma", 2.0, dims="hmm_state")
        pm.StudentT("y", nu=4.0, mu=mu[z], sigma=sigma[z], observed=y)
        step = WeakLimitFFBS([z, model["y_unobserved"]], rng=1)
    step.hold, step.n_proposals = 0, 6.0
    step.stop_tuning()
    point, found = model.initial_point(), []
    for _ in range(2_000):
        point, [made] = step.step(point)
        if made["splits"] + made["merges"]:
            states = point["z"][y.mask]
            scale = np.exp(point["sigma_log__"][states])
            found.append((point["y_unobserved"] - point["mu"][states]) / scale)
    assert len(found) > 150
    assert stats.kstest(np.concatenate(found), stats.t(4.0).cdf).pvalue > 1e-3


def test_laplace_evidence_is_near_the_integral():
    """Of log rates with a normal prior, by quadrature; H is made of squared scores alone."""
    y = np.random.default_rng(3).poisson(np.repeat([3.0, 20.0], T // 2))
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=L), lengths=[T])
        u = pm.Normal("u", 1.0, 1.5, dims="hmm_state")
        pm.Poisson("y", pt.exp(u[z]), observed=y)
        step = WeakLimitFFBS([z])
    [table], start = step._priors[0].tables, model.initial_point()
    vectors = StateParameters(model, z, L, start)
    marginals = LaplaceMarginals(vectors, table, start)
    states = np.repeat([0, 1, 2], [15, 5, 20])
    found = marginals.evidence(marginals.moments(states, L), np.arange(L))
    grid = np.linspace(-6.0, 8.0, 4_001)
    middle, spread = vectors.middle[0], vectors.spread[0]
    assert middle == pytest.approx(1.0, abs=0.3)
    assert spread == pytest.approx(1.5, abs=0.3)
    for k in range(3):
        data = y[states == k]
        log_f = stats.poisson.logpmf(data[:, None], np.exp(grid)).sum(axis=0)
        log_f += stats.norm.logpdf(grid, middle, spread)
        assert found[k] == pytest.approx(logsumexp(log_f) + np.log(grid[1] - grid[0]), abs=0.6)
    assert not found[3:].any()


def test_states_that_are_one_are_merged_while_tuning():
    """From labels at random within two clusters; the clusters stay. Greedy, by Laplace."""
    model, z = build(student)
    with model:
        step = WeakLimitFFBS([z])
    rng = np.random.default_rng(1)
    path = np.where(np.arange(T) < T // 2, 0, 2) + rng.integers(0, 2, T)
    start = model.initial_point() | {"z": path.astype(model.rvs_to_values[z].dtype)}
    start["mu"] = np.array([-3.0, -3.1, 3.0, 2.9, 0.0])
    point = step._priors[0].moves.improve(start, rng)
    assert len(set(point["z"])) == 2
    np.testing.assert_array_equal(point["z"][1:] != point["z"][:-1], np.arange(1, T) == T // 2)
    assert np.isfinite(model.compile_logp()(point))
