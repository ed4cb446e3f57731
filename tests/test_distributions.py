import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from models import FAST, evaluate, poisson_model, prior_model
from pytensor.gradient import grad
from scipy import stats

from pymc_dshdp.distributions import (
    HiddenPath,
    SelfPersistence,
    StickFractions,
    SymmetricWeights,
    TransitionRows,
    stick_breaking_weights,
)


def log_density(rv, x):
    [value] = evaluate([pm.logp(rv, np.asarray(x))])
    return value


INITIAL = np.array([0.5, 0.3, 0.2])
PI_BAR = np.array([[0.2, 0.5, 0.3], [0.1, 0.6, 0.3], [0.4, 0.4, 0.2]])
KAPPA = np.array([0.9, 0.2, 0.5])
P = np.diag(KAPPA) + (1.0 - KAPPA[:, None]) * PI_BAR


def product_of(path, lengths, initial=INITIAL, transition=P):
    out, first = 1.0, 0
    for length in lengths:
        out *= initial[path[first]]
        for t in range(first + 1, first + length):
            out *= transition[path[t - 1], path[t]]
        first += length
    return out


# -- log-densities ------------------------------------------------------------------------------


def test_weights_are_dirichlet():
    x = np.array([0.5, 0.2, 0.2, 0.1])
    got = log_density(SymmetricWeights.dist(1.3, 4), x)
    assert got == pytest.approx(stats.dirichlet([1.3 / 4] * 4).logpdf(x))


def test_rows_are_dirichlet_one_by_one():
    beta = np.array([0.6, 0.3, 0.1])
    rows = np.array([[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]])
    got = log_density(TransitionRows.dist(5.0, beta, shape=(2, 3)), rows)
    expected = [stats.dirichlet(5.0 * beta).logpdf(row) for row in rows]
    np.testing.assert_allclose(got, expected)


def test_self_persistence_is_beta():
    phi, eta = 0.8, 0.6
    x = np.array([1e-6, 0.3, 0.999])
    law = stats.beta(phi * eta**-3, (1 - phi) * eta**-3)
    np.testing.assert_allclose(
        log_density(SelfPersistence.dist(phi, eta, shape=3), x), law.logpdf(x)
    )
    outside = log_density(SelfPersistence.dist(phi, eta, shape=2), [-0.1, 1.1])
    assert np.all(outside == -np.inf)


def test_stick_fractions_are_beta():
    x = np.array([0.01, 0.5, 0.99])
    got = log_density(StickFractions.dist(2.5, shape=3), x)
    np.testing.assert_allclose(got, stats.beta(1.0, 2.5).logpdf(x))
    assert np.all(log_density(StickFractions.dist(2.5, shape=2), [-0.1, 1.1]) == -np.inf)


def test_sticks_give_the_weights_of_the_text_book():
    v = np.array([0.3, 0.9, 0.5])
    remaining, expected = 1.0, []
    for fraction in [*v, 1.0]:
        expected.append(fraction * remaining)
        remaining *= 1.0 - fraction
    [beta] = evaluate([stick_breaking_weights(pt.as_tensor(v))])
    np.testing.assert_allclose(beta, expected)


@pytest.mark.parametrize(
    "bad", [[0.5, 0.6, 0.1], [1.2, -0.1, -0.1], [0.5, 0.3, 0.1]], ids=["high", "negative", "low"]
)
def test_off_the_simplex_is_impossible(bad):
    assert log_density(SymmetricWeights.dist(1.0, 3), bad) == -np.inf
    assert log_density(TransitionRows.dist(1.0, np.full(3, 1 / 3)), bad) == -np.inf


def test_underflowed_zeros_keep_the_density_finite():
    beta = np.array([1.0, 1e-300, 0.0])
    for row in ([1.0, 0.0, 0.0], [0.25, 0.75, 0.0]):
        assert np.isfinite(log_density(TransitionRows.dist(3.0, beta), row))
    assert np.isfinite(log_density(SymmetricWeights.dist(0.01, 4), [1.0, 0.0, 1e-300, 0.0]))
    logps = evaluate(
        [pm.logp(HiddenPath.dist(INITIAL, np.eye(3), KAPPA, [3]), np.array([1, 1, 1]))]
    )
    assert np.isfinite(logps[0])


@pytest.mark.parametrize("lengths", [[7], [1, 6], [3, 1, 2, 1], [1] * 7], ids=str)
def test_path_is_the_product_of_its_transitions(lengths):
    rng = np.random.default_rng(3)
    for path in rng.integers(3, size=(5, 7)):
        got = log_density(HiddenPath.dist(INITIAL, PI_BAR, KAPPA, lengths), path)
        assert got == pytest.approx(np.log(product_of(path, lengths)))


