"""States whose path is data: ``pm.observe``, ``pm.do`` and ``observed=``."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
from models import posterior, sample

import pymc_dshdp as dshdp

pytestmark = pytest.mark.usefixtures("python_mode")

PATH = np.repeat([0, 1, 0, 1], [5, 4, 6, 3])
COUNTS = np.random.default_rng(0).poisson(np.array([2.0, 9.0])[PATH])
QUIET = {"chains": 1, "tune": 50}


def labelled_model(prior=dshdp.DSHDP, n_states=3, observed=None, **kwargs):
    with pm.Model() as model:
        hmm = prior("hmm", n_states=n_states, **kwargs)
        z = dshdp.HiddenStates("z", hmm, length=len(PATH), observed=observed)
        rate = pm.Gamma("rate", 2.0, 0.3, shape=n_states)
        pm.Poisson("y", rate[z], observed=COUNTS)
    return model


def bare_model(prior, path, n_states=3, **kwargs):
    """Nothing but the prior and states that will be data."""
    with pm.Model() as model:
        hmm = prior("hmm", n_states=n_states, **kwargs)
        dshdp.HiddenStates("z", hmm, length=len(path))
    return model


def close(draws, mean, sd):
    """Whether independent draws have the mean, within 4.5 standard errors."""
    draws = draws.reshape(-1, *np.shape(mean))
    return np.all(np.abs(draws.mean(axis=0) - mean) < 4.5 * sd / np.sqrt(len(draws)))


def learns_rows_and_rates(model):
    """``FixedTransitions`` given the path: every draw is independent, P_j ~ Dir(1 + N_j)."""
    draws = posterior(sample(model, draws=1500, **QUIET))
    assert "z" not in draws
    counts = np.array([[9, 2, 0], [1, 5, 0], [0, 0, 0]])
    shape = 1.0 + counts
    mean = shape / shape.sum(axis=1, keepdims=True)
    sd = np.sqrt(mean * (1 - mean) / (1 + shape.sum(axis=1, keepdims=True)))
    assert close(draws["hmm_pi_bar"], mean, sd)
    assert close(draws["hmm_pi_init"], np.array([2, 1, 1]) / 4, np.full(3, 0.25))
    visits, sums = np.bincount(PATH, minlength=3), np.bincount(PATH, COUNTS, 3)
    a, b = 2.0 + sums, 0.3 + visits
    assert close(draws["rate"], a / b, np.sqrt(a) / b)


@pytest.mark.parametrize("how", ["pm.observe", "observed="])
def test_rows_and_rates_are_learnt_from_the_path(how):
    """Fails if the path is not counted, or the states observed are not looked for."""
    if how == "pm.observe":
        free = labelled_model(dshdp.FixedTransitions)
        learns_rows_and_rates(pm.observe(free, {"z": PATH.astype("int8")}))
    else:
        learns_rows_and_rates(labelled_model(dshdp.FixedTransitions, observed=PATH))


def test_nothing_is_learnt_about_the_rows_where_do_has_cut_them_off():
    """``pm.do`` leaves a prior that nothing depends on; fails if it is looked for by its states."""
    model = pm.do(bare_model(dshdp.FixedTransitions, PATH), {"z": PATH})
    draws = posterior(sample(model, draws=1500, **QUIET))
    assert close(draws["hmm_pi_bar"], np.full((3, 3), 1 / 3), np.full((3, 3), np.sqrt(1 / 18)))


def grid_mean_of_kappa(stays, leaves, phi, eta):
    """E kappa_j given the path for given rows, on a grid."""
    x = (np.arange(20_000) + 0.5) / 20_000
    a, b = phi * eta**-3.0, (1 - phi) * eta**-3.0
    # rows with pi_bar_jj = 1/2: a stay has probability (1 + kappa) / 2, a departure (1 - kappa) / 2
    log = (a - 1 + 0) * np.log(x) + (b - 1 + leaves) * np.log1p(-x) + stays * np.log((1 + x) / 2)
    weight = np.exp(log - log.max())
    return (x * weight).sum() / weight.sum()


def test_self_persistence_given_the_path():
    """Against a grid: rows all but fixed at 1/2 by their concentration."""
    path = np.repeat([0, 1, 0], 40)
    model = bare_model(dshdp.DSHDP, path, 2, alpha=1e7, gamma=1e7, phi=0.5, eta=1.0)
    kappa = posterior(sample(pm.observe(model, {"z": path}), draws=2000, **QUIET))["hmm_kappa"][0]
    wanted = [grid_mean_of_kappa(78, 1, 0.5, 1.0), grid_mean_of_kappa(39, 1, 0.5, 1.0)]
    np.testing.assert_allclose(kappa.mean(axis=0), wanted, atol=0.01)


@pytest.mark.parametrize("prior", [dshdp.DSHDP, dshdp.StickyHDP, dshdp.HDP])
@pytest.mark.parametrize("how", [pm.observe, pm.do])
def test_every_prior_is_sampled(prior, how):
    model = how(bare_model(prior, PATH), {"z": PATH})
    draws = posterior(sample(model, draws=5, tune=2, chains=1))
    assert np.isfinite(draws["hmm_beta"]).all()


@pytest.mark.parametrize("step", [dshdp.WeakLimitFFBS, dshdp.DSBlockGibbs])
def test_a_labelled_recording_beside_one_that_is_not(step):
    """Two recordings of one prior: the rows come from both; fails if one is left out."""
    with pm.Model() as model:
        hmm = dshdp.FixedTransitions("hmm", n_states=2)
        z = dshdp.HiddenStates("z", hmm, length=2)
        dshdp.HiddenStates("seen", hmm, length=len(PATH), observed=PATH)
        pm.Bernoulli("y", pt.as_tensor(np.array([0.1, 0.8]))[z], observed=[1, 1])
        draws = posterior(sample(model, draws=4000, step=[step([z])], chains=1, tune=20))
    # P(z) with the rows integrated out, by enumeration: Polya urns that begin with the labels.
    start, rows = np.array([2.0, 1.0]), 1.0 + np.array([[9, 2], [1, 5]])
    like = np.array([0.1, 0.8])
    joint = (start / 3)[:, None] * rows / rows.sum(axis=1, keepdims=True) * np.outer(like, like)
    share = np.zeros((2, 2))
    np.add.at(share, tuple(draws["z"][0].T), 1 / 4000)
    np.testing.assert_allclose(share, joint / joint.sum(), atol=0.04)


@pytest.mark.parametrize("given", [{"observed": PATH}, {"length": len(PATH)}])
def test_labels_of_another_recording_keep_their_numbers(given):
    """Fails if the commonest state of the one that is drawn is called 0, whatever 0 was there."""
    with pm.Model() as model:
        hmm = dshdp.DSHDP("hmm", n_states=3)
        dshdp.HiddenStates("seen", hmm, **given)
        z = dshdp.HiddenStates("z", hmm, length=8)
        mu = pm.Normal("mu", 0.0, 3.0, dims="hmm_state")
        pm.Normal("x", mu[model["seen"]], 0.5, observed=np.array([-2.0, 4.0])[PATH])
        pm.Normal("y", mu[z], 0.5, observed=[4.0, 4.1, 3.9, 4.0, 4.2, 4.0, -2.0, -2.1])
    model = model if "observed" in given else pm.do(model, {"seen": PATH})
    drawn = sample(model, draws=20, tune=30, chains=1)
    before, after = posterior(drawn)["mu"], posterior(dshdp.align(drawn, states="z"))["mu"]
    np.testing.assert_array_equal(after[..., :2], before[..., :2])


@pytest.mark.parametrize("missing", ["masked", "nan"])
def test_a_masked_path_is_known_where_it_is_not_masked(missing):
    """As PyMC takes missing values; the free states agree with what ``known=`` gives."""
    path = np.ma.masked_array(PATH, np.arange(len(PATH)) % 3 == 1)
    given = path if missing == "masked" else path.astype(float).filled(np.nan)
    model = labelled_model(observed=given)
    assert model["z"] in model.free_RVs
    known = model["z_known"].get_value()
    np.testing.assert_array_equal(known, path.filled(-1))


@pytest.mark.parametrize(
    "path", [PATH, PATH.reshape(3, 6), np.ma.masked_equal(PATH, 1), PATH.astype(float)]
)
def test_states_have_the_shape_of_what_is_observed(path):
    """The same model as with the shape given; fails where a length has to be repeated."""
    models = []
    for given in ({}, {"shape": path.shape}):
        with pm.Model() as model:
            hmm = dshdp.FixedTransitions("hmm", n_states=3)
            dshdp.HiddenStates("z", hmm, observed=path, **given)
        models.append(model)
    alone, repeated = models
    assert alone["z"].type.shape == repeated["z"].type.shape
    point = repeated.initial_point()
    assert alone.compile_logp()(point) == repeated.compile_logp()(point)


def test_states_follow_the_data_that_are_observed():
    """``pm.set_data`` changes the length of the path."""
    with pm.Model() as model:
        hmm = dshdp.FixedTransitions("hmm", n_states=3)
        z = dshdp.HiddenStates("z", hmm, observed=pm.Data("path", PATH))
    logp = model.compile_logp(vars=[z])
    for path in (PATH, PATH[:5], np.array([2, 2])):
        with model:
            pm.set_data({"path": path})
        assert logp(model.initial_point()) == pytest.approx(-len(path) * np.log(3.0))


def test_what_cannot_be_observed_is_refused():
    for observed, message in (
        (PATH + 2, "z: observed must be states, 0 to 2, received 3 at position .5,."),
        (PATH + 0.5, "z: observed must be states, 0 to 2, received 0.5"),
        (PATH[:3], "z: observed must have the shape of the states"),
    ):
        with pytest.raises(ValueError, match=message):
            labelled_model(observed=observed)
    with pm.Model():
        hmm = dshdp.DSHDP("hmm", n_states=3)
        with pytest.raises(ValueError, match="z: observed must have shape .T,. or .n_sequences"):
            dshdp.HiddenStates("z", hmm, observed=np.zeros((2, 2, 2), int))
        for words in (["rest", "walk"], pd.Series([None, "rest"])):
            with pytest.raises(TypeError, match="z: observed must be states, 0 to 2, .*codes = pd"):
                dshdp.HiddenStates("z", hmm, observed=words)
        with pytest.raises(ValueError, match="z: give observed or known, not both"):
            dshdp.HiddenStates("z", hmm, length=2, observed=[0, 1], known={0: 1})
    with pytest.raises(ValueError, match="'z' has state 4, but its states are 0 to 2"):
        sample(pm.observe(labelled_model(), {"z": PATH + 3}))
