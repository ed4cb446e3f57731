"""Long sequences: python -m benchmarks.million [frames].

One chain of the model with unknown means and covariances of 3 channels, 20 states: milliseconds
of an iteration beside NumPy's ``exp`` over a table of the same size, and the peak memory of the
process, measured in a process of its own.
"""

import resource
import subprocess
import sys

import numpy as np

from benchmarks.timing import milliseconds


def measure(T, L=20, draws=8):
    """(milliseconds of an iteration, of exp, peak gigabytes) in this process."""
    import logging
    import warnings

    from benchmarks.workloads import sweep, vectors

    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    model, z, _ = vectors(T, L)
    found = sweep(model, z, draws, var_names=["hmm_alpha", "niw_mu"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    x = -np.random.default_rng(0).random((min(T, 1_000_000), L))
    out = np.empty_like(x)
    floor = milliseconds(lambda: np.exp(x, out=out), 5) * T / len(x)
    return found.milliseconds, floor, peak


def in_a_child(T):
    """Measure the same in a child process."""
    command = [sys.executable, "-m", "benchmarks.million", str(T), "--here"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return tuple(float(x) for x in out.split()[-3:])


def main():
    T = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    ours, floor, peak = measure(T) if "--here" in sys.argv else in_a_child(T)
    if "--here" in sys.argv:
        print(ours, floor, peak)
    else:
        print(f"{T:,} frames x 20 states x 3 channels, one thread: {ours:.0f} ms an iteration,")
        print(f"np.exp of the table {floor:.0f} ms, ratio {ours / floor:.2f}, peak {peak:.2f} GB")


if __name__ == "__main__":
    main()
