"""Forward filter and backward sample against enumeration and a log-space twin."""

import numpy as np
import pytest
import reference
from numpy.testing import assert_allclose, assert_array_equal

from pymc_dshdp.kernels import filtering, messages
from pymc_dshdp.kernels.chain import reachable_states, without_persistence
from pymc_dshdp.kernels.messages import backward_sample, choose

LENGTHS = np.array([4, 2])
L = 3


def forward_filter(log_likelihoods, initial, transition, lengths):
    """Rows of probabilities up to a factor, log p(y) and the first impossible time."""
    filtered = np.empty(log_likelihoods.shape)
    found = filtering.forward_filter(
        log_likelihoods,
        initial,
        without_persistence(transition),
        None,
        lengths,
        filtered,
        filtering.NO_SHIFTS,
    )
    by_logarithms = np.repeat(found.logarithms, lengths)
    with np.errstate(all="ignore"):  # rows after an impossible time are not valid
        filtered[by_logarithms] = np.exp(filtered[by_logarithms])
    return filtered, found.log_marginal_likelihood, filtering.first_impossible(found)


def forward_filter_backward_sample(log_likelihoods, initial, transition, lengths, uniforms):
    return messages.forward_filter_backward_sample(
        log_likelihoods, initial, without_persistence(transition), lengths, uniforms
    )


@pytest.fixture
def tiny():
    rng = np.random.default_rng(1)
    log_likelihoods = rng.normal(0.0, 1.5, (LENGTHS.sum(), L))
    initial = np.array([0.6, 0.3, 0.1])
    transition = np.array([[0.8, 0.15, 0.05], [0.5, 0.1, 0.4], [0.05, 0.9, 0.05]])
    return log_likelihoods, initial, transition


def random_problem(seed, T, n_states, scale=2.0):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(0.0, scale, (T, n_states)),
        reference.random_rows(rng, 1, n_states)[0],
        reference.random_rows(rng, n_states, n_states, 0.3),
    )


def probabilities(filtered):
    """Filtered probabilities from rows that have a factor between 1 and 2."""
    total = filtered.sum(axis=1, keepdims=True)
    assert np.all((total >= 1.0 - 1e-14) & (total < 2.0))
    return filtered / total


def exact_posteriors(log_likelihoods, initial, transition, lengths):
    """For each sequence: its paths, their posterior probabilities and log p(y)."""
    for start, length in zip(reference.sequence_starts(lengths), lengths, strict=True):
        paths = reference.all_paths(L, length)
        rows = log_likelihoods[start : start + length]
        joint = reference.log_joint_of_paths(paths, rows, initial, transition)
        log_marginal = np.logaddexp.reduce(joint)
        yield paths, np.exp(joint - log_marginal), log_marginal


def test_filter_and_normalisers_by_enumeration(tiny):
    log_likelihoods, initial, transition = tiny
    filtered, log_marginal, impossible = forward_filter(*tiny, LENGTHS)
    assert impossible == -1
    t = 0
    for n, length in enumerate(LENGTHS):
        for upto in range(1, length + 1):
            paths = reference.all_paths(L, upto)
            rows = log_likelihoods[t : t + upto]
            joint = reference.log_joint_of_paths(paths, rows, initial, transition)
            posterior = np.exp(joint - np.logaddexp.reduce(joint))
            exact = np.bincount(paths[:, -1], posterior, L)
            assert_allclose(probabilities(filtered)[t + upto - 1], exact, rtol=1e-12)
        assert_allclose(log_marginal[n], np.logaddexp.reduce(joint), rtol=1e-12)
        t += length


