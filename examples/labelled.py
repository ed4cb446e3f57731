"""Partly labelled video: do a dozen labels name the behaviours, and what did nobody label?

    python examples/labelled.py

Two features of 600 frames are simulated from four behaviours. Somebody labelled four frames of
each of the first three; the fourth has no label. Known frames keep their numbers in all draws, the
others are drawn. Prints how many frames are told rightly, and whether a state was found for the
behaviour without labels.
"""

import numpy as np
import pymc as pm
import short

import pymc_dshdp as dshdp

STATES, FRAMES = 8, 600
NAMES = ("rest", "walk", "groom", "rear")
MEANS = np.array([[0.0, 0.0], [3.0, 0.5], [0.5, 3.0], [3.5, 3.5]])


def simulate(rng):
    """Draw the behaviours and features, and choose the labelled frames."""
    z = np.zeros(FRAMES, int)
    for t in range(1, FRAMES):
        z[t] = rng.integers(4) if rng.random() < 0.06 else z[t - 1]
    chosen = [rng.choice(np.flatnonzero(z == k), 4, replace=False) for k in range(3)]
    known = {int(t): k for k, times in enumerate(chosen) for t in times}
    return z, MEANS[z] + 0.8 * rng.normal(size=(FRAMES, 2)), known


def declare(y, known):
    """Declare Normal features in each state, with the known frames."""
    with pm.Model(coords={"state": np.arange(STATES), "feature": ["speed", "height"]}) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, length=FRAMES, known=known)
        mu, Sigma = dshdp.NormalInverseWishart("n", data=y, dims=("state", "feature"))
        pm.MvNormal("y", mu[z], Sigma[z], observed=y)
    return model


def main(arguments=None):
    """Fit, print and draw."""
    options = short.options(__doc__, "labelled", arguments)
    truth, y, known = simulate(np.random.default_rng(4))
    idata = short.fit(declare(y, known), options.quick)
    z = short.flat(idata, "z")
    probability = (z[..., None] == np.arange(STATES)).mean(axis=0)
    best = probability.argmax(axis=1)
    for k, name in enumerate(NAMES[:3]):
        right = np.mean(best[truth == k] == k)
        print(f"{name}: {100 * right:.0f}% of {np.sum(truth == k)} frames, from 4 labels")
    new = probability[:, 3:].sum(axis=1)
    print(f"rear, without labels: {100 * np.mean(new[truth == 3] > 0.5):.0f}% of ", end="")
    print(f"{np.sum(truth == 3)} frames in states that nobody labelled")
    told = np.where(best > 2, 3, best)
    states = np.unique(best[best > 2]).size
    print(f"answer: {100 * np.mean(told == truth):.0f}% of the frames told rightly, and ", end="")
    print(f"{states} state{'s' * (states != 1)} beside the labelled three found")
    fig, (left, right) = short.figure()
    for k, name in enumerate((*NAMES[:3], "no label")):
        left.scatter(*y[told == k].T, s=5, color=f"C{k}", label=name)
    times = list(known)
    left.scatter(*y[times].T, s=28, facecolor="none", edgecolor="black", label="labelled")
    left.set(xlabel="speed", ylabel="height")
    left.legend(frameon=False, fontsize=7, markerscale=1.2)
    for row, (name, path) in enumerate((("found", told), ("truth", truth))):
        colours = [f"C{k}" for k in path]
        right.scatter(range(FRAMES), np.full(FRAMES, row), c=colours, marker="|", s=300)
        right.text(0, row + 0.28, name, fontsize=8)
    right.set(xlabel="frame", yticks=[], ylim=(-0.5, 1.6))
    short.save(fig, options.out)


if __name__ == "__main__":
    main()
