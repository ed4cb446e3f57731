"""Long sequences: python -m benchmarks.million [frames] [--summary].

One chain of the model with unknown means and covariances of 3 channels, 20 states: milliseconds
of an iteration beside NumPy's ``exp`` over a table of the same size, and the peak memory of the
process, measured in a process of its own. With ``--summary`` a ``StateSummary`` takes in every
draw's states, which are not stored.
"""

import argparse
import resource
import subprocess
import sys

import numpy as np

from benchmarks.timing import milliseconds, table


def measure(T, summary, L=20, draws=8):
    """(milliseconds of an iteration, of exp, peak gigabytes) in this process."""
    import logging
    import warnings

    from benchmarks.workloads import sweep, vectors
    from pymc_dshdp import StateSummary

    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    model, z, _ = vectors(T, L)
    callback = StateSummary(model=model) if summary else None
    found = sweep(model, z, draws, var_names=["hmm_alpha", "niw_mu"], callback=callback)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    x = -np.random.default_rng(0).random((min(T, 1_000_000), L))
    out = np.empty_like(x)
    floor = milliseconds(lambda: np.exp(x, out=out), 5) * T / len(x)
    return found.milliseconds, floor, peak


def report(arguments=()):
    """Measure in a child process; print and save the table."""
    command = [sys.executable, "-m", "benchmarks.million", *arguments, "--here"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    T, ours, floor, peak = (float(x) for x in out.split()[-4:])
    row = f"{T:,.0f}", 20, 3, ours, floor, ours / floor, f"{peak:.2f}", "<= 3"
    header = ("T", "L", "channels", "ms", "np.exp of the table, ms", "ratio", "peak, GB", "aim")
    table("A long sequence", [row], header)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("frames", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--summary", action="store_true", help="with a StateSummary")
    parser.add_argument("--here", action="store_true", help="in this process, bare numbers")
    options = parser.parse_args()
    if options.here:
        print(options.frames, *measure(options.frames, options.summary))
    else:
        report(sys.argv[1:])
