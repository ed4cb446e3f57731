"""Self-persistence that depends on time or covariates: ``kappa`` of shape (T, L)."""

import itertools

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from models import FAST, evaluate, sample
from pytensor.gradient import grad
from reference import assert_frequencies, monte_carlo_error
from scipy import special, stats

import pymc_dshdp as dshdp
from pymc_dshdp.analysis.result import find_hidden, find_prior
from pymc_dshdp.distributions import HiddenPath

MEANS = np.array([-0.5, 1.0])
X = np.array([0.0, 2.0, -1.0, 1.5, -2.0, 0.5])
Y = np.array([0.3, 0.8, 1.0, -0.4, -0.9, 0.1])
LENGTHS = [4, 2]
KAPPA = special.expit(np.array([0.5, -1.0]) + 1.3 * X[:, None])


def path_weights(path, w, kappa):
    """p(w | z, kappa) x p(z | w) of FixedTransitions with concentration 1, rows integrated out.

    ``kappa`` has shape (T, L, ...).
    """
    counts, p = np.zeros((3, 2)), np.ones(kappa.shape[2:])
    for t in range(6):
        row = 0 if t in (0, 4) else path[t - 1] + 1
        if row:
            p = p * (kappa[t, row - 1] if w[t] else 1.0 - kappa[t, row - 1])
        if not w[t]:
            p = p * (1.0 + counts[row, path[t]]) / (2.0 + counts[row].sum())
            counts[row, path[t]] += 1
    return p


def law_of_paths(kappa):
    """p(z, y), rows and w summed out, for every path: (paths, array (2^6, ...))."""
    paths = list(itertools.product(range(2), repeat=6))
    out = []
    for path in paths:
        may = [t not in (0, 4) and path[t] == path[t - 1] for t in range(6)]
        options = [(False, True) if m else (False,) for m in may]
        total = sum(path_weights(path, w, kappa) for w in itertools.product(*options))
        out.append(total * np.exp(stats.norm(MEANS[list(path)], 1.0).logpdf(Y).sum()))
    return np.array(paths), np.array(out)


def varying_model(kappa=KAPPA, layout=None, y=Y, x=X, prior=dshdp.FixedTransitions):
    with pm.Model() as model:
        if kappa is None:
            a = pm.Normal("a", 0.0, 1.0, shape=2)
            b = pm.Normal("b", 0.0, 1.0)
            kappa = pm.math.invlogit(a + b * x[:, None])
        prior = prior("hmm", n_states=2, kappa=kappa)
        z = dshdp.HiddenStates("z", prior, **(layout or {"lengths": LENGTHS}))
        pm.Normal("y", pt.as_tensor(MEANS)[z], 1.0, observed=y)
    return model


def test_step_leaves_the_enumerated_law_invariant(quick):
    """States and rows in turn; fails if W is drawn from one row of kappa for all times."""
    model = varying_model()
    with model:
        step = dshdp.WeakLimitFFBS([model["z"]], rng=np.random.default_rng(3))
    step.stop_tuning()
    paths, law = law_of_paths(KAPPA)
    point, seen = model.initial_point(), np.zeros(len(paths))
    for i in range(9000):
        point, _ = step.step(point)
        if i % 3 == 0:
            seen[point["z"] @ 2 ** np.arange(5, -1, -1)] += 1
    assert_frequencies(seen, law / law.sum())


@pytest.mark.slow
def test_coefficients_agree_with_a_grid():
    """a, b by NUTS, states and rows by our step, against their marginal posterior on a grid."""
    model = varying_model(kappa=None)
    idata = sample(model, draws=6000, tune=1000, chains=2, random_seed=4)
    grid = np.linspace(-4.5, 4.5, 31)
    a0, a1, b = np.meshgrid(grid, grid, grid, indexing="ij")
    kappa = special.expit(np.array([[a0 + b * x, a1 + b * x] for x in X]))
    density = law_of_paths(kappa)[1].sum(axis=0)
    density *= np.exp(-0.5 * (a0**2 + a1**2 + b**2))
    density /= density.sum()
    draws = {"b": (idata["posterior"]["b"].values, b)}
    for k, axis in enumerate((a0, a1)):
        draws[f"a{k}"] = (idata["posterior"]["a"].values[..., k], axis)
    for chain, axis in draws.values():
        for power in (1, 2):
            error = np.hypot(*(monte_carlo_error(c**power) for c in chain)) / 2
            assert abs((chain**power).mean() - (density * axis**power).sum()) < 4.5 * error


