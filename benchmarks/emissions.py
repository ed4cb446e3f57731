"""Emissions of many kinds under ``pm.sample()``: python -m benchmarks.emissions.

For each model: divergences after tuning, acceptance, leapfrog steps per draw, and R-hat and bulk
effective sample size of quantities that do not depend on the numbering of the states: the mean
over time of each parameter at the state of each time point, the number of occupied states, and
the hyperparameters. Data are simulated, but for the earthquakes, three states unless said
otherwise, and the prior is the DS-HDP of ten states with every hyperparameter unknown.
"""

import argparse
import logging
import time
import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt

import pymc_dshdp as dshdp
from benchmarks.timing import table

L = 10
COLUMNS = (
    "model", "seed", "divergent", "acceptance", "steps", "s", "quantity", "mean", "R-hat", "ESS",
)  # fmt: skip


def runs(rng, n_states, n_runs, length):
    """Make a path of runs of a length that cycles through the states; and its generator."""
    return np.repeat(np.arange(n_runs) % n_states, length), rng


def hidden(T, n_states=L, lengths=None):
    """Declare the hidden states."""
    prior = dshdp.DSHDP("hmm", n_states=n_states)
    return dshdp.HiddenStates("z", prior, lengths=lengths or [T])


def scale():
    """Two states, a Normal with a scale each: response times of 3 x 150 trials."""
    rng = np.random.default_rng(3)
    runs_of = [np.repeat(rng.integers(0, 2, 40), rng.geometric(0.1, 40))[:150] for _ in range(3)]
    z = np.concatenate(runs_of)
    y = np.where(z == 0, 5.5 + rng.gamma(2, 0.1, len(z)), 6.4 + rng.normal(0, 0.22, len(z)))
    z = hidden(len(y), lengths=[150] * 3)
    mu = pm.Normal("mu", 6.0, 1.0, dims="hmm_state")
    sigma = pm.HalfNormal("sigma", 0.5, dims="hmm_state")
    pm.Normal("y", mu[z], sigma[z], observed=y)
    return [mu, sigma]


def regression():
    """Switching regression with a scale per state, 300 points."""
    z, rng = runs(np.random.default_rng(3), 3, 12, 25)
    x = rng.normal(size=len(z))
    y = np.array([0.0, 1.0, -1.0])[z] + np.array([0.9, 0.3, -0.5])[z] * x
    y += np.array([0.2, 0.5, 0.3])[z] * rng.normal(size=len(z))
    z = hidden(len(y))
    a = pm.Normal("a", 0.0, 2.0, dims="hmm_state")
    b = pm.Normal("b", 0.0, 2.0, dims="hmm_state")
    sigma = pm.HalfNormal("sigma", 1.0, dims="hmm_state")
    pm.Normal("y", a[z] + b[z] * x, sigma[z], observed=y)
    return [a, b, sigma]


def earthquakes():
    """Earthquakes of magnitude 7 in each year, with LogNormal rates."""
    _, counts = dshdp.datasets.earthquakes()
    z = hidden(len(counts))
    rate = pm.LogNormal("rate", 3.0, 1.0, dims="hmm_state")
    pm.Poisson("y", rate[z], observed=counts)
    return [rate]


def student():
    """StudentT with location, scale and degrees of freedom of each state, 400 points."""
    z, rng = runs(np.random.default_rng(4), 3, 16, 25)
    y = np.array([-4.0, 0.0, 5.0])[z] + np.array([0.5, 1.0, 0.8])[z] * rng.standard_t(5.0, len(z))
    z = hidden(len(y))
    mu = pm.Normal("mu", 0.0, 5.0, dims="hmm_state")
    sigma = pm.HalfNormal("sigma", 2.0, dims="hmm_state")
    nu = pm.Gamma("nu", 2.0, 0.1, dims="hmm_state")
    pm.StudentT("y", nu=nu[z], mu=mu[z], sigma=sigma[z], observed=y)
    return [mu, sigma, nu]


def negative_binomial():
    """Negative binomial with mean and size of each state, 400 points."""
    z, rng = runs(np.random.default_rng(5), 3, 16, 25)
    mu, size = np.array([2.0, 15.0, 60.0])[z], np.array([3.0, 5.0, 10.0])[z]
    y = rng.poisson(rng.gamma(size, mu / size))
    z = hidden(len(y))
    mu = pm.LogNormal("mu", 2.5, 1.5, dims="hmm_state")
    alpha = pm.Gamma("alpha", 2.0, 0.3, dims="hmm_state")
    pm.NegativeBinomial("y", mu=mu[z], alpha=alpha[z], observed=y)
    return [mu, alpha]


def von_mises():
    """Directions with mean and concentration of each state, 400 points."""
    z, rng = runs(np.random.default_rng(6), 3, 16, 25)
    y = rng.vonmises(np.array([-2.0, 0.0, 2.0])[z], np.array([8.0, 4.0, 12.0])[z])
    z = hidden(len(y))
    mu = pm.VonMises("mu", 0.0, 0.01, dims="hmm_state")
    kappa = pm.Gamma("kappa", 2.0, 0.2, dims="hmm_state")
    pm.VonMises("y", mu[z], kappa[z], observed=y)
    return [kappa]


