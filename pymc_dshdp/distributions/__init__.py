"""Random variables of the priors: hidden states, weights, transition rows, self-persistence.

They differ from PyMC's own in two ways. Draws are made in log space, because Dirichlet
parameters of 1e-100 are ordinary here (see ``kernels/random.py``); and a coordinate that has
underflowed to exactly 0 is left out of the log-density, which would otherwise be infinite.
"""

from pymc_dshdp.distributions.finite_mixture import (
    ActiveStates,
    ActiveStatesRV,
    ActiveWeights,
    ActiveWeightsRV,
)
from pymc_dshdp.distributions.path import HiddenPath, HiddenPathRV, PossiblePath, PossiblePathRV
from pymc_dshdp.distributions.persistence import (
    SelfPersistence,
    SelfPersistenceRV,
    StickyPersistence,
    StickyPersistenceRV,
)
from pymc_dshdp.distributions.weights import (
    StickFractions,
    StickFractionsRV,
    SymmetricWeights,
    SymmetricWeightsRV,
    TransitionRows,
    TransitionRowsRV,
    stick_breaking_weights,
)

__all__ = [
    "ActiveStates",
    "ActiveStatesRV",
    "ActiveWeights",
    "ActiveWeightsRV",
    "HiddenPath",
    "HiddenPathRV",
    "PossiblePath",
    "PossiblePathRV",
    "SelfPersistence",
    "SelfPersistenceRV",
    "StickFractions",
    "StickFractionsRV",
    "StickyPersistence",
    "StickyPersistenceRV",
    "SymmetricWeights",
    "SymmetricWeightsRV",
    "TransitionRows",
    "TransitionRowsRV",
    "stick_breaking_weights",
]
