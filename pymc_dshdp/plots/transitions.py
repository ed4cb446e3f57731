"""Pictures of how states follow each other and how long they last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_dshdp.analysis.consensus import thinned
from pymc_dshdp.analysis.covariate_effect import TransitionEffect
from pymc_dshdp.analysis.result import find_hidden, find_prior
from pymc_dshdp.analysis.summaries import central_levels, of_group, transitions_frame
from pymc_dshdp.plots.style import aligned_states, axes, date_axis, state_colours, times_of
from pymc_dshdp.typing import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "plot_coassignment",
    "plot_dwell_times",
    "plot_transition_effect",
    "plot_transitions",
]

GRID = 400  # times of the co-assignment matrix
PANELS = 6
WITH_INTERVALS = 6  # states, up to which a transition matrix has room for them
INTERVAL_POINTS = 46.0  # width of an interval
WITH_NUMBERS = 12


def plot_coassignment(idata: Result, *, states: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the posterior probability that two times are in the same state.

    It does not depend on the numbering. At most 400 evenly spaced times are compared.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
    states : str, optional
        The hidden-state variable, where there are several.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> ax = dshdp.plot_coassignment(idata)
    """
    hidden = find_hidden(idata, states)
    paths = hidden.paths()
    T = paths.shape[1]
    grid = (np.arange(min(T, GRID)) * T) // min(T, GRID)
    chains, draws = hidden.z.shape[:2]
    some = paths[thinned(chains, draws, GRID).ravel()][:, grid]
    together = np.zeros((len(grid), len(grid)))
    for path in some:
        together += path[:, None] == path[None, :]
    if len(hidden.lengths) == 1:
        times, label = times_of(hidden, slice(0, T))
    else:
        times, label = np.arange(T), "time, the sequences end to end"
    ax = axes(ax, (4.6, 4.0))
    extent = (times[0], times[-1], times[-1], times[0])
    image = ax.imshow(
        together / len(some), vmin=0, vmax=1, cmap="cividis", extent=extent, aspect="equal"
    )
    ax.figure.colorbar(image, ax=ax, label="probability of the same state", shrink=0.85)
    date_axis(ax.xaxis, times)
    date_axis(ax.yaxis, times)
    ax.set(xlabel=label, ylabel=label)
    return ax


def plot_transitions(
    idata: Result,
    *,
    states: str | None = None,
    group: Any = None,
    prob: float | None = None,
    ax: Axes | None = None,
) -> Any:
    """Draw the posterior mean of the transition matrix between the main states.

    Each row is over the draws that occupy its state. Up to 6 states with intervals, where the axes
    have room for them, up to 12 with numbers; colours are on a square-root scale, so that rare
    transitions show. Where the prior has groups, each has a panel, and its rows are over the draws
    in which it occupies the state.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Result of ``pm.sample``; it is aligned first unless ``align`` has been.
    states : str, optional
        The hidden-state variable, where there are several.
    prob : float, optional
        Probability of the central intervals. Default: ArviZ's, ``rcParams["stats.ci_prob"]``.
    ax : matplotlib.axes.Axes, optional
        For one group, where there are several.

    Returns
    -------
    matplotlib.axes.Axes or ndarray of them

    Raises
    ------
    ValueError
        If there is no such group, or ``ax`` is given without ``group`` where there are several.

    Examples
    --------
    >>> ax = dshdp.plot_transitions(aligned)
    """
    _, level = central_levels(prob)
    drawn = aligned_states(idata, states)
    side = np.clip(1.2 + 0.75 * len(drawn.main), 3.4, 6.0)
    prior = find_prior(drawn.idata, drawn.hidden)
    if prior.groups is None or group is not None:
        ax = axes(ax, (side + 1.0, side))
        _draw_matrix(ax, drawn, prior, _chosen_group(prior, group), level)
        return ax
    if ax is not None:
        raise ValueError(f"ax is for one group; say which, group=... of {prior.group_labels}")
    import matplotlib.pyplot as plt

    shown = prior.group_labels[:PANELS]
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    size = (side + 1.0) * columns, side * rows
    _, panels = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for panel in panels.ravel()[len(shown) :]:
        panel.set_axis_off()
    for g, label in enumerate(shown):
        panel = panels.ravel()[g]
        _draw_matrix(panel, drawn, prior, g, level)
        panel.set_title(str(label), fontsize=9)
    return panels


def _chosen_group(prior, group):
    """Position of a group, by its label; 0 where there are none."""
    labels = prior.group_labels
    if group is None and prior.groups is None:
        return 0
    if prior.groups is None or group not in labels:
        known = "there are none" if prior.groups is None else f"it must be one of {labels}"
        raise ValueError(f"group is a group of {prior.name!r}, and {known}; received {group!r}")
    return labels.index(group)


