"""Kernels and sampling iterations against the floor of the same arrays.

Run with ``python -m benchmarks.run``; tables are printed, and saved in ``benchmarks/results``
by date, with the processor and versions that they belong to.
Those of ``direct_assignment.py``, ``matrices.py``, ``million.py`` and ``nuts.py`` are among them.
Peers (see ``peers.py``) join where they are installed. Each ratio compares two times measured in
the same run; the milliseconds depend on the machine, the ratios much less.
"""

import importlib.util
import logging
import time
import warnings

import numpy as np
import pymc as pm
from scipy.special import gammaln

from benchmarks import direct_assignment, matrices, million, nuts, peers, workloads
from benchmarks.timing import interleaved, milliseconds, only_help, table
from pymc_dshdp.graph.path import path_lengths
from pymc_dshdp.kernels import chain, messages, persistence
from pymc_dshdp.transitions import find_transitions


def grid():
    """Time the (phi, eta) step against one gammaln over the naive number of arguments."""
    rng = np.random.default_rng(1)
    W = rng.poisson(60, 20)
    rows = []
    naive = rng.gamma(2.0, size=100 * 100 * 20 * 6)
    floor = milliseconds(lambda: gammaln(naive), 5)
    counts = np.zeros((21, 20), np.int64)
    counts[1:] = rng.multinomial(1, np.full(20, 0.05), (20, 40)).sum(axis=1)
    counts[np.arange(1, 21), np.arange(20)] += W
    pi_bar = np.full((20, 20), 0.05)
    for cells, refine in ((100, False), (20, True)):
        low = np.arange(cells) / cells
        box = persistence.PersistenceGrid(
            low, 2 * low, 1 / cells, 2 / cells, np.zeros((cells, cells))
        )

        def ours(box=box, refine=refine):
            proposal = persistence.propose_persistence(
                rng, counts, np.ones(20), pi_bar, 0.6, 0.3, box, refine
            )
            persistence.accept_persistence(rng, proposal, 0.0, 0.6, 0.3)

        rows.append(
            (f"grid {cells} x {cells}, refine={refine}", milliseconds(ours), "gammaln", floor)
        )
    return rows


WORKLOADS = {
    "AR 100 x 189 x 9-d, L = 40": workloads.autoregression,
    "PO 8 x 500 x 100 cells, L = 200": workloads.poisson_cells,
    "GA 100,000, L = 20": workloads.gaussian,
    "short 10,000 x 5, L = 20": lambda: workloads.gaussian([5] * 10_000),
}


PRODUCTS = {
    # (columns of the data, columns of the product) that a table of log-likelihoods needs at least:
    "AR 100 x 189 x 9-d, L = 40": (19, 9 * 40),  # (y, y before, 1), whitened in each state
    "PO 8 x 500 x 100 cells, L = 200": (100, 200),  # y @ log_rates.T
}


def likelihood_table(name, rows, T):
    """Row for ``table``: the table of log-likelihoods against the bare matrix product."""
    inner, outer = PRODUCTS[name]
    rng = np.random.default_rng(4)
    left, right = rng.normal(size=(T, inner)), rng.normal(size=(inner, outer))
    times = interleaved({"ours": lambda: rows(0, T), "product": lambda: left @ right})
    what = f"({T} x {inner}) @ ({inner} x {outer})"
    ratio = times["ours"] / times["product"]
    aim = "<= 4" if name.startswith("AR") else "<= 3"
    return (name, times["ours"], what, times["product"], ratio, aim)


