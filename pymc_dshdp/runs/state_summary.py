"""A running summary of the hidden states, for runs that do not store them."""

import numpy as np
import pymc as pm
import xarray as xr
from pymc.backends.base import MultiTrace
from pymc.backends.ndarray import NDArray

from pymc_dshdp._compat import group, make_result
from pymc_dshdp.distributions import HiddenPathRV
from pymc_dshdp.graph.path import path_lengths, storage_dtypes
from pymc_dshdp.graph.walks import has_op
from pymc_dshdp.kernels.occupancy import count_path
from pymc_dshdp.model.context import model_in_context
from pymc_dshdp.transitions import find_transitions
from pymc_dshdp.transitions.record import record_in

__all__ = ["StateSummary", "longest_chains"]

FIRST_CAPACITY = 16


class _ChainCounts:
    """Running counts of the paths of one chain, and its thinned draws."""

    def __init__(self, n_times, n_states, kept):
        self.draws = 0
        self.visits = np.zeros((n_times, n_states), np.uint32)
        self.switches = np.zeros(n_times, np.uint32)
        self.occupied = np.zeros(n_states, np.int64)
        self.occupancy = np.zeros(n_states)
        self.ranked = np.zeros(n_states)
        self.kept = kept

    def add(self, path, is_first):
        occupancy = count_path(path, is_first, self.visits, self.switches)
        self.occupied[np.count_nonzero(occupancy) - 1] += 1
        self.occupancy += occupancy
        self.ranked += np.sort(occupancy)[::-1]
        self.draws += 1

    def keep(self, point):
        if len(self.kept) == self.kept.draws:
            self.kept.setup(self.kept.draws, self.kept.chain)  # twice the room
        self.kept.record(point, in_warmup=False)


