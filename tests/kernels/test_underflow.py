"""Filters, samplers and smoothers where states underflow that come back, against log space."""

import numpy as np
import pytest
import reference
from numpy.testing import assert_allclose, assert_array_equal

from pymc_dshdp.kernels import blocks, messages
from pymc_dshdp.kernels.chain import Transitions, kappa_rows, log_leave, log_stay
from pymc_dshdp.kernels.decoding import filter_with_scores, smooth
from pymc_dshdp.kernels.filtering import NO_SHIFTS, forward_filter
from pymc_dshdp.kernels.log_messages import log_product

pytestmark = pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")

LAYOUTS = [60], [30, 1, 25], [9] * 6


def rows_with_zeros(rng, n_rows, n_states):
    """Rows with exact zeros, and entries of 1e-200."""
    rows = rng.dirichlet(np.full(n_states, 0.3), size=n_rows)
    rows[rng.random(rows.shape) < 0.5] = 0.0
    rows[np.arange(n_rows), rng.integers(0, n_states, n_rows)] += 1e-3
    rows[rng.random(rows.shape) < 0.1] *= 1e-200
    return rows / rows.sum(axis=1, keepdims=True)


def problem(seed):
    """A table with steps of up to 3,000 in either direction, for each layout in turn."""
    rng = np.random.default_rng(seed)
    n_states = int(rng.choice([2, 3, 6, 24]))
    lengths = np.array(LAYOUTS[seed % 3])
    T = lengths.sum()
    pi_bar, [initial] = rows_with_zeros(rng, n_states, n_states), rows_with_zeros(rng, 1, n_states)
    if seed % 2:
        pi_bar = (pi_bar + np.eye(n_states)) / 2.0
    step = [30.0, 300.0, 1000.0, 3000.0][seed % 4]
    table = rng.choice([-step, 0.0, step], size=(T, n_states))
    kappa_logit = np.full((1, n_states), -np.inf)
    match seed % 5:
        case 0:
            table = np.repeat(table[::5], 5, axis=0)[:T]
        case 1:
            table *= rng.random(table.shape)
        case 2:
            table[rng.random(table.shape) < 0.1] = -np.inf
        case 3:
            kappa_logit = rng.normal(0.0, 20.0, table.shape)
            kappa_logit[rng.random(table.shape) < 0.1] = -np.inf
            kappa_logit[rng.random(table.shape) < 0.05] = 800.0
    return table, initial, Transitions(kappa_logit, pi_bar[None]), lengths


def log_matrix(transitions, t):
    """log P_t, also where P_t underflows."""
    logit = transitions.kappa_logit[t if len(transitions.kappa_logit) > 1 else 0]
    out = np.log(transitions.pi_bar[0]) + np.array([log_leave(x) for x in logit])[:, None]
    diagonal = np.arange(len(logit))
    stay = np.array([log_stay(x) for x in logit])
    out[diagonal, diagonal] = np.logaddexp(out[diagonal, diagonal], stay)
    return out


def in_log_space(table, initial, transitions, lengths):
    """Twin: (log filtered, log smoothed, scores) of each sequence; an impossible one has rows."""
    for start, length in zip(reference.sequence_starts(lengths), lengths, strict=True):
        filtered, scores = [], []
        for t in range(start, start + length):
            predicted = np.log(initial)
            if t > start:
                P = log_matrix(transitions, t)
                predicted = np.logaddexp.reduce(filtered[-1][:, None] + P)
            joint = np.where(predicted > -np.inf, predicted + table[t], -np.inf)
            scores.append(np.logaddexp.reduce(joint))
            if not np.isfinite(scores[-1]):
                break
            filtered.append(joint - scores[-1])
        else:
            ahead, smoothed = np.zeros(len(initial)), [filtered[-1]]
            for i in range(length - 2, -1, -1):
                P = log_matrix(transitions, start + i + 1)
                ahead = np.logaddexp.reduce(P + table[start + i + 1] + ahead, axis=1)
                both = filtered[i] + ahead
                smoothed.append(both - np.logaddexp.reduce(both))
            yield np.array(filtered), np.array(smoothed)[::-1], np.array(scores)
            continue
        yield None, None, len(scores) - 1


