"""Splits and merges against enumeration of all labelled paths."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from reference import LARGEST_Z, all_paths
from scipy import stats
from scipy.special import betaln, expit, gammaln, logsumexp, roots_jacobi

from pymc_dshdp.emissions.poisson import PoissonGamma
from pymc_dshdp.kernels.chain import NO_INDEX
from pymc_dshdp.kernels.collapsed_transitions import (
    Persistence,
    log_path_marginal,
    redraw_transitions,
)
from pymc_dshdp.kernels.counts import path_counts
from pymc_dshdp.kernels.finite_mixture import (
    NumberPrior,
    draw_active_weights,
    draw_number,
    log_number_given_tables,
)
from pymc_dshdp.kernels.pair_density import Prior, log_stick_density, log_weights, sticks_of
from pymc_dshdp.kernels.split_merge import Path, Proposal, weigh, weigh_again
from pymc_dshdp.kernels.transitions import (
    TransitionPrior,
    alpha_and_tables,
    split_counts,
    transition_block,
)
from pymc_dshdp.likelihood.marginals import Marginals
from pymc_dshdp.steps import configuration as proposals
from pymc_dshdp.steps.configuration import Configuration
from pymc_dshdp.steps.divisions import FittedDivision, PriorDivision
from pymc_dshdp.steps.improving import improve, merge_all

T, A, B = 6, 1.5, 0.4
Y = np.array([[0.0], [1.0], [4.0], [3.0], [0.0], [5.0]])
ALPHA, GAMMA = 1.8, 1.3
NUMBER = np.array([0.2, 0.2, 0.4, 0.2])  # p(K) of a finite mixture
MOVES, BATCHES = 4, 20
COMMON = 0.03
KINDS = ("split", "merge", "resplit")
PRIORS = {"ds": (0.9, 0.6, True), "sticky": (2.0, 1.8, True), "hdp": (0.0, 1.0, False),
          "given": (0.55, 0.45, False)}  # fmt: skip


def persistence(prior, R):
    stay, leave, integrated = PRIORS[prior]
    return Persistence(np.full(R, stay), np.full(R, leave), integrated)


def weights_by_quadrature(L, sticks, g):
    """Nodes beta and log weights that integrate polynomials in beta exactly."""
    nodes, logs = np.ones((1, 0)), np.zeros(1)
    left = np.ones(1)
    for k in range(L - 1):
        a, b = (1.0, GAMMA) if sticks else (g, g * (L - 1 - k))
        x, w = roots_jacobi(6, b - 1.0, a - 1.0)
        v, log_w = 0.5 * (1.0 + x), np.log(w / w.sum())
        nodes = np.column_stack([np.repeat(nodes, 6, 0), np.outer(left, v).ravel()])
        left = np.outer(left, 1.0 - v).ravel()
        logs = (logs[:, None] + log_w).ravel()
    return np.column_stack([nodes, left]), logs


def nodes_of(L, weights):
    """Nodes beta and log weights of each kind; of a finite mixture for every active set."""
    if weights in ("weak-limit", "sticks"):
        return weights_by_quadrature(L, weights == "sticks", GAMMA / L)
    nodes, logs = [], []
    for number in range(1, L + 1):
        each = GAMMA if weights == "static" else GAMMA / number
        within, log_w = weights_by_quadrature(number, False, each)
        sets = list(itertools.combinations(range(L), number))
        for chosen in sets:
            beta = np.zeros((len(within), L))
            beta[:, chosen] = within
            nodes.append(beta)
            logs.append(log_w + np.log(NUMBER[number - 1] / NUMBER[:L].sum() / len(sets)))
    return np.concatenate(nodes), np.concatenate(logs)


def rise(x, n):
    """Log of x (x + 1) ... (x + n - 1), 0 for n = 0 at any x; arrays."""
    return np.where(n > 0, gammaln(x + n) - gammaln(np.where(n > 0, x, 1.0)), 0.0)


def canonical(z):
    """Path with its states numbered in the order of their first times."""
    names = {}
    return tuple(names.setdefault(k, len(names)) for k in z)


def exact(prior, L, lengths, weights, groups=(0,) * T):
    """Probabilities of all labelled paths given y, alpha, gamma, rho and the groups of times."""
    paths = all_paths(L, T)
    beta, log_w = nodes_of(L, weights)
    known, out = {}, np.empty(len(paths))
    for p, z in enumerate(paths):
        name = tuple(z) if weights == "sticks" else canonical(z)
        if name not in known:
            known[name] = log_joint(np.array(name), prior, L, lengths, beta, log_w, groups)
        out[p] = known[name]
    return np.exp(out - logsumexp(out))


def log_joint(z, prior, L, lengths, beta, log_w, groups):
    """log p(y, z), beta integrated out by the nodes."""
    stay, leave, integrated = PRIORS[prior]
    firsts = {0, *np.cumsum(lengths)[:-1]}
    counts = np.zeros((1 + L * (max(groups) + 1), L), int)
    for t in range(T):
        counts[0 if t in firsts else 1 + L * groups[t] + z[t - 1], z[t]] += 1
    base = ALPHA * beta
    total = log_w - rise(ALPHA, counts[0].sum()) + rise(base, counts[0]).sum(axis=1)
    for r, row in enumerate(counts[1:]):
        k, n, terms = r % L, row.sum(), []
        for W in range(row[k] + 1):
            left = row.copy()
            left[k] -= W
            if integrated:
                kappa = betaln(stay + W, leave + n - W) - betaln(stay, leave)
            elif stay > 0.0:
                kappa = W * np.log(stay) + (n - W) * np.log(leave)
            else:
                kappa = 0.0 if W == 0 else -np.inf
            choose = gammaln(row[k] + 1) - gammaln(W + 1) - gammaln(row[k] - W + 1)
            terms.append(choose + kappa - rise(ALPHA, n - W) + rise(base, left).sum(axis=1))
        total = total + logsumexp(terms, axis=0)
    for k in range(L):
        s, m = Y[z == k, 0].sum(), np.sum(z == k)
        total = total + A * np.log(B) + gammaln(A + s) - gammaln(A) - (A + s) * np.log(B + m)
    return logsumexp(total)


def run(rng, batches, rounds, now, lengths, weights):
    """Frequencies of labelled paths, by batch; beta is drawn given the path after some moves.

    Also how often each kind of move was made.
    """
    path, prior, L = now.path, now.prior, now.n_states
    seen = np.zeros((batches, L**T), np.int64)
    made = Counter()
    block = TransitionPrior(0.0, 1.0, 0.0, 1.0)
    sticks = np.zeros(L - 1 if prior.sticks else 0)
    stay, leave = prior.persistence.stay, prior.persistence.leave
    powers = L ** np.arange(T - 1, -1, -1)
    for i in range(batches * rounds):
        for _ in range(MOVES):
            made[now.propose(rng)] += 1
            seen[i // rounds, path.states @ powers] += 1
        counts = np.zeros_like(path.counts)
        path_counts(path.states, lengths, path.groups, counts)
        assert (counts == path.counts).all()
        beta = np.exp(path.log_beta)
        base = np.tile(prior.alpha * beta, (len(counts), 1))
        drawn = redraw_transitions(rng, counts, base, prior.persistence)
        logit = drawn.kappa_logit
        if not prior.persistence.integrated:
            logit = np.log(stay / leave) if stay[0] > 0.0 else np.full(L, -np.inf)
        switches, _ = split_counts(rng, counts, logit, np.ascontiguousarray(drawn.rows[1:]))
        if weights in ("dynamic", "static"):
            _, tables = alpha_and_tables(rng, switches, prior.alpha, beta, block)
            number = draw_number(rng, log_number_given_tables(tables, GAMMA, prior.number))
            draw = draw_active_weights(rng, tables, GAMMA, number, weights == "static")
            path.active[:] = draw.active
        else:
            draw = transition_block(rng, switches, prior.gamma, prior.alpha, sticks, beta, block)
        with np.errstate(divide="ignore"):
            path.log_beta[:] = log_weights(draw.sticks_logit) if prior.sticks else np.log(draw.beta)
    return seen, made


def start(prior, L, lengths, weights, groups=None, pinned=(), states=(0,) * T):
    """(configuration, lengths)."""
    lengths, states = np.array(lengths), np.array(states)
    index = NO_INDEX if groups is None else np.array(groups)
    R = L if groups is None else L * (max(groups) + 1)
    counts = np.zeros((R + 1, L), np.int64)
    path_counts(states, lengths, index, counts)
    first, known = np.zeros(T, bool), np.zeros(L, bool)
    first[np.cumsum(lengths) - lengths] = True
    known[list(pinned)] = True
    family = PoissonGamma()
    full = [np.full((L, 1), A), np.full((L, 1), B)]
    marginals = Marginals(family, family.prepare(Y, [np.ones(Y.shape)], []), full, [])
    even = np.log(np.full(L, 1.0 / L))
    path = Path(states, first, index, known, counts, even, np.ones(L, bool))
    each = {"sticks": 1.0, "static": np.nan, "dynamic": np.nan}.get(weights, GAMMA / L)
    given = Prior(ALPHA, GAMMA, persistence(prior, R), weights == "sticks", each)
    if weights in ("dynamic", "static"):
        number = NumberPrior(np.log(NUMBER[:L]), weights == "static")
        given = given._replace(number=number)
    return Configuration(marginals, path, given), lengths


def z_scores(case, rounds, seed=3):
    """Of the more probable paths and partitions, the rest together, and the numbers of states.

    Rarer ones come in bursts, of which the batches that have none show nothing.
    """
    kinds = {kind for kind, _ in proposals.MOVES}
    return scores(case, rounds, seed, *start(*case), kinds)


def scores(case, rounds, seed, now, lengths, kinds):
    """Scores of a chain that makes some kinds of moves."""
    seen, made = run(np.random.default_rng(seed), BATCHES, rounds, now, lengths, case[3])
    assert min(made[kind] for kind in kinds) > 0.02 * rounds * BATCHES
    p = exact(*case)
    found = seen / (rounds * MOVES)
    occupied = np.array([len(set(path)) for path in all_paths(case[1], T)])
    common = p > COMMON
    groups = [common & (np.arange(len(p)) == i) for i in np.flatnonzero(common)]
    groups += [~common, *(occupied == k for k in range(1, case[1] + 1))]
    names = [canonical(path) for path in all_paths(case[1], T)]
    partitions = [np.array([name == one for name in names]) for one in dict.fromkeys(names)]
    groups += [one for one in partitions if p[one].sum() > 4.0 / rounds]
    shares = np.array([found[:, g].sum(axis=1) for g in groups])
    expected = np.array([p[g].sum() for g in groups])
    error = shares.std(axis=1, ddof=1) / np.sqrt(BATCHES)
    return (shares.mean(axis=1) - expected) / np.maximum(error, 1e-12)


CASES = [
    ("ds", 3, (6,), "weak-limit"),
    ("ds", 3, (4, 2), "sticks"),
    ("hdp", 3, (6,), "weak-limit"),
    ("sticky", 4, (3, 3), "weak-limit"),
    ("given", 3, (2, 4), "weak-limit"),
    ("ds", 3, (6,), "dynamic"),
    ("hdp", 4, (4, 2), "static"),
    ("ds", 3, (4, 2), "weak-limit", (1, 0, 1, 1, 0, 1)),
]


@pytest.mark.parametrize(
    ("case", "rounds", "division"),
    [
        (CASES[-1], 320, FittedDivision),
        (CASES[-1], 1_200, PriorDivision),
        *(
            pytest.param(case, 2_000, division, marks=pytest.mark.slow)
            for case in CASES
            for division in (FittedDivision, PriorDivision)
        ),
    ],
    ids=str,
)
def test_labelled_paths_have_their_probabilities(monkeypatch, case, rounds, division):
    """The chain that has only this move and redraws of beta, against enumeration.

    With little data, divisions by the prior change labels less often, and take more rounds.

    Which defects make it fail is in ``statistical/mutations.py``.
    """
    moves = [move for move in proposals.MOVES if move[1] is division]
    monkeypatch.setattr(proposals, "MOVES", moves)
    z = z_scores(case, rounds)
    assert np.abs(z).max() < LARGEST_Z
    assert np.mean(z**2) < 2.0


def test_states_of_known_times_take_no_part():
    now, _ = start("ds", 3, (6,), "weak-limit", pinned=[1], states=[1, 1, 0, 0, 1, 0])
    rng = np.random.default_rng(1)
    done = [now.propose(rng) for _ in range(2_700)]
    assert min(done.count(kind) for kind in KINDS) > 5
    improve(now, rng)
    assert (np.flatnonzero(now.path.states == 1) == [0, 1, 4]).all()


def test_evidence_follows_the_path():
    """After moves of all kinds, as if formed from the path they have led to."""
    now, _ = start("ds", 4, (4, 2), "weak-limit")
    rng = np.random.default_rng(2)
    for _ in range(100):
        now.propose(rng)
    improve(now, rng)
    fresh = Configuration(now.marginals, now.path, now.prior)
    np.testing.assert_allclose(now.evidence, fresh.evidence, atol=1e-12)
    for kept, new in zip(now.moments, fresh.moments, strict=True):
        np.testing.assert_allclose(kept, new, atol=1e-12)


def test_improvements_raise_the_joint():
    """Fails if a merge or split that lowers it is taken."""
    now, _ = start("ds", 4, (6,), "weak-limit", states=[0, 1, 2, 2, 0, 2])

    def joint():
        base = np.tile(ALPHA * np.exp(now.path.log_beta), (5, 1))
        return log_path_marginal(now.path.counts, base, now.prior.persistence) + now.evidence.sum()

    before = joint()
    improve(now, np.random.default_rng(2))
    assert joint() > before


def configuration(path, y, L):
    """Of one sequence of counts."""
    counts = np.zeros((L + 1, L), np.int64)
    path_counts(path, np.array([len(path)]), NO_INDEX, counts)
    family = PoissonGamma()
    full = [np.full((L, 1), A), np.full((L, 1), B)]
    marginals = Marginals(family, family.prepare(y[:, None], [np.ones((len(y), 1))], []), full, [])
    first, even = np.arange(len(path)) == 0, np.log(np.full(L, 1.0 / L))
    none = np.zeros(L, bool)
    begun = Path(path.copy(), first, NO_INDEX, none, counts, even, np.ones(L, bool))
    prior = Prior(ALPHA, GAMMA, persistence("ds", L), False, GAMMA / L)
    return Configuration(marginals, begun, prior)


def test_what_is_read_forward_and_backward_is_two_states():
    """ABCB over and over, from one state for each letter: only what is around B tells.

    Fails if launches do not look at the states before and after.
    """
    path = np.tile([0, 1, 2, 1], 12)
    now = configuration(path, np.array([1.0, 20.0, 60.0])[path], 6)
    rng = np.random.default_rng(1)
    for _ in range(10):
        improve(now, rng)
    states = now.path.states.reshape(-1, 4)
    assert (states == states[0]).all()
    assert len(set(states[0])) == 4


def test_states_that_are_hard_to_tell_apart_are_kept():
    """Dwell times of 20: two states alike make them, passed one after the other.

    Where one ends and the other begins nobody knows. The evidence of both is

        P(20) = 19 / 10^2 (9 / 10)^18 = 0.0285 for each stay, that of one 19^19 / 20^20 = 0.0189,

    0.41 nats less; but the density of a path that changes at a given time is 2.5 nats less than
    that of one state. Fails if merges go by the density of the path at hand.
    """
    rng = np.random.default_rng(1)
    stays, n = 300, 20
    level = np.arange(stays) % 2
    change = rng.integers(1, n, stays)
    path = (2 * level[:, None] + (np.arange(n) >= change[:, None])).ravel()
    now = configuration(path, rng.poisson(np.array([2.0, 40.0])[path // 2]).astype(float), 8)
    merge_all(now, rng)
    assert len(set(now.path.states)) == 4


def test_labels_at_random_are_merged():
    """Fails if the entropy of a division is taken twice."""
    rng = np.random.default_rng(1)
    now = configuration(rng.integers(0, 4, 400), rng.poisson(5.0, 400).astype(float), 8)
    merge_all(now, rng)
    assert len(set(now.path.states)) == 1


@pytest.mark.parametrize("sticks", [False, True])
def test_another_division_has_its_ratio(sticks):
    """Density of path and weights over that of the share, new less old, by SciPy.

    Fails if the density of the share that there was is left out.
    """
    L, rng = 4, np.random.default_rng(1)
    old, new = np.array([0, 1, 2, 0, 0, 1]), np.array([0, 0, 2, 1, 0, 1])
    now, lengths = start("ds", L, (4, 2), "sticks" if sticks else "weak-limit", states=old)
    now.path.log_beta[:] = np.log([0.4, 0.3, 0.2, 0.1])
    times = np.flatnonzero(old != 2)
    proposal = Proposal(True, 0, 1, times, new[times])
    weighing = weigh_again(rng, now.path, now.prior, proposal)

    def level(states, log_beta):
        counts, beta = np.zeros((L + 1, L), np.int64), np.exp(log_beta)
        path_counts(states, lengths, NO_INDEX, counts)
        out = log_path_marginal(counts, np.tile(ALPHA * beta, (L + 1, 1)), now.prior.persistence)
        into = counts * (np.arange(-1, L)[:, None] != np.arange(L))
        tables = np.log1p(into).sum(axis=0)
        each = now.prior.each
        if sticks:
            out += log_stick_density(log_beta, GAMMA)
        else:
            out += stats.dirichlet.logpdf(beta, np.full(L, each))
        return out - stats.beta.logpdf(
            beta[0] / (beta[0] + beta[1]), each + tables[0], each + tables[1]
        )

    expected = level(new, weighing.log_beta) - level(old, now.path.log_beta)
    assert weighing.log_ratio == pytest.approx(expected)
    np.testing.assert_allclose(np.exp(weighing.log_beta).sum(), 1.0)
    np.testing.assert_array_equal(weighing.log_beta[2:], now.path.log_beta[2:])


@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("split", [True, False])
def test_a_state_that_becomes_active_has_its_ratio(kind, split):
    """Density of path, number, set and weights over that of the share, two less one, by SciPy."""
    L, lengths, rng = 4, (4, 2), np.random.default_rng(1)
    two, one = np.array([0, 0, 2, 1, 0, 1]), np.array([0, 0, 2, 0, 0, 0])
    now, lengths = start("ds", L, lengths, kind, states=one if split else two)
    begun = np.array([0.7, 0.0, 0.2, 0.1] if split else [0.4, 0.3, 0.2, 0.1])
    with np.errstate(divide="ignore"):
        now.path.log_beta[:] = np.log(begun)
    now.path.active[:] = begun > 0.0
    times = np.flatnonzero(two != 2)
    proposal = Proposal(split, 0, 1, times, (two[times] == 1).astype(np.int64))
    weighing = weigh(rng, now.path, now.prior, proposal)
    ended = np.exp(weighing.log_beta)

    def each(number):
        return GAMMA if kind == "static" else GAMMA / number

    def level(states, beta):
        counts, used = np.zeros((L + 1, L), np.int64), beta[beta > 0.0]
        path_counts(states, lengths, NO_INDEX, counts)
        out = log_path_marginal(counts, np.tile(ALPHA * beta, (L + 1, 1)), now.prior.persistence)
        out += np.log(NUMBER[used.size - 1]) - np.log(math.comb(L, used.size))
        out += stats.dirichlet.logpdf(used, np.full(used.size, each(used.size)))
        into = counts * (np.arange(-1, L)[:, None] != np.arange(L))
        return out, each(used.size) + np.log1p(into).sum(axis=0)[:2]

    (merged, _), (divided, powers) = level(one, ended), level(two, begun)
    if split:
        (merged, _), (divided, powers) = level(one, begun), level(two, ended)
    weights = ended if split else begun
    total = weights[:2].sum()
    expected = divided - merged + np.log(total)
    expected -= stats.beta.logpdf(weights[0] / total, *powers)
    assert weighing.log_ratio == pytest.approx(expected)
    assert weighing.active == split and ended.sum() == pytest.approx(1.0)
    assert (ended[1] > 0.0) == split
    now.path.log_beta[3] = -np.inf  # the other active weight underflows
    ratio = weigh(rng, now.path, now.prior, proposal).log_ratio
    assert np.isnan(ratio) == (kind == "dynamic")


def test_sticks_and_their_weights():
    """Also where weights underflow; the density in beta is that in v and its Jacobian."""
    logit = np.array([3.0, -900.0, 0.5, 40.0])
    np.testing.assert_allclose(sticks_of(log_weights(logit)), logit, rtol=1e-9)
    found, expected = [], []
    for logit in ([0.3, -1.2, 0.8], [2.0, 0.1, -0.4]):
        log_beta = log_weights(np.array(logit))
        beta, v = np.exp(log_beta), expit(logit)
        left = 1.0 - np.cumsum(beta)[:-2]
        expected.append(stats.beta.logpdf(v, 1.0, GAMMA).sum() - np.log(left).sum())
        found.append(log_stick_density(log_beta, GAMMA))
    assert found[1] - found[0] == pytest.approx(expected[1] - expected[0])


if __name__ == "__main__":
    import sys
    import time

    if len(sys.argv) > 3:
        proposals.MOVES = [x for x in proposals.MOVES if x[1].__name__ == sys.argv[3]]
    for case in CASES[: int(sys.argv[2])] if len(sys.argv) > 2 else CASES:
        began = time.process_time()
        z = z_scores(case, int(sys.argv[1]))
        print(case, np.abs(z).max(), np.mean(z**2), time.process_time() - began, flush=True)
