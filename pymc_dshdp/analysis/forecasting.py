"""Forecasts: states and observations after the last time of the data, from each draw."""

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pymc.pytensorf import compile as compile_pymc
from pymc.pytensorf import find_rng_nodes, reseed_rngs
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import ancestors

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.draws import chosen_states, thinned, transitions_of
from pymc_dshdp.analysis.moved_graphs import original_name, rebuilt
from pymc_dshdp.analysis.other_data import observed_on_states, on_other_data
from pymc_dshdp.emissions.autoregression import SwitchingVARRV
from pymc_dshdp.graph.path import path_lengths
from pymc_dshdp.graph.walks import as_tensor, has_op
from pymc_dshdp.kernels.simulation import simulate_onward
from pymc_dshdp.model.context import model_in_context, results_first
from pymc_dshdp.transitions.record import record_in, records_of
from pymc_dshdp.typing import Result

__all__ = ["forecast"]


@results_first
def forecast(
    idata: Result,
    *,
    model: pm.Model | None = None,
    horizon: int | None = None,
    covariates: dict[str, Any] | None = None,
    forecast_model: pm.Model | None = None,
    states: str | None = None,
    thin: int = 1,
    random_seed: Any = None,
) -> xr.Dataset:
    r"""Draw the states and observations that follow the data, one future per posterior draw.

    With the parameters, the rows of P and the last state :math:`z_T` of each draw,
    :math:`z_{T+h} \sim P[z_{T+h-1}]` and :math:`y_{T+h} \sim f(\theta_{z_{T+h}})`: draws from
    the posterior predictive distribution of the future, one sequence after each sequence of the
    data. ``SwitchingVAR`` continues from its last rows. Where kappa varies with time, P is that of
    T + h: kappa at the future values of its covariates.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
    model : pymc.Model, optional
        The model of the posterior. Default: that of the context.
    horizon : int
        Number of time points ahead; may be left out with ``forecast_model``.
    covariates : dict, optional
        Future values of ``pm.Data`` by name, of shape (horizon, ...), or (n_sequences, horizon,
        ...) after several sequences; (horizon, ...) of what a batch of sequences has in common.
    forecast_model : pymc.Model, optional
        The model declared again on horizon-length data with the same names, for a likelihood
        that cannot be extended by itself. Its observed values are not used; all that depends on
        its states is drawn. Not for lags of the observations themselves, which would stay those
        of the declared data: use ``SwitchingVAR``.
    states : str, optional
        The ``HiddenStates`` variable, where there are several.
    thin : int
        Use every thin-th draw.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    xarray.Dataset
        The states and each observed variable on them, with dimensions (chain, draw, horizon,
        ...), or (chain, draw, sequence, horizon, ...) after several sequences; ``horizon``
        counts from 1.

    Raises
    ------
    ValueError
        Naming the argument, or the likelihood that cannot be extended and the way out.
    """
    model = model_in_context(model)
    _, z = chosen_states(model, states)
    posterior = thinned(idata, thin)
    if z.name not in posterior:
        raise ValueError(
            f"the states {z.name!r} are not in the posterior, so that the last one is not known; "
            "keep them when sampling"
        )
    lengths = _lengths(model, z, idata, posterior)
    if forecast_model is None:
        layout = _extended(model, z, lengths, horizon, covariates or {}, idata)
    elif covariates:
        raise ValueError("covariates belong in forecast_model; pass one of the two")
    else:
        layout = _declared(forecast_model, z, lengths, horizon)
    rng = np.random.default_rng(random_seed)
    shape = posterior.sizes["chain"], posterior.sizes["draw"]
    last = posterior[z.name].values.reshape(*shape, -1)[..., np.cumsum(lengths) - 1]
    transitions = transitions_of(layout.model, layout.z, posterior)
    generate = _Generator(layout, posterior)
    paths = np.empty((*shape, lengths.size, layout.horizon), np.int64)
    drawn: dict[str, list] = {name: [] for name in generate.names}
    for index in np.ndindex(shape):
        simulate_onward(rng, last[index], transitions(*index), layout.times, paths[index])
        for name, values in zip(drawn, generate(index, paths[index], rng), strict=True):
            drawn[name].append(layout.kept(values))
    single = lengths.size == 1
    lead = ("chain", "draw", "horizon") if single else ("chain", "draw", "sequence", "horizon")
    out = {z.name: (lead, paths[:, :, 0] if single else paths)}
    for name, values in drawn.items():
        values = np.stack(values).reshape(*shape, *values[0].shape)
        values = values[:, :, 0] if single else values
        declared = (model.named_vars_to_dims.get(name) or ())[z.type.ndim :]
        extra = range(values.ndim - len(lead))
        out[name] = (*lead, *(declared or (f"{name}_dim_{i}" for i in extra))), values
    coords = {name: posterior[name] for name in ("chain", "draw")}
    coords["horizon"] = np.arange(1, layout.horizon + 1)
    for dims, _ in out.values():
        coords |= {d: list(model.coords[d]) for d in dims if model.coords.get(d) is not None}
    return xr.Dataset(out, coords)


