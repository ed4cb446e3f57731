"""Self-persistence by ``LogisticPersistence``, whose coefficients are drawn without NUTS."""

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from models import sample
from reference import monte_carlo_error
from scipy import special
from test_varying_persistence import LENGTHS, MEANS, X, Y, law_of_paths

import pymc_dshdp as dshdp
from pymc_dshdp.likelihood import coefficients
from pymc_dshdp.steps import logistic_update

pytestmark = pytest.mark.usefixtures("python_mode")

MU, SIGMA = np.array([[0.5, -0.3], [-0.2, 0.9]]), np.array([1.5, 1.0])


def declare(persistence=None, prior=dshdp.FixedTransitions, y=Y, **layout):
    with pm.Model() as model:
        if persistence is None:
            x = pm.Data("x", X[:, None])
            persistence = dshdp.LogisticPersistence(x, mu=MU, sigma=SIGMA)
        prior = prior("hmm", n_states=2, kappa=persistence)
        z = dshdp.HiddenStates("z", prior, **(layout or {"lengths": LENGTHS}))
        pm.Normal("y", pt.as_tensor(MEANS)[z], 1.0, observed=y)
    return model


def by_hand():
    """The same model, written with ``pm.math.sigmoid``."""
    with pm.Model() as model:
        c = pm.Normal("hmm_kappa_coef", MU, SIGMA, shape=(2, 2))
        kappa = pm.math.sigmoid(c[:, 0] + X[:, None] * c[:, 1])
        prior = dshdp.FixedTransitions("hmm", n_states=2, kappa=kappa)
        z = dshdp.HiddenStates("z", prior, lengths=LENGTHS)
        pm.Normal("y", pt.as_tensor(MEANS)[z], 1.0, observed=Y)
    return model


def steps_of(model, seed=3):
    with model:
        one, two = dshdp.WeakLimitFFBS([model["z"]]), dshdp.GridRhoStep([model["z"]])
    for step, rng in zip((one, two), np.random.default_rng(seed).spawn(2), strict=True):
        step.stop_tuning()
        step.rng = rng
    return one, two


@pytest.mark.parametrize("proposed", [False, True], ids=["polya-gamma", "proposed"])
def test_draws_follow_the_enumerated_law(proposed, monkeypatch):
    """All paths, and the coefficients on a grid; see also the defects in ``mutations.py``."""
    if proposed:
        monkeypatch.setattr(coefficients, "MANY_TRIALS", 0)
    model = declare()
    steps, point, draws = steps_of(model), model.initial_point(), []
    for _ in range(4_000):
        for step in steps:
            point, _ = step.step(point)
        draws.append((point["hmm_kappa_coef"], point["z"]))
    grid = [np.linspace(m - 4.0 * s, m + 4.0 * s, 17)
            for m, s in zip(MU.ravel(), np.tile(SIGMA, 2), strict=True)]  # fmt: skip
    c = np.array(np.meshgrid(*grid, indexing="ij")).reshape(2, 2, *[17] * 4)
    logit = c[None, :, 0] + X[:, None, None, None, None, None] * c[None, :, 1]
    paths, law = law_of_paths(special.expit(logit))
    scaled = (c - MU[..., *[None] * 4]) / SIGMA[:, *[None] * 4]
    law = law * np.exp(-0.5 * (scaled**2).sum(axis=(0, 1)))
    law /= law.sum()
    marginal, paths_law = law.sum(axis=0), law.sum(axis=(1, 2, 3, 4))
    found, z = (np.array(x) for x in zip(*draws, strict=True))
    pairs = []
    for j, p in itertools.product(range(2), repeat=2):
        pairs += [(found[:, j, p] ** n, (marginal * c[j, p] ** n).sum()) for n in (1, 2)]
        own = (z == j).mean(axis=1)
        shares = (paths == j).mean(axis=1)
        joint = np.einsum("n,nabcd,abcd->", shares, law, c[j, p])
        pairs.append((found[:, j, p] * own, joint))
    for j in range(2):
        pairs.append((found[:, j, 0] * found[:, j, 1], (marginal * c[j, 0] * c[j, 1]).sum()))
    for t in range(6):
        pairs.append((z[:, t], paths_law @ paths[:, t]))
    for chain, expected in pairs:
        assert abs(chain.mean() - expected) < 4.0 * monte_carlo_error(chain)


def test_density_is_that_of_the_model_by_hand():
    one, two = declare(), by_hand()
    point = one.initial_point()
    point["hmm_kappa_coef"] = np.array([[0.3, -1.0], [2.0, 0.7]])
    point["z"] = np.array([0, 1, 1, 1, 0, 0])
    assert one.compile_logp()(point) == pytest.approx(two.compile_logp()(point))


WIDE = np.random.default_rng(2).normal(size=(2, 3, 2))
PATHS = np.array([[0, 1, 1], [1, 1, 0]])


