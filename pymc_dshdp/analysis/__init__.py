"""Analysis of results: reads InferenceData or DataTree, and never touches a step."""

from pymc_dshdp.analysis.metrics import align_to, hamming_distance
from pymc_dshdp.analysis.predict import held_out_log_likelihood
from pymc_dshdp.analysis.summary import label_invariant

__all__ = ["align_to", "hamming_distance", "held_out_log_likelihood", "label_invariant"]
