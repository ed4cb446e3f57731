"""Draws of the states with several transition matrices, against one.

Run with ``python -m benchmarks.matrices``; ``benchmarks.run`` has its table too.
"""

import numpy as np

from benchmarks.timing import interleaved, only_help, table
from pymc_dshdp.kernels.blocks import sample_paths
from pymc_dshdp.kernels.chain import first_wrong_row, without_persistence

T, L, MATRICES = 100_000, 20, 24


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


if __name__ == "__main__":
    only_help(__doc__)
    report()
