"""Counts over segmentations."""

import itertools

import numpy as np

from pymc_dshdp.kernels.segmentations import (
    contingencies,
    count_visits,
    disagreements,
    modal_path,
    occupancies,
    permute,
    rename,
    shared_votes,
    votes,
)

RNG = np.random.default_rng(3)
PATHS = RNG.integers(4, size=(5, 30)).astype("int8")


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
    """Fails if the new label is looked up the other way round, or ties go to the higher label."""
    new_label = np.argsort(RNG.random((5, 4)), axis=1)
    renamed = rename(PATHS, new_label)
    assert renamed.dtype == PATHS.dtype
    np.testing.assert_array_equal(renamed, np.take_along_axis(new_label, PATHS.astype(int), 1))
    tally = votes(PATHS, new_label, 4)
    for t in range(30):
        np.testing.assert_array_equal(tally[t], np.bincount(renamed[:, t], minlength=4))
    np.testing.assert_array_equal(modal_path(PATHS, new_label, 4), tally.argmax(axis=1))
    different = disagreements(PATHS, new_label, renamed[0].astype(int))
    np.testing.assert_array_equal(different, np.sum(renamed != renamed[0], axis=1))
    shared = shared_votes(PATHS, tally, 4)
    for s, k in itertools.product(range(5), range(4)):
        np.testing.assert_array_equal(shared[s, k], tally[PATHS[s] == k].sum(axis=0))
    values = RNG.random((5, 3, 4, 2))
    expected = np.take_along_axis(values, new_label[:, None, :, None], axis=2)
    np.testing.assert_array_equal(permute(values, new_label), expected)
