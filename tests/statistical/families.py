"""Emission families of the calibration suite: declared for the model, and simulated in NumPy.

A family has, beside what it declares in PyMC, a prior simulator, a data simulator and densities
that share no code with the package. Sizes: n draws, L states, T time points; parameters have
shape (n, L, ...), and ``at`` holds them at the states of each time point, (n, T, ...).
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import special, stats

import pymc_dshdp as dshdp

L = 4
SCALE = np.array([[1.5, 0.4], [0.4, 1.0]])
NOISE = np.array([[0.8, -0.2], [-0.2, 0.5]])
REGRESSORS = np.diag([0.1, 0.2, 0.5])
WEIGHTS = np.array([0.5, 1.0, 2.0])


def centred_logs(p):
    logs = np.log(p)
    return logs[..., :-1] - logs.mean(axis=-1, keepdims=True)


def simplex(value):
    logs = np.concatenate([value, -value.sum(axis=-1, keepdims=True)], axis=-1)
    return special.softmax(logs, axis=-1)


def packed_root(covariance):
    root = np.linalg.cholesky(covariance)
    i, j = np.tril_indices(covariance.shape[-1])
    packed = root[..., i, j]
    return np.where(i == j, np.log(np.where(i == j, packed, 1.0)), packed)


def covariance(packed):
    i, j = np.tril_indices(2)
    root = np.zeros((*packed.shape[:-1], 2, 2))
    root[..., i, j] = np.where(i == j, np.exp(np.where(i == j, packed, 0.0)), packed)
    return root @ np.swapaxes(root, -1, -2)


# Suffix of the value variable, natural -> value, value -> natural.
SCALES = {
    "natural": ("", np.asarray, np.asarray),
    "log": ("_log__", np.log, np.exp),
    "logit": ("_logodds__", special.logit, special.expit),
    "simplex": ("_simplex__", centred_logs, simplex),
    "covariance": ("_cholesky__", packed_root, covariance),
}


def value_points(family, parameters):
    """Value variables by name, from a family's natural parameters by name."""
    out = {}
    for name, scale in family.scales.items():
        suffix, value, _ = SCALES[scale]
        out[f"{name}{suffix}"] = value(parameters[name])
    return out


def normal_logpdf(x, covariance):
    """Of centred vectors (..., d) under covariances (..., d, d)."""
    quadratic = (x * np.linalg.solve(covariance, x[..., None])[..., 0]).sum(axis=-1)
    log_det = np.linalg.slogdet(covariance)[1]
    return -0.5 * (quadratic + log_det + x.shape[-1] * np.log(2.0 * np.pi))


def normal_draw(rng, covariance, shape):
    root = np.linalg.cholesky(covariance)
    return (root @ rng.standard_normal((*shape, covariance.shape[-1], 1)))[..., 0]


def inverse_wishart(rng, n, degrees):
    return stats.invwishart.rvs(degrees, SCALE, size=n * L, random_state=rng).reshape(n, L, 2, 2)


def inverse_wishart_logpdf(covariance, degrees):
    """Up to a constant, and in one coordinate system or another: a statistic, not a density."""
    trace = np.trace(
        np.linalg.solve(covariance, np.broadcast_to(SCALE, covariance.shape)), 0, -2, -1
    )
    return -0.5 * (degrees + 3.0) * np.linalg.slogdet(covariance)[1] - 0.5 * trace


class Poisson:
    shape, dtype, scales = (2,), int, {"rate": "log"}

    def parameters():
        return (pm.Gamma("rate", 2.0, 0.5, shape=(L, 2)),)

    def likelihood(z, y, rate):
        pm.Poisson("y", rate[z], observed=y)

    def prior(rng, n):
        return {"rate": rng.gamma(2.0, 2.0, (n, L, 2))}

    def log_prior(rate):
        return stats.gamma.logpdf(rate, 2.0, scale=2.0)

    def simulate(rng, lengths, rate):
        return rng.poisson(rate)

    def log_density(lengths, y, rate):
        return stats.poisson.logpmf(y, rate).sum(axis=-1)