@pytest.mark.parametrize("part", range(3))
def test_against_log_space(part):
    """Normalisers, rows, smoothed rows and impossible times of 60 tables.

    Fails if what has underflowed is forgotten, or if an observation is called impossible because
    its only states have underflowed.
    """
    by_logarithms = by_numbers = n_impossible = 0
    for seed in range(60 * part, 60 * part + 60):
        table, initial, transitions, lengths = problem(seed)
        found = forward_filter(
            table,
            initial,
            transitions,
            transitions.varying,
            lengths,
            np.empty(table.shape),
            NO_SHIFTS,
        )
        filtered, scores = filter_with_scores(table, initial, transitions, lengths)
        smoothed = smooth(table, initial, transitions, lengths)
        exact = in_log_space(table, initial, transitions, lengths)
        starts = reference.sequence_starts(lengths)
        for n, (log_filtered, log_smoothed, log_predictive) in enumerate(exact):
            rows = slice(starts[n], starts[n] + lengths[n])
            if log_filtered is None:
                assert found.impossible[n] == starts[n] + log_predictive
                assert np.isnan(smoothed[rows]).all()
                n_impossible += 1
                continue
            assert found.impossible[n] == -1
            by_logarithms += found.logarithms[n]
            by_numbers += not found.logarithms[n]
            total = log_predictive.sum()
            assert_allclose(found.log_marginal_likelihood[n], total, rtol=1e-12, atol=1e-9)
            assert_allclose(scores[rows], log_predictive, rtol=1e-12, atol=1e-9)
            assert_allclose(filtered[rows], np.exp(log_filtered), atol=1e-9)
            assert_allclose(smoothed[rows], np.exp(log_smoothed), atol=1e-8)
    assert by_logarithms > 10 and by_numbers > 50 and n_impossible > 2


@pytest.mark.parametrize("seed", [3, 8, 13, 18, 0, 5, 25, 27])
@pytest.mark.parametrize("block", [2, 7, 1000])
def test_blocks_and_threads_change_nothing(monkeypatch, seed, block):
    """Fails if a sequence is begun again in its middle."""
    table, initial, transitions, lengths = problem(seed)
    n_states = len(initial)
    uniforms = np.random.default_rng(seed).random(len(table))
    whole = messages.forward_filter_backward_sample(table, initial, transitions, lengths, uniforms)
    monkeypatch.setattr(blocks, "WORTH_THREADS", 0)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 8 * n_states * block)
    monkeypatch.setattr(blocks, "CACHE_BYTES", 8 * n_states * block)
    monkeypatch.setattr(blocks, "PIECE_ELEMENTS", n_states * 4)
    for threads in (1, 2):
        path = blocks.sample_paths(
            lambda low, high: table[low:high].copy(),
            n_states,
            initial,
            transitions,
            lengths,
            uniforms,
            threads,
        )
        assert path.impossible_time == whole.impossible_time
        if whole.impossible_time < 0:
            assert_array_equal(path.states, whole.states)
            assert_allclose(path.log_marginal_likelihood, whole.log_marginal_likelihood, rtol=1e-13)


def escape(varies):
    """Four times, three states, between which no one goes but by the third.

    The second observation is 800 nats likelier in state 0, the last is as much likelier in
    state 1: paths that were in state 1 all along have underflowed, and are half of the mass.
    """
    P = np.array([[0.7, 0.0, 0.3], [0.0, 0.6, 0.4], [0.0, 0.0, 1.0]])
    table = np.array([[0.0, 0.0, -9.0], [0.0, -800.0, -9.0], [0.0, 0.5, -800.0], [0.0, 800.0, 0.0]])
    logit = np.full((4 if varies else 1, 3), -1.0)
    if varies:
        logit += np.arange(4.0)[:, None] / 3.0
    return table, np.array([0.5, 0.4, 0.1]), Transitions(logit, P[None])


