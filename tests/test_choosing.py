"""Numbers of states compared: held-out scores, the maximum of the likelihood, AIC and BIC."""

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from models import FAST, posterior_of
from scipy.special import logsumexp
from scipy.stats import nbinom, poisson

import pymc_dshdp as dshdp
from pymc_dshdp.analysis.draws import PosteriorDraws
from pymc_dshdp.analysis.maximum import MarginalLikelihood
from pymc_dshdp.runs import choosing
from pymc_dshdp.transitions.found import find_transitions

pytestmark = pytest.mark.usefixtures("python_readers")

_, COUNTS = dshdp.datasets.earthquakes()
Y = np.array([2, 30, 1, 3, 28, 25])


def build(K, y, prior=dshdp.FixedTransitions, more=None, **kwargs):
    with pm.Model(coords={"state": np.arange(K)}) as model:
        z = dshdp.HiddenStates("z", prior("hmm", dims="state", **kwargs), shape=np.shape(y))
        rate = pm.Gamma("rate", 2.0, 0.1, dims="state")
        pm.Poisson("counts", rate[z], observed=y)
        if more:
            more(z)
    return model


@pytest.fixture
def prior_draws(monkeypatch):
    """Prior draws in the place of posterior ones; the calls are kept."""
    calls = []

    def sample(draws, *, model, random_seed, **kwargs):
        calls.append((model, random_seed))
        return posterior_of(model, draws, compile_kwargs=FAST)

    monkeypatch.setattr(pm, "sample", sample)
    return calls


@pytest.fixture
def only_maximum(prior_draws, monkeypatch):
    """Nothing is held out."""
    draw = pm.sample

    def sample(draws, *, model, **kwargs):
        masked = any(rv.name.endswith("unobserved") for rv in model.free_RVs)
        return None if masked else draw(draws, model=model, **kwargs)

    monkeypatch.setattr(pm, "sample", sample)
    monkeypatch.setattr(choosing, "_held_out", lambda *args: 0.0)


@pytest.fixture
def fits(monkeypatch):
    """Models and seeds of what would be sampled; nothing is."""
    calls = []
    monkeypatch.setattr(
        pm, "sample", lambda *args, model, random_seed, **kw: calls.append((model, random_seed))
    )
    monkeypatch.setattr(choosing, "_held_out", lambda *args: 0.0)
    monkeypatch.setattr(choosing, "_maximum", lambda *args: ((0.0, 1.0), {"P": 1}))
    return calls


def choose(build, numbers, data, **kwargs):
    short = {"folds": 2, "chains": 1, "random_seed": 1, "progressbar": False}
    return dshdp.choose_states(build, numbers, data, **{**short, **kwargs})


# -- the maximum ------------------------------------------------------------------------------


def test_earthquakes_by_maximum_likelihood(only_maximum):
    """The numbers of Zucchini & MacDonald for m stationary Poisson states: m squared parameters.

    Fails if pi_init is not that of P, if it is counted, or if the draws are not improved upon.
    """
    found = choose(build, [1, 2, 3], COUNTS, draws=2, initial="stationary")
    np.testing.assert_allclose(
        found.table["log_likelihood"], [-391.9189, -342.3183, -329.4603], atol=1e-4
    )
    assert found.table["parameters"].tolist() == [1, 4, 9]
    np.testing.assert_allclose(found.table["aic"], [785.8, 692.6, 676.9], atol=0.05)
    np.testing.assert_allclose(found.table["bic"], [788.5, 703.3, 701.0], atol=0.05)
    assert found.best("bic") == found.best("aic") == 3 and found.n == 107
    text = str(found)
    for words in ("-329.46", "701.0", "p", "3 by BIC", "Free parameters"):
        assert words in text
    with pytest.raises(ValueError, match="by must be one of .*'loo'"):
        found.best("loo")


LEFT_TO_RIGHT = {
    "concentration": np.triu(np.ones((3, 3))),
    "initial_concentration": [1.0, 1.0, 0.0],
}