class NormalMean:
    shape, dtype, scales = (), float, {"mean": "natural"}

    def parameters():
        return (pm.Normal("mean", 0.0, 2.0, shape=L),)

    def likelihood(z, y, mean):
        pm.Normal("y", mean[z], 1.0, observed=y)

    def prior(rng, n):
        return {"mean": rng.normal(0.0, 2.0, (n, L))}

    def log_prior(mean):
        return stats.norm.logpdf(mean, 0.0, 2.0)

    def simulate(rng, lengths, mean):
        return mean + rng.standard_normal(mean.shape)

    def log_density(lengths, y, mean):
        return stats.norm.logpdf(y, mean)


class NormalVariance:
    shape, dtype, scales = (2,), float, {"mean": "natural", "variance": "log"}

    def parameters():
        mean = pm.Normal("mean", 0.5, 1.5, shape=(L, 2))
        return mean, pm.InverseGamma("variance", 6.0, 5.0, shape=(L, 2))

    def likelihood(z, y, mean, variance):
        variance = pt.as_tensor(variance)
        pm.Normal("y", mean[z], pm.math.sqrt(variance[z]), observed=y)

    def prior(rng, n):
        variance = 5.0 / rng.gamma(6.0, 1.0, (n, L, 2))
        return {"mean": rng.normal(0.5, 1.5, (n, L, 2)), "variance": variance}

    def log_prior(mean, variance):
        return stats.norm.logpdf(mean, 0.5, 1.5) + stats.invgamma.logpdf(variance, 6.0, scale=5.0)

    def simulate(rng, lengths, mean, variance):
        return rng.normal(mean, np.sqrt(variance))

    def log_density(lengths, y, mean, variance):
        return stats.norm.logpdf(y, mean, np.sqrt(variance)).sum(axis=-1)


class NormalJoint(NormalVariance):
    """The normal-inverse-gamma prior: the mean's variance is the noise's, divided by 0.4."""

    def parameters():
        variance = pm.InverseGamma("variance", 6.0, 5.0, shape=(L, 2))
        mean = pm.Normal("mean", 0.5, pm.math.sqrt(variance / 0.4), shape=(L, 2))
        return mean, variance

    def prior(rng, n):
        variance = 5.0 / rng.gamma(6.0, 1.0, (n, L, 2))
        return {"mean": rng.normal(0.5, np.sqrt(variance / 0.4)), "variance": variance}

    def log_prior(mean, variance):
        density = stats.norm.logpdf(mean, 0.5, np.sqrt(variance / 0.4))
        return density + stats.invgamma.logpdf(variance, 6.0, scale=5.0)


class NormalKnownMean:
    """A variance of its own for each state, about a mean that is known."""

    shape, dtype, scales = (2,), float, {"variance": "log"}

    def parameters():
        return (pm.InverseGamma("variance", 6.0, 5.0, shape=(L, 2)),)

    def likelihood(z, y, variance):
        pm.Normal("y", 0.5, pm.math.sqrt(variance[z]), observed=y)

    def prior(rng, n):
        return {"variance": 5.0 / rng.gamma(6.0, 1.0, (n, L, 2))}

    def log_prior(variance):
        return stats.invgamma.logpdf(variance, 6.0, scale=5.0)

    def simulate(rng, lengths, variance):
        return rng.normal(0.5, np.sqrt(variance))

    def log_density(lengths, y, variance):
        return stats.norm.logpdf(y, 0.5, np.sqrt(variance)).sum(axis=-1)


class NormalScale(NormalVariance):
    """A scale without a conjugate prior: slice-sampled given the states and the mean."""

    scales = {"mean": "natural", "sigma": "log"}
    sliced = ("sigma",)

    def parameters():
        mean = pm.Normal("mean", 0.5, 1.5, shape=(L, 2))
        return mean, pm.HalfNormal("sigma", 1.5, shape=(L, 2))

    def likelihood(z, y, mean, sigma):
        pm.Normal("y", mean[z], sigma[z], observed=y)

    def prior(rng, n):
        sigma = 1.5 * np.abs(rng.standard_normal((n, L, 2)))
        return {"mean": rng.normal(0.5, 1.5, (n, L, 2)), "sigma": sigma}

    def log_prior(mean, sigma):
        return stats.norm.logpdf(mean, 0.5, 1.5) + stats.halfnorm.logpdf(sigma, scale=1.5)

    def simulate(rng, lengths, mean, sigma):
        return rng.normal(mean, sigma)

    def log_density(lengths, y, mean, sigma):
        return stats.norm.logpdf(y, mean, sigma).sum(axis=-1)


