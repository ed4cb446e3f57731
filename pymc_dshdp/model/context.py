"""PyMC's order of arguments: results first, the model by keyword or from the context."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import pymc as pm

__all__ = ["model_in_context", "results_first"]

Function = TypeVar("Function", bound=Callable[..., Any])


def model_in_context(model: pm.Model | None) -> pm.Model:
    """Return the model given, or that of the context.

    Raises
    ------
    TypeError
        If it is no model, or if none is given outside a context.
    """
    if model is None:
        try:
            return pm.modelcontext(None)
        except TypeError:
            raise TypeError(
                "there is no model: pass it by keyword, model=model, or call within 'with model:'"
            ) from None
    if not isinstance(model, pm.Model):
        raise TypeError(f"model must be a pymc.Model, received {type(model).__name__}")
    return model


def results_first(function: Function) -> Function:
    """Refuse a model in the place of the result, before Python counts the arguments."""

    @functools.wraps(function)
    def checked(*args, **kwargs):
        if args and isinstance(args[0], pm.Model):
            name = function.__name__
            raise TypeError(
                f"{name} takes the result first and the model by keyword, {name}(result, "
                f"model=model), as PyMC does; received a {type(args[0]).__name__} first"
            )
        return function(*args, **kwargs)

    return cast(Function, checked)
