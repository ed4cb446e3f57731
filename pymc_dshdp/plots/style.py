"""Colours that most kinds of colour vision tell apart, axes and the states to draw."""

from typing import NamedTuple

import numpy as np

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.alignment import aligned
from pymc_dshdp.analysis.result import Hidden, state_labels
from pymc_dshdp.kernels.segmentations import occupancies

__all__ = [
    "COLOURS",
    "Drawn",
    "aligned_states",
    "axes",
    "date_axis",
    "legend_of_states",
    "state_colours",
]

# Okabe & Ito (2008), the darker ones first.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
LEGEND = 10


def state_colours(n_states):
    """Give each state a colour, by its number: seven hues in five shades, then grey.

    Returns
    -------
    ndarray of shape (n_states, 3)
    """
    from matplotlib.colors import to_rgb

    base = np.array([to_rgb(colour) for colour in COLOURS])
    light, lighter = 0.45 * base + 0.55, 0.25 * base + 0.75
    shades = np.concatenate([base, light, 0.55 * base, lighter, 0.3 * base])
    out = np.full((max(n_states, len(shades)), 3), 0.75)
    out[: len(shades)] = shades
    return out[:n_states]


def axes(ax, figsize=(8.0, 3.0)):
    """Return ``ax``, or new axes in a figure of their own."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=figsize, layout="constrained")
    return ax


def date_axis(ax, times):
    """Label the time axis shortly where times are dates."""
    if np.asarray(times).dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(maxticks=9)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))


class Drawn(NamedTuple):
    """An aligned result and its states.

    Attributes
    ----------
    idata : arviz.InferenceData or xarray.DataTree
    hidden : Hidden
    labels : ndarray of shape (L,)
    occupied : ndarray of shape (S, L)
        Which draws occupy which states.
    """

    idata: object
    hidden: Hidden
    labels: np.ndarray
    occupied: np.ndarray

    @property
    def main(self):
        """States that at least half of the draws occupy."""
        return np.flatnonzero(self.occupied.mean(axis=0) >= 0.5)


def aligned_states(idata, states):
    """Align a result unless it is, and read its states."""
    idata, hidden = aligned(idata, states)
    sizes, _ = occupancies(hidden.paths(), hidden.n_states)
    labels = state_labels(group(idata, "posterior"), hidden)
    return Drawn(idata, hidden, labels, sizes > 0)


def legend_of_states(ax, drawn):
    """Put the colours of the first main states beside the axes."""
    from matplotlib.patches import Patch

    colours = state_colours(drawn.hidden.n_states)
    shown = drawn.main[:LEGEND]
    patches = [Patch(color=colours[k], label=str(drawn.labels[k])) for k in shown]
    if len(drawn.main) > LEGEND:
        patches.append(Patch(color="none", label=f"... {len(drawn.main)} in all"))
    ax.legend(
        handles=patches,
        title="state",
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        handlelength=1.0,
    )