def gamma():
    """Gamma with shape and rate of each state, 400 points."""
    z, rng = runs(np.random.default_rng(7), 3, 16, 25)
    y = rng.gamma(np.array([1.5, 5.0, 20.0])[z], 1.0 / np.array([1.0, 1.0, 2.0])[z])
    z = hidden(len(y))
    shape = pm.LogNormal("shape", 1.0, 1.0, dims="hmm_state")
    rate = pm.LogNormal("rate", 0.0, 1.0, dims="hmm_state")
    pm.Gamma("y", shape[z], rate[z], observed=y)
    return [shape, rate]


def ordered():
    """Ratings of five levels: OrderedLogistic with a location of each state, cut points shared."""
    z, rng = runs(np.random.default_rng(8), 3, 16, 25)
    latent = np.array([-2.5, 0.0, 3.0])[z] + rng.logistic(size=len(z))
    y = np.searchsorted([-2.0, -0.5, 0.5, 2.0], latent)
    z = hidden(len(y))
    eta = pm.Normal("eta", 0.0, 3.0, dims="hmm_state")
    cut = pm.Normal(
        "cut", 0.0, 3.0, shape=4, transform=pm.distributions.transforms.ordered,
        initval=[-2.0, -1.0, 1.0, 2.0],
    )  # fmt: skip
    pm.OrderedLogistic("y", eta[z], cut, observed=y)
    return [eta]


def lkj():
    """MvNormal in three dimensions with an LKJ Cholesky factor of each state, L = 6."""
    z, rng = runs(np.random.default_rng(9), 3, 16, 25)
    means = np.array([[-2.0, 0.0, 1.0], [0.0, 2.0, 0.0], [2.0, -1.0, -1.0]])
    roots = [np.linalg.cholesky(0.3 * np.eye(3) + r) for r in (0.0, 0.2, 0.5)]
    y = means[z] + np.einsum("tij,tj->ti", np.array(roots)[z], rng.normal(size=(len(z), 3)))
    z = hidden(len(y), 6)
    mu = pm.Normal("mu", 0.0, 2.0, shape=(6, 3))
    factors = [
        pm.LKJCholeskyCov(f"factor_{k}", n=3, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0, shape=3),
                          compute_corr=False)
        for k in range(6)
    ]  # fmt: skip
    chol = pm.Deterministic("chol", pt.stack([pm.expand_packed_triangular(3, f) for f in factors]))
    pm.MvNormal("y", mu[z], chol=chol[z], observed=y)
    return [mu, chol]


def beta():
    """Proportions: Beta with mean and precision of each state, 400 points."""
    z, rng = runs(np.random.default_rng(10), 3, 16, 25)
    mean, nu = np.array([0.1, 0.5, 0.85])[z], np.array([10.0, 20.0, 15.0])[z]
    y = rng.beta(mean * nu, (1.0 - mean) * nu)
    z = hidden(len(y))
    mean = pm.Beta("mean", 1.0, 1.0, dims="hmm_state")
    nu = pm.Gamma("nu", 2.0, 0.1, dims="hmm_state")
    pm.Beta("y", mu=mean[z], nu=nu[z], observed=y)
    return [mean, nu]


def weibull():
    """Durations: Weibull with shape and scale of each state, 400 points."""
    z, rng = runs(np.random.default_rng(11), 3, 16, 25)
    y = np.array([1.0, 5.0, 20.0])[z] * rng.weibull(np.array([1.0, 3.0, 5.0])[z])
    z = hidden(len(y))
    alpha = pm.LogNormal("alpha", 0.5, 0.8, dims="hmm_state")
    scale = pm.LogNormal("scale", 1.5, 1.5, dims="hmm_state")
    pm.Weibull("y", alpha[z], scale[z], observed=y)
    return [alpha, scale]


def zero_inflated():
    """Zero-inflated Poisson with share and rate of each state, 400 points."""
    z, rng = runs(np.random.default_rng(12), 3, 16, 25)
    y = rng.poisson(np.array([3.0, 12.0, 40.0])[z]) * (rng.random(len(z)) < 0.8)
    z = hidden(len(y))
    psi = pm.Beta("psi", 2.0, 2.0, dims="hmm_state")
    rate = pm.LogNormal("rate", 2.5, 1.5, dims="hmm_state")
    pm.ZeroInflatedPoisson("y", psi=psi[z], mu=rate[z], observed=y)
    return [psi, rate]


