"""The paper's simulations: the disentangled, the sticky and the plain HDP-HMM on the same data.

    python examples/paper_simulations.py --quick          # one seed, short chains
    python examples/paper_simulations.py --csv table.csv  # 10 seeds of each scenario and emission
    python examples/paper_simulations.py --data DIR       # the authors' files, 3 chains

Scenario 1 has states of different self-persistence with the same switches, scenario 2 states of
the same self-persistence with different switches; observations are Gaussian or multinomial.
``DSBlockGibbs`` samples each model with stick-breaking weights truncated at 30 states. Prints the
held-out log-likelihood, the Hamming distance to the true states, the number of states and the
hyperparameters; saves the paper's figure for the first seed of each setting.
"""

import argparse
import csv
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from matplotlib.ticker import NullFormatter
from scipy import stats
from scipy.special import logsumexp
from three_models import HYPERPARAMETERS, PRIORS

import pymc_dshdp as dshdp
from pymc_dshdp import datasets

HERE = Path(__file__).parent
SCENARIOS = {1: datasets.different_self_persistence, 2: datasets.different_transitions}
EMISSIONS = ("gaussian", "multinomial")
LENGTH, N_STATES, THIN = 1000, 30, 10
METRICS = ("log_likelihood", "log_mean_exp", "hamming", "states", *HYPERPARAMETERS)
SETTINGS = ("scenario", "emission", "seed", "model", "chain")


class Effort(NamedTuple):
    """Iterations of each chain: tuning, drawn, and of these kept (the last); number of chains."""

    tune: int
    draws: int
    kept: int
    chains: int


SEEDS = Effort(1000, 3000, 2000, 1)
AUTHORS = {
    "gaussian": Effort(1000, 11_000, 4000, 3),
    "multinomial": Effort(1000, 7000, 2500, 3),
}
QUICK = Effort(200, 200, 100, 1)


class Data(NamedTuple):
    """A training and a test series, and what generated them."""

    z: np.ndarray
    y: np.ndarray
    y_test: np.ndarray
    transition_matrix: np.ndarray


def simulated(scenario, emission, seed):
    """Training and test data of one seed, from the same parameters."""
    rng = np.random.default_rng([scenario, EMISSIONS.index(emission), seed])
    truth = SCENARIOS[scenario](emission, rng)
    train, test = truth.sample(LENGTH, rng), truth.sample(LENGTH, rng)
    return Data(train.z, train.y, test.y, truth.transition_matrix)


def authors_data(folder, emission):
    """Read the authors' data of scenario 1."""
    name = f"fix_8states_{emission}_same_trans_diff_stick.npz"
    with np.load(folder / name) as train, np.load(folder / f"test_{name}") as test:
        return Data(train["zt"], train["yt"], test["yt"], train["trans_mat"])


def declare(name, emission, y, y_train):
    """Declare a model with the paper's priors, those of the training data."""
    with pm.Model() as model:
        prior = PRIORS[name]("hmm", n_states=N_STATES, weights="stick-breaking")
        z = dshdp.HiddenStates("z", prior, length=len(y))
        if emission == "gaussian":
            mean = pm.Normal("mean", y_train.mean(), y_train.std(), dims="hmm_state")
            pm.Normal("y", mean[z], 0.5, observed=y)
        else:
            p = pm.Dirichlet("p", np.ones((N_STATES, y.shape[1])))
            pm.Multinomial("y", 1, p[z], observed=y)
    return model


def fit(data, emission, name, seed, effort):
    """Sample one model; returns a list of results, one for each chain."""
    started = time.perf_counter()
    model = declare(name, emission, data.y, data.y)
    with model:
        steps = [dshdp.DSBlockGibbs([model["z"]])]
        if name == "DS":
            steps.append(dshdp.GridRhoStep([model["z"]]))
        idata = pm.sample(
            effort.draws,
            tune=effort.tune,
            step=steps,
            chains=effort.chains,
            cores=1,
            random_seed=seed,
            progressbar=False,
            compute_convergence_checks=False,
            compile_kwargs={"mode": "NUMBA"},
        )
    test_model = declare(name, emission, data.y_test, data.y)
    held_out = dshdp.held_out_log_likelihood(idata, model=test_model, thin=THIN)["total"].values
    posterior = idata.posterior
    return [
        summarise(
            {variable: posterior[variable].values[chain, ::THIN] for variable in posterior},
            held_out[chain],
            data,
            effort,
        )
        | {"model": name, "chain": chain, "seconds": time.perf_counter() - started}
        for chain in range(effort.chains)
    ]


