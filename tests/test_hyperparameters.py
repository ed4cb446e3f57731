"""Hyperparameters of the states' parameters: which they are, and their law against quadrature."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_dshdp as dshdp

PATH = np.repeat([0, 3, 1], [9, 2, 12])
Y = np.array([-1.0, 1.5, 0.0, 2.0])[PATH] + np.random.default_rng(3).normal(size=PATH.size)


def hierarchy(parameters):
    with pm.Model(coords={"state": range(6)}) as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", dims="state"), length=PATH.size)
        parameters(z)
    return model


def means(z):
    mu0, tau = pm.Normal("mu0", 0.0, 2.0), pm.HalfNormal("tau", 3.0)
    mu = pm.Normal("mu", mu0, tau, dims="state")
    pm.Normal("y", mu[z], 1.0, observed=Y)


def quadrature():
    """Weights of (mu0, tau) on a grid, the means of all states summed out."""
    mu0, tau = np.meshgrid(np.linspace(-12.0, 12.0, 600), np.linspace(1e-4, 16.0, 1200))
    log_weight = stats.norm.logpdf(mu0, 0.0, 2.0) + stats.halfnorm.logpdf(tau, scale=3.0)
    for k in np.unique(PATH):
        y = Y[PATH == k]
        log_weight += stats.norm.logpdf(y.mean(), mu0, np.hypot(tau, len(y) ** -0.5))
    weight = np.exp(log_weight - log_weight.max())
    return mu0, tau, weight / weight.sum()


@pytest.mark.parametrize("moved", [("mu0", "tau", "mu"), ("mu0", "tau")], ids=["all", "apart"])
def test_law_given_the_states(moved):
    """Fails if a density of theirs is left out, or the parameters of empty states hold them."""
    model = hierarchy(means)
    with model:
        steps = [dshdp.ConditionalNUTS([model[name] for name in moved], rng=1)]
        if "mu" not in moved:
            steps.append(dshdp.ConjugateStep([model["mu"]], rng=2))
    point, draws = {**model.initial_point(), "z": PATH}, []
    for i in range(6300):
        if i == 300:
            for step in steps:
                step.stop_tuning()
        for step in steps:
            point, _ = step.step(point)
        draws.append([point["mu0"], np.exp(point["tau_log__"])])
    mu0, tau = np.array(draws[300:]).T
    at_mu0, at_tau, weight = quadrature()
    for found, expected in (
        (mu0, at_mu0),
        (tau, at_tau),
        (tau < 1.0, at_tau < 1.0),
        (mu0**2, at_mu0**2),
        (np.log(tau), np.log(at_tau)),
    ):
        batches = found.reshape(30, -1).mean(axis=1)
        error = batches.std(ddof=1) / np.sqrt(30)
        assert abs(batches.mean() - (weight * expected).sum()) < 4.5 * error
        assert error < 0.08


def chosen(parameters):
    model = hierarchy(parameters)
    names = [rv for rv in model.free_RVs if rv.dtype == "float64" and "hmm" not in rv.name]
    with model:
        step = dshdp.ConditionalNUTS(names)
    return step, {v.name for v in step._hyperparameters.values}


def test_which_variables_they_are():
    """Fails if a variable that data depend on is taken for one."""

    def shifted(z):
        mu0, tau = pm.Normal("mu0"), pm.HalfNormal("tau")
        mu = pm.Normal("mu", mu0, tau, dims="state")
        pm.Normal("y", mu[z] + mu0, pm.HalfNormal("sigma"), observed=Y)

    def not_centred(z):
        mu0, tau = pm.Normal("mu0"), pm.HalfNormal("tau")
        pm.Normal("y", mu0 + tau * pm.Normal("raw", dims="state")[z], 1.0, observed=Y)

    def of_hyperparameters(z):
        top = pm.Normal("top")
        mu0 = pm.Normal("mu0", top, 1.0)
        mu, sigma = pm.Normal("mu", mu0, 2.0, dims="state"), pm.HalfNormal("sigma", dims="state")
        pm.Normal("y", mu[z], sigma[z], observed=Y)

    def many(z):
        b = pm.Normal("b", shape=17)
        mu = pm.Normal("mu", b.sum(), 1.0, dims="state")
        pm.Normal("y", mu[z], 1.0, observed=Y)

    found = [chosen(x)[1] for x in (means, shifted, not_centred, of_hyperparameters, many)]
    assert found == [{"mu0", "tau_log__"}, {"tau_log__"}, set(), {"mu0"}, set()]


def test_what_is_beside_them_moves():
    """A scale that all states share; fails if the trajectory leaves it as it is."""

    def shared(z):
        mu0, tau, sigma = pm.Normal("mu0"), pm.HalfNormal("tau"), pm.HalfNormal("sigma")
        mu = pm.Normal("mu", mu0, tau, dims="state")
        pm.StudentT("y", nu=4.0, mu=mu[z], sigma=sigma, observed=Y)

    step, found = chosen(shared)
    assert found == {"mu0", "tau_log__"}
    point = {**step._model.initial_point(), "z": PATH}
    draws = []
    for _ in range(30):
        point, _ = step.step(point)
        draws.append([point[v.name].ravel()[0] for v in step.vars])
    assert (np.diff(draws, axis=0) != 0.0).mean(axis=0).min() > 0.5
