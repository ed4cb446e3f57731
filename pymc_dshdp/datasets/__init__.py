"""Small real data, each with its source and licence, and the paper's simulated scenarios."""

from pymc_dshdp.datasets.recordings import (
    earthquakes,
    economy,
    elephant,
    rat_choices,
    reaction_times,
    spike_counts,
)
from pymc_dshdp.datasets.scenarios import (
    GaussianEmission,
    MultinomialEmission,
    Series,
    SwitchingModel,
    different_self_persistence,
    different_transitions,
)

__all__ = [
    "GaussianEmission",
    "MultinomialEmission",
    "Series",
    "SwitchingModel",
    "different_self_persistence",
    "different_transitions",
    "earthquakes",
    "economy",
    "elephant",
    "rat_choices",
    "reaction_times",
    "spike_counts",
]
