"""Small models with emission parameters that have no conjugate prior."""

import numpy as np
import pymc as pm

from emissions.family_models import (
    COUNTS,
    EXPOSED,
    HOURS,
    NUMBERS,
    SUCCESSES,
    TIMES,
    TRIALS,
    L,
    T,
)

X = np.linspace(-1.0, 1.0, T)


def half_normal_scale(z):
    mean = pm.Normal("mean", 0.0, 2.0, shape=L)
    pm.Normal("y", mean[z], pm.HalfNormal("theta", 2.0, shape=L)[z], observed=NUMBERS[:, 0])


def half_cauchy_columns(z):
    mean = pm.Normal("mean", 0.0, 2.0, shape=(L, 2))
    pm.Normal("y", mean[z], pm.HalfCauchy("theta", 1.5, shape=(L, 2))[z], observed=NUMBERS)


def half_student_pooled(z):
    """One scale of each state for both columns, given residuals about a regression."""
    slope = pm.Normal("slope", shape=L)
    scale = pm.HalfStudentT("theta", 3.0, 2.0, shape=L)
    mean = slope[z][:, None] * X[:, None] + np.array([0.5, 1.5])
    pm.Normal("y", mean, scale[z][:, None], observed=NUMBERS)


def exponential_scale_by_column(z):
    """A scale of each column that the states share."""
    mean = pm.Normal("mean", 0.0, 2.0, shape=L)
    scale = pm.Exponential("theta", 0.7, shape=2)
    pm.Normal("y", mean[z][:, None], scale, observed=NUMBERS)


def lognormal_shared_scale(z):
    mean = pm.Normal("mean", 0.0, 2.0, shape=L)
    centre = pm.Normal("centre")
    pm.Normal("y", mean[z], pm.LogNormal("theta", centre, 0.8), observed=NUMBERS[:, 0])


def gamma_precision(z):
    mean = pm.Normal("mean", 0.0, 2.0, shape=L)
    tau = pm.LogNormal("theta", 0.0, 1.0, shape=L)
    pm.Normal("y", mean[z], tau=tau[z], observed=NUMBERS[:, 0])


def log_scale(z):
    """On the log scale already, with an intercept that the states share."""
    theta = pm.Normal("theta", pm.Normal("centre"), 0.7, shape=L)
    scale = pm.math.exp(0.3 + theta[z] * 0.5)
    pm.Normal("y", 1.0, scale, observed=NUMBERS[:, 0])


def uniform_scale(z):
    pm.Normal("y", 1.0, pm.Uniform("theta", 0.2, 9.0, shape=L)[z], observed=NUMBERS[:, 0])


def student_mean(z):
    theta = pm.StudentT("theta", nu=3.0, mu=0.5, sigma=2.0, shape=(L, 2))
    pm.Normal("y", theta[z], np.array([1.5, 2.5]), observed=NUMBERS)


def half_normal_mean(z):
    scale = pm.HalfNormal("scale", 2.0, shape=L)
    pm.Normal("y", pm.HalfNormal("theta", 2.0, shape=L)[z], scale[z], observed=NUMBERS[:, 0])


def lognormal_rate(z):
    rate = pm.LogNormal("theta", 1.0, pm.HalfNormal("width"), shape=(L, 2))
    pm.Poisson("y", rate[z], observed=COUNTS)


def log_link(z):
    theta = pm.Normal("theta", 1.0, 1.0, shape=L)
    pm.Poisson("y", pm.math.exp(theta[z])[:, None] * np.array([1.0, 2.0]), observed=COUNTS)


def log_link_exposure(z):
    theta = pm.Normal("theta", 1.0, 1.0, shape=L)
    shared = pm.Normal("shared")
    rate = pm.math.exp(theta[z] + shared + np.log(HOURS))
    pm.Poisson("y", rate, observed=EXPOSED[:, 0])


def half_normal_rate(z):
    pm.Exponential("y", pm.HalfNormal("theta", 2.0, shape=(L, 2))[z], observed=TIMES)