@pytest.mark.parametrize(
    ("initial", "kwargs", "count"),
    [
        ("estimated", {}, {"P": 6, "pi_init": 2, "rate": 3}),
        ("stationary", {}, {"P": 6, "pi_init": 0, "rate": 3}),
        ("estimated", LEFT_TO_RIGHT, {"P": 3, "pi_init": 1, "rate": 3}),
    ],
)
def test_gradient(initial, kwargs, count):
    """Fails if a sequence's start counts as a transition, or pi_init does not follow P."""
    model = build(3, COUNTS[:24].reshape(2, 12), **kwargs)
    idata = posterior_of(model, 3, compile_kwargs=FAST)
    draws = PosteriorDraws(idata, model)
    likelihood = MarginalLikelihood(model, find_transitions(model)[0], draws, initial)
    assert likelihood.n_parameters == count
    x = likelihood.start(0, 1)
    value, gradient = likelihood(x)
    if initial == "estimated":
        total = dshdp.held_out_log_likelihood(idata, model=model)["total"]
        assert value == pytest.approx(float(total[0, 1]))
    assert len(likelihood._apart) == 1
    steps = 1e-5 * np.eye(x.size)
    slopes = [(likelihood(x + e)[0] - likelihood(x - e)[0]) / 2e-5 for e in steps]
    np.testing.assert_allclose(gradient, slopes, atol=1e-5)


def test_gradient_of_parameters_that_states_share():
    """Fails if what is moved at once is read by one state twice."""
    with pm.Model(coords={"state": np.arange(2)}) as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", dims="state"), length=24)
        mu = pm.Normal("mu", 20.0, 5.0, dims="state")
        sigma = pm.HalfNormal("sigma", 5.0, dims="state")
        slope = pm.Normal("slope")
        pm.Normal("y", mu[z] + slope * np.arange(24), sigma[z], observed=COUNTS[:24])
    draws = PosteriorDraws(posterior_of(model, 1, compile_kwargs=FAST), model)
    likelihood = MarginalLikelihood(model, find_transitions(model)[0], draws, "estimated")
    assert likelihood.n_parameters == {"P": 2, "pi_init": 1, "mu": 2, "sigma": 2, "slope": 1}
    assert sorted(map(len, likelihood._apart)) == [1, 2, 2]
    x = likelihood.start(0, 0)
    steps = 1e-5 * np.eye(x.size)
    slopes = [(likelihood(x + e)[0] - likelihood(x - e)[0]) / 2e-5 for e in steps]
    np.testing.assert_allclose(likelihood(x)[1], slopes, atol=1e-4, rtol=1e-6)


def non_centred(z):
    centre, spread = pm.Normal("centre"), pm.HalfNormal("spread")
    return (centre + spread * pm.Normal("raw", dims="state"))[z], 2.0


def random_bound(z):
    return pm.Uniform("mu", 0.0, pm.HalfNormal("upper", 50.0), dims="state")[z], 2.0


def shared_and_own(z):
    return pm.Normal("shared") + pm.Normal("own", dims="state")[z], pm.HalfNormal("sigma")


def years(z):
    slopes = pm.Normal("slopes", shape=3)
    year = 1900.0 + np.arange(24)
    curve = slopes[0] + slopes[1] * year + slopes[2] * year**2 / 2000.0
    return curve + pt.as_tensor([0.0, 10.0, 20.0])[z], 2.0


