"""What the examples of the paper share: three priors on one likelihood, scored on other data.

Not a script: ``hippocampus.py``, ``behaviour.py`` and ``paper_simulations.py`` import it.
"""

import time
from typing import NamedTuple

import numpy as np
import pymc as pm
import xarray as xr
from scipy import stats

import pymc_dshdp as dshdp

PRIORS = {"DS": dshdp.DSHDP, "sticky": dshdp.StickyHDP, "HDP": dshdp.HDP}
HYPERPARAMETERS = ("alpha", "gamma", "rho1", "rho2")
COLUMNS = {"mean": 10, "sd chains": 11, "log-mean-exp": 14, "states": 8}
COLUMNS |= {"alpha": 9, "gamma": 9, "rho1": 9, "rho2": 9, "seconds": 9}
SCORED = 200  # draws in all that are scored


class Fit(NamedTuple):
    """Draws of one model, its score on the test data, and the time it took to sample."""

    idata: object
    held_out: xr.Dataset
    seconds: float


def add_options(parser, *, n_states, draws, tune):
    """Add the options of the sampler to a parser."""
    parser.add_argument("--n-states", type=int, default=n_states, help="truncation L")
    parser.add_argument("--draws", type=int, default=draws, help="kept iterations of a chain")
    parser.add_argument("--tune", type=int, default=tune, help="discarded iterations of a chain")
    parser.add_argument("--chains", type=int, default=1)
    parser.add_argument("--cores", type=int, default=1, help="chains at a time")
    parser.add_argument("--seed", type=int, default=1)


def sample(model, options):
    """Sample as the options say, with the steps that are chosen automatically."""
    return pm.sample(
        options.draws,
        tune=options.tune,
        chains=options.chains,
        cores=options.cores,
        random_seed=options.seed,
        model=model,
        progressbar=False,
        compute_convergence_checks=False,
        compile_kwargs={"mode": "NUMBA"},
    )


def fit_all(declare, train, test, options, **start):
    """Sample the three models, score them on the test data and print their table.

    Parameters
    ----------
    declare : callable
        ``declare(prior, data, n_states, **start)`` returns a model.
    train, test : data that ``declare`` takes
    options : argparse.Namespace
        Of ``add_options``.
    start : dict
        Given to ``declare`` for the training data.

    Returns
    -------
    dict of Fit, by the name of the prior
    """
    print("held-out log-likelihood:")
    print(f"{'model':7s}" + "".join(f"{title:>{w}s}" for title, w in COLUMNS.items()))
    fits = {}
    for name, prior in PRIORS.items():
        started = time.perf_counter()
        idata = sample(declare(prior, train, options.n_states, **start), options)
        seconds = time.perf_counter() - started
        thin = max(1, options.chains * options.draws // SCORED)
        test_model = declare(prior, test, options.n_states)
        held_out = dshdp.held_out_log_likelihood(idata, model=test_model, thin=thin)
        fits[name] = Fit(idata, held_out, seconds)
        print(f"{name:7s}" + _row(fits[name]), flush=True)
    for other in ("sticky", "HDP"):
        print(_difference(fits["DS"], fits[other], other))
    return fits


def _row(fit):
    chains = fit.held_out["total"].mean("draw").values
    numbers = {
        "mean": chains.mean(),
        "sd chains": chains.std(ddof=1) if len(chains) > 1 else np.nan,
        "log-mean-exp": float(fit.held_out["log_mean_exp"]),
        "states": float(dshdp.label_invariant(fit.idata)["n_occupied"].mean()),
        "seconds": fit.seconds,
    }
    posterior = fit.idata.posterior
    for h in HYPERPARAMETERS:
        known = f"hmm_{h}" in posterior
        numbers[h] = float(posterior[f"hmm_{h}"].median()) if known else np.nan
    return "".join(f"{_number(numbers[title]):>{w}s}" for title, w in COLUMNS.items())


def _number(x):
    return "" if np.isnan(x) else f"{x:.3g}" if abs(x) < 100 else f"{x:.0f}"


def _difference(ds, other, name):
    """Say by how much DS predicts better, with the t-test over chains where there are several."""
    ours, theirs = (fit.held_out["total"].mean("draw").values for fit in (ds, other))
    line = f"DS against {name}: {ours.mean() - theirs.mean():+.1f} nats"
    if len(ours) == 1:
        return f"{line} (one chain: no test)"
    p = stats.ttest_ind(ours, theirs).pvalue
    return f"{line}, t-test over {len(ours)} chains: p = {p:.2g}"
