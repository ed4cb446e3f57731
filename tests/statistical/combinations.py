"""The combinations that the calibration suite runs: every feasible pair of levels occurs in one.

``test_combinations.py`` checks that claim. Levels that cannot meet, and why:

* the parametric prior has no weights to choose, the others need some;
* a masked observation is two terms of the model, so that nothing is integrated out, and its
  parameters are constants here, because they are no longer conjugate;
* only univariate families and whole categories are masked;
* what has no family is not integrated out.
"""

from typing import NamedTuple

PRIORS = ("ds", "sticky", "hdp", "fixed")
WEIGHTS = ("weak-limit", "stick-breaking", "finite-mixture", "given")
SAMPLERS = ("ffbs", "direct-collapsed", "direct-kept")
LAYOUTS = ("one", "ragged", "missing")
COLLAPSED = ("poisson", "normal-mean", "exponential", "binomial", "categorical", "multinomial",
             "normal-variance", "mvnormal", "normal-wishart", "autoregression")  # fmt: skip
FAMILIES = (*COLLAPSED, "laplace")
MASKED = ("poisson", "normal-mean", "exponential", "binomial", "categorical", "normal-variance",
          "laplace")  # fmt: skip


class Combination(NamedTuple):
    """One model and sampler.

    ``refine`` is False where (phi, eta) lie on the grid's midpoints. Of several groups, the first
    sequence is of the first, and all others are of the last. With covariates, kappa is logistic.
    """

    prior: str
    weights: str
    sampler: str
    family: str
    layout: str
    refine: bool = True
    groups: int = 1
    covariates: bool = False

    @property
    def name(self):
        parts = self[:5] if self.refine else (*self[:5], "midpoints")
        parts += () if self.groups == 1 else ("groups",)
        return "/".join((*parts, "covariates") if self.covariates else parts)


def feasible(c):
    """Whether the levels can meet."""
    if (c.prior == "fixed") != (c.weights == "given"):
        return False
    if c.sampler == "direct-collapsed" and (c.family not in COLLAPSED or c.layout == "missing"):
        return False
    return c.layout != "missing" or c.family in MASKED


def by_name(name):
    """The combination of this name."""
    return next(c for c in EVERY if c.name == name)


COVERING = [
    Combination("ds", "weak-limit", "ffbs", "poisson", "missing"),
    Combination("ds", "weak-limit", "ffbs", "autoregression", "one"),
    Combination("ds", "weak-limit", "direct-collapsed", "categorical", "ragged"),
    Combination("ds", "weak-limit", "direct-kept", "normal-wishart", "one"),
    Combination("ds", "stick-breaking", "ffbs", "normal-mean", "ragged"),
    Combination("ds", "stick-breaking", "ffbs", "laplace", "missing"),
    Combination("ds", "stick-breaking", "direct-collapsed", "exponential", "ragged"),
    Combination("ds", "stick-breaking", "direct-collapsed", "binomial", "one"),
    Combination("ds", "stick-breaking", "direct-kept", "multinomial", "ragged"),
    Combination("ds", "stick-breaking", "direct-kept", "normal-variance", "one"),
    Combination("ds", "stick-breaking", "direct-kept", "mvnormal", "ragged"),
    Combination("sticky", "weak-limit", "ffbs", "normal-variance", "ragged"),
    Combination("sticky", "weak-limit", "ffbs", "mvnormal", "one"),
    Combination("sticky", "weak-limit", "direct-collapsed", "poisson", "one"),
    Combination("sticky", "weak-limit", "direct-collapsed", "binomial", "ragged"),
    Combination("sticky", "weak-limit", "direct-kept", "normal-mean", "missing"),
    Combination("sticky", "weak-limit", "direct-kept", "categorical", "one"),
    Combination("sticky", "weak-limit", "direct-kept", "multinomial", "one"),
    Combination("sticky", "weak-limit", "direct-kept", "laplace", "ragged"),
    Combination("sticky", "stick-breaking", "ffbs", "normal-wishart", "ragged"),
    Combination("sticky", "stick-breaking", "direct-collapsed", "exponential", "one"),
    Combination("sticky", "stick-breaking", "direct-kept", "autoregression", "ragged"),
    Combination("hdp", "weak-limit", "ffbs", "autoregression", "one"),
    Combination("hdp", "weak-limit", "direct-collapsed", "multinomial", "ragged"),
    Combination("hdp", "weak-limit", "direct-kept", "exponential", "missing"),
    Combination("hdp", "weak-limit", "direct-kept", "binomial", "missing"),
    Combination("hdp", "weak-limit", "direct-kept", "laplace", "ragged"),
    Combination("hdp", "stick-breaking", "ffbs", "categorical", "missing"),
    Combination("hdp", "stick-breaking", "ffbs", "normal-wishart", "one"),
    Combination("hdp", "stick-breaking", "direct-collapsed", "normal-mean", "ragged"),
    Combination("hdp", "stick-breaking", "direct-kept", "poisson", "ragged"),
    Combination("hdp", "stick-breaking", "direct-kept", "normal-variance", "one"),
    Combination("hdp", "stick-breaking", "direct-kept", "mvnormal", "one"),
    Combination("fixed", "given", "ffbs", "poisson", "ragged"),
    Combination("fixed", "given", "ffbs", "normal-mean", "one"),
    Combination("fixed", "given", "ffbs", "exponential", "ragged"),
    Combination("fixed", "given", "ffbs", "binomial", "ragged"),
    Combination("fixed", "given", "ffbs", "categorical", "ragged"),
    Combination("fixed", "given", "ffbs", "multinomial", "one"),
    Combination("fixed", "given", "ffbs", "normal-variance", "missing"),
    Combination("fixed", "given", "ffbs", "mvnormal", "one"),
    Combination("fixed", "given", "ffbs", "normal-wishart", "one"),
    Combination("fixed", "given", "ffbs", "autoregression", "ragged"),
    Combination("fixed", "given", "ffbs", "laplace", "one"),
    Combination("ds", "weak-limit", "direct-collapsed", "mvnormal", "one"),
    Combination("sticky", "stick-breaking", "direct-collapsed", "normal-wishart", "one"),
    Combination("hdp", "weak-limit", "direct-collapsed", "normal-variance", "ragged"),
    Combination("fixed", "given", "direct-collapsed", "autoregression", "ragged"),
    Combination("fixed", "given", "direct-kept", "normal-wishart", "ragged"),
    Combination("ds", "finite-mixture", "ffbs", "poisson", "ragged"),
    Combination("ds", "finite-mixture", "direct-collapsed", "categorical", "one"),
    Combination("ds", "finite-mixture", "direct-kept", "normal-mean", "missing"),
    Combination("ds", "finite-mixture", "ffbs", "autoregression", "one"),
    Combination("sticky", "finite-mixture", "ffbs", "exponential", "missing"),
    Combination("sticky", "finite-mixture", "direct-collapsed", "multinomial", "ragged"),
    Combination("sticky", "finite-mixture", "direct-kept", "normal-wishart", "one"),
    Combination("hdp", "finite-mixture", "ffbs", "mvnormal", "one"),
    Combination("hdp", "finite-mixture", "direct-collapsed", "binomial", "ragged"),
    Combination("hdp", "finite-mixture", "direct-kept", "laplace", "missing"),
    Combination("hdp", "finite-mixture", "ffbs", "normal-variance", "ragged"),
]
"""Pairwise covering: each pair of levels of two factors, where feasible, is in one of these."""

