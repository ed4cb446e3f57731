"""What every step must do, whatever it samples."""

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytest
from models import (
    COUNTS,
    FAST,
    SEGMENTS,
    fixed_model,
    needs_fork,
    poisson_model,
    posterior,
    read_only,
)
from models import sample as sample_quietly
from pymc.model.fgraph import clone_model
from pymc.sampling.mcmc import assign_step_methods, instantiate_steppers
from pymc.step_methods.compound import CompoundStep
from scipy import stats

import pymc_dshdp as dshdp
from pymc_dshdp._compat import begin_chain
from pymc_dshdp.steps import grid_rho
from pymc_dshdp.steps.states import FULL_DRAWS, HELD_ITERATIONS

pytestmark = pytest.mark.usefixtures("python_pymc")

STEPS = [dshdp.WeakLimitFFBS, dshdp.GridRhoStep]


@pytest.fixture(scope="module")
def model():
    return fixed_model()


@pytest.fixture(scope="module")
def steps(model):
    """Each step by name, compiled once; tests set the state that they need."""
    with model:
        return {step.__name__: step([model["z"]], rng=np.random.default_rng(1)) for step in STEPS}


@pytest.fixture
def grids(monkeypatch, quick):
    """List that every grid is appended to that ``GridRhoStep`` draws from."""
    seen = []
    propose = grid_rho.kernels.propose_persistence

    def recorded(*args):
        seen.append(args[6])
        return propose(*args)

    monkeypatch.setattr(grid_rho.kernels, "propose_persistence", recorded)
    return seen


@pytest.fixture(params=[step.__name__ for step in STEPS])
def step(request, steps):
    """A step in the middle of its sampling."""
    step = steps[request.param]
    before = step.sampling_state
    step.tune = False
    yield step
    step.sampling_state = before


def sample(model, **kwargs):
    """``pm.sample`` of a model that only our steps sample."""
    return sample_quietly(model, **kwargs)


def assert_same(one, two):
    assert list(one) == list(two)
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)


def run(step, point, n):
    out = []
    for _ in range(n):
        point, stats = step.step(point)
        out.append(point)
    return out


# -- one step -----------------------------------------------------------------------------------


def test_restored_state_repeats_the_draws(step, model):
    """Fails if a mutable attribute (say ``held`` or ``draws``) is not a state field."""
    if hasattr(step, "held"):
        step.tune, step.hold, step.held, step.draws, step.full = True, 9, 7, 97, 3
    point = model.initial_point()
    state = step.sampling_state
    first = run(step, point, 5)
    after = step.sampling_state
    step.sampling_state = cloudpickle.loads(cloudpickle.dumps(state))
    second = run(step, point, 5)
    for one, two in zip(first, second, strict=True):
        assert_same(one, two)
    assert str(step.sampling_state) == str(after)
    assert not np.array_equal(first[0]["hmm_kappa_logodds__"], first[1]["hmm_kappa_logodds__"]) or (
        not np.array_equal(first[0]["hmm_pi_bar"], first[1]["hmm_pi_bar"])
    )


def test_point_contract(step, model):
    """Keys in order, inputs untouched, dtypes and shapes of the value variables.

    Fails if the states come back in another type (int8, say), or if the step returns
    ``{**new, **point}``.
    """
    point = read_only(model.initial_point())
    before = {name: value.copy() for name, value in point.items()}
    new, stats = step.step(point)
    assert list(new) == list(point)
    assert_same(point, before)
    kinds = {value.name: value for value in model.value_vars}
    for name, value in new.items():
        assert isinstance(value, np.ndarray), name
        assert value.dtype == kinds[name].dtype == before[name].dtype, name
        assert value.shape == before[name].shape, name
    owned = {v.name for v in step.vars}
    beside = set()
    if isinstance(step, dshdp.GridRhoStep):
        beside = {"hmm_alpha_log__", "hmm_pi_bar", "hmm_pi_init"}
    for name in set(point) - owned - beside:
        assert new[name] is point[name]
    changed = {n for n in point if not np.array_equal(new[n], before[n])} - beside
    assert changed <= owned and len(changed) >= len(owned) - 2
    [stats] = stats
    assert set(stats) == set(step.stats_dtypes_shapes)


