"""Partly labelled data: the states are drawn given what is known of them."""

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from models import evaluate
from reference import assert_frequencies
from scipy import stats

import pymc_dshdp as dshdp
from pymc_dshdp.steps.starting import initial_paths

pytestmark = pytest.mark.usefixtures("python_mode")

MEANS = np.array([-1.0, 0.0, 1.5])
Y = np.array([0.3, -0.2, 1.0, 0.4, -0.9, 0.1])
LENGTHS = [4, 2]
KNOWN = {1: 2, 3: 0}  # the first sequence has a gap of one between them


def normal_model(known=KNOWN, layout=None, theta=None, y=Y, **prior):
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=3, **{"kappa": [0.6, 0.3, 0.8], **prior})
        z = dshdp.HiddenStates("z", prior, known=known, **(layout or {"lengths": LENGTHS}))
        mean = pt.as_tensor(MEANS) if theta is None else theta()
        pm.Normal("y", mean[z], 1.0, observed=y)
    return model


def enumerated(initial, P, ell, known):
    """Probability of every path of the two sequences given y and the known states."""
    weights = {}
    for path in itertools.product(range(3), repeat=6):
        p = initial[path[0]] * initial[path[4]] * np.exp(ell[np.arange(6), path].sum())
        for t in (1, 2, 3, 5):
            p *= P[path[t - 1], path[t]]
        weights[path] = p if all(path[t] == k for t, k in known.items()) else 0.0
    total = sum(weights.values())
    return {path: w / total for path, w in weights.items()}


def fixed_rows(point):
    rng = np.random.default_rng(3)
    rows = rng.dirichlet(np.ones(3), size=4)
    return {**point, "hmm_pi_bar": rows[:3], "hmm_pi_init": rows[3]}


def compare(draws, law):
    index = {path: i for i, path in enumerate(law)}
    seen = np.zeros(len(law))
    for path in draws:
        seen[index[tuple(int(k) for k in path)]] += 1
    assert_frequencies(seen, np.array(list(law.values())))


def test_forward_filter_draws_from_the_enumerated_posterior():
    """Fails if the table keeps finite entries for the states that are known not to be."""
    model = normal_model()
    with model:
        step = dshdp.WeakLimitFFBS([model["z"]], rng=np.random.default_rng(1))
    point = fixed_rows(model.initial_point())
    initial, P = step._priors[0].transition.transition_probabilities(point)
    ell = stats.norm(MEANS, 1.0).logpdf(Y[:, None])
    law = enumerated(initial, P, ell, KNOWN)
    draws = []
    for _ in range(4000):
        drawn, log_marginal = step._priors[0].draw_states(point, step.rng)
        draws.append(drawn["z"])
    compare(draws, law)
    weights = 0.0
    for path in law:
        if all(path[t] == k for t, k in KNOWN.items()):
            p = initial[path[0]] * initial[path[4]] * np.exp(ell[np.arange(6), path].sum())
            weights += p * np.prod([P[path[t - 1], path[t]] for t in (1, 2, 3, 5)])
    assert log_marginal == pytest.approx(np.log(weights))


@pytest.mark.parametrize("collapse", ["auto", pytest.param(False, marks=pytest.mark.slow)])
def test_direct_assignment_draws_from_the_enumerated_posterior(collapse):
    """Sweeps with gamma, beta and alpha fixed; rows (and means) integrated out of the law.

    Fails if the sweep visits known time points too.
    """
    theta = None if collapse is False else lambda: pm.Normal("mu", 0.0, 2.0, shape=3)
    model = normal_model(theta=theta, alpha=1.5)
    with model:
        step = dshdp.DSBlockGibbs([model["z"]], collapse=collapse, rng=np.random.default_rng(2))
    assert bool(step._priors[0].emissions[0].values) == (collapse == "auto")
    sampler = step._priors[0]
    point = {**model.initial_point(), "hmm_beta": np.array([0.5, 0.3, 0.2])}
    point["z"] = np.array([0, 2, 1, 0, 1, 1], "int8")
    beta = point["hmm_beta"]
    law = {}
    for path in itertools.product(range(3), repeat=6):
        weight = float(all(path[t] == k for t, k in KNOWN.items()))
        if weight:
            weight *= _path_mass(path, 1.5 * beta, [0.6, 0.3, 0.8])
            weight *= np.exp(_log_data(path, collapse))
        law[path] = weight
    total = sum(law.values())
    law = {path: w / total for path, w in law.items()}
    draws = []
    for i in range(6_000):
        point, _, _ = sampler.sweep(point, step.rng)
        point = {**point, "hmm_beta": beta}
        if i % 3 == 0:
            draws.append(point["z"])
    compare(draws, law)


