"""DSBlockGibbs as a PyMC step: the contract, what it collapses, what it refuses."""

import copy

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from emissions import family_models as families
from models import COUNTS, SEGMENTS, needs_fork, posterior, read_only, sample
from pymc.exceptions import SamplingError
from pymc.sampling.mcmc import assign_step_methods
from pymc.step_methods.compound import Competence

import pymc_dshdp as dshdp
from pymc_dshdp.kernels.direct_assignment import draw_persistences
from pymc_dshdp.kernels.predictive import Table
from pymc_dshdp.steps import direct_assignment
from pymc_dshdp.steps.direct_assignment import DSBlockGibbs
from pymc_dshdp.steps.states import FULL_DRAWS, HELD_ITERATIONS

pytestmark = pytest.mark.usefixtures("python_mode")


def counts_model(prior=dshdp.DSHDP, n_states=4, y=COUNTS, states=None, **kwargs):
    """Poisson counts with conjugate rates on two sequences."""
    with pm.Model() as model:
        prior = prior("hmm", n_states=n_states, **kwargs)
        z = dshdp.HiddenStates("z", prior, **(states or {"lengths": [12, 18]}))
        rate = pm.Gamma("rate", 1.0, 0.05, dims="hmm_state")
        pm.Poisson("counts", rate[z], observed=y)
    return model


def build(model, vars=("z",), **kwargs):
    with model:
        return DSBlockGibbs([model[name] for name in vars], **kwargs)


@pytest.fixture(scope="module")
def model():
    return counts_model()


@pytest.fixture(scope="module", params=["auto", False], ids=["collapsed", "kept"])
def made(request, model):
    return build(model, collapse=request.param, rng=np.random.default_rng(1))


@pytest.fixture
def step(made):
    """A step in the middle of its sampling."""
    before = made.sampling_state
    made.tune = False
    yield made
    made.sampling_state = before


def run(step, point, n):
    out = []
    for _ in range(n):
        point, stats = step.step(point)
        out.append((point, stats[0]))
    return out


def assert_same(one, two):
    assert list(one) == list(two)
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)


def good_point(model):
    point = model.initial_point()
    point["z"] = SEGMENTS
    point["rate_log__"] = np.log([2.0, 20.0, 60.0, 9.0])
    return point


def test_restored_state_repeats_the_draws(step, model):
    """Fails if a mutable attribute is not a state field."""
    step.tune, step.held, step.draws, step.full = True, step.hold - 1, 97, 3
    state = step.sampling_state
    first = run(step, good_point(model), 5)
    after = step.sampling_state
    step.sampling_state = cloudpickle.loads(cloudpickle.dumps(state))
    for (one, _), (two, _) in zip(first, run(step, good_point(model), 5), strict=True):
        assert_same(one, two)
    assert str(step.sampling_state) == str(after)


def test_point_contract(step, model, monkeypatch):
    """Fails if the states keep the kernel's dtype, or the point's order or arrays change.

    Without splits and merges, which draw what they integrate out.
    """
    monkeypatch.setattr(step, "split_merge", False)
    point = read_only(good_point(model))
    before = {name: value.copy() for name, value in point.items()}
    [(new, stats)] = run(step, point, 1)
    assert list(new) == list(point)
    assert_same(point, before)
    for name, value in new.items():
        assert value.dtype == before[name].dtype, name
        assert value.shape == before[name].shape, name
    owned = {v.name for v in step.vars}
    for name in set(point) - owned:
        assert new[name] is point[name]
    assert ("rate_log__" in owned) == (step.collapse == "auto")
    assert set(stats) == set(step.stats_dtypes_shapes)


def test_theta_has_random_numbers_of_its_own(model):
    """Fails if the parameters are redrawn with the random numbers that drew the states."""
    step = build(model, rng=np.random.default_rng(1))
    step.stop_tuning()
    before = copy.deepcopy(step.rng)
    point, _ = step.step(good_point(model))
    again = step._priors[0].redraw(point, before)
    assert not np.any(again["rate_log__"] == point["rate_log__"])


def test_rows_are_redrawn(step, model):
    """Fails if pi_bar or pi_init, integrated out of the sweep, is returned as it was."""
    (one, _), (two, _) = run(step, good_point(model), 2)
    for name in ("hmm_pi_bar", "hmm_pi_init", "hmm_beta", "hmm_alpha_log__", "hmm_gamma_log__"):
        assert not np.array_equal(one[name], two[name])
    assert np.array_equal(one["rate_log__"], two["rate_log__"]) == (step.collapse is False)


