"""DSBlockGibbs and WeakLimitFFBS have the same posterior."""

from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from reference import monte_carlo_error

import pymc_dshdp as dshdp
from pymc_dshdp.steps.conjugate import ConjugateStep
from pymc_dshdp.steps.direct_assignment import DSBlockGibbs

DATA = (
    Path(__file__).parents[3] / "shared" / "data" / "fix_8states_gaussian_same_trans_diff_stick.npz"
)
NAMES = ("occupied", "self-transitions", "co-assignment", "log alpha", "log gamma", "phi", "eta",
         "fit", "squared means")  # fmt: skip


def simulate(seed, T=150):
    rng = np.random.default_rng(seed)
    z = np.zeros(T, int)
    for t in range(1, T):
        z[t] = z[t - 1] if rng.random() < 0.8 else rng.integers(4)
    return z, rng.normal(1.7 * z, 1.0)


def declare(y, n_states, centre, spread, noise):
    with pm.Model() as model:
        alpha = pm.Gamma("hmm_alpha", 2.0, 0.2)
        prior = dshdp.DSHDP("hmm", n_states=n_states, alpha=alpha)
        z = dshdp.HiddenStates("z", prior, length=len(y))
        mean = pm.Normal("mean", centre, spread, dims="hmm_state")
        pm.Normal("y", mean[z], noise, observed=y)
    return model


def run(model, which, y, path, sweeps, seed):
    """Label-invariant statistics, (sweeps, len(NAMES))."""
    with model:
        if which == "weak limit":
            states = [dshdp.WeakLimitFFBS([model["z"]]), ConjugateStep([model["mean"]])]
        elif which == "collapsed":
            states = [DSBlockGibbs([model["z"]])]
        else:
            states = [DSBlockGibbs([model["z"]], collapse=False), ConjugateStep([model["mean"]])]
        steps = [*states, dshdp.GridRhoStep([model["z"]])]
    rng = np.random.default_rng(seed)
    for step in steps:
        step.rng = rng
        step.stop_tuning()
    point = {**model.initial_point(), "z": path.astype(model["z"].dtype)}
    steps = [steps[-1], *reversed(steps[:-1])]  # the means first, given the path
    out = np.empty((sweeps, len(NAMES)))
    pairs = np.random.default_rng(0).integers(len(y), size=(2, 400))
    warm_up = sweeps // 10
    for i in range(-warm_up, sweeps):
        for step in steps:
            point, _ = step.step(point)
        if i >= 0:
            z = point["z"]
            at = point["mean"][z]
            out[i] = [
                np.unique(z).size,
                np.mean(z[1:] == z[:-1]),
                np.mean(z[pairs[0]] == z[pairs[1]]),
                point["hmm_alpha_log__"],
                point["hmm_gamma_log__"],
                point["hmm_phi_interval__"],
                point["hmm_eta_interval__"],
                np.mean((y - at) ** 2),
                np.mean(at**2),
            ]
    return out


def assert_agree(model, y, path, first, second, sweeps, seed):
    chains = [run(model, which, y, path, sweeps, seed) for which in (first, second)]
    errors = [np.array([monte_carlo_error(column) for column in chain.T]) for chain in chains]
    difference = chains[0].mean(axis=0) - chains[1].mean(axis=0)
    z = difference / np.maximum(np.hypot(*errors), 1e-300)
    assert np.abs(z[difference != 0.0]).max() < 4.0, dict(zip(NAMES, z.round(1), strict=True))


@pytest.mark.parametrize(
    ("which", "seed"),
    [
        pytest.param("collapsed", 3, marks=pytest.mark.slow),
        pytest.param("kept", 3, marks=pytest.mark.slow),
        pytest.param("collapsed", 5, marks=pytest.mark.slow),
    ],
)
def test_simulated_series(which, seed):
    """Means of label-invariant statistics within 4 Monte-Carlo errors."""
    path, y = simulate(seed)
    model = declare(y, 6, 2.5, 3.0, 1.0)
    assert_agree(model, y, path, which, "weak limit", 6_000, seed)


@pytest.mark.slow
def test_series_of_the_paper():
    """Eight Gaussian states with self-persistence of their own.

    The direct sampler moves slowly along so long a path, so that the error is taken from the
    spread of several chains, not from within one.
    """
    if not DATA.exists():
        pytest.skip(f"{DATA.name} is not beside the checkout")
    content = np.load(DATA, allow_pickle=True)
    y, path = content["yt"].astype(float).ravel(), content["zt"].astype(int).ravel()
    model = declare(y, 14, 0.0, float(y.std() * 2.0), 0.5)
    means = [
        np.array([run(model, which, y, path, 5_000, seed).mean(axis=0) for seed in range(8)])
        for which in ("collapsed", "weak limit")
    ]
    errors = [chains.std(axis=0, ddof=1) / np.sqrt(len(chains)) for chains in means]
    z = (means[0].mean(axis=0) - means[1].mean(axis=0)) / np.hypot(*errors)
    assert np.abs(z).max() < 4.0, dict(zip(NAMES, z.round(1), strict=True))
