"""Inverse-Wishart priors and switching autoregressions as random variables of PyMC."""

import numpy as np
import pymc as pm
import pytest
from pymc.pytensorf import compile as compile_pymc
from pytensor.compile.mode import Mode
from reference import assert_distribution
from scipy import stats

import pymc_dshdp as dshdp
from emissions.family_models import NUMBERS, L, T, autoregression, build, normal_inverse_wishart
from pymc_dshdp.distributions.matrices import (
    CholeskyTransform,
    InverseWishart,
    MatrixNormal,
    ScaledNormal,
    packed_cholesky,
)
from pymc_dshdp.emissions._gaussian import draw_posterior, prior_factor
from pymc_dshdp.kernels.emissions_statistics import triangular_statistics
from pymc_dshdp.likelihood.families import table_term
from pymc_dshdp.model.matrix_priors import (
    MatrixNormalInverseWishart,
    NormalInverseWishart,
    SwitchingVAR,
)

PYTHON = Mode(linker="py", optimizer="fast_run")
S = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]])
V = np.array([[1.0, 0.4], [0.4, 2.0]])
SIGMA = np.stack([S, 2.0 * S + np.eye(3)])
MEAN = np.arange(6.0).reshape(3, 2) / 3.0


def evaluate(graph, *inputs):
    return compile_pymc([], graph, mode=PYTHON)(*inputs)


def test_inverse_wishart_density():
    value = np.stack([S + np.eye(3), 0.2 * S])
    logp = evaluate(pm.logp(InverseWishart.dist(S, 5.5, size=(2,)), value))
    np.testing.assert_allclose(logp, [stats.invwishart(5.5, S).logpdf(v) for v in value])
    assert evaluate(pm.logp(InverseWishart.dist(S, 5.5), -S)) == -np.inf


def test_matrix_normal_density():
    value = np.stack([MEAN + 1.0, MEAN * 2.0])
    logp = evaluate(pm.logp(MatrixNormal.dist(MEAN, SIGMA, V), value))
    expected = [stats.matrix_normal(MEAN, r, V).logpdf(x) for r, x in zip(SIGMA, value)]
    np.testing.assert_allclose(logp, expected)


def test_scaled_normal_density():
    value = np.stack([np.ones(3), np.zeros(3)])
    logp = evaluate(pm.logp(ScaledNormal.dist(S[0], SIGMA, 0.3), value))
    expected = [stats.multivariate_normal(S[0], r / 0.3).logpdf(x) for r, x in zip(SIGMA, value)]
    np.testing.assert_allclose(logp, expected)


def test_cholesky_transform():
    """Fails if the Jacobian's powers run in the wrong order."""
    transform = CholeskyTransform(3)
    value = evaluate(transform.forward(SIGMA))
    np.testing.assert_allclose(value, packed_cholesky(np.linalg.cholesky(SIGMA)))
    np.testing.assert_allclose(evaluate(transform.backward(value)), SIGMA)
    i, j = np.tril_indices(3)
    x = np.array(value[0])
    columns = []
    for e in np.eye(6):
        high, low = (evaluate(transform.backward(x + h * e)) for h in (1e-5, -1e-5))
        columns.append((high - low)[i, j] / 2e-5)
    determinant = np.linalg.slogdet(np.array(columns))[1]
    np.testing.assert_allclose(evaluate(transform.log_jac_det(value))[0], determinant, rtol=1e-7)


def test_prior_draws():
    """PyMC's draws (compiled) have the density's distribution."""
    sigma = pm.draw(InverseWishart.dist(S, 6.0), 2000, random_seed=1)
    v = np.ones(3)
    ratio = v @ S @ v / np.einsum("i,nij,j->n", v, sigma, v)
    assert_distribution(ratio, stats.chi2(6.0 - 2.0).cdf)
    draws = pm.draw(MatrixNormal.dist(MEAN, SIGMA[1], V), 2000, random_seed=2)
    z = np.linalg.solve(np.linalg.cholesky(SIGMA[1]), draws - MEAN)
    z = z @ np.linalg.inv(np.linalg.cholesky(V)).T
    for column in z.reshape(2000, -1).T:
        assert_distribution(column, stats.norm.cdf)
    mu = pm.draw(ScaledNormal.dist(S[0], S, 0.3), 2000, random_seed=3)
    assert_distribution((mu[:, 1] - S[0, 1]) / np.sqrt(S[1, 1] / 0.3), stats.norm.cdf)


def test_prior_draws_in_python_are_the_same_distribution():
    rng = np.random.default_rng(0)
    op = InverseWishart.rv_op
    sigma = op.rng_fn(rng, S, np.array(6.0), (2000,))
    assert_distribution(S[0, 0] / sigma[:, 0, 0], stats.chi2(4.0).cdf)
    draws = MatrixNormal.rv_op.rng_fn(rng, MEAN, S, V, (2000,))
    assert_distribution((draws[:, 2, 1] - MEAN[2, 1]) / np.sqrt(S[2, 2] * V[1, 1]), stats.norm.cdf)
    mu = ScaledNormal.rv_op.rng_fn(rng, S[0], S, np.array(0.3), (2000,))
    assert_distribution((mu[:, 1] - S[0, 1]) / np.sqrt(S[1, 1] / 0.3), stats.norm.cdf)


