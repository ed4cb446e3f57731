"""What each posterior draw says about the hidden states of some data: table, pi_init and P_t."""

from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors

from pymc_dshdp._compat import group
from pymc_dshdp.analysis.old_times import refuse_old_parameters
from pymc_dshdp.analysis.other_data import on_other_data
from pymc_dshdp.analysis.result import (
    find_hidden,
    hidden_variables,
    is_renumbered,
    left_behind,
    read_posterior,
)
from pymc_dshdp.distributions import HiddenPathRV
from pymc_dshdp.graph.path import path_lengths
from pymc_dshdp.graph.readers import point_function
from pymc_dshdp.graph.walks import as_tensor, evaluate, has_op
from pymc_dshdp.kernels.blocks import whole_sequences
from pymc_dshdp.kernels.decoding import filter_with_scores
from pymc_dshdp.likelihood.missing import MissingValues
from pymc_dshdp.likelihood.table import LogLikelihoodTable, terms_involving
from pymc_dshdp.model.context import model_in_context
from pymc_dshdp.transitions.found import find_transitions
from pymc_dshdp.transitions.record import record_in
from pymc_dshdp.transitions.update import TransitionReader

__all__ = ["PosteriorDraws", "chosen_states", "point_builder", "thinned", "transitions_of"]


class Sequences(NamedTuple):
    """Some of the sequences in one draw.

    Attributes
    ----------
    times : slice
        Their time points among those of all sequences.
    messages : tuple
        The arguments of ``kernels/decoding.py``: log_likelihoods (T, L), pi_init (L,),
        ``Transitions`` and lengths (N,), of these sequences alone.
    """

    times: slice
    messages: tuple


class PosteriorDraws:
    """The posterior draws of a model, ready for messages over its data or over others.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
    model : pymc.Model, optional
        The model of the posterior, or the model declared again on other data. Default: that of
        the context.
    observed : dict, optional
        Other data by name; see ``held_out_log_likelihood``.
    lengths : sequence of int, optional
        Sequence lengths of ``observed``.
    states : str, optional
        The ``HiddenStates`` variable, where there are several.
    thin : int
        Use every thin-th draw.
    latent : bool
        Take latent variables that depend on the states, and other states, from the posterior:
        right for the posterior's own data only.

    Attributes
    ----------
    name : str
        Of the states.
    coords : dict
        Chain and draw of the posterior.
    lengths : ndarray of shape (N,)
    n_states : int
    shape : tuple
        Of the states.
    table : LogLikelihoodTable
    point : callable
        ``point(chain, draw)``, the values of a draw by the names of the value variables that the
        table and the transitions need.
    """

    def __init__(
        self, idata, model=None, observed=None, lengths=None, states=None, thin=1, *, latent=False
    ):
        model = model_in_context(model)
        prior, z = chosen_states(model, states)
        posterior = thinned(idata, thin)
        self._time_dims, self._time_coords = _time(model, z)
        self._state_dim = record_in(model, z).dims[0]
        self._states = np.asarray(model.coords[self._state_dim])
        if observed is not None:
            model = on_other_data(model, z, observed, lengths)
            prior, z = chosen_states(model, z.name)
        elif lengths is not None:
            raise ValueError("lengths are those of other data; pass it with observed={...}")
        start = model.initial_point()
        missing = MissingValues(model, prior.states).rvs
        elsewhere = observed is None and _has_other_data(model, z, idata)
        if not latent or elsewhere:
            _refuse_latent(model, z, missing)
        if elsewhere:
            refuse_old_parameters(model, z, start)
        self.name = z.name
        self.n_states = prior.n_states
        self.shape = start[model.rvs_to_values[z].name].shape
        self.lengths = path_lengths(model, z, start)
        self.coords = {name: posterior[name] for name in ("chain", "draw")}
        self.table = LogLikelihoodTable(model, z, prior.n_states, missing, start)
        terms = [(v, g) for v, g in terms_involving(model, z) if v not in missing]
        self._values = {v.name: model.rvs_to_values[v] for v, _ in terms if v in model.observed_RVs}
        graphs = [g for _, g in terms]
        self._transitions, self._which = TransitionReader(model, prior), prior.states.index(z)
        graphs += self._transitions.graphs
        self.point = point_builder(model, z, graphs, posterior, start, missing)

    def __iter__(self):
        """Yield ((chain, draw), blocks of ``Sequences``), by position.

        The table of a block is computed when the block is asked for: a few megabytes, or one
        sequence, so that what is computed from it finds it near the processor.
        """
        for index in np.ndindex(self.draws_shape):
            yield index, self._blocks(self.point(*index))

    def _blocks(self, point):
        rows = self.table.rows(point)
        initial, transitions = self._transitions(point, self.shape, self._which)
        for times, sequences in whole_sequences(self.lengths, self.n_states):
            low, high = times.start, times.stop
            now = transitions.between(low, high)
            yield Sequences(times, (rows(low, high), initial, now, self.lengths[sequences]))

    def log_predictive(self, blocks):
        """Log p(y_t | y_1..t-1) of a draw, within each sequence, (T,), from its blocks."""
        out = np.empty(self.lengths.sum())
        for times, messages in blocks:
            out[times] = filter_with_scores(*messages)[1]
        return out

    def observed_values(self):
        """Observed values that depend on the states, by name."""
        return {name: value.eval() for name, value in self._values.items()}

    @property
    def draws_shape(self):
        """(chains, draws)."""
        return self.coords["chain"].size, self.coords["draw"].size

    def data_array(self, values, name, *, draws=False, state=False):
        """Label an array over time, laid end to end, with the dimensions of the states.

        Parameters
        ----------
        values : ndarray of shape ([chains, draws,] T [, L])
        name : str
        draws, state : bool
            Whether the first two axes are draws, and the last one states.
        """
        lead = self.draws_shape if draws else ()
        trail = (self.n_states,) if state else ()
        dims = [*(("chain", "draw") if draws else ()), *self._time_dims]
        coords = dict(self.coords) if draws else {}
        for dim, size in zip(self._time_dims, self.shape, strict=True):
            known = self._time_coords.get(dim)
            coords[dim] = (
                np.arange(size) if known is None or len(known) != size else pd.Index(known)
            )
        if len(self.shape) == 1 and self.lengths.size > 1:
            sequence = np.repeat(np.arange(self.lengths.size), self.lengths)
            coords["sequence"] = self._time_dims[0], sequence
        if state:
            dims.append(self._state_dim)
            coords[self._state_dim] = self._states
        return xr.DataArray(values.reshape(*lead, *self.shape, *trail), coords, dims, name)


