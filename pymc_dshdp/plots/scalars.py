"""Pictures of single numbers: hyperparameters and the number of occupied states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.result import find_hidden, read_posterior, read_records
from pymc_dshdp.kernels.segmentations import occupancies
from pymc_dshdp.plots.style import COLOURS, axes
from pymc_dshdp.typing import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_hyperparameters", "plot_occupied"]

ROLES = ("gamma", "alpha", "s", "phi", "eta")
PRIOR_DRAWS = 4000


def plot_hyperparameters(
    idata: Result,
    *,
    model: pm.Model | None = None,
    var_names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Any:
    """Draw the posterior of hyperparameters over their prior.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
    model : pymc.Model, optional
        Where to draw the prior from; default: the group ``prior`` of the result, and no prior
        where there is none.
    var_names : list of str, optional
        Scalar variables of the posterior. Default: gamma, alpha, s, phi and eta of every prior.
    ax : array of matplotlib.axes.Axes, optional
        One for each variable.

    Returns
    -------
    ndarray of matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If a variable is not a scalar of the posterior, or there are too few axes.

    Examples
    --------
    >>> ax = dshdp.plot_hyperparameters(idata, model=model)
    """
    posterior = read_posterior(idata)
    scalars = [str(n) for n, v in posterior.items() if set(v.dims) == {"chain", "draw"}]
    if var_names is None:
        records = read_records(idata).values()
        named = (r.variables.get(role) for role in ROLES for r in records)
        var_names = [name for name in dict.fromkeys(named) if name in scalars]
    unknown = [name for name in var_names if name not in scalars]
    if unknown or not var_names:
        raise ValueError(
            f"var_names must be scalars of the posterior, {scalars}; received {var_names}"
        )
    if ax is None:
        import matplotlib.pyplot as plt

        columns = min(4, len(var_names))
        rows = -(-len(var_names) // columns)
        _, ax = plt.subplots(rows, columns, figsize=(8.0, 2.1 * rows), layout="constrained")
    panels = np.atleast_1d(ax)
    if panels.size < len(var_names):
        raise ValueError(
            f"ax must have {len(var_names)} axes, one for each name; got {panels.size}"
        )
    priors = _prior_draws(idata, model, var_names)
    for panel in panels.ravel()[len(var_names) :]:
        panel.set_axis_off()
    for i, (panel, name) in enumerate(zip(panels.ravel(), var_names, strict=False)):
        values = posterior[name].values.ravel()
        low, high = np.quantile(values, [0.0, 0.995])
        if name in priors:
            low, high = _ends(priors[name], values, low, high)
        edges = np.linspace(low, high, 31)
        width = edges[1] - edges[0]
        counts, _ = np.histogram(values, edges)
        panel.stairs(
            counts / values.size / width, edges, fill=True, color=COLOURS[0], label="posterior"
        )
        if name in priors:
            counts, _ = np.histogram(priors[name], edges)
            panel.stairs(
                counts / priors[name].size / width, edges, color=COLOURS[5], lw=1.5, label="prior"
            )
        panel.set_title(name, fontsize=9)
        panel.set_yticks([])
        panel.spines[["top", "right", "left"]].set_visible(False)
        if i == 0:
            panel.legend(frameon=False, fontsize=7)
    return panels


def _ends(prior, values, low, high):
    """Find the ends of an axis for a posterior and its prior, to the ends of a bounded support.

    An end beyond which the prior has nothing is told by its draws: the outermost of thousands are
    then no farther out than one in twenty. Of a long tail the axis has what is near the posterior.
    """
    inner, outer = np.quantile(prior, [0.05, 0.95])
    middle = outer - inner
    first, last = prior.min(), prior.max()
    bounded = last - outer < 0.2 * middle
    high = max(last, values.max()) if bounded else max(high, min(outer, 4 * high))
    if first >= 0.0 and first < 0.05 * (high - first):
        return 0.0, high
    return (min(first, low) if inner - first < 0.2 * middle else min(low, inner)), high


def _prior_draws(idata, model, names):
    """Draws of the prior by name, where they can be had."""
    if model is not None:
        known = [name for name in names if name in model.named_vars]
        drawn = pm.draw([model[name] for name in known], draws=PRIOR_DRAWS, random_seed=0)
        return {name: np.ravel(x) for name, x in zip(known, drawn, strict=True)}
    if "prior" not in idata:
        return {}
    prior = group(idata, "prior")
    return {name: prior[name].values.ravel() for name in names if name in prior}


def _numbers_before(idata, model, states, n_states):
    """Numbers of occupied states in draws of the prior, where they can be had; else None."""
    if model is not None:
        paths = pm.draw(model[states], draws=PRIOR_DRAWS // 4, random_seed=0)
    elif "prior" in idata and states in group(idata, "prior"):
        paths = group(idata, "prior")[states].values
        paths = paths.reshape(paths.shape[0] * paths.shape[1], -1)
    else:
        return None
    sizes, _ = occupancies(np.ascontiguousarray(paths.reshape(len(paths), -1)), n_states)
    return (sizes > 0).sum(axis=1)


def _smoothed(path):
    """Mean over a twentieth of the draws around each, over fewer at the ends."""
    width = 2 * (len(path) // 40) + 1
    window = np.ones(width)
    return np.convolve(path, window, "same") / np.convolve(np.ones(len(path)), window, "same")


def plot_occupied(
    idata: Result,
    *,
    model: pm.Model | None = None,
    states: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the number of occupied states of every draw, by chain, and its distribution.

    The bold line of a chain is its mean over a twentieth of the draws around each.
    At the side the posterior of that number is bars, and its prior an outline; of a mixture of
    finite mixtures the posterior of the number of active states is a line of dots.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
    model : pymc.Model, optional
        Where to draw the prior from; default: the group ``prior`` of the result, and no prior
        where there is none.
    states : str, optional
        The hidden-state variable, where there are several.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
        The truncation is a dashed line where it is near.

    Examples
    --------
    >>> ax = dshdp.plot_occupied(idata)
    """
    hidden = find_hidden(idata, states)
    sizes, _ = occupancies(hidden.paths(), hidden.n_states)
    occupied = (sizes > 0).sum(axis=1).reshape(hidden.z.shape[:2])
    ax = axes(ax, (8.0, 2.6))
    chains = hidden.z["chain"].values
    for c, path in enumerate(occupied):
        shift = 0.12 * (c - (len(chains) - 1) / 2)  # so that chains do not hide each other
        colour = COLOURS[c % len(COLOURS)]
        ax.plot(path + shift, lw=0.5, alpha=0.3, color=colour)
        ax.plot(_smoothed(path) + shift, lw=1.5, color=colour, label=f"chain {chains[c]}")
    low, high = occupied.min(), occupied.max()
    ax.set_ylim(low - 0.8, high + 0.8)
    if hidden.n_states <= high + 1:
        ax.axhline(hidden.n_states, color="black", ls="--", lw=1)
        ax.set_ylim(low - 0.8, hidden.n_states + 0.8)
    from matplotlib.ticker import MaxNLocator

    ax.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set(xlabel="draw", ylabel="occupied states", xlim=(0, max(1, occupied.shape[1] - 1)))
    side = ax.inset_axes((1.01, 0.0, 0.13, 1.0), sharey=ax)
    numbers = np.arange(low, high + 1)
    share = [(occupied == k).mean() for k in numbers]
    side.barh(numbers, share, height=0.8, color="0.6")
    every, top = np.arange(hidden.n_states + 1), max(share)
    before = _numbers_before(idata, model, hidden.name, hidden.n_states)
    if before is not None:
        outline = [(before == k).mean() for k in every]
        edges = np.append(every, len(every)) - 0.5
        side.stairs(
            outline, edges, orientation="horizontal", color=COLOURS[5], lw=1.0, label="prior"
        )
        top = max(top, *outline[low : high + 1])
    for name in hidden.record.own("n_active") & set(group(idata, "posterior")):
        active = group(idata, "posterior")[name].values
        dots = [(active == k).mean() for k in every]
        side.plot(dots, every, ".:", color="black", ms=3, lw=0.7, label="active")
        top = max(top, *dots[low : high + 1])
    if side.get_legend_handles_labels()[0]:
        side.legend(frameon=False, fontsize=6, loc="upper right", borderaxespad=0.1)
    side.set_xlim(0, 1.05 * top)
    side.tick_params(labelleft=False)
    side.set(xlabel="share", xticks=[0, round(top, 1)])
    side.spines[["top", "right"]].set_visible(False)
    if len(chains) <= len(COLOURS):
        legend = ax.legend(
            loc="upper left", ncols=len(chains), frameon=False, fontsize=7, borderaxespad=0.1
        )
        for line in legend.get_lines():
            line.set_linewidth(2.0)
    return ax
