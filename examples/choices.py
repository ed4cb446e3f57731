"""Choices by changing strategies: does a mouse use one rule, and when does it not attend?

    python examples/choices.py

Five sessions of 160 choices, left or right, are simulated: engaged, choices follow the stimulus;
else they follow a habit, to the left or to the right. The model is a logistic regression in each
state (a GLM-HMM) whose number of states is learned and whose coefficients are all drawn by exact
steps. Prints the strategies that were found and how many choices each explains.
"""

import numpy as np
import pymc as pm
import short

import pymc_dshdp as dshdp

SESSIONS, TRIALS, STATES = 5, 160, 12
BIAS, WEIGHT = np.array([0.0, -2.5, 2.5]), np.array([5.0, 0.8, 0.8])


def simulate(rng):
    """Draw the strategies, stimuli and choices of all sessions."""
    z = np.zeros(SESSIONS * TRIALS, int)
    for t in range(1, z.size):
        leave = rng.random() < (0.02 if z[t - 1] == 0 else 0.04)
        z[t] = 0 if t % TRIALS == 0 else (z[t - 1] + leave * rng.integers(1, 3)) % 3
    x = rng.uniform(-1.0, 1.0, z.size)
    return z, x, rng.binomial(1, 1.0 / (1.0 + np.exp(-BIAS[z] - WEIGHT[z] * x)))


def declare(x, choices):
    """Declare a logistic regression in each state."""
    with pm.Model(coords={"state": np.arange(STATES)}) as model:
        stimulus = pm.Data("stimulus", x)
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, lengths=[TRIALS] * SESSIONS)
        bias = pm.Normal("bias", 0.0, 2.0, dims="state")
        weight = pm.Normal("weight", 0.0, 4.0, dims="state")
        pm.Bernoulli("choice", logit_p=bias[z] + weight[z] * stimulus, observed=choices)
    return model


def main(arguments=None):
    """Fit, print and draw."""
    options = short.options(__doc__, "choices", arguments)
    truth, x, choices = simulate(np.random.default_rng(2))
    idata = short.fit(declare(x, choices), options.quick)
    z, bias, weight = (short.flat(idata, name) for name in ("z", "bias", "weight"))
    shares = (z[..., None] == np.arange(STATES)).mean(axis=1)
    number = (shares > 0.05).sum(axis=1)
    share = shares.mean(axis=0)
    used = np.argsort(-share)[: np.bincount(number).argmax()]
    for n in np.unique(number):
        print(f"P({n} strategies of more than 5% of the choices) = {np.mean(number == n):.2f}")
    print("strategy  share  bias                   weight of the stimulus")
    for k in used:
        print(f"{k:8d}  {share[k]:5.2f}  {short.interval(bias[:, k]):21}  ", end="")
        print(short.interval(weight[:, k]))
    engaged = used[np.argmax([weight[:, k].mean() for k in used])]
    attends = (z == engaged).mean(axis=0)
    right = 100 * np.mean((attends > 0.5) == (truth == 0))
    print(f"answer: most likely {len(used)} strategies, engaged in ", end="")
    print(f"{100 * attends.mean():.0f}% of the choices; told rightly, engaged or not, {right:.0f}%")
    fig, (left, axis) = short.figure()
    grid = np.linspace(-1.0, 1.0, 50)
    for k in used:
        curve = 1.0 / (1.0 + np.exp(-bias[:, k, None] - weight[:, k, None] * grid))
        low, high = np.quantile(curve, [0.05, 0.95], axis=0)
        left.fill_between(grid, low, high, alpha=0.4, lw=0.0)
        left.plot(grid, curve.mean(axis=0), label=f"{100 * share[k]:.0f}% of choices")
    left.set(xlabel="stimulus", ylabel="P(right)", ylim=(0.0, 1.0))
    left.legend(frameon=False, fontsize=8)
    axis.fill_between(range(2 * TRIALS), truth[: 2 * TRIALS] == 0, color="0.88", step="mid")
    axis.plot(attends[: 2 * TRIALS], lw=1.2)
    axis.axvline(TRIALS, color="black", lw=0.6)
    axis.set(xlabel="choice, in two sessions", ylabel="P(engaged), truth in grey", ylim=(0.0, 1.0))
    short.save(fig, options.out)


if __name__ == "__main__":
    main()
