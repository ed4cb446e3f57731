"""Hippocampal place cells: three models of the paper's Poisson data, and a map of the states.

    python examples/hippocampus.py path/to/i01_maze15_2d_data_100ms_sample_trials.npz

The file is the authors' sample of the hc-11 data: spike counts in bins of 100 ms, ``yt_train``
and ``yt_test`` of shape (trials, frames, cells), and the position of the rat in cm, ``loc_train``
of shape (trials, frames, 2). Fits the disentangled, the sticky and the plain HDP-HMM with
``WeakLimitFFBS``; prints the log-likelihood of the test trials, the number of states and the
medians of the hyperparameters; saves the trajectory and the places of the six commonest states.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from three_models import add_options, fit_all

import pymc_dshdp as dshdp
from pymc_dshdp.plots.style import COLOURS

HERE = Path(__file__).parent
SHOWN = 6


def load(path):
    """Read training counts, test counts and training positions."""
    with np.load(path) as arrays:
        missing = {"yt_train", "yt_test", "loc_train"} - set(arrays.files)
        if missing:
            raise SystemExit(f"{path} lacks the arrays {sorted(missing)}; it has {arrays.files}")
        train, test, positions = arrays["yt_train"], arrays["yt_test"], arrays["loc_train"]
    for name, counts in (("yt_train", train), ("yt_test", test)):
        if counts.ndim != 3 or np.any(counts != np.floor(counts)) or counts.min() < 0:
            raise SystemExit(
                f"{name} must hold counts, (trials, frames, cells), received {counts.dtype} of "
                f"shape {counts.shape}"
            )
    if positions.shape != (*train.shape[:2], 2):
        raise SystemExit(
            f"loc_train must have shape {(*train.shape[:2], 2)}, received {positions.shape}"
        )
    return train.astype("int64"), test.astype("int64"), positions


def declare(prior, counts, n_states):
    """Declare the model of section 6.2: gamma rates with a gamma hyperparameter per cell."""
    trials, frames, cells = counts.shape
    coords = {
        "state": np.arange(n_states),
        "trial": np.arange(trials),
        "frame": np.arange(frames),
        "cell": np.arange(cells),
    }
    with pm.Model(coords=coords) as model:
        hmm = prior("hmm", dims="state")
        z = dshdp.HiddenStates("z", hmm, dims=("trial", "frame"))
        b = pm.Gamma("b", 1.0, 1.0, dims="cell")
        rate = pm.Gamma("rate", 1.0, b, dims=("state", "cell"))
        pm.Poisson("counts", rate[z], observed=counts, dims=("trial", "frame", "cell"))
    return model


def place_map(z, positions, path):
    """Draw the trajectory, and where the rat was in each of the commonest states."""
    labels, frames = np.unique(z, return_counts=True)
    common = labels[np.argsort(-frames, kind="stable")][:SHOWN]
    fig, axes = plt.subplots(2, 4, figsize=(13, 6), sharex=True, sharey=True, layout="constrained")
    panels = [axes[0, 0], *axes[:, 1:].flat]
    for trajectory in positions:
        axes[0, 0].plot(*trajectory.T, color="0.2", lw=0.8)
        for axis in panels[1:]:
            axis.plot(*trajectory.T, color="0.8", lw=0.6, zorder=0)
    panels[0].set_title("trajectory")
    for axis, state, colour in zip(panels[1:], common, COLOURS, strict=False):
        axis.scatter(*positions[z == state].T, s=9, color=colour)
        axis.set_title(f"{(z == state).mean():.1%} of the frames")
        axes[1, 0].scatter(*positions[z == state].T, s=9, color=colour)
    axes[1, 0].set_title(f"the {len(common)} commonest states")
    for axis in axes.flat:
        axis.set_aspect("equal")
    fig.supxlabel("x (cm)")
    fig.supylabel("y (cm)")
    fig.savefig(path, dpi=110)
    plt.close(fig)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="the paper: --chains 7 --tune 11000 --draws 4000, on 8 training and 8 test trials",
    )
    parser.add_argument("path", type=Path)
    add_options(parser, n_states=200, draws=300, tune=300)
    parser.add_argument("--out", type=Path, default=HERE / "hippocampus.png")
    options = parser.parse_args()
    train, test, positions = load(options.path)
    print(
        "{} training trials of {} frames, {} cells; {} test trials".format(*train.shape, len(test))
    )
    fits = fit_all(declare, train, test, options)
    place_map(fits["DS"].idata.posterior["z"].values[0, -1], positions, options.out)
    print(f"saved {options.out}")


if __name__ == "__main__":
    main()
