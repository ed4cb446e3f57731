"""Effective draws per second against NUTS with the states summed out: python -m benchmarks.nuts.

The same model twice, one chain each: 400 Gaussian observations of four states, ten states in the
weak limit, every hyperparameter unknown. Here by ``pm.sample()``; there by numpyro's NUTS on the
density with the paths summed out by the forward algorithm, and paths drawn afterwards from each
draw. Needs ``pip install numpyro``. Compilation and tuning are left out of the times.
"""

import logging
import time
import warnings

import arviz as az
import numpy as np
import pymc as pm

import pymc_dshdp as dshdp
from benchmarks.timing import only_help, table
from benchmarks.workloads import path
from pymc_dshdp.kernels.chain import NO_INDEX, without_persistence
from pymc_dshdp.kernels.counts import occupied_states, path_counts
from pymc_dshdp.kernels.messages import forward_filter_backward_sample

T, L, DRAWS, TUNE = 400, 10, 500, 500
QUANTITIES = ("log alpha", "occupied states", "log-likelihood")


def data():
    """Four states apart by three standard deviations that last 10 times on average."""
    rng = np.random.default_rng(5)
    return 3.0 * path(rng, T, 4, 0.9) + rng.normal(size=T)


def ours(y):
    """(quantities of the draws, seconds) of ``pm.sample()``."""
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=L), length=T)
        mean = pm.Normal("mean", 4.5, 4.0, shape=L)
        pm.Normal("y", mean[z], 1.0, observed=y)
    stamps = []
    idata = pm.sample(
        10 * DRAWS, tune=TUNE, chains=1, cores=1, random_seed=1, model=model, progressbar=False,
        compute_convergence_checks=False,
        callback=lambda trace, draw: stamps.append(time.perf_counter()),
    )  # fmt: skip
    draws = idata["posterior"].isel(chain=0)
    found = {
        "log alpha": np.log(draws["hmm_alpha"].values),
        "occupied states": np.array([np.unique(z).size for z in draws["z"].values]),
        "log-likelihood": idata["sample_stats"]["log_marginal_likelihood"].values[0],
    }
    return found, stamps[-1] - stamps[TUNE], 0


def marginalised(y):
    """(quantities of the draws, seconds) of NUTS on the density with the paths summed out."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from jax.scipy.special import logsumexp
    from numpyro.infer import MCMC, NUTS

    numpyro.enable_x64()

    def model(y):
        gamma = numpyro.sample("gamma", dist.Gamma(2.0, 1.0))
        alpha = numpyro.sample("alpha", dist.Gamma(1.0, 0.01))
        phi = numpyro.sample("phi", dist.Uniform(0.0, 1.0))
        eta = numpyro.sample("eta", dist.Uniform(0.0, 2.0))
        beta = numpyro.sample("beta", dist.Dirichlet(jnp.full(L, gamma / L)))
        start = numpyro.sample("pi_init", dist.Dirichlet(alpha * beta))
        with numpyro.plate("state", L):
            rows = numpyro.sample("pi_bar", dist.Dirichlet(alpha * beta))
            kappa = numpyro.sample("kappa", dist.Beta(phi * eta**-3, (1.0 - phi) * eta**-3))
            mean = numpyro.sample("mean", dist.Normal(4.5, 4.0))
        P = numpyro.deterministic("P", jnp.diag(kappa) + (1.0 - kappa)[:, None] * rows)
        table = dist.Normal(mean, 1.0).log_prob(y[:, None])

        def step(filtered, row):
            return logsumexp(filtered[:, None] + jnp.log(P), axis=0) + row, None

        last, _ = jax.lax.scan(step, jnp.log(start) + table[0], table[1:])
        numpyro.factor("y", numpyro.deterministic("log_likelihood", logsumexp(last)))

    mcmc = MCMC(NUTS(model), num_warmup=TUNE, num_samples=DRAWS, progress_bar=False)
    mcmc.warmup(jax.random.PRNGKey(1), jnp.asarray(y))  # compiles, too
    started = time.perf_counter()
    mcmc.run(jax.random.PRNGKey(2), jnp.asarray(y), extra_fields=("diverging",))
    seconds = time.perf_counter() - started
    draws = {name: np.asarray(x) for name, x in mcmc.get_samples().items()}
    rng, occupied = np.random.default_rng(1), []
    for mean, start, P in zip(draws["mean"], draws["pi_init"], draws["P"], strict=True):
        rows = -0.5 * (y[:, None] - mean) ** 2
        states = forward_filter_backward_sample(
            rows, start, without_persistence(P), np.array([T]), rng.random(T)
        ).states
        counts = np.zeros((L + 1, L), np.int64)
        path_counts(states, np.array([T]), NO_INDEX, counts)
        occupied.append(occupied_states(counts))
    found = {
        "log alpha": np.log(draws["alpha"]),
        "occupied states": np.array(occupied),
        "log-likelihood": draws["log_likelihood"],
    }
    return found, seconds, int(mcmc.get_extra_fields()["diverging"].sum())


def main():
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    y, rows, rates = data(), [], {}
    for name, run in (("pm.sample()", ours), ("NUTS, states summed out", marginalised)):
        found, seconds, divergences = run(y)
        for quantity in QUANTITIES:
            x = found[quantity].astype(float)
            ess = float(az.ess(x[None]))
            rates[name, quantity] = ess / seconds
            rows.append(
                (name, quantity, len(x), f"{seconds:.1f}", divergences, f"{x.mean():.2f}",
                 f"{x.std():.2f}", f"{ess:.0f}", f"{ess / seconds:.3g}")
            )  # fmt: skip
    table(
        "Effective draws per second",
        rows,
        ("sampler", "quantity", "draws", "s", "divergent", "mean", "sd", "ESS", "ESS / s"),
    )
    first, second = dict.fromkeys(name for name, _ in rates)
    for quantity in QUANTITIES:
        print(f"  {quantity}: {rates[first, quantity] / rates[second, quantity]:.0f} times")


if __name__ == "__main__":
    only_help(__doc__)
    main()
