"""Transition models: what a kind declares, which steps own it, and its values for the kernels."""

from pymc_dshdp.distributions import StickyPersistenceRV
from pymc_dshdp.graph.walks import has_op
from pymc_dshdp.transitions.declared import TransitionPrior
from pymc_dshdp.transitions.disentangled import DSHDP, HDP
from pymc_dshdp.transitions.fixed import FixedRows, FixedTransitions
from pymc_dshdp.transitions.found import ROWS, TransitionModel, find_transitions, register
from pymc_dshdp.transitions.logistic import LogisticPersistence
from pymc_dshdp.transitions.matrices import Transitions
from pymc_dshdp.transitions.sticky import StickyHDP, StickyRows
from pymc_dshdp.transitions.weighted import WeightedRows

__all__ = [
    "DSHDP",
    "HDP",
    "FixedTransitions",
    "LogisticPersistence",
    "StickyHDP",
    "TransitionModel",
    "TransitionPrior",
    "Transitions",
    "find_transitions",
    "register",
]


@register(ROWS)
def _rows(model, name, pi_init, pi_bar, kappa, index):
    """Choose by what is random in it: ``pm.do`` turns one kind into another."""
    kind = StickyRows if has_op(kappa, StickyPersistenceRV) else WeightedRows
    found = kind(model, name, pi_init, pi_bar, kappa, index)
    return (
        found if found.gamma is not None else FixedRows(model, name, pi_init, pi_bar, kappa, index)
    )
