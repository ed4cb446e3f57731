"""Several subjects: who lapses how often, when all share the states but not their level?

    python examples/subjects.py

Log reaction times of six subjects, 120 each, are simulated: attentive or in a lapse, where answers
are slower by a third and scatter more. Each subject has a level of its own, beside the states that
all share. Prints, for each subject, the level and the share of time in lapses, beside the truth.
"""

import numpy as np
import pymc as pm
import short

import pymc_dshdp as dshdp

SUBJECTS, TRIALS, STATES = 6, 120, 8
SHIFT, SCALE = np.array([0.0, 0.45]), np.array([0.10, 0.20])


def simulate(rng):
    """Draw levels, lapses and log reaction times."""
    level = np.log(0.5) + 0.15 * rng.normal(size=SUBJECTS)
    enter = np.linspace(0.01, 0.08, SUBJECTS)
    z = np.zeros((SUBJECTS, TRIALS), int)
    for s in range(SUBJECTS):
        for t in range(1, TRIALS):
            leave = enter[s] if z[s, t - 1] == 0 else 0.08
            z[s, t] = (z[s, t - 1] + (rng.random() < leave)) % 2
    return level, z, level[:, None] + SHIFT[z] + SCALE[z] * rng.normal(size=z.shape)


def declare(y):
    """Declare shared states, and a level of each subject."""
    sizes = {"state": STATES, "subject": SUBJECTS, "trial": TRIALS}
    with pm.Model(coords={dim: np.arange(size) for dim, size in sizes.items()}) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, dims=("subject", "trial"))
        level = pm.Normal("level", -0.7, 0.3, dims="subject")
        shift = pm.Normal("shift", 0.0, 0.4, dims="state")
        scale = pm.LogNormal("scale", -2.0, 0.5, dims="state")
        pm.Normal("y", level[:, None] + shift[z], scale[z], observed=y, dims=("subject", "trial"))
    return model


def main(arguments=None):
    """Fit, print and draw."""
    options = short.options(__doc__, "subjects", arguments)
    level, truth, y = simulate(np.random.default_rng(5))
    idata = short.fit(declare(y), options.quick)
    z, shift = short.flat(idata, "z"), short.flat(idata, "shift")
    usual = np.array([np.bincount(path.ravel(), minlength=STATES).argmax() for path in z])
    rows = np.arange(len(z))
    beyond = shift - shift[rows, usual][:, None]  # of the commonest state: what a level cannot move
    lapse = np.take_along_axis(beyond, z.reshape(len(z), -1), axis=1).reshape(z.shape) > 0.2
    base = short.flat(idata, "level") + shift[rows, usual][:, None]
    share = lapse.mean(axis=2)
    print("subject  usual time, s      truth  time in lapses     truth")
    for s in range(SUBJECTS):
        print(f"{s:7d}  {short.interval(np.exp(base[:, s]))}  {np.exp(level[s]):5.2f}  ", end="")
        print(f"{short.interval(share[:, s])}  {truth[s].mean():5.2f}")
    most = share.mean(axis=0).argmax()
    sure = np.mean(share.argmax(axis=1) == most)
    right = 100 * np.mean((lapse.mean(axis=0) > 0.5) == truth)
    print(f"answer: subject {most} lapses most, with probability {sure:.2f}; ", end="")
    print(f"lapse or not is told rightly in {right:.0f}% of the trials")
    fig, (left, right) = short.figure()
    low, middle, high = np.quantile(share, [0.05, 0.5, 0.95], axis=0)
    left.errorbar(range(SUBJECTS), middle, [middle - low, high - middle], fmt="o")
    left.plot(range(SUBJECTS), truth.mean(axis=1), "kx", label="truth")
    left.set(xlabel="subject", ylabel="share of time in lapses", ylim=(0.0, None))
    left.legend(frameon=False)
    right.plot(np.exp(y[most]), ".", ms=4, color="0.4")
    axis = right.twinx()
    axis.fill_between(range(TRIALS), lapse.mean(axis=0)[most], alpha=0.3, color="C1", lw=0.0)
    axis.set(ylabel="P(lapse)", ylim=(0.0, 1.0))
    right.set(xlabel=f"trial of subject {most}", ylabel="reaction time, s")
    short.save(fig, options.out)


if __name__ == "__main__":
    main()
