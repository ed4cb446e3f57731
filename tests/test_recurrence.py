"""Transitions that depend on the observation before them: readers, and forecasts that feed back."""

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from reference import assert_frequencies
from scipy.special import expit
from test_decode_varying import repeated

import pymc_dshdp as dshdp

pytestmark = pytest.mark.usefixtures("python_mode")

ROWS = np.array([[0.3, 0.7], [0.4, 0.6]])
SURE = 1.0 - np.eye(2)  # a switch that is no choice
C = np.array([[0.4, 1.8, -1.1], [-0.7, -1.5, 0.9]])  # intercept, observation before, covariate
SUCCESS = np.array([0.2, 0.9])


def before(y):
    """The observation of the time before; at first times any."""
    return pt.concatenate([y[..., :1], y[..., :-1]], axis=-1)


def binary(y, x=None, shift=before, **layout):
    with pm.Model() as model:
        data = pm.Data("data", y)
        X = [shift(data.astype("float64"))]
        X += [] if x is None else [pm.Data("x", x)]
        kappa = dshdp.LogisticPersistence(pt.stack(X, axis=-1))
        prior = dshdp.FixedTransitions("hmm", n_states=2, kappa=kappa)
        z = dshdp.HiddenStates("z", prior, **(layout or {"length": data.shape[0]}))
        p = pm.Beta("p", 1.0, 1.0, shape=2)
        pm.Bernoulli("y", p[z], observed=data)
    return model


def result(n, z, rows=ROWS, **values):
    z = np.asarray(z)
    values = {"hmm_pi_init": [0.5, 0.5], "hmm_pi_bar": rows, "z": z, **values}
    return repeated(n, z.shape, **values)


def test_other_data_by_the_name_of_the_observations():
    """The covariate follows the data given, across no boundary of sequences."""
    y = np.array([0, 1, 1, 0, 1, 0, 0])
    draws = result(2, np.zeros(7, int), p=SUCCESS, hmm_kappa_coef=C[:, :2])
    new = np.array([1, 0, 0, 1, 1])
    for name in ("y", "data"):
        found = dshdp.smooth(draws, model=binary(y), observed={name: new}, lengths=[3, 2])
        again = dshdp.smooth(draws, model=binary(new, lengths=[3, 2]))
        np.testing.assert_allclose(found, again, atol=1e-12)


X_AHEAD = np.array([0.5, -1.0, 2.0])


INITIAL = np.array([0.35, 0.65])


def futures(state=None, y=None, coefficients=C):
    """All of (z_1, y_1, ..., z_3, y_3) after a last state and observation, if any; their law."""
    paths = np.array(list(itertools.product(range(2), repeat=6)))
    law = np.ones(len(paths))
    for i, path in enumerate(paths):
        j, seen = state, y
        for h in range(3):
            k, new = path[2 * h : 2 * h + 2]
            if j is None:
                law[i] *= INITIAL[k]
            else:
                kappa = expit(coefficients[j] @ [1.0, seen, X_AHEAD[h]])
                law[i] *= kappa * (j == k) + (1.0 - kappa) * ROWS[j, k]
            law[i] *= SUCCESS[k] if new else 1.0 - SUCCESS[k]
            j, seen = k, new
    return paths, law