def test_frequencies_of_backward_samples_by_enumeration(tiny):
    """Whole labelled paths, and so every single and pairwise marginal, have their frequencies.

    Fails if the backward sampler uses P where it needs P transposed, or reads the filtered row
    of the wrong time.
    """
    log_likelihoods, initial, transition = tiny
    copies = 200_000
    draw = forward_filter_backward_sample(
        np.tile(log_likelihoods, (copies, 1)),
        initial,
        transition,
        np.tile(LENGTHS, copies),
        np.random.default_rng(2).random(copies * LENGTHS.sum()),
    )
    states = draw.states.reshape(copies, LENGTHS.sum())
    log_marginal = draw.log_marginal_likelihood.reshape(copies, 2)
    starts = reference.sequence_starts(LENGTHS)
    exact = exact_posteriors(*tiny, LENGTHS)
    for n, (paths, posterior, log_normaliser) in enumerate(exact):
        assert_allclose(log_marginal[:, n], log_normaliser, rtol=1e-12)
        length = LENGTHS[n]
        drawn = states[:, starts[n] : starts[n] + length]
        index = np.ravel_multi_index(drawn.T, (L,) * length)
        reference.assert_frequencies(np.bincount(index, minlength=len(paths)), posterior)
        for t in range(length):
            single = np.bincount(paths[:, t], posterior, L)
            reference.assert_frequencies(np.bincount(drawn[:, t], minlength=L), single)
        for t in range(1, length):
            pairs = np.bincount(paths[:, t - 1] * L + paths[:, t], posterior, L * L)
            drawn_pairs = np.bincount(drawn[:, t - 1] * L + drawn[:, t], minlength=L * L)
            reference.assert_frequencies(drawn_pairs, pairs)
    # The two sequences are independent.
    both = states[:, 3] * L + states[:, 4]
    last, first = np.bincount(states[:, 3]) / copies, np.bincount(states[:, 4]) / copies
    reference.assert_frequencies(np.bincount(both, minlength=L * L), np.outer(last, first))


@pytest.mark.parametrize(
    ("T", "n_states", "lengths"),
    [
        (50, 2, [50]),
        (4099, 2, [4099]),
        (60, 7, [1, 30, 1, 1, 27]),
        (40, 300, [25, 15]),
        (1, 5, [1]),
        (5, 4, [1, 1, 1, 1, 1]),
    ],
)
def test_filter_against_the_twin(T, n_states, lengths):
    problem = random_problem(T + n_states, T, n_states)
    lengths = np.array(lengths)
    filtered, log_marginal, impossible = forward_filter(*problem, lengths)
    twin_filtered, twin_log_marginal = reference.forward_filter(*problem, lengths)
    assert impossible == -1
    assert_allclose(probabilities(filtered), twin_filtered, rtol=1e-10, atol=1e-14)
    assert_allclose(log_marginal, twin_log_marginal, rtol=1e-12)


@pytest.mark.parametrize(
    "lengths", [[9], [9, 30], [5, 1, 7], [30, 2, 2, 2], [1, 40, 3, 3, 8, 20, 1]]
)
@pytest.mark.parametrize("n_states", [3, 24])
def test_a_sequence_does_not_depend_on_what_runs_beside_it(lengths, n_states):
    """To the last bit, filter and draws, alone or in lanes of four.

    Fails if a lane starts a sequence from its last filtered row instead of from pi_init.
    """
    log_likelihoods, initial, transition = random_problem(3, sum(lengths), n_states, 30.0)
    transition[:, 1] = 0.0
    filtered, log_marginal, _ = forward_filter(
        log_likelihoods, initial, transition, np.array(lengths)
    )
    starts = reference.sequence_starts(np.array(lengths))
    for n, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        rows = slice(start, start + length)
        alone, own, _ = forward_filter(
            log_likelihoods[rows], initial, transition, np.array([length])
        )
        assert_array_equal(filtered[rows], alone)
        assert_array_equal(log_marginal[n], own[0])


@pytest.mark.parametrize("n_states", [4, 24])
def test_the_first_of_several_impossible_times_is_named(n_states):
    """Also where a later lane meets one first; fails if the lane that stops ends the pass."""
    log_likelihoods, initial, transition = random_problem(17, 40, n_states)
    log_likelihoods[[8, 12, 21, 30, 39]] = -np.inf
    *_, impossible = forward_filter(log_likelihoods, initial, transition, np.full(4, 10))
    assert impossible == 8


def test_two_hundred_thousand_time_points():
    T = 200_000
    problem = random_problem(4, T, 3)
    filtered, log_marginal, impossible = forward_filter(*problem, np.array([T]))
    twin_filtered, twin_log_marginal = reference.forward_filter(*problem, np.array([T]))
    assert impossible == -1
    assert_allclose(probabilities(filtered), twin_filtered, rtol=1e-9, atol=1e-14)
    assert_allclose(log_marginal, twin_log_marginal, rtol=1e-12)


