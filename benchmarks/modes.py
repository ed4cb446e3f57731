"""Do chains arrive? python -m benchmarks.modes runs chains from several seeds on known data.

For each chain: the evidence of its mode (the mean over the draws of ``log_joint``, data and path
with everything else integrated out, and of the entropy of the path, as ``check`` ranks chains), the
joint alone, the number of occupied states, the share of times labelled otherwise than in the true
path where there is one, and seconds. For each data set: how far apart the chains' evidence lies,
and the share of times that two chains label differently. Beside it the same without pilots, splits
and merges (``--plain``). Data: motion capture and the hippocampus sample (``--data DIR`` with
``mocap6.npz`` and ``i01_maze15_2d_data_100ms_sample_trials.npz``), the authors' two simulated
series (there too), letters that are read forward and backward, started from one cluster a letter,
recordings one of whose states alternates between two regimes, counts whose stays are all of the
same length, three models whose scales have a half-normal prior each: normal, a regression, and
three columns; and counts, levels and choices, which depend on the same states.
"""

import argparse
import logging
import time
import warnings
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pymc as pm

import pymc_dshdp as dshdp
from benchmarks.timing import table
from pymc_dshdp.analysis.path_entropy import statistics_with_entropy
from pymc_dshdp.steps import WeakLimitFFBS


class Chain(NamedTuple):
    """What is told of a chain."""

    evidence: float
    joint: float
    states: float
    path: np.ndarray
    seconds: float


class Problem(NamedTuple):
    """A model, its true path if there is one, and the path to start from if it is given."""

    model: pm.Model
    truth: np.ndarray | None
    start: np.ndarray | None = None


def mocap(directory):
    """Six sequences of motion capture, 2058 frames of 12 angles, 12 labelled actions."""
    with np.load(directory / "mocap6.npz", allow_pickle=False) as arrays:
        y, truth, ends = arrays["X"], arrays["TrueZ"], arrays["doc_range"]
    return Problem(autoregression((y - y.mean(axis=0)) / y.std(axis=0), np.diff(ends), 40), truth)


def autoregression(y, lengths, n_states):
    """Declare an autoregression with the scale of the data as its prior."""
    coords = {"state": np.arange(n_states), "channel": np.arange(y.shape[1])}
    with pm.Model(coords=coords) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, lengths=list(lengths))
        S0 = 0.75 * np.cov(y.T, bias=True).reshape(y.shape[1], -1)
        A, Sigma = dshdp.MatrixNormalInverseWishart("ar", S0=S0, dims=("state", "channel"))
        dshdp.SwitchingVAR("y", A, Sigma, z, observed=y)
    return model


def hippocampus(directory):
    """Two trials of 500 bins and 100 place cells."""
    with np.load(directory / "i01_maze15_2d_data_100ms_sample_trials.npz") as arrays:
        counts = arrays["yt_train"].astype("int64")
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=60)
        z = dshdp.HiddenStates("z", prior, shape=counts.shape[:2])
        rate = pm.Gamma("rate", 1.0, 1.0, shape=(60, counts.shape[2]))
        pm.Poisson("y", rate[z], observed=counts)
    return Problem(model, None)


def gaussian(y, n_states, lengths=None, start=None):
    """Declare Gaussian states of known spread."""
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=n_states)
        lengths = lengths or [len(y)]
        z = dshdp.HiddenStates("z", prior, lengths=lengths, initial_states=start)
        mean = pm.Normal("mean", y.mean(), 2.0 * y.std(), shape=n_states)
        pm.Normal("y", mean[z], 0.5, observed=y)
    return model


def series(directory):
    """Read the authors' Gaussian series of 8 states."""
    with np.load(directory / "fix_8states_gaussian_same_trans_diff_stick.npz") as arrays:
        return Problem(gaussian(arrays["yt"], 20), arrays["zt"])


