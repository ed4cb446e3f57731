"""Missing observations: summed out of the states' likelihood, and redrawn."""

import itertools

import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy import stats

import pymc_dshdp as dshdp
from pymc_dshdp.steps import SliceEmissionStep, WeakLimitFFBS

pytestmark = pytest.mark.usefixtures("python_mode")

RATES = np.array([1.0, 6.0, 20.0])
COUNTS = np.ma.masked_array([1, 0, 7, 99, 99, 20], mask=[0, 0, 0, 1, 1, 0])


def gap_model(counts=COUNTS):
    with pytest.warns(UserWarning, match="imput"), pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=3, kappa=0.5)
        z = dshdp.HiddenStates("z", prior, length=len(counts))
        pm.Poisson("y", pytensor.tensor.as_tensor(RATES)[z], observed=counts)
    return model


def test_states_in_a_gap_follow_the_enumerated_posterior():
    """Fails if the imputed counts enter the table (the states then stick to them)."""
    model = gap_model()
    with model:
        step = WeakLimitFFBS([model["z"]], rng=np.random.default_rng(1))
    step.tune = False
    assert "y_unobserved" in {v.name for v in step.vars}
    point = model.initial_point()
    initial, P = step._priors[0].transition.transition_probabilities(point)
    weights = {}
    for path in itertools.product(range(3), repeat=6):
        p = initial[path[0]] * np.prod([P[a, b] for a, b in itertools.pairwise(path)])
        for t in (0, 1, 2, 5):
            p *= stats.poisson.pmf(COUNTS.data[t], RATES[path[t]])
        weights[path] = p
    total = sum(weights.values())
    seen, redrawn, n = np.zeros((3, 3)), [], 4000
    for _ in range(n):
        drawn, _ = step._priors[0].draw_states(point, step.rng)
        drawn = step._missing.draw(drawn, step.rng)
        seen[drawn["z"][3], drawn["z"][4]] += 1
        redrawn.append((drawn["z"][3], drawn["y_unobserved"][0]))
    expected = np.zeros((3, 3))
    for path, p in weights.items():
        expected[path[3], path[4]] += n * p / total
    assert ((seen - expected) ** 2 / expected).sum() < stats.chi2(8).isf(1e-4)
    redrawn = np.array(redrawn)
    for k in range(3):
        values = redrawn[redrawn[:, 0] == k, 1]
        assert abs(values.mean() - RATES[k]) < 4.5 * np.sqrt(RATES[k] / len(values))
    assert drawn["y_unobserved"].dtype == point["y_unobserved"].dtype


def test_one_seed_gives_one_imputation():
    model = gap_model()
    with model:
        step = WeakLimitFFBS([model["z"]])
    point = model.initial_point()
    one, two = (step._missing.draw(point, np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(one["y_unobserved"], two["y_unobserved"])


def test_positive_observations_are_redrawn_in_value_space():
    """Fails if the draw is written back without the transform of its variable."""
    y = np.ma.masked_array([1.0, 2.0, 3.0, 1.0], mask=[0, 1, 0, 0])
    with pytest.warns(UserWarning, match="imput"), pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=2)
        z = dshdp.HiddenStates("z", prior, length=4)
        pm.LogNormal("y", pytensor.tensor.as_tensor([3.0, 3.0])[z], 0.1, observed=y)
    with model:
        step = WeakLimitFFBS([z], rng=np.random.default_rng(1))
    [name] = [v.name for v in step.vars if "unobserved" in v.name]
    drawn = step._missing.draw(model.initial_point(), step.rng)[name]
    assert np.log(np.exp(drawn) if name.endswith("log__") else drawn) == pytest.approx(3.0, abs=0.5)


def test_a_scale_may_begin_with_nothing_but_missing_values():
    """PyMC's start has the mean where a value is missing, and all of a state known there alone.

    Fails if that start is taken for data that leave the scale no density.
    """
    y = np.ma.masked_array(np.random.default_rng(0).normal(size=12), mask=np.arange(12) == 3)
    with pytest.warns(UserWarning, match="imput"), pm.Model() as model:
        prior = dshdp.FixedTransitions("hmm", n_states=3)
        z = dshdp.HiddenStates("z", prior, length=12, known={3: 0})
        pm.Normal("y", 0.0, pm.HalfNormal("sigma", shape=3)[z], observed=y)
        step = SliceEmissionStep([model["sigma"]], rng=np.random.default_rng(1))
    first = WeakLimitFFBS([z], model=model, rng=np.random.default_rng(2))
    point, _ = step.step(first.step(model.initial_point())[0])
    assert np.isfinite(point["sigma_log__"]).all()
    with pm.Model() as constant:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=3), length=12)
        pm.Normal("y", 0.0, pm.HalfNormal("sigma", shape=3)[z], observed=np.zeros(12))
        with pytest.raises(ValueError, match="a scale parameter collapses to 0"):
            SliceEmissionStep([constant["sigma"]])


def test_missing_values_of_an_autoregression():
    """The states see the imputed value where it is and one time later, and do not draw it.

    Fails if a missing time has no row of its own in the table, or its successor ignores it.
    """
    A, sd = np.array([0.9, -0.5]), np.array([0.4, 1.0])
    y = np.array([0.5, 1.0, np.nan, -0.7, 0.3])[:, None]
    with pytest.warns(UserWarning, match="imput"), pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=2), length=5)
        dshdp.SwitchingVAR("y", A[:, None, None], (sd**2)[:, None, None], z, observed=y)
        step = WeakLimitFFBS([z], rng=np.random.default_rng(1))
    assert not any("unobserved" in v.name for v in step.vars)
    [table] = step._priors[0].tables
    for imputed in (-2.0, 3.0):
        point = model.initial_point()
        point["y_unobserved"] = np.full_like(point["y_unobserved"], imputed)
        whole = np.where(np.isnan(y), imputed, y)[:, 0]
        expected = stats.norm.logpdf(whole[1:, None], A * whole[:-1, None], sd)
        np.testing.assert_allclose(table(point), np.vstack([np.zeros(2), expected]), atol=1e-12)
    y[0] = np.nan
    with pm.Model():
        z = dshdp.HiddenStates("z", dshdp.FixedTransitions("hmm", n_states=2), length=5)
        with pytest.raises(ValueError, match="missing values in the first 1 rows of a sequence"):
            dshdp.SwitchingVAR("y", A[:, None, None], (sd**2)[:, None, None], z, observed=y)


def test_dependents_of_a_missing_value_are_refused():
    model = gap_model()
    with model:
        pm.Normal("w", model["y_unobserved"][0], 1.0, observed=0.0)
        with pytest.raises(ValueError, match="'w' depends on the missing observations 'y_unob"):
            WeakLimitFFBS([model["z"]])
