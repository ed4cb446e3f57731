"""How many states? What each prior makes of counts simulated from 2, 3, 5 and 8 Poisson states.

``python -m benchmarks.number_of_states`` prints the tables of ``docs/number.md`` from
``docs/number.csv``. With ``--minutes 60`` it first goes on with the plan for an hour: each fit is
kept as it ends, and those that are there already are passed over. ``--series 20`` is how many data
sets of each kind the plan goes up to, ``--prior DS --weights dynamic`` takes only such fits, and
``--longer 4`` makes their chains four times as long, which are kept beside the others.

A fit is two chains of 500 + 1,000 with twice as many states as there are, and at least 10. Of each
are kept: how many draws have each pair of numbers of occupied and of active states (0 where the
prior has none), effective draws of the former, the log posterior predictive density of a second
series of the same process, and seconds.
"""

import argparse
import csv
import itertools
import logging
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pymc as pm
from scipy.special import gammaln, logsumexp

import pymc_dshdp as dshdp
from benchmarks.timing import table
from pymc_dshdp._compat import group
from pymc_dshdp.transitions.finite_mixture import log_number_probabilities

OUT = Path(__file__).parents[1] / "docs" / "number.csv"
FIELDS = ["states", "times", "emissions", "series", "prior", "weights", "longer", "draws",
          "effective", "score", "seconds"]  # fmt: skip
LOWEST, STAY, SIZE = 3.0, 0.9, 10.0
RATIOS = {"apart": 4.0, "overlapping": 1.8, "heavy tails": 4.0, "heavy tails, right": 4.0}
PRIORS = {"HDP": dshdp.HDP, "sticky": dshdp.StickyHDP, "DS": dshdp.DSHDP}
MIXTURE = {"weights": "finite-mixture"}
WEIGHTS = {
    "ordinary": {},
    "dynamic": MIXTURE,
    "static": {**MIXTURE, "concentration": "static"},
    "dynamic, gamma = 0.5": {**MIXTURE, "gamma": 0.5},
    "dynamic, gamma = 5": {**MIXTURE, "gamma": 5.0},
}
ALL = tuple(itertools.product(PRIORS, ("ordinary", "dynamic", "static")))
BOTH, DS = (tuple(p for p in ALL if p[0] in names) for names in (("HDP", "DS"), ("DS",)))
PLAIN_AND_MIXTURE, GAMMAS = DS[:2], tuple(("DS", name) for name in tuple(WEIGHTS)[3:])
OTHERS = tuple(p for p in ALL if p[0] != "DS" and p[1] != "static")
NUMBERS = (2, 3, 5, 8)
STAGES = (  # states, times, emissions, series, and what is fitted, the most important first
    ((3, 5, 2, 8), (1000,), ("apart",), range(1), ALL),
    ((3, 5, 2, 8), (1000,), ("apart",), range(1, 3), BOTH),
    ((3, 2, 5), (1000,), ("overlapping", "heavy tails"), range(1), BOTH),
    ((3, 5, 2, 8), (1000,), ("apart",), range(3, 6), PLAIN_AND_MIXTURE),
    ((3, 2, 5), (200,), ("apart", "overlapping"), range(1), BOTH),
    ((3, 5, 2, 8), (5000,), ("apart",), range(1), DS),
    ((3, 2), (1000,), ("heavy tails, right",), range(1), DS),
    ((3, 5), (1000,), ("apart", "overlapping"), range(1), GAMMAS),
    ((3, 5, 2, 8), (1000,), ("apart",), range(20), PLAIN_AND_MIXTURE),
    (NUMBERS, (200,), ("apart", "overlapping"), range(10), PLAIN_AND_MIXTURE),
    (NUMBERS, (1000,), ("overlapping",), range(10), PLAIN_AND_MIXTURE),
    (NUMBERS, (5000,), ("apart",), range(5), PLAIN_AND_MIXTURE),
    (NUMBERS, (1000,), ("heavy tails",), range(5), PLAIN_AND_MIXTURE),
    (NUMBERS, (200, 1000), ("apart", "overlapping"), range(5), OTHERS),
    (NUMBERS, (200, 1000, 5000), tuple(RATIOS)[:3], range(20), PLAIN_AND_MIXTURE),
    (NUMBERS, (200, 1000, 5000), tuple(RATIOS), range(20), ALL),
)


class Kind(NamedTuple):
    """What a data set is drawn from."""

    states: int
    times: int
    emissions: str


class Fit(NamedTuple):
    """What is fitted to data set number ``series`` of a kind."""

    kind: Kind
    series: int
    prior: str
    weights: str
    longer: int

    @property
    def key(self):
        """Its first fields in the file."""
        return tuple(map(str, (*self.kind, *self[1:])))


def plan(options):
    """Fits in the order in which they are made."""
    fits = {}
    for states, times, emissions, numbers, priors in STAGES:
        for i, T, e, K in itertools.product(numbers, times, emissions, states):
            if i < options.series:
                fits |= dict.fromkeys(Fit(Kind(K, T, e), i, *p, options.longer) for p in priors)
    return [f for f in fits if f.prior in options.prior and f.weights in options.weights]


