"""Types of the arguments of public functions."""

from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

__all__ = ["Point", "RandomSource", "Result", "Scalar", "SomeResult", "Tensor"]


class Tensor(Protocol):
    """A node of a PyTensor graph: a random variable, shared data or an expression of them."""

    @property
    def owner(self) -> Any:
        """What computes it."""

    @property
    def type(self) -> Any:
        """Its dtype and static shape."""


class Result(Protocol):
    """What ``pm.sample`` returns: groups by name (``InferenceData`` or ``DataTree``)."""

    def __getitem__(self, name: str, /) -> Any:
        """Return a group."""

    def __contains__(self, name: Any, /) -> bool:
        """Whether there is such a group."""


SomeResult = TypeVar("SomeResult", bound=Result)
Scalar: TypeAlias = float | Tensor
Point: TypeAlias = dict[str, np.ndarray]
RandomSource: TypeAlias = int | np.random.Generator | None
