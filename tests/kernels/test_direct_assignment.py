"""The case table and the sweep against enumeration of p(z, w | alpha, beta, kappa)."""

import itertools
import math

import numpy as np
import pytest

from pymc_dshdp.kernels import case_table
from pymc_dshdp.kernels import direct_assignment as kernels
from pymc_dshdp.kernels.chain import NO_INDEX
from pymc_dshdp.kernels.predictive import Table
from pymc_dshdp.kernels.urns import (
    HAS_NEXT,
    HAS_PREVIOUS,
    SWITCH,
    add_time,
    close_slot,
    fill_urns,
)

L = 3
SHARED = np.tile(1.7 * np.array([0.5, 0.2, 0.3]), (L + 1, 1))
OWN = np.array([[0.5, 0.2, 0.3], [1.2, 0.1, 2.0], [0.4, 3.0, 0.7], [0.9, 0.6, 1e-3]])
LOGIT = np.array([0.4, -0.9, 1.3])
LOGITS = np.append(LOGIT, [-1.2, 0.7, 0.1])  # of two groups
BOTH = np.concatenate([OWN, 1.3 * OWN[[2, 3, 1]]])
INDEX = np.array([1, 0, 1, 1, 0])  # who leads to each time


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def draws_from_rows(states, persists, lengths, index=NO_INDEX):
    """n_jk of a path, one draw at a time (plain Python twin of the kernel's counts)."""
    counts = np.zeros((1 + L * (2 if index.size else 1), L), np.int64)
    t = 0
    for length in lengths:
        for i in range(t, t + length):
            if i == t:
                counts[0, states[i]] += 1
            elif not persists[i]:
                counts[1 + row_of(states, index, i), states[i]] += 1
        t += length
    return counts


def row_of(states, index, t):
    """Row of the transition to t, without that of the starts."""
    return states[t - 1] + (L * index[t] if index.size else 0)


def log_joint(states, persists, lengths, base, logit, index):
    """Log p(z, w | alpha, beta, kappa), each row's draws a Dirichlet-multinomial sequence."""
    starts = set(np.cumsum([0, *lengths])[:-1].tolist())
    total = 0.0
    for t in range(len(states)):
        if t in starts:
            if persists[t]:
                return -np.inf
            continue
        kappa = sigmoid(logit[row_of(states, index, t)])
        if persists[t]:
            if states[t] != states[t - 1]:
                return -np.inf
            total += math.log(kappa)
        else:
            total += math.log1p(-kappa)
    for a, row in zip(base, draws_from_rows(states, persists, lengths, index), strict=True):
        total += math.lgamma(a.sum()) - math.lgamma(a.sum() + row.sum())
        total += sum(math.lgamma(x + n) - math.lgamma(x) for x, n in zip(a, row, strict=True))
    return total


def configurations(lengths):
    """Every (z, w) of positive probability."""
    T = sum(lengths)
    starts = np.cumsum([0, *lengths])[:-1]
    for states in itertools.product(range(L), repeat=T):
        free = [t for t in range(T) if t not in starts and states[t] == states[t - 1]]
        for bits in itertools.product((False, True), repeat=len(free)):
            persists = np.zeros(T, bool)
            persists[free] = bits
            yield np.array(states), persists


def urns_without(states, persists, lengths, t, grouped, base=SHARED, logit=LOGIT, index=NO_INDEX):
    counts = draws_from_rows(states, persists, lengths, index)
    visits = np.bincount(states, minlength=L)
    given = states, persists, np.asarray(lengths), index, counts, visits, logit, base, grouped
    urns = fill_urns(*given)
    tables = (urns.first, urns.counts, urns.base, urns.masses, urns.arrivals, urns.rows)
    add_time(urns.states, urns.persists, urns.neighbours, *tables, t, -1.0)
    k = urns.states[t]
    urns.visits[k] -= 1
    if grouped and urns.visits[k] == 0:
        close_slot(urns, k)
    return urns


def case_weights(urns, t, likelihoods, weights):
    """``weigh_cases`` of time point t, which has been taken out."""
    before = urns.states[t - 1] if urns.neighbours[t] & HAS_PREVIOUS else -1
    after = urns.states[t + 1] if urns.neighbours[t] & HAS_NEXT else -1
    row = urns.first[t] + before if before >= 0 else 0
    onward = urns.first[t + 1] if after >= 0 else 0
    masses = (urns.base, urns.masses, urns.arrivals, urns.rows, urns.empty_mass)
    slots = (urns.active, urns.place, urns.size[0])
    at = (before, after, row, onward)
    return case_table.weigh_cases(*masses, *slots, *at, likelihoods, weights)


