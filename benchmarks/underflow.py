"""What it costs the forward filter to watch for states that underflow.

Run with ``python -m benchmarks.underflow``. The filter is timed against a copy of itself that does
not watch; both give the same numbers. As what else the machine does is more than what is sought,
runs take about a millisecond, in a random order, and the median is taken of the ratios of runs that
follow one another, in processor time of the thread. A second copy that does watch shows by its own
ratio to the filter what is left of noise, and what chance in the layout of compiled code makes.
"""

import importlib.util
import inspect
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.timing import only_help, table
from pymc_dshdp.kernels import filtering
from pymc_dshdp.kernels.chain import without_persistence

REPEATS = 301
WATCHING = {
    "if exponent <= floor:": "if False:",
    "if exponent > floor:": "if True:",
    "logarithms[i] = bound > NEGLIGIBLE": "logarithms[i] = False",
}


def copy_of_filter(name, changes):
    """Import a copy of the filter with some of its lines changed."""
    source = inspect.getsource(filtering).replace("cache=True", "cache=False")
    for line, other in changes.items():
        if source.count(line) != 1:
            raise RuntimeError(f"the filter no longer says {line!r} once: adapt {__name__}")
        source = source.replace(line, other)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.py"
        file.write_text(source)
        spec = importlib.util.spec_from_file_location(name, file)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
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


def paired(functions, repeats=REPEATS):
    """Milliseconds of each function at its fastest, and median ratios to the first one.

    They run in turn, in an order drawn anew each time, so that each is as often first and next to
    each other one. Times are those of the thread, so that other processes' do not count.
    """
    rng = np.random.default_rng(0)
    times = np.empty((repeats, len(functions)))
    for function in functions:
        function()
    for row in times:
        for j in rng.permutation(len(functions)):
            start = time.thread_time_ns()
            functions[j]()
            row[j] = time.thread_time_ns() - start
    return times.min(axis=0) / 1e6, np.median(times / times[:, :1], axis=0)


def report():
    """Print the filter with its watch against the one without, by matrix and distance of means."""
    without, again, rows = copy_of_filter("without", WATCHING), copy_of_filter("again", {}), []
    for L, T in ((20, 10_000), (40, 5_000), (200, 500)):
        for kind, matrix in KINDS.items():
            for apart, n_sequences in ((3.0, 1), (30.0, 1), (3.0, 8)):
                P = matrix(np.random.default_rng(1), L)
                ell, initial, transitions, lengths = problem(2, P, apart, T, n_sequences)
                out = np.empty(ell.shape)

                def call(module, problem=(ell, initial, transitions, None, lengths), out=out):
                    return module.forward_filter(*problem, out, filtering.NO_SHIFTS)

                redone = call(filtering).logarithms.sum()
                found = out.copy()
                call(without)
                assert redone or np.array_equal(found, out)
                modules = without, filtering, again
                times, ratios = paired([partial(call, module) for module in modules])
                what = f"L = {L}, {kind}, sd of means {apart:g}, {n_sequences} sequences"
                rows.append((what, *times[:2].tolist(), *ratios[1:].tolist(), int(redone)))
    header = "what", "ms without", "ms", "ratio", "ratio of a copy", "by logarithms"
    table("What watching for underflow costs the filter", rows, header)
    ordinary = np.array([row[3:5] for row in rows if row[-1] == 0])
    print("  median and largest of the ratios where none is filtered by logarithms:")
    print("  ", np.median(ordinary, axis=0).round(3), ordinary.max(axis=0).round(3))


if __name__ == "__main__":
    only_help(__doc__)
    report()
