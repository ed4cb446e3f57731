"""Two conditions: does a drug change how long the states last, or which follows which?

    python examples/conditions.py

Eight recordings of 200 times are simulated, four with placebo and four with a drug, in three states
that all share: rest, walk and run. The drug halves the time spent at rest before each switch, and
sends the animal from a walk to a run more often. Prints expected dwell times and the probability of
a run after a walk under both conditions, beside the truth, and draws the two matrices.
"""

import numpy as np
import pymc as pm
import short

import pymc_dshdp as dshdp

CONDITIONS, RECORDINGS, TIMES, STATES = ("placebo", "drug"), 8, 200, 10
SPEED = np.array([0.0, 3.0, 7.0])
P = np.array(
    [
        [[0.95, 0.04, 0.01], [0.05, 0.90, 0.05], [0.02, 0.08, 0.90]],
        [[0.90, 0.08, 0.02], [0.02, 0.90, 0.08], [0.02, 0.08, 0.90]],
    ]
)


def simulate(rng):
    """Draw states and speeds, (RECORDINGS, TIMES); conditions alternate."""
    z = np.zeros((RECORDINGS, TIMES), int)
    for n in range(RECORDINGS):
        for t in range(1, TIMES):
            z[n, t] = rng.choice(3, p=P[n % 2, z[n, t - 1]])
    return z, rng.normal(SPEED[z], 1.0)


def declare(y):
    """Declare shared states, and transitions of each condition."""
    coords = {"state": np.arange(STATES), "condition": CONDITIONS}
    with pm.Model(coords=coords) as model:
        prior = dshdp.DSHDP("hmm", dims="state", groups="condition", weights="finite-mixture")
        group = CONDITIONS * (RECORDINGS // 2)
        z = dshdp.HiddenStates("z", prior, shape=y.shape, group=group)
        speed = pm.Normal("speed", 3.0, 4.0, dims="state")
        pm.Normal("y", speed[z], 1.0, observed=y)
    return model


def main(arguments=None):
    """Fit, print and draw."""
    options = short.options(__doc__, "conditions", arguments)
    _, y = simulate(np.random.default_rng(7))
    idata = short.fit(declare(y), options.quick)
    matrices = dshdp.transition_matrix(idata).draws.values
    matrices = matrices.reshape(-1, *matrices.shape[2:])
    speed = short.flat(idata, "speed").mean(axis=0)
    rest, walk, run = (np.argmin(abs(speed - v)) for v in SPEED)
    dwell = 1.0 / (1.0 - matrices[:, :, rest, rest])
    chased = matrices[:, :, walk, run]
    print("condition  time at rest            truth  from walk to run    truth")
    for g, condition in enumerate(CONDITIONS):
        print(f"{condition:9s}  {short.interval(dwell[:, g]):22s}  ", end="")
        print(f"{1.0 / (1.0 - P[g, 0, 0]):5.1f}  ", end="")
        print(f"{short.interval(chased[:, g]):18s}  {P[g, 1, 2]:5.2f}")
    shorter, more = np.mean(dwell[:, 1] < dwell[:, 0]), np.mean(chased[:, 1] > chased[:, 0])
    print(f"answer: the drug shortens rest with probability {shorter:.2f}, ", end="")
    print(f"and makes a run after a walk more likely with probability {more:.2f}")
    fig, axes = short.figure()
    for ax, condition in zip(axes, CONDITIONS, strict=True):
        dshdp.plot_transitions(idata, group=condition, ax=ax)
        ax.set_title(condition)
    short.save(fig, options.out)


if __name__ == "__main__":
    main()