def test_batch_of_paths():
    paths = np.random.default_rng(4).integers(3, size=(5, 6))
    got = log_density(HiddenPath.dist(INITIAL, PI_BAR, KAPPA, [6], size=(5,)), paths)
    np.testing.assert_allclose(got, [np.log(product_of(path, [6])) for path in paths])


def test_impossible_paths():
    path = HiddenPath.dist(INITIAL, PI_BAR, KAPPA, [3])
    assert log_density(path, [0, 3, 0]) == log_density(path, [0, -1, 0]) == -np.inf
    no_way = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]])
    dead = HiddenPath.dist([1.0, 0.0, 0.0], no_way, np.zeros(3), [3])
    assert log_density(dead, [0, 2, 2]) == -np.inf  # forbidden switch
    assert log_density(dead, [0, 1, 1]) == -np.inf  # neither persists nor switches to itself
    assert log_density(dead, [1, 0, 0]) == -np.inf  # forbidden start
    assert log_density(dead, [0, 1, 2]) == pytest.approx(2 * np.log(0.5))


# -- gradients ----------------------------------------------------------------------------------


def gradients(pi_bar, kappa, path, lengths):
    """(d log p / d pi_bar, d log p / d kappa) by PyTensor."""
    rows, persistence = pt.matrix("pi_bar"), pt.vector("kappa")
    logp = pm.logp(HiddenPath.dist(INITIAL, rows, persistence, lengths), path)
    return evaluate(grad(logp, [rows, persistence]), {rows: pi_bar, persistence: kappa})


def test_gradient_agrees_with_finite_differences():
    path, lengths, h = np.array([0, 0, 1, 1, 2, 0, 2, 2]), [5, 3], 1e-6

    def logp(pi_bar, kappa):
        transition = np.diag(kappa) + (1.0 - kappa[:, None]) * pi_bar
        return np.log(product_of(path, lengths, transition=transition))

    by_rows, by_kappa = gradients(PI_BAR, KAPPA, path, lengths)
    for j in range(3):
        step = np.zeros(3)
        step[j] = h
        numeric = (logp(PI_BAR, KAPPA + step) - logp(PI_BAR, KAPPA - step)) / (2 * h)
        assert by_kappa[j] == pytest.approx(numeric, rel=1e-6, abs=1e-8)
        for k in range(3):
            step = np.zeros((3, 3))
            step[j, k] = h
            numeric = (logp(PI_BAR + step, KAPPA) - logp(PI_BAR - step, KAPPA)) / (2 * h)
            assert by_rows[j, k] == pytest.approx(numeric, rel=1e-6, abs=1e-8)


