"""The entropy of the paths, which ranks chains that disagree."""

import numpy as np
import pymc as pm
import pytest
from models import sample
from reference import all_paths, log_joint_of_paths
from scipy import stats
from scipy.special import logsumexp

import pymc_dshdp as dshdp
from pymc_dshdp._compat import group
from pymc_dshdp.analysis import path_entropy

pytestmark = pytest.mark.usefixtures("python_readers")

L = 3
Y = np.array([0, 2, 9, 8, 1, 7])


def counts(y, **layout):
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=L), **layout)
        rate = pm.Gamma("rate", 1.0, 0.2, dims="hmm_state")
        pm.Poisson("y", rate[z], observed=y)
    return model


def test_it_is_that_of_enumeration(monkeypatch):
    """Two sequences, a state that is known; fails if a start or a transition is left out.

    Fails too if the transitions are those of the draw alone, or their mean is that of all chains
    or under the numbers as they are.
    """
    monkeypatch.setattr(path_entropy, "DRAWS", 4)
    model = counts(Y, lengths=[4, 2], known={2: 1})
    idata = sample(model, draws=20, tune=10)
    idata = renumbered(idata, np.random.default_rng(1))
    found = path_entropy.statistics_with_entropy(idata, model)
    aligned = group(dshdp.align(idata), "posterior").isel(draw=slice(None, None, 5))
    np.testing.assert_array_equal(found["draw"], aligned["draw"])
    for chain in range(2):
        draws = [aligned.isel(chain=chain, draw=draw) for draw in range(4)]
        kappa = [now["hmm_kappa"].values for now in draws]
        P = np.mean(
            [
                np.diag(k) + (1 - k)[:, None] * now["hmm_pi_bar"].values
                for k, now in zip(kappa, draws, strict=True)
            ],
            axis=0,
        )
        start = np.mean([now["hmm_pi_init"].values for now in draws], axis=0)
        for draw, now in enumerate(draws):
            table = stats.poisson.logpmf(Y[:, None], now["rate"].values)
            table[2, [0, 2]] = -np.inf
            expected = 0.0
            for part in (slice(0, 4), slice(4, 6)):
                paths, path = all_paths(L, part.stop - part.start), now["z"].values[part]
                every = log_joint_of_paths(paths, table[part], start, P)
                expected += logsumexp(every) - every[(paths == path).all(axis=1)][0]
            assert found["path_entropy"].values[chain, draw] == pytest.approx(expected, abs=1e-8)


def renumbered(idata, rng):
    """Give states 0 and 2 each other's numbers in draws at random; 1 is known."""
    posterior = idata["posterior"]
    for index in np.ndindex(posterior["z"].shape[:2]):
        if rng.random() < 0.5:
            order = [2, 1, 0]
            for name in ("hmm_kappa", "hmm_pi_init", "hmm_beta", "rate"):
                posterior[name].values[index] = posterior[name].values[index][order]
            rows = posterior["hmm_pi_bar"].values
            rows[index] = rows[index][order][:, order]
            posterior["z"].values[index] = 2 - posterior["z"].values[index]
    return idata


def test_check_adds_it_where_chains_disagree():
    """Fails if chains are ranked by the joint density although the model is known."""
    y = np.random.default_rng(0).poisson(np.repeat([2, 20, 2, 20], 15))
    model = counts(y, length=60)
    idata = sample(model, draws=60, tune=60)
    idata["posterior"]["z"].values[1] = 0  # of probability above 0 by these rows
    for rows in ("hmm_pi_bar", "hmm_pi_init"):
        idata["posterior"][rows].values[1] = 1.0 / L
    idata["sample_stats"]["log_joint"].values[1] -= 100.0
    by_joint = dshdp.check(idata)
    assert "log_joint" in by_joint.modes and "evidence" not in by_joint.modes
    assert "check(idata, model=model) adds it" in by_joint.problems[0]
    found = dshdp.check(idata, model=model)
    with_entropy = path_entropy.statistics_with_entropy(idata, model)
    level = with_entropy["log_joint"] + with_entropy["path_entropy"]
    order = [chains[0] for chains in found.modes["chains"]]
    np.testing.assert_allclose(found.modes["evidence"], level.mean("draw").values[order])
    assert "by their mean log_joint + path_entropy" in found.problems[0]
    part = idata.copy()
    del part["posterior"]["rate"]
    assert any("entropy of the paths" in note for note in dshdp.check(part, model=model).notes)
