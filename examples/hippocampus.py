"""Hippocampal place cells: the paper's Poisson model with 200 states and 100 neurons.

    python examples/hippocampus.py path/to/sample_trials.npz

The file is the authors' sample of the hc-11 data: spike counts in bins of 100 ms, an array of
shape (trials, frames, cells). The rates are recognised as conjugate to the counts, so that they
are drawn exactly; their hyperparameter, one per cell, stays with PyMC's NUTS. Prints what was
found and saves a picture beside this file.
"""

import argparse
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm

import pymc_dshdp as dshdp

HERE = Path(__file__).parent
N_STATES = 200


def load(path):
    """Read the counts, (trials, frames, cells), from the file's array of that many dimensions."""
    with np.load(path) as arrays:
        found = [arrays[name] for name in arrays.files if arrays[name].ndim == 3]
    counts = [a for a in found if a.min() >= 0 and np.all(a == np.floor(a))]
    if not counts:
        raise SystemExit(f"{path} has no array of counts of shape (trials, frames, cells)")
    return counts[0].astype("int64")


def declare(counts, n_states=N_STATES):
    """Declare the model of section 5: gamma rates with a gamma hyperparameter per cell."""
    trials, frames, cells = counts.shape
    coords = {
        "state": np.arange(n_states),
        "trial": np.arange(trials),
        "frame": np.arange(frames),
        "cell": np.arange(cells),
    }
    with pm.Model(coords=coords) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, dims=("trial", "frame"))
        b = pm.Gamma("b", 1.0, 1.0, dims="cell")
        rate = pm.Gamma("rate", 1.0, b, dims=("state", "cell"))
        pm.Poisson("counts", rate[z], observed=counts, dims=("trial", "frame", "cell"))
    return model


def picture(z, counts, path):
    """Draw the last states of the first trial above its counts."""
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 5), sharex=True, height_ratios=[1, 4])
    labels = np.unique(z, return_inverse=True)[1]
    top.imshow(labels.reshape(z.shape)[:1], aspect="auto", cmap="tab20", interpolation="nearest")
    top.set_yticks([])
    top.set_title("hidden states of the last draw")
    bottom.imshow(np.sqrt(counts[0].T), aspect="auto", cmap="Greys", interpolation="nearest")
    bottom.set_xlabel("frame (100 ms)")
    bottom.set_ylabel("cell")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description="DS-HDP-HMM of hippocampal spike counts")
    parser.add_argument("path", type=Path)
    parser.add_argument("--draws", type=int, default=150)
    parser.add_argument("--tune", type=int, default=150)
    parser.add_argument("--states", type=int, default=N_STATES)
    arguments = parser.parse_args()

    counts = load(arguments.path)
    print("{} trials of {} frames, {} cells".format(*counts.shape))
    model = declare(counts, arguments.states)
    start = time.perf_counter()
    idata = pm.sample(
        arguments.draws,
        tune=arguments.tune,
        chains=1,
        cores=1,
        random_seed=1,
        model=model,
        progressbar=False,
        compute_convergence_checks=False,
        compile_kwargs={"mode": "NUMBA"},
    )
    seconds = time.perf_counter() - start
    z = np.asarray(idata.posterior["z"])[0]
    occupied = np.array([len(np.unique(draw)) for draw in z])
    stays = (np.diff(z, axis=-1) == 0).mean()
    log_likelihood = np.asarray(idata.sample_stats["log_marginal_likelihood"])[0]
    iterations = arguments.draws + arguments.tune
    print(f"{iterations} iterations, with compilation, in {seconds:.0f} s")
    print(f"states visited: {occupied.mean():.1f} (from {occupied.min()} to {occupied.max()})")
    print(f"share of frames that keep their state: {stays:.3f}")
    print(f"log p(counts | rates, transitions): {log_likelihood.mean():.0f} on average")
    for name in ("alpha", "gamma", "phi", "eta"):
        draws = np.asarray(idata.posterior[f"hmm_{name}"])
        print(f"hmm_{name}: {draws.mean():.3g} +- {draws.std():.2g}")
    picture(z[-1], counts, HERE / "hippocampus.png")
    print(f"saved {HERE / 'hippocampus.png'}")


if __name__ == "__main__":
    main()
