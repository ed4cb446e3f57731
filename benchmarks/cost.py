"""What an iteration costs: python -m benchmarks.cost fits a model and prints a table for planning.

An iteration of ``WeakLimitFFBS`` with conjugate emissions on one thread takes

    a  +  b T L^2  +  c T L  +  d T L p  +  e T q  +  f L^2

milliseconds: PyMC and Python; the filter's products; exponentials and draws; the p multiply-adds of
an entry of the table of log-likelihoods; the q operations of a frame's sufficient statistics; the
transition block. The constants are fitted to measured iterations by non-negative least squares
of relative errors. What our steps spend beside the kernels (gathering, random numbers) and what
PyMC's loop and trace take is listed for each.
"""

import logging
import warnings

import numpy as np
from scipy.optimize import nnls

from benchmarks import workloads
from benchmarks.timing import only_help, table

TERMS = ("a", "b T L^2", "c T L", "d T L p", "e T q", "f L^2")


def gaussian(T, L):
    """One channel: p = q = 1."""
    return workloads.gaussian([T], L), (T, L, 1, 1)


def poisson(T, L, C=100):
    """C cells: p = q = C."""
    return workloads.poisson_cells(1, T, C, L), (T, L, C, C)


def autoregression(T, L, d=9):
    """One lag and an intercept in d dimensions: p = d (2 d + 1), q = (2 d + 1)^2."""
    return workloads.autoregression(1, T, d, L), (T, L, d * (2 * d + 1), (2 * d + 1) ** 2)


MEASURED = [
    *((gaussian, T, L) for T in (100, 1_000, 10_000, 100_000) for L in (10, 40)),
    (gaussian, 2_000, 200),
    (gaussian, 20_000, 20),
    (gaussian, 20_000, 100),
    *((poisson, T, L) for T, L in ((1_000, 20), (4_000, 50), (4_000, 200))),
    *((autoregression, T, L) for T, L in ((2_000, 20), (20_000, 20), (20_000, 40))),
]
PLANNED = [(1_000, 20), (10_000, 20), (100_000, 20), (1_000_000, 20), (10_000, 50), (100_000, 50),
           (10_000, 200)]  # fmt: skip
KINDS = {"one channel": (1, 1), "100 Poisson cells": (100, 100), "AR, 9 dimensions": (171, 361)}


def terms(T, L, p, q):
    """List the terms of the cost, without their constants."""
    return [1.0, T * L**2, T * L, T * L * p, T * q, L**2]


def main():
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    sizes, times, outside, rows = [], [], [], []
    for declare, T, L in MEASURED:
        (model, z, _), size = declare(T, L)
        found = workloads.sweep(model, z, max(20, min(200, 20_000_000 // (T * L))))
        sizes.append(size)
        times.append(found.milliseconds)
        outside.append((found.python, found.pymc))
    X, times = np.array([terms(*size) for size in sizes], float), np.array(times)
    constants, _ = nnls(X / times[:, None], np.ones(len(times)))
    fitted = X @ constants
    for (declare, *_), size, ms, fit, others in zip(
        MEASURED, sizes, times, fitted, outside, strict=True
    ):
        numbers = f"{ms:.2f}", f"{fit:.2f}", f"{fit / ms:.2f}"
        shares = (f"{other:.2f} ({other / ms:.1%})" for other in others)
        rows.append((declare.__name__, *size, *numbers, *shares))
    table(
        "Iterations measured and fitted",
        rows,
        ("model", "T", "L", "p", "q", "ms", "fitted ms", "ratio", "Python", "PyMC"),
    )
    table(
        "Constants of an iteration",
        [(name, f"{1e6 * value:.3g}") for name, value in zip(TERMS, constants, strict=True)],
        ("term", "nanoseconds"),
    )
    plan = [
        (T, L, *(f"{np.dot(terms(T, L, p, q), constants):.3g}" for p, q in KINDS.values()))
        for T, L in PLANNED
    ]
    table("Milliseconds of an iteration, for planning", plan, ("T", "L", *KINDS))


if __name__ == "__main__":
    only_help(__doc__)
    main()
