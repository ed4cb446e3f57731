"""The times ahead of the data as a model has them: where they lie, and what is known of them."""

from typing import Any

import numpy as np
import pytensor
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import ancestors

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.draws import chosen_states
from pymc_dshdp.analysis.moved_graphs import fixed, original_name
from pymc_dshdp.analysis.other_data import (
    observed_on_states,
    on_other_data,
    positions_of_groups,
    source_of,
)
from pymc_dshdp.analysis.recurrence import fed_back
from pymc_dshdp.emissions.autoregression import SwitchingVARRV
from pymc_dshdp.graph.walks import has_op
from pymc_dshdp.transitions.record import record_in

__all__ = ["Ahead", "Layout", "behind", "declared", "extended"]


class Layout:
    """States of the future in a model: N sequences of ``front + stride`` times.

    Parameters
    ----------
    model, z
        The model that is at these times.
    n_sequences, horizon : int
    ahead : Ahead, optional
        What the model is given there.
    held : dict, optional
        Shared variables by name in which the model holds its data, where they are fed.

    Attributes
    ----------
    horizon : int
        Number of times ahead.
    stride : int
        How many of them the model has, which are drawn at once: all of them, or one where it is
        fed with each.
    past : dict
        Observed variables by name, (N, front, ...), that the first of them is fed with.
    """

    def __init__(self, model, z, n_sequences, horizon, ahead=None, held=None):
        self.model, self.z, self.horizon = model, z, horizon
        self._ahead, self._held = ahead, held
        self.stride, self.past = (1, ahead.past) if held else (horizon, {})
        self._front = 0 if ahead is None else ahead.front
        self._pads = ((0, 0), (self._front, 0))
        self._shape = (n_sequences, self._front + self.stride)

    def feed(self, low, past):
        """Set what the model is given to the times from ``low`` on, after the last of these rows.

        A new sequence may have had fewer rows than that; what it begins with depends on none.
        """
        if self._held:
            short = max(0, self._front - min(x.shape[1] for x in past.values()))
            rows = {
                name: np.pad(x, [(0, 0), (short, 0)] + [(0, 0)] * (x.ndim - 2))[:, -self._front :]
                for name, x in past.items()
            }
            self._ahead.feed(self._held, low, low + self.stride, rows)

    def states(self, paths):
        """States of shape (N, H) as the model has them."""
        padded = np.pad(paths, self._pads, mode="edge")
        return padded.ravel() if self.z.type.ndim == 1 else padded

    def kept(self, values):
        """Give an observed variable as (N, H, ...)."""
        values = np.asarray(values)
        return self._after(values.reshape(*self._shape, *values.shape[self.z.type.ndim :]))

    @property
    def times(self):
        """Positions of the times ahead among the states of the model, (N, H)."""
        return self._after(np.arange(np.prod(self._shape)).reshape(self._shape))

    def _after(self, values):
        return values[:, self._front :]


def declared(model, z, lengths, horizon):
    """Layout of a forecast model that the user declared."""
    _, ahead = chosen_states(model, z.name)
    shape = model.initial_point()[model.rvs_to_values[ahead].name].shape
    found, rest = divmod(int(np.prod(shape)), lengths.size)
    if rest or horizon not in (None, found):
        raise ValueError(
            f"the states of forecast_model have shape {shape}, which is not horizon={horizon} "
            f"after each of {lengths.size} sequences"
        )
    followers = [rv for rv in dict.fromkeys(model.observed_RVs) if ahead in behind(model, rv)]
    for rv in fed_back(model, ahead, followers)[0]:
        raise ValueError(
            f"the transitions of forecast_model depend on the observations of {rv.name!r}, which a "
            "forecast draws and feeds back: leave forecast_model out, and pass the horizon"
        )
    return Layout(model, ahead, lengths.size, found)


