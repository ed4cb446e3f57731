"""Geweke's test through DSBlockGibbs and GridRhoStep, emissions collapsed and kept."""

import numpy as np
import pymc as pm
import pytest
import small_families as families
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
from pymc_dshdp.emissions.conjugate import ConjugateTerm, find_conjugate
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


class BothNormal(families.Normal):
    """Mean and variance with a joint prior."""

    def declare(z, y):
        variance = pm.InverseGamma("variance", 6.0, 5.0, shape=(families.L, 2))
        mean = pm.Normal("mean", 0.5, pm.math.sqrt(variance / 0.4), shape=(families.L, 2))
        pm.Normal("y", mean[z], pm.math.sqrt(variance[z]), observed=y)

    def prior(rng):
        variance = 5.0 / rng.gamma(6.0, 1.0, (families.L, 2))
        mean = 0.5 + rng.standard_normal((families.L, 2)) * np.sqrt(variance / 0.4)
        return {"mean": mean, "variance_log__": np.log(variance)}


class KnownMean(families.Normal):
    """Variance alone."""

    def declare(z, y):
        variance = pm.InverseGamma("variance", 6.0, 5.0, shape=(families.L, 2))
        pm.Normal("y", 0.5, pm.math.sqrt(variance[z]), observed=y)

    def prior(rng):
        return {"variance_log__": np.log(5.0 / rng.gamma(6.0, 1.0, (families.L, 2)))}

    def simulate(rng, point, z):
        return rng.normal(0.5, np.exp(0.5 * point["variance_log__"])[z])


def label_invariant(point, z, y):
    out = [np.unique(z).size, np.mean(z[1:] == z[:-1]), z[0] == z[-1]]
    y = np.tanh(0.3 * y.reshape(len(y), -1).astype("float64"))
    out += [y.mean(), (y**2).mean(), (y[1:] * y[:-1]).mean()]
    for value in point.values():
        at = np.tanh(value.reshape(len(value), -1))[z]
        out += [at.mean(), (at**2).mean(), (at.mean(axis=1) * y.mean(axis=1)).mean()]
    return out


FAMILIES = [*families.FAMILIES, BothNormal, KnownMean]
SHORT = (families.Autoregression,)


@pytest.mark.parametrize(
    ("case", "sweeps"),
    [(case, 1_500) for case in SHORT]
    + [pytest.param(case, 8_000, marks=pytest.mark.slow) for case in FAMILIES],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_collapsed_families(case, sweeps):
    """Fails if a family's running sums are off, or its redraw after the sweep."""
    rng = np.random.default_rng(45)
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=families.L, gamma=2.0, alpha=2.0, kappa=0.4)
        z = dshdp.HiddenStates("z", prior, length=families.T)
        start = getattr(case, "first", np.zeros(case.shape, case.dtype))
        data = pm.Data("data", start)
        case.declare(z, data)
        step = DSBlockGibbs([z], rng=rng)
        paths = pm.draw(z, draws=5_000, random_seed=rng)
    step.stop_tuning()
    owned = [v.name for v in step.vars if not v.name.startswith(("hmm", "z"))]
    assert owned
    theta = case.prior(rng)
    others = [
        ConjugateTerm(model, find_conjugate(model, model.values_to_rvs[v]))
        for v in model.value_vars
        if v.name in theta and v.name not in owned
    ]
    independent = []
    for path in paths:
        theta = case.prior(rng)
        independent.append(label_invariant(theta, path, case.simulate(rng, theta, path)))
    point = {**model.initial_point(), **theta, "z": paths[-1].astype("int8")}
    chain = []
    for i in range(-100, sweeps):
        y = case.simulate(rng, point, point["z"])
        data.set_value(np.asarray(y, data.dtype))
        point, _ = step.step(point)
        for term in others:
            point = {**point, **term.draw(point, rng)}
        if i >= 0:
            chain.append(label_invariant({n: point[n] for n in theta}, point["z"], y))
    names = [f"statistic {i}" for i in range(len(chain[0]))]
    assert_same_means(names, np.array(independent, float), np.array(chain, float))
