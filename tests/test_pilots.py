"""Starts of many kinds, and the short runs that choose among them."""

import numpy as np
import pymc as pm
import pytest
import reference
from models import COUNTS, sample

import pymc_dshdp as dshdp
from pymc_dshdp.steps import pilots
from pymc_dshdp.steps.pilots import (
    EACH,
    FRESH,
    PATIENCE,
    Plan,
    best_of_pilots,
    cross_paths,
    paths_apart,
    plan_of,
)
from pymc_dshdp.steps.wide_starts import KINDS, standardised, wide_start

pytestmark = pytest.mark.usefixtures("python_readers")


def conjugate(**states):
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=4), **(states or {"length": 30}))
        rate = pm.Gamma("rate", 1.0, 0.1, shape=4)
        pm.Poisson("y", rate[z], observed=COUNTS)
    return model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [[2], [40, 1, 9]])
def test_starts_are_paths(kind, lengths):
    """Missing features, a sequence of one time and two times in all included."""
    lengths = np.array(lengths)
    x = np.random.default_rng(1).normal(size=(lengths.sum(), 3)) + 4.0
    x[-1, 1] = np.nan
    for seed in range(5):
        path = wide_start(kind, standardised(x), lengths, 6, np.random.default_rng(seed))
        again = wide_start(kind, standardised(x), lengths, 6, np.random.default_rng(seed))
        np.testing.assert_array_equal(path, again)
        assert path.shape == (lengths.sum(),)
        assert path.min() >= 0 and path.max() < 6


def test_dynamics_are_told_apart_where_levels_are_not():
    """Fails if the products with the time before are left out."""
    rng = np.random.default_rng(2)
    truth = np.repeat([0, 1, 0, 1], 100)
    y = np.zeros(400)
    for t in range(1, 400):
        y[t] = (0.95, -0.95)[truth[t]] * y[t - 1] + rng.normal()
    features = standardised(y[:, None])

    def apart(kind):
        wrong = []
        for seed in range(40):
            path = wide_start(kind, features, np.array([400]), 2, np.random.default_rng(seed))
            wrong.append(float(dshdp.hamming_distance(path, truth)))
        return min(wrong)

    assert apart("dynamics") < 0.15
    assert apart("level") > 0.3


NEW = -1  # quality of a start that is made once the population is


def run_pilots(qualities, cross, plan, seed=0):
    """Pilots whose evidence is known from their fourth iteration on; the best, and all starts."""
    made, crossed = [], []

    def start(kind):
        made.append(kind)
        return {"quality": ([None, *qualities, *[NEW] * 200])[len(made)], "age": 0}

    def iterate(point):
        return {**point, "age": point["age"] + 1}

    def evidence(point):
        return point["quality"] if point["age"] > 3 else -point["quality"]

    def crossing(one, two):
        crossed.append((one["quality"], two["quality"]))
        return {"quality": cross(one["quality"], two["quality"]), "age": 0}

    def apart(one, two):
        return abs(one["quality"] - two["quality"])

    rng = np.random.default_rng(seed)
    best = best_of_pilots(start, iterate, dict, crossing, apart, evidence, plan, rng)
    return best, made, crossed


def test_the_best_is_kept():
    """Fails if the best is lost among crosses, or scores are those of the first iterations."""
    qualities = [1, 2, 3, 4, 5, 6, 0, 1, 2]
    best, made, _ = run_pilots(qualities, lambda one, two: min(one, two) - 1, Plan(9, 6))
    assert best["quality"] == 6
    assert best["age"] == EACH
    assert len(made) == 9
    assert set(made) == set(KINDS)
    best, _, crossed = run_pilots(qualities, lambda one, two: max(one, two) + 2, Plan(9, 30))
    assert best["quality"] > 8
    assert len(crossed) == 30


def test_a_child_takes_the_place_of_the_nearer_parent():
    """Fails if the worst gives way: then no pilot of the lower mode is left."""
    qualities = [100, 101, 102, 103, 0, 1, 2, 3]

    def cross(one, two):
        return max(one, two) + 2 * (abs(one - two) < 50)

    _, _, crossed = run_pilots(qualities, cross, Plan(8, 60))
    lower = [pair for pair in crossed[40:] if max(pair) < 60]
    assert lower and max(max(pair) for pair in lower) > 5


APART = [0, 20, 40, 60, 80, 100]  # evidence of modes that do not agree


def test_crosses_in_vain_end():
    """Fails if a gain of the best does not start the count anew, or one of half a nat does."""
    starts = len(APART)
    _, _, crossed = run_pilots(APART, lambda one, two: 0, Plan(starts, 90))
    assert len(crossed) == (PATIENCE + FRESH) * starts
    helped = []

    def cross(one, two):
        helped.append({8: 100.5, 10: 150.0}.get(len(helped), 0.0))
        return helped[-1]

    best, _, crossed = run_pilots(APART, cross, Plan(starts, 90))
    assert best["quality"] == 150
    assert len(crossed) == 11 + (PATIENCE + FRESH) * starts


@pytest.mark.parametrize("outside", [1, 2])
def test_crosses_end_where_starts_agree(outside):
    """Fails if agreement is not that of three quarters, or ends crosses that still help."""
    same = [94, 96, 96, 97, 98, 99, 99, 99][outside:]
    _, made, crossed = run_pilots([0] * outside + same, lambda one, two: 0, Plan(8, 90))
    assert len(crossed) == 8 and len(made) == 8
    _, made, crossed = run_pilots([0] * 3 + same[3 - outside :], lambda one, two: 0, Plan(8, 90))
    assert len(crossed) == (PATIENCE + FRESH) * 8
    _, _, crossed = run_pilots(
        same + [0] * outside, lambda one, two: max(one, two) + 2, Plan(8, 60)
    )
    assert len(crossed) == 60


