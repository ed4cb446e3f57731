"""Counts over segmentations, and the search for the one in their middle."""

import itertools

import numpy as np
import pytest

from pymc_dshdp.kernels.segmentations import (
    contingencies,
    count_visits,
    occupancies,
    permute,
    refine_consensus,
    rename,
    variation_of_information,
    votes,
)

RNG = np.random.default_rng(3)
PATHS = RNG.integers(4, size=(5, 30)).astype("int8")


def entropy(*labels):
    _, counts = np.unique(np.stack(labels), axis=1, return_counts=True)
    p = counts / counts.sum()
    return -np.sum(p * np.log(p))


def test_counts_agree_with_numpy():
    """Fails if the first visit is the last one, or the axes of a table are exchanged."""
    counts, first = occupancies(PATHS, 5)
    reference = RNG.integers(3, size=30)
    tables = contingencies(PATHS, reference, 5, 3)
    for s, path in enumerate(PATHS):
        for k in range(5):
            times = np.flatnonzero(path == k)
            assert counts[s, k] == times.size
            assert first[s, k] == (times[0] if times.size else 30)
            for b in range(3):
                assert tables[s, k, b] == np.sum((path == k) & (reference == b))


def test_visits_end_with_their_sequence():
    """Fails if a run is carried across the boundary at time 3."""
    path = np.array([[1, 1, 0, 0, 0, 2, 1]], "int8")
    np.testing.assert_array_equal(count_visits(path, np.array([7]), 4), [[1, 2, 1, 0]])
    np.testing.assert_array_equal(count_visits(path, np.array([3, 4]), 4), [[2, 2, 1, 0]])


def test_renaming_and_votes():
    """Fails if the new label is looked up the other way round."""
    new_label = np.argsort(RNG.random((5, 4)), axis=1)
    renamed = rename(PATHS, new_label)
    assert renamed.dtype == PATHS.dtype
    np.testing.assert_array_equal(renamed, np.take_along_axis(new_label, PATHS.astype(int), 1))
    tally = votes(PATHS, new_label, 4)
    for t in range(30):
        np.testing.assert_array_equal(tally[t], np.bincount(renamed[:, t], minlength=4))
    values = RNG.random((5, 3, 4, 2))
    expected = np.take_along_axis(values, new_label[:, None, :, None], axis=2)
    np.testing.assert_array_equal(permute(values, new_label), expected)


def test_variation_of_information_is_twice_joint_minus_marginal_entropies():
    """Fails if the joint term is counted once."""
    found = variation_of_information(PATHS, 4)
    for a, b in itertools.product(range(5), repeat=2):
        expected = 2 * entropy(PATHS[a], PATHS[b]) - entropy(PATHS[a]) - entropy(PATHS[b])
        assert found[a, b] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_refined_consensus_is_the_best_of_all_partitions(seed):
    """Compare with all 877 partitions of 7 times; fails if 2/S is 1/S or a count is stale."""
    rng = np.random.default_rng(seed)
    truth = np.array([0, 0, 0, 1, 1, 2, 2])
    paths = np.where(rng.random((25, 7)) < 0.2, rng.integers(4, size=(25, 7)), truth)
    T = truth.size

    def expected_variation(partition):
        together = np.vstack([partition, paths])
        return variation_of_information(together, T)[0, 1:].mean()

    partitions = [[0]]
    for _ in range(T - 1):
        partitions = [[*p, k] for p in partitions for k in range(max(p) + 2)]
    costs = [expected_variation(np.array(p)) for p in partitions]
    start = paths[np.argmin(variation_of_information(paths, T).sum(axis=1))]
    found = refine_consensus(start, paths, T, 50)
    assert expected_variation(found) == pytest.approx(min(costs), abs=1e-12)
    worse = refine_consensus(np.zeros(T, int), paths, T, 50)
    assert expected_variation(worse) <= expected_variation(np.zeros(T, int))
    for t, k in itertools.product(range(T), range(T)):  # no single change helps
        moved = worse.copy()
        moved[t] = k
        assert expected_variation(moved) >= expected_variation(worse) - 1e-9
