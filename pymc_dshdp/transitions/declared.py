"""What the priors on transitions share: names, dimensions, what results are read from."""

from typing import Any

import numpy as np
import pymc as pm

from pymc_dshdp.transitions.dimensions import group_dim, state_dims

__all__ = ["TransitionPrior", "exchangeable", "tag"]


def tag(rv, name, role, *kind):
    """Mark a variable as part of a prior; plain strings survive cloning, copying and pickling.

    That of states says too how their transition model is found (``TransitionPrior.found_as``).
    """
    rv.tag.dshdp = (name, role, *kind)
    return rv


def exchangeable(possible):
    """Whether a renumbering of the states changes nothing in what is possible.

    Parameters
    ----------
    possible : ndarray of bool, shape (L,), (L, L) or (G, L, L)
    """
    if possible.ndim == 1:
        return bool((possible == possible[0]).all())
    L = possible.shape[-1]
    own = possible[..., np.arange(L), np.arange(L)]
    others = possible[..., ~np.eye(L, dtype=bool)]
    return bool((own == own[..., :1]).all() and (others == others[..., :1]).all())


class TransitionPrior:
    """A transition model as it is declared: names, dimensions, and what the hidden path is given.

    A subclass checks its arguments first, so that a refused prior leaves the model as it was. It
    then declares its variables, named by ``prefixed`` and with the dimensions ``dims``, and sets
    ``pi_init``, ``pi_bar`` and, where they are needed, ``kappa`` and ``index``: P_t = diag(kappa_t)
    + (1 - kappa_t) pi_bar_g(t) from t - 1 to t. See "How to add a transition kind" in the
    documentation for developers.

    Parameters
    ----------
    name : str
        Prefix of its variables.
    n_states : int or None
    dims : str or None
        A coordinate of the model, instead of ``n_states``.
    groups : str, int or None
        A coordinate of the model, or a number: groups whose transitions differ.

    Attributes
    ----------
    name : str
        With that of the model around it: ``rat1::hmm`` in ``pm.Model(name="rat1")``.
    groups : str or None
        Dimension of the groups.
    n_groups : int
        G; 1 without groups.
    n_states : int
        L.
    dims : tuple of str
        (state, state_to).
    pi_init : tensor of shape (L,)
    pi_bar : tensor of shape (L, L), or (G, L, L) with ``index`` or ``groups``
    kappa : tensor of shape (L,), (T, L) or (n_sequences, T, L), or None; (G, L) with ``groups``
    index : tensor of int, shape (T,) or (n_sequences, T), or None
        g(t), which of the G matrices leads to time t. With ``groups`` the states say it.
    weights : str or None
        Kind of the weights of the states, where L is a truncation.
    recorded : dict of tensor
        The variables of the model that results are read from, by their role; ``pi_bar`` and
        ``pi_init`` must be among them, and ``kappa`` if there is any. Of rows or a kappa that
        vary with time, these are the averages over time.
    constrained : bool
        Whether transitions may be impossible, so that not every path is a start.
    tied : bool
        Whether what is impossible tells the states apart; see ``exchangeable``.
    fewest_states : int
        The least L that can be declared.
    found_as : str
        How steps and readers find it again; see ``transitions.found.register``. "matrices" is any
        graph, whose parameters are left to NUTS.

    Examples
    --------
    >>> class Cycle(dshdp.TransitionPrior):
    ...     def __init__(self, name, n_states):
    ...         super().__init__(name, n_states, None)
    ...         self.declare_coords()
    ...         stay, eye = pm.Beta(self.prefixed("stay"), 9.0, 1.0), np.eye(n_states)
    ...         P = stay * eye + (1.0 - stay) * np.roll(eye, 1, axis=1)
    ...         self.pi_bar = pm.Deterministic(self.prefixed("P"), P, dims=self.dims)
    ...         start = self.prefixed("start")
    ...         self.pi_init = pm.Dirichlet(start, np.ones(n_states), dims=self.dims[0])
    ...         self.recorded = {"pi_init": self.pi_init, "pi_bar": self.pi_bar}
    >>> with pm.Model():
    ...     z = dshdp.HiddenStates("z", Cycle("hmm", 4), length=50)
    """

    found_as = "matrices"
    constrained = True
    tied = False
    fewest_states = 2
    pi_init: Any = None
    pi_bar: Any = None
    kappa: Any = None
    index: Any = None
    weights: Any = None

    def __init__(
        self,
        name: str,
        n_states: int | None,
        dims: str | None,
        groups: str | int | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"name must be a non-empty string, received {name!r}")
        context = pm.modelcontext(None)
        self.name = context.name_for(name)
        self.model = context.root
        dim, dim_to, self.n_states, self._missing_coords = state_dims(
            self.model, self.name, n_states, dims, self.fewest_states
        )
        self.dims = (dim, dim_to)
        self.groups, self.n_groups, missing = group_dim(self.model, self.name, groups)
        if self.groups in self.dims:
            raise ValueError(
                f"{self.name}: groups and dims must be different dimensions, received {dims!r} "
                "for both"
            )
        self._missing_coords |= missing
        self.recorded: dict[str, Any] = {}

    def __repr__(self):
        return f"{type(self).__name__}({self.name!r}, n_states={self.n_states})"

    @property
    def by_group(self):
        """Dimensions and shape that groups put before those of the states."""
        return ((), ()) if self.groups is None else ((self.groups,), (self.n_groups,))

    @property
    def varies(self):
        """Whether kappa depends on time."""
        return self.kappa is not None and self.kappa.type.ndim > 1 + len(self.by_group[0])

    def prefixed(self, role: str) -> str:
        """Name of a variable of this prior."""
        return f"{self.name}_{role}"

    def declare_coords(self) -> None:
        """Add the coordinates of the states and groups that the model does not have yet."""
        for dim, values in self._missing_coords.items():
            self.model.add_coord(dim, values)

    def recorded_names(self) -> dict[str, str]:
        """Names of the variables that results are read from, by their role; numbers have none."""
        known = self.model.named_vars
        return {
            role: node.name
            for role, node in self.recorded.items()
            if node is not None and node.name is not None and known.get(node.name) is node
        }