GROUPED = [
    Combination("ds", "weak-limit", "ffbs", "poisson", "missing", groups=2),
    Combination("ds", "stick-breaking", "direct-collapsed", "poisson", "ragged", groups=2),
    Combination("sticky", "weak-limit", "direct-kept", "normal-mean", "ragged", groups=2),
    Combination("sticky", "stick-breaking", "ffbs", "normal-mean", "ragged", groups=2),
    Combination("hdp", "weak-limit", "ffbs", "exponential", "ragged", groups=2),
    Combination("hdp", "stick-breaking", "direct-collapsed", "poisson", "ragged", groups=2),
]
"""Groups of sequences, with every prior and both weights of any truncation."""

BESIDE = [
    Combination("ds", "weak-limit", "ffbs", "normal-mean", "ragged", refine=False),
    Combination("ds", "stick-breaking", "direct-collapsed", "poisson", "one", refine=False),
    Combination("fixed", "given", "ffbs", "bernoulli", "one"),
    Combination("ds", "weak-limit", "direct-collapsed", "normal-joint", "one"),
    Combination("hdp", "stick-breaking", "direct-collapsed", "normal-known-mean", "one"),
    Combination("fixed", "given", "ffbs", "normal-scale", "one"),
    Combination("ds", "stick-breaking", "direct-kept", "normal-scale", "ragged"),
    Combination("ds", "weak-limit", "ffbs", "normal-scale", "one"),
    Combination("ds", "weak-limit", "ffbs", "two-likelihoods", "ragged"),
    Combination("sticky", "stick-breaking", "direct-kept", "two-likelihoods", "one"),
    Combination("hdp", "weak-limit", "ffbs", "negative-binomial", "ragged"),
    Combination("fixed", "given", "ffbs", "regression", "one"),
    Combination("ds", "weak-limit", "ffbs", "regression", "one"),
    Combination("fixed", "given", "ffbs", "logistic", "one"),
    Combination("ds", "weak-limit", "direct-kept", "logistic", "one"),
    Combination("fixed", "given", "ffbs", "exposure", "ragged"),
    Combination("ds", "weak-limit", "direct-collapsed", "exposure", "one"),
    Combination("fixed", "given", "ffbs", "student", "ragged"),
    Combination("fixed", "given", "ffbs", "weibull", "ragged"),
    Combination("ds", "static-mixture", "ffbs", "poisson", "one"),
    Combination("ds", "static-mixture", "direct-kept", "normal-mean", "ragged"),
    Combination("sticky", "static-mixture", "ffbs", "normal-mean", "missing"),
    Combination("sticky", "static-mixture", "direct-collapsed", "categorical", "one"),
    Combination("hdp", "static-mixture", "ffbs", "mvnormal", "one"),
    Combination("hdp", "static-mixture", "direct-collapsed", "exponential", "ragged"),
    Combination("hdp", "static-mixture", "direct-kept", "poisson", "missing"),
    Combination("ds", "finite-mixture", "ffbs", "poisson", "ragged", groups=2),
    Combination("sticky", "static-mixture", "ffbs", "exponential", "ragged", groups=2),
    Combination("hdp", "finite-mixture", "ffbs", "exponential", "ragged", groups=2),
    *GROUPED,
    Combination("ds", "weak-limit", "direct-collapsed", "exponential", "ragged", groups=2),
    Combination("ds", "weak-limit", "ffbs", "poisson", "ragged", covariates=True),
    Combination("fixed", "given", "ffbs", "normal-mean", "one", covariates=True),
    Combination("ds", "stick-breaking", "ffbs", "exponential", "missing", covariates=True),
]
"""The paper's model, whose prior of (phi, eta) lies on the midpoints of a grid; single trials;
the normal-inverse-gamma prior, and a variance alone; parameters that are slice-sampled, and
regressions, linear and logistic; two likelihoods; counts in known times of observation; mixtures
of finite mixtures with a static concentration; groups of sequences; self-persistence that follows a
covariate."""

