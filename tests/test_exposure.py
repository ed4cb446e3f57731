"""Counts whose rate is known up to a factor: ``rate[z] * exposure``."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import pymc_dshdp as dshdp
from pymc_dshdp.graph.factors import known_factor
from pymc_dshdp.steps import DSBlockGibbs, WeakLimitFFBS

T, L = 60, 4
HOURS = np.where(np.arange(T) % 2, 0.5, 6.0)
rng = np.random.default_rng(3)
TRUTH = np.repeat([0, 1, 0], T // 3)
COUNTS = rng.poisson(np.array([2.0, 20.0])[TRUTH] * HOURS)

FORMS = {
    "product": lambda rate, z: rate[z] * HOURS,
    "shared too": lambda rate, z: pm.Deterministic("mean", 2.0 * rate[z] * (HOURS / 2.0)),
    "quotient": lambda rate, z: rate[z] / (1.0 / HOURS),
    "offset": lambda rate, z: pm.math.exp(pm.math.log(rate[z]) + np.log(HOURS)),
    "difference": lambda rate, z: pm.math.exp(np.log(HOURS) + pm.math.log(rate)[z] - 0.0),
    "data": lambda rate, z: rate[z] * pm.Data("hours", HOURS),
}


def model_of(form, counts=COUNTS):
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=L), length=T)
        rate = pm.Gamma("rate", 2.0, 0.2, shape=L)
        pm.Poisson("y", form(rate, z), observed=counts)
    return model


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_rate_is_conjugate(form):
    """Fails if a form is not read, so that its rate goes to NUTS and its states do not split."""
    model = model_of(form)
    step = dshdp.ConjugateStep([model["rate"]], model=model)
    assert [v.name for v in step.vars] == ["rate_log__"]
    for kind in WeakLimitFFBS, DSBlockGibbs:
        sampler = kind([model["z"]], model=model)
        assert sampler._priors[0].joint.available
        assert sampler._priors[0].moves.available
    point = model.initial_point() | {"z": TRUTH}
    drawn = np.exp([step.step(point)[0]["rate_log__"] for _ in range(2000)])
    shape = 2.0 + np.array([COUNTS[TRUTH == k].sum() for k in range(L)])
    rates = 0.2 + np.array([HOURS[TRUTH == k].sum() for k in range(L)])
    error = (drawn.mean(axis=0) - shape / rates) / (np.sqrt(shape) / rates / np.sqrt(2000))
    assert np.abs(error).max() < 4.5


def test_factors_of_a_graph():
    """rest * factor is the graph; what is random stays in the rest."""
    a, b = pm.Normal.dist(shape=3), pm.Normal.dist()
    known = np.array([1.0, 2.0, 3.0])
    for graph, factor in (
        (a * known * b / 4.0, known / 4.0),
        (pm.math.exp(a - known + 1.0 + b), np.exp(1.0 - known)),
        (known / pm.math.exp(a), None),
        (pm.math.exp(known * a), None),
        (pm.math.exp(known - a), np.exp(known)),
        (a + known, None),
        (pt.as_tensor(known), None),
    ):
        rest, found = known_factor(graph)
        if factor is None:
            assert rest is graph
        values = pytensor.function([a, b], [graph, rest * found, found], on_unused_input="ignore")
        whole, product, found = values(np.array([0.3, -0.7, 1.2]), 0.5)
        np.testing.assert_allclose(product, whole, rtol=1e-12)
        np.testing.assert_allclose(found, 1.0 if factor is None else factor, rtol=1e-12)


@pytest.mark.parametrize(
    "hours, counts, received",
    [
        (np.where(np.arange(T) == 5, 0.0, HOURS), np.maximum(COUNTS, 1), r"at position \(5,\)"),
        (np.where(np.arange(T) == 7, -1.0, HOURS), COUNTS, r"at position \(7,\)"),
        (np.where(np.arange(T) == 9, np.nan, HOURS), COUNTS, r"at position \(9,\)"),
    ],
)
def test_impossible_exposure_is_named(hours, counts, received):
    model = model_of(lambda rate, z: rate[z] * hours, counts)
    with pytest.raises(ValueError, match=received + ".*exposure"):
        WeakLimitFFBS([model["z"]], model=model)


def test_sampling_finds_the_states():
    """Fails if the exposure is left out: counts of long and short times would be two states."""
    with pm.Model():
        hours = pm.Data("hours", HOURS)
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=L), length=hours.shape[0])
        rate = pm.Gamma("rate", 2.0, 0.2, dims="hmm_state")
        pm.Poisson("y", rate[z] * hours, observed=COUNTS)
        result = pm.sample(
            tune=150, draws=150, chains=2, cores=1, random_seed=2, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
        other = {"y": COUNTS[: T // 2], "hours": HOURS[: T // 2]}
        score = dshdp.held_out_log_likelihood(result, observed=other, thin=10)
    assert dshdp.hamming_distance(result.posterior["z"].values, TRUTH).mean() < 0.1
    rates = dshdp.align(result).posterior["rate"].mean(("chain", "draw")).values[:2]
    np.testing.assert_allclose(np.sort(rates), [2.0, 20.0], rtol=0.2)
    assert -4.0 * T // 2 < score["log_mean_exp"] < 0.0