@pytest.mark.slow
def test_automatic_steps(quick):
    """NUTS gets the coefficients; nothing is left for GridRhoStep, which says so."""
    model = varying_model(kappa=None, prior=dshdp.DSHDP)
    idata = sample(model, draws=5, tune=5, chains=1)
    assert {"a", "b"} <= set(idata["posterior"].data_vars)
    assert "rho_accepted" not in idata["sample_stats"]
    with model:
        with pytest.raises(ValueError, match="GridRhoStep: the prior of 'z' has no free self-pers"):
            dshdp.GridRhoStep([model["z"]])
        with pytest.raises(ValueError, match="DSBlockGibbs: the self-persistence kappa of 'z' var"):
            dshdp.DSBlockGibbs([model["z"]])


# -- density, gradients, draws ------------------------------------------------------------------

ROWS = np.array([[0.3, 0.7], [0.6, 0.4]])
START = np.array([0.2, 0.8])


def log_product(path, kappa, lengths):
    out, first = 0.0, 0
    for length in lengths:
        out += np.log(START[path[first]])
        for t in range(first + 1, first + length):
            j, k = path[t - 1], path[t]
            out += np.log((1 - kappa[t, j]) * ROWS[j, k] + kappa[t, j] * (j == k))
        first += length
    return out


def test_log_density():
    """Fails if the row of kappa at t - 1 is used from t - 1 to t."""
    paths = np.random.default_rng(1).integers(2, size=(4, 6))
    for path in paths:
        rv = HiddenPath.dist(START, ROWS, KAPPA, LENGTHS)
        [got] = evaluate([pm.logp(rv, path)])
        assert got == pytest.approx(log_product(path, KAPPA, LENGTHS))
    batch = np.stack([KAPPA, 1.0 - KAPPA, KAPPA**2, KAPPA**3])
    for kappa in (KAPPA, batch):
        rv = HiddenPath.dist(START, ROWS, kappa, [6], size=(4,))
        [got] = evaluate([pm.logp(rv, paths)])
        rows = np.broadcast_to(kappa, (4, 6, 2))
        expected = [log_product(p, k, [6]) for p, k in zip(paths, rows, strict=True)]
        np.testing.assert_allclose(got, expected)


def test_gradients_are_finite_at_the_ends():
    """Persistence that rounds to 0 or 1, rows with zeros, an initial state that cannot be."""
    a, x = pt.vector("a"), np.array([0.0, 60.0, -60.0, 0.0, 0.5, -60.0])
    rows, start = pt.matrix("rows"), pt.vector("start")
    kappa = pm.math.invlogit(a + x[:, None])
    path = np.array([0, 0, 1, 1, 1, 0])
    logp = pm.logp(HiddenPath.dist(start, rows, kappa, [6]), path)
    at = [np.array([0.3, -0.2]), np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1.0, 0.0])]
    inputs = [a, rows, start]
    f = pytensor.function(inputs, [logp, *grad(logp, inputs)], mode="FAST_RUN")
    value, *gradients = f(*at)
    assert np.isfinite(value)
    for gradient in gradients:
        assert np.isfinite(gradient).all()
    h = 1e-6
    for k in range(2):
        up, down = (f(at[0] + s * h * np.eye(2)[k], *at[1:])[0] for s in (1, -1))
        assert gradients[0][k] == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("batch", [False, True])
def test_prior_draws(batch):
    kappa = np.stack([KAPPA, 1.0 - KAPPA]) if batch else KAPPA
    size = (2,) if batch else None
    rv = HiddenPath.dist(START, ROWS, kappa, [6], size=size)
    draws = pm.draw(rv, 4000, random_seed=2, **FAST).reshape(4000, -1, 6)
    for n, rows in enumerate(np.broadcast_to(kappa, (draws.shape[1], 6, 2))):
        law = START
        for t in range(6):
            if t:
                P = np.diag(rows[t]) + (1.0 - rows[t][:, None]) * ROWS
                law = law @ P
            assert_frequencies(np.bincount(draws[:, n, t], minlength=2), law)