def _draw_matrix(ax, drawn, prior, g, level):
    from matplotlib.colors import PowerNorm

    main = drawn.main
    K = len(main)
    own, sizes, _ = of_group(drawn.hidden, prior, g)
    table = transitions_frame(own, sizes > 0, main, drawn.labels[main], level)
    mean, low, high = (table[name].values.reshape(K, K) for name in ("mean", "lower", "upper"))
    cell = min(ax.bbox.size) * 72.0 / ax.figure.dpi / K
    image = ax.imshow(mean, cmap="cividis", norm=PowerNorm(0.5, 0.0, 1.0))
    if K <= WITH_NUMBERS:
        for j, k in np.ndindex(K, K):
            text = f"{mean[j, k]:.2f}"
            if K <= WITH_INTERVALS and cell >= INTERVAL_POINTS:
                text += f"\n[{low[j, k]:.2f}, {high[j, k]:.2f}]"
            colour = "black" if mean[j, k] > 0.3 else "white"
            ax.text(k, j, text, ha="center", va="center", color=colour, fontsize=7)
    step = max(1, -(-K // 20))
    ticks = np.arange(0, K, step)
    ax.set_xticks(ticks, drawn.labels[main[ticks]])
    ax.set_yticks(ticks, drawn.labels[main[ticks]])
    ax.set(xlabel="to state", ylabel="from state")
    ax.figure.colorbar(image, ax=ax, shrink=0.85, label="probability (square-root scale)")


def plot_transition_effect(
    effect: TransitionEffect, *, label: Any = None, ax: Axes | None = None
) -> Axes:
    """Draw transition probabilities against a covariate, posterior means and their intervals.

    Parameters
    ----------
    effect : TransitionEffect
        What ``transition_effect`` returns.
    label : optional
        One main state, by its coordinate: the probabilities to go from it to each main state.
        Default: the probability to stay, of each main state.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        If ``effect`` is something else, or has no such state.

    Examples
    --------
    >>> with pm.Model(coords={"state": range(3)}) as by_year:
    ...     x = pm.Data("x", (years - 1950) / 50)
    ...     stay = dshdp.LogisticPersistence(x[:, None])
    ...     z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", dims="state", kappa=stay), length=107)
    ...     rate = pm.Gamma("rate", 2.0, 0.1, dims="state")
    ...     y = pm.Poisson("counts", rate[z], observed=counts)
    ...     effect = dshdp.transition_effect(pm.sample(), "x")
    >>> ax = dshdp.plot_transition_effect(effect)
    """
    if not isinstance(effect, TransitionEffect):
        raise TypeError(
            "effect must be what transition_effect returns, received "
            f"{type(effect).__name__}; call transition_effect(idata, over, model=model) first"
        )
    frame, all_labels = effect.stay, effect.draws[effect.draws.dims[-2]].values
    main = list(frame.index.unique("state"))
    if label is not None:
        if label not in main:
            raise ValueError(f"label must be one of the main states {main}, received {label!r}")
        frame = effect.transitions.xs(label, level="from")
    ax = axes(ax, (5.5, 3.4))
    colours = state_colours(len(all_labels))
    for to in main:
        line = frame.xs(to, level=-1)
        colour = colours[np.flatnonzero(all_labels == to)[0]]
        x = line.index.values
        ax.plot(x, line["mean"], color=colour, marker="o" if len(x) < 8 else None, label=str(to))
        ax.fill_between(x, line["lower"], line["upper"], color=colour, alpha=0.2, lw=0)
    said = "to stay" if label is None else f"to go from {label}"
    ax.set(xlabel=effect.over, ylabel=f"probability {said}", ylim=(-0.02, 1.02))
    ax.legend(title="state" if label is None else "to state", frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_dwell_times(
    idata: Result,
    *,
    label: Any = None,
    group: Any = None,
    states: str | None = None,
    ax: Axes | None = None,
) -> Any:
    """Draw how long the states last, against the geometric distribution that the model implies.

    The histogram is of the runs of the state in the posterior draws, those cut by the ends of the
    data included; the line is the mean over the draws that occupy the state of (1 - P_jj)
    P_jj^(d - 1), with P_jj = kappa_j + (1 - kappa_j) pi_bar_jj. Runs much more alike in length than
    the line call for another model.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Result of ``pm.sample``; it is aligned first unless ``align`` has been.
    label : optional
        One state, by its coordinate. Default: a panel for each of the first 6 main states.
    group : optional
        The group whose dwell times are drawn, by its coordinate, where the prior has groups.
    states : str, optional
        The hidden-state variable, where there are several.
    ax : matplotlib.axes.Axes, optional
        For one state.

    Returns
    -------
    matplotlib.axes.Axes or ndarray of them

    Raises
    ------
    ValueError
        If there is no such state or group, or ``ax`` is given without ``label``.

    Examples
    --------
    >>> ax = dshdp.plot_dwell_times(aligned, label=0)
    """
    drawn = aligned_states(idata, states)
    prior = find_prior(drawn.idata, drawn.hidden)
    if prior.groups is not None and group is None:
        raise ValueError(
            f"the dwell times of {drawn.hidden.name!r} differ between groups; say whose are drawn, "
            f"group=... of {prior.group_labels}"
        )
    g = _chosen_group(prior, group)
    if label is None:
        if ax is not None:
            raise ValueError("ax is for one state; say which, label=... received None")
        import matplotlib.pyplot as plt

        chosen = drawn.main[:PANELS]
        columns = min(3, len(chosen))
        rows = -(-len(chosen) // columns)
        _, panels = plt.subplots(
            rows, columns, figsize=(8.0, 2.2 * rows), layout="constrained", squeeze=False
        )
        for panel in panels.ravel()[len(chosen) :]:
            panel.set_axis_off()
        for panel, k in zip(panels.ravel(), chosen, strict=False):
            _draw_dwell(panel, drawn, prior, g, k)
        return panels
    found = np.flatnonzero(drawn.labels == label)
    if len(found) != 1:
        raise ValueError(f"label must be one of {drawn.labels.tolist()}, received {label!r}")
    ax = axes(ax, (4.5, 3.0))
    _draw_dwell(ax, drawn, prior, g, found[0])
    return ax


def _draw_dwell(ax, drawn, prior, g, k):
    hidden = drawn.hidden
    lengths = _run_lengths(hidden, g, k)
    own, sizes, _ = of_group(hidden, prior, g)
    P = own.transition_matrices(np.array([k]))[:, 0, 0]
    P = P[sizes[:, k] > 0]
    title, label = f"state {drawn.labels[k]}", f"dwell time ({_unit(hidden)})"
    if lengths.size:
        longest = max(10, int(np.quantile(lengths, 0.99)))
        width = max(1, longest // 25)
        edges = np.arange(1, longest + 2 * width, width) - 0.5
        shares, _ = np.histogram(lengths, edges)
        ax.bar(
            edges[:-1] + width / 2,
            shares / lengths.size / width,
            width,
            color=state_colours(hidden.n_states)[k],
            edgecolor="white",
            lw=0.4,
        )
        d = np.arange(1, longest + 1)
        stay = np.quantile(P, (np.arange(200) + 0.5) / 200)  # enough for the mean over draws
        implied = ((1 - stay) * stay ** (d[:, None] - 1)).mean(axis=1)
        ax.plot(d, implied, color="black", lw=1.3, label="geometric")
        ax.set_xlim(0.5, edges[-1])
        title += f", mean of all runs {lengths.mean():.1f}"
        beyond = (lengths > edges[-1]).mean()
        if beyond > 0:
            label += f"\n{beyond:.1%} are longer, up to {lengths.max():,}"
    ax.set_title(title, fontsize=9)
    ax.set(xlabel=label, ylabel="probability")
    ax.spines[["top", "right"]].set_visible(False)


def _unit(hidden):
    """Say what a dwell time counts: steps of the coordinate, where it has steps of one size."""
    times, name = times_of(hidden, slice(0, hidden.z.shape[-1]))
    steps = np.unique(np.diff(times))
    if name == "time" and name not in hidden.z.coords or len(steps) != 1:
        return "time points"
    [step] = steps
    if times.dtype.kind == "M":
        known = {pd.Timedelta(1, unit): f"{unit}s" for unit in ("day", "hour", "minute", "second")}
        return known.get(pd.Timedelta(step), f"steps of {pd.Timedelta(step)}")
    return name if step == 1 else f"steps of {step:g} {name}"


def _run_lengths(hidden, g, k):
    """Lengths of the runs of a state over some draws, in the sequences of a group."""
    paths, pieces = hidden.of_group(g)
    paths, cuts = paths[thinned(*hidden.z.shape[:2]).ravel()], np.cumsum(pieces)
    out = []
    for path in paths:
        inside = np.concatenate([[False], path == k, [False]])
        starts = np.flatnonzero(inside[1:] & ~inside[:-1])
        stops = np.flatnonzero(~inside[1:] & inside[:-1])
        inner = cuts[:-1][(path == k)[cuts[:-1] - 1] & (path == k)[cuts[:-1]]]
        starts, stops = np.sort(np.append(starts, inner)), np.sort(np.append(stops, inner))
        out.append(stops - starts)
    return np.concatenate(out)
