"""Tiles of a matrix product against NumPy, and against each other to the last bit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pymc_dshdp.kernels.simd import multiply_flat, multiply_tall


def problem(L, columns, seed=1):
    rng = np.random.default_rng(seed)
    rows, matrix = rng.random((4, columns)), np.zeros((L, columns))
    matrix[:, :L] = rng.dirichlet(np.full(L, 0.3), L)
    return rows, matrix


def both(rows, active, matrix):
    """Tall and flat products over the rows listed, or over all where ``active`` is None."""
    tall, flat = np.full((2, *rows.shape), np.nan)
    n, active = (-1, np.arange(0)) if active is None else (active.size, active)
    multiply_tall(rows, active, n, matrix, tall)
    for r in range(4):
        multiply_flat(rows, active, n, matrix, r, flat)
    return tall, flat


@pytest.mark.parametrize("L", [1, 2, 4, 5, 8, 11, 20, 21, 40, 41, 75, 200])
def test_products_and_tiles_agree(L):
    """Fails if a tile starts its sums from anything but zero, or skips a column of vectors."""
    rows, matrix = problem(L, -(-L // 4) * 4)
    tall, flat = both(rows, np.arange(L), matrix)
    assert_allclose(tall, rows[:, :L] @ matrix, rtol=1e-14)
    assert_array_equal(tall, flat)


@pytest.mark.parametrize("L", [3, 20, 41])
def test_passing_over_zeros_changes_nothing(L):
    """Bit for bit, whichever list of states is given, as long as it has the positive ones."""
    rows, matrix = problem(L, -(-L // 4) * 4, 2)
    rows[:, np.random.default_rng(3).random(rows.shape[1]) < 0.6] = 0.0
    positive = np.flatnonzero(rows[0, :L])
    everything = both(rows, np.arange(L), matrix)
    assert_array_equal(both(rows, positive, matrix), everything)
    assert_array_equal(both(rows, None, matrix), everything)
    nothing = both(rows, positive[:0], matrix)
    assert_array_equal(nothing, np.zeros_like(nothing))
