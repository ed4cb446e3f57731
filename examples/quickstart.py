"""Major earthquakes, 1900-2006: how many regimes there were, and which year was in which.

Fits the disentangled sticky HDP-HMM with Poisson counts, first with a bare ``pm.sample()`` and
then with the steps written out; prints what was found and saves two pictures beside this file.
"""

import time
from pathlib import Path

import arviz as az
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm

import pymc_dshdp as dshdp
from pymc_dshdp.datasets import earthquakes

HERE = Path(__file__).parent
SETTINGS = {
    "draws": 1000,
    "tune": 1000,
    "chains": 4,
    "cores": 2,
    "progressbar": False,
    # Labels switch between draws, so R-hat of every z[t] means nothing; see label_invariant.
    "compute_convergence_checks": False,
    "compile_kwargs": {"mode": "NUMBA"},  # PyMC 6's default; minutes faster to compile on PyMC 5
}


def declare(years, counts):
    """Declare the model: an ordinary ``pm.Model`` with one prior and one states variable."""
    with pm.Model(coords={"state": np.arange(10), "year": years}) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, dims="year")
        rate = pm.LogNormal("rate", mu=3.0, sigma=1.0, dims="state")
        pm.Poisson("counts", rate[z], observed=counts, dims="year")
    return model, z


def main_states(idata, smallest=5):
    """Order the states that hold at least ``smallest`` years by their rate, draw by draw.

    Returns the most common number K of them, and for the draws that have K: the ordered rates
    (draws, K) and the rank (draws, years) of each year's state, -1 for a minor state.
    """
    z = idata.posterior["z"].values.reshape(-1, len(idata.posterior["year"])).astype(int)
    rate = idata.posterior["rate"].values.reshape(len(z), -1)
    years_held = np.stack([(z == k).sum(axis=1) for k in range(rate.shape[1])], axis=1)
    main = years_held >= smallest
    K = np.bincount(main.sum(axis=1)).argmax()
    chosen = main.sum(axis=1) == K
    order = np.argsort(np.where(main, rate, np.inf), axis=1)[chosen, :K]
    rank_of_state = np.full((chosen.sum(), rate.shape[1]), -1)
    np.put_along_axis(rank_of_state, order, np.arange(K)[None], axis=1)
    ranks = np.take_along_axis(rank_of_state, z[chosen], axis=1)
    return K, np.take_along_axis(rate[chosen], order, axis=1), ranks


def report(idata):
    """Print the number of states, their rates and the label-invariant diagnostics."""
    invariant = dshdp.label_invariant(idata)
    occupied = invariant["n_occupied"].values.ravel()
    print("Number of occupied states (posterior):")
    for k, share in enumerate(np.bincount(occupied) / occupied.size):
        if share > 0.005:
            print(f"  {k:2d}  {share:5.2f}  {'#' * round(50 * share)}")
    K, rates, _ = main_states(idata)
    print(f"Rates of the {K} states that hold at least 5 years, in the draws with {K} of them:")
    for mean, low, high in zip(rates.mean(0), *np.quantile(rates, [0.05, 0.95], axis=0)):
        print(f"  {mean:5.1f} earthquakes a year (90% interval {low:4.1f} to {high:4.1f})")
    print("Label-invariant quantities:")
    print(az.summary(invariant).to_string())


def draw_series(years, counts, idata, path):
    """Picture 1: counts, posterior mean of the rate in force, and state probabilities."""
    rate, z = idata.posterior["rate"].values, idata.posterior["z"].values.astype(int)
    in_force = np.take_along_axis(rate, z, axis=-1).reshape(-1, len(years))
    K, rates, ranks = main_states(idata)
    fig, (top, bottom) = plt.subplots(
        2, 1, figsize=(9, 5.5), sharex=True, height_ratios=[3, 1.6], constrained_layout=True
    )
    top.plot(years, counts, "o-", color="0.6", ms=3, lw=0.8, label="earthquakes")
    top.fill_between(
        years, *np.quantile(in_force, [0.05, 0.95], axis=0), color="C0", alpha=0.25, lw=0
    )
    top.plot(years, in_force.mean(axis=0), color="C0", lw=2, label="rate, mean and 90% band")
    top.set(ylabel="count", title="Major earthquakes worldwide (magnitude 7 or above)")
    top.legend(frameon=False, loc="upper right")
    shares = [(ranks == r).mean(axis=0) for r in range(K)]
    colours = plt.get_cmap("viridis")(np.linspace(0.9, 0.1, K))
    labels = [f"{mean:.0f} a year" for mean in rates.mean(axis=0)]
    bottom.stackplot(years, shares, colors=colours, labels=labels)
    bottom.set(ylim=(0, 1), xlim=(years[0], years[-1]), ylabel="probability", xlabel="year")
    bottom.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, title="state")
    bottom.annotate("white: minor states", (1.01, 0.02), xycoords="axes fraction", fontsize=8)
    fig.savefig(path, dpi=120)
    plt.close(fig)


def draw_traces(idata, path):
    """Picture 2: ArviZ's trace plot of the hyperparameters."""
    plot = getattr(az, "plot_trace_dist", az.plot_trace)  # its name in ArviZ 1
    plot(idata, var_names=["hmm_alpha", "hmm_gamma", "hmm_phi", "hmm_eta"])
    figure = plt.gcf()
    figure.set_layout_engine("constrained")
    figure.savefig(path, dpi=100)
    plt.close("all")


if __name__ == "__main__":
    years, counts = earthquakes()
    model, z = declare(years, counts)

    started = time.perf_counter()
    with model:
        idata = pm.sample(random_seed=1, **SETTINGS)
    print(f"\npm.sample(): {time.perf_counter() - started:.0f} s")
    report(idata)
    print(dshdp.check(idata))

    started = time.perf_counter()
    with model:
        steps = [dshdp.WeakLimitFFBS([z]), dshdp.GridRhoStep([z])]
        explicit = pm.sample(step=steps, random_seed=2, **SETTINGS)
    print("\npm.sample(step=[WeakLimitFFBS([z]), GridRhoStep([z])]): ", end="")
    print(f"{time.perf_counter() - started:.0f} s")
    report(explicit)

    draw_series(years, counts, idata, HERE / "quickstart.png")
    draw_traces(idata, HERE / "quickstart_traces.png")
    print(f"\nPictures: {HERE / 'quickstart.png'} and {HERE / 'quickstart_traces.png'}")
