"""The statistic log_joint: data and states with all that can be integrated out left out."""

import itertools

import numpy as np
import pymc as pm
import pytest
from emissions import family_models as families
from emissions.family_models import COUNTS, NUMBERS, SUCCESSES, TIMES, TRIALS, L, T
from numba import njit
from scipy import stats
from scipy.special import expit, gammaln, multigammaln

import pymc_dshdp as dshdp
from pymc_dshdp.kernels.chain import NO_INDEX
from pymc_dshdp.kernels.collapsed_transitions import Persistence, log_path_marginal
from pymc_dshdp.kernels.counts import empty_counts, path_counts
from pymc_dshdp.kernels.predictive import include, log_predictive
from pymc_dshdp.steps._common import PathReader
from pymc_dshdp.steps.collapsed import find_complete
from pymc_dshdp.steps.joint import JointDensity
from pymc_dshdp.transitions import find_transitions

pytestmark = pytest.mark.usefixtures("python_mode")

PATH = np.array([1, 1, 1, 2, 2, 1, 1, 2, 2, 2, 1, 1])  # state 0 never


NODES, SHARES = np.polynomial.legendre.leggauss(20)
PANELS = np.linspace(-34.0, 34.0, 201)  # of the logit of the prior's distribution function


def by_quadrature(log_likelihood, prior):
    """Evidence of one state's column: log_likelihood(theta) integrated over a scipy prior."""
    half = 0.5 * np.diff(PANELS)[:, None]
    logit = PANELS[:-1, None] + half * (1.0 + NODES)
    low, high = expit(-np.abs(logit)), expit(np.abs(logit))
    theta = np.where(logit < 0.0, prior.ppf(low), prior.isf(low))
    logs = log_likelihood(theta)
    top = logs.max()
    return top + np.log((np.exp(logs - top) * low * high * half * SHARES).sum())


def columns(data, log_density, prior):
    """Sum over states and columns of the evidence by quadrature."""
    total = 0.0
    for k in range(L):
        for y in data[k == PATH].T:
            if y.size:
                total += by_quadrature(lambda x, y=y: sum(log_density(v, x) for v in y), prior)
    return total


def poisson(point):
    scale = np.exp(point["scale_log__"])
    return sum(
        columns(COUNTS[:, c : c + 1], stats.poisson.logpmf, stats.gamma(1.5, scale=1.0 / scale[c]))
        for c in range(2)
    )


def poisson_exposure(point):
    hours = families.HOURS[:, None] / np.array([1.0, 7.0])
    density = lambda i, x: stats.poisson.logpmf(  # noqa: E731
        families.EXPOSED.T.ravel()[i], x * hours.T.ravel()[i]
    )
    return columns(np.arange(2 * T).reshape(2, T).T, density, stats.gamma(1.5, scale=2.0))


def normal_mean(point):
    prior = stats.norm(point["centre"], 2.0)
    return sum(
        columns(NUMBERS[:, c : c + 1], lambda y, x, s=s: stats.norm.logpdf(y, x, s), prior)
        for c, s in enumerate((1.5, 2.5))
    )


def student(y, m, s, a, b):
    """Evidence of normal observations under a normal-inverse-gamma prior: multivariate t."""
    scale = b / a * (np.eye(len(y)) + 1.0 / s)
    return stats.multivariate_t(np.full(len(y), m), scale, df=2.0 * a).logpdf(y)


def normal_both(point):
    return sum(student(NUMBERS[k == PATH, c], 0.5, 0.4, 3.0, 4.0) for k in (1, 2) for c in range(2))


def exponential(point):
    density = lambda y, x: stats.expon.logpdf(y, scale=1.0 / x)  # noqa: E731
    return columns(TIMES, density, stats.gamma(2.0, scale=1.0 / 3.0))


def bernoulli(point):
    return columns(SUCCESSES, stats.bernoulli.logpmf, stats.beta(2.0, 0.7))


def binomial(point):
    return columns(TRIALS, lambda y, x: stats.binom.logpmf(y, 5, x), stats.beta(2.0, 0.7))


WEIGHTS = np.array([0.5, 1.0, 2.0, 1.5])


def categorical(point):
    total = 0.0
    for k in (1, 2):
        n = np.bincount(families.CATEGORIES[k == PATH], minlength=4)
        one = stats.dirichlet_multinomial(WEIGHTS, n.sum()).logpmf(n)
        total += one - gammaln(n.sum() + 1) + gammaln(n + 1).sum()  # of one order
    return total


def multinomial(point):
    total = 0.0
    for k in (1, 2):
        y = families.MULTINOMIAL[k == PATH]
        n = y.sum(axis=0)
        one = stats.dirichlet_multinomial(WEIGHTS, n.sum()).logpmf(n)
        total += one - gammaln(n.sum() + 1) + gammaln(n + 1).sum()
        total += (gammaln(7) - gammaln(y + 1).sum(axis=1)).sum()
    return total


