"""Models at the edges: shared likelihoods, chains of missing values, odd hyperparameters."""

import numpy as np
import pymc as pm
import pytensor
import pytest

import pymc_dshdp as dshdp
from pymc_dshdp.kernels.chain import without_persistence
from pymc_dshdp.kernels.decoding import filter_with_scores
from pymc_dshdp.likelihood.missing import is_missing_observation

pytestmark = pytest.mark.usefixtures("python_mode")


@pytest.mark.parametrize("step", [dshdp.WeakLimitFFBS, dshdp.DSBlockGibbs])
def test_two_paths_in_one_likelihood_are_drawn_in_turn(step):
    """Fails if both tables are computed at the old paths: the two then change places for ever."""
    with pm.Model() as model:
        prior = dshdp.HDP("hmm", n_states=2)
        one, two = (dshdp.HiddenStates(name, prior, length=3) for name in ("one", "two"))
        pm.Normal("y", 5.0 * one - 5.0 * two, 0.3, observed=np.zeros(3))
        sampler = step([one, two], rng=np.random.default_rng(1))
    sampler.tune = False
    start = {**model.initial_point(), "one": np.int8([0, 1, 0]), "two": np.int8([1, 0, 1])}
    for _ in range(5):
        point, _ = sampler.step(start)
        np.testing.assert_array_equal(point["one"], point["two"])


def test_missing_values_behind_a_latent_variable_stay_with_pymc():
    """Fails if competence looks behind x: y_unobserved would be claimed and never drawn."""
    with pytest.warns(UserWarning, match="imput"), pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.HDP("hmm", n_states=2), length=3)
        x = pm.Normal("x", pytensor.tensor.as_tensor([0.0, 5.0])[z], 1.0)
        pm.Normal("y", x, 1.0, observed=np.ma.masked_array([0.0, 1.0, 2.0], mask=[0, 1, 0]))
    assert not is_missing_observation(model["y_unobserved"])
    assert dshdp.WeakLimitFFBS.competence(model["y_unobserved"], True) == 0


def test_random_bounds_are_refused():
    for role in ("alpha", "phi"):
        with pm.Model():
            bound = pm.Beta("u", 2.0, 2.0)
            given = pm.Uniform("a", 0.0, bound)
            with pytest.raises(ValueError, match="'a' has bounds that are random variables"):
                dshdp.DSHDP("hmm", n_states=3, **{role: given})


def test_self_persistence_outside_the_unit_interval_is_refused():
    transform = pm.distributions.transforms.ordered
    for build in (
        lambda: pm.HalfNormal("k", 3.0, shape=3),
        lambda: pm.Normal("k", 0.5, 1.0, shape=3),
        lambda: pm.Beta("k", 1.0, 1.0, shape=3, transform=transform, initval=[0.2, 0.5, 0.7]),
    ):
        with pm.Model(), pytest.raises(ValueError, match="kappa='k' must have independent comp"):
            dshdp.DSHDP("hmm", n_states=3, kappa=build())


def test_one_variable_for_two_hyperparameters_is_refused():
    with pm.Model() as model:
        u = pm.Uniform("u", 0.0, 1.0)
        with pytest.raises(ValueError, match="each hyperparameter needs a variable of its own"):
            dshdp.DSHDP("hmm", n_states=3, phi=u, eta=u)
        with pytest.raises(ValueError, match="each hyperparameter needs a variable of its own"):
            dshdp.StickyHDP("hmm", n_states=3, s=u, phi=u)
        assert list(model.named_vars) == ["u"]
        assert not [c for c in model.coords if c.startswith("hmm")]


