"""Conditionals of one element at a time: against the model's own density, and their draws."""

import numpy as np
import pymc as pm
import pytest
from models import posterior, python_graphs, read_only, sample
from pymc.sampling.mcmc import assign_step_methods
from pytensor import function
from reference import assert_chain_density, assert_distribution
from scipy import stats

from emissions.conditional_models import (
    CONDITIONALS,
    exponential_scale_by_column,
    half_normal_scale,
    half_student_pooled,
    log_link,
    lognormal_rate,
    negative_binomial_size,
    student_degrees,
    student_location,
    student_mean,
    student_scale,
    uniform_scale,
    weibull_scale,
    weibull_shape,
)
from emissions.family_models import COUNTS, NUMBERS, PATH, L, T, build, hidden
from pymc_dshdp.kernels import slice as slice_kernel
from pymc_dshdp.likelihood.conditional import (
    ConditionalTerm,
    NotConditional,
    find_conditional,
    reasons,
)
from pymc_dshdp.steps import ConjugateStep, SliceEmissionStep

QUICK = {exponential_scale_by_column, half_student_pooled, log_link, negative_binomial_size,
         student_degrees, student_location, student_scale, weibull_scale,
         weibull_shape}  # fmt: skip


def start(model, seed=3):
    rng = np.random.default_rng(seed)
    point = model.initial_point()
    for name, value in point.items():
        if not name.startswith("hmm") and np.issubdtype(value.dtype, np.floating):
            point[name] = np.asarray(value + 0.1 * rng.standard_normal(value.shape))
    return {**point, "z": PATH.astype(point["z"].dtype)}


@pytest.mark.parametrize(
    "declare",
    [c if c in QUICK else pytest.param(c, marks=pytest.mark.slow) for c in CONDITIONALS],
    ids=lambda f: f.__name__,
)
def test_density_of_each_element_is_the_models(declare, monkeypatch):
    """In value space, at the present path: fails without the Jacobian, or with another's sums."""
    python_graphs(monkeypatch)
    model = build(declare)
    theta = model["theta"]
    point = start(model)
    term = ConditionalTerm(model, find_conditional(model, theta), point)
    graph = model.logp(vars=[model["y"], theta])
    joint_of = function(
        [term.value],
        graph,
        mode="FAST_COMPILE",
        givens={v: point[v.name] for v in model.value_vars if v is not term.value},
        on_unused_input="ignore",
    )
    density = term.log_density(point, term.statistics(point)[1])
    x = np.array(point[term.value.name], float)
    steps = np.linspace(-0.2, 0.15, x.size)
    found = density(x.ravel() + steps) - density(x.ravel())
    for i, step in enumerate(steps):
        moved = x.copy()
        moved.flat[i] += step
        expected = joint_of(moved) - joint_of(x)
        np.testing.assert_allclose(found[i], expected, rtol=1e-9, atol=1e-9)


def updates(step, point, n):
    """Natural values of n updates at one path and one value of everything else."""
    out = []
    for _ in range(n):
        point, _ = step.step(point)
        out.append(next(point[v.name] for v in step.vars))
    return np.array(out)


def test_draws_of_a_scale():
    """Fails if an empty state keeps its value, or visits are taken of another state.

    State 0 has one observation, state 1 eleven and state 2 none: its scales are the prior's.
    """
    model = build(half_normal_scale)
    point = start(model)
    step = SliceEmissionStep([model["theta"]], model=model, rng=5)
    draws = np.exp(updates(step, point, 1500))
    squares = (NUMBERS[:, 0] - point["mean"][PATH]) ** 2
    for k in (0, 1):
        n, total = np.sum(PATH == k), squares[PATH == k].sum()

        def log_density(x, n=n, total=total):
            return -n * np.log(x) - 0.5 * total / x**2 - 0.125 * x**2

        assert_chain_density(draws[:, k], log_density, 1e-4, 60.0)
    assert_distribution(draws[:, 2], stats.halfnorm(scale=2.0).cdf)


def test_prior_of_an_empty_state_follows_its_hyperparameters():
    """Of a distribution that PyMC builds of others, too."""
    with pm.Model() as model:
        z = hidden()
        width = pm.HalfNormal("width")
        scale = pm.HalfStudentT("scale", 3.0, width, shape=L)
        pm.Normal("y", 1.0, scale[z], observed=NUMBERS[:, 0])
    point = {**start(model), "width_log__": np.array(np.log(0.3))}
    step = SliceEmissionStep([scale], model=model, rng=5)
    draws = np.exp(updates(step, point, 300)[:, 2])
    assert_distribution(draws, lambda x: 2.0 * stats.t(3.0, scale=0.3).cdf(x) - 1.0)


def test_prior_whose_draws_leave_the_numbers_is_sliced():
    """Half the draws of Gamma(0.001, 0.001) round to 0, whose logarithm is no value."""
    with pm.Model() as model:
        z = hidden()
        tau = pm.Gamma("tau", 1e-3, 1e-3, shape=L)
        pm.Normal("y", 1.0, tau=tau[z], observed=NUMBERS[:, 0])
    step = SliceEmissionStep([tau], model=model, rng=5)
    assert np.isfinite(updates(step, start(model), 10)).all()


def claimed(model, step=None):
    methods = assign_step_methods(model, step)[1]
    return {
        cls: sorted(v.name for v in methods.get(cls, []))
        for cls in (ConjugateStep, SliceEmissionStep)
    }


def test_automatic_assignment():
    """What has a closed form is left to ``ConjugateStep``, hyperparameters to NUTS."""
    found = claimed(build(lognormal_rate))
    assert found[SliceEmissionStep] == ["theta_log__"]
    model = build(half_normal_scale)
    assert claimed(model) == {ConjugateStep: ["mean"], SliceEmissionStep: ["theta_log__"]}
    with model:
        nuts = pm.NUTS([model["theta"]], compile_kwargs={"mode": "FAST_COMPILE"})
    assert claimed(model, [nuts])[SliceEmissionStep] == []