@pytest.mark.parametrize("batch", [False, True])
def test_forecasts_feed_back_what_they_draw(batch):
    """Fails if y is fed to the time after the next, from the data, or to another sequence."""
    N, n = 100, 40
    y, z = np.tile([[1, 0], [0, 1]], (N // 2, 1)), np.tile([[0, 1], [1, 0]], (N // 2, 1))
    x, future = np.zeros((N, 2)), np.tile(X_AHEAD, (N, 1))
    if batch:
        model = binary(y, x, shape=(N, 2))
    else:
        y, x, z = y.ravel(), x.ravel(), z.ravel()
        model = binary(y, x, lengths=[2] * N)
    draws = result(n, z, p=SUCCESS, hmm_kappa_coef=C)
    found = dshdp.forecast(
        draws, model=model, horizon=3, covariates={"x": future}, random_seed=int(batch)
    )
    assert found["y"].dims == ("chain", "draw", "sequence", "horizon")
    pairs = np.stack([found["z"].values[0], found["y"].values[0]], axis=-1).reshape(n, N, 6)
    for first, (state, seen) in enumerate([(1, 0), (0, 1)]):
        paths, law = futures(state, seen)
        code = pairs[:, first::2].reshape(-1, 6) @ 2 ** np.arange(5, -1, -1)
        assert_frequencies(np.bincount(code, minlength=64), law)


@pytest.mark.parametrize("recurrent", [True, False])
def test_replicates_from_the_beginning(recurrent):
    """First states from pi_init; fails if the row of the last observation leads to them."""
    N, n = 100, 40
    y, x = np.tile([1, 0], N), np.zeros(2 * N)
    if recurrent:
        model, c = binary(y, x, lengths=[2] * N), C
    else:
        model, c = binary(y, x, shift=pt.zeros_like, lengths=[2] * N), C * [1.0, 0.0, 1.0]
    draws = result(n, np.zeros(2 * N, int), p=SUCCESS, hmm_kappa_coef=C, hmm_pi_init=INITIAL)
    found = dshdp.forecast(
        draws,
        model=model,
        horizon=3,
        anew=True,
        covariates={"x": np.tile(X_AHEAD, (N, 1))},
        random_seed=3,
    )
    pairs = np.stack([found["z"].values[0], found["y"].values[0]], axis=-1).reshape(-1, 6)
    _, law = futures(coefficients=c)
    assert_frequencies(np.bincount(pairs @ 2 ** np.arange(5, -1, -1), minlength=64), law)


def autoregression(y, lags):
    with pm.Model() as model:
        data = pm.Data("data", y)
        rows = pt.concatenate([data[:1], data[:-1]])
        kappa = dshdp.LogisticPersistence(rows, intercept=False)
        prior = dshdp.FixedTransitions("hmm", n_states=2, kappa=kappa)
        z = dshdp.HiddenStates("z", prior, lengths=[5, 4])
        A, Sigma = dshdp.MatrixNormalInverseWishart("ar", n_states=2, S0=np.eye(1), lags=lags)
        dshdp.SwitchingVAR("y", A, Sigma, z, observed=data, lags=lags)
    return model


@pytest.mark.parametrize("lags", [1, 2])
def test_autoregressions_feed_back(lags):
    """It stays where y_t is positive, and switches where it is negative."""
    y = np.random.default_rng(0).normal(size=(9, 1))
    a = np.array([[0.9, -0.7], [-1.1, 0.3]])[:, None, :lags]
    draws = result(
        2,
        np.array([0, 0, 0, 0, 1, 1, 1, 1, 0]),
        SURE,
        ar_A=a,
        ar_Sigma=np.full((2, 1, 1), 1e-20),
        hmm_kappa_coef=np.full((2, 1), 1e6),
    )
    with pytest.raises(ValueError, match="the autoregression y goes on from rows that are given"):
        dshdp.forecast(draws, model=autoregression(y, lags), horizon=6, anew=True)
    found = dshdp.forecast(draws, model=autoregression(y, lags), horizon=6)
    for d, (n, stop, state) in itertools.product(range(2), [(0, 5, 1), (1, 9, 0)]):
        past = list(y[stop - lags : stop, 0][::-1])
        for h in range(6):
            state = state if past[0] > 0.0 else 1 - state
            assert found["z"].values[0, d, n, h] == state
            new = a[state, 0] @ past
            assert found["y"].values[0, d, n, h, 0] == pytest.approx(new, abs=1e-6)
            past = [new, *past[:-1]]


def test_a_matrix_of_the_user_feeds_back():
    """P by an index that is the observation before."""
    with pm.Model() as model:
        data = pm.Data("data", np.array([0, 1, 1, 0]))
        P = np.array([[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]])
        prior = dshdp.Transitions("hmm", P, index=before(data))
        z = dshdp.HiddenStates("z", prior, length=data.shape[0])
        p = pm.Beta("p", 1.0, 1.0, shape=2)
        pm.Bernoulli("y", p[z], observed=data)
    draws = repeated(3, 4, p=SUCCESS)
    found = dshdp.forecast(draws, model=model, horizon=8)
    z, y = found["z"].values[0], found["y"].values[0]
    z = np.concatenate([np.zeros((3, 1), int), z], axis=1)
    y = np.concatenate([np.zeros((3, 1), int), y], axis=1)
    np.testing.assert_array_equal(z[:, 1:], np.where(y[:, :-1] == 1, z[:, :-1], 1 - z[:, :-1]))


OTHERWISE = {
    "at the same time": lambda y: y,
    "all before": lambda y: before(pt.cumsum(y)),
    "standardised by all": lambda y: before(y - y.mean()),
    "one after": lambda y: pt.concatenate([y[1:], y[:1]]),
    "once long before": lambda y: pt.concatenate([before(y)[:-1], y[:1]]),
    "too far before": lambda y: pt.concatenate([y[:17], y[:-17]]),
}


@pytest.mark.parametrize("what", OTHERWISE)
@pytest.mark.parametrize("length", [7, 40])
def test_observations_of_other_times_are_refused(what, length):
    """Fails if a window as long as the data is taken for a proof."""
    draws = result(1, np.zeros(length, int), p=SUCCESS, hmm_kappa_coef=C[:, :2])
    model = binary(np.arange(length) % 2, shift=OTHERWISE[what])
    with pytest.raises(ValueError, match=r"depend on 'data'.* of other times than up to 16 before"):
        dshdp.forecast(draws, model=model, horizon=2)


def two_before(y):
    """The sum of the last observation and twice the one before that; zeros before the first."""
    zeros = pt.zeros_like(y[..., :2])
    past = pt.concatenate([zeros, y], axis=-1)
    return past[..., 1:-1] + 2.0 * past[..., :-2]


def one_two_before(y):
    """The observation of two times before alone."""
    return pt.concatenate([y[..., :2], y[..., :-2]], axis=-1)


def law_of_two(beginning, combine, n=3):
    """All of (z_1, y_1, ..., z_n, y_n) after some (z, y), if any, and their law."""
    paths = np.array(list(itertools.product(range(2), repeat=2 * n)))
    law = np.ones(len(paths))
    for i, path in enumerate(paths):
        seen = [0, 0, *(y for _, y in beginning)]
        state = beginning[-1][0] if beginning else None
        for k, new in path.reshape(n, 2):
            if state is None:
                law[i] *= INITIAL[k]
            else:
                kappa = expit(C[state, :2] @ [1.0, combine(seen[-1], seen[-2])])
                law[i] *= kappa * (state == k) + (1.0 - kappa) * ROWS[state, k]
            law[i] *= SUCCESS[k] if new else 1.0 - SUCCESS[k]
            state = k
            seen.append(new)
    return paths, law


@pytest.mark.parametrize("layout", ["batch", "lengths"])
@pytest.mark.parametrize("shift", [two_before, one_two_before])
def test_observations_of_two_times_feed_back(shift, layout):
    """Fails if they are fed in another order, a time late, or to another sequence."""
    N, n = 60, 40
    y = np.tile([[0, 1, 1, 0], [1, 0, 0, 1]], (N // 2, 1))
    z = np.tile([[0, 0, 0, 1], [0, 0, 0, 0]], (N // 2, 1))
    given = {"shape": (N, 4)}
    if layout == "lengths":
        y, z, given = y.ravel(), z.ravel(), {"lengths": [4] * N}
    draws = result(n, z, p=SUCCESS, hmm_kappa_coef=C[:, :2])
    found = dshdp.forecast(draws, model=binary(y, shift=shift, **given), horizon=3, random_seed=4)
    combine = (lambda a, b: a + 2.0 * b) if shift is two_before else (lambda a, b: b)
    pairs = np.stack([found["z"].values[0], found["y"].values[0]], axis=-1).reshape(n, N, 6)
    for first, beginning in enumerate([[(0, 1), (1, 0)], [(0, 0), (0, 1)]]):
        _, law = law_of_two(beginning, combine)
        code = pairs[:, first::2].reshape(-1, 6) @ 2 ** np.arange(5, -1, -1)
        assert_frequencies(np.bincount(code, minlength=64), law)


def test_replicates_of_two_times_from_the_beginning():
    """Zeros stand before a new sequence; fails if rows of the data, or of itself too early, do."""
    N, n = 60, 40
    y = np.tile([[1, 1, 1, 1], [1, 1, 1, 0]], (N // 2, 1))
    values = {"p": SUCCESS, "hmm_kappa_coef": C[:, :2], "hmm_pi_init": INITIAL}
    draws = result(n, np.zeros((N, 4), int), **values)
    model = binary(y, shift=two_before, shape=(N, 4))
    found = dshdp.forecast(draws, model=model, horizon=4, anew=True, random_seed=5)
    pairs = np.stack([found["z"].values[0], found["y"].values[0]], axis=-1).reshape(-1, 8)
    _, law = law_of_two([], lambda a, b: a + 2.0 * b, n=4)
    assert_frequencies(np.bincount(pairs @ 2 ** np.arange(7, -1, -1), minlength=256), law)
    y = np.tile([0, 1, 1, 0, 1], 2)
    draws = result(1, np.zeros(10, int), p=SUCCESS, hmm_kappa_coef=C[:, :2])
    for shift in (one_two_before, two_before):
        late = binary(y, shift=shift, lengths=[5, 5])
        with pytest.raises(ValueError, match="to the first 2 times .* has not had then"):
            dshdp.forecast(draws, model=late, horizon=3, anew=True)


def test_what_a_forecast_cannot_feed_back():
    """Fails if the future is drawn from zeros in the place of observations."""
    y = np.array([0, 1, 1, 0])
    draws = result(1, np.zeros(4, int), p=SUCCESS, hmm_kappa_coef=C[:, :2])
    with pytest.raises(ValueError, match="covariates has 'data', which holds the observations of"):
        dshdp.forecast(draws, model=binary(y), horizon=4, covariates={"data": y})
    with pytest.raises(ValueError, match="transitions of forecast_model depend on the observatio"):
        dshdp.forecast(draws, model=binary(y), forecast_model=binary(y))
    with pm.Model() as lagged:
        data = pm.Data("data", y.astype(float))
        prior = dshdp.FixedTransitions("hmm", n_states=2)
        z = dshdp.HiddenStates("z", prior, length=data.shape[0])
        pm.Normal("y", z + before(data), 1.0, observed=data)
    with pytest.raises(ValueError, match="the likelihood of 'y' depends on 'data', .*SwitchingVAR"):
        dshdp.forecast(draws, model=lagged, horizon=4)
    with pm.Model() as two:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=2), length=4)
        for lags in (1, 2):
            name = f"ar{lags}"
            A, Sigma = dshdp.MatrixNormalInverseWishart(name, n_states=2, S0=np.eye(1), lags=lags)
            dshdp.SwitchingVAR(f"y{lags}", A, Sigma, z, observed=np.zeros((4, 1)), lags=lags)
    with pytest.raises(ValueError, match="the autoregressions have different lags"):
        dshdp.forecast(draws, model=two, horizon=4)
    with pytest.raises(TypeError, match="anew must be True or False, received 1"):
        dshdp.forecast(draws, model=binary(y), horizon=4, anew=1)
