"""Rows of probabilities times a matrix, with the sums held in registers.

A loop over the rows of the matrix that numba compiles reads and writes the result once for every
few of them. Here the compiler is handed a tile, 4 or 1 rows by up to 8 or 40 columns, whose sums
stay in vector registers; the matrix is read once for four rows. Every entry is one chain of
multiply-adds in the order of j, so that it is the same whatever the tile, and a factor that is
exactly 0 can be skipped without changing it.
"""

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.simd.switch import TALL, WIDTH
from pymc_dshdp.kernels.simd.vectors import (
    BITS,
    SHORT,
    VECTOR,
    address,
    arrays_of,
    constant,
    load,
    multiply_add,
    n_lines,
    spread,
    store,
)


def _tile(n_rows, n_vectors):
    """Make ``tile(rows, active, n, matrix, row, column, out)`` for one shape of tile.

    out[row + r, column + c] = sum_{i < n} rows[row + r, j_i] matrix[j_i, column + c] with
    j_i = active[i], or over all rows of the matrix where n < 0, for r < n_rows and
    c < 4 n_vectors. All arrays are contiguous.
    """

    @intrinsic
    def tile(typingctx, rows, active, n, matrix, row, column, out):
        signature = types.void(rows, active, n, matrix, row, column, out)

        def codegen(context, builder, signature, arguments):
            rows, active, matrix, out = arrays_of(
                context, builder, signature, arguments, indices=[1]
            )
            _, _, n, _, row, column, _ = arguments
            lines = [builder.add(row, row.type(r)) for r in range(n_rows)]
            zero = column.type(0)
            sources = [address(builder, rows, line, zero) for line in lines]
            start = constant(VECTOR, 0.0)
            sums = [
                [cgutils.alloca_once_value(builder, start) for _ in range(n_vectors)] for _ in lines
            ]

            def add(j):
                line = address(builder, matrix, j, column)
                parts = [
                    load(builder, builder.gep(line, [column.type(WIDTH * v)]))
                    for v in range(n_vectors)
                ]
                for source, totals in zip(sources, sums, strict=True):
                    factor = spread(builder, builder.load(builder.gep(source, [j])))
                    for part, total in zip(parts, totals, strict=True):
                        added = multiply_add(builder, factor, part, builder.load(total))
                        builder.store(added, total)

            with builder.if_else(builder.icmp_signed("<", n, n.type(0))) as (every, listed):
                with every, cgutils.for_range(builder, n_lines(builder, matrix)) as loop:
                    add(loop.index)
                with listed, cgutils.for_range(builder, n) as loop:
                    add(builder.load(builder.gep(active.data, [loop.index])))
            for line, totals in zip(lines, sums, strict=True):
                target = address(builder, out, line, column)
                for v, total in enumerate(totals):
                    at = builder.gep(target, [column.type(WIDTH * v)])
                    store(builder, builder.load(total), at)

        return signature, codegen

    return tile


def _counting_tile(n_vectors):
    """Make ``tile(rows, matrix, targets, row, column, t, out)`` for some columns.

    See ``count_below``. The sums are those of ``_tile``, with which they end.
    """

    @intrinsic
    def tile(typingctx, rows, matrix, targets, row, column, t, out):
        signature = types.void(rows, matrix, targets, row, column, t, out)

        def codegen(context, builder, signature, arguments):
            rows, matrix, targets, out = arrays_of(
                context, builder, signature, arguments, counts=[3]
            )
            _, _, _, row, column, t, _ = arguments
            zero, none = column.type(0), constant(BITS, 0)
            source, bounds = address(builder, rows, row, zero), []
            places = [column.type(WIDTH * v) for v in range(n_vectors)]
            for place in places:
                at = builder.gep(address(builder, targets, zero, column), [place])
                bounds.append(load(builder, at))
            totals, counts = (
                [cgutils.alloca_once_value(builder, start) for _ in places]
                for start in (constant(VECTOR, 0.0), none)
            )
            with cgutils.for_range(builder, n_lines(builder, matrix)) as loop:
                line = address(builder, matrix, loop.index, column)
                factor = spread(builder, builder.load(builder.gep(source, [loop.index])))
                for place, bound, total, count in zip(places, bounds, totals, counts, strict=True):
                    part = load(builder, builder.gep(line, [place]))
                    added = multiply_add(builder, factor, part, builder.load(total))
                    builder.store(added, total)
                    below = builder.sext(builder.fcmp_ordered("<=", added, bound), BITS)
                    builder.store(builder.sub(builder.load(count), below), count)
            target = address(builder, out, t, column)
            for place, count in zip(places, counts, strict=True):
                at = builder.bitcast(builder.gep(target, [place]), SHORT.as_pointer())
                builder.store(builder.trunc(builder.load(count), SHORT), at, align=2)

        return signature, codegen

    return tile


_tall_2, _tall_1 = _tile(TALL, 2), _tile(TALL, 1)
_flat_10, _flat_5, _flat_3, _flat_1 = _tile(1, 10), _tile(1, 5), _tile(1, 3), _tile(1, 1)
_counting_5, _counting_1 = _counting_tile(5), _counting_tile(1)


@njit(cache=True, nogil=True)
def multiply_tall(rows, active, n, matrix, out):
    """out[:4] = rows[:4] @ matrix over the rows active[:n] of the matrix, or all where n < 0."""
    columns = matrix.shape[1]
    k = 0
    while k + 8 <= columns:
        _tall_2(rows, active, n, matrix, 0, k, out)
        k += 8
    if k + 4 <= columns:
        _tall_1(rows, active, n, matrix, 0, k, out)


@njit(cache=True, nogil=True, inline="always")
def multiply_flat(rows, active, n, matrix, row, out):
    """out[row] = rows[row] @ matrix over the rows active[:n] of the matrix, or all where n < 0."""
    columns = matrix.shape[1]
    k = 0
    while k + 40 <= columns:
        _flat_10(rows, active, n, matrix, row, k, out)
        k += 40
    while k + 20 <= columns:
        _flat_5(rows, active, n, matrix, row, k, out)
        k += 20
    while k + 12 <= columns:
        _flat_3(rows, active, n, matrix, row, k, out)
        k += 12
    while k + 4 <= columns:
        _flat_1(rows, active, n, matrix, row, k, out)
        k += 4


@njit(cache=True, nogil=True, inline="always")
def count_below(rows, row, matrix, targets, t, out):
    """out[t, k] = how many of the sums over i = 0..j of rows[row, i] matrix[i, k] are at most x_k.

    As these grow with j, it is the first j of which the sum exceeds x_k = targets[0, k].
    """
    columns = matrix.shape[1]
    k = 0
    while k + 20 <= columns:
        _counting_5(rows, matrix, targets, row, k, t, out)
        k += 20
    while k + 4 <= columns:
        _counting_1(rows, matrix, targets, row, k, t, out)
        k += 4
