"""Runs of chains: summaries while they run, stores, resuming, other machines, progress."""
