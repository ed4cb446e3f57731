"""Operations on rows of a matrix, in vectors of four.

A loop that numba compiles checks at every row whether its arrays overlap and whether indices are
negative, which costs more than the arithmetic of a row of 20 states; a call of the C library's
``exp`` stays scalar and takes about 11 ns, the polynomial here 1 to 2. Each function goes through
the columns of one row in vectors of four, and the last ones, if they are fewer, under a mask;
whatever lies beyond the row is neither read nor written.
"""

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pymc_dshdp.kernels.cache import njit
from pymc_dshdp.kernels.simd.switch import LOST, NEGLIGIBLE
from pymc_dshdp.kernels.simd.vectors import (
    BITS,
    VECTOR,
    address,
    arrays_of,
    constant,
    each_vector,
    elements,
    exponential,
    larger,
    load,
    multiply_add,
    n_columns,
    spread,
    store,
)


@intrinsic
def _exp(typingctx, x, n):
    """See ``exp_in_place``."""
    signature = types.void(x, n)

    def codegen(context, builder, signature, arguments):
        (x,) = arrays_of(context, builder, signature, arguments)

        def body(column, mask):
            at = builder.gep(x.data, [column])
            store(builder, exponential(builder, load(builder, at, mask)), at, mask)

        each_vector(builder, arguments[1], body)

    return signature, codegen


@njit(cache=True, nogil=True)
def exp_in_place(x, n):
    """Replace x[:n] by exp(x[:n]), for x <= 0; -inf gives 0 and NaN stays NaN.

    exp(x) = 2^k exp(r) with k = round(x / log 2), |r| <= log(2)/2, and a polynomial of degree
    11 that agrees with exp to 2e-17 relative. Values below -708 give 0.
    """
    _exp(x, n)


@intrinsic
def exponentiate(typingctx, table, t, weights, line):
    """weights[line, k] = exp(table[t, k] - m) with m the maximum of table[t]; returns m.

    weights must have the columns of the table and as many more as make a multiple of four, which
    become 0. A NaN is passed over by the maximum.
    """
    signature = types.float64(table, t, weights, line)

    def codegen(context, builder, signature, arguments):
        table, weights = arrays_of(context, builder, signature, arguments)
        _, t, _, line = arguments
        n = n_columns(builder, table)
        source = address(builder, table, t, n.type(0))
        target = address(builder, weights, line, n.type(0))
        top = cgutils.alloca_once_value(builder, constant(VECTOR, float("-inf")))

        def compare(column, mask):
            x = load(builder, builder.gep(source, [column]), mask, float("-inf"))
            builder.store(larger(builder, x, builder.load(top)), top)

        each_vector(builder, n, compare)
        a, b, c, d = elements(builder, builder.load(top))
        top = larger(builder, larger(builder, a, b), larger(builder, c, d))
        shift = spread(builder, top)

        def body(column, mask):
            x = load(builder, builder.gep(source, [column]), mask, float("-inf"))
            weight = exponential(builder, builder.fsub(x, shift))
            store(builder, weight, builder.gep(target, [column]))

        each_vector(builder, n, body)
        return top

    return signature, codegen