def workload(name, draws=100):
    """Time complete iterations, and the states alone against the floor and the peers.

    The table, the rows of transition probabilities and the lengths are those of the last
    iteration. Returns the sweep and rows for ``table``: states alone, likelihood tables, sweeps.
    """
    model, z, y = WORKLOADS[name]()
    [prior] = find_transitions(model)
    lengths = path_lengths(model, model["z"], model.initial_point())
    sweeps = peers.sweeps(name.split()[0], y, z, lengths, prior.n_states)
    found = workloads.sweep(model, z, draws, beside=sweeps)
    rows, initial, P, lengths, uniforms = found.problem
    ell = rows(0, uniforms.size)
    n, L = len(lengths), len(P)
    reached = ell[:, chain.reachable_states(initial, P[None])]  # all the sampler ever computes
    label = f"{name}, {reached.shape[1]} reached"

    def ours():
        states = chain.reachable_states(initial, P[None])
        among = chain.without_persistence(P).among(states)
        messages.forward_filter_backward_sample(reached, initial[states], among, lengths, uniforms)

    def floor():
        weights = np.exp(ell - ell.max(axis=1, keepdims=True)).reshape(n, -1, L)
        X = np.broadcast_to(initial, (n, L)) * weights[:, 0]
        for t in range(1, weights.shape[1]):
            X = (X / X.sum(axis=1, keepdims=True)) @ P * weights[:, t]

    others = {"max + exp + X @ P": floor} | peers.filters(ell, initial, P, lengths)
    times = interleaved({"ours": ours} | others, 9)
    alone = [
        (
            label,
            times["ours"],
            other,
            times[other],
            times["ours"] / times[other],
            "<= 0.5" if other.startswith("dynamax") else "",
        )
        for other in others
    ]
    whole = [
        (name, found.milliseconds, peer, other, found.milliseconds / other, "<= 0.33")
        for peer, other in found.beside.items()
    ]
    tables = [likelihood_table(name, rows, uniforms.size)] if name in PRODUCTS else []
    return found, alone, tables, whole


def shares(found):
    """Rows (part, milliseconds, share) of an iteration."""
    total, parts = found.milliseconds, found.parts
    rows = [(part, ms, ms / total) for part, ms in parts.items()]
    rows += [
        ("our steps beside these (gathering, random numbers)", found.python, found.python / total),
        ("PyMC's loop and trace", found.pymc, found.pymc / total),
    ]
    return [*rows, ("whole iteration", float(total), 1.0)]


def grids():
    """Measure effective samples per second of phi and eta on simulated counts, by grid size."""
    rng = np.random.default_rng(3)
    kappa = rng.beta(8.0, 2.0, 12)
    visits = rng.poisson(60, 12)
    W = rng.binomial(visits, kappa)
    counts = np.zeros((13, 12), np.int64)
    counts[1:] = 0
    counts[np.arange(1, 13), np.arange(12)] = W
    for j, n in enumerate(visits - W):
        counts[1 + j, (j + 1) % 12] = n
    pi_bar = np.full((12, 12), 1 / 11.0)
    np.fill_diagonal(pi_bar, 0.0)
    rows = []
    for cells in (10, 20, 30, 50, 100):
        low = np.arange(cells) / cells
        box = persistence.PersistenceGrid(
            low, 2 * low, 1 / cells, 2 / cells, np.zeros((cells, cells))
        )
        phi, eta, logit, kept = 0.5, 1.0, np.zeros(12), []
        start = time.perf_counter()
        for _ in range(4000):
            proposal = persistence.propose_persistence(
                rng, counts, logit, pi_bar, phi, eta, box, True
            )
            draw = persistence.accept_persistence(rng, proposal, 0.0, phi, eta)
            phi, eta, logit = draw.phi, draw.eta, draw.kappa_logit
            kept.append((phi, eta, draw.accepted))
        seconds = time.perf_counter() - start
        kept = np.array(kept)
        ess = [float(pm.stats.ess(kept[None, 200:, i])) for i in (0, 1)]
        rows.append(
            (f"{cells} x {cells}", 1e3 * seconds / 4000, kept[:, 2].mean(), ess[0] / seconds,
             ess[1] / seconds)
        )  # fmt: skip
    return rows


def main():
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    rows = [
        (name, ours, reference, floor, ours / floor, aim)
        for (name, ours, reference, floor), aim in zip(grid(), ("<= 0.25", ""), strict=True)
    ]
    table("Self-persistence kernels", rows)
    states, likelihoods, sweeps = [], [], []
    for name in WORKLOADS:
        found, alone, tables, whole = workload(name)
        states += alone
        likelihoods += tables
        sweeps += whole
        table(f"Iteration {name}", shares(found), ("part", "ms", "share"))
    table("States alone, one thread", states)
    table("Tables of log-likelihoods", likelihoods)
    if sweeps:
        table("Complete iterations against peers", sweeps)
    matrices.report()
    direct_assignment.measure()
    million.report()
    table(
        "GridRhoStep, refine=True, 12 visited states: which grid",
        grids(),
        ("grid", "ms", "accepted", "ESS/s phi", "ESS/s eta"),
    )
    if importlib.util.find_spec("numpyro"):
        nuts.main()


if __name__ == "__main__":
    only_help(__doc__)
    main()