@pytest.mark.parametrize("varies", [False, True])
def test_frequencies_of_paths_that_come_back(varies):
    """The sampler against enumeration; fails if rows are sampled that have underflowed."""
    table, initial, transitions = escape(varies)
    paths = reference.all_paths(3, 4)
    joint = np.log(initial)[paths[:, 0]] + table[np.arange(4), paths].sum(axis=1)
    for t in range(1, 4):
        joint = joint + log_matrix(transitions, t)[paths[:, t - 1], paths[:, t]]
    posterior = np.exp(joint - np.logaddexp.reduce(joint))
    back = (paths == 1).all(axis=1) @ posterior
    assert 0.2 < back < 0.8
    copies = 20_000
    lengths = np.full(copies, 4)
    tiled = transitions
    if varies:
        tiled = Transitions(kappa_rows(transitions.kappa_logit, (copies, 4)), transitions.pi_bar)
    draw = messages.forward_filter_backward_sample(
        np.tile(table, (copies, 1)),
        initial,
        tiled,
        lengths,
        np.random.default_rng(1).random(4 * copies),
    )
    assert_allclose(draw.log_marginal_likelihood, np.logaddexp.reduce(joint), rtol=1e-12)
    index = np.ravel_multi_index(draw.states.reshape(copies, 4).T, (3,) * 4)
    reference.assert_frequencies(np.bincount(index, minlength=len(paths)), posterior)


def test_impossible_only_where_it_is():
    """State 1 has underflowed, and is all that the third observation allows."""
    table, initial, transitions = escape(False)
    table[2] = [-np.inf, 0.0, -np.inf]
    lengths, filtered = np.array([4]), np.empty((4, 3))
    found = forward_filter(table, initial, transitions, None, lengths, filtered, NO_SHIFTS)
    assert found.impossible[0] == -1
    table[1, 1] = -np.inf  # no longer very unlikely, but impossible
    found = forward_filter(table, initial, transitions, None, lengths, filtered, NO_SHIFTS)
    assert found.impossible[0] == 2


def test_product_of_numbers_far_apart():
    """Fails if a state on the edge of a group is left out, or counted twice."""
    rng = np.random.default_rng(2)
    matrix = rows_with_zeros(rng, 6, 6)
    for x in (
        np.array([0.0, -250.0, -250.0 - 1e-13, -500.0, -1e4, -np.inf]),
        np.array([-700.0, -700.0, -950.0, -1200.0, -1450.0, -1700.0]),
        np.full(6, -np.inf),
    ):
        out = np.empty(6)
        log_product(x, matrix, out)
        assert_allclose(out, np.logaddexp.reduce(x[:, None] + np.log(matrix)), rtol=1e-13)


@pytest.mark.parametrize("varies", [False, True])
def test_what_is_lost_is_carried_from_piece_to_piece(monkeypatch, varies):
    """Fails if the bound on what has underflowed begins anew with each piece."""
    table, initial, transitions = escape(varies)
    lengths, uniforms = np.array([4]), np.full(4, 0.9)
    whole = messages.forward_filter_backward_sample(table, initial, transitions, lengths, uniforms)
    monkeypatch.setattr(blocks, "PIECE_ELEMENTS", 3)
    for block in (1, 2, 4):
        monkeypatch.setattr(blocks, "BLOCK_BYTES", 24 * block)
        path = blocks.sample_paths(
            lambda low, high: table[low:high].copy(), 3, initial, transitions, lengths, uniforms
        )
        assert_array_equal(path.states, whole.states)
        assert_allclose(path.log_marginal_likelihood, whole.log_marginal_likelihood, rtol=1e-12)


def test_an_ordinary_sequence_does_not_go_by_logarithms():
    """A long one, with zeros in the rows; fails if the largest weight is taken of all states."""
    rng = np.random.default_rng(3)
    T, n_states = 5000, 6
    pi_bar = rows_with_zeros(rng, n_states, n_states) + np.eye(n_states)
    transitions = Transitions(np.full((1, n_states), -np.inf), pi_bar[None] / 2.0)
    table = rng.normal(0.0, 3.0, (T, n_states))
    table[:, 0] += 10.0
    found = forward_filter(
        table,
        np.eye(n_states)[0],
        transitions,
        None,
        np.array([T]),
        np.empty(table.shape),
        NO_SHIFTS,
    )
    assert not found.logarithms[0]


