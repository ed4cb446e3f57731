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
    """

    name: str
    kappa: Any
    pi_bar: Any
    varies: bool

    def transition_matrices(self, states):
        """P = diag(kappa) + (1 - kappa) pi_bar among some states, (draws, K, K)."""
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

    kappa = None
    if record.kappa != "none":
        kappa = stored("kappa", "self-persistence").transpose("chain", "draw", dim)
    rows = stored("pi_bar", "switching rows").transpose("chain", "draw", dim, dim_to)
    return DrawnTransitions(record.prior, kappa, rows, record.kappa == "varies")
