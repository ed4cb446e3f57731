"""Hidden paths of many sequences: python -m benchmarks.sequences.

What drawing the paths of 100 to 10,000 sequences of 189 frames costs for each frame, against calls
for 100 of them at a time, which must draw the same.
"""

import numpy as np

from benchmarks.timing import interleaved, only_help, table
from pymc_dshdp.kernels.blocks import sample_paths
from pymc_dshdp.kernels.chain import without_persistence

FRAMES, STATES, TOGETHER = 189, 40, 100
SEQUENCES = 100, 1_000, 4_000, 10_000


def problem():
    """Table of 100 sequences, pi_init and P."""
    rng = np.random.default_rng(1)
    ell = rng.normal(0.0, 3.0, (TOGETHER * FRAMES, STATES))
    P = 0.9 * np.eye(STATES) + 0.1 * rng.dirichlet(np.ones(STATES), STATES)
    return ell, np.full(STATES, 1 / STATES), without_persistence(P)


def draw(n, uniforms, ell, initial, transitions, first=0):
    """States of n sequences; their table repeats that of 100 and is never held whole."""

    def rows(low, high):
        return ell[np.arange(first + low, first + high) % len(ell)]

    lengths = np.full(n, FRAMES)
    return sample_paths(rows, STATES, initial, transitions, lengths, uniforms).states


def main():
    ell, initial, transitions = problem()
    uniforms = np.random.default_rng(2).random(max(SEQUENCES) * FRAMES)

    def whole(n):
        return draw(n, uniforms[: n * FRAMES], ell, initial, transitions)

    def apart(n):
        return np.concatenate(
            [draw(TOGETHER, part, ell, initial, transitions)
             for part in np.split(uniforms[: n * FRAMES], n // TOGETHER)]
        )  # fmt: skip

    rows = []
    for n in SEQUENCES:
        np.testing.assert_array_equal(whole(n), apart(n))
        times = interleaved(
            {"at once": lambda n=n: whole(n), "apart": lambda n=n: apart(n)}, 9, of=np.min
        )
        per_frame = [1e6 * ms / (n * FRAMES) for ms in times.values()]
        shown = [f"{x:.0f}" for x in per_frame]
        rows.append((f"{n:,}", *shown, per_frame[0] / per_frame[1], "<= 1.15"))
    table(
        f"Paths of sequences of {FRAMES}, L = {STATES}, nanoseconds a frame",
        rows,
        ("sequences", "at once", "100 at a time", "ratio", "aim"),
    )


if __name__ == "__main__":
    only_help(__doc__)
    main()
