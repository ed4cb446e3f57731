"""Merges of states that divide the times of one frame by frame, while tuning."""

import itertools

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp

import pymc_dshdp as dshdp
from pymc_dshdp.kernels.chain import without_persistence
from pymc_dshdp.kernels.messages import forward_filter_backward_sample
from pymc_dshdp.kernels.split_merge import Path
from pymc_dshdp.steps import WeakLimitFFBS, explicit_split_merge, folding

BLOCKS = np.repeat([0, 1, 0, 1, 0, 1], 250)


@pytest.mark.parametrize("groups", [np.empty(0, np.int64), np.array([0, 1, 0, 0, 1, 1, 0])])
def test_log_posterior_of_a_path(groups):
    """Against the sum over all paths; two sequences, states 1 and 3 of five."""
    T, first = 7, np.isin(np.arange(7), [0, 4])
    z = np.array([1, 1, 3, 1, 3, 3, 1])
    columns = np.random.default_rng(1).normal(size=(T, 5))
    path = Path(z, first, groups, np.zeros(5, bool), None, None, None)
    group = groups if groups.size else np.zeros(T, int)
    counts, starts = np.full((2, 2, 2), 0.5), np.full(2, 0.5)
    short = (z == 3).astype(int)
    for t in range(T):
        if first[t]:
            starts[short[t]] += 1
        else:
            counts[group[t], short[t - 1], short[t]] += 1
    P, initial = counts / counts.sum(axis=-1, keepdims=True), starts / starts.sum()

    def log_joint(x):
        total = columns[np.arange(T), np.array([1, 3])[x]].sum()
        for t in range(T):
            total += np.log(initial[x[t]] if first[t] else P[group[t], x[t - 1], x[t]])
        return total

    every = [log_joint(np.array(x)) for x in itertools.product(range(2), repeat=T)]
    expected = log_joint(short) - logsumexp(every)
    assert folding._log_posterior(path, z, columns) == pytest.approx(expected)


def improved(y, path, rng):
    """States of a path after greedy moves; StudentT with a location and a scale of each."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=6), length=len(y))
        mu = pm.Normal("mu", 0.0, 4.0, dims="hmm_state")
        sigma = pm.HalfNormal("sigma", 2.0, dims="hmm_state")
        pm.StudentT("y", nu=4.0, mu=mu[z], sigma=sigma[z], observed=y)
        step = WeakLimitFFBS([z])
    start = model.initial_point() | {"z": path.astype(model.rvs_to_values[z].dtype)}
    alpha = model.rvs_to_values[model["hmm_alpha"]]
    start[alpha.name] = np.zeros_like(start[alpha.name])  # 1, as few states are in use
    start["mu"] = np.array([y[path == k].mean() if (path == k).any() else 0.0 for k in range(6)])
    point = step._priors[0].moves.improve(start, rng, splits=False)
    assert np.isfinite(model.compile_logp()(point))
    return np.ravel(point["z"])


def in_turn(rng, y):
    """Draw a path in which three states take turns in the place of one, 0, 2, 0, 3, 2, 0, ...

    Each is for other data: so their times are told apart.
    """
    columns = stats.t(4).logpdf(y[:, None] - np.array([-2.7, 2.0, -1.7, -0.7]))
    P = np.array([[0, 1, 70, 29], [1, 98, 1, 0], [98, 1, 1, 0], [1, 1, 98, 0]]) / 100.0
    transitions, lengths = without_persistence(P), np.array([len(y)])
    draw = forward_filter_backward_sample(
        columns, np.full(4, 0.25), transitions, lengths, rng.random(len(y))
    )
    return draw.states


def test_states_that_take_turns_are_one(monkeypatch):
    """By these merges alone."""
    monkeypatch.setattr(explicit_split_merge, "improve", lambda now, rng, splits: None)
    rng = np.random.default_rng(2)
    y = np.array([-2.0, 2.0])[BLOCKS] + stats.t(4).rvs(len(BLOCKS), random_state=3)
    turns = in_turn(rng, y)
    found = improved(y, turns, rng)
    assert len(set(turns)) == 4 and len(set(found)) == 2
    assert np.mean((found == 1) == (BLOCKS == 1)) > 0.97


def test_states_that_are_hard_to_tell_apart_stay_apart(monkeypatch):
    """Fails if the one division that there is stands for all that are about as probable."""
    monkeypatch.setattr(explicit_split_merge, "improve", lambda now, rng, splits: None)
    rng = np.random.default_rng(4)
    z = np.repeat(np.arange(300) % 2, rng.geometric(0.3, 300))
    y = np.array([-1.2, 1.2])[z] + stats.t(4).rvs(len(z), random_state=5)
    columns, stay = stats.t(4).logpdf(y[:, None] - np.array([-1.2, 1.2])), 0.7
    transitions = without_persistence(np.array([[stay, 1 - stay], [1 - stay, stay]]))
    lengths, uniforms = np.array([len(y)]), rng.random(len(y))
    drawn = forward_filter_backward_sample(
        columns, np.full(2, 0.5), transitions, lengths, uniforms
    ).states
    assert len(set(improved(y, drawn, rng))) == 2
    monkeypatch.setattr(folding, "_log_posterior", lambda path, states, columns: 0.0)
    assert len(set(improved(y, drawn, rng))) == 1