def test_the_two_steps_own_everything_but_theta(steps, model):
    owned = [{v.name for v in step.vars} for step in steps.values()]
    assert owned[0] | owned[1] == {v.name for v in model.value_vars}
    assert not owned[0] & owned[1]


def test_occupied_states_and_marginal_likelihood(steps, model):
    """Fails if ``n_occupied`` counted transitions, or if the likelihood were left out."""
    step = steps["WeakLimitFFBS"]
    before = step.sampling_state
    step.tune = False
    point, [stats] = step.step(model.initial_point())
    assert stats["n_occupied"] == len(np.unique(point["z"])) == 3
    np.testing.assert_array_equal(point["z"], SEGMENTS)
    start = model.initial_point()
    pi_init, P = step._priors[0].transition.transition_probabilities(start)
    ell = step._priors[0].tables[0](start)
    expected = 0.0
    for part in (ell[:12], ell[12:]):
        alpha = pi_init * np.exp(part[0])
        for row in part[1:]:
            alpha = (alpha @ P) * np.exp(row)
        expected += np.log(alpha.sum())
    assert stats["log_marginal_likelihood"] == pytest.approx(expected)
    step.sampling_state = before


def test_states_are_held_while_tuning_only(steps, model):
    """Fails if the hold ignores ``tune`` or never ends."""
    step = steps["WeakLimitFFBS"]
    before = step.sampling_state
    path = np.roll(SEGMENTS, 3).astype("int8")
    point = {**model.initial_point(), "z": path}
    step.tune, step.hold, step.held = True, 5, 0
    held = run(step, point, 5)
    assert all(np.array_equal(p["z"], path) for p in held)
    assert not np.array_equal(held[-1]["hmm_pi_bar"], held[-2]["hmm_pi_bar"])
    released, [stats] = step.step(held[-1])
    np.testing.assert_array_equal(released["z"], SEGMENTS)
    assert np.isfinite(stats["log_marginal_likelihood"])
    step.tune, step.held = False, 0
    at_once, _ = step.step(point)
    np.testing.assert_array_equal(at_once["z"], SEGMENTS)
    step.sampling_state = before


def test_how_long_states_are_held(model, quick):
    """One iteration where all emission parameters are drawn exactly, else fifty.

    Fails if a ``ConjugateStep`` that draws only some of them is enough.
    """
    with pm.Model():
        prior = dshdp.DSHDP("hmm", n_states=3)
        z = dshdp.HiddenStates("z", prior, lengths=[12, 18])
        rate = pm.Gamma("rate", 2.0, 0.1, dims="hmm_state")
        scale = pm.LogNormal("scale", 0.0, 1.0, dims="hmm_state")
        pm.Poisson("counts", rate[z], observed=COUNTS)
        pm.Normal("y", 0.0, scale[z], observed=COUNTS)
        both = dshdp.WeakLimitFFBS([z])
        conjugate = dshdp.ConjugateStep([rate])
    both._begin_chain([both, conjugate], 0)
    assert both.hold == HELD_ITERATIONS
    one = conjugate_model()
    with one:
        ffbs = dshdp.WeakLimitFFBS([one["z"]])
        conjugate = dshdp.ConjugateStep([one["rate"]])
    assert ffbs.hold == HELD_ITERATIONS
    ffbs._begin_chain([ffbs, conjugate], 0)
    assert ffbs.hold == 1
    ffbs._begin_chain([ffbs, pm.Slice([one["rate"]], model=one)], 0)
    assert ffbs.hold == HELD_ITERATIONS
    with model:
        assert dshdp.WeakLimitFFBS([model["z"]]).hold == 1


