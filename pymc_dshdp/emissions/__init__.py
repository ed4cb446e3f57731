"""Emission families: one a file, found by importing every module of this package."""

from importlib import import_module
from pkgutil import iter_modules

from pymc_dshdp.emissions.base import Family, Parameter, families, register
from pymc_dshdp.emissions.conditional import Conditional, conditionals, register_conditional

__all__ = [
    "Conditional",
    "Family",
    "Parameter",
    "conditionals",
    "families",
    "register",
    "register_conditional",
]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
