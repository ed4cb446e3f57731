"""How long does a relapse last, when nobody looks every week?

    python examples/visits.py

Patients are seen at irregular times: the next visit is after 1, 2, 4 or 16 weeks. Between visits
they fall ill and recover in continuous time, with a rate of each change, and the probabilities of
a gap of d weeks are those of the matrix exponential expm(Q d): P has one matrix for each gap that
occurs, and NUTS samples the rates. Prints weeks well and ill with intervals beside the truth, and
beside what comes out when all visits are taken to be equally far apart; draws both, and one
patient.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import short

import pymc_dshdp as dshdp

PATIENTS, VISITS = 40, 25
GAPS = np.array([1.0, 2.0, 4.0, 16.0])
WEEKS = np.array([20.0, 6.0])  # well, ill, on average
SCORES, NOISE = np.array([2.0, 5.0]), 1.2
STATES = ["well", "ill"]


def simulate(rng):
    """Draw which gap leads to each visit, the states and the scores: (patients, visits)."""
    gap = rng.integers(GAPS.size, size=(PATIENTS, VISITS))
    rate = 1.0 / WEEKS
    z = np.zeros((PATIENTS, VISITS), int)
    for i in range(PATIENTS):
        for t in range(1, VISITS):
            state, left = z[i, t - 1], GAPS[gap[i, t]]
            while (wait := rng.exponential(1.0 / rate[state])) < left:
                state, left = 1 - state, left - wait
            z[i, t] = state
    return gap, z, rng.normal(SCORES[z], NOISE)


def declare(gap, gaps, y):
    """Declare rates of change and a mean score of each state."""
    with pm.Model(coords={"state": STATES, "state_to": STATES}) as model:
        weeks = pm.LogNormal("weeks", np.log(10.0), 1.0, dims="state")
        Q = pt.stack([[-1.0, 1.0], [1.0, -1.0]]) / weeks[:, None]
        P = pt.stack([pt.linalg.expm(Q * d) for d in gaps])
        prior = dshdp.Transitions("hmm", P, index=gap, dims="state")
        z = dshdp.HiddenStates("z", prior, shape=y.shape)
        mean = pm.Normal("mean", [2.0, 5.0], 1.0, dims="state")
        pm.Normal("score", mean[z], NOISE, observed=y)
    return model


def main(arguments=None):
    """Fit, print and draw."""
    options = short.options(__doc__, "visits", arguments)
    gap, truth, y = simulate(np.random.default_rng(2))
    idata = short.fit(declare(gap, GAPS, y), options.quick, draws=200)
    alike = short.fit(declare(np.zeros_like(gap), [GAPS.mean()], y), options.quick, draws=200)
    weeks, equal = short.flat(idata, "weeks"), short.flat(alike, "weeks")
    print("state  weeks                truth  gaps taken as equal")
    for k, state in enumerate(STATES):
        with_gaps, without = short.interval(weeks[:, k]), short.interval(equal[:, k])
        print(f"{state:5}  {with_gaps:19}  {WEEKS[k]:5.0f}  {without}")
    print(f"answer: {short.between(weeks[:, 1], 1)} weeks on average; ", end="")
    print(f"taking the gaps as equal says {np.median(equal[:, 1]):.0f}")
    ill = (short.flat(idata, "z") == 1).mean(axis=0)
    fig, (left, right) = short.figure()
    for draws, label in ((weeks, "gaps as they are"), (equal, "taken as equal")):
        left.hist(draws[:, 1], bins=25, density=True, alpha=0.5, label=label)
    left.axvline(WEEKS[1], color="black", lw=1.0, ls="--", label="truth")
    left.set(xlabel="weeks of a relapse", yticks=[])
    left.legend(frameon=False)
    i = int(truth.sum(axis=1).argmax())
    time = np.concatenate([[0.0], np.cumsum(GAPS[gap[i, 1:]])])
    right.plot(time, y[i], "o", color="grey", ms=3.0, label="score")
    right.plot(time, 5.0 * ill[i], lw=1.0, label="5 x P(ill)")
    right.set(xlabel="week", title=f"patient {i}")
    right.legend(frameon=False)
    short.save(fig, options.out)


if __name__ == "__main__":
    main()