EVERY = COVERING + BESIDE

SUBSET = [
    Combination("ds", "weak-limit", "ffbs", "poisson", "missing", groups=2),
    Combination("ds", "weak-limit", "ffbs", "autoregression", "one"),
    Combination("ds", "weak-limit", "direct-collapsed", "categorical", "ragged"),
    Combination("ds", "weak-limit", "direct-kept", "normal-wishart", "one"),
    Combination("ds", "stick-breaking", "ffbs", "normal-mean", "ragged"),
    Combination("ds", "stick-breaking", "direct-kept", "normal-variance", "one"),
    Combination("sticky", "weak-limit", "ffbs", "mvnormal", "one"),
    Combination("sticky", "stick-breaking", "direct-collapsed", "exponential", "one"),
    Combination("hdp", "weak-limit", "direct-collapsed", "multinomial", "ragged"),
    Combination("fixed", "given", "ffbs", "binomial", "ragged"),
    Combination("fixed", "given", "ffbs", "bernoulli", "one"),
    Combination("fixed", "given", "ffbs", "normal-scale", "one"),
    Combination("fixed", "given", "ffbs", "logistic", "one"),
    Combination("fixed", "given", "ffbs", "exposure", "ragged"),
    Combination("fixed", "given", "direct-collapsed", "autoregression", "ragged"),
    Combination("ds", "finite-mixture", "ffbs", "poisson", "ragged"),
    Combination("ds", "weak-limit", "ffbs", "poisson", "ragged", covariates=True),
]
"""What a default run of the tests does: every prior, all weights, every sampler, every family."""

CALIBRATED = [
    Combination("ds", "weak-limit", "ffbs", "poisson", "missing"),
    Combination("ds", "stick-breaking", "ffbs", "normal-mean", "ragged"),
    Combination("sticky", "stick-breaking", "direct-collapsed", "exponential", "one"),
    Combination("hdp", "stick-breaking", "ffbs", "categorical", "missing"),
    Combination("ds", "weak-limit", "direct-collapsed", "categorical", "ragged"),
    Combination("sticky", "weak-limit", "ffbs", "mvnormal", "one"),
    Combination("fixed", "given", "ffbs", "autoregression", "ragged"),
    Combination("ds", "stick-breaking", "direct-kept", "normal-variance", "one"),
    Combination("hdp", "weak-limit", "direct-collapsed", "multinomial", "ragged"),
    Combination("sticky", "weak-limit", "direct-kept", "normal-mean", "missing"),
    Combination("ds", "stick-breaking", "direct-collapsed", "binomial", "one"),
    Combination("fixed", "given", "ffbs", "normal-wishart", "one"),
    Combination("ds", "finite-mixture", "ffbs", "poisson", "ragged"),
    Combination("ds", "static-mixture", "ffbs", "poisson", "one"),
    Combination("hdp", "finite-mixture", "direct-collapsed", "binomial", "ragged"),
    Combination("ds", "weak-limit", "ffbs", "poisson", "ragged", covariates=True),
    *GROUPED,
]
"""Those under simulation-based calibration."""

SUBSET_CALIBRATED = CALIBRATED[:2]
