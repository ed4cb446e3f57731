"""Transition matrices that an index chooses, against enumeration: draws, starts, simulation."""

import numpy as np
import pytest
from reference import all_paths, assert_frequencies
from scipy import special

from pymc_dshdp.kernels.blocks import sample_paths
from pymc_dshdp.kernels.chain import NO_INDEX, Transitions, first_wrong_row, without_persistence
from pymc_dshdp.kernels.decoding import filter_with_scores, smooth
from pymc_dshdp.kernels.filtering import NO_SHIFTS, forward_filter
from pymc_dshdp.kernels.messages import backward_sample, forward_filter_backward_sample
from pymc_dshdp.kernels.simulation import (
    MARK,
    first_impossible_time,
    last_possible_path,
    simulate_path,
)

T, L = 6, 3
LENGTHS = np.array([4, 2])
INDEX = np.array([1, 0, 1, 1, 0, 1])
NOTHING = np.empty(0, np.int64)
rng = np.random.default_rng(3)
P = rng.dirichlet(np.ones(L), size=(2, L))
P[0, 0], P[1, 2], P[1, 0] = [0.0, 0.3, 0.7], [0.0, 0.0, 1.0], [0.6, 0.4, 0.0]
INITIAL = np.array([0.7, 0.3, 0.0])
KAPPA = np.array([[-0.5, 1.0, 0.3], [1.5, -1.0, 0.0]])  # log-odds, of two groups
PATHS = all_paths(L, T)
CODE = L ** np.arange(T - 1, -1, -1)


def prior_weights(index=INDEX, P=P):
    out = INITIAL[PATHS[:, 0]] * INITIAL[PATHS[:, 4]]
    for t in (1, 2, 3, 5):
        out = out * P[index[t], PATHS[:, t - 1], PATHS[:, t]]
    return out


def frequencies(draw, n):
    seen = np.zeros(len(PATHS))
    for _ in range(n):
        seen[draw() @ CODE] += 1
    return seen


@pytest.mark.parametrize("form", ["index", "one-for-each-time", "groups"])
@pytest.mark.parametrize("offset", [0.0, -900.0], ids=["plain", "logarithms"])
def test_draws_follow_the_enumerated_posterior(offset, form):
    """Fails if the index is one step late, or a zero leaks: such paths are never drawn.

    By logarithms, the data are those of a path in which the likeliest state has underflowed. Groups
    have a kappa beside their rows, in which one of another group would show.
    """
    generator = np.random.default_rng(4)
    ell = generator.normal(size=(T, L))
    ell[2, 2] -= offset  # state 2 can be reached at that time, from what has hardly any mass
    ell[1, 1:] += offset
    transitions = {
        "index": without_persistence(P, INDEX),
        "one-for-each-time": without_persistence(P[INDEX], np.arange(T)),
        "groups": Transitions(KAPPA, P, INDEX, True),
    }[form]
    prior = prior_weights(P=transitions.matrices if form == "groups" else P)
    log_density = ell[np.arange(T), PATHS].sum(axis=1)
    possible = prior > 0.0
    log_density = np.where(possible, log_density - log_density[possible].max(), -np.inf)
    weights = prior * np.exp(log_density)
    late = prior_weights(np.roll(INDEX, 1))
    assert abs(late / late.sum() - prior_weights()).max() > 0.01

    def draw():
        uniforms = generator.random(T)
        drawn = forward_filter_backward_sample(ell, INITIAL, transitions, LENGTHS, uniforms)
        return drawn.states

    assert_frequencies(frequencies(draw, 4000), weights / weights.sum())


@pytest.mark.parametrize("n_states", [4, 6, 24], ids=["given", "padded", "wide"])
@pytest.mark.parametrize("matrices", [2, 40], ids=["few", "many"])
@pytest.mark.parametrize("grouped", [False, True], ids=["no-kappa", "groups"])
def test_evidence_of_many_sequences(n_states, matrices, grouped):
    """Matrices read as they are or copied, transposed first or not, against sums in NumPy."""
    generator = np.random.default_rng(7)
    lengths = np.array([9, 1, 12, 7, 11])
    initial = generator.dirichlet(np.ones(n_states))
    rows = generator.dirichlet(np.ones(n_states), size=(matrices, n_states))
    index = generator.integers(matrices, size=lengths.sum())
    ell = generator.normal(size=(lengths.sum(), n_states))
    transitions = without_persistence(rows, index)
    if grouped:
        logit = generator.normal(size=(matrices, n_states))
        transitions = Transitions(logit, rows, index, True)
        stay = special.expit(logit)[..., None]
        rows = stay * np.eye(n_states) + (1.0 - stay) * rows
    given = ell, initial, transitions, lengths
    expected, t = np.zeros(len(lengths)), 0
    for n, length in enumerate(lengths):
        mass = initial * np.exp(ell[t])
        for i in range(t + 1, t + length):
            mass = mass @ rows[index[i]] * np.exp(ell[i])
        expected[n] = np.log(mass.sum())
        t += length
    drawn = forward_filter_backward_sample(*given, generator.random(lengths.sum()))
    np.testing.assert_allclose(drawn.log_marginal_likelihood, expected)
    filtered, _ = filter_with_scores(*given)
    smoothed, draws = smooth(*given), 3000
    together = sum(
        drawn_pairs(forward_filter_backward_sample(*given, generator.random(t)).states, n_states)
        for _ in range(draws)
    )
    pair = filtered[0][:, None] * rows[index[1]] * smoothed[1] / (filtered[0] @ rows[index[1]])
    assert abs(together / draws - pair).max() < 5.0 * 0.5 / np.sqrt(draws)
    np.testing.assert_allclose(pair.sum(axis=1), smoothed[0], atol=1e-12)


