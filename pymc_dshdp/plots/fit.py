"""Pictures of how a model fits: densities of the states, fitted values, distances of chains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
from pytensor.graph.traversal import ancestors

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.draws import PosteriorDraws
from pymc_dshdp.analysis.numbering import match_states
from pymc_dshdp.analysis.result import find_hidden
from pymc_dshdp.analysis.summaries import central_levels
from pymc_dshdp.graph.walks import concrete_shape
from pymc_dshdp.kernels.segmentations import occupancies
from pymc_dshdp.model.context import model_in_context
from pymc_dshdp.plots.series import data_of
from pymc_dshdp.plots.style import (
    COLOURS,
    aligned_states,
    axes,
    date_axis,
    legend_of_states,
    sequence_of,
    state_colours,
    times_of,
)
from pymc_dshdp.typing import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_chain_distances", "plot_densities", "plot_fit"]

DRAWS = 200
POINTS = 200
BINS = 40
MOST_VALUES = 60  # of counts, that have a bar each


def plot_densities(
    idata: Result,
    data: str | None = None,
    *,
    model: pm.Model | None = None,
    channel: Any = None,
    states: str | None = None,
    prob: float | None = None,
    ax: Axes | None = None,
) -> Any:
    """Draw the densities that the states give to an observation, over the histogram of the data.

    The density of state k is weighted by the share of the time that is spent there, so that the
    densities add up to that of an observation at any time: the black line, which the histogram
    should follow. Lines are posterior means over up to 200 draws, bands central intervals.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Result of ``pm.sample``; it is aligned first unless ``align`` has been.
    data : str, optional
        A variable of ``observed_data``. Default: the only one that has the shape of z.
    model : pymc.Model, optional
        The model of the posterior. Default: that of the context.
    channel : optional
        Which of several series the data are: a label of their last coordinate, or a position where
        that has none. The others are taken as missing, so that the densities are marginal.
    states : str, optional
        The hidden-state variable, where there are several.
    prob : float, optional
        Probability of the central intervals. Default: ArviZ's, ``rcParams["stats.ci_prob"]``.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If the data cannot be found, are several series of which none was named, or if their density
        depends on more than the states and the parameters, such as covariates.

    Examples
    --------
    >>> ax = dshdp.plot_densities(aligned, model=model, prob=0.9)
    """
    _, levels = central_levels(prob)
    drawn = aligned_states(idata, states)
    hidden = drawn.hidden
    name, values, columns = data_of(drawn.idata, hidden, data)
    series, values, label = _one_series(name, values, columns, channel)
    seen = values[np.isfinite(values)]
    grid, edges, discrete = _grid(group(drawn.idata, "observed_data").get(name), seen)
    thin = max(1, hidden.z.shape[0] * hidden.z.shape[1] // DRAWS)
    batch = len(hidden.dims) - 1
    at = (1,) * batch + (len(grid),)
    other = _without_others(model, hidden, name, at)
    if series is None:
        other[name] = grid.reshape(at)
    else:
        other[name] = np.ma.masked_all((*at, len(columns)), dtype=grid.dtype)
        other[name][..., series] = grid.reshape(at)
    lengths = None if batch else [len(grid)]
    draws = PosteriorDraws(drawn.idata, model, other, lengths, states=hidden.name, thin=thin)
    paths = hidden.z[:, ::thin].values.reshape(np.prod(draws.draws_shape), -1)
    sizes, _ = occupancies(np.ascontiguousarray(paths), hidden.n_states)
    shares = sizes / sizes.sum(axis=1, keepdims=True)
    tables = [draws.table(draws.point(*index)) for index in np.ndindex(draws.draws_shape)]
    found = np.exp(tables) * shares[:, None]

    ax = axes(ax, (6.0, 3.4))
    ax.hist(seen, edges, density=True, color="0.85", label="data")
    marker: dict[str, Any] = {}
    if discrete and len(grid) <= MOST_VALUES:
        marker = {"marker": ".", "ms": 4}
    colours = state_colours(hidden.n_states)
    for k in drawn.main:
        low, high = np.quantile(found[:, :, k], levels, axis=0)
        ax.fill_between(grid, low, high, color=colours[k], alpha=0.25, lw=0)
        ax.plot(grid, found[:, :, k].mean(axis=0), color=colours[k], lw=1.5, **marker)
    ax.plot(grid, found.sum(axis=2).mean(axis=0), color="black", lw=1.0, ls="--")
    unit = "probability" if discrete else "density"
    ax.set(xlabel=label, ylabel=f"{unit} (dashed: all states)", xlim=(edges[0], edges[-1]))
    ax.spines[["top", "right"]].set_visible(False)
    legend_of_states(ax, drawn)
    return ax


def _one_series(name, values, columns, channel):
    """(position or None, values, name) of the series of data (T,) or (T, C) to draw."""
    if values.ndim == 1:
        if channel is not None:
            raise ValueError(f"{name!r} is one series, received channel={channel!r}")
        return None, values, name
    found = [i for i, label in enumerate(columns) if label == channel]
    if len(found) != 1:
        named = ", ".join(map(repr, np.asarray(columns).tolist()))
        raise ValueError(
            f"{name!r} has {values.shape[1]} series, of which one is drawn: channel must be one of "
            f"{named}; received {channel!r}"
        )
    return found[0], values[:, found[0]], f"{name}, {channel}"


def _without_others(model, hidden, name, at):
    """Declare missing what else was observed of the states: it integrates to one."""
    model = model_in_context(model)
    z, n = model[hidden.name], len(at)
    others = [rv for rv in model.observed_RVs if rv.name != name and z in set(ancestors([rv]))]
    values = {rv.name: concrete_shape(model.rvs_to_values[rv]) for rv in others}
    shape = hidden.z.shape[2:]
    return {
        other: np.ma.masked_all((*at, *found[n:]))
        for other, found in values.items()
        if found[:n] == shape
    }


def _grid(observed, seen):
    """Choose where densities are drawn and edges of the histogram; whether the data are counts."""
    low, high = seen.min(), seen.max()
    if observed is not None and observed.dtype.kind in "iub":
        step = max(1, -(-int(high - low + 1) // MOST_VALUES))
        edges = np.arange(low, high + 1 + step, step) - 0.5
        return np.arange(int(low), int(high) + 1), edges, True
    return np.linspace(low, high, POINTS), np.linspace(low, high, BINS + 1), False


def plot_fit(
    idata: Result,
    data: str | None = None,
    *,
    channel: Any = None,
    states: str | None = None,
    sequence: int = 0,
    prob: float | None = None,
    ax: Axes | None = None,
) -> Any:
    """Draw a series with the mean and the band of its replicates: the fitted values.

    At time t the replicates are draws of y_t given its state and the parameters of each posterior
    draw, which ``pm.sample_posterior_predictive`` makes. Were the model right, the band would hold
    the share ``prob`` of the observations.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Result of ``pm.sample``, with the group ``posterior_predictive``.
    data : str, optional
        A variable of ``observed_data``. Default: the only one that has the shape of z.
    channel : optional
        Which of several series the data are: a label of their last coordinate, or a position where
        that has none.
    states : str, optional
        The hidden-state variable, where there are several.
    sequence : int
        Which sequence to draw, where there are several.
    prob : float, optional
        Probability of the band. Default: ArviZ's, ``rcParams["stats.ci_prob"]``.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If there are no replicates, or the data are several series of which none was named.

    Examples
    --------
    >>> with model:
    ...     made = pm.sample_posterior_predictive(idata, extend_inferencedata=True)
    >>> ax = dshdp.plot_fit(idata, prob=0.9)
    """
    share, levels = central_levels(prob)
    hidden = find_hidden(idata, states)
    name, values, columns = data_of(idata, hidden, data)
    series, values, shown_as = _one_series(name, values, columns, channel)
    predicted = group(idata, "posterior_predictive") if "posterior_predictive" in idata else {}
    if name not in predicted:
        raise ValueError(
            f"the result has no replicates of {name!r}; make them with "
            "pm.sample_posterior_predictive(idata, model=model, extend_inferencedata=True)"
        )
    at = sequence_of(hidden, sequence)
    replicates = predicted[name].values
    replicates = replicates if series is None else replicates[..., series]
    replicates = replicates.reshape(-1, len(values))[:, at]
    times, label = times_of(hidden, at)
    ax = axes(ax)
    low, high = np.quantile(replicates, levels, axis=0)
    shown = f"{share:.0%} of replicates"
    ax.fill_between(times, low, high, color=COLOURS[0], alpha=0.25, lw=0, step="mid", label=shown)
    ax.plot(times, replicates.mean(axis=0), color=COLOURS[0], lw=1.5, label="their mean")
    ax.plot(times, values[at], ".", color="0.3", ms=3, label="observed")
    date_axis(ax.xaxis, times)
    ax.set(xlabel=label, ylabel=shown_as, xlim=(times[0], times[-1]))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return ax


def plot_chain_distances(
    idata: Result, *, states: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw how far apart the segmentations of each two chains are.

    The expected share of time points labelled differently by a draw of one chain and one of the
    other, after matching their labels; by two draws of one chain on the diagonal. Chains that
    found different segmentations are darker beside the diagonal than on it.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Result of ``pm.sample``, aligned or not.
    states : str, optional
        The hidden-state variable, where there are several.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> ax = dshdp.plot_chain_distances(idata)
    """
    hidden = find_hidden(idata, states)
    distances = match_states(idata, [hidden]).chains.distances
    chains = hidden.z["chain"].values
    ax = axes(ax, (4.6, 3.8))
    image = ax.imshow(distances, vmin=0.0, vmax=1.0, cmap="cividis_r")
    for (a, b), distance in np.ndenumerate(distances):
        colour = "white" if distance > 0.6 else "black"
        ax.text(b, a, f"{distance:.3f}", ha="center", va="center", color=colour, fontsize=8)
    ax.set_xticks(range(len(chains)), chains)
    ax.set_yticks(range(len(chains)), chains)
    ax.set(xlabel="chain", ylabel="chain")
    ax.figure.colorbar(image, ax=ax, shrink=0.85, label="share of time labelled differently")
    return ax