def vectors(y, mean, noise, spread):
    n = len(y)
    covariance = np.kron(np.eye(n), noise) + np.kron(np.ones((n, n)), spread)
    return stats.multivariate_normal.logpdf(y.ravel(), np.tile(mean, n), covariance)


def mvnormal(point):
    return sum(
        vectors(NUMBERS[k == PATH], [0.5, -0.5], families.COVARIANCE, 2.0 * families.COVARIANCE)
        for k in (1, 2)
    )


def mvnormal_independent(point):
    noise = families.COVARIANCE * np.array([1.0, 2.0, np.nan])[:, None, None]
    noise[2] = np.eye(2)
    spread = np.diag([1.0, 9.0])
    return sum(vectors(NUMBERS[k == PATH], [0.5, 0.5], noise[k], spread) for k in (1, 2))


def regression(x, y, M0, V0, S0, degrees):
    """Matrix-t by sums of products; K0 = V0^-1."""
    K0, n, d = np.linalg.inv(V0), len(y), y.shape[1]
    K = K0 + x.T @ x
    M = np.linalg.solve(K, K0 @ M0.T + x.T @ y).T
    S = S0 + y.T @ y + M0 @ K0 @ M0.T - M @ K @ M.T
    half = 0.5 * (degrees + n)
    out = multigammaln(half, d) - multigammaln(0.5 * degrees, d) - 0.5 * n * d * np.log(np.pi)
    out += 0.5 * degrees * np.linalg.slogdet(S0)[1] - half * np.linalg.slogdet(S)[1]
    return out + 0.5 * d * (np.linalg.slogdet(K0)[1] - np.linalg.slogdet(K)[1])


S0 = np.array([[1.2, 0.3], [0.3, 0.7]])


def normal_wishart_model(z):
    mu, Sigma = dshdp.NormalInverseWishart("g", S0=S0, n0=5.0, k0=0.5, mu0=[1, 0], n_states=L)
    pm.MvNormal("y", mu[z], Sigma[z], observed=NUMBERS)


def normal_wishart(point):
    one, m = np.ones((T, 1)), np.array([[1.0], [0.0]])
    return sum(
        regression(one[k == PATH], NUMBERS[k == PATH], m, np.array([[2.0]]), S0, 5.0)
        for k in (1, 2)
    )


V0 = np.diag([1.0, 2.0, 0.5])


def autoregression_model(z):
    A, Sigma = dshdp.MatrixNormalInverseWishart(
        "ar", S0=S0, n0=5.0, V0=V0, n_states=L, intercept=True
    )
    dshdp.SwitchingVAR("y", A, Sigma, z, observed=NUMBERS, intercept=True)


def autoregression(point):
    x = np.column_stack([NUMBERS[:-1], np.ones(T - 1)])
    later = PATH[1:]
    return sum(
        regression(x[k == later], NUMBERS[1:][k == later], np.zeros((2, 3)), V0, S0, 5.0)
        for k in (1, 2)
    )


def known_mean_model(z):
    variance = pm.InverseGamma("variance", 3.0, 4.0, shape=(L, 2))
    pm.Normal("y", 0.5, pm.math.sqrt(variance[z]), observed=NUMBERS)


def known_mean(point):
    density = lambda y, v: stats.norm.logpdf(y, 0.5, np.sqrt(v))  # noqa: E731
    return columns(NUMBERS, density, stats.invgamma(3.0, scale=4.0))


def mean_and_variance(point):
    """The mean integrated in closed form, its variance 4 by column."""
    total = 0.0
    for k, c in itertools.product((1, 2), range(2)):
        y = NUMBERS[k == PATH, c]
        n, about = len(y), ((y - y.mean()) ** 2).sum()

        def log_likelihood(v, n=n, y=y, about=about):
            pooled = v + 4.0 * n
            squares = about / v + n * (y.mean() - 0.5) ** 2 / pooled
            logs = n * np.log(2.0 * np.pi) + (n - 1) * np.log(v) + np.log(pooled)
            return -0.5 * (logs + squares)

        total += by_quadrature(log_likelihood, stats.invgamma(3.0, scale=4.0))
    return total


def two_likelihoods_model(z):
    rate = pm.Gamma("rate", 2.0, 0.5, shape=(L, 2))
    pm.Poisson("counts", rate[z], observed=COUNTS)
    families.normal_variance(z)


def two_likelihoods(point):
    return evidence() + mean_and_variance(point)