def test_states_are_held_then_drawn_whole_while_tuning(step, model):
    """Fails if the hold ignores ``tune`` or never ends, or if tuning moves single states."""
    path = np.roll(SEGMENTS, 3)
    point = {**good_point(model), "z": path}
    n = 1 if step.collapse == "auto" else HELD_ITERATIONS
    step.tune, step.held = True, 0
    draws = run(step, point, n + 1)
    for held, stats in draws[:-1]:
        np.testing.assert_array_equal(held["z"], path)
        assert stats["moved"] == 0
    assert not np.array_equal(draws[-1][0]["z"], path)
    assert draws[-1][1]["moved"] == 0
    step.tune, step.held = False, 0
    assert run(step, point, 1)[0][1]["moved"] > 0


def test_statistics(step, model, monkeypatch):
    """Fails if moves, births or deaths are counted of another sweep, or for one another."""
    monkeypatch.setattr(step, "split_merge", False)
    births = deaths = 0
    for path in (np.full(30, 3), np.arange(30) % 4):
        point = {**good_point(model), "z": path}
        for new, stats in run(step, point, 20):
            assert stats["n_occupied"] == np.unique(new["z"]).size
            assert stats["moved"] == np.count_nonzero(new["z"] != point["z"])
            change = np.unique(new["z"]).size - np.unique(point["z"]).size
            assert change == stats["births"] - stats["deaths"]
            births, deaths = births + stats["births"], deaths + stats["deaths"]
            point = new
        assert np.mean(point["z"][:-1] == point["z"][1:]) > 0.5
    assert births > 0
    assert deaths > 0


def test_truncation_warning_fires_once():
    """With every slot occupied the sweep goes on, and says so; fails if tuning draws count."""
    step = build(counts_model(n_states=3), rng=5)
    point = step._priors[0].start(counts_model(n_states=3).initial_point(), step.rng)
    point = {**point, "z": SEGMENTS}
    step.tune, step.held = True, step.hold
    assert all(stats["warning"] is None for _, stats in run(step, point, 5))
    step.tune = False
    warnings = [stats["warning"] for _, stats in run(step, point, FULL_DRAWS + 20)]
    assert [i for i, w in enumerate(warnings) if w is not None] == [FULL_DRAWS - 1]


def test_never_chosen_automatically(model):
    """Fails if competence claims a variable."""
    assert all(DSBlockGibbs.competence(v, True) is Competence.INCOMPATIBLE for v in model.free_RVs)
    assert DSBlockGibbs not in assign_step_methods(model)[1]


@pytest.mark.parametrize(
    "start", [pytest.param("fork", marks=needs_fork), pytest.param("spawn", marks=pytest.mark.slow)]
)
def test_sequential_and_parallel_chains_agree(start, model):
    """Fails if the step draws from anything but its own generator, or carries state over."""
    draws = []
    for cores in (1, 2):
        with model:
            steps = [DSBlockGibbs([model["z"]]), dshdp.GridRhoStep([model["z"]])]
        idata = sample(model, step=steps, draws=6, tune=4, cores=cores, mp_ctx=start)
        draws.append(posterior(idata))
    assert_same(*draws)
    assert not np.array_equal(draws[0]["hmm_kappa"][0], draws[0]["hmm_kappa"][1])


def test_sampling_recovers_the_segments(model):
    with model:
        steps = [DSBlockGibbs([model["z"]]), dshdp.GridRhoStep([model["z"]])]
    idata = sample(model, step=steps, draws=300, tune=100)
    z = posterior(idata)["z"]
    together = (z[..., :, None] == z[..., None, :]).mean(axis=(0, 1))
    truth = SEGMENTS[:, None] == SEGMENTS
    assert np.abs(together - truth).mean() < 0.1
    assert idata["sample_stats"]["n_occupied"].values.min() >= 2


