"""The transitions of a result: what a record says of the variables in a posterior."""

from typing import Any, NamedTuple

import numpy as np

__all__ = ["DrawnTransitions", "drawn_transitions"]


class DrawnTransitions(NamedTuple):
    """The transition model of a hidden-state variable, in the draws of a result.

    Attributes
    ----------
    name : str
    kappa : xarray.DataArray or None
        Self-persistence probabilities (chain, draw, state), their mean over time where they depend
        on it; None where there are none.
    pi_bar : xarray.DataArray
        Switching rows (chain, draw, state, state_to), their mean over time where they depend on it.
    varies : bool
        Whether kappa depends on time.
    groups : str or None
        Dimension of the groups, which kappa and pi_bar then have after the draws.
    """

    name: str
    kappa: Any
    pi_bar: Any
    varies: bool
    groups: str | None = None

    @property
    def group_labels(self):
        """Labels of the groups; [None] where there are none."""
        if self.groups is None:
            return [None]
        return self.pi_bar[self.groups].values.tolist()

    def of_group(self, g):
        """Transitions of the g-th group alone; these where there are none."""
        if self.groups is None:
            return self
        kappa, pi_bar = (
            None if x is None else x.isel({self.groups: g}, drop=True)
            for x in (self.kappa, self.pi_bar)
        )
        return DrawnTransitions(self.name, kappa, pi_bar, self.varies)

    def transition_matrices(self, states):
        """P = diag(kappa) + (1 - kappa) pi_bar of one group among some states, (draws, K, K)."""
        rows = self.pi_bar.values[:, :, states][:, :, :, states]
        rows = rows.reshape(-1, len(states), len(states)).copy()
        if self.kappa is not None:
            kappa = self.kappa.values[:, :, states].reshape(-1, len(states))
            rows *= (1.0 - kappa)[:, :, None]
            diagonal = np.arange(len(states))
            rows[:, diagonal, diagonal] += kappa
        return rows


def drawn_transitions(posterior, record):
    """Read the transitions of a posterior.

    Parameters
    ----------
    posterior : xarray.Dataset
    record : StatesRecord

    Returns
    -------
    DrawnTransitions

    Raises
    ------
    ValueError
        If the switching rows, or the self-persistence that there is, are not in the posterior.
    """
    dim, dim_to = record.dims

    def stored(role, what):
        name = record.variables[role]
        if name not in posterior:
            raise ValueError(
                f"{name!r} is not in the posterior, the {what} of {record.states!r}; keep it in "
                "var_names of pm.sample"
            )
        return posterior[name]

    along = () if record.groups is None else (record.groups,)
    kappa = None
    if record.kappa != "none":
        kappa = stored("kappa", "self-persistence").transpose("chain", "draw", *along, dim)
    rows = stored("pi_bar", "switching rows").transpose("chain", "draw", *along, dim, dim_to)
    return DrawnTransitions(record.prior, kappa, rows, record.kappa == "varies", record.groups)