class TwoLikelihoods:
    """Counts, whose rates are conjugate, and levels with a scale that is slice-sampled."""

    shape, dtype = (2,), float
    scales = {"rate": "log", "mean": "natural", "sigma": "log"}
    sliced = ("sigma",)
    parts = {"counts": 0, "levels": 1}

    def parameters():
        return (
            pm.Gamma("rate", 2.0, 0.5, shape=L),
            pm.Normal("mean", 0.5, 1.5, shape=L),
            pm.HalfNormal("sigma", 1.5, shape=L),
        )

    def likelihood(z, y, rate, mean, sigma):
        pm.Poisson("counts", rate[z], observed=y[:, 0].astype(int))
        pm.Normal("levels", mean[z], sigma[z], observed=y[:, 1])

    def prior(rng, n):
        sigma = 1.5 * np.abs(rng.standard_normal((n, L)))
        mean = rng.normal(0.5, 1.5, (n, L))
        return {"rate": rng.gamma(2.0, 2.0, (n, L)), "mean": mean, "sigma": sigma}

    def log_prior(rate, mean, sigma):
        return stats.gamma.logpdf(rate, 2.0, scale=2.0) + NormalScale.log_prior(mean, sigma)

    def simulate(rng, lengths, rate, mean, sigma):
        return np.stack([rng.poisson(rate), rng.normal(mean, sigma)], axis=-1)

    def log_density(lengths, y, rate, mean, sigma):
        counts = stats.poisson.logpmf(y[..., 0], rate)
        return counts + stats.norm.logpdf(y[..., 1], mean, sigma)


class Regression:
    """Intercept and slope of each state, drawn together given a scale for each, which is sliced."""

    shape, dtype = (), float
    scales = {"intercept": "natural", "slope": "natural", "sigma": "log"}
    sliced = ("sigma",)
    x = np.cos(np.arange(16.0))

    def parameters():
        intercept = pm.Normal("intercept", 0.5, 1.5, shape=L)
        return (
            intercept,
            pm.Normal("slope", -0.5, 1.0, shape=L),
            pm.LogNormal("sigma", 0.0, 0.5, shape=L),
        )

    def likelihood(z, y, intercept, slope, sigma):
        pm.Normal("y", intercept[z] + slope[z] * Regression.x, sigma[z], observed=y)

    def prior(rng, n):
        return {
            "intercept": rng.normal(0.5, 1.5, (n, L)),
            "slope": rng.normal(-0.5, 1.0, (n, L)),
            "sigma": rng.lognormal(0.0, 0.5, (n, L)),
        }

    def log_prior(intercept, slope, sigma):
        density = stats.norm.logpdf(intercept, 0.5, 1.5) + stats.norm.logpdf(slope, -0.5, 1.0)
        return density + stats.lognorm.logpdf(sigma, 0.5)

    def simulate(rng, lengths, intercept, slope, sigma):
        return rng.normal(intercept + slope * Regression.x, sigma)

    def log_density(lengths, y, intercept, slope, sigma):
        return stats.norm.logpdf(y, intercept + slope * Regression.x, sigma)


class StudentT(NormalScale):
    """Location, scale and degrees of freedom, all slice-sampled, time by time."""

    shape, scales = (), {"mean": "natural", "sigma": "log", "nu": "log"}
    sliced = ("mean", "sigma", "nu")

    def parameters():
        return (
            pm.Normal("mean", 0.5, 1.5, shape=L),
            pm.HalfNormal("sigma", 1.5, shape=L),
            pm.LogNormal("nu", 1.5, 0.5, shape=L),
        )

    def likelihood(z, y, mean, sigma, nu):
        pm.StudentT("y", nu=nu[z], mu=mean[z], sigma=sigma[z], observed=y)

    def prior(rng, n):
        sigma = 1.5 * np.abs(rng.standard_normal((n, L)))
        nu = rng.lognormal(1.5, 0.5, (n, L))
        return {"mean": rng.normal(0.5, 1.5, (n, L)), "sigma": sigma, "nu": nu}

    def log_prior(mean, sigma, nu):
        return NormalScale.log_prior(mean, sigma) + stats.lognorm.logpdf(nu, 0.5, scale=np.exp(1.5))

    def simulate(rng, lengths, mean, sigma, nu):
        return mean + sigma * rng.standard_t(nu)

    def log_density(lengths, y, mean, sigma, nu):
        return stats.t.logpdf(y, nu, mean, sigma)