def simulate(rng, kind):
    """Draw counts of a chain that visits every state."""
    K = kind.states
    while True:
        z = np.zeros(kind.times, int)
        for t in range(1, kind.times):
            stays = rng.random() < STAY
            z[t] = z[t - 1] if stays else (z[t - 1] + rng.integers(1, K)) % K
        if len(np.unique(z)) == K:
            break
    rates = LOWEST * RATIOS[kind.emissions] ** z.astype(float)
    if kind.emissions.startswith("heavy"):
        rates *= rng.gamma(SIZE, 1.0 / SIZE, kind.times)
    return rng.poisson(rates)


def truncation(states):
    """Find how many states are declared."""
    return max(10, 2 * states)


def declare(fit, y):
    """Declare the model of a data set."""
    L = truncation(fit.kind.states)
    with pm.Model() as model:
        hmm = PRIORS[fit.prior]("hmm", n_states=L, **WEIGHTS[fit.weights])
        z = dshdp.HiddenStates("z", hmm, length=y.size)
        rate = pm.Gamma("rate", 0.5, 0.5 / y.mean(), dims="hmm_state")
        if fit.kind.emissions.endswith("right"):
            size = pm.Gamma("size", 2.0, 0.2)
            pm.NegativeBinomial("y", mu=rate[z], alpha=size, observed=y)
        else:
            pm.Poisson("y", rate[z], observed=y)
    return model


def measure(fit):
    """Fit; return the rest of the fields in the file."""
    seed = zlib.crc32(" ".join(map(str, (*fit.kind, fit.series))).replace(", right", "").encode())
    rng = np.random.default_rng(seed)
    y, other = simulate(rng, fit.kind), simulate(rng, fit.kind)
    model = declare(fit, y)
    start = time.perf_counter()
    with model:
        result = pm.sample(
            tune=500 * fit.longer, draws=1000 * fit.longer, chains=2, cores=1, random_seed=seed,
            progressbar=False, compute_convergence_checks=False,
        )  # fmt: skip
    seconds = time.perf_counter() - start
    score = dshdp.held_out_log_likelihood(
        result, model=model, observed={"y": other}, thin=5 * fit.longer
    )
    occupied = dshdp.label_invariant(result)["n_occupied"].values
    active = np.zeros_like(occupied)
    if fit.weights != "ordinary":
        active = group(result, "posterior")["hmm_n_active"].values
    pairs = Counter(zip(occupied.ravel().tolist(), active.ravel().tolist(), strict=True))
    draws = " ".join(f"{n}/{k}:{count}" for (n, k), count in sorted(pairs.items()))
    moved = np.ptp(occupied) > 0
    effective = f"{float(pm.stats.ess(occupied.astype(float))):.0f}" if moved else ""
    return (draws, effective, f"{float(score['log_mean_exp']):.3f}", f"{seconds:.1f}")


def read(out):
    """Rows of the file, none if it is not there."""
    if not out.exists():
        return []
    with out.open(newline="") as file:
        return list(csv.DictReader(file))