def transitions_of(model, z, posterior):
    """``f(chain, draw)() -> (pi_init, Transitions)`` over the times of a model, by position.

    The second call reads the data that the model has then.
    """
    prior, _ = chosen_states(model, z.name)
    start = model.initial_point()
    read = TransitionReader(model, prior)
    to_point = point_builder(model, z, read.graphs, posterior, start)
    shape = start[model.rvs_to_values[z].name].shape
    which = prior.states.index(z)
    return lambda chain, draw: partial(read, to_point(chain, draw), shape, which)


def thinned(idata, thin):
    """Every thin-th draw of the posterior, for what reads it with its model.

    Raises
    ------
    ValueError
        If ``thin`` is not a positive integer, or the states have been renumbered without all that
        belongs to them.
    """
    if isinstance(thin, bool) or int(thin) != thin or thin < 1:
        raise ValueError(f"thin must be a positive integer, received {thin!r}")
    posterior = read_posterior(idata)
    _refuse_parted(idata)
    return posterior.isel(draw=slice(None, None, int(thin)))


def _refuse_parted(idata):
    """Raise if states are numbered otherwise than what the likelihood has for them."""
    if "alignment" not in idata:
        return
    posterior = read_posterior(idata)
    for name in hidden_variables(idata):
        hidden = find_hidden(idata, name)
        parted = left_behind(posterior, hidden)
        if parted and is_renumbered(idata, hidden):
            raise ValueError(
                f"the states {name!r} have been numbered anew by align, but not "
                f"{', '.join(parted)}, which the model indexes with them along an axis that is not "
                "declared as theirs: they no longer belong together. Declare what the states have "
                f"with dims={hidden.dim!r} and sample again; what does not align by itself "
                "(smooth, forecast, held_out_log_likelihood) can be given the result as pm.sample "
                "returned it"
            )


