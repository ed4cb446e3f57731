"""Time of an iteration of DSBlockGibbs + GridRhoStep: python -m benchmarks.direct_assignment.

Gaussian emissions with unknown means, everything PyMC does in an iteration included, beside a
yardstick of the same run (1,000 x 10 ``scipy.stats.norm.logpdf``), then the growth with T and L.
"""

import argparse
import time

import numpy as np
import pymc as pm
from pymc.step_methods.compound import CompoundStep
from scipy.stats import norm

import pymc_dshdp as dshdp
from benchmarks.timing import table
from pymc_dshdp.kernels.chain import NO_INDEX
from pymc_dshdp.kernels.counts import empty_counts
from pymc_dshdp.kernels.direct_assignment import draw_persistences, sweep_states
from pymc_dshdp.steps.direct_assignment import DSBlockGibbs

STATES = 10


def simulate(T, rng):
    """Path of ten states with self-persistence 0.9 and Gaussian data around 4 k."""
    z = np.zeros(T, int)
    for t in range(1, T):
        z[t] = z[t - 1] if rng.random() < 0.9 else rng.integers(STATES)
    return z, rng.normal(4.0 * z, 1.0)


def build(T, L, seed):
    """Model with means unknown and L slots, and the path that made the data."""
    rng = np.random.default_rng(seed)
    z, y = simulate(T, rng)
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=L)
        states = dshdp.HiddenStates("z", prior, length=T)
        mean = pm.Normal("mean", 20.0, 15.0, shape=L)
        pm.Normal("y", mean[states], 1.0, observed=y)
    return model, z


def seconds_per_iteration(T, L, collapse, iterations, seed=1):
    """Median seconds of ``CompoundStep.step``, of its states' sweep, and mean occupied states."""
    model, z = build(T, L, seed)
    with model:
        steps = [
            DSBlockGibbs([model["z"]], collapse=collapse, rng=seed),
            dshdp.GridRhoStep([model["z"]], rng=seed + 1),
        ]
        point = model.initial_point()
        point["z"] = z.astype(point["z"].dtype)
        point["mean"] = np.where(np.arange(L) < STATES, 4.0 * np.arange(L), 20.0)
        compound = CompoundStep(steps)
        compound.stop_tuning()
        occupied, elapsed = [], []
        for i in range(iterations + 20):
            start = time.perf_counter()
            point, stats = compound.step(point)
            elapsed.append(time.perf_counter() - start)
            occupied.append(stats[0]["n_occupied"])
    return np.median(elapsed[20:]), sweep_seconds(steps[0], point), np.mean(occupied[20:])


def sweep_seconds(step, point):
    """Least seconds of the sweep kernel alone, at a point."""
    [sampler] = step._priors
    lengths, path = sampler.paths.lengths[0], point["z"]
    logit, pi_bar = sampler.transition.persistence_and_rows(point)
    base = sampler.transition.row_concentrations(point)
    least = np.inf
    for _ in range(50):
        switches, visits = empty_counts(logit.size), np.zeros(logit.size, np.int64)
        given = step.rng, path, lengths, NO_INDEX, logit, pi_bar, switches, visits
        persists = draw_persistences(*given)
        emission, grouped = sampler.emissions[0].statistics(point, path)
        start = time.perf_counter()
        sweep_states(
            step.rng,
            path,
            persists,
            lengths,
            NO_INDEX,
            switches,
            visits,
            logit,
            base,
            emission,
            grouped,
            np.arange(path.size),
        )
        least = min(least, time.perf_counter() - start)
    return least


def yardstick():
    """Median seconds of 10,000 normal log-densities."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(1000, 1))
    means = rng.normal(size=10)
    times = []
    for _ in range(50):
        start = time.perf_counter()
        norm.logpdf(y, means, 1.0)
        times.append(time.perf_counter() - start)
    return np.median(times)


def measure(iterations=300):
    """Print and save the table."""
    unit, rows = yardstick(), []
    for T, L in ((1000, 12), (1000, 30), (1000, 100), (2000, 30), (4000, 30)):
        for collapse in ("auto", False):
            whole, sweep, occupied = seconds_per_iteration(T, L, collapse, iterations)
            rows.append(
                (T, L, collapse, f"{occupied:.1f}", f"{1e3 * sweep:.3f}", f"{1e3 * whole:.3f}",
                 f"{1e3 * unit:.3f}", f"{whole / unit:.1f}")
            )  # fmt: skip
    table(
        "Direct assignment (reference: 10,000 scipy.stats.norm.logpdf)",
        rows,
        ("T", "L", "collapse", "occupied", "sweep, ms", "ms", "reference, ms", "ratio"),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=300)
    measure(parser.parse_args().iterations)
