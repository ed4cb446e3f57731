"""Rows of probabilities times a matrix, with the sums held in registers.

A loop over the rows of the matrix that numba compiles reads and writes the result once for every
few of them. Here the compiler is handed a tile, 4 or 1 rows by up to 8 or 40 columns, whose sums
stay in vector registers; the matrix is read once for four rows. Every entry is one chain of
multiply-adds in the order of j, so that it is the same whatever the tile, and a factor that is
exactly 0 can be skipped without changing it.
"""

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

WIDTH = 4  # doubles in a vector
TALL = 4  # rows of a tall tile


def _tile(n_rows, n_vectors):
    """Make ``tile(rows, active, n, matrix, row, column, out)`` for one shape of tile.

    out[row + r, column + c] = sum_{i < n} rows[row + r, j_i] matrix[j_i, column + c] with
    j_i = active[i], for r < n_rows and c < 4 n_vectors. All arrays are contiguous.
    """

    @intrinsic
    def tile(typingctx, rows, active, n, matrix, row, column, out):
        signature = types.void(rows, active, n, matrix, row, column, out)

        def codegen(context, builder, signature, arguments):
            arrays = [
                context.make_array(kind)(context, builder, value)
                for kind, value in zip(signature.args, arguments, strict=True)
                if isinstance(kind, types.Array)
            ]
            rows, active, matrix, out = arrays
            _, _, n, _, row, column, _ = arguments
            vector = ir.VectorType(ir.DoubleType(), WIDTH)
            multiply_add = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(vector, [vector] * 3), "llvm.fmuladd.v4f64"
            )

            def pointer(array, line, offset):
                stride = cgutils.unpack_tuple(builder, array.shape, 2)[1]
                return builder.gep(array.data, [builder.add(builder.mul(line, stride), offset)])

            lines = [builder.add(row, row.type(r)) for r in range(n_rows)]
            zero = column.type(0)
            sources = [pointer(rows, line, zero) for line in lines]
            start = ir.Constant(vector, [0.0] * WIDTH)
            sums = [
                [cgutils.alloca_once_value(builder, start) for _ in range(n_vectors)] for _ in lines
            ]
            with cgutils.for_range(builder, n) as loop:
                j = builder.load(builder.gep(active.data, [loop.index]))
                line = pointer(matrix, j, column)
                parts = []
                for v in range(n_vectors):
                    at = builder.gep(line, [column.type(WIDTH * v)])
                    parts.append(builder.load(builder.bitcast(at, vector.as_pointer()), align=8))
                for r, source in enumerate(sources):
                    factor = builder.load(builder.gep(source, [j]))
                    first = builder.insert_element(
                        ir.Constant(vector, ir.Undefined), factor, ir.IntType(32)(0)
                    )
                    spread = builder.shuffle_vector(
                        first, first, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
                    )
                    for v, part in enumerate(parts):
                        total = builder.load(sums[r][v])
                        builder.store(builder.call(multiply_add, [spread, part, total]), sums[r][v])
            for r, line in enumerate(lines):
                for v in range(n_vectors):
                    at = pointer(out, line, builder.add(column, column.type(WIDTH * v)))
                    at = builder.bitcast(at, vector.as_pointer())
                    builder.store(builder.load(sums[r][v]), at, align=8)

        return signature, codegen

    return tile


_tall_2, _tall_1 = _tile(4, 2), _tile(4, 1)
_flat_10, _flat_5, _flat_3, _flat_1 = _tile(1, 10), _tile(1, 5), _tile(1, 3), _tile(1, 1)


@njit(cache=True, nogil=True)
def multiply_tall(rows, active, n, matrix, out):
    """out[:4] = rows[:4] @ matrix over the rows active[:n] of the matrix."""
    columns = matrix.shape[1]
    k = 0
    while k + 8 <= columns:
        _tall_2(rows, active, n, matrix, 0, k, out)
        k += 8
    if k + 4 <= columns:
        _tall_1(rows, active, n, matrix, 0, k, out)


@njit(cache=True, nogil=True)
def multiply_flat(rows, active, n, matrix, row, out):
    """out[row] = rows[row] @ matrix over the rows active[:n] of the matrix."""
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
