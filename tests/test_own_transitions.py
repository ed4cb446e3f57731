"""A kind of transitions that the package does not know, written as a user would write it."""

import numpy as np
import pymc as pm
import pytest
from models import sample

import pymc_dshdp as dshdp
from pymc_dshdp._compat import group

L, PERIOD, T = 2, 2, 240
ROWS = np.array([[[0.95, 0.05], [0.1, 0.9]], [[0.2, 0.8], [0.5, 0.5]]])


class PeriodicRows(dshdp.TransitionPrior):
    """Rows P[t % 2], the softmax of Gaussian logits."""

    def __init__(self, name, *, n_states, phase):
        super().__init__(name, n_states, None)
        self.declare_coords()
        self.model.add_coord(self.prefixed("phase"), range(PERIOD))
        dims = (self.prefixed("phase"), *self.dims)
        logits = pm.Normal(self.prefixed("logits"), 0.0, 1.5, dims=dims)
        self.pi_bar = pm.math.softmax(logits, axis=-1)
        self.pi_init = pm.Dirichlet(self.prefixed("start"), np.ones(n_states), dims=self.dims[0])
        self.index = phase
        mean = pm.Deterministic(self.prefixed("P"), self.pi_bar.mean(axis=0), dims=self.dims)
        self.recorded = {"pi_init": self.pi_init, "pi_bar": mean}


@pytest.fixture(scope="module")
def sampled():
    rng = np.random.default_rng(1)
    z = np.zeros(T, int)
    for t in range(1, T):
        z[t] = rng.choice(L, p=ROWS[t % PERIOD, z[t - 1]])
    y = rng.normal(4.0 * z, 1.0)
    with pm.Model() as model:
        phase = pm.Data("phase", np.arange(T) % PERIOD)
        states = dshdp.HiddenStates("z", PeriodicRows("hmm", n_states=L, phase=phase), length=T)
        mean = pm.Normal("mean", 2.0, 3.0, dims="hmm_state")
        pm.Normal("y", mean[states], 1.0, observed=y)
    return z, model, dshdp.align(sample(model, draws=150, tune=150, chains=1))


def test_it_is_sampled(sampled):
    """The matrices of both phases come out: fails if one stands for both."""
    z, _, idata = sampled
    found = dshdp.state_probabilities(idata).values.argmax(axis=1)
    order = [0, 1] if (found == z).mean() > 0.5 else [1, 0]
    assert (np.argsort(order)[z] == found).mean() > 0.95
    logits = group(idata, "posterior")["hmm_logits"].values[0]
    P = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    assert abs(P.mean(axis=0) - ROWS[:, order][:, :, order]).max() < 0.2


def test_it_is_read(sampled):
    z, model, idata = sampled
    with model:
        smoothed = dshdp.smooth(idata)
        ahead = dshdp.forecast(idata, horizon=3, covariates={"phase": [0, 1, 0]})
        other = {"y": np.array([0.0, 4.0, 0.1]), "phase": np.array([0, 1, 0])}
        assert np.isfinite(dshdp.held_out_log_likelihood(idata, observed=other)["total"]).all()
    assert smoothed.shape == (T, L) and ahead["y"].shape == (1, 150, 3)
    table = dshdp.summary(idata)
    np.testing.assert_allclose(table.transition_matrix.sum(axis=1), 1.0)
    assert len(dshdp.segments(idata)) > 10