def logit_normal_probability(z):
    pm.Bernoulli("y", pm.LogitNormal("theta", 0.5, 1.0, shape=(L, 2))[z], observed=SUCCESSES)


def logits(z):
    theta = pm.Normal("theta", 0.5, 1.5, shape=(L, 2))
    pm.Binomial("y", 5, logit_p=theta[z], observed=TRIALS)


def negative_binomial_mean(z):
    size = pm.Gamma("size", 3.0, 0.5, shape=L)
    theta = pm.LogNormal("theta", 1.0, 1.0, shape=(L, 2))
    pm.NegativeBinomial("y", mu=theta[z], alpha=size[z][:, None], observed=COUNTS)


def negative_binomial_size(z):
    theta = pm.Gamma("theta", 3.0, 0.5, shape=L)
    mean = pm.Gamma("mean", 3.0, 0.5, shape=(L, 2))
    pm.NegativeBinomial("y", mu=mean[z], alpha=theta[z][:, None], observed=COUNTS)


def laplace_scale(z):
    mean = pm.Normal("mean", 0.0, 2.0, shape=L)
    pm.Laplace("y", mean[z], pm.Gamma("theta", 2.0, 1.0, shape=L)[z], observed=NUMBERS[:, 0])


def lognormal_observations(z):
    mean = pm.Normal("mean", 0.0, 2.0, shape=L)
    theta = pm.HalfNormal("theta", 1.0, shape=L)
    pm.LogNormal("y", mean[z], theta[z], observed=TIMES[:, 0])


def lognormal_location(z):
    theta = pm.Laplace("theta", 0.0, 2.0, shape=L)
    pm.LogNormal("y", theta[z], 0.7, observed=TIMES[:, 0])


def student_location(z):
    theta = pm.Normal("theta", 0.0, 2.0, shape=(L, 2))
    scale = pm.HalfNormal("scale", 2.0, shape=L)
    pm.StudentT("y", nu=4.0, mu=theta[z], sigma=scale[z][:, None], observed=NUMBERS)


def student_scale(z):
    """One of each state for both columns, about locations that differ at every time."""
    theta = pm.HalfNormal("theta", 2.0, shape=L)
    nu = pm.Gamma("nu", 2.0, 0.1, shape=2)
    mean = X[:, None] * np.array([0.5, 1.5])
    pm.StudentT("y", nu=nu, mu=mean, sigma=theta[z][:, None], observed=NUMBERS)


def student_degrees(z):
    theta = pm.Gamma("theta", 2.0, 0.1, shape=L)
    scale = pm.HalfNormal("scale", 2.0, shape=L)
    pm.StudentT("y", nu=1.0 + theta[z], mu=0.5, sigma=scale[z], observed=NUMBERS[:, 0])


def weibull_shape(z):
    theta = pm.LogNormal("theta", 0.5, 0.8, shape=L)
    scale = pm.HalfNormal("scale", 2.0, shape=(L, 2))
    pm.Weibull("y", theta[z][:, None], scale[z], observed=TIMES)


def weibull_scale(z):
    """Of each state and column, at shapes that differ at every time."""
    theta = pm.LogNormal("theta", 0.5, 1.0, shape=(L, 2))
    pm.Weibull("y", np.exp(X)[:, None] * pm.Gamma("shape", 3.0, 2.0), theta[z], observed=TIMES)


CONDITIONALS = [
    weibull_shape,
    weibull_scale,
    student_location,
    student_scale,
    student_degrees,
    half_normal_scale,
    half_cauchy_columns,
    half_student_pooled,
    exponential_scale_by_column,
    lognormal_shared_scale,
    gamma_precision,
    log_scale,
    uniform_scale,
    student_mean,
    half_normal_mean,
    lognormal_rate,
    log_link,
    log_link_exposure,
    half_normal_rate,
    logit_normal_probability,
    logits,
    negative_binomial_mean,
    negative_binomial_size,
    laplace_scale,
    lognormal_observations,
    lognormal_location,
]
