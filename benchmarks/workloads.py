"""Data and models of the sizes that are timed, and complete sampling iterations of them."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pymc as pm

import pymc_dshdp as dshdp
from benchmarks.timing import milliseconds, stopwatch
from pymc_dshdp.kernels import persistence, transitions
from pymc_dshdp.likelihood.table import LogLikelihoodTable
from pymc_dshdp.steps import ConjugateStep, _common
from pymc_dshdp.transitions import update as transition

STEPS = "steps of the states and their prior"


class Sweep(NamedTuple):
    """Times of the iterations of one chain.

    Attributes
    ----------
    milliseconds : float
        Median of an iteration of the second half, everything that PyMC does included.
    parts : dict
        Median milliseconds of the kernels, by what they do, and of the steps for emissions.
    python : float
        Milliseconds that our other steps spend on anything else: gathering, random numbers.
    pymc : float
        Milliseconds outside any step: PyMC's loop and its trace.
    problem : Problem
        The last draw of the states.
    beside : dict
        Median milliseconds of the functions that were called between the iterations.
    """

    milliseconds: float
    parts: dict
    python: float
    pymc: float
    problem: "Problem"
    beside: dict


class Problem(NamedTuple):
    """What a draw of the states starts from, for all L states.

    Attributes
    ----------
    rows : callable
        ``rows(low, high)`` evaluates the table of log-likelihoods.
    initial : ndarray of shape (L,)
    transition : ndarray of shape (L, L)
    lengths : ndarray of shape (N,)
    uniforms : ndarray of shape (T,)
    """

    rows: Callable
    initial: np.ndarray
    transition: np.ndarray
    lengths: np.ndarray
    uniforms: np.ndarray


def path(rng, T, n_states, stay):
    """Draw states that last 1 / (1 - stay) frames on average."""
    starts = np.flatnonzero(np.append(True, rng.random(T - 1) > stay))
    runs = np.diff(np.append(starts, T))
    return np.repeat(rng.integers(n_states, size=runs.size), runs)


def autoregression(n=100, T=189, d=9, L=40):
    """AR: noisy rotations of 12 kinds in 9 dimensions."""
    rng = np.random.default_rng(1)
    z = path(rng, n * T, 12, 0.9)
    A = np.array([0.95 * np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(12)])
    y = np.zeros((n * T, d))
    for t in range(1, n * T):
        y[t] = A[z[t]] @ y[t - 1] + 0.3 * rng.normal(size=d)
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=L)
        states = dshdp.HiddenStates("z", prior, lengths=[T] * n)
        coefficients, covariances = dshdp.MatrixNormalInverseWishart(
            "ar", data=y, intercept=True, n_states=L
        )
        dshdp.SwitchingVAR("y", coefficients, covariances, states, observed=y, intercept=True)
    return model, z, y


def poisson_cells(n=8, T=500, C=100, L=200):
    """PO: counts of 100 cells in 30 states, or L if those are fewer."""
    rng = np.random.default_rng(2)
    kinds = min(30, L)
    z = path(rng, n * T, kinds, 0.9)
    y = rng.poisson(rng.gamma(1.0, 1.0, (kinds, C))[z])
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=L)
        states = dshdp.HiddenStates("z", prior, lengths=[T] * n)
        rate = pm.Gamma("rate", 1.0, 1.0, shape=(L, C))
        pm.Poisson("y", rate[states], observed=y)
    return model, z, y


def gaussian(lengths=(100_000,), L=20):
    """GA: one channel, 10 means apart by two standard deviations."""
    rng = np.random.default_rng(3)
    z = path(rng, sum(lengths), 10, 0.95)
    y = 2.0 * z + rng.normal(size=z.size)
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=L)
        states = dshdp.HiddenStates("z", prior, lengths=list(lengths))
        mean = pm.Normal("mean", 10.0, 10.0, shape=L)
        pm.Normal("y", mean[states], 1.0, observed=y)
    return model, z, y


def vectors(T=1_000_000, L=20, d=3):
    """One million frames of 3 channels, means and covariances unknown."""
    rng = np.random.default_rng(4)
    z = path(rng, T, 10, 0.95)
    y = rng.normal(0.0, 4.0, (10, d))[z] + rng.normal(size=(T, d))
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=L)
        states = dshdp.HiddenStates("z", prior, length=T)
        mean, covariance = dshdp.NormalInverseWishart("niw", data=y, n_states=L)
        pm.MvNormal("y", mean[states], covariance[states], observed=y)
    return model, z, y


def sweep(model, z, draws, var_names=None, threads=1, callback=None, beside=None):
    """Sample from the true path on and time every iteration, with a callback's share of it.

    The functions of the dictionary ``beside`` are timed after every tenth iteration, outside
    the time of any, so that what else the machine does falls on all alike. At least 10 draws.

    Returns
    -------
    Sweep
    """
    captured = []

    def draw_path(update, table, point, lengths, uniforms, threads):
        captured[:] = table, update, point, lengths, uniforms
        return original(update, table, point, lengths, uniforms, threads)

    original = transition.TransitionUpdate.draw_path
    transition.TransitionUpdate.draw_path = draw_path
    places = [
        ("parameters of the table", LogLikelihoodTable, "rows"),
        ("states (with the table)", transition, "sample_paths"),
        ("emission parameters", ConjugateStep, "step"),
        ("counts", _common, "path_counts"),
        *((STEPS, step, "step") for step in (dshdp.WeakLimitFFBS, dshdp.GridRhoStep)),
        *(("transition block", transitions, name) for name in ("split_counts", "transition_block")),
        *(
            ("self-persistence block", persistence, name)
            for name in ("propose_persistence", "accept_persistence")
        ),
    ]
    begun, ended = [], []
    others = {name: [] for name in beside or {}}
    try:
        with stopwatch(places) as spent, model:

            def stamp(trace, draw):
                if callback is not None:
                    callback(trace, draw)
                ended.append((time.perf_counter(), *spent.values()))
                if len(ended) % 10 == 0:
                    for name in others:
                        others[name].append(milliseconds(beside[name], 3))
                begun.append((time.perf_counter(), *spent.values()))

            pm.sample(
                draws, tune=0, chains=1, cores=1, random_seed=1, progressbar=False,
                initvals={"z": z.astype("int8" if z.max() < 127 else "int16")},
                step=[dshdp.WeakLimitFFBS([model["z"]], threads=threads)],
                compute_convergence_checks=False, callback=stamp, var_names=var_names,
            )  # fmt: skip
    finally:
        transition.TransitionUpdate.draw_path = original
    table, update, point, lengths, uniforms = captured
    problem = Problem(table.rows(point), *update.transition_probabilities(point), lengths, uniforms)
    durations = np.subtract(ended[1:], begun[:-1])[draws // 2 :]
    total, *parts = (1e3 * np.median(durations, axis=0)).tolist()
    medians = {name: float(np.median(times)) for name, times in others.items()}
    parts = dict(zip(spent, parts, strict=True))
    steps = parts.pop(STEPS) + parts["emission parameters"]
    return Sweep(total, parts, steps - sum(parts.values()), total - steps, problem, medians)