class StateSummary:
    r"""Summarise the hidden states while the chains run, so that they need not be stored.

    A callback for ``pm.sample``, which calls it in the parent process with the complete point of
    every draw, whatever ``var_names`` keeps. Draws made while tuning are left out::

        summary = dshdp.StateSummary(model=model, every=20)
        idata = pm.sample(var_names=["rate", "hmm_alpha"], callback=summary)
        states = summary.to_inferencedata()

    Memory per chain: 4 T (L + 1) bytes of counts, whatever the number of draws, and one complete
    draw (T bytes of z, 8 L^2 of pi_bar, the rest) for every ``every``-th.

    Parameters
    ----------
    model : pymc.Model, optional
        Default: that of the context.
    every : int
        Keep every k-th draw of all variables.
    states : str, optional
        The ``HiddenStates`` variable to summarise, where the model has several.

    Raises
    ------
    ValueError, TypeError
        If ``every`` is not a positive integer, or ``states`` is not a hidden-state variable of
        the model.

    Notes
    -----
    One summary belongs to one run: called by a second one it goes on counting, which is right
    only when that continues the first.

    Examples
    --------
    >>> counted = dshdp.StateSummary(model=model, every=20)
    >>> with model:
    ...     idata = pm.sample(var_names=["rate", "hmm_alpha"], callback=counted)
    >>> counted.to_inferencedata()["state_summary"]["switch_probability"].dims
    ('chain', 'year')
    """

    def __init__(
        self, *, model: pm.Model | None = None, every: int = 10, states: str | None = None
    ) -> None:
        model = model_in_context(model)
        if isinstance(every, bool) or not isinstance(every, (int, np.integer)) or every < 1:
            raise ValueError(f"every must be a positive integer, received {every!r}")
        found = {rv.name: rv for rv in model.free_RVs if has_op(rv, HiddenPathRV)}
        if states is None and len(found) == 1:
            [states] = found
        if states not in found:
            raise ValueError(
                f"states must name one of the hidden states of the model, {sorted(found)}; "
                f"received {states!r}"
            )
        self.model = model
        self.every = int(every)
        self.states = states
        z = found[states]
        [prior] = [prior for prior in find_transitions(model) if z in prior.states]
        start = model.initial_point()
        self._name = model.rvs_to_values[z].name
        self._shape = start[self._name].shape
        self._n_states = prior.n_states
        self._state_dim = record_in(model, z).dims[0]
        lengths = path_lengths(model, z, start)
        self._is_first = np.zeros(lengths.sum(), bool)
        self._is_first[np.cumsum(lengths) - lengths] = True
        variables = model.replace_rvs_by_values(model.unobserved_RVs)
        self._template = NDArray(model=model, vars=variables, test_point=start)
        self._template.var_dtypes |= storage_dtypes(model)
        self._chains: dict = {}

    def __repr__(self):
        seen = ", ".join(f"{c}: {chain.draws:,}" for c, chain in sorted(self._chains.items()))
        return (
            f"StateSummary of {self.states!r}, {self._is_first.size:,} times in {self._n_states} "
            f"states; draws by chain {{{seen}}}, every {self.every} kept"
        )

    def __call__(self, trace, draw):
        """Take in one draw; ``pm.sample`` calls this."""
        if draw.tuning:
            return
        if draw.chain not in self._chains:
            self._chains[draw.chain] = self._new_chain(draw)
        chain = self._chains[draw.chain]
        chain.add(np.ravel(draw.point[self._name]), self._is_first)
        if chain.draws % self.every == 0:
            chain.keep(draw.point)

    def _new_chain(self, draw):
        if self._name not in draw.point or draw.point[self._name].shape != self._shape:
            raise ValueError(
                f"the draws have no {self.states!r} of shape {self._shape}: StateSummary was made "
                "for another model; make it with the model that is sampled"
            )
        form = self._template
        kept = NDArray(
            model=self.model,
            vars=form.vars,
            fn=form.fn,
            var_shapes=form.var_shapes,
            var_dtypes=form.var_dtypes,
        )
        kept.setup(FIRST_CAPACITY, draw.chain)
        return _ChainCounts(self._is_first.size, self._n_states, kept)

    def to_inferencedata(self):
        """Summary and kept draws as a result of their own.

        The kept draws are a posterior, thinned: ``held_out_log_likelihood``, ``label_invariant``,
        ``align_to`` and ArviZ read the result as they read that of ``pm.sample``.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            ``posterior``: every k-th draw of all variables, with ``draw`` its number in the run.
            ``constant_data`` and ``observed_data``, as in the result of ``pm.sample``.
            ``state_summary``, over all draws, per chain:

            * ``switch_probability`` (chain, time), share of draws with z_t != z_{t-1}, NaN at
              the first time of a sequence; one minus it is the probability that neighbouring
              times are in one state;
            * ``n_occupied_probability`` (chain, n_occupied), share of draws with that number of
              occupied states;
            * ``ranked_occupancy`` (chain, rank), mean share of time spent in the most visited
              state of the draw, in the second, and so on;
            * ``state_probability`` (chain, time, state) and ``occupancy`` (chain, state), shares
              of draws with z_t = k and mean share of time in k;
            * ``n_draws`` (chain).

            The first three do not depend on how states are numbered. The state probabilities do:
            they average over whatever k meant in each draw, so they mean what they say only
            within one chain and only where it did not exchange the labels.

        Raises
        ------
        ValueError
            If no draw, or none to keep, has been seen yet.
        """
        chains = longest_chains({c: len(chain.kept) for c, chain in self._chains.items()})
        if not chains:
            seen = max((chain.draws for chain in self._chains.values()), default=0)
            raise ValueError(
                f"StateSummary has seen {seen} draws after tuning, and keeps every {self.every}; "
                "pass it to pm.sample(callback=...), and use a smaller every if there were draws"
            )
        length = min(len(self._chains[c].kept) for c in chains)
        kept = MultiTrace([self._chains[c].kept[:length] for c in chains])
        result = pm.to_inference_data(kept, model=self.model, log_likelihood=False)
        names = ("posterior", "constant_data", "observed_data")
        groups = {name: group(result, name) for name in names if name in result}
        draws = self.every * np.arange(1, length + 1) - 1
        groups["posterior"] = groups["posterior"].assign_coords(draw=draws)
        groups["state_summary"] = self._summary(chains, groups["posterior"])
        return make_result(groups)

    def _summary(self, chains, posterior):
        def stacked(read):
            return np.stack([read(self._chains[c]) for c in chains])

        z = posterior[self.states]
        times = z.dims[2:]
        n_times = self._is_first.size
        switches = stacked(lambda c: np.where(self._is_first, np.nan, c.switches / c.draws))
        visits = stacked(lambda c: c.visits / c.draws)
        shape = (len(chains), *self._shape)
        number = np.arange(1, self._n_states + 1)
        coords = {dim: posterior[dim] for dim in ("chain", *times, self._state_dim)}
        return xr.Dataset(
            {
                "switch_probability": (("chain", *times), switches.reshape(shape)),
                "n_occupied_probability": (
                    ("chain", "n_occupied"),
                    stacked(lambda c: c.occupied / c.draws),
                ),
                "ranked_occupancy": (
                    ("chain", "rank"),
                    stacked(lambda c: c.ranked / (c.draws * n_times)),
                ),
                "state_probability": (
                    ("chain", *times, self._state_dim),
                    visits.reshape(*shape, self._n_states),
                ),
                "occupancy": (
                    ("chain", self._state_dim),
                    stacked(lambda c: c.occupancy / (c.draws * n_times)),
                ),
                "n_draws": (("chain",), stacked(lambda c: c.draws)),
            },
            {**coords, "n_occupied": number, "rank": number},
        )


def longest_chains(lengths):
    """Choose the chains whose common part has the most draws, as ``pm.sample`` does.

    Parameters
    ----------
    lengths : dict
        Number of draws by chain.

    Returns
    -------
    list
        Chains in their order, none that is empty.
    """
    by_length = sorted((c for c in lengths if lengths[c]), key=lambda c: -lengths[c])
    if not by_length:
        return []
    totals = [(i + 1) * lengths[c] for i, c in enumerate(by_length)]
    return sorted(by_length[: int(np.argmax(totals)) + 1])