def conditional(states, persists, lengths, t, likelihood, grouped, base, logit, index):
    """The kernel's conditional as {(k, w_t, w_{t+1}): probability}; w_{t+1} False if absent."""
    urns = urns_without(states, persists, lengths, t, grouped, base, logit, index)
    n = urns.size[0]
    candidates = np.full(L + 1, likelihood[-1])
    if not grouped:
        candidates[:L] = likelihood
    else:
        candidates[:n] = likelihood[urns.active[:n]]
    weights = np.zeros(L + 4)
    total = case_weights(urns, t, candidates, weights)
    ends = np.cumsum(lengths)
    has_next = t + 1 not in ends
    out = {}

    def add(k, w, w_next, weight):
        if weight > 0.0:
            out[k, w, w_next] = out.get((k, w, w_next), 0.0) + weight / total

    if weights[0] > 0 or weights[1] > 0:
        add(states[t - 1], True, has_next, weights[0])
        add(states[t - 1], True, False, weights[1])
    if weights[2] > 0:
        add(states[t + 1], False, True, weights[2])
    for i in range(n):
        add(urns.active[i], False, False, weights[4 + i])
    if weights[3] > 0:
        empty = [k for k in range(L) if k not in urns.active[:n]]
        switch = urns.rows[SWITCH, urns.first[t + 1] :] if has_next else np.ones(L)
        mass = np.array([base[0, k] * switch[k] for k in empty])
        for k, share in zip(empty, mass / mass.sum(), strict=True):
            add(k, False, False, weights[3] * share)
    return out


def enumerated(states, persists, lengths, t, likelihood, base, logit, index):
    has_next = t + 1 not in np.cumsum(lengths)
    out = {}
    for k in range(L):
        for w, w_next in itertools.product((False, True), (False, True) if has_next else (False,)):
            z, v = states.copy(), persists.copy()
            z[t], v[t] = k, w
            if has_next:
                v[t + 1] = w_next
            lp = log_joint(z, v, lengths, base, logit, index)
            if np.isfinite(lp):
                out[k, w, w_next] = lp + math.log(likelihood[k])
    top = max(out.values())
    out = {key: math.exp(lp - top) for key, lp in out.items()}
    total = sum(out.values())
    return {key: p / total for key, p in out.items()}


def same(found, expected):
    assert found.keys() == expected.keys()
    for key, p in expected.items():
        assert abs(found[key] - p) < 1e-12


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("lengths", [[4], [1, 3], [2, 1, 1], [5]])
def test_every_conditional_equals_enumeration(lengths, groups):
    """Fails with a +1 in case (1, 0), with d(j, l) dropped, or across a sequence boundary.

    And where a row, a kappa or the + 1 is that of the group of a time before or after.
    """
    rng = np.random.default_rng(3)
    likelihood = np.array([0.7, 1.0, 0.2])
    shared = SHARED if groups == 1 else np.tile(SHARED[0], (1 + 2 * L, 1))
    logit, index = (LOGIT, NO_INDEX) if groups == 1 else (LOGITS, INDEX[: sum(lengths)])
    everything = list(configurations(lengths))
    if len(everything) > 400:
        everything = [everything[i] for i in rng.choice(len(everything), 400, False)]
    for states, persists in everything:
        for t in range(sum(lengths)):
            for base in (shared, OWN if groups == 1 else BOTH):
                given = states, persists, lengths, t, likelihood
                expected = enumerated(*given, base, logit, index)
                same(conditional(*given, False, base, logit, index), expected)
            # In the grouped form all empty slots have the same likelihood.
            others = np.delete(states, t)
            alike = np.where(np.isin(np.arange(L), others), likelihood, 0.4)
            expected = enumerated(states, persists, lengths, t, alike, shared, logit, index)
            alike, given = np.append(alike, 0.4), (states, persists, lengths, t)
            same(conditional(*given, alike, True, shared, logit, index), expected)