def _weigher(context, builder, signature, arguments):
    """Instructions of ``weigh`` and, where there are arguments more, ``weigh_in_doubt``."""
    rows, weights, out, *more = arrays_of(context, builder, signature, arguments)
    row, factor, line, target = (arguments[i] for i in (1, 2, 4, 6))
    n = n_columns(builder, rows)
    zero = n.type(0)
    left, right = address(builder, rows, row, zero), address(builder, weights, line, zero)
    written = address(builder, out, target, zero)
    scale = spread(builder, factor)
    nothing = constant(VECTOR, 0.0)
    total, *sums = (cgutils.alloca_once_value(builder, nothing) for _ in (rows, *more))
    positive = cgutils.alloca_once_value(builder, constant(BITS, 0))
    if more:
        most, lost = more
        stays, enters = (address(builder, most, zero.type(i), zero) for i in (0, 1))
        astray = address(builder, lost, target, zero)
        growth, bound = (spread(builder, arguments[i]) for i in (8, 9))
        lost_sum, largest = sums

    def body(column, mask):
        weight = load(builder, builder.gep(right, [column]), mask)
        predicted = builder.fmul(load(builder, builder.gep(left, [column]), mask), scale)
        product = builder.fmul(predicted, weight)
        store(builder, product, builder.gep(written, [column]), mask)
        builder.store(builder.fadd(builder.load(total), product), total)
        above = builder.sext(builder.fcmp_ordered(">", product, nothing), BITS)
        builder.store(builder.sub(builder.load(positive), above), positive)
        if not more:
            return
        at = builder.gep(astray, [column])
        stay, enter = (load(builder, builder.gep(p, [column]), mask) for p in (stays, enters))
        arriving = builder.fmul(builder.fmul(load(builder, at, mask), growth), stay)
        arriving = multiply_add(builder, enter, bound, arriving)
        doubtful = builder.fmul(arriving, constant(VECTOR, 1.0 / NEGLIGIBLE))
        below = builder.fcmp_ordered("<", predicted, doubtful)
        weight = builder.select(below, weight, nothing)
        builder.store(larger(builder, weight, builder.load(largest)), largest)
        arriving = builder.fadd(builder.fmul(arriving, weight), constant(VECTOR, LOST))
        store(builder, arriving, at, mask)
        builder.store(builder.fadd(builder.load(lost_sum), arriving), lost_sum)

    each_vector(builder, n, body)
    a, b, c, d = elements(builder, builder.load(total))
    i, j, k, m = elements(builder, builder.load(positive))
    found = [
        builder.fadd(builder.fadd(a, b), builder.fadd(c, d)),
        builder.add(builder.add(i, j), builder.add(k, m)),
    ]
    if more:
        a, b, c, d = elements(builder, builder.load(lost_sum))
        found.append(builder.fadd(builder.fadd(a, b), builder.fadd(c, d)))
        a, b, c, d = elements(builder, builder.load(largest))
        found.append(larger(builder, larger(builder, a, b), larger(builder, c, d)))
    return context.make_tuple(builder, signature.return_type, found)


@intrinsic
def weigh(typingctx, rows, row, factor, weights, line, out, target):
    """out[target] = (rows[row] * factor) * weights[line].

    Returns the sum of the products, and how many of them are positive. All arrays have the
    columns of ``rows`` or, weights and out, more, which are left alone.
    """
    found = types.Tuple((types.float64, types.int64))
    return found(rows, row, factor, weights, line, out, target), _weigher


@intrinsic
def weigh_in_doubt(
    typingctx, rows, row, factor, weights, line, out, target, most, growth, bound, lost
):
    """As ``weigh``, and multiply lost[target] * growth * most[0] + bound * most[1] by the weights.

    The product is 0 where rows[row] * factor is 2^64 times the sum; with 2^-1018 added everywhere
    it replaces ``lost[target]``. Returns also the sum of ``lost[target]``, and the largest weight
    where it is not 0 for that reason. ``most`` and ``lost`` have the columns of ``rows``.
    """
    found = types.Tuple((types.float64, types.int64, types.float64, types.float64))
    arguments = rows, row, factor, weights, line, out, target, most, growth, bound, lost
    return found(*arguments), _weigher


@intrinsic
def scale_to(typingctx, rows, row, factor, out, line):
    """out[line] = rows[row] * factor, for the columns of ``out``."""
    signature = types.void(rows, row, factor, out, line)

    def codegen(context, builder, signature, arguments):
        rows, out = arrays_of(context, builder, signature, arguments)
        _, row, factor, _, line = arguments
        n = n_columns(builder, out)
        source = address(builder, rows, row, n.type(0))
        target = address(builder, out, line, n.type(0))
        scale = spread(builder, factor)

        def body(column, mask):
            x = load(builder, builder.gep(source, [column]), mask)
            store(builder, builder.fmul(x, scale), builder.gep(target, [column]), mask)

        each_vector(builder, n, body)

    return signature, codegen
