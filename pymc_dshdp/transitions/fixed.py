"""The parametric hidden Markov model: rows of given Dirichlet parameters."""

import numpy as np
from numpy.typing import ArrayLike
from pytensor.graph.basic import Variable

from pymc_dshdp.graph.readers import point_function
from pymc_dshdp.graph.walks import unwrap
from pymc_dshdp.kernels import transitions as kernels
from pymc_dshdp.transitions.declared import exchangeable
from pymc_dshdp.transitions.declared_rows import RowsPrior
from pymc_dshdp.transitions.logistic import LogisticPersistence
from pymc_dshdp.transitions.rows import DirichletRows, RowsUpdate
from pymc_dshdp.typing import Tensor

__all__ = ["FixedRows", "FixedTransitions"]


class FixedTransitions(RowsPrior):
    r"""Parametric hidden Markov model: rows :math:`\bar\pi_j \sim \mathrm{Dir}(a_j)` of given a.

    Parameters
    ----------
    name, n_states, dims
        As for ``DSHDP``.
    concentration : number or array, optional
        a, scalar, of shape (L,) (one row for all) or (L, L). Default 1, flat. Where it is 0 the
        transition is impossible: ``np.triu(np.ones((L, L)))`` never goes back.
    initial_concentration : number or array, optional
        Of pi_init, scalar or of shape (L,). Default 1. Sequences never begin where it is 0.
    kappa : number, array, tensor or LogisticPersistence, optional
        Self-persistence as for ``DSHDP``, :math:`P = \mathrm{diag}(\kappa) + (1 - \kappa)
        \bar\pi`. Default 0, so that P is pi_bar.

    Attributes
    ----------
    kappa, pi_bar, pi_init
        The tensors declared.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, the value received and what to give instead.

    Examples
    --------
    Stages that follow each other and never go back:

    >>> with pm.Model(coords={"stage": ["new", "worn", "failing"]}):
    ...     prior = dshdp.FixedTransitions(
    ...         "hmm",
    ...         dims="stage",
    ...         concentration=[[1, 1, 0], [0, 1, 1], [0, 0, 1]],
    ...         initial_concentration=[1, 0, 0],
    ...     )
    ...     z = dshdp.HiddenStates("z", prior, length=100)
    """

    fewest_states = 1  # one state is no hidden Markov model, but what it is compared with

    def __init__(
        self,
        name: str,
        *,
        n_states: int | None = None,
        dims: str | None = None,
        concentration: ArrayLike = 1.0,
        initial_concentration: ArrayLike = 1.0,
        kappa: ArrayLike | Tensor | LogisticPersistence | None = None,
    ) -> None:
        super().__init__(name, n_states, dims)
        L = self.n_states
        rows = self._concentrations("concentration", concentration, (L, L))
        first = self._concentrations("initial_concentration", initial_concentration, (L,))
        kappa = None if kappa is None else self._checked_kappa(kappa)

        self.constrained = bool((rows == 0.0).any() or (first == 0.0).any())
        self.tied = not (exchangeable(rows > 0.0) and exchangeable(first > 0.0))
        self.declare_coords()
        if kappa is not None:
            self._declare_kappa(kappa)
        self._declare_rows(1.0, rows, first)

    def _concentrations(self, argument, given, shape):
        where = f"{self.name}: {argument}"
        if isinstance(given, Variable):
            raise TypeError(f"{where} must be a number or an array, received {given}")
        values = np.asarray(given, dtype="float64")
        if values.shape not in {shape[i:] for i in range(len(shape) + 1)}:
            raise ValueError(
                f"{where} must be a scalar or an array that fits {shape}, received shape "
                f"{values.shape}"
            )
        if not np.all((values >= 0) & np.isfinite(values)):
            raise ValueError(f"{where} must be finite and not negative, received {given!r}")
        full = np.broadcast_to(values, shape).copy()
        empty = np.flatnonzero(np.atleast_2d(full).sum(axis=1) == 0.0)
        if empty.size:
            row = f"row {empty[0]}" if full.ndim > 1 else "all of them"
            raise ValueError(f"{where} must leave a state to go to, received zeros in {row}")
        return full


class FixedRows(DirichletRows):
    """Rows P_j ~ Dir(a_j) of given a."""

    def update(self, model, step):
        """Return what draws the path and the rows."""
        return FixedRowsUpdate(model, self, step)


class FixedRowsUpdate(RowsUpdate):
    """Draw the rows of ``FixedTransitions``: P_j ~ Dir(a_j + N_j), for given a."""

    rows_alike = False

    def __init__(self, model, transitions, step):
        super().__init__(model, transitions, step)
        nodes = [rv.owner.inputs[2] * unwrap(rv.owner.inputs[3]) for rv in self.rvs]
        base = dict(zip(self.rvs, point_function(nodes)({}), strict=True))
        rows = np.broadcast_to(base[transitions.pi_bar], 2 * (transitions.n_states,))
        self._base = np.vstack([base[transitions.pi_init].reshape(1, -1), rows])

    def row_concentrations(self, point):
        """Return a of pi_init and each row; shape (L + 1, L)."""
        return self._base

    def __call__(self, point, switches, persistences, rng):
        """Draw the rows given the path counts; returns them by the name of their variables."""
        return self.row_values(kernels.draw_dirichlet_rows(rng, self._base + switches))
