"""Timing and printing shared by the benchmarks."""

import argparse
import contextlib
import csv
import datetime
import json
import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results" / datetime.date.today().isoformat()
PACKAGES = "pymc", "pytensor", "numba", "numpy", "scipy", "arviz"
PEERS = "dynamax", "hmmlearn", "jax", "jax-moseq", "numpyro"


def only_help(description):
    """Answer ``--help`` for a command without arguments, and refuse arguments."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()


def circumstances():
    """Date, processor and versions that a measurement belongs to."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":")[1].strip() if names else cpu
    found = {"date": datetime.datetime.now().isoformat(timespec="seconds"), "cpu": cpu}
    found |= {"platform": platform.platform(), "python": platform.python_version()}
    for package in (*PACKAGES, *PEERS):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def milliseconds(function, repeats=15):
    """Median wall time of a call in milliseconds, after one call to warm up."""
    return interleaved({"": function}, repeats)[""]


def interleaved(functions, repeats=15, of=np.median):
    """Median wall times in milliseconds of functions called in turn, after one call each.

    In turn, so that what else the machine does falls on all of them alike. ``of`` may be another
    number of the times than their median.
    """
    for function in functions.values():
        function()
    times = np.empty((repeats, len(functions)))
    for i in range(repeats):
        for j, function in enumerate(functions.values()):
            start = time.perf_counter()
            function()
            times[i, j] = time.perf_counter() - start
    return dict(zip(functions, (1e3 * of(times, axis=0)).tolist(), strict=True))


@contextlib.contextmanager
def stopwatch(places):
    """Add up the time spent in functions while they run; yields {label: seconds}."""
    spent = dict.fromkeys((label for label, _, _ in places), 0.0)
    originals = [(owner, name, getattr(owner, name)) for _, owner, name in places]

    def timed(label, function):
        def wrapper(*args):
            start = time.perf_counter()
            out = function(*args)
            spent[label] += time.perf_counter() - start
            return out

        return wrapper

    for (label, owner, name), (_, _, function) in zip(places, originals, strict=True):
        setattr(owner, name, timed(label, function))
    try:
        yield spent
    finally:
        for owner, name, function in originals:
            setattr(owner, name, function)


def table(title, rows, header=("what", "ms", "reference", "ms", "ratio", "aim")):
    """Print rows as aligned columns under a title, and save them in ``benchmarks/results``.

    The folder is that of the day, and has the circumstances of each table beside it.
    """
    cells = [header] + [
        tuple(f"{x:.3g}" if isinstance(x, float) else str(x) for x in row) for row in rows
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    print(f"\n{title}")
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  " + line, flush=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    name = "".join(c if c.isalnum() else "_" for c in title.split("(")[0].strip().lower())
    with (RESULTS / f"{name}.csv").open("w", newline="") as file:
        csv.writer(file).writerows(cells)
    about = {"table": title, "command": " ".join(sys.orig_argv[1:]), **circumstances()}
    (RESULTS / f"{name}.json").write_text(json.dumps(about, indent=1) + "\n")