COLLAPSED = {
    "poisson_exponential": {"rate_log__"},
    "poisson_exposure": {"rate_log__"},
    "normal_mean_scale": {"mean"},
    "normal_variance": {"mean"},
    "normal_both": {"mean", "variance_log__"},
    "mvnormal": {"mean"},
    "mvnormal_independent": {"mean"},
    "normal_inverse_wishart": {"g_mu", "g_Sigma_cholesky__"},
    "autoregression": {"ar_A", "ar_Sigma_cholesky__"},
    "poisson_broadcast": set(),
}


@pytest.fixture
def unrehearsed(monkeypatch):
    """Steps that are only built: the sweep of each family need not be compiled."""
    monkeypatch.setattr(direct_assignment, "rehearse", lambda *args, **attributes: None)


@pytest.mark.usefixtures("unrehearsed")
@pytest.mark.parametrize("name", COLLAPSED)
def test_what_is_collapsed(name):
    """Parameters of a sole likelihood with parameters for each column."""
    model = families.build(getattr(families, name))
    step = build(model, rng=6)
    others = {v.name for v in step.vars if v.name.startswith("hmm")} | {"z"}
    assert {v.name for v in step.vars} - others == COLLAPSED[name]
    assert {v.name for v in build(model, collapse=False).vars} == others


@pytest.mark.usefixtures("unrehearsed")
def test_two_likelihoods_are_not_collapsed():
    with pm.Model() as double:
        prior = dshdp.DSHDP("hmm", n_states=3)
        z = dshdp.HiddenStates("z", prior, length=8)
        pm.Normal("y", pm.Normal("mean", 0.0, 1.0, shape=3)[z], 1.0, observed=np.zeros(8))
        rate = pm.Gamma("rate", 1.0, 1.0, shape=3)
        pm.Poisson("counts", rate[z], observed=np.zeros(8, int))
    assert not {"mean", "rate"} & {v.name for v in build(double).vars}


def test_empty_slots_are_alike_only_if_their_priors_are():
    """Fails if slots with priors of their own are weighed together."""
    for prior_mean, alike in ((0.0, True), (np.arange(3.0), False)):
        with pm.Model() as model:
            prior = dshdp.DSHDP("hmm", n_states=3)
            z = dshdp.HiddenStates("z", prior, length=8)
            mean = pm.Normal("mean", prior_mean, 1.0, shape=3)
            pm.Normal("y", mean[z], 1.0, observed=np.zeros(8))
        [emission] = build(model)._priors[0].emissions
        assert emission.statistics(model.initial_point(), np.zeros(8, int))[1] is alike


def test_several_states_of_one_prior_share_their_counts():
    """Fails if a second path's sweep starts from its own counts only."""
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=3)
        for name in ("a", "b"):
            z = dshdp.HiddenStates(f"z_{name}", prior, shape=(2, 9))
            rate = pm.Gamma(f"rate_{name}", 1.0, 0.05, shape=3)
            pm.Poisson(f"y_{name}", rate[z], observed=COUNTS[:18].reshape(2, 9))
    step = build(model, ("z_a", "z_b"), rng=3)
    step.tune = False
    sampler = step._priors[0]
    seen = {}
    inner = sampler.transition

    class Spy:
        def __getattr__(self, name):
            return getattr(inner, name)

        def __call__(self, point, switches, persistences, rng):
            seen.update(n=switches, W=persistences, N=sampler.paths.counts(point))
            return inner(point, switches, persistences, rng)

    sampler.transition = Spy()
    point = model.initial_point()
    for _ in range(10):
        [(point, _)] = run(step, point, 1)
        assert seen["N"].sum() == 36
        np.testing.assert_array_equal(seen["n"][1:] + np.diag(seen["W"]), seen["N"][1:])
        assert (seen["n"] >= 0).all() and (seen["W"] >= 0).all()
        assert point["z_b"].shape == (2, 9)


def sticks_model(shape=1.0, known=None, outside=False, **kwargs):
    """Two states far apart in four slots along the sticks."""
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=4, weights="stick-breaking", **kwargs)
        z = dshdp.HiddenStates("z", prior, length=20, known=known)
        rate = pm.Gamma("rate", shape, 0.05, shape=4)
        pm.Poisson("y", rate[z], observed=np.repeat([0, 100], 10))
        if outside:
            pm.Potential("outside", prior.kappa[0])
    return model