def test_a_second_owner_is_seen_in_any_nesting():
    """Fails if only the compound that calls the step is looked at, and nothing is said without."""
    model = fixed_model()
    with model:
        ffbs = dshdp.WeakLimitFFBS([model["z"]])
        other = pm.Slice([model["hmm_alpha"]], compile_kwargs=FAST)
    rng = np.random.default_rng(0)
    for methods in ([CompoundStep([ffbs]), other], [ffbs, CompoundStep([CompoundStep([other])])]):
        with pytest.raises(ValueError, match=r"Slice was given \['hmm_alpha_log__'\], which only"):
            begin_chain(CompoundStep(methods), rng, 0, 1)
    with pytest.warns(UserWarning, match="cannot see the steps beside it, which draw.*hmm_phi"):
        begin_chain(ffbs, rng, 0, 1)


def conjugate_model():
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=3)
        z = dshdp.HiddenStates("z", prior, lengths=[12, 18])
        rate = pm.Gamma("rate", 2.0, pm.Gamma("b", 2.0, 1.0), dims="hmm_state")
        pm.Poisson("counts", rate[z], observed=COUNTS)
    return model


def test_truncation_warning_fires_once(steps, model):
    """Fails if ``warned`` is not set, or ``FULL_DRAWS`` is ignored, or tuning draws count."""
    step = steps["WeakLimitFFBS"]
    before = step.sampling_state
    point = model.initial_point()
    step.tune, step.held = True, step.hold
    assert all(step.step(point)[1][0]["warning"] is None for _ in range(5))
    assert step.draws == 0
    step.tune = False
    warnings = [step.step(point)[1][0]["warning"] for _ in range(FULL_DRAWS + 20)]
    fired = [i for i, warning in enumerate(warnings) if warning is not None]
    assert fired == [FULL_DRAWS - 1]
    message = warnings[fired[0]].message
    assert f"{FULL_DRAWS} of {FULL_DRAWS} draws" in message and "raise n_states" in message
    step.sampling_state = before
    assert (step.draws, step.full, step.warned) == (0, 0, False)


def test_truncation_warning_is_not_by_chance(steps):
    """Fails if a share that is once above the bound in hundreds of looks at it is told."""
    step = steps["WeakLimitFFBS"]
    before = step.sampling_state
    step.tune = False
    rare = [step._truncation_warning(i in (40, 41, 250)) for i in range(1000)]
    assert rare == [None] * 1000
    step.sampling_state = before
    step.tune = False
    often = [step._truncation_warning(i % 20 == 0) for i in range(1000)]
    assert sum(warning is not None for warning in often) == 1
    step.sampling_state = before


# -- pm.sample ----------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [pytest.param("fork", marks=needs_fork), "spawn"])
def test_sequential_and_parallel_chains_agree(start, model):
    """Fails if a step draws from anything but its own generator, or carries state over."""
    one = sample(model, step=both(model), draws=5, tune=4, cores=1)
    two = sample(model, step=both(model), draws=5, tune=4, cores=2, mp_ctx=start)
    assert_same(posterior(one), posterior(two))
    kappa = posterior(one)["hmm_kappa"]
    assert not np.array_equal(kappa[0], kappa[1])


def latent_model():
    """A latent series between the states and the data."""
    rng = np.random.default_rng(4)
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=3), length=12)
        mu = pm.Normal("mu", 0.0, 3.0, shape=3)
        x = pm.Normal("x", mu[z], 0.5, shape=12)
        pm.Poisson("y", pm.math.exp(x), observed=rng.poisson(np.repeat([1, 8, 1], 4)))
    return model


def steps_of_latent_model(model, direct):
    z, mu, x = model["z"], model["mu"], model["x"]
    with model:
        if direct:
            return [dshdp.DSBlockGibbs([z]), pm.Metropolis([x])]
        return [dshdp.WeakLimitFFBS([z]), dshdp.ConjugateStep([mu]), pm.Metropolis([x])]


