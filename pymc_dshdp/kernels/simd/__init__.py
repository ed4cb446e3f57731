"""Arithmetic of the kernels' inner loops: vector instructions, or plain loops that do the same.

Each operation stands twice: in ``rows``, ``products``, ``tables`` and ``scalars`` as vector
instructions that are handed to the compiler directly, in ``plain`` as a loop. They agree up to
rounding. Which of the two the kernels use is decided once, by ``switch.uses_vectors``, when they
are imported.
"""

from pymc_dshdp.kernels.simd.switch import (
    LOST,
    NEGLIGIBLE,
    TALL,
    WIDTH,
    uses_vectors,
)

if uses_vectors():
    from pymc_dshdp.kernels.simd.products import count_below, multiply_flat, multiply_tall
    from pymc_dshdp.kernels.simd.rows import (
        exp_in_place,
        exponentiate,
        scale_to,
        weigh,
        weigh_in_doubt,
    )
    from pymc_dshdp.kernels.simd.scalars import binary_exponent, log_in_place
    from pymc_dshdp.kernels.simd.tables import normal_table
else:
    from pymc_dshdp.kernels.simd.plain import (
        binary_exponent,
        count_below,
        exp_in_place,
        exponentiate,
        log_in_place,
        multiply_flat,
        multiply_tall,
        normal_table,
        scale_to,
        weigh,
        weigh_in_doubt,
    )

__all__ = [
    "LOST",
    "NEGLIGIBLE",
    "TALL",
    "WIDTH",
    "binary_exponent",
    "count_below",
    "exp_in_place",
    "exponentiate",
    "log_in_place",
    "multiply_flat",
    "multiply_tall",
    "normal_table",
    "scale_to",
    "uses_vectors",
    "weigh",
    "weigh_in_doubt",
]
