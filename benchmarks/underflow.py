"""What it costs the forward filter to watch for states that underflow.

Run with ``python -m benchmarks.underflow``. The filter is timed against a copy of itself that does
not watch, in turn, at the least of many repeats; both give the same numbers.
"""

import importlib.util
import inspect
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.timing import interleaved, only_help, table
from pymc_dshdp.kernels import filtering
from pymc_dshdp.kernels.chain import without_persistence

REPEATS = 61
WATCHING = {
    "if exponent <= floor:": "if False:",
    "if exponent > floor:": "if True:",
    "logarithms[i] = bound > NEGLIGIBLE": "logarithms[i] = False",
}


def without_watching():
    """Import a copy of the filter that takes nothing for lost."""
    source = inspect.getsource(filtering).replace("cache=True, ", "")
    for line, other in WATCHING.items():
        if source.count(line) != 1:
            raise RuntimeError(f"the filter no longer says {line!r} once: adapt {__name__}")
        source = source.replace(line, other)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "unwatched.py"
        file.write_text(source)
        spec = importlib.util.spec_from_file_location("unwatched", file)
        module = sys.modules["unwatched"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def sparse(rng, L, zeros, near):
    """Sticky rows of which a share is exactly 0 and another 1e-200 times what it was."""
    rows = rng.dirichlet(np.full(L, 0.3), size=L)
    rows[rng.random(rows.shape) < zeros] = 0.0
    rows[rng.random(rows.shape) < near] *= 1e-200
    rows += 0.01 * np.eye(L)
    return 0.9 * np.eye(L) + 0.1 * rows / rows.sum(axis=1, keepdims=True)


def one_way(L, stay=0.9995):
    """Each state is left for the next one only, and the last one never."""
    rows = stay * np.eye(L) + (1.0 - stay) * np.eye(L, k=1)
    rows[-1, -1] = 1.0
    return rows


KINDS = {
    "dense": lambda rng, L: rng.dirichlet(np.ones(L), size=L),
    "small concentration": lambda rng, L: sparse(rng, L, 0.0, 0.5),
    "half zeros": lambda rng, L: sparse(rng, L, 0.5, 0.0),
    "90% zeros": lambda rng, L: sparse(rng, L, 0.9, 0.0),
    "zeros and 1e-200": lambda rng, L: sparse(rng, L, 0.5, 0.9),
    "95% zeros": lambda rng, L: sparse(rng, L, 0.95, 0.0),
    "one way": lambda rng, L: one_way(L),
}


def problem(seed, P, apart, T, n_sequences):
    """Log-densities of numbers around means that are ``apart``, on a path drawn from P."""
    rng = np.random.default_rng(seed)
    L = len(P)
    cumulative, uniforms, z = P.cumsum(axis=1), rng.random(T), np.zeros(T, np.int64)
    for t in range(1, T):
        z[t] = min(np.searchsorted(cumulative[z[t - 1]], uniforms[t]), L - 1)
    mean = rng.normal(0.0, apart, L)
    ell = -0.5 * (rng.normal(mean[z])[:, None] - mean) ** 2
    lengths = np.full(n_sequences, T // n_sequences)
    return ell[: lengths.sum()], np.full(L, 1 / L), without_persistence(P), lengths


def report():
    """Print the filter with its watch against the one without, by matrix and distance of means."""
    copy, rows = without_watching(), []
    for L, T in ((20, 50_000), (40, 20_000), (200, 1_500)):
        for kind, matrix in KINDS.items():
            for apart, n_sequences in ((3.0, 1), (30.0, 1), (3.0, 8)):
                P = matrix(np.random.default_rng(1), L)
                ell, initial, transitions, lengths = problem(2, P, apart, T, n_sequences)
                out = {name: np.empty(ell.shape) for name in ("ours", "copy")}

                def call(module, name, problem=(ell, initial, transitions, None, lengths), out=out):
                    return module.forward_filter(*problem, out[name], filtering.NO_SHIFTS)

                times = interleaved(
                    {"ours": lambda: call(filtering, "ours"), "copy": lambda: call(copy, "copy")},
                    REPEATS,
                    of=np.min,
                )
                redone = call(filtering, "ours").logarithms.sum()
                assert redone or np.array_equal(out["ours"], out["copy"])
                what = f"L = {L}, {kind}, sd of means {apart:g}, {n_sequences} sequences"
                ratio = times["ours"] / times["copy"]
                rows.append((what, times["ours"], "unwatched", times["copy"], ratio, int(redone)))
    header = "what", "ms", "reference", "ms", "ratio", "by logarithms"
    table("What watching for underflow costs the filter", rows, header)


if __name__ == "__main__":
    only_help(__doc__)
    report()