def _lengths(model, z, idata, posterior):
    """Sequence lengths of the model, whose states must be those of the posterior."""
    start = model.initial_point()
    shape, then = start[model.rvs_to_values[z].name].shape, posterior[z.name].shape[2:]
    lengths, recorded = path_lengths(model, z, start), None
    constants = group(idata, "constant_data") if "constant_data" in idata else {}
    record = records_of(constants).get(z.name)
    if record is not None:
        recorded = constants[record.lengths].values.ravel().tolist()
    if then != shape or recorded not in (None, lengths.tolist()):
        raise ValueError(
            f"the states {z.name!r} have shape {then} in the result, of lengths "
            f"{recorded or 'unknown'}, and {shape} in the model, of lengths {lengths.tolist()}, so "
            "that the last ones cannot be told: set the data of the model back to those of the "
            "result with pm.set_data"
        )
    return lengths


class _Layout:
    """States of the future in a model: N sequences of ``front + horizon`` times."""

    def __init__(self, model, z, n_sequences, horizon, front=0):
        self.model, self.z, self.horizon = model, z, horizon
        self._pads, self._front = ((0, 0), (front, 0)), front
        self._shape = (n_sequences, front + horizon)

    def states(self, paths):
        """States of shape (N, H) as the model has them."""
        padded = np.pad(paths, self._pads, mode="edge")
        return padded.ravel() if self.z.type.ndim == 1 else padded

    def kept(self, values):
        """Give an observed variable as (N, H, ...)."""
        values = np.asarray(values)
        return self._ahead(values.reshape(*self._shape, *values.shape[self.z.type.ndim :]))

    @property
    def times(self):
        """Positions of the times ahead among the states of the model, (N, H)."""
        return self._ahead(np.arange(np.prod(self._shape)).reshape(self._shape))

    def _ahead(self, values):
        return values[:, self._front : self._front + self.horizon]


def _declared(model, z, lengths, horizon):
    """Layout of a forecast model that the user declared."""
    _, ahead = chosen_states(model, z.name)
    shape = model.initial_point()[model.rvs_to_values[ahead].name].shape
    found, rest = divmod(int(np.prod(shape)), lengths.size)
    if rest or horizon not in (None, found):
        raise ValueError(
            f"the states of forecast_model have shape {shape}, which is not horizon={horizon} "
            f"after each of {lengths.size} sequences"
        )
    return _Layout(model, ahead, lengths.size, found)


