"""Counts of paths."""

import numpy as np
import pytest
import reference
from numpy.testing import assert_array_equal

from pymc_dshdp.kernels.chain import NO_INDEX
from pymc_dshdp.kernels.counts import empty_counts, occupied_states, path_counts


@pytest.mark.parametrize("lengths", [[40], [13, 27], [1, 1, 38], [1] * 40])
@pytest.mark.parametrize("dtype", [np.int8, np.int64])
def test_counts_against_the_twin(lengths, dtype):
    """Fails if a transition is counted across a boundary, or a start is left out."""
    rng = np.random.default_rng(1)
    states = rng.integers(0, 5, 40).astype(dtype)
    counts = empty_counts(5)
    path_counts(states, np.array(lengths), NO_INDEX, counts)
    assert_array_equal(counts, reference.path_counts(states, lengths, 5))
    assert counts[0].sum() == len(lengths)
    assert counts[1:].sum() == 40 - len(lengths)


def test_no_transition_across_a_boundary():
    counts = empty_counts(3)
    path_counts(np.array([0, 0, 2, 2]), np.array([2, 2]), NO_INDEX, counts)
    assert_array_equal(counts, [[1, 0, 1], [1, 0, 0], [0, 0, 0], [0, 0, 1]])


def test_counts_are_added():
    states = np.array([0, 1, 1, 0])
    counts = empty_counts(2)
    path_counts(states, np.array([4]), NO_INDEX, counts)
    once = counts.copy()
    path_counts(states, np.array([4]), NO_INDEX, counts)
    assert_array_equal(counts, 2 * once)


def test_occupied_states():
    counts = empty_counts(4)
    assert occupied_states(counts) == 0
    path_counts(np.array([3]), np.array([1]), NO_INDEX, counts)
    assert occupied_states(counts) == 1
    path_counts(np.array([1, 1, 3, 0]), np.array([3, 1]), NO_INDEX, counts)
    assert occupied_states(counts) == 3
