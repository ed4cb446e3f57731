"""Emission families: one a file, found by importing every module of this package."""

from importlib import import_module
from pkgutil import iter_modules

from pymc_dshdp.emissions.base import Family, Parameter, families, register

__all__ = ["Family", "Parameter", "families", "register"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