def two_states_variables():
    with pm.Model() as model:
        kappa = dshdp.LogisticPersistence(WIDE[0])
        prior = dshdp.FixedTransitions("hmm", n_states=3, kappa=kappa)
        for i in range(2):
            z = dshdp.HiddenStates(f"z{i}", prior, length=3)
            pm.Normal(f"y{i}", z, 1.0, observed=np.zeros(3))
    return model, np.stack([WIDE[0], WIDE[0]])


def one_variable(X, layout, observed=None, **settings):
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=3, kappa=dshdp.LogisticPersistence(X, **settings))
        z = dshdp.HiddenStates("z", prior, **layout, observed=observed)
        pm.Normal("y", z, 1.0, observed=np.zeros(layout.get("shape", 6)))
    return model


@pytest.mark.parametrize("case", ["ends", "batch", "common", "several", "observed", "bare"])
def test_regressions_of_the_states_before(case, monkeypatch):
    """One trial for each time inside a sequence, in any layout; fails if one runs across."""
    flat, x = WIDE.reshape(6, 2), WIDE
    if case == "ends":
        model = one_variable(flat, {"lengths": [3, 3]})
    elif case == "batch":
        model = one_variable(pm.math.constant(WIDE), {"shape": (2, 3)})
    elif case == "common":
        model, x = one_variable(WIDE[0], {"shape": (2, 3)}), np.stack([WIDE[0], WIDE[0]])
    elif case == "several":
        model, x = two_states_variables()
    elif case == "observed":
        model = one_variable(flat, {"lengths": [3, 3]}, observed=PATHS.ravel())
    else:
        model = one_variable(flat, {"lengths": [3, 3]}, intercept=False)
    seen = []

    def drawn(rng, regressions, b, prior):
        seen.append((regressions, b, prior))
        return b + 1.0

    monkeypatch.setattr(logistic_update, "draw_logistic", drawn)
    with model:
        step = dshdp.GridRhoStep([model["hmm_kappa_coef"]])
    point = model.initial_point()
    for name, path in (("z", PATHS), ("z0", PATHS[0]), ("z1", PATHS[1])):
        if name in point:
            point[name] = path.reshape(point[name].shape)
    seen.clear()
    new, _ = step.step(point)
    [(found, b, prior)] = seen
    ones = np.ones((4, 0 if case == "bare" else 1))
    np.testing.assert_array_equal(found.z, PATHS[:, :-1].ravel())
    np.testing.assert_array_equal(found.x, np.hstack([ones, x[:, 1:].reshape(4, 2)]))
    assert not found.successes[PATHS[:, 1:].ravel() != found.z].any()
    np.testing.assert_array_equal(found.trials, 1.0)
    p = found.x.shape[1]
    mu, sigma = [2.0, 0.0, 0.0][3 - p :], [2.0, 1.0, 1.0][3 - p :]
    np.testing.assert_allclose(prior[1, :, :p] * sigma, np.eye(p))
    np.testing.assert_allclose(prior[1, :, p] * sigma, mu)
    np.testing.assert_array_equal(new["hmm_kappa_coef"], b + 1.0)
    assert (b == point["hmm_kappa_coef"]).all() == (case == "bare")


def test_automatic_steps_and_readers():
    """Fails if NUTS gets the coefficients, or a renumbering of the states leaves theirs."""
    coords = {"state": ["a", "b"], "covariate": ["intercept", "heat"]}
    with pm.Model(coords=coords) as model:
        x = pm.Data("x", X[:, None])
        kappa = dshdp.LogisticPersistence(x, dims=("state", "covariate"))
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", dims="state", kappa=kappa), lengths=LENGTHS)
        mu = pm.Normal("mu", 0.0, 2.0, dims="state")
        pm.Normal("y", mu[z], 1.0, observed=Y)
    idata = sample(model, draws=4, tune=2, chains=1)
    posterior = idata["posterior"]
    assert posterior["hmm_kappa_coef"].dims[2:] == ("state", "covariate")
    aligned = dshdp.align(idata)
    order = aligned["alignment"]["state_label_before"].values[0]
    for d in range(4):
        np.testing.assert_array_equal(
            aligned["posterior"]["hmm_kappa_coef"][0, d],
            posterior["hmm_kappa_coef"][0, d, order[d]],
        )
    c = posterior["hmm_kappa_coef"].values[0]
    kappa = special.expit(c[:, None, :, 0] + X[:, None] * c[:, None, :, 1])
    np.testing.assert_allclose(posterior["hmm_kappa_mean"][0], kappa.mean(axis=1))
    other = {"y": Y[:3], "x": X[1:4, None]}
    moved = dshdp.smooth(idata, model=model, observed=other, lengths=[3])
    with model:
        pm.set_data({"x": X[1:4, None]})
    assert moved.shape == (3, 2)
    with model:
        pm.set_data({"x": X[:, None]})
    future = np.array([[[1.0], [-1.0]], [[0.0], [2.0]]])
    ahead = dshdp.forecast(idata, model=model, horizon=2, covariates={"x": future})
    assert ahead["z"].shape == (1, 4, 2, 2)
    effect = dshdp.transition_effect(idata, "x", model=model, column=0, values=[0.5])
    stay = special.expit(c[:, :, 0] + 0.5 * c[:, :, 1])
    rows = posterior["hmm_pi_bar"].values[0]
    P = stay[..., None] * np.eye(2) + (1.0 - stay)[..., None] * rows
    for d in range(4):
        np.testing.assert_allclose(effect.draws[0, d, 0], P[d][order[d]][:, order[d]])