def test_names_and_coords():
    model = build(autoregression)
    assert model.named_vars_to_dims["ar_Sigma"] == ("ar_state", "ar_channel", "ar_channel_to")
    assert model.named_vars_to_dims["ar_A"] == ("ar_state", "ar_channel", "ar_regressor")
    with pm.Model(coords={"state": range(4), "cell": ["a", "b"]}) as model:
        NormalInverseWishart("g", data=NUMBERS, dims=("state", "cell"))
    assert model.named_vars_to_dims["g_mu"] == ("state", "cell")
    assert model.coords["cell_to"] == ("a", "b")


def test_prior_predictive():
    """Fails if the simulation does not feed back, or does not start anew at each sequence.

    By PyMC's function in Python, and by draws compiled at a given path.
    """

    def declare(z):
        A = np.stack([0.9 * np.eye(2)] * L)
        SwitchingVAR("y", A, np.stack([np.eye(2) * 1e-8] * L), z, observed=NUMBERS)

    model = build(declare, {"lengths": [5, 7]})
    with model:
        idata = pm.sample_prior_predictive(
            5, random_seed=1, compile_kwargs={"mode": "FAST_COMPILE"}
        )
    y = np.asarray(idata["prior_predictive"]["y"])[0]
    assert y.shape == (5, T, 2)
    expected = np.concatenate(
        [NUMBERS[0] * 0.9 ** np.arange(5)[:, None], NUMBERS[5] * 0.9 ** np.arange(7)[:, None]]
    )
    np.testing.assert_allclose(y[0], expected, atol=0.01)
    path = np.zeros(T, model["z"].dtype)
    compiled = pm.draw(model["y"], mode="NUMBA", givens={model["z"]: path}, random_seed=1)
    np.testing.assert_allclose(compiled, expected, atol=0.01)


def reference_table(y, A, Sigma, lengths, lags, intercept):
    out = np.zeros((len(y), len(A)))
    start = 0
    for n in lengths:
        for t in range(start + lags, start + n):
            x = np.concatenate([y[t - 1 - lag] for lag in range(lags)] + [np.ones(int(intercept))])
            for k in range(len(A)):
                out[t, k] = stats.multivariate_normal(A[k] @ x, Sigma[k]).logpdf(y[t])
        start += n
    return out


@pytest.mark.parametrize("lags, intercept", [(1, False), (2, True), (3, False)])
def test_autoregressive_table(lags, intercept):
    """Fails if lags are in the wrong order, or reach over the start of a sequence."""
    rng = np.random.default_rng(2)
    A = rng.normal(0.0, 0.3, (L, 2, 2 * lags + intercept))
    Sigma = np.stack([V, np.eye(2), 0.1 * V])

    def declare(z):
        SwitchingVAR("y", A, Sigma, z, observed=NUMBERS, lags=lags, intercept=intercept)

    for layout, lengths in (({"lengths": [5, 7]}, [5, 7]), ({"lengths": [2, 10]}, [2, 10])):
        model = build(declare, layout)
        table = table_term(model, model["y"], model["z"], L)(model.initial_point())
        expected = reference_table(NUMBERS, A, Sigma, lengths, lags, intercept)
        np.testing.assert_allclose(table, expected, rtol=1e-10)


def test_autoregressive_batch():
    """Dimensions of symbolic length; the log-density itself has one element per time point."""
    A = np.random.default_rng(2).normal(0.0, 0.3, (L, 2, 2))
    Sigma = np.stack([V, np.eye(2), 0.1 * V])
    y = NUMBERS[:12].reshape(2, 6, 2)
    with pm.Model(coords={"trial": range(2), "time": range(6)}) as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=L), dims=("trial", "time"))
        SwitchingVAR("y", A, Sigma, z, observed=y)
    expected = reference_table(NUMBERS, A, Sigma, [6, 6], 1, 0)
    point = model.initial_point()
    np.testing.assert_allclose(table_term(model, model["y"], z, L)(point), expected, rtol=1e-10)
    logp = compile_pymc(
        [model.rvs_to_values[z]], model.logp(vars=[model["y"]], sum=False), mode=PYTHON
    )
    [elements] = logp(np.full_like(point["z"], L - 1))
    np.testing.assert_allclose(elements, expected[:, L - 1].reshape(2, 6), rtol=1e-10)