def _path_mass(path, base, kappa):
    """p(z | alpha beta, kappa) with rows and w integrated out: a sum over all w."""
    copies = [t for t in (1, 2, 3, 5) if path[t] == path[t - 1]]
    total = 0.0
    for persists in itertools.product([False, True], repeat=len(copies)):
        w = dict(zip(copies, persists, strict=True))
        counts, p = np.zeros((4, 3)), 1.0
        for t in range(6):
            row = 0 if t in (0, 4) else path[t - 1] + 1
            if row:
                p *= kappa[row - 1] if w.get(t, False) else 1.0 - kappa[row - 1]
            if not w.get(t, False):
                p *= (base[path[t]] + counts[row, path[t]]) / (base.sum() + counts[row].sum())
                counts[row, path[t]] += 1
        total += p
    return total


def _log_data(path, collapse):
    if collapse is False:
        return stats.norm(MEANS[list(path)], 1.0).logpdf(Y).sum()
    out = 0.0
    for k in set(path):
        y = Y[np.array(path) == k]
        covariance = np.eye(len(y)) + 4.0
        out += stats.multivariate_normal(np.zeros(len(y)), covariance).logpdf(y)
    return out


def test_prior_draws_are_conditioned():
    """Fails if known states are only written over a draw of the prior."""
    kappa = np.array([0.6, 0.3, 0.8])
    rng = np.random.default_rng(3)
    rows = rng.dirichlet(np.ones(3), size=4)
    known = np.array([-1, 2, -1, 0, -1, -1], "int8")
    path = dshdp.distributions.HiddenPath.dist(rows[3], rows[:3], kappa, LENGTHS, known=known)
    draws = pm.draw(path, 4000, random_seed=5)
    P = np.diag(kappa) + (1.0 - kappa[:, None]) * rows[:3]
    compare(draws, enumerated(rows[3], P, np.zeros((6, 3)), KNOWN))


def test_prior_draws_where_rows_have_underflowed():
    """Known states hold even where the rows say that they cannot be reached."""
    known = np.array([0, -1, 1, -1], "int8")
    path = dshdp.distributions.HiddenPath.dist(
        [0.0, 1.0], np.array([[1.0, 0.0], [0.5, 0.5]]), np.zeros(2), [4], known=known
    )
    draws = pm.draw(path, 200, random_seed=5)
    assert np.all(draws[:, 0] == 0) and np.all(draws[:, 2] == 1) and np.all(draws[:, 1] == 0)
    assert set(draws[:, 3]) == {0, 1}


def test_log_density_is_minus_infinity_off_the_known_states():
    known = np.array([-1, 2, -1, 0, -1, -1], "int8")
    path = dshdp.distributions.HiddenPath.dist(
        np.full(3, 1 / 3), np.full((3, 3), 1 / 3), np.full(3, 0.5), LENGTHS, known=known
    )
    good, bad = np.array([0, 2, 1, 0, 1, 1]), np.array([0, 1, 1, 0, 1, 1])
    with_known = evaluate([pm.logp(path, good), pm.logp(path, bad)])
    assert np.isfinite(with_known[0]) and with_known[1] == -np.inf


@pytest.mark.parametrize(
    ("layout", "known", "at"),
    [
        ({"lengths": [4, 2]}, {(1, 1): 2}, (5,)),
        ({"lengths": [4, 2]}, {5: np.int64(2)}, (5,)),
        ({"shape": (2, 3)}, {(1, 2): 2}, (1, 2)),
        ({"length": 6}, {(0, 5): 2}, (5,)),
    ],
)
def test_start_has_the_known_states(layout, known, at):
    y = Y.reshape(2, 3) if "shape" in layout else Y
    model = normal_model(known=known, layout=layout, y=y)
    assert model.initial_point()["z"][at] == 2
    with model:
        step = dshdp.WeakLimitFFBS([model["z"]], rng=np.random.default_rng(1))
    for _ in range(5):
        point, _ = step.step(model.initial_point())
        assert point["z"][at] == 2


