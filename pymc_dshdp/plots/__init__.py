"""Pictures of results: one function each, with ``ax=``, returning axes."""

from pymc_dshdp.plots.fit import plot_chain_distances, plot_densities, plot_fit
from pymc_dshdp.plots.scalars import plot_hyperparameters, plot_occupied
from pymc_dshdp.plots.series import plot_forecast, plot_raster, plot_series
from pymc_dshdp.plots.transitions import (
    plot_coassignment,
    plot_dwell_times,
    plot_transition_effect,
    plot_transitions,
)

__all__ = [
    "plot_chain_distances",
    "plot_coassignment",
    "plot_densities",
    "plot_dwell_times",
    "plot_fit",
    "plot_forecast",
    "plot_hyperparameters",
    "plot_occupied",
    "plot_raster",
    "plot_series",
    "plot_transition_effect",
    "plot_transitions",
]