def counted(directory):
    """Read the authors' multinomial series of 8 states."""
    with np.load(directory / "fix_8states_multinomial_same_trans_diff_stick.npz") as arrays:
        counts, truth = arrays["yt"].astype("int64"), arrays["zt"]
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=20), length=len(counts))
        p = pm.Dirichlet("p", np.ones(counts.shape[1]), shape=(20, counts.shape[1]))
        pm.Multinomial("y", counts[0].sum(), p[z], observed=counts)
    return Problem(model, truth)


def letters(directory):
    """ABCDEFEDCB over and over: ten states that emit six values; B going up is not B going down."""
    rng = np.random.default_rng(1)
    truth = np.tile(np.arange(10), 60)
    letter = np.minimum(truth, 10 - truth)
    y = 3.0 * letter + rng.normal(0.0, 0.5, truth.size)
    return Problem(gaussian(y, 20, start=letter), truth)


def alternation(directory):
    """Two slow regimes, and one that turns one way and the other from frame to frame."""
    rng = np.random.default_rng(2)
    truth = np.repeat(rng.integers(0, 3, 60), rng.integers(20, 60, 60))
    fast = np.cumsum(truth == 2) % 2
    truth = np.where(truth == 2, 2 + fast, truth)
    angles = np.array([0.15, -0.5, 1.2, -1.2])
    y = np.zeros((truth.size, 2))
    for t in range(1, truth.size):
        a = angles[truth[t]]
        R = 0.97 * np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
        y[t] = R @ y[t - 1] + rng.normal(0.0, 0.3, 2)
    y = (y - y.mean(axis=0)) / y.std(axis=0)
    return Problem(autoregression(y, [truth.size], 20), truth)


def stays(directory):
    """Three rates of 10,000 counts, each for exactly 20 times: no geometric dwell time fits.

    States alike that are passed one after the other do, and nobody knows where one ends.
    """
    rng = np.random.default_rng(1)
    truth = np.repeat(np.arange(500) % 3, 20)
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=12), length=truth.size)
        rate = pm.Gamma("rate", 2.0, 0.1, shape=12)
        pm.Poisson("y", rate[z], observed=rng.poisson(np.array([2.0, 12.0, 40.0])[truth]))
    return Problem(model, None)


def scales(directory):
    """Eight states of 3,000 numbers: two means, four scales, of a half-normal prior each."""
    rng = np.random.default_rng(3)
    truth = np.repeat(rng.integers(0, 8, 100), 30)
    y = rng.normal(2.0 * (truth % 2), 0.15 * 3.0 ** (truth // 2))
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=20), length=truth.size)
        mean, sigma = pm.Normal("mean", 0.0, 5.0, shape=20), pm.HalfNormal("sigma", 3.0, shape=20)
        pm.Normal("y", mean[z], sigma[z], observed=y)
    return Problem(model, truth)


def regression(directory):
    """Five lines of 2,000 numbers that cross, with a half-normal scale each."""
    rng = np.random.default_rng(4)
    truth = np.repeat(rng.integers(0, 5, 80), 25)
    x = rng.normal(size=truth.size)
    y = 0.8 * (truth - 2.0) * x + rng.normal(0.0, 0.2 + 0.1 * truth)
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=15), length=truth.size)
        intercept, slope = pm.Normal("a", 0.0, 2.0, shape=15), pm.Normal("b", 0.0, 2.0, shape=15)
        sigma = pm.HalfNormal("sigma", 1.0, shape=15)
        pm.Normal("y", intercept[z] + slope[z] * x, sigma[z], observed=y)
    return Problem(model, truth)


def columns(directory):
    """Three columns of 2,000 times, a half-normal scale each; of nine states two alternate."""
    rng = np.random.default_rng(5)
    truth = np.repeat(rng.integers(0, 8, 100), 20)
    truth = np.where(truth == 7, 7 + np.cumsum(truth == 7) % 2, truth)
    means, spreads = rng.normal(0.0, 0.8, (9, 3)), rng.uniform(0.4, 1.2, (9, 3))
    spreads[8], means[8] = spreads[7], means[7] + [1.5, 0.0, 0.0]
    y = rng.normal(means[truth], spreads[truth])
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=20), length=truth.size)
        mean = pm.Normal("mean", 0.0, 2.0, shape=(20, 3))
        sigma = pm.HalfNormal("sigma", 1.0, shape=(20, 3))
        pm.Normal("y", mean[z], sigma[z], observed=y)
    return Problem(model, truth)


