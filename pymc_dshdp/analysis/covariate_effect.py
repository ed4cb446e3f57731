"""Transition probabilities as a function of a covariate, with their intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from rich.text import Text

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.alignment import aligned
from pymc_dshdp.analysis.draws import chosen_states, point_builder, thinned
from pymc_dshdp.analysis.report import Report, interval, table
from pymc_dshdp.analysis.result import find_prior, state_labels
from pymc_dshdp.analysis.summaries import central_levels, quantiles_over
from pymc_dshdp.graph.path import path_lengths
from pymc_dshdp.graph.readers import in_values, point_function
from pymc_dshdp.kernels.segmentations import occupancies
from pymc_dshdp.model.context import model_in_context, results_first
from pymc_dshdp.typing import Result

__all__ = ["TransitionEffect", "transition_effect"]

GRID = 20  # values of a covariate that has more
CHECKED = 8  # draws of which the matrices are compared with those stored


@dataclass(frozen=True, repr=False)
class TransitionEffect(Report):
    """Transitions as a function of a covariate; it prints them, and holds each as a DataFrame.

    States are numbered as by ``align``. What is said of a state is over the draws that occupy it;
    ``lower`` and ``upper`` bound the central interval of probability ``prob``.

    Attributes
    ----------
    draws : xarray.DataArray
        P at each value of the covariate, (chain, draw, value, state, state_to).
    transitions : pandas.DataFrame
        ``mean``, ``lower`` and ``upper`` of P between the main states, by (value, from, to).
    stay : pandas.DataFrame
        The same of P_jj, by (value, state).
    over : str
        The covariate, ``x[night]`` where it is the column ``night`` of ``x``.
    prob : float
    """

    draws: xr.DataArray
    transitions: pd.DataFrame
    stay: pd.DataFrame
    over: str
    prob: float

    def __rich_console__(self, console, options):
        cells = interval(*(self.stay[c] for c in ("mean", "lower", "upper")))
        text = pd.Series(cells, self.stay.index).unstack("state", sort=False)
        text.index = [f"{value:.4g}" for value in text.index]
        text.index.name = f"{self.over} \\ state"
        yield Text(f"intervals of probability {self.prob:g}\n")
        yield from table(text, "Probability to stay, posterior mean", options)


@results_first
def transition_effect(
    idata: Result,
    over: str,
    *,
    model: pm.Model | None = None,
    column: Any = None,
    values: ArrayLike | None = None,
    states: str | None = None,
    prob: float | None = None,
    thin: int = 1,
) -> TransitionEffect:
    r"""Compute transition probabilities as a function of a covariate of theirs.

    The covariate is a ``pm.Data`` along the times, or along the sequences (their group, say), that
    the self-persistence kappa, a P of the user or an index depends on, in whatever way: the model's
    own graph is evaluated at each draw with the covariate at one value everywhere and all else as
    it was, and averaged over the times to which a transition leads. At a value v that is

    .. math::

       \bar P(v) = \frac1n \sum_t P_t(x_t = v, \text{other covariates of } t).

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Result of ``pm.sample``; it is aligned first unless ``align`` has been, or the states need
        no alignment.
    over : str
        Name of the ``pm.Data``.
    model : pymc.Model, optional
        The model of the posterior. Default: that of the context.
    column : int or str, optional
        Where the data have columns, a design matrix (T, p): which one, by number, or by its label
        where the columns have a coordinate. May be left out where there is one.
    values : array, optional
        Values of the covariate. Default: those it has where they are at most 20 or integers, else
        20 from its least to its largest.
    states : str, optional
        The hidden-state variable, where there are several.
    prob : float, optional
        Probability of the central intervals. Default: ArviZ's, ``rcParams["stats.ci_prob"]``.
    thin : int
        Use every thin-th draw.

    Returns
    -------
    TransitionEffect
        Print it; ``plot_transition_effect`` draws it.

    Raises
    ------
    ValueError
        If ``over`` is no such ``pm.Data`` that the transitions depend on, naming those that are; if
        its value at one time changes the transitions of other times (a mean or a lag in the graph:
        compute it beforehand); if ``column`` or ``values`` do not fit; if the parameters of P were
        not renumbered with the states.

    Notes
    -----
    It says how transitions go with the covariate in the model, other covariates unchanged, also
    where no time ever had such a combination.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_dshdp as dshdp
    >>> with pm.Model(coords={"state": range(2)}) as model:
    ...     x = pm.Data("x", np.linspace(-1.0, 1.0, 40))
    ...     b = pm.Normal("b", dims="state")
    ...     kappa = pm.math.sigmoid(2.0 + b * x[:, None])
    ...     z = dshdp.HiddenStates("z", dshdp.DSHDP("hmm", dims="state", kappa=kappa), length=40)
    ...     y = pm.Normal("y", 5.0 * z, 1.0, observed=5.0 * (np.arange(40) // 10 % 2))
    ...     idata = pm.sample(20, tune=20, chains=1, random_seed=1, progressbar=False)
    >>> dshdp.transition_effect(idata, "x", model=model, values=[-1.0, 1.0]).draws.sizes["x"]
    2
    """
    prob, level = central_levels(prob)
    model = model_in_context(model)
    idata, hidden = aligned(idata, states)
    occupied = occupancies(hidden.paths(), hidden.n_states)[0] > 0
    main = np.flatnonzero(occupied.mean(axis=0) >= 0.5)
    occupied = occupied.reshape(*hidden.z.shape[:2], -1)[:, :: int(thin)]
    posterior = thinned(idata, thin)
    graph = _Matrices(model, hidden.name, posterior, over)
    grid, data = graph.grid(column, values)
    graph.refuse_unless_local(data)
    graph.refuse_other_numbers(find_prior(idata, hidden), thin)
    shape = (posterior.sizes["chain"], posterior.sizes["draw"])
    P = np.empty((*shape, len(grid), *2 * (hidden.n_states,)))
    for c, d in np.ndindex(*shape):
        P[c, d] = [graph(c, d, x).average() for x in data]
    labels = state_labels(group(idata, "posterior"), hidden)
    dim, dim_to = hidden.record.dims
    flat = P.reshape(-1, *P.shape[2:])
    where = occupied.reshape(-1, 1, hidden.n_states)
    frame = _frame(flat[:, :, main][..., main], where[:, :, main, None], level)
    stay = np.diagonal(flat, axis1=2, axis2=3)[..., main]
    return TransitionEffect(
        draws=xr.DataArray(
            P,
            {
                "chain": posterior["chain"],
                "draw": posterior["draw"],
                over: grid,
                dim: labels,
                dim_to: labels,
            },
            ["chain", "draw", over, dim, dim_to],
            "transition_matrix",
        ),
        transitions=frame.set_axis(
            pd.MultiIndex.from_product(
                [grid, labels[main], labels[main]], names=[over, "from", "to"]
            )
        ),
        stay=_frame(stay, where[:, :, main], level).set_axis(
            pd.MultiIndex.from_product([grid, labels[main]], names=[over, "state"])
        ),
        over=graph.covariate(column),
        prob=prob,
    )


def _frame(values, where, level):
    where = np.broadcast_to(where, values.shape)
    lower, upper = quantiles_over(values, where, level)
    mean = values.mean(axis=0, where=where)
    return pd.DataFrame({"mean": mean.ravel(), "lower": lower.ravel(), "upper": upper.ravel()})


class _AtTimes:
    """kappa, pi_bar and index of one evaluation, laid out along the flattened times."""

    def __init__(self, kappa, pi_bar, index, shape, inner, kappa_by_group):
        L, T = kappa.shape[-1], inner.size
        one = pi_bar.ndim == 2
        self.index = np.zeros(T, int) if one else np.broadcast_to(index, shape).ravel().astype(int)
        if kappa_by_group:
            self.kappa = kappa[self.index]
        else:
            self.kappa = np.broadcast_to(kappa, (*shape, L)).reshape(T, L)
        self.pi_bar = pi_bar.reshape(-1, L, L)
        self._inner = inner

    def average(self, times=None):
        """Average P_t = diag(kappa_t) + (1 - kappa_t) pi_bar_g(t) over some times."""
        times = self._inner if times is None else times
        kappa, n = self.kappa[times], times.sum()
        leaving = np.zeros(self.pi_bar.shape[:2])
        np.add.at(leaving, self.index[times], (1.0 - kappa) / n)
        return np.diag(kappa.mean(axis=0)) + np.einsum("gj,gjk->jk", leaving, self.pi_bar)

    def same(self, other, times):
        """Whether all transitions that lead to some times are those of another evaluation."""
        return np.allclose(self.kappa[times], other.kappa[times]) and np.allclose(
            self.pi_bar[self.index[times]], other.pi_bar[other.index[times]]
        )


class _Matrices:
    """``matrices(chain, draw, x)``: the transitions of a draw with a covariate at other values."""

    def __init__(self, model, states, posterior, over):
        transitions, z = chosen_states(model, states)
        start = model.initial_point()
        self._shape = start[model.rvs_to_values[z].name].shape
        self._lengths = lengths = path_lengths(model, z, start)
        self._inner = np.ones(lengths.sum(), bool)
        self._inner[np.cumsum(lengths) - lengths] = False
        self._states, self._over, self._model = states, over, model
        index = transitions.indices[transitions.states.index(z)]
        graphs = in_values(model, [transitions.kappa, transitions.pi_bar, index])
        self._data = self._covariate(graphs)
        x = self._data.type()
        self._call = point_function(clone_replace(graphs, {self._data: x}), [x])
        self._point = point_builder(model, z, graphs, posterior, start)
        self._both = transitions.varies and transitions.pi_bar.type.ndim > 2
        self._by_group = transitions.kappa_by_group

    def _covariate(self, graphs):
        behind = set(ancestors(graphs))
        shared = {
            name: v
            for name, v in self._model.named_vars.items()
            if isinstance(v, SharedVariable) and v in behind
        }
        found = {name: v for name, v in shared.items() if self._along(v) is not None}
        if self._over not in found:
            raise ValueError(
                f"over must name a pm.Data along the times of {self._states!r}, of shape "
                f"{self._shape}, or its sequences, {self._lengths.shape}, or with columns behind, "
                "that its transitions depend on: "
                f"{sorted(found) or 'there is none; hold the covariate in one'}; received "
                f"{self._over!r}"
            )
        return found[self._over]

    def _along(self, data):
        """Shape of the times, or of the sequences, that lead the dimensions of data, or None."""
        shape = data.get_value(borrow=True).shape
        for lead in (self._shape, self._shape[-1:], self._lengths.shape):
            if shape[: len(lead)] == lead and len(shape) <= len(lead) + 1:
                return lead
        return None

    def covariate(self, column):
        """Name the covariate, with its column where the data have several."""
        size = self._data.get_value(borrow=True).shape[-1]
        if column is None or size == 1:
            return self._over
        return f"{self._over}[{self._columns(size)[self._column(column, size)]}]"

    def grid(self, column, values):
        """Return the values, and the data with the covariate at each of them."""
        now = self._data.get_value()
        has_columns = now.ndim > len(self._along(self._data))
        at: Any = (..., self._column(column, now.shape[-1])) if has_columns else ...
        if not has_columns and column is not None:
            raise ValueError(
                f"column is for data that have some; {self._over!r} has shape {now.shape}"
            )
        present = np.unique(now[at])
        if values is None:
            few = present.size <= GRID or np.issubdtype(now.dtype, np.integer)
            grid = present if few else np.linspace(present[0], present[-1], GRID)
        else:
            grid = np.asarray(values)
            numbers = np.issubdtype(grid.dtype, np.number) and np.isfinite(grid).all()
            if grid.ndim != 1 or not grid.size or not numbers:
                raise ValueError(
                    f"values must be a sequence of numbers of {self._over!r}, received {values!r}"
                )
            if np.issubdtype(now.dtype, np.integer) and np.any(grid != np.floor(grid)):
                raise ValueError(
                    f"values must be integers, as those of {self._over!r}, received {values!r}"
                )
            grid = grid.astype(now.dtype)
        data = np.repeat(now[None], len(grid), axis=0)
        for x, value in zip(data, grid, strict=True):
            x[at] = value
        return grid, data

    def _columns(self, size):
        dims = self._model.named_vars_to_dims.get(self._over)
        labels = None if dims is None else self._model.coords.get(dims[-1])
        return list(range(size)) if labels is None else list(labels)

    def _column(self, column, size):
        labels = self._columns(size)
        if column is None and size == 1:
            return 0
        if column in labels:
            return labels.index(column)
        if isinstance(column, (int, np.integer)) and 0 <= column < size:
            return int(column)
        raise ValueError(
            f"column must say which of the columns of {self._over!r} is the covariate, one of "
            f"{labels}; received {column!r}"
        )

    def __call__(self, chain, draw, x):
        """Evaluate the transitions of a draw."""
        found = self._call(self._point(chain, draw), x)
        return _AtTimes(*map(np.asarray, found), self._shape, self._inner, self._by_group)

    def refuse_unless_local(self, data: Sequence[np.ndarray]):
        """Raise if the covariate at one time changes the transitions to another.

        Every second time, or sequence, has another value; the others must be as they were, and
        these as where all have it.
        """
        now, lead = self._data.get_value(), self._along(self._data)
        axis = len(lead) - 1
        second = np.arange(now.shape[axis]) % 2 == 1
        if lead in (self._shape, self._shape[-1:]):
            odd = np.broadcast_to(second, self._shape).ravel()
        else:
            odd = np.repeat(second, self._lengths)
        before = self(0, 0, now)
        for other in data:
            mixed = now.copy()
            at = (slice(None),) * axis + (second,)
            mixed[at] = other[at]
            found = self(0, 0, mixed)
            if not (
                found.same(before, ~odd & self._inner)
                and found.same(self(0, 0, other), odd & self._inner)
            ):
                raise ValueError(
                    f"the value of {self._over!r} at one time changes the transitions of "
                    f"{self._states!r} at other times (a mean, a lag or a sum in their graph), so "
                    "that its effect is no function of its value; compute that beforehand and "
                    "hold the outcome in pm.Data"
                )

    def refuse_other_numbers(self, stored, thin):
        """Raise if the matrices are not those that the result has stored, on average over time."""
        if self._both:  # the averages do not multiply
            return
        L, now = stored.pi_bar.shape[-1], self._data.get_value()
        every = np.ones(self._inner.size, bool)
        index = self(0, 0, now).index if stored.groups else np.zeros(1, int)
        shares = np.bincount(index, minlength=len(stored.group_labels)) / index.size
        by_group = [
            stored.of_group(g).transition_matrices(np.arange(L)) for g in range(shares.size)
        ]
        P = np.tensordot(shares, by_group, 1).reshape(*stored.pi_bar.shape[:2], L, L)
        P = P[:, :: int(thin)]
        for draw in np.unique(np.linspace(0, P.shape[1] - 1, CHECKED).astype(int)):
            for chain in range(len(P)):
                found = self(chain, draw, now).average(every)
                if not np.allclose(found, P[chain, draw], rtol=1e-4, atol=1e-6):
                    raise ValueError(
                        f"the transitions of {self._states!r} at the posterior's parameters are "
                        "not those stored: give the parameters behind them the dims of the states, "
                        "so that align renumbers them too, and the model the data of the result"
                    )
