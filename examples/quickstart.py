"""Major earthquakes, 1900-2006: how many regimes there were, and which year was in which.

Fits the disentangled sticky HDP-HMM with Poisson counts, checks the chains, says what was found
and saves a picture, the first of docs/tutorial.md, which takes the same model further.
"""

import argparse
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
import pymc as pm

import pymc_dshdp as dshdp
from pymc_dshdp.datasets import earthquakes


def declare(years, counts):
    """Declare the model: an ordinary ``pm.Model`` with one prior and one states variable."""
    with pm.Model(coords={"state": np.arange(10), "year": years}) as model:
        prior = dshdp.DSHDP("hmm", dims="state")
        z = dshdp.HiddenStates("z", prior, dims="year")
        rate = pm.Gamma("rate", alpha=2.0, beta=0.1, dims="state")
        pm.Poisson("counts", rate[z], observed=counts, dims="year")
    return model


def main(arguments=None):
    """Fit, check, align, describe and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "quickstart.png")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    with declare(*earthquakes()):
        idata = pm.sample(
            chains=4,
            cores=2,
            random_seed=options.seed,
            progressbar=False,
            compute_convergence_checks=False,  # R-hat of every z[t] means nothing; see ``check``
            compile_kwargs={"mode": "NUMBA"},  # PyMC 6's default; compiles faster on PyMC 5
        )
    print(f"\npm.sample(): {time.perf_counter() - started:.0f} s\n")
    print(dshdp.check(idata))
    aligned = dshdp.align(idata)  # one numbering of the states for all draws and chains
    print(dshdp.summary(aligned, prob=0.9))
    print("Segments")
    print(dshdp.segments(aligned).to_string(index=False))
    dshdp.plot_series(aligned).figure.savefig(options.out, dpi=90)
    print(f"\nPicture: {options.out}")


if __name__ == "__main__":
    main()
