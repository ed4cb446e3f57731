"""Geweke's test through the PyMC steps: points, transforms and the likelihood table included."""

import numpy as np
import pymc as pm
import pytest
from geweke import assert_same_means
from scipy import special
from tiny_model import (
    NAMES,
    THETA_SCALE,
    Hyperparameters,
    draw_theta,
    marginal_conditional,
    simulate_data,
    simulate_prior,
    statistics,
)

import pymc_dshdp as dshdp

L = 4
LENGTHS = np.array([17, 13])
HYPER = Hyperparameters(2.0, 1.0, 2.0, 1.0, 8, 8)


def gaussian_model(weights):
    with pm.Model() as model:
        alpha = pm.Gamma("hmm_alpha", HYPER.alpha_shape, HYPER.alpha_rate)
        prior = dshdp.DSHDP("hmm", n_states=L, alpha=alpha, weights=weights)
        z = dshdp.HiddenStates("z", prior, lengths=LENGTHS)
        theta = pm.Normal("theta", 0.0, THETA_SCALE, dims="hmm_state")
        data = pm.Data("data", np.zeros(LENGTHS.sum()))
        pm.Normal("y", theta[z], 1.0, observed=data)
    return model


def point_of(model, draw):
    """A point of the model at a draw of the prior simulator."""
    gamma, alpha, phi, eta, kappa_logit, sticks_logit, beta, rows, theta, z = draw
    values = {
        "hmm_gamma_log__": np.log(gamma),
        "hmm_alpha_log__": np.log(alpha),
        "hmm_phi_interval__": special.logit(phi),
        "hmm_eta_interval__": special.logit(eta / 2.0),
        "hmm_kappa_logodds__": kappa_logit,
        "hmm_v_logodds__": sticks_logit,
        "hmm_beta": beta,
        "hmm_pi_bar": rows[1:],
        "hmm_pi_init": rows[0],
        "theta": theta,
        "z": z,
    }
    start = model.initial_point()
    return {name: np.asarray(values[name], value.dtype) for name, value in start.items()}


def natural_values(point):
    """Arguments of ``statistics`` after the lengths and before y."""
    if "hmm_beta" in point:
        beta = point["hmm_beta"]
    else:
        v = special.expit(point["hmm_v_logodds__"])
        beta = np.append(v, 1.0) * np.concatenate([[1.0], np.cumprod(1.0 - v)])
    return (
        float(np.exp(point["hmm_gamma_log__"])),
        # Named by the user's variable, which the prior adopts.
        float(np.exp(point["hmm_alpha_log__"])),
        float(special.expit(point["hmm_phi_interval__"])),
        float(2.0 * special.expit(point["hmm_eta_interval__"])),
        point["hmm_kappa_logodds__"],
        beta,
        np.vstack([point["hmm_pi_init"], point["hmm_pi_bar"]]),
        point["theta"],
        point["z"].astype(np.int64),
    )


@pytest.mark.parametrize(
    ("weights", "refine", "grid"),
    [("weak-limit", True, (30, 30)), ("stick-breaking", False, (8, 8))],
)
@pytest.mark.parametrize(
    ("sweeps", "seed"),
    [(8_000, 31), pytest.param(100_000, 37, marks=pytest.mark.slow)],
    ids=["short", "long"],
)
def test_steps_called_by_hand(weights, refine, grid, sweeps, seed):
    """The two steps, in turn, on a real point with two sequences; theta and y by hand."""
    rng = np.random.default_rng(seed)
    by_sticks = weights == "stick-breaking"
    independent = marginal_conditional(rng, 100_000, L, LENGTHS, HYPER, refine, by_sticks)

    model = gaussian_model(weights)
    with model:
        states = dshdp.WeakLimitFFBS([model["z"]], rng=rng)
        persistence = dshdp.GridRhoStep([model["z"]], grid=grid, refine=refine, rng=rng)
    states.stop_tuning()
    persistence.stop_tuning()
    point = point_of(model, simulate_prior(rng, L, LENGTHS, HYPER, refine, by_sticks))
    order = list(point)
    chain = np.empty((sweeps, len(NAMES)))
    for i in range(sweeps):
        y = simulate_data(rng, point["z"].astype(np.int64), point["theta"])
        model["data"].set_value(y)
        point, _ = states.step(point)
        point, _ = persistence.step(point)
        point = {**point, "theta": draw_theta(rng, point["z"].astype(np.int64), y, L)}
        statistics(chain[i], LENGTHS, *natural_values(point), y)
    assert list(point) == order
    assert_same_means(NAMES, independent, chain)