def test_readers_agree_with_the_model_by_hand():
    """And the summary lists the coefficients of each state."""
    one, two = declare(), by_hand()
    idata = sample(one, draws=4, tune=2, chains=1)
    for read in (dshdp.smooth, dshdp.filter_states, dshdp.held_out_log_likelihood, dshdp.viterbi):
        found, expected = (read(idata, model=model) for model in (one, two))
        xr.testing.assert_allclose(found, expected)
    again = dshdp.continue_sampling(idata, model=one, draws=3, progressbar=False)
    assert again["posterior"]["hmm_kappa_coef"].shape == (1, 7, 2, 2)
    table = dshdp.summary(idata).parameters
    elements = table.loc["hmm_kappa_coef"].index.get_level_values("element")
    assert [label for label in elements if "intercept" in label]


def test_which_step_draws_what():
    """Coefficients that no states depend on are left to PyMC, and so is their scale."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1.0)
        kappa = dshdp.LogisticPersistence(X[:, None], sigma=scale)
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=2, kappa=kappa), length=6)
        pm.Normal("y", z, 1.0, observed=Y)
    steps = pm.sampling.mcmc.assign_step_methods(model)[1]
    assert [v.name for v in steps[dshdp.GridRhoStep]] == ["hmm_kappa_coef"]
    cut_off = pm.do(model, {"z": np.zeros(6, int)}, prune_vars=False)
    assert dshdp.GridRhoStep not in pm.sampling.mcmc.assign_step_methods(cut_off)[1]


REFUSED = {
    "X must have shape .* received 1 dimensions; a single covariate is x": (X, {}),
    "X must be finite, received nan at position .1, 0.": ([[0.0], [np.nan]], {}),
    "sigma must be positive and finite, received 0.0": (X[:, None], {"sigma": 0.0}),
    r"mu must be a number, or have shape .2,. or .n_states, 2. for 2 columns, the intercept and "
    r"X's 1; received shape .3,.": (X[:, None], {"mu": np.zeros(3)}),
    "intercept must be True or False, received 1": (X[:, None], {"intercept": 1}),
    "dims must be .state,. or .state, covariate., received": (X[:, None], {"dims": ("a",) * 3}),
    "has dims=.'rat',., but the states of the prior have the dimension 'hmm_state'": (
        X[:, None],
        {"dims": "rat"},
    ),
    "a coordinate of 2 labels, the intercept first, and it is none": (
        X[:, None],
        {"dims": ("hmm_state", "heat")},
    ),
    "mu of shape .3, 2. for 2 states; give it the shape .2, 2.": (
        X[:, None],
        {"mu": np.zeros((3, 2))},
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message):
    covariates, settings = REFUSED[message]
    with pytest.raises((ValueError, TypeError), match=message):
        declare(dshdp.LogisticPersistence(covariates, **settings))


def test_refused_by_name():
    with pm.Model():
        noise = pm.Normal("noise", shape=(6, 1))
        with pytest.raises(ValueError, match=r"X must be data.*pm\.math\.sigmoid"):
            dshdp.LogisticPersistence(noise)
        kappa = dshdp.LogisticPersistence(X[:, None])
        with pytest.raises(ValueError, match="for a prior without groups.*groups='hmm_group'"):
            dshdp.DSHDP("hmm", n_states=2, kappa=kappa, groups=2)
        with pytest.raises(TypeError, match="kappa"):
            dshdp.StickyHDP("hmm", n_states=2, kappa=kappa)
        prior = dshdp.DSHDP("one", n_states=2, kappa=kappa)
        other = dshdp.DSHDP("two", n_states=2, kappa=prior.kappa)
        z = [dshdp.HiddenStates(f"z{i}", p, length=6) for i, p in enumerate((prior, other))]
        with pytest.raises(ValueError, match="'z1' depends on 'one_kappa_coef'"):
            dshdp.GridRhoStep([z[0]])
        with pytest.raises(ValueError, match="DSBlockGibbs: the self-persistence kappa of 'z0' va"):
            dshdp.DSBlockGibbs([z[0]])
    with pytest.raises(ValueError, match=r"'z' needs a row for each of its times"):
        declare(dshdp.LogisticPersistence(X[:4, None]))
