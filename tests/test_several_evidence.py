"""Several likelihoods of the same states, all of whose parameters are integrated out together."""

import numpy as np
import pymc as pm
import pytest
from pymc.exceptions import SamplingError

import pymc_dshdp as dshdp
from pymc_dshdp.steps.collapsed import find_complete

pytestmark = pytest.mark.usefixtures("python_mode")

T, L = 14, 3
RNG = np.random.default_rng(4)
COUNTS, TIMES = RNG.poisson(3.0, T), RNG.exponential(1.0, (T, 2))
LEVEL, PAIR = RNG.normal(size=T), RNG.normal(size=(T, 2))
PATH = np.array([0, 0, 1, 1, 1, 0, 0, 2, 2, 0, 0, 1, 1, 1])


def level(z):
    mean, spread = pm.Normal("mean", shape=L), pm.HalfNormal("spread", 1.0, shape=L)
    pm.Normal("level", mean[z], spread[z], observed=LEVEL)


def counts(z):
    rate = pm.Gamma("rate", 2.0, 1.0, shape=L)
    pm.Poisson("counts", rate[z], observed=COUNTS)


def pair(z):
    centre = pm.Normal("centre", shape=(L, 2))
    sigma = pm.HalfNormal("sigma", 1.0, shape=(L, 2))
    pm.Normal("pair", centre[z], sigma[z], observed=PAIR)


def times(z):
    speed = pm.Gamma("speed", 2.0, 1.0, shape=(L, 2))
    pm.Exponential("times", speed[z], observed=TIMES)


PARTS = level, counts, pair, times


def emission_of(*parts):
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=L), length=T)
        for part in parts:
            part(z)
    return find_complete(model, z), model.initial_point()


def test_evidence_is_the_product():
    """Of sets of times, of some of them, and of sets together; tables are sums."""
    whole, point = emission_of(*PARTS)
    whole, every = whole.marginals(point), np.arange(L)
    parts = [emission.marginals(p) for emission, p in map(emission_of, PARTS)]
    found = whole.moments(PATH, L)
    own = [part.moments(PATH, L) for part in parts]
    np.testing.assert_allclose(
        whole.of_path(PATH), sum(part.of_path(PATH) for part in parts), atol=1e-8
    )
    np.testing.assert_allclose(
        whole.table(found, every),
        sum(part.table(x, every) for part, x in zip(parts, own, strict=True)),
        atol=1e-8,
    )
    some, one = np.array([0, 3, 4, 9]), np.array([1])
    np.testing.assert_allclose(
        whole.among(some).of_path(PATH[some]),
        sum(part.among(some).of_path(PATH[some]) for part in parts),
        atol=1e-8,
    )
    _, together = whole.pooled(found, [np.asarray(x)[one] for x in found], every)
    expected = sum(
        part.pooled(x, [np.asarray(y)[one] for y in x], every)[1]
        for part, x in zip(parts, own, strict=True)
    )
    np.testing.assert_allclose(together, expected, atol=1e-8)


def test_what_is_kept_is_of_its_likelihood():
    """Weights of a draw are those of its values, and values go to the variables they are of.

    Fails if the numbers of one part are read by another.
    """
    emission, point = emission_of(*PARTS)
    marginals, slots = emission.marginals(point), np.array([2, 0])
    moments = [np.asarray(x)[slots] for x in marginals.moments(PATH, L)]
    kept, log_weights = marginals.draw_kept(np.random.default_rng(1), moments, slots)
    assert kept.shape == (2, 3)
    np.testing.assert_allclose(marginals.log_weights(moments, slots, kept), log_weights)
    assert not np.allclose(marginals.log_weights(moments, slots, kept[:, [1, 2, 0]]), log_weights)
    whole = np.arange(9.0).reshape(3, 3)
    new = emission.kept_values(point, whole)
    np.testing.assert_allclose(new["spread_log__"], whole[:, 0])
    np.testing.assert_allclose(new["sigma_log__"], whole[:, 1:])
    assert marginals.draw_empty(np.random.default_rng(2), 1).shape == (3,)


def test_draws_are_those_of_the_parts():
    emission, point = emission_of(*PARTS)
    new = emission.draw({**point, "z": PATH}, np.random.default_rng(3))
    assert new.keys() == {"mean", "rate_log__", "centre", "speed_log__"}


def known(z):
    pm.Normal("other", pm.math.constant([0.0, 1.0, 2.0])[z], 1.0, observed=LEVEL)


def heavy(z):
    centre = pm.Normal("middle", shape=L)
    pm.StudentT("other", nu=4.0, mu=centre[z], sigma=1.0, observed=LEVEL)


@pytest.mark.parametrize("other", [known, heavy])
def test_all_likelihoods_have_to_integrate(other):
    assert emission_of(counts, other)[0] is None


def test_a_singular_scale_is_named():
    emission, _ = emission_of(counts, level)
    with pytest.raises(SamplingError, match="level"), emission.named_if_singular():
        raise np.linalg.LinAlgError


def test_proposals_are_as_many_as_they_cost():
    """Two regressions side by side, counts and a level take four times what counts take.

    Fails if proposals are counted as if there were one.
    """

    def proposals(*parts):
        with pm.Model():
            z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=L), length=T)
            for part in parts:
                part(z)
            return dshdp.WeakLimitFFBS([z]).n_proposals

    assert proposals(counts) > 0.0
    assert proposals(pair, counts, level) == pytest.approx(proposals(counts) / 4.0)


@pytest.mark.slow
def test_chains_arrive_and_parameters_follow_the_states():
    """Bare ``pm.sample``: pilots and moves are on, for counts and two columns with a scale each.

    Only the counts tell the first two states apart, only a scale the last two.
    """
    rng = np.random.default_rng(3)
    truth = np.repeat(np.arange(9) % 3, 25)
    y = rng.normal(0.0, np.array([[1.0, 1.0], [1.0, 1.0], [0.2, 1.0]])[truth])
    n = rng.poisson(np.array([3.0, 12.0, 12.0])[truth])
    with pm.Model():
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=6), length=truth.size)
        rate = pm.Gamma("rate", 1.0, 0.1, shape=6)
        pm.Poisson("n", rate[z], observed=n)
        mean = pm.Normal("mean", 0.0, 2.0, shape=(6, 2))
        sigma = pm.HalfNormal("sigma", 1.0, shape=(6, 2))
        pm.Normal("y", mean[z], sigma[z], observed=y)
        idata = pm.sample(
            100, tune=130, chains=1, random_seed=1, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    stats, path = idata["sample_stats"], idata["posterior"]["z"].values[0]
    assert stats["piloted"].all()
    assert np.isfinite(stats["log_joint"]).all()
    assert stats["proposals"].sum() > 0
    assert np.mean(dshdp.hamming_distance(path[::20], truth)) < 0.15
    for name, expected in (("rate", [3.0, 12.0, 12.0]), ("sigma", [1.0, 1.0, 0.2])):
        values = idata["posterior"][name].values[0].reshape(len(path), 6, -1)[..., 0]
        found = np.take_along_axis(values, path, axis=1).mean(axis=0)
        means = [found[truth == k].mean() for k in range(3)]
        np.testing.assert_allclose(means, expected, rtol=0.3)