@pytest.mark.parametrize("direct", [False, True])
def test_latent_series_in_worker_processes(direct, quick):
    """Fails if a step takes the array of a variable for its value.

    Worker processes write every point into the same memory.
    """
    model = latent_model()
    settings = {"draws": 12, "tune": 0, "random_seed": 2}
    one, two = (
        posterior(sample(model, step=steps_of_latent_model(model, direct), cores=n, **settings))
        for n in (1, 2)
    )
    assert_same(one, two)
    assert len(np.unique(one["x"][0], axis=0)) > 5
    assert len(np.unique(one["z"][0], axis=0)) > 1


def both(model):
    with model:
        return [dshdp.WeakLimitFFBS([model["z"]]), dshdp.GridRhoStep([model["z"]])]


def test_statistics_and_no_tuning(model, quick):
    """Fails if states are held although ``tune=0``."""
    wrong = np.zeros(len(COUNTS), "int8")
    idata = sample(model, tune=0, draws=110, chains=2, initvals={"z": wrong})
    stats = idata["sample_stats"]
    for name in ("n_occupied", "log_marginal_likelihood", "rho_accepted"):
        assert stats[name].shape[:2] == (2, 110)
    np.testing.assert_array_equal(stats["n_occupied"], 3)
    assert np.isfinite(stats["log_marginal_likelihood"]).all()
    assert 0.5 < stats["rho_accepted"].values.mean() <= 1.0
    np.testing.assert_array_equal(posterior(idata)["z"], np.tile(SEGMENTS, (2, 110, 1)))


def test_warning_of_a_full_truncation_reaches_every_chain(quick):
    """Fails if ``warned`` leaks from chain to chain, or a truncation with room is reported."""
    assert warnings_by_chain(fixed_model()) == {0: 1, 1: 1}
    assert warnings_by_chain(fixed_model(n_states=4, rates=(2.0, 20.0, 60.0, 1e4))) == {0: 0, 1: 0}


def warnings_by_chain(model):
    found = {}

    def count(trace, draw):
        fired = sum(stats.get("warning") is not None for stats in draw.stats)
        found[draw.chain] = found.get(draw.chain, 0) + fired

    sample(model, draws=FULL_DRAWS, tune=2, callback=count)
    return found


def test_starting_paths(quick):
    """Fails if ``initvals`` is overwritten, or chains share the generator of the start."""
    model = poisson_model(n_states=8)
    path = np.arange(len(COUNTS), dtype="int8") % 5
    given = sample(
        model,
        step=metropolis(model),
        tune=5,
        draws=5,
        initvals={"z": path},
        discard_tuned_samples=False,
    )
    warmup = given["warmup_posterior"]["z"].values
    np.testing.assert_array_equal(warmup, np.tile(path, (2, 5, 1)))
    chosen = sample(
        model, step=metropolis(model), tune=5, draws=5, chains=4, discard_tuned_samples=False
    )
    warmup = chosen["warmup_posterior"]["z"].values
    starts = {warmup[chain, 0].tobytes() for chain in range(4)}
    assert len(starts) > 1
    for chain in range(4):
        np.testing.assert_array_equal(warmup[chain], np.tile(warmup[chain, 0], (5, 1)))
        assert len(np.unique(warmup[chain, 0])) >= 2


def metropolis(model):
    with model:
        return [pm.Metropolis([model["rate"]])]


def test_the_table_follows_the_parameters(quick):
    """Fails if the table is computed once and kept while the rates move."""
    model = poisson_model(n_states=3)
    with model:
        step = dshdp.WeakLimitFFBS([model["z"]], rng=np.random.default_rng(1))
    step.tune = False
    point = model.initial_point()
    for order in ([0, 1, 2], [2, 0, 1]):
        rates = np.empty(3)
        rates[order] = [2.0, 20.0, 60.0]
        drawn, _ = step.step({**point, "rate_log__": np.log(rates)})
        np.testing.assert_array_equal(drawn["z"], np.array(order)[SEGMENTS])


