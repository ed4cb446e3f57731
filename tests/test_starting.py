"""Starting paths of several recordings of one prior."""

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from models import fixed_model, posterior, sample

import pymc_dshdp as dshdp

pytestmark = pytest.mark.usefixtures("python_readers")

PATHS = np.repeat([0, 1, 0, 1], 10), np.repeat([1, 0], 12)


def rats(levels=(0.0, 20.0), together=False):
    """Two recordings, whose levels are the same parameters or (``together``) one series."""
    rng = np.random.default_rng(0)
    with pm.Model() as model:
        hmm = dshdp.DSHDP("hmm", n_states=4)
        level = pm.Normal("level", 0.0, 20.0, shape=4)
        if together:
            one, two = (dshdp.HiddenStates(name, hmm, length=40) for name in ("one", "two"))
            y = np.array(levels)[PATHS[0]] + rng.normal(size=40)
            pm.Normal("y", level[one] + level[two], 1.0, observed=y)
            return model
        for name, path in zip(("one", "two"), PATHS, strict=True):
            z = dshdp.HiddenStates(name, hmm, length=len(path))
            y = np.array(levels)[path] + rng.normal(size=len(path))
            pm.Normal(f"y_{name}", level[z], 1.0, observed=y)
    return model


def starts(model, n):
    """Starting paths of n chains."""
    with model:
        [prior] = dshdp.WeakLimitFFBS([model["one"], model["two"]])._priors
    for seed in range(n):
        point = prior.start(model.initial_point(), np.random.default_rng(seed))
        yield point["one"], point["two"]


def test_recordings_are_segmented_together():
    """Fails if a label means something else in each: in half of the pairs, by chance."""
    for one, two in starts(rats(), 6):
        low = set(one[PATHS[0] == 0]) | set(two[PATHS[1] == 0])
        high = set(one[PATHS[0] == 1]) | set(two[PATHS[1] == 1])
        assert not low & high


def test_states_of_one_series_are_not():
    """Two chains behind one series; fails if they begin with the same path."""
    assert any(not np.array_equal(one, two) for one, two in starts(rats(together=True), 4))


@pytest.mark.parametrize(
    "told", ["by the prior", "under any matrix", "by initvals", "by constants"]
)
def test_states_are_numbered_as_their_parameters_tell(told):
    """Fails if they keep the numbers of their clusters: no chain finds back from those."""
    truth, means = np.repeat([0, 1, 2] * 4, 10), np.array([-2.0, 0.0, 3.0])
    y = means[truth] + 0.3 * np.random.default_rng(1).normal(size=120)
    with pm.Model() as model:
        if told == "under any matrix":
            prior = dshdp.Transitions("hmm", pm.Dirichlet("P", np.ones((3, 3))))
        else:
            prior = dshdp.FixedTransitions("hmm", n_states=3)
        z = dshdp.HiddenStates("z", prior, length=120)
        if told == "by constants":
            mu = pt.as_tensor(means)
        elif told == "by initvals":
            mu = pm.Normal("mu", 0.0, 5.0, shape=3, initval=means)
        else:
            mu = pm.Normal("mu", means, 0.5)
        pm.Normal("y", mu[z], 0.5, observed=y)
        [prior] = dshdp.WeakLimitFFBS([z])._priors
    point = model.initial_point()
    if told != "by constants":
        point["mu"] = np.full(3, 0.5)  # another step has moved them, given the default path
    for seed in range(8):
        path = prior.start(point, np.random.default_rng(seed))["z"]
        assert not (np.abs(path - truth) == 2).any()
        assert len(np.unique(path)) < 3 or np.array_equal(path, truth)


@pytest.mark.parametrize("states", [2, 4])
def test_a_constant_path_is_kept(states):
    """Of initvals: all in one state, whichever. Fails if the last one is the sign for a default."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=states), lengths=[30, 10])
        pm.Normal("y", z, 1.0, observed=np.repeat([0.0, 1.0], 20))
        step = dshdp.WeakLimitFFBS([z])
    [prior] = step._priors
    for state in range(states):
        given = {**model.initial_point(), "z": np.full(40, state)}
        assert not prior.starts_from_data(given)
        np.testing.assert_array_equal(prior.start(given, np.random.default_rng(0))["z"], state)
    assert prior.starts_from_data(model.initial_point())


def kept(path, n_states, known=None, **layout):
    """Whether a path of initvals is what a chain starts from."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=n_states), known=known, **layout)
        pm.Normal("y", pt.as_tensor(np.arange(n_states))[z], 1.0, observed=np.arange(path.size) % 3)
        [prior] = dshdp.WeakLimitFFBS([z])._priors
        given = {**model.initial_point(), "z": path}
    return np.array_equal(prior.start(given, np.random.default_rng(0))["z"], path)


def test_every_path_of_few_times_is_kept():
    """Any of them may have been given; fails if one of them is the sign for a default."""
    assert all(kept(np.array(path), 2, length=3) for path in itertools.product([0, 1], repeat=3))


@pytest.mark.parametrize("length", [1, 2, 3])
def test_many_sequences_that_are_alike_are_kept(length):
    """Fails if the sign begins anew with each of them: three states in it are no pattern."""
    for one in itertools.product([0, 1], repeat=length):
        assert kept(np.tile(one, 40), 2, lengths=[length] * 40)


def test_the_rest_of_a_labelled_series_is_kept():
    """Fails if the sign ends, so that the last state everywhere after what is known is the sign."""
    known = dict(enumerate(np.arange(100) % 4))
    for state in (2, 3):
        assert kept(np.r_[np.arange(100) % 4, np.full(60, state)], 4, known, length=160)
    known = dict(enumerate(np.arange(100) % 2))
    for free in itertools.product([0, 1], repeat=3):
        assert kept(np.r_[np.arange(100) % 2, free], 2, known, length=103)


def test_a_path_that_is_the_sign_by_chance():
    """It starts the chain as none does, as the documentation says: every draw is the same."""
    model = fixed_model()
    sign = model.initial_point()["z"]
    assert set(sign) == {1, 2}
    given, none = (
        posterior(sample(model, chains=1, draws=5, tune=5, initvals=initvals))
        for initvals in ({"z": sign.copy()}, None)
    )
    for name, draws in none.items():
        np.testing.assert_array_equal(given[name], draws)