@pytest.mark.parametrize(
    ("base", "logit", "index"),
    [(OWN, LOGIT, NO_INDEX), (BOTH, LOGITS, np.array([0, 1, 0, 0, 1, 1]))],
    ids=["one group", "two groups"],
)
def test_logarithms_of_the_cases_equal_their_weights(base, logit, index):
    """Fails if a case of the underflow path differs from the table of cases."""
    lengths = [3, 1, 2]
    rng = np.random.default_rng(4)
    likelihood = np.array([0.7, 1.0, 0.2])
    for states, persists in list(configurations(lengths))[::7]:
        t = int(rng.integers(6))
        urns = urns_without(states, persists, lengths, t, False, base, logit, index)
        weights, logs = np.zeros(L + 4), np.zeros(L + 4)
        case_weights(urns, t, np.append(likelihood, 0.0), weights)
        case_table.log_case_weights(urns, t, logit, np.log(likelihood), logs)
        np.testing.assert_allclose(np.exp(logs), weights, rtol=1e-12, atol=0.0)


def sweep(rng, states, lengths, table, *, base=SHARED, logit=LOGIT, index=NO_INDEX):
    n_states = base.shape[1]
    pi_bar = np.full((len(base) - 1, n_states), 1.0 / n_states)
    switches, visits = np.zeros(base.shape, np.int64), np.zeros(n_states, np.int64)
    counted = logit, pi_bar, switches, visits
    persists = kernels.draw_persistences(rng, states, lengths, index, *counted)
    given = index, switches, visits, logit, base
    every = np.arange(len(states))
    return kernels.sweep_states(rng, states, persists, lengths, *given, Table(table), False, every)


@pytest.mark.parametrize("groups", [1, 2])
def test_counts_kept_equal_counts_afresh(groups):
    """Fails where a draw is forgotten or counted twice when a time point comes or goes."""
    rng = np.random.default_rng(5)
    lengths = np.array([9, 1, 12, 3])
    given = {}
    if groups == 2:
        given = {"base": BOTH, "logit": LOGITS, "index": rng.integers(2, size=25)}
    table = rng.normal(size=(25, L))
    states = rng.integers(L, size=25)
    moved = births = deaths = 0
    for _ in range(300):
        draw = sweep(rng, states, lengths, table, **given)
        np.testing.assert_array_equal(
            draw.switches,
            draws_from_rows(draw.states, draw.persists, lengths, given.get("index", NO_INDEX)),
        )
        np.testing.assert_array_equal(draw.visits, np.bincount(draw.states, minlength=L))
        copied = np.flatnonzero(draw.persists)
        assert not np.isin(copied, np.cumsum([0, *lengths])).any()
        assert (draw.states[copied] == draw.states[copied - 1]).all()
        assert draw.moved == np.count_nonzero(draw.states != states)
        occupied = [np.unique(z).size for z in (states, draw.states)]
        assert occupied[1] - occupied[0] == draw.births - draw.deaths
        moved, births, deaths = moved + draw.moved, births + draw.births, deaths + draw.deaths
        states = draw.states
    assert moved > 1000
    assert births > 0
    assert deaths > 0


def test_weights_of_zero_and_tiny_likelihoods():
    """A state whose weight underflowed to 0 is not entered; far likelihoods do not underflow."""
    rng = np.random.default_rng(6)
    base = np.tile([0.0, 1e-250, 1.3, 1e-5], (5, 1))
    logit = np.array([0.0, 800.0, -800.0, -np.inf])
    table = -1e4 * rng.random((30, 4))
    table[7] = [5e3, -np.inf, -9e3, -9e3]
    states = np.full(30, 2)
    for _ in range(50):
        states = sweep(rng, states, np.array([30]), table, base=base, logit=logit).states
        assert (states != 0).all()
        assert states[7] != 1


@pytest.mark.parametrize("value", [-np.inf, np.nan, np.inf])
def test_impossible_observations_are_reported(value):
    table = np.zeros((8, L))
    table[5] = value
    draw = sweep(np.random.default_rng(7), np.zeros(8, int), np.array([8]), table)
    assert draw.impossible_time == 5


def test_persistences_have_their_probability():
    """w = 1 with probability kappa / (kappa + (1 - kappa) pi_bar_jj); fails without pi_bar_jj."""
    states = np.zeros(100_001, int)
    switches, visits = np.zeros((L + 1, L), np.int64), np.zeros(L, np.int64)
    pi_bar = np.full((L, L), 0.2)
    given = states, np.array([100_001]), NO_INDEX, LOGIT, pi_bar, switches, visits
    persists = kernels.draw_persistences(np.random.default_rng(8), *given)
    kappa = sigmoid(LOGIT[0])
    p = kappa / (kappa + 0.2 * (1.0 - kappa))
    assert abs(persists[1:].mean() - p) < 4.0 * math.sqrt(p * (1.0 - p) / 1e5)
    assert not persists[0]
    assert switches[0, 0] == 1
    assert switches[1, 0] == 100_000 - persists.sum()