def _extended(model, z, lengths, horizon, covariates, idata):
    """Layout of the model itself, moved to the times ahead; an autoregression's last rows first."""
    if isinstance(horizon, bool) or not isinstance(horizon, (int, np.integer)) or horizon < 1:
        raise ValueError(f"horizon must be a positive integer, received {horizon!r}")
    followers = observed_on_states(model, z)
    front = max([_lags(rv) for rv in followers])
    if lengths.min() < front:
        raise ValueError(
            f"a sequence of {lengths.min()} time points is shorter than the {front} lags of the "
            "autoregression, which cannot be continued"
        )
    N, batch = lengths.size, z.type.ndim == 2
    total = front + horizon

    def laid_out(values, trail):
        return values.reshape(*((N, total) if batch else (N * total,)), *trail)

    data = {}
    for rv in followers:
        name = original_name(model, rv)
        trail = (model[name] if name in model.named_vars else rv).type.shape[z.type.ndim :]
        if None in trail:
            trail = tuple(int(n) for n in model.rvs_to_values[rv].shape.eval())[z.type.ndim :]
        values = np.zeros((N, total, *trail), rv.dtype)
        if _lags(rv):
            y = np.asarray(model.rvs_to_values[rv].eval())
            _refuse_other_rows(name, y, idata)
            y = y.reshape(-1, *trail)
            stops = np.cumsum(lengths)
            values[:, :front] = [y[stop - front : stop] for stop in stops]
        data[name] = laid_out(values, trail)
    for name, future in covariates.items():
        if not isinstance(model.named_vars.get(name), SharedVariable):
            raise ValueError(f"covariates has {name!r}, which is not a pm.Data of the model")
        now = model[name].get_value(borrow=True).shape
        common = batch and now[:2] != (N, lengths[0])  # to the sequences of a batch
        lead = (horizon,) if common or (N == 1 and not batch) else (N, horizon)
        future = np.asarray(future)
        if future.shape[: len(lead)] != lead:
            raise ValueError(
                f"covariates[{name!r}] must have shape ({', '.join(map(str, lead))}, ...), "
                f"received {future.shape}"
            )
        pads = [(0, 0)] * future.ndim
        pads[len(lead) - 1] = front, 0
        future = np.pad(future, pads, mode="edge")
        data[name] = future if common else laid_out(future, future.shape[len(lead) :])
    group = record_in(model, z).group
    if group is not None and model.named_vars[group].get_value(borrow=True).shape == (N,):
        data[group] = model.named_vars[group].get_value()  # a sequence goes on in its group
    try:
        moved = on_other_data(model, z, data, None if batch else [total] * N)
    except ValueError as error:
        raise ValueError(
            f"The model cannot be extended by itself: {str(error).removesuffix('.')}. For a "
            "forecast, let covariates be pm.Data and pass their future values as covariates={...}, "
            "or pass forecast_model=, the model declared again on data of the horizon's length. If "
            "the mean depends on past observations, as in phi[z] * y[t-1], declare the likelihood "
            "as SwitchingVAR, whose lags follow the forecast."
        ) from error
    return _Layout(moved, chosen_states(moved, z.name)[1], N, horizon, front)


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


class _Generator:
    """Draw what depends on the states, given the parameters of a posterior draw and states."""

    def __init__(self, layout, posterior):
        model, self._layout = layout.model, layout
        drawn = {layout.z}
        for rv in model.basic_RVs:
            if drawn & _behind(model, rv):
                drawn.add(rv)
        outputs = [rv for rv in dict.fromkeys(model.observed_RVs) if rv in drawn]
        if not outputs:
            raise ValueError(f"no observed variable depends on the states {layout.z.name!r}")
        used = set().union(*(_behind(model, rv) for rv in drawn if rv is not layout.z))
        inputs = {layout.z: layout.z.type(name=layout.z.name)}
        self._stored = []
        for rv in model.free_RVs:
            if rv not in drawn and rv in used:
                self._stored.append(_stored(rv, posterior))
                inputs[rv] = rv.type(name=rv.name)
        self.names = [original_name(model, rv) for rv in outputs]
        graphs = [as_tensor(g) for g in rebuilt(outputs, inputs, list(inputs))]
        self._function = compile_pymc(list(inputs.values()), graphs, mode="NUMBA")
        self._rngs = find_rng_nodes(self._function.maker.fgraph.outputs)

    def __call__(self, index, paths, rng):
        """Values of the observed variables; ``paths`` is (N, H)."""
        reseed_rngs(self._rngs, rng.integers(2**63))
        states = self._layout.states(paths).astype(self._layout.z.dtype)
        return self._function(states, *(np.asarray(x[index]) for x in self._stored))


def _behind(model, rv):
    blockers = [v for v in model.basic_RVs if v is not rv]
    return set(ancestors([rv], blockers=blockers)) - {rv}


def _stored(rv, posterior):
    if rv.name not in posterior:
        raise ValueError(
            f"{rv.name!r} is not in the posterior (it has {sorted(posterior)}); sample it, and "
            "give forecast_model the same names"
        )
    values = posterior[rv.name].values.astype(rv.dtype)
    known = zip(rv.type.shape, values.shape[2:], strict=False)
    if rv.type.ndim != values.ndim - 2 or any(e not in (None, n) for e, n in known):
        raise ValueError(
            f"{rv.name!r} has shape {values.shape[2:]} in the posterior and {rv.type.shape} in the "
            "model of the future"
        )
    return values
