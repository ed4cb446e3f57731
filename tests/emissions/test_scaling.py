"""Data and priors in other units give the same states and parameters, in those units."""

from functools import lru_cache

import numpy as np
import pymc as pm
import pytest
from models import python_graphs

import pymc_dshdp as dshdp
from emissions.family_models import COVARIANCE, NUMBERS, PATH, TIMES, L, build
from pymc_dshdp.graph.readers import in_values, point_function
from pymc_dshdp.likelihood.conjugate import ConjugateTerm, find_conjugate
from pymc_dshdp.likelihood.families import table_term


def normal_mean(z, unit):
    mean = pm.Normal("mean", 0.3 * unit, 2.0 * unit, shape=(L, 2))
    pm.Normal("y", mean[z], np.array([1.5, 2.5]) * unit, observed=NUMBERS * unit)


def normal_variance(z, unit):
    mean = pm.Normal("mean", 0.5 * unit, 2.0 * unit, shape=(L, 2))
    variance = pm.InverseGamma("variance", 3.0, 4.0 * unit**2, shape=(L, 2))
    pm.Normal("y", mean[z], pm.math.sqrt(variance[z]), observed=NUMBERS * unit)


def exponential(z, unit):
    rate = pm.Gamma("rate", 2.0, 3.0 * unit, shape=(L, 2))
    pm.Exponential("y", rate[z], observed=TIMES * unit)


def mvnormal(z, unit):
    covariance = COVARIANCE * unit**2
    mean = pm.MvNormal("mean", np.array([0.5, -0.5]) * unit, 2.0 * covariance, shape=(L, 2))
    pm.MvNormal("y", mean[z], covariance, observed=NUMBERS * unit)


def normal_inverse_wishart(z, unit):
    mu, Sigma = dshdp.NormalInverseWishart("g", data=NUMBERS * unit, n_states=L)
    pm.MvNormal("y", mu[z], Sigma[z], observed=NUMBERS * unit)


POWERS = {"mean": 1, "variance": 2, "rate": -1, "g_mu": 1, "g_Sigma": 2}


@lru_cache
def drawn(declare, unit):
    """Parameters drawn at a fixed path, on their own scale, and the table there."""
    model = build(lambda z: declare(z, unit))
    point = {**model.initial_point(), "z": PATH.astype("int8")}
    names = [v.name for v in model.free_RVs if v.name in POWERS]
    if declare is normal_variance:
        names = ["variance", "mean"]
        point["variance_log__"] = np.full((L, 2), np.log(4.0 * unit**2))
    rng = np.random.default_rng(4)
    for name in names:
        value = model.rvs_to_values[model[name]].name
        term = ConjugateTerm(model, find_conjugate(model, model[name]))
        if value in [v.name for v in term.values]:
            point = {**point, **term.draw(point, rng)}
    natural = point_function(in_values(model, [model[name] for name in names]))(point)
    table = table_term(model, model["y"], model["z"], L)(point)
    return dict(zip(names, natural, strict=True)), table


@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize(
    "declare",
    [normal_mean, normal_variance, exponential, mvnormal, normal_inverse_wishart],
    ids=lambda f: f.__name__,
)
def test_units_change_nothing_else(declare, unit, monkeypatch):
    """Fails if something is added to a variance or a rate to keep it from 0."""
    python_graphs(monkeypatch)
    here, table = drawn(declare, 1.0)
    there, scaled = drawn(declare, unit)
    for name, value in here.items():
        np.testing.assert_allclose(there[name] / unit ** POWERS[name], value, rtol=1e-7, atol=1e-12)
    offset = scaled - table  # the Jacobian of the units, the same in every state and time
    used = np.ptp(table, axis=1) > 0
    assert used.any()
    np.testing.assert_allclose(offset[used], offset[used].mean(), rtol=1e-7)
