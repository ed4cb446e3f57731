"""Timing and printing shared by the benchmarks."""

import time

import numpy as np


def milliseconds(function, repeats=15):
    """Median wall time of a call in milliseconds, after one call to warm up."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def table(title, rows, header=("what", "ms", "reference", "ms", "ratio", "aim")):
    """Print rows as aligned columns under a title."""
    cells = [header] + [
        tuple(f"{x:.2f}" if isinstance(x, float) else str(x) for x in row) for row in rows
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    print(f"\n{title}")
    for row in cells:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
