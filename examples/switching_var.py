"""Behaviour-like data: a switching vector autoregression that finds planted syllables.

Simulates 100 trials of 189 frames in 9 dimensions, as long as the paper's mouse behaviour video,
from 8 damped rotations that persist for some frames; fits the autoregressive DS-HDP-HMM with
L = 40; matches the states found to those planted; saves a picture beside this file.
"""

import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from scipy.linalg import expm

import pymc_dshdp as dshdp

HERE = Path(__file__).parent
TRIALS, FRAMES, DIMENSIONS, PLANTED, N_STATES = 100, 189, 9, 8, 40


def simulate(rng, trials=TRIALS, frames=FRAMES, persistence=(0.90, 0.97), offset=0.5):
    """Planted states (trials, frames) and data (trials, frames, dimensions).

    ``persistence`` holds the least and the largest self-persistence of a state, ``offset`` the
    spread of the states' intercepts.
    """
    A = []
    for _ in range(PLANTED):
        skew = rng.normal(0.0, 0.5, (DIMENSIONS, DIMENSIONS))
        A.append(0.95 * expm(skew - skew.T))
    offsets = rng.normal(0.0, offset, (PLANTED, DIMENSIONS))
    persistence = rng.uniform(*persistence, PLANTED)
    z = np.empty((trials, frames), int)
    y = np.empty((trials, frames, DIMENSIONS))
    for n in range(trials):
        k, x = rng.integers(PLANTED), rng.normal(0.0, 1.0, DIMENSIONS)
        for t in range(frames):
            if t > 0 and rng.random() > persistence[k]:
                k = (k + rng.integers(1, PLANTED)) % PLANTED
            x = A[k] @ x + offsets[k] + 0.5 * rng.standard_normal(DIMENSIONS)
            z[n, t], y[n, t] = k, x
    return z, y


def declare(y, n_states=N_STATES):
    """Declare the model with the paper's defaults for behavioural video."""
    coords = {"state": np.arange(n_states), "pc": np.arange(y.shape[-1])}
    coords |= {"trial": np.arange(y.shape[0]), "frame": np.arange(y.shape[1])}
    with pm.Model(coords=coords) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, dims=("trial", "frame"))
        A, Sigma = dshdp.MatrixNormalInverseWishart(
            "ar", data=y, intercept=True, dims=("state", "pc")
        )
        dshdp.SwitchingVAR("y", A, Sigma, z, observed=y, intercept=True)
    return model


def picture(found, planted, path, trials=20):
    """Draw planted and found states of some trials side by side."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
    for axis, z, title in zip(axes, (planted, found), ("planted", "found"), strict=True):
        axis.imshow(z[:trials], aspect="auto", cmap="tab20", interpolation="nearest", vmax=19)
        axis.set_title(title)
        axis.set_xlabel("frame")
    axes[0].set_ylabel("trial")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main():
    rng = np.random.default_rng(7)
    planted, y = simulate(rng)
    model = declare(y)
    start = time.perf_counter()
    idata = pm.sample(
        200,
        tune=200,
        chains=1,
        cores=1,
        random_seed=1,
        model=model,
        progressbar=False,
        compute_convergence_checks=False,
        compile_kwargs={"mode": "NUMBA"},
    )
    print(f"400 iterations, with compilation, in {time.perf_counter() - start:.0f} s")
    z = np.asarray(idata.posterior["z"])[0].astype(int)
    occupied = [len(np.unique(draw)) for draw in z]
    print(f"states visited: {np.mean(occupied):.1f} on average; {PLANTED} were planted")
    truth = planted.ravel()
    hamming = dshdp.hamming_distance(z[::20].reshape(-1, truth.size), truth)
    print(f"Hamming distance to the planted states: {hamming.mean():.3f}")
    found = dshdp.align_to(z[-1].ravel(), truth).reshape(planted.shape)
    picture(found, planted, HERE / "switching_var.png")
    print(f"saved {HERE / 'switching_var.png'}")


if __name__ == "__main__":
    main()