class Logistic:
    """Intercept and slope of the log-odds of each state, drawn given Polya-Gamma variables."""

    shape, dtype, scales = (), int, {"b": "natural"}
    x = np.stack([np.ones(16), np.cos(np.arange(16.0))], axis=1)
    trials = 1 + np.arange(16) % 3
    spread = np.array([1.5, 1.0])

    def parameters():
        return (pm.Normal("b", 0.5, Logistic.spread, shape=(L, 2)),)

    def likelihood(z, y, b):
        logit = (Logistic.x * b[z]).sum(axis=-1)
        pm.Binomial("y", Logistic.trials, logit_p=logit, observed=y)

    def prior(rng, n):
        return {"b": rng.normal(0.5, Logistic.spread, (n, L, 2))}

    def log_prior(b):
        return stats.norm.logpdf(b, 0.5, Logistic.spread).sum(axis=-1)

    def simulate(rng, lengths, b):
        return rng.binomial(Logistic.trials, special.expit((b * Logistic.x).sum(axis=-1)))

    def log_density(lengths, y, b):
        logit = (b * Logistic.x).sum(axis=-1)
        return y * logit - Logistic.trials * np.logaddexp(0.0, logit)


class NegativeBinomial:
    """Mean and size, both slice-sampled; the table comes from the log-density graph."""

    shape, dtype, scales = (), int, {"mean": "log", "size": "log"}
    sliced = ("mean", "size")

    def parameters():
        return pm.LogNormal("mean", 1.0, 0.7, shape=L), pm.LogNormal("size", 1.0, 0.5, shape=L)

    def likelihood(z, y, mean, size):
        pm.NegativeBinomial("y", mu=mean[z], alpha=size[z], observed=y)

    def prior(rng, n):
        return {
            "mean": rng.lognormal(1.0, 0.7, (n, L)),
            "size": rng.lognormal(1.0, 0.5, (n, L)),
        }

    def log_prior(mean, size):
        return stats.lognorm.logpdf(mean, 0.7, scale=np.e) + stats.lognorm.logpdf(
            size, 0.5, scale=np.e
        )

    def simulate(rng, lengths, mean, size):
        return rng.negative_binomial(size, size / (mean + size))

    def log_density(lengths, y, mean, size):
        return stats.nbinom.logpmf(y, size, size / (mean + size))


class Weibull:
    """Shape and scale, both slice-sampled, time by time."""

    shape, dtype, scales = (), float, {"a": "log", "scale": "log"}
    first = 1.0
    sliced = ("a", "scale")

    def parameters():
        return pm.LogNormal("a", 0.5, 0.4, shape=L), pm.LogNormal("scale", 0.3, 0.7, shape=L)

    def likelihood(z, y, a, scale):
        pm.Weibull("y", a[z], scale[z], observed=y)

    def prior(rng, n):
        return {"a": rng.lognormal(0.5, 0.4, (n, L)), "scale": rng.lognormal(0.3, 0.7, (n, L))}

    def log_prior(a, scale):
        return stats.lognorm.logpdf(a, 0.4, scale=np.exp(0.5)) + stats.lognorm.logpdf(
            scale, 0.7, scale=np.exp(0.3)
        )

    def simulate(rng, lengths, a, scale):
        return scale * rng.weibull(a)

    def log_density(lengths, y, a, scale):
        return stats.weibull_min.logpdf(y, a, scale=scale)


class Exponential:
    shape, dtype, scales = (2,), float, {"rate": "log"}
    data_scale = "log"  # of what is missing

    def parameters():
        return (pm.Gamma("rate", 4.0, 2.0, shape=(L, 2)),)

    def likelihood(z, y, rate):
        pm.Exponential("y", rate[z], observed=y)

    def prior(rng, n):
        return {"rate": rng.gamma(4.0, 0.5, (n, L, 2))}

    def log_prior(rate):
        return stats.gamma.logpdf(rate, 4.0, scale=0.5)

    def simulate(rng, lengths, rate):
        return rng.exponential(1.0 / rate)

    def log_density(lengths, y, rate):
        return (np.log(rate) - rate * y).sum(axis=-1)


