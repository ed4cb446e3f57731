"""How many regimes did a century of earthquakes have, and which years were the busy ones?

    python examples/earthquakes.py

Major earthquakes of each year, 1900 to 2006, real counts that the package brings: a Poisson rate in
each state, of which ten are allowed. Prints how many regimes hold more than 5% of the years, the
rates, how long a regime lasts, and the stretches that are quiet or busy beyond doubt.
"""

import numpy as np
import pymc as pm
import short

import pymc_dshdp as dshdp

STATES = 10
QUIET, BUSY = 16.0, 24.0  # a year: the mean of all is 19.4


def declare(years, counts):
    """Declare counts with a rate in each state."""
    with pm.Model(coords={"state": np.arange(STATES), "year": years}) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, dims="year")
        rate = pm.Gamma("rate", alpha=2.0, beta=0.1, dims="state")
        pm.Poisson("counts", rate[z], observed=counts, dims="year")
    return model


def stretches(years, sure):
    """Write the runs of years that are sure, as 1968-1971."""
    edges = np.diff(np.concatenate([[0], sure.astype(int), [0]]))
    runs = zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1, strict=True)
    return ", ".join(f"{years[a]}-{years[b]}" if a < b else f"{years[a]}" for a, b in runs)


def main(arguments=None):
    """Fit, print and draw."""
    options = short.options(__doc__, "earthquakes", arguments)
    years, counts = dshdp.datasets.earthquakes()
    print(f"{len(years)} years, {years[0]} to {years[-1]}; {counts.mean():.1f} a year")
    idata = short.fit(declare(years, counts), options.quick, draws=1000)
    z, rate = short.flat(idata, "z"), short.flat(idata, "rate")
    share = (z[..., None] == np.arange(STATES)).mean(axis=1)
    regimes = (share > 0.05).sum(axis=1)
    for n in np.unique(regimes):
        print(f"P({n} regimes of more than 5% of the years) = {np.mean(regimes == n):.2f}")
    most = np.bincount(regimes).argmax()
    rates = np.sort(np.where(share > 0.05, rate, np.inf), axis=1)[regimes == most, :most]
    for k, draws in enumerate(rates.T):
        print(f"rate {k + 1} of {most}, earthquakes a year: {short.interval(draws)}")
    switches = np.count_nonzero(np.diff(z, axis=1), axis=1)
    print(f"length of a regime in years: {short.interval(len(years) / (switches + 1.0))}")
    in_force = np.take_along_axis(rate, z, axis=1)  # of each year: whatever states are called
    low, middle, high = np.quantile(in_force, [0.05, 0.5, 0.95], axis=0)
    print(f"P(rate below {QUIET:.0f}) > 0.95: {stretches(years, high < QUIET)}")
    print(short.verdict(idata))
    print(
        f"answer: most likely {most} regimes; busy, P(rate above {BUSY:.0f}) > 0.95, were ", end=""
    )
    print(stretches(years, low > BUSY))
    fig, (left, right) = short.figure()
    left.fill_between(years, low, high, alpha=0.35, lw=0.0, label="90% interval")
    left.plot(years, middle, lw=1.2, label="rate, median")
    left.plot(years, counts, ".", ms=4, color="0.4", label="counts")
    left.set(ylabel="earthquakes a year", ylim=(0.0, None))
    left.legend(frameon=False, fontsize=8)
    right.bar(*np.unique(regimes, return_counts=True))
    right.set(xlabel="regimes of more than 5% of the years", ylabel="draws")
    short.save(fig, options.out)


if __name__ == "__main__":
    main()