def summarise(draws, held_out, data, effort):
    """Metrics of one chain's kept draws, and what the figure shows."""
    kept = slice(-(effort.kept // THIN), None)
    z = draws["z"][kept].astype(int)
    hamming = dshdp.hamming_distance(z, data.z)
    states = np.array([len(np.unique(path)) for path in z])
    hyper = {h: draws[f"hmm_{h}"][kept] for h in HYPERPARAMETERS if f"hmm_{h}" in draws}
    score = held_out[kept]
    metrics = {
        "log_likelihood": score.mean(),
        "log_mean_exp": logsumexp(score) - np.log(len(score)),
        "hamming": hamming.mean(),
        "states": states.mean(),
    }
    metrics |= {h: np.median(hyper[h]) if h in hyper else np.nan for h in HYPERPARAMETERS}
    shown = {"trace": held_out, "score": score, "hamming": hamming, "hyper": hyper}
    kappa = draws["hmm_kappa"][kept] if "hmm_kappa" in draws else np.zeros((len(z), N_STATES))
    P = kappa[:, :, None] * np.eye(N_STATES) + (1 - kappa[:, :, None]) * draws["hmm_pi_bar"][kept]
    shown["P"] = matched_transitions(z, data.z, P)
    return {"metrics": metrics, "shown": shown}


def matched_transitions(z, truth, P):
    """Posterior mean of the transition matrix between the states matched with the true ones."""
    K = truth.max() + 1
    total, count = np.zeros((K, K)), np.zeros((K, K))
    for path, aligned, matrix in zip(z, dshdp.align_to(z, truth), P, strict=True):
        found, first = np.unique(aligned, return_index=True)
        found, first = found[found < K], first[found < K]
        total[np.ix_(found, found)] += matrix[np.ix_(path[first], path[first])]
        count[np.ix_(found, found)] += 1
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def job(scenario, emission, seed, name, effort, folder=None):
    """Run one model on one data set; the arguments and the results."""
    data = authors_data(folder, emission) if folder else simulated(scenario, emission, seed)
    results = fit(data, emission, name, seed, effort)
    for result in results:
        result |= {"scenario": scenario, "emission": emission, "seed": seed}
    return results, data


# -- what is printed ------------------------------------------------------------------------------


def compare(results, over):
    """Print the table of one setting: means over seeds or chains, wins of DS and t-tests."""
    print(f"{'model':7s}" + "".join(f"{m:>15s}" for m in METRICS))
    table = {
        name: {
            m: np.array([r["metrics"][m] for r in results if r["model"] == name]) for m in METRICS
        }
        for name in PRIORS
    }
    for name, column in table.items():
        print(f"{name:7s}" + "".join(f"{_number(column[m].mean()):>15s}" for m in METRICS))
    n = len(table["DS"]["hamming"])
    for other in ("sticky", "HDP"):
        for metric, sign in (("log_likelihood", 1.0), ("hamming", -1.0)):
            ours, theirs = table["DS"][metric], table[other][metric]
            line = f"  DS against {other}, {metric}: mean difference {(ours - theirs).mean():+.4g}"
            if over == "seeds":
                line += f", DS at least as good on {np.sum(sign * (ours - theirs) >= 0)} of {n}"
            if n > 1:
                test = stats.ttest_rel if over == "seeds" else stats.ttest_ind
                line += f", t-test over {n} {over}: p = {test(ours, theirs).pvalue:.2g}"
            print(line)


def _number(x):
    return "" if np.isnan(x) else f"{x:.4g}" if abs(x) < 1000 else f"{x:.1f}"


def figure(results, data, path):
    """Draw the paper's figure for one data set: the first chain of each model."""
    shown = {r["model"]: r["shown"] for r in results if r["chain"] == 0}
    colours = dict(zip(PRIORS, ("C0", "C1", "C2"), strict=True))
    fig, axes = plt.subplots(2, 5, figsize=(16, 6), constrained_layout=True)
    for axis, matrix, title in (
        (axes[0, 0], data.transition_matrix, "true transition matrix"),
        (axes[1, 0], shown["DS"]["P"], "estimated by DS"),
    ):
        image = axis.imshow(matrix, vmin=0.0, vmax=1.0, cmap="viridis")
        axis.set(title=title, xlabel="to state", ylabel="from state")
    fig.colorbar(image, ax=axes[:, 0], shrink=0.6)
    panels = {
        "held-out negative log-likelihood": (axes[0, 1], lambda s: -s["score"]),
        "Hamming distance": (axes[0, 2], lambda s: s["hamming"]),
        "alpha": (axes[0, 3], lambda s: s["hyper"].get("alpha")),
        "gamma": (axes[0, 4], lambda s: s["hyper"].get("gamma")),
        "rho1 (sticky: kappa)": (axes[1, 3], lambda s: s["hyper"].get("rho1")),
        "rho2 (sticky: alpha)": (axes[1, 4], lambda s: s["hyper"].get("rho2")),
    }
    for title, (axis, read) in panels.items():
        values = {name: read(s) for name, s in shown.items() if read(s) is not None}
        pooled = np.concatenate(list(values.values()))
        if title.startswith(("alpha", "rho")):
            axis.set_xscale("log")
            axis.xaxis.set_minor_formatter(NullFormatter())
            bins = np.geomspace(pooled.min(), np.quantile(pooled, 0.98) * (1 + 1e-9), 30)
        else:
            bins = np.linspace(pooled.min(), np.quantile(pooled, 0.98) + 1e-9, 30)
        for name, x in values.items():
            share = np.full(len(x), 1.0 / len(x))
            axis.hist(x, bins, weights=share, color=colours[name], alpha=0.5, label=name)
        axis.set(title=title, yticks=[])
    axes[0, 1].legend(frameon=False)
    trace = plt.subplot(axes[1, 1].get_gridspec()[1, 1:3])
    axes[1, 1].remove()
    axes[1, 2].remove()
    lowest = min(np.min(-s["trace"]) for s in shown.values())
    highest = max(np.max(-s["score"]) for s in shown.values())
    for name, s in shown.items():
        trace.plot(THIN * np.arange(len(s["trace"])), -s["trace"], color=colours[name], lw=0.8)
    margin = 0.1 * (highest - lowest)
    trace.set(
        title="held-out negative log-likelihood",
        xlabel="iteration",
        ylim=(lowest - margin, highest + 3 * margin),
    )
    fig.savefig(path, dpi=110)
    plt.close(fig)


def write_rows(path, results, new):
    """Append results to a CSV file."""
    with open(path, "w" if new else "a", newline="") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow([*SETTINGS, *METRICS, "seconds"])
        for r in results:
            numbers = [r["metrics"][m] for m in METRICS] + [r["seconds"]]
            writer.writerow([r[s] for s in SETTINGS] + [f"{x:.6g}" for x in numbers])


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, short chains")
    parser.add_argument("--data", type=Path, help="folder of the authors' files: 3 long chains")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--cores", type=int, default=2, help="data sets at a time")
    parser.add_argument("--csv", type=Path, help="where to save the table, one row for each chain")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the figures")
    return parser.parse_args()


def main():
    arguments = parse()
    if arguments.data:
        efforts = dict.fromkeys(EMISSIONS, QUICK) if arguments.quick else AUTHORS
        jobs = [
            (1, emission, 1, name, efforts[emission], arguments.data)
            for name, emission in product(PRIORS, EMISSIONS)
        ]
    else:
        effort = QUICK if arguments.quick else SEEDS
        seeds = range(1, 1 + (1 if arguments.quick else arguments.seeds))
        jobs = [
            (scenario, emission, seed, name, effort)
            for seed, name, scenario, emission in product(seeds, PRIORS, SCENARIOS, EMISSIONS)
        ]
    collected, data = {}, {}
    started = time.perf_counter()
    if arguments.csv:
        write_rows(arguments.csv, [], new=True)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.cores, mp_context=context) as pool:
        running = [pool.submit(job, *each) for each in jobs]
        for done, future in enumerate(as_completed(running), 1):
            results, its_data = future.result()
            scenario, emission, seed = (results[0][s] for s in SETTINGS[:3])
            collected.setdefault((scenario, emission), []).extend(results)
            data[scenario, emission, seed] = its_data
            if arguments.csv:
                write_rows(arguments.csv, results, new=False)
            print(
                f"{done}/{len(jobs)} after {time.perf_counter() - started:.0f} s: scenario "
                f"{scenario}, {emission}, seed {seed}, {results[0]['model']}: "
                + ", ".join(f"{r['metrics']['log_likelihood']:.1f}" for r in results),
                flush=True,
            )
    for (scenario, emission), results in sorted(collected.items()):
        results.sort(key=lambda r: (r["seed"], r["chain"]))
        what = "the authors' data" if arguments.data else f"{results[-1]['seed']} seeds"
        print(f"\nScenario {scenario}, {emission} emissions, {what}")
        compare(results, "chains" if arguments.data else "seeds")
        path = arguments.out / f"paper_scenario_{scenario}_{emission}.png"
        figure([r for r in results if r["seed"] == 1], data[scenario, emission, 1], path)
        print(f"  saved {path}")
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