def test_gradient_is_finite_where_a_state_cannot_switch_to_itself():
    no_self = np.array([[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])
    path = np.array([0, 0, 1, 1, 2, 2, 0])
    by_rows, by_kappa = gradients(no_self, KAPPA, path, [7])
    assert np.isfinite(by_rows).all() and np.isfinite(by_kappa).all()
    stays = np.array([1, 1, 1])
    leaves = np.array([1, 1, 1])
    np.testing.assert_allclose(by_kappa, stays / KAPPA - leaves / (1.0 - KAPPA))


# -- forward sampling ---------------------------------------------------------------------------

DRAWS = 4000


def within(draws, mean, variance):
    """Mean and variance of independent draws within 4.5 standard errors."""
    n = len(draws)
    centred = draws - np.mean(draws, axis=0)
    error = np.sqrt(variance / n)
    assert np.all(np.abs(np.mean(draws, axis=0) - mean) < 4.5 * error)
    spread = np.std(centred**2, axis=0) / np.sqrt(n)
    assert np.all(np.abs(np.mean(centred**2, axis=0) - variance) < 4.5 * spread)


def draw(rv, seed=11):
    return pm.draw(rv, DRAWS, random_seed=seed, **FAST)


def test_draws_have_the_right_moments():
    weights = stats.dirichlet([1.5 / 4] * 4)
    within(draw(SymmetricWeights.dist(1.5, 4)), weights.mean(), weights.var())
    beta = np.array([0.6, 0.3, 0.1])
    rows = stats.dirichlet(4.0 * beta)
    got = draw(TransitionRows.dist(4.0, beta, shape=(2, 3)))
    for row in (got[:, 0], got[:, 1]):
        within(row, rows.mean(), rows.var())
    assert abs(np.corrcoef(got[:, 0, 0], got[:, 1, 0])[0, 1]) < 4.5 / np.sqrt(DRAWS)
    kappa = stats.beta(0.7 * 0.8**-3, 0.3 * 0.8**-3)
    within(draw(SelfPersistence.dist(0.7, 0.8, shape=2)), kappa.mean(), kappa.var())
    sticks = stats.beta(1.0, 2.0)
    within(draw(StickFractions.dist(2.0, shape=2)), sticks.mean(), sticks.var())


@pytest.mark.parametrize(
    ("lengths", "size"), [([2, 3], None), ([3], (2,))], ids=["ragged", "batch"]
)
def test_drawn_paths_follow_the_transitions(lengths, size):
    got = draw(HiddenPath.dist(INITIAL, PI_BAR, KAPPA, lengths, size=size)).reshape(DRAWS, -1)
    first = 0
    for length in lengths * (1 if size is None else size[0]):
        law = INITIAL
        for t in range(first, first + length):
            share = np.array([(got[:, t] == k).mean() for k in range(3)])
            assert np.all(np.abs(share - law) < 4.5 * np.sqrt(law * (1 - law) / DRAWS))
            law = law @ P
        pairs = np.array(
            [np.mean((got[:, first] == 0) & (got[:, first + 1] == k)) for k in range(3)]
        )
        law = INITIAL[0] * P[0]
        assert np.all(np.abs(pairs - law) < 4.5 * np.sqrt(law * (1 - law) / DRAWS))
        first += length
    boundary = np.mean((got[:, lengths[0] - 1] == 0) & (got[:, lengths[0]] == 0))
    marginal = INITIAL @ np.linalg.matrix_power(P, lengths[0] - 1)
    law = marginal[0] * INITIAL[0]
    assert abs(boundary - law) < 4.5 * np.sqrt(law * (1 - law) / DRAWS)


@pytest.mark.parametrize("weights", ["weak-limit", "stick-breaking"])
def test_prior_predictive_is_quiet_and_has_the_priors_moments(weights):
    model = poisson_model(n_states=3, weights=weights)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draws = pm.sample_prior_predictive(DRAWS, model=model, random_seed=5)
    prior = {name: draws["prior"][name].values[0] for name in draws["prior"].data_vars}
    within(prior["hmm_gamma"], 2.0, 2.0)
    within(prior["hmm_alpha"], 100.0, 1e4)
    within(prior["hmm_phi"], 0.5, 1 / 12)
    within(prior["hmm_eta"], 1.0, 1 / 3)
    within(prior["hmm_kappa"][:, 0], 0.5, np.var(prior["hmm_kappa"][:, 0]))
    for name in ("hmm_beta", "hmm_pi_bar", "hmm_pi_init"):
        np.testing.assert_allclose(prior[name].sum(axis=-1), 1.0)
    # E[pi_bar - beta] = 0 for each row, since rows ~ Dir(alpha beta).
    gap = prior["hmm_pi_bar"] - prior["hmm_beta"][:, None, :]
    assert np.all(np.abs(gap.mean(axis=0)) < 4.5 * gap.std(axis=0) / np.sqrt(DRAWS))
    assert prior["z"].dtype == np.int64
    assert prior["z"].min() >= 0 and prior["z"].max() <= 2
    counts = draws["prior_predictive"]["counts"].values[0]
    picked = np.take_along_axis(prior["rate"], prior["z"].astype(int), axis=1)
    error = (counts - picked) / np.sqrt(picked)
    assert abs(error.mean()) < 4.5 * error.mean(axis=1).std() / np.sqrt(DRAWS)


def test_prior_draws_of_ragged_and_batched_states():
    for layout, shape in [({"lengths": [2, 3]}, (5,)), ({"shape": (2, 4)}, (2, 4))]:
        model = poisson_model(y=np.zeros(shape, int), n_states=2, layout=layout)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            draws = pm.sample_prior_predictive(3, model=model, random_seed=5)
        assert draws["prior"]["z"].values.shape == (1, 3, *shape)


def test_draws_are_the_same_for_a_seed():
    model = prior_model()
    one, two = (
        pm.sample_prior_predictive(4, model=model, random_seed=9, compile_kwargs=dict(FAST))[
            "prior"
        ]
        for _ in range(2)
    )
    for name in one.data_vars:
        np.testing.assert_array_equal(one[name].values, two[name].values)
