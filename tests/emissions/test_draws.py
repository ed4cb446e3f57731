"""Conjugate draws against the model's own log-density on a grid, and against closed forms."""

import numpy as np
import pytest
from pymc.pytensorf import compile as compile_pymc
from pytensor.compile.mode import Mode
from reference import assert_distribution
from scipy import stats

from emissions.family_models import (
    COVARIANCE,
    NUMBERS,
    PATH,
    L,
    T,
    autoregression,
    bernoulli,
    binomial,
    build,
    categorical,
    exponential,
    multinomial,
    mvnormal,
    mvnormal_independent,
    normal_both,
    normal_both_pooled,
    normal_inverse_wishart,
    normal_mean,
    normal_mean_scale,
    normal_variance,
    normal_variance_outside,
    poisson,
    poisson_broadcast,
    poisson_exponential,
    poisson_exposure,
    poisson_offset,
)
from pymc_dshdp.likelihood.conjugate import ConjugateTerm, find_conjugate

DRAWS = 4000
PYTHON = Mode(linker="py", optimizer="fast_run").excluding("fusion")


def start(model, seed=3):
    rng = np.random.default_rng(seed)
    point = model.initial_point()
    for name, value in point.items():
        if not name.startswith("hmm") and np.issubdtype(value.dtype, np.floating):
            point[name] = value + 0.3 * rng.standard_normal(value.shape)
    return {**point, "z": PATH.astype(point["z"].dtype)}


def draws_of(model, name, point, n=DRAWS):
    term = ConjugateTerm(model, find_conjugate(model, model[name]))
    rng = np.random.default_rng(11)
    draws = [term.draw(point, rng) for _ in range(n)]
    return {key: np.stack([d[key] for d in draws]) for key in draws[0]}


def conditional_cdf(model, value, point, index, low, high):
    """Distribution function of one element given everything else, in value space."""
    graph = model.logp(vars=[model["y"], model.values_to_rvs[value]])
    logp = compile_pymc(model.value_vars, graph, mode=PYTHON, on_unused_input="ignore")
    grid = np.linspace(low, high, 201)
    log_density = []
    for x in grid:
        values = np.array(point[value.name])
        values[index] = x
        changed = {**point, value.name: values}
        log_density.append(float(logp(*(changed[v.name] for v in model.value_vars))))
    density = np.exp(np.array(log_density) - max(log_density))
    cdf = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    assert max(density[0], density[-1]) < 1e-5
    return lambda x: np.interp(x, grid, cdf / cdf[-1])


SCALARS = [
    (poisson, "rate"),
    (poisson_exponential, "rate"),
    (poisson_broadcast, "rate"),
    (poisson_exposure, "rate"),
    (poisson_offset, "rate"),
    (normal_mean, "mean"),
    (normal_mean_scale, "mean"),
    (normal_variance, "mean"),
    (normal_variance, "variance"),
    (normal_variance_outside, "variance"),
    (exponential, "rate"),
    (bernoulli, "p"),
    (binomial, "p"),
]


@pytest.mark.parametrize("declare, name", SCALARS, ids=lambda x: getattr(x, "__name__", x))
def test_scalar_draws_have_the_conditional_density(declare, name):
    """Fails if n_k / 2 of the inverse-gamma shape becomes n_k, or scale is taken for rate.

    The grid is the log-density of the model itself in value variables, so that a draw on a wrong
    scale, or without the transform, fails too. State 0 has one observation, and state 2 none: its
    draws are the prior's.
    """
    model = build(declare)
    point = start(model)
    [(key, draws)] = draws_of(model, name, point).items()
    [value] = [v for v in model.value_vars if v.name == key]
    spread = np.ptp(draws, axis=0)
    for index in [(k,) + (0,) * (draws.ndim - 2) for k in range(L)]:
        sample = draws[(slice(None), *index)]
        margin = 1.5 * spread[index]
        cdf = conditional_cdf(
            model, value, point, index, sample.min() - margin, sample.max() + margin
        )
        assert_distribution(sample, cdf)


@pytest.mark.parametrize("declare", [categorical, multinomial], ids=lambda f: f.__name__)
def test_dirichlet_draws(declare):
    """Fails if counts are put at the wrong category, or draws are not centred."""
    model = build(declare)
    draws = draws_of(model, "p", start(model))["p_simplex__"]
    full = np.concatenate([draws, -draws.sum(axis=-1, keepdims=True)], axis=-1)
    p = np.exp(full) / np.exp(full).sum(axis=-1, keepdims=True)
    y = model.rvs_to_values[model["y"]].data
    counts = y if y.ndim == 2 else np.eye(4)[y]
    for k in range(L):
        a = np.array([0.5, 1.0, 2.0, 1.5]) + counts[PATH == k].sum(axis=0)
        for v in range(4):
            assert_distribution(p[:, k, v], stats.beta(a[v], a.sum() - a[v]).cdf)
        assert_distribution(p[:, k, 0] / (p[:, k, 0] + p[:, k, 1]), stats.beta(a[0], a[1]).cdf)