class Ahead:
    """What the model is given at the times ahead, after the last rows of the data.

    Parameters
    ----------
    model, z
        Of the posterior.
    lengths : ndarray of shape (N,)
    horizon : int
    covariates : dict
    idata : arviz.InferenceData or xarray.DataTree
    followers : list of observed variables
        Those that depend on the states.
    fed : list of observed variables
        Those of them that the transitions to the next times depend on.
    depth : int
        Number of times before that these are given at.

    Attributes
    ----------
    fed : list of str
        Names; one time after the other is drawn.
    front : int
        Number of rows before the times ahead.
    lags : set of str
        Autoregressions.
    past : dict
        The last ``front`` rows of observed variables by name, (N, front, ...).
    """

    def __init__(self, model, z, lengths, horizon, covariates, idata, followers, fed, depth):
        if isinstance(horizon, bool) or not isinstance(horizon, (int, np.integer)) or horizon < 1:
            raise ValueError(f"horizon must be a positive integer, received {horizon!r}")
        self._model, self._N, self._batch = model, lengths.size, z.type.ndim == 2
        self.fed = [original_name(model, rv) for rv in fed]
        self.front = max([*map(_lags, followers), depth])
        if lengths.min() < self.front:
            raise ValueError(
                f"a sequence of {lengths.min()} time points is shorter than the {self.front} lags "
                "of the autoregression or the transitions, which cannot be continued"
            )
        self.past, self._sources, stops = {}, {}, np.cumsum(lengths)
        self.lags = {original_name(model, rv) for rv in followers if _lags(rv)}
        for rv in followers:
            name = original_name(model, rv)
            trail = (model[name] if name in model.named_vars else rv).type.shape[z.type.ndim :]
            if None in trail:
                trail = tuple(int(n) for n in model.rvs_to_values[rv].shape.eval())[z.type.ndim :]
            self.past[name] = np.zeros((self._N, self.front, *trail), rv.dtype)
            if _lags(rv) or rv in fed:
                y = np.asarray(model.rvs_to_values[rv].eval())
                _refuse_other_rows(name, y, idata)
                y = y.reshape(-1, *trail)
                self.past[name][:] = [y[stop - self.front : stop] for stop in stops]
            self._sources[name] = source_of(model.rvs_to_values[rv]).name if rv in fed else None
        record = record_in(model, z)
        self._futures = {
            name: self._future(name, future, followers, horizon, lengths, record)
            for name, future in covariates.items()
        }
        which = record.group
        self._group: dict[str, Any] = {}
        if which is not None and model.named_vars[which].get_value(borrow=True).shape == (self._N,):
            self._group[which] = model.named_vars[which].get_value()  # it goes on in its group

    def _future(self, name, future, followers, horizon, lengths, record):
        """Future values of a covariate, checked, and the number of axes of their times."""
        model, N = self._model, self._N
        if not isinstance(model.named_vars.get(name), SharedVariable):
            raise ValueError(f"covariates has {name!r}, which is not a pm.Data of the model")
        for rv in followers:
            if model[name] in ancestors([model.rvs_to_values[rv]]):
                raise ValueError(
                    f"covariates has {name!r}, which holds the observations of "
                    f"{original_name(model, rv)!r}: a forecast draws them; leave it out"
                )
        now = model[name].get_value(borrow=True).shape
        common = self._batch and now[:2] != (N, lengths[0])  # to the sequences of a batch
        lead = (horizon,) if common or (N == 1 and not self._batch) else (N, horizon)
        future = np.asarray(future)
        if name == record.group:
            future = positions_of_groups(model, record, future, "covariates")
        if future.shape[: len(lead)] != lead:
            raise ValueError(
                f"covariates[{name!r}] must have shape ({', '.join(map(str, lead))}, ...), "
                f"{'horizon' if len(lead) == 1 else 'sequences and horizon'} first, "
                f"received {future.shape}"
            )
        return future, len(lead)

    def _laid_out(self, values):
        """Values (N, n, ...) as the model has them."""
        return values if self._batch else values.reshape(-1, *values.shape[2:])

    def data(self, low, high, past):
        """Lay out the data of the times low..high - 1 ahead, and the rows before them, by name."""
        out = {}
        for name, rows in past.items():
            pads = [(0, 0), (0, high - low)] + [(0, 0)] * (rows.ndim - 2)
            out[name] = self._laid_out(np.pad(rows, pads))
        for name, (future, axes) in self._futures.items():
            part = future[(slice(None),) * (axes - 1) + (slice(low, high),)]
            pads = [(0, 0)] * part.ndim
            pads[axes - 1] = self.front, 0
            part = np.pad(part, pads, mode="edge")
            out[name] = part if axes == 1 else self._laid_out(part)
        return out | self._group

    def hold(self, held):
        """How the moved model holds its data, so that ``feed`` can change them."""
        if not self.fed:
            return fixed

        def hold(name, array):
            held[name] = pytensor.shared(array, name, shape=np.shape(array))
            return held[name]

        return hold

    def feed(self, held, low, high, past):
        """Set the data that a moved model holds to those of other times."""
        for name, values in self.data(low, high, past).items():
            if name in self.lags:  # the first rows of an autoregression
                held[name].set_value(past[name].reshape(held[name].get_value(borrow=True).shape))
            container = self._sources.get(name) if name in past else name
            if container in held:
                held[container].set_value(values.astype(held[container].dtype))


