"""DSBlockGibbs as a step on every transition prior: path frequencies against enumeration."""

import itertools
import math

import numpy as np
import pymc as pm
import pytest
from scipy.special import betaln, gammaln
from scipy.stats import multivariate_normal, norm

import pymc_dshdp as dshdp
from pymc_dshdp.steps.direct_assignment import DSBlockGibbs

L, LENGTHS = 2, np.array([3, 2])
T = int(LENGTHS.sum())
STARTS = (0, 3)
Y = np.array([0.3, 1.1, 0.9, -0.2, 1.4])
MEANS = np.array([0.0, 1.0])
ROWS, FIRST = np.array([[1.5, 0.4], [0.7, 2.2]]), np.array([0.9, 0.3])
ALPHA, KAPPA0 = 1.8, 1.2
RHO = (2.5, 1.4)
BATCHES = 20


def declare(name, collapse):
    with pm.Model() as model:
        if name == "fixed":
            prior = dshdp.FixedTransitions(
                "hmm", n_states=L, concentration=ROWS, initial_concentration=FIRST
            )
        elif name == "plain":
            prior = dshdp.HDP("hmm", n_states=L, gamma=2.0, alpha=ALPHA)
        elif name == "sticks":
            prior = dshdp.DSHDP(
                "hmm", n_states=L, gamma=2.0, alpha=ALPHA, rho=RHO, weights="stick-breaking"
            )
        else:
            total = ALPHA + KAPPA0
            prior = dshdp.StickyHDP("hmm", n_states=L, gamma=2.0, s=total, phi=KAPPA0 / total)
        z = dshdp.HiddenStates("z", prior, lengths=LENGTHS)
        mean = pm.Normal("mean", 0.4, 0.9, shape=L) if collapse else pm.math.constant(MEANS)
        pm.Normal("y", mean[z], 0.8, observed=Y)
    return model


def log_evidence(states, collapse):
    if not collapse:
        return norm.logpdf(Y, MEANS[states], 0.8).sum()
    total = 0.0
    for k in range(L):
        y = Y[states == k]
        if y.size:
            covariance = 0.8**2 * np.eye(y.size) + 0.9**2
            total += multivariate_normal.logpdf(y, np.full(y.size, 0.4), covariance)
    return total


def prior_of_draws(name, counts, copies):
    """p(draws from the rows, copies), with rows, self-persistence and beta integrated out."""
    if name == "fixed":
        base, weights = np.vstack([FIRST, ROWS])[None], np.ones(1)
    else:  # gamma = 2: the weak-limit weights of two states are uniform
        x, w = np.polynomial.legendre.leggauss(20)
        beta = np.stack([(x + 1.0) / 2.0, (1.0 - x) / 2.0], axis=-1)
        base, weights = np.tile(ALPHA * beta[:, None], (1, L + 1, 1)), w / 2.0
        if name == "sticks":  # v ~ Beta(1, 2)
            weights = weights * 2.0 * beta[:, 1]
    total, n = base.sum(axis=2), counts.sum(axis=1)
    out = (gammaln(base + counts) - gammaln(base)).sum(axis=(1, 2))
    out += (gammaln(total) - gammaln(total + n)).sum(axis=1)
    if name == "sticks":
        out += (betaln(RHO[0] + copies, RHO[1] + n[1:]) - betaln(*RHO)).sum()
    elif name == "sticky":
        out += (betaln(KAPPA0 + copies, ALPHA + n[1:]) - betaln(KAPPA0, ALPHA)).sum()
    elif copies.any():
        return 0.0
    return float(weights @ np.exp(out))


def enumerate_paths(name, collapse):
    out = np.zeros(L**T)
    for code, path in enumerate(itertools.product(range(L), repeat=T)):
        states = np.array(path)
        free = [t for t in range(T) if t not in STARTS and states[t] == states[t - 1]]
        for bits in itertools.product((False, True), repeat=len(free)):
            copied = {t for t, bit in zip(free, bits, strict=True) if bit}
            counts, copies = np.zeros((L + 1, L)), np.zeros(L)
            for t in range(T):
                if t in copied:
                    copies[states[t]] += 1
                else:
                    counts[0 if t in STARTS else states[t - 1] + 1, states[t]] += 1
            out[code] += prior_of_draws(name, counts, copies)
        out[code] *= math.exp(log_evidence(states, collapse))
    return out / out.sum()


LONG = [
    ("fixed", True),
    ("sticks", False),
    ("plain", True),
    ("plain", False),
    ("sticky", False),
    ("fixed", False),
]


@pytest.mark.parametrize(
    ("name", "collapse"),
    [("sticks", True)] + [pytest.param(*x, marks=pytest.mark.slow) for x in LONG],
)
def test_stationary_frequencies(name, collapse):
    """Fails if rows of one's own are taken for shared ones, or w is not of the present rows.

    With sticks also if the counts stay behind where states are renumbered.
    """
    model = declare(name, collapse)
    with model:
        steps = [DSBlockGibbs([model["z"]], collapse="auto" if collapse else False, rng=17)]
        if name == "sticks":
            steps.append(dshdp.GridRhoStep([model["z"]], rng=18))
    steps[0].stop_tuning()
    steps[0].n_proposals = 1.0  # of splits and merges, where the evidence is known
    assert ("mean" in {v.name for v in steps[0].vars}) == collapse
    point = model.initial_point()
    sweeps = 4_000
    powers = L ** np.arange(T - 1, -1, -1)
    frequencies = np.zeros((BATCHES, L**T))
    for i in range(-100, sweeps):
        for step in steps:
            point, _ = step.step(point)
        if i >= 0:
            frequencies[i * BATCHES // sweeps, point["z"] @ powers] += BATCHES / sweeps
    expected = enumerate_paths(name, collapse)
    error = frequencies.std(axis=0, ddof=1) / math.sqrt(BATCHES)
    common = expected > 5e-3
    assert expected[common].sum() > 0.9
    z = (frequencies.mean(axis=0) - expected)[common] / error[common]
    assert np.abs(z).max() < 5.0, z
    assert np.mean(z**2) < 1.0 + 6.0 / math.sqrt(z.size), z