CASES = {
    "poisson": (families.poisson, poisson),
    "poisson exposure": (families.poisson_exposure, poisson_exposure),
    "normal mean": (families.normal_mean, normal_mean),
    "normal variance": (known_mean_model, known_mean),
    "mean and variance": (families.normal_variance, mean_and_variance),
    "two likelihoods": (two_likelihoods_model, two_likelihoods),
    "normal inverse gamma": (families.normal_both, normal_both),
    "exponential": (families.exponential, exponential),
    "bernoulli": (families.bernoulli, bernoulli),
    "binomial": (families.binomial, binomial),
    "categorical": (families.categorical, categorical),
    "multinomial": (families.multinomial, multinomial),
    "mvnormal": (families.mvnormal, mvnormal),
    "mvnormal independent": (families.mvnormal_independent, mvnormal_independent),
    "normal wishart": (normal_wishart_model, normal_wishart),
    "autoregression": (autoregression_model, autoregression),
}


def joint(model, path=PATH):
    """(log_joint, the point) with the states at a path."""
    [prior] = find_transitions(model)
    point = model.initial_point()
    point["z"] = path.astype(point["z"].dtype).reshape(point["z"].shape)
    update = prior.update(model, "a step")
    return JointDensity(model, prior, PathReader(model, prior, point), update)(point), point


def transitions(point, path=PATH, lengths=(T,)):
    """Log p(z) at the starting values of a ``DSHDP``."""
    counts = empty_counts(L)
    path_counts(path, np.array(lengths), NO_INDEX, counts)
    phi = 1.0 / (1.0 + np.exp(-point["hmm_phi_interval__"]))
    rho = (2.0 / (1.0 + np.exp(-point["hmm_eta_interval__"]))) ** -3.0
    base = np.tile(np.exp(point["hmm_alpha_log__"]) * point["hmm_beta"], (L + 1, 1))
    persistence = Persistence(np.full(L, phi * rho), np.full(L, (1.0 - phi) * rho), True)
    return log_path_marginal(counts, base, persistence)


@njit
def path_evidence(emission, states, out):
    """Add up what the slot of each time's state, which has the times before, predicts of it."""
    density = np.empty(1)
    for t in range(states.shape[0]):
        log_predictive(emission, t, states[t : t + 1], 1, False, density)
        out[states[t]] += density[0]
        include(emission, t, states[t])


@pytest.mark.parametrize("name", ["mvnormal", "autoregression"])
def test_evidence_is_that_of_the_chain_rule(name):
    """Against what the slot of each state predicts of one time after another."""
    model = families.build(CASES[name][0])
    emission, point = find_complete(model, model["z"]), model.initial_point()
    twin = np.zeros(L)
    path_evidence(emission.empty(point)[0], PATH, twin)
    np.testing.assert_allclose(emission.marginals(point).of_path(PATH), twin, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_families(name):
    """Fails if a family leaves out a term of its density, or adds one."""
    declare, evidence = CASES[name]
    found, point = joint(families.build(declare))
    assert found == pytest.approx(evidence(point) + transitions(point), abs=1e-6)


def test_missing_observations_count_at_their_values():
    """Cells and times that are missing, against the same model of the completed data."""
    mask = np.zeros((T, 2), bool)
    mask[3], mask[8, 0] = True, True

    def declare(data):
        with pm.Model() as model:
            z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=L), length=T)
            rate = pm.Gamma("rate", 2.0, 0.5, shape=(L, 2))
            pm.Poisson("y", rate[z], observed=data)
        return model

    with pytest.warns(pm.exceptions.ImputationWarning):
        masked = declare(np.ma.MaskedArray(COUNTS, mask))
    found, point = joint(masked)
    complete = COUNTS.copy()
    complete[mask] = point["y_unobserved"]
    assert found == pytest.approx(joint(declare(complete))[0])


def base_model(prior, **kwargs):
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", prior("hmm", n_states=L, **kwargs), lengths=[5, 7])
        rate = pm.Gamma("rate", 2.0, 0.5, shape=(L, 2))
        pm.Poisson("y", rate[z], observed=COUNTS)
    return model


def evidence():
    prior = stats.gamma(2.0, scale=2.0)
    return columns(COUNTS, stats.poisson.logpmf, prior)


def of_path(base, persistence):
    counts = empty_counts(L)
    path_counts(PATH, np.array([5, 7]), NO_INDEX, counts)
    return log_path_marginal(counts, base, persistence)


NEVER = Persistence(np.zeros(L), np.ones(L), False)


def test_sequences_and_stick_breaking_weights():
    model = base_model(dshdp.DSHDP, weights="stick-breaking")
    found, point = joint(model)
    v = 1.0 / (1.0 + np.exp(-point["hmm_v_logodds__"]))
    point["hmm_beta"] = np.array([v[0], (1.0 - v[0]) * v[1], (1.0 - v[0]) * (1.0 - v[1])])
    assert found == pytest.approx(evidence() + transitions(point, PATH, (5, 7)))