def test_declarations_refuse_what_does_not_fit():
    constant = np.column_stack([NUMBERS, np.ones(T)])
    with pm.Model():
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=L), length=T)
        with pytest.raises(ValueError, match=r"channels \[2\] are constant.*give S0"):
            MatrixNormalInverseWishart("a", data=constant, n_states=L)
        with pytest.raises(ValueError, match="give S0, or data"):
            NormalInverseWishart("b", n_states=L)
        with pytest.raises(ValueError, match="S0 must be a positive definite matrix"):
            NormalInverseWishart("c", S0=-np.eye(2), n_states=L)
        with pytest.raises(ValueError, match="exactly one of n_states and dims"):
            NormalInverseWishart("d", S0=np.eye(2))
        with pytest.raises(ValueError, match=r"M0 must have shape \(2, 4\), received \(2, 2\)"):
            MatrixNormalInverseWishart("e", S0=np.eye(2), lags=2, M0=np.eye(2), n_states=L)
        with pytest.raises(ValueError, match="lags must be an integer of at least 1, received 0"):
            SwitchingVAR("f", np.zeros((L, 2, 2)), np.stack([np.eye(2)] * L), z, lags=0)
        with pytest.raises(ValueError, match=r"A must have shape \(n_states, 2, 4\)"):
            SwitchingVAR("g", np.zeros((L, 2, 2)), np.stack([np.eye(2)] * L), z, lags=2)


# -- numerics of the posterior ----------------------------------------------------------------


def posterior_draws(y, x, S0, V0, n, seed=0, z=None):
    """Draws (A, Sigma) of one state from the posterior of a regression of y on x."""
    d, p = y.shape[1], x.shape[1]
    z = np.zeros(len(y), int) if z is None else z
    visits, factors = triangular_statistics(z, np.concatenate([x, y], axis=1), 1)
    prior = prior_factor(np.zeros((1, d, p)), V0[None], S0[None])
    rng = np.random.default_rng(seed)
    draws = [draw_posterior(rng, factors, prior, d + 2.0 + visits, d) for _ in range(n)]
    return np.array([a[0] for a, _ in draws]), np.array([root[0] for _, root in draws])


@pytest.mark.parametrize("scale", [1.0, 1e-170, 1e170])
def test_triangular_factors_of_the_rows_of_each_state(scale):
    """Fails if rows that still wait at the end are lost, or taken in twice."""
    rng = np.random.default_rng(11)
    z = rng.choice(4, size=1000, p=[0.8, 0.0, 0.197, 0.003])
    rows = rng.normal(size=(1000, 5))
    rows[:, 3], rows[:, 4] = 0.0, rows[:, 0] + 1e-3 * rows[:, 4]
    units = scale * np.array([1.0, 1e-3, 1e3, 1.0, 1.0])
    visits, factors = triangular_statistics(z, rows * units, 4)
    np.testing.assert_array_equal(visits, np.bincount(z, minlength=4))
    assert 0 < visits[3] < 5
    for k in range(4):
        np.testing.assert_array_equal(np.tril(factors[k], -1), 0.0)
        found = factors[k] / units
        exact = rows[z == k].T @ rows[z == k]
        np.testing.assert_allclose(found.T @ found, exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scaled_data_with_scaled_priors_give_the_same_draws(scale):
    rng = np.random.default_rng(3)
    y = rng.normal(size=(50, 3))
    x = np.roll(y, 1, axis=0)
    A, root = posterior_draws(y, x, S, np.eye(3), 20)
    A_scaled, root_scaled = posterior_draws(
        scale * y, scale * x, scale**2 * S, np.eye(3) / scale**2, 20
    )
    np.testing.assert_allclose(A_scaled, A, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(root_scaled / scale, root, rtol=1e-8, atol=1e-10)


def test_nearly_singular_covariance():
    """Residuals of 1e-7 beside data of 1: sums of products would lose them to cancellation.

    Fails if the scale matrix is formed as S0 + y'y - M K M'.
    """
    rng = np.random.default_rng(4)
    x = rng.normal(size=(400, 3))
    noise = 1e-7 * rng.normal(size=(400, 2))
    y = x[:, :2] + noise
    _, root = posterior_draws(y, x, 1e-16 * np.eye(2), 1e14 * np.eye(3), 300)
    sigma = root @ np.swapaxes(root, 1, 2)
    np.testing.assert_allclose(sigma.mean(axis=0) / 1e-14, np.cov(noise.T) / 1e-14, atol=0.1)


def test_constant_channel_and_a_state_with_one_observation():
    rng = np.random.default_rng(5)
    y = np.column_stack([rng.normal(size=30), np.full(30, 2.0)])
    for rows in (y, y[:1]):
        A, root = posterior_draws(rows, np.ones((len(rows), 1)), V, np.eye(1), 50)
        assert np.isfinite(A).all()
        assert np.isfinite(packed_cholesky(root)).all()


def test_nuts_can_sample_the_covariance():
    """The transform makes the prior usable by PyMC's own steps."""
    model = build(normal_inverse_wishart)
    point = model.initial_point()
    gradient = model.compile_dlogp([model["g_Sigma"]], mode=Mode(linker="py", optimizer="fast_run"))
    assert np.isfinite(gradient(point)).all()
