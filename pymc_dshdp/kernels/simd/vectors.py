"""Vectors of four doubles, written for the compiler directly: what the operations are made of."""

from llvmlite import ir
from numba import types
from numba.core import cgutils

from pymc_dshdp.kernels.simd.switch import SMALLEST_EXPONENT, WIDTH

VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
BITS = ir.VectorType(ir.IntType(64), WIDTH)
SHORT = ir.VectorType(ir.IntType(16), WIDTH)
FLAGS = ir.VectorType(ir.IntType(1), WIDTH)
INDEX = ir.IntType(32)

LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01  # leading 32 bits of log 2: exact times a small integer
LN2_LOW = 1.90821492927058770002e-10
ROUND_TO_INTEGER = 6755399441055744.0  # 1.5 * 2**52: adding it leaves round(x) in the low bits
EXPONENT_AT, EXPONENT_OF_ONE = 52, 1023
EXP_COEFFICIENTS = (  # of r^11 down to r^0, interpolating at Chebyshev points of |r| <= log(2)/2
    2.510038549551032e-08,
    2.7620088445409746e-07,
    2.7557268459997064e-06,
    2.4801521295954376e-05,
    0.00019841269863053618,
    0.0013888888917213717,
    0.008333333333330062,
    0.04166666666662413,
    0.16666666666666669,
    0.5000000000000001,
    1.0,
    1.0,
)
EXP_VALUES = (SMALLEST_EXPONENT, ROUND_TO_INTEGER, LOG2_E, -LN2_HIGH, -LN2_LOW, *EXP_COEFFICIENTS)
SMALLEST, SHIFT, SLOPE, HIGH, LOW, FIRST = range(6)  # their places


def arrays_of(context, builder, signature, arguments, indices=(), counts=()):
    """Structs of the arrays among the arguments, the last of which is written to.

    They must be contiguous and of float64, or of int64 where their places are in ``indices``, of
    int16 where they are in ``counts``.
    """
    pairs = zip(signature.args, arguments, strict=True)
    kinds, values = zip(*(p for p in pairs if isinstance(p[0], types.Array)), strict=True)
    for i, kind in enumerate(kinds):
        dtype = types.int64 if i in indices else types.int16 if i in counts else types.float64
        if kind.layout != "C":
            raise TypeError(f"the rows of {kind} do not follow one another in memory")
        if kind.dtype != dtype:
            raise TypeError(f"{kind} must have the type {dtype}")
    if not kinds[-1].mutable:
        raise TypeError(f"{kinds[-1]} cannot be written to")
    return [
        context.make_array(kind)(context, builder, value)
        for kind, value in zip(kinds, values, strict=True)
    ]


def address(builder, array, line, column):
    """Address of an entry of a contiguous array of two dimensions."""
    stride = n_columns(builder, array)
    return builder.gep(array.data, [builder.add(builder.mul(line, stride), column)])


def n_lines(builder, array):
    """Shape of an array of two dimensions along the first."""
    return cgutils.unpack_tuple(builder, array.shape, 2)[0]


def n_columns(builder, array):
    """Shape of an array of two dimensions along the second."""
    return cgutils.unpack_tuple(builder, array.shape, 2)[1]


def vector_at(builder, pointer):
    """Address of the vector that begins at an address."""
    return builder.bitcast(pointer, VECTOR.as_pointer())


def constant(kind, value):
    """Vector with the same value everywhere."""
    return ir.Constant(kind, [value] * WIDTH)


def spread(builder, value):
    """Vector with the same value everywhere, of a value known at run time."""
    kind = ir.VectorType(value.type, WIDTH)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, INDEX(0))
    return builder.shuffle_vector(first, first, constant(ir.VectorType(INDEX, WIDTH), 0))


def elements(builder, vector):
    """Return the four numbers of a vector."""
    return [builder.extract_element(vector, INDEX(i)) for i in range(WIDTH)]


def multiply_add(builder, a, b, c):
    """Return a b + c, rounded once where the machine can."""
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(VECTOR, [VECTOR] * 3), "llvm.fmuladd.v4f64"
    )
    return builder.call(function, [a, b, c])


