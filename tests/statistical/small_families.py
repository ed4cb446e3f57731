"""Every conjugate family with two states and five time points, for tests of the direct sampler.

Each declares its likelihood on ``theta[z]``, draws theta (in value space) from its prior, and
simulates data.
"""

import numpy as np
import pymc as pm
from scipy import stats

from pymc_dshdp.emissions.declare import (
    MatrixNormalInverseWishart,
    NormalInverseWishart,
    SwitchingVAR,
)
from pymc_dshdp.emissions.matrix_priors import packed_cholesky

L, T = 2, 5
S0 = np.array([[1.5, 0.4], [0.4, 1.0]])


def simplex_value(p):
    logs = np.log(p)
    return logs[:, :-1] - logs.mean(axis=-1, keepdims=True)


def simplex(value):
    logs = np.concatenate([value, -value.sum(axis=-1, keepdims=True)], axis=-1)
    return np.exp(logs) / np.exp(logs).sum(axis=-1, keepdims=True)


def root_of(packed, d=2):
    root = np.zeros((len(packed), d, d))
    i, j = np.tril_indices(d)
    root[:, i, j] = np.where(i == j, np.exp(packed * (i == j)), packed)
    return root


def inverse_wishart_roots(rng, degrees):
    draws = [stats.invwishart.rvs(degrees, S0, random_state=rng) for _ in range(L)]
    return np.linalg.cholesky(np.array(draws))


class Poisson:
    shape, dtype, names = (T, 2), int, ["rate"]

    def declare(z, y):
        pm.Poisson("y", pm.Gamma("rate", 2.0, 0.8, shape=(L, 2))[z], observed=y)

    def prior(rng):
        return {"rate_log__": np.log(rng.gamma(2.0, 1.0 / 0.8, (L, 2)))}

    def simulate(rng, point, z):
        return rng.poisson(np.exp(point["rate_log__"])[z])


class Normal:
    shape, dtype, names = (T, 2), float, ["mean", "variance"]

    def declare(z, y):
        mean = pm.Normal("mean", 0.5, 1.5, shape=(L, 2))
        variance = pm.InverseGamma("variance", 6.0, 5.0, shape=(L, 2))
        pm.Normal("y", mean[z], pm.math.sqrt(variance[z]), observed=y)

    def prior(rng):
        variance = 5.0 / rng.gamma(6.0, 1.0, (L, 2))
        return {"mean": rng.normal(0.5, 1.5, (L, 2)), "variance_log__": np.log(variance)}

    def simulate(rng, point, z):
        return rng.normal(point["mean"][z], np.exp(0.5 * point["variance_log__"])[z])


class Exponential:
    shape, dtype, names = (T, 2), float, ["rate"]

    def declare(z, y):
        pm.Exponential("y", pm.Gamma("rate", 4.0, 2.0, shape=(L, 2))[z], observed=y)

    def prior(rng):
        return {"rate_log__": np.log(rng.gamma(4.0, 0.5, (L, 2)))}

    def simulate(rng, point, z):
        return rng.exponential(np.exp(-point["rate_log__"])[z])


class Categorical:
    shape, dtype, names = (T,), int, ["p"]

    def declare(z, y):
        p = pm.Dirichlet("p", np.array([1.0, 2.0, 0.7]), shape=(L, 3))
        pm.Categorical("y", p[z], observed=y)

    def prior(rng):
        return {"p_simplex__": simplex_value(rng.dirichlet([1.0, 2.0, 0.7], L))}

    def simulate(rng, point, z):
        p = simplex(point["p_simplex__"])[z]
        return (rng.random(T)[:, None] > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)


class Multinomial:
    shape, dtype, names = (T, 3), int, ["p"]

    def declare(z, y):
        p = pm.Dirichlet("p", np.array([1.0, 2.0, 0.7]), shape=(L, 3))
        pm.Multinomial("y", 4, p[z], observed=y)

    prior = Categorical.prior
    first = np.tile([4, 0, 0], (T, 1))

    def simulate(rng, point, z):
        return rng.multinomial(4, simplex(point["p_simplex__"])[z])


class Bernoulli:
    shape, dtype, names = (T, 2), int, ["p"]

    def declare(z, y):
        pm.Bernoulli("y", pm.Beta("p", 1.5, 0.8, shape=(L, 2))[z], observed=y)

    def prior(rng):
        p = rng.beta(1.5, 0.8, (L, 2))
        return {"p_logodds__": np.log(p) - np.log1p(-p)}

    def simulate(rng, point, z):
        return (rng.random((T, 2)) < 1.0 / (1.0 + np.exp(-point["p_logodds__"][z]))).astype(int)


class Binomial(Bernoulli):
    def declare(z, y):
        pm.Binomial("y", 3, pm.Beta("p", 1.5, 0.8, shape=(L, 2))[z], observed=y)

    def simulate(rng, point, z):
        return rng.binomial(3, 1.0 / (1.0 + np.exp(-point["p_logodds__"][z])))


class MvNormal:
    shape, dtype, names = (T, 2), float, ["mean"]

    def declare(z, y):
        mean = pm.MvNormal("mean", np.array([0.5, -0.5]), S0, shape=(L, 2))
        pm.MvNormal("y", mean[z], 0.5 * S0, observed=y)

    def prior(rng):
        return {"mean": rng.multivariate_normal([0.5, -0.5], S0, L)}

    def simulate(rng, point, z):
        return point["mean"][z] + rng.multivariate_normal([0.0, 0.0], 0.5 * S0, T)


class NormalWishart:
    shape, dtype, names = (T, 2), float, ["g_mu"]

    def declare(z, y):
        mu, Sigma = NormalInverseWishart("g", S0=S0, n0=9.0, k0=0.6, n_states=L)
        pm.MvNormal("y", mu[z], Sigma[z], observed=y)

    def prior(rng):
        root = inverse_wishart_roots(rng, 9.0)
        mean = (root @ rng.standard_normal((L, 2, 1)))[..., 0] / np.sqrt(0.6)
        return {"g_mu": mean, "g_Sigma_cholesky__": packed_cholesky(root)}

    def simulate(rng, point, z):
        noise = (root_of(point["g_Sigma_cholesky__"])[z] @ rng.standard_normal((T, 2, 1)))[..., 0]
        return point["g_mu"][z] + noise


class Autoregression:
    shape, dtype, names = (T, 2), float, ["ar_A"]
    V0 = np.diag([0.1, 0.2, 0.5])

    def declare(z, y):
        A, Sigma = MatrixNormalInverseWishart(
            "ar", S0=S0, n0=9.0, V0=Autoregression.V0, n_states=L, intercept=True
        )
        SwitchingVAR("y", A, Sigma, z, observed=y, intercept=True)

    def prior(rng):
        root = inverse_wishart_roots(rng, 9.0)
        A = root @ rng.standard_normal((L, 2, 3)) @ np.sqrt(Autoregression.V0)
        return {"ar_A": A, "ar_Sigma_cholesky__": packed_cholesky(root)}

    def simulate(rng, point, z):
        root, y = root_of(point["ar_Sigma_cholesky__"]), np.zeros((T, 2))
        for t in range(1, T):
            x = np.append(y[t - 1], 1.0)
            y[t] = point["ar_A"][z[t]] @ x + root[z[t]] @ rng.standard_normal(2)
        return y


FAMILIES = [
    Poisson,
    Normal,
    Exponential,
    Categorical,
    Multinomial,
    Bernoulli,
    Binomial,
    MvNormal,
    NormalWishart,
    Autoregression,
]
