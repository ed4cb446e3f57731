"""Stationary frequencies of the direct assignment sweep against enumerated posteriors."""

import itertools
import math

import numpy as np
import pytest
from numba import njit
from scipy.special import gammaln
from scipy.stats import multivariate_normal, norm

from pymc_dshdp.kernels.chain import NO_INDEX
from pymc_dshdp.kernels.direct_assignment import draw_persistences, sweep_states
from pymc_dshdp.kernels.predictive import Table, include_path
from pymc_dshdp.kernels.predictive_continuous import normal_mean
from pymc_dshdp.kernels.random import dirichlet_draw
from pymc_dshdp.kernels.transitions import (
    TransitionPrior,
    stick_breaking_weights,
    transition_block,
)

L = 3
LENGTHS = np.array([4, 1, 1])
T = 6
LOGIT = np.array([0.4, -0.9, 1.3])
LOGITS = np.append(LOGIT, [-1.2, 0.7, 0.1])  # of two groups
INDEX = np.array([0, 1, 0, 0, 1, 1])  # who leads to each time
ALPHA = 1.7
BETA = np.array([0.5, 0.2, 0.3])
Y = np.array([0.3, 1.1, 0.9, -0.2, 1.4, 0.1])
MEAN = np.array([0.0, 1.0, 0.5])
BATCHES = 50


