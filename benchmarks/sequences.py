"""Hidden paths of many sequences: python -m benchmarks.sequences.

What drawing the paths of 100 to 10,000 sequences of 189 frames costs for each frame, against calls
for 100 of them at a time, which must draw the same; and what analyses of one posterior draw cost.
"""

import numpy as np
import pymc as pm
import xarray as xr

import pymc_dshdp as dshdp
from benchmarks.timing import interleaved, only_help, table
from pymc_dshdp.analysis.draws import PosteriorDraws
from pymc_dshdp.kernels.blocks import sample_paths
from pymc_dshdp.kernels.chain import without_persistence
from pymc_dshdp.kernels.decoding import filter_with_scores, most_probable_path, smooth

FRAMES, STATES, TOGETHER = 189, 40, 100
SEQUENCES = 100, 1_000, 4_000, 10_000
REPEATS = 7


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


def sampling():
    """``f(n)`` that draws n sequences at once, and one that draws 100 of them at a time."""
    ell, initial, transitions = problem()
    uniforms = np.random.default_rng(2).random(max(SEQUENCES) * FRAMES)

    def whole(n):
        return draw(n, uniforms[: n * FRAMES], ell, initial, transitions)

    def apart(n):
        return np.concatenate(
            [draw(TOGETHER, part, ell, initial, transitions)
             for part in np.split(uniforms[: n * FRAMES], n // TOGETHER)]
        )  # fmt: skip

    return whole, apart


def posterior_draws(n):
    """One posterior draw of a model of n sequences, which repeat 100 of them."""
    rng = np.random.default_rng(3)
    y = np.tile(rng.normal(0.0, 3.0, (TOGETHER, FRAMES)), (n // TOGETHER, 1))
    with pm.Model(coords={"state": np.arange(STATES)}) as model:
        z = dshdp.HiddenStates("z", dshdp.HDP("hmm", dims="state"), shape=y.shape)
        mu = pm.Normal("mu", 0.0, 3.0, dims="state")
        pm.Normal("y", mu[z], 1.0, observed=y)
    rows = rng.dirichlet(np.ones(STATES), STATES + 1)
    drawn = {"mu": rng.normal(0.0, 3.0, STATES), "hmm_pi_init": rows[0], "hmm_pi_bar": rows[1:]}
    drawn |= {"hmm_alpha": 1.0, "hmm_gamma": 1.0, "hmm_beta": np.full(STATES, 1 / STATES)}
    posterior = xr.Dataset({name: xr.DataArray(x) for name, x in drawn.items()})
    posterior = posterior.expand_dims(chain=[0], draw=[0])
    return PosteriorDraws(xr.DataTree.from_dict({"posterior": posterior}), model)


def analysing(kernel, *columns):
    """``f(n)`` that analyses n sequences at once, and one that analyses 100 again and again."""
    draws = {n: posterior_draws(n) for n in SEQUENCES}
    found = np.zeros((max(SEQUENCES) * FRAMES, *columns))

    def analyse(n, out):
        [(_, blocks)] = draws[n]
        for times, messages in blocks:
            out[times] = kernel(*messages)
        return out

    def whole(n):
        return analyse(n, found[: n * FRAMES])

    def apart(n):
        for out in np.split(found[: n * FRAMES], n // TOGETHER):
            analyse(TOGETHER, out)
        return found[: n * FRAMES]

    return whole, apart


def compare(what, whole, apart):
    """Print what both cost for each frame; they must find the same."""
    rows = []
    for n in SEQUENCES:
        np.testing.assert_array_equal(whole(n).copy(), apart(n))
        times = interleaved(
            {"at once": lambda n=n: whole(n), "apart": lambda n=n: apart(n)}, REPEATS, of=np.min
        )
        per_frame = [1e6 * ms / (n * FRAMES) for ms in times.values()]
        shown = [f"{x:.0f}" for x in per_frame]
        rows.append((f"{n:,}", *shown, per_frame[0] / per_frame[1], "<= 1.15"))
    table(
        f"{what} of sequences of {FRAMES}, L = {STATES}, nanoseconds a frame",
        rows,
        ("sequences", "at once", "100 at a time", "ratio", "aim"),
    )


def filtered(*messages):
    return filter_with_scores(*messages)[0]


def path(*messages):
    return most_probable_path(*messages)[0]


def main():
    compare("Paths", *sampling())
    compare("Smoothing", *analysing(smooth, STATES))
    compare("Filtering with scores", *analysing(filtered, STATES))
    compare("Viterbi paths", *analysing(path))


if __name__ == "__main__":
    only_help(__doc__)
    main()