def likelihoods(directory):
    """Tell eight states by counts, levels and choices at 2,000 times, each in two values."""
    rng = np.random.default_rng(6)
    truth = np.repeat(rng.integers(0, 8, 100), 20)
    counts = rng.poisson(np.where(truth % 2, 8.0, 3.0))
    levels = rng.normal(np.where(truth // 2 % 2, 0.7, -0.7), 1.0)
    choices = rng.binomial(1, np.where(truth // 4, 0.9, 0.2))
    with pm.Model() as model:
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", n_states=20), length=truth.size)
        rate, p = pm.Gamma("rate", 1.0, 0.1, shape=20), pm.Beta("p", 1.0, 1.0, shape=20)
        mean, sigma = pm.Normal("mean", 0.0, 2.0, shape=20), pm.HalfNormal("sigma", 2.0, shape=20)
        pm.Poisson("counts", rate[z], observed=counts)
        pm.Normal("levels", mean[z], sigma[z], observed=levels)
        pm.Bernoulli("choices", p[z], observed=choices)
    return Problem(model, truth)


DATA = {
    "mocap": mocap,
    "hippocampus": hippocampus,
    "gaussian": series,
    "multinomial": counted,
    "letters": letters,
    "alternation": alternation,
    "stays": stays,
    "scales": scales,
    "regression": regression,
    "columns": columns,
    "likelihoods": likelihoods,
}


def run(problem, seed, tune, draws, plain):
    """Run one chain."""
    with problem.model:
        z = problem.model["z"]
        steps = [WeakLimitFFBS([z], pilots=not plain, split_merge=not plain)]
        began = time.perf_counter()
        idata = pm.sample(
            draws, tune=tune, chains=1, cores=1, random_seed=seed, step=steps, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    seconds = time.perf_counter() - began
    stats = statistics_with_entropy(idata, problem.model)
    return Chain(
        float((stats["log_joint"] + stats["path_entropy"]).mean()),
        float(stats["log_joint"].mean()),
        float(stats["n_occupied"].mean()),
        np.ravel(idata["posterior"]["z"].values[0, -1]),
        seconds,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(DATA)}")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--tune", type=int, default=300)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--plain", action="store_true", help="the same without the moves, beside")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(DATA))
    if unknown:
        parser.error(f"no data named {', '.join(unknown)}: names are {', '.join(DATA)}")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    for name in options.names or DATA:
        try:
            problem = DATA[name](options.data)
        except FileNotFoundError as error:
            print(f"{name}: passed over, {error.filename} is not there")
            continue
        for plain in (False, True) if options.plain else (False,):
            chains = [
                run(problem, seed, options.tune, options.draws, plain)
                for seed in range(1, options.seeds + 1)
            ]
            report(name, problem, chains, plain)


def report(name, problem, chains, plain):
    """Print the chains of one data set."""
    rows = []
    for seed, chain in enumerate(chains, 1):
        wrong = ""
        if problem.truth is not None:
            wrong = f"{float(dshdp.hamming_distance(chain.path, problem.truth)):.3f}"
        numbers = (chain.evidence, chain.joint, chain.states)
        rows.append((str(seed), *(f"{x:.1f}" for x in numbers), wrong, f"{chain.seconds:.1f}"))
    title = f"modes, {name}{', without the moves' if plain else ''}"
    table(title, rows, ("seed", "evidence", "joint", "states", "Hamming", "s"))
    found = [chain.evidence for chain in chains]
    apart = [float(dshdp.hamming_distance(a.path, b.path)) for a, b in combinations(chains, 2)]
    if apart:
        print(
            f"evidence {min(found):.1f} to {max(found):.1f}; two chains differ in "
            f"{min(apart):.3f} to {max(apart):.3f} of the times",
            flush=True,
        )


if __name__ == "__main__":
    main()
