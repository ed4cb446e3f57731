"""Parts of a likelihood named by ``pm.Deterministic``: seen through, wherever a graph is read."""

import numpy as np
import pymc as pm
import pytest
from models import posterior, sample
from pymc.sampling.mcmc import assign_step_methods

import pymc_dshdp as dshdp
from pymc_dshdp._compat import group
from pymc_dshdp.graph.walks import constant_number, declared_parameters

RNG = np.random.default_rng(1)
T = 60
X, Y = RNG.normal(size=T), RNG.normal(size=T) + np.repeat([0.0, 4.0, 0.0], T // 3)
COUNTS, CHOICES = RNG.poisson(np.exp(Y / 2.0)), RNG.integers(0, 2, T)


def state_normal(name, scale=2.0):
    """Declare a number of each state."""
    return pm.Normal(name, 0.0, scale, dims="hmm_state")


def inverse_gamma():
    """Declare a variance of each state."""
    return pm.InverseGamma("v", 2.0, 1.0, dims="hmm_state")


def normal(z, named):
    """Mean and scale of each time have names."""
    mean, scale = state_normal("mu")[z], pm.math.sqrt(inverse_gamma()[z])
    pm.Normal("y", named("mean", mean), named("sd", scale), observed=Y)


def scale_of_states(z, named):
    """The scale of each state has a name, and the prior of the mean depends on it."""
    scale = named("sigma", pm.math.sqrt(inverse_gamma()))
    mu = pm.Normal(
        "mu", named("centre", pm.math.constant(0.0) + 1.0), 4.0 * scale, dims="hmm_state"
    )
    pm.Normal("y", mu[z], scale[z], observed=Y)


def root_as_power(z, named):
    """A root is written as a power."""
    v = inverse_gamma()
    mu = pm.Normal("mu", 0.0, 2.0 * v**0.5, dims="hmm_state")
    pm.Normal("y", mu[z], named("sd", v[z] ** 0.5), observed=Y)


def regression(z, named):
    """The linear predictor and its parts have names."""
    line = named("a_z", state_normal("a")[z]) + named("b_z", state_normal("b")[z]) * X
    pm.Normal("y", named("eta", line), 1.0, observed=Y)


def logistic(z, named):
    """The probability of a logistic regression has a name."""
    line = named("eta", state_normal("a")[z] + state_normal("b")[z] * X)
    pm.Bernoulli("y", p=named("p", pm.math.invlogit(line)), observed=CHOICES)


def poisson(z, named):
    """So has a rate, given by numbers on another scale."""
    pm.Poisson(
        "y", named("rate", pm.math.exp(named("log_rate", state_normal("r"))[z])), observed=COUNTS
    )


def sliced_scale(z, named):
    """So have a scale without a conjugate prior, and the path."""
    sigma = pm.HalfNormal("sigma", 2.0, dims="hmm_state")
    states = named("states", z)
    pm.Normal("y", state_normal("mu")[states], named("sd", sigma[states]), observed=Y)


CONJUGATE = (normal, scale_of_states, root_as_power, regression, logistic)
SLICED = (poisson, sliced_scale)
READ_AGAIN = (normal, sliced_scale)  # by analyses, which compile what they read


def build(declare, named):
    """Declare a model; ``named(name, graph)`` gives a name to a part, or does not."""
    with pm.Model() as model:
        declare(dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=4), length=T), named)
    return model


@pytest.mark.parametrize("declare", [*CONJUGATE, *SLICED], ids=lambda f: f.__name__)
def test_names_change_nothing(declare):
    """Steps, draws, probabilities of the states and forecasts are those without names."""
    expected = "SliceEmissionStep" if declare in SLICED else "ConjugateStep"
    found = []
    for named in (lambda _, graph: graph, pm.Deterministic):
        model = build(declare, named)
        steps = {step.__name__ for step in assign_step_methods(model)[1]}
        assert expected in steps
        assert steps.isdisjoint({"ConditionalNUTS", "NUTS"})
        idata = sample(model, chains=1)
        results = {**posterior(idata), "log_joint": group(idata, "sample_stats")["log_joint"]}
        if declare in READ_AGAIN:
            results["smoothed"] = dshdp.smooth(idata, model=model)
            results["ahead"] = dshdp.forecast(idata, model=model, horizon=3, random_seed=1)["y"]
        found.append(results)
    without, with_names = found
    for name, values in without.items():
        np.testing.assert_allclose(values, with_names[name], rtol=1e-9, err_msg=name)


def test_what_is_not_named_stays_itself():
    """Nodes above no name are not copied, so that they are found by identity."""
    with pm.Model():
        a, b = pm.Normal("a", shape=3), pm.Normal("b", shape=3)
        mean = a * b
        y = pm.Normal("y", mean, pm.Deterministic("s", pm.math.exp(b)))
    mu, sigma = declared_parameters(y)
    assert mu is mean
    assert sigma.owner.inputs == [b]


def test_numbers_of_constants():
    """An exponent for each state is not the first one's for all."""
    with pm.Model():
        v = pm.HalfNormal("v", shape=2)
    exponents = [0.5, [0.5, 0.5], [0.5, 1.0], v]
    numbers = [constant_number((v**x).owner.inputs[1]) for x in exponents]
    assert numbers == [0.5, 0.5, None, None]
