"""Volatility of the S&P 500: how many regimes are there, how wild is each, how long does it last?

    python examples/volatility.py

Monthly closing prices, 1990 on, of the table that matplotlib brings as sample data. Log-returns
have one mean and, in each state, a scale of its own, which is drawn by slices. Prints the number of
regimes, their scales and expected lengths, and the months of the wildest.
"""

import matplotlib.cbook as cbook
import numpy as np
import pandas as pd
import pymc as pm
import short

import pymc_dshdp as dshdp

STATES = 12


def returns():
    """Read the monthly log-returns of the index, in percent."""
    with cbook.get_sample_data("Stocks.csv") as file:
        table = pd.read_csv(file, comment="#", parse_dates=["Date"], index_col="Date")
    return 100.0 * np.log(table["^GSPC"].dropna()).diff().dropna()


def declare(y):
    """Declare the returns, with a scale in each state."""
    with pm.Model(coords={"state": np.arange(STATES), "month": y.index}) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, dims="month")
        mean = pm.Normal("mean", 0.5, 1.0)
        sigma = pm.LogNormal("sigma", np.log(4.0), 0.7, dims="state")
        pm.Normal("y", mean, sigma[z], observed=y.values, dims="month")
    return model


def main(arguments=None):
    """Fit, print and draw."""
    options = short.options(__doc__, "volatility", arguments)
    y = returns()
    print(f"{len(y)} months, {y.index[0]:%Y-%m} to {y.index[-1]:%Y-%m}; sd {y.std():.2f}% a month")
    idata = short.fit(declare(y), options.quick, draws=2500)
    z, sigma = short.flat(idata, "z"), short.flat(idata, "sigma")
    scale = np.take_along_axis(sigma, z, axis=1)  # of each month: whatever states are called
    share = (z[..., None] == np.arange(STATES)).mean(axis=1)
    regimes = (share > 0.05).sum(axis=1)
    for n in np.unique(regimes):
        print(f"P({n} regimes of more than 5% of the months) = {np.mean(regimes == n):.2f}")
    switches = np.count_nonzero(np.diff(z, axis=1), axis=1)
    print(f"length of a regime in months: {short.interval(len(y) / (switches + 1.0))}")
    calm, wild = np.quantile(scale, [0.1, 0.9], axis=1)
    print(f"scale of the calmest tenth of months, %: {short.interval(calm)}")
    print(f"scale of the wildest tenth of months, %: {short.interval(wild)}")
    low, middle, high = np.quantile(scale, [0.05, 0.5, 0.95], axis=0)
    top = y.index[np.argsort(-middle)[:5]]
    print(short.verdict(idata))
    print(f"answer: most likely {np.bincount(regimes).argmax()} regimes, the wildest ", end="")
    print(f"{np.median(wild / calm):.1f} times the calmest; wildest months ", end="")
    print(", ".join(sorted(f"{month:%Y-%m}" for month in top)))
    fig, (left, right) = short.figure()
    left.plot(y.index, y.values, lw=0.7, color="0.3")
    ticks = y.index[y.index.strftime("%Y-%m").str.endswith("0-01")]
    labels = [f"{month:%Y}" for month in ticks]
    left.set(ylabel="log-return, % a month", xticks=ticks, xticklabels=labels)
    right.fill_between(y.index, low, high, alpha=0.35, lw=0.0, label="90% interval")
    right.plot(y.index, middle, lw=1.2, label="median")
    right.set(ylabel="scale, % a month", ylim=(0.0, None), xticks=ticks, xticklabels=labels)
    right.legend(frameon=False)
    short.save(fig, options.out)


if __name__ == "__main__":
    main()
