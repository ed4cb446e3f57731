"""Geweke's test through DSBlockGibbs and GridRhoStep, emissions collapsed and kept."""

import numpy as np
import pymc as pm
import pytest
from geweke import assert_same_means
from test_geweke_steps import HYPER, LENGTHS, L, gaussian_model, natural_values, point_of
from tiny_model import (
    NAMES,
    draw_theta,
    marginal_conditional,
    simulate_data,
    simulate_prior,
    statistics,
)

import pymc_dshdp as dshdp
from pymc_dshdp.steps.direct_assignment import DSBlockGibbs


@pytest.mark.parametrize(
    ("weights", "collapse", "scan"),
    [("weak-limit", "auto", "sequential"), ("stick-breaking", False, "random")],
)
@pytest.mark.parametrize(
    ("sweeps", "seed"),
    [(5_000, 41), pytest.param(150_000, 43, marks=pytest.mark.slow)],
    ids=["short", "long"],
)
def test_gaussian(weights, collapse, scan, sweeps, seed):
    """Every statistic of prior, states and data; fails if collapsed means are not redrawn."""
    rng = np.random.default_rng(seed)
    by_sticks = weights == "stick-breaking"
    independent = marginal_conditional(rng, 100_000, L, LENGTHS, HYPER, True, by_sticks)
    model = gaussian_model(weights)
    with model:
        states = DSBlockGibbs([model["z"]], collapse=collapse, scan=scan, rng=rng)
        persistence = dshdp.GridRhoStep([model["z"]], rng=rng)
    states.stop_tuning()
    persistence.stop_tuning()
    assert ("theta" in {v.name for v in states.vars}) == (collapse == "auto")
    point = point_of(model, simulate_prior(rng, L, LENGTHS, HYPER, True, by_sticks))
    chain = np.empty((sweeps, len(NAMES)))
    for i in range(sweeps):
        y = simulate_data(rng, point["z"].astype(np.int64), point["theta"])
        model["data"].set_value(y)
        point, _ = states.step(point)
        point, _ = persistence.step(point)
        if collapse is False:
            theta = draw_theta(rng, point["z"].astype(np.int64), y, L)
            point = {**point, "theta": theta}
        statistics(chain[i], LENGTHS, *natural_values(point), y)
    assert_same_means(NAMES, independent, chain)


def family(name, rng):
    """(declare(z, data) -> parameter's name, simulate(parameter at z) -> data)."""
    if name == "poisson":

        def declare(z, data):
            rate = pm.Gamma("theta", 2.0, 0.5, shape=(L, 2), default_transform=None)
            pm.Poisson("y", rate[z], observed=data)

        return declare, rng.poisson, (T, 2)
    if name == "exponential":

        def declare(z, data):
            rate = pm.Gamma("theta", 2.0, 0.5, shape=L, default_transform=None)
            pm.Exponential("y", rate[z], observed=data)

        return declare, lambda rate: rng.exponential(1.0 / rate), (T,)
    if name == "binomial":

        def declare(z, data):
            p = pm.Beta("theta", 0.7, 1.2, shape=L, default_transform=None)
            pm.Binomial("y", 5, p[z], observed=data)

        return declare, lambda p: rng.binomial(5, p), (T,)
    if name == "multinomial":

        def declare(z, data):
            p = pm.Dirichlet("theta", np.array([0.5, 1.0, 2.0]), shape=(L, 3))
            pm.Multinomial("y", 4, p[z], observed=data)

        return declare, lambda p: np.array([rng.multinomial(4, q) for q in p]), (T, 3)

    def declare(z, data):
        p = pm.Dirichlet("theta", np.array([0.5, 1.0, 2.0]), shape=(L, 3))
        pm.Categorical("y", p=p[z], observed=data)

    return declare, lambda p: (rng.random((len(p), 1)) > p.cumsum(axis=1)[:, :2]).sum(axis=1), (T,)


T = int(LENGTHS.sum())


def summary(z, theta, y, alpha, eta):
    at = theta[z].reshape(T, -1)
    values = y.reshape(T, -1).astype("float64")
    same = z[1:] == z[:-1]
    product = at.mean(axis=1) * values.mean(axis=1)
    return [
        np.unique(z).size,
        same.mean(),
        (z[0] == z[-1]) * 1.0,
        (at[:, 0] == at[5, 0]).mean(),
        np.log(alpha),
        eta,
        at[:, 0].mean(),
        (at[:, 0] ** 2).mean(),
        values[:, 0].mean(),
        product.mean(),
        (values[1:, 0] * values[:-1, 0]).mean(),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["poisson", "exponential", "binomial", "multinomial", "categorical"]
)
def test_collapsed_families(name):
    """Fails if a family's running sums or its redraw after the sweep is off."""
    rng = np.random.default_rng(45)
    declare, simulate, shape = family(name, rng)
    with pm.Model() as model:
        alpha = pm.Gamma("hmm_alpha", 2.0, 1.0)
        prior = dshdp.DSHDP("hmm", n_states=L, alpha=alpha)
        z = dshdp.HiddenStates("z", prior, lengths=LENGTHS)
        dtype = float if name == "exponential" else int
        start = np.zeros(shape, dtype)
        if name == "multinomial":
            start[:, 0] = 4
        declare(z, pm.Data("data", start))
        draws = pm.draw([z, model["theta"], alpha, prior.eta], draws=20_000, random_seed=rng)
        states = DSBlockGibbs([z], rng=rng)
        persistence = dshdp.GridRhoStep([z], rng=rng)
    names = [f"statistic {i}" for i in range(11)]
    independent = np.array(
        [summary(z, theta, simulate(theta[z]), a, e) for z, theta, a, e in zip(*draws, strict=True)]
    )
    states.stop_tuning()
    persistence.stop_tuning()
    assert any(v.name.startswith("theta") for v in states.vars)
    natural = model.compile_fn(
        model.replace_rvs_by_values([model["theta"], alpha, prior.eta]),
        inputs=model.value_vars,
        on_unused_input="ignore",
        point_fn=True,
    )
    point = model.initial_point()
    chain = np.empty((25_000, 11))
    for i in range(-500, len(chain)):
        theta, a, e = natural(point)
        y = simulate(theta[point["z"]])
        model["data"].set_value(np.asarray(y, dtype))
        point, _ = states.step(point)
        point, _ = persistence.step(point)
        theta, a, e = natural(point)
        if i >= 0:
            chain[i] = summary(point["z"], theta, y, a, e)
    assert_same_means(names, independent, chain)
