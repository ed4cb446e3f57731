"""NUTS that evaluates only the terms of its variables: the same gradient."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.exceptions import SamplingError
from pymc.sampling.mcmc import assign_step_methods, instantiate_steppers
from pymc.step_methods.hmc.integration import IntegrationError

import pymc_dshdp as dshdp
from pymc_dshdp.steps.nuts import _terms, _terms_with, _without_overflow

Y = np.random.default_rng(3).poisson(5.0, size=(40, 2))


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=4)
        z = dshdp.HiddenStates("z", prior, length=40)
        b = pm.Gamma("b", 1.0, 1.0, shape=2)
        rate = pm.Gamma("rate", 1.0, b, shape=(4, 2))
        pm.Poisson("y", rate[z], observed=Y)
        shift = pm.Normal("shift", 0.0, pm.Exponential("scale", 1.0))
        pm.Potential("pull", -((shift - b[0]) ** 2))
        pm.Normal("apart", 0.0, 1.0)
    return model


def steps_of(model):
    return {
        method: [v.name for v in values]
        for method, values in assign_step_methods(model, None)[1].items()
    }


def test_is_assigned_where_there_are_hidden_states(model):
    assigned = steps_of(model)
    assert set(assigned[dshdp.ConditionalNUTS]) == {
        "b_log__",
        "shift",
        "scale_log__",
        "apart",
    }
    assert pm.NUTS not in assigned


def test_leaves_other_models_alone():
    with pm.Model() as other:
        pm.Normal("x")
    assert list(steps_of(other)) == [pm.NUTS]


def test_evaluates_the_terms_of_its_variables_only(model):
    values = [model.rvs_to_values[model["b"]]]
    terms = _terms_with(values, _terms(model))
    assert {v.name for v, _ in terms} == {"b", "rate", "pull"}
    with model:
        step = dshdp.ConditionalNUTS([model["apart"]])
    point, _ = step.step(model.initial_point())
    assert set(point) == set(model.initial_point())


def test_has_the_gradient_of_the_whole_model(model):
    """Mutation: leave the potentials out of the terms."""
    rng = np.random.default_rng(2)
    point = {
        k: v + rng.normal(0, 0.3, np.shape(v)) if v.dtype.kind == "f" and "pi" not in k else v
        for k, v in model.initial_point().items()
    }
    point["hmm_beta"] = np.full(4, 0.25)
    variables = [model[name] for name in ("b", "rate", "shift")]
    with model:
        step = dshdp.ConditionalNUTS(variables, initial_point=point)
    values = [model.rvs_to_values[v] for v in variables]
    gradient = model.compile_dlogp(variables, mode="FAST_COMPILE")
    whole = model.compile_logp(mode="FAST_COMPILE")
    function = step._logp_dlogp_func
    at = []
    for _ in range(2):
        for v in values:
            point = {**point, v.name: point[v.name] + rng.normal(0, 0.2, np.shape(point[v.name]))}
        x = np.concatenate([np.ravel(point[v.name]) for v in values])
        value, slope = function._pytensor_function(x)
        np.testing.assert_allclose(slope, gradient(point), rtol=1e-8, atol=1e-10)
        at.append((value, whole(point)))
    (a, whole_a), (b, whole_b) = at
    np.testing.assert_allclose(a - b, whole_a - whole_b, rtol=1e-8)


def test_follows_the_point_that_it_is_given(model):
    """Mutation: compile the other variables' values in as constants."""
    with model:
        step = dshdp.ConditionalNUTS([model["b"]])
    start = model.initial_point()
    step.step(start)
    before = step._logp_dlogp_func._pytensor_function(np.zeros(2))[0]
    step.step({**start, "rate_log__": start["rate_log__"] + 1.0})
    assert step._logp_dlogp_func._pytensor_function(np.zeros(2))[0] != before


def test_takes_the_options_of_nuts(model):
    selected = {dshdp.ConditionalNUTS: [model.rvs_to_values[model["apart"]]]}
    steps = instantiate_steppers(model, [], selected, step_kwargs={"nuts": {"target_accept": 0.95}})
    assert steps.target_accept == 0.95


def test_a_scale_that_has_collapsed_is_named():
    """Fails if PyMC's own "Bad initial energy" reaches the user."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=2), length=4)
        mu = pm.StudentT("mu", 3, shape=2)
        sigma = pm.HalfNormal("sigma", 1.0, shape=2)
        pm.Normal("y", mu[z], sigma[z], observed=np.full(4, 0.5))
        step = dshdp.ConditionalNUTS([mu, sigma], compile_kwargs={"mode": "FAST_COMPILE"})
    point = model.initial_point()
    point |= {"sigma_log__": np.array([0.0, -800.0]), "mu": np.full(2, 0.5), "z": np.ones(4, int)}
    words = r"The log-density of y at 0 is .* where sigma\[1\] is 0: a scale parameter has coll"
    with np.errstate(all="ignore"), pytest.raises(SamplingError, match=words):
        step.step(point)


def test_an_overflow_far_out_is_a_divergence(quick):
    """As of ``expm`` of a rate matrix; fails where it ends the chain."""
    with pm.Model() as model:
        q = pm.Gamma("q", 2.0, 10.0, shape=2)
        rates = pt.stack([pt.stack([-q[0], q[0]]), pt.stack([q[1], -q[1]])])
        P = pt.stack([pt.linalg.expm(rates * gap) for gap in (1.0, 2.0)])
        prior = dshdp.Transitions("hmm", P, index=np.arange(20) % 2)
        z = dshdp.HiddenStates("z", prior, length=20)
        pm.Normal("y", 4.0 * z, 1.0, observed=np.repeat([0.0, 4.0], 10))
        step = dshdp.ConditionalNUTS(
            [q], step_scale=1e4, adapt_step_size=False, compile_kwargs={"mode": "FAST_COMPILE"}
        )
    step.rng = np.random.default_rng(1)
    point, seen = model.initial_point(), []
    point["z"] = np.repeat([0, 1], 10)
    for _ in range(5):
        with np.errstate(all="ignore"):
            point, [stats] = step.step(point)
        seen.append(stats["diverging"])
    assert all(seen) and np.isfinite(point["q_log__"]).all()

    def overflowing(q, point_map_info):  # what PyMC's own mode calls raises, and Python's does not
        raise OverflowError

    call = _without_overflow(overflowing)
    assert step.integrator._logp_dlogp_func.__code__ is call.__code__
    with pytest.raises(IntegrationError, match="Overflow"):
        call(None, None)
