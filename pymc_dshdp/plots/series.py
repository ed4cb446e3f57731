"""Pictures over time: data and states, states of every draw, forecasts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.decode import state_probabilities
from pymc_dshdp.plots.style import (
    COLOURS,
    aligned_states,
    axes,
    date_axis,
    legend_of_states,
    parameters_of,
    sequence_of,
    state_colours,
    times_of,
)
from pymc_dshdp.typing import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["data_of", "plot_forecast", "plot_raster", "plot_series"]

COLUMNS = 1500  # more than the pixels of a picture
ROWS = 400
LINES = 8  # of several series, more are drawn as an image


def plot_series(
    idata: Result,
    data: ArrayLike | xr.DataArray | None = None,
    *,
    states: str | None = None,
    sequence: int = 0,
    ax: Axes | None = None,
) -> Any:
    """Draw the data in the colours of their states, over the states' posterior probabilities.

    A point has the colour of its most probable state; the band below shows the probabilities of
    all states, so that doubt is visible where colours mix. The legend has the posterior means of
    parameters that are one number for each state, up to two.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Result of ``pm.sample``; it is aligned first unless ``align`` has been.
    data : str or array of shape (T,) or (T, D), optional
        A variable of ``observed_data``, or the values themselves (with the leading shape of z).
        Default: the only observed variable that has the shape of z. Missing values are gaps.
    states : str, optional
        The hidden-state variable, where there are several.
    sequence : int
        Which sequence to draw, where there are several.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If the data or the sequence cannot be found or do not fit.

    Examples
    --------
    >>> ax = dshdp.plot_series(aligned, counts)
    """
    drawn = aligned_states(idata, states)
    hidden = drawn.hidden
    name, values, columns = data_of(idata, hidden, data)
    at = sequence_of(hidden, sequence)
    values = values[at]
    times, label = times_of(hidden, at)
    probabilities = state_probabilities(drawn.idata, states=hidden.name).values
    probabilities = probabilities.reshape(-1, hidden.n_states)[at]
    colours = state_colours(hidden.n_states)

    ax = axes(ax)
    best = colours[probabilities.argmax(axis=1)]
    _draw_data(ax, times, values, columns, best)
    ax.set(xlabel=label, ylabel=name)
    band = ax.inset_axes((0.0, 0.0, 1.0, 0.16), sharex=ax)
    edges = np.linspace(0, len(times), min(len(times), COLUMNS) + 1).astype(int)[:-1]
    shares = np.add.reduceat(probabilities, edges) / np.diff(np.append(edges, len(times)))[:, None]
    used = shares.max(axis=0) > 0
    band.stackplot(times[edges], shares[:, used].T, colors=colours[used], step="mid", linewidth=0)
    band.set(ylim=(0, 1), yticks=[])
    band.tick_params(labelbottom=False, bottom=False)
    band.set_ylabel("P(state)", fontsize=6)
    ax.set_xlim(times[0], times[-1])
    date_axis(ax.xaxis, times)
    legend_of_states(ax, drawn, parameters_of(drawn))
    return ax


def _draw_data(ax, times, values, columns, colours):
    """Draw over the upper part of the axes; the band takes the lowest sixth."""
    if values.ndim == 1 or values.shape[1] == 1:
        values = values.reshape(len(times))
        size = np.clip(4000.0 / len(times), 1.0, 14.0)
        if len(times) <= COLUMNS:
            ax.plot(times, values, color="0.8", lw=0.7, zorder=1)
        ax.scatter(times, values, c=colours, s=size, lw=0, zorder=2, rasterized=True)
        low, high = np.nanmin(values), np.nanmax(values)
    elif values.shape[1] <= LINES:
        scale = np.nanmax(np.abs(values - np.nanmean(values, axis=0)), axis=0)
        offsets = np.arange(values.shape[1])[::-1]
        scaled = (values - np.nanmean(values, axis=0)) / (2.2 * np.where(scale > 0, scale, 1.0))
        size = np.clip(3000.0 / len(times), 0.5, 8.0)
        for column, offset in zip(scaled.T, offsets, strict=True):
            ax.scatter(times, column + offset, c=colours, s=size, lw=0, rasterized=True)
        ax.set_yticks(offsets, columns)
        ax.set_ylim(-0.5 - 0.26 * values.shape[1], values.shape[1] - 0.5)
        return
    else:
        step = max(1, len(times) // COLUMNS)
        extent = (times[0], times[-1], values.shape[1] - 0.5, -0.5)
        image = ax.imshow(values[::step].T, aspect="auto", cmap="Greys", extent=extent)
        scale = ax.inset_axes((1.01, 0.0, 0.015, 0.4))
        ax.figure.colorbar(image, cax=scale, label="value")
        low, high = values.shape[1] - 0.5, -0.5
    span = (high - low) or 1.0
    ax.set_ylim(low - 0.26 * span, high + 0.05 * span)
    inside = [y for y in ax.get_yticks() if min(low, high) <= y + 0.02 * abs(span)]
    ax.set_yticks([y for y in inside if y <= max(low, high) + 0.05 * abs(span)])


def data_of(idata, hidden, data):
    """Name and values, (T, ...), of the data to draw, laid end to end; names of the columns."""
    shape = hidden.z.shape[2:]
    observed = dict(group(idata, "observed_data")) if "observed_data" in idata else {}
    observed |= _with_gaps(observed, group(idata, "posterior"))
    if data is None:
        names = [name for name, v in observed.items() if v.shape[: len(shape)] == shape]
        if len(names) != 1:
            raise ValueError(
                f"data must name an observed variable or be an array that begins with the shape "
                f"{shape} of {hidden.name!r}; the result has {[str(n) for n in names] or 'none'}"
            )
        [data] = names
    name = data if isinstance(data, str) else getattr(data, "name", None) or ""
    if isinstance(data, str):
        if data not in observed:
            raise ValueError(f"data={data!r} is not in observed_data; it has {sorted(observed)}")
        data = observed[data]
    last = getattr(data, "dims", (None,))[-1]
    columns = data[last].values if last in getattr(data, "coords", ()) else None
    values = np.ma.filled(np.ma.asarray(data).astype(float), np.nan)
    if values.shape[: len(shape)] != shape or values.ndim > len(shape) + 1:
        raise ValueError(
            f"data must have the shape {shape} of {hidden.name!r}, and at most one more axis; "
            f"received shape {values.shape}"
        )
    values = values.reshape(int(np.prod(shape)), *values.shape[len(shape) :])
    if columns is None and values.ndim > 1:
        columns = np.arange(values.shape[1])
    return name, values, columns


def _with_gaps(observed, posterior):
    """Series that PyMC keeps in parts because values are missing, NaN where they are.

    ``y`` of the posterior is the series of the data ``y_observed`` only if these are what all its
    draws have in common, in their order; a value that was imputed alike in all draws is told by
    the size of ``y_unobserved``.
    """
    out = {}
    for part, data in observed.items():
        name = str(part).removesuffix("_observed")
        if name == part or name not in posterior:
            continue
        draws = posterior[name].values.reshape(-1, *posterior[name].shape[2:])
        common = (draws == draws[0]).all(axis=0)
        seen, rest = draws[0][common], posterior.get(f"{name}_unobserved")
        if np.array_equal(seen, np.ravel(data)) or (
            rest is not None
            and common.size == data.size + rest[0, 0].size
            and np.isin(np.ravel(data), seen).all()
        ):
            out[name] = np.where(common, draws[0].astype(float), np.nan)
    return out


def plot_raster(
    idata: Result, *, states: str | None = None, sequence: int = 0, ax: Axes | None = None
) -> Axes:
    """Draw the states of evenly spaced draws of every chain as rows of colours.

    Chains that found different segmentations, and times at which draws differ, are seen at once.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Result of ``pm.sample``; it is aligned first unless ``align`` has been.
    states : str, optional
        The hidden-state variable, where there are several.
    sequence : int
        Which sequence to draw, where there are several.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> ax = dshdp.plot_raster(aligned)
    """
    drawn = aligned_states(idata, states)
    hidden = drawn.hidden
    at = sequence_of(hidden, sequence)
    chains, draws = hidden.z.shape[:2]
    rows = min(draws, max(1, ROWS // chains))
    columns = min(at.stop - at.start, COLUMNS)
    chosen = (np.arange(rows) * draws) // rows
    shown = at.start + (np.arange(columns) * (at.stop - at.start)) // columns
    paths = hidden.z.values.reshape(chains, draws, -1)[:, chosen][:, :, shown]
    times, label = times_of(hidden, at)

    ax = axes(ax)
    image = state_colours(hidden.n_states)[paths.reshape(chains * rows, columns)]
    extent = (times[0], times[-1], chains - 0.5, -0.5)
    ax.imshow(image, aspect="auto", interpolation="nearest", extent=extent)
    for edge in range(1, chains):
        ax.axhline(edge - 0.5, color="white", lw=2)
    date_axis(ax.xaxis, times)
    ax.set_yticks(range(chains), hidden.z["chain"].values)
    ax.set(xlabel=label, ylabel="chain, draws from top to bottom")
    legend_of_states(ax, drawn)
    return ax


def plot_forecast(
    forecast: xr.Dataset,
    observed: ArrayLike | xr.DataArray | pd.Series | None = None,
    *,
    ax: Axes | None = None,
) -> Any:
    """Draw a forecast as a fan of its 50%, 80% and 95% central intervals around the median.

    Parameters
    ----------
    forecast : xarray.DataArray or array
        Draws of one future series: a variable of ``forecast``'s result, or an array whose last
        axis is time and all others draws.
    observed : xarray.DataArray, pandas.Series or array of shape (T,), optional
        The series before, drawn in front of it. A forecast along ``horizon`` continues its times
        (the coordinate, or the index of a Series) in steps as the last one. Missing values are
        gaps. Where values were missing, ``observed_data`` has not the whole series;
        ``idata.posterior["y"]`` has, and is taken with its draws: values that differ between them
        were imputed, and are gaps.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        If the forecast or the series before is not one series.

    Examples
    --------
    >>> future = dshdp.forecast(aligned, model=model, horizon=5)
    >>> ax = dshdp.plot_forecast(future["counts"], counts)
    """
    draws, dim = _draws_of_series(forecast)
    future = _coordinate(forecast, dim, None)
    known = None
    if observed is not None:
        observed = _series_before(observed)
        before = np.ma.filled(np.ma.asarray(observed).astype(float), np.nan)
        if before.ndim != 1 or before.size == 0:
            raise ValueError(f"observed must be one series, received shape {before.shape}")
        past = getattr(observed, "dims", ("time",))[0]
        known = _coordinate(observed, past, np.arange(before.size))
        if dim == "horizon" and future is not None:
            step = known[-1] - known[-2] if known.size > 1 else 1
            future, dim = known[-1] + future * step, past
        elif future is None:
            future = known.size + np.arange(draws.shape[1])
    elif future is None:
        future = np.arange(draws.shape[1])
    ax = axes(ax)
    if known is not None:
        ax.plot(known, before, ".-", color="0.35", lw=0.8, ms=3, label="observed")
    for share, alpha in ((0.95, 0.18), (0.8, 0.3), (0.5, 0.45)):
        low, high = np.nanquantile(draws, [(1 - share) / 2, (1 + share) / 2], axis=0)
        ax.fill_between(
            future, low, high, color=COLOURS[0], alpha=alpha, lw=0, label=f"{share:.0%}"
        )
    ax.plot(future, np.nanmedian(draws, axis=0), color=COLOURS[5], lw=1.5, label="median")
    date_axis(ax.xaxis, future)
    ax.set(xlabel=dim, ylabel=getattr(forecast, "name", None))
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return ax


def _series_before(observed):
    """Values of the series before a forecast, with their times where it has them."""
    if isinstance(observed, (xr.Dataset, xr.DataTree, str)):
        raise TypeError(
            "observed must be the values of one series, as idata.observed_data['y'], or "
            "idata.posterior['y'] where values of y are missing; received "
            f"{repr(observed) if isinstance(observed, str) else type(observed).__name__}"
        )
    if isinstance(observed, pd.Series):
        times = observed.index
        times = times.to_timestamp() if isinstance(times, pd.PeriodIndex) else times
        dim = str(times.name or "time")
        return xr.DataArray(observed.to_numpy(float, na_value=np.nan), {dim: times.values}, (dim,))
    if isinstance(observed, xr.DataArray) and {"chain", "draw"} <= set(observed.dims):
        draws = observed.transpose("chain", "draw", ...)
        first = draws[0, 0].astype(float)
        return first.where((draws == draws[0, 0]).all(("chain", "draw")))
    return observed


def _draws_of_series(forecast):
    """Draws of one series, (n, H), and the name of its time dimension."""
    if isinstance(forecast, xr.Dataset):
        raise TypeError(
            f"forecast must be one variable, forecast['...'] of {[str(name) for name in forecast]}"
        )
    if np.ndim(forecast) < 2:
        raise ValueError(
            "forecast must have draws before its last axis, time; received shape "
            f"{np.shape(forecast)}"
        )
    if not isinstance(forecast, xr.DataArray):
        values = np.asarray(forecast)
        return values.reshape(-1, values.shape[-1]), "time"
    if {"chain", "draw"} < set(forecast.dims):
        others = [dim for dim in forecast.dims if dim not in ("chain", "draw")]
        if len(others) > 1:
            choice = ", ".join(f"{dim}=0" for dim in others if dim != "horizon")
            raise ValueError(
                f"forecast must be one series, received the dimensions {tuple(others)} besides "
                f"chain and draw; choose, for example forecast.isel({choice})"
            )
        forecast = forecast.transpose("chain", "draw", *others)
    return forecast.values.reshape(-1, forecast.shape[-1]), forecast.dims[-1]


def _coordinate(array, dim, default):
    if isinstance(array, xr.DataArray) and dim in array.coords:
        values = array[dim].values
        if values.dtype.kind in "iufM":
            return values
    return default
