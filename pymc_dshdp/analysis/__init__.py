"""Analysis of results: reads InferenceData or DataTree, and never touches a step."""

from pymc_dshdp.analysis.alignment import align
from pymc_dshdp.analysis.checks import check
from pymc_dshdp.analysis.comparison import compare_held_out
from pymc_dshdp.analysis.covariate_effect import transition_effect
from pymc_dshdp.analysis.decode import (
    filter_states,
    self_persistence_probability,
    smooth,
    state_probabilities,
    viterbi,
)
from pymc_dshdp.analysis.forecasting import forecast
from pymc_dshdp.analysis.held_out import held_out_log_likelihood
from pymc_dshdp.analysis.invariant import label_invariant
from pymc_dshdp.analysis.metrics import align_to, hamming_distance
from pymc_dshdp.analysis.segment_table import segments
from pymc_dshdp.analysis.summaries import summary
from pymc_dshdp.analysis.transition_table import transition_matrix

__all__ = [
    "align",
    "align_to",
    "check",
    "compare_held_out",
    "filter_states",
    "forecast",
    "hamming_distance",
    "held_out_log_likelihood",
    "label_invariant",
    "segments",
    "self_persistence_probability",
    "smooth",
    "state_probabilities",
    "summary",
    "transition_effect",
    "transition_matrix",
    "viterbi",
]
