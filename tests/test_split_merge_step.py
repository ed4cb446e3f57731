"""Splits and merges as a part of the samplers of the states."""

import numpy as np
import pymc as pm
import pytest

import pymc_dshdp as dshdp
from pymc_dshdp.steps import divisions

pytestmark = pytest.mark.usefixtures("python_mode")

L = 5
RATES = np.array([2.0, 9.0, 4.0, 9.0, 2.0])
Y = np.random.default_rng(4).poisson(np.repeat(RATES, 8))
KNOWN = np.where(np.arange(40) % 10 == 3, 2, -1)


def build(prior=dshdp.DSHDP, known=None, sampler=dshdp.WeakLimitFFBS, **kwargs):
    """(model, step)."""
    with pm.Model() as model:
        layout = {"lengths": [16, 24]} if known is None else {"length": 40, "known": known}
        z = dshdp.HiddenStates("z", prior("hmm", n_states=L), **layout)
        rate = pm.Gamma("rate", 1.0, 0.2, shape=L)
        pm.Poisson("y", rate[z], observed=Y)
        made = {"split_merge": True, "rng": np.random.default_rng(1), **kwargs}
        step = sampler([z], **made)
    return model, step


@pytest.fixture(scope="module", params=[dshdp.WeakLimitFFBS, dshdp.DSBlockGibbs])
def made(request):
    return build(sampler=request.param)


def run(step, point, n):
    out = []
    for _ in range(n):
        point, [stats] = step.step(point)
        out.append((point, stats))
    return out


def test_the_point_is_that_of_the_statistic(made):
    """After acceptances too: states, weights and rows belong together."""
    model, step = made
    step.stop_tuning()
    step.n_proposals = 4.0
    moved = 0
    for point, stats in run(step, model.initial_point(), 150):
        moved += stats["splits"] + stats["merges"]
        assert stats["proposals"] == 4
        assert stats["log_joint"] == pytest.approx(step._log_joint(point))
        visited = np.unique(point["z"])
        assert stats["n_occupied"] == visited.size
        assert (point["hmm_beta"][visited] > 0.0).all()
    assert moved > 3


def test_the_number_of_proposals_follows_from_the_sizes():
    """Never from a clock: a share of the step's time by what both cost in operations."""
    model, step = build()
    step.hold = 0
    assert step.n_proposals == pytest.approx(0.4 * (150_000 + 40 * L) / (65_000 + 2 * 40))
    draws = run(step, model.initial_point(), 60)
    proposals = sum(stats["proposals"] for _, stats in draws)
    assert 36 < proposals < 75


def test_restored_steps_repeat_themselves(made):
    model, step = made
    step.stop_tuning()
    step.n_proposals = 4.0
    point = run(step, model.initial_point(), 5)[-1][0]
    state = step.sampling_state
    once = run(step, point, 10)
    step.sampling_state = state
    for (p, s), (q, r) in zip(once, run(step, point, 10), strict=True):
        assert s == r
        for name in p:
            np.testing.assert_array_equal(p[name], q[name])


def test_left_out(made):
    sampler = type(made[1])
    model, step = build(split_merge=False, sampler=sampler)
    [(_, stats)] = run(step, model.initial_point(), 2)[1:]
    assert stats["proposals"] == 0
    assert np.isfinite(stats["log_joint"])
    with pytest.raises(TypeError, match="split_merge must be True or False, received 1"):
        build(split_merge=1, sampler=sampler)


def test_known_states_keep_their_times():
    known = {int(t): 2 for t in np.flatnonzero(KNOWN == 2)}
    model, step = build(known=known)
    step.stop_tuning()
    step.n_proposals = 10.0
    point = model.initial_point()
    for point, _ in run(step, point, 60):
        assert (point["z"][KNOWN == 2] == 2).all()


def test_no_moves_without_weights_in_common():
    model, step = build(dshdp.FixedTransitions)
    [(_, stats)] = run(step, model.initial_point(), 2)[1:]
    assert stats["proposals"] == 0
    assert np.isfinite(stats["log_joint"])


def test_a_state_of_given_times_alone():
    """Of an autoregression: no data are in it; fails if some must be."""
    y = np.random.default_rng(2).normal(size=(24, 1))
    with pm.Model():
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=3), lengths=[8, 8, 8])
        A, Sigma = dshdp.MatrixNormalInverseWishart("A", S0=np.eye(1), n_states=3)
        dshdp.SwitchingVAR("y", A, Sigma, z, observed=y)
        step = dshdp.WeakLimitFFBS([z], rng=np.random.default_rng(1))
        start = pm.modelcontext(None).initial_point()
    [prior] = step._priors
    point = start | {"z": np.where(np.arange(24) % 8 == 0, 2, 0).astype(start["z"].dtype)}
    marginals = prior.joint.emissions[0].marginals(point)
    given = marginals.among(np.array([0, 8, 16])).among(np.array([0, 2]))
    assert not given.evidence(given.moments(np.array([0, 1]), 2), np.arange(2)).any()
    after = prior.moves.improve(point, np.random.default_rng(1))
    assert prior.joint(after) > prior.joint(point)


def test_every_beginning_of_a_division_is_rehearsed(monkeypatch):
    """Fails if chance decides which kernels are compiled before the chains run."""
    seen = []

    def launch(division, times, anchors, slots, original=divisions.FittedDivision._launch):
        seen.append(division._beginning)
        return original(division, times, anchors, slots)

    monkeypatch.setattr(divisions.FittedDivision, "_launch", launch)
    build()
    assert set(seen) >= set(divisions.BEGINNINGS)