def test_hdp_has_no_self_persistence():
    found, point = joint(base_model(dshdp.HDP))
    base = np.tile(np.exp(point["hmm_alpha_log__"]) * point["hmm_beta"], (L + 1, 1))
    assert found == pytest.approx(evidence() + of_path(base, NEVER))


def test_sticky_ties_alpha_to_rho():
    found, point = joint(base_model(dshdp.StickyHDP))
    phi, s = 1.0 / (1.0 + np.exp(-point["hmm_phi_interval__"])), np.exp(point["hmm_s_log__"])
    base = np.tile((1.0 - phi) * s * point["hmm_beta"], (L + 1, 1))
    tied = Persistence(np.full(L, phi * s), np.full(L, (1.0 - phi) * s), True)
    assert found == pytest.approx(evidence() + of_path(base, tied))


def test_fixed_transitions():
    concentration = np.array([[5.0, 1.0, 1.0], [0.5, 2.0, 0.5], [1.0, 1.0, 3.0]])
    with pm.Model() as model:
        prior = dshdp.FixedTransitions("hmm", n_states=L, concentration=concentration)
        z = dshdp.HiddenStates("z", prior, lengths=[5, 7])
        rate = pm.Gamma("rate", 2.0, 0.5, shape=(L, 2))
        pm.Poisson("y", rate[z], observed=COUNTS)
    base = np.vstack([np.ones(L), concentration])
    assert joint(model)[0] == pytest.approx(evidence() + of_path(base, NEVER))


def test_kappa_that_is_given():
    kappa = np.array([0.9, 0.5, 0.0])
    found, point = joint(base_model(dshdp.DSHDP, kappa=kappa))
    base = np.tile(np.exp(point["hmm_alpha_log__"]) * point["hmm_beta"], (L + 1, 1))
    assert found == pytest.approx(evidence() + of_path(base, Persistence(kappa, 1 - kappa, False)))


def normal_broadcast(z):
    mean, sigma = pm.Normal("mean", 0.5, 2.0, shape=L), pm.HalfNormal("sigma", 1.0, shape=(L, 2))
    pm.Normal("y", mean[z][:, None], sigma[z], observed=NUMBERS)


@pytest.mark.parametrize(
    "declare",
    [
        normal_broadcast,  # one mean for two columns of a variance each
        families.poisson_broadcast,  # one rate for two columns
    ],
)
def test_not_available(declare):
    assert np.isnan(joint(families.build(declare))[0])


def test_steps_report_it():
    """Of the states and weights that the iteration ends with."""
    model = base_model(dshdp.DSHDP, kappa=0.6)
    for made in (dshdp.WeakLimitFFBS, dshdp.DSBlockGibbs):
        with model:
            step = made([model["z"]], rng=np.random.default_rng(1))
        step.stop_tuning()
        point, [stats_] = step.step(model.initial_point())
        base = np.tile(np.exp(point["hmm_alpha_log__"]) * point["hmm_beta"], (L + 1, 1))
        given = Persistence(np.full(L, 0.6), np.full(L, 0.4), False)
        counts = empty_counts(L)
        path_counts(np.ravel(point["z"]), np.array([5, 7]), NO_INDEX, counts)
        expected = log_path_marginal(counts, base, given)
        data = [COUNTS[k == np.ravel(point["z"])] for k in range(L)]
        prior = stats.gamma(2.0, scale=2.0)
        for y in (column for rows in data if len(rows) for column in rows.T):
            expected += by_quadrature(
                lambda x, y=y: sum(stats.poisson.logpmf(v, x) for v in y), prior
            )
        assert stats_["log_joint"] == pytest.approx(expected)


def test_steps_report_it_at_the_missing_values_of_the_point():
    """Fails if these are drawn again after moves that have been made given them."""
    mask = np.arange(T) % 3 == 0
    with pytest.warns(pm.exceptions.ImputationWarning), pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=L), length=T)
        rate = pm.Gamma("rate", 2.0, 0.5, shape=L)
        pm.Poisson("y", rate[z], observed=np.ma.MaskedArray(COUNTS[:, 0], mask))
        step = dshdp.WeakLimitFFBS([z, model["y_unobserved"]], rng=1)
    step.hold, step.n_proposals, moved = 0, 8.0, 0
    step.stop_tuning()
    point = model.initial_point()
    for _ in range(40):
        point, [made] = step.step(point)
        moved += made["splits"] + made["merges"]
        assert made["log_joint"] == pytest.approx(step._log_joint(point))
    assert moved > 10