def test_beside_other_steps(quick):
    """Metropolis, Slice and NUTS in one model; fails if a step keeps values of an earlier point."""
    levels = SEGMENTS + 0.1 * np.random.default_rng(2).standard_normal(SEGMENTS.size)
    model = poisson_model(n_states=3)
    with model:
        mean = pm.Normal("mean", 1.0, 2.0, shape=3)
        sigma = pm.HalfNormal("sigma", 1.0)
        pm.Normal("level", mean[model["z"]], sigma, observed=levels)
        step = [pm.Metropolis([model["rate"]]), pm.Slice([mean]), pm.NUTS([sigma])]
    draws = posterior(sample(model, step=step, tune=80, draws=20, chains=1))
    z = draws["z"][0]
    assert z.dtype == np.int64
    counts = np.array([COUNTS[SEGMENTS == k].mean() for k in range(3)])[SEGMENTS]
    rate, mean = (np.take_along_axis(draws[x][0], z.astype(int), 1) for x in ("rate", "mean"))
    assert np.all(np.abs(rate.mean(axis=0) - counts) < 0.35 * counts + 1.5)
    assert np.all(np.abs(mean.mean(axis=0) - SEGMENTS) < 0.2)
    assert np.all(draws["sigma"][0] < 0.3)


def test_automatic_assignment_is_the_documented_one(model, quick):
    """Fails if competence misses a variable."""
    provided, selected = assign_step_methods(model)
    assert provided == []
    assigned = {step: {v.name for v in vars} for step, vars in selected.items()}
    explicit = {type(step): {v.name for v in step.vars} for step in both(model)}
    assert assigned == explicit
    automatic = sample(model, draws=5, tune=0)
    by_hand = sample(model, step=in_order(both(model), selected), draws=5, tune=0)
    assert_same(posterior(automatic), posterior(by_hand))


def in_order(steps, selected):
    return sorted(steps, key=lambda step: list(selected).index(type(step)))


def test_keywords_of_pm_sample_reach_the_steps(model, quick):
    selected = assign_step_methods(model)[1]
    steps = instantiate_steppers(model, [], selected, step_kwargs={"grid_rho": {"refine": False}})
    [rho] = [step for step in steps if isinstance(step, dshdp.GridRhoStep)]
    assert rho.refine is False and rho.grid == (100, 100)


# -- several priors, clones ---------------------------------------------------------------------


def test_outside_a_with_block_and_on_a_clone(model, quick):
    """Fails if a step keeps the Python object of the prior."""
    original = sample(model, draws=4, tune=0)
    cloned = clone_model(model)
    again = sample(cloned, draws=4, tune=0, step=None)
    assert posterior(again)["z"].shape == posterior(original)["z"].shape
    np.testing.assert_array_equal(posterior(again)["z"][0, -1], SEGMENTS)


def two_priors(shared):
    with pm.Model() as model:
        one = dshdp.DSHDP("one", n_states=3, alpha=1.0)
        two = one if shared else dshdp.DSHDP("two", n_states=4, alpha=1.0)
        rates = np.array([2.0, 20.0, 60.0, 200.0])
        for name, prior, data in [("za", one, COUNTS[:12]), ("zb", two, COUNTS[12:])]:
            z = dshdp.HiddenStates(name, prior, length=len(data))
            pm.Poisson(f"y_{name}", rates_of(rates, prior)[z], observed=data)
    return model


def rates_of(rates, prior):
    return pytensor.tensor.as_tensor(rates[: prior.n_states])


def counts_of(paths, n_states):
    counts = np.zeros((n_states + 1, n_states), int)
    for path in paths:
        counts[0, path[0]] += 1
        np.add.at(counts, (path[:-1] + 1, path[1:]), 1)
    return counts


