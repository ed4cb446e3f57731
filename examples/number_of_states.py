"""How many states: what priors on their number make of simulated counts.

    python examples/number_of_states.py [--quick] [--series 5]
    python examples/number_of_states.py --series 20 --times 1000 --rates apart --states 3

Chains of 2, 3 and 5 Poisson states, of 200 and 1,000 times, with rates far apart or overlapping,
are fitted with 10 states by the HDP and by the disentangled prior, each with its ordinary weights
and with a mixture of finite mixtures. Prints, for each, how many series have the true number of
occupied states as their most probable one, and the mean posterior probability of that; of the
mixtures also of the number of active states. ``--quick`` takes one series of three states, half a
minute; otherwise count five to ten seconds for each of the sixty fits of a series of every kind.
``--times``, ``--rates``, ``--states`` and ``--prior`` take one kind of series, or one prior.
"""

import argparse
import itertools
import logging
import zlib

import numpy as np
import pymc as pm

import pymc_dshdp as dshdp
from pymc_dshdp._compat import group

STATES, TIMES = (2, 3, 5), (200, 1_000)
RATIOS = {"apart": 4.0, "overlapping": 1.8}  # of each rate to the one before
L, STAY, LOWEST = 10, 0.9, 3.0
MIXTURE = {"weights": "finite-mixture"}
PRIORS = {
    "HDP": (dshdp.HDP, {}),
    "HDP, mixture": (dshdp.HDP, MIXTURE),
    "DS": (dshdp.DSHDP, {}),
    "DS, mixture": (dshdp.DSHDP, MIXTURE),
    "DS, static mixture": (dshdp.DSHDP, {**MIXTURE, "concentration": "static"}),
}


def simulate(rng, n_states, T, ratio):
    """Draw counts of a chain that visits every state."""
    while True:
        z = np.zeros(T, int)
        for t in range(1, T):
            stays = rng.random() < STAY
            z[t] = z[t - 1] if stays else (z[t - 1] + rng.integers(1, n_states)) % n_states
        if len(np.unique(z)) == n_states:
            return rng.poisson(LOWEST * ratio ** z.astype(float))


def fit(prior, y, seed, draws):
    """Posterior probabilities of the numbers of occupied and of active states."""
    kind, arguments = PRIORS[prior]
    with pm.Model():
        hmm = kind("hmm", n_states=L, **arguments)
        z = dshdp.HiddenStates("z", hmm, length=y.size)
        rate = pm.Gamma("rate", 0.5, 0.5 / y.mean(), dims="hmm_state")
        pm.Poisson("y", rate[z], observed=y)
        result = pm.sample(
            tune=draws // 2, draws=draws, chains=2, cores=1, random_seed=seed,
            progressbar=False, compute_convergence_checks=False,
        )  # fmt: skip
    numbers = [dshdp.label_invariant(result)["n_occupied"].values]
    if "hmm_n_active" in group(result, "posterior"):
        numbers.append(group(result, "posterior")["hmm_n_active"].values)
    return [np.bincount(n.ravel(), minlength=L + 1) / n.size for n in numbers]


def main():
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--series", type=int, default=1, help="of each kind")
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--times", type=int, choices=TIMES)
    parser.add_argument("--rates", choices=RATIOS)
    parser.add_argument("--states", type=int, choices=STATES)
    parser.add_argument("--prior", choices=PRIORS)
    options = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    kinds = list(itertools.product(TIMES, RATIOS, STATES))
    kinds = [(200, "apart", 3)] if options.quick else kinds
    chosen = (options.times, options.rates, options.states)
    kinds = [k for k in kinds if all(c in (None, x) for c, x in zip(chosen, k, strict=True))]
    print("times  rates        states  prior               mode right  p(true)  p(active = true)")
    for T, apart, n_states in kinds:
        for prior in [options.prior] if options.prior else PRIORS:
            right, occupied, active = 0, [], []
            for i in range(options.series):
                seed = zlib.crc32(f"{T} {apart} {n_states} {i}".encode())
                y = simulate(np.random.default_rng(seed), n_states, T, RATIOS[apart])
                found, *others = fit(prior, y, seed, options.draws)
                right += found.argmax() == n_states
                occupied.append(found[n_states])
                active += [p[n_states] for p in others]
            tail = f"{np.mean(active):.2f}" if active else ""
            print(
                f"{T:5}  {apart:11}  {n_states:6}  {prior:18}  {right:4} of {options.series:2}  "
                f"{np.mean(occupied):7.2f}  {tail}",
                flush=True,
            )


if __name__ == "__main__":
    main()
