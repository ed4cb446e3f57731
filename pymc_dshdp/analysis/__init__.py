"""Analysis of results: reads InferenceData or DataTree, and never touches a step."""

from pymc_dshdp.analysis.summary import label_invariant

__all__ = ["label_invariant"]