@pytest.mark.parametrize(
    ("mean_and_scale", "count"),
    [
        (non_centred, {"centre": 1, "spread": 1, "raw": 3, "redundant": -2}),
        (random_bound, {"mu": 3, "upper": 1, "redundant": -1}),
        (shared_and_own, {"own": 3, "shared": 1, "sigma": 1, "redundant": -1}),
        (years, {"slopes": 3}),
    ],
)
def test_redundant_parameters_are_not_counted(mean_and_scale, count):
    """Fails if numbers that the likelihood cannot tell apart are parameters of AIC and BIC.

    And if what it tells apart with difficulty, a curve in years that are not centred, is not.
    """
    with pm.Model(coords={"state": np.arange(3)}) as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", dims="state"), length=24)
        mean, scale = mean_and_scale(z)
        pm.Normal("y", mean, scale, observed=COUNTS[:24])
    draws = PosteriorDraws(posterior_of(model, 1, compile_kwargs=FAST), model)
    likelihood = MarginalLikelihood(model, find_transitions(model)[0], draws, "estimated")
    assert likelihood.n_parameters == {"P": 6, "pi_init": 2, **count}


def test_nothing_to_estimate(only_maximum):
    """Fails if a model of one state and a known emission has no maximum."""

    def known(K, y):
        with pm.Model() as model:
            z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=K), length=len(y))
            pm.Poisson("counts", pm.math.stack([20.0] * K)[z], observed=y)
        return model

    found = choose(known, [1], Y, draws=1)
    assert found.table.loc[1, "log_likelihood"] == pytest.approx(poisson.logpmf(Y, 20.0).sum())
    assert found.table.loc[1, "parameters"] == 0


def test_likelihood_without_bound(only_maximum):
    """Fails if an ascent towards a standard deviation of 0 is taken for a maximum."""

    def spread(K, y):
        with pm.Model(coords={"state": np.arange(K)}) as model:
            z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", dims="state"), length=len(y))
            sigma = pm.HalfNormal("sigma", 1.0, dims="state")
            pm.Normal("y", 0.0, sigma[z], observed=y)
        return model

    y = np.zeros(20)
    found = choose(spread, [1], y, draws=2)
    assert np.isnan(found.table.loc[1, ["log_likelihood", "aic", "bic"]].astype(float)).all()
    assert "No maximum of the likelihood was found for [1] states" in str(found)
    with pytest.raises(ValueError, match="by='bic'.*no maximum was found"):
        found.best("bic")


# -- held-out scores --------------------------------------------------------------------------


def test_held_out_scores_of_given_draws(prior_draws):
    """Each fold by enumeration of all paths; fails if its neighbours are left out too."""
    found = choose(build, [2], Y, draws=3)
    paths = np.array(list(itertools.product(range(2), repeat=len(Y))))
    expected = []
    for f, (model, _) in enumerate(prior_draws[1:]):
        posterior = posterior_of(model, 3, compile_kwargs=FAST)["posterior"]
        ratio = []
        for s in range(3):
            one = posterior.isel(chain=0, draw=s)
            P, initial = one["hmm_pi_bar"].values, one["hmm_pi_init"].values
            log_path = np.log(initial)[paths[:, 0]] + np.log(P)[paths[:, :-1], paths[:, 1:]].sum(1)
            table = poisson.logpmf(Y[:, None], one["rate"].values)
            terms = table[np.arange(len(Y)), paths]
            seen = np.arange(len(Y)) % 2 != f
            whole, rest = (logsumexp(log_path + x.sum(1)) for x in (terms, terms[:, seen]))
            ratio.append(whole - rest)
        expected.append(logsumexp(ratio) - np.log(3))
    assert found.table.loc[2, "held_out"] == pytest.approx(sum(expected))
    assert found.table.loc[2, "se"] == pytest.approx(np.sqrt(2) * np.std(expected, ddof=1))