class Binomial:
    shape, dtype, scales = (2,), int, {"p": "logit"}
    trials = 3

    def parameters():
        return (pm.Beta("p", 1.5, 0.8, shape=(L, 2)),)

    def likelihood(z, y, p):
        pm.Binomial("y", Binomial.trials, p[z], observed=y)

    def prior(rng, n):
        return {"p": rng.beta(1.5, 0.8, (n, L, 2))}

    def log_prior(p):
        return stats.beta.logpdf(p, 1.5, 0.8)

    def simulate(rng, lengths, p):
        return rng.binomial(3, p)

    def log_density(lengths, y, p):
        return (special.xlogy(y, p) + special.xlog1py(3 - y, -p)).sum(axis=-1)


class Bernoulli:
    shape, dtype, scales = (2,), int, {"p": "logit"}
    parameters, prior, log_prior = Binomial.parameters, Binomial.prior, Binomial.log_prior

    def likelihood(z, y, p):
        pm.Bernoulli("y", p[z], observed=y)

    def simulate(rng, lengths, p):
        return rng.binomial(1, p)

    def log_density(lengths, y, p):
        return (special.xlogy(y, p) + special.xlog1py(1 - y, -p)).sum(axis=-1)


class Categorical:
    shape, dtype, scales = (), int, {"p": "simplex"}

    def parameters():
        return (pm.Dirichlet("p", WEIGHTS, shape=(L, 3)),)

    def likelihood(z, y, p):
        pm.Categorical("y", p=p[z], observed=y)

    def prior(rng, n):
        return {"p": rng.dirichlet(WEIGHTS, (n, L))}

    def log_prior(p):
        return special.xlogy(WEIGHTS, p).sum(axis=-1)

    def simulate(rng, lengths, p):
        return (rng.random(p.shape[:-1])[..., None] > p.cumsum(axis=-1)[..., :-1]).sum(axis=-1)

    def log_density(lengths, y, p):
        return np.log(np.take_along_axis(p, y[..., None], axis=-1)[..., 0])


class Multinomial:
    shape, dtype, scales = (3,), int, {"p": "simplex"}
    first = (4, 0, 0)
    parameters, prior, log_prior = Categorical.parameters, Categorical.prior, Categorical.log_prior

    def likelihood(z, y, p):
        pm.Multinomial("y", 4, p[z], observed=y)

    def simulate(rng, lengths, p):
        return rng.multinomial(4, p)

    def log_density(lengths, y, p):
        return special.xlogy(y, p).sum(axis=-1)


class MvNormal:
    shape, dtype, scales = (2,), float, {"mean": "natural"}
    centre = np.array([0.5, -0.5])

    def parameters():
        return (pm.MvNormal("mean", MvNormal.centre, SCALE, shape=(L, 2)),)

    def likelihood(z, y, mean):
        pm.MvNormal("y", mean[z], NOISE, observed=y)

    def prior(rng, n):
        return {"mean": MvNormal.centre + normal_draw(rng, SCALE, (n, L))}

    def log_prior(mean):
        return normal_logpdf(mean - MvNormal.centre, SCALE)

    def simulate(rng, lengths, mean):
        return mean + normal_draw(rng, NOISE, mean.shape[:-1])

    def log_density(lengths, y, mean):
        return normal_logpdf(y - mean, NOISE)


class NormalInverseWishart:
    shape, dtype, scales = (2,), float, {"g_mu": "natural", "g_Sigma": "covariance"}

    def parameters():
        return dshdp.NormalInverseWishart("g", S0=SCALE, n0=9.0, k0=0.6, n_states=L)

    def likelihood(z, y, mean, covariance):
        pm.MvNormal("y", mean[z], covariance[z], observed=y)

    def prior(rng, n):
        covariance = inverse_wishart(rng, n, 9.0)
        mean = normal_draw(rng, covariance / 0.6, (n, L))
        return {"g_mu": mean, "g_Sigma": covariance}

    def log_prior(mean, covariance):
        return normal_logpdf(mean, covariance / 0.6) + inverse_wishart_logpdf(covariance, 9.0)

    def simulate(rng, lengths, mean, covariance):
        return mean + normal_draw(rng, covariance, mean.shape[:-1])

    def log_density(lengths, y, mean, covariance):
        return normal_logpdf(y - mean, covariance)


