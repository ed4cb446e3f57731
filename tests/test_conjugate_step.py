"""ConjugateStep: which variables it takes, and its contract with PyMC."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from emissions.family_models import (
    COUNTS,
    FAMILIES,
    NUMBERS,
    L,
    build,
    hidden,
    normal_inverse_wishart,
    normal_variance,
    poisson,
)
from models import posterior, read_only, sample
from pymc.exceptions import SamplingError
from pymc.model.fgraph import clone_model
from pymc.sampling.mcmc import assign_step_methods
from reference import monte_carlo_error

import pymc_dshdp as dshdp
from pymc_dshdp.model.matrix_priors import NormalInverseWishart
from pymc_dshdp.steps.conjugate import ConjugateStep
from pymc_dshdp.steps.nuts import ConditionalNUTS


def claimed(model, step=None):
    return sorted(v.name for v in assign_step_methods(model, step)[1].get(ConjugateStep, []))


CONJUGATE = {
    "poisson": ["rate_log__"],
    "poisson_exponential": ["rate_log__"],
    "poisson_broadcast": ["rate_log__"],
    "poisson_exposure": ["rate_log__"],
    "poisson_offset": ["rate_log__"],
    "normal_mean": ["mean"],
    "normal_mean_scale": ["mean"],
    "normal_variance": ["mean", "variance_log__"],
    "normal_variance_outside": ["mean", "variance_log__"],
    "normal_both": ["mean", "variance_log__"],
    "normal_both_pooled": ["mean", "variance_log__"],
    "exponential": ["rate_log__"],
    "categorical": ["p_simplex__"],
    "multinomial": ["p_simplex__"],
    "bernoulli": ["p_logodds__"],
    "binomial": ["p_logodds__"],
    "mvnormal": ["mean"],
    "mvnormal_independent": ["mean"],
    "normal_inverse_wishart": ["g_Sigma_cholesky__", "g_mu"],
    "autoregression": ["ar_A", "ar_Sigma_cholesky__"],
}


@pytest.mark.parametrize("declare", FAMILIES, ids=lambda f: f.__name__)
def test_automatic_assignment(declare):
    """Outside the model's context, where a step cannot ask for the current model."""
    assert claimed(build(declare)) == CONJUGATE[declare.__name__]


def test_assignment_inside_another_context_and_for_clones():
    model = build(poisson)
    clone = clone_model(model)
    with build(normal_variance):
        assert claimed(model) == ["rate_log__"]
        assert claimed(clone) == ["rate_log__"]
    with clone:
        assert claimed(clone) == ["rate_log__"]


def test_competence_without_a_model_claims_nothing():
    model = build(poisson)
    rate = model["rate"]
    del model
    assert ConjugateStep.competence(rate, True) == 0


def test_explicit_nuts_switches_it_off():
    model = build(poisson)
    with model:
        step = pm.NUTS([model["rate"]], compile_kwargs={"mode": "FAST_COMPILE"})
    assert claimed(model, [step]) == []


def potential(z):
    rate = pm.Gamma("rate", 1.0, 1.0, shape=L)
    pm.Poisson("y", rate[z], observed=COUNTS[:, 0])
    pm.Potential("ordered", pm.math.switch(rate[0] < rate[1], 0.0, -np.inf))


def second_dependent(z):
    rate = pm.Gamma("rate", 1.0, 1.0, shape=L)
    pm.Poisson("y", rate[z], observed=COUNTS[:, 0])
    pm.Normal("x", rate.sum(), 1.0, observed=3.0)


def twice_in_one_likelihood(z):
    mean = pm.Normal("mean", shape=L)
    pm.Normal("y", mean[z], pm.math.exp(mean)[z], observed=NUMBERS[:, 0])


def own_transform(z):
    ordered = pm.distributions.transforms.ordered
    mean = pm.Normal("mean", shape=L, transform=ordered, initval=np.arange(L))
    pm.Normal("y", mean[z], 1.0, observed=NUMBERS[:, 0])


def wrong_prior(z):
    pm.Poisson("y", pm.LogNormal("rate", shape=L)[z], observed=COUNTS[:, 0])


