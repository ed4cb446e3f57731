"""A model of few states against the same with the states summed out, by pymc-extras."""

import numpy as np
import pymc as pm
import pytest

import pymc_dshdp as dshdp
from pymc_dshdp._compat import group

extras = pytest.importorskip(
    "pymc_extras", reason="pymc-extras, which .ci/run installs for this file, is not installed"
)

LENGTHS, RATES = (15, 10, 20, 15), (2.0, 6.0)


def moments(idata, name):
    """Mean of a variable and its standard error, from means of 40 batches of draws."""
    values = group(idata, "posterior")[name].values
    batches = values.reshape(40, -1, *values.shape[2:]).mean(axis=1)
    return batches.mean(axis=0), batches.std(axis=0, ddof=1) / np.sqrt(len(batches))


def test_posterior_means_are_those_of_the_marginal_model():
    """Fails if the density of the path given P, or its gradient, is that of another chain.

    Rows of P that NUTS draws given the path, against NUTS on the density of the data alone.
    """
    y = np.random.default_rng(0).poisson(np.repeat([*RATES, *RATES], LENGTHS))
    settings = {
        "chains": 2,
        "cores": 1,
        "progressbar": False,
        "random_seed": 1,
        "compute_convergence_checks": False,
    }

    def emissions(z):
        rate = pm.Gamma("rate", alpha=[8.0, 24.0], beta=4.0)
        pm.Poisson("y", rate[z], observed=y)

    with pm.Model() as model:
        P = pm.Dirichlet("P", np.array([[6.0, 1.0], [1.0, 4.0]]))
        start = pm.Categorical.dist(np.array([0.5, 0.5]))
        z = extras.distributions.DiscreteMarkovChain("z", P=P, init_dist=start, shape=len(y))
        emissions(z)
    with extras.marginalize(model, ["z"]):
        marginal = pm.sample(500, tune=300, **settings)
    with pm.Model():
        P = pm.Dirichlet("P", np.array([[6.0, 1.0], [1.0, 4.0]]))
        prior = dshdp.Transitions("hmm", P, initial=np.array([0.5, 0.5]))
        z = dshdp.HiddenStates("z", prior, length=len(y))
        emissions(z)
        ours = pm.sample(2000, tune=300, **settings)
    for name in ("P", "rate"):
        (one, error), (other, other_error) = moments(marginal, name), moments(ours, name)
        assert np.all(abs(one - other) < 4.5 * np.hypot(error, other_error))
        assert np.all(np.hypot(error, other_error) < 0.05 * one)
