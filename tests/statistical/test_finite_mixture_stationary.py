"""Both samplers under a mixture of finite mixtures, against enumeration of all paths.

Which defects make it fail is in ``mutations.py``.
"""

import itertools

import numpy as np
import pymc as pm
import pytest
from scipy.special import betaln, gammaln, logsumexp, roots_jacobi

import pymc_dshdp as dshdp

L, LENGTHS = 4, np.array([3, 2])
T = int(LENGTHS.sum())
Y = np.array([0, 5, 4, 1, 0])
A, B = 1.5, 0.4
ALPHA, GAMMA, RHO = 1.8, 1.3, (0.9, 0.6)
NUMBER = np.array([0.3, 0.15, 0.2, 0.35])
BATCHES = 25


def simplex_nodes(size, each):
    """Nodes of Dir(each, ..., each) and their logarithmic weights, exact up to degree 2 T + 1."""
    nodes, logs, left = np.ones((1, 0)), np.zeros(1), np.ones(1)
    n = T + 1
    for k in range(size - 1):
        x, w = roots_jacobi(n, each * (size - 1 - k) - 1.0, each - 1.0)
        v = 0.5 * (1.0 + x)
        nodes = np.column_stack([np.repeat(nodes, n, 0), np.outer(left, v).ravel()])
        left = np.outer(left, 1.0 - v).ravel()
        logs = (logs[:, None] + np.log(w / w.sum())).ravel()
    return np.column_stack([nodes, left]), logs


def log_rise(x, n):
    """Log of x (x + 1) ... (x + n - 1), 0 for n = 0 at any x."""
    x = np.where(n > 0, x, 1.0)
    return gammaln(x + n) - gammaln(x)


def log_path(z, beta):
    """Log p(z | beta) of many beta, rows, kappa and w integrated out."""
    counts = np.zeros((L + 1, L), int)
    for t in range(T):
        first = t in np.cumsum(LENGTHS) - LENGTHS
        counts[0 if first else z[t - 1] + 1, z[t]] += 1
    base = ALPHA * beta
    total = log_rise(base, counts[0]).sum(axis=1) - log_rise(ALPHA, counts[0].sum())
    for k in range(L):
        row, n, terms = counts[k + 1], counts[k + 1].sum(), []
        for W in range(row[k] + 1):
            left = row - W * (np.arange(L) == k)
            choose = gammaln(row[k] + 1) - gammaln(W + 1) - gammaln(row[k] - W + 1)
            kappa = betaln(RHO[0] + W, RHO[1] + n - W) - betaln(*RHO)
            terms.append(choose + kappa - log_rise(ALPHA, n - W) + log_rise(base, left).sum(axis=1))
        total = total + logsumexp(terms, axis=0)
    return total


def canonical(z):
    names = {}
    return tuple(names.setdefault(k, len(names)) for k in z)


def enumerated(concentration):
    """p(partition, K | y): {partition: (L,) over K}."""
    nodes = {}
    for number in range(1, L + 1):
        nodes[number] = simplex_nodes(
            number, GAMMA if concentration == "static" else GAMMA / number
        )
    out = {}
    for z in itertools.product(range(L), repeat=T):
        if canonical(z) != z:
            continue
        used = max(z) + 1
        labelled = gammaln(L + 1) - gammaln(L - used + 1)  # paths of this partition
        evidence = sum(
            gammaln(A + Y[np.array(z) == k].sum())
            - (A + Y[np.array(z) == k].sum()) * np.log(B + z.count(k))
            - gammaln(A)
            + A * np.log(B)
            for k in range(used)
        )
        logs = np.full(L, -np.inf)
        for number in range(used, L + 1):
            within, log_w = nodes[number]
            beta = np.zeros((len(within), L))
            beta[:, :number] = within
            p = logsumexp(log_w + log_path(np.array(z), beta))
            sets = gammaln(L - used + 1) - gammaln(number - used + 1)  # that hold those used
            sets -= gammaln(L + 1) - gammaln(number + 1)
            logs[number - 1] = p + np.log(NUMBER[number - 1]) + sets
        out[z] = logs + labelled + evidence
    norm = logsumexp(list(out.values()))
    return {z: np.exp(x - norm) for z, x in out.items()}


def chain(sampler, concentration, sweeps, seed):
    """Partitions and numbers of active states of a chain."""
    with pm.Model() as model:
        prior = dshdp.DSHDP(
            "hmm", n_states=L, gamma=GAMMA, alpha=ALPHA, rho=RHO, weights="finite-mixture",
            n_active=NUMBER, concentration=concentration,
        )  # fmt: skip
        z = dshdp.HiddenStates("z", prior, lengths=LENGTHS)
        rate = pm.Gamma("rate", A, B, shape=L)
        pm.Poisson("y", rate[z], observed=Y)
        if sampler == "ffbs":
            steps = [dshdp.WeakLimitFFBS([z], pilots=False), dshdp.ConjugateStep([rate])]
            steps[0].n_proposals = 1.0
        else:
            steps = [dshdp.DSBlockGibbs([z], pilots=False)]
        steps.append(dshdp.GridRhoStep([z]))
    for step, rng in zip(steps, np.random.default_rng(seed).spawn(len(steps)), strict=True):
        step.stop_tuning()
        step.rng = rng
    point = model.initial_point()
    paths, numbers = [], []
    for i in range(-100, sweeps):
        for step in steps:
            point, _ = step.step(point)
        if i >= 0:
            active = point["hmm_active"] == 1
            assert (point["hmm_beta"][~active] == 0.0).all()
            assert (point["hmm_pi_bar"][:, ~active] == 0.0).all()
            assert active[point["z"]].all()
            paths.append(canonical(point["z"].tolist()))
            numbers.append(active.sum())
    return paths, np.array(numbers)


QUICK = [("ffbs", "dynamic"), ("direct", "static")]
CASES = [*QUICK, ("ffbs", "static"), ("direct", "dynamic")]


@pytest.mark.parametrize(
    ("sampler", "concentration", "sweeps"),
    [(*case, 6_000) for case in QUICK]
    + [pytest.param(*case, 100_000, marks=pytest.mark.slow) for case in CASES],
)
def test_partitions_and_numbers_have_their_probabilities(sampler, concentration, sweeps):
    expected = enumerated(concentration)
    paths, numbers = chain(sampler, concentration, sweeps, seed=4)
    index = {z: i for i, z in enumerate(expected)}
    p = np.array(list(expected.values()))  # partitions x K
    batch = np.repeat(np.arange(BATCHES), sweeps // BATCHES)
    seen = np.zeros((BATCHES, *p.shape))
    np.add.at(seen, (batch, [index[z] for z in paths], numbers - 1), BATCHES / sweeps)
    used = np.array([max(z) + 1 for z in expected])
    shares, law = [*seen.sum(axis=2).T, *seen.sum(axis=1).T], [*p.sum(axis=1), *p.sum(axis=0)]
    for k in range(1, L + 1):
        shares.extend(seen[:, used == k].sum(axis=1).T)
        law.extend(p[used == k].sum(axis=0))
    kept = np.array(law) > 0.01
    shares, law = np.array(shares)[kept], np.array(law)[kept]
    error = shares.std(axis=1, ddof=1) / np.sqrt(BATCHES)
    z = (shares.mean(axis=1) - law) / np.maximum(error, 1e-12)
    assert np.abs(z).max() < 4.5, z
    assert np.mean(z**2) < 2.0, z
