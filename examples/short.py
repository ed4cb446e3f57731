"""What the short examples of the gallery share: options, the run, intervals."""

import argparse
import textwrap
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm

import pymc_dshdp as dshdp


def options(doc, name, arguments=None):
    """Read ``--out`` and ``--quick``."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / f"{name}.png")
    parser.add_argument("--quick", action="store_true", help="too few draws, to see that it runs")
    return parser.parse_args(arguments)


def fit(model, quick, draws=400):
    """Sample two chains, one if quick, and align their states."""
    return dshdp.align(sample(model, quick, draws))


def sample(model, quick, draws=400):
    """Sample two chains, one if quick."""
    return pm.sample(
        draws=4 if quick else draws,
        tune=4 if quick else 400,
        chains=1 if quick else 2,
        cores=1,
        random_seed=1,
        model=model,
        progressbar=False,
        compute_convergence_checks=False,
    )


def flat(idata, name):
    """Draws of a variable of all chains, one after another."""
    values = idata["posterior"][name].values
    return values.reshape(-1, *values.shape[2:])


def interval(draws):
    """Write a median and a 90% interval."""
    low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95])
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def verdict(idata):
    """Say what ``check`` found: that nothing is wrong, or each problem."""
    found = dshdp.check(idata)
    problems = [f"wrong, {problem}" for problem in found.problems]
    problems += [f"short, {message}" for message in found.short]
    lines = [f"check: {line}" for line in problems or ["no problem found"]]
    return "\n".join(textwrap.fill(line, 92, subsequent_indent="  ") for line in lines)


def between(draws, digits):
    """Write the same in words, for an answer."""
    low, middle, high = (f"{x:.{digits}f}" for x in np.quantile(draws, [0.05, 0.5, 0.95]))
    return f"{middle} ({low} to {high} with probability 0.9)"


def figure(columns=2):
    """Make axes of one size for all pictures of the gallery."""
    return plt.subplots(1, columns, figsize=(8.0, 2.8), layout="constrained")


def save(fig, path):
    """Save a picture and say where."""
    fig.savefig(path, dpi=90)
    plt.close(fig)
    print(f"saved {path}")
