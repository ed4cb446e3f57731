"""How long does a machine run on once it is worn?

    python examples/stages.py

The vibration of 16 machines is simulated, hour by hour, until six hours after they begin to fail,
or until today. A machine is new, then worn, then failing, and no stage comes back: the
concentration of the rows is 0 where it cannot go, and every machine begins as new. Prints the
hours in each stage, with intervals beside the truth, and which machines are failing today; draws
two of them.
"""

import numpy as np
import pymc as pm
import short

import pymc_dshdp as dshdp

MACHINES, TODAY, AFTER = 16, 150, 6
HOURS = np.array([80.0, 25.0])  # in the first two stages, on average
LEVELS, NOISE = np.array([1.0, 1.6, 3.0]), 0.5
STAGES = ["new", "worn", "failing"]


def simulate(rng):
    """Draw the stages of each machine and its vibration, one machine after the other."""
    stages = []
    for _ in range(MACHINES):
        new, worn = rng.geometric(1.0 / HOURS)
        z = np.repeat([0, 1, 2], [new, worn, AFTER])
        stages.append(z[: min(z.size, TODAY)])
    return stages, [rng.normal(LEVELS[z], NOISE) for z in stages]


def declare(y):
    """Declare stages that follow each other, and a level of vibration of each."""
    may_follow = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    with pm.Model(coords={"stage": STAGES}) as model:
        prior = dshdp.FixedTransitions(
            "hmm", dims="stage", concentration=may_follow, initial_concentration=[1.0, 0.0, 0.0]
        )
        z = dshdp.HiddenStates("z", prior, lengths=[len(series) for series in y])
        level = pm.Normal("level", [1.0, 1.5, 2.5], 1.0, dims="stage")
        variance = pm.InverseGamma("variance", 2.0, 0.5)
        pm.Normal("vibration", level[z], pm.math.sqrt(variance), observed=np.concatenate(y))
    return model


def main(arguments=None):
    """Fit, print and draw."""
    options = short.options(__doc__, "stages", arguments)
    truth, y = simulate(np.random.default_rng(2))
    idata = short.sample(declare(y), options.quick)  # the stages are told apart: no alignment
    stay = np.diagonal(short.flat(idata, "hmm_pi_bar"), axis1=1, axis2=2)[:, :2]
    hours = 1.0 / (1.0 - stay)
    print("stage     hours                  truth")
    for stage, draws, true in zip(STAGES, hours.T, HOURS, strict=False):
        print(f"{stage:8}  {short.interval(draws):21}  {true:.0f}")
    z = short.flat(idata, "z")
    last = np.cumsum([len(series) for series in y]) - 1
    failing = (z[:, last] == 2).mean(axis=0)
    running = [i for i, series in enumerate(y) if len(series) == TODAY]
    for i in running:
        print(f"machine {i} today: failing with probability {failing[i]:.2f}")
    told = np.mean([(failing[i] > 0.5) == (truth[i][-1] == 2) for i in range(MACHINES)])
    print(f"told rightly at the last hour: {told:.0%} of the machines")
    print(f"answer: {short.between(hours[:, 1], 0)} hours")
    fig, axes = short.figure()
    ended = [i for i in range(MACHINES) if i not in running]
    shown = sorted(ended, key=lambda i: len(y[i]))[len(ended) // 2 :: len(ended) // 2][:2]
    for axis, i in zip(axes, shown, strict=True):
        low = last[i] + 1 - len(y[i])
        axis.plot(y[i], color="grey", lw=0.8)
        for k, stage in enumerate(STAGES):
            share = (z[:, low : last[i] + 1] == k).mean(axis=0)
            axis.fill_between(range(len(y[i])), 5.0 * share, alpha=0.3, lw=0.0, label=stage)
        axis.set(xlabel="hour", ylabel="vibration", title=f"machine {i}", ylim=(-0.5, 5.0))
    axes[1].legend(frameon=False)
    short.save(fig, options.out)


if __name__ == "__main__":
    main()