def larger(builder, a, b):
    """Elementwise a where a > b, else b."""
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def each_vector(builder, n, body):
    """Call ``body(column, mask)`` for the columns 0, 4, ... below n.

    The mask is None but for the last vector, where not all four columns are below n.
    """
    zero, step = n.type(0), n.type(WIDTH)
    whole = builder.and_(n, n.type(-WIDTH))
    with cgutils.for_range_slice(builder, zero, whole, step, n.type) as (column, _):
        body(column, None)
    rest = builder.sub(n, whole)
    with builder.if_then(builder.icmp_signed(">", rest, zero)):
        places = ir.Constant(ir.VectorType(n.type, WIDTH), list(range(WIDTH)))
        body(whole, builder.icmp_signed("<", places, spread(builder, rest)))


def load(builder, pointer, mask=None, otherwise=0.0):
    """Vector at an address; ``otherwise`` where the mask is off."""
    pointer = vector_at(builder, pointer)
    if mask is None:
        return builder.load(pointer, align=8)
    kind = ir.FunctionType(VECTOR, [pointer.type, INDEX, FLAGS, VECTOR])
    function = cgutils.get_or_insert_function(
        builder.module, kind, "llvm.masked.load.v4f64.p0v4f64"
    )
    return builder.call(function, [pointer, INDEX(8), mask, constant(VECTOR, otherwise)])


def store(builder, vector, pointer, mask=None):
    """Store a vector where the mask is on."""
    pointer = vector_at(builder, pointer)
    if mask is None:
        builder.store(vector, pointer, align=8)
        return
    kind = ir.FunctionType(ir.VoidType(), [VECTOR, pointer.type, INDEX, FLAGS])
    function = cgutils.get_or_insert_function(
        builder.module, kind, "llvm.masked.store.v4f64.p0v4f64"
    )
    builder.call(function, [vector, pointer, INDEX(8), mask])


def _in_memory(builder, values):
    """Return a function of i for the vector with values[i] everywhere, loaded where it is used.

    An instruction takes it from memory. As a constant it would be fetched by two instructions
    more, and that at each use, since there are not registers enough for all of them. The
    compiler does not see through the assembly, which is empty.
    """
    kind = ir.ArrayType(VECTOR, len(values))
    vectors = ir.Constant(kind, [constant(VECTOR, value) for value in values])
    data = cgutils.global_constant(builder, "vectors", vectors)
    same = ir.FunctionType(data.type, [data.type])
    hidden = builder.asm(same, "", "=r,0", [data], side_effect=False)
    return lambda i: builder.load(builder.gep(hidden, [INDEX(0), INDEX(i)]), align=8)


def exponential(builder, x):
    """exp(x) of a vector, x <= 0: see ``rows.exp_in_place``."""
    of = _in_memory(builder, EXP_VALUES)
    small, shift = of(SMALLEST), of(SHIFT)
    too_small = builder.fcmp_ordered("<", x, small)
    held = builder.select(too_small, small, x)
    rounded = multiply_add(builder, held, of(SLOPE), shift)
    bits = builder.add(builder.bitcast(rounded, BITS), constant(BITS, EXPONENT_OF_ONE))
    power = builder.bitcast(builder.shl(bits, constant(BITS, EXPONENT_AT)), VECTOR)
    k = builder.fsub(rounded, shift)
    r = multiply_add(builder, k, of(HIGH), held)
    r = multiply_add(builder, k, of(LOW), r)
    square = builder.fmul(r, r)
    odd, even = of(FIRST), of(FIRST + 1)  # two chains: each multiply-add waits for the one before
    for i in range(FIRST + 2, len(EXP_VALUES), 2):
        odd = multiply_add(builder, odd, square, of(i))
        even = multiply_add(builder, even, square, of(i + 1))
    p = multiply_add(builder, odd, r, even)
    return builder.select(too_small, constant(VECTOR, 0.0), builder.fmul(p, power))