def forward(table, P, initial):
    """What the filter finds in one sequence."""
    transitions = Transitions(np.full((1, len(P)), -np.inf), P[None])
    lengths = np.array([len(table)])
    return forward_filter(
        table, initial, transitions, None, lengths, np.empty(table.shape), NO_SHIFTS
    )


def test_states_left_behind_that_fit_now_and_then():
    """Means overlap, and paths that stay in a state that was left fit less and less, all in all.

    Fails if what is lost may be in any state at any time, whatever leads there.
    """
    rng = np.random.default_rng(4)
    T, n_states = 6000, 12
    P = 0.999 * np.eye(n_states) + 0.001 * np.eye(n_states, k=1)
    P[-1, -1] = 1.0
    mean, initial = rng.normal(0.0, 3.0, n_states), np.full(n_states, 1.0 / n_states)
    z = np.arange(T) // (T // n_states)
    table = -0.5 * (rng.normal(mean[z])[:, None] - mean) ** 2
    found = forward(table, P, initial)
    assert not found.logarithms[0]
    transitions = Transitions(np.full((1, n_states), -np.inf), P[None])
    [(_, _, scores)] = in_log_space(table, initial, transitions, [T])
    assert_allclose(found.log_marginal_likelihood[0], scores.sum(), rtol=1e-12)


@pytest.mark.parametrize("form", ["constant", "varying", "indexed"])
def test_states_left_behind_of_which_another_fits_each_time(form):
    """One of those that were left is best at each time, but none leads to the next.

    Fails if what is lost may go to each state with the largest probability that leads there. Where
    each leads to all of them it does come back.
    """
    rng = np.random.default_rng(0)
    T, n_states = 2000, 6
    cycle = np.roll(np.eye(n_states - 1), 1, axis=1)
    table = np.full((T, n_states), -10.0)
    table[np.arange(T), rng.integers(0, n_states - 1, T)] = 1.0
    table[:, -1] = 0.0
    index = np.zeros(T if form == "indexed" else 0, np.int64)
    logit = np.full((T if form == "varying" else 1, n_states), -np.inf)
    if form == "varying":
        logit[:] = rng.normal(-3.0, 1.0, T)[:, None]
    for rows, by_logarithms in ((cycle, False), (np.full(cycle.shape, 1 / len(cycle)), True)):
        P, here = np.eye(n_states), table.copy()
        P[:-1, :-1] = rows
        if by_logarithms:
            here[:, :-1] += np.where(np.arange(T) < T // 2, -2.0, 2.0)[:, None]
        transitions = Transitions(logit, P[None], index)
        initial, lengths = np.full(n_states, 1.0 / n_states), np.array([T])
        found = forward_filter(
            here,
            initial,
            transitions,
            transitions.varying,
            lengths,
            np.empty(here.shape),
            NO_SHIFTS,
        )
        assert found.logarithms[0] == by_logarithms
        [(_, _, scores)] = in_log_space(here, initial, transitions, [T])
        assert_allclose(found.log_marginal_likelihood[0], scores.sum(), rtol=1e-12)


def test_states_long_out_of_sight_that_come_back():
    """What was lost slowly and comes back slowly, by a nat at a time over thousands of them.

    Fails if the bound on what is lost is not raised by each observation that it fits better.
    """
    T = 6000
    P = np.array([[0.6, 0.4, 0.0], [0.4, 0.6, 0.0], [0.0, 0.0, 1.0]])
    table = np.zeros((T, 3))
    table[: T // 2, 2] = -1.0
    table[T // 2 :, :2] = -1.0
    for tilt, comes_back in ((0.0, True), (0.9, False)):
        here = table.copy()
        here[T // 2 :, 2] -= tilt
        found = forward(here, P, np.full(3, 1 / 3))
        assert found.logarithms[0] == comes_back
        total = np.logaddexp(np.log(2 / 3) + here[:, 0].sum(), np.log(1 / 3) + here[:, 2].sum())
        assert_allclose(found.log_marginal_likelihood[0], total, rtol=1e-12)