@njit
def run(rng, sweeps, states, lengths, index, logit, alpha, beta, gamma, sticks, emission, grouped):
    """Frequencies of labelled paths, and of the patterns of w, by batch.

    Beta (and v) are drawn too where gamma > 0. The first rows, with no mass on the diagonal, are
    forgotten at once where rows are redrawn.
    """
    n_states, n_rows = beta.shape[0], logit.shape[0]
    paths = np.zeros((BATCHES, n_states ** states.shape[0]))
    patterns = np.zeros((BATCHES, 2 ** states.shape[0]))
    pi_bar = np.empty((n_rows, n_states))
    for r in range(n_rows):
        for k in range(n_states):
            pi_bar[r, k] = 0.0 if k == r % n_states else 1.0 / (n_states - 1)
    prior = TransitionPrior(0.0, 1.0, 0.0, 1.0)
    for i in range(sweeps):
        switches = np.zeros((n_rows + 1, n_states), np.int64)
        visits = np.zeros(n_states, np.int64)
        persists = draw_persistences(rng, states, lengths, index, logit, pi_bar, switches, visits)
        draw = sweep_states(
            rng,
            states,
            persists,
            lengths,
            index,
            switches,
            visits,
            logit,
            alpha * beta * np.ones((n_rows + 1, 1)),
            emission,
            grouped,
            np.arange(states.shape[0]),
        )
        states = draw.states
        if gamma > 0.0:
            block = transition_block(rng, draw.switches, gamma, alpha, sticks, beta, prior)
            beta, sticks, pi_bar = block.beta, block.sticks_logit, block.rows[1:].copy()
        else:
            for r in range(n_rows):
                dirichlet_draw(rng, alpha * beta + draw.switches[r + 1], pi_bar[r])
        path = pattern = 0
        for t in range(states.shape[0]):
            path = path * n_states + states[t]
            pattern = pattern * 2 + draw.persists[t]
        paths[i * BATCHES // sweeps, path] += 1.0
        patterns[i * BATCHES // sweeps, pattern] += 1.0
    return paths / (sweeps // BATCHES), patterns / (sweeps // BATCHES)


def configurations(logit, index):
    """(numbers of z and w, z, log p(w | z, kappa), n) of every possible configuration."""
    starts, kappa = np.cumsum([0, *LENGTHS])[:-1], 1.0 / (1.0 + np.exp(-logit))
    for code, states in enumerate(itertools.product(range(L), repeat=T)):
        free = [t for t in range(T) if t not in starts and states[t] == states[t - 1]]
        for bits in itertools.product((False, True), repeat=len(free)):
            copies = dict(zip(free, bits, strict=True))
            pattern = sum(2 ** (T - 1 - t) for t in free if copies[t])
            counts = np.zeros((len(logit) + 1, L))
            total = 0.0
            for t in range(T):
                row = states[t - 1] + (L * index[t] if index.size else 0)
                if t in starts:
                    counts[0, states[t]] += 1
                elif copies.get(t, False):
                    total += math.log(kappa[row])
                else:
                    total += math.log1p(-kappa[row])
                    counts[row + 1, states[t]] += 1
            yield code, pattern, np.array(states), total, counts


def weight_nodes(weights):
    """(beta, probability): quadrature over the prior of beta, exact for polynomials.

    gamma = 3 makes the weak-limit prior of three states uniform on the simplex, v_1 ~ Beta(1, 2)
    and v_2 uniform; with sticks gamma = 2 makes both v ~ Beta(1, 2).
    """
    if weights == "fixed":
        return BETA[None], np.ones(1)
    x, w = np.polynomial.legendre.leggauss(16)
    x, w = (x + 1.0) / 2.0, w / 2.0
    first, second = np.meshgrid(x, x, indexing="ij")
    density = np.outer(2.0 * (1.0 - x) * w, w * (1.0 if weights == "weak-limit" else 2.0 - 2.0 * x))
    beta = np.stack([first, (1 - first) * second, (1 - first) * (1 - second)], axis=-1)
    return beta.reshape(-1, 3), density.ravel()


def log_evidence(states, emission):
    """Log p(y | z) with the means kept or integrated out."""
    if emission == "table":
        return norm.logpdf(Y, MEAN[states], 0.8).sum()
    total = 0.0
    for k in range(L):
        y = Y[states == k]
        if y.size:
            covariance = 0.8**2 * np.eye(y.size) + 0.9**2
            total += multivariate_normal.logpdf(y, np.full(y.size, 0.4), covariance)
    return total


def enumerate_paths(weights, emission, logit, index):
    beta, probability = weight_nodes(weights)
    base = ALPHA * beta
    out, patterns = np.zeros(L**T), np.zeros(2**T)
    evidence = {}
    for code, pattern, states, persistence, counts in configurations(logit, index):
        if code not in evidence:
            evidence[code] = math.exp(log_evidence(states, emission))
        rising = (gammaln(base[:, None] + counts) - gammaln(base[:, None])).sum(axis=(1, 2))
        rising -= (gammaln(ALPHA + counts.sum(axis=1)) - gammaln(ALPHA)).sum()
        weight = evidence[code] * math.exp(persistence) * (probability @ np.exp(rising))
        out[code] += weight
        patterns[pattern] += weight
    return out / out.sum(), patterns / out.sum()


@pytest.mark.parametrize(
    ("emission", "weights", "groups"),
    [
        pytest.param("table", "fixed", 1, marks=pytest.mark.slow),
        ("table", "weak-limit", 1),
        ("table", "stick-breaking", 1),
        ("collapsed", "fixed", 1),
        ("collapsed", "weak-limit", 1),
        ("collapsed", "stick-breaking", 1),
        ("table", "weak-limit", 2),
        ("collapsed", "stick-breaking", 2),
    ],
)
def test_stationary_frequencies_of_labelled_paths(emission, weights, groups):
    """Fails where one w is forgotten in n^{-t}, a transition crosses sequences, or pi_bar stays.

    And where the counts of a group are used for the other, or its tables left out of beta.
    """
    logit, index = (LOGIT, NO_INDEX) if groups == 1 else (LOGITS, INDEX)
    gamma = {"fixed": 0.0, "weak-limit": 3.0, "stick-breaking": 2.0}[weights]
    sticks = np.zeros(2) if weights == "stick-breaking" else np.empty(0)
    beta = stick_breaking_weights(sticks) if sticks.size else BETA
    states = np.array([0, 1, 1, 2, 0, 0])
    if emission == "table":
        sums, grouped = Table(norm.logpdf(Y[:, None], MEAN, 0.8)), False
    else:
        full = np.ones((L + 1, 1))
        sums, grouped = normal_mean(Y[:, None], 0.8 * full, 0.4 * full, 0.9 * full), True
        include_path(sums, states)
    rng = np.random.default_rng(11)
    sweeps = 300_000
    given = logit, ALPHA, beta, gamma, sticks, sums, grouped
    found = run(rng, sweeps, states, LENGTHS, index, *given)
    enumerated = enumerate_paths(weights, emission, logit, index)
    for frequencies, expected in zip(found, enumerated, strict=True):
        error = frequencies.std(axis=0, ddof=1) / math.sqrt(BATCHES)
        common = expected > 2e-4
        assert expected[common].sum() > 0.97
        z = (frequencies.mean(axis=0) - expected)[common] / error[common]
        assert np.abs(z).max() < 5.0
        assert np.mean(z**2) < 1.0 + 6.0 / math.sqrt(z.size)