@pytest.mark.parametrize("n_states", [3, 4, 24, 45], ids=["padded", "given", "wide", "tiles"])
@pytest.mark.parametrize("grouped", [False, True], ids=["no-kappa", "groups"])
def test_states_drawn_ahead_are_those_drawn_after(n_states, grouped):
    """Antecedents, drawn where the matrix was at hand, against a backward sample of its columns.

    Fails if the uniform number, or the matrix, is that of another time; in pieces of sequences
    too, of which the first state is one of the piece before.
    """
    generator = np.random.default_rng(11)
    lengths = np.array([90, 1, 30, 79])
    T = int(lengths.sum())
    rows = generator.dirichlet(np.full(n_states, 0.1), size=(T, n_states))
    rows[generator.random(rows.shape) < 0.3] = 0.0
    rows[..., 0] += 1e-3
    rows /= rows.sum(axis=-1, keepdims=True)
    ell, uniforms = generator.normal(0.0, 2.0, (T, n_states)), generator.random(T)
    initial, index = generator.dirichlet(np.ones(n_states)), generator.permutation(T)
    logit = generator.normal(size=(T, n_states)) if grouped else np.full((1, n_states), -np.inf)
    transitions = Transitions(logit, rows, index, grouped)
    drawn = forward_filter_backward_sample(ell, initial, transitions, lengths, uniforms).states
    filtered, logarithms = np.empty(ell.shape), np.zeros(4, bool)
    forward_filter(ell, initial, transitions, None, lengths, filtered, NO_SHIFTS)
    none = np.empty((0, n_states), np.int16)
    after = backward_sample(filtered, transitions, None, lengths, uniforms, logarithms, -1, none)
    np.testing.assert_array_equal(drawn, after)
    for blocks in (50.0, 1e9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pymc_dshdp.kernels.blocks.BLOCK_BYTES", 8 * n_states * blocks)
            patch.setattr("pymc_dshdp.kernels.blocks.PIECE_ELEMENTS", 20 * n_states)
            for part in ([T], lengths):
                given = n_states, initial, transitions, np.array(part), uniforms
                found = sample_paths(lambda low, high: ell[low:high], *given).states
                if len(part) > 1:
                    np.testing.assert_array_equal(found, drawn)
                else:
                    whole = forward_filter_backward_sample(ell, *given[1:]).states
                    np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize("n_states", [4, 7, 24])
def test_states_drawn_ahead_are_possible(n_states):
    """With the largest uniform number that there is; fails if a sum is rounded down to reach it."""
    generator = np.random.default_rng(12)
    rows = generator.dirichlet(np.full(n_states, 0.05), size=(5000, n_states))
    rows[generator.random(rows.shape) < 0.5] = 0.0
    rows[..., 0] += 1e-3
    rows[:, 1:, -1] = 0.0
    rows /= rows.sum(axis=-1, keepdims=True)
    transitions = without_persistence(rows, np.arange(5000))
    ell, initial = generator.normal(size=(5000, n_states)), np.full(n_states, 1.0 / n_states)
    uniforms = np.full(5000, np.nextafter(1.0, 0.0))
    given = ell, initial, transitions, np.array([5000]), uniforms
    states = forward_filter_backward_sample(*given).states
    assert (rows[np.arange(1, 5000), states[:-1], states[1:]] > 0.0).all()


def drawn_pairs(states, n_states):
    out = np.zeros((n_states, n_states))
    out[states[0], states[1]] = 1.0
    return out


def test_simulated_paths():
    """Freely, and given two states that are known."""
    generator, out = np.random.default_rng(5), np.empty(T, np.int64)
    none, known = np.zeros((1, L)), np.array([-1, -1, 2, -1, -1, 1])
    for given in (NOTHING, known):
        weights = prior_weights()
        if given.size:
            weights = weights * np.all((given < 0) | (PATHS == given), axis=1)

        def draw(given=given):
            simulate_path(generator, INITIAL, P, none, INDEX, LENGTHS, given, out)
            return out

        assert_frequencies(frequencies(draw, 4000), weights / weights.sum())


@pytest.mark.parametrize("known", [NOTHING, np.array([-1, -1, 1, -1, 1, -1])])
def test_last_possible_path(known):
    """Time by time the last of the states that possible paths have there, or the last but one."""
    out = np.empty(T, np.int64)
    last_possible_path(INITIAL, P, np.zeros((1, L)), INDEX, LENGTHS, known, out)
    may = prior_weights() > 0.0
    if known.size:
        may &= np.all((known < 0) | (PATHS == known), axis=1)
    left = PATHS[may]
    for t, place in enumerate(np.concatenate([np.arange(n) for n in LENGTHS])):
        found = np.unique(left[:, t])
        assert out[t] == found[max(len(found) - 1 - MARK[place], 0)]
        left = left[left[:, t] == out[t]]
    transitions = without_persistence(P, INDEX)
    assert first_impossible_time(out, INITIAL, transitions, LENGTHS) == -1
    for path in PATHS[::7]:
        time = first_impossible_time(path, INITIAL, transitions, LENGTHS)
        assert (time < 0) == (prior_weights()[path @ CODE] > 0.0)


def test_rows_that_are_no_probabilities():
    assert first_wrong_row(P) == (-1, -1)
    wrong = P.copy()
    wrong[1, 2] = [0.5, 0.5, 1e-4]
    assert first_wrong_row(wrong) == (1, 2)
    wrong[0, 1] = [1.5, -0.5, 0.0]
    assert first_wrong_row(wrong) == (0, 1)
    assert without_persistence(P[0]).indices is NO_INDEX