def go_on(options):
    """Make the fits that are not there yet, one after the other, until the time is over."""
    out = options.out
    done = {tuple(row.values())[:7] for row in read(out)}
    end = time.monotonic() + 60.0 * options.minutes
    for fit in plan(options):
        if time.monotonic() > end:
            break
        if fit.key not in done:
            row = (*fit.key, *measure(fit))
            new = not out.exists()
            with out.open("a", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([FIELDS, row] if new else [row])


def probabilities(row, other=None):
    """Posterior probabilities of the numbers of occupied and of active states, (2, L + 1).

    ``other`` are logarithms of another p(K), K = 1..L, than the default: the draws are weighted by
    the ratio of the two.
    """
    L = truncation(int(row["states"]))
    pairs, counts = zip(*(word.split(":") for word in row["draws"].split()), strict=True)
    numbers = np.array([pair.split("/") for pair in pairs], int).T
    weights = np.array(counts, float)
    if other is not None:
        weights *= np.exp((other - log_number_probabilities("", None, L))[numbers[1] - 1])
    out = np.array([np.bincount(n, weights, L + 1) for n in numbers])
    return out / weights.sum()


def mode_and_probability(rows):
    """Write the mean probability of the true number occupied, and how many modes are right."""
    K = int(rows[0]["states"])
    found = np.array([probabilities(row)[0] for row in rows])
    right = int((found.argmax(axis=1) == K).sum())
    return f"{found[:, K].mean():.2f} {right}/{len(rows)}"


def active(rows):
    """Write the mean probability of the true number of active states."""
    return f"{np.mean([probabilities(row)[1, int(row['states'])] for row in rows]):.2f}"


def gain(rows, reference):
    """Write the mean difference of scores to other fits of the same data, with standard error."""
    others = {row["series"]: float(row["score"]) for row in reference}
    gains = [float(r["score"]) - others[r["series"]] for r in rows if r["series"] in others]
    if not gains:
        return ""
    error = f" ({np.std(gains, ddof=1) / np.sqrt(len(gains)):.1f})" if len(gains) > 1 else ""
    return f"{np.mean(gains):+.1f}{error}"


def effective(rows):
    """Find the median of effective draws of the number of occupied states; 0 where it stays."""
    return f"{np.median([float(row['effective'] or 0) for row in rows]):.0f}"


def grouped(rows, names):
    """Rows by the values of some fields, in the order in which they are printed."""
    out = {}
    for row in sorted(rows, key=place):
        out.setdefault(tuple(row[name] for name in names), []).append(row)
    return out


def place(row):
    """Where a row is printed."""
    return (
        tuple(RATIOS).index(row["emissions"]), int(row["times"]), int(row["states"]),
        int(row["longer"]), tuple(PRIORS).index(row["prior"]),
        tuple(WEIGHTS).index(row["weights"]), int(row["series"]),
    )  # fmt: skip


def report(rows):
    """Print what was found by each prior and weights."""
    kind = ("emissions", "times", "states", "prior")
    mixtures = ("dynamic", "static")
    lines = []
    for key, some in grouped(rows, kind).items():
        by_weights = {w: these for (w,), these in grouped(some, ("weights",)).items()}
        plain, found = by_weights.get("ordinary", ()), [by_weights.get(w, ()) for w in mixtures]
        cells = [mode_and_probability(these) if these else "" for these in (plain, *found)]
        cells += [active(these) if these else "" for these in found]
        cells += [gain(these, plain) if these else "" for these in found]
        lines.append((*key, *cells, " ".join(effective(x) if x else "-" for x in (plain, *found))))
    header = ("ordinary", *mixtures, *(f"{what}, {w}" for what in ("K", "score") for w in mixtures))
    table("How many states", lines, (*kind, *header, "effective"))


def report_gamma(rows):
    """Print mixtures with gamma given, beside gamma learned from the same data."""
    kind = ("emissions", "times", "states", "prior")
    data = (*kind, "series")
    given = {tuple(r[n] for n in data) for r in rows if "gamma" in r["weights"]}
    chosen = [
        r for r in rows
        if tuple(r[n] for n in data) in given and r["weights"].startswith("dynamic")
    ]  # fmt: skip
    lines = [
        (*key, mode_and_probability(some), active(some), effective(some))
        for key, some in grouped(chosen, (*kind, "weights")).items()
    ]
    table("Other gamma", lines, (*kind, "weights", "p(true)", "K", "effective"))


def report_longer(rows):
    """Print fits by chains that are longer, beside the others of the same data."""
    kind = ("emissions", "times", "states", "prior", "weights")
    names = (*kind, "series")
    short = {tuple(r[n] for n in names): r for r in rows if r["longer"] == "1"}
    longer = [r for r in rows if r["longer"] != "1" and tuple(r[n] for n in names) in short]
    lines = []
    for key, some in grouped(longer, (*kind, "longer")).items():
        cells = []
        for these in ([short[tuple(r[n] for n in names)] for r in some], some):
            found = [probabilities(r)[0, int(r["states"])] for r in these]
            cells += [" ".join(f"{p:.2f}" for p in found), effective(these)]
        lines.append((*key, *cells))
    header = (*kind, "longer", "p(true) of each", "effective", "p(true), longer", "effective")
    table("Longer chains", lines, header)


def report_other_priors(rows):
    """Print p(true) of occupied states of mixtures under other p(K), by weighting the draws."""
    kind = ("emissions", "times", "states", "weights")
    others = {
        "BNB(1, 4, 3)": None,
        "uniform": lambda k: np.zeros(k.size),
        "Poisson(3)": lambda k: k * np.log(3.0) - gammaln(k + 1.0),
        "1 + Poisson(1)": lambda k: -gammaln(k),
        "geometric(1/2)": lambda k: -k * np.log(2.0),
        "geometric(9/10)": lambda k: -k * np.log(10.0),
    }
    chosen = [r for r in rows if r["weights"] in ("dynamic", "static") and r["prior"] == "DS"]
    chosen = [r for r in chosen if not r["emissions"].startswith("heavy")]
    lines = []
    for key, some in grouped(chosen, kind).items():
        K, cells = int(some[0]["states"]), []
        for log_p in others.values():
            k = np.arange(1, truncation(K) + 1)
            logs = None if log_p is None else log_p(k) - logsumexp(log_p(k))
            found = [probabilities(row, logs)[0] for row in some]
            right = sum(p.argmax() == K for p in found)
            cells.append(f"{np.mean([p[K] for p in found]):.2f} {right}/{len(some)}")
        lines.append((*key, *cells))
    table("Other priors of the number", lines, (*kind, *others))


def main():
    """Go on, if asked to, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--series", type=int, default=20, help="of each kind, at most")
    parser.add_argument("--prior", nargs="+", choices=PRIORS, default=tuple(PRIORS))
    parser.add_argument("--weights", nargs="+", choices=WEIGHTS, default=tuple(WEIGHTS))
    parser.add_argument("--longer", type=int, default=1, help="times as long chains")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    go_on(options)
    rows = read(options.out)
    once = [row for row in rows if row["longer"] == "1"]
    report(once)
    report_gamma(once)
    report_longer(rows)
    report_other_priors(once)


if __name__ == "__main__":
    main()