def shifted(z):
    pm.Poisson("y", 1.0 + pm.Gamma("rate", 1.0, 1.0, shape=L)[z], observed=COUNTS[:, 0])


def lagged(z):
    pm.Poisson("y", pm.Gamma("rate", 1.0, 1.0, shape=L)[z[1:]], observed=COUNTS[1:, 0])


def more_rows(z):
    pm.Poisson("y", pm.Gamma("rate", 1.0, 1.0, shape=L + 1)[z], observed=COUNTS[:, 0])


def several_vectors(z):
    mean, covariance = NormalInverseWishart("g", S0=np.eye(2), n_states=L)
    y = NUMBERS[:, None] + np.arange(3.0)[:, None]
    pm.MvNormal("y", mean[z][:, None], covariance[z][:, None], observed=y)


NOT_CONJUGATE = {
    several_vectors: "'y' has several observations at a time",
    potential: "'ordered' also depends on 'rate'",
    second_dependent: "'x' also depends on 'rate'",
    twice_in_one_likelihood: "'mean' enters 'y' more than once",
    own_transform: "'mean' has a transform of its own",
    wrong_prior: "no conjugate family knows how 'rate' enters a likelihood",
    shifted: "'y' does not use 'rate' as",
    lagged: "'y' does not use 'rate' as",
    more_rows: "'rate' does not have 3 rows",
}


@pytest.mark.parametrize("declare", NOT_CONJUGATE, ids=lambda f: f.__name__)
def test_what_is_left_to_pymc(declare):
    """Fails if only the likelihood's own parameter is looked at, not the rest of the model."""
    model = build(declare)
    assert claimed(model) == []
    [name] = {"rate", "mean", "g_mu"} & set(model.named_vars)
    with pytest.raises(ValueError, match="ConjugateStep cannot draw") as error:
        ConjugateStep([model[name]], model=model)
    assert NOT_CONJUGATE[declare] in str(error.value)


def test_variables_drawn_together_must_be_given_together():
    model = build(normal_inverse_wishart)
    with pytest.raises(ValueError, match=r"\['g_mu'\] must be drawn together with 'g_Sigma'"):
        ConjugateStep([model["g_Sigma"]], model=model)


def test_step_contract():
    """The point keeps its keys and arrays; a saved state repeats the draws."""
    model = build(normal_variance)
    step = ConjugateStep([model["mean"], model["variance"]], model=model, rng=3)
    assert [v.name for v in step.vars] == ["mean", "variance_log__"]
    point = read_only(model.initial_point())
    state = step.sampling_state
    first, stats = step.step(point)
    assert list(first) == list(point)
    assert stats == [{}]
    for value in model.value_vars:
        assert first[value.name].dtype == np.dtype(value.dtype)
        assert first[value.name].shape == point[value.name].shape
    step.sampling_state = state
    second, _ = step.step(point)
    for name in ("mean", "variance_log__"):
        np.testing.assert_array_equal(first[name], second[name])
        assert not np.array_equal(first[name], point[name])


def test_untransformed_rates():
    """Draws on the log scale are exponentiated where the variable has no transform."""
    with pm.Model() as model:
        z = hidden()
        rate = pm.Gamma("rate", 50.0, 1.0, shape=L, default_transform=None)
        pm.Poisson("y", rate[z], observed=COUNTS[:, 0])
    step = ConjugateStep([rate], model=model, rng=0)
    point = model.initial_point()
    new, _ = step.step({**point, "z": np.full_like(point["z"], L - 1)})
    assert np.all((new["rate"][:2] > 20.0) & (new["rate"][:2] < 90.0))


def masked(z):
    y = np.ma.masked_equal(COUNTS[:, 0], COUNTS[0, 0])
    with pytest.warns(UserWarning, match="missing values"):
        pm.Poisson("y", pm.Gamma("rate", 1.0, 1.0, shape=L)[z], observed=y)


def test_masked_data_keep_the_conjugate_draw():
    assert claimed(build(masked)) == ["rate_log__"]


