"""Forecasts: states and observations after the last time of the data, from each draw."""

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pymc.pytensorf import compile as compile_pymc
from pymc.pytensorf import find_rng_nodes, reseed_rngs

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.draws import chosen_states, thinned, transitions_of
from pymc_dshdp.analysis.moved_graphs import original_name, rebuilt
from pymc_dshdp.analysis.old_times import refuse_old_parameters
from pymc_dshdp.analysis.times_ahead import behind, declared, extended
from pymc_dshdp.distributions import HiddenPathRV
from pymc_dshdp.graph.path import path_lengths
from pymc_dshdp.graph.readers import quiet_at_first
from pymc_dshdp.graph.walks import as_tensor, has_op
from pymc_dshdp.kernels.simulation import simulate_anew, simulate_onward
from pymc_dshdp.model.context import model_in_context, results_first
from pymc_dshdp.transitions.record import records_of
from pymc_dshdp.typing import Result

__all__ = ["forecast"]


@results_first
def forecast(
    idata: Result,
    *,
    model: pm.Model | None = None,
    horizon: int | None = None,
    covariates: dict[str, Any] | None = None,
    anew: bool = False,
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
    T + h: kappa at the future values of its covariates. Covariates that the model computes from the
    observations of up to 16 times before follow those drawn.

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
    anew : bool
        Draw as many new sequences of this length from their beginning, z_1 from pi_init, instead of
        what follows the data: replicates, in which observations are fed back too. Not for
        ``SwitchingVAR``, whose first rows are given.
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

    Examples
    --------
    >>> future = dshdp.forecast(aligned, model=model, horizon=5)
    >>> future["counts"].quantile([0.05, 0.5, 0.95], ("chain", "draw")).shape
    (3, 5)
    """
    if not isinstance(anew, (bool, np.bool_)):
        raise TypeError(f"anew must be True or False, received {anew!r}")
    model = model_in_context(model)
    _, z = chosen_states(model, states)
    posterior = thinned(idata, thin)
    if z.name not in posterior:
        raise ValueError(
            f"the states {z.name!r} are not in the posterior, so that the last one is not known; "
            "keep them when sampling"
        )
    lengths = _lengths(model, z, idata, posterior)
    _refuse_other_states(model if forecast_model is None else forecast_model, z.name)
    if forecast_model is None:
        layouts = extended(model, z, lengths, horizon, covariates or {}, idata, anew)
    elif covariates:
        raise ValueError("covariates belong in forecast_model; pass one of the two")
    else:
        layouts = [declared(forecast_model, z, lengths, horizon)]
        refuse_old_parameters(forecast_model, layouts[0].z, forecast_model.initial_point())
    rng = np.random.default_rng(random_seed)
    shape = posterior.sizes["chain"], posterior.sizes["draw"]
    last = posterior[z.name].values.reshape(*shape, -1)[..., np.cumsum(lengths) - 1]
    stages = [
        (x, transitions_of(x.model, x.z, posterior), _Generator(x, posterior)) for x in layouts
    ]
    ahead = layouts[0].horizon
    paths = np.empty((*shape, lengths.size, ahead), np.int64)
    drawn: dict[str, list] = {name: [] for name in stages[0][2].names}
    for index in np.ndindex(shape):
        state = None if anew else last[index]
        paths[index], future = _future(rng, state, index, stages)
        for name, values in future.items():
            drawn[name].append(values)
    single = lengths.size == 1
    lead = ("chain", "draw", "horizon") if single else ("chain", "draw", "sequence", "horizon")
    out = {z.name: (lead, paths[:, :, 0] if single else paths)}
    for name, values in drawn.items():
        values = np.stack(values).reshape(*shape, *values[0].shape)
        values = values[:, :, 0] if single else values
        named = (model.named_vars_to_dims.get(name) or ())[z.type.ndim :]
        extra = range(values.ndim - len(lead))
        out[name] = (*lead, *(named or (f"{name}_dim_{i}" for i in extra))), values
    coords = {name: posterior[name] for name in ("chain", "draw")}
    coords["horizon"] = np.arange(1, ahead + 1)
    for dims, _ in out.values():
        coords |= {d: list(model.coords[d]) for d in dims if model.coords.get(d) is not None}
    return xr.Dataset(out, coords)


def _future(rng, state, index, stages):
    """Draw what follows the last states, if any: paths (N, H), observed variables by name.

    All times at once, or one after the other where the transitions depend on what was observed:
    then by the first of the stages until there are two times, by the second after two, and so on.
    """
    paths, parts, past = [], [], stages[0][0].past
    here = [transitions(*index) for _, transitions, _ in stages]
    front = max((x.shape[1] for stage in stages for x in stage[0].past.values()), default=0)
    for low in range(0, stages[0][0].horizon, stages[0][0].stride):
        at = min(max(low - 1, 0), len(stages) - 1)
        layout, _, generate = stages[at]
        layout.feed(low, past)
        path = np.empty(layout.times.shape, np.int64)
        initial, onward = here[at]()
        if state is None:
            simulate_anew(rng, initial, onward, layout.times, path)
        else:
            simulate_onward(rng, state, onward, layout.times, path)
        values = [layout.kept(x) for x in generate(index, path, rng)]
        new = dict(zip(generate.names, values, strict=True))
        past = {
            name: np.concatenate([x, new[name]], axis=1)[:, -front:] for name, x in past.items()
        }
        state = path[:, -1]
        paths.append(path)
        parts.append(new)
    together = {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}
    return np.concatenate(paths, axis=1), together


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


class _Generator:
    """Draw what depends on the states, given the parameters of a posterior draw and states."""

    def __init__(self, layout, posterior):
        model, self._layout = layout.model, layout
        drawn = {layout.z}
        for rv in model.basic_RVs:
            if drawn & behind(model, rv):
                drawn.add(rv)
        outputs = [rv for rv in dict.fromkeys(model.observed_RVs) if rv in drawn]
        if not outputs:
            raise ValueError(f"no observed variable depends on the states {layout.z.name!r}")
        used = set().union(*(behind(model, rv) for rv in drawn if rv is not layout.z))
        inputs = {layout.z: layout.z.type(name=layout.z.name)}
        self._stored = []
        for rv in model.free_RVs:
            if rv not in drawn and rv in used:
                self._stored.append(_stored(rv, posterior))
                inputs[rv] = rv.type(name=rv.name)
        self.names = [original_name(model, rv) for rv in outputs]
        graphs = [as_tensor(g) for g in rebuilt(outputs, inputs, list(inputs))]
        function = compile_pymc(list(inputs.values()), graphs, mode="NUMBA")
        self._rngs = find_rng_nodes(function.maker.fgraph.outputs)
        self._function = quiet_at_first(function)

    def __call__(self, index, paths, rng):
        """Values of the observed variables; ``paths`` is (N, H)."""
        reseed_rngs(self._rngs, rng.integers(2**63))
        states = self._layout.states(paths).astype(self._layout.z.dtype)
        return self._function(states, *(np.asarray(x[index]) for x in self._stored))


def _refuse_other_states(model, name):
    """Raise if what is observed of some states depends on others, whose future is not drawn."""
    z = chosen_states(model, name)[1]
    for rv in model.observed_RVs:
        found = behind(model, rv)
        others = [v.name for v in found if has_op(v, HiddenPathRV) and v is not z]
        if z in found and others:
            raise ValueError(
                f"{original_name(model, rv)!r} depends on the states {sorted(others)} besides "
                f"{name!r}, and a forecast draws the future of {name!r} alone: declare one "
                "HiddenStates whose states are the pairs of theirs"
            )


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