def hierarchy():
    """Means with an unknown mean and spread, L = 20, three states in use."""
    z, rng = runs(np.random.default_rng(13), 3, 16, 25)
    y = np.array([-2.0, 1.0, 4.0])[z] + rng.normal(size=len(z))
    z = hidden(len(y), 20)
    mu0 = pm.Normal("mu0", 0.0, 5.0)
    tau = pm.HalfNormal("tau", 5.0)
    mu = pm.Normal("mu", mu0, tau, dims="hmm_state")
    pm.Normal("y", mu[z], 1.0, observed=y)
    return [mu]


def choices():
    """Choices: Bernoulli regression with four covariates, 100 sessions of 500 trials, L = 5."""
    # Of runs all of a length the posterior makes two states, whose stays together vary less.
    rng = np.random.default_rng(14)
    z = np.repeat(np.arange(1100) % 3, rng.geometric(0.02, 1100))[:50_000]
    X = np.column_stack([np.ones(len(z)), rng.normal(size=(len(z), 3))])
    b = np.array([[0.0, 3.0, 0.0, 0.0], [1.5, 0.5, 1.0, 0.0], [-1.5, 0.5, 0.0, 1.0]])
    y = rng.random(len(z)) < 1.0 / (1.0 + np.exp(-(X * b[z]).sum(axis=1)))
    z = hidden(len(y), 5, [500] * 100)
    b = pm.Normal("b", 0.0, 2.0, shape=(5, 4))
    pm.Bernoulli("y", logit_p=(X * b[z]).sum(axis=-1), observed=y.astype(int))
    return [b]


MODELS = {
    "scale": scale,
    "regression": regression,
    "earthquakes": earthquakes,
    "student": student,
    "negative-binomial": negative_binomial,
    "von-mises": von_mises,
    "gamma": gamma,
    "ordered": ordered,
    "lkj": lkj,
    "beta": beta,
    "weibull": weibull,
    "zero-inflated": zero_inflated,
    "hierarchy": hierarchy,
    "choices": choices,
}


def emission_steps(model, sampler):
    """Make the steps of a sampler, for all variables; None for the default."""
    if sampler == "default":
        return None
    transitions = [dshdp.WeakLimitFFBS([model["z"]]), dshdp.GridRhoStep([model["z"]])]
    owned = {v for step in transitions for v in step.vars}
    left = [v for v in model.value_vars if v not in owned]
    nuts = {"conditional": dshdp.ConditionalNUTS, "pymc": pm.NUTS}[sampler]
    return [*transitions, nuts(left)]


def quantities(posterior, states):
    """Label-free quantities by name, each of shape (chains, draws)."""
    z = posterior["z"].values.astype(int)
    out = {"occupied": np.array([[len(np.unique(path)) for path in chain] for chain in z], float)}
    for variable in states:
        x = posterior[variable.name].values
        L = x.shape[2]
        shares = (z[..., None, :] == np.arange(L)[:, None]).mean(axis=-1)
        x = np.einsum("cdk,cdk...->cd...", shares, x)
        x = x.reshape(*x.shape[:2], -1)
        out |= {
            variable.name + (f"[{i}]" if x.shape[2] > 1 else ""): x[..., i]
            for i in range(x.shape[2])
        }
    out |= {name: posterior[name].values for name in ("mu0", "tau", "cut") if name in posterior}
    return {name: x for name, x in out.items() if x.ndim == 2}


def run(name, seed, args):
    """Rows of the table for one model and one seed."""
    with pm.Model() as model:
        states = MODELS[name]()
        step = emission_steps(model, args.sampler)
        started = time.perf_counter()
        found = pm.sample(
            args.draws, tune=args.tune, chains=args.chains, cores=args.cores, random_seed=seed,
            step=step, progressbar=False, compute_convergence_checks=False,
        )  # fmt: skip
    seconds = time.perf_counter() - started
    stats = found["sample_stats"]
    first = [name, seed, "none", "", "", f"{seconds:.0f}"]
    if "diverging" in stats:
        first[2] = int(stats["diverging"].values.sum())
        first[3] = f"{float(stats['acceptance_rate'].mean()):.2f}"
        first[4] = f"{float(stats['n_steps'].mean()):.1f}"
    for quantity, x in quantities(found["posterior"], states).items():
        r_hat, ess = float(az.rhat(x)), float(az.ess(x))
        yield (*first, quantity, f"{x.mean():.3f}", f"{r_hat:.3f}", f"{ess:.0f}")
        first = [""] * len(first)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--draws", type=int, default=1000, help="of each chain")
    parser.add_argument("--tune", type=int, default=1000)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--cores", type=int, default=None)
    parser.add_argument(
        "--sampler",
        choices=("default", "conditional", "pymc"),
        default="default",
        help="of the emission parameters: what pm.sample() chooses, ConditionalNUTS, or pm.NUTS",
    )
    args = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    for name in args.models:
        rows = [row for seed in args.seeds for row in run(name, seed, args)]
        title = f"{MODELS[name].__doc__} {args.chains} chains of {args.tune} + {args.draws}."
        table(title, rows, COLUMNS)


if __name__ == "__main__":
    main()