def test_clusters_of_the_start_are_numbered_by_the_known_states():
    """Fails if known states are put into a segmentation numbered at random."""
    y = np.repeat([0.0, 10.0, 20.0], 8) + np.random.default_rng(1).normal(size=24)
    model = normal_model(known={0: 2, 9: 0, 20: 1}, layout={"length": 24}, y=y)
    with model:
        table = dshdp.WeakLimitFFBS([model["z"]])._priors[0].tables[0]
    for seed in range(20):
        [path] = initial_paths([table], np.array([24]), 3, np.random.default_rng(seed))
        if len(np.unique(path)) == 3:
            np.testing.assert_array_equal(path, np.repeat([2, 0, 1], 8))
            break
    else:
        pytest.fail("no segmentation into three clusters")


def test_a_start_that_disagrees_is_refused():
    model = normal_model()
    with model:
        step = dshdp.WeakLimitFFBS([model["z"]])
    start = {**model.initial_point(), "z": np.array([0, 1, 1, 0, 1, 1], "int8")}
    with pytest.raises(ValueError, match="'z' has state 1 at position 1, where it is known to be"):
        step.step(start)


def test_known_states_are_part_of_a_model_and_survive_cloning():
    model = pm.do(normal_model(), {})
    assert model.initial_point()["z"][3] == 0
    idata = pm.sample(
        5, tune=5, chains=1, model=model, random_seed=1, progressbar=False,
        compute_convergence_checks=False,
    )  # fmt: skip
    z = idata["posterior"]["z"].values
    assert np.all(z[..., 1] == 2) and np.all(z[..., 3] == 0)


@pytest.mark.parametrize(
    ("known", "error", "words"),
    [
        ([0, 1, -1], TypeError, "known must be a dictionary .* received list"),
        ({7: 1}, ValueError, "time must be a position, 0 to 5, received 7"),
        ({1.0: 1}, ValueError, "time must be a position, 0 to 5, received 1.0"),
        ({-1: 1}, ValueError, "time must be a position, 0 to 5, received -1"),
        ({(1, 2): 1}, ValueError, "time must be a position, 0 to 1, received 2"),
        ({(2, 0): 1}, ValueError, "sequence must be a position, 0 to 1, received 2"),
        ({(0, 0, 0): 1}, ValueError, "a key must be a time or"),
        ({1: 3}, ValueError, r"known\[1\] must be one of the states 0 to 2, received 3"),
        ({1: "a"}, ValueError, r"known\[1\] must be one of the states 0 to 2, received 'a': give"),
        ({4: 1, (1, 0): 2}, ValueError, "was given as 1 by another key"),
    ],
)
def test_refusals(known, error, words):
    with pytest.raises(error, match=f"z: .*{words}"):
        normal_model(known=known)


def test_a_batch_needs_the_sequence():
    with pytest.raises(ValueError, match=r"a key must be \(sequence, time\)"):
        normal_model(known={1: 1}, layout={"shape": (2, 3)}, y=Y.reshape(2, 3))


def test_nothing_known_is_no_restriction():
    model = normal_model(known={})
    with model:
        step = dshdp.WeakLimitFFBS([model["z"]])
    assert step._priors[0].tables[0].known is None


def test_dimensions_of_the_model():
    """A dimension is symbolic in PyMC; it must not be resized once states are known."""
    with pm.Model(coords={"time": np.arange(9), "trial": ["a", "b"]}) as model:
        prior = dshdp.DSHDP("hmm", n_states=3)
        one = dshdp.HiddenStates("one", prior, dims="time", known={3: 1})
        two = dshdp.HiddenStates("two", prior, dims=("trial", "time"), known={(1, 8): 2})
    assert pm.draw(one, random_seed=1)[3] == 1
    assert pm.draw(two, random_seed=1)[1, 8] == 2
    model.set_dim("time", 12, coord_values=np.arange(12))
    with pytest.raises(ValueError, match="another length|broadcast"):
        pm.draw(one, random_seed=1)