def ordered(z):
    transform = pm.distributions.transforms.ordered
    theta = pm.Normal("theta", shape=L, transform=transform, initval=np.arange(L))
    pm.Normal("y", theta[z], 1.0, observed=NUMBERS[:, 0])


def potential(z):
    theta = pm.HalfNormal("theta", shape=L)
    pm.Normal("y", 1.0, theta[z], observed=NUMBERS[:, 0])
    pm.Potential("more", -theta.sum())


def unknown(z):
    theta = pm.HalfNormal("theta", shape=L)
    pm.Logistic("y", 0.0, theta[z], observed=NUMBERS[:, 0])


def both_parameters(z):
    pm.Gamma("y", mu=pm.HalfNormal("theta", shape=L)[z], sigma=2.0, observed=NUMBERS[:, 0] ** 2)


def neighbours(z):
    theta = pm.LogNormal("theta", shape=L)
    pm.Normal("y", 1.0, (theta / theta.sum())[z], observed=NUMBERS[:, 0])


def lagged(z):
    pm.Poisson("y", pm.LogNormal("theta", shape=L)[z[1:]], observed=COUNTS[1:, 0])


def time_varying(z):
    theta = pm.LogNormal("theta", shape=L)
    pm.Normal("y", 1.0, theta[z] * np.linspace(1.0, 2.0, T), observed=NUMBERS[:, 0])


def tied(z):
    pm.Normal("y", 1.0, pm.Dirichlet("theta", np.ones(L))[z], observed=NUMBERS[:, 0])


LEFT = {
    ordered: "the order of 'theta' ties the states together",
    potential: "'y' and 'more' both depend on 'theta'",
    unknown: "no conditional is known for a variable in parameter 1 of 'y', a ",
    both_parameters: "no conditional is known for a variable in parameters 0 and 1 of 'y', a gamma",
    neighbours: "may depend on several of 'theta'",
    lagged: "the times of 'y' are not those of 'z'",
    time_varying: "varies other than with 'z'",
    tied: "the elements of 'theta' are not independent in their prior",
}


@pytest.mark.parametrize("declare", LEFT, ids=lambda f: f.__name__)
def test_what_is_left_to_pymc(declare):
    model = build(declare)
    with pytest.raises(NotConditional) as error:
        find_conditional(model, model["theta"])
    assert LEFT[declare] in str(error.value)
    with pytest.raises(ValueError, match="SliceEmissionStep cannot draw 'theta'"):
        SliceEmissionStep([model["theta"]], model=model)
    assert LEFT[declare] in reasons(model)["theta"]


@pytest.mark.parametrize("declare", [half_student_pooled, student_scale], ids=lambda f: f.__name__)
def test_path_that_is_data(declare, monkeypatch):
    """The density is that at the same path, sampled; fails if it is looked for in the point."""
    python_graphs(monkeypatch)
    free = build(declare)
    point = start(free)
    known = pm.observe(free, {"z": PATH})
    found = []
    for model in (free, known):
        given = {v.name: point[v.name] for v in model.value_vars}
        term = ConditionalTerm(model, find_conditional(model, model["theta"]), given)
        x = np.array(point[term.value.name], float).ravel() + 0.3
        found.append(term.log_density(given, term.statistics(given)[1])(x))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def test_reasons_of_what_is_drawn_exactly():
    assert reasons(build(half_normal_scale)) == {}


def test_step_contract(monkeypatch):
    """The point keeps its keys and arrays; a saved state repeats the draws."""
    python_graphs(monkeypatch)
    model = build(uniform_scale)
    step = SliceEmissionStep([model["theta"]], model=model, rng=3)
    point = read_only(start(model))
    state = step.sampling_state
    first, stats = step.step(point)
    assert list(first) == list(point)
    assert stats == [{}]
    for value in model.value_vars:
        assert first[value.name].dtype == np.dtype(value.dtype)
        assert first[value.name].shape == point[value.name].shape
    step.step(first)
    step.sampling_state = state
    second, _ = step.step(point)
    np.testing.assert_array_equal(first["theta_interval__"], second["theta_interval__"])


def test_counts_that_occur_may_change(monkeypatch):
    """With new data the size of negative binomial counts has statistics of other lengths."""
    python_graphs(monkeypatch)
    with pm.Model() as model:
        z = hidden()
        size = pm.LogNormal("size", shape=L)
        y = pm.Data("counts", COUNTS[:, 0])
        pm.NegativeBinomial("y", mu=4.0, alpha=size[z], observed=y)
    step = SliceEmissionStep([size], model=model, rng=3)
    with model:
        pm.set_data({"counts": np.arange(T)})
    assert np.isfinite(updates(step, start(model), 2)).all()


def test_density_without_an_end_is_refused(monkeypatch):
    """A scale whose data are their mean: the conditional cannot be normalised."""
    python_graphs(monkeypatch)
    monkeypatch.setattr(slice_kernel, "MAX_STEPS", 100)
    with pm.Model() as model:
        z = hidden()
        scale = pm.HalfNormal("scale", shape=L)
        pm.Normal("y", 1.0, scale[z], observed=np.ones(T))
    with pytest.raises(
        ValueError, match="'scale_log__' cannot be drawn: the density does not fall off"
    ):
        SliceEmissionStep([scale], model=model, rng=3)


@pytest.mark.slow
def test_sampling():
    draws = posterior(sample(build(student_mean), draws=10, tune=10))
    assert draws["theta"].shape == (2, 10, L, 2)
