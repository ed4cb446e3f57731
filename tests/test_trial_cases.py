"""Series that break other software: constant, huge, tiny, short, periodic."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from models import posterior, posterior_of, sample
from pytensor.gradient import grad
from scipy import special

import pymc_dshdp as dshdp
from pymc_dshdp.distributions import HiddenPath

pytestmark = [
    pytest.mark.usefixtures("python_mode"),
    pytest.mark.filterwarnings("ignore:Data in .* contains missing"),
]
RNG = np.random.default_rng(20)
NOISE = RNG.normal(size=40)


def normal_model(y, n_states=3, scale=1.0, layout=None):
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=n_states)
        z = dshdp.HiddenStates("z", prior, **(layout or {"length": len(y)}))
        mu = pm.Normal("mu", 0.0, 3.0 * scale, dims="hmm_state")
        pm.Normal("y", mu[z], scale, observed=y)
    return model


def count_model(y, n_states=3):
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=n_states), length=len(y))
        rate = pm.Gamma("rate", 1.0, 0.1, dims="hmm_state")
        pm.Poisson("y", rate[z], observed=y)
    return model


def category_model(y, n_categories, n_states=3, concentration=1.0):
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=n_states), length=len(y))
        a = np.full((n_states, n_categories), concentration)
        p = pm.Dirichlet("p", a)
        pm.Categorical("y", p[z], observed=y)
    return model


def sweeps(model, n, theta, seed=1):
    """n iterations of our steps; the points and the log marginal likelihoods."""
    with model:
        rng = np.random.default_rng(seed)
        steps = [
            dshdp.WeakLimitFFBS([model["z"]], rng=rng),
            dshdp.GridRhoStep([model["z"]], rng=rng),
            dshdp.ConjugateStep([model[theta]], rng=rng),
        ]
    point, points, scores = model.initial_point(), [], []
    for i in range(n):
        for step in steps:
            if step is steps[0]:
                step.tune = i < n // 3
            point, stats = step.step(point)
            if step is steps[0]:
                scores.append(stats[0]["log_marginal_likelihood"])
        points.append(point)
    return points, np.array(scores)


def assert_alive(model, theta="mu", n=30):
    points, scores = sweeps(model, n, theta)
    assert np.isfinite(scores[n // 3 :]).all()
    for value in points[-1].values():
        assert not np.isnan(np.asarray(value, float)).any()
    return points


ONE_NAN = NOISE.copy()
ONE_NAN[17] = np.nan
STRETCH = NOISE.copy()
STRETCH[10:30] = 0.5
SPIKE = NOISE.copy()
SPIKE[5] = 1e8


@pytest.mark.parametrize(
    "y",
    [
        np.ma.masked_invalid(ONE_NAN),
        STRETCH,
        np.full(50, 2.0),
        SPIKE,
        np.array([1.0]),
        np.zeros(30),
    ],
    ids=["one-missing", "stretch", "constant", "1e8", "T=1", "zeros"],
)
def test_odd_series_are_sampled(y):
    assert_alive(normal_model(y))


def test_a_value_whose_square_overflows_is_refused_by_its_time():
    """1e160 has log-density -inf in every state: the error names its place, before sampling."""
    y = NOISE.copy()
    y[5] = 1e160
    with pytest.raises(Exception, match=r"z\[5\].*-inf in every state"):
        assert_alive(normal_model(y))


def test_small_units_give_the_same_segmentation():
    """Data times 1e-9 with priors scaled: the same draws of the states for a seed."""
    y = np.concatenate([NOISE[:20] * 0.3 - 3.0, NOISE[20:] * 0.3 + 3.0])
    one, _ = sweeps(normal_model(y), 40, "mu")
    two, _ = sweeps(normal_model(1e-9 * y, scale=1e-9), 40, "mu")
    np.testing.assert_array_equal(one[-1]["z"], two[-1]["z"])


@pytest.mark.parametrize(
    "y",
    [np.zeros(30, int), np.tile([0, 255], 10).astype("uint8"), np.full(8, 2**31 - 2)],
    ids=["all-zero", "uint8", "near-2^31"],
)
def test_odd_counts_are_sampled(y):
    assert_alive(count_model(y), "rate")


def test_negative_counts_name_their_position():
    y = np.ones(6, int)
    y[3] = -1
    with pytest.raises(ValueError, match=r"observation -1 at position \(3,\) of 'y'"):
        assert_alive(count_model(y), "rate")


def test_codes_beyond_the_categories_are_refused_by_value():
    """Integer codes 65, 47, 78 where 3 categories are declared."""
    with pytest.raises(ValueError, match=r"observation 65 at position \(0,\) of 'y'"):
        assert_alive(category_model(np.array([65, 47, 78]), 3), "p")
    codes = np.unique([65, 47, 78, 47], return_inverse=True)[1]
    assert_alive(category_model(codes, 3), "p")


def test_a_legal_but_unseen_category_has_prior_mass():
    model = category_model(np.array([0, 1, 2, 3, 4] * 4), 6)
    with model:
        step = dshdp.ConjugateStep([model["p"]], rng=np.random.default_rng(1))
    point, _ = step.step(model.initial_point())
    logits = np.column_stack([point["p_simplex__"], -point["p_simplex__"].sum(axis=1)])
    assert np.isfinite(logits).all()


def test_categories_of_other_data():
    """One that is legal but was not seen has a density; one that is not is named."""
    model = category_model(np.array([0, 1, 2, 3, 4] * 4), 6)
    result = posterior_of(model)
    score = dshdp.held_out_log_likelihood(result, model=model, observed={"y": [5, 0]})
    assert np.isfinite(score["total"]).all()
    with pytest.raises(
        ValueError, match=r"observation 6 at position .* .* must be one of the categories 0 to 5"
    ):
        dshdp.held_out_log_likelihood(result, model=model, observed={"y": [0, 6]})


def test_shortest_series():
    assert_alive(category_model(np.array([1, 1]), 2, n_states=2), "p")
    assert_alive(normal_model(NOISE[:30], n_states=100), n=12)
    assert_alive(normal_model(NOISE, layout={"lengths": [1, 39]}))


@pytest.mark.parametrize("lengths", [[0, 40], [10, 10], [30, 30]])
def test_lengths_that_do_not_fit(lengths):
    with pytest.raises(ValueError, match="lengths"):
        assert_alive(normal_model(NOISE, layout={"lengths": lengths}))


def test_alternation_has_no_self_persistence():
    """0, 1, 0, 1, ...: two occupied states that never follow themselves."""
    points = assert_alive(
        category_model(np.tile([0, 1], 100), 2, n_states=4, concentration=0.1), "p", 150
    )
    occupied, kappa = [], []
    for point in points[-50:]:
        used = np.unique(point["z"])
        occupied.append(len(used))
        kappa.append(special.expit(point["hmm_kappa_logodds__"][used]))
    assert np.median(occupied) == 2
    assert np.median(np.concatenate(kappa)) < 0.1


def test_a_palindrome_needs_a_state_for_each_place():
    """ABCDEFEDCB over and over: ten states for six letters, and a nearly certain forecast.

    Fails from a start without a letter's neighbours, which has one state for a letter.
    """
    y = np.tile([0, 1, 2, 3, 4, 5, 4, 3, 2, 1], 30)
    model = category_model(y, 6, n_states=20, concentration=0.05)
    points = assert_alive(model, "p", 150)
    assert np.median([len(np.unique(point["z"])) for point in points[-50:]]) == 10
    right = []
    for point in points[-50:]:
        kappa = special.expit(point["hmm_kappa_logodds__"])[:, None]
        P = kappa * np.eye(20) + (1.0 - kappa) * point["hmm_pi_bar"]
        logits = np.column_stack([point["p_simplex__"], -point["p_simplex__"].sum(axis=1)])
        p = special.softmax(logits, axis=1)
        state = np.eye(20)[point["z"][-1]]
        ahead = []
        for letter in y[:20]:
            state = state @ P
            ahead.append(state @ p[:, letter])
        right.append(ahead)
    assert np.mean(right, axis=0).min() > 0.9


@pytest.mark.parametrize("T", [100, 5000])
def test_gradients_are_finite_for_six_sharp_outputs(T):
    """Six Normal outputs, sd 0.03 and 0.07: log-likelihood, kappa, pi_bar and theta."""
    rng = np.random.default_rng(3)
    path = np.repeat([0, 1, 0, 1], T // 4)
    scales = np.array([0.03, 0.07] * 3)
    truth = rng.normal(size=(2, 6))
    y = truth[path] + scales * rng.normal(size=(T, 6))
    kappa, rows, theta = pt.vector("kappa"), pt.matrix("rows"), pt.matrix("theta")
    logp = pm.logp(HiddenPath.dist(np.array([0.5, 0.5]), rows, kappa, [T]), path)
    logp += pm.logp(pm.Normal.dist(theta[path], scales), y).sum()
    inputs = [kappa, rows, theta]
    f = pytensor.function(inputs, [logp, *grad(logp, inputs)])
    for at in (truth, np.zeros((2, 6))):
        out = f(np.array([0.99, 0.5]), np.array([[0.0, 1.0], [1.0, 0.0]]), at)
        assert all(np.isfinite(x).all() for x in out)
    model = normal_model(y[:, 0], n_states=4, scale=0.03)
    assert_alive(model, n=6)


def test_single_precision():
    """Models of float32, with and without a family; fails if a table leaves that precision."""
    with pytensor.config.change_flags(floatX="float32"):
        with pm.Model() as model:
            z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=3), length=NOISE.size)
            mu = pm.Normal("mu", 0.0, 3.0, dims="hmm_state")
            pm.StudentT("heavy", nu=3.0, mu=mu[z], sigma=1.0, observed=NOISE)
            rate = pm.Gamma("rate", 1.0, 0.1, dims="hmm_state")
            pm.Poisson("counts", rate[z], observed=np.arange(NOISE.size))
            step = pm.Metropolis([mu])
        found = posterior(sample(model, draws=5, tune=5, chains=1, step=step))
    assert found["mu"].dtype == "float32"
    assert np.isfinite(found["rate"]).all()