def test_a_subnormal_predicted_mass_does_not_overflow():
    P = np.array([[1.0, 1e-310], [0.5, 0.5]])
    ell = np.array([[0.0, -np.inf], [-np.inf, 0.0], [0.0, 0.0]])
    initial, lengths = np.array([1.0, 0.0]), np.array([3])
    filtered, scores = filter_with_scores(ell, initial, without_persistence(P), lengths)
    np.testing.assert_allclose(filtered, [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    assert scores.sum() == pytest.approx(np.log(1e-310), rel=1e-6)


@pytest.mark.parametrize(
    ("weights", "fixed", "orphan"),
    [
        ("weak-limit", "hmm_beta", "hmm_gamma"),
        ("stick-breaking", "hmm_beta", "hmm_v"),
        ("finite-mixture", "hmm_beta", "hmm_active"),
        ("weak-limit", "hmm_kappa", "hmm_eta"),
    ],
)
def test_what_is_above_fixed_variables_is_named(weights, fixed, orphan):
    """Fails if a part of a prior that states no longer depend on is called no part of it."""
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=3, alpha=2.0, weights=weights)
        dshdp.HiddenStates("z", prior, length=5)
    model = pm.do(model, {fixed: np.full(3, 1 / 3)}, prune_vars=False)
    step = dshdp.GridRhoStep if fixed == "hmm_kappa" else dshdp.WeakLimitFFBS
    said = f"{orphan}' is part of the prior 'hmm'.*'{fixed}' has been fixed by pm.do.*prune_vars"
    with model, pytest.raises(ValueError, match=said):
        step([model[orphan]])


def test_fixed_weights():
    """Rows alone are sampled where alpha beta is given; a free alpha beside it is refused."""
    weights = np.array([0.5, 0.3, 0.2])
    for alpha, prune in ((2.0, True), (None, False)):
        with pm.Model() as model:
            z = dshdp.HiddenStates("z", dshdp.HDP("hmm", n_states=3, alpha=alpha), length=30)
            pm.Normal("y", pytensor.tensor.as_tensor(np.zeros(3))[z], 1.0, observed=np.zeros(30))
        fixed = pm.do(model, {"hmm_beta": weights}, prune_vars=prune)
        with fixed:
            if alpha is None:
                with pytest.raises(ValueError, match="The weights beta of 'z' must be free"):
                    dshdp.WeakLimitFFBS([fixed["z"]])
                continue
            step = dshdp.WeakLimitFFBS([fixed["z"]], rng=np.random.default_rng(1))
        step.tune = False
        point, rows = fixed.initial_point(), []
        for _ in range(1500):
            point, _ = step.step(point)
            rows.append(point["hmm_pi_bar"])
        rows = np.array(rows)
        error = np.sqrt(weights * (1 - weights) / 3.0 / 400)
        assert np.all(np.abs(rows.mean(axis=0) - weights) < 4.5 * error)


def test_states_that_do_not_exist_are_refused():
    """Fails if a path is counted unchecked: indices beyond the table corrupt memory."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=3), length=4)
        pm.Normal("y", pytensor.tensor.as_tensor(np.zeros(3))[z], 1.0, observed=np.zeros(4))
        steps = [step([z]) for step in (dshdp.WeakLimitFFBS, dshdp.DSBlockGibbs, dshdp.GridRhoStep)]
    for path, named in (([1, 2, 3, 1], "3"), ([0, -1, 0, 0], "-1")):
        for step in steps:
            with pytest.raises(
                ValueError, match=f"'z' has state {named}, but its states are 0 to 2"
            ):
                step.tune = step is steps[0]
                step.step({**model.initial_point(), "z": np.array(path, "int8")})


def test_parameters_with_too_few_entries_are_refused():
    with pm.Model():
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=6), length=4)
        rate = pm.Gamma("rate", 1.0, 1.0, shape=5)
        pm.Poisson("y", rate[z], observed=np.ones(4, int))
        with pytest.raises(ValueError, match="'y' indexes with 'z', which has 6 states, a param"):
            dshdp.WeakLimitFFBS([z])


def test_conjugate_step_reports_one_entry_of_statistics():
    """Fails if it reports none: PyMC then reads the next step's statistics as its own."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 1.0, 1.0, shape=3)
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=3), length=4)
        pm.Poisson("y", rate[z], observed=np.ones(4, int))
        idata = pm.sample(
            3, tune=3, chains=1, model=model, random_seed=1, compute_convergence_checks=False
        )
    stats = idata["sample_stats"]
    assert stats["n_occupied"].dtype.kind == "i"
    assert np.isfinite(stats["log_marginal_likelihood"]).all()
    assert stats["rho_accepted"].dtype == bool
