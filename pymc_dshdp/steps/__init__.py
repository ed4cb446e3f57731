"""Step methods: gather arrays from the point, call kernels, return a new point. No maths."""

from pymc_dshdp.steps.conjugate import ConjugateStep
from pymc_dshdp.steps.direct_assignment import DSBlockGibbs
from pymc_dshdp.steps.grid_rho import GridRhoStep
from pymc_dshdp.steps.nuts import ConditionalNUTS
from pymc_dshdp.steps.slice_emission import SliceEmissionStep
from pymc_dshdp.steps.weak_limit import WeakLimitFFBS

__all__ = [
    "ConditionalNUTS",
    "ConjugateStep",
    "DSBlockGibbs",
    "GridRhoStep",
    "SliceEmissionStep",
    "WeakLimitFFBS",
]