def test_rows_full_of_exact_zeros():
    """The weak-limit prior at a small gamma: most entries of the rows underflow to 0."""
    rng = np.random.default_rng(5)
    n_states, T = 200, 300
    support = rng.choice(n_states, 4, replace=False)
    rows = np.zeros((n_states + 1, n_states))
    rows[:, support] = rng.dirichlet(np.full(4, 0.2), size=n_states + 1)
    rows[rows < 1e-12] = 0.0
    rows /= rows.sum(axis=1, keepdims=True)
    initial, transition = rows[0], rows[1:]
    log_likelihoods = rng.normal(0.0, 3.0, (T, n_states))
    draw = forward_filter_backward_sample(
        log_likelihoods, initial, transition, np.array([T]), rng.random(T)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        _, log_marginal = reference.forward_filter(
            log_likelihoods, initial, transition, np.array([T])
        )
    assert draw.impossible_time == -1
    assert_allclose(draw.log_marginal_likelihood, log_marginal, rtol=1e-12)
    assert initial[draw.states[0]] > 0.0
    assert np.all(transition[draw.states[:-1], draw.states[1:]] > 0.0)


@pytest.mark.parametrize("level", [-1e5, -1e5 + 1e3, 1e5])
def test_log_densities_far_from_zero(level):
    log_likelihoods, initial, transition = random_problem(6, 40, 5, scale=300.0)
    lengths = np.array([40])
    _, log_marginal, impossible = forward_filter(
        log_likelihoods + level, initial, transition, lengths
    )
    _, twin = reference.forward_filter(log_likelihoods + level, initial, transition, lengths)
    assert impossible == -1
    assert_allclose(log_marginal, twin, rtol=1e-12)


@pytest.mark.parametrize("gap", [100.0, 600.0, 660.0, 720.0, 1e4])
def test_unreachable_state_that_fits_better_changes_nothing(gap):
    """Fails if the row is shifted by the maximum over all states only."""
    log_likelihoods, initial, transition = random_problem(7, 60, 4)
    initial[2] = 0.0
    transition[:, 2] = 0.0
    initial /= initial.sum()
    transition /= transition.sum(axis=1, keepdims=True)
    uniforms = np.random.default_rng(8).random(60)
    lengths = np.array([31, 29])
    plain = forward_filter_backward_sample(log_likelihoods, initial, transition, lengths, uniforms)
    better = log_likelihoods.copy()
    better[:, 2] = log_likelihoods.max(axis=1) + gap
    shifted = forward_filter_backward_sample(better, initial, transition, lengths, uniforms)
    assert shifted.impossible_time == -1
    assert_array_equal(shifted.states, plain.states)
    assert not np.any(plain.states == 2)
    assert_allclose(shifted.log_marginal_likelihood, plain.log_marginal_likelihood, rtol=1e-12)


@pytest.mark.parametrize("n_states", [2, 24])
@pytest.mark.parametrize("between", [0, 1, 5])
def test_a_state_reached_with_next_to_no_probability(between, n_states):
    """Right after a row of small mass, and found only later; one lane alone and four together.

    Fails if a product underflows because the row before it has not been scaled yet.
    """
    P = np.full((n_states, n_states), 1e-300)
    P[0, 0] = P[1, 1] = 1.0
    initial = np.eye(n_states)[0]
    ell = np.zeros((between + 2, n_states))
    ell[0] = -207.0
    ell[0, 1] = 0.0
    ell[-1] = -np.inf
    ell[-1, 1] = 0.0
    filtered, log_marginal, impossible = forward_filter(
        np.tile(ell, (4, 1)), initial, P, np.full(4, between + 2)
    )
    assert impossible == -1
    assert_allclose(log_marginal, -207.0 + np.log((between + 1) * 1e-300), rtol=1e-14)
    assert_allclose(probabilities(filtered)[between + 1 :: between + 2, 1], 1.0, rtol=1e-14)


def test_single_time_point():
    initial = np.array([0.5, 0.5, 0.0])
    row = np.log([[0.2, 0.6, 0.9]])
    for uniform, state in [(0.0, 0), (0.24, 0), (0.26, 1), (np.nextafter(1.0, 0.0), 1)]:
        draw = forward_filter_backward_sample(
            row, initial, np.eye(3), np.array([1]), np.array([uniform])
        )
        assert draw.states[0] == state
        assert_allclose(draw.log_marginal_likelihood, [np.log(0.4)], rtol=1e-14)


def test_states_that_all_fit_equally_leave_the_prior():
    log_likelihoods, initial, transition = random_problem(9, 30, 6)
    log_likelihoods[:] = log_likelihoods[:, :1]
    filtered, log_marginal, _ = forward_filter(
        log_likelihoods, initial, transition, np.array([20, 10])
    )
    assert_allclose(log_marginal[0], log_likelihoods[:20, 0].sum(), rtol=1e-12)
    assert_allclose(log_marginal[1], log_likelihoods[20:, 0].sum(), rtol=1e-12)
    filtered = probabilities(filtered)
    assert_allclose(filtered[19], initial @ np.linalg.matrix_power(transition, 19), rtol=1e-10)
    assert_allclose(filtered[29], initial @ np.linalg.matrix_power(transition, 9), rtol=1e-10)


@pytest.mark.parametrize("time", [0, 17, 24, 29])
@pytest.mark.parametrize("bad", [-np.inf, np.nan, np.inf])
def test_impossible_observation_names_its_time(time, bad):
    log_likelihoods, initial, transition = random_problem(10, 30, 4)
    log_likelihoods[time] = bad
    lengths, uniforms = np.array([24, 6]), np.full(30, 0.5)
    draw = forward_filter_backward_sample(log_likelihoods, initial, transition, lengths, uniforms)
    assert draw.impossible_time == time


@pytest.mark.parametrize("state", range(4))
def test_a_single_nan_is_found(state):
    log_likelihoods, initial, transition = random_problem(11, 30, 4)
    log_likelihoods[13, state] = np.nan
    *_, impossible = forward_filter(log_likelihoods, initial, transition, np.array([30]))
    assert impossible == 13


def test_possible_only_in_an_unreachable_state():
    log_likelihoods, initial, _ = random_problem(12, 10, 3)
    transition = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0], [0.3, 0.3, 0.4]])
    initial = np.array([0.5, 0.5, 0.0])
    log_likelihoods[6] = [-np.inf, -np.inf, -1.0]
    *_, impossible = forward_filter(log_likelihoods, initial, transition, np.array([10]))
    assert impossible == 6


