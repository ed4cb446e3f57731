"""The direct assignment sampler: states one time point at a time, the rows integrated out."""

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Literal

import numpy as np
import pymc as pm
from pymc.stats.convergence import SamplerWarning
from pymc.step_methods.compound import Competence
from pymc.step_methods.state import dataclass_state

from pymc_dshdp.kernels import direct_assignment as kernels
from pymc_dshdp.kernels.counts import empty_counts
from pymc_dshdp.steps._common import rehearse
from pymc_dshdp.steps.collapsed import KeptEmission, find_collapsed
from pymc_dshdp.steps.impossible import raise_impossible
from pymc_dshdp.steps.prior_sampler import PriorSampler
from pymc_dshdp.steps.states import StatesStep, StatesStepState
from pymc_dshdp.transitions.found import outside_dependents
from pymc_dshdp.typing import Point, RandomSource, Tensor

__all__ = ["DSBlockGibbs"]


class _DirectSampler(PriorSampler):
    """The states, the transition block and the collapsed parameters of one prior."""

    keeps_parameters = False

    def __init__(self, model, prior, step, start, missing, collapse):
        if prior.varies:
            raise ValueError(
                f"{step}: the self-persistence kappa of {prior.label!r} varies with time; "
                "use WeakLimitFFBS"
            )
        if not prior.collapses:
            raise ValueError(
                f"{step}: the transition matrices of {prior.label!r} are given as they are, and do "
                "not integrate out; use WeakLimitFFBS"
            )
        super().__init__(model, prior, step, start, missing)
        self._free = [
            np.arange(lengths.sum()) if known is None else np.flatnonzero(known < 0)
            for known, lengths in zip(self.paths.known, self.paths.lengths, strict=True)
        ]
        self.emissions = []
        for z, table in zip(prior.states, self.tables, strict=True):
            found = find_collapsed(model, z) if collapse == "auto" else None
            self.emissions.append(KeptEmission(table) if found is None else found)
        self.vars += [v for emission in self.emissions for v in emission.values]
        self._numbered = any(known is not None for known in self.paths.known + self.paths.observed)
        alike = prior.phi is not None or prior.sticky is not None
        moves = alike and prior.kappa in model.free_RVs
        if moves and any(outside_dependents(model, prior, [prior.kappa])):
            moves = False
        self._kappa = model.rvs_to_values[prior.kappa] if moves else None

    def _paths(self, point):
        return [np.ravel(point[value.name]).astype(np.int64) for value in self.paths.values]

    def sweep(self, point, rng):
        """Draw the states, then the transition block with their w, then collapsed parameters.

        Returns
        -------
        point : dict
        n_occupied : int
        changes : ndarray of shape (3,)
            Moves, births and deaths.
        """
        self.paths.check(point)
        logit, pi_bar = self.transition.persistence_and_rows(point)
        base = self.transition.row_concentrations(point)
        L = self.n_states
        switches, visits = empty_counts(L, len(logit) // L), np.zeros(L, np.int64)
        groups = self.paths.groups
        persists = [
            kernels.draw_persistences(
                rng, np.ravel(path), lengths, index, logit, pi_bar, switches, visits
            )
            for (path, lengths), index in zip(self.paths.paths(point), groups, strict=True)
        ]
        changes = np.zeros(3, np.int64)
        by_group = logit.reshape(-1, L)
        alike = self._kappa is not None or np.all(by_group == by_group[:, :1])
        for i, (value, path) in enumerate(zip(self.paths.values, self._paths(point), strict=True)):
            statistics, grouped = self.emissions[i].statistics(point, path)
            alike &= grouped
            draw = kernels.sweep_states(
                rng,
                path,
                persists[i],
                self.paths.lengths[i],
                groups[i],
                switches,
                visits,
                logit,
                base,
                statistics,
                grouped and self.transition.rows_alike,
                self._free[i],
            )
            if draw.impossible_time >= 0:
                table = self.tables[i]
                raise_impossible(value.name, table, table.rows(point), draw.impossible_time)
            switches, visits = draw.switches, draw.visits
            changes += draw.moved, draw.births, draw.deaths
            states = draw.states.astype(value.dtype).reshape(point[value.name].shape)
            point = {**point, value.name: states}  # the next path may share its likelihood
        rows = np.arange(len(logit))
        persistences = (self.paths.counts(point) - switches)[1 + rows, rows % L]
        if alike and self.transition.ordered and not self._numbered:
            point, switches, persistences = self._renumber(point, switches, persistences, rng)
        new = self.transition(point, switches, persistences, rng)
        return self.redraw({**point, **new}, rng), np.count_nonzero(visits), changes

    def _renumber(self, point, switches, persistences, rng):
        """Draw the numbering of the states along the sticks; all that is theirs goes along."""
        order, new = self.transition.renumber(point, switches, rng)
        number = np.argsort(order)
        for value in self.paths.values:
            new[value.name] = number[point[value.name]].astype(value.dtype)
        if self._kappa is not None:
            new[self._kappa.name] = point[self._kappa.name][..., order]
        rows = np.arange(len(persistences)).reshape(-1, self.n_states)[:, order].ravel()
        switches = switches[np.ix_(np.append(0, 1 + rows), order)]
        return {**point, **new}, switches, persistences[rows]

    def redraw(self, point, rng):
        """Draw the collapsed parameters given the states."""
        for emission in self.emissions:
            point = {**point, **emission.draw(point, rng)}
        return point


@dataclass_state
class DSBlockGibbsState(StatesStepState):
    """Sampling state of ``DSBlockGibbs``."""

    collapse: str | bool = field(metadata={"frozen": True})


class DSBlockGibbs(StatesStep):
    r"""Draw the hidden states one at a time with the transition rows integrated out.

    The direct assignment sampler of Zhou, Gao & Paninski (2020), Algorithm 1, for the prior as
    declared, with its L states. Each iteration draws, exactly and in this order:

    1. :math:`w_t \mid z, \kappa, \bar\pi` for every time point: whether :math:`z_t` is a copy of
       :math:`z_{t-1}` or a draw from its row;
    2. :math:`(z_t, w_t, w_{t+1})` jointly, for t = 1, ..., T, given everything else, with
       :math:`\bar\pi` and :math:`\pi_\mathrm{init}` integrated out (see
       ``kernels.case_table`` for the cases);
    3. with ``weights="stick-breaking"``, where all parameters of the emission are integrated out
       and alike in all states: the numbering of the states along the sticks, which the sweep
       itself would hardly ever change (see ``kernels.labels``); kappa moves with its state;
    4. with these :math:`w`, the transition block in the order of ``WeakLimitFFBS``:
       :math:`\alpha`, the table counts, :math:`\gamma`, :math:`\beta` and last the rows
       :math:`\bar\pi_j \sim \mathrm{Dir}(\alpha\beta + n_j)` and :math:`\pi_\mathrm{init}`;
    5. splits and merges of states, under the conditions of ``WeakLimitFFBS``.

    Unlike ``WeakLimitFFBS`` it moves one state at a time, which is cheap (linear in the number
    of states) and mixes more slowly along the path. ``pm.sample()`` never chooses it: pass
    ``step=[DSBlockGibbs([z]), GridRhoStep([z])]``.

    Parameters
    ----------
    vars : list
        All the ``HiddenStates`` variables of one or more priors. The step also owns gamma,
        alpha, beta (or v), pi_bar and pi_init of these priors.
    collapse : "auto" or False
        "auto" (default): integrate emission parameters out of the sweep where the likelihood is
        of a conjugate family, and redraw them after it; the step then owns them. False: keep
        all emission parameters as they are during the sweep.
    split_merge, pilots : bool
        As for ``WeakLimitFFBS``.
    model : pymc.Model, optional
    rng : optional

    Raises
    ------
    ValueError, pymc.exceptions.SamplingError
        As ``WeakLimitFFBS``.

    Notes
    -----
    Sampler statistics: ``n_occupied``, the number of states visited (over all priors of the
    step); of the last sweep, ``moved``, the time points whose state changed, ``births``, those
    that went to a state that nothing else was in, and ``deaths``, those that left a state empty;
    and ``log_joint``, ``proposals``, ``splits``, ``merges`` and ``resplits`` as of
    ``WeakLimitFFBS``.

    Starting path and the ``warning`` statistic are those of ``WeakLimitFFBS``, with collapsed
    parameters among those drawn exactly. When all L states are occupied the sweep
    goes on, exact for the prior with L states.

    While tuning, paths are drawn whole as by ``WeakLimitFFBS``, which leaves the same posterior
    invariant, and ``moved``, ``births`` and ``deaths`` are 0. States of the starting path that
    are one and the same merge within hundreds of such draws; moving one time point at a time can
    take more than ten thousand sweeps. Tune for 1,000 iterations or more.

    Examples
    --------
    >>> with model:
    ...     idata = pm.sample(step=[dshdp.DSBlockGibbs([model["z"]])])
    """

    name = "ds_block_gibbs"
    stats_dtypes_shapes: dict = {
        "n_occupied": (np.int64, []),
        "moved": (np.int64, []),
        "births": (np.int64, []),
        "deaths": (np.int64, []),
        "splits": (np.int64, []),
        "merges": (np.int64, []),
        "resplits": (np.int64, []),
        "proposals": (np.int64, []),
        "log_joint": (np.float64, []),
        "piloted": (np.bool_, []),
        "warning": (SamplerWarning, None),
    }
    _state_class = DSBlockGibbsState

    def __init__(
        self,
        vars: Sequence[Tensor],
        *,
        collapse: Literal["auto", False] = "auto",
        split_merge: bool = True,
        pilots: bool = True,
        model: pm.Model | None = None,
        rng: RandomSource = None,
        initial_point: Point | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        if not (isinstance(collapse, str) and collapse == "auto") and collapse is not False:
            raise ValueError(f'collapse must be "auto" or False, received {collapse!r}')
        self.collapse = collapse
        start = self._prepare(
            vars, model, rng, initial_point, blocked, _DirectSampler, collapse=collapse
        )
        self._prepare_moves(start, split_merge, pilots)
        rehearse(DSBlockGibbs.step, self, start, hold=0)
        rehearse(DSBlockGibbs.step, self, start, tune=False)

    def step(self, point):
        """Draw the states and the transition block of each prior; see the class."""
        hold = self._holds
        occupied, changes, full = 0, np.zeros(3, np.int64), False
        if hold and self.held == 0:
            point = self._start(point)
        point = self._improve_if_due(point)
        for prior in self._priors:
            if self.tune:
                if not hold:
                    point, _ = prior.draw_states(point, self.rng)
                point, n_occupied = prior.draw_transitions(point, self.rng)
                point = prior.redraw(point, self.rng)
            else:
                point, n_occupied, changed = prior.sweep(point, self.rng)
                changes += changed
            occupied += n_occupied
            full |= prior.truncated and n_occupied == prior.n_states
        point = self._missing.draw(point, self.rng)
        point, moves = self._move(point, hold)
        self.held += hold
        stats = dict(zip(("moved", "births", "deaths"), changes.tolist(), strict=True))
        stats |= {**moves, "n_occupied": occupied + moves["splits"] - moves["merges"]}
        stats["piloted"] = self.piloted
        return point, [{**stats, "warning": self._truncation_warning(full)}]

    @staticmethod
    def competence(var, has_grad):
        """Never chosen automatically."""
        return Competence.INCOMPATIBLE