def test_new_starts_come_in_where_crosses_do_not_help():
    """Fails if they come in before, or never, or a child does not take its parent's place."""
    starts = len(APART)

    def cross(one, two):
        return one + 2.0 if two == NEW else 0.0

    best, made, crossed = run_pilots(APART, cross, Plan(starts, 60))
    new = [i for i, (_, two) in enumerate(crossed) if two == NEW]
    assert new[0] == PATIENCE * starts + 1
    assert len(made) == starts + len(new)
    assert best["quality"] > max(APART)


def test_pilots_are_a_third_of_tuning_or_quick():
    large = 10**9
    assert plan_of(119, large) is None and plan_of(119, 100) is None
    for tune in (120, 300, 1_000):
        plan = plan_of(tune, large)
        assert 0.25 * tune <= EACH * (plan.starts + plan.crosses) <= tune / 3
    assert plan_of(100_000, large) == plan_of(10_000, large) == plan_of(120, 1_000)
    assert plan_of(120, pilots.QUICK // 50) == plan_of(750, large)


def test_how_far_paths_are_apart():
    """Fails if the numbering counts, or only what one path divides."""
    one = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    assert paths_apart(one, 3 - one, 4) == 0.0
    assert paths_apart(one, np.array([0, 0, 0, 2, 1, 1, 1, 1]), 4) == 0.5 * (1 / 8)
    assert paths_apart(one, np.zeros(8, int), 4) == 0.5 * (4 / 8)


def test_cells_of_two_paths():
    """Times that are together in both stay together; numbers are those of the first path."""
    one = np.array([2, 2, 2, 2, 0, 0, 0, 0])
    two = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    np.testing.assert_array_equal(cross_paths(one, two, 4), [2, 2, 2, 3, 0, 0, 1, 1])
    np.testing.assert_array_equal(cross_paths(one, two, 3), [2, 2, 2, 2, 0, 0, 1, 1])


def test_probability_of_the_path():
    """By enumeration; fails if a transition is counted from the new path's rows, or one is lost."""
    y = COUNTS[:5]
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=3), lengths=[3, 2])
        rate = pm.Gamma("rate", 1.0, 0.3, shape=3)
        pm.Poisson("y", rate[z], observed=y)
        step = dshdp.WeakLimitFFBS([z])
    [prior] = step._priors
    rng = np.random.default_rng(3)
    point = {**model.initial_point(0), "rate_log__": np.log([1.0, 2.0, 4.0])}
    point |= {
        "hmm_pi_bar": rng.dirichlet(np.ones(3), 3),
        "hmm_pi_init": rng.dirichlet(np.ones(3)),
        "hmm_kappa_logodds__": np.array([0.3, -1.0, 1.0]),
    }
    path = np.array([0, 2, 2, 1, 0])
    point["z"] = path.astype(point["z"].dtype)
    table = prior.tables[0](point)
    pi_init, P = prior.transition.transition_probabilities(point)
    exact = 0.0
    for part in (slice(0, 3), slice(3, 5)):
        paths = reference.all_paths(3, part.stop - part.start)
        joint = reference.log_joint_of_paths(paths, table[part], pi_init, P)
        [here] = np.flatnonzero((paths == path[part]).all(axis=1))
        exact += joint[here] - np.logaddexp.reduce(joint)
    assert prior.log_path_posterior(point, rng) == pytest.approx(exact, abs=1e-10)


def piloted(model, sampler=dshdp.WeakLimitFFBS, **kwargs):
    """Sample with as few tuning iterations as pilots are made for, and no more pilots."""
    with model, pytest.MonkeyPatch.context() as patch:
        patch.setattr(pilots, "QUICK", 0)
        steps = [sampler([model["z"]]), dshdp.GridRhoStep([model["z"]])]
        return sample(model, step=steps, **{"draws": 8, "tune": 120, "chains": 1, **kwargs})


def said(idata):
    return idata["sample_stats"]["piloted"].values


def test_chains_say_how_they_were_started():
    """One in four has a plain start; all have where a path is given, or tuning is short or off."""
    found = said(piloted(conjugate(), chains=5))
    assert found[:, 0].tolist() == [True, True, True, False, True]
    assert (found == found[:, :1]).all()
    given = conjugate(length=30, initial_states=np.repeat([0, 1, 2], 10))
    assert not said(piloted(given)).any()
    assert not said(piloted(conjugate(), tune=0)).any()
    assert not said(piloted(conjugate(), tune=60)).any()


def test_both_samplers_have_pilots():
    assert said(piloted(conjugate(), dshdp.DSBlockGibbs)).all()


def test_what_is_known_stays():
    """Fails if a start is not made to agree with the known states."""
    idata = piloted(conjugate(length=30, known={0: 2, 29: 1}), discard_tuned_samples=False)
    for name in ("warmup_posterior", "posterior"):
        z = idata[name]["z"].values
        assert (z[..., 0] == 2).all() and (z[..., 29] == 1).all()


def test_only_flags():
    with conjugate() as model, pytest.raises(TypeError, match="pilots must be True or False"):
        dshdp.WeakLimitFFBS([model["z"]], pilots=3)