def test_prior_draws_underflow_without_harm():
    """A prior draw of exp(-1e4) is 0 as a number but finite as a value."""
    with pm.Model() as model:
        z = hidden()
        rate = pm.Gamma("rate", 1e-4, 1.0, shape=L)
        pm.Poisson("y", rate[z], observed=0 * COUNTS[:, 0])
    step = ConjugateStep([rate], model=model, rng=0)
    point = model.initial_point()
    for _ in range(50):
        point, _ = step.step(point)
        assert np.isfinite(point["rate_log__"]).all()
    assert point["rate_log__"].min() < -700.0


def test_sampling():
    model = build(poisson)
    idata = sample(model, draws=10, tune=10, compile_kwargs={"mode": "NUMBA"})
    rate = posterior(idata)["rate"]
    assert rate.shape == (2, 10, L, 2)
    assert not np.array_equal(rate[0], rate[1])


def in_force(draws, names):
    """Bounded functions of the parameters in force at each time: scalars per draw, by chain."""
    z = draws["z"].astype(int)
    out = [z[..., 0] == z[..., 2], z[..., 3] == z[..., 7], z[..., 0] == z[..., 10]]
    for name in names:
        theta = draws[name].reshape(*draws[name].shape[:3], -1)
        here = np.take_along_axis(theta, z[..., None], axis=2)
        bounded = here / (1.0 + np.abs(here))
        out += [*np.moveaxis(bounded.mean(axis=2), -1, 0)]
        out += [*np.moveaxis(bounded[..., 2, :] * bounded[..., 7, :], -1, 0)]
    return np.array(out, float)


@pytest.mark.slow
@pytest.mark.parametrize("declare", FAMILIES, ids=lambda f: f.__name__)
def test_same_posterior_as_nuts(declare):
    """Fails if the Gamma rate lacks n_k, or the prior precision is counted per observation."""
    model = build(declare)
    conjugate = next(
        [model.values_to_rvs[v] for v in values]
        for method, values in assign_step_methods(model)[1].items()
        if method is ConjugateStep
    )
    names = [v.name for v in conjugate]
    results = []
    for nuts in (False, True):
        step = [ConditionalNUTS(conjugate, model=model)] if nuts else None
        idata = sample(model, draws=2000, tune=800, step=step)
        found = in_force(posterior(idata), names)
        error = np.sqrt([sum(monte_carlo_error(chain) ** 2 for chain in s) for s in found])
        results.append((found.mean(axis=(1, 2)), error / found.shape[1]))
    (a, error_a), (b, error_b) = results
    error = np.hypot(error_a, error_b)
    moving = error > 0
    np.testing.assert_array_equal(a[~moving], b[~moving])
    assert np.abs((a - b)[moving] / error[moving]).max() < 4.0


def test_a_constant_channel_is_named():
    """A scale that another step has let collapse; fails if means become NaN with a warning."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=2), length=4)
        mu = pm.Normal("mu", 0.0, 5.0, shape=2)
        sigma = pm.HalfNormal("sigma", 1.0, shape=2)
        pm.Normal("y", mu[z], sigma[z], observed=np.full(4, 0.5))
        step = dshdp.ConjugateStep([mu])
    point = {**model.initial_point(), "sigma_log__": np.array([0.0, -400.0])}
    with pytest.raises(SamplingError, match=r"\['mu'\] cannot be drawn given 'y': a scale .* coll"):
        step.step(point)


@pytest.mark.parametrize("step", [dshdp.ConjugateStep, dshdp.DSBlockGibbs])
def test_a_singular_covariance_is_named(step):
    """One that another step has proposed; fails if it ends in a bare ``LinAlgError``."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=2), length=3)
        mu = pm.MvNormal("mu", np.zeros(2), np.eye(2), shape=(2, 2))
        rho = pm.Normal("rho", 0.0, 1.0)
        one = pt.ones(())
        covariance = pt.stack([pt.stack([one, rho]), pt.stack([rho, one])])
        pm.MvNormal("y", mu[z], covariance, observed=np.eye(3)[:, :2])
        built = step([mu] if step is dshdp.ConjugateStep else [z])
    built.tune = False
    with pytest.raises(SamplingError, match=r"\['mu'\] cannot be drawn given 'y': .* is singular"):
        built.step({**model.initial_point(), "rho": np.array(1.0)})