RENUMBERED = {
    "alike": (sticks_model, {}, True),
    "no persistence": (lambda: sticks_model(kappa=0.0), {}, True),
    "kept": (sticks_model, {"collapse": False}, False),
    "known": (lambda: sticks_model(known={0: 2}), {}, False),
    "kappa by state": (lambda: sticks_model(kappa=[0.1, 0.2, 0.3, 0.4]), {}, False),
    "kappa elsewhere": (lambda: sticks_model(outside=True), {}, False),
    "rates by state": (lambda: sticks_model(np.arange(1.0, 5.0)), {}, False),
}


@pytest.mark.parametrize("make, kwargs, expected", RENUMBERED.values(), ids=RENUMBERED)
def test_states_are_renumbered_where_they_are_alike(make, kwargs, expected):
    """Fails if what tells two states apart is overlooked."""
    model = make()
    step = build(model, rng=8, **kwargs)
    step.tune = False
    transition = step._priors[0].transition
    inner, asked = transition.renumber, []
    transition.renumber = lambda *args: asked.append(True) or inner(*args)
    point = {**model.initial_point(), "z": np.repeat([2, 3], 10)}
    if "hmm_kappa_logodds__" in point:
        point["hmm_kappa_logodds__"] = np.arange(4.0)
    run(step, point, 1)
    assert bool(asked) == expected


def test_kappa_goes_along_with_its_state():
    """Fails if the numbering stays, or kappa stays where its state changes its number."""
    model = sticks_model()
    step = build(model, rng=8, split_merge=False)
    step.tune = False
    point = {**model.initial_point(), "z": np.repeat([2, 3], 10)}
    point["hmm_kappa_logodds__"] = np.array([0.1, 0.2, 5.0, 6.0])
    numbers = set()
    for new, _ in run(step, point, 10):
        ends = new["z"][[0, -1]]
        np.testing.assert_array_equal(new["hmm_kappa_logodds__"][ends], [5.0, 6.0])
        assert sorted(new["hmm_kappa_logodds__"]) == [0.1, 0.2, 5.0, 6.0]
        numbers.add(tuple(ends.tolist()))
    assert len(numbers) > 2


def test_other_priors():
    for kwargs in (
        {"prior": dshdp.StickyHDP},
        {"weights": "stick-breaking"},
        {"kappa": 0.0},
        {"prior": dshdp.HDP},
        {"prior": dshdp.FixedTransitions},
    ):
        model = counts_model(**kwargs)
        step = build(model, rng=4)
        step.tune = False
        point = {**model.initial_point(), "z": SEGMENTS}
        before = point
        point, _ = run(step, point, 20)[-1]
        changed = {n for n in point if not np.array_equal(point[n], before[n])}
        assert changed >= {v.name for v in step.vars} - {"z"}


def test_refusals(model):
    with pytest.raises(ValueError, match='collapse must be "auto" or False, received True'):
        build(model, collapse=True)
    with pm.Model() as hard:
        prior = dshdp.DSHDP("hmm", n_states=2)
        z = dshdp.HiddenStates("z", prior, length=3)
        width = pm.HalfNormal("width", 1.0, shape=2)
        pm.Uniform("y", 0.0, width[z], observed=[0.2, 0.5, 0.1])
    step = build(hard, rng=1)
    step.tune = False
    point = {**hard.initial_point(), "width_log__": np.log([0.3, 0.4])}
    with pytest.raises(SamplingError, match=r"y at z\[1\] is -inf"):
        step.step(point)


def test_persistences_use_the_rows_of_the_point(monkeypatch, model):
    """Fails if w is drawn given other rows than those of the point."""
    step = build(model, collapse=False, rng=2)
    step.tune = False
    [(point, _)] = run(step, good_point(model), 1)  # rows that differ
    seen = []

    def spy(rng, path, lengths, index, logit, pi_bar, switches, visits):
        seen.append((logit, pi_bar))
        return draw_persistences(rng, path, lengths, index, logit, pi_bar, switches, visits)

    monkeypatch.setattr("pymc_dshdp.steps.direct_assignment.kernels.draw_persistences", spy)
    step.step(point)
    [(logit, pi_bar)] = seen
    np.testing.assert_array_equal(pi_bar, point["hmm_pi_bar"])
    np.testing.assert_array_equal(logit, point["hmm_kappa_logodds__"])
    statistics, alike = step._priors[0].emissions[0].statistics(point, SEGMENTS)
    assert isinstance(statistics, Table)
    assert not alike