# -- layouts, other data, refusals --------------------------------------------------------------


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_layouts_of_a_batch(axes, quick):
    """(L,), (T, L) and (N, T, L): the same filter as the sequences laid end to end."""
    kappa = {1: KAPPA[0], 2: KAPPA[:3], 3: KAPPA.reshape(2, 3, 2)}[axes]
    flat = np.broadcast_to(kappa, (2, 3, 2)).reshape(6, 2)
    model = varying_model(kappa, {"shape": (2, 3)}, Y.reshape(2, 3))
    other = varying_model(flat, {"lengths": [3, 3]})
    out = []
    for m in (model, other):
        with m:
            step = dshdp.WeakLimitFFBS([m["z"]], rng=np.random.default_rng(3))
        out.append(step._priors[0].draw_states(m.initial_point(), step.rng))
    assert out[0][1] == pytest.approx(out[1][1])
    np.testing.assert_array_equal(out[0][0]["z"].ravel(), out[1][0]["z"])


def test_held_out_log_likelihood_uses_the_covariates_of_the_other_data(quick):
    model = varying_model(kappa=None, prior=dshdp.DSHDP)
    idata = sample(model, draws=2, tune=0, chains=1)
    x, y = np.array([1.0, -1.0, 0.7]), np.array([0.2, 0.1, -0.5])
    test = varying_model(None, {"length": 3}, y, x, dshdp.DSHDP)
    got = dshdp.held_out_log_likelihood(idata, model=test)["total"].values[0]
    for d in range(2):
        draw = {k: v.values[0, d] for k, v in idata["posterior"].data_vars.items()}
        kappa = special.expit(draw["a"] + draw["b"] * x[:, None])
        total = 0.0
        for path in itertools.product(range(2), repeat=3):
            p = draw["hmm_pi_init"][path[0]]
            for t in (1, 2):
                j, k = path[t - 1], path[t]
                p *= (1 - kappa[t, j]) * draw["hmm_pi_bar"][j, k] + kappa[t, j] * (j == k)
            total += p * np.exp(stats.norm(MEANS[list(path)], 1.0).logpdf(y).sum())
        assert got[d] == pytest.approx(np.log(total))


def test_results_have_the_mean_over_time(quick):
    """Fails if a result without kappa is read as one without self-persistence."""
    idata = sample(varying_model(kappa=None), draws=3, tune=0, chains=1)
    prior = find_prior(idata, find_hidden(idata))
    draws = idata["posterior"].isel(chain=0)
    a, b = draws["a"].values, draws["b"].values
    kappa = special.expit(a[:, None] + b[:, None, None] * X[:, None])
    np.testing.assert_allclose(prior.kappa[0], kappa.mean(axis=1))
    assert prior.varies and not np.allclose(prior.kappa, 0.5)


def test_transposed_and_symbolic_self_persistence(quick):
    """Fails if a transposition is taken for an added dimension."""
    with pm.Model() as model:
        a = pm.Normal("a", shape=(2, 6))
        prior = dshdp.DSHDP("hmm", n_states=2, kappa=pm.math.invlogit(a).T)
        z = dshdp.HiddenStates("z", prior, length=6)
        pm.Normal("y", pt.as_tensor(MEANS)[z], 1.0, observed=Y)
        step = dshdp.WeakLimitFFBS([z])
    logit, _ = step._priors[0].transition.persistence_and_rows(
        {**model.initial_point(), "a": np.arange(12.0).reshape(2, 6)}
    )
    np.testing.assert_allclose(logit, np.arange(12.0).reshape(2, 6).T)


@pytest.mark.parametrize(
    ("kappa", "layout", "words"),
    [
        (KAPPA[:4], {"lengths": [4, 2]}, r"kappa of the prior 'hmm' has shape \(4, 2\).*\(6, 2\)"),
        (KAPPA.reshape(2, 3, 2), {"length": 6}, r"has shape \(2, 3, 2\).*\(6, 2\)"),
        (KAPPA.reshape(2, 3, 2), {"shape": (3, 2)}, r"has shape \(2, 3, 2\).*\(3, 2, 2\)"),
    ],
)
def test_rows_that_do_not_fit_the_times(kappa, layout, words):
    with pytest.raises(ValueError, match=words):
        varying_model(kappa, layout)
    with pytest.raises(ValueError, match=r"kappa must be .* shape \(2,\), or \(T, 2\)"):
        varying_model(KAPPA.T)
    with pytest.raises(ValueError, match="kappa must be in"):
        varying_model(KAPPA + 1.0)


def test_summary_of_a_result_has_no_self_persistence_variable(quick):
    """``label_invariant`` takes b, a scalar, and leaves a, one per state."""
    idata = sample(varying_model(kappa=None), draws=10, tune=5, chains=1)
    summary = az.summary(dshdp.label_invariant(idata), kind="stats")
    assert "b" in summary.index and "a" not in summary.index
