"""Colours that most kinds of colour vision tell apart, axes and the states to draw."""

from typing import NamedTuple

import numpy as np

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.alignment import aligned
from pymc_dshdp.analysis.report import number
from pymc_dshdp.analysis.result import Hidden, state_labels
from pymc_dshdp.kernels.segmentations import occupancies

__all__ = [
    "COLOURS",
    "Drawn",
    "aligned_states",
    "axes",
    "date_axis",
    "legend_of_states",
    "parameters_of",
    "sequence_of",
    "state_colours",
    "times_of",
]

# Okabe & Ito (2008), the darker ones first.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
LEGEND = 10
PARAMETERS = 2


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


def date_axis(axis, times):
    """Label an axis of time shortly where times are dates."""
    if np.asarray(times).dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(maxticks=9)
        axis.set_major_locator(locator)
        axis.set_major_formatter(ConciseDateFormatter(locator))


def sequence_of(hidden, sequence):
    """Where a sequence lies along the path of all, a slice.

    Raises
    ------
    ValueError
        If there is no such sequence.
    """
    if not 0 <= sequence < len(hidden.lengths):
        raise ValueError(f"sequence must be 0 to {len(hidden.lengths) - 1}, received {sequence!r}")
    start = int(hidden.lengths[:sequence].sum())
    return slice(start, start + int(hidden.lengths[sequence]))


def times_of(hidden, at):
    """Coordinates of the times of a sequence where they are ordered, else positions; their name."""
    dim = hidden.dims[-1]
    size = at.stop - at.start
    if dim in hidden.z.coords and not str(dim).startswith(f"{hidden.name}_dim_"):
        values = hidden.z[dim].values
        values = values[at] if len(hidden.dims) == 1 else values
        if values.dtype.kind in "iufM" and np.all(values[1:] > values[:-1]):
            return values, str(dim)
    return np.arange(size), "time"


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


def parameters_of(drawn):
    """Posterior mean of each state's own numbers: up to two arrays of shape (L,) by name.

    Of the parameters that have one number for each state, over the draws that occupy it.
    """
    posterior, hidden = group(drawn.idata, "posterior"), drawn.hidden
    ours = hidden.record.own("active", "beta", "pi_init", "pi_bar", "matrices", "kappa")
    names = [
        name
        for name, v in posterior.items()
        if set(v.dims) == {"chain", "draw", hidden.dim} and name not in ours
    ]
    weights = drawn.occupied / np.maximum(drawn.occupied.sum(axis=0), 1)
    return {
        name: (posterior[name].values.reshape(weights.shape) * weights).sum(axis=0)
        for name in names[:PARAMETERS]
    }


def legend_of_states(ax, drawn, parameters=None):
    """Put the colours of the first main states beside the axes, with numbers of each by name."""
    from matplotlib.patches import Patch

    colours = state_colours(drawn.hidden.n_states)
    shown = drawn.main[:LEGEND]
    patches = [
        Patch(
            color=colours[k],
            label=", ".join(
                [
                    str(drawn.labels[k]),
                    *(f"{name} {number(x[k])}" for name, x in (parameters or {}).items()),
                ]
            ),
        )
        for k in shown
    ]
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