def test_two_priors_in_one_model(quick):
    """Fails if one prior's counts are used for the other (``W`` of another prior)."""
    model = two_priors(shared=False)
    selected = assign_step_methods(model)[1]
    assert set(selected) == set(STEPS)
    idata = sample(model, draws=300, tune=0, chains=1)
    draws = posterior(idata)
    np.testing.assert_array_equal(draws["za"][0, -1], SEGMENTS[:12])
    np.testing.assert_array_equal(draws["zb"][0, -1], SEGMENTS[12:])
    with model:
        step = dshdp.WeakLimitFFBS([model["za"], model["zb"]])
        rho = dshdp.GridRhoStep([model["za"], model["zb"]])
    point = {**model.initial_point(), "za": draws["za"][0, -1], "zb": draws["zb"][0, -1]}
    for i, path in enumerate((SEGMENTS[:12], SEGMENTS[12:])):
        expected = counts_of([path], 3 + i)
        np.testing.assert_array_equal(step._priors[i].paths.counts(point), expected)
        np.testing.assert_array_equal(rho._updates[i][0].counts(point), expected)
    assert draws["one_pi_init"][0, :, 0].mean() > 0.5
    assert draws["two_pi_init"][0, :, 2].mean() > 0.5
    np.testing.assert_array_equal(idata["sample_stats"]["n_occupied"], 5)


def test_two_states_of_one_prior_pool_their_counts(quick):
    """Fails if only the last states' counts are used, or each is counted on its own."""
    model = two_priors(shared=True)
    with model:
        step = dshdp.WeakLimitFFBS([model["za"], model["zb"]])
        rho = dshdp.GridRhoStep([model["zb"]])
    assert {v.name for v in step.vars} >= {"za", "zb"}
    point = {
        **model.initial_point(),
        "za": SEGMENTS[:12].astype("int8"),
        "zb": SEGMENTS[12:].astype("int8"),
    }
    expected = counts_of([SEGMENTS[:12], SEGMENTS[12:]], 3)
    np.testing.assert_array_equal(step._priors[0].paths.counts(point), expected)
    np.testing.assert_array_equal(rho._updates[0][0].counts(point), expected)
    idata = sample(model, draws=300, tune=0, chains=1)
    draws = posterior(idata)
    assert set(assign_step_methods(model)[1]) == set(STEPS)
    # Both first states, 0 and 2, weigh on the shared initial distribution.
    initial = draws["one_pi_init"][0].mean(axis=0)
    assert initial[0] > 0.2 and initial[2] > 0.2


def test_compound_of_both_is_restored_by_state(model, steps):
    compound = CompoundStep(list(steps.values()))
    state = compound.sampling_state
    compound.stop_tuning()
    point = model.initial_point()
    first = run(compound, point, 3)
    compound.sampling_state = state
    compound.stop_tuning()
    for one, two in zip(first, run(compound, point, 3), strict=True):
        assert_same(one, two)
    compound.sampling_state = state


@pytest.mark.parametrize("weight", [0.5, 3.0])
def test_the_grid_follows_what_its_prior_depends_on(grids, weight):
    """Fails if the grid is made once, though the prior of phi has a parameter that is sampled."""
    with pm.Model() as model:
        phi = pm.Beta("phi", pm.Gamma("a", 2.0, 1.0), 2.0)
        prior = dshdp.DSHDP("hmm", n_states=3, phi=phi)
        z = dshdp.HiddenStates("z", prior, length=12)
        step = dshdp.GridRhoStep([z], grid=(4, 5))
    grids.clear()
    step.step({**model.initial_point(), "a_log__": np.log(weight)})
    [grid] = grids
    np.testing.assert_allclose(grid.phi_low, [0.0, 0.25, 0.5, 0.75])
    np.testing.assert_allclose(grid.eta_low, 0.4 * np.arange(5))
    expected = stats.beta.logpdf([0.125, 0.375, 0.625, 0.875], weight, 2.0)
    for column in grid.log_prior.T:
        np.testing.assert_allclose(column - column[0], expected - expected[0], atol=1e-12)


def test_the_grid_has_the_one_value_of_what_is_fixed(grids):
    """Fails if the grid is made before that value is known."""
    model = poisson_model(eta=0.4)
    with model:
        step = dshdp.GridRhoStep([model["z"]], grid=(4, 5))
    grids.clear()
    step.step(model.initial_point())
    [grid] = grids
    np.testing.assert_allclose(grid.phi_low, [0.0, 0.25, 0.5, 0.75])
    np.testing.assert_allclose(grid.eta_low, [0.4])
    np.testing.assert_array_equal(grid.log_prior, np.zeros((4, 1)))
