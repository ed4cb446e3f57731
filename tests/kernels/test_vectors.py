"""Operations on rows, four columns at a time and as plain loops, for every number left over."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal

import pymc_dshdp
from pymc_dshdp.kernels.chain import Transitions
from pymc_dshdp.kernels.messages import forward_filter_backward_sample
from pymc_dshdp.kernels.simd import plain, products, rows, scalars, switch, tables

COLUMNS = [1, 2, 3, 4, 5, 7, 20, 23, 40]


def functions(module):
    """Operations of a module as Python can call them."""
    exponentiate, weigh = module.exponentiate, module.weigh
    weigh_in_doubt, scale_to = module.weigh_in_doubt, module.scale_to

    @njit
    def exponentiated(table, t, weights, line):
        return exponentiate(table, t, weights, line)

    @njit
    def weighed(rows, row, factor, weights, line, out, target):
        return weigh(rows, row, factor, weights, line, out, target)

    @njit
    def weighed_in_doubt(rows, row, factor, weights, line, out, target, most, growth, bound, lost):
        return weigh_in_doubt(
            rows, row, factor, weights, line, out, target, most, growth, bound, lost
        )

    @njit
    def scaled(rows, row, factor, out, line):
        scale_to(rows, row, factor, out, line)

    return exponentiated, weighed, weighed_in_doubt, scaled


BOTH = {"vectors": functions(rows), "plain": functions(plain)}


@pytest.fixture(params=BOTH)
def operations(request):
    return BOTH[request.param]


@pytest.mark.parametrize("L", COLUMNS)
def test_exponentials_of_a_row_less_its_maximum(operations, L):
    """Fails if the last columns are left out of the maximum, or the next row is read with them."""
    exponentiated, *_ = operations
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


def test_exponentials_of_what_is_not_finite(operations):
    """Impossible states count as 0; a NaN, or no possible state at all, stays visible."""
    exponentiated, *_ = operations
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
def test_products_with_weights(operations, L):
    """Fails if the factor or a line is forgotten, or a column too many is added up."""
    _, weighed, weighed_in_doubt, _ = operations
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
    most = rng.random((2, L))
    for bound in (0.0, 0.2 * 2.0**-64, 2.0**-64):
        lost = bound * rng.random((2, L))
        arriving = lost[0] * 3.0 * most[0] + bound * most[1]
        below = rows[2] * 0.5 < arriving * 2.0**64
        found = weighed_in_doubt(rows, 2, 0.5, weights, 1, out, 0, most, 3.0, bound, lost)
        assert found[:2] == (total, positive)
        assert_array_equal(out[0], out[1])
        left = np.where(below, arriving * weights[1, :L], 0.0) + 2.0**-1018
        assert_allclose(lost[0], left, rtol=1e-14)
        assert (lost[1] <= bound).all()
        assert_allclose(found[2], left.sum(), rtol=1e-13, atol=2.0**-1015)
        assert found[3] == max(weights[1, :L][below], default=0.0)


@pytest.mark.parametrize("L", COLUMNS)
def test_scaled_rows_stay_within_their_columns(operations, L):
    *_, scaled = operations
    rng = np.random.default_rng(3)
    rows, out = rng.random((2, L + 2)), np.full((3, L), 7.0)
    scaled(rows, 1, 0.25, out, 1)
    assert_array_equal(out[1], 0.25 * rows[1, :L])
    assert_array_equal(out[[0, 2]], 7.0)


def test_arrays_of_another_kind_are_refused():
    """Fails if columns are read as if they were rows, or two numbers as one."""
    *_, scaled = BOTH["vectors"]
    with pytest.raises(TypeError, match="do not follow one another"):
        scaled(np.zeros((4, 4)).T, 0, 1.0, np.zeros((4, 4)), 0)
    with pytest.raises(TypeError, match="must have the type float64"):
        scaled(np.zeros((4, 4)), 0, 1.0, np.zeros((4, 4), "float32"), 0)
    fixed = np.zeros((4, 4))
    fixed.flags.writeable = False
    with pytest.raises(TypeError, match="cannot be written to"):
        scaled(np.zeros((4, 4)), 0, 1.0, fixed, 0)


def test_powers_of_two():
    for x in (1.0, 1.999, 2.0, 3e-280, 0.75):
        assert scalars.binary_exponent(x) == plain.binary_exponent(x)
        e, power = plain.binary_exponent(x)
        assert 1.0 <= x * power < 2.0 and power == 2.0**-e


def test_plain_twins_of_whole_rows():
    """Exponentials, logarithms, products, normal tables; fails if a row or column is left out."""
    rng = np.random.default_rng(4)
    x = -np.concatenate([rng.uniform(0.0, 720.0, 50), [0.0, np.inf, 708.5]])
    found = [x.copy(), x.copy()]
    rows.exp_in_place(found[0], 51)
    plain.exp_in_place(found[1], 51)
    assert_allclose(*found, rtol=6e-16)
    found = [np.exp(rng.normal(0.0, 9.0, 23))] * 2
    found = [y.copy() for y in found]
    scalars.log_in_place(found[0], 22)
    plain.log_in_place(found[1], 22)
    assert_allclose(*found, rtol=1e-15)
    left, matrix = rng.random((4, 24)), rng.random((21, 24))
    for n, active in ((-1, np.arange(0)), (3, np.array([2, 9, 20]))):
        out = np.full((4, 4, 24), np.nan)
        products.multiply_tall(left, active, n, matrix, out[0])
        plain.multiply_tall(left, active, n, matrix, out[1])
        for row in range(4):
            products.multiply_flat(left, active, n, matrix, row, out[2])
            plain.multiply_flat(left, active, n, matrix, row, out[3])
        for other in out[1:]:
            assert_allclose(other, out[0], rtol=1e-14)
    bounds, counts = 0.7 * (left[1, :21] @ matrix)[None], []
    for module in (products, plain):
        counts.append(np.full((3, 24), -1, np.int16))
        module.count_below(left, 1, matrix, bounds, 2, counts[-1])
    sums = np.cumsum(left[1, :21, None] * matrix, axis=0)
    assert_array_equal(counts[0][2], (sums <= bounds).sum(axis=0))
    assert_array_equal(*counts)
    y, mean, scale = rng.normal(size=(11, 3)), rng.normal(size=(7, 3)), rng.random((7, 3)) + 0.5
    assert_allclose(
        plain.normal_table(y, mean, scale), tables.normal_table(y, mean, scale), rtol=1e-13
    )


SCRIPT = """
import sys, types
import numpy as np
package = types.ModuleType("pymc_dshdp")
package.__path__ = [sys.argv[1]]
sys.modules["pymc_dshdp"] = package
from pymc_dshdp.kernels import simd
from pymc_dshdp.kernels.chain import Transitions
from pymc_dshdp.kernels.messages import forward_filter_backward_sample
assert not simd.uses_vectors() and simd.weigh.__module__.endswith("simd.plain")
assert "pymc_dshdp.kernels.simd.vectors" not in sys.modules
given = np.load(sys.argv[2])
transitions = Transitions(given["kappa_logit"], given["pi_bar"][None])
draw = forward_filter_backward_sample(
    given["table"], given["initial"], transitions, given["lengths"], given["uniforms"]
)
np.savez(sys.argv[3], states=draw.states, total=draw.log_marginal_likelihood)
"""


@pytest.mark.parametrize(
    "switches",
    [
        {"NUMBA_DISABLE_JIT": "1"},
        pytest.param({"PYMC_DSHDP_SIMD": "0"}, marks=pytest.mark.slow),
    ],
    ids=["not-compiled", "plain"],
)
def test_draws_without_vectors_are_the_same(tmp_path, switches):
    """In a process of its own; also of a sequence that has to be drawn by logarithms."""
    rng = np.random.default_rng(5)
    table = rng.normal(0.0, 3.0, (40, 5))
    table[10:12, 1] -= 800.0
    table[13, 1] += 1600.0
    pi_bar = rng.dirichlet(np.full(5, 0.3), size=5) * (rng.random((5, 5)) < 0.7)
    pi_bar = pi_bar + 0.1 * np.eye(5)
    pi_bar[[0, 2, 3, 4], 1] = 0.0
    pi_bar /= pi_bar.sum(axis=1, keepdims=True)
    given = {
        "table": table,
        "initial": np.full(5, 0.2),
        "kappa_logit": rng.normal(size=(40, 5)),
        "pi_bar": pi_bar,
        "lengths": np.array([25, 15]),
        "uniforms": rng.random(40),
    }
    np.savez(tmp_path / "given.npz", **given)
    subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            SCRIPT,
            Path(pymc_dshdp.__file__).parent,
            tmp_path / "given.npz",
            tmp_path / "found.npz",
        ],
        check=True,
        env=os.environ | switches | {"NUMBA_CACHE_DIR": str(tmp_path)},
    )
    found = np.load(tmp_path / "found.npz")
    transitions = Transitions(given.pop("kappa_logit"), given.pop("pi_bar")[None])
    draw = forward_filter_backward_sample(
        given["table"], given["initial"], transitions, given["lengths"], given["uniforms"]
    )
    assert draw.impossible_time == -1
    assert_array_equal(found["states"], draw.states)
    assert_allclose(found["total"], draw.log_marginal_likelihood, rtol=1e-12)


def test_the_switch(monkeypatch):
    monkeypatch.setenv("PYMC_DSHDP_SIMD", "0")
    assert not switch.uses_vectors()
    monkeypatch.setenv("PYMC_DSHDP_SIMD", "1")
    assert switch.uses_vectors()
    monkeypatch.setenv("PYMC_DSHDP_SIMD", "off")
    with pytest.raises(ValueError, match="PYMC_DSHDP_SIMD must be 0 or 1, received 'off'"):
        switch.uses_vectors()
