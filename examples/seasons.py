"""Seasonal counts: when in the year do outbreaks begin?

    python examples/seasons.py

Ten years of weekly counts are simulated, quiet or in an outbreak; outbreaks begin in winter. The
probabilities of leaving either state are a function of the week: P has one matrix for each of the
52 weeks, and NUTS samples its coefficients. Prints the transition table, the probability of an
onset by season with its interval beside the truth, and the forecast of the next half year; draws
both.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import short

import pymc_dshdp as dshdp

WEEKS, YEARS = 52, 10
WAVES = np.stack(
    [np.ones(WEEKS), *(f(2 * np.pi * np.arange(WEEKS) / WEEKS) for f in (np.cos, np.sin))]
)
TRUE = np.array([[-3.5, 2.0, 0.5], [-1.5, -0.8, 0.0]])  # log-odds of leaving quiet, outbreak
RATES = np.array([4.0, 25.0])


def simulate(rng):
    """Draw the states and counts of ten years."""
    leave = 1.0 / (1.0 + np.exp(-TRUE @ WAVES))
    z = np.zeros(WEEKS * YEARS, int)
    for t in range(1, z.size):
        z[t] = (z[t - 1] + (rng.random() < leave[z[t - 1], t % WEEKS])) % 2
    return leave, rng.poisson(RATES[z])


def declare(y):
    """Declare the model of weekly matrices."""
    coords = {"state": ["a", "b"], "state_to": ["a", "b"], "wave": ["mean", "cos", "sin"]}
    with pm.Model(coords=coords) as model:
        week = pm.Data("week", np.arange(y.size) % WEEKS)
        effect = pm.Normal("effect", [-2.0, 0.0, 0.0], 1.5, dims=("state", "wave"))
        leave = pm.math.invlogit(effect @ WAVES)
        rows = [pt.stack([1.0 - leave[0], leave[0]]), pt.stack([leave[1], 1.0 - leave[1]])]
        P = pt.stack(rows).transpose(2, 0, 1)
        prior = dshdp.Transitions("hmm", P, index=week, dims="state")
        z = dshdp.HiddenStates("z", prior, length=y.size)
        rate = pm.Gamma("rate", 1.0, 0.1, dims="state")
        pm.Poisson("counts", rate[z], observed=y)
    return model


def main(arguments=None):
    """Fit, print and draw."""
    options = short.options(__doc__, "seasons", arguments)
    truth, y = simulate(np.random.default_rng(1))
    model = declare(y)
    idata = short.fit(model, options.quick, draws=200)
    print(dshdp.transition_matrix(idata))
    quiet = int(short.flat(idata, "rate").mean(axis=0).argmin())
    onset = short.flat(idata, "hmm_P")[..., quiet, 1 - quiet]
    low, middle, high = np.quantile(onset, [0.05, 0.5, 0.95], axis=0)
    print("\nweek  P(onset)  90% interval    truth")
    for week in range(0, WEEKS, 13):
        interval = f"[{low[week]:.3f}, {high[week]:.3f}]"
        print(f"{week:4d}  {middle[week]:8.3f}  {interval}  {truth[0, week]:.3f}")
    ahead = np.arange(y.size, y.size + 26) % WEEKS
    future = dshdp.forecast(
        idata, model=model, horizon=26, covariates={"week": ahead}, random_seed=1
    )
    risk = (future["z"].values != quiet).mean(axis=(0, 1))
    print(f"probability of an outbreak 4, 13 and 26 weeks ahead: {risk[[3, 12, 25]].round(2)}")
    peak = int(middle.argmax())
    print(f"answer: most likely in week {peak} of the year, with probability {middle[peak]:.2f}")
    fig, (left, right) = short.figure()
    left.fill_between(range(WEEKS), low, high, alpha=0.3, lw=0.0, label="90% interval")
    left.plot(middle, label="median")
    left.plot(truth[0], color="black", lw=1.0, ls="--", label="truth")
    left.set(xlabel="week of the year", ylabel="P(onset)", ylim=(0.0, None))
    left.legend(frameon=False)
    right.plot(np.arange(1, 27), risk)
    right.set(xlabel="weeks ahead", ylabel="P(outbreak)", ylim=(0.0, 1.0))
    short.save(fig, options.out)


if __name__ == "__main__":
    main()
