"""One small model per family, with what the tests need to know about it."""

import numpy as np
import pymc as pm

import pymc_dshdp as dshdp
from pymc_dshdp.model.matrix_priors import (
    MatrixNormalInverseWishart,
    NormalInverseWishart,
    SwitchingVAR,
)

L, T = 3, 12
PATH = np.array([1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1])  # state 0 once, state 2 never
rng = np.random.default_rng(5)
COUNTS = rng.poisson(4.0, (T, 2))
NUMBERS = rng.normal(1.0, 2.0, (T, 2))
TIMES = rng.exponential(2.0, (T, 2))
CATEGORIES = rng.integers(4, size=T)
MULTINOMIAL = rng.multinomial(6, [0.1, 0.4, 0.3, 0.2], T)
SUCCESSES = rng.integers(2, size=(T, 2))
TRIALS = rng.binomial(5, 0.3, (T, 2))
HOURS = np.where(np.arange(T) == 3, 0.0, np.linspace(0.3, 40.0, T))
EXPOSED = COUNTS * (HOURS > 0.0)[:, None]


def hidden(layout=None):
    prior = dshdp.DSHDP("hmm", n_states=L)
    return dshdp.HiddenStates("z", prior, **(layout or {"length": T}))


def poisson(z):
    scale = pm.Gamma("scale", 2.0, 1.0, shape=2)
    rate = pm.Gamma("rate", 1.5, scale, shape=(L, 2))
    pm.Poisson("y", rate[z], observed=COUNTS)


def poisson_exponential(z):
    rate = pm.Exponential("rate", 0.3, shape=L)
    pm.Poisson("y", rate[z], observed=COUNTS[:, 0])


def poisson_broadcast(z):
    rate = pm.Gamma("rate", 1.5, 0.5, shape=L)
    pm.Poisson("y", rate[z][:, None], observed=COUNTS)


def poisson_exposure(z):
    """Counts in known times of observation, at one of which nobody looked."""
    rate = pm.Gamma("rate", 1.5, 0.5, shape=(L, 2))
    pm.Poisson("y", rate[z] * HOURS[:, None] / np.array([1.0, 7.0]), observed=EXPOSED)


def poisson_offset(z):
    rate = pm.Exponential("rate", 0.3, shape=L)
    offset = np.log(0.5 + HOURS)
    pm.Poisson("y", pm.math.exp(pm.math.log(rate)[z] + offset), observed=COUNTS[:, 0])


def normal_mean(z):
    mean = pm.Normal("mean", pm.Normal("centre"), 2.0, shape=(L, 2))
    pm.Normal("y", mean[z], np.array([1.5, 2.5]), observed=NUMBERS)


def normal_mean_scale(z):
    mean = pm.Normal("mean", 0.0, 2.0, shape=L)
    scale = pm.HalfNormal("sigma", 2.0, shape=L)
    pm.Normal("y", mean[z], scale[z], observed=NUMBERS[:, 0])


def normal_variance(z):
    mean = pm.Normal("mean", 0.5, 2.0, shape=(L, 2))
    variance = pm.InverseGamma("variance", 3.0, 4.0, shape=(L, 2))
    pm.Normal("y", mean[z], pm.math.sqrt(variance[z]), observed=NUMBERS)


def normal_variance_outside(z):
    mean = pm.Normal("mean", 0.5, 2.0, shape=L)
    variance = pm.InverseGamma("variance", 3.0, 4.0, shape=L)
    pm.Normal("y", mean[z], pm.math.sqrt(variance)[z], observed=NUMBERS[:, 0])


def normal_both(z):
    variance = pm.InverseGamma("variance", 3.0, 4.0, shape=(L, 2))
    mean = pm.Normal("mean", 0.5, pm.math.sqrt(variance / 0.4), shape=(L, 2))
    pm.Normal("y", mean[z], pm.math.sqrt(variance[z]), observed=NUMBERS)


def normal_both_pooled(z):
    variance = pm.InverseGamma("variance", 3.0, 4.0, shape=L)
    sigma = pm.math.sqrt(variance)
    mean = pm.Normal("mean", 0.5, 2.0 * sigma, shape=L)
    pm.Normal("y", mean[z][:, None], pm.math.sqrt(variance[z][:, None]), observed=NUMBERS)


def exponential(z):
    rate = pm.Gamma("rate", 2.0, 3.0, shape=(L, 2))
    pm.Exponential("y", rate[z], observed=TIMES)


def categorical(z):
    p = pm.Dirichlet("p", np.array([0.5, 1.0, 2.0, 1.5]), shape=(L, 4))
    pm.Categorical("y", p[z], observed=CATEGORIES)


def multinomial(z):
    p = pm.Dirichlet("p", np.array([0.5, 1.0, 2.0, 1.5]), shape=(L, 4))
    n = np.full(T, 6)  # PyMC computes log n! of a plain 6 (int8) in single precision
    pm.Multinomial("y", n, p[z], observed=MULTINOMIAL)


def bernoulli(z):
    p = pm.Beta("p", 2.0, 0.7, shape=(L, 2))
    pm.Bernoulli("y", p[z], observed=SUCCESSES)


def binomial(z):
    p = pm.Beta("p", 2.0, 0.7, shape=(L, 2))
    pm.Binomial("y", 5, p[z], observed=TRIALS)


COVARIANCE = np.array([[2.0, 0.5], [0.5, 1.0]])


def mvnormal(z):
    mean = pm.MvNormal("mean", np.array([0.5, -0.5]), 2.0 * COVARIANCE, shape=(L, 2))
    pm.MvNormal("y", mean[z], COVARIANCE, observed=NUMBERS)


def mvnormal_independent(z):
    mean = pm.Normal("mean", 0.5, np.array([1.0, 3.0]), shape=(L, 2))
    covariance = np.stack([COVARIANCE, 2.0 * COVARIANCE, np.eye(2)])
    covariance = pm.Deterministic("covariance", pm.math.constant(covariance))
    pm.MvNormal("y", mean[z], covariance[z], observed=NUMBERS)


def normal_inverse_wishart(z):
    mu, Sigma = NormalInverseWishart("g", data=NUMBERS, k0=0.5, n_states=L)
    pm.MvNormal("y", mu[z], Sigma[z], observed=NUMBERS)


def autoregression(z):
    V0 = np.diag([1.0, 2.0, 0.5])
    A, Sigma = MatrixNormalInverseWishart("ar", data=NUMBERS, n_states=L, intercept=True, V0=V0)
    SwitchingVAR("y", A, Sigma, z, observed=NUMBERS, intercept=True)


FAMILIES = [
    poisson,
    poisson_exponential,
    poisson_broadcast,
    poisson_exposure,
    poisson_offset,
    normal_mean,
    normal_mean_scale,
    normal_variance,
    normal_variance_outside,
    normal_both,
    normal_both_pooled,
    exponential,
    categorical,
    multinomial,
    bernoulli,
    binomial,
    mvnormal,
    mvnormal_independent,
    normal_inverse_wishart,
    autoregression,
]


def build(declare, layout=None):
    with pm.Model() as model:
        declare(hidden(layout))
    return model
