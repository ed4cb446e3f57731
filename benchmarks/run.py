"""Kernels and sampling iterations against the floor of the same arrays.

Run with ``python -m benchmarks.run``. Each ratio compares two times measured in the same run on
the same core; the milliseconds depend on the machine, the ratios much less.
"""

import contextlib
import logging
import time
import warnings

import numpy as np
import pymc as pm
from scipy.special import gammaln

import pymc_dshdp as dshdp
from benchmarks.timing import milliseconds, table
from pymc_dshdp.kernels import messages, persistence, transitions
from pymc_dshdp.loglik import LogLikelihoodTable
from pymc_dshdp.steps import _common, weak_limit

SEQUENCES, FRAMES, STATES = 100, 189, 40


def ffbs():
    """Time forward filter and backward sample against row maximum + exp + batched products."""
    rng = np.random.default_rng(0)
    T = SEQUENCES * FRAMES
    ell = 5.0 * rng.standard_normal((T, STATES))
    P = rng.dirichlet(np.ones(STATES), STATES)
    initial = rng.dirichlet(np.ones(STATES))
    lengths = np.full(SEQUENCES, FRAMES)
    uniforms = rng.random(T)

    def ours():
        messages.forward_filter_backward_sample(ell, initial, P, lengths, uniforms)

    def floor():
        weights = np.exp(ell - ell.max(axis=1, keepdims=True)).reshape(SEQUENCES, FRAMES, STATES)
        X = np.broadcast_to(initial, (SEQUENCES, STATES)) * weights[:, 0]
        for t in range(1, FRAMES):
            X = (X / X.sum(axis=1, keepdims=True)) @ P * weights[:, t]

    return ("FFBS 100 x 189, L = 40", milliseconds(ours), "max + exp + X @ P", milliseconds(floor))


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


def _bare_model():
    """Declare a model of this shape with fixed emissions, so that only our steps run."""
    rng = np.random.default_rng(2)
    truth = np.repeat(rng.integers(STATES, size=SEQUENCES * FRAMES // 9), 9)
    means = 3.0 * rng.standard_normal(STATES)
    y = means[truth] + rng.standard_normal(truth.size)
    with pm.Model() as model:
        prior = dshdp.DSHDP("hmm", n_states=STATES)
        z = dshdp.HiddenStates("z", prior, lengths=[FRAMES] * SEQUENCES)
        pm.Normal("y", pm.math.constant(means)[z], 1.0, observed=y)
    return model


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


def iteration(draws=100):
    """Measure the share of an iteration spent outside kernels and the table."""
    kernels = [
        ("table", LogLikelihoodTable, "__call__"),
        ("FFBS", weak_limit, "forward_filter_backward_sample"),
        ("counts", _common, "path_counts"),
        *(
            ("transition block", transitions, name)
            for name in ("transition_matrix", "split_counts", "transition_block")
        ),
        *(
            ("self-persistence block", persistence, name)
            for name in ("propose_persistence", "accept_persistence")
        ),
    ]
    with _bare_model() as model:
        steps = [dshdp.WeakLimitFFBS([model["z"]]), dshdp.GridRhoStep([model["z"]])]
        stamps = []
        with stopwatch(kernels) as spent:

            def stamp(trace, draw):
                stamps.append((time.perf_counter(), *spent.values()))

            pm.sample(
                draws, tune=60, chains=1, step=steps, random_seed=1, progressbar=False,
                compute_convergence_checks=False, callback=stamp,
            )  # fmt: skip
    total, *parts = 1e3 * np.median(np.diff(stamps[60:], axis=0), axis=0)
    return total, dict(zip(spent, parts, strict=True))


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
    name, ours, reference, floor = ffbs()
    rows = [(name, ours, reference, floor, ours / floor, "<= 1.5")]
    for (name, ours, reference, floor), aim in zip(grid(), ("<= 0.25", ""), strict=True):
        rows.append((name, ours, reference, floor, ours / floor, aim))
    table("Kernels (one core)", rows)

    total, parts = iteration()
    inside = sum(parts.values())
    rows = [(part, ms, ms / total) for part, ms in parts.items()]
    rows += [("outside these (gathering, PyMC, trace)", total - inside, 1 - inside / total)]
    rows += [("whole iteration", total, 1.0)]
    table(
        "One iteration at 100 x 189 frames, L = 40, fixed emissions (aim: outside <= 0.15)",
        rows,
        ("part", "ms", "share"),
    )
    table(
        "GridRhoStep, refine=True, 12 visited states: which grid",
        grids(),
        ("grid", "ms", "accepted", "ESS/s phi", "ESS/s eta"),
    )


if __name__ == "__main__":
    main()
