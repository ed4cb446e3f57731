"""How fast do chains forget within a mode? python -m benchmarks.mixing runs simulated chains.

Three states of stays of 33 times, ten labels, and every hyperparameter unknown: the effective
draws of the number of occupied states and of the hyperparameters that two chains of 1,000 draws
have, the share of draws in three states, CPU seconds, and what ``check`` says. ``--plain`` runs the
same beside it without splits, merges and pilots.
"""

import argparse
import logging
import time
import warnings

import arviz as az
import numpy as np
import pymc as pm

import pymc_dshdp as dshdp
from benchmarks.timing import table

L = 10
QUANTITIES = "phi", "eta", "alpha", "gamma"
COLUMNS = (
    "model", "T", "seed", "moves", "occupied", "in three", "n_occupied", *QUANTITIES, "CPU s",
    "check",
)  # fmt: skip


def path(rng, T):
    """Make a path of three states."""
    P = np.full((3, 3), 0.015) + 0.955 * np.eye(3)
    z = np.zeros(T, int)
    for t in range(1, T):
        z[t] = rng.choice(3, p=P[z[t - 1]])
    return z


def counts(rng, z, state):
    """Declare counts with a rate of each state."""
    y = rng.poisson(np.array([3.0, 12.0, 30.0])[z])
    rate = pm.Gamma("rate", 2.0, 0.1, dims="hmm_state")
    pm.Poisson("y", rate[state], observed=y)


def scales(rng, z, state):
    """Declare a Normal with a mean and a HalfNormal scale of each state."""
    y = rng.normal(np.array([-2.0, 0.0, 3.0])[z], np.array([1.0, 0.5, 1.0])[z])
    mu = pm.Normal("mu", 0.0, 3.0, dims="hmm_state")
    sigma = pm.HalfNormal("sigma", 2.0, dims="hmm_state")
    pm.Normal("y", mu[state], sigma[state], observed=y)


def regression(rng, z, state):
    """Declare a line of each state, with a scale of its own."""
    x = rng.normal(size=len(z))
    y = np.array([0.0, 1.0, -1.0])[z] + np.array([0.9, 0.3, -0.5])[z] * x
    y += np.array([0.2, 0.5, 0.3])[z] * rng.normal(size=len(z))
    a = pm.Normal("a", 0.0, 2.0, dims="hmm_state")
    b = pm.Normal("b", 0.0, 2.0, dims="hmm_state")
    sigma = pm.HalfNormal("sigma", 1.0, dims="hmm_state")
    pm.Normal("y", a[state] + b[state] * x, sigma[state], observed=y)


def student(rng, z, state):
    """Declare a StudentT with location, scale and degrees of freedom of each state."""
    y = np.array([-4.0, 0.0, 5.0])[z] + np.array([0.5, 1.0, 0.8])[z] * rng.standard_t(5.0, len(z))
    mu = pm.Normal("mu", 0.0, 5.0, dims="hmm_state")
    sigma = pm.HalfNormal("sigma", 2.0, dims="hmm_state")
    nu = pm.Gamma("nu", 2.0, 0.1, dims="hmm_state")
    pm.StudentT("y", nu=nu[state], mu=mu[state], sigma=sigma[state], observed=y)


MODELS = {f.__name__: f for f in (counts, scales, regression, student)}


def measure(name, T, seed, draws, plain):
    """Sample a model and describe the run: one row of the table."""
    rng = np.random.default_rng(seed)
    z = path(rng, T)
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=L)
        state = dshdp.HiddenStates("z", prior, lengths=[T])
        MODELS[name](rng, z, state)
        step = [dshdp.WeakLimitFFBS([state], split_merge=False, pilots=False)] if plain else None
        began = time.process_time()
        idata = pm.sample(
            draws, tune=draws, chains=2, cores=1, step=step, random_seed=seed, progressbar=False
        )
        seconds = time.process_time() - began
        verdict = str(dshdp.check(idata, model=model)).split("\n", 1)[0]
    occupied = idata.sample_stats["n_occupied"].values
    found = [occupied, *(idata.posterior[f"hmm_{q}"].values for q in QUANTITIES)]
    effective = [f"{float(az.ess(np.asarray(values, float))):.0f}" for values in found]
    mean = "/".join(f"{x:.2f}" for x in occupied.mean(axis=1))
    row = name, T, seed, "no" if plain else "yes", mean, f"{(occupied == 3).mean():.2f}"
    return *row, *effective, f"{seconds:.0f}", verdict


def main():
    """Print the table, a row as soon as it is there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--times", type=int, nargs="+", default=[400, 2_000])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--plain", action="store_true", help="beside it without the moves")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    rows = []
    for name in args.models:
        for T in args.times:
            for seed in range(args.seeds):
                for plain in (False, True) if args.plain else (False,):
                    rows.append(measure(name, T, seed, args.draws, plain))
                    print(*rows[-1], flush=True)
    table("Mixing within a mode", rows, COLUMNS)


if __name__ == "__main__":
    main()
