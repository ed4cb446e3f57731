"""Draws of the states with several transition matrices, against one; iterations with groups.

Run with ``python -m benchmarks.matrices``; ``benchmarks.run`` has its first table too.
"""

import numpy as np
import pymc as pm

import pymc_dshdp as dshdp
from benchmarks.timing import interleaved, only_help, table
from pymc_dshdp.kernels.blocks import sample_paths
from pymc_dshdp.kernels.chain import first_wrong_row, without_persistence

T, L, MATRICES = 100_000, 20, 24
SUBJECTS, FRAMES = 50, 2_000


def report():
    """Print filter and backward sample of T times: one matrix, one of 24, one for each time."""
    rng = np.random.default_rng(1)
    ell = rng.normal(0.0, 2.0, (T, L))
    initial, uniforms, lengths = np.full(L, 1 / L), rng.random(T), np.array([T])
    rows = rng.dirichlet(np.ones(L), size=(MATRICES, L))
    index = rng.integers(MATRICES, size=T)
    each = rows[index]
    kinds = {
        "one matrix": without_persistence(rows[0]),
        f"one of {MATRICES}": without_persistence(rows, index),
        "one for each time": without_persistence(each, np.arange(T)),
    }

    def draw(transitions):
        sample_paths(lambda a, b: ell[a:b], L, initial, transitions, lengths, uniforms)

    calls = {name: lambda x=x: draw(x) for name, x in kinds.items()}
    calls["reading P"] = each.sum
    calls["checking P"] = lambda: first_wrong_row(each)
    times = interleaved(calls, 9)
    one = times["one matrix"]
    both = one + times["reading P"]
    found = [
        (f"one of {MATRICES}", times[f"one of {MATRICES}"], "one matrix", one, "<= 1.5"),
        ("one for each time", times["one for each time"], "and reading P once", both, "<= 1"),
        ("rows of each time checked", times["checking P"], "one matrix", one, ""),
    ]
    rows = [(a, ours, b, other, ours / other, aim) for a, ours, b, other, aim in found]
    table(f"States alone by kind of transitions, T = {T:,}, L = {L}", rows)


def subjects(rng):
    """Five states, of which each subject changes with a probability of its own."""
    z = np.zeros((SUBJECTS, FRAMES), int)
    changes = rng.random((SUBJECTS, FRAMES)) < rng.uniform(0.02, 0.2, (SUBJECTS, 1))
    for t in range(1, FRAMES):
        z[:, t] = np.where(changes[:, t], rng.integers(5, size=SUBJECTS), z[:, t - 1])
    return z, rng.normal(2.0 * z, 1.0)


class Iteration:
    """An iteration of all steps, on and on, from the true path; without splits and pilots."""

    def __init__(self, z, y, groups):
        coords = {"state": range(L), "subject": range(SUBJECTS)}
        group = {} if groups is None else {"group": np.arange(SUBJECTS)}
        with pm.Model(coords=coords) as model:
            prior = dshdp.DSHDP("hmm", dims="state", groups=groups)
            states = dshdp.HiddenStates("z", prior, shape=z.shape, **group)
            mu = pm.Normal("mu", 0.0, 5.0, dims="state")
            pm.Normal("y", mu[states], 1.0, observed=y)
            self._steps = [
                dshdp.WeakLimitFFBS([states], pilots=False, split_merge=False),
                dshdp.GridRhoStep([states]),
                dshdp.ConjugateStep([mu]),
            ]
        for step in self._steps:
            step.stop_tuning()
        means = np.where(np.arange(L) < 5, 2.0 * np.arange(L), 30.0)
        self._point = {**model.initial_point(), "z": z, "mu": means}

    def __call__(self):
        """Go on by one."""
        for step in self._steps:
            self._point, _ = step.step(self._point)


def report_groups():
    """Print an iteration of many subjects with groups, and without."""
    z, y = subjects(np.random.default_rng(2))
    calls = {name: Iteration(z, y, name) for name in ("subject", None)}
    times = interleaved(calls, 15)
    with_groups, without = times["subject"], times[None]
    table(
        f"Iteration, {SUBJECTS} sequences of {FRAMES:,}, L = {L}",
        [("a group each", with_groups, "no groups", without, with_groups / without, "<= 1.3")],
    )


if __name__ == "__main__":
    only_help(__doc__)
    report()
    report_groups()