def test_held_out_scores_of_samples():
    """One state is Poisson with a Gamma rate, whose predictive density is known."""
    found = choose(build, [1], COUNTS, draws=150, tune=0, random_seed=3)
    fold = np.repeat(np.arange(20) % 2, np.diff(np.r_[np.arange(20) * 107 // 20, 107]))
    exact = 0.0
    for f in range(2):
        a, b = 2.0 + COUNTS[fold != f].sum(), 0.1 + np.sum(fold != f)
        for y in COUNTS[fold == f]:
            exact += nbinom.logpmf(y, a, b / (b + 1.0))
            a, b = a + y, b + 1.0
    assert found.table.loc[1, "held_out"] == pytest.approx(exact, abs=0.5)
    assert found.best() == 1 and found.table.loc[1, "diff"] == 0.0
    assert found.results[1]["posterior"].sizes["draw"] == 150
    assert list(found.models) == [1]


def test_seeds_follow_from_number_and_fold(fits):
    """Fails if a fit depends on what else was asked for, or two share a seed."""
    choose(build, [1, 2], Y)
    choose(build, [2], Y)
    seeds = [seed for _, seed in fits]
    assert len(set(seeds)) == 6
    assert seeds[6:] == seeds[3:6]


def test_sequences_and_dicts_of_data(fits):
    """Fails if a sequence is cut, or of two series only one is held out."""
    lengths = [2] * 20

    def two_series(K, data):
        with pm.Model(coords={"state": np.arange(K)}) as model:
            hmm = dshdp.FixedTransitions("hmm", dims="state")
            z = dshdp.HiddenStates("z", hmm, lengths=lengths)
            rate = pm.Gamma("rate", 2.0, 0.1, dims="state")
            pm.Poisson("counts", rate[z], observed=data["counts"])
            pm.Normal("level", rate[z][:, None], 1.0, observed=data["level"])
        return model

    level = np.ones((40, 2))
    level[3] = np.nan
    data = {"counts": np.ma.array(COUNTS[:40], mask=np.arange(40) == 3), "level": level}
    found = choose(two_series, [2], data)
    assert found.n == 39
    model = fits[1][0]
    assert model["counts_unobserved"].type.shape == (21,)
    assert model["level_unobserved"].type.shape == (42,)


# -- what is refused --------------------------------------------------------------------------


def latent(z):
    pm.Normal("noise", z, 1.0, shape=len(Y))


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ((build, [], Y), ValueError, "n_states must be different.*received \\[\\]"),
        ((build, 3, Y), ValueError, "n_states must be different.*range.*received 3"),
        ((build, [0, 1], Y), ValueError, "n_states must be .*\\[0, 1\\]"),
        ((build, [2, 2], Y), ValueError, "n_states must be different"),
        (("build", [2], Y), TypeError, "build must be a function"),
        ((lambda K, y: None, [2], Y), TypeError, "must return the pymc.Model.*NoneType"),
        ((lambda K, y: build(3, y), [2], Y), ValueError, "has 3 states"),
        ((lambda K, y: build(K, Y), [2], Y), ValueError, "nothing of the model.*missing"),
        ((build, [2], Y, {"folds": 1}), ValueError, "folds .* at least 2, received 1"),
        ((build, [2], Y, {"folds": 9}), ValueError, "folds must be at most 6.*received 9"),
        ((build, [2], Y, {"initial": "flat"}), ValueError, "initial must be.*'flat'"),
        ((lambda K, y: build(K, Y), [2], Y[:4]), ValueError, "shape that begins with \\(6,\\)"),
        (
            (lambda K, y: build(K, y, dshdp.DSHDP), [2], Y),
            ValueError,
            "transitions DSHDP.*compare_held_out",
        ),
        ((lambda K, y: build(K, y, kappa=0.5), [2], Y), ValueError, "self-persistence kappa"),
        ((lambda K, y: pm.Model(), [2], Y), ValueError, "one HiddenStates var.*received \\[\\]"),
        ((lambda K, y: build(K, y, more=latent), [2], Y), ValueError, "'noise' is latent"),
        (
            (lambda K, y: build(K, y, concentration=[[1, 1], [0, 1]]), [2], Y)
            + ({"initial": "stationary"},),
            ValueError,
            "'z'.*concentration 0",
        ),
    ],
)  # fmt: skip
def test_refused(arguments, error, match, only_maximum):
    *arguments, kwargs = arguments if isinstance(arguments[-1], dict) else (*arguments, {})
    with pytest.raises(error, match=match):
        choose(*arguments, draws=2, **kwargs)