def chosen_states(model, states):
    """(prior, states variable) by name, which may be left out where there is only one.

    Raises
    ------
    ValueError
        If the model has no such states.
    """
    found = {z.name: (prior, z) for prior in find_transitions(model) for z in prior.states}
    if states is None and len(found) == 1:
        return next(iter(found.values()))
    if states not in found:
        raise ValueError(
            f"states must name one of the hidden states of the model, {sorted(found)}; "
            f"received {states!r}"
        )
    return found[states]


def _time(model, z):
    dims = model.named_vars_to_dims.get(z.name)
    dims = dims or tuple(f"{z.name}_dim_{i}" for i in range(z.type.ndim))
    return dims, {dim: model.coords.get(dim) for dim in dims}


def _has_other_data(model, z, idata):
    """Whether what is observed of states is not what the result was drawn from, where it says."""
    trained = group(idata, "observed_data") if "observed_data" in idata else {}
    return any(
        v.name in trained
        and not np.array_equal(
            evaluate([model.rvs_to_values[v]])[0], trained[v.name].values, equal_nan=True
        )
        for v, _ in terms_involving(model, z)
        if v in model.observed_RVs
    )


def _refuse_latent(model, z, missing):
    for variable, graph in terms_involving(model, z):
        others = {v for v in model.free_RVs if has_op(v, HiddenPathRV) and v is not z}
        values = {model.rvs_to_values[v] for v in others}
        if values & set(ancestors([graph])):
            raise ValueError(
                f"{variable.name!r} depends on the states {sorted(v.name for v in others)} besides "
                f"{z.name!r}; the likelihood with all of them summed out is not computed"
            )
        if variable in model.free_RVs and variable not in missing:
            raise ValueError(
                f"{variable.name!r} is latent and depends on the states {z.name!r}; its value for "
                "the held-out data is not in the posterior, so their likelihood has no closed form"
            )


def point_builder(model, z, graphs, posterior, start, missing=()):
    """``f(chain, draw) -> point`` with the value variables of graphs.

    ``missing`` observations, which the graphs are taken without, stay as they are at ``start``.
    """
    used = set(ancestors(graphs))
    behind = [rv for rv in model.free_RVs if rv is not z and model.rvs_to_values[rv] in used]
    needed = [rv for rv in behind if rv not in missing]
    summed_out = {model.rvs_to_values[rv].name for rv in behind if rv in missing}
    forward = {}
    for rv in needed:  # grows by what the bounds of a transform depend on
        if rv.name not in posterior:
            raise ValueError(
                f"{rv.name!r} is not in the posterior (it has {sorted(posterior)}); sample it, "
                "and give the test model the same names"
            )
        transform = model.rvs_to_transforms[rv]
        x = rv.type(name=rv.name)
        graph = x if transform is None else transform.forward(x, *rv.owner.inputs)
        forward[rv] = x, as_tensor(graph)
        bounds = set(ancestors([graph], blockers=model.free_RVs)) & set(model.free_RVs)
        needed += [v for v in bounds if v not in needed]
    natural = {rv: x for rv, (x, _) in forward.items()}
    graphs = clone_replace([graph for _, graph in forward.values()], natural)
    values = [model.rvs_to_values[rv] for rv in needed]
    convert = point_function(graphs, list(natural.values()))
    stored = [posterior[rv.name].values for rv in needed]
    for rv, value, array in zip(needed, values, stored, strict=True):
        expected = rv.type.shape
        if len(expected) != array.ndim - 2 or any(
            e is not None and e != n for e, n in zip(expected, array.shape[2:], strict=False)
        ):
            raise ValueError(
                f"{rv.name!r} has shape {array.shape[2:]} in the posterior and {expected} in the "
                "test model"
            )

    def to_point(chain, draw):
        out = convert(
            start,
            *(np.asarray(a[chain, draw], rv.dtype) for a, rv in zip(stored, needed, strict=True)),
        )
        new = {value.name: np.asarray(x) for value, x in zip(values, out, strict=True)}
        return {name: start[name] for name in summed_out} | new

    return to_point
