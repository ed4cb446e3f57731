"""Bayesian nonparametric hidden Markov models in PyMC: the disentangled sticky HDP-HMM."""

from pymc_dshdp import datasets
from pymc_dshdp._compat import register_steps
from pymc_dshdp.analysis import (
    align,
    align_to,
    check,
    compare_held_out,
    filter_states,
    forecast,
    hamming_distance,
    held_out_log_likelihood,
    label_invariant,
    segments,
    self_persistence_probability,
    smooth,
    state_probabilities,
    summary,
    transition_effect,
    transition_matrix,
    viterbi,
)
from pymc_dshdp.model.matrix_priors import (
    MatrixNormalInverseWishart,
    NormalInverseWishart,
    SwitchingVAR,
)
from pymc_dshdp.model.states import HiddenStates
from pymc_dshdp.plots import (
    plot_chain_distances,
    plot_coassignment,
    plot_densities,
    plot_dwell_times,
    plot_fit,
    plot_forecast,
    plot_hyperparameters,
    plot_occupied,
    plot_raster,
    plot_series,
    plot_transition_effect,
    plot_transitions,
)
from pymc_dshdp.runs.choosing import choose_states
from pymc_dshdp.runs.distributed import sample_distributed
from pymc_dshdp.runs.resume import continue_sampling
from pymc_dshdp.runs.state_summary import StateSummary
from pymc_dshdp.steps import (
    ConditionalNUTS,
    ConjugateStep,
    DSBlockGibbs,
    GridRhoStep,
    SliceEmissionStep,
    WeakLimitFFBS,
)
from pymc_dshdp.transitions import (
    DSHDP,
    HDP,
    FixedTransitions,
    LogisticPersistence,
    StickyHDP,
    TransitionPrior,
    Transitions,
)

__all__ = [
    "ConditionalNUTS",
    "ConjugateStep",
    "DSBlockGibbs",
    "DSHDP",
    "FixedTransitions",
    "GridRhoStep",
    "HDP",
    "HiddenStates",
    "LogisticPersistence",
    "MatrixNormalInverseWishart",
    "NormalInverseWishart",
    "SliceEmissionStep",
    "StateSummary",
    "StickyHDP",
    "SwitchingVAR",
    "TransitionPrior",
    "Transitions",
    "WeakLimitFFBS",
    "ZarrTrace",
    "align",
    "align_to",
    "check",
    "choose_states",
    "compare_held_out",
    "continue_sampling",
    "datasets",
    "filter_states",
    "forecast",
    "hamming_distance",
    "held_out_log_likelihood",
    "label_invariant",
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
    "sample_distributed",
    "segments",
    "self_persistence_probability",
    "smooth",
    "state_probabilities",
    "summary",
    "transition_effect",
    "transition_matrix",
    "viterbi",
]
__version__ = "0.1.0"

register_steps([WeakLimitFFBS, GridRhoStep, ConjugateStep, SliceEmissionStep, ConditionalNUTS])


def __dir__():
    return __all__


def __getattr__(name):
    if name == "ZarrTrace":  # importing it imports zarr, where that is installed
        from pymc_dshdp.runs.zarr_trace import ZarrTrace

        return ZarrTrace
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
