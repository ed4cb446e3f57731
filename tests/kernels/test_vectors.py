"""Operations on rows, four columns at a time, for every number of columns left over."""

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal

from pymc_dshdp.kernels import simd

COLUMNS = [1, 2, 3, 4, 5, 7, 20, 23, 40]


@njit
def exponentiated(table, t, weights, line):
    return simd.exponentiate(table, t, weights, line)


@njit
def weighed(rows, row, factor, weights, line, out, target):
    return simd.weigh(rows, row, factor, weights, line, out, target)


@njit
def scaled(rows, row, factor, out, line):
    simd.scale_to(rows, row, factor, out, line)


@pytest.mark.parametrize("L", COLUMNS)
def test_exponentials_of_a_row_less_its_maximum(L):
    """Fails if the last columns are left out of the maximum, or the next row is read with them."""
    rng = np.random.default_rng(1)
    width = -(-L // 4) * 4
    table = rng.normal(0.0, 30.0, (3, L))
    for largest in range(L):
        table[1, largest] = table[1].max() + 1.0
        table[2] = table[1].max() + 1.0
        weights = np.full((3, width + 4), 7.0)
        top = exponentiated(table, 1, weights[:, :width].copy(), 2)
        assert top == table[1, largest]
        exponentiated(table, 1, weights, 2)
        assert_allclose(weights[2, :L], np.exp(table[1] - top), rtol=6e-16)
        assert_array_equal(weights[2, L:width], 0.0)
        assert_array_equal(weights[2, width:], 7.0)
        assert_array_equal(weights[:2], 7.0)


def test_exponentials_of_what_is_not_finite():
    """Impossible states count as 0; a NaN, or no possible state at all, stays visible."""
    table = np.array([[0.0, -np.inf, 3.0, -800.0, 1.0], [np.nan, 1.0, 0.0, 1.0, 1.0]])
    table = np.vstack([table, np.full(5, -np.inf), table[1, ::-1]])
    weights = np.empty((1, 8))
    assert exponentiated(table, 0, weights, 0) == 3.0
    assert_allclose(weights[0, :5], [np.exp(-3.0), 0.0, 1.0, 0.0, np.exp(-2.0)], rtol=6e-16)
    for t in (1, 3):
        assert exponentiated(table, t, weights, 0) == 1.0
        assert_array_equal(np.isnan(weights[0, :5]), np.isnan(table[t]))
    exponentiated(table, 2, weights, 0)
    assert np.isnan(weights[0, :5]).all()


@pytest.mark.parametrize("L", COLUMNS)
def test_products_with_weights(L):
    """Fails if the factor or a line is forgotten, or a column too many is added up."""
    rng = np.random.default_rng(2)
    rows, weights, out = rng.random((4, L)), rng.random((3, L + 5)), np.full((2, L + 3), 7.0)
    rows[2, rng.random(L) < 0.4] = 0.0
    total, positive = weighed(rows, 2, 0.5, weights, 1, out, 1)
    product = (rows[2] * 0.5) * weights[1, :L]
    assert_array_equal(out[1, :L], product)
    assert_array_equal(out[0], 7.0)
    assert_array_equal(out[1, L:], 7.0)
    assert_allclose(total, product.sum(), rtol=1e-14)
    assert positive == np.count_nonzero(product)


@pytest.mark.parametrize("L", COLUMNS)
def test_scaled_rows_stay_within_their_columns(L):
    rng = np.random.default_rng(3)
    rows, out = rng.random((2, L + 2)), np.full((3, L), 7.0)
    scaled(rows, 1, 0.25, out, 1)
    assert_array_equal(out[1], 0.25 * rows[1, :L])
    assert_array_equal(out[[0, 2]], 7.0)


def test_arrays_of_another_kind_are_refused():
    """Fails if columns are read as if they were rows, or two numbers as one."""
    with pytest.raises(TypeError, match="do not follow one another"):
        scaled(np.zeros((4, 4)).T, 0, 1.0, np.zeros((4, 4)), 0)
    with pytest.raises(TypeError, match="must have the type float64"):
        scaled(np.zeros((4, 4)), 0, 1.0, np.zeros((4, 4), "float32"), 0)
    fixed = np.zeros((4, 4))
    fixed.flags.writeable = False
    with pytest.raises(TypeError, match="cannot be written to"):
        scaled(np.zeros((4, 4)), 0, 1.0, fixed, 0)
