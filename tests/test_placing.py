"""The times of elements that a graph proves, against brute force over all paths."""

import tracemalloc
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from compositions import Composer, Node, times_of_elements

import pymc_dshdp as dshdp
from pymc_dshdp.graph import dependence
from pymc_dshdp.graph.placing import Dependence, SeveralTimes, place
from pymc_dshdp.likelihood.table import LogLikelihoodTable

REFUSED_AT_MOST = 0.06
NONE = dependence.NONE


class Case(NamedTuple):
    """An expression, and the times that each of its elements depends on, bool of (T, E)."""

    composer: Composer
    node: Node
    depends: np.ndarray

    @property
    def right(self):
        return bool((self.depends.sum(axis=0) <= 1).all())


def composed(seed):
    composer = Composer(np.random.default_rng(seed))
    node = composer.compose(steps=int(composer.rng.integers(1, 7)))
    return Case(composer, node, times_of_elements(composer, node.values))


def misplaced(case):
    """Number of elements with a wrong time, or None if the expression is refused."""
    T = case.composer.T
    try:
        placed = place(case.node.graph, case.composer.z, (T,), case.composer.start)
    except SeveralTimes:
        return None
    if placed.graph is not case.node.graph:  # the terms of a sum over everything
        return 0
    own = np.arange(T)[:, None] == placed.times
    return int((case.depends & ~own).any(axis=0).sum())


def assert_placed(cases):
    """None accepted that is wrong; few refused that are right; many of both kinds tried."""
    found = [misplaced(case) for case in cases]
    assert not any(found), [i for i, wrong in enumerate(found) if wrong]
    right = [wrong is not None for case, wrong in zip(cases, found, strict=True) if case.right]
    refused = 1 - np.mean(right)
    print(f"{len(cases)} expressions, {len(right)} right ones, {refused:.3f} of them refused")
    assert 0.5 < len(right) / len(cases) < 0.9
    assert refused < REFUSED_AT_MOST


@pytest.fixture(scope="module")
def cases():
    return [composed(seed) for seed in range(400)]


def test_random_compositions_are_placed_right_or_refused(cases):
    assert_placed(cases)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(1, 21))
def test_many_random_compositions_are_placed_right_or_refused(block):
    assert_placed([composed(1000 * block + i) for i in range(500)])


@pytest.mark.parametrize(("T", "L"), [(5, 4), (50, 20)])
def test_a_penalty_on_any_one_transition_is_refused(T, L):
    """Random paths show it for some pairs of states only: for 62% at T = 50, L = 20."""
    z = pt.tensor("z", dtype="int64", shape=(T,))
    for i, j in np.ndindex(L, L):
        penalty = pt.switch(pt.eq(z[:-1], i) & pt.eq(z[1:], j), -1000.0, 0.0)
        with pytest.raises(SeveralTimes):
            place(penalty, z, (T,), {})


# -- planted defects ----------------------------------------------------------------------------


def the_first_wins(parts, shape):
    out = np.broadcast_to(np.int32(NONE), shape)
    for part in parts:
        out = np.where(out == NONE, part, out)
    return out


def the_last_time(times, axes, keepdims=False):
    return times.max(axis=axes, keepdims=keepdims, initial=NONE)


def first_time_only(op, node, at):
    return [np.broadcast_to(at.times(node.inputs[0]).ravel()[0], at.shape(node.outputs[0]))]


DEFECTS = {
    "an element reached by two times has the first": ("united", the_first_wins),
    "what is taken together has the last time": ("gathered", the_last_time),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_of_the_rules_is_seen(name, cases, monkeypatch):
    monkeypatch.setattr(dependence, *DEFECTS[name])
    assert any(misplaced(case) for case in cases)


RULES = {
    "what is put is not seen": (
        dependence.SETTING,
        lambda op, node, at: [at.times(node.inputs[0])],
    ),
    "a reshape reads by columns": (
        (dependence.Reshape,),
        lambda op, node, at: [
            at.times(node.inputs[0]).reshape(at.shape(node.outputs[0]), order="F")
        ],
    ),
    "a product reads its first row": ((dependence.Dot,), first_time_only),
    "a running sum is elementwise": (
        (dependence.CumOp,),
        lambda op, node, at: [at.times(node.inputs[0])],
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_a_defect_of_one_rule_is_seen(name, cases, monkeypatch):
    kinds, rule = RULES[name]
    registry = dependence.times_of.registry
    kept = {kind: registry[kind] for kind in kinds}
    try:
        for kind in kinds:
            dependence.times_of.register(kind, rule)
        assert any(misplaced(case) for case in cases)
    finally:
        for kind, own in kept.items():
            dependence.times_of.register(kind, own)


def test_a_sampled_index_taken_for_fixed_is_seen(cases, monkeypatch):
    def value(self, v):
        return v.data if hasattr(v, "data") else self._evaluated([v])[0]

    monkeypatch.setattr(Dependence, "fixed", lambda self, v: v not in self._timed)
    monkeypatch.setattr(Dependence, "value", value)
    assert any(misplaced(case) for case in cases)


def test_little_is_held_while_elements_are_placed():
    """Twenty bytes each, so that ten millions need 200 MB; fails if eight probes are kept."""
    T, n_channels = 2000, 500
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=2), length=T)
        mu = pm.Normal("mu", shape=2)
        pm.StudentT("y", nu=3.0, mu=mu[z][:, None], sigma=1.0, observed=np.ones((T, n_channels)))
    start = model.initial_point()
    tracemalloc.start()
    try:
        table = LogLikelihoodTable(model, z, 2, start=start)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert table.names == ["y"]
    assert peak < 20 * T * n_channels