@pytest.mark.parametrize("declare", [mvnormal, mvnormal_independent], ids=lambda f: f.__name__)
def test_multivariate_mean_draws(declare):
    """Fails if the prior precision is left out, or the factor is not transposed in the solve."""
    model = build(declare)
    draws = draws_of(model, "mean", start(model))["mean"]
    independent = declare is mvnormal_independent
    m0 = np.array([0.5, 0.5]) if independent else np.array([0.5, -0.5])
    prior = np.linalg.inv(np.diag([1.0, 9.0]) if independent else 2.0 * COVARIANCE)
    for k in range(L):
        covariance = [COVARIANCE, 2.0 * COVARIANCE, np.eye(2)][k] if independent else COVARIANCE
        data = np.linalg.inv(covariance)
        y = NUMBERS[PATH == k]
        precision = prior + len(y) * data
        mean = np.linalg.solve(precision, prior @ m0 + data @ y.sum(axis=0))
        whitened = (draws[:, k] - mean) @ np.linalg.cholesky(precision)
        for i in range(2):
            assert_distribution(whitened[:, i], stats.norm.cdf)
        assert abs(np.corrcoef(whitened.T)[0, 1]) < 5.0 / np.sqrt(DRAWS)


def covariances(packed, d):
    root = np.zeros((*packed.shape[:-1], d, d))
    i, j = np.tril_indices(d)
    root[..., i, j] = np.where(i == j, np.exp(np.where(i == j, packed, 0.0)), packed)
    return root @ np.swapaxes(root, -1, -2)


def assert_inverse_wishart(sigma, scale, degrees):
    """v'Sv / v'Sigma v and v'Sigma^-1 v / v'S^-1 v are chi squared for every v."""
    d = len(scale)
    for v in np.vstack([np.eye(d), np.ones(d)]):
        ratio = v @ scale @ v / np.einsum("i,nij,j->n", v, sigma, v)
        assert_distribution(ratio, stats.chi2(degrees - d + 1).cdf)
        inverse = np.einsum("i,nij,j->n", v, np.linalg.inv(sigma), v)
        assert_distribution(inverse / (v @ np.linalg.inv(scale) @ v), stats.chi2(degrees).cdf)


def assert_matrix_normal(draws, sigma, mean, precision):
    """Whitened draws are independent standard normals."""
    root = np.linalg.cholesky(sigma)
    z = np.linalg.solve(root, draws - mean) @ np.linalg.cholesky(precision)
    z = z.reshape(len(z), -1)
    for column in z.T:
        assert_distribution(column, stats.norm.cdf)
    correlation = np.corrcoef(z.T) - np.eye(z.shape[1])
    assert np.abs(correlation).max() < 5.0 / np.sqrt(len(z))


def textbook(y, x, M0, K0, S0, n0):
    """Posterior (M, K, S, n) of the regression of y on x, by sums of products."""
    K = K0 + x.T @ x
    M = np.linalg.solve(K, (M0 @ K0 + y.T @ x).T).T
    S = S0 + y.T @ y + M0 @ K0 @ M0.T - M @ K @ M.T
    return M, K, S, n0 + len(y)


@pytest.mark.parametrize("declare", [normal_both, normal_both_pooled], ids=lambda f: f.__name__)
def test_normal_inverse_gamma_draws(declare):
    """Fails if the spread of the columns' means is left out of the pooled squares."""
    model = build(declare)
    draws = draws_of(model, "mean", start(model))
    variance = np.exp(draws["variance_log__"])
    pooled = declare is normal_both_pooled
    s = 0.25 if pooled else 0.4
    for k in range(L):
        for c in range(1 if pooled else 2):
            y = NUMBERS[PATH == k].ravel() if pooled else NUMBERS[PATH == k, c]
            at = (slice(None), k) if pooled else (slice(None), k, c)
            n, total = len(y), s + len(y)
            centre = (s * 0.5 + y.sum()) / total
            scale = 4.0 + 0.5 * (s * 0.5**2 + (y**2).sum() - total * centre**2)
            assert_distribution(variance[at], stats.invgamma(3.0 + n / 2, scale=scale).cdf)
            whitened = (draws["mean"][at] - centre) / np.sqrt(variance[at] / total)
            assert_distribution(whitened, stats.norm.cdf)


def test_normal_inverse_wishart_draws():
    """Fails if degrees of the Bartlett factor are not reversed, or the prior rows are left out."""
    model = build(normal_inverse_wishart)
    draws = draws_of(model, "g_mu", start(model))
    sigma = covariances(draws["g_Sigma_cholesky__"], 2)
    S0 = 0.75 * np.cov(NUMBERS.T, bias=True)
    for k in range(L):
        y = NUMBERS[PATH == k]
        M, K, S, n = textbook(
            y, np.ones((len(y), 1)), NUMBERS.mean(axis=0)[:, None], np.array([[0.5]]), S0, 4.0
        )
        assert_inverse_wishart(sigma[:, k], S, n)
        assert_matrix_normal(draws["g_mu"][:, k, :, None], sigma[:, k], M, K)


def test_autoregression_draws():
    """Fails if the first time point counts, or V0 is taken for a precision."""
    model = build(autoregression)
    draws = draws_of(model, "ar_A", start(model))
    sigma = covariances(draws["ar_Sigma_cholesky__"], 2)
    S0 = 0.75 * np.cov(NUMBERS.T, bias=True)
    V0 = np.diag([1.0, 2.0, 0.5])
    x = np.column_stack([NUMBERS[:-1], np.ones(T - 1)])
    for k in range(L):
        of_k = PATH[1:] == k
        M, K, S, n = textbook(
            NUMBERS[1:][of_k], x[of_k], np.zeros((2, 3)), np.linalg.inv(V0), S0, 4.0
        )
        assert_inverse_wishart(sigma[:, k], S, n)
        assert_matrix_normal(draws["ar_A"][:, k], sigma[:, k], M, K)
