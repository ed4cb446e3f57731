"""Rows that are Dirichlet given the rest: what is drawn of them given the path."""

import numpy as np

from pymc_dshdp.distributions import SelfPersistenceRV, TransitionRowsRV
from pymc_dshdp.graph.walks import has_op, role_of, unwrap
from pymc_dshdp.kernels import transitions as kernels
from pymc_dshdp.kernels.chain import kappa_rows
from pymc_dshdp.transitions.found import TransitionModel, refuse_outside_dependents
from pymc_dshdp.transitions.logistic import design_and_coefficients
from pymc_dshdp.transitions.update import TransitionUpdate

__all__ = ["DirichletRows", "RowValues", "RowsUpdate"]


class DirichletRows(TransitionModel):
    """Rows pi_bar_j ~ Dir(alpha beta), pi_init among them, and the self-persistence beside them.

    Attributes
    ----------
    alpha, beta : nodes
        Concentration and weights of the rows; free random variables, constants, or (alpha of
        the sticky prior) an expression.
    gamma : node or None
        None where beta is given (``FixedTransitions``).
    active : random variable or None
        Which states are active, where they are a finite mixture.
    fractions : random variable or None
        Stick fractions v.
    phi, eta : nodes or None
        None where kappa is not ``SelfPersistence``.
    sticky : tuple of two nodes, or None
        (phi, s) where kappa is ``StickyPersistence``.
    design, coefficients : node, random variable; or None
        Of a kappa by ``LogisticPersistence``, where its coefficients are free.
    """

    collapses = True
    design = None

    def __init__(self, model, name, pi_init, pi_bar, kappa, index):
        super().__init__(model, name, pi_init, pi_bar, kappa, index)
        for rv in (pi_init, pi_bar):
            if rv not in model.free_RVs or not has_op(rv, TransitionRowsRV):
                raise ValueError(
                    f"The transition rows {rv} of {name!r} must be free random variables declared "
                    "by a prior of this package; undo the pm.do or pm.observe on them"
                )
        self.grouped = pi_bar.type.ndim > 2
        self.alpha, self.beta = (unwrap(v) for v in pi_bar.owner.inputs[2:])
        if has_op(kappa, SelfPersistenceRV):
            self.phi, self.eta = (unwrap(v) for v in kappa.owner.inputs[2:])
        found = design_and_coefficients(model, kappa)
        if found is not None:
            self.design, self.coefficients = found

    def transition_variables(self, model):
        """Free variables that the samplers of the states draw with the path."""
        return [v for v in (self.pi_bar, self.pi_init) if v in model.free_RVs]

    def persistence_variables(self, model):
        """Free variables that ``GridRhoStep`` draws."""
        if self.coefficients is not None:
            return [self.coefficients]
        if role_of(self.kappa) != "kappa" or self.kappa not in model.free_RVs:
            return []
        found = [self.phi, self.eta, self.kappa]
        return [v for v in found if v is not None and v in model.free_RVs]

    def children(self):
        """Map each variable of the prior to those that may depend on it."""
        states = {*self.states, *self.observed}
        return {
            self.pi_bar: states,
            self.pi_init: states,
            self.kappa: states,
            self.phi: {self.kappa},
            self.eta: {self.kappa},
            self.coefficients: states,
        }


class RowValues:
    """``row_values(rows)``: values of pi_init and pi_bar by their names.

    Rows are of shape (R + 1, L), pi_init in row 0, then those of each group.
    """

    def __init__(self, model, transitions):
        self._pi_init = model.rvs_to_values[transitions.pi_init]
        self._pi_bar = model.rvs_to_values[transitions.pi_bar]
        self._shape = transitions.pi_bar.type.shape

    def __call__(self, rows):
        """See the class."""
        return {
            self._pi_init.name: rows[0].astype(self._pi_init.dtype, copy=False),
            self._pi_bar.name: rows[1:].reshape(self._shape).astype(self._pi_bar.dtype, copy=False),
        }


class RowsUpdate(TransitionUpdate):
    """What all Dirichlet rows have: their values, and the counts of their path.

    Subclasses say whether all rows have the same Dirichlet parameters (``rows_alike``), and
    whether their weights are in an order, by which the states are numbered (``ordered``).

    Parameters
    ----------
    model : pymc.Model
    transitions : DirichletRows
    step : str
        Name of the step, for messages.
    """

    ordered = False

    def __init__(self, model, transitions, step):
        super().__init__(model, transitions, step)
        if transitions.grouped and transitions.varies:
            raise ValueError(
                f"{step}: the self-persistence kappa of {transitions.label!r} varies with time and "
                "its rows with groups; give kappa a row for each group"
            )
        refuse_outside_dependents(model, transitions, self.rvs, step)
        self.row_values = RowValues(model, transitions)
        self._varies = transitions.varies
        self._n_states = transitions.n_states
        self._n_rows = transitions.n_groups * transitions.n_states

    def persistence_and_rows(self, point):
        """(logit of kappa, pi_bar), of shape (R,), or (..., T, L), and (R, L); R = G L rows."""
        logit, pi_bar = self.transitions.kappa_and_rows(point)
        if self._varies:
            return logit, pi_bar
        if logit.size < self._n_rows:  # a constant, that no group has for itself
            logit = np.broadcast_to(logit, pi_bar.shape[:-1])
        return logit.ravel(), pi_bar.reshape(self._n_rows, -1)

    def split(self, point, counts, paths, rng):
        """Draw (n, W) given the paths; see ``TransitionUpdate``."""
        logit, pi_bar = self.persistence_and_rows(point)
        if not self._varies:
            return kernels.split_counts(rng, counts, logit, pi_bar)
        persistences = np.zeros(len(pi_bar), np.int64)
        for path, lengths in paths.paths(point):
            rows = kappa_rows(logit, path.shape)
            kernels.varying_persistence_counts(
                rng, path.ravel(), lengths, rows, pi_bar, persistences
            )
        return kernels.switch_counts(counts, persistences), persistences
