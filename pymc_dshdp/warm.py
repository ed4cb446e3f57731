"""Compile the kernels of this installation: ``python -m pymc_dshdp.warm``.

For images and containers, and before many processes start at once: small models of every prior,
both samplers and the families with kernels of their own are sampled and read, so that numba's
cache holds what they need. It is kept in the cache of the user, or where ``NUMBA_CACHE_DIR`` says.
"""

import argparse
import logging
import time
import warnings
from functools import partial

import numpy as np
import pymc as pm

import pymc_dshdp as dshdp

__all__ = ["main"]

LENGTHS = [12, 8]
Y = np.random.default_rng(0).normal(size=(sum(LENGTHS), 2))


def _poisson(z):
    rate = pm.Gamma("rate", 1.0, 0.2, dims="hmm_state")
    pm.Poisson("y", rate[z], observed=np.arange(sum(LENGTHS)))


def _normal(z):
    mu = pm.Normal("mu", 0.0, 5.0, dims="hmm_state")
    variance = pm.InverseGamma("variance", 2.0, 2.0, dims="hmm_state")
    pm.Normal("y", mu[z], pm.math.sqrt(variance[z]), observed=Y[:, 0])


def _scale(z):
    sigma = pm.HalfNormal("sigma", 1.0, dims="hmm_state")
    pm.Normal("y", pm.Normal("mu", 0.0, 5.0, dims="hmm_state")[z], sigma[z], observed=Y[:, 0])


def _vectors(z):
    mu, cov = dshdp.NormalInverseWishart("niw", data=Y, dims="hmm_state")
    pm.MvNormal("y", mu[z], cov[z], observed=Y)


def _autoregression(z):
    A, cov = dshdp.MatrixNormalInverseWishart("mniw", data=Y, dims="hmm_state")
    dshdp.SwitchingVAR("y", A, cov, z, observed=Y)


def _seasons(name, n_states):
    """Two matrices that an index chooses, under NUTS."""
    P = pm.Dirichlet("P", np.ones((2, n_states, n_states)))
    return dshdp.Transitions(name, P, index=np.arange(sum(LENGTHS)) % 2)


def _covariates(name, n_states):
    """Self-persistence that follows a covariate."""
    return dshdp.DSHDP(name, n_states=n_states, kappa=dshdp.LogisticPersistence(Y[:, :1]))


MODELS = {
    "DSHDP": (dshdp.DSHDP, _poisson),
    "DSHDP, stick-breaking": (partial(dshdp.DSHDP, weights="stick-breaking"), _normal),
    "StickyHDP": (dshdp.StickyHDP, _autoregression),
    "HDP": (dshdp.HDP, _vectors),
    "HDP, finite mixture": (partial(dshdp.HDP, weights="finite-mixture"), _poisson),
    "FixedTransitions": (dshdp.FixedTransitions, _scale),
    "Transitions": (_seasons, _normal),
    "LogisticPersistence": (_covariates, _poisson),
}


def _use(prior, emission, sampler):
    """Sample a model shortly, and read what was sampled."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", prior("hmm", n_states=3), lengths=LENGTHS)
        emission(z)
        result = pm.sample(
            tune=3, draws=4, chains=2, cores=1, step=[sampler([z])], random_seed=1,
            progressbar=False, compute_convergence_checks=False,
        )  # fmt: skip
    for read in (dshdp.smooth, dshdp.filter_states, dshdp.viterbi, dshdp.held_out_log_likelihood):
        read(result, model=model)
    dshdp.summary(dshdp.align(result))


def main():
    """Compile, and say what was done in how many seconds."""
    argparse.ArgumentParser(
        prog="python -m pymc_dshdp.warm", description="Compile the kernels of this installation."
    ).parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    began = time.perf_counter()
    for name, (prior, emission) in MODELS.items():
        direct = prior is dshdp.DSHDP or "stick" in name
        for sampler in (dshdp.WeakLimitFFBS, dshdp.DSBlockGibbs)[: 1 + direct]:
            print(f"{name}, {sampler.__name__} ...", flush=True)
            _use(prior, emission, sampler)
    print(f"Compiled in {time.perf_counter() - began:.0f} s.")


if __name__ == "__main__":
    main()