def test_observations_impossible_in_some_states_are_fine():
    log_likelihoods, initial, transition = random_problem(13, 200, 4)
    rng = np.random.default_rng(14)
    log_likelihoods[np.arange(200), rng.integers(0, 4, 200)] = -np.inf
    lengths = np.array([200])
    filtered, log_marginal, impossible = forward_filter(
        log_likelihoods, initial, transition, lengths
    )
    twin_filtered, twin_log_marginal = reference.forward_filter(
        log_likelihoods, initial, transition, lengths
    )
    assert impossible == -1
    assert_allclose(probabilities(filtered), twin_filtered, rtol=1e-9, atol=1e-14)
    assert_allclose(log_marginal, twin_log_marginal, rtol=1e-12)
    uniforms, logarithms = rng.random(200), np.array([False])
    transitions, none = without_persistence(transition), np.empty((0, 4), np.int16)
    states = backward_sample(filtered, transitions, None, lengths, uniforms, logarithms, -1, none)
    assert np.all(np.isfinite(log_likelihoods[np.arange(200), states]))


def test_draw_is_a_pure_function_of_the_uniforms():
    problem = random_problem(15, 50, 5)
    lengths = np.array([20, 30])
    uniforms = np.random.default_rng(16).random(50)
    before = [x.copy() for x in (*problem, lengths, uniforms)]
    first = forward_filter_backward_sample(*problem, lengths, uniforms)
    second = forward_filter_backward_sample(*problem, lengths, uniforms)
    assert_array_equal(first.states, second.states)
    for x, y in zip((*problem, lengths, uniforms), before, strict=True):
        assert_array_equal(x, y)
    # One uniform a time point: the draw at t depends on the uniforms from t to its sequence's end.
    other = uniforms.copy()
    other[10] = 1.0 - other[10]
    third = forward_filter_backward_sample(*problem, lengths, other)
    assert_array_equal(first.states[11:], third.states[11:])


def test_choose_never_takes_a_zero():
    weights = np.array([0.0, 0.3, 0.0, 0.7, 0.0])
    assert choose(weights, 0.0) == 1
    assert choose(weights, 0.299) == 1
    assert choose(weights, 0.301) == 3
    assert choose(weights, np.nextafter(1.0, 0.0)) == 3
    assert choose(1e-300 * weights, 0.999) == 3


@pytest.mark.parametrize("seed", range(20))
def test_reachable_states(seed):
    """Those in the support of pi_init P^n for some n; fails if one step of P is all it looks at."""
    rng = np.random.default_rng(seed)
    initial, transition = rng.random(8) < 0.2, rng.random((8, 8)) < 0.15
    support = initial
    for _ in range(8):
        support = support | (support @ transition)
    found = reachable_states(initial.astype(float), transition.astype(float)[None])
    assert_array_equal(found, np.flatnonzero(support))