class Autoregression:
    shape, dtype, scales = (2,), float, {"ar_A": "natural", "ar_Sigma": "covariance"}

    def parameters():
        return dshdp.MatrixNormalInverseWishart(
            "ar", S0=SCALE, n0=9.0, V0=REGRESSORS, n_states=L, intercept=True
        )

    def likelihood(z, y, A, covariance):
        dshdp.SwitchingVAR("y", A, covariance, z, observed=y, intercept=True)

    def prior(rng, n):
        covariance = inverse_wishart(rng, n, 9.0)
        rows = np.linalg.cholesky(covariance) @ rng.standard_normal((n, L, 2, 3))
        return {"ar_A": rows @ np.sqrt(REGRESSORS), "ar_Sigma": covariance}

    def log_prior(A, covariance):
        columns = np.moveaxis(A, -1, 0) / np.sqrt(np.diag(REGRESSORS))[:, None, None, None]
        density = sum(normal_logpdf(column, covariance) for column in columns)
        return density + inverse_wishart_logpdf(covariance, 9.0)

    def simulate(rng, lengths, A, covariance):
        noise = normal_draw(rng, covariance, A.shape[:2])
        y = np.zeros(noise.shape)
        starts = set(np.cumsum([0, *lengths])[:-1])
        for t in range(y.shape[1]):
            if t not in starts:
                mean = (A[:, t, :, :2] @ y[:, t - 1, :, None])[..., 0] + A[:, t, :, 2]
                y[:, t] = mean + noise[:, t]
        return y

    def log_density(lengths, y, A, covariance):
        before = np.concatenate([y[:, :1], y[:, :-1]], axis=1)
        mean = (A[..., :2] @ before[..., None])[..., 0] + A[..., 2]
        density = normal_logpdf(y - mean, covariance)
        density[:, np.cumsum([0, *lengths])[:-1]] = 0.0
        return density


class Exposure(Poisson):
    """Counts in times of observation that are known and differ."""

    def times(n):
        return 0.4 + (np.arange(n) % 3)[:, None]

    def likelihood(z, y, rate):
        pm.Poisson("y", rate[z] * Exposure.times(len(y)), observed=y)

    def simulate(rng, lengths, rate):
        return rng.poisson(rate * Exposure.times(rate.shape[1]))

    def log_density(lengths, y, rate):
        mean = rate * Exposure.times(rate.shape[1])
        return stats.poisson.logpmf(y, mean).sum(axis=-1)


class Laplace:
    """No family of the package: its table comes from the log-density graph, theta from PyMC."""

    shape, dtype, scales = (), float, {"mean": "natural"}
    parameters, prior, log_prior = NormalMean.parameters, NormalMean.prior, NormalMean.log_prior

    def likelihood(z, y, mean):
        pm.Laplace("y", mean[z], 1.0, observed=y)

    def simulate(rng, lengths, mean):
        return rng.laplace(mean, 1.0)

    def log_density(lengths, y, mean):
        return stats.laplace.logpdf(y, mean)


FAMILIES = {
    "poisson": Poisson,
    "exposure": Exposure,
    "normal-mean": NormalMean,
    "normal-variance": NormalVariance,
    "normal-joint": NormalJoint,
    "normal-known-mean": NormalKnownMean,
    "normal-scale": NormalScale,
    "two-likelihoods": TwoLikelihoods,
    "negative-binomial": NegativeBinomial,
    "regression": Regression,
    "logistic": Logistic,
    "student": StudentT,
    "weibull": Weibull,
    "exponential": Exponential,
    "binomial": Binomial,
    "bernoulli": Bernoulli,
    "categorical": Categorical,
    "multinomial": Multinomial,
    "mvnormal": MvNormal,
    "normal-wishart": NormalInverseWishart,
    "autoregression": Autoregression,
    "laplace": Laplace,
}
