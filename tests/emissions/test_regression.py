"""Linear regressions by state: which are recognised, and their draws against least squares."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.sampling.mcmc import assign_step_methods
from reference import monte_carlo_error
from scipy import stats

from emissions.family_models import NUMBERS, PATH, SUCCESSES, TRIALS, L, T, build
from pymc_dshdp.likelihood import coefficients
from pymc_dshdp.likelihood.conjugate import NotConjugate
from pymc_dshdp.likelihood.regression import find_regression
from pymc_dshdp.steps import ConjugateStep, SliceEmissionStep

X = np.random.default_rng(9).normal(size=(T, 2))
Y = NUMBERS[:, 0]
ONES = np.ones((T, 1))
COVARIANCE = np.array([[2.0, 0.5], [0.5, 1.0]])
C = 0.3  # an offset that is a random variable
SCALE = np.array([0.5, 1.0, 2.0])


def two_variables(z):
    b0 = pm.Normal("b0", 0.5, 2.0, shape=L)
    b1 = pm.Normal("b1", 0.0, 1.5, shape=L)
    pm.Normal("y", b0[z] + b1[z] * X[:, 0] - 3.0, SCALE[0], observed=Y)


def sum_of_products(z):
    b = pm.MvNormal("b", np.array([0.5, -0.5]), COVARIANCE, shape=(L, 2))
    c = pm.Normal("c")
    pm.Normal("y", c + (X * b[z]).sum(axis=-1), pm.math.constant(SCALE)[z], observed=Y)


def columns_of_one(z):
    b = pm.Normal("b", 0.5, np.array([2.0, 1.5]), shape=(L, 2))
    pm.Normal("y", b[z, 0] + b[:, 1][z] * X[:, 0], np.linspace(0.5, 2.0, T), observed=Y)


def product(z):
    b = pm.Normal("b", 0.5, 2.0, shape=(L, 2))
    a = pm.Normal("a", 0.0, 1.0, shape=L)
    mean = a[z] + pt.matmul(X[:, None, :], b[z][:, :, None])[:, 0, 0]
    pm.Normal("y", mean, 0.7, observed=Y)


def dot_with_one_row(z):
    b = pm.Normal("b", 0.5, 2.0, shape=(L, 2))
    pm.Normal("y", pt.dot(b[z], np.array([1.0, -2.0])) / 2.0, 0.7, observed=Y)


def two_columns(z):
    b0 = pm.Normal("b0", 0.5, 2.0, shape=(L, 2))
    b1 = pm.Normal("b1", 0.0, 1.5, shape=L)
    mean = b0[z] + b1[z][:, None] * X
    pm.Normal("y", mean, np.array([0.5, 1.5]), observed=NUMBERS)


# The covariates of each column (T, C, P), offset, scales (T, C), prior mean and covariance (P).
EXPECTED = {
    two_variables: (np.hstack([ONES, X[:, :1]]), -3.0, 0.5, [0.5, 0.0], np.diag([4.0, 2.25])),
    sum_of_products: (X, C, SCALE[PATH], [0.5, -0.5], COVARIANCE),
    columns_of_one: (np.hstack([ONES, X[:, :1]]), 0.0, np.linspace(0.5, 2.0, T), [0.5, 0.5],
                     np.diag([4.0, 2.25])),
    product: (np.hstack([X, ONES]), 0.0, 0.7, [0.5, 0.5, 0.0], np.diag([4.0, 4.0, 1.0])),
    dot_with_one_row: (ONES * [0.5, -1.0], 0.0, 0.7, [0.5, 0.5], np.diag([4.0, 4.0])),
}  # fmt: skip


def term_and_point(declare):
    model = build(declare)
    name = "b" if "b" in model.named_vars else "b0"
    match = find_regression(model, model[name])
    point = model.initial_point()
    if "c" in point:
        point["c"] = np.array(C)
    return match.term(model), {**point, "z": PATH.astype(point["z"].dtype)}


class Fixed:
    """Stands for a generator whose normals are given."""

    def __init__(self, noise):
        self.noise = noise

    def standard_normal(self, shape):
        return np.broadcast_to(self.noise[:, None], shape)


def assert_least_squares(term, point, x, residual, scale, prior_mean, prior, order):
    """Mean and covariance of the draws, from the draws at noise 0 and at each unit vector."""
    P = x.shape[-1]

    def draw(noise):
        new = term.draw(point, Fixed(noise))
        return np.concatenate([new[name].reshape(L, -1) for name in order], axis=1)

    centre = draw(np.zeros(P))
    roots = np.stack([draw(e) - centre for e in np.eye(P)], axis=-1)
    for k in range(L):
        at = PATH == k
        xk = x[at].reshape(-1, P) / scale[at].reshape(-1, 1)
        yk = (residual[at] / scale[at]).ravel()
        precision = np.linalg.inv(prior) + xk.T @ xk
        mean = np.linalg.solve(precision, np.linalg.solve(prior, prior_mean) + xk.T @ yk)
        np.testing.assert_allclose(centre[k], mean, rtol=1e-8, atol=1e-10)
        covariance = np.linalg.inv(precision)
        np.testing.assert_allclose(roots[k] @ roots[k].T, covariance, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("declare", EXPECTED, ids=lambda f: f.__name__)
def test_draws_have_the_posterior_of_least_squares(declare):
    """Fails if the offset or a weight is left out, or the prior counts per observation.

    State 0 has one observation and state 2 none.
    """
    term, point = term_and_point(declare)
    x, offset, scale, mean, prior = EXPECTED[declare]
    scale = np.broadcast_to(scale, T)
    order = [v.name for v in term.values]
    assert_least_squares(term, point, x, Y - offset, scale, mean, prior, order)


def test_several_columns():
    term, point = term_and_point(two_columns)
    x = np.zeros((T, 2, 3))
    x[:, 0, 0] = x[:, 1, 1] = 1.0
    x[:, :, 2] = X
    scale = np.broadcast_to([0.5, 1.5], (T, 2))
    prior = np.diag([4.0, 4.0, 2.25])
    assert_least_squares(term, point, x, NUMBERS, scale, [0.5, 0.5, 0.0], prior, ["b0", "b1"])


# -- logistic regressions -----------------------------------------------------------------------

SUCCESS, N_TRIALS = SUCCESSES[:, 0], np.array([1, 0, 3, 2] * T)[:T]


def choices(z):
    b = pm.Normal("b", 0.5, np.array([2.0, 1.5]), shape=(L, 2))
    c = pm.Normal("c")
    pm.Bernoulli("y", logit_p=c + (X * b[z]).sum(axis=-1), observed=SUCCESS)


def counts_of_trials(z):
    b = pm.MvNormal("b", np.array([0.5, -0.5]), COVARIANCE, shape=(L, 2))
    p = pm.math.invlogit(b[z, 0] + b[z, 1] * X[:, 0])
    pm.Binomial("y", N_TRIALS, p, observed=np.minimum(TRIALS[:, 0], N_TRIALS))


LOGISTIC = {
    choices: (X, C, np.ones(T), SUCCESS, [0.5, 0.5], np.diag([4.0, 2.25])),
    counts_of_trials: (np.hstack([ONES, X[:, :1]]), 0.0, N_TRIALS,
                       np.minimum(TRIALS[:, 0], N_TRIALS), [0.5, -0.5], COVARIANCE),
}  # fmt: skip


@pytest.mark.parametrize("declare", LOGISTIC, ids=lambda f: f.__name__)
def test_logistic_draws_given_the_polya_gamma_variables(declare, monkeypatch):
    """Fails if these are asked for at another logit, or trials, or their mean is not kappa."""
    term, point = term_and_point(declare)
    x, offset, trials, y, mean, prior = LOGISTIC[declare]
    point["b"] = np.random.default_rng(4).normal(size=(L, 2))
    omega = np.random.default_rng(5).uniform(0.1, 0.4, T) * trials
    asked = []

    def draws(rng, trials, tilts):
        asked.append((trials, tilts))
        return omega

    monkeypatch.setattr(coefficients, "polya_gamma_draws", draws)
    monkeypatch.setattr(coefficients, "CLOSE", -1.0)  # no mode is found, and nothing proposed
    with np.errstate(divide="ignore", invalid="ignore"):
        pseudo = np.where(trials > 0, (y - 0.5 * trials) / omega - offset, 0.0)
        scale = np.where(trials > 0, omega**-0.5, 1e150)
    assert_least_squares(term, point, x, pseudo, scale, mean, prior, ["b"])
    np.testing.assert_array_equal(asked[0][0], trials)
    np.testing.assert_allclose(asked[0][1], offset + (x * point["b"][PATH]).sum(axis=1))


@pytest.mark.parametrize("constants", [{}, {"MANY_TRIALS": 0}, {"CLOSE": -1.0}],
                         ids=["both", "proposed", "polya-gamma"])  # fmt: skip
def test_logistic_draws_follow_the_posterior(constants, monkeypatch):
    """On a grid. Mutations: Polya-Gamma variables at twice the logit; proposals always accepted."""
    for name, value in constants.items():
        monkeypatch.setattr(coefficients, name, value)
    term, point = term_and_point(counts_of_trials)
    rng, draws = np.random.default_rng(6), []
    for _ in range(1_500):
        point = {**point, **term.draw(point, rng)}
        draws.append(point["b"])
    at = PATH == 1
    grid = np.linspace(-9.0, 9.0, 181)
    one, two = np.meshgrid(grid, grid, indexing="ij")
    logit = one[..., None] + two[..., None] * X[at, 0]
    x, _, trials, y, mean, prior = LOGISTIC[counts_of_trials]
    logs = (y[at] * logit - trials[at] * np.logaddexp(0.0, logit)).sum(axis=-1)
    b = np.stack([one, two], axis=-1)
    weight = np.exp(logs + stats.multivariate_normal(mean, prior).logpdf(b))
    weight /= weight.sum()
    found = np.array(draws)[:, 1]
    for f in (lambda b: b[..., 0], lambda b: b[..., 1], lambda b: b[..., 0] ** 2,
              lambda b: b[..., 1] ** 2, lambda b: b[..., 0] * b[..., 1]):  # fmt: skip
        assert abs(f(found).mean() - (weight * f(b)).sum()) < 4.0 * monte_carlo_error(f(found))
    empty = np.array(draws)[:, 2]
    assert abs(empty.mean(axis=0) - mean).max() < 0.2


def test_search_that_does_not_end_leaves_the_state_to_polya_gamma_variables(monkeypatch):
    """Fails if a state whose mode was not found is proposed to."""
    monkeypatch.setattr(coefficients, "MANY_TRIALS", 0)
    monkeypatch.setattr(coefficients, "CLOSE", -1.0)
    term, point = term_and_point(counts_of_trials)
    new = term.draw(point, np.random.default_rng(1))["b"]
    assert (new != point["b"]).all()


def test_states_of_successes_alone_mix():
    """Fails without proposals: given Polya-Gamma variables the intercept repeats itself."""
    rng, T = np.random.default_rng(7), 200
    x = np.column_stack([np.ones(T), rng.normal(size=(T, 3))])
    successes = coefficients.Regressions(
        np.zeros(T, np.int64), x, np.zeros(T), np.ones(T), np.ones(T)
    )
    prior = np.concatenate([0.5 * np.eye(4), np.zeros((4, 1))], axis=1)[None]
    b, found = np.zeros((1, 4)), []
    for _ in range(600):
        b = coefficients.draw_logistic(rng, successes, b, prior)
        found.append(b[0, 0])
    found = np.array(found[100:]) - np.mean(found[100:])
    assert np.mean(found[1:] * found[:-1]) < 0.85 * np.mean(found**2)


def other_link(z):
    b = pm.Normal("b", 0.0, 1.0, shape=L)
    pm.Bernoulli("y", pm.math.invprobit(b[z] * X[:, 0]), observed=SUCCESS)


def states_alone(z):
    b = pm.Normal("b", 0.0, 1.0, shape=L)
    pm.Bernoulli("y", logit_p=b[z], observed=SUCCESS)


@pytest.mark.parametrize(
    ("declare", "reason"),
    [(other_link, "not declared by logit_p"), (states_alone, "through few numbers")],
)
def test_what_is_no_logistic_regression(declare, reason):
    """The second is drawn by slices, given the successes and trials of each state."""
    model = build(declare)
    with pytest.raises(NotConjugate, match=reason):
        find_regression(model, model["b"])


def scale_per_state(z):
    b0 = pm.Normal("b0", 0.0, 2.0, shape=L)
    b1 = pm.Normal("b1", pm.Normal("centre"), 2.0, shape=L)
    sigma = pm.HalfNormal("sigma", 1.0, shape=L)
    pm.Normal("y", b0[z] + b1[z] * X[:, 0], sigma[z], observed=Y)


@pytest.mark.parametrize("declare", [sum_of_products, choices], ids=lambda f: f.__name__)
def test_path_that_is_data(declare):
    """Draws as at the same path, sampled."""
    term, point = term_and_point(declare)
    name = term.values[0].name
    known = pm.observe(build(declare), {"z": PATH})
    other = find_regression(known, known[name]).term(known)
    given = {v.name: point[v.name] for v in known.value_vars}
    one, two = (t.draw(p, np.random.default_rng(3)) for t, p in ((term, point), (other, given)))
    np.testing.assert_allclose(one[name], two[name], rtol=1e-10)


def test_automatic_assignment():
    """Nothing of a switching regression is left to NUTS but the hyperparameter."""
    methods = assign_step_methods(build(scale_per_state), None)[1]
    assert sorted(v.name for v in methods[ConjugateStep]) == ["b0", "b1"]
    assert [v.name for v in methods[SliceEmissionStep]] == ["sigma_log__"]


def test_coefficient_beside_one_of_another_step():
    """It is drawn given that one, which is part of the offset."""
    model = build(two_variables)
    step = ConjugateStep([model["b0"]], model=model, rng=1)
    assert [v.name for v in step.vars] == ["b0"]
    assert [v.name for v in ConjugateStep([model["b1"], model["b0"]], model=model).vars] == [
        "b1",
        "b0",
    ]


def square(z):
    pm.Normal("y", pm.Normal("b", shape=L)[z] ** 2 * X[:, 0], 1.0, observed=Y)


def exponential(z):
    pm.Normal("y", pm.math.exp(pm.Normal("b", shape=L)[z]) * X[:, 0], 1.0, observed=Y)


def over_times(z):
    b = pm.Normal("b", shape=L)
    pm.Normal("y", b[z] * X[:, 0] - (b[z] * X[:, 0]).mean(), 1.0, observed=Y)


def mixed_by_a_matrix(z):
    b = pm.Normal("b", shape=L)
    pm.Normal("y", pt.dot(np.eye(T) + 0.1, b[z]), 1.0, observed=Y)


def in_the_scale(z):
    b = pm.Normal("b", shape=L)
    pm.Normal("y", b[z] * X[:, 0], pm.math.exp(b[z]), observed=Y)


def other_prior(z):
    b = pm.Laplace("b", 0.0, 1.0, shape=L)
    pm.Normal("y", b[z] * X[:, 0], 1.0, observed=Y)


def not_by_state(z):
    b = pm.Normal("b", shape=L)
    pm.Normal("y", b[z] * X[:, 0] + b.sum(), 1.0, observed=Y)


def reversed_times(z):
    b = pm.Normal("b", shape=L)
    pm.Normal("y", b[z][::-1] * X[:, 0], 1.0, observed=Y)


NOT_LINEAR = [square, exponential, over_times, mixed_by_a_matrix, in_the_scale, other_prior,
              not_by_state, reversed_times]  # fmt: skip


@pytest.mark.parametrize("declare", NOT_LINEAR, ids=lambda f: f.__name__)
def test_what_is_not_proved_linear(declare):
    model = build(declare)
    with pytest.raises(NotConjugate):
        find_regression(model, model["b"])


def test_product_of_two_coefficients_is_drawn_one_after_the_other():
    """The mean is affine in each, but not in both together."""

    def declare(z):
        a, b = pm.Normal("a", shape=L), pm.Normal("b", shape=L)
        pm.Normal("y", a[z] * b[z] * X[:, 0], 1.0, observed=Y)

    model = build(declare)
    for name in "ab":
        assert [v.name for v in find_regression(model, model[name]).variables] == [name]
