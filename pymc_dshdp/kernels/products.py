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
VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)


def _arrays(context, builder, signature, arguments):
    """Structs of the arrays among the arguments."""
    return [
        context.make_array(kind)(context, builder, value)
        for kind, value in zip(signature.args, arguments, strict=True)
        if isinstance(kind, types.Array)
    ]


def _pointer(builder, array, line, column):
    """Address of an entry of a contiguous array of two dimensions."""
    stride = cgutils.unpack_tuple(builder, array.shape, 2)[1]
    return builder.gep(array.data, [builder.add(builder.mul(line, stride), column)])


def _vector_at(builder, pointer):
    return builder.bitcast(pointer, VECTOR.as_pointer())


@intrinsic
def weigh(typingctx, rows, weights, row, offset, out):
    """out[row] = rows[row] * weights[row, offset:], and its sum, column by column of four.

    rows and out have the same number of columns, a multiple of four.
    """
    signature = types.float64(rows, weights, row, offset, out)

    def codegen(context, builder, signature, arguments):
        rows, weights, out = _arrays(context, builder, signature, arguments)
        _, _, row, offset, _ = arguments
        zero, step = offset.type(0), offset.type(WIDTH)
        sources = [_pointer(builder, rows, row, zero), _pointer(builder, weights, row, offset)]
        target = _pointer(builder, out, row, zero)
        columns = cgutils.unpack_tuple(builder, out.shape, 2)[1]
        total = cgutils.alloca_once_value(builder, ir.Constant(VECTOR, [0.0] * WIDTH))

        def at(pointer, column):
            return _vector_at(builder, builder.gep(pointer, [column]))

        with cgutils.for_range_slice(builder, zero, columns, step, columns.type) as (column, _):
            factors = [builder.load(at(source, column), align=8) for source in sources]
            product = builder.fmul(*factors)
            builder.store(product, at(target, column), align=8)
            builder.store(builder.fadd(builder.load(total), product), total)
        total = builder.load(total)
        a, b, c, d = (builder.extract_element(total, ir.IntType(32)(i)) for i in range(WIDTH))
        return builder.fadd(builder.fadd(a, b), builder.fadd(c, d))

    return signature, codegen


def _tile(n_rows, n_vectors):
    """Make ``tile(rows, active, n, matrix, row, column, out)`` for one shape of tile.

    out[row + r, column + c] = sum_{i < n} rows[row + r, j_i] matrix[j_i, column + c] with
    j_i = active[i], for r < n_rows and c < 4 n_vectors. All arrays are contiguous.
    """

    @intrinsic
    def tile(typingctx, rows, active, n, matrix, row, column, out):
        signature = types.void(rows, active, n, matrix, row, column, out)

        def codegen(context, builder, signature, arguments):
            rows, active, matrix, out = _arrays(context, builder, signature, arguments)
            _, _, n, _, row, column, _ = arguments
            multiply_add = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(VECTOR, [VECTOR] * 3), "llvm.fmuladd.v4f64"
            )

            lines = [builder.add(row, row.type(r)) for r in range(n_rows)]
            zero = column.type(0)
            sources = [_pointer(builder, rows, line, zero) for line in lines]
            start = ir.Constant(VECTOR, [0.0] * WIDTH)
            sums = [
                [cgutils.alloca_once_value(builder, start) for _ in range(n_vectors)] for _ in lines
            ]
            with cgutils.for_range(builder, n) as loop:
                j = builder.load(builder.gep(active.data, [loop.index]))
                line = _pointer(builder, matrix, j, column)
                parts = []
                for v in range(n_vectors):
                    at = builder.gep(line, [column.type(WIDTH * v)])
                    parts.append(builder.load(_vector_at(builder, at), align=8))
                for r, source in enumerate(sources):
                    factor = builder.load(builder.gep(source, [j]))
                    first = builder.insert_element(
                        ir.Constant(VECTOR, ir.Undefined), factor, ir.IntType(32)(0)
                    )
                    spread = builder.shuffle_vector(
                        first, first, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
                    )
                    for v, part in enumerate(parts):
                        total = builder.load(sums[r][v])
                        builder.store(builder.call(multiply_add, [spread, part, total]), sums[r][v])
            for r, line in enumerate(lines):
                for v in range(n_vectors):
                    at = _pointer(builder, out, line, builder.add(column, column.type(WIDTH * v)))
                    builder.store(builder.load(sums[r][v]), _vector_at(builder, at), align=8)

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