def extended(model, z, lengths, horizon, covariates, idata, anew):
    """Layouts of the model itself, moved to the times ahead; the rows that they follow first.

    There is one, but where new sequences have observations fed back of several times: then one
    for each number of times that a sequence has had, up to that.
    """
    followers = observed_on_states(model, z)
    _refuse_other_lags(model, followers)
    fed, depth = fed_back(model, z, followers, anew)
    depths = range(1, depth + 1) if anew and depth > 1 else [depth]
    given = model, z, lengths, horizon, covariates, idata, followers, fed
    every = [Ahead(*given, n) for n in depths]
    if anew and every[0].lags:
        raise ValueError(
            f"the autoregression {', '.join(sorted(every[0].lags))} goes on from rows that are "
            "given, and has no beginning to draw from; leave anew out"
        )
    return [_moved(model, z, lengths, horizon, ahead) for ahead in every]


def _moved(model, z, lengths, horizon, ahead):
    held: dict[str, Any] = {}
    step = 1 if ahead.fed else horizon
    data = ahead.data(0, step, ahead.past)
    total = None if z.type.ndim == 2 else [ahead.front + step] * lengths.size
    try:
        moved = on_other_data(model, z, data, total, ahead.hold(held))
    except ValueError as error:
        raise ValueError(
            f"The model cannot be extended by itself: {str(error).removesuffix('.')}. For a "
            "forecast, let covariates be pm.Data and pass their future values as covariates={...}, "
            "or pass forecast_model=, the model declared again on data of the horizon's length. If "
            "the mean depends on past observations, as in phi[z] * y[t-1], declare the likelihood "
            "as SwitchingVAR, whose lags follow the forecast."
        ) from error
    _, then = chosen_states(moved, z.name)
    return Layout(moved, then, lengths.size, horizon, ahead, held)


def _refuse_other_lags(model, followers):
    """Raise if autoregressions go back differently far: there is one first time for all."""
    lags = {original_name(model, rv): _lags(rv) for rv in followers if _lags(rv)}
    if len(set(lags.values())) > 1:
        raise ValueError(
            f"the autoregressions have different lags, {lags}, and cannot be continued together; "
            "declare them with the same lags"
        )


def _refuse_other_rows(name, rows, idata):
    """Raise if an autoregression would go on from other data than those of the result."""
    observed = group(idata, "observed_data") if "observed_data" in idata else {}
    if name in observed and not np.array_equal(observed[name].values, rows, equal_nan=True):
        raise ValueError(
            f"the model has other data of {name!r} than the result, and a forecast goes on from "
            "the last of them: set them back with pm.set_data"
        )


def _lags(rv):
    op = rv.owner.op
    return op.dist_params(rv.owner)[2].type.shape[-2] if has_op(rv, SwitchingVARRV) else 0


def behind(model, rv):
    """Find what a random variable depends on, up to the next ones."""
    blockers = [v for v in model.basic_RVs if v is not rv]
    return set(ancestors([rv], blockers=blockers)) - {rv}
