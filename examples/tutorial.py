"""The earthquakes from question to answer: fit, check, align, segment, forecast, compare.

The text that goes with this script is docs/tutorial.md; its pictures are drawn here, in the folder
that ``--out`` names.
"""

import argparse
import sys
from pathlib import Path

import arviz as az
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm

import pymc_dshdp as dshdp

SETTINGS = {
    "cores": 2,
    "progressbar": False,
    "compute_convergence_checks": False,
    "compile_kwargs": {"mode": "NUMBA"},
}
PRIORS = {"ds": dshdp.DSHDP, "sticky": dshdp.StickyHDP, "hdp": dshdp.HDP}


def declare(prior, years, counts):
    """Declare a Poisson hidden Markov model; ``prior`` is the class of the transition prior."""
    with pm.Model(coords={"state": np.arange(10), "year": years}) as model:
        transitions = prior("hmm", dims="state")
        z = dshdp.HiddenStates("z", transitions, dims="year")
        rate = pm.Gamma("rate", alpha=2.0, beta=0.1, dims="state")
        pm.Poisson("counts", rate[z], observed=counts, dims="year")
    return model


def save(folder, name):
    plt.gcf().savefig(folder / f"tutorial_{name}.png", dpi=90)
    plt.close("all")


def fit_and_check(model, out):
    with model:
        idata = pm.sample(draws=2000, tune=1000, chains=4, random_seed=1, **SETTINGS)
    print("\n== check ==")
    print(dshdp.check(idata))
    dshdp.plot_occupied(idata)
    save(out, "occupied")
    dshdp.plot_hyperparameters(idata, model=model)
    save(out, "hyperparameters")
    return idata


def describe(idata, out):
    aligned = dshdp.align(idata)
    print("\n== summary ==")
    print(dshdp.summary(aligned, prob=0.9))
    for name, plot in (
        ("series", dshdp.plot_series),
        ("raster", dshdp.plot_raster),
        ("transitions", dshdp.plot_transitions),
        ("dwell", dshdp.plot_dwell_times),
    ):
        plot(aligned)
        save(out, name)
    return aligned


def switch_labels():
    """Show what alignment is for, on three cells whose states are beyond doubt."""
    truth = np.repeat([0, 1, 0, 2, 1, 0], [14, 9, 12, 8, 10, 7])
    counts = np.random.default_rng(1).poisson(np.array([5, 20, 50])[truth, None], (60, 3))
    coords = {"state": np.arange(4), "time": np.arange(60), "cell": ["a", "b", "c"]}
    with pm.Model(coords=coords):
        z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", dims="state"), dims="time")
        rate = pm.Gamma("rate", alpha=1.0, beta=0.05, dims=("state", "cell"))
        pm.Poisson("counts", rate[z], observed=counts, dims=("time", "cell"))
        idata = pm.sample(draws=400, tune=200, chains=4, random_seed=7, **SETTINGS)
    print("\n== R-hat of the rates in cell a, before and after alignment ==")
    for name, result in (("as sampled", idata), ("aligned", dshdp.align(idata))):
        rates = result["posterior"]["rate"].sel(cell="a")
        r_hat = az.rhat(rates.to_dataset())["rate"].values
        means = rates.mean("draw").values.T
        for k in range(4):
            by_chain = " ".join(f"{x:5.1f}" for x in means[k])
            print(f"{name}, state {k}: R-hat {r_hat[k]:.2f}, means of the chains {by_chain}")


def divide(aligned):
    print("\n== segments ==")
    print(dshdp.segments(aligned).to_string(index=False))


def look_ahead(model, aligned, years, out):
    future = dshdp.forecast(aligned, model=model, horizon=15, random_seed=1)["counts"]
    print("\n== forecast ==")
    for h in (1, 5, 15):
        values = future.sel(horizon=h).values
        low, high = np.quantile(values, [0.05, 0.95])
        print(
            f"{years[-1] + h}: mean {values.mean():.1f}, 90% interval {low:.0f} to {high:.0f}, "
            f"P(more than 25) = {(values > 25).mean():.2f}"
        )
    dshdp.plot_forecast(future, aligned["observed_data"]["counts"])
    save(out, "forecast")


def compare(years, counts, first_held_out=1970):
    train, test = years < first_held_out, years >= first_held_out
    models = {}
    for name, prior in PRIORS.items():
        model = declare(prior, years[train], counts[train])
        with model:
            idata = pm.sample(draws=1000, tune=500, chains=2, random_seed=2, **SETTINGS)
        models[name] = idata, declare(prior, years[test], counts[test])
    print(f"\n== compare: trained before {first_held_out}, scored after ==")
    print(dshdp.compare_held_out(models).round(2).to_string())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder")
    out = parser.parse_args().out
    years, counts = dshdp.datasets.earthquakes()
    model = declare(dshdp.DSHDP, years, counts)
    idata = fit_and_check(model, out)
    switch_labels()
    aligned = describe(idata, out)
    divide(aligned)
    look_ahead(model, aligned, years, out)
    compare(years, counts)
    print(f"\nPictures: {out}/tutorial_*.png", file=sys.stderr)
